"""Running a compiled model once, with what the report wants to know: times and the traced peak."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlopt.arrays import random_array
from mlopt.compilation import Compilation, require_weights
from mlopt.interpreter.memref import Executable

if TYPE_CHECKING:
    from typing_extensions import Buffer

SEED = 0


class Loaded(NamedTuple):
    """A model loaded into the engine, and the seconds that took."""

    executable: Executable
    seconds: float


class RunResult(NamedTuple):
    """Outputs by name, and the seconds of the run."""

    outputs: dict[str, np.ndarray]
    seconds: float


def load_executable(compilation: Compilation, arena: Buffer | np.ndarray | None = None) -> Loaded:
    """Load a compiled module into the numpy engine, to run in the caller's `arena` or in an own one.

    `InputError` if it names a weight that is not there, and for an arena that does not do (see `Executable`).
    """
    start = time.perf_counter()
    require_weights(compilation)
    executable = Executable(
        compilation.module, compilation.ctx.weights, poison=compilation.options.poison, arena=arena
    )
    return Loaded(executable, time.perf_counter() - start)


def run_once(executable: Executable, inputs: Mapping[str, np.ndarray]) -> RunResult:
    """Run, timed."""
    start = time.perf_counter()
    outputs = executable.run(inputs)
    return RunResult(outputs, time.perf_counter() - start)


def seeded_inputs(executable: Executable) -> dict[str, np.ndarray]:
    """Random inputs of the declared shapes, the same ones every time; inputs that must have one value have it."""
    generator = np.random.default_rng(SEED)
    drawn = {spec.name: random_array(spec.shape, spec.dtype, generator) for spec in executable.inputs}
    return {**drawn, **executable.required_values}


def traced_peak(executable: Executable, inputs: Mapping[str, np.ndarray]) -> int:
    """Bytes that `tracemalloc` sees allocated at the peak of a warmed-up run, outputs aside."""
    out = {spec.name: np.empty(spec.shape, spec.dtype) for spec in executable.outputs}
    tracemalloc.start()
    try:
        executable.run(inputs, out)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        executable.run(inputs, out)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before
