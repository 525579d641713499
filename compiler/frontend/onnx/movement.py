"""Import of operators that only move elements: Reshape and its like, Transpose, Concat, Slice, Split, Pad."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np
from xdsl.ir import SSAValue

from mlopt.diagnostics import MloptError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_scale_float, normalize_axes, normalize_axis, shape_text
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.scalars import number_attribute
from mlopt.ir.dense import is_complex
from mlopt.ir.dtypes import to_numpy_dtype


@importer("Identity", since=1)
def identity(node: Node) -> SSAValue:
    """The operand itself."""
    return node.operand(0)


@importer("Reshape", since=1)
def reshape_to_attribute(node: Node) -> SSAValue:
    """Before version 5 the shape is an attribute."""
    return _reshape(node, node.integers("shape") or [])


@importer("Reshape", since=5)
def reshape(node: Node) -> SSAValue:
    """The shape is an input."""
    return _reshape(node, node.known_ints(1, "shape"))


def _reshape(node: Node, wanted: Sequence[int]) -> SSAValue:
    """To a shape where 0 keeps the operand's extent (unless `allowzero`) and one -1 takes what is left."""
    shape = node.shape_of(0)
    keeps = node.integer("allowzero", 0) == 0
    if keeps and any(extent == 0 and axis >= len(shape) for axis, extent in enumerate(wanted)):
        raise node.error(f"expected zeros only where the operand has axes, found shape {shape_text(wanted)}")
    result = [shape[axis] if extent == 0 and keeps else extent for axis, extent in enumerate(wanted)]
    if any(extent < -1 for extent in result) or result.count(-1) > 1:
        raise node.error(f"expected a shape with at most one -1, found {shape_text(wanted)}")
    if -1 in result:
        rest = prod(extent for extent in result if extent != -1)
        if rest == 0 or prod(shape) % rest:
            why = "" if rest or prod(shape) else ": beside a size of 0, -1 could be any size"
            raise node.error(f"can't reshape {shape_text(shape)} to {shape_text(wanted)}{why}")
        result[result.index(-1)] = prod(shape) // rest
    return node.add(graph.ReshapeOp(node.operand(0), result)).result


@importer("Flatten", since=1)
def flatten(node: Node) -> SSAValue:
    """To a matrix, cut at `axis`, which may be the rank itself."""
    shape = node.shape_of(0)
    axis = node.integer("axis", 1)
    axis = axis if axis == len(shape) else normalize_axis(axis, len(shape))
    return node.add(graph.ReshapeOp(node.operand(0), (prod(shape[:axis]), prod(shape[axis:])))).result


@importer("Squeeze", since=1)
def squeeze_by_attribute(node: Node) -> SSAValue:
    """Before version 13 the axes are an attribute."""
    return _squeeze(node, node.integers("axes"))


@importer("Squeeze", since=13)
def squeeze(node: Node) -> SSAValue:
    """The axes are an input that may be left out."""
    return _squeeze(node, node.optional_ints(1, "axes"))


def _squeeze(node: Node, axes: Sequence[int] | None) -> SSAValue:
    """Without the given axes of size 1, or without all of them."""
    shape = node.shape_of(0)
    if axes is None:
        gone = tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    else:
        gone = normalize_axes(axes, len(shape))
        if any(shape[axis] != 1 for axis in gone):
            raise node.error(f"expected size 1 on axes {shape_text(gone)}, found {node.type_of(0)}")
    rest = [extent for axis, extent in enumerate(shape) if axis not in gone]
    return node.add(graph.ReshapeOp(node.operand(0), rest)).result


@importer("Unsqueeze", since=1)
def unsqueeze_by_attribute(node: Node) -> SSAValue:
    """Before version 13 the axes are an attribute."""
    axes = node.integers("axes")
    if axes is None:
        raise node.error('expected an attribute "axes", found none')
    return _unsqueeze(node, axes)


@importer("Unsqueeze", since=13)
def unsqueeze(node: Node) -> SSAValue:
    """The axes are an input."""
    return _unsqueeze(node, node.known_ints(1, "axes"))


def _unsqueeze(node: Node, axes: Sequence[int]) -> SSAValue:
    """With axes of size 1 at those positions of the result."""
    extents = iter(node.shape_of(0))
    rank = node.rank_of(0) + len(axes)
    new = normalize_axes(axes, rank)
    result = [1 if axis in new else next(extents) for axis in range(rank)]
    return node.add(graph.ReshapeOp(node.operand(0), result)).result


@importer("Transpose", since=1)
def transpose(node: Node) -> SSAValue:
    """By `perm`, or with the axes reversed."""
    return node.add(graph.TransposeOp(node.operand(0), node.integers("perm"))).result


@importer("Concat", since=1)
def concat(node: Node) -> SSAValue:
    """Along `axis`, which has a default before version 4 only."""
    axis = node.integer("axis", 1 if node.opset < 4 else None)
    return node.add(graph.ConcatOp(node.operands(), axis)).result


@importer("Slice", since=1)
def slice_by_attributes(node: Node) -> SSAValue:
    """Before version 10 all numbers are attributes, and there are no steps."""
    starts, ends = node.integers("starts"), node.integers("ends")
    if starts is None or ends is None:
        raise node.error('expected attributes "starts" and "ends"')
    return node.add(graph.SliceOp.over_axes(node.operand(0), starts, ends, node.integers("axes"))).result


@importer("Slice", since=10)
def slice(node: Node) -> SSAValue:
    """Starts, ends, and perhaps axes and steps, are inputs."""
    numbers = (
        node.known_ints(1, "starts"),
        node.known_ints(2, "ends"),
        node.optional_ints(3, "axes"),
        node.optional_ints(4, "steps"),
    )
    return node.add(graph.SliceOp.over_axes(node.operand(0), *numbers)).result


@importer("Split", since=2, outputs=None)
def split_by_attribute(node: Node) -> Sequence[SSAValue]:
    """Before version 13 the sizes are an attribute; without them all parts are equal."""
    sizes = node.integers("split")
    return _split(node, sizes if sizes is not None else _equal_sizes(node, len(node.proto.output)))


@importer("Split", since=13, outputs=None)
def split(node: Node) -> Sequence[SSAValue]:
    """The sizes are an input; without them all parts are equal."""
    sizes = node.optional_ints(1, "sizes")
    return _split(node, sizes if sizes is not None else _equal_sizes(node, len(node.proto.output)))


@importer("Split", since=18, outputs=None)
def split_in_parts(node: Node) -> Sequence[SSAValue]:
    """The sizes are an input, or there are `num_outputs` parts, the last of which may be smaller."""
    sizes = node.optional_ints(1, "sizes")
    if sizes is None:
        count = node.integer("num_outputs", len(node.proto.output))
        whole = _split_extent(node)
        if count < 1:
            raise node.error(f"expected num_outputs of at least 1, found {count}")
        size = -(-whole // count)
        sizes = [max(0, min(size, whole - index * size)) for index in range(count)]
    return _split(node, sizes)


def _split(node: Node, sizes: Sequence[int]) -> Sequence[SSAValue]:
    if len(sizes) < len(node.proto.output):
        raise node.error(f"expected {len(node.proto.output)} sizes, found {shape_text(sizes)}")
    return node.add(graph.SplitOp(node.operand(0), node.integer("axis", 0), sizes)).results


def _equal_sizes(node: Node, count: int) -> list[int]:
    whole = _split_extent(node)
    if whole % count:
        raise node.error(f"expected an axis that {count} equal parts make up, found {whole} elements")
    return [whole // count] * count


def _split_extent(node: Node) -> int:
    return node.shape_of(0)[normalize_axis(node.integer("axis", 0), node.rank_of(0))]


@importer("Expand", since=8)
def expand(node: Node) -> SSAValue:
    """Broadcast both ways with a shape that is an input."""
    return node.add(graph.ExpandOp(node.operand(0), node.known_ints(1, "shape"))).result


@importer("Tile", since=6)
def tile(node: Node) -> SSAValue:
    """Each axis repeated: an axis of size 1 in front of it is broadcast and then merged with it."""
    shape, repeats = node.shape_of(0), node.known_ints(1, "repeats")
    if len(repeats) != len(shape) or any(count < 0 for count in repeats):
        raise node.error(f"expected {len(shape)} repeats of at least 0, found {shape_text(repeats)}")
    apart = [extent for size in shape for extent in (1, size)]
    repeated = [extent for count, size in zip(repeats, shape, strict=True) for extent in (count, size)]
    merged = [count * size for count, size in zip(repeats, shape, strict=True)]
    spread = node.add(graph.ReshapeOp(node.operand(0), apart)).result
    wide = node.add(graph.ExpandOp(spread, repeated)).result
    return node.add(graph.ReshapeOp(wide, merged)).result


@importer("Pad", since=2)
def pad_by_attributes(node: Node) -> SSAValue:
    """Before version 11 widths and value are attributes."""
    widths = node.integers("pads")
    if widths is None:
        raise node.error('expected an attribute "pads", found none')
    return _pad(node, widths, range(node.rank_of(0)), np.array(node.number("value", 0.0)))


@importer("Pad", since=11)
def pad(node: Node) -> SSAValue:
    """Widths are an input, as is the value; since version 18 there may be axes."""
    widths = node.known_ints(1, "pads")
    value = np.array(0) if node.optional(2) is None else node.known(2, "constant_value")
    if value.size != 1:
        raise node.error(f"expected one constant_value, found {value.size}")
    axes = node.optional_ints(3, "axes")
    return _pad(node, widths, range(node.rank_of(0)) if axes is None else axes, value)


def _pad(node: Node, widths: Sequence[int], axes: Sequence[int], value: np.ndarray) -> SSAValue:
    rank = node.rank_of(0)
    if len(widths) != 2 * len(axes):
        raise node.error(f"expected {2 * len(axes)} pads, found {len(widths)}")
    low, high = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        low[normalize_axis(axis, rank)] = widths[position]
        high[normalize_axis(axis, rank)] = widths[len(axes) + position]
    mode = node.string("mode", "constant")
    if mode == "constant":
        element = node.type_of(0).element_type
        if is_complex(element):
            return _pad_by_parts(node, low, high, value)
        if is_scale_float(element) and node.optional(2) is None:
            raise node.error("expected a constant_value, as float8e8m0 has no 0 to pad with")
        number = number_attribute(value.reshape(()), element)
        return node.add(graph.PadOp(node.operand(0), low, high, number)).result
    if mode not in ("edge", "reflect", "wrap"):
        raise node.error(f'expected mode "constant", "edge", "reflect" or "wrap", found "{mode}"')
    return _pad_from_inside(node, low, high, mode)


def _pad_by_parts(node: Node, low: Sequence[int], high: Sequence[int], value: np.ndarray) -> SSAValue:
    """Padding along one axis after the other, with tensors of the value: numbers that no attribute holds."""
    x, shape = node.operand(0), list(node.shape_of(0))
    number = node.constant(value.reshape(()).astype(to_numpy_dtype(node.type_of(0).element_type)))

    def filled(axis: int, size: int) -> SSAValue:
        return node.add(graph.ExpandOp(number, [*shape[:axis], size, *shape[axis + 1 :]])).result

    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            start, stop = max(-before, 0), shape[axis] - max(-after, 0)
            if stop < start:
                raise node.error(
                    f"expected pads that leave 0 elements or more on axis {axis}, found {before} and {after}"
                )
            x = node.add(graph.SliceOp.over_axes(x, [start], [stop], [axis])).result
            shape[axis] = stop - start
        parts = [x]
        if before > 0:
            parts.insert(0, filled(axis, before))
        if after > 0:
            parts.append(filled(axis, after))
        if len(parts) > 1:
            x = node.add(graph.ConcatOp(parts, axis)).result
            shape[axis] += max(before, 0) + max(after, 0)
    return x


def _pad_from_inside(
    node: Node, low: Sequence[int], high: Sequence[int], mode: Literal["edge", "reflect", "wrap"]
) -> SSAValue:
    """Padding with elements of the operand itself: along each axis a gather, at positions that are known here.

    What negative widths cut off is gone before anything is padded, as onnxruntime does it.
    """
    x = node.operand(0)
    for axis, (extent, before, after) in enumerate(zip(node.shape_of(0), low, high, strict=True)):
        if before == after == 0:
            continue
        kept = np.arange(extent)[max(-before, 0) : extent - max(-after, 0)]
        if kept.size == 0 and (before > 0 or after > 0):
            raise node.error(f'mode "{mode}" needs elements to pad with, found none along axis {axis}')
        positions = np.pad(kept, (max(before, 0), max(after, 0)), mode)
        x = node.add(graph.GatherOp(x, node.constant(positions), axis)).result
    return x


@importer("DepthToSpace", since=1)
def depth_to_space(node: Node) -> SSAValue:
    """Blocks of channels become blocks of pixels; `mode` says which of the two varies slowest."""
    batch, channels, height, width, block = _blocked(node)
    if channels % (block * block):
        raise node.error(f"expected channels in blocks of {block * block}, found {node.type_of(0)}")
    rest = channels // (block * block)
    mode = node.string("mode", "DCR")
    if mode == "DCR":
        split, perm = [batch, block, block, rest, height, width], [0, 3, 4, 1, 5, 2]
    elif mode == "CRD":
        split, perm = [batch, rest, block, block, height, width], [0, 1, 4, 2, 5, 3]
    else:
        raise _wrong_mode(node, mode)
    return _rearranged(node, split, perm, [batch, rest, height * block, width * block])


@importer("SpaceToDepth", since=1)
def space_to_depth(node: Node) -> SSAValue:
    """Blocks of pixels become blocks of channels; there is a `mode` since version 28."""
    batch, channels, height, width, block = _blocked(node)
    if height % block or width % block:
        raise node.error(f"expected height and width in blocks of {block}, found {node.type_of(0)}")
    split = [batch, channels, height // block, block, width // block, block]
    mode = node.string("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise _wrong_mode(node, mode)
    perm = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return _rearranged(node, split, perm, [batch, channels * block * block, height // block, width // block])


def _blocked(node: Node) -> tuple[int, int, int, int, int]:
    """The four extents of the operand, and the block size."""
    block = node.integer("blocksize")
    if node.rank_of(0) != 4 or block < 1:
        raise node.error(
            f"expected rank 4 and a blocksize of at least 1, found {node.type_of(0)} and {block}"
        )
    batch, channels, height, width = node.shape_of(0)
    return batch, channels, height, width, block


def _wrong_mode(node: Node, mode: str) -> MloptError:
    return node.error(f'expected mode "DCR" or "CRD", found "{mode}"')


def _rearranged(node: Node, split: Sequence[int], perm: Sequence[int], merged: Sequence[int]) -> SSAValue:
    """The operand with its axes split, permuted and merged."""
    apart = node.add(graph.ReshapeOp(node.operand(0), split)).result
    moved = node.add(graph.TransposeOp(apart, perm)).result
    return node.add(graph.ReshapeOp(moved, merged)).result
