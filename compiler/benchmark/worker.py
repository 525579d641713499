"""The process of one engine: it loads a model, then runs and times it whenever it is asked to.

One engine per process, because their threads disturb each other: those of OpenBLAS keep spinning for a while after a
matrix product, and take the cores from an engine that runs next.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from mlopt.benchmark.engines import Engine, load_engine
from mlopt.diagnostics import Diagnostic, MloptError, Severity
from mlopt.options import CompileOptions

WARM_UP_RUNS = 3
"""Runs before each turn that are not counted: the other engine has had the caches."""


@dataclass(frozen=True)
class Job:
    """What a worker is sent first. `inputs` is None for seeded random ones, which only mlopt can make up."""

    engine: str
    model: Path
    options: CompileOptions
    inputs: Mapping[str, np.ndarray] | None
    threads: int


@dataclass(frozen=True)
class Turn:
    """A request: run so many times. The answer is the seconds of each run."""

    runs: int


@dataclass(frozen=True)
class Finish:
    """A request: the outputs and the peak memory. The worker ends."""


@dataclass(frozen=True)
class Finished:
    """The answer to `Finish`: the outputs of one more run, and the most memory the process had, in bytes."""

    outputs: dict[str, np.ndarray]
    peak_rss_bytes: int


@dataclass(frozen=True)
class Failed:
    """The answer to anything that could not be done."""

    diagnostics: tuple[Diagnostic, ...]


def serve(connection: Connection, name: str) -> None:
    """Receive a `Job` for the engine `name`, load its model, and answer with a `Loaded`.

    Then answer requests until `Finish` or the end of the connection.
    """
    try:
        job: Job = connection.recv()
        engine = load_engine(job.engine, job.model, job.options, job.inputs, job.threads)
        connection.send(engine.loaded)
        while True:
            match connection.recv():
                case Turn(runs):
                    connection.send(_timed_runs(engine, runs))
                case _:
                    engine.refill()
                    connection.send(Finished(engine.run(), peak_rss_bytes()))
                    return
    except MloptError as error:
        connection.send(Failed(error.diagnostics))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        # Whoever asked is gone.
        return
    except Exception as error:
        text = f"{name}: {type(error).__name__}: {error}".partition("\n")[0]
        connection.send(Failed((Diagnostic(Severity.ERROR, text),)))


def _timed_runs(engine: Engine, runs: int) -> Sequence[float]:
    for _ in range(WARM_UP_RUNS):
        engine.refill()
        engine.run()
    seconds: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            engine.refill()
            start = time.perf_counter()
            engine.run()
            seconds.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return seconds


def peak_rss_bytes() -> int:
    """The most physical memory this process had.

    From `/proc` on Linux: `getrusage` there counts the memory of the process that this one was started from.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
