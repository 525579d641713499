"""The cost models of `assign-layouts`: operations with their channels first and last, and conversions.

The table of the numpy engine was measured by `benchmarks/layouts.py`: each row is about the median over its
operations, rounded in favour of channels first where they disagree. Why it is as it is: numpy's loops run along the
innermost dimension, so that what is narrow in space and has many channels (late layers, strided windows) gains from
channels last, and what is wide and has few loses. A product of matrices (1 by 1) has no preference but for the bias and
the activation behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Literal, NamedTuple, TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_int, shape_of, tensor_type

ModelName: TypeAlias = Literal["numpy", "channels-last"]


class Rate(NamedTuple):
    """Nanoseconds for each unit of work of operations whose size is at most `up_to`."""

    up_to: int | None
    first: float
    last: float


class CostModel(NamedTuple):
    """Rates by kind of operation, in rising order of `up_to`; those of no kind in the table are not to be converted.

    `elements` are the element types that it holds for, None for all.

    A conversion takes `call` nanoseconds, and `to_last` or `to_first` for each element.
    """

    rates: Mapping[str, tuple[Rate, ...]]
    call: float
    to_last: float
    to_first: float
    elements: frozenset[Attribute] | None = None

    def of(self, op: Operation) -> tuple[int, int]:
        """Nanoseconds with channels first, and last."""
        kind, work, size = _work(op)
        rate = next(rate for rate in self.rates[kind] if rate.up_to is None or size <= rate.up_to)
        return round(work * rate.first), round(work * rate.last)

    def of_conversion(self, value: SSAValue, *, to_last: bool) -> int:
        """Nanoseconds."""
        return round(self.call + prod(shape_of(value)) * (self.to_last if to_last else self.to_first))

    def knows(self, op: Operation) -> bool:
        """Are there rates for the operation?"""
        element = tensor_type(op.operands[0].type).element_type if op.operands else None
        return (self.elements is None or element in self.elements) and kind_of(op) in self.rates


_NUMPY = CostModel(
    # Windows: work in products or elements covered; the size is the width of the result, of dense ones the channels
    # of the input. Others: work in elements of the result; the size is the number of channels.
    {
        "pointwise convolution": (Rate(None, 0.030, 0.031),),
        "dense convolution": (Rate(15, 0.10, 0.125), Rate(None, 0.050, 0.043)),
        # Within a network, where scratch is free below the peak: with all of it that they want.
        "depthwise convolution": (
            *(Rate(14, 0.42, 0.30), Rate(28, 0.42, 0.34), Rate(48, 0.43, 0.43), Rate(None, 0.45, 0.55)),
        ),
        "grouped convolution": (Rate(None, 0.35, 0.50),),
        "max pool": (Rate(14, 1.0, 0.75), Rate(None, 1.0, 1.5)),
        "average pool": (Rate(14, 1.5, 0.8), Rate(None, 1.1, 0.85)),
        "resize": (Rate(None, 0.72, 0.55),),
        "elementwise": (Rate(None, 0.0, 0.0),),
        "elementwise per channel": (Rate(None, 0.25, 0.25),),
        "reduction": (Rate(None, 0.40, 0.60),),
        "softmax": (Rate(128, 1.6, 3.6), Rate(None, 2.4, 3.1)),
        "movement": (Rate(None, 0.45, 0.60),),
        "reshape": (Rate(None, 0.0, 0.0),),
    },
    call=8_000,
    to_last=0.9,
    to_first=1.4,
    elements=frozenset((f32,)),
)

_CHANNELS_LAST = CostModel(
    {
        kind: (Rate(None, 0.0, 0.0),)
        if kind in ("elementwise", "elementwise per channel", "reduction", "softmax", "movement", "reshape")
        else (Rate(None, 2.0, 1.0),)
        for kind in _NUMPY.rates
    },
    call=0,
    to_last=1.0,
    to_first=1.0,
)

MODELS: Mapping[ModelName, CostModel] = {"numpy": _NUMPY, "channels-last": _CHANNELS_LAST}
"""`numpy`: the engine, measured. `channels-last`: hardware whose windows take twice as long on channels-first images,
with conversions at the price of one product an element, and all else free: a model to test with."""


def kind_of(op: Operation) -> str:
    """The kind of an operation on channels-first images: a row of the table, or "" if there is none for it."""
    return _work(op)[0]


_ELEMENTWISE = (
    *(graph.UnaryOp, graph.PredicateOp, graph.BinaryOp, graph.WhereOp, graph.CastOp, graph.ClipOp),
    *(graph.QuantizeOp, graph.DequantizeOp),
)
_MOVEMENTS = (graph.ConcatOp, graph.SplitOp, graph.SliceOp, graph.PadOp, graph.ExpandOp)


def _work(op: Operation) -> tuple[str, int, int]:
    """The kind of an operation on channels-first images, its work and its size; the kind is "" for others."""
    result = shape_of(op.results[0])
    elements = prod(result)
    channels = result[1] if len(result) > 1 else 1
    match op:
        case graph.ConvOp():
            return _convolution(op)
        case graph.MaxPoolOp():
            return "max pool", elements * prod(op.window.kernel), op.positions[-1]
        case graph.AveragePoolOp():
            return "average pool", elements * prod(op.window.kernel), op.positions[-1]
        case graph.ResizeOp():
            return "resize", elements, channels
        case graph.SoftmaxBase():
            return "softmax", elements, channels
        case graph.ReductionOp():
            return "reduction", prod(shape_of(op.operands[0])), channels
        case graph.ReshapeOp():
            return "reshape", 0, 0
        case _ if isinstance(op, _MOVEMENTS):
            return "movement", sum(prod(shape_of(value)) for value in op.results), channels
        case _ if isinstance(op, _ELEMENTWISE):
            varies = any(1 < prod(shape_of(operand)) < elements for operand in op.operands)
            return "elementwise per channel" if varies else "elementwise", elements, channels
        case _:
            return "", 0, 0


def _convolution(op: graph.ConvOp) -> tuple[str, int, int]:
    result, weight = shape_of(op.result), shape_of(op.weight)
    groups, work = get_int(op.properties, "group", 1), prod(result) * prod(weight[1:])
    is_pointwise = prod(weight[2:]) == prod(op.window.strides) == 1
    if groups > 1 and not is_pointwise:
        is_depthwise = weight[1] == 1 and weight[0] == groups
        return ("depthwise" if is_depthwise else "grouped") + " convolution", work, result[-1]
    return ("pointwise" if is_pointwise else "dense") + " convolution", work, weight[1]
