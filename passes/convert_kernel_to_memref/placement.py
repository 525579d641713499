"""Which buffer every tensor lives in: the proof of every update in place.

A *storage* is one buffer to be. All tensors of a storage are successive contents of it (or views into it), so an
update in place of one destroys the others: it is allowed only if none of them can be read afterwards, in this
iteration of the enclosing loops or the next. What is not proved gets a storage of its own and a copy.

The proofs hold for engines that work in whole arrays, not only for loops over scalars: a structured op may read the
buffer that it writes only as the destination itself, element by element at the same place, or at places that it does
not write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xdsl.dialects import scf, tensor
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use
from xdsl.traits import IsTerminator

from mlopt.diagnostics import PassFailure
from mlopt.dialects import kernel
from mlopt.ir.effects import destinations
from mlopt.ir.locations import place_of_op
from mlopt.passes.convert_kernel_to_memref.operands import (
    DestinationOp,
    Loop,
    carried,
    is_read,
    is_tensor,
    puts_back,
    slice_of,
)


@dataclass(eq=False)
class Storage:
    """One buffer. `writable` is False for what belongs to the caller or is constant; `local` if it is allocated here.

    `block` is where a local storage is allocated. `members` are the tensors in it that may still be read.
    """

    writable: bool
    block: Block | None = None
    local: bool = False
    members: list[SSAValue] = field(default_factory=list[SSAValue])
    merged_into: Storage | None = None


class Placement:
    """The storages of all tensors of a block (of `@main` or of a launch) and what is nested in it."""

    def __init__(
        self,
        block: Block,
        arguments: Iterable[tuple[BlockArgument, bool]],
        slices: Iterable[BlockArgument] = (),
    ):
        """`arguments`: the tensor arguments of the block, each with whether it may be overwritten.

        `slices` are those that are parts of other buffers.
        """
        self._storage: dict[SSAValue, Storage] = {}
        self._partial: set[SSAValue] = {*slices}
        self._undefined: set[SSAValue] = set()
        self._copied: set[tuple[Operation, int]] = set()
        self._begin: dict[Operation, int] = {}
        self._end: dict[Operation, int] = {}
        self._last_reads: dict[SSAValue, int] = {}
        self._block = block
        self._number(block)
        for argument, writable in arguments:
            self._place(argument, Storage(writable))
        self._visit_block(block)

    # What the conversion asks

    def storage(self, value: SSAValue) -> Storage:
        """The storage that `value` lives in."""
        return _representative(self._storage[value])

    def in_place(self, op: Operation, position: int) -> bool:
        """Whether `op` may overwrite the buffer of its operand (a destination, or a loop's initial value)."""
        return (op, position) not in self._copied

    def is_whole(self, value: SSAValue) -> bool:
        """Whether `value` is all of its storage in row-major order, not a slice of it."""
        return value not in self._partial

    def is_content(self, value: SSAValue, argument: SSAValue) -> bool:
        """Whether `value` is all of the buffer of an argument, in row-major order."""
        return self.storage(value) is self.storage(argument) and self.is_whole(value)

    def is_undefined(self, value: SSAValue) -> bool:
        """Whether `value` holds no meaningful contents, so that there is nothing to copy."""
        return value in self._undefined

    def forward(self, value: SSAValue, target: Storage) -> bool:
        """Let `value` be computed right in `target`: possible if its storage is allocated here and is all of it.

        `target` must hold nothing that is read after that storage is first written.
        """
        storage = self.storage(value)
        target = _representative(target)
        if storage is target:
            return self.is_whole(value)
        if not storage.local or not self.is_whole(value):
            return False
        storage.merged_into = target
        target.members.extend(storage.members)
        return True

    # The walk: in program order, so all that a storage holds was defined before the op at hand

    def _number(self, block: Block) -> None:
        for op in block.ops:
            self._begin[op] = len(self._begin)
            if not isinstance(op, kernel.LaunchOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._number(inner)
            self._end[op] = len(self._begin) - 1

    def _visit_block(self, block: Block) -> None:
        for op in block.ops:
            self._visit(op)

    def _visit(self, op: Operation) -> None:
        match op:
            case tensor.EmptyOp():
                self._place(op.tensor, self._local_storage(op))
                self._undefined.add(op.tensor)
            case kernel.ConstantOp():
                self._place(op.result, Storage(writable=False))
            case kernel.CopyOp():
                self._place(op.result, self._local_storage(op))
            case kernel.ReshapeOp() | tensor.ExtractSliceOp():
                self._visit_view(op)
            case tensor.InsertSliceOp() if self._stays_put(op):
                self._place(op.result, self.storage(op.dest))
                self._inherit_view(op.dest, op.result)
            case (
                kernel.MapOp()
                | kernel.ReduceOp()
                | kernel.ContractOp()
                | kernel.FillOp()
                | kernel.LaunchOp()
                | kernel.CallOp()
                | tensor.InsertSliceOp()
            ):
                for position, result in destinations(op):
                    self._place(result, self._written(op, position))
                    if self.in_place(op, position):
                        self._inherit_view(op.operands[position], result)
            case scf.ForOp():
                self._visit_for(op)
            case scf.WhileOp():
                self._visit_while(op)
            case scf.IfOp():
                self._visit_if(op)
            case _:
                _refuse_tensors(op)

    def _visit_view(self, op: kernel.ReshapeOp | tensor.ExtractSliceOp) -> None:
        if isinstance(op, kernel.ReshapeOp) and not self.is_whole(op.source):
            self._place(op.result, self._local_storage(op))
            return
        self._place(op.result, self.storage(op.source))
        if isinstance(op, tensor.ExtractSliceOp):
            self._partial.add(op.result)
        if op.source in self._undefined:
            self._undefined.add(op.result)

    def _visit_for(self, op: scf.ForOp) -> None:
        for position, arg in carried(op):
            self._place(arg, self._written(op, position))
        self._visit_block(op.body.block)
        for (_, arg), result in zip(carried(op), filter(is_tensor, op.results), strict=True):
            self._place(result, self.storage(arg))

    def _visit_while(self, op: scf.WhileOp) -> None:
        for position, arg in carried(op):
            self._place(arg, self._written(op, position))
        self._visit_block(op.before_region.block)
        for passed, inside, result in passed_on(op):
            if self.dominates_loop(op, passed):
                storage = self.storage(passed)
            else:
                storage = self._local_storage(op)
                if self._is_allocated_in(passed, op.before_region.block):
                    self.forward(passed, storage)
            self._place(inside, storage)
            self._place(result, storage)
        self._visit_block(op.after_region.block)

    def _visit_if(self, op: scf.IfOp) -> None:
        results = [result for result in op.results if is_tensor(result)]
        for result in results:
            self._place(result, self._local_storage(op))
        for region in op.regions:
            for block in region.blocks:
                self._visit_block(block)
                for result, value in zip(
                    results, filter(is_tensor, _terminator(block).operands), strict=True
                ):
                    if self._is_allocated_in(value, block):
                        self.forward(value, self.storage(result))

    def dominates_loop(self, op: scf.WhileOp, passed: SSAValue) -> bool:
        """Whether what `scf.condition` passes on is a carried buffer as it is, or comes from outside of the loop."""
        if isinstance(passed.owner, Block):
            return passed.owner is op.before_region.block or not op.is_ancestor(passed.owner)
        return not op.is_ancestor(passed.owner)

    def _is_allocated_in(self, value: SSAValue, block: Block) -> bool:
        storage = self.storage(value)
        return storage.local and storage.block is block

    # Storages

    def _local_storage(self, op: Operation) -> Storage:
        return Storage(writable=True, local=True, block=op.parent)

    def _place(self, value: SSAValue, storage: Storage) -> None:
        self._storage[value] = storage
        _representative(storage).members.append(value)

    def _inherit_view(self, source: SSAValue, result: SSAValue) -> None:
        if source in self._partial:
            self._partial.add(result)

    def _written(self, op: DestinationOp | Loop, position: int) -> Storage:
        """The storage that `op` writes for its operand at `position`: the operand's own if that is proved safe."""
        if self._is_safe(op, position):
            return self.storage(op.operands[position])
        self._copied.add((op, position))
        return self._local_storage(op)

    def _stays_put(self, op: tensor.InsertSliceOp) -> bool:
        """Whether the slice was computed in place, so that inserting it moves nothing."""
        return puts_back(op) is not None and self.storage(op.source) is self.storage(op.dest)

    # The proof

    def _is_safe(self, op: DestinationOp | Loop, position: int) -> bool:
        storage = self.storage(op.operands[position])
        if not storage.writable or not self._own_operands_allow(op, position, storage):
            return False
        now = self._begin[op]
        storage.members[:] = [value for value in storage.members if self._last_read(value) >= now]
        return not any(
            self._reads_after(use, op, position, value)
            for value in storage.members
            if value not in self._undefined
            for use in value.uses
        )

    def _own_operands_allow(self, op: DestinationOp | Loop, position: int, storage: Storage) -> bool:
        """Whether the op itself reads the storage nowhere but through this operand, or only at the same place."""
        target = op.operands[position]
        written = [p for p, _ in (carried(op) if isinstance(op, Loop) else destinations(op))]
        for other, value in enumerate(op.operands):
            if other == position or not is_tensor(value) or self.storage(value) is not storage:
                continue
            if other in written:
                if other < position and self.in_place(op, other):
                    return False
                if other > position and value not in self._undefined and is_read(op, other):
                    return False
            elif value is not target or not (
                reads_same_elements(op, other, position) or reads_other_elements(op, other, position)
            ):
                return False
        return True

    def _reads_after(self, use: Use, writer: Operation, position: int, value: SSAValue) -> bool:
        """Whether `use` may read `value` after `writer` has overwritten it (through its operand at `position`)."""
        reader = use.operation
        if not is_read(reader, use.index):
            return False
        if reader is writer:
            # Its other operands were checked; run again by a loop, it reads what it has overwritten itself.
            return self._last_read_by(use, value) > self._begin[writer]
        if isinstance(reader, tensor.InsertSliceOp) and use.index == 1:
            taken = puts_back(reader)
            if taken is not None and slice_of(writer.operands[position]) is taken:
                return False
        return self._last_read_by(use, value) > self._begin[writer]

    def _last_read(self, value: SSAValue) -> int:
        """The last moment at which `value` may be read; its own definition's if it never is."""
        if value not in self._last_reads:
            moments = (
                self._last_read_by(use, value) for use in value.uses if is_read(use.operation, use.index)
            )
            self._last_reads[value] = max(moments, default=-1)
        return self._last_reads[value]

    def _last_read_by(self, use: Use, value: SSAValue) -> int:
        """When `use` reads `value` last: at the end of the outermost loop around it that `value` comes from outside of.

        What stands in the body of a structured op reads while that op runs.
        """
        moment = self._begin[use.operation]
        for ancestor in _ancestors(use.operation):
            if ancestor not in self._begin or ancestor.is_ancestor(_defining_op(value)):
                break
            if isinstance(ancestor, Loop | kernel.StructuredOp):
                moment = self._end[ancestor]
        return moment


def reads_same_elements(op: Operation, in_position: int, out_position: int) -> bool:
    """Whether a map reads this input exactly where it writes that out: element by element, at the same place."""
    if not isinstance(op, kernel.MapOp) or op.operands[in_position] is not op.operands[out_position]:
        return False
    accesses = op.accesses
    return op.pad_of(in_position) is None and accesses[in_position] == accesses[out_position]


def reads_other_elements(op: Operation, in_position: int, out_position: int) -> bool:
    """Whether a map reads, of the tensor that it writes, a range of elements of which it writes none."""
    if not isinstance(op, kernel.MapOp) or op.operands[in_position] is not op.operands[out_position]:
        return False
    read, written = op.accesses[in_position], op.accesses[out_position]
    if op.pad_of(in_position) is not None or any(len(row.dims) > 1 for row in read.rows):
        return False
    return 0 not in op.extents and any(
        last < first or high < low
        for (first, high), (low, last) in zip(
            read.extent(op.extents), written.extent(op.extents), strict=True
        )
    )


def passed_on(op: scf.WhileOp) -> Iterator[tuple[SSAValue, SSAValue, SSAValue]]:
    """The tensors that `scf.condition` passes on: as passed, as argument of the second region, as result."""
    condition = _terminator(op.before_region.block)
    for passed, inside, result in zip(
        condition.operands[1:], op.after_region.block.args, op.results, strict=True
    ):
        if is_tensor(passed):
            yield passed, inside, result


def _refuse_tensors(op: Operation) -> None:
    """Raise for an op on tensors that has no buffer form; loads and terminators have one."""
    if isinstance(op, tensor.ExtractOp) or op.has_trait(IsTerminator):
        return
    if any(is_tensor(value) for value in (*op.operands, *op.results)):
        raise PassFailure(f"'{op.name}' on tensors is no part of the kernel level", place=place_of_op(op))


def _representative(storage: Storage) -> Storage:
    while storage.merged_into is not None:
        storage = storage.merged_into
    return storage


def _terminator(block: Block) -> Operation:
    terminator = block.last_op
    assert terminator is not None
    return terminator


def _ancestors(op: Operation) -> Iterator[Operation]:
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def _defining_op(value: SSAValue) -> Operation:
    """An op inside every region that `value` is defined in, for ancestor queries."""
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    first = owner.first_op
    assert first is not None
    return first
