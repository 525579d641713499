"""Whole models split over 2, 3 and 4 ways give what the whole gives, in mlopt and exported in onnxruntime.

The largest difference is at most 1e-5 of the largest number of an output: sums of products are rounded in another
order.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import mlopt
from mlopt.arrays import read_npz
from mlopt.compilation import Compilation, compile_model, load_model
from mlopt.dialects import graph
from mlopt.export import to_onnx
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.ways import way_of
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import CLEANING, PipelineOptions, phase_passes
from tests.onnx_oracle import run_model

HERE, SHARED = Path(__file__).parents[2] / "models", Path(__file__).parents[4] / "shared" / "models"

SPLIT = {
    ("bert_tiny_dyn", 2): (4, 12, 0),
    ("bert_tiny_dyn", 4): (2, 4, 0),  # 2 heads
    ("gpt2_tiny_prefill_dyn", 2): (4, 8, 4),
    ("gpt2_tiny_prefill_dyn", 4): (4, 8, 4),
    ("vit_tiny_dyn", 2): (4, 8, 0),  # 3 heads
    ("vit_tiny_dyn", 3): (8, 24, 0),
    ("vit_tiny_dyn", 4): (4, 8, 0),
    ("llama_gqa_tiny_prefill_dyn", 2): (4, 14, 4),
    ("llama_gqa_tiny_prefill_dyn", 4): (2, 6, 0),  # 2 heads of the key
    ("llama_gqa_tiny_decode_dyn", 2): (4, 14, 4),
    ("gpt2_tiny_decode_dyn", 2): (4, 8, 4),
}
"""Model and ways → pairs and products split, and values gathered: in every layer attention, if its heads can be
divided, and the two products after it (three where one of them gates), key and value gathered where they are
outputs."""


def path_of(name: str) -> Path:
    path = next((p for folder in (HERE, SHARED) if (p := folder / f"{name}.onnx").exists()), None)
    if path is None:
        pytest.skip(f"{name} is not here")
    return path


@cache
def inputs_of(name: str) -> dict[str, np.ndarray]:
    return dict(read_npz(path_of(name).with_suffix(".npz"), "in"))


def compiled(name: str, options: CompileOptions) -> Compilation:
    return compile_model(load_model(path_of(name), options, inputs=inputs_of(name)), "graph")


def pipeline(ways: int, *, lower: bool = False) -> str:
    """O2 with the split after the passes of the graph level, and these cleaning up after it."""
    options = PipelineOptions()
    cleaning = f"fixpoint({','.join(step.element for step in CLEANING)})"
    passes = [*phase_passes("graph", options), f"split-parallel{{ways={ways}}}", cleaning]
    if lower:
        passes += ["convert-graph-to-kernel", *phase_passes("kernel", options)]
        passes += ["convert-kernel-to-memref", *phase_passes("memref", options)]
    return f"builtin.module({','.join(passes)})"


@cache
def whole(name: str) -> dict[str, np.ndarray]:
    """What the model gives in onnxruntime without optimisation, exported after O2."""
    return run_exported(compiled(name, CompileOptions()), name)


def run_exported(compilation: Compilation, name: str) -> dict[str, np.ndarray]:
    model = to_onnx(compilation.module, compilation.ctx.weights)
    onnx.checker.check_model(model, full_check=True)
    names = [output.name for output in model.graph.output]
    return dict(zip(names, run_model(model, inputs_of(name)), strict=True))


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert got.keys() == want.keys()
    for output, expected in want.items():
        largest = np.max(np.abs(expected), initial=0)
        assert np.max(np.abs(got[output] - expected), initial=0) <= 1e-5 * largest, output


@pytest.mark.parametrize(("name", "ways"), SPLIT)
def test_the_split_gives_what_the_whole_gives(name: str, ways: int) -> None:
    compilation = compiled(name, CompileOptions(pipeline_text=pipeline(ways)))
    statistics = compilation.ctx.statistics
    found = [statistics["split-parallel", what] for what in ("pairs-split", "products-split", "all-gathers")]
    assert tuple(found) == SPLIT[name, ways]
    assert statistics["split-parallel", "all-reduces"] == found[0]
    assert_close(run_exported(compilation, name), whole(name))
    assert_close(evaluate_module(compilation.module, inputs_of(name), compilation.ctx.weights), whole(name))


@pytest.mark.parametrize(("name", "ways"), [("gpt2_tiny_prefill_dyn", 4), ("vit_tiny_dyn", 3)])
def test_the_split_runs_on_the_engine(name: str, ways: int) -> None:
    options = CompileOptions(pipeline_text=pipeline(ways, lower=True))
    model = mlopt.compile(path_of(name), options=options, inputs=inputs_of(name))
    assert_close(model.run(inputs_of(name)), whole(name))


@pytest.mark.parametrize(("name", "ways"), [("gpt2_tiny_prefill_dyn", 4), ("vit_tiny_dyn", 3)])
def test_no_way_needs_another_but_through_collectives(name: str, ways: int) -> None:
    compilation = compiled(name, CompileOptions(pipeline_text=pipeline(ways)))
    for op in compilation.module.walk():
        makers = [operand.owner for operand in op.operands]
        known = [way_of(maker) for maker in makers if isinstance(maker, graph.GraphOp)]
        if isinstance(op, graph.AllReduceOp | graph.AllGatherOp):
            assert known == list(range(ways))
        else:
            assert {way for way in known if way is not None} <= {way_of(op)}


def test_a_way_holds_its_part_of_the_weights() -> None:
    compilation = compiled("bert_tiny_dyn", CompileOptions(pipeline_text=pipeline(2)))
    remarks = [r for r in compilation.ctx.remarks if r.pass_name == "split-parallel" and r.kind == "analysis"]
    weights = 2 * (4 * 128 * 128 + 2 * 128 * 512)  # of two layers: query, key, value, output; up, down
    biases = 128 + 512  # of what is split by columns: all are 0, those of one size are held once
    assert dict(remarks[0].args)["own_bytes"] == (weights + biases) * 4 // 2
