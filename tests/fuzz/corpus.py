"""Failing programs as files: `NAME.onnx`, and beside it `NAME.npz` with the inputs, the right outputs and the route."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.levels import Route
from tests.fuzz.program import Program, Step, Value, names_read

if TYPE_CHECKING:
    from tests.fuzz.search import Found


def save(found: Found, directory: Path, number: int) -> Path:
    """Write one; returns the path of the model. A text beside it says what is wrong and how to see it again."""
    directory.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", f"{number}-{'-'.join(found.program.operators)}")[:60]
    path = directory / f"{name}.onnx"
    model = found.program.model()
    onnx.save(model, path)
    arrays: dict[str, np.ndarray] = {}
    types: dict[str, int] = {}
    for kind, values in (("input", found.program.leaves()), ("output", found.program.outputs)):
        for value in values:
            if kind == "input" and value.kind != "input":
                continue
            types[value.name] = helper.np_dtype_to_tensor_dtype(value.dtype)
            for run, array in enumerate(value.arrays):
                arrays[f"{kind}:{run}:{value.name}"] = _bytes(array)
            arrays[f"error:{value.name}"] = np.array(value.error)
            arrays[f"structural:{value.name}"] = np.array(value.structural)
    arrays["route"] = np.array(json.dumps({"types": types, **asdict(found.route)}))
    np.savez(path.with_suffix(".npz"), **arrays)
    text = f"{found.failure}\n{found.route}\npython -m tests.fuzz --replay {path}\n\n{onnx.printer.to_text(model)}\n"
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    return path


def _bytes(array: np.ndarray) -> np.ndarray:
    """Types that npz files don't have as bytes of the same width."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}")) if array.dtype.kind == "V" else array


def load(path: Path) -> tuple[Program, Route]:
    """A program and its route from files."""
    model = onnx.load(path)
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
        stored = dict(file)
    about = json.loads(str(stored.pop("route")))
    types = about.pop("types")
    route = Route(
        tuple(about["graph"]),
        tuple(about["kernel"]),
        about["memory"],
        about["export"],
        about["poison"],
        tuple(about.get("memref", ())),
    )
    arrays: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for key, array in stored.items():
        kind, _, rest = key.partition(":")
        if kind in ("input", "output"):
            run, _, name = rest.partition(":")
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(types[name]))
            arrays.setdefault((kind, int(run)), {})[name] = (
                array if array.dtype == dtype else array.view(dtype)
            )
    runs = range(max(run for _, run in arrays) + 1)
    program = program_of(
        model, *([arrays.get((kind, run), {}) for run in runs] for kind in ("input", "output"))
    )
    for value in [*program.leaves(), *program.outputs]:
        if f"error:{value.name}" in stored:
            value.error = float(stored[f"error:{value.name}"])
            value.structural = bool(stored[f"structural:{value.name}"])
    return program, route


def program_of(
    model: onnx.ModelProto,
    inputs: Sequence[Mapping[str, np.ndarray]],
    outputs: Sequence[Mapping[str, np.ndarray]],
) -> Program:
    """A model with its inputs and the right outputs in each run; what is in between is not known."""

    def in_each(runs: Sequence[Mapping[str, np.ndarray]], name: str) -> tuple[np.ndarray, ...]:
        return tuple(run[name] for run in runs)

    values = {
        value.name: Value(value.name, in_each(inputs, value.name), "input") for value in model.graph.input
    }
    for tensor in model.graph.initializer:
        arrays = (onnx.numpy_helper.to_array(tensor),) * len(outputs)
        values[tensor.name] = Value(tensor.name, arrays, "constant", structural=True)
    for name in (value.name for value in model.graph.output if value.name not in values):
        values[name] = Value(name, in_each(outputs, name), "node")
    opset = next(entry.version for entry in model.opset_import if entry.domain == "")
    program = Program(opset, [], [values[value.name] for value in model.graph.output], len(outputs))
    for node in model.graph.node:
        operands = tuple(values[name] for name in names_read(node) if name in values)
        for name in filter(None, node.output):
            values.setdefault(name, Value(name, (np.empty(0, np.float32),), "node"))
        program.steps.append(Step(node, operands, tuple(values[name] for name in node.output if name)))
    return program
