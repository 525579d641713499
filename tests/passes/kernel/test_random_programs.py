"""Random graph programs through fusion and reuse: every bit stays, also when destinations really are overwritten."""

from __future__ import annotations

from hypothesis import given, settings

from mlopt.dialects.kernel import ContractOp, LaunchOp, ReduceOp
from mlopt.ir import make_context, verify_module
from mlopt.passes.registry import load_pass
from tests.passes.kernel.support import check_module
from tests.strategies import GraphCase, graph_modules


@settings(max_examples=60, deadline=None)
@given(graph_modules(max_ops=12))
def test_numbers_stay(case: GraphCase) -> None:
    context = make_context()
    context.weights = case.weights
    module = case.module.clone()
    load_pass("convert-graph-to-kernel")().run(context, module)
    verify_module(module)
    sums = any(isinstance(op, ContractOp | ReduceOp) for op in module.walk())
    check_module(module, list(case.inputs.values()), context, rtol=1e-5 if sums else 0)
    for launch in (op for op in module.walk() if isinstance(op, LaunchOp)):
        contractions = sum(isinstance(op, ContractOp) for op in launch.body.ops)
        reductions = sum(isinstance(op, ReduceOp) for op in launch.body.ops)
        assert contractions <= 1 and not (contractions and reductions)
