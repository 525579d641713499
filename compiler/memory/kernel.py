"""The kernel of the search: one depth-first descent, written in the part of Python that `translation` understands.

It is run as it stands, on lists, or compiled, on arrays of 64-bit integers; both go through the same nodes. The rules
of the search, and why they lose no plan, are in `search`. Words used here:

- A *clique* is a moment: a set of buffers that are all live at once. Cliques are numbered in order of time; the *runs*
  of a buffer are the ranges of cliques that it is in (more than one if its lifetime has gaps), `first` and `end` their
  hull.
- The *floor* of an unplaced buffer is the lowest offset that placed buffers leave to it; of a placed one it is
  `infinite`. A fixed buffer's floor is the offset it must have.
- A *piece* is a range of cliques and the unplaced buffers in it, as a circular linked list in order of rank. The list
  begins and ends with a node that stands for the piece, numbered from the number of buffers on.
- A buffer is *late* if its turn has passed, in the order of offset and rank: it waits to be lifted by another one.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass

Ints = MutableSequence[int]

FOUND = 1
NONE = 0
SPENT = -1


@dataclass
class State:
    """The problem, which stays as it is, and where the descent is; both by position of the buffer or the clique."""

    sizes: Ints
    alignments: Ints
    fixed: Ints
    any_fixed: int
    """The offset a buffer must have, or -1; and whether there is one that has."""
    neighbour_begin: Ints
    neighbours: Ints
    """Of buffer i: `neighbours[neighbour_begin[i] : neighbour_begin[i + 1]]`; the next two likewise."""
    run_begin: Ints
    run_lower: Ints
    run_upper: Ints
    first: Ints
    end: Ints
    clique_begin: Ints
    cliques: Ints
    """The buffers of each clique; which of them comes first changes as they are sorted by floor."""
    group_of: Ints
    """Buffers of equal runs and alignment are interchangeable but for their sizes: they are one group."""
    major: Ints
    minor: Ints
    """The ranking: by `major`, then by the bytes unplaced in the fullest clique (most first), then by `minor`."""
    order: Ints
    """A fixed order of all buffers: in a group, those stacked directly on each other follow it."""

    floors: Ints
    offsets: Ints
    """Of a plan that was found."""
    totals: Ints
    """The bytes unplaced in each clique."""
    bridges: Ints
    """How many unplaced buffers are in a clique and the next, or span the border between them."""
    starts: Ints
    ends: Ints
    """How many runs of unplaced buffers begin, and end, with each clique."""
    group_top: Ints
    group_last: Ints
    """Where the last placed buffer of a group ends, and its place in `order`."""
    following: Ints
    preceding: Ints
    ranks: Ints
    """The lists of pieces, and the position that each buffer had in its piece at first."""
    keys: Ints
    stack: Ints
    stack_end: int
    room: int
    """Lists put aside while their pieces are solved; the stack has room for so many numbers."""
    lifted: Ints
    lifted_from: Ints
    lifted_end: int
    """Buffers whose floors were raised, and what they were before."""

    infinite: int
    capacity: int
    limit: int
    nodes: int
    pieces: int


def descend(s: State, count: int, cliques: int) -> int:
    """Search for offsets of all buffers within the capacity: FOUND, NONE (there are none), or SPENT (the limit)."""
    for i in range(count):
        s.stack[i] = i
    s.stack_end = count
    s.pieces = count
    return solve_pieces(s, 0, count, 0, cliques, 0)


def solve_pieces(s: State, begin: int, end: int, lower: int, upper: int, offset: int) -> int:
    """Solve the pieces that the buffers on the stack have fallen into, one after the other.

    The order of offsets binds the whole, not the pieces: it is checked here, and each piece starts afresh.
    """
    stack = s.stack
    for clique in range(lower, upper):
        if offset + s.totals[clique] > s.capacity:
            return NONE
    piece = lower
    for clique in range(lower, upper):
        if clique + 1 == upper or s.bridges[clique] == 0:
            top = end
            for p in range(begin, end):
                if s.first[stack[p]] >= piece and s.first[stack[p]] <= clique:
                    if top == s.room:
                        return SPENT
                    stack[top] = stack[p]
                    top += 1
            if top > end:
                s.stack_end = top
                result = solve_piece(s, end, top, piece, clique + 1)
                s.stack_end = end
                if result != FOUND:
                    return result
            piece = clique + 1
    return FOUND


def solve_piece(s: State, begin: int, end: int, lower: int, upper: int) -> int:
    """Rank the buffers of a piece by what is unplaced now, and place them."""
    stack = s.stack
    totals = s.totals
    for p in range(begin, end):
        i = stack[p]
        total = 0
        for r in range(s.run_begin[i], s.run_begin[i + 1]):
            for clique in range(s.run_lower[r], s.run_upper[r]):
                total = max(total, totals[clique])
        s.keys[i] = total
    sort_by_rank(s, begin, end)
    head = s.pieces
    last = head
    for p in range(begin, end):
        i = stack[p]
        s.ranks[i] = p - begin
        s.following[last] = i
        s.preceding[i] = last
        last = i
    s.following[last] = head
    s.preceding[head] = last
    s.pieces += 1
    result = branch(s, head, lower, upper, 0, 0)
    s.pieces -= 1
    return result


def sort_by_rank(s: State, begin: int, end: int) -> None:
    """Shell's sort of a part of the stack."""
    stack = s.stack
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for p in range(begin + gap, end):
            i = stack[p]
            q = p
            while q - gap >= begin and ranks_before(s, i, stack[q - gap]) == 1:
                stack[q] = stack[q - gap]
                q -= gap
            stack[q] = i
        gap = gap // 3


def ranks_before(s: State, i: int, j: int) -> int:
    """1 if buffer i ranks before buffer j, else 0."""
    if s.major[i] != s.major[j]:
        return 1 if s.major[i] < s.major[j] else 0
    if s.keys[i] != s.keys[j]:
        return 1 if s.keys[i] > s.keys[j] else 0
    return 1 if s.minor[i] < s.minor[j] else 0


def branch(s: State, head: int, lower: int, upper: int, lowest: int, start: int) -> int:
    """Place the buffers of a piece at `lowest` or above, and at `lowest` itself only if they rank from `start`."""
    floors = s.floors
    following = s.following
    ranks = s.ranks
    fullest = 0
    for clique in range(lower, upper):
        fullest = max(fullest, s.totals[clique])
    dominated = s.capacity - fullest + 1
    i = following[head]
    while i != head:
        dominated = min(dominated, floors[i] + (s.sizes[i] if s.fixed[i] < 0 else 1))
        i = following[i]
    if late_fit(s, head, lowest, start, dominated) == 0:
        return NONE
    while 1 == 1:
        # The next one in order of floor and rank.
        best = head
        floor = dominated
        i = following[head]
        while i != head:
            if floors[i] < floor and floors[i] >= lowest and is_late(s, i, lowest, start) == 0:
                best = i
                floor = floors[i]
            i = following[i]
        if best == head:
            return NONE
        if s.any_fixed == 0 or is_blocked(s, best) == 0:
            result = place(s, head, best, lower, upper)
            if result != NONE:
                return result
        lowest = floor
        start = ranks[best] + 1
    return NONE


def is_late(s: State, i: int, lowest: int, start: int) -> int:
    """1 if a buffer can't be placed at its floor any more, else 0."""
    floor = s.floors[i]
    if floor < lowest or (floor == lowest and s.ranks[i] < start):
        return 1
    group = s.group_of[i]
    if floor == s.group_top[group] and s.order[i] < s.group_last[group]:
        return 1
    return 0


def is_blocked(s: State, i: int) -> int:
    """1 if a buffer at its floor would reach into an unplaced fixed one, else 0."""
    if s.fixed[i] >= 0:
        return 0
    top = s.floors[i] + s.sizes[i]
    for q in range(s.neighbour_begin[i], s.neighbour_begin[i + 1]):
        j = s.neighbours[q]
        if s.fixed[j] >= 0 and s.floors[j] < top:
            return 1
    return 0


def late_fit(s: State, head: int, lowest: int, start: int, dominated: int) -> int:
    """1 if all cliques can be stacked with each late buffer on one of those that may still lift it, else 0."""
    floors = s.floors
    mark = s.lifted_end
    i = s.following[head]
    while i != head:
        floor = floors[i]
        if floor < dominated and is_late(s, i, lowest, start) == 1:
            lift = s.infinite
            if s.fixed[i] < 0:
                for q in range(s.neighbour_begin[i], s.neighbour_begin[i + 1]):
                    j = s.neighbours[q]
                    if floors[j] < s.infinite:
                        lift = min(lift, max(floors[j], lowest) + s.sizes[j])
            if lift + s.sizes[i] > s.capacity:
                s.lifted_end = mark
                return 0
            s.lifted[s.lifted_end] = i
            s.lifted_from[s.lifted_end] = lift
            s.lifted_end += 1
        i = s.following[i]
    if s.lifted_end == mark:
        return 1
    for p in range(mark, s.lifted_end):
        i = s.lifted[p]
        floor = floors[i]
        floors[i] = s.lifted_from[p]
        s.lifted_from[p] = floor
    result = lifted_fit(s, mark)
    drop(s, mark)
    return result


def place(s: State, head: int, i: int, lower: int, upper: int) -> int:
    """Place a buffer at its floor on trial and go on with the others; leaves the state as it was."""
    if s.nodes >= s.limit:
        return SPENT
    s.nodes += 1
    offset = s.floors[i]
    mark = s.lifted_end
    group = s.group_of[i]
    group_top = s.group_top[group]
    group_last = s.group_last[group]
    lift_neighbours(s, i, offset + s.sizes[i])
    s.floors[i] = s.infinite
    s.group_top[group] = offset + s.sizes[i]
    s.group_last[group] = s.order[i]
    s.following[s.preceding[i]] = s.following[i]
    s.preceding[s.following[i]] = s.preceding[i]
    cuts = take_out(s, i)
    result = NONE
    if s.following[head] == head:
        result = FOUND
    elif lifted_fit(s, mark) == 1:
        if cuts == 0:
            result = branch(s, head, lower, upper, offset, s.ranks[i])
        else:
            result = decompose(s, head, lower, upper, offset)
    put_back(s, i)
    s.following[s.preceding[i]] = i
    s.preceding[s.following[i]] = i
    s.group_top[group] = group_top
    s.group_last[group] = group_last
    s.floors[i] = offset
    drop(s, mark)
    if result == FOUND:
        s.offsets[i] = offset
    return result


def decompose(s: State, head: int, lower: int, upper: int, offset: int) -> int:
    """Solve what is left of a piece as pieces of their own, and put its list back together."""
    stack = s.stack
    begin = s.stack_end
    end = begin
    i = s.following[head]
    while i != head:
        if end + 2 > s.room:
            return SPENT
        stack[end] = s.ranks[i]
        stack[end + 1] = i
        end += 2
        i = s.following[i]
    count = (end - begin) // 2
    if end + count > s.room:
        return SPENT
    for p in range(count):
        stack[end + p] = stack[begin + 2 * p + 1]
    s.stack_end = end + count
    result = solve_pieces(s, end, end + count, lower, upper, offset)
    s.stack_end = begin
    last = head
    for p in range(count):
        i = stack[begin + 2 * p + 1]
        s.ranks[i] = stack[begin + 2 * p]
        s.following[last] = i
        s.preceding[i] = last
        last = i
    s.following[last] = head
    s.preceding[head] = last
    return result


def lift_neighbours(s: State, i: int, top: int) -> None:
    """Raise the floors of the unplaced neighbours of a buffer that ends at `top`."""
    floors = s.floors
    end = s.lifted_end
    for q in range(s.neighbour_begin[i], s.neighbour_begin[i + 1]):
        j = s.neighbours[q]
        floor = floors[j]
        if floor < top:
            s.lifted[end] = j
            s.lifted_from[end] = floor
            end += 1
            if s.fixed[j] >= 0:
                floors[j] = s.capacity
            elif s.alignments[j] == 1:
                floors[j] = top
            else:
                floors[j] = (top + s.alignments[j] - 1) // s.alignments[j] * s.alignments[j]
    s.lifted_end = end


def drop(s: State, mark: int) -> None:
    """Undo the lifts since `mark`."""
    while s.lifted_end > mark:
        s.lifted_end -= 1
        s.floors[s.lifted[s.lifted_end]] = s.lifted_from[s.lifted_end]


def take_out(s: State, i: int) -> int:
    """Take a buffer out of its cliques; returns how many borders between cliques no unplaced buffer spans now."""
    totals = s.totals
    bridges = s.bridges
    for r in range(s.run_begin[i], s.run_begin[i + 1]):
        for clique in range(s.run_lower[r], s.run_upper[r]):
            totals[clique] -= s.sizes[i]
        s.starts[s.run_lower[r]] -= 1
        s.ends[s.run_upper[r] - 1] -= 1
    cuts = 0
    for clique in range(s.first[i], s.end[i] - 1):
        bridges[clique] -= 1
        if bridges[clique] == 0:
            cuts += 1
    return cuts


def put_back(s: State, i: int) -> None:
    """Undo `take_out`."""
    totals = s.totals
    bridges = s.bridges
    for r in range(s.run_begin[i], s.run_begin[i + 1]):
        for clique in range(s.run_lower[r], s.run_upper[r]):
            totals[clique] += s.sizes[i]
        s.starts[s.run_lower[r]] += 1
        s.ends[s.run_upper[r] - 1] += 1
    for clique in range(s.first[i], s.end[i] - 1):
        bridges[clique] += 1


def lifted_fit(s: State, mark: int) -> int:
    """1 if the cliques of the buffers lifted since `mark` can still be stacked within the capacity, else 0."""
    highest = 0
    lower = s.infinite
    upper = 0
    for p in range(mark, s.lifted_end):
        i = s.lifted[p]
        if s.floors[i] + s.sizes[i] > s.capacity:
            return 0
        highest = max(highest, s.floors[i])
        lower = min(lower, s.first[i])
        upper = max(upper, s.end[i])
    for clique in range(lower, upper):
        # Above the lifted buffers nothing has changed: with all unplaced ones on top of them it fits. And a clique
        # whose unplaced buffers are all in the next one, or in the one before and there not all, says nothing new.
        if (
            highest + s.totals[clique] > s.capacity
            and s.ends[clique] > 0
            and (s.starts[clique] > 0 or clique == 0 or s.ends[clique - 1] == 0)
            and clique_fits(s, clique) == 0
        ):
            return 0
    return 1


def clique_fits(s: State, clique: int) -> int:
    """1 if the unplaced buffers of a clique, stacked in order of their floors, stay within the capacity, else 0."""
    floors = s.floors
    cliques = s.cliques
    begin = s.clique_begin[clique]
    end = s.clique_begin[clique + 1]
    # Little has changed since they were sorted last.
    for q in range(begin + 1, end):
        i = cliques[q]
        floor = floors[i]
        p = q
        while p > begin and floors[cliques[p - 1]] > floor:
            cliques[p] = cliques[p - 1]
            p -= 1
        cliques[p] = i
    top = 0
    for q in range(begin, end):
        i = cliques[q]
        if floors[i] == s.infinite:
            break
        top = max(top, floors[i]) + s.sizes[i]
    return 1 if top <= s.capacity else 0
