"""How long each launch of a model takes, beside what it does: the measurement behind `mlopt profile`.

All times are means over the fastest quarter of the runs, by the time of the whole run: what else the machine does makes
runs longer, never shorter, and so the times of the launches add up to that of the run.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation

from mlopt.benchmark.work import Work, WorkCounter
from mlopt.compilation import Compilation
from mlopt.interpreter.memref import Executable
from mlopt.ir.locations import node_names
from mlopt.running import load_executable, prepare, seeded_inputs

WARM_UP_RUNS = 3
"""Runs of each session that do not count."""


@dataclass(frozen=True)
class Launch:
    """A call of `@main`, or another operation of it that takes time: a copy, a loop or a branch with all that is in it.

    - `kernel`: the name of the function that is called, or of the operation.
    - `nodes`: the nodes of the model that it comes from, in order.
    """

    kernel: str
    nodes: tuple[str, ...]
    seconds: float
    work: Work

    @property
    def flops_per_second(self) -> float:
        """Scalar operations a second; 0 if it took no time that a clock could see."""
        return self.work.flops / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes read and written a second."""
        return self.work.nbytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """The launches of a model in the order in which they run.

    - `seconds`: of a run in which each launch is timed.
    - `plain_seconds`: of a run without that; they took turns.
    - `repeat`: how many runs there were of each kind.
    """

    launches: tuple[Launch, ...]
    seconds: float
    plain_seconds: float
    repeat: int

    @property
    def overhead(self) -> float:
        """The part by which measuring makes a run longer; what is left of noise may be below 0."""
        return self.seconds / self.plain_seconds - 1 if self.plain_seconds else 0.0

    @property
    def outside(self) -> float:
        """Seconds of a run between launches, and before and after them: inputs checked, outputs made."""
        return self.seconds - sum(launch.seconds for launch in self.launches)

    @property
    def work(self) -> Work:
        """What all launches do together."""
        total = Work()
        for launch in self.launches:
            total = total.plus(launch.work)
        return total

    def share(self, launch: Launch) -> float:
        """The part of a run that a launch takes."""
        return launch.seconds / self.seconds if self.seconds else 0.0


def profile(
    compilation: Compilation,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    repeat: int = 50,
    watch: Callable[[str], None] | None = None,
) -> Profile:
    """Time `repeat` runs of a compiled model, in turns with as many in which no launch is timed.

    `inputs` None: seeded random ones of the declared shapes. Raises what loading and running raise.
    """
    timed = load_executable(compilation, timed=True).executable
    plain = load_executable(compilation).executable
    given = seeded_inputs(plain) if inputs is None else inputs
    runs = [_run_of(timed, given), _run_of(plain, given)]
    for run in runs:
        for _ in range(WARM_UP_RUNS):
            run()
    for launch in timed.launches:
        launch.seconds.clear()
    seconds: list[list[float]] = [[], []]
    gc.collect()
    gc.disable()
    try:
        for number in range(repeat):
            if watch is not None:
                watch(f"run {number + 1} of {repeat}")
            for run, found in zip(runs, seconds, strict=True):
                found.append(run())
    finally:
        gc.enable()
    counter, fastest = WorkCounter(compilation.module), _fastest(seconds[0])
    launches = tuple(
        Launch(
            _name(launch.ops[0]),
            tuple(dict.fromkeys(node for op in launch.ops for node in node_names(op.location))),
            _mean(launch.seconds, fastest),
            _work(counter, launch.ops),
        )
        for launch in timed.launches
    )
    of_timed, of_plain = (_mean(of_kind, _fastest(of_kind)) for of_kind in seconds)
    return Profile(launches, of_timed, of_plain, repeat)


def _fastest(seconds: Sequence[float]) -> list[int]:
    """Which runs are the fastest quarter, at least one."""
    return sorted(range(len(seconds)), key=seconds.__getitem__)[: -(-len(seconds) // 4)]


def _mean(seconds: Sequence[float], runs: Sequence[int]) -> float:
    return statistics.fmean(seconds[run] for run in runs)


def _run_of(executable: Executable, inputs: Mapping[str, np.ndarray]) -> Callable[[], float]:
    """A run on the inputs; it returns how long it took, without what puts donated inputs back."""
    prepared = prepare(executable, inputs)

    def run() -> float:
        prepared.refill()
        start = perf_counter()
        executable.run(prepared.inputs, prepared.out)
        return perf_counter() - start

    return run


def _work(counter: WorkCounter, ops: list[Operation]) -> Work:
    total = Work()
    for op in ops:
        total = total.plus(counter.of(op))
    return total


def _name(op: Operation) -> str:
    return op.callee.string_value() if isinstance(op, func.CallOp) else op.name
