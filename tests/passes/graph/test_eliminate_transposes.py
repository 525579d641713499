"""`eliminate-transposes` changes no result: random programs of movable operations, and special values by hand."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import ModuleOp

from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.eliminate_transposes import EliminateTransposesPass
from mlopt.passes.graph.minimum_cut import FlowNetwork
from tests.counting import count_calls
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


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -1.5], np.float32)


@pytest.mark.parametrize("shape", [(2, 2, 2), (1, 8, 1), (0, 3, 2)])
@pytest.mark.parametrize("perm", list(permutations(range(3))))
def test_special_values_through_any_order(shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    """(-(x^T) * -0.0)^T^-1, with constants per dimension, empty tensors and ones: by numpy, bit for bit."""
    x = SPECIAL[: math.prod(shape)].reshape(shape)
    back = tuple(int(axis) for axis in np.argsort(perm))
    moved = "x".join(str(shape[axis]) for axis in perm)
    own = "x".join(map(str, shape))
    text = f"""func.func @main(%x: tensor<{own}xf32>) -> tensor<{own}xf32> {{
      %c = graph.constant dense<-0.0> : tensor<{shape[perm[2]]}xf32>
      %t = graph.transpose %x perm = {list(perm)} : (tensor<{own}xf32>) -> tensor<{moved}xf32>
      %n = graph.neg %t : tensor<{moved}xf32>
      %m = graph.mul %n, %c : (tensor<{moved}xf32>, tensor<{shape[perm[2]]}xf32>) -> tensor<{moved}xf32>
      %y = graph.transpose %m perm = {list(back)} : (tensor<{moved}xf32>) -> tensor<{own}xf32>
      func.return %y : tensor<{own}xf32>
    }}"""
    ctx = make_context()
    module = parse_module(text, ctx)
    EliminateTransposesPass().run(ctx, module)
    verify_module(module)
    assert transposes(module) == 0
    with np.errstate(invalid="ignore"):
        (got,) = evaluate_module(module, {"arg0": x}).values()
        want = -x * np.float32(-0.0)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def residual(blocks: int) -> str:
    """A sum in one order, and at every block a relu in another, added to it."""
    a, b = "tensor<2x3x4xf32>", "tensor<2x4x3xf32>"
    lines = [
        f"""%t{i} = graph.transpose %s{i} perm = [0, 2, 1] : ({a}) -> {b}
            %r{i} = graph.relu %t{i} : {b}
            %u{i} = graph.transpose %r{i} perm = [0, 2, 1] : ({b}) -> {a}
            %s{i + 1} = graph.add %s{i}, %u{i} : ({a}, {a}) -> {a}"""
        for i in range(blocks)
    ]
    body = "\n".join(lines)
    return f"func.func @main(%s0: {a}) -> {a} {{\n{body}\nfunc.return %s{blocks} : {a}\n}}"


def test_the_work_grows_with_the_number_of_operations() -> None:
    def work(blocks: int) -> int:
        ctx = make_context()
        module = parse_module(residual(blocks), ctx)
        calls = count_calls(lambda: EliminateTransposesPass().run(ctx, module))
        assert transposes(module) == 0
        return calls

    assert work(160) < 2.5 * work(80)


def test_a_cut_of_least_capacity() -> None:
    """The network of Cormen et al., Introduction to Algorithms, figure 26.1: the cut is {s, v1, v2, v4} of 23."""
    network = FlowNetwork()
    v1, v2, v3, v4 = (network.add_node() for _ in range(4))
    s, t = network.SOURCE, network.SINK
    edges = [(s, v1, 16), (s, v2, 13), (v1, v3, 12), (v2, v1, 4), (v2, v4, 14), (v3, v2, 9), (v3, t, 20)]
    for start, end, capacity in [*edges, (v4, v3, 7), (v4, t, 4)]:
        network.add_edge(start, end, capacity)
    assert network.source_side() == {s, v1, v2, v4}
