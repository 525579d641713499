"""`fit-memory`: what runs needs no more bytes than a budget, at a price that is named, or it is said why it must.

The bytes are those of the arena, workspaces included, each of the least size with which its kernel runs well, or, if
nothing fits that way, runs at all. Steps, each only if the ones before it were not enough, and only where the most
bytes are live:

1. *Order*: launches in the order of the smallest peak (`schedule`), which is proved where it can be.
2. *Tiles*: launches between which a large tensor passes become one (`join_launches`), which makes and uses the tensor
   in tiles (`cut_launch`). Nothing is computed twice.
3. *Recomputation*: what is kept long over the peak and is cheap is made a second time, right before it is used again.
   If what it is made from is gone by then, that is made again, too.

Then the order once more. Tiles that take bytes away but do not fit come after that, and the last two steps again. If
that is not enough, the pass fails. The error says what is live at least, whatever the
order of the launches and whatever single one is run again (`recomputation_bound`), with the model's nodes.

Without a budget, what the model takes as imported is one: the most bytes that live at once if every operator runs on
its own. It is a wish: tried are orders, then tiles that fit or smaller workspaces, whichever costs less time, and
recomputation. What stays above it is a remark. Nearly all models are far below. So that this is found out quickly,
launches are first taken to work in more bytes than most of them do, and what they need is looked at only where that
would be too much.

`plan-workspaces{budget=N}` then sizes workspaces within the budget, and `assign-buffers{budget=N}` refuses an arena
that is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from mlopt.diagnostics import Diagnostic, PassFailure, Place, RemarkKind, Severity
from mlopt.dialects.kernel import LaunchOp, SymbolicKernel
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import find_main, only_block
from mlopt.ir.imported import imported_max_live
from mlopt.ir.locations import nodes_text, place_of_op
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewrite_scope import is_enabled
from mlopt.memory import Buffer, plan
from mlopt.memory.rematerialization import Necessary, best_rerun, recomputation_bound
from mlopt.memory.scheduling import schedule
from mlopt.memory.steps import StepGraph, profile
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.flops import flops_of
from mlopt.passes.kernel.fuse_kernels import describe
from mlopt.passes.kernel.launches import blocks_with_launches
from mlopt.passes.kernel.run_again import run_again
from mlopt.passes.kernel.tile_chain import best_tiling
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

    Each move is reported with the bytes live at once before and after it, and its price in scalar operations and
    modelled time. Fails if nothing fits, and says what must be live at once. Nothing is done if the budget is kept.

    Options: `budget`: the bytes of the arena (default: a wish for what lives at once in the model as imported; nothing
    is done if that is not known); `nodes`: how many steps the search for an order may try in each block.
    """

    name = "fit-memory"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "order-block": "The steps of a block in an order of smaller peak.",
        "tile-chain": "Launches run one tile after the other.",
        "run-again": "Launches run a second time, so that their results are not kept.",
    }

    budget: int | None = None
    nodes: int = 100_000

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 0:
            raise PassFailure(f"the budget can't be negative, found {self.budget}")
        if self.nodes < 0:
            raise PassFailure(f"the nodes of a search can't be negative, found {self.nodes}")

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        main = find_main(op)
        if main is None:
            raise PassFailure("the module has no function '@main'", place=place_of_op(op))
        if self.budget is not None:
            return _Fitting(ctx, main, self.budget, self.nodes).run()
        wish = imported_max_live(op)
        return wish is not None and _Fitting(ctx, main, wish, self.nodes).run_if_above()


@dataclass(frozen=True)
class _Proof:
    """What must be live at once, where, and what it is."""

    bytes: int
    where: str
    place: Place
    notes: tuple[Diagnostic, ...]


class _Fitting:
    """The moves, made in the IR one by one."""

    def __init__(self, ctx: CompilerContext, main: func.FuncOp, budget: int, nodes: int):
        self._ctx = ctx
        self._main = main
        self._block = only_block(main)
        self._needs = WorkspaceNeeds(ctx.target)
        self._budget = self._capacity = budget // self._needs.alignment * self._needs.alignment
        self._nodes = nodes
        self._changed = False
        self._known: dict[Block, BlockSteps] = {}

    def run(self) -> bool:
        before = self._peak()
        if before <= self._budget >= _height(self._steps(self._block).graph):
            self._report(before, before, (0, 0.0))
            return False
        cost, as_given = self._cost(), self._proof()
        if not self._make_fit():
            self._let_workspaces_be_scarce(True)
            if not self._make_fit():
                self._refuse(as_given, self._peak())
        self._report(before, self._peak(), cost)
        return self._changed

    def _make_fit(self) -> bool:
        """Make moves until everything fits, or there are no more."""
        self._capacity = self._budget
        for _ in range(_ROUNDS):
            again = (self._recompute, self._reorder)
            for move in (self._reorder, self._tile, *again, self._tile_anyway, *again):
                if self._peak() > self._capacity:
                    move()
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
        for move in (self._reorder, self._relieve, self._recompute, self._reorder):
            if self._peak() > self._capacity:
                move()
        if self._peak() > self._budget:
            proof = self._proof()
            message = (
                f"{self._peak()} bytes live at once are more than {self._budget}, which the model takes as imported; "
                f"while {proof.where} runs, at least {proof.bytes} are live"
            )
            self._remark("missed", message, self._main)
        else:
            self._report(before, self._peak(), cost)
        return self._changed

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

    def _let_workspaces_be_scarce(self, scarce: bool) -> None:
        self._needs.scarce = scarce
        self._known.clear()

    def _note_change(self) -> None:
        self._changed = True
        self._known.clear()

    def _peak(self) -> int:
        return self._steps(self._block).peak()

    def _cost(self) -> tuple[int, float]:
        """The scalar operations of all launches, and the modelled nanoseconds of all kernels, each run once."""
        kernels = [op for op in self._main.walk() if isinstance(op, SymbolicKernel)]
        flops = sum(flops_of(op) for op in kernels if isinstance(op, LaunchOp))
        return flops, sum(self._needs.nanoseconds(op) for op in kernels)

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
            if found.peak < found.source_peak and may_rewrite("order-block", owner):
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
        tiling = best_tiling(steps, capacity, self._needs, only_fitting=only_fitting)
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

    # What is said

    def _price(self, before: tuple[int, float]) -> str:
        flops, nanoseconds = self._cost()
        return f", for {flops - before[0]} flops and {(nanoseconds - before[1]) / 1000:.0f} us as modelled"

    def _report(self, before: int, after: int, cost: tuple[int, float]) -> None:
        message = f"{after} bytes live at once fit into {self._budget}"
        if self._changed:
            flops, nanoseconds = self._cost()
            message = (
                f"{message}, {before} did not: {_percent(flops, cost[0])} flops, "
                f"{_percent(nanoseconds, cost[1])} modelled time"
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
        bound = recomputation_bound(graph, steps.writers)
        where = steps.ops[bound.step]
        proof = _Proof(bound.bytes, _described(where), place_of_op(where), tuple(_notes(steps, graph, bound)))
        self._let_workspaces_be_scarce(scarce)
        return proof

    def _refuse(self, as_given: _Proof, reached: int) -> None:
        proof = as_given
        if as_given.bytes > self._budget:
            message = (
                f"no order of the launches, and no second run of single ones, fits into {self._budget} bytes: "
                f"while {as_given.where} runs, at least {as_given.bytes} are live"
            )
        else:
            message = (
                f"found no way to fit into {self._budget} bytes; it is proved that no order of the launches, and no "
                f"second run of single ones, takes less than {as_given.bytes}, which are live while {as_given.where} "
                "runs"
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
        raise PassFailure(message, place=proof.place, notes=proof.notes)

    def _least_graph(self, steps: BlockSteps) -> StepGraph:
        """The graph of a block in which loops and branches take what they take at least."""
        changed: list[int] = []
        for op, step in zip(steps.ops, steps.graph.steps, strict=True):
            least = step.workspace
            blocks = _blocks_of_control_flow(op)
            if blocks and step.workspace:
                inner = [self._steps(block) for block in blocks]
                least = max(recomputation_bound(self._least_graph(s), s.writers).bytes for s in inner)
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
