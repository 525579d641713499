"""Rules for operators whose operands are sizes, where these are computed at run time or what they are of is bounded.

What the sizes can be at most is read off their computation (`extents.interval`). Where that gives no limit there is
no bound, and the operator is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_integer, shape_of, shape_text
from mlopt.frontend.onnx.bounded import (
    Results,
    carries,
    highest,
    leading,
    lowest,
    marked,
    masked,
    only,
    refusal,
)
from mlopt.frontend.onnx.bounds import Bound
from mlopt.frontend.onnx.extents import Size, Sizes, elements, interval, same
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction

_LARGEST_BOUND = 2**31 - 2
"""What counts as a bound: the largest number of a type does not."""


class _Dimensions(NamedTuple):
    """The sizes of a result, of which one may be computed at run time: `axis`, or None."""

    shape: tuple[int, ...]
    """With the bound at `axis`."""

    axis: int | None
    extent: SSAValue | None

    def mark(self, node: Node, result: SSAValue) -> SSAValue:
        """The result, noted to be bounded if it is."""
        if self.axis is None or self.extent is None:
            return result
        return node.bounded(result, self.axis, self.extent)


def _dimensions(node: Node, sizes: Sequence[Size], what: str) -> _Dimensions:
    """The static sizes of a result, and which of them is a bound."""
    computed = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
    if len(computed) > 1:
        message = f"the {what} is computed at run time for {len(computed)} axes, expected at most one"
        raise node.error(message, UnsupportedError)
    shape = [size if isinstance(size, int) else _bound(node, size, what) for size in sizes]
    if any(size < 0 for size in shape):
        raise node.error(f"expected a {what} of at least 0, found {shape_text(shape)}")
    if not computed:
        return _Dimensions(tuple(shape), None, None)
    extents = Sizes(node)
    return _Dimensions(tuple(shape), computed[0], extents.value(extents.largest(sizes[computed[0]], 0)))


def _bound(node: Node, size: Size, what: str) -> int:
    """The largest that a size can be; `UnsupportedError` if there is no saying."""
    high = max(0, interval(node, size)[1])
    if high > _LARGEST_BOUND:
        message = f"the {what} is computed at run time, and nothing says how large it can be"
        raise node.error(message, UnsupportedError)
    return high


# Slice


@carries("Slice", sizes=(1, 2, 3, 4))
def _slice(node: Node, function: ImportFunction) -> Results:
    """Along one axis the start, the end or the size may be computed; the other axes are sliced as they are."""
    value = node.operand(0)
    bound, shape = node.bound_of(value), shape_of(value)
    ranges = _slice_ranges(node, len(shape))
    computed = [
        axis
        for axis, (start, end, _) in ranges.items()
        if not (isinstance(start, int) and isinstance(end, int)) or (bound is not None and bound.axis == axis)
    ]
    if len({*computed, *([] if bound is None else [bound.axis])}) > 1:
        raise refusal(node, "and is sliced along another one at positions that are computed at run time", 0)
    static = {axis: numbers for axis, numbers in ranges.items() if axis not in computed}
    if static:
        starts = [start for start, _, _ in static.values() if isinstance(start, int)]
        ends = [end for _, end, _ in static.values() if isinstance(end, int)]
        steps = [step for _, _, step in static.values()]
        value = node.add(graph.SliceOp.over_axes(value, starts, ends, list(static), steps)).result
    if computed:
        return _slice_along(node, value, computed[0], bound, ranges[computed[0]])
    return value if bound is None else node.bounded(value, bound.axis, bound.extent)


def _slice_ranges(node: Node, rank: int) -> dict[int, tuple[Size, Size, int]]:
    """Axis → start, end and step, as the node gives them."""
    if node.opset < 10:
        starts, ends = ([*map(_as_size, node.integers(name) or [])] for name in ("starts", "ends"))
        axes, steps = node.integers("axes"), None
    else:
        starts, ends = (elements(node, node.operand(index)) for index in (1, 2))
        axes, steps = node.optional_ints(3, "axes"), node.optional_ints(4, "steps")
    axes = [*range(len(starts))] if axes is None else [axis % rank for axis in axes]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(set(axes)) != len(axes):
        raise node.error("expected a start, end and step for each of distinct axes")
    if 0 in steps:
        raise node.error(f"expected steps other than 0, found {shape_text(steps)}")
    return dict(zip(axes, zip(starts, ends, steps, strict=True), strict=True))


def _as_size(number: int) -> Size:
    return number


def _slice_along(
    node: Node, value: SSAValue, axis: int, bound: Bound | None, numbers: tuple[Size, Size, int]
) -> SSAValue:
    """A slice along one axis whose size, start or end is computed.

    From the first element on in steps of 1 it is the value itself with another extent; else the elements are
    gathered.
    """
    sizes, (start, end, step) = Sizes(node), numbers
    most = shape_of(value)[axis]
    size: Size = most if bound is None else bound.extent
    low, high = (0, size) if step > 0 else (-1, sizes.sub(size, 1))
    first, last = (
        sizes.least(sizes.largest(sizes.from_end(number, size), low), high) for number in (start, end)
    )
    if step < 0:
        first = sizes.largest(first, 0)
    span = sizes.sub(last, first) if step > 0 else sizes.sub(first, last)
    count = sizes.divide(sizes.add(sizes.largest(span, 0), abs(step) - 1), abs(step))
    if step < 0:  # of nothing nothing is left, although the start was taken to be 0
        count = sizes.least(count, size)
    length = min(most, max(0, interval(node, count)[1]))
    if step == 1 and first == 0:
        result = leading(node, value, axis, length)
    else:
        steps = node.add(graph.RangeOp(IntegerAttr(0, i64), IntegerAttr(step, i64), length)).result
        at = node.add(graph.AddOp(steps, sizes.value(first))).result
        if length and most:
            at = masked(node, at, 0, sizes.value(count), 0)
        result = node.add(graph.GatherOp(value, at, axis)).result
    return result if isinstance(count, int) else node.bounded(result, axis, count)


# Reshape and Flatten


@carries("Reshape", sizes=(1,))
def _reshape(node: Node, function: ImportFunction) -> Results:
    """To a shape in which the bounded axis survives, or is merged with what follows it, or split."""
    value = node.operand(0)
    bound, shape = node.bound_of(value), shape_of(value)
    wanted: list[Size] = (
        [*(node.integers("shape") or [])] if node.opset < 5 else elements(node, node.operand(1))
    )
    for axis, size in enumerate(wanted):
        if size == 0 and not node.integer("allowzero", 0):
            if axis >= len(shape):
                raise node.error("expected zeros only where the operand has axes")
            wanted[axis] = bound.extent if bound is not None and bound.axis == axis else shape[axis]
    return _reshaped(node, value, bound, wanted)


@carries("Flatten")
def _flatten(node: Node, function: ImportFunction) -> Results:
    """To a matrix; what is merged with the bounded axis comes after it, or is of size 1."""
    value, bound = only(node, 0)
    shape = shape_of(value)
    cut = node.integer("axis", 1)
    cut = cut if cut == len(shape) else cut % len(shape)
    outer, inner = prod(shape[:cut]), prod(shape[cut:])
    return _reshaped(node, value, bound, [-1, inner] if bound.axis < cut else [outer, -1])


def _reshaped(node: Node, value: SSAValue, bound: Bound | None, wanted: Sequence[Size]) -> SSAValue:
    """Of the wanted sizes one may be -1, one computed."""
    sizes = Sizes(node)
    computed = [axis for axis, size in enumerate(wanted) if not isinstance(size, int)]
    rest = [axis for axis, size in enumerate(wanted) if size == -1]
    known = prod(size for size in wanted if isinstance(size, int) and size != -1)
    if len(computed) > 1 or len(rest) > 1 or known <= 0:
        raise _no_reshape(node, bound)
    if bound is None:
        # Nothing depends on data: the computed size must be what is left.
        if rest or not computed or prod(shape_of(value)) % known:
            raise _no_reshape(node, bound)
        left = prod(shape_of(value)) // known
        must = sizes.require_equal(wanted[computed[0]], left)
        result = node.add(graph.ReshapeOp(value, _with_size(wanted, computed[0], left))).result
        return node.bounded(result, computed[0], sizes.value(must))
    shape = shape_of(value)
    before, after = prod(shape[: bound.axis]), prod(shape[bound.axis + 1 :])
    if computed and rest:
        if not same(wanted[computed[0]], bound.extent) or known == 0 or before * after % known:
            raise _no_reshape(node, bound)
        axis = computed[0]
        wanted = [before * after // known if size == -1 else size for size in wanted]
    elif computed or rest:
        axis = (computed or rest)[0]
    else:
        raise _no_reshape(node, bound)
    inner = prod(size for size in wanted[axis + 1 :] if isinstance(size, int))
    if prod(size for size in wanted[:axis] if isinstance(size, int)) != before or inner == 0:
        raise _no_reshape(node, bound)
    total = sizes.mul(bound.extent, after)
    extent: Size = bound.extent if inner == after else sizes.divide(total, inner)
    if computed:
        extent = sizes.require_equal(wanted[axis], extent)
    if after % inner:
        found = sizes.require_equal(sizes.mul(extent, inner), total)
        extent = sizes.divide(found, inner)
    length = shape[bound.axis] * after // inner
    if length * inner != shape[bound.axis] * after:
        rows = node.add(graph.ReshapeOp(value, [before, shape[bound.axis] * after])).result
        value = leading(node, rows, 1, length * inner)
    result = node.add(graph.ReshapeOp(value, _with_size(wanted, axis, length))).result
    return node.bounded(result, axis, sizes.value(extent))


def _with_size(sizes: Sequence[Size], axis: int, size: int) -> list[int]:
    """The sizes, all of which are known but that of one axis, with a number there."""
    numbers = [*sizes[:axis], size, *sizes[axis + 1 :]]
    return [number for number in numbers if isinstance(number, int)]


def _no_reshape(node: Node, bound: Bound | None) -> Exception:
    if bound is None:
        return node.error("the shape is computed at run time for more than one axis", UnsupportedError)
    return refusal(node, "which does not stay one axis in the new shape", 0)


# Pad


@carries("Pad", sizes=(1,))
def _pad(node: Node, function: ImportFunction) -> Results:
    """Along other axes; or with a constant behind the bounded axis; or of a computed width behind one."""
    value, shape = node.operand(0), node.shape_of(0)
    bound, rank = node.bound_of(value), len(shape)
    widths: list[Size] = (
        [*(node.integers("pads") or [])] if node.opset < 11 else elements(node, node.operand(1))
    )
    axes = None if node.opset < 18 else node.optional_ints(3, "axes")
    padded = [axis % rank for axis in (range(rank) if axes is None else axes)]
    if len(widths) != 2 * len(padded):
        raise node.error(f"expected {2 * len(padded)} pads, found {len(widths)}")
    pairs = dict(zip(padded, zip(widths[: len(padded)], widths[len(padded) :], strict=True), strict=True))
    computed = {axis for axis, pair in pairs.items() if not all(isinstance(width, int) for width in pair)}
    own = {axis for axis in range(rank) if bound is not None and bound.axis == axis}
    changed = {axis for axis in own if pairs.get(axis, (0, 0)) != (0, 0)}
    if not computed | changed and bound is not None:
        return marked(node, function(node), bound.axis, bound.extent)
    if len(computed | own) > 1 or node.opset < 11:
        raise refusal(node, "and is padded along another one by widths that are computed at run time", 0)
    (axis,) = computed | changed
    low, high = pairs[axis]
    if not isinstance(low, int) or low < 0 or node.string("mode", "constant") != "constant":
        raise refusal(node, "which is padded otherwise than with a constant behind it", 0)
    sizes = Sizes(node)
    extent: Size = shape[axis] if bound is None else bound.extent
    dimensions = _dimensions(node, [sizes.add(sizes.add(extent, high), low)], "padded size")
    if bound is not None:
        fill = np.zeros(1) if node.optional(2) is None else node.known(2, "constant_value")
        value = masked(node, value, axis, bound.extent, float(fill.reshape(-1)[0]))
    pairs[axis] = low, dimensions.shape[0] - low - shape[axis]
    pads = np.array([[pair[end] for pair in pairs.values()] for end in (0, 1)], np.int64).reshape(-1)
    result = function(node.with_operands({0: value, 1: node.constant(pads)}))
    assert isinstance(result, SSAValue)
    return result if dimensions.extent is None else node.bounded(result, axis, dimensions.extent)


# Expand, Tile, ConstantOfShape, Range, TopK


@carries("Expand", sizes=(1,))
def _expand(node: Node, function: ImportFunction) -> Results:
    """Along one axis, the bounded one or another, to a computed size."""
    value, sizes = node.operand(0), Sizes(node)
    bound, own = node.bound_of(value), list[Size](shape_of(value))
    if bound is not None:
        own[bound.axis] = bound.extent
    wanted = elements(node, node.operand(1))
    rank = max(len(own), len(wanted))
    own, wanted = [1] * (rank - len(own)) + own, [1] * (rank - len(wanted)) + wanted
    result: list[Size] = []
    for mine, target in zip(own, wanted, strict=True):
        if target == 1 or mine == 1:
            result.append(mine if target == 1 else target)
        elif isinstance(mine, int) != isinstance(target, int):
            raise refusal(node, "and another that must be equal to it is fixed")
        else:
            result.append(sizes.require_equal(mine, target))
    dimensions = _dimensions(node, result, "shape")
    if bound is not None:
        axis = rank - len(shape_of(value)) + bound.axis
        shape = [*dimensions.shape[:axis], shape_of(value)[bound.axis], *dimensions.shape[axis + 1 :]]
        wide = node.add(graph.ExpandOp(value, shape)).result
        assert dimensions.extent is not None
        return node.bounded(wide, axis, dimensions.extent)
    return dimensions.mark(node, node.add(graph.ExpandOp(value, dimensions.shape)).result)


@carries("Tile", sizes=(1,))
def _tile(node: Node, function: ImportFunction) -> Results:
    """Repeated a computed number of times along one axis; or bounded along an axis that is not repeated."""
    value, sizes = node.operand(0), Sizes(node)
    bound, shape = node.bound_of(value), shape_of(value)
    repeats = elements(node, node.operand(1))
    if len(repeats) != len(shape):
        raise node.error(f"expected {len(shape)} repeats, found {len(repeats)}")
    if bound is not None:
        if not (repeats[bound.axis] == 1 and all(isinstance(count, int) for count in repeats)):
            raise refusal(node, "which is repeated", 0)
        return marked(node, function(node), bound.axis, bound.extent)
    dimensions = _dimensions(node, repeats, "number of repeats")
    most = node.with_operands({1: node.constant(np.array(dimensions.shape, np.int64))})
    result = function(most)
    assert isinstance(result, SSAValue)
    if dimensions.axis is None or dimensions.extent is None:
        return result
    extent = sizes.value(sizes.mul(dimensions.extent, shape[dimensions.axis]))
    return node.bounded(result, dimensions.axis, extent)


@carries("ConstantOfShape", sizes=(0,))
def _constant_of_shape(node: Node, function: ImportFunction) -> Results:
    """One size may be computed."""
    dimensions = _dimensions(node, elements(node, node.operand(0)), "shape")
    most = node.with_operands({0: node.constant(np.array(dimensions.shape, np.int64))})
    result = function(most)
    assert isinstance(result, SSAValue)
    return dimensions.mark(node, result)


@carries("Range", sizes=(0, 1, 2))
def _range(node: Node, function: ImportFunction) -> Results:
    """Of integers, from a start to a limit of which one or both are computed, in steps that are known."""
    element = node.type_of(0).element_type
    if not is_integer(element):
        raise node.error("the numbers are computed at run time, and no integers", UnsupportedError)
    sizes = Sizes(node)
    start, limit = (elements(node, node.operand(index))[0] for index in (0, 1))
    step = node.known_int(2, "delta")
    if step == 0:
        raise node.error("expected a delta other than 0, found 0")
    span = sizes.sub(limit, start) if step > 0 else sizes.sub(start, limit)
    count = sizes.divide(sizes.add(sizes.largest(span, 0), abs(step) - 1), abs(step))
    dimensions = _dimensions(node, [count], "length")
    numbers = node.add(graph.RangeOp(IntegerAttr(0, i64), IntegerAttr(step, i64), dimensions.shape[0])).result
    if start != 0:
        numbers = node.add(graph.AddOp(numbers, sizes.value(start))).result
    if element != i64:
        numbers = node.add(graph.CastOp(numbers, element)).result
    return dimensions.mark(node, numbers)


@carries("TopK", sizes=(1,))
def _top_k(node: Node, function: ImportFunction) -> Results:
    """A computed k, of an axis of fixed size; or along a bounded axis, which must have k elements, or another one."""
    value, sizes = node.operand(0), Sizes(node)
    bound, shape = node.bound_of(value), shape_of(value)
    axis = node.integer("axis", -1) % len(shape)
    if bound is not None and bound.axis != axis:
        return marked(node, function(node), bound.axis, bound.extent)
    (k,) = [node.integer("k")] if node.opset < 10 else elements(node, node.operand(1))
    present: Size = shape[axis] if bound is None else bound.extent
    extent = sizes.require_equal(k, sizes.least(k, present))
    operands: dict[int, SSAValue] = {}
    if bound is not None:
        largest = node.opset < 11 or node.integer("largest", 1)
        operands[0] = masked(node, value, axis, bound.extent, lowest(value) if largest else highest(value))
    most = min(shape[axis], _bound(node, extent, "number of elements"))
    if node.opset >= 10:
        operands[1] = node.constant(np.array([most], np.int64))
    results = function(node.with_operands(operands))
    return results if isinstance(extent, int) else marked(node, results, axis, extent)
