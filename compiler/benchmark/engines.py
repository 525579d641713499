"""The engines that the benchmark knows: mlopt's own, and ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mlopt.diagnostics import Diagnostic, InputError, Place, Remark
from mlopt.options import CompileOptions
from mlopt.passmanager import PassResult


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to run, and what that took.

    - `inputs`: what it will run on: the ones given, or seeded random ones.
    - `load_seconds`: from the file to a model that can run.
    - `report`, `remarks`, `warnings`, `passes`: of the compilation, for mlopt.
    """

    inputs: Mapping[str, np.ndarray]
    load_seconds: float
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    remarks: tuple[Remark, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    passes: tuple[PassResult, ...] = ()


class Engine(Protocol):
    """A loaded model."""

    @property
    def loaded(self) -> Loaded:
        """What loading it gave."""
        ...

    def refill(self) -> None:
        """Put back what a run has overwritten of its inputs; no part of a run."""
        ...

    def run(self) -> dict[str, np.ndarray]:
        """Outputs by name, in fresh arrays but for those that lie in donated inputs."""
        ...


def check_available(engine: str, model: Path) -> None:
    """Raise `InputError` if an engine is not installed, or can't read a file of this kind."""
    if engine != "onnxruntime":
        return
    if find_spec("onnxruntime") is None:
        raise InputError(
            "--against onnxruntime needs the package onnxruntime, which is not installed: pip install onnxruntime"
        )
    if model.suffix == ".mlir":
        raise InputError("onnxruntime takes ONNX models, found MLIR", place=Place(str(model)))


def load_engine(
    name: str, model: Path, options: CompileOptions, inputs: Mapping[str, np.ndarray] | None, threads: int
) -> Engine:
    """Load a model into the engine of that name; whatever the engine raises comes through."""
    if name == "onnxruntime":
        assert inputs is not None
        return _OnnxRuntime(model, inputs, threads)
    return _Mlopt(model, options, inputs)


class _Mlopt:
    """The numpy engine; its threads are those of numpy's BLAS, which the environment sets."""

    def __init__(self, model: Path, options: CompileOptions, inputs: Mapping[str, np.ndarray] | None):
        from mlopt.compilation import compile_model, load_model
        from mlopt.report import build_report
        from mlopt.running import load_executable, prepare, seeded_inputs

        start = time.perf_counter()
        compilation = compile_model(load_model(model, options, inputs=inputs))
        loaded = load_executable(compilation)
        seconds = time.perf_counter() - start
        self._executable = loaded.executable
        report = build_report(compilation, loaded.executable)
        report["time"]["load_s"] = loaded.seconds
        self.loaded = Loaded(
            seeded_inputs(loaded.executable) if inputs is None else inputs,
            seconds,
            report,
            tuple(compilation.ctx.remarks),
            tuple(compilation.ctx.warnings),
            tuple(compilation.passes),
        )
        self._prepared = prepare(loaded.executable, self.loaded.inputs)

    def refill(self) -> None:
        self._prepared.refill()

    def run(self) -> dict[str, np.ndarray]:
        return self._executable.run(self._prepared.inputs, self._prepared.out)


class _OnnxRuntime:
    """ONNX Runtime on the CPU, with its optimisations on."""

    def __init__(self, model: Path, inputs: Mapping[str, np.ndarray], threads: int):
        # The package has no types.
        onnxruntime: Any = import_module("onnxruntime")

        start = time.perf_counter()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._outputs: list[str] = [output.name for output in self._session.get_outputs()]
        self.loaded = Loaded(inputs, time.perf_counter() - start)

    def refill(self) -> None:
        pass

    def run(self) -> dict[str, np.ndarray]:
        inputs = dict(self.loaded.inputs)
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))
