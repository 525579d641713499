"""The plan: a tree of bound numpy calls, and the builder that makes it.

A plan is a list of steps, called one after another. Most steps are `functools.partial` objects whose arrays were bound
when the plan was made; a `SlotCall` has views of run-time memory; `For`, `If` and `While` hold
plans of their own. Running a plan touches no IR.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation

from mlopt.diagnostics import Place, RunError
from mlopt.interpreter import costs
from mlopt.interpreter.direct import Call, direct, in_rows
from mlopt.interpreter.slot_calls import Recipe, RunViews, SlotCall
from mlopt.interpreter.views import Region, Slot, View
from mlopt.ir.locations import node_names, place_of

Step = Callable[[], object]
Plan = list[Step]


def run_plan(plan: Plan) -> None:
    """Execute the steps in order."""
    for step in plan:
        step()


@dataclass(slots=True, eq=False, repr=False)
class Term:
    """`factor * value`, where the value is a scalar known at run time that must be in `[0, limit)`."""

    cell: np.ndarray
    factor: int
    limit: int


@dataclass(slots=True, eq=False, repr=False)
class SetSlot:
    """Points a slot at memory: a base view's memory, moved by run-time terms (bytes)."""

    slot: Slot
    region: Region
    offset: int
    terms: tuple[Term, ...]
    place: Place

    def __call__(self) -> None:
        offset = self.offset
        for term in self.terms:
            value = int(term.cell)
            if not 0 <= value < term.limit:
                raise RunError(
                    f"index {value} is out of bounds, expected 0 to {term.limit - 1}", place=self.place
                )
            offset += value * term.factor
        region = self.region
        if isinstance(region, Slot):
            offset += region.base
        self.slot.data = region.data
        self.slot.base = offset


@dataclass(slots=True, eq=False, repr=False)
class MoveSlots:
    """Points every slot of a loop at the memory of the value carried into it, all at once."""

    moves: tuple[tuple[Slot, View], ...]

    def __call__(self) -> None:
        targets = [
            (view.region.data, view.offset + (view.region.base if isinstance(view.region, Slot) else 0))
            for _, view in self.moves
        ]
        for (slot, _), (data, base) in zip(self.moves, targets, strict=True):
            slot.data = data
            slot.base = base


@dataclass(slots=True, eq=False, repr=False)
class For:
    """A loop whose trips are not unrolled; bounds are numbers or cells, `variable` is the cell of the position."""

    variable: np.ndarray
    low: int | np.ndarray
    high: int | np.ndarray
    step: int | np.ndarray
    body: Plan
    place: Place

    def __call__(self) -> None:
        step = int(self.step)
        if step <= 0:
            raise RunError(f"the step of a loop must be positive, found {step}", place=self.place)
        for position in range(int(self.low), int(self.high), step):
            self.variable[()] = position
            run_plan(self.body)


@dataclass(slots=True, eq=False, repr=False)
class If:
    """Two plans, of which a cell chooses one."""

    condition: np.ndarray
    then: Plan
    otherwise: Plan

    def __call__(self) -> None:
        run_plan(self.then if self.condition else self.otherwise)


@dataclass(slots=True, eq=False, repr=False)
class While:
    """Runs `before`; as long as it leaves true in `condition`, `after` and then `before` again."""

    before: Plan
    condition: np.ndarray
    after: Plan

    def __call__(self) -> None:
        run_plan(self.before)
        while self.condition:
            run_plan(self.after)
            run_plan(self.before)


@dataclass(slots=True, eq=False, repr=False)
class Timed:
    """A plan, and how many seconds each of its runs took. `ops` are the operations of `@main` that it executes."""

    ops: list[Operation]
    body: Plan
    seconds: list[float] = field(default_factory=list[float])

    def __call__(self) -> None:
        start = perf_counter()
        run_plan(self.body)
        self.seconds.append(perf_counter() - start)


@dataclass(slots=True, eq=False, repr=False)
class Assert:
    """Raises `RunError` when the cell is false."""

    condition: np.ndarray
    message: str
    place: Place

    def __call__(self) -> None:
        if not self.condition:
            raise RunError(self.message, place=self.place)


@dataclass(slots=True, eq=False, repr=False)
class CheckIndices:
    """Raises `RunError` if one of the indices (int64, read as uint64) is not in `[0, size)`.

    Read as unsigned, a negative index is larger than any extent, so that one maximum decides; it goes to `largest`.
    `from_end`: `size` was added to negative indices before.
    """

    axis: int
    size: int
    from_end: bool
    place: Place
    largest: np.ndarray = field(default_factory=lambda: np.zeros((), np.uint64))

    def __call__(self, indices: np.ndarray) -> None:
        np.maximum.reduce(indices, axis=None, out=self.largest)
        if int(self.largest) < self.size:
            return
        index = int(indices[indices >= self.size].view(np.int64)[0])
        if index < 0 and self.from_end:
            index -= self.size
        raise RunError(
            f"index {index} is out of bounds for axis {self.axis} of size {self.size}", place=self.place
        )


@dataclass
class Memory:
    """What a plan owns beside the arena: scratch, tables and cells, all made when the plan is built.

    While measuring nothing is allocated and no step is kept; with `timing`, what the steps would take, in nanoseconds,
    is added up in `nanoseconds`. `trying` is inside `dry`. `run_views` are of the inputs and outputs. `shared` counts
    what took memory that other launches use too.
    """

    measuring: bool = False
    trying: bool = False
    allocated: int = 0
    nanoseconds: float = 0.0
    shared: int = 0
    run_views: RunViews = field(default_factory=RunViews)
    _arrays: dict[tuple[object, ...], np.ndarray] = field(
        default_factory=dict[tuple[object, ...], np.ndarray]
    )
    _pool: Region = field(default_factory=lambda: Region("scratch", 0, np.empty(0, np.uint8)))
    _spills: list[Region] = field(default_factory=list[Region])
    _tables: dict[tuple[object, ...], View] = field(default_factory=dict[tuple[object, ...], View])

    def region(self, name: str, nbytes: int) -> Region:
        """A new region of `nbytes`, aligned to 64 bytes, counted in `allocated`."""
        if self.measuring:
            return Region(name, nbytes)
        self.allocated += nbytes
        return Region(name, nbytes, aligned_bytes(nbytes))

    def pool(self, nbytes: int) -> Region:
        """Memory shared by all functions without a workspace, which never need it at the same time."""
        self.shared += 1
        if self._pool.nbytes < nbytes:
            self._pool = self.region("scratch", nbytes)
        return self._pool

    def spill(self, depth: int, nbytes: int) -> Region:
        """Memory for what a workspace has no room for; the same depth of the stack reuses it."""
        self.shared += 1
        while len(self._spills) <= depth:
            self._spills.append(Region("spill", 0))
        if self._spills[depth].nbytes < nbytes:
            self._spills[depth] = self.region("spill", nbytes)
        return self._spills[depth]

    def cell(self, dtype: np.dtype) -> View:
        """A scalar that the plan computes; one element, not counted."""
        data = None if self.measuring else np.zeros(dtype.itemsize, np.uint8)
        return View(Region("cell", dtype.itemsize, data), 0, (), (), dtype)

    def table(self, array: np.ndarray) -> View:
        """A constant array; equal ones are stored once. Scalars are not counted."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._tables:
            if array.ndim and not self.measuring:
                self.allocated += array.nbytes
            region = Region.of_array("table", array.copy())
            self._tables[key] = View(region, 0, array.shape, array.strides, array.dtype)
        return self._tables[key]

    @contextmanager
    def dry(self) -> Generator[None]:
        """Inside, plans are only tried: nothing is allocated and no step is kept."""
        before = self.measuring, self.trying
        self.measuring = self.trying = True
        try:
            yield
        finally:
            self.measuring, self.trying = before

    def array(self, view: View) -> np.ndarray:
        """The array of a view whose memory is there; equal views share one array."""
        key = (view.region, view.offset, view.shape, view.strides, view.dtype)
        found = self._arrays.get(key)
        if found is None:
            found = self._arrays[key] = view.array()
        return found


class Repeats:
    """Steps that are emitted many times over, as those of blocks are.

    While measuring, each kind is looked at once: what is of one kind takes the same time.
    """

    def __init__(self, memory: Memory):
        self._memory = memory
        self._nanoseconds: dict[Hashable, float] = {}

    def emit(self, kind: Hashable, steps: Callable[[], object]) -> None:
        """Let `steps` emit what is of this kind."""
        memory = self._memory
        if not memory.measuring:
            steps()
            return
        if kind not in self._nanoseconds:
            before, memory.nanoseconds = memory.nanoseconds, 0.0
            steps()
            self._nanoseconds[kind], memory.nanoseconds = memory.nanoseconds, before
        memory.nanoseconds += self._nanoseconds[kind]


def aligned_bytes(nbytes: int, alignment: int = 64) -> np.ndarray:
    """Uninitialised bytes that start at a multiple of `alignment`."""
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]


class PlanBuilder:
    """Collects the steps of one plan. `site` is the location of the call whose function is being planned."""

    def __init__(self, memory: Memory, site: LocationAttr | None = None):
        self.memory = memory
        self.site = site
        self.plan: Plan = []

    def nested(self) -> PlanBuilder:
        """A builder for a plan inside this one."""
        return PlanBuilder(self.memory, self.site)

    def locate(self, place: Place) -> Place:
        """The place of an operation, or that of the call if it names another node: equal kernels share a function."""
        if self.site is None or place.node is None or place.node in node_names(self.site):
            return place
        return place_of(self.site)

    def step(self, step: Step) -> None:
        """Append a step."""
        if not self.memory.measuring:
            self.plan.append(step)

    def call(self, function: Callable[..., object], *args: object, **kwargs: object) -> None:
        """Append a call; views among the arguments become arrays."""
        if self.memory.measuring:
            self.memory.nanoseconds += costs.of_call(function, [*args, *kwargs.values()])
            return
        for called in in_rows(direct(function, args, kwargs)):
            self._append(called)

    def _append(self, called: Call) -> None:
        bound = [self._bind(arg) for arg in called.args]
        bound_kwargs = {key: self._bind(arg) for key, arg in called.kwargs.items()}
        if any(isinstance(a, Recipe) for a in (*bound, *bound_kwargs.values())):
            self.plan.append(SlotCall(called.function, bound, bound_kwargs, self.memory.run_views))
        else:
            self.plan.append(partial(called.function, *bound, **bound_kwargs))

    def _bind(self, arg: object) -> object:
        if not isinstance(arg, View):
            return arg
        if isinstance(arg.region, Slot):
            return Recipe(arg.region, arg.offset, arg.shape, arg.strides, arg.dtype)
        return self.memory.array(arg)
