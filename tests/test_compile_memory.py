"""Weights are never held in memory of the process: what Python allocates while a model is compiled and loaded.

`benchmarks/compile_memory.py` measures the same from outside, for whole commands and 400 MiB of weights.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import mlopt
from mlopt.compilation import compile_model, load_model
from mlopt.options import CompileOptions
from mlopt.save import save_model
from tests.frontend.onnx_models import assert_close, model_of, run_onnxruntime, value_info

SIDE, COUNT = 512, 32
X = np.random.default_rng(0).standard_normal((2, SIDE), np.float32)


def chain(form: str, side: int = SIDE, count: int = COUNT) -> onnx.ModelProto:
    """A chain of matrix products with a weight of 1 MiB each."""
    generator = np.random.default_rng(1)
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {"scale": np.array(0.5, np.float32)}
    for index in range(count):
        operands: Sequence[str] = [f"v{index}", f"w{index}"]
        constants[f"w{index}"] = generator.standard_normal((side, side), np.float32) / np.float32(side**0.5)
        if form == "scaled":
            nodes.append(helper.make_node("Mul", [f"w{index}", "scale"], [f"s{index}"]))
            operands = [f"v{index}", f"s{index}"]
        gemm = form == "gemm"
        attributes = {"transB": 1} if gemm else {}
        nodes.append(
            helper.make_node("Gemm" if gemm else "MatMul", operands, [f"v{index + 1}"], **attributes)
        )
    return model_of(nodes, [value_info("v0", X[:, :side])], [f"v{count}"], constants)


def save(model: onnx.ModelProto, path: Path, external: bool = False) -> Path:
    onnx.save(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    return path


@pytest.mark.parametrize("form", ["matmul", "gemm", "external", "scaled"])
def test_compiling_and_running_hold_no_copy_of_the_weights(form: str, tmp_path: Path):
    save(chain(form, 64, 2), tmp_path / "small.onnx")
    mlopt.compile(tmp_path / "small.onnx")  # what is loaded and remembered once does not count
    model = chain(form)
    want = run_onnxruntime(model, {"v0": X})
    path = save(model, tmp_path / "m.onnx", external=form == "external")
    del model
    gc.collect()
    tracemalloc.start()
    try:
        compiled = compile_model(load_model(path, CompileOptions()))
        save_model(compiled.module, compiled.ctx.weights, tmp_path / "m.mlir")
        _, compiling = tracemalloc.get_traced_memory()
        got = mlopt.compile(path).run({"v0": X})
        _, running = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    weights = COUNT * SIDE * SIDE * 4
    assert compiling <= 0.25 * weights
    assert running <= 0.25 * weights
    assert_close(got, want, 1e-4)
    assert_close(mlopt.compile(tmp_path / "m.mlir").run({"v0": X}), want, 1e-4)
    stored = (tmp_path / "m.safetensors").stat().st_size
    assert stored <= 1.01 * weights  # the weights as they were before folding are not in it


def test_the_model_file_is_mapped_and_tensors_without_alignment_have_their_values(tmp_path: Path):
    """A name of every length moves the data to every offset of a file."""
    generator = np.random.default_rng(2)
    constants = {"w" * n: generator.standard_normal((200, 100), np.float32) for n in range(1, 9)}
    nodes = [helper.make_node("Relu", [name], [f"y{len(name)}"]) for name in constants]
    path = save(model_of(nodes, [], [f"y{n}" for n in range(1, 9)], constants), tmp_path / "m.onnx")
    got = mlopt.compile(path).run({})
    assert_close(got, {f"y{len(name)}": np.maximum(array, 0) for name, array in constants.items()})
