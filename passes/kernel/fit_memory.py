"""`fit-memory`: what runs needs no more bytes than a budget, at a price that is named, or it is said why it must.

The bytes are those of the arena, workspaces included, each of the least size with which its kernel runs well, or, if
nothing fits that way, runs at all. Steps, each only if the ones before it were not enough, and only where the most
bytes are live:

1. *Order*: launches in the order of the smallest peak (`schedule`), which is proved where it can be.
2. *Tiles*: launches between which a large tensor passes become one (`join_launches`), which makes and uses the tensor
   in tiles (`cut_launch`). Nothing is computed twice.
3. *Recomputation*: what is kept long over the peak and is cheap is made a second time, right before it is used again.
   If what it is made from is gone by then, that is made again, too.

Then the order once more, and

4. *Spilling*, only where `spill` allows it: what is idle over the peak is copied to memory space 1 after a use, and
   back right before the next one (`spill_tensors`).

Tiles that take bytes away but do not fit cost most. They come after all that, if spilling does not do without them, and
then the last three steps again. If that is not enough, all is done once more in smaller workspaces: with the launches
as they are by then, and then as they were given. If that is not enough either, the pass fails. The error says what is
live at least, with the model's nodes: whatever the order of the launches and whatever single one is run again
(`recomputation_bound`), or whatever is spilled (`step_bound`).

Without a budget, what the model takes as imported is one: the most bytes that live at once if every operator runs on
its own. It is a wish: tried are orders, then tiles that fit or smaller workspaces, whichever costs less time, and
recomputation. What stays above it is a remark. Nearly all models are far below. So that this is found out quickly,
launches are first taken to work in no less than they do (`Target.scratch_bound`), and what they need is looked at only
where that would be too much.

`plan-workspaces{budget=N}` then sizes workspaces within the budget, and `assign-buffers{budget=N spill=M}` refuses
arenas that are larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal, NamedTuple

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from mlopt.diagnostics import Diagnostic, PassFailure, Place, RemarkKind, Severity
from mlopt.dialects.kernel import CopyOp, LaunchOp, SymbolicKernel
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import find_main, only_block
from mlopt.ir.imported import imported_max_live
from mlopt.ir.locations import nodes_text, place_of_op
from mlopt.ir.memory_spaces import SPILL_SPACE
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewrite_scope import is_enabled
from mlopt.memory import Buffer, plan
from mlopt.memory.rematerialization import Necessary, best_rerun, recomputation_bound
from mlopt.memory.scheduling import schedule
from mlopt.memory.spilling import choose_spills, step_bound
from mlopt.memory.steps import StepGraph, peak_of, profile
from mlopt.passes.kernel.block_steps import BlockSteps, byte_size
from mlopt.passes.kernel.flops import flops_of
from mlopt.passes.kernel.fuse_kernels import describe
from mlopt.passes.kernel.launches import blocks_with_launches
from mlopt.passes.kernel.run_again import run_again
from mlopt.passes.kernel.spill_tensors import gaps_of, spill
from mlopt.passes.kernel.tile_chain import Tilings
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL

_MOST_MOVES = 200
"""Of each kind; each makes less be live above the budget."""

_ROUNDS = 3
"""How often to look again, for fewer bytes, where a plan of what is live at once is larger than the budget."""


@dataclass(frozen=True)
class FitMemoryPass(Pass):
    """Make a model run in a budget of bytes: reorder, then cut launches into tiles, then compute cheap values again.

    If that is not enough, and only if `spill` allows it, tensors are copied to a second memory, and back for their next
    use. Each move is reported with the bytes live at once before and after it, and its price in scalar operations,
    bytes moved and modelled time. Fails if nothing fits, and says what must be live at once. Nothing is done if the
    budget is kept.

    Options: `budget`: the bytes of the arena (default: a wish for what lives at once in the model as imported; nothing
    is done if that is not known); `spill`: with a budget, the bytes of the arena of memory space 1, or `any` for as
    many as it takes (default: nothing is spilled); `nodes`: how many steps the search for an order may try in each
    block.
    """

    name = "fit-memory"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "order-block": "The steps of a block in an order of smaller peak.",
        "tile-chain": "Launches run one tile after the other.",
        "run-again": "Launches run a second time, so that their results are not kept.",
        "spill-tensor": "A tensor is in a second memory while nothing uses it.",
    }

    budget: int | None = None
    spill: int | Literal["any"] | None = None
    nodes: int = 100_000

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 0:
            raise PassFailure(f"the budget can't be negative, found {self.budget}")
        if isinstance(self.spill, int) and self.spill < 0:
            raise PassFailure(f"the bytes to spill to can't be negative, found {self.spill}")
        if self.spill is not None and self.budget is None:
            raise PassFailure("what may be spilled goes with a budget, of the memory that is spilled from")
        if self.nodes < 0:
            raise PassFailure(f"the nodes of a search can't be negative, found {self.nodes}")

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        main = find_main(op)
        if main is None:
            raise PassFailure("the module has no function '@main'", place=place_of_op(op))
        if self.budget is not None:
            return _Fitting(ctx, main, self.budget, self.spill, self.nodes).run()
        wish = imported_max_live(op)
        return wish is not None and _Fitting(ctx, main, wish, None, self.nodes).run_if_above()


class _Price(NamedTuple):
    """What moves cost, and the bytes live at once that they take away."""

    flops: int = 0
    moved: int = 0
    nanoseconds: float = 0.0
    bytes: int = 0

    def plus(self, other: _Price) -> _Price:
        return _Price(
            self.flops + other.flops,
            self.moved + other.moved,
            self.nanoseconds + other.nanoseconds,
            self.bytes + other.bytes,
        )

    def minus(self, other: _Price) -> _Price:
        return self.plus(_Price(-other.flops, -other.moved, -other.nanoseconds, -other.bytes))

    def text(self) -> str:
        """The price alone."""
        moved = f", {self.moved} bytes moved" if self.moved else ""
        return f"{self.flops} flops{moved} and {self.nanoseconds / 1000:.0f} us as modelled"

    def step_text(self) -> str:
        """What a kind of moves gains, for what."""
        return f"{-self.bytes:+} bytes for {self.text()}"


@dataclass(frozen=True)
class _Proof:
    """What must be live at once, where, and what it is."""

    bytes: int
    where: str
    place: Place
    notes: tuple[Diagnostic, ...]


class _Given:
    """`@main` as it is now, and what has been said, to come back to."""

    def __init__(self, ctx: CompilerContext, main: func.FuncOp):
        self._ctx, self._main = ctx, main
        self._kept = main.clone()
        self._remarks, self._statistics = len(ctx.remarks), ctx.statistics.copy()

    def restore(self) -> None:
        """Bring everything back, once."""
        self._main.body.erase_block(self._main.body.block, safe_erase=False)
        self._kept.body.move_blocks(self._main.body)
        del self._ctx.remarks[self._remarks :]
        self._ctx.statistics.clear()
        self._ctx.statistics.update(self._statistics)


class _Fitting:
    """The moves, made in the IR one by one."""

    def __init__(
        self,
        ctx: CompilerContext,
        main: func.FuncOp,
        budget: int,
        spill: int | Literal["any"] | None,
        nodes: int,
    ):
        self._ctx = ctx
        self._main = main
        self._block = only_block(main)
        self._needs = WorkspaceNeeds(ctx.target)
        self._asked, self._asked_to_spill = budget, spill
        self._budget = self._capacity = self._aligned(budget)
        self._spill_allowed = spill is not None
        self._spill_budget = self._aligned(spill) if isinstance(spill, int) else None
        self._tilings = Tilings(self._needs)
        self._nodes = nodes
        self._changed = False
        self._known: dict[Block, BlockSteps] = {}
        self._gains: dict[str, _Price] = {}

    def run(self) -> bool:
        before = self._peak()
        if before <= self._budget >= _height(self._steps(self._block).graph):
            self._report(before, before, _Price())
            return False
        cost, as_given, given = self._cost(), self._proof(), _Given(self._ctx, self._main)
        if not self._make_fit():
            self._shrink_workspaces()
            if not self._make_fit():
                reached = self._peak()
                self._start_again(given)
                self._shrink_workspaces()
                if not self._make_fit():
                    self._refuse(as_given, min(reached, self._peak()))
        self._report(before, self._peak(), cost)
        return self._changed

    def _start_again(self, given: _Given) -> None:
        """Take all moves back: in smaller workspaces, others may be better."""
        given.restore()
        self._block = only_block(self._main)
        self._let_workspaces_be_scarce(False)
        self._gains.clear()
        self._changed = False

    def _make_fit(self) -> bool:
        """Make moves until everything fits, or there are no more."""
        self._capacity = self._budget
        for _ in range(_ROUNDS):
            self._fit()
            after = self._peak()
            if after > self._budget:
                return False
            excess = _height(self._steps(self._block).graph) - self._budget
            if excess <= 0 or after > self._capacity:
                break
            self._capacity = after - excess
        return True

    def run_if_above(self) -> bool:
        """The moves that do not cost much, if more than the budget is live; what is left above it is a remark."""
        if self._stays_below() or self._peak() <= self._budget:
            return False
        before, cost = self._peak(), self._cost()
        order, again = ("order", self._reorder), ("second runs", self._recompute)
        self._make(order, ("tiles or smaller workspaces", self._relieve), again, order)
        if self._peak() > self._budget:
            proof = self._proof()
            message = (
                f"{self._peak()} bytes live at once are more than {self._asked}, which the model takes as imported; "
                f"while {proof.where} runs, at least {proof.bytes} are live"
            )
            self._remark("missed", message, self._main)
        else:
            self._report(before, self._peak(), cost)
        return self._changed

    def _fit(self) -> None:
        """Make moves until what is live fits into the capacity, or nothing more helps."""
        order, tiles = ("order", self._reorder), ("tiles", self._tile)
        again, spilling = ("second runs", self._recompute), ("spilling", self._spill)
        if "spilling" in self._gains:  # only the plan did not fit: a little more has to go
            self._make(spilling)
        self._make(order, tiles, again, order)
        if self._spill_allowed and self._spilling_fits(self._block, self._capacity, self._spill_budget):
            self._make(spilling)
        self._make(("tiles", self._tile_anyway), again, order)
        if self._spill_allowed:
            self._make(spilling)

    def _make(self, *moves: tuple[str, Callable[[], None]]) -> None:
        """Make moves, with their names in the summary, as long as it does not fit; add up their gains and prices."""
        for name, move in moves:
            peak, cost = self._peak(), self._cost()
            if peak <= self._capacity:
                return
            move()
            gained = self._cost().minus(cost)._replace(bytes=peak - self._peak())
            self._gains[name] = self._gains.get(name, _Price()).plus(gained)

    def _aligned(self, nbytes: int) -> int:
        return nbytes // self._needs.alignment * self._needs.alignment

    # What it takes

    def _stays_below(self) -> bool:
        """Whether no more than the budget is live, with what most launches need taken for more than it is."""
        exact: set[SymbolicKernel] = set()

        def workspace(kernel: SymbolicKernel) -> int:
            return self._needs.least(kernel) if kernel in exact else self._needs.at_most(kernel)

        while True:
            steps = BlockSteps(self._block, self._needs.alignment, workspace)
            live = profile(steps.graph, range(len(steps.ops)))
            above = [op for op, nbytes in zip(steps.ops, live, strict=True) if nbytes > self._budget]
            kernels = {inner for op in above for inner in op.walk() if isinstance(inner, SymbolicKernel)}
            if kernels <= exact:
                return not above
            exact |= kernels

    def _steps(self, block: Block) -> BlockSteps:
        if block not in self._known:
            self._known[block] = BlockSteps(block, self._needs.alignment, self._needs.least)
        return self._known[block]

    def _shrink_workspaces(self) -> None:
        """Let kernels run in what they need to run at all, or in what the budget leaves them above that."""
        peak, nanoseconds = self._peak(), self._cost().nanoseconds
        self._let_workspaces_be_scarce(True)
        self._gains["smaller workspaces"] = _Price(
            nanoseconds=self._nanoseconds_within(self._block, self._budget) - nanoseconds,
            bytes=peak - self._peak(),
        )

    def _let_workspaces_be_scarce(self, scarce: bool) -> None:
        self._needs.scarce = scarce
        self._known.clear()

    def _note_change(self) -> None:
        self._changed = True
        self._known.clear()

    def _peak(self) -> int:
        return self._steps(self._block).peak()

    def _cost(self) -> _Price:
        """What all kernels and copies to and from the second memory cost, each run once."""
        kernels = [op for op in self._main.walk() if isinstance(op, SymbolicKernel)]
        copies = [op for op in self._main.walk() if isinstance(op, CopyOp)]
        return _Price(
            flops=sum(flops_of(op) for op in kernels if isinstance(op, LaunchOp)),
            moved=sum(byte_size(op.result) for op in copies),
            nanoseconds=sum(map(self._needs.nanoseconds, kernels))
            + sum(map(self._needs.copy_nanoseconds, copies)),
        )

    def _nanoseconds_within(self, block: Block, capacity: int) -> float:
        """The modelled time of a block whose kernels have all the capacity for themselves that tensors leave."""
        steps, total = self._steps(block), 0.0
        live = profile(steps.graph, range(len(steps.ops)))
        for op, step, nbytes in zip(steps.ops, steps.graph.steps, live, strict=True):
            free = capacity - (nbytes - step.workspace)
            if isinstance(op, SymbolicKernel):
                total += self._needs.nanoseconds_in(op, free)
            elif isinstance(op, CopyOp):
                total += self._needs.copy_nanoseconds(op)
            total += sum(self._nanoseconds_within(inner, free) for inner in _blocks_of_control_flow(op))
        return total

    def _worst(self) -> tuple[BlockSteps, Block, int]:
        """The innermost block in which the most is live, and what it may take."""
        block, capacity = self._block, self._capacity
        while True:
            steps = self._steps(block)
            live = profile(steps.graph, range(len(steps.ops)))
            worst = max(range(len(live)), key=live.__getitem__)
            workspace = steps.graph.steps[worst].workspace
            inner = _blocks_of_control_flow(steps.ops[worst])
            if not inner or not workspace:
                return steps, block, capacity
            capacity -= live[worst] - workspace
            block = max(inner, key=lambda block: self._steps(block).peak())

    # Moves

    def _reorder(self) -> None:
        for block in reversed(list(blocks_with_launches(self._main))):
            steps = self._steps(block)
            found = schedule(steps.graph, nodes=self._nodes)
            owner = block.parent_op()
            assert owner is not None
            is_better = found.peak < found.source_peak and self._can_spill(block, found.order)
            if is_better and may_rewrite("order-block", owner):
                self._ctx.count(FitMemoryPass.name, "orders-changed")
                message = f"in another order {found.source_peak} bytes live at once become {found.peak}"
                self._remark("passed", message, steps.first_moved(found.order))
                steps.reorder(found.order)
                self._note_change()

    def _tile_anyway(self) -> None:
        self._tile(only_fitting=False)

    def _tile(self, only_fitting: bool = True) -> None:
        for _ in range(_MOST_MOVES):
            if self._peak() <= self._capacity or not self._tile_once(only_fitting=only_fitting):
                return

    def _tile_once(self, most: float = inf, *, only_fitting: bool = True) -> bool:
        """The best tiling, if there is one that costs no more than so many nanoseconds."""
        before = self._peak()
        steps, _, capacity = self._worst()
        tiling = self._tilings.best(steps, capacity, only_fitting=only_fitting)
        if tiling is None:
            return False
        more = self._needs.nanoseconds(tiling.launch) - sum(map(self._needs.nanoseconds, tiling.members))
        if more > most or not may_rewrite("tile-chain", tiling.members[-1]):
            tiling.discard()
            return False
        members = " and ".join(map(describe, tiling.members))
        cost = self._cost()
        tiling.apply()
        self._note_change()
        self._ctx.count(FitMemoryPass.name, "launches-tiled", len(tiling.members))
        self._remark(
            "passed",
            f"{members} run in {tiling.tiles} tiles: {before} bytes live at once become {self._peak()}"
            f"{self._price(cost)}",
            tiling.launch,
        )
        return True

    def _relieve(self) -> None:
        """Tiles that fit, or workspaces as small as it takes, whichever costs less time."""
        for _ in range(_MOST_MOVES):
            if self._peak() <= self._capacity:
                return
            steps, _, capacity = self._worst()
            live = profile(steps.graph, range(len(steps.ops)))
            worst = max(range(len(live)), key=live.__getitem__)
            kernel, free, price = steps.ops[worst], 0, inf
            if isinstance(kernel, SymbolicKernel):
                free = capacity - live[worst] + self._needs.least(kernel)
                price = self._needs.price(kernel, free)
            if not self._tile_once(price):
                if not isinstance(kernel, SymbolicKernel) or price == inf:
                    return
                self._needs.grant(kernel, free)
                self._known.clear()

    def _recompute(self) -> None:
        for _ in range(_MOST_MOVES):
            before = self._peak()
            if before <= self._capacity:
                return
            steps, _, capacity = self._worst()
            found = best_rerun(steps.graph, capacity, self._costs(steps), steps.writers)
            if found is None:
                return
            again = [steps.ops[step] for step in found.steps]
            user = steps.ops[found.before]
            if not may_rewrite("run-again", user):
                return
            cost = self._cost()
            run_again([op for op in again if isinstance(op, LaunchOp)], user)
            self._note_change()
            self._ctx.count(FitMemoryPass.name, "launches-run-again", len(again))
            self._remark(
                "passed",
                f"{' and '.join(describe(op) for op in again if isinstance(op, LaunchOp))} run again before "
                f"{_described(user)}: {before} bytes live at once become {self._peak()}{self._price(cost)}",
                again[-1],
            )

    def _costs(self, steps: BlockSteps) -> list[float | None]:
        """Of each step what it costs to run it again: the modelled time, or the scalar operations."""
        costs: list[float | None] = []
        for position, op in enumerate(steps.ops):
            if isinstance(op, LaunchOp) and len(op.res) == 1 and steps.reads_stay(position):
                costs.append(self._needs.nanoseconds(op) or float(flops_of(op)))
            else:
                costs.append(None)
        return costs

    def _spill(self) -> None:
        self._spill_in(self._block, self._capacity, self._spill_budget)

    def _spill_in(self, block: Block, capacity: int, room: int | None) -> None:
        """Spill in a block, and where that is not enough in the blocks of its loops and branches."""
        steps = self._steps(block)
        gaps, tensors = gaps_of(steps)
        chosen = choose_spills(steps.graph, gaps, capacity, self._spilled(block), room)
        allowed = {
            number
            for number in sorted({gap.contents for gap in chosen})
            if may_rewrite("spill-tensor", tensors[number].op)
        }
        found = [gap for gap in chosen if gap.contents in allowed]
        if found:
            before, cost = self._peak(), self._cost()
            spilled = spill(steps, found, tensors)
            self._note_change()
            after, price = self._peak(), self._price(cost)
            for one in spilled:
                self._ctx.count(FitMemoryPass.name, "tensors-spilled")
                users = " and ".join(map(_described, one.before))
                self._remark(
                    "passed",
                    f"{byte_size(one.tensor)} bytes made by {_described(one.tensor.op)} are spilled to memory space "
                    f"{SPILL_SPACE} after {_described(one.after)}, and back before {users}",
                    one.tensor.op,
                )
            tensors_text = f"{len(spilled)} tensor{'s' * (len(spilled) != 1)}"
            self._remark(
                "analysis",
                f"{tensors_text} spilled: {before} bytes live at once become {after}{price}",
                self._main,
            )
        steps = self._steps(block)
        live, there = profile(steps.graph, range(len(steps.ops))), self._spilled(block)
        for op, step, bytes, elsewhere in zip(list(steps.ops), steps.graph.steps, live, there, strict=True):
            for inner in _blocks_of_control_flow(op) if bytes > capacity else ():
                left = None if room is None else room - elsewhere
                self._spill_in(inner, capacity - (bytes - step.workspace), left)

    def _spilling_fits(self, block: Block, capacity: int, room: int | None) -> bool:
        """Whether what is live fits if tensors are spilled, without doing it."""
        steps = self._steps(block)
        gaps, _ = gaps_of(steps)
        live = profile(steps.graph, range(len(steps.ops)))
        for gap in choose_spills(steps.graph, gaps, capacity, self._spilled(block), room):
            for step in range(gap.after + 1, gap.before):
                live[step] -= steps.graph.values[gap.value].size
        for op, step, bytes in zip(steps.ops, steps.graph.steps, live, strict=True):
            inner, left = _blocks_of_control_flow(op), capacity - (bytes - step.workspace)
            if bytes > capacity and not (
                inner and all(self._spilling_fits(block, left, room) for block in inner)
            ):
                return False
        return True

    def _spilled(self, block: Block) -> list[int]:
        """The bytes that are in the second memory while each step of a block runs."""
        there = self._spilled_steps(block)
        return profile(there.graph, range(len(there.ops)))

    def _spilled_steps(self, block: Block) -> BlockSteps:
        """The steps of a block with the bytes that they have in the second memory."""
        return BlockSteps(block, self._needs.alignment, space=SPILL_SPACE)

    def _can_spill(self, block: Block, order: Sequence[int]) -> bool:
        """Whether the second memory is large enough in another order of a block."""
        if self._spill_budget is None:
            return True
        return peak_of(self._spilled_steps(block).graph, order) <= self._spill_budget

    # What is said

    def _price(self, before: _Price) -> str:
        return f", for {self._cost().minus(before).text()}"

    def _report(self, before: int, after: int, cost: _Price) -> None:
        message = f"{after} bytes live at once fit into {self._asked}"
        if self._changed or after < before:
            now = self._cost()._replace(nanoseconds=self._nanoseconds_within(self._block, self._budget))
            steps = ", ".join(
                f"{name} {price.step_text()}" for name, price in self._gains.items() if any(price)
            )
            message = (
                f"{message}, {before} did not: {_percent(now.flops, cost.flops)} flops, "
                f"{_percent(now.nanoseconds, cost.nanoseconds)} modelled time; {steps}"
            )
        self._remark("analysis", message, self._main)

    def _remark(self, kind: RemarkKind, message: str, where: Operation) -> None:
        self._ctx.remark(FitMemoryPass.name, kind, message, where)

    def _proof(self) -> _Proof:
        """What is live at least with the launches as they are, in the least workspaces with which they run."""
        scarce = self._needs.scarce
        self._let_workspaces_be_scarce(True)
        steps = self._steps(self._block)
        graph = self._least_graph(steps)
        bound = self._bound(graph, steps)
        where = steps.ops[bound.step]
        proof = _Proof(bound.bytes, _described(where), place_of_op(where), tuple(_notes(steps, graph, bound)))
        self._let_workspaces_be_scarce(scarce)
        return proof

    def _refuse(self, as_given: _Proof, reached: int) -> None:
        proof = as_given
        if as_given.bytes > self._budget:
            message = (
                f"{self._ways()} fits into {self._asked} bytes: "
                f"while {as_given.where} runs, at least {as_given.bytes} are live"
            )
        else:
            message = (
                f"found no way to fit into {self._asked} bytes{self._room()}; it is proved that {self._ways()} takes "
                f"less than {as_given.bytes}, which are live while {as_given.where} runs"
            )
        now = self._proof()
        if now.bytes < as_given.bytes and now.bytes > self._budget:
            message += f"; in tiles, at least {now.bytes} are, while {now.where} runs"
            proof = now
        elif reached < as_given.bytes:
            message += f"; the least that was found is {reached}"
        off = [name for name in FitMemoryPass.rewrites if not is_enabled(name)]
        if off:
            message += f"; switched off: {', '.join(off)}"
        raise PassFailure(message, place=proof.place, notes=(*proof.notes, *self._advice()))

    def _advice(self) -> Iterator[Diagnostic]:
        """That spilling may do, where it is not allowed and each launch alone fits."""
        if self._spill_allowed:
            return
        steps = self._steps(self._block)
        alone = step_bound(self._least_graph(steps)).bytes
        if alone <= self._budget:
            message = f"a spill budget may help: what one launch uses takes at most {alone} bytes"
            yield Diagnostic(Severity.NOTE, message)

    def _ways(self) -> str:
        if self._spill_allowed:
            return "no order of the launches, no second run of single ones, and no spilling"
        return "no order of the launches, and no second run of single ones,"

    def _room(self) -> str:
        return "" if self._spill_budget is None else f", and {self._asked_to_spill} to spill to"

    def _bound(self, graph: StepGraph, steps: BlockSteps) -> Necessary:
        return step_bound(graph) if self._spill_allowed else recomputation_bound(graph, steps.writers)

    def _least_graph(self, steps: BlockSteps) -> StepGraph:
        """The graph of a block in which loops and branches take what they take at least."""
        changed: list[int] = []
        for op, step in zip(steps.ops, steps.graph.steps, strict=True):
            least = step.workspace
            blocks = _blocks_of_control_flow(op)
            if blocks and step.workspace:
                inner = [self._steps(block) for block in blocks]
                least = max(self._bound(self._least_graph(s), s).bytes for s in inner)
            changed.append(least)
        new = (step._replace(workspace=least) for step, least in zip(steps.graph.steps, changed, strict=True))
        return StepGraph(tuple(new), steps.graph.values)


def _height(graph: StepGraph) -> int:
    """The bytes of an arena for the steps in the order as they stand: more than are live at once if it fragments."""
    values = [
        Buffer(f"value {i}", min(value.steps), max(value.steps) + 1, value.size, 1)
        for i, value in enumerate(graph.values)
        if value.size and value.steps
    ]
    workspaces = [
        Buffer(f"workspace {i}", i, i + 1, step.workspace, 1)
        for i, step in enumerate(graph.steps)
        if step.workspace
    ]
    return plan([*values, *workspaces]).height


def _notes(steps: BlockSteps, graph: StepGraph, bound: Necessary) -> Iterator[Diagnostic]:
    """What is live at least, the largest first."""
    for index in sorted(bound.values, key=lambda index: -graph.values[index].size):
        value = graph.values[index]
        made = steps.ops[min(value.steps)]
        kind = "used there" if bound.step in value.steps else "kept for later"
        yield Diagnostic(
            Severity.NOTE, f"{value.size} bytes made by {_described(made)}, {kind}", place_of_op(made)
        )
    if graph.steps[bound.step].workspace:
        yield Diagnostic(Severity.NOTE, f"{graph.steps[bound.step].workspace} bytes it works in")


def _blocks_of_control_flow(op: Operation) -> list[Block]:
    if isinstance(op, SymbolicKernel):
        return []
    return [block for region in op.regions for block in region.blocks]


def _described(op: Operation) -> str:
    return describe(op) if isinstance(op, LaunchOp) else f"'{op.name}'{nodes_text(op.location)}"


def _percent(now: float, before: float) -> str:
    return f"{100 * (now / before - 1) if before else 0:+.1f}%"
