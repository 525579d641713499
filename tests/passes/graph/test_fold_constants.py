"""`fold-constants` on weights: what is folded into the store, what is left, and what it costs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.ir import Operation

from mlopt.diagnostics import InputError, PassFailure, VerifyFailure
from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.passes.graph.fold_constants import FLOOR_BYTES, FoldConstantsPass
from tests.counting import count_calls

X = np.arange(300, dtype=np.float32).reshape(10, 30)


def context(**weights: np.ndarray) -> CompilerContext:
    ctx = make_context()
    ctx.evaluator = partial(evaluate, weights=ctx.weights)
    for name, array in weights.items():
        assert ctx.weights.add(array, name) == name
    return ctx


def parse(body: str, ctx: CompilerContext) -> ModuleOp:
    return parse_module(f"func.func @main() {body}", ctx, "test.mlir")


def operations(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, graph.GraphOp)]


def names(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("graph.") for op in operations(module)]


def test_a_large_result_becomes_a_weight_named_after_it() -> None:
    ctx = context(w=X)
    module = parse("""-> tensor<10x30xf32> {
      %w = graph.constant #mlopt.weight<"w"> : tensor<10x30xf32>
      %c = graph.constant dense<2.0> : tensor<f32>
      %scaled = graph.mul %w, %c : (tensor<10x30xf32>, tensor<f32>) -> tensor<10x30xf32> loc("node")
      func.return %scaled : tensor<10x30xf32>
    }""", ctx)  # fmt: skip
    assert FoldConstantsPass().run(ctx, module)
    (constant,) = operations(module)
    assert isinstance(constant, graph.ConstantOp)
    assert str(constant.value) == '#mlopt.weight<"scaled">'
    np.testing.assert_array_equal(ctx.weights.get("scaled"), 2 * X)
    assert isinstance(constant.location, NameLoc)
    assert constant.location.desc.data == "node"
    assert ctx.statistics["fold-constants", "ops-folded"] == 1


def test_a_name_that_is_taken_is_not_overwritten() -> None:
    ctx = context(w=X, scaled=X + 1)
    module = parse("""-> tensor<10x30xf32> {
      %w = graph.constant #mlopt.weight<"w"> : tensor<10x30xf32>
      %scaled = graph.neg %w : tensor<10x30xf32>
      func.return %scaled : tensor<10x30xf32>
    }""", ctx)  # fmt: skip
    FoldConstantsPass().run(ctx, module)
    np.testing.assert_array_equal(ctx.weights.get("scaled"), X + 1)
    np.testing.assert_array_equal(evaluate_module(module, {}, ctx.weights)["result0"], -X)


def test_movements_of_weights_stay_and_are_folded_through() -> None:
    ctx = context(w=X)
    module = parse("""-> (tensor<30x10xf32>, tensor<30xf32>) {
      %w = graph.constant #mlopt.weight<"w"> : tensor<10x30xf32>
      %t = graph.transpose %w perm = [1, 0] : (tensor<10x30xf32>) -> tensor<30x10xf32>
      %r = graph.reshape %t : tensor<30x10xf32> to tensor<30x10x1xf32>
      %s = graph.reduce_sum %r axes = [1, 2] : (tensor<30x10x1xf32>) -> tensor<30xf32>
      func.return %t, %s : tensor<30x10xf32>, tensor<30xf32>
    }""", ctx)  # fmt: skip
    assert FoldConstantsPass().run(ctx, module)
    assert names(module) == ["constant", "transpose", "constant"]
    np.testing.assert_array_equal(evaluate_module(module, {}, ctx.weights)["result1"], X.sum(axis=0))
    assert set(ctx.weights) == {"w"}
    assert not FoldConstantsPass().run(ctx, module)


def test_an_expanded_constant_neither_grows_nor_lends_its_size() -> None:
    """A scalar, broadcast to 40000 x 40000 and added to itself: 6.4 GB must not be made, by any of three ways."""
    ctx = context()
    module = parse("""-> (tensor<40000x40000xf32>, tensor<1600000000xf32>) {
      %c = graph.constant dense<1.0> : tensor<100xf32>
      %e = graph.expand %c : tensor<100xf32> to tensor<400x100xf32>
      %f = graph.expand %e : tensor<400x100xf32> to tensor<1000x400x100xf32>
      %r = graph.reshape %f : tensor<1000x400x100xf32> to tensor<40000x1000xf32>
      %s = graph.slice %r starts = [0, 0] stops = [40000, 1] : (tensor<40000x1000xf32>) -> tensor<40000x1xf32>
      %g = graph.expand %s : tensor<40000x1xf32> to tensor<40000x40000xf32>
      %d = graph.add %g, %s : (tensor<40000x40000xf32>, tensor<40000x1xf32>) -> tensor<40000x40000xf32>
      %h = graph.reshape %g : tensor<40000x40000xf32> to tensor<1600000000xf32>
      func.return %d, %h : tensor<40000x40000xf32>, tensor<1600000000xf32>
    }""", ctx)  # fmt: skip
    FoldConstantsPass().run(ctx, module)
    assert sum(ctx.weights.nbytes(name) for name in ctx.weights) < 1_000_000
    assert ctx.statistics["fold-constants", "not-folded-growth"] > 0
    assert "above the limit" in ctx.remarks[0].message


def test_weights_of_8_bits_are_dequantized_once() -> None:
    """Four times the bytes, which is what the limit allows."""
    w = np.arange(256 * 128, dtype=np.int32).astype(np.int8).reshape(256, 128)
    ctx = context(w=w)
    module = parse("""-> tensor<256x128xf32> {
      %w = graph.constant #mlopt.weight<"w"> : tensor<256x128xi8>
      %s = graph.constant dense<0.5> : tensor<f32>
      %d = graph.dequantize %w, %s : (tensor<256x128xi8>, tensor<f32>) -> tensor<256x128xf32>
      func.return %d : tensor<256x128xf32>
    }""", ctx)  # fmt: skip
    assert w.nbytes * 4 > FLOOR_BYTES
    assert FoldConstantsPass().run(ctx, module)
    assert names(module) == ["constant"]
    np.testing.assert_array_equal(ctx.weights.get("d"), w.astype(np.float32) / 2)


def test_what_has_no_result_is_left_with_a_remark() -> None:
    ctx = context()
    module = parse("""-> tensor<i32> {
      %a = graph.constant dense<7> : tensor<i32>
      %b = graph.constant dense<0> : tensor<i32>
      %c = graph.div %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i32>
      func.return %c : tensor<i32>
    }""", ctx)  # fmt: skip
    assert not FoldConstantsPass().run(ctx, module)
    assert [remark.message for remark in ctx.remarks] == ["not folded: 'div': it divides an integer by zero"]


@pytest.mark.parametrize(
    ("gather", "message"),
    [
        ("graph.gather %x, %i axis = 0", "index -3 is out of bounds for axis 0 of size 2"),
        ("graph.gather %x, %i axis = 1", "index 3 is out of bounds for axis 1 of size 3"),
        ("graph.gather_elements %x, %i axis = 0", "index -3 is out of bounds for axis 0 of size 2"),
        ("graph.gather_nd %x, %i", "index -3 is out of bounds for axis 0 of size 2"),
    ],
)
def test_constant_indices_out_of_bounds_are_an_error_at_the_node(gather: str, message: str) -> None:
    ctx = context()
    indices = "[[3, 0]]" if "axis = 1" in gather else "[[-3, 0]]"
    name, _, operands = gather.partition(" ")
    results = {
        "graph.gather": "2x1x2xf32" if "axis = 1" in gather else "1x2x3xf32",
        "graph.gather_nd": "1xf32",
    }
    result = results.get(name, "1x2xf32")
    text = f"""func.func @main(%x: tensor<2x3xf32>) -> tensor<{result}> {{
      %i = graph.constant dense<{indices}> : tensor<1x2xi64>
      %y = {name} {operands} : (tensor<2x3xf32>, tensor<1x2xi64>) -> tensor<{result}> loc("rows")
      func.return %y : tensor<{result}>
    }}"""
    module = parse_module(text, ctx, "test.mlir")
    with pytest.raises(InputError, match=message) as error:
        FoldConstantsPass().run(ctx, module)
    assert error.value.place is not None and error.value.place.node == "rows"


def long_chain(length: int) -> str:
    lines = [
        f"%v{i + 1} = graph.add %v{i}, %v0 : (tensor<i64>, tensor<i64>) -> tensor<i64>" for i in range(length)
    ]
    return (
        "-> tensor<i64> {\n%v0 = graph.constant dense<1> : tensor<i64>\n"
        + "\n".join(lines)
        + f"\nfunc.return %v{length} : tensor<i64>\n}}"
    )


def test_a_long_chain_folds_in_linear_work_without_recursion() -> None:
    def work(length: int) -> int:
        ctx = context()
        module = parse(long_chain(length), ctx)
        calls = count_calls(lambda: FoldConstantsPass().run(ctx, module))
        assert names(module) == ["constant"]
        assert evaluate_module(module, {})["result0"] == length + 1
        return calls

    work(10)
    assert work(2000) < 5 * work(500)


def test_a_weight_that_does_not_fit_its_type_is_an_error() -> None:
    ctx = context(w=X)
    module = parse("""-> tensor<30x10xf32> {
      %w = graph.constant #mlopt.weight<"w"> : tensor<30x10xf32>
      func.return %w : tensor<30x10xf32>
    }""", ctx)  # fmt: skip
    with pytest.raises(VerifyFailure, match=r"expected tensor<30x10xf32> for .*, found float32\[10, 30\]"):
        FoldConstantsPass().run(ctx, module)


def test_without_an_evaluator_it_says_so() -> None:
    ctx = make_context()
    with pytest.raises(PassFailure, match="needs an evaluator"):
        FoldConstantsPass().run(ctx, parse("{\n func.return\n}", ctx))
