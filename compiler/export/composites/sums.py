"""Operators of any number of operands, and products of matrices with what is added to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float
from mlopt.export.builder import Builder, element_of, shape_of
from mlopt.export.composites.formula import number_of, result_of
from mlopt.export.composites.registry import Composite, composite, is_one_node


@composite(graph.MaxOp, graph.MinOp)
def extremum(builder: Builder, op: Operation) -> Composite | None:
    """A chain of Max or Min is one, in any order."""
    links = _links(op, sides=(0, 1))
    return None if len(links) < 2 else Composite(op.name[6:].title(), links, _leaves(links))


@composite(graph.AddOp)
def sum_of_one_node(builder: Builder, op: Operation) -> Composite | None:
    """A chain of Add that was one node is Sum; others stay, as engines look for them around norms and products."""
    links = _links(op)
    if len(links) < 2 or not is_one_node(links) or not is_float(element_of(result_of(op))):
        return None
    return Composite("Sum", links, _leaves(links))


@composite(graph.DivOp, graph.MulOp)
def mean(builder: Builder, op: Operation) -> Composite | None:
    """A sum divided by how many there are, or multiplied by the inverse where that is exact."""
    result = result_of(op)
    if not isinstance(element_of(result), Float32Type):
        return None
    orders = (op.operands,) if isinstance(op, graph.DivOp) else (op.operands, op.operands[::-1])
    for total, count in orders:
        links = _links(total.owner) if isinstance(total.owner, graph.AddOp) else []
        number = number_of(count, builder)
        wanted = len(links) + 1 if isinstance(op, graph.DivOp) else 1 / (len(links) + 1)
        if links and number == wanted and total.type == result.type:
            return Composite("Mean", [op, *links], _leaves(links))
    return None


def _links(op: Operation, sides: Sequence[int] = (0,)) -> list[Operation]:
    """The operations of the same kind that lead to `op` through these operands and have no other user, last first."""
    links = [op]
    for side in sides:
        before = op.operands[side].owner
        if isinstance(before, type(op)) and before.parent is op.parent and op.operands[side].has_one_use():
            links += _links(before, sides)
    return links


def _leaves(links: Sequence[Operation]) -> list[SSAValue]:
    """What a chain combines, in its order."""
    inner: dict[SSAValue, Operation] = {result_of(link): link for link in links}

    def leaves(op: Operation) -> Iterator[SSAValue]:
        for operand in op.operands:
            if operand in inner:
                yield from leaves(inner[operand])
            else:
                yield operand

    return [*leaves(links[0])]


@composite(graph.AddOp, graph.MulOp, graph.TransposeOp, graph.MatMulOp)
def gemm(builder: Builder, op: Operation) -> Composite | None:
    """`alpha * A' @ B' + beta * C` of matrices; Gemm adds to the sums what MatMul rounds first."""
    result = result_of(op)
    if not isinstance(element_of(result), Float32Type | Float64Type):
        return None
    if not isinstance(op, graph.AddOp):
        return _scaled_product(builder, result, [])
    for product, addend in (op.operands, op.operands[::-1]):
        found = _scaled_product(builder, product, [op])
        if found is None or product.type != result.type:
            continue
        factor, addend, ops = _scaled(builder, addend)
        attributes = {**found.attributes, "beta": factor}
        return Composite("Gemm", [*found.ops, *ops], [*found.operands, addend], attributes)
    return None


def _scaled_product(builder: Builder, value: SSAValue, ops: Sequence[Operation]) -> Composite | None:
    """`alpha * A' @ B'`, as what follows `ops`; None for a product of matrices alone, or of nothing."""
    alpha, product, scaling = _scaled(builder, value)
    ops = [*ops, *scaling]
    outer, inner_transposed = product.owner, False
    if isinstance(outer, graph.TransposeOp) and len(shape_of(product)) == 2:
        ops, product, inner_transposed = [*ops, outer], outer.input, True
    matmul = product.owner
    if not isinstance(matmul, graph.MatMulOp) or 0 in (*shape_of(matmul.lhs), *shape_of(product)):
        return None
    if len(shape_of(matmul.lhs)) != 2 or len(shape_of(matmul.rhs)) != 2:
        return None
    ops = [*ops, matmul]
    sides: list[tuple[SSAValue, bool]] = []
    for side in (matmul.rhs, matmul.lhs) if inner_transposed else (matmul.lhs, matmul.rhs):
        move = side.owner
        if isinstance(move, graph.TransposeOp) and side.has_one_use() and move.parent is matmul.parent:
            ops = [*ops, move]
            sides.append((move.input, not inner_transposed))
        else:
            sides.append((side, inner_transposed))
    if all(isinstance(one, graph.MatMulOp) or _moves_constant(one) for one in ops):
        return None
    (a, trans_a), (b, trans_b) = sides
    return Composite("Gemm", ops, [a, b], {"alpha": alpha, "transA": int(trans_a), "transB": int(trans_b)})


def _moves_constant(op: Operation) -> bool:
    """Whether this is a transpose of a constant, which is written as an initializer."""
    return isinstance(op, graph.TransposeOp) and isinstance(op.input.owner, graph.ConstantOp)


def _scaled(builder: Builder, value: SSAValue) -> tuple[float, SSAValue, list[Operation]]:
    """A value as a number other than 0 times another value, and the multiplication; 1 times itself without one."""
    op = value.owner
    if isinstance(op, graph.MulOp) and value.has_one_use():
        for factor, scaled in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            number = number_of(factor, builder)
            if number and scaled.type == value.type:
                return number, scaled, [op]
    return 1.0, value, []
