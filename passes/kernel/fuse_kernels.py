"""`fuse-kernels`: merge launches that run better as one.

Rules, in the order in which they are tried on each launch, from the first to the last of a block, until nothing
changes:

1. A *movement* (transpose, slice, broadcast, copy, pad) goes into the index maps of all its users, if that is exact
   for all of them.
2. A launch is merged into the only user of its result:
   - into maps (bias, residual, activation, cast, transpose), if these read the result element by element, each once;
   - maps into what reads them, but not into a contraction, which would repeat them for every product, unless they
     copy rows from computed positions, and each element is in one product;
   - reductions of rows into reductions of the same rows.
3. A map that several launches read parts of is merged into each of them, which evaluates its part: if that is no more
   work, and what the map reads, which lives on, is no larger than its result.
4. A map of tensors of one shape and scalars (scale, activation, residual), or a transpose of axes that are reshaped
   together, moves above the reshape that it reads, where rule 2 applies to it.

Reshapes of reshapes are folded, so that they hide nothing.

Inside a merged launch maps become one map, so that intermediates vanish; a map of which parts are read is one map for
each part; what is put together from parts is put together where it is moved to; transposed intermediates are built
transposed. A launch keeps one contraction at most, no reductions beside it, and at most `max-ops` ops.

Not merged: a launch with a result that is used elsewhere or returned, that updates a tensor in place, or that holds
loops and tiles. Values keep their bits: scalar operations are moved, never changed. Reports a remark for each fusion
("fused ...") and for each near miss ("not fused: ...").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation

from mlopt.diagnostics import RemarkKind, counted
from mlopt.dialects.kernel import LaunchOp, ReshapeOp
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import nodes_text
from mlopt.ir.rewrite_limit import may_rewrite, rewrote
from mlopt.ir.rewrite_scope import is_enabled
from mlopt.passes.kernel.fusion_groups import (
    Merge,
    NearMiss,
    Rule,
    as_movement,
    judge,
    movement_obstacle,
    producers_of,
    rule_above,
)
from mlopt.passes.kernel.hoist_maps import find_hoist, fold_reshape, hoist, reshape_folds
from mlopt.passes.kernel.launches import Kind, blocks_with_launches, count_ops, kind_of
from mlopt.passes.kernel.merge_launches import absorb_into_users, merge_into
from mlopt.passes.kernel.selections import inline_selections
from mlopt.passes.kernel.simplify_launch import simplify_launch
from mlopt.passes.kernel.split_maps import copy_for, find_split
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL

MAX_NAME_LENGTH = 48
"""Characters of a merged launch's name; what is beyond is only counted."""


@dataclass(frozen=True)
class FuseKernelsPass(Pass):
    """Merge launches: movements into index maps, maps onto what computes or reads their operands, rows with rows.

    `max_ops`: how many ops a merged launch may hold, those in the bodies of its structured ops included. The rules
    stand in the module's documentation.
    """

    name = "fuse-kernels"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "fold-reshape": "A reshape of a reshape is one, and one that changes nothing goes.",
        "simplify-launch": "A launch is tidied: movements in it become index maps, what is not used goes.",
        "absorb-movement": "A launch that only moves elements becomes index maps of those that read it.",
        "merge-launches-chain": "Maps behind maps run in one launch.",
        "merge-launches-epilogue": "Maps run in the launch that computes what they read.",
        "merge-launches-prologue": "Maps run in the launch that reads what they compute.",
        "merge-launches-rows": "Reductions of rows run in one launch with what follows on the same rows.",
        "split-map": "A map of which several launches read parts runs in each of them, for its part.",
        "hoist-map": "A map behind a reshape runs before it, in the launch that computes what is reshaped.",
    }

    max_ops: int = 128

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        changed = False
        for block in blocks_with_launches(op):
            changed |= _BlockFusion(block, self.max_ops, ctx).run()
        return changed


def _rule_name(rule: Rule) -> str:
    """What merging by a rule is counted and switched off by."""
    return f"merge-launches-{rule.name.lower()}"


class _BlockFusion:
    """Fusion in one block. Launches are numbered once; a merged launch keeps the number of its last part."""

    def __init__(self, block: Block, max_ops: int, ctx: CompilerContext):
        self.block = block
        self.max_ops = max_ops
        self.ctx = ctx
        self.numbers: dict[LaunchOp, int] = {}
        self.names: dict[LaunchOp, tuple[str, ...]] = {}

    def run(self) -> bool:
        changed = self._fold_reshapes()
        launches = [op for op in self.block.ops if isinstance(op, LaunchOp)]
        for number, launch in enumerate(launches):
            self._register(launch, number, (launch.kernel_name.data,))
        changed |= self._simplify_all(launches)
        while self._sweep(launches) or self._split_maps(launches):
            changed = True
            launches = [op for op in self.block.ops if isinstance(op, LaunchOp)]
        self._report_near_misses(launches)
        return changed

    def _register(self, launch: LaunchOp, number: int, names: tuple[str, ...]) -> None:
        self.numbers[launch] = number
        self.names[launch] = names

    def _fold_reshapes(self) -> bool:
        changed = False
        for op in list(self.block.ops):
            if not isinstance(op, ReshapeOp) or op.parent is not self.block or not reshape_folds(op):
                continue
            if may_rewrite("fold-reshape", op):
                self._remark("passed", f"folded a reshape{nodes_text(op.location)}", op.location)
                fold_reshape(op)
                changed = True
        return changed

    def _simplify_all(self, launches: Iterable[LaunchOp]) -> bool:
        changed = False
        for launch in launches:
            if kind_of(launch) is Kind.OPAQUE or not may_rewrite("simplify-launch", launch, certain=False):
                continue
            before = _size_of(launch)
            if simplify_launch(launch):
                rewrote("simplify-launch")
                what = f"simplified {describe(launch)}: {before} became {_size_of(launch)}"
                self._remark("passed", what, launch.location)
                changed = True
        return changed

    def _sweep(self, launches: Iterable[LaunchOp]) -> bool:
        changed = False
        for launch in launches:
            pending = [launch]
            while pending:
                current = pending.pop()
                if current.parent is self.block:
                    following = self._visit(current)
                    changed |= following is not None
                    pending.extend(following or ())
        return changed

    def _visit(self, launch: LaunchOp) -> Sequence[LaunchOp] | None:
        """Apply one rule to a launch; returns the launches to look at next, or None if no rule applied."""
        if self._absorb_movement(launch):
            return ()
        merge = self._choose(launch)
        if merge is not None and self._merge(merge):
            return (launch,)
        return self._hoist(launch)

    def _absorb_movement(self, launch: LaunchOp) -> bool:
        movement = as_movement(launch)
        if (
            movement is None
            or launch.res[0].first_use is None
            or movement_obstacle(launch, movement) is not None
            or not may_rewrite("absorb-movement", launch)
        ):
            return False
        described, location = describe(launch), launch.location
        users = absorb_into_users(launch, movement)
        for user in users:
            simplify_launch(user)
        readers = ", ".join(describe(user) for user in users)
        self._remark("passed", f"fused {described} into the index maps of {readers}", location)
        self._count("movements-absorbed")
        return True

    def _choose(self, launch: LaunchOp) -> Merge | None:
        """The producer to merge into a launch first: the last one that may be."""
        verdicts = (judge(producer, launch, self.max_ops) for producer in producers_of(launch))
        merges = [each for each in verdicts if isinstance(each, Merge) and is_enabled(_rule_name(each.rule))]
        return max(merges, key=lambda merge: self.numbers[merge.producer], default=None)

    def _merge(self, merge: Merge) -> bool:
        producer, consumer = merge.producer, merge.consumer
        if not may_rewrite(_rule_name(merge.rule), consumer):
            return False
        self._remark("passed", f"fused {describe(producer)} with {describe(consumer)}", consumer.location)
        self._count(merge.rule.value)
        self._merge_into(producer, consumer)
        return True

    def _merge_into(self, producer: LaunchOp, consumer: LaunchOp) -> None:
        merge_into(producer, consumer)
        inline_selections(consumer)
        simplify_launch(consumer)
        self.names[consumer] = self.names.pop(producer) + self.names[consumer]
        consumer.properties["kernel_name"] = StringAttr(joined_name(self.names[consumer]))

    def _split_maps(self, launches: Iterable[LaunchOp]) -> bool:
        changed = False
        for launch in launches:
            merges = find_split(launch, self.max_ops) if launch.parent is self.block else None
            if merges is None or not all(is_enabled(_rule_name(merge.rule)) for merge in merges):
                continue
            if not may_rewrite("split-map", launch):
                continue
            readers = ", ".join(describe(merge.consumer) for merge in merges)
            self._remark(
                "passed", f"fused {describe(launch)} with each reader of a part: {readers}", launch.location
            )
            self._count("maps-split")
            for merge in merges:
                is_last = launch.res[0].has_one_use()
                producer = launch if is_last else copy_for(launch, merge.consumer)
                self._register(producer, self.numbers[launch], self.names[launch])
                self._merge_into(producer, merge.consumer)
            changed = True
        return changed

    def _hoist(self, launch: LaunchOp) -> Sequence[LaunchOp] | None:
        found = find_hoist(launch)
        rule = None if found is None else rule_above(found, self.max_ops)
        # What moves is merged then; where that is switched off, nothing would be gained.
        if found is None or rule is None or not is_enabled(_rule_name(rule)):
            return None
        if not may_rewrite("hoist-map", launch):
            return None
        number, names = self.numbers[launch], self.names[launch]
        described = describe(launch)
        above, movement = hoist(found)
        self._register(above, number, names)
        if movement is not None:
            self._register(movement, number, (movement.kernel_name.data,))
        self._remark("passed", f"moved {described} above the reshape it reads", above.location)
        self._count("maps-hoisted")
        merge = judge(found.producer, above, self.max_ops)
        assert isinstance(merge, Merge) and merge.rule is rule
        self._merge(merge)
        return (above,) if movement is None else (movement, above)

    def _report_near_misses(self, launches: Iterable[LaunchOp]) -> None:
        for launch in launches:
            for producer in producers_of(launch):
                verdict = judge(producer, launch, self.max_ops)
                if isinstance(verdict, NearMiss):
                    self._remark(
                        "missed",
                        f"not fused: {describe(producer)} with {describe(launch)}: {verdict.reason}",
                        producer.location,
                    )
                    self._count("near-misses")

    def _remark(self, kind: RemarkKind, message: str, location: Attribute) -> None:
        self.ctx.remark(FuseKernelsPass.name, kind, message, location)

    def _count(self, statistic: str) -> None:
        self.ctx.count(FuseKernelsPass.name, statistic)


def describe(launch: LaunchOp) -> str:
    """A launch for the reader of a remark: its name, and the first and last of the model's nodes that it came from."""
    return f"'{launch.kernel_name.data}'{nodes_text(launch.location)}"


def _size_of(launch: LaunchOp) -> str:
    """How much a launch reads and does, for the reader of a remark."""
    return f"{counted(count_ops(launch), 'op')} on {counted(len(launch.ins), 'tensor')}"


def joined_name(names: tuple[str, ...]) -> str:
    """The name of a launch merged from launches of these names, the same for the same names: `matmul_add_relu`.

    A name that follows itself stands once. Where the whole would be too long, the rest is counted.
    """
    parts = [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    kept = len(parts)
    while kept > 1 and len(_name_of(parts, kept)) > MAX_NAME_LENGTH:
        kept -= 1
    return _name_of(parts, kept)


def _name_of(parts: Sequence[str], kept: int) -> str:
    rest = len(parts) - kept
    return "_".join(parts[:kept]) + (f"_and_{rest}_more" if rest else "")
