"""Dominator trees of the blocks of a region."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Region


def dominator_children(region: Region) -> dict[Block, list[Block]]:
    """Each reachable block → the blocks it immediately dominates, in reverse post-order.

    Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm". Unreachable blocks are no keys.
    """
    entry = region.blocks.first
    if entry is None:
        return {}
    order = list(_reverse_post_order(entry))
    number = {block: i for i, block in enumerate(order)}
    predecessors: dict[Block, list[int]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            predecessors[successor].append(number[block])

    idom = [-1] * len(order)
    idom[0] = 0
    changed = True
    while changed:
        changed = False
        for i in range(1, len(order)):
            known = [p for p in predecessors[order[i]] if idom[p] != -1]
            new = known[0]
            for other in known[1:]:
                new = _intersect(idom, new, other)
            if idom[i] != new:
                idom[i] = new
                changed = True

    children: dict[Block, list[Block]] = {block: [] for block in order}
    for i in range(1, len(order)):
        children[order[idom[i]]].append(order[i])
    return children


def reachable_blocks(region: Region) -> set[Block]:
    """The blocks that control can reach from the region's entry."""
    entry = region.blocks.first
    return set() if entry is None else set(_reverse_post_order(entry))


def _intersect(idom: list[int], a: int, b: int) -> int:
    while a != b:
        while a > b:
            a = idom[a]
        while b > a:
            b = idom[b]
    return a


def _successors(block: Block) -> tuple[Block, ...]:
    last = block.last_op
    return () if last is None else tuple(last.successors)


def _reverse_post_order(entry: Block) -> Iterator[Block]:
    post_order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            post_order.append(block)
            stack.pop()
    return reversed(post_order)
