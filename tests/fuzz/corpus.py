"""Failing programs as files: `NAME.onnx`, and beside it `NAME.npz` with the inputs, the right outputs and the route."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.levels import Route
from tests.fuzz.program import Program, Step, Value

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
    route = Route(tuple(about["graph"]), tuple(about["kernel"]), about["memory"], about["export"], about["poison"])

    def value(name: str, kind: str) -> Value:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(types[name]))
        runs = sum(key == f"{kind}:{key.split(':')[1]}:{name}" for key in stored if key.startswith(f"{kind}:"))
        arrays = [stored[f"{kind}:{run}:{name}"] for run in range(runs)]
        arrays = [array if array.dtype == dtype else array.view(dtype) for array in arrays]
        error, structural = float(stored[f"error:{name}"]), bool(stored[f"structural:{name}"])
        return Value(name, tuple(arrays), "input" if kind == "input" else "node", error, structural)

    values = {name.name: value(name.name, "input") for name in model.graph.input}
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        values[tensor.name] = Value(tensor.name, (array,), "constant", 0.0, structural=True)
    outputs = {o.name: values.get(o.name) or value(o.name, "output") for o in model.graph.output}
    opset = next(entry.version for entry in model.opset_import if entry.domain == "")
    program = Program(opset, [], list(outputs.values()))
    for node in model.graph.node:
        operands = [name for name in _reads(node) if name in values]
        for name in filter(None, node.output):
            values[name] = outputs.get(name) or Value(name, (np.empty(0),), "node")
        program.steps.append(
            Step(node, tuple(values[n] for n in operands), tuple(values[n] for n in node.output if n))
        )
    program.runs = max((len(v.arrays) for v in program.outputs if v.kind != "constant"), default=1)
    for v in program.outputs:
        v.arrays = v.arrays * (program.runs if len(v.arrays) == 1 else 1)
    return program, route


def _reads(node: onnx.NodeProto) -> list[str]:
    """The names that a node and its bodies read; those made in a body are among them, and known to nobody else."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names += _reads(inner)
        names += [output.name for output in attribute.g.output]
    return list(dict.fromkeys(names))
