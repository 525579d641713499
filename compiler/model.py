"""The Python API: compile a model, run it, look at its IR and its memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlopt.compilation import Compilation, compile_model, is_text, load_model
from mlopt.diagnostics import InputError, RunError
from mlopt.interpreter.memref import (
    Executable,
    TensorSpec,
    lent_address,
    require_mapping,
    require_unmasked,
    same_bits,
)
from mlopt.ir.donations import Donation
from mlopt.ir.dtypes import typed_array
from mlopt.ir.memory_spaces import SPILL_SPACE
from mlopt.options import CompileOptions
from mlopt.passes.memref.summary import MemorySummary, memory_summary
from mlopt.passes.pipelines import Level
from mlopt.report import build_report
from mlopt.running import load_executable

if TYPE_CHECKING:
    from onnx import ModelProto
    from typing_extensions import Buffer

MAX_SPECIALISATIONS = 8
"""Compiled versions that a model keeps for other input shapes; the one used longest ago goes first."""

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]
_Key = tuple[_Shapes, tuple[tuple[str, bytes], ...]]
"""The shapes that a version is for, and the bytes of the inputs whose values it is for."""


class Model:
    """A compiled model.

    It is compiled for static shapes, for the values of inputs that decide shapes, and for the inputs that are given of
    those that have a value in the model. When `run` meets others, and the model's own dimensions are symbolic, another
    version is compiled for them and kept. A model may be used from several
    threads, but not by two at the same time: the second concurrent `run` raises `RunError`.
    """

    def __init__(
        self,
        source: str | Path | ModelProto,
        options: CompileOptions,
        *,
        inputs: Mapping[str, np.ndarray] | None = None,
    ):
        self._source = source
        self._options = options
        self._lock = threading.Lock()
        self._versions: OrderedDict[_Key, _Version] = OrderedDict()
        self._current = self._add_version(_Version(load_model(source, options, inputs=inputs)))

    def __repr__(self) -> str:
        what = (
            ", ".join(f"{spec.name}: {spec.dtype}{list(spec.shape)}" for spec in specs)
            for specs in (self.inputs, self.outputs)
        )
        return f"<mlopt.Model {' -> '.join(what)}, arena of {self.arena_bytes} bytes>"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each input of the version used last."""
        return self._current.executable.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each output of the version used last."""
        return self._current.executable.outputs

    @property
    def memory(self) -> MemorySummary:
        """The memory plan of the version used last, in bytes."""
        return memory_summary(self._current.compilation.module)

    @property
    def arena_bytes(self) -> int:
        """The bytes of working memory that a run of the version used last takes: known without running it."""
        return self._current.executable.arena_bytes

    @property
    def spill_bytes(self) -> int:
        """The bytes that it takes of a second memory beside, if a spill budget allows it to; 0 for none."""
        return self._current.executable.spill_bytes

    @property
    def compilation(self) -> Compilation:
        """How the version used last was compiled."""
        return self._current.compilation

    @property
    def executable(self) -> Executable:
        """What runs: the version used last, loaded into the numpy engine."""
        return self._current.executable

    def run(
        self,
        inputs: Mapping[str, np.ndarray],
        out: Mapping[str, np.ndarray] | None = None,
        *,
        arena: Buffer | np.ndarray | None = None,
        spill: Buffer | np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Run the model; return its outputs by name.

        An input that the model gives a value (an initializer of the same name) may be left out or given.
        `out` may give arrays to write outputs into. Raises `InputError` for an input that is missing, not known, or of
        another dtype or shape than the model takes.

        `arena` is memory of the caller's to work in, instead of the model's own: a writable, contiguous buffer of at
        least `arena_bytes` at an address that is a multiple of 64, or `InputError`. What is in it is lost, and may be
        overwritten between runs. A model is loaded anew for each other arena, and holds on to the last one. `spill` is
        likewise memory of `spill_bytes` to spill tensors to.
        """
        require_mapping(inputs, "inputs")
        if not self._lock.acquire(blocking=False):
            raise RunError("this model is already running; a model serves one run at a time")
        try:
            version = self._version_for(inputs)
            version.work_in(arena, spill)
            start = time.perf_counter()
            outputs = version.executable.run(inputs, out)
            version.run_seconds = time.perf_counter() - start
            self._current = version
            return outputs
        finally:
            self._lock.release()

    def ir(self, level: Level) -> str:
        """The text at the end of a level (`graph`, `kernel` or `memref`), large constants elided."""
        return self._current.compilation.ir(level)

    def report(self) -> dict[str, Any]:
        """What `--report` writes, for the version used last."""
        version = self._current
        report = build_report(version.compilation, version.executable)
        report["time"] |= {"load_s": version.load_seconds, "run_s": version.run_seconds}
        return report

    def _version_for(self, inputs: Mapping[str, np.ndarray]) -> _Version:
        known = next((version for version in self._versions.values() if version.is_for(inputs)), None)
        if known is not None:
            self._versions.move_to_end(known.key)
            return known
        inputs = _native(inputs)
        if not self._can_specialise(inputs):
            return self._current
        options = replace(self._options, dims={})
        return self._add_version(_Version(load_model(self._source, options, inputs=inputs)))

    def _can_specialise(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether only extents, deciding values and inputs with a value of their own differ from what is compiled.

        Anything else is for `Executable.run` to refuse.
        """
        if is_text(self._source) or (
            isinstance(self._source, str | Path) and Path(self._source).suffix == ".mlir"
        ):
            return False
        specs = {spec.name: spec for spec in self.inputs}
        if specs.keys() != inputs.keys():
            missing = specs.keys() - inputs.keys() - self._default_inputs
            if missing:
                found = ", ".join(f'"{name}"' for name in inputs) or "none"
                raise InputError(f'input "{min(missing)}" is missing; found {found}')
            if not inputs.keys() - specs.keys() <= self._default_inputs:
                return False
        return all(
            typed_array(np.asarray(array), specs[name].dtype).dtype == specs[name].dtype
            and np.ndim(array) == len(specs[name].shape)
            for name, array in inputs.items()
            if name in specs
        )

    @cached_property
    def _default_inputs(self) -> frozenset[str]:
        from mlopt.frontend.onnx import default_inputs  # which brings in onnx: see load_model

        return default_inputs(self._source)

    def _add_version(self, version: _Version) -> _Version:
        self._versions[version.key] = version
        while len(self._versions) > MAX_SPECIALISATIONS:
            self._versions.popitem(last=False)
        return version


class _Version:
    """One compilation for given shapes, loaded into the engine."""

    def __init__(self, compilation: Compilation):
        self.compilation = compile_model(compilation)
        loaded = load_executable(self.compilation)
        self.executable, self.load_seconds = loaded.executable, loaded.seconds
        self.run_seconds: float | None = None
        self._lent: tuple[tuple[int, int] | None, ...] = (None, None)
        values = {name: value.tobytes() for name, value in self.executable.required_values.items()}
        self.key: _Key = (
            tuple(sorted((spec.name, spec.shape) for spec in self.executable.inputs)),
            tuple(sorted(values.items())),
        )

    def work_in(self, arena: Buffer | np.ndarray | None, spill: Buffer | np.ndarray | None) -> None:
        """Load it again if it is to work in other arenas than it does; None for an own one."""
        lent = lent_address(arena), lent_address(spill, SPILL_SPACE)
        if lent != self._lent:
            loaded = load_executable(self.compilation, arena, spill)
            self.executable, self.load_seconds = loaded.executable, loaded.seconds
            self._lent = lent

    def is_for(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether inputs of these shapes, and values where they decide, are what was compiled."""
        return self.key[0] == _shapes(inputs) and all(
            same_bits(np.asarray(inputs[name]), value)
            for name, value in self.executable.required_values.items()
        )


def _native(inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Example inputs as arrays of the native byte order, which is all that the importer takes."""
    arrays: dict[str, np.ndarray] = {}
    for name, given in inputs.items():
        require_unmasked(given, f'input "{name}"')
        array = np.asarray(given)
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


def _shapes(inputs: Mapping[str, np.ndarray]) -> _Shapes:
    return tuple(sorted((name, tuple(np.shape(array))) for name, array in inputs.items()))


def _require(value: object, kind: type, what: str) -> None:
    """`InputError` for what is neither None nor of a kind."""
    if value is not None and not isinstance(value, kind):
        raise InputError(f"expected {what} as a {kind.__name__}, found {type(value).__name__}")


def compile(
    model: str | Path | ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    options: CompileOptions | None = None,
    donate: Sequence[Donation | str] = (),
    validate: bool | float | None = None,
    bisect: bool | None = None,
) -> Model:
    """Compile a model and load it.

    `model` is the path of an `.onnx` or `.mlir` file, an ONNX `ModelProto`, or MLIR text. `dims` gives symbolic
    dimensions their values; `inputs` gives them by example. `donate` names inputs whose memory is given up, so that
    outputs can be computed in it: texts such as `"past=present@64"`, or `Donation`s. `validate` (True, or the allowed
    difference) undoes what a pass changes if that changes the answer, on seeded inputs or on `inputs`; `bisect` finds
    the rewrite to blame, too: see `CompileOptions`. What was undone stands in the report and in
    `Model.compilation.validator`. Raises `MloptError`
    with the message that the command line would print.
    """
    if not isinstance(model, str | Path) and type(model).__name__ != "ModelProto":  # onnx may not be loaded
        raise InputError(
            f"expected a path, MLIR text or a ModelProto as the model, found {type(model).__name__}"
        )
    if isinstance(model, str | Path) and "\0" in str(model):
        raise InputError("expected a path, MLIR text or a ModelProto as the model, found a null character")
    if inputs is not None:
        require_mapping(inputs, "inputs")
        inputs = _native(inputs)
    _require(options, CompileOptions, "options")
    _require(dims, Mapping, "dims")
    options = options or CompileOptions()
    if dims:
        options = replace(options, dims={**options.dims, **dims})
    if isinstance(donate, str):
        raise InputError(f"expected donations as a list, found '{donate}'")
    if donate:
        options = replace(options, donate=(*options.donate, *donate))
    if validate is not None:
        options = replace(options, validate=validate)
    if bisect is not None:
        options = replace(options, bisect=bisect)
    return Model(model, options, inputs=inputs)
