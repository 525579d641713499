"""Rules for bounded operands of operators that work along axes: reductions, softmax, normalizations, products,
gathers.

Along another axis than the bounded one they take no notice of it. Along the bounded one, what is behind the extent
becomes what counts for nothing: 0 in a sum, the lowest number in a maximum, the first position in a gather.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, f64, i64
from xdsl.ir import Attribute, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, shape_of, tensor_type
from mlopt.frontend.onnx.bounded import (
    Results,
    alike,
    bounds_of,
    carries,
    highest,
    lowest,
    marked,
    masked,
    only,
    refusal,
)
from mlopt.frontend.onnx.bounds import Bound
from mlopt.frontend.onnx.extents import Sizes, same
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction

_NOTHING: dict[str, Callable[[SSAValue], float]] = {
    "ReduceSum": lambda _: 0,
    "ReduceSumSquare": lambda _: 0,
    "ReduceL1": lambda _: 0,
    "ReduceL2": lambda _: 0,
    "ReduceLogSum": lambda _: 0,
    "ReduceLogSumExp": lowest,
    "ReduceProd": lambda _: 1,
    "ReduceMax": lowest,
    "ReduceMin": highest,
    "ReduceMean": lambda _: 0,
}
"""What each reduction leaves as it is."""


@carries(*_NOTHING)
def _reduction(node: Node, function: ImportFunction) -> Results:
    """Over other axes, or over the bounded one too, in which case the result is not bounded."""
    value, bound = only(node, 0)
    rank = len(shape_of(value))
    axes = _reduced_axes(node, rank)
    if bound.axis not in axes:
        gone = 0 if node.integer("keepdims", 1) else sum(axis < bound.axis for axis in axes)
        return marked(node, function(node), bound.axis - gone, bound.extent)
    kind, is_real = node.proto.op_type, is_float(tensor_type(value.type).element_type)
    if kind in ("ReduceMean", "ReduceLogSumExp") and not is_real:
        raise refusal(node, "over which integers are reduced")
    hidden = masked(node, value, bound.axis, bound.extent, _NOTHING[kind](value))
    if kind == "ReduceMean":
        return _mean(node, hidden, axes, bound)
    return function(node.with_operands({0: hidden}))


def _reduced_axes(node: Node, rank: int) -> tuple[int, ...]:
    """The axes that a reduction is over; see `reduction` for where they stand."""
    given = node.integers("axes") if len(node.inputs) < 2 else node.optional_ints(1, "axes")
    if not given:
        return () if node.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(axis % rank for axis in given)


def _mean(node: Node, value: SSAValue, axes: tuple[int, ...], bound: Bound) -> SSAValue:
    """The sum divided by the number of elements that are there, in f32 for floats of 16 bits."""
    element = tensor_type(value.type).element_type
    wide = value if element == f64 else _cast(node, value, f32)
    total = node.add(graph.ReduceSumOp(wide, axes, keepdims=node.integer("keepdims", 1) == 1)).result
    sizes = Sizes(node)
    others = prod(shape_of(value)[axis] for axis in axes if axis != bound.axis)
    count = _cast(node, sizes.value(sizes.mul(bound.extent, others)), tensor_type(wide.type).element_type)
    return _cast(node, node.add(graph.DivOp(total, count)).result, element)


def _cast(node: Node, value: SSAValue, element: Attribute) -> SSAValue:
    if tensor_type(value.type).element_type == element:
        return value
    return node.add(graph.CastOp(value, element)).result


@carries("ArgMax", "ArgMin")
def _arg_extreme(node: Node, function: ImportFunction) -> Results:
    """Along the bounded axis the first of equal elements is looked for, which are never those behind the extent."""
    value, bound = only(node, 0)
    axis = node.integer("axis", 0) % len(shape_of(value))
    if axis != bound.axis:
        gone = 0 if node.integer("keepdims", 1) or axis > bound.axis else 1
        return marked(node, function(node), bound.axis - gone, bound.extent)
    if node.integer("select_last_index", 0):
        raise refusal(node, "along which the last of equal elements is looked for")
    fill = lowest(value) if node.proto.op_type == "ArgMax" else highest(value)
    return function(node.with_operands({0: masked(node, value, axis, bound.extent, fill)}))


@carries("Softmax", "LogSoftmax")
def _softmax(node: Node, function: ImportFunction) -> Results:
    """Along another axis, or along the bounded one, to which what is behind the extent adds nothing."""
    value, bound = only(node, 0)
    rank = len(shape_of(value))
    axis = node.integer("axis", -1 if node.opset >= 13 else 1) % rank
    touched = {axis} if node.opset >= 13 else set(range(axis, rank))
    if bound.axis in touched:
        hidden = masked(node, value, bound.axis, bound.extent, -np.inf)
        return marked(node, function(node.with_operands({0: hidden})), bound.axis, bound.extent)
    return marked(node, function(node), bound.axis, bound.extent)


@carries("Hardmax", "LpNormalization")
def _along_one_axis(node: Node, function: ImportFunction) -> Results:
    """Along another axis."""
    value, bound = only(node, 0)
    rank = len(shape_of(value))
    axis = node.integer("axis", -1) % rank
    if bound.axis == axis or (node.opset < 13 and node.proto.op_type == "Hardmax"):
        raise refusal(node, "along which this operator works")
    return marked(node, function(node), bound.axis, bound.extent)


@carries("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def _normalization(node: Node, function: ImportFunction) -> Results:
    """Over the axes behind the bounded one."""
    value, bound = only(node, 0)
    if bound.axis >= node.integer("axis", -1) % len(shape_of(value)) or len(node.proto.output) > 1:
        raise refusal(node, "which this operator normalizes")
    return marked(node, function(node), bound.axis, bound.extent)


@carries("CumProd", "CumSum")
def _cumulative(node: Node, function: ImportFunction) -> Results:
    """What is behind the extent comes last; or from the end on it is the start of the sum or product."""
    value, bound = only(node, 0)
    if node.integer("reverse", 0) and node.known_int(1, "axis") % len(shape_of(value)) == bound.axis:
        start = 1 if node.proto.op_type == "CumProd" else 0
        value = masked(node, value, bound.axis, bound.extent, start)
    return marked(node, function(node.with_operands({0: value})), bound.axis, bound.extent)


@carries(
    *(
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "LpPool",
        "GlobalLpPool",
    ),
    *(
        "BatchNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "LRN",
        "DepthToSpace",
        "SpaceToDepth",
    ),
)
def _images(node: Node, function: ImportFunction) -> Results:
    """Any number of images, each by itself."""
    _, bound = only(node, 0)
    if bound.axis != 0:
        raise refusal(node, "which is not the batch")
    return marked(node, function(node), 0, bound.extent)


@carries("RoiAlign")
def _regions(node: Node, function: ImportFunction) -> Results:
    """Any number of regions, and of the numbers of their images; those behind the extent are empty."""
    found = [(index, value, 0, bound.extent) for index, value, bound in bounds_of(node) if bound.axis == 0]
    if [index for index, *_ in found] != [1, 2] or len(bounds_of(node)) > 2:
        raise refusal(node, "which this operator takes of the regions and the numbers of their images only")
    operands, extent = alike(node, found)
    hidden = {index: masked(node, value, 0, extent, 0) for index, value in operands.items()}
    return marked(node, function(node.with_operands(hidden)), 0, extent)


@carries("Trilu")
def _triangle(node: Node, function: ImportFunction) -> Results:
    """Diagonals are counted from the first row and column."""
    _, bound = only(node, 0)
    return marked(node, function(node), bound.axis, bound.extent)


# Products


@carries("MatMul")
def _matmul(node: Node, function: ImportFunction) -> Results:
    """Along rows, columns or the batch; or along the axis that is summed over, and is gone then."""
    shapes = [shape_of(node.operand(index)) for index in (0, 1)]
    roles = [_role(len(shapes[index]), bound.axis, index) for index, _, bound in bounds_of(node)]
    rank = max(map(len, shapes))
    if set(roles) == {"summed"}:
        return function(node.with_operands(_summed(node)))
    if (
        any(role != roles[0] for role in roles)
        or not isinstance(roles[0], int)
        or (roles[0] > -3 and len(roles) > 1)
    ):
        raise refusal(node, "and so has another operand, along another one")
    role = roles[0]
    found = bounds_of(node)
    if len(found) == 1 and role <= -3:
        other = shapes[1 - found[0][0]]
        if len(other) >= -role and other[role] != 1:
            raise refusal(node, f"and the other operand has the size {other[role]} there")
    operands, extent = alike(
        node, [(index, value, bound.axis, bound.extent) for index, value, bound in found]
    )
    result = function(node.with_operands(operands))
    lost = sum(len(shape) == 1 for shape in shapes)
    axis = rank - 1 - lost if role == -1 else rank + role
    return marked(node, result, axis, extent)


def _role(rank: int, axis: int, operand: int) -> int | str:
    """What an axis of an operand of a matmul is: `summed`, or the axis of the result counted from the end."""
    from_end = axis - rank
    summed = -1 if operand == 0 or rank == 1 else -2
    if from_end == summed:
        return "summed"
    return from_end


def _summed(node: Node) -> dict[int, SSAValue]:
    """The operands of a product with 0 behind the extent of the axis that is summed over."""
    found = bounds_of(node)
    if len(found) == 1:
        raise refusal(node, "over which it is multiplied with an operand of a fixed size")
    operands, extent = alike(
        node, [(index, value, bound.axis, bound.extent) for index, value, bound in found]
    )
    return {index: masked(node, operands[index], bound.axis, extent, 0) for index, _, bound in found}


@carries("Gemm")
def _gemm(node: Node, function: ImportFunction) -> Results:
    """Along the rows of A or the columns of B, and of C if it is not broadcast; or along the axis summed over."""
    row, column = (1 if node.integer(name, 0) else 0 for name in ("transA", "transB"))
    of_result = {0: {row: 0}, 1: {1 - column: 1}}
    found = bounds_of(node)
    if {index for index, _, bound in found if index < 2 and bound.axis not in of_result[index]}:
        if any(index == 2 for index, _, _ in found):
            raise refusal(node, "which this operator does not take as this input together with others", 2)
        return function(node.with_operands(_summed(node)))
    c = node.optional(2)
    axes = {
        index: of_result[index][bound.axis] if index < 2 else 2 + bound.axis - len(shape_of(value))
        for index, value, bound in found
    }
    (axis, *others) = set(axes.values())
    if others or not axes.keys() & {0, 1}:
        raise refusal(node, "and so has another operand, along another one")
    if c is not None and 2 not in axes and len(shape_of(c)) >= 2 - axis and shape_of(c)[axis - 2] != 1:
        raise refusal(node, "along which C has a fixed size")
    operands, extent = alike(
        node, [(index, value, bound.axis, bound.extent) for index, value, bound in found]
    )
    return marked(node, function(node.with_operands(operands)), axis, extent)


# Gathers


def _within(node: Node, indices: SSAValue, extent: SSAValue, size: int) -> SSAValue:
    """Indices into a bounded axis that count from its start; one that is out of bounds is out of the type's too."""
    wide = (
        indices
        if tensor_type(indices.type).element_type == i64
        else node.add(graph.CastOp(indices, i64)).result
    )
    zero = node.constant(np.array(0))
    negative = node.add(graph.LessOp(wide, zero)).result
    wrapped = node.add(graph.WhereOp(negative, node.add(graph.AddOp(wide, extent)).result, wide)).result
    above = node.add(graph.GreaterEqualOp(wrapped, zero)).result
    below = node.add(graph.LessOp(wrapped, extent)).result
    valid = node.add(graph.AndOp(above, below)).result
    return node.add(graph.WhereOp(valid, wrapped, node.constant(np.array(size)))).result


@carries("Gather")
def _gather(node: Node, function: ImportFunction) -> Results:
    """By bounded indices, from a bounded axis, or along another one than the bounded."""
    data, indices = node.operand(0), node.operand(1)
    axis = node.integer("axis", 0) % len(shape_of(data))
    of_data, of_indices = node.bound_of(data), node.bound_of(indices)
    if of_data is not None and of_data.axis == axis:
        indices = _within(node, indices, of_data.extent, shape_of(data)[axis])
    elif of_data is not None and of_indices is not None:
        raise refusal(node, "and so have the indices")
    if of_indices is not None:
        if shape_of(data)[axis] == 0:
            raise refusal(node, "and there is nothing to gather from", 1)
        hidden = masked(node, indices, of_indices.axis, of_indices.extent, 0)
        return marked(
            node, function(node.with_operands({1: hidden})), axis + of_indices.axis, of_indices.extent
        )
    result = function(node.with_operands({1: indices}))
    if of_data is None or of_data.axis == axis:
        return result
    moved = of_data.axis if of_data.axis < axis else of_data.axis - 1 + len(shape_of(indices))
    return marked(node, result, moved, of_data.extent)


@carries("GatherElements")
def _gather_elements(node: Node, function: ImportFunction) -> Results:
    """By bounded indices from data that is not bounded, or along the same other axis with the same extent."""
    data, indices = node.operand(0), node.operand(1)
    axis = node.integer("axis", 0) % len(shape_of(data))
    of_data, of_indices = node.bound_of(data), node.bound_of(indices)
    if of_data is not None and of_data.axis == axis:
        indices = _within(node, indices, of_data.extent, shape_of(data)[axis])
        if of_indices is None:
            return function(node.with_operands({1: indices}))
    elif of_data is not None:
        if (
            of_indices is None
            or of_data.axis != of_indices.axis
            or not same(of_data.extent, of_indices.extent)
        ):
            raise refusal(node, "along which the indices differ")
        operands, extent = alike(
            node, [(i, value, bound.axis, bound.extent) for i, value, bound in bounds_of(node)]
        )
        operands[1] = masked(node, operands[1], of_data.axis, extent, 0)
        return marked(node, function(node.with_operands(operands)), of_data.axis, extent)
    assert of_indices is not None
    hidden = masked(node, indices, of_indices.axis, of_indices.extent, 0)
    return marked(node, function(node.with_operands({1: hidden})), of_indices.axis, of_indices.extent)


@carries("GatherND")
def _gather_nd(node: Node, function: ImportFunction) -> Results:
    """By bounded indices; or with data that are bounded along an axis that whole slices have."""
    value, bound = only(node, 0, 1)
    batch = node.integer("batch_dims", 0)
    *outer, length = shape_of(node.operand(1))
    if value is node.operand(1):
        if bound.axis < batch or bound.axis == len(outer):
            raise refusal(node, "which is a batch dimension or that of the coordinates")
        hidden = masked(node, value, bound.axis, bound.extent, 0)
        return marked(node, function(node.with_operands({1: hidden})), bound.axis, bound.extent)
    if bound.axis < batch + length:
        raise refusal(node, "into which the indices point")
    return marked(node, function(node), len(outer) + bound.axis - batch - length, bound.extent)


@carries("OneHot")
def _one_hot(node: Node, function: ImportFunction) -> Results:
    """Any number of indices."""
    value, bound = only(node, 0)
    axis = node.integer("axis", -1) % (len(shape_of(value)) + 1)
    return marked(node, function(node), bound.axis + (axis <= bound.axis), bound.extent)
