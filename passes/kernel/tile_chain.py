"""Choosing launches to join and cut: those between which a tensor passes that is too large where the most is live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mlopt.dialects.kernel import LaunchOp
from mlopt.memory.step_rewrites import can_be_joined, excess, join_steps
from mlopt.memory.steps import StepGraph, profile
from mlopt.passes.convert_kernel_to_memref.module_state import Key, structural_key
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.cut_launch import Cut, cut_along
from mlopt.passes.kernel.fuse_kernels import joined_name
from mlopt.passes.kernel.join_launches import can_join, joined
from mlopt.passes.kernel.launches import shape_of
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds

_MOST_TILES = 16
"""More make launches long, and slow to compile and to run."""

_MOST_OPS = 128
"""In the tiles of one launch, for the same reason: what is in tiles may be cut again, and each cut multiplies them."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """`launch`, which stands nowhere yet, does what `members` do, in tiles."""

    members: tuple[LaunchOp, ...]
    launch: LaunchOp
    tiles: int

    def apply(self) -> None:
        """Put the launch in place of the members."""
        last = self.members[-1]
        block = last.parent
        assert block is not None
        block.insert_op_before(self.launch, last)
        for old, new in zip(last.res, self.launch.res, strict=True):
            old.replace_all_uses_with(new)
        for member in reversed(self.members):
            _erase_readers(member)
            member.detach()
            member.erase()

    def discard(self) -> None:
        """Forget the launch."""
        self.launch.erase()


def _erase_readers(op: Operation) -> None:
    """Erase the reshapes, and reshapes of these, that only members read, which are gone."""
    for user in {use.operation: None for result in op.results for use in result.uses}:
        _erase_readers(user)
        user.detach()
        user.erase()


class _Tiled(NamedTuple):
    """Launches in tiles along an axis: how many tiles, and how many there can be.

    `least`, `nanoseconds`: the bytes that the first tile works in at least, and its time then. All together work in
    hardly ever more, and take as many times as long.
    """

    tiles: int
    most: int
    least: int
    nanoseconds: float


class _Way(NamedTuple):
    """One way to cut launches: `time` is the one of the launches as they are."""

    members: tuple[LaunchOp, ...]
    key: Key
    axis: int
    joining: _Joining
    time: float

    def rank(self, workspace: int, nanoseconds: float) -> tuple[bool, float, float]:
        """What the best way has the least of: whether it does not fit, the bytes that are left then, the time."""
        fits = self.joining.fits(workspace)
        left = 0.0 if fits else self.joining.excess(workspace)
        return not fits, left, max(0.0, nanoseconds - self.time)


class Tilings:
    """The search for tilings, which remembers what it looked at: launches like those of another layer, or as before."""

    def __init__(self, needs: WorkspaceNeeds):
        self._needs = needs
        self._keys: dict[tuple[LaunchOp, ...], tuple[tuple[SSAValue, ...], Key]] = {}
        self._axes: dict[Key, list[int]] = {}
        self._first: dict[tuple[Key, int, int, bool], _Tiled] = {}
        self._all: dict[tuple[Key, int, int, bool], tuple[int, float]] = {}

    def best(self, steps: BlockSteps, capacity: int, *, only_fitting: bool) -> Tiling | None:
        """The best tiling for less bytes above `capacity`, in the order as it is; None if there is none.

        Looked at are the launches that make and use a tensor that is live where the most is, and the launch that runs
        there; cut along each axis, with as few tiles as fit there. The best of those that fit is the one of the least
        time; if there are none, and not `only_fitting`, the one that takes away most bytes.
        """
        graph = steps.graph
        live = profile(graph, range(len(graph.steps)))
        worst = max(range(len(live)), key=live.__getitem__)
        now = excess(graph, capacity)
        found: list[tuple[tuple[bool, float, float], int, _Way]] = []
        for positions in candidates(steps, worst):
            members = tuple(op for p in positions if isinstance(op := steps.ops[p], LaunchOp))
            joining = _Joining(graph, positions, worst, capacity)
            if joining.excess(0) >= now or (only_fitting and not joining.fits(0)):
                continue
            time, key = sum(map(self._needs.nanoseconds, members)), self._key(members)
            for axis in self._axes[key]:
                way = _Way(members, key, axis, joining, time)
                tiles, tiled = self._fewest(way)
                if joining.excess(tiled.least) < now and (joining.fits(tiled.least) or not only_fitting):
                    found.append((way.rank(tiled.least, tiled.nanoseconds * tiled.tiles), tiles, way))
        found.sort(key=lambda entry: entry[0])  # by what the first tiles say: all of them are slow to look at
        rank: tuple[bool, float, float] | None = None
        best: tuple[_Way, int] | None = None
        for estimate, few, way in found:
            if rank is not None and estimate >= rank:
                break
            tiles, workspace, nanoseconds = self._whole_that_fits(way, few)
            own = way.rank(workspace, nanoseconds)
            is_better = way.joining.excess(workspace) < now and (rank is None or own < rank)
            if is_better and not (only_fitting and own[0]):
                rank, best = own, (way, tiles)
        if best is None:
            return None
        way, tiles = best
        launch, made, _ = _cut(way.members, way.axis, tiles)
        return Tiling(way.members, launch, made)

    def _key(self, members: tuple[LaunchOp, ...]) -> Key:
        """What is equal for members that are one launch which does the same."""
        operands = tuple(operand for member in members for operand in member.operands)
        known = self._keys.get(members)
        if known is None or known[0] != operands:
            whole = joined(members, "whole")
            key = structural_key(whole)
            if key not in self._axes:
                rank = len(shape_of(whole.res[0])) if len(whole.res) == 1 else 0
                self._axes[key] = [axis for axis in range(rank) if _most_tiles(cut_along(whole, axis)) > 1]
            whole.erase()
            known = self._keys[members] = operands, key
        return known[1]

    def _fewest(self, way: _Way) -> tuple[int, _Tiled]:
        """As few tiles as fit. Where none does, those of the most, or beyond which it does not get smaller."""
        reached, tiles = inf, 1
        while True:
            tiles *= 2
            found = self._part(way, tiles)
            if way.joining.fits(found.least) or found.least >= reached or tiles >= found.most:
                return tiles, found
            reached = found.least

    def _part(self, way: _Way, tiles: int) -> _Tiled:
        """What is known of the first of so many tiles."""
        key = way.key, way.axis, tiles, self._needs.scarce
        if key not in self._first:
            launch, made, most = _cut(way.members, way.axis, tiles, only_first=True)
            self._first[key] = _Tiled(made, most, self._needs.least(launch), self._needs.nanoseconds(launch))
            launch.erase()
        return self._first[key]

    def _whole_that_fits(self, way: _Way, tiles: int) -> tuple[int, int, float]:
        """So many tiles, or more if the first one fits and all of them do not; their least bytes, and their time."""
        while True:
            workspace, nanoseconds = self._whole(way, tiles)
            part = self._part(way, tiles)
            if way.joining.fits(workspace) or not way.joining.fits(part.least) or tiles >= part.most:
                return tiles, workspace, nanoseconds
            tiles *= 2

    def _whole(self, way: _Way, tiles: int) -> tuple[int, float]:
        """The least bytes that so many tiles work in, and their time in them."""
        key = way.key, way.axis, tiles, self._needs.scarce
        if key not in self._all:
            launch, _, _ = _cut(way.members, way.axis, tiles)
            self._all[key] = self._needs.least(launch), self._needs.nanoseconds(launch)
            launch.erase()
        return self._all[key]


def _cut(
    members: tuple[LaunchOp, ...], axis: int, tiles: int, *, only_first: bool = False
) -> tuple[LaunchOp, int, int]:
    """The launches joined and cut into up to so many tiles; how many, and how many there can be."""
    launch = joined(members, joined_name(tuple(member.kernel_name.data for member in members)))
    cut = cut_along(launch, axis)
    most = _most_tiles(cut)
    assert cut is not None
    return launch, cut.apply(min(tiles, most), only_first), most


def _most_tiles(cut: Cut | None) -> int:
    return 0 if cut is None else min(cut.units, _MOST_TILES, _MOST_OPS // max(1, len(cut.dims)))


class _Joining:
    """What becomes of the live bytes if launches are joined and work in so many bytes."""

    def __init__(self, graph: StepGraph, positions: list[int], worst: int, capacity: int):
        joined = join_steps(graph, positions, 0)
        before = sum(1 for position in positions if position < worst)
        self._capacity = capacity
        self._live = profile(joined, range(len(joined.steps)))
        self._new = positions[-1] - len(positions) + 1
        self._old = self._new if worst in positions else worst - before
        self._elsewhere = sum(
            max(0, live - capacity) for step, live in enumerate(self._live) if step != self._new
        )

    def excess(self, workspace: int) -> int:
        """The bytes above the capacity, over all steps."""
        return self._elsewhere + max(0, self._live[self._new] + workspace - self._capacity)

    def fits(self, workspace: int) -> bool:
        """Whether the new step, and the one at which the most was live, stay within the capacity."""
        return max(self._live[self._new] + workspace, self._live[self._old]) <= self._capacity


def candidates(steps: BlockSteps, worst: int) -> Iterator[list[int]]:
    """Positions of launches to join, between which a value is that is live at `worst`."""
    graph = steps.graph
    if isinstance(steps.ops[worst], LaunchOp):
        yield [worst]
    for value in graph.values:
        positions = sorted(set(value.steps))
        if not value.size or not positions or not positions[0] <= worst <= positions[-1]:
            continue
        members = [op for op in (steps.ops[position] for position in positions) if isinstance(op, LaunchOp)]
        if 1 < len(members) == len(positions) and can_join(members) and can_be_joined(graph, positions):
            yield positions
