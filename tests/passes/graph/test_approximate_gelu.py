"""`approximate-gelu`: errors as published, the numbers of the forms by numpy in f64, and what the validator allows."""

from __future__ import annotations

from math import erf, pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.passes.graph.approximate_gelu import TOLERANCES, ApproximateGeluPass, Method, largest_error
from mlopt.passes.pipelines import OPTIMISATION_LEVELS, named_pipeline
from mlopt.passmanager import PassManager, Pipeline
from mlopt.validation import ValidationOptions, Validator

X = np.linspace(-10, 10, 4001)
EXACT = 0.5 * X * (1 + np.array([erf(x / sqrt(2)) for x in X]))
FORMS: dict[Method, np.ndarray] = {
    "tanh": 0.5 * X * (1 + np.tanh(sqrt(2 / pi) * (X + 0.044715 * X**3))),
    "sigmoid": X / (1 + np.exp(-1.702 * X)),
}


def module_of(ctx: CompilerContext, approximate: str = "none") -> ModuleOp:
    t = "tensor<4001xf32>"
    return parse_module(
        f'func.func @main(%x: {t}) -> {t} {{\n%y = graph.gelu %x approximate = "{approximate}" : {t}\n'
        f"func.return %y : {t}\n}}",
        ctx,
    )


@pytest.mark.parametrize(("method", "error", "at"), [("tanh", 4.732e-4, 2.699), ("sigmoid", 2.034e-2, 2.270)])
def test_the_error_is_the_known_one(method: Method, error: float, at: float) -> None:
    """Both forms are off by as much on both sides of 0."""
    measured, where = largest_error(method)
    assert measured == pytest.approx(error, rel=1e-3)
    assert abs(where) == pytest.approx(at, abs=2e-3)
    assert np.abs(FORMS[method] - EXACT).max() <= measured * 1.0001


@pytest.mark.parametrize("method", ["tanh", "sigmoid"])
def test_the_form(method: Method) -> None:
    ctx = make_context()
    module = module_of(ctx)
    assert ApproximateGeluPass(method=method).run(ctx, module)
    result = evaluate_module(module, {"arg0": X.astype(np.float32)})["result0"]
    np.testing.assert_allclose(result, FORMS[method], atol=2e-6)
    (remark,) = ctx.remarks
    assert f"{largest_error(method)[0]:.3e}" in remark.message
    assert not ApproximateGeluPass(method=method).run(ctx, module)


def test_the_tanh_form_stays() -> None:
    ctx = make_context()
    module = module_of(ctx, "tanh")
    assert not ApproximateGeluPass(method="sigmoid").run(ctx, module)
    assert any(isinstance(op, graph.GeluOp) for op in module.walk())


@pytest.mark.parametrize("method", ["tanh", "sigmoid"])
def test_the_validator_allows_what_is_declared(method: Method, tmp_path: Path) -> None:
    ctx = make_context()
    ctx.evaluator = evaluate
    module = module_of(ctx)
    validator = Validator(ctx, ValidationOptions(reproducers=tmp_path))
    pipeline = Pipeline("builtin.module", (ApproximateGeluPass(method=method),))
    PassManager(ctx, pipeline, instrumentations=[validator]).run(module)
    assert not validator.rejections
    (validated,) = validator.validated
    assert 1e-4 < validated.largest_error < TOLERANCES[method]


@pytest.mark.parametrize("level", OPTIMISATION_LEVELS)
def test_no_pipeline_approximates(level: str) -> None:
    assert "approximate" not in named_pipeline(level)
