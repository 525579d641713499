"""`split-parallel`: the split gives what numpy gives for the whole, on each form of what can be split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.compilation import attach_engine
from mlopt.diagnostics import PassFailure
from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.ways import way_of
from mlopt.passes.graph.split_parallel import SplitParallelPass
from mlopt.passmanager import PassManager, parse_pipeline
from mlopt.save import used_weights
from mlopt.validation import Validator

RNG = np.random.default_rng(11)
Array = np.ndarray[Any, np.dtype[Any]]


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


W1, W2, W3 = normal(6, 16), normal(6, 16), normal(16, 6)
B1, B3 = normal(16), normal(6)
X, R = normal(3, 6), normal(3, 6)


class Case:
    """A `@main` of the text, whose constants are `weights`, split over some ways."""

    def __init__(self, text: str, weights: Mapping[str, Array], **options: Any):
        self.ctx: CompilerContext = make_context()
        attach_engine(self.ctx)
        for name, array in weights.items():
            assert self.ctx.weights.add(array, name) == name
        self.module: ModuleOp = parse_module(text, self.ctx)
        verify_module(self.module)
        self.changed = SplitParallelPass(**options).run(self.ctx, self.module)
        verify_module(self.module)

    def __call__(self, *inputs: Array) -> list[Array]:
        given = {f"arg{index}": array for index, array in enumerate(inputs)}
        return list(evaluate_module(self.module, given, self.ctx.weights).values())

    def ops(self, kind: type[graph.GraphOp]) -> list[graph.GraphOp]:
        return [op for op in self.module.walk() if isinstance(op, kind)]

    def shapes(self, kind: type[graph.GraphOp]) -> list[tuple[int, ...]]:
        """Of the first results of operations of a kind."""
        return [op.results[0].type.get_shape() for op in self.ops(kind)]  # pyright: ignore

    def messages(self, kind: str) -> list[str]:
        return [remark.message for remark in self.ctx.remarks if remark.kind == kind]


def weight(name: str, array: Array, element: str = "f32") -> str:
    shape = "x".join(map(str, array.shape))
    return f'%{name} = graph.constant #mlopt.weight<"{name}"> : tensor<{shape}x{element}>'


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _clip(x: Array) -> Array:
    return np.minimum(np.maximum(x, -0.5), 1)


MLP = f"""func.func @main(%x: tensor<3x6xf32>, %r: tensor<3x6xf32>) -> tensor<3x6xf32> {{
  {weight("w1", W1)}
  {weight("b1", B1)}
  {weight("w3", W3)}
  {weight("b3", B3)}
  %h = graph.linear %x, %w1, %b1 activation = <relu>
    : (tensor<3x6xf32>, tensor<6x16xf32>, tensor<16xf32>) -> tensor<3x16xf32>
  %y = graph.linear %h, %w3, %b3 residual(%r : tensor<3x6xf32>) activation = ACTIVATION
    : (tensor<3x16xf32>, tensor<16x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  func.return %y : tensor<3x6xf32>
}}"""
MLP_WEIGHTS = {"w1": W1, "b1": B1, "w3": W3, "b3": B3}


@pytest.mark.parametrize("ways", [2, 4, 8, 16])
@pytest.mark.parametrize(
    ("activation", "function"),
    [("<relu>", relu), ("<clip min = -5.000000e-01 max = 1.000000e+00>", _clip)],
)
def test_bias_residual_and_activation_come_once_after_the_sum(
    ways: int, activation: str, function: Any
) -> None:
    case = Case(MLP.replace("ACTIVATION", activation), MLP_WEIGHTS, ways=ways)
    want = function(relu(X.astype(np.float64) @ W1 + B1) @ W3 + B3 + R)
    np.testing.assert_allclose(case(X, R)[0], want, rtol=1e-5, atol=1e-5)
    assert case.shapes(graph.LinearOp) == [(3, 16 // ways)] * ways
    assert case.shapes(graph.MatMulOp) == [(3, 6)] * ways
    assert len(case.ops(graph.AllReduceOp)) == 1
    assert len(case.ops(graph.AddOp)) == 2
    assert [way_of(op) for op in case.ops(graph.LinearOp)] == list(range(ways))
    assert used_weights(case.module) == ["b3"]  # the parts are small, and the wholes are not used any more
    held = (W1.size + B1.size + W3.size) * 4 // ways
    assert case.messages("passed")[0].endswith(f"in {ways} ways: {held} bytes of weights each, 1 all_reduce")


def test_a_second_run_changes_nothing() -> None:
    case = Case(MLP.replace("ACTIVATION", "<relu>"), MLP_WEIGHTS, ways=2)
    text = str(case.module)
    assert not SplitParallelPass(ways=4, columns=True).run(case.ctx, case.module)
    assert str(case.module) == text


def test_one_way_is_the_whole() -> None:
    assert not Case(MLP.replace("ACTIVATION", "<relu>"), MLP_WEIGHTS, ways=1).changed


def test_no_way_is_refused() -> None:
    with pytest.raises(PassFailure, match="expected at least 1 way, found 0"):
        SplitParallelPass(ways=0)


def test_validated() -> None:
    """The numbers before and after, by the compiler itself."""
    case = Case(MLP.replace("ACTIVATION", "<relu>"), MLP_WEIGHTS, ways=1)
    validator = Validator(case.ctx)
    pipeline = parse_pipeline("builtin.module(split-parallel{ways=4})")
    PassManager(case.ctx, pipeline, instrumentations=[validator]).run(case.module)
    assert not validator.rejections
    assert len(case.ops(graph.AllReduceOp)) == 1


@pytest.mark.parametrize("element", ["f16", "f64", "i32"])
def test_element_types(element: str) -> None:
    dtype = {"f16": np.float16, "f64": np.float64, "i32": np.int32}[element]
    w1, w3, x = ((8 * array).astype(dtype) for array in (W1, W3, X))
    text = f"""func.func @main(%x: tensor<3x6x{element}>) -> tensor<3x6x{element}> {{
      {weight("w1", w1, element)}
      {weight("w3", w3, element)}
      %h = graph.matmul %x, %w1 : (tensor<3x6x{element}>, tensor<6x16x{element}>) -> tensor<3x16x{element}>
      %y = graph.matmul %h, %w3 : (tensor<3x16x{element}>, tensor<16x6x{element}>) -> tensor<3x6x{element}>
      func.return %y : tensor<3x6x{element}>
    }}"""
    (got,) = Case(text, {"w1": w1, "w3": w3}, ways=4)(x)
    wide = np.int64 if element == "i32" else np.float64
    want = x.astype(wide) @ w1.astype(wide) @ w3.astype(wide)
    digits = {"f16": 4 * 2.0**-10, "f64": 1e-14, "i32": 0}[element]
    assert got.dtype == dtype
    assert np.max(np.abs(got - want)) <= digits * np.max(np.abs(want))


def test_a_gate() -> None:
    """swish(x @ w1) * (x @ w2) @ w3, its weights transposed constants."""
    text = f"""func.func @main(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {{
      {weight("w1", W1)}
      {weight("w2t", W2.T)}
      {weight("w3", W3)}
      %w2 = graph.transpose %w2t perm = [1, 0] : (tensor<16x6xf32>) -> tensor<6x16xf32>
      %g = graph.linear %x, %w1 activation = <swish alpha = 1.000000e+00>
        : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
      %u = graph.matmul %x, %w2 : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
      %h = graph.mul %g, %u : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
      %y = graph.matmul %h, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
      func.return %y : tensor<3x6xf32>
    }}"""
    case = Case(text, {"w1": W1, "w2t": np.ascontiguousarray(W2.T), "w3": W3}, ways=4)
    gate = X.astype(np.float64) @ W1
    want = gate / (1 + np.exp(-gate)) * (X @ W2) @ W3
    np.testing.assert_allclose(case(X)[0], want, rtol=1e-5, atol=1e-5)
    assert case.ctx.statistics["split-parallel", "products-split"] == 3
    assert not case.ops(graph.TransposeOp)


def test_a_gate_in_one_weight() -> None:
    """The halves of one product: each way has its share of both."""
    both = np.concatenate([W1, W2], 1)
    text = f"""func.func @main(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {{
      {weight("w", both)}
      {weight("w3", W3)}
      %b = graph.matmul %x, %w : (tensor<3x6xf32>, tensor<6x32xf32>) -> tensor<3x32xf32>
      %g, %u = graph.split %b axis = 1 : (tensor<3x32xf32>) -> (tensor<3x16xf32>, tensor<3x16xf32>)
      %a = graph.relu %g : tensor<3x16xf32>
      %h = graph.mul %a, %u : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
      %y = graph.matmul %h, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
      func.return %y : tensor<3x6xf32>
    }}"""
    case = Case(text, {"w": both, "w3": W3}, ways=2)
    want = relu(X.astype(np.float64) @ W1) * (X @ W2) @ W3
    np.testing.assert_allclose(case(X)[0], want, rtol=1e-5, atol=1e-5)
    first = case.ctx.weights.get("w.way0")
    np.testing.assert_array_equal(first, np.concatenate([W1[:, :8], W2[:, :8]], 1))


def test_pairs_follow_one_another() -> None:
    """Four products: two pairs, and what comes after the first sum is for all ways."""
    weights = {f"w{i}": array for i, array in enumerate([W1, W3, W2, W3 + 1])}
    lines = "\n".join(weight(name, array) for name, array in weights.items())
    text = f"""func.func @main(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {{
      {lines}
      %a = graph.linear %x, %w0 activation = <relu> : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
      %b = graph.linear %a, %w1 activation = <relu> : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
      %c = graph.linear %b, %w2 activation = <relu> : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
      %d = graph.linear %c, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
      func.return %d : tensor<3x6xf32>
    }}"""
    case = Case(text, weights, ways=2)
    want = relu(relu(relu(X.astype(np.float64) @ W1) @ W3) @ W2) @ (W3 + 1)
    np.testing.assert_allclose(case(X)[0], want, rtol=1e-5, atol=1e-4)
    assert case.ctx.statistics["split-parallel", "pairs-split"] == 2
    assert [way_of(op) for op in case.ops(graph.ReluOp)] == [None]


def attention(q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Array:
    """In f64: q of [b, h, l, d], k and v with h or fewer heads."""
    repeats = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeats, 1), np.repeat(v, repeats, 1)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * 0.5 + mask
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True) @ v


def heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


XA = normal(2, 5, 8)
WQ, WK, WV, WO = normal(8, 32), normal(8, 16), normal(8, 16), normal(32, 8)
ALIBI = normal(1, 8, 5, 5)


def grouped(key_heads: int, mask: str = "", *, mask_type: str = "") -> str:
    """Eight heads of four numbers; the key has `key_heads` of them."""
    kv = key_heads * 4
    return f"""func.func @main(%x: tensor<2x5x8xf32>{", %m: " + mask_type if mask_type else ""}) -> tensor<2x5x8xf32> {{
      {weight("wq", WQ)}
      {weight("wk", WK[:, :kv])}
      {weight("wv", WV[:, :kv])}
      {weight("wo", WO)}
      %q0 = graph.matmul %x, %wq : (tensor<2x5x8xf32>, tensor<8x32xf32>) -> tensor<2x5x32xf32>
      %k0 = graph.matmul %x, %wk : (tensor<2x5x8xf32>, tensor<8x{kv}xf32>) -> tensor<2x5x{kv}xf32>
      %v0 = graph.matmul %x, %wv : (tensor<2x5x8xf32>, tensor<8x{kv}xf32>) -> tensor<2x5x{kv}xf32>
      %q1 = graph.reshape %q0 : tensor<2x5x32xf32> to tensor<2x5x8x4xf32>
      %k1 = graph.reshape %k0 : tensor<2x5x{kv}xf32> to tensor<2x5x{key_heads}x4xf32>
      %v1 = graph.reshape %v0 : tensor<2x5x{kv}xf32> to tensor<2x5x{key_heads}x4xf32>
      %q = graph.transpose %q1 perm = [0, 2, 1, 3] : (tensor<2x5x8x4xf32>) -> tensor<2x8x5x4xf32>
      %k = graph.transpose %k1 perm = [0, 2, 1, 3] : (tensor<2x5x{key_heads}x4xf32>) -> tensor<2x{key_heads}x5x4xf32>
      %v = graph.transpose %v1 perm = [0, 2, 1, 3] : (tensor<2x5x{key_heads}x4xf32>) -> tensor<2x{key_heads}x5x4xf32>
      %a = graph.attention %q, %k, %v {mask} scale = 5.000000e-01
        : (tensor<2x8x5x4xf32>, tensor<2x{key_heads}x5x4xf32>, tensor<2x{key_heads}x5x4xf32>
          {", " + mask_type if mask else ""}) -> tensor<2x8x5x4xf32>
      %t = graph.transpose %a perm = [0, 2, 1, 3] : (tensor<2x8x5x4xf32>) -> tensor<2x5x8x4xf32>
      %o = graph.reshape %t : tensor<2x5x8x4xf32> to tensor<2x5x32xf32>
      %y = graph.matmul %o, %wo : (tensor<2x5x32xf32>, tensor<32x8xf32>) -> tensor<2x5x8xf32>
      func.return %y : tensor<2x5x8xf32>
    }}"""


def grouped_weights(key_heads: int) -> dict[str, Array]:
    kv = key_heads * 4
    return {"wq": WQ, "wk": WK[:, :kv].copy(), "wv": WV[:, :kv].copy(), "wo": WO}


def grouped_result(key_heads: int, mask: Array | float = 0.0) -> Array:
    kv = key_heads * 4
    parts = heads(XA @ WQ, 8), heads(XA @ WK[:, :kv], key_heads), heads(XA @ WV[:, :kv], key_heads)
    return attention(*parts, mask).swapaxes(1, 2).reshape(2, 5, 32) @ WO


@pytest.mark.parametrize(("key_heads", "ways"), [(4, 2), (4, 4), (2, 2), (1, 2), (1, 8)])
def test_grouped_queries(key_heads: int, ways: int) -> None:
    """Each way has whole groups; the one head of multi-query attention is for all."""
    case = Case(grouped(key_heads), grouped_weights(key_heads), ways=ways)
    np.testing.assert_allclose(case(XA)[0], grouped_result(key_heads), rtol=1e-5, atol=1e-5)
    assert case.shapes(graph.AttentionOp) == [(2, 8 // ways, 5, 4)] * ways
    assert case.ctx.statistics["split-parallel", "products-split"] == (2 if key_heads == 1 else 4)


@pytest.mark.parametrize("mask_type", ["tensor<1x8x5x5xf32>", "tensor<5x5xf32>", "tensor<2x1x1x5xf32>"])
def test_masks(mask_type: str) -> None:
    """A mask for each head is cut when it runs, any other is whole."""
    shape = tuple(map(int, mask_type.removeprefix("tensor<").removesuffix("xf32>").split("x")))
    mask = np.resize(ALIBI, shape)
    case = Case(grouped(4, "mask %m", mask_type=mask_type), grouped_weights(4), ways=4)
    np.testing.assert_allclose(case(XA, mask)[0], grouped_result(4, mask), rtol=1e-5, atol=1e-5)
    assert case.shapes(graph.SliceOp) == ([(1, 2, 5, 5)] * 4 if 8 in shape else [])


def test_heads_that_cannot_be_divided() -> None:
    case = Case(grouped(2), grouped_weights(2), ways=4)
    assert not case.changed
    assert "not split: the 2 heads of the key of 'attention' are not divisible by 4 ways" in case.messages(
        "missed"
    )
    case = Case(grouped(4), grouped_weights(4), ways=16)
    assert "not split: the 8 heads of 'attention' are not divisible by 16 ways" in case.messages("missed")


@pytest.mark.parametrize("key_heads", [8, 2])
def test_query_key_and_value_in_one_weight_and_attention_in_parts(key_heads: int) -> None:
    """Unfused: products and a softmax, the heads of key and value repeated. Parts of the weight may differ in size."""
    kv = key_heads * 4
    wk, wv = normal(8, kv), normal(8, kv)
    fused = np.concatenate([WQ, wk, wv], 1)
    n, g = 32 + 2 * kv, 8 // key_heads
    split = f"(tensor<2x5x32xf32>, tensor<2x5x{kv}xf32>, tensor<2x5x{kv}xf32>)"

    def repeated(name: str) -> str:
        return f"""
      %{name}1 = graph.reshape %{name}0 : tensor<2x5x{kv}xf32> to tensor<2x5x{key_heads}x1x4xf32>
      %{name}2 = graph.transpose %{name}1 perm = [0, 2, 3, 1, 4]
        : (tensor<2x5x{key_heads}x1x4xf32>) -> tensor<2x{key_heads}x1x5x4xf32>
      %{name}3 = graph.expand %{name}2 : tensor<2x{key_heads}x1x5x4xf32> to tensor<2x{key_heads}x{g}x5x4xf32>
      %{name} = graph.reshape %{name}3 : tensor<2x{key_heads}x{g}x5x4xf32> to tensor<2x8x5x4xf32>"""

    text = f"""func.func @main(%x: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {{
      {weight("w", fused)}
      {weight("wo", WO)}
      %half = graph.constant dense<5.000000e-01> : tensor<f32>
      %all = graph.matmul %x, %w : (tensor<2x5x8xf32>, tensor<8x{n}xf32>) -> tensor<2x5x{n}xf32>
      %q0, %k0, %v0 = graph.split %all axis = 2 : (tensor<2x5x{n}xf32>) -> {split}
      %q1 = graph.reshape %q0 : tensor<2x5x32xf32> to tensor<2x5x8x4xf32>
      %q = graph.transpose %q1 perm = [0, 2, 1, 3] : (tensor<2x5x8x4xf32>) -> tensor<2x8x5x4xf32>
      {repeated("k")}
      {repeated("v")}
      %kt = graph.transpose %k perm = [0, 1, 3, 2] : (tensor<2x8x5x4xf32>) -> tensor<2x8x4x5xf32>
      %s0 = graph.matmul %q, %kt : (tensor<2x8x5x4xf32>, tensor<2x8x4x5xf32>) -> tensor<2x8x5x5xf32>
      %s = graph.mul %s0, %half : (tensor<2x8x5x5xf32>, tensor<f32>) -> tensor<2x8x5x5xf32>
      %p = graph.softmax %s axis = 3 : tensor<2x8x5x5xf32>
      %a = graph.matmul %p, %v : (tensor<2x8x5x5xf32>, tensor<2x8x5x4xf32>) -> tensor<2x8x5x4xf32>
      %t = graph.transpose %a perm = [0, 2, 1, 3] : (tensor<2x8x5x4xf32>) -> tensor<2x5x8x4xf32>
      %o = graph.reshape %t : tensor<2x5x8x4xf32> to tensor<10x32xf32>
      %y0 = graph.matmul %o, %wo : (tensor<10x32xf32>, tensor<32x8xf32>) -> tensor<10x8xf32>
      %y = graph.reshape %y0 : tensor<10x8xf32> to tensor<2x5x8xf32>
      func.return %y : tensor<2x5x8xf32>
    }}"""
    case = Case(text, {"w": fused, "wo": WO}, ways=2)
    parts = heads(XA @ WQ, 8), heads(XA @ wk, key_heads), heads(XA @ wv, key_heads)
    want = attention(*parts).swapaxes(1, 2).reshape(2, 5, 32) @ WO
    np.testing.assert_allclose(case(XA)[0], want, rtol=1e-5, atol=1e-5)
    assert len(case.ops(graph.SoftmaxOp)) == 2
    half = kv // 2
    np.testing.assert_array_equal(
        case.ctx.weights.get("w.way1"), np.concatenate([WQ[:, 16:], wk[:, half:], wv[:, half:]], 1)
    )


def test_query_key_and_value_by_a_reshape() -> None:
    """`[l, 96]` as `[l, 3, 8, 4]`, as in vision transformers: the heads are divided, so the 96 in three segments."""
    w = normal(8, 96)
    text = f"""func.func @main(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {{
      {weight("w", w)}
      {weight("wo", WO)}
      %all = graph.matmul %x, %w : (tensor<5x8xf32>, tensor<8x96xf32>) -> tensor<5x96xf32>
      %r = graph.reshape %all : tensor<5x96xf32> to tensor<5x3x8x4xf32>
      %t = graph.transpose %r perm = [1, 2, 0, 3] : (tensor<5x3x8x4xf32>) -> tensor<3x8x5x4xf32>
      %q, %k, %v = graph.split %t axis = 0
        : (tensor<3x8x5x4xf32>) -> (tensor<1x8x5x4xf32>, tensor<1x8x5x4xf32>, tensor<1x8x5x4xf32>)
      %a = graph.attention %q, %k, %v scale = 5.000000e-01
        : (tensor<1x8x5x4xf32>, tensor<1x8x5x4xf32>, tensor<1x8x5x4xf32>) -> tensor<1x8x5x4xf32>
      %b = graph.transpose %a perm = [0, 2, 1, 3] : (tensor<1x8x5x4xf32>) -> tensor<1x5x8x4xf32>
      %o = graph.reshape %b : tensor<1x5x8x4xf32> to tensor<5x32xf32>
      %y = graph.matmul %o, %wo : (tensor<5x32xf32>, tensor<32x8xf32>) -> tensor<5x8xf32>
      func.return %y : tensor<5x8xf32>
    }}"""
    case = Case(text, {"w": w, "wo": WO}, ways=4)
    x = XA[:1]
    q, k, v = (heads(x @ part, 8) for part in np.split(w, 3, 1))
    want = (attention(q, k, v).swapaxes(1, 2).reshape(1, 5, 32) @ WO)[0]
    np.testing.assert_allclose(case(x[0])[0], want, rtol=1e-5, atol=1e-5)
    columns = np.concatenate([np.arange(8) + start for start in (0, 32, 64)])
    np.testing.assert_array_equal(case.ctx.weights.get("w.way0"), w[:, columns])


HIDDEN = f"""func.func @main(%x: tensor<3x6xf32>) -> (tensor<3x6xf32>, tensor<OTHER>) {{
  {weight("w1", W1)}
  {weight("w3", W3)}
  %h = graph.linear %x, %w1 activation = <relu> : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
  %y = graph.matmul %h, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
  USE
  func.return %y, %z : tensor<3x6xf32>, tensor<OTHER>
}}"""


def hidden(use: str, other: str) -> str:
    return HIDDEN.replace("USE", use).replace("OTHER", other)


def test_an_output_is_gathered() -> None:
    text = hidden("", "3x16xf32").replace("%z", "%h")
    case = Case(text, {"w1": W1, "w3": W3}, ways=4)
    want = relu(X.astype(np.float64) @ W1)
    for got, expected in zip(case(X), (want @ W3, want), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert len(case.ops(graph.AllGatherOp)) == 1
    case = Case(text, {"w1": W1, "w3": W3}, ways=4, gather_outputs=False)
    assert not case.changed
    assert "not split: the result of 'linear' is also a graph output" in case.messages("missed")


def test_what_is_used_elsewhere_stays() -> None:
    use = "%z = graph.softmax %h axis = 1 : tensor<3x16xf32>"
    case = Case(hidden(use, "3x16xf32"), {"w1": W1, "w3": W3}, ways=4)
    assert not case.changed
    assert "not split: the result of 'linear' is also used by 'softmax'" in case.messages("missed")


@pytest.mark.parametrize("columns", [False, True])
def test_columns_alone(columns: bool) -> None:
    text = f"""func.func @main(%x: tensor<3x6xf32>) -> tensor<3x16xf32> {{
      {weight("w1", W1)}
      {weight("b1", B1)}
      %y = graph.linear %x, %w1, %b1 activation = <relu>
        : (tensor<3x6xf32>, tensor<6x16xf32>, tensor<16xf32>) -> tensor<3x16xf32>
      func.return %y : tensor<3x16xf32>
    }}"""
    case = Case(text, {"w1": W1, "b1": B1}, ways=4, columns=columns)
    assert case.changed == columns
    np.testing.assert_allclose(case(X)[0], relu(X.astype(np.float64) @ W1 + B1), rtol=1e-5, atol=1e-5)
    assert case.shapes(graph.LinearOp) == ([(3, 4)] * 4 if columns else [(3, 16)])
    assert len(case.ops(graph.AllGatherOp)) == columns


def test_columns_that_cannot_be_divided() -> None:
    case = Case(MLP.replace("ACTIVATION", "<relu>"), MLP_WEIGHTS, ways=5, columns=True)
    assert not case.changed
    assert any(
        "the rows of the weight of 'linear', 16, are not divisible by 5 ways" in m
        for m in case.messages("missed")
    )
    assert any(
        "a dimension of 16 of 'linear' is not divisible by 5 ways" in m for m in case.messages("missed")
    )


def test_a_weight_that_is_not_constant() -> None:
    text = f"""func.func @main(%x: tensor<3x6xf32>, %w1: tensor<6x16xf32>) -> tensor<3x6xf32> {{
      {weight("w3", W3)}
      %h = graph.matmul %x, %w1 : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
      %y = graph.matmul %h, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
      func.return %y : tensor<3x6xf32>
    }}"""
    case = Case(text, {"w3": W3}, ways=2)
    assert case.messages("missed") == ["not split: the weight of 'matmul' is not constant"]


def test_what_is_whole_is_cut() -> None:
    """A bias that is computed, and a factor that is: slices of each way. One weight is used twice, and stays."""
    text = f"""func.func @main(%x: tensor<3x6xf32>, %b: tensor<16xf32>, %f: tensor<3x16xf32>)
        -> (tensor<3x6xf32>, tensor<6x16xf32>) {{
      {weight("w1", W1)}
      {weight("w3", W3)}
      %n = graph.neg %b : tensor<16xf32>
      %h = graph.linear %x, %w1, %n : (tensor<3x6xf32>, tensor<6x16xf32>, tensor<16xf32>) -> tensor<3x16xf32>
      %g = graph.mul %f, %h : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
      %y = graph.matmul %g, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
      func.return %y, %w1 : tensor<3x6xf32>, tensor<6x16xf32>
    }}"""
    case = Case(text, {"w1": W1, "w3": W3}, ways=2)
    f = normal(3, 16)
    got = case(X, B1, f)
    np.testing.assert_allclose(got[0], (X.astype(np.float64) @ W1 - B1) * f @ W3, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[1], W1)
    assert case.shapes(graph.SliceOp) == [(8,), (3, 8)] * 2
    assert len(case.ops(graph.NegOp)) == 1


def test_a_value_that_would_be_divided_in_two_ways() -> None:
    """The heads and the numbers of each head of one value are both wanted in parts: it is refused."""
    text = f"""func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{
      {weight("w1", W1[:, :4])}
      {weight("w3", W3[:4])}
      %h = graph.matmul %x, %w1 : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
      %t = graph.transpose %h perm = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %s = graph.add %h, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %y = graph.matmul %s, %w3 : (tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
      func.return %y : tensor<4x6xf32>
    }}"""
    case = Case(text, {"w1": W1[:, :4].copy(), "w3": W3[:4].copy()}, ways=2)
    assert not case.changed
    assert any(
        "would have to be divided in two ways at once" in message for message in case.messages("missed")
    )


@pytest.mark.parametrize("shape", ["", "1x", "0x", "2x1x3x"])
def test_shapes_of_the_input(shape: str) -> None:
    text = f"""func.func @main(%x: tensor<{shape}6xf32>) -> tensor<{shape}6xf32> {{
      {weight("w1", W1)}
      {weight("w3", W3)}
      %h = graph.linear %x, %w1 activation = <relu> : (tensor<{shape}6xf32>, tensor<6x16xf32>) -> tensor<{shape}16xf32>
      %y = graph.linear %h, %w3 : (tensor<{shape}16xf32>, tensor<16x6xf32>) -> tensor<{shape}6xf32>
      func.return %y : tensor<{shape}6xf32>
    }}"""
    x = normal(*map(int, shape.split("x")[:-1]), 6)
    case = Case(text, {"w1": W1, "w3": W3}, ways=2)
    assert case.changed == (shape != "")  # a vector times a weight has no rows to keep whole
    np.testing.assert_allclose(case(x)[0], relu(x.astype(np.float64) @ W1) @ W3, rtol=1e-5, atol=1e-5)


def test_inside_a_loop() -> None:
    """Both products stand in the body; their weights stand before it."""
    text = f"""func.func @main(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {{
      {weight("w1", W1)}
      {weight("w3", W3)}
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %r = scf.for %i = %zero to %two step %one iter_args(%c = %x) -> (tensor<3x6xf32>) {{
        %h = graph.linear %c, %w1 activation = <relu> : (tensor<3x6xf32>, tensor<6x16xf32>) -> tensor<3x16xf32>
        %y = graph.matmul %h, %w3 : (tensor<3x16xf32>, tensor<16x6xf32>) -> tensor<3x6xf32>
        scf.yield %y : tensor<3x6xf32>
      }}
      func.return %r : tensor<3x6xf32>
    }}"""
    case = Case(text, {"w1": W1, "w3": W3}, ways=2)
    want = relu(relu(X.astype(np.float64) @ W1) @ W3 @ W1) @ W3
    np.testing.assert_allclose(case(X)[0], want, rtol=1e-5, atol=1e-4)
    assert len(case.ops(graph.AllReduceOp)) == 1
    # What is carried (3 x 6 floats), and in the body 3 x 16, or 3 x 8 for each way, when 3 x 6 are made of it.
    (facts,) = (dict(remark.args) for remark in case.ctx.remarks if remark.kind == "analysis")
    assert (facts["whole_peak_bytes"], facts["peak_bytes"]) == (72 + 192 + 72, 72 + 96 + 72)


@pytest.mark.parametrize("gather", [True, False])
def test_what_a_body_yields_is_gathered(gather: bool) -> None:
    """As what the model gives is: a branch yields what is inside the pair, too."""
    wide = "tensor<3x16xf32>"
    text = f"""func.func @main(%x: tensor<3x6xf32>, %c: tensor<i1>) -> (tensor<3x6xf32>, {wide}) {{
      {weight("w1", W1)}
      {weight("w3", W3)}
      %b = tensor.extract %c[] : tensor<i1>
      %r:2 = scf.if %b -> (tensor<3x6xf32>, {wide}) {{
        %h = graph.linear %x, %w1 activation = <relu> : (tensor<3x6xf32>, tensor<6x16xf32>) -> {wide}
        %y = graph.matmul %h, %w3 : ({wide}, tensor<16x6xf32>) -> tensor<3x6xf32>
        scf.yield %y, %h : tensor<3x6xf32>, {wide}
      }} else {{
        %z = graph.constant dense<0.0> : {wide}
        scf.yield %x, %z : tensor<3x6xf32>, {wide}
      }}
      func.return %r#0, %r#1 : tensor<3x6xf32>, {wide}
    }}"""
    case = Case(text, {"w1": W1, "w3": W3}, ways=2, gather_outputs=gather)
    assert (len(case.ops(graph.AllReduceOp)), len(case.ops(graph.AllGatherOp))) == (gather, gather)
    hidden = relu(X.astype(np.float64) @ W1)
    for found, want in zip(case(X, np.array(True)), (hidden @ W3, hidden), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(case(X, np.array(False))[0], X)


def test_patterns_keep_the_way() -> None:
    """What `canonicalize` puts in place of an operation of a way is of that way: here a reshape of a reshape."""
    ctx = make_context()
    text = """func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
      %a = graph.reshape %x {mlopt.way = 1 : i64} : tensor<2x3xf32> to tensor<6xf32>
      %b = graph.reshape %a {mlopt.way = 1 : i64} : tensor<6xf32> to tensor<3x2xf32>
      func.return %b : tensor<3x2xf32>
    }"""
    module = parse_module(text, ctx)
    PassManager(ctx, parse_pipeline("builtin.module(canonicalize,eliminate-reshapes,dce)")).run(module)
    assert [way_of(op) for op in module.walk() if isinstance(op, graph.ReshapeOp)] == [1]


def test_equal_operations_of_two_ways_stay_two() -> None:
    """`cse` does not let one way compute what another one has."""
    ctx = make_context()
    text = """func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %a = graph.neg %x {mlopt.way = 0 : i64} : tensor<2xf32>
      %b = graph.neg %x {mlopt.way = 1 : i64} : tensor<2xf32>
      func.return %a, %b : tensor<2xf32>, tensor<2xf32>
    }"""
    module = parse_module(text, ctx)
    PassManager(ctx, parse_pipeline("builtin.module(cse)")).run(module)
    assert sum(isinstance(op, graph.NegOp) for op in module.walk()) == 2


@pytest.mark.parametrize(("rows", "is_split"), [(64, True), (65, False)])
def test_not_in_too_many_pieces(rows: int, is_split: bool) -> None:
    """`[rows * 2]` as `[rows, 2]`: a way would have one element of each row of the 1-D values, `rows` pieces of it."""
    w, down = normal(3, 2 * rows), normal(2, 3)
    text = f"""func.func @main(%x: tensor<1x3xf32>) -> tensor<{rows}x3xf32> {{
      {weight("w", w)}
      {weight("down", down)}
      %h = graph.matmul %x, %w : (tensor<1x3xf32>, tensor<3x{2 * rows}xf32>) -> tensor<1x{2 * rows}xf32>
      %r = graph.reshape %h : tensor<1x{2 * rows}xf32> to tensor<{rows}x2xf32>
      %y = graph.matmul %r, %down : (tensor<{rows}x2xf32>, tensor<2x3xf32>) -> tensor<{rows}x3xf32>
      func.return %y : tensor<{rows}x3xf32>
    }}"""
    case = Case(text, {"w": w, "down": down}, ways=2)
    assert case.changed == is_split
    x = normal(1, 3)
    want = (x.astype(np.float64) @ w).reshape(rows, 2) @ down
    np.testing.assert_allclose(case(x)[0], want, rtol=1e-5, atol=1e-5)
