"""Random graphs: every graph pass keeps the answer, and the text of a module means what the module means."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.printer import print_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.common.canonicalize import CanonicalizerPass
from mlopt.passes.graph.fold_batch_norm import FoldBatchNormPass
from mlopt.passes.graph.fold_constants import FoldConstantsPass
from mlopt.passmanager.base import Pass
from tests.strategies import GraphCase, graph_modules

RANDOM = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Outputs = dict[str, np.ndarray]


def context(case: GraphCase) -> CompilerContext:
    ctx = make_context()
    ctx.weights = case.weights
    ctx.evaluator = partial(evaluate, weights=ctx.weights)
    return ctx


def run(case: GraphCase) -> Outputs:
    return evaluate_module(case.module, case.inputs, case.weights)


def assert_same(got: Outputs, want: Outputs, rtol: float = 0.0) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        assert got[name].dtype == expected.dtype
        np.testing.assert_allclose(
            got[name], expected, rtol=rtol, atol=rtol * largest(expected), equal_nan=True, err_msg=name
        )


def largest(array: np.ndarray) -> float:
    """The largest finite magnitude."""
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max(initial=0))


@given(graph_modules())
@RANDOM
def test_the_text_means_the_module(case: GraphCase) -> None:
    want = run(case)
    case.module = parse_module(print_module(case.module), context(case), "printed.mlir")
    assert_same(run(case), want)


@pytest.mark.parametrize("graph_pass", [FoldConstantsPass(), CanonicalizerPass()], ids=lambda p: p.name)
@given(case=graph_modules())
@RANDOM
def test_exact_passes_change_no_bit(graph_pass: Pass, case: GraphCase) -> None:
    want = run(case)
    graph_pass.run(context(case), case.module)
    verify_module(case.module)
    assert_same(run(case), want)
    before = str(case.module)
    assert not graph_pass.run(context(case), case.module)
    assert str(case.module) == before


@given(graph_modules(special=False))
@RANDOM
def test_all_passes_together(case: GraphCase) -> None:
    want = run(case)
    for graph_pass in (FoldBatchNormPass(), FoldConstantsPass(), CanonicalizerPass()):
        graph_pass.run(context(case), case.module)
        verify_module(case.module)
    # Folding a normalization rounds otherwise than computing it; later steps may amplify that a little.
    assert_same(run(case), want, rtol=1e-3)
