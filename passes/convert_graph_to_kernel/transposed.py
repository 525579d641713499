"""Transposed convolution and the sum of columns: one structured op per phase of the strides, with affine reads.

Positions `o = stride * j + r` of a result, with `r` fixed, are reached by every so many taps only, and at the taps that
remain the element that is read is affine in `j` and the tap. So each `r` (a phase; one for each combination over the
axes) is a convolution of stride 1 with a part of the kernel, written into every `stride`-th position of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mlopt.dialects import graph, kernel
from mlopt.dialects.graph import Window
from mlopt.dialects.graph.base import shape_of
from mlopt.dialects.kernel import LinearExpr
from mlopt.passes.convert_graph_to_kernel.contraction import epilogue, finish_reshaped
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Operand, Space
from mlopt.passes.convert_graph_to_kernel.reduction import add
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, accumulator
from mlopt.passes.convert_graph_to_kernel.windows import padded_read, spatial_names


@dataclass(frozen=True, slots=True)
class Phase:
    """The positions `stride * j + first` of one axis, for `j < count`.

    Of them tap `tap + tap_step * t`, for `t < taps`, reads the element at `j + start - step * t`.
    """

    first: int
    stride: int
    count: int
    tap: int
    tap_step: int
    taps: int
    start: int
    step: int


def phases(window: Window, axis: int, size: int) -> list[Phase]:
    """The phases of an axis of `size` positions; those that no tap reaches are left out."""
    stride, dilation = window.strides[axis], window.dilations[axis]
    divisor = gcd(stride, dilation)
    tap_step = stride // divisor
    found: list[Phase] = []
    for first in range(min(stride, size)):
        at = first + window.low[axis]
        taps = [k for k in range(window.kernel[axis]) if (at - dilation * k) % stride == 0]
        if taps:
            start = (at - dilation * taps[0]) // stride
            count = -(-(size - first) // stride)
            found.append(
                Phase(first, stride, count, taps[0], tap_step, len(taps), start, dilation // divisor)
            )
    return found


class Spatial:
    """One phase for each spatial axis: the dimensions of its iteration space, and what is indexed by them."""

    def __init__(self, chosen: Sequence[Phase]):
        self._phases = chosen
        self._out, self._taps = _names("o", len(chosen)), _names("k", len(chosen))

    @property
    def output(self) -> dict[str, int]:
        """The positions of the phase."""
        return {name: phase.count for name, phase in zip(self._out, self._phases, strict=True)}

    @property
    def kernel(self) -> dict[str, int]:
        """The taps that reach them."""
        return {name: phase.taps for name, phase in zip(self._taps, self._phases, strict=True)}

    def written(self, space: Space) -> list[LinearExpr]:
        """Where the positions lie in the destination."""
        return [space[o] * p.stride + p.first for o, p in zip(self._out, self._phases, strict=True)]

    def read(self, space: Space) -> list[LinearExpr]:
        """Which elements they read at the taps."""
        each = zip(self._out, self._taps, self._phases, strict=True)
        return [space[o] + space[k] * -p.step + p.start for o, k, p in each]

    def taps(self, space: Space) -> list[LinearExpr]:
        """Which taps these are in the whole kernel."""
        return [space[k] * p.tap_step + p.tap for k, p in zip(self._taps, self._phases, strict=True)]


def _names(prefix: str, rank: int) -> list[str]:
    """Names of spatial dimensions, numbered where there are more than three."""
    return spatial_names(prefix, rank) if rank <= 3 else [f"{prefix}{axis}" for axis in range(rank)]


def _combinations(window: Window, sizes: Sequence[int]) -> Iterator[Spatial]:
    """Every combination of phases over the axes of a result of these sizes."""
    for chosen in product(*(phases(window, axis, size) for axis, size in enumerate(sizes))):
        yield Spatial(chosen)


@converts(graph.ConvTransposeOp)
def _conv_transpose(op: graph.ConvTransposeOp, conversion: Conversion) -> None:
    """Channels are split into groups as in a convolution."""
    batch, features, *sizes = shape_of(op.result)
    channels, group_features, *_ = shape_of(op.weight)
    group_channels = channels // op.groups
    is_depthwise = group_channels == group_features == 1
    is_split = op.groups > 1 and not is_depthwise
    outer = {"n": batch, "g": op.groups, "oc": group_features} if is_split else {"n": batch, "oc": features}
    element = element_of(op.result)
    work = accumulator(element)
    shape = (*outer.values(), *sizes)
    launch = conversion.launch(op, [TensorType(element, shape)])
    input, weight = launch.use(op.input, "input"), launch.use(op.weight, "weight")
    total = launch.filled(0, launch.out if work == element else launch.empty(shape, work))
    for spatial in _combinations(op.window, sizes):
        inner = {} if is_depthwise else {"ic": group_channels}
        space = Space({**outer, **spatial.output, **inner, **spatial.kernel})
        if is_depthwise:
            channel, feature = space["oc"], 0
        else:
            channel, feature = space["ic"], space["oc"]
        if is_split:
            channel = space["g"] * group_channels + channel
        x = padded_read(space, input, ["n", channel, *spatial.read(space)], 0)
        w = Operand(weight, space.access(channel, feature, *spatial.taps(space)))
        total = launch.contract(space, w, x, Operand(total, space.access(*outer, *spatial.written(space))))
    whole = Space({**outer, **dict(zip(_names("o", len(sizes)), sizes, strict=True))})
    bias = None
    if op.bias is not None:
        feature = whole["g"] * group_features + whole["oc"] if is_split else whole["oc"]
        bias = Operand(launch.use(op.bias, "bias"), whole.access(feature))
    finish_reshaped(op, conversion, launch, epilogue(launch, whole, total, bias, activation=op.activation))


@converts(graph.Col2ImOp)
def _col2im(op: graph.Col2ImOp, conversion: Conversion) -> None:
    """The rows and columns of the operand are split by a reshape, so that taps and positions are axes of their own."""
    batch, channels, *image = shape_of(op.result)
    window, element = op.window, element_of(op.result)
    work = accumulator(element)
    columns = kernel.ReshapeOp(conversion.value(op.input), (batch, channels, *window.kernel, *op.positions))
    conversion.insert(op, columns)
    launch = conversion.launch(op, [TensorType(element, (batch, channels, *image))])
    total = launch.filled(0, launch.out if work == element else launch.empty(shape_of(op.result), work))
    source = launch.use(columns.result, "columns")

    def body(s: Scalars, value: SSAValue, so_far: SSAValue) -> SSAValue:
        return add(s, so_far, s.widen(value))

    for spatial in _combinations(window, image):
        space = Space({"n": batch, "c": channels, **spatial.output, **spatial.kernel})
        read = padded_read(space, source, ["n", "c", *spatial.taps(space), *spatial.read(space)], 0)
        total = launch.reduce(
            space, [read], Operand(total, space.access("n", "c", *spatial.written(space))), body
        )
    whole = Space.over(shape_of(op.result))
    conversion.finish(op, launch, epilogue(launch, whole, total))
