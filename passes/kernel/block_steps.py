"""A block of the kernel level as steps and the memory that they use: the memory model that schedules are made with.

- *Steps* are the ops that run: launches, run-time functions, control flow, loads. Constants, uninitialised tensors,
  views and scalars cost nothing; they go where they are first needed.
- *Values* are storages, alias classes of tensors: views, results and the destinations that they overwrite, what a loop
  carries. A result whose destination is uninitialised begins one. Bytes are rounded up to the alignment.
- *Nothing in the arena*: what the caller holds (arguments, results of `@main`), constants, what an enclosing region
  holds, what lies in another memory space. What overwrites one of these is a copy, a storage of its own, but for an
  argument that is donated.
- *Workspaces*: the most bytes that what stands in an op takes, in its order. Scratch of the engine is not known here,
  unless a function tells how much a launch or a run-time function takes in all.
- *Order*: a step runs after those whose results it uses; an update in place after what reads the old contents, and
  before what uses the new ones; what has effects, or may stop the run, after all before it and before all after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects import func, scf
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from mlopt.dialects.kernel import (
    ConstantOp,
    CopyOp,
    LaunchOp,
    StructuredOp,
    SymbolicKernel,
    YieldOp,
    tensor_type,
)
from mlopt.ir.donations import donations_of
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.effects import aliases_of, destinations, effects_of, is_buffer
from mlopt.ir.memory_spaces import ARENA_SPACE
from mlopt.memory import align_up
from mlopt.memory.steps import Step, StepGraph, Value, peak_of
from mlopt.passes.kernel.launches import is_empty

WorkspaceOf: TypeAlias = Callable[[SymbolicKernel], int]
"""The bytes that a launch or a run-time function works in, its own temporaries included."""


class BlockSteps:
    """The steps of a block, in the order in which they stand there, as a `StepGraph`.

    The last step is the terminator. It yields what the block's op takes over: no storage of this block, but for loops,
    whose next iteration must find it. `workspace_of` tells what launches and run-time functions work in (default: the
    temporaries of launches). `space`: the memory space in which bytes are counted.
    """

    def __init__(
        self,
        block: Block,
        alignment: int,
        workspace_of: WorkspaceOf | None = None,
        space: int = ARENA_SPACE,
    ):
        self._block = block
        self._alignment = alignment
        self._workspace_of = workspace_of
        self._space = space
        self._barriers = {op for op in block.ops if _is_barrier(op)}
        self.ops: list[Operation] = [
            op for op in block.ops if op in self._barriers or not _is_carried_along(op)
        ]
        self._position = {op: position for position, op in enumerate(self.ops)}
        self._uses = {op: _values_used(op) for op in block.ops}
        self._storages = _Storages(block, space)
        self._written = self._writers()
        self.graph = self._build()

    @property
    def writers(self) -> tuple[int, ...]:
        """Of each value of the graph how many steps write it."""
        return tuple(
            len(self._written.get(storage, ()))
            for storage in self._users()
            if not self._storages.is_elsewhere(storage)
        )

    def tensors(self) -> list[list[SSAValue]]:
        """What each value of the graph holds, one after the other or under other shapes, in program order."""
        storages = [s for s in self._users() if not self._storages.is_elsewhere(s)]
        held: dict[SSAValue, list[SSAValue]] = {storage: [] for storage in storages}
        for op in self._block.ops:
            for value in _tensors(op.results):
                storage = self._storages.of(value)
                if storage in held and not is_empty(value):
                    held[storage].append(value)
        return list(held.values())

    def step_at(self, op: Operation) -> int | None:
        """The step that an op of the block is; None for one that goes along."""
        return self._position.get(op)

    def in_block(self, op: Operation) -> Operation:
        """The op of the block that an op is, or stands in."""
        while op.parent is not self._block:
            around = op.parent_op()
            assert around is not None
            op = around
        return op

    def reads_stay(self, step: int) -> bool:
        """Whether no later step writes to what a step uses, so that it could run again with the same result."""
        storages = (self._storages.of(value) for value in _tensors(self._uses[self.ops[step]]))
        return all(max(self._written.get(storage, (step,))) <= step for storage in storages)

    def peak(self) -> int:
        """The most bytes live at once, in the order in which the steps stand in the block."""
        return peak_of(self.graph, range(len(self.ops)))

    def first_moved(self, order: Sequence[int]) -> Operation:
        """The first step of an order that is not the one as it is: what comes to run earlier than it did."""
        return next(self.ops[step] for now, step in enumerate(order) if now != step)

    def reorder(self, order: Sequence[int]) -> None:
        """Put the steps in this order, each behind what it alone needs of what goes along.

        What goes along and nothing needs stands behind what it uses itself.
        """
        last = self.ops[order[-1]]
        placed: set[Operation] = set()
        sequence: list[Operation] = []
        for step in order:
            pending = [self.ops[step]]
            while pending:
                op = pending[-1]
                needed = [o for o in self._makers(op) if o not in self._position and o not in placed]
                if needed:
                    pending += reversed(needed)
                    continue
                pending.pop()
                if op not in placed:
                    placed.add(op)
                    sequence.append(op)
        for op in self._with_unused(sequence, placed)[:-1]:
            op.detach()
            self._block.insert_op_before(op, last)

    def _with_unused(self, sequence: Sequence[Operation], placed: set[Operation]) -> list[Operation]:
        """The sequence with all other ops of the block, each behind the last op that makes what it uses."""
        number = {op: index for index, op in enumerate(sequence)}
        behind: dict[int, list[Operation]] = {}
        for op in self._block.ops:
            if op not in placed:
                number[op] = max((number[maker] for maker in self._makers(op)), default=-1)
                behind.setdefault(number[op], []).append(op)
        together = list(behind.get(-1, ()))
        for index, op in enumerate(sequence):
            together += (op, *behind.get(index, ()))
        return together

    def _makers(self, op: Operation) -> Iterator[Operation]:
        """The ops of the block that define what `op`, or what stands in it, uses."""
        for value in self._uses[op]:
            if isinstance(value.owner, Operation) and value.owner.parent is self._block:
                yield value.owner

    def _build(self) -> StepGraph:
        after = self._after_makers()
        self._keep_updates_in_order(after)
        self._keep_effects_in_order(after)
        after[-1].update(range(len(self.ops) - 1))
        steps = (
            Step(tuple(sorted(before)), self._workspace(op))
            for op, before in zip(self.ops, after, strict=True)
        )
        values = (
            Value(align_up(self._storages.size(storage), self._alignment), tuple(users))
            for storage, users in self._users().items()
            if not self._storages.is_elsewhere(storage)
        )
        return StepGraph(tuple(steps), tuple(values))

    def _after_makers(self) -> list[set[int]]:
        """Of each step those that make what it uses, looked for through what goes along."""
        found: dict[Operation, set[int]] = {}
        after: list[set[int]] = []
        for op in self._block.ops:
            makers: set[int] = set()
            for maker in self._makers(op):
                position = self._position.get(maker)
                makers.update(found[maker] if position is None else (position,))
            if op in self._position:
                after.append(makers)
            else:
                found[op] = makers
        return after

    def _writers(self) -> dict[SSAValue, list[int]]:
        """The steps that write each storage, in order."""
        writers: dict[SSAValue, list[int]] = {}
        for position, op in enumerate(self.ops):
            written = (*_tensors(op.results), *(value for value in _updated(op) if not is_empty(value)))
            for storage in dict.fromkeys(map(self._storages.of, written)):
                writers.setdefault(storage, []).append(position)
        return writers

    def _users(self) -> dict[SSAValue, list[int]]:
        """The steps that use or make each storage, in order."""
        users: dict[SSAValue, list[int]] = {}
        for position, op in enumerate(self.ops):
            tensors = _tensors((*self._uses[op], *op.results))
            for storage in dict.fromkeys(
                self._storages.of(value) for value in tensors if not is_empty(value)
            ):
                users.setdefault(storage, []).append(position)
        return users

    def _keep_updates_in_order(self, after: list[set[int]]) -> None:
        """An update in place stays behind all earlier users of the storage, and before all later ones."""
        updates: dict[SSAValue, set[int]] = {}
        for position, op in enumerate(self.ops):
            for value in _updated(op):
                if not is_empty(value):
                    updates.setdefault(self._storages.of(value), set()).add(position)
        users = self._users()
        for storage, updating in updates.items():
            since: list[int] = []
            for position in users[storage]:
                if position in updating:
                    after[position].update(since)
                    since = []
                elif since and since[0] in updating:
                    after[position].add(since[0])
                since.append(position)

    def _keep_effects_in_order(self, after: list[set[int]]) -> None:
        barrier: int | None = None
        for position, op in enumerate(self.ops):
            if barrier is not None:
                after[position].add(barrier)
            if op in self._barriers:
                after[position].update(range(barrier or 0, position))
                barrier = position

    def _workspace(self, op: Operation) -> int:
        """The most bytes that what stands in an op takes for itself; regions of one op do not run at once."""
        if isinstance(op, StructuredOp):
            return 0  # scalars
        if isinstance(op, SymbolicKernel) and self._space != ARENA_SPACE:
            return 0
        if isinstance(op, SymbolicKernel) and self._workspace_of is not None:
            return self._workspace_of(op)
        if isinstance(op, LaunchOp):
            return temporaries_of(op, self._alignment)
        blocks = (block for region in op.regions for block in region.blocks)
        return max(
            (BlockSteps(block, self._alignment, self._workspace_of, self._space).peak() for block in blocks),
            default=0,
        )


def temporaries_of(launch: LaunchOp, alignment: int) -> int:
    """The most bytes that the temporaries of a launch take at once, in the order of its operations."""
    if not any(isinstance(op, EmptyOp | ConstantOp) for op in launch.walk()):
        return 0  # all is built in its outs
    return BlockSteps(launch.body, alignment).peak()


class _Storages:
    """Which tensors of a block share memory. A storage is known by one of its tensors."""

    def __init__(self, block: Block, space: int):
        self._block = block
        self._space = space
        self._parent: dict[SSAValue, SSAValue] = {}
        self._size: dict[SSAValue, int] = {}
        self._elsewhere: set[SSAValue] = set()
        function = block.parent_op()
        self._donated = donations_of(function) if isinstance(function, func.FuncOp) else {}
        for argument in block.args:
            if is_buffer(argument):
                self._elsewhere.add(argument)
        for op in block.ops:
            if op is not block.last_op:
                self._unite(op)
        last = block.last_op
        if isinstance(last, func.ReturnOp | YieldOp) or isinstance(block.parent_op(), scf.IfOp):
            self._elsewhere.update(self.of(value) for value in _tensors(last.operands if last else ()))

    def of(self, value: SSAValue) -> SSAValue:
        """The storage of a tensor."""
        while value in self._parent:
            value = self._parent[value]
        return value

    def size(self, storage: SSAValue) -> int:
        """Bytes of the largest tensor in it."""
        return max(self._size.get(storage, 0), byte_size(storage))

    def is_elsewhere(self, storage: SSAValue) -> bool:
        """Whether it is memory that this block does not provide."""
        return storage in self._elsewhere or not self._block.is_ancestor(storage.owner)

    def _unite(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            self._elsewhere.add(op.result)
            return
        if _space_of(op) != self._space:
            self._elsewhere.update(_tensors(op.results))
        operands, updated = set(op.operands), set(_updated(op))
        pairs = [(op.operands[position], result) for position, result in destinations(op)]
        for source, other in (*pairs, *aliases_of(op)):
            if source not in operands and not op.is_ancestor(source.owner):
                continue  # an outer tensor that a region yields is copied
            if source in updated and (is_empty(source) or not self._may_be_updated(source)):
                continue
            self._join(source, other)

    def _may_be_updated(self, value: SSAValue) -> bool:
        """Whether the memory of a tensor may be overwritten: not the caller's, nor what is outside of a region."""
        storage = self.of(value)
        if isinstance(storage, BlockArgument) and storage.block is self._block:
            return storage in self._donated or not isinstance(self._block.parent_op(), func.FuncOp)
        return not self.is_elsewhere(storage)

    def _join(self, a: SSAValue, b: SSAValue) -> None:
        first, second = self.of(a), self.of(b)
        if first is second:
            return
        self._size[first] = max(self.size(first), self.size(second))
        if second in self._elsewhere:
            self._elsewhere.add(first)
        self._parent[second] = first


def byte_size(value: SSAValue) -> int:
    """The bytes of a tensor of static shape."""
    type_ = tensor_type(value)
    return prod(type_.get_shape()) * to_numpy_dtype(type_.element_type).itemsize


def _space_of(op: Operation) -> int:
    """The memory space that what an op makes lies in."""
    return op.memory_space if isinstance(op, CopyOp) else ARENA_SPACE


def _is_carried_along(op: Operation) -> bool:
    """Whether an op costs nothing wherever it stands: constants, uninitialised tensors, views, scalars."""
    if op.regions or op.has_trait(IsTerminator):
        return False
    if isinstance(op, EmptyOp | ConstantOp):
        return True
    if not any(True for _ in _tensors(op.results)):
        return not any(True for _ in _tensors(op.operands))
    return not destinations(op) and {other for _, other in aliases_of(op)} == set(op.results)


def _is_barrier(op: Operation) -> bool:
    effects = effects_of(op)
    return effects.changes_memory or effects.stops


def _updated(op: Operation) -> Iterator[SSAValue]:
    """The tensors that an op may overwrite in place: destinations, and what a loop carries."""
    for position, _ in destinations(op):
        yield op.operands[position]
    if isinstance(op, scf.ForOp | scf.WhileOp):
        yield from _tensors(op.operands)


def _values_used(op: Operation) -> list[SSAValue]:
    """What an op uses from outside of it, and what stands in it does."""
    if not op.regions:
        return list(dict.fromkeys(op.operands))
    inside = (value for inner in op.walk() for value in inner.operands)
    return [value for value in dict.fromkeys(inside) if _is_defined_outside(value, op)]


def _is_defined_outside(value: SSAValue, op: Operation) -> bool:
    owner = value.owner
    return owner is op or not op.is_ancestor(owner)


def _tensors(values: Iterable[SSAValue]) -> Iterator[SSAValue]:
    return (value for value in values if is_buffer(value))
