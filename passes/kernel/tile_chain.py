"""Choosing launches to join and cut: those between which a tensor passes that is too large where the most is live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.ir import Operation

from mlopt.dialects.kernel import LaunchOp
from mlopt.memory.step_rewrites import can_be_joined, excess, join_steps
from mlopt.memory.steps import StepGraph, profile
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.cut_launch import cuts_of
from mlopt.passes.kernel.fuse_kernels import joined_name
from mlopt.passes.kernel.join_launches import can_join, joined
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


def best_tiling(
    steps: BlockSteps, capacity: int, needs: WorkspaceNeeds, *, only_fitting: bool
) -> Tiling | None:
    """The best tiling for less bytes above `capacity`, in the order as it is; None if there is none.

    Looked at are the launches that make and use a tensor that is live where the most is, and the launch that runs
    there; cut along each axis, with as few tiles as fit there. The best of those that fit is the one of the least time;
    if there are none, and not `only_fitting`, the one that takes away most bytes.
    """
    graph = steps.graph
    live = profile(graph, range(len(graph.steps)))
    worst = max(range(len(live)), key=live.__getitem__)
    now = excess(graph, capacity)
    best: tuple[tuple[bool, float, float], Tiling] | None = None
    for positions in list(candidates(steps, worst)):  # before there are tilings, which use what they read
        members = [op for op in (steps.ops[position] for position in positions) if isinstance(op, LaunchOp)]
        joining = _Joining(graph, positions, worst, capacity)
        has_fitting = only_fitting or (best is not None and not best[0][0])
        if joining.excess(0) >= now or (has_fitting and not joining.fits(0)):
            continue
        time = sum(map(needs.nanoseconds, members))
        for tiling in _tilings(members, joining.fits, needs):
            workspace = needs.least(tiling.launch)
            left, fits = joining.excess(workspace), joining.fits(workspace)
            more = max(0.0, needs.nanoseconds(tiling.launch) - time)
            rank = (not fits, 0.0 if fits else left, more)
            if left < now and (fits or not only_fitting) and (best is None or rank < best[0]):
                if best is not None:
                    best[1].discard()
                best = rank, tiling
            else:
                tiling.discard()
    return None if best is None else best[1]


@dataclass(frozen=True, slots=True)
class _Joining:
    """What becomes of the live bytes if launches are joined and work in so many bytes."""

    graph: StepGraph
    positions: list[int]
    worst: int
    capacity: int

    def excess(self, workspace: int) -> int:
        """The bytes above the capacity, over all steps."""
        return excess(join_steps(self.graph, self.positions, workspace), self.capacity)

    def fits(self, workspace: int) -> bool:
        """Whether the new step, and the one at which the most was live, stay within the capacity."""
        joined = join_steps(self.graph, self.positions, workspace)
        live = profile(joined, range(len(joined.steps)))
        new = self.positions[-1] - len(self.positions) + 1
        before = sum(1 for position in self.positions if position < self.worst)
        old = new if self.worst in self.positions else self.worst - before
        return max(live[new], live[old]) <= self.capacity


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


def _tilings(members: list[LaunchOp], fits: Callable[[int], bool], needs: WorkspaceNeeds) -> Iterator[Tiling]:
    """The launches joined, and cut along each axis into as few tiles as fit; the caller applies or discards them.

    `fits` says whether a workspace is small enough. Where none is, it is that of the most tiles, or of those beyond
    which it does not get smaller.
    """
    name = joined_name(tuple(member.kernel_name.data for member in members))
    whole = joined(members, name)
    limits = [min(cut.units, _MOST_TILES, _MOST_OPS // max(1, len(cut.dims))) for cut in cuts_of(whole)]
    before = _temporaries(whole, needs)
    least = needs.least(members[0]) if len(members) == 1 else None
    whole.erase()
    for axis, most in enumerate(limits):
        if most < 2:
            continue
        reached, tiles, tiling = before, 1, None
        while True:
            tiles = min(2 * tiles, most)
            launch = joined(members, name)
            made = cuts_of(launch)[axis].apply(tiles)
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
