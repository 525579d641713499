"""`eliminate-casts`: casts that other casts undo or go on with, also with movements between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.names import copy_name
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.canonicalization import DropIdentityMovement, MergeCasts, merges
from mlopt.passes.graph.reported import Reported
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

Movement = graph.ReshapeOp | graph.TransposeOp | graph.SliceOp | graph.ExpandOp


class EliminateCastsPass(Pass):
    """Cast once what is cast twice, where every value of the type gives the same.

    1. Two casts are one if the first keeps every value (f32 to f64, i8 to i32, i1 to anything), if integers wrap
       twice (i64 to i32 to i8), and if an integer goes through floats that hold it (i16 to f32 to i16). A cast to
       the type that there was goes.
    2. So they are if movements stand between them that nothing else uses: reshape, transpose, slice and expand. Then
       the cast stands where it has fewer elements.

    Not merged: what rounds or truncates between (f64 to f32 to f64, f32 to i32 to f32, i64 to f32 to i64, f64 to f32
    to f16). The result is the same bit for bit. Each rewrite lowers the number of casts on a way through the graph, so
    the pass ends. Remarks: each rewrite, and each two casts that must stay.
    """

    name = "eliminate-casts"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        kinds = [graph.CastOp]
        patterns = [
            Reported(
                ctx,
                self.name,
                "identities-dropped",
                "a cast to the same type is dropped",
                kinds,
                [DropIdentityMovement()],
            ),
            Reported(
                ctx,
                self.name,
                "casts-merged",
                "two casts are one",
                kinds,
                [MergeCasts(), MergeAcrossMovements()],
            ),
        ]
        changed = rewrite_greedily(op, patterns, dce=True).changed
        for inner in op.walk():
            if isinstance(inner, graph.CastOp) and (message := _why_not(inner)) is not None:
                ctx.remark(self.name, "missed", f"not merged: {message}", inner)
        return changed


def _why_not(op: graph.CastOp) -> str | None:
    """Why a cast was not merged with the one before it, if there is one."""
    movements = list(_movements_before(op))
    first = movements[-1].input.owner if movements else op.input.owner
    if not isinstance(first, graph.CastOp):
        return None
    source, middle, target = _element(first.input), _element(first.result), _element(op.result)
    if merges(source, middle, target):
        return "what stands between the two casts is used elsewhere too"
    return f"{source} to {middle} to {target} is not {source} to {target} for every value"


@dataclass
class MergeAcrossMovements(RewritePattern):
    """cast(movement(cast(x))) -> cast(movement(x)), if the two casts merge and nothing else uses what is between"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.CastOp, rewriter: PatternRewriter, /) -> None:
        movements = list(_movements_before(op))
        first = movements[-1].input.owner if movements else None
        if not isinstance(first, graph.CastOp) or op.saturate is not None or op.round_mode is not None:
            return
        target = _element(op.result)
        if not merges(_element(first.input), _element(first.result), target):
            return
        if not all(value.has_one_use() for value in (op.input, *(m.input for m in movements))):
            return
        early = prod(shape_of(first.input)) < prod(shape_of(op.result))
        new: list[Operation] = []
        value = first.input
        if early:
            value = self._cast(value, target, new)
        for movement in reversed(movements):
            moved = _moved(movement, value)
            moved.location = movement.location
            copy_name(movement.result, moved.results[0])
            new.append(moved)
            value = moved.results[0]
        value = self._cast(value, target, new)
        rewriter.replace(op, new, [value])
        for dead in (*movements, first):
            rewriter.erase(dead)

    @staticmethod
    def _cast(value: SSAValue, target: Attribute, new: list[Operation]) -> SSAValue:
        """The value in the element type `target`."""
        if _element(value) == target:
            return value
        new.append(graph.CastOp(value, target))
        return new[-1].results[0]


def _movements_before(op: graph.CastOp) -> Iterator[Movement]:
    """The movements that lead to a cast, the last one first."""
    owner = op.input.owner
    while isinstance(owner, Movement):
        yield owner
        owner = owner.input.owner


def _moved(movement: Movement, value: SSAValue) -> Operation:
    """The same movement of a value of another element type."""
    return type(movement).create(
        operands=[value],
        properties=movement.properties,
        attributes=movement.attributes,
        result_types=[TensorType(_element(value), shape_of(movement.result))],
    )


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value.type).element_type
