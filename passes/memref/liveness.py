"""When the buffers of a function live, and how many bytes they take.

Time counts the ops that touch memory, in program order; what runs as one step (a call, a `linalg` op with its body) is
one moment, and so is what runs at the same time (`mlopt.ir.waves`). A buffer lives from its first access to its last,
through all of its aliases (views, and what control flow passes on); it lives through the whole of a loop that it is
used in but allocated outside of, because the next iteration may read what the last one left.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import cast

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use

from mlopt.diagnostics import PassFailure
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.effects import aliases_of, effects_of
from mlopt.ir.functions import only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.memory_spaces import ARENA_SPACE, space_of
from mlopt.ir.waves import wave_of
from mlopt.memory import Buffer

WORKSPACE = "mlopt.workspace"
"""Attribute of the allocation, view or argument that is a function's scratch memory."""


def byte_size(type: Attribute) -> int:
    """The bytes of a contiguous buffer of static shape."""
    assert isinstance(type, MemRefType)
    buffer = cast(MemRefType[Attribute], type)
    assert DYNAMIC_INDEX not in buffer.get_shape()
    return prod(buffer.get_shape()) * to_numpy_dtype(buffer.element_type).itemsize


class Liveness:
    """The allocations of one function and their lifetimes."""

    def __init__(self, function: func.FuncOp):
        self._spans: dict[Operation, tuple[int, int]] = {}
        self._allocs: list[memref.AllocOp] = []
        self.moments = self._number(only_block(function), 0)

    @property
    def spaces(self) -> list[int]:
        """The memory spaces that something is allocated in, in ascending order."""
        return sorted({space_of(op.memref.type) for op in self._allocs})

    def buffers(self, alignment: int, space: int = ARENA_SPACE) -> list[tuple[memref.AllocOp, Buffer]]:
        """The allocations in a memory space that are accessed, in program order, each as a buffer for the planner."""
        result: list[tuple[memref.AllocOp, Buffer]] = []
        for op in self._allocs:
            if space_of(op.memref.type) != space:
                continue
            spans = [self._span(user, op) for user in _accesses(op)]
            if spans:
                lower, last = min(first for first, _ in spans), max(last for _, last in spans)
                size = byte_size(op.memref.type)
                result.append((op, Buffer(f"{len(result)}", lower, last + 1, size, alignment)))
        return result

    def moment(self, op: Operation) -> int:
        """The moment at which an op that runs as one step runs."""
        return self._spans[op][0]

    def _number(self, block: Block, now: int) -> int:
        """Give every op its first and last moment; returns the next free one."""
        number, moment = None, now
        for op in block.ops:
            wave = wave_of(op)
            if wave is not None:
                if wave != number:
                    number, moment = wave, now
                    now += 1
                self._spans[op] = (moment, moment)
                continue
            start = now
            if isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp):
                for region in op.regions:
                    for inner in region.blocks:
                        now = self._number(inner, now)
            else:
                if isinstance(op, memref.AllocOp):
                    self._allocs.append(op)
                now += 1
            self._spans[op] = (start, max(start, now - 1))
        return now

    def _span(self, user: Operation, alloc: memref.AllocOp) -> tuple[int, int]:
        """When `user` accesses a buffer allocated by `alloc`: widened to the loops between the two."""
        span = self._spans.get(user)
        parent = user.parent_op()
        while parent is not None and not parent.is_ancestor(alloc):
            if span is None or isinstance(parent, scf.ForOp | scf.WhileOp):
                span = self._spans.get(parent, span)
            parent = parent.parent_op()
        assert span is not None
        return span


def _accesses(alloc: memref.AllocOp) -> Iterator[Operation]:
    """The ops that access a buffer, through its aliases too; making an alias is no access.

    Raises `PassFailure` if a loop allocates it and hands it to its next iteration: then two of it live at once.
    """
    pending: list[SSAValue] = [alloc.memref]
    seen = set(pending)
    while pending:
        for use in pending.pop().uses:
            others = _passed_on(use)
            if not others or effects_of(use.operation).touches_memory:
                yield use.operation
            for other in others:
                if _is_carried_around(other, alloc):
                    raise PassFailure(
                        "a buffer that a loop allocates and passes to its next iteration has no fixed place",
                        place=place_of_op(alloc),
                    )
                if other not in seen:
                    seen.add(other)
                    pending.append(other)


def _passed_on(use: Use) -> list[SSAValue]:
    """The values that may be the same memory as the one used, because of the op that uses it."""
    value = use.operation.operands[use.index]
    return [other for source, other in aliases_of(use.operation) if source is value]


def _is_carried_around(value: SSAValue, alloc: memref.AllocOp) -> bool:
    """Whether `value` is an argument of a region that `alloc` stands in."""
    owner = value.owner
    return isinstance(owner, Block) and owner.is_ancestor(alloc)
