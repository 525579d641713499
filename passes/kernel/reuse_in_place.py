"""`reuse-in-place`: let results overwrite tensors that die, where that is proved.

Inside a launch, a map that is the last to read an intermediate, element by element at the place it writes,
overwrites it, and the chain of a result is built in the launch's own out, so that intermediates need no memory of
their own.

Between launches, a launch that is the last to use an operand takes it as `outs` instead of `ins` and so computes its
result in the operand's memory. That needs, of operand and out:

1. the same type, and an out that is uninitialised so far;
2. memory that may be overwritten: no function argument, constant, or tensor from outside of the enclosing region
   (what a loop carries may be overwritten in its body, and an argument that is donated, unless the result is returned
   as another output than the one that it is donated to);
3. no later use of the operand, or of what may share its memory (reshapes, slices, what was updated in place before);
4. in the launch, every read of the operand happens before the out is first written, or in the same map, element by
   element at the place that it writes.

Values keep their SSA meaning whatever becomes of this: what bufferization can't prove again, it copies. Reports a
remark for each operand reused ("reused in place: ...") and for each launch that could not ("not reused ...").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlopt.diagnostics import RemarkKind
from mlopt.dialects.kernel import (
    NO_PAD,
    CallOp,
    FillOp,
    LaunchOp,
    MapOp,
    ReshapeOp,
)
from mlopt.ir.context import CompilerContext
from mlopt.ir.donations import donations_of, result_names
from mlopt.ir.rewrite_limit import may_rewrite, rewrote
from mlopt.passes.kernel.fusion_groups import describe_use, name_of
from mlopt.passes.kernel.launches import (
    blocks_with_launches,
    drop_in,
    drop_read,
    erase_if_unused,
    is_destination_use,
    is_empty,
    read_of,
)
from mlopt.passes.kernel.liveness import AliasClass, BlockLiveness
from mlopt.passes.kernel.reuse_in_launch import REUSE_IN_LAUNCH, is_carried, reuse_in_launch
from mlopt.passes.kernel.simplify_launch import merge_equal_ins, merge_equal_reads
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL


class ReuseInPlacePass(Pass):
    """Let results overwrite tensors that die, in launches and between them, where that is proved.

    The conditions stand in the module's documentation.
    """

    name = "reuse-in-place"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "merge-equal-reads": "A launch takes once what it is given, or reads, twice.",
        **REUSE_IN_LAUNCH,
        "reuse-operand": "A result of a launch overwrites an operand that dies there.",
    }

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        changed = False
        for block in blocks_with_launches(op):
            changed |= _BlockReuse(block, ctx).run()
        return changed


class _BlockReuse:
    def __init__(self, block: Block, ctx: CompilerContext):
        self.block = block
        self.ctx = ctx
        self.liveness = BlockLiveness(block)
        function = block.parent_op()
        self._main = function if isinstance(function, FuncOp) else None
        self._donated = {} if self._main is None else donations_of(self._main)
        self._checked: dict[AliasClass, int] = {}

    def run(self) -> bool:
        changed = False
        for launch in [op for op in self.block.ops if isinstance(op, LaunchOp)]:
            changed |= self._merge_equal(launch)
            changed |= reuse_in_launch(launch, self.ctx, ReuseInPlacePass.name)
            for position in range(len(launch.outs)):
                changed |= self._reuse_operand(launch, position)
        return changed

    def _merge_equal(self, launch: LaunchOp) -> bool:
        """Let a launch take once what it is given twice, so that nothing keeps it from being overwritten."""
        if not may_rewrite("merge-equal-reads", launch, certain=False):
            return False
        changed = merge_equal_ins(launch)
        for op in launch.body.ops:
            changed |= merge_equal_reads(op) if isinstance(op, MapOp) else False
        if changed:
            rewrote("merge-equal-reads")
            self._remark("passed", f"'{launch.kernel_name.data}' reads once what it read twice", launch)
        return changed

    def _reuse_operand(self, launch: LaunchOp, position: int) -> bool:
        """Let out `position` of a launch overwrite an operand that dies there, the first for which that is proved."""
        out = launch.outs[position]
        if not is_empty(out):
            return False
        missed: tuple[SSAValue, str] | None = None
        for index, value in enumerate(launch.ins):
            if value.type != out.type:
                continue
            obstacle = (
                self._obstacle_outside(launch, value)
                or self._donation_obstacle(launch.res[position], value)
                or obstacle_inside(launch, index, position)
            )
            if obstacle is None and may_rewrite("reuse-operand", launch):
                name = launch.kernel_name.data
                self._remark("passed", f"reused in place: '{name}' overwrites {name_of(value)}", launch)
                self.ctx.count(ReuseInPlacePass.name, "operands-in-place")
                self._overwrite(launch, index, position)
                return True
            if obstacle is not None:
                missed = missed or (value, obstacle)
        if missed is not None:
            name = launch.kernel_name.data
            self._remark(
                "missed", f"not reused in place: {name_of(missed[0])} by '{name}': {missed[1]}", launch
            )
            self.ctx.count(ReuseInPlacePass.name, "near-misses")
        return False

    def _obstacle_outside(self, launch: LaunchOp, value: SSAValue) -> str | None:
        """Why the memory of an operand may not be overwritten by a launch, as seen from outside of it."""
        obstacle = self._pinned_alias(value)
        if obstacle is not None:
            return obstacle
        now = self.liveness.position(launch)
        if self.liveness.last_use(value) > now:
            return f"it, or what shares its memory, is {self._later_use(value, now)}"
        if sum(self.liveness.may_alias(operand, value) for operand in launch.operands) > 1:
            return "the launch reads it, or what shares its memory, as another operand too"
        return None

    def _pinned_alias(self, value: SSAValue) -> str | None:
        """Why the memory that a tensor may live in does not belong to this block, if so."""
        aliases = self.liveness.alias_class(value)
        # Members are only ever added at the end, so those found free once need no second look.
        for member in aliases.members[self._checked.get(aliases, 0) :]:
            obstacle = self._pinned(member)
            if obstacle is not None:
                return (
                    obstacle if member is value else f"it may share memory with {name_of(member)}: {obstacle}"
                )
        self._checked[aliases] = len(aliases.members)
        return None

    def _pinned(self, value: SSAValue) -> str | None:
        """Why the memory of a tensor does not belong to this block, if so."""
        owner = value.owner
        if isinstance(value, BlockArgument) and value.block is self.block:
            is_free = is_carried(value) or value in self._donated
            return None if is_free else "it is an argument of the function"
        if not self.liveness.contains(owner):
            return "it comes from outside of the region"
        if isinstance(owner, Block | LaunchOp | CallOp | ReshapeOp | FillOp | EmptyOp) or owner.regions:
            return None
        return f"it is the result of '{owner.name}'"

    def _donation_obstacle(self, result: SSAValue, value: SSAValue) -> str | None:
        """Why a result may not lie in the input that an operand may lie in: it is returned as another output."""
        given = [self._donated[v] for v in self.liveness.alias_class(value).members if v in self._donated]
        if not given or self._main is None:
            return None
        returned = [use.index for use in result.uses if isinstance(use.operation, ReturnOp)]
        names = result_names(self._main)
        if not returned or any(donation.takes(names[i]) for donation in given for i in returned):
            return None
        return f'"{given[0].input}" is donated to "{given[0].output}", and it would be "{names[returned[0]]}"'

    def _later_use(self, value: SSAValue, now: int) -> str:
        for member in self.liveness.alias_class(value).members:
            for use in member.uses:
                if self.liveness.is_after(use.operation, now):
                    return describe_use(use.operation)
        return "used later"

    def _overwrite(self, launch: LaunchOp, index: int, position: int) -> None:
        """Pass operand `index` as out `position`."""
        value, out = launch.ins[index], launch.outs[position]
        argument = launch.out_args[position]
        writer = _first_writer(launch, argument)
        drop_in(launch, index, argument)
        launch.operands[len(launch.ins) + position] = value
        erase_if_unused(out)
        if isinstance(writer, MapOp):
            _read_as_destination(writer, argument)
        self.liveness.unite(value, launch.res[position])

    def _remark(self, kind: RemarkKind, message: str, launch: LaunchOp) -> None:
        self.ctx.remark(ReuseInPlacePass.name, kind, message, launch.location)


def obstacle_inside(launch: LaunchOp, index: int, position: int) -> str | None:
    """Why out `position` of a launch may not be operand `index`, as far as the launch's body is concerned."""
    source = launch.body.args[index]
    writer = _first_writer(launch, launch.out_args[position])
    if writer is None:
        return "the result is not built in the launch's out from the start"
    liveness = BlockLiveness(launch.body)
    now = liveness.position(writer)
    if liveness.last_use(source) > now:
        return "the launch reads it after its first write to the result"
    if any(
        is_destination_use(use.operation, use.index)
        for member in liveness.alias_class(source).members
        for use in member.uses
    ):
        return "the launch overwrites it otherwise"
    for use in liveness.uses_at(source, now):
        if use.operation is not writer or not isinstance(writer, MapOp):
            return "the launch reads it in another way while it writes the result"
        written = list(writer.outs).index(launch.out_args[position])
        read = read_of(writer, use.index)
        if read.pad != NO_PAD or read.access.without_unit_dims(writer.extents) != writer.out_accesses[
            written
        ].without_unit_dims(writer.extents):
            return "the launch reads it elsewhere than at the element it writes"
    return None


def _first_writer(launch: LaunchOp, argument: SSAValue) -> MapOp | FillOp | None:
    """The only op that takes an out of the launch as its destination, if it is a map or fill that only writes it."""
    uses = list(argument.uses)
    if len(uses) != 1 or not is_destination_use(uses[0].operation, uses[0].index):
        return None
    op = uses[0].operation
    if isinstance(op, MapOp):
        return op if op.body.args[uses[0].index].first_use is None and op.parent is launch.body else None
    return op if isinstance(op, FillOp) and op.parent is launch.body else None


def _read_as_destination(op: MapOp, argument: SSAValue) -> None:
    """Let a map that reads its own destination, element by element, take the elements from the destination."""
    position = list(op.outs).index(argument)
    while argument in op.ins:
        index = op.ins.index(argument)
        drop_read(op, index, op.body.args[len(op.ins) + position])
