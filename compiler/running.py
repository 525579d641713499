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


def load_executable(
    compilation: Compilation,
    arena: Buffer | np.ndarray | None = None,
    spill: Buffer | np.ndarray | None = None,
    *,
    timed: bool = False,
) -> Loaded:
    """Load a compiled module into the numpy engine, to run in the caller's `arena` and `spill`, or in own ones.

    With `timed`, runs tell how long each launch takes (`Executable.launches`).
    `InputError` if it names a weight that is not there, and for an arena that does not do (see `Executable`).
    """
    start = time.perf_counter()
    require_weights(compilation)
    executable = Executable(
        compilation.module,
        compilation.ctx.weights,
        poison=compilation.options.poison,
        timed=timed,
        arena=arena,
        spill=spill,
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


def fresh_inputs(executable: Executable, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs, of those that are donated copies, which a run may write."""
    donated = {buffer.input for buffer in executable.shared}
    return {name: array.copy() if name in donated else array for name, array in inputs.items()}


class Prepared(NamedTuple):
    """Arrays for runs one after another, in which each input lies in the output that it is donated to.

    `refill` puts back what a run has overwritten; `out` has the outputs that inputs are donated to.
    """

    inputs: dict[str, np.ndarray]
    out: dict[str, np.ndarray]
    originals: dict[str, np.ndarray]

    def refill(self) -> None:
        for name, original in self.originals.items():
            np.copyto(self.inputs[name], original)


def prepare(executable: Executable, inputs: Mapping[str, np.ndarray]) -> Prepared:
    """Arrays for runs on `inputs`, which stay as they are."""
    arrays = dict(inputs)
    out: dict[str, np.ndarray] = {}
    originals: dict[str, np.ndarray] = {}
    for buffer in executable.shared:
        laid = buffer.new()
        if buffer.output is not None:
            out[buffer.output] = laid.result
        if buffer.input is not None and buffer.input in inputs:
            originals[buffer.input] = inputs[buffer.input]
            arrays[buffer.input] = laid.place
    prepared = Prepared(arrays, out, originals)
    prepared.refill()
    return prepared


def traced_peak(executable: Executable, inputs: Mapping[str, np.ndarray]) -> int:
    """Bytes that `tracemalloc` sees allocated at the peak of a warmed-up run, outputs aside."""
    prepared = prepare(executable, inputs)
    out = {spec.name: np.empty(spec.shape, spec.dtype) for spec in executable.outputs} | prepared.out
    tracemalloc.start()
    try:
        executable.run(prepared.inputs, out)
        prepared.refill()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        executable.run(prepared.inputs, out)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before
