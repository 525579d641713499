"""Who reads and who writes the buffers of a function, and when.

Moments number the ops of the function, those in regions after the op that they stand in; what stands in a loop happens
at any moment of the loop, as the next iteration comes back to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from mlopt.ir.effects import aliases_of, effects_of
from mlopt.ir.functions import only_block

VIEWS = (
    memref.ReinterpretCastOp,
    memref.SubviewOp,
    memref.ViewOp,
    memref.CastOp,
    memref.CollapseShapeOp,
    memref.ExpandShapeOp,
)
"""Ops whose result is the memory of their first operand, or a part of it, and which do nothing else."""


class Access(NamedTuple):
    """An op that reads or writes a buffer; `writes` if it may write it. What writes may read, too."""

    op: Operation
    writes: bool


class Accesses:
    """The accesses of the buffers of one function, and the moments of its ops."""

    def __init__(self, function: func.FuncOp, written: Mapping[str, frozenset[int]]):
        """`written`: the positions of the arguments that each function writes; one that is missing may write all."""
        self._written = written
        self._begin: dict[Operation, int] = {}
        self._end: dict[Operation, int] = {}
        self._known: dict[SSAValue, list[Access] | None] = {}
        self._number(only_block(function))

    def begin(self, op: Operation) -> int:
        """The moment at which an op begins."""
        return self._begin[op]

    def end(self, op: Operation) -> int:
        """The last moment at which something in an op happens."""
        return self._end[op]

    def in_block(self, op: Operation, block: Block) -> Operation:
        """The op of `block` that `op` is, or stands in."""
        while op.parent is not block:
            parent = op.parent_op()
            assert parent is not None
            op = parent
        return op

    def of(self, root: SSAValue) -> list[Access] | None:
        """All accesses of a buffer, through views too; None if control flow or something unknown passes it on."""
        if root not in self._known:
            self._known[root] = self._find(root)
        return self._known[root]

    def forget(self, *roots: SSAValue) -> None:
        """Look at these buffers anew: what uses them has changed."""
        for root in roots:
            self._known.pop(root, None)

    def _number(self, block: Block) -> None:
        for op in block.ops:
            self._begin[op] = len(self._begin)
            for region in op.regions:
                for inner in region.blocks:
                    self._number(inner)
            self._end[op] = len(self._begin) - 1

    def _find(self, root: SSAValue) -> list[Access] | None:
        found: dict[Operation, Access] = {}
        pending = [root]
        while pending:
            for use in pending.pop().uses:
                op = use.operation
                if isinstance(op, VIEWS):
                    pending.extend(op.results)
                    continue
                value = op.operands[use.index]
                if any(source is value for source, _ in aliases_of(op)):
                    return None
                writes = self._writes(use)
                if writes is None:
                    return None
                earlier = found.get(op)
                found[op] = Access(op, writes or (earlier is not None and earlier.writes))
        return list(found.values())

    def _writes(self, use: Use) -> bool | None:
        """Whether an op may write what it uses; None if it may do anything with it."""
        op = use.operation
        if isinstance(op, func.CallOp):
            written = self._written.get(op.callee.string_value())
            return written is None or use.index in written
        effects = effects_of(op)
        if effects.unknown or effects.frees:
            return None
        return any(value is op.operands[use.index] for value in effects.writes)


def root_of(buffer: SSAValue) -> SSAValue:
    """The allocation, argument or global that a buffer is a view of."""
    while isinstance(buffer.owner, VIEWS):
        buffer = buffer.owner.operands[0]
    return buffer


def written_arguments(module: ModuleOp) -> dict[str, frozenset[int]]:
    """The positions of the arguments that each function of a module may write."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    return {function.sym_name.data: frozenset(_written(function)) for function in functions}


def _written(function: func.FuncOp) -> Iterator[int]:
    if function.is_declaration:
        declared = function.attributes.get("mlopt.written")
        known = isinstance(declared, DenseArrayBase)
        yield from declared.get_values() if known else range(len(function.function_type.inputs))
        return
    for op in function.walk():
        if op is function:
            continue
        effects = effects_of(op)
        for value in op.operands if effects.unknown else effects.writes:
            root = None if value is None or not isinstance(value.type, MemRefType) else root_of(value)
            if isinstance(root, BlockArgument) and root.block.parent_op() is function:
                yield root.index
