"""Choosing launches to join and cut: those between which a tensor passes that is too large where the most is live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlopt.dialects.kernel import LaunchOp
from mlopt.memory.step_rewrites import can_be_joined, excess, join_steps
from mlopt.memory.steps import profile
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.cut_launch import cuts_of
from mlopt.passes.kernel.fuse_kernels import joined_name
from mlopt.passes.kernel.join_launches import can_join, joined
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds

_MOST_TILES = 16
"""More make launches long, and slow to compile and to run."""


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
            for user in [use.operation for result in member.res for use in result.uses]:
                user.detach()  # a reshape that only members read
                user.erase()
            member.detach()
            member.erase()

    def discard(self) -> None:
        """Forget the launch."""
        self.launch.erase()


def best_tiling(steps: BlockSteps, capacity: int, needs: WorkspaceNeeds) -> Tiling | None:
    """The best tiling for less bytes above `capacity`, in the order as it is; None if there is none.

    Looked at are the launches that make and use a tensor that is live where the most is, and the launch that runs
    there; cut along each axis, with as few tiles as fit. The best of those after which nothing is above `capacity` is
    the one of the least time; if there are none, the one that takes away most bytes for its time.
    """
    graph = steps.graph
    live = profile(graph, range(len(graph.steps)))
    worst = max(range(len(live)), key=live.__getitem__)
    now = excess(graph, capacity)
    best: tuple[tuple[bool, float], Tiling] | None = None
    for positions, inside in list(candidates(steps, worst)):  # before there are tilings, which use what they read
        members = [op for op in (steps.ops[position] for position in positions) if isinstance(op, LaunchOp)]

        def left_with(workspace: int, positions: list[int] = positions, inside: int | None = inside) -> int:
            return excess(join_steps(graph, positions, workspace, inside), capacity)

        least = left_with(0)
        if least >= now or (least > 0 and best is not None and not best[0][0]):
            continue
        time = sum(map(needs.nanoseconds, members))
        for tiling in _tilings(members, lambda w: left_with(w) == 0, needs):
            left = left_with(needs.least(tiling.launch))
            more = max(0.0, needs.nanoseconds(tiling.launch) - time)
            rank = (left > 0, more if left == 0 else (more + 1.0) / (now - left) if left < now else 0.0)
            if left < now and (best is None or rank < best[0]):
                if best is not None:
                    best[1].discard()
                best = rank, tiling
            else:
                tiling.discard()
    return None if best is None else best[1]


def candidates(steps: BlockSteps, worst: int) -> Iterator[tuple[list[int], int | None]]:
    """Positions of launches to join, and the value that will be inside of them."""
    graph = steps.graph
    if isinstance(steps.ops[worst], LaunchOp):
        yield [worst], None
    for index, value in enumerate(graph.values):
        positions = sorted(set(value.steps))
        if not value.size or not positions or not positions[0] <= worst <= positions[-1]:
            continue
        members = [op for op in (steps.ops[position] for position in positions) if isinstance(op, LaunchOp)]
        if 1 < len(members) == len(positions) and can_join(members) and can_be_joined(graph, positions):
            yield positions, index


def _tilings(members: list[LaunchOp], fits: Callable[[int], bool], needs: WorkspaceNeeds) -> Iterator[Tiling]:
    """The launches joined, and cut along each axis into as few tiles as fit; the caller applies or discards them.

    `fits` says whether a workspace is small enough. Where none is, it is that of the most tiles, or of those beyond
    which it does not get smaller.
    """
    name = joined_name(tuple(member.kernel_name.data for member in members))
    whole = joined(members, name)
    axes = len(cuts_of(whole))
    before = _temporaries(whole, needs)
    least = needs.least(members[0]) if len(members) == 1 else None
    whole.erase()
    for axis in range(axes):
        reached, tiles, tiling = before, 1, None
        while True:
            tiles *= 2
            launch = joined(members, name)
            cut = cuts_of(launch)[axis]
            most = min(cut.units, _MOST_TILES)
            made = cut.apply(min(tiles, cut.units))
            if tiling is not None:
                tiling.discard()
            tiling = Tiling(tuple(members), launch, made)
            own = _temporaries(launch, needs)
            is_small = fits(own) and fits(needs.least(launch))
            is_done = own >= reached and (own > 0 or least is None or needs.least(launch) >= least)
            if is_small or is_done or tiles >= most:
                break
            reached, least = own, None if least is None else needs.least(launch)
        yield tiling


def _temporaries(launch: LaunchOp, needs: WorkspaceNeeds) -> int:
    """The bytes of what a launch keeps between its ops: less than it needs, and quickly known."""
    return BlockSteps(launch.body, needs.alignment).peak()
