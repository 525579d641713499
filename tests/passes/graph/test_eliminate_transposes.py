"""`eliminate-transposes` changes no result: random programs of movable operations, and special values by hand."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import ModuleOp

from mlopt.dialects import graph
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.eliminate_transposes import EliminateTransposesPass
from tests.passes.graph.movement_programs import check_pass, movement_modules
from tests.strategies import GraphCase

RANDOM = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def transposes(module: ModuleOp) -> int:
    """How many there are, not counting those of constants."""
    return sum(isinstance(op, graph.TransposeOp) and not is_constant(op.result) for op in module.walk())


@given(movement_modules(("transpose", "transpose", "unary", "binary", "along_axis")))
@RANDOM
def test_no_result_changes(case: GraphCase) -> None:
    before = transposes(case.module)
    changed = check_pass(case, EliminateTransposesPass(), rtol=1e-4)
    after = transposes(case.module)
    assert after <= before if changed else after == before
