"""`eliminate-slices`: slices, splits, pads and concats that undo each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.canonicalization import DropIdentityMovement, SimplifyConcat, SplitInOne
from mlopt.passes.graph.reported import Reported
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

Range = tuple[int, int, int]
"""First index, number of elements, and step, along one dimension."""


class EliminateSlicesPass(Pass):
    """Read from where the elements come from, instead of from slices, concats and pads of it.

    1. A slice of a slice, or of a part of a split, is one slice; steps may be negative.
    2. A slice of a concat that lies in one operand is a slice of that operand. If it has whole operands, and nothing
       else uses the concat, it is a concat of those. A part of a split of a concat, likewise, if it is one operand.
    3. Neighbours in a concat that are neighbours in what they were cut from are cut out in one; all of it is the
       operand itself.
    4. A concat along the same axis, that only another concat uses, is taken into that.
    5. A slice of a pad is a slice where it has no padding. With padding it is a pad of less, if only it uses the pad.

    The result is the same bit for bit. Each rewrite lowers the number of operands of concats, or else that of movements
    between a slice and what it reads from, so the pass ends. Remarks: each rewrite, and where another use stops one.
    """

    name = "eliminate-slices"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        ends = Ends()
        rewrites: list[tuple[str, str, type[Operation], RewritePattern]] = [
            ("identities-dropped", "a slice of everything is dropped", graph.SliceOp, DropIdentityMovement()),
            ("slices-merged", "a slice of a slice is one slice", graph.SliceOp, SliceOfSlice(ends)),
            (
                "concats-read-through",
                "a slice of a concat reads its operand",
                graph.SliceOp,
                SliceOfConcat(ends),
            ),
            ("concats-read-through", "a part of a concat is its operand", graph.SplitOp, SplitOfConcat(ends)),
            ("pads-read-through", "a slice of a pad takes less padding", graph.SliceOp, SliceOfPad(ends)),
            ("splits-dropped", "a split into one part is dropped", graph.SplitOp, SplitInOne()),
            ("concats-flattened", "a concat is taken into another", graph.ConcatOp, ConcatOfConcat()),
            ("neighbours-joined", "neighbours are cut out in one", graph.ConcatOp, ConcatOfNeighbours(ends)),
            ("concats-dropped", "a concat takes nothing that is empty", graph.ConcatOp, SimplifyConcat()),
        ]
        patterns = [
            Reported(ctx, self.name, statistic, message, [kind], [pattern])
            for statistic, message, kind, pattern in rewrites
        ]
        changed = rewrite_greedily(op, patterns, dce=True).changed
        for inner in op.walk():
            if (obstacle := _obstacle(inner, ends)) is not None:
                ctx.remark(self.name, "missed", f"not merged: {obstacle}", inner)
        return changed


def _obstacle(op: Operation, ends: Ends) -> str | None:
    """Why a movement was not merged with the one that it reads, if other uses are all that stops it."""
    match op:
        case graph.ConcatOp():
            axis = op.axis.value.data
            inner = [operand.owner for operand in op.inputs]
            if any(isinstance(o, graph.ConcatOp) and o.axis.value.data == axis for o in inner):
                return "the concat that it takes is used elsewhere too"
        case graph.SliceOp() if isinstance(op.input.owner, graph.PadOp) and _has_steps_of_one(op):
            if _pad_of_less(op, op.input.owner) is not None:
                return "the pad that it reads is used elsewhere too"
        case graph.SliceOp() if isinstance(op.input.owner, graph.ConcatOp):
            if _whole_operands(op, op.input.owner, ends):
                return "the concat that it reads is used elsewhere too"
        case _:
            pass
    return None


class Ends:
    """Where the operands of concats and the parts of splits end along the axis, added up once for each operation."""

    def __init__(self) -> None:
        self._ends: dict[Operation, list[int]] = {}

    def of(self, op: graph.ConcatOp | graph.SplitOp) -> list[int]:
        """The index after the last of each operand or part."""
        if op not in self._ends:
            pieces = op.inputs if isinstance(op, graph.ConcatOp) else op.parts
            self._ends[op] = list(accumulate(shape_of(piece)[op.axis.value.data] for piece in pieces))
        return self._ends[op]

    def spans(self, op: graph.ConcatOp | graph.SplitOp) -> list[tuple[int, int]]:
        """The first index of each operand or part, and the one after its last."""
        ends = self.of(op)
        return list(zip([0, *ends], ends, strict=False))

    def cut(self, value: SSAValue) -> tuple[SSAValue, list[Range]] | None:
        """What a value was cut from by a slice or split, and its range in each dimension."""
        match value.owner:
            case graph.SliceOp():
                return value.owner.input, ranges_of(value.owner)
            case graph.SplitOp() if isinstance(value, OpResult):
                axis = value.owner.axis.value.data
                start = self.of(value.owner)[value.index] - shape_of(value)[axis]
                sizes = enumerate(shape_of(value))
                return value.owner.input, [(start if i == axis else 0, size, 1) for i, size in sizes]
            case _:
                return None


def ranges_of(op: graph.SliceOp) -> list[Range]:
    """The range of a slice in each dimension."""
    return [(start, len(range(start, stop, step)), step) for start, stop, step in op.ranges]


@dataclass
class _CutPattern(RewritePattern):
    """Base of the rewrites that ask where operands and parts end."""

    ends: Ends


class SliceOfSlice(_CutPattern):
    """slice(slice(x)) -> slice(x); slice(part of split(x)) -> slice(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SliceOp, rewriter: PatternRewriter, /) -> None:
        cut = self.ends.cut(op.input)
        if cut is None:
            return
        source, inner = cut
        ranges = [
            (start + step * outer_start, size, step * outer_step)
            for (start, _, step), (outer_start, size, outer_step) in zip(inner, ranges_of(op), strict=True)
        ]
        replace_with_slice(op, source, ranges, rewriter)


def slice_of(source: SSAValue, ranges: Sequence[Range]) -> graph.SliceOp:
    """The slice with these ranges, which are within the operand."""
    numbers = [_plain(*own, size) for own, size in zip(ranges, shape_of(source), strict=True)]
    return graph.SliceOp(source, [n[0] for n in numbers], [n[1] for n in numbers], [n[2] for n in numbers])


def replace_with_slice(
    op: graph.SliceOp, source: SSAValue, ranges: Sequence[Range], rewriter: PatternRewriter
) -> None:
    """Replace `op` by the slice of `source` with these ranges, or by `source` if that is all of it."""
    if is_everything(source, ranges):
        rewriter.replace(op, [], [source])
    else:
        rewriter.replace(op, slice_of(source, ranges))


def is_everything(source: SSAValue, ranges: Sequence[Range]) -> bool:
    """Are these ranges all of the value, in the same sequence?"""
    return all(
        size == extent and (step == 1 or size <= 1)
        for (_, size, step), extent in zip(ranges, shape_of(source), strict=True)
    )


def _plain(start: int, size: int, step: int, extent: int) -> tuple[int, int, int]:
    """Start, stop and step; steps only where there are several elements."""
    if size == 0:
        return 0, 0, 1
    if size == 1:
        return start, start + 1, 1
    last = start + (size - 1) * step
    return start, min(last + 1, extent) if step > 0 else last - 1, step


class SliceOfConcat(_CutPattern):
    """slice(concat(a, b, c)) -> slice(b), or concat(b, c), if that is where its elements are"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SliceOp, rewriter: PatternRewriter, /) -> None:
        concat = op.input.owner
        if not isinstance(concat, graph.ConcatOp):
            return
        axis = concat.axis.value.data
        ranges = ranges_of(op)
        start, size, step = ranges[axis]
        low, high = sorted((start, start + max(size - 1, 0) * step))
        ends = self.ends.of(concat)
        index = bisect_right(ends, low)
        if size and high < ends[index]:
            operand = concat.inputs[index]
            ranges[axis] = (start - ends[index] + shape_of(operand)[axis], size, step)
            replace_with_slice(op, operand, ranges, rewriter)
            return
        operands = _whole_operands(op, concat, self.ends)
        if operands and concat.result.has_one_use():
            joined = graph.ConcatOp(operands, axis)
            ranges[axis] = (0, size, 1)
            rewriter.replace(op, [joined, slice_of(joined.result, ranges)])


def _whole_operands(op: graph.SliceOp, concat: graph.ConcatOp, ends: Ends) -> list[SSAValue]:
    """The operands of the concat that the slice has along the axis, if it has whole ones, and not all."""
    start, stop, step = op.ranges[concat.axis.value.data]
    spans = zip(concat.inputs, ends.spans(concat), strict=True)
    inside = [(value, span) for value, span in spans if start <= span[0] and span[1] <= stop]
    if (
        step != 1
        or len(inside) in (0, len(concat.inputs))
        or (inside[0][1][0], inside[-1][1][1]) != (start, stop)
    ):
        return []
    return [value for value, _ in inside]


class SplitOfConcat(_CutPattern):
    """a part of split(concat(a, b), axis) along the same axis -> a, if it is all of a"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SplitOp, rewriter: PatternRewriter, /) -> None:
        concat, axis = op.input.owner, op.axis.value.data
        if not isinstance(concat, graph.ConcatOp) or concat.axis.value.data != axis:
            return
        operands = dict(zip(self.ends.spans(concat), concat.inputs, strict=True))
        for part, span in zip(op.parts, self.ends.spans(op), strict=True):
            if span in operands and part.first_use is not None:
                rewriter.replace_all_uses_with(part, operands[span])


class SliceOfPad(_CutPattern):
    """slice(pad(x)) -> slice(x), or pad(x) with other widths if only the slice uses the pad"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SliceOp, rewriter: PatternRewriter, /) -> None:
        pad = op.input.owner
        if not isinstance(pad, graph.PadOp):
            return
        shape = shape_of(pad.input)
        ranges = [
            (start - low, size, step)
            for (start, size, step), (low, _) in zip(ranges_of(op), pad.widths, strict=True)
        ]
        if all(_within(own_range, size) for own_range, size in zip(ranges, shape, strict=True)):
            replace_with_slice(op, pad.input, ranges, rewriter)
        elif pad.result.has_one_use() and (widths := _pad_of_less(op, pad)) is not None:
            low, high = zip(*widths, strict=True)
            rewriter.replace(op, graph.PadOp(pad.input, low, high, pad.value))


def _within(own: Range, extent: int) -> bool:
    """Are all indices of a range at least 0 and below `extent`?"""
    start, size, step = own
    return size == 0 or all(0 <= index < extent for index in (start, start + (size - 1) * step))


def _has_steps_of_one(op: graph.SliceOp) -> bool:
    return all(step == 1 for _, _, step in op.ranges)


def _pad_of_less(op: graph.SliceOp, pad: graph.PadOp) -> list[tuple[int, int]] | None:
    """The widths of a pad that gives what the slice has of `pad`; None for other steps than 1, or padding only."""
    widths: list[tuple[int, int]] = []
    sizes = zip(op.ranges, pad.widths, shape_of(op.input), shape_of(pad.input), strict=True)
    for (start, stop, step), (low, high), padded, size in sizes:
        low, high = low - start, high - (padded - stop)
        if step != 1 or size + min(low, 0) + min(high, 0) < 0:
            return None
        widths.append((low, high))
    return widths


class ConcatOfConcat(RewritePattern):
    """concat(a, concat(b, c)) along one axis -> concat(a, b, c), if nothing else uses the inner one

    Concats in concats in concats go at once, into the last one: one after the other would copy operands each time.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ConcatOp, rewriter: PatternRewriter, /) -> None:
        if self._is_taken(op):
            return
        operands: list[SSAValue] = []
        pending = list(reversed(op.inputs))
        while pending:
            operand = pending.pop()
            inner = operand.owner
            if isinstance(inner, graph.ConcatOp) and inner.axis == op.axis and operand.has_one_use():
                pending += reversed(inner.inputs)
            else:
                operands.append(operand)
        if len(operands) > len(op.inputs):
            rewriter.replace(op, graph.ConcatOp(operands, op.axis.value.data))

    def _is_taken(self, op: graph.ConcatOp) -> bool:
        """Is its only use a concat along the same axis?"""
        use = op.result.get_user_of_unique_use()
        return isinstance(use, graph.ConcatOp) and use.axis == op.axis


class ConcatOfNeighbours(_CutPattern):
    """concat(x[0:2], x[2:5]) -> x[0:5], where that is all, or all of x, or where one of the two slices goes"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ConcatOp, rewriter: PatternRewriter, /) -> None:
        runs = self._runs(op)
        new: list[Operation] = []
        operands: list[SSAValue] = []
        for values, cut in runs:
            if cut is None or len(values) == 1:
                operands += values
                continue
            if is_everything(*cut):
                operands.append(cut[0])
            elif len(runs) == 1 or any(
                isinstance(v.owner, graph.SliceOp) and v.has_one_use() for v in values
            ):
                joined = slice_of(*cut)
                new.append(joined)
                operands.append(joined.result)
            else:
                operands += values
        if len(operands) == len(op.inputs):
            return
        if len(operands) == 1:
            rewriter.replace(op, new, operands)
        else:
            rewriter.replace(op, [*new, graph.ConcatOp(operands, op.axis.value.data)])

    def _runs(self, op: graph.ConcatOp) -> list[tuple[list[SSAValue], tuple[SSAValue, list[Range]] | None]]:
        """The operands in groups that are neighbours in one value, each with its range of that value if it was cut."""
        runs: list[tuple[list[SSAValue], tuple[SSAValue, list[Range]] | None]] = []
        for operand in op.inputs:
            cut = self.ends.cut(operand)
            if runs and cut is not None and (before := runs[-1][1]) is not None and before[0] == cut[0]:
                joined = _join(before[1], cut[1], op.axis.value.data)
                if joined is not None:
                    runs[-1][0].append(operand)
                    runs[-1] = (runs[-1][0], (cut[0], joined))
                    continue
            runs.append(([operand], cut))
        return runs


def _join(first: list[Range], second: list[Range], axis: int) -> list[Range] | None:
    """The ranges of two cuts one after the other along the axis, if the second goes on where the first one ends."""
    if [*first[:axis], *first[axis + 1 :]] != [*second[:axis], *second[axis + 1 :]]:
        return None
    (start, size, step), (next_start, next_size, next_step) = first[axis], second[axis]
    if size == 0 or next_size == 0:
        return None
    step = next_start - start if size == 1 and next_size == 1 else step if next_size == 1 else next_step
    if (size > 1 and step != first[axis][2]) or next_start != start + size * step or step == 0:
        return None
    return [*first[:axis], (start, size + next_size, step), *first[axis + 1 :]]
