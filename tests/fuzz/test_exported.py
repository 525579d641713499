"""What an exported model in onnxruntime is compared with, and how far it may be from that."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt import CompileOptions
from mlopt.compilation import load_model
from mlopt.dialects import graph
from mlopt.export.builder import Builder
from mlopt.export.registry import EXPORTERS
from mlopt.passmanager import PassManager, parse_pipeline
from tests.frontend.all_levels import model_from
from tests.fuzz.corpus import program_of
from tests.fuzz.exported import Exported, run_exported
from tests.fuzz.levels import Route, check
from tests.fuzz.program import Program

ROTATION = """g (float[1,1,9,2] x, float[1,1,9,1] cos, float[1,1,9,1] sin) => (float[1,1,9,2] y, bool[1,1,9,2] positive)
  <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {-1}, float none = {0}> {
  a = Slice(x, zero, one, last)
  b = Slice(x, one, two, last)
  ac = Mul(a, cos)
  bs = Mul(b, sin)
  first = Sub(ac, bs)
  bc = Mul(b, cos)
  as = Mul(a, sin)
  second = Add(bc, as)
  y = Concat<axis=-1>(first, second)
  positive = Greater(y, none)
}"""
FUSED = Route(("fuse-rotary", "dce"), (), export=True)
EPS = float(np.finfo(np.float32).eps)


def rotation(*, cancels: bool = False) -> Program:
    """A program of which each node has one right value. Where `cancels`, the products are equal, their difference 0."""
    generator = np.random.default_rng(2)
    shapes = {"x": (1, 1, 9, 2), "cos": (1, 1, 9, 1), "sin": (1, 1, 9, 1)}
    inputs = {name: generator.uniform(0.5, 2, shape).astype(np.float32) for name, shape in shapes.items()}
    if cancels:
        inputs["x"][..., 1:] = inputs["cos"]
        inputs["x"][..., :1] = inputs["sin"]
    a, b = inputs["x"][..., :1], inputs["x"][..., 1:]
    cos, sin = inputs["cos"], inputs["sin"]
    y = np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
    return program_of(model_from(ROTATION), [inputs], [{"y": y, "positive": y > 0}])


def fused(program: Program) -> Exported:
    compilation = load_model(program.model(), CompileOptions())
    PassManager(compilation.ctx, parse_pipeline(f"builtin.module({','.join(FUSED.graph)})")).run(
        compilation.module
    )
    exported = run_exported(compilation.module, compilation.ctx)
    assert exported is not None
    return exported


def test_one_operator_for_several_may_round_otherwise() -> None:
    """onnxruntime fuses a product with the sum: within units of the products, though the program has no error."""
    program = rotation()
    assert all(output.error == 0 for output in program.outputs)
    assert check(program, FUSED) is None
    errors = fused(program).errors(program.feeds(0))
    assert 2 * EPS * 0.25 <= errors["y"] <= 30 * EPS * 4
    assert errors["positive"] == 0


def test_rounding_of_the_fused_operator_may_decide() -> None:
    """a * cos - b * sin is 0 where the products are rounded alone, and what rounding leaves where one is not."""
    program = rotation(cancels=True)
    assert check(program, FUSED) is None
    assert list(fused(program).errors(program.feeds(0))) == ["y"]


def test_wrong_exports_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(builder: Builder, op: graph.RotaryEmbeddingOp) -> None:
        tables = [builder.part("Reshape", [table, builder.ints([1, 9, 1])]) for table in (op.sin, op.cos)]
        builder.node(op, "RotaryEmbedding", [op.input, *tables])

    monkeypatch.setitem(EXPORTERS, graph.RotaryEmbeddingOp, swapped)
    failure = check(rotation(), FUSED)
    assert failure is not None and failure.stage == "exported model in onnxruntime"
