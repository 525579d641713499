"""Random modules: each op's kernel-level form gives what its reference evaluation does, on the values that meet it."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mlopt.compare import compare
from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp
from mlopt.interpreter import graph as graph_interpreter
from mlopt.interpreter.kernel import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.printer import print_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passmanager import no_ops_of
from tests.kernel_level import converted, module_of
from tests.strategies import GraphCase, graph_modules

MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(graph_modules())
def test_each_op(case: GraphCase) -> None:
    # One op at a time: a rounding difference before a comparison or a cast would be no error of theirs.
    (main,) = (op for op in case.module.ops if isinstance(op, FuncOp))
    values: dict[SSAValue, np.ndarray] = dict(zip(main.body.block.args, case.inputs.values(), strict=True))
    for op in main.body.block.ops:
        if isinstance(op, GraphOp):
            operands = [values[operand] for operand in op.operands]
            values.update(
                zip(op.results, graph_interpreter.evaluate(op, operands, case.weights), strict=True)
            )
            if not isinstance(op, graph.ConstantOp):
                check_op(op, operands)


def check_op(op: GraphOp, operands: list[np.ndarray]) -> None:
    """Evaluate one op at both levels; constants among its operands are constants there too."""
    constants = [
        i
        for i, operand in enumerate(op.operands)
        if isinstance(operand.owner, graph.ConstantOp) and operands[i].size <= 64
    ]

    def build(*values: SSAValue) -> GraphOp:
        copy = op.clone(dict(zip(op.operands, values, strict=True)))
        for index, value in enumerate(values):
            copy.operands[index] = value
        return copy

    module = module_of(build, operands, constants)
    inputs = {f"arg{i}": a for i, a in enumerate(a for i, a in enumerate(operands) if i not in constants)}
    context = make_context()
    expected = graph_interpreter.evaluate_module(module, inputs, context.weights)
    found = evaluate_module(converted(module, context), inputs, context.weights)
    for name, want in expected.items():
        comparison = compare(op.name, found[name], want, rtol=1e-5)
        assert comparison.passed, (comparison, op)


@MANY
@given(graph_modules())
def test_whole_modules_convert_verify_and_print(case: GraphCase) -> None:
    context = make_context()
    context.weights = case.weights
    module = converted(case.module, context)
    assert no_ops_of("graph")(module) is None
    text = print_module(module)
    again = parse_module(text, make_context())
    verify_module(again)
    assert print_module(again) == text
