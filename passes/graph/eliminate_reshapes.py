"""`eliminate-reshapes`: reshapes that other reshapes undo or go on with, also with operations between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_int, get_ints, int_attr, rank_of, shape_of, tensor_type
from mlopt.dialects.graph.reduction import reduced_shape
from mlopt.ir.context import CompilerContext
from mlopt.ir.names import copy_name
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.canonicalization import (
    DropIdentityMovement,
    MergeReshapes,
    TransposeBetweenReshapes,
)
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.reported import Reported
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

_ALONG_ROWS = (graph.SoftmaxBase, graph.CumulativeOp, graph.LayerNormOp, graph.RmsNormOp)
_MAX_LINKS = 64
"""Between two reshapes so many operations are looked through: the work on a long chain grows with its length only."""

_LOOK_BACK = 8
"""How many operations before a reshape are looked at for the remark that they are used elsewhere."""
_ELEMENTWISE = (graph.UnaryOp, graph.PredicateOp, graph.CastOp, graph.ClipOp)


class EliminateReshapesPass(Pass):
    """Reshape once what is reshaped twice.

    1. A reshape of a reshape is one; a reshape to the shape that there was goes.
    2. A reshape of a transpose of a reshape becomes one reshape, or none, if it keeps the dimensions together.
    3. With operations between two reshapes that work on rows, and whose results nothing else uses, these work on the
       rows as they were before the first: elementwise ones with constants or with scalars, softmax, normalizations,
       cumulative sums, products with a matrix. So a linear layer runs on `[batch, tokens, features]` without the
       reshapes to `[batch * tokens, features]` and back.

    4. A reduction that keeps its dimensions and is reshaped to drop them drops them, and the other way round.

    Not moved: what takes part in a dimension that a reshape changes. Elements are the same, and computed in the same
    way. Each rewrite lowers the number of reshapes, so the pass ends. Remarks: each rewrite, and where another use
    keeps two reshapes apart.
    """

    name = "eliminate-reshapes"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        rewrites: list[tuple[str, str, RewritePattern]] = [
            ("identities-dropped", "a reshape to the same shape is dropped", DropIdentityMovement()),
            ("reshapes-merged", "a reshape of a reshape is one reshape", MergeReshapes()),
            (
                "reshapes-merged",
                "two reshapes around a transpose are one or none",
                TransposeBetweenReshapes(),
            ),
            (
                "reductions-reshaped",
                "a reduction gives the shape that it is reshaped to",
                ReduceToShape(),
            ),
            ("rows-kept", "two reshapes around operations on rows are one or none", KeepRows()),
        ]
        patterns = [
            Reported(ctx, self.name, statistic, message, [graph.ReshapeOp], [pattern])
            for statistic, message, pattern in rewrites
        ]
        changed = rewrite_greedily(op, patterns, dce=True).changed
        for inner in op.walk():
            if isinstance(inner, graph.ReshapeOp) and (message := _why_not(inner)) is not None:
                ctx.remark(self.name, "missed", f"not merged: {message}", inner)
        return changed


def _why_not(op: graph.ReshapeOp) -> str | None:
    """Why a reshape was not merged with one before it, if another use is what stops it."""
    chain = _Chain.before(op, shared=_LOOK_BACK)
    if chain is None or chain.is_used_once() or chain.reshaped() is None:
        return None
    return "what stands between the two reshapes is used elsewhere too"


class ReduceToShape(RewritePattern):
    """reshape(reduce(x, keepdims)) -> reduce(x), or the other way round"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        reduction = op.input.owner
        if not isinstance(reduction, graph.ReductionOp) or not reduction.result.has_one_use():
            return
        axes = get_ints(reduction.properties, "axes") or ()
        keepdims = reduction.keepdims is None
        if reduced_shape(shape_of(reduction.input), axes, keepdims) == shape_of(op.result):
            rewriter.replace(op, type(reduction)(reduction.input, axes, keepdims=keepdims))
            rewriter.erase(reduction)


class KeepRows(RewritePattern):
    """reshape(f(reshape(x))) -> f(x), or reshape(f(x)), for an `f` that works on rows"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        chain = _Chain.before(op)
        if chain is None:
            return
        shapes = chain.reshaped()
        if shapes is None or not (shapes[-1] == shape_of(op.result) or chain.first.result.has_one_use()):
            return
        value: SSAValue = chain.first.input
        new: list[Operation] = []
        for (link, index), shape in zip(chain.links, shapes, strict=True):
            new.append(_rebuilt(link, index, value, shape))
            value = new[-1].results[0]
        if shapes[-1] != shape_of(op.result):
            new.append(graph.ReshapeOp(value, shape_of(op.result)))
        for old, made in zip((*(link for link, _ in chain.links[: len(new) - 1]), op), new, strict=True):
            copy_name(old.results[0], made.results[0])
        rewriter.replace(op, new)
        for link, _ in reversed(chain.links):
            rewriter.erase(link)
        if chain.first.result.first_use is None:
            rewriter.erase(chain.first)


@dataclass
class _Chain:
    """Operations from a reshape to another one: each with the position of the operand that the one before gives."""

    first: graph.ReshapeOp
    links: list[tuple[Operation, int]]

    @classmethod
    def before(cls, op: graph.ReshapeOp, *, shared: int = 0) -> _Chain | None:
        """The chain that ends in the operand of `op`, if it begins with a reshape, is not empty and not too long.

        Each operation feeds the next one only, but for the last `shared` ones, which may be used elsewhere too.
        """
        links: list[tuple[Operation, int]] = []
        owner = op.input.owner
        while isinstance(owner, graph.GraphOp) and (index := _row_operand(owner)) is not None:
            if len(links) == _MAX_LINKS or (len(links) >= shared and not owner.results[0].has_one_use()):
                return None
            links.append((owner, index))
            owner = owner.operands[index].owner
        if not links or not isinstance(owner, graph.ReshapeOp) or 0 in shape_of(owner.result):
            return None
        return cls(owner, links[::-1])

    def is_used_once(self) -> bool:
        """Does each operation feed the next one only?"""
        return all(link.results[0].has_one_use() for link, _ in self.links)

    def reshaped(self) -> list[tuple[int, ...]] | None:
        """The shape of each result without the first reshape; None if an operation does not work on rows only."""
        old, new = shape_of(self.first.result), shape_of(self.first.input)
        kept = 0  # so many dimensions, counted from the last one, are the same in both
        while kept < min(len(old), len(new)) and old[-1 - kept] == new[-1 - kept]:
            kept += 1
        shapes: list[tuple[int, ...]] = []
        for link, index in self.links:
            if not _works_on_rows(link, index, kept, min(len(old), len(new))):
                return None
            if isinstance(link, graph.MatMulOp):
                new = (*new[:-1], shape_of(link.result)[-1])
            shapes.append(new)
        return shapes


def _row_operand(op: graph.GraphOp) -> int | None:
    """The operand of whose rows the operation makes its own: the one that is no parameter; None if there are two."""
    match op:
        case graph.MatMulOp():
            return 0 if rank_of(op.rhs) == 2 and rank_of(op.lhs) >= 2 else None
        case graph.BinaryOp():
            for index, (operand, other) in enumerate(((op.lhs, op.rhs), (op.rhs, op.lhs))):
                parameter = is_constant(other) or rank_of(other) <= 1
                if parameter and not is_constant(operand) and shape_of(operand) == shape_of(op.result):
                    return index
            return None
        case _:
            return 0 if isinstance(op, _ELEMENTWISE + _ALONG_ROWS) else None


def _works_on_rows(op: Operation, index: int, kept: int, rank: int) -> bool:
    """Does the operation take no part in other than the last `kept` dimensions of its operand?

    `rank` is the lower one of the operand's ranks with and without the reshape.
    """
    if isinstance(op, graph.MatMulOp):
        return kept >= 1 and rank >= 2
    if isinstance(op, _ALONG_ROWS) and rank_of(op.results[0]) - get_int(op.properties, "axis") > kept:
        return False
    others = [operand for place, operand in enumerate(op.operands) if place != index]
    return all(rank_of(other) <= rank and _dimensions(shape_of(other)) <= kept for other in others)


def _dimensions(shape: Sequence[int]) -> int:
    """How many of the last dimensions there are without ones in front; none for a single element."""
    if prod(shape) == 1:
        return 0
    return len(shape) - next(axis for axis, size in enumerate(shape) if size != 1)


def _rebuilt(op: Operation, index: int, value: SSAValue, shape: Sequence[int]) -> Operation:
    """The operation with `value` as its operand `index` and a result of `shape`."""
    result = op.results[0]
    properties = dict(op.properties)
    if isinstance(op, _ALONG_ROWS):
        properties["axis"] = int_attr(get_int(properties, "axis") + len(shape) - rank_of(result))
    new = type(op).create(
        operands=[value if place == index else operand for place, operand in enumerate(op.operands)],
        properties=properties,
        attributes=op.attributes,
        result_types=[TensorType(tensor_type(result.type).element_type, shape)],
    )
    new.location = op.location
    return new
