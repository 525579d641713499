"""Which bytes of the arena are dead after each operation of `@main`, from the IR as printed.

A buffer is a `memref.view` of the arena; what is derived from it (subviews, casts, results of control flow) stands for
it. It is live from the first operation that uses it to the last one; a workspace only within one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from mlopt.ir.effects import effects_of

POISON = 0xFF
"""The byte that dead memory is filled with: NaN in every float type, -1 in every integer."""

Interval = tuple[int, int]


def dead_after(
    block: Block, arena: SSAValue, extents: Mapping[SSAValue, Interval]
) -> dict[Operation, list[Interval]]:
    """Operation → intervals of arena bytes to poison after it.

    `extents` gives the bytes `[begin, end)` in the arena of every `memref.view` of it. Views made inside of control
    flow are never poisoned: two of them may be the same buffer.
    """
    roots: dict[SSAValue, frozenset[SSAValue]] = {}
    workspaces: set[SSAValue] = set()
    first: dict[SSAValue, int] = {}
    last: dict[SSAValue, int] = {}
    accesses: list[tuple[Operation, frozenset[SSAValue]]] = []
    nested: list[Interval] = []
    for position, op in enumerate(block.ops):
        if isinstance(op, memref.ViewOp) and op.source is arena:
            roots[op.result] = frozenset((op.result,)) if op.result in extents else frozenset()
            if "mlopt.workspace" in op.attributes:
                workspaces.add(op.result)
            continue
        nested += [extents[v] for v in _nested_views(op, arena) if v in extents]
        used = frozenset[SSAValue]().union(*(roots.get(value, frozenset()) for value in _operands(op)))
        for value in op.results:
            roots[value] = used if isinstance(value.type, MemRefType) else frozenset()
        if not effects_of(op).touches_memory:
            continue
        accesses.append((op, used))
        for root in used:
            first.setdefault(root, position)
            last[root] = position
    positions = {op: position for position, op in enumerate(block.ops)}
    result: dict[Operation, list[Interval]] = {}
    for op, used in accesses:
        here = positions[op]
        dead = [extents[root] for root in used if root in workspaces or last[root] == here]
        live = [
            extents[root] for root in first if root not in workspaces and first[root] <= here < last[root]
        ]
        remaining = _subtract(dead, [*live, *nested])
        if remaining:
            result[op] = remaining
    return result


def _nested_views(op: Operation, arena: SSAValue) -> Iterable[SSAValue]:
    for inner in op.walk():
        if inner is not op and isinstance(inner, memref.ViewOp) and inner.source is arena:
            yield inner.result


def _operands(op: Operation) -> Iterable[SSAValue]:
    for inner in op.walk():
        yield from inner.operands


def _subtract(intervals: Iterable[Interval], holes: Iterable[Interval]) -> list[Interval]:
    """The parts of the intervals that no hole covers, in order, disjoint."""
    covered = sorted(holes)
    result: list[Interval] = []
    position = 0
    for begin, end in sorted(intervals):
        begin = max(begin, position)
        for low, high in covered:
            if high <= begin or low >= end:
                continue
            if low > begin:
                result.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            result.append((begin, end))
        position = max(position, end)
    return result
