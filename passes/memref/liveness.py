"""When the buffers of a function live, and how many bytes they take.

Time counts the ops that touch memory, in program order; what runs as one step (a call, a `linalg` op with its body) is
one moment. A buffer lives from its first access to its last, through all of its views; it lives through the whole of a
loop that it is used in but allocated outside of, because the next iteration may read what the last one left.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import cast

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.memory import Buffer

ViewLike = memref.ViewOp | memref.ReinterpretCastOp | memref.SubviewOp | memref.CastOp
"""Ops whose result shares the bytes of their source."""

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
        self.moments = self._number(function.body.block, 0)

    def buffers(self, alignment: int) -> list[tuple[memref.AllocOp, Buffer]]:
        """The allocations that are accessed, in program order, each as a buffer for the planner."""
        result: list[tuple[memref.AllocOp, Buffer]] = []
        for op in self._allocs:
            spans = [self._span(user, op) for user in _accesses(op.memref)]
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
        for op in block.ops:
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


def _accesses(buffer: SSAValue) -> Iterator[Operation]:
    """The ops that access a buffer, through views too; making a view is no access."""
    for use in buffer.uses:
        if isinstance(use.operation, ViewLike):
            yield from _accesses(use.operation.results[0])
        else:
            yield use.operation
