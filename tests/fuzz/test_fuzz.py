"""A short search, the same programs every time. The long one is `python -m tests.fuzz`."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlopt.compare import compare
from mlopt.frontend.onnx import supported_operators
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.registration import make_context
from mlopt.passmanager import PassManager, parse_pipeline
from tests.frontend.all_levels import model_from
from tests.fuzz.corpus import load, program_of, save
from tests.fuzz.levels import GRAPH_PASSES, Failure, Route, check, standard_routes
from tests.fuzz.operators import OPERATORS
from tests.fuzz.search import Found, Session, check_supported, random_program, search
from tests.strategies import GraphCase, graph_modules

PROGRAMS = 20


def test_random_programs() -> None:
    """On random routes through mlopt, at all levels."""
    logging.disable(logging.ERROR)
    session = Session()
    found = list(search(session, range(PROGRAMS)))
    logging.disable(logging.NOTSET)
    assert not found, "\n".join(f"seed {one.seed}, {one.route}: {one.failure}" for one in found)
    assert session.examples + session.empty == PROGRAMS
    assert session.empty <= PROGRAMS // 10  # of which rounding decides every result


def test_a_seed_makes_one_program() -> None:
    first, second = (random_program(Random(7)) for _ in range(2))
    assert first.model() == second.model()
    for name, array in first.feeds(1).items():
        np.testing.assert_array_equal(second.feeds(1)[name], array)


def test_every_operator_can_be_drawn() -> None:
    drawn = {(operator.domain, operator.name) for operator in OPERATORS.values()}
    known = {(domain, op_type) for domain, op_type, _ in supported_operators()}
    assert {op_type for _, op_type in known - drawn} == NOT_DRAWN


NOT_DRAWN = {
    *("DequantizeLinear", "QuantizeLinear", "QLinearConv"),  # of com.microsoft: as those of the standard
    *("OptionalGetElement", "OptionalHasElement"),  # of a tensor: as Identity and a constant
    *(
        "Scatter",
        "Upsample",
        "SimplifiedLayerNormalization",
    ),  # other names of ScatterElements, Resize, RMSNormalization
    *("MelWeightMatrix", "TfIdfVectorizer"),  # of constants, or with tables as attributes
    *("DynamicQuantizeLSTM", "FusedGemm", "GatherBlockQuantized", "QAttention"),
}
"""What is left to the tests of the operators."""


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_programs_as_files(seed: int, tmp_path: Path) -> None:
    """What is written is what is read again: it has the same inputs, and passes or fails as before."""
    program = random_program(Random(seed))
    route = standard_routes()["O1"]
    path = save(Found(program, route, Failure("engine", "difference", "text"), seed), tmp_path, 0)
    again, same_route = load(path)
    assert same_route == route
    assert [output.name for output in again.outputs] == [output.name for output in program.outputs]
    for run in range(program.runs):
        feeds, read = program.feeds(run), again.feeds(run)
        assert feeds.keys() == read.keys()
        for name, array in feeds.items():
            np.testing.assert_array_equal(read[name], array)
    assert check_supported(program, route)[1] == check_supported(again, route)[1]


def test_exported_models_of_float16_are_rounded_at_each_node() -> None:
    """1 / 5 rounded, then its square, is 0.03998; rounded once it is 0.04."""
    text = """g (float16[1] x) => (float16[1] y) {
      r = Reciprocal(x)
      y = Mul(r, r)
    }"""
    fifth = np.array([1 / 5], np.float16)
    assert fifth * fifth != np.float16(1 / 25)
    program = program_of(model_from(text), [{"x": np.array([5], np.float16)}], [{"y": fifth * fifth}])
    assert check(program, Route((), (), export=True)) is None


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graph_modules(max_ops=6, special=False), st.lists(st.sampled_from(GRAPH_PASSES), max_size=6))
def test_graph_passes_in_any_order(case: GraphCase, passes: list[str]) -> None:
    """Modules that no ONNX model gives: results may round otherwise, and no more."""
    want = evaluate_module(case.module, case.inputs, case.weights)
    context = make_context()
    context.weights = case.weights
    context.evaluator = partial(evaluate, weights=case.weights)
    PassManager(context, parse_pipeline(f"builtin.module({','.join(passes)})")).run(case.module)
    got = evaluate_module(case.module, case.inputs, case.weights)
    assert list(got) == list(want)
    for name, right in want.items():
        comparison = compare(name, got[name], right, rtol=1e-3)
        assert comparison.passed, comparison
