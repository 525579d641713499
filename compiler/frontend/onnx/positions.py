"""Import of operators that select by position: EyeLike, Hardmax, OneHot, Trilu. Each compares numbers of positions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of, tensor_type
from mlopt.frontend.onnx.elementwise import cast_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.normalization import along_axis, over_rows
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.scalars import scalar
from mlopt.ir.dtypes import from_numpy_dtype


def positions(node: Node, length: int, axes_after: int, start: int = 0) -> SSAValue:
    """The numbers from `start` on as a tensor of shape `length x 1 x ... x 1`."""
    numbers = node.add(graph.RangeOp(IntegerAttr(start, i64), IntegerAttr(1, i64), length)).result
    return node.add(graph.ReshapeOp(numbers, [length] + [1] * axes_after)).result if axes_after else numbers


def _diagonal(node: Node, height: int, width: int, k: int) -> SSAValue:
    """The column where each row meets diagonal k, as a tensor of shape `height x 1`."""
    outside = max(height, width)  # the diagonals from there on meet no row of the matrix
    return positions(node, height, 1, start=min(max(k, -outside), outside))


@importer("Trilu", since=14)
def trilu(node: Node) -> SSAValue:
    """What is on one side of diagonal k of the last two axes, and 0 on the other."""
    if node.rank_of(0) < 2:
        raise node.error(f"expected rank 2 or more, found {node.type_of(0)}")
    height, width = node.shape_of(0)[-2:]
    k = 0 if node.optional(1) is None else node.known_int(1, "k")
    diagonal, columns = _diagonal(node, height, width, k), positions(node, width, 0)
    compare = graph.GreaterEqualOp if node.integer("upper", 1) else graph.LessEqualOp
    keep = node.add(compare(columns, diagonal)).result
    return node.add(graph.WhereOp(keep, node.operand(0), scalar(node, 0))).result


@importer("EyeLike", since=9)
def eye_like(node: Node) -> SSAValue:
    """1 on diagonal k of a matrix of the operand's shape, in the operand's type or `dtype`."""
    if node.rank_of(0) != 2:
        raise node.error(f"expected a matrix, found {node.type_of(0)}")
    height, width = node.shape_of(0)
    element = node.type_of(0).element_type
    if node.has("dtype"):
        dtype = cast_type(node.integer("dtype"))
        if dtype is None:
            raise node.error(f"expected a type as the attribute dtype, found {node.integer('dtype')}")
        element = from_numpy_dtype(dtype)
    diagonal = _diagonal(node, height, width, node.integer("k", 0))
    on = node.add(graph.EqualOp(positions(node, width, 0), diagonal)).result
    return node.add(graph.CastOp(on, element)).result


def _hardmax(node: Node, x: SSAValue, axis: int) -> SSAValue:
    """1 at the first of the largest elements along the axis, 0 elsewhere."""
    shape = shape_of(x)
    axis = normalize_axis(axis, len(shape))
    largest = node.add(graph.ArgMaxOp(x, axis, keepdims=True)).result
    on = node.add(graph.EqualOp(positions(node, shape[axis], len(shape) - 1 - axis), largest)).result
    return node.add(graph.CastOp(on, tensor_type(x.type).element_type)).result


importer("Hardmax", since=1)(over_rows(_hardmax))
importer("Hardmax", since=13)(along_axis(_hardmax))


@importer("OneHot", since=9)
def one_hot(node: Node) -> SSAValue:
    """`values[1]` where the position along the new axis is the index, `values[0]` elsewhere.

    A negative index counts from `depth`; one out of range is nowhere.
    """
    depth = node.known(1, "depth")
    if depth.size != 1 or depth.dtype.kind not in "iuf" or not 0 <= (number := depth.reshape(())) < 2**31:
        raise node.error(f"expected one number of at least 0 as the depth, found {depth.tolist()}")
    if node.shape_of(2) != (2,):
        raise node.error(f"expected two values, found {node.type_of(2)}")
    length, shape = int(number), node.shape_of(0)
    axis = normalize_axis(node.integer("axis", -1), len(shape) + 1)
    indices = node.add(graph.CastOp(node.operand(0), i64)).result
    indices = node.add(graph.ReshapeOp(indices, [*shape[:axis], 1, *shape[axis:]])).result
    from_start, from_end = (
        node.add(graph.EqualOp(positions(node, length, len(shape) - axis, start), indices)).result
        for start in (0, -length)
    )
    on = node.add(graph.OrOp(from_start, from_end)).result
    off_value, on_value = (_element(node, node.operand(2), index) for index in (0, 1))
    return node.add(graph.WhereOp(on, on_value, off_value)).result


def _element(node: Node, vector: SSAValue, index: int) -> SSAValue:
    """One element of a vector, of rank 0."""
    return node.add(graph.GatherOp(vector, node.constant(np.array(index)), 0)).result
