"""Runs engines side by side: a process for each, turns in rounds, medians and ratios, outputs compared.

A ratio is taken of each round, in which the engines run one right after the other, now this one first and now that:
what else the machine does changes from one second to the next, and the medians of all runs with it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import TypeVar, cast

import numpy as np

from mlopt.benchmark.engines import Loaded, check_available
from mlopt.benchmark.worker import Failed, Finish, Finished, Job, Turn, serve
from mlopt.compare import Comparison, compare_all
from mlopt.diagnostics import InputError, RunError
from mlopt.options import CompileOptions

ROUNDS = 20
"""Turns of each engine at most: what changes with time, such as other work on the machine, reaches all of them."""
FEWEST_RUNS = 5
"""Runs of a turn at least, as far as there are so many: turns also take a pause and runs that do not count."""
PAUSE = 0.05
"""Seconds before each turn; the threads of an engine that has finished spin for about half of that."""

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass
class EngineResult:
    """What was measured of one engine.

    `start_seconds` is from the start of the process to a loaded model, `loaded.load_seconds` the loading in it;
    `rounds` are the seconds of the runs of each turn.
    """

    name: str
    loaded: Loaded
    start_seconds: float
    rounds: list[list[float]] = field(default_factory=list[list[float]])
    peak_rss_bytes: int = 0
    outputs: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], repr=False)

    @property
    def seconds(self) -> list[float]:
        """Of all runs."""
        return [seconds for turn in self.rounds for seconds in turn]

    @property
    def median(self) -> float:
        """Seconds of a run."""
        return statistics.median(self.seconds)

    @property
    def fastest(self) -> float:
        """Seconds of a run."""
        return min(self.seconds)


@dataclass(frozen=True)
class BenchmarkResult:
    """One benchmark. The first engine is mlopt; `comparisons` are of its outputs with those of the second."""

    model: Path
    threads: int
    engines: tuple[EngineResult, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def ratios(self) -> list[float]:
        """Median of mlopt by median of the other engine, of each round: they ran one right after the other."""
        if len(self.engines) < 2:
            return []
        pairs = zip(self.engines[0].rounds, self.engines[1].rounds, strict=True)
        return [statistics.median(ours) / statistics.median(theirs) for ours, theirs in pairs]

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' ratios."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The 10th and the 90th percentile of the rounds' ratios."""
        if not self.ratios:
            return None
        low, high = np.percentile(self.ratios, (10, 90))
        return float(low), float(high)

    @property
    def agrees(self) -> bool:
        """Whether all outputs agree, within the tolerance of `mlopt run --check`."""
        return all(comparison.passed for comparison in self.comparisons)


def available_threads() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def benchmark(
    model: Path,
    options: CompileOptions,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    against: str | None = None,
    repeat: int = 50,
    threads: int | None = None,
    watch: Callable[[str], None] | None = None,
) -> BenchmarkResult:
    """Time `repeat` runs of mlopt and, in turns, of the engine `against`: both stay loaded and warm.

    `inputs` None: seeded random ones of the declared shapes. `watch` is told in words how far it is.
    Raises `InputError` if the other engine is not there, and what loading and running raise.
    """
    if against is not None:
        check_available(against, model)
    threads = threads or available_threads()
    told = watch or _ignore
    with ExitStack() as stack:
        workers: list[_Worker] = []
        for name in ("mlopt", against):
            if name is not None:
                told(f"loading it into {name}")
                worker = stack.enter_context(_Worker(Job(name, model, options, inputs, threads)))
                inputs = worker.load().inputs
                workers.append(worker)
        shares = _shares(repeat)
        for number, runs in enumerate(shares, 1):
            for worker in workers if number % 2 else reversed(workers):
                told(f"round {number} of {len(shares)}, {worker.job.engine}")
                time.sleep(PAUSE)
                seconds = cast("list[float]", worker.ask(Turn(runs), list))
                worker.result.rounds.append(seconds)
        for worker in workers:
            finished = worker.ask(Finish(), Finished)
            worker.result.outputs = finished.outputs
            worker.result.peak_rss_bytes = finished.peak_rss_bytes
        results = tuple(worker.result for worker in workers)
    comparisons = compare_all(results[0].outputs, results[1].outputs) if len(results) > 1 else []
    return BenchmarkResult(model, threads, results, tuple(comparisons))


def _ignore(step: str) -> None:
    """Nobody is watching."""


def _shares(total: int) -> Sequence[int]:
    """`total` runs over some rounds, as even as can be."""
    rounds = min(ROUNDS, max(1, total // FEWEST_RUNS))
    return [total // rounds + (index < total % rounds) for index in range(rounds)]


_Answer = TypeVar("_Answer")


class _Worker:
    """A process that serves one engine, and the result that its answers go into."""

    def __init__(self, job: Job):
        self.job = job

    def __enter__(self) -> _Worker:
        context = get_context("spawn")
        self._connection, other = context.Pipe()
        # The job follows on the connection: what a process is started with is written to it however soon it ends, and
        # a pipe that nobody reads takes no more than some KiB.
        self._process = context.Process(target=serve, args=(other, self.job.engine), daemon=True)
        self._start = time.perf_counter()
        with _thread_environment(self.job.threads):
            self._process.start()
        other.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.join(0 if error is not None else 5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._process.close()

    def load(self) -> Loaded:
        """Wait until the model is loaded."""
        loaded = self.ask(self.job, Loaded)
        self.result = EngineResult(self.job.engine, loaded, time.perf_counter() - self._start)
        return loaded

    def ask(self, request: object, kind: type[_Answer]) -> _Answer:
        """Send a request and wait for its answer."""
        try:
            self._connection.send(request)
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise RunError(
                f"the process of {self.job.engine} ended unexpectedly (exit code {self._process.exitcode})"
            ) from None
        if isinstance(answer, Failed):
            first = answer.diagnostics[0]
            raise InputError(
                first.message, place=first.place, notes=first.notes, source_line=first.source_line
            )
        assert isinstance(answer, kind)
        return answer


@contextmanager
def _thread_environment(threads: int) -> Generator[None]:
    """The environment that a process started in the block gets: BLAS libraries read their thread count from it."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
