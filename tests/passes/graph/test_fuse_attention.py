"""`fuse-attention`: the forms that are attention and the near misses, each with the numbers that it had before.

The right numbers are the reference evaluation of the module before the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType, f32, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import from_numpy_dtype, to_numpy_dtype
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.graph.constants import make_constant
from mlopt.passes.graph.fuse_attention import FuseAttentionPass

TOLERANCE = {np.float16: 4e-3, ml_dtypes.bfloat16: 4e-2, np.float32: 1e-6, np.float64: 1e-14}
LOWEST = float(np.finfo(np.float32).min)


class Model:
    """A module under construction: inputs, constants and operations."""

    def __init__(self, dtype: type = np.float32):
        self.ctx: CompilerContext = make_context()
        self.ctx.evaluator = partial(evaluate, weights=self.ctx.weights)
        self.dtype = dtype
        self.rng = np.random.default_rng(7)
        self.inputs: dict[str, np.ndarray] = {}
        self.block = Block()

    def input(self, *shape: int) -> SSAValue:
        return self.given(self.rng.standard_normal(shape).astype(self.dtype))

    def given(self, array: np.ndarray) -> SSAValue:
        self.inputs[f"arg{len(self.inputs)}"] = array
        return self.block.insert_arg(
            TensorType(from_numpy_dtype(array.dtype), array.shape), len(self.block.args)
        )

    def constant(self, array: Any) -> SSAValue:
        array = np.asarray(array) if np.asarray(array).dtype == np.bool_ else np.asarray(array, self.dtype)
        op = make_constant(array, self.ctx, "c")
        self.block.add_op(op)
        return op.result

    def add(self, op: graph.GraphOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def swapped(self, key: SSAValue) -> SSAValue:
        rank = rank_of(key)
        return self.add(graph.TransposeOp(key, (*range(rank - 2), rank - 1, rank - 2)))

    def product(self, query: SSAValue, key: SSAValue) -> SSAValue:
        return self.add(graph.MatMulOp(query, self.swapped(key)))

    def softmax(self, scores: SSAValue) -> SSAValue:
        return self.add(graph.SoftmaxOp(scores, -1))

    def finish(self, *outputs: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*outputs))
        types = (self.block.arg_types, [output.type for output in outputs])
        self.module = ModuleOp([FuncOp("main", types, Region(self.block))])
        verify_module(self.module)
        return self.module

    def outputs(self) -> list[np.ndarray]:
        return list(evaluate_module(self.module, self.inputs, self.ctx.weights).values())

    def remarks(self, kind: str) -> list[str]:
        return [remark.message for remark in self.ctx.remarks if remark.kind == kind]


def fused(model: Model, *outputs: SSAValue) -> graph.AttentionOp:
    """The one operation that the pass makes of the model, after the outputs are found to be the same as before."""
    module = model.finish(*outputs)
    want = model.outputs()
    assert FuseAttentionPass().run(model.ctx, module)
    verify_module(module)
    (attention,) = (op for op in module.walk() if isinstance(op, graph.AttentionOp))
    assert not any(isinstance(op, graph.SoftmaxOp | graph.MatMulOp) for op in module.walk())
    assert_close(model.outputs(), want, TOLERANCE[model.dtype])
    assert model.ctx.statistics["fuse-attention", "attentions-fused"] == 1
    assert [message.endswith("into 'attention'") for message in model.remarks("passed")] == [True]
    assert not FuseAttentionPass().run(model.ctx, module)
    return attention


def missed(model: Model, *outputs: SSAValue) -> list[str]:
    """The remarks of the pass, which leaves the model as it is."""
    module = model.finish(*outputs)
    text = str(module)
    assert not FuseAttentionPass().run(model.ctx, module)
    assert str(module) == text
    assert not model.remarks("passed")
    return [message.removeprefix("not fused: ") for message in model.remarks("missed")]


def assert_close(got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float) -> None:
    for ours, theirs in zip(got, want, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        wide = [array.astype(np.float64) for array in (ours, theirs)]
        largest = float(np.max(np.abs(wide[1]), initial=0.0, where=np.isfinite(wide[1])))
        np.testing.assert_allclose(*wide, rtol=0, atol=tolerance * max(largest, 1e-30))


def operands(model: Model, batch: Sequence[int] = (2, 4)) -> tuple[SSAValue, SSAValue, SSAValue]:
    return model.input(*batch, 3, 8), model.input(*batch, 5, 8), model.input(*batch, 5, 6)


# Scales


def _on_query(model: Model, q: SSAValue, k: SSAValue, c: SSAValue, op: type[graph.BinaryOp]) -> SSAValue:
    return model.product(model.add(op(q, c)), k)


def _on_key(model: Model, q: SSAValue, k: SSAValue, c: SSAValue, op: type[graph.BinaryOp]) -> SSAValue:
    return model.product(q, model.add(op(k, c)))


def _on_both(model: Model, q: SSAValue, k: SSAValue, c: SSAValue, op: type[graph.BinaryOp]) -> SSAValue:
    return model.add(graph.MatMulOp(model.add(op(q, c)), model.add(op(model.swapped(k), c))))


def _on_scores(model: Model, q: SSAValue, k: SSAValue, c: SSAValue, op: type[graph.BinaryOp]) -> SSAValue:
    return model.add(op(model.product(q, k), c))


def _on_the_right(model: Model, q: SSAValue, k: SSAValue, c: SSAValue, op: type[graph.BinaryOp]) -> SSAValue:
    scores = model.product(q, k)
    return model.add(op(c, scores) if op is graph.MulOp else op(scores, c))


PLACES: dict[str, tuple[Callable[..., SSAValue], int]] = {
    "query": (_on_query, 1),
    "key": (_on_key, 1),
    "both": (_on_both, 2),
    "scores": (_on_scores, 1),
    "scores, on the right": (_on_the_right, 1),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", [graph.MulOp, graph.DivOp])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scales(place: str, op: type[graph.BinaryOp], dtype: type) -> None:
    """The key's is moved to a query that is computed for this alone, a number or more; that of the scores stays."""
    model = Model(dtype)
    q, k, v = operands(model)
    q = model.add(graph.ReluOp(q))
    build, power = PLACES[place]
    number = 0.375 if op is graph.MulOp else 2.5
    scores = build(model, q, k, model.constant(number), op)
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    factor = number if op is graph.MulOp else 1 / number
    scales = [attention.scale.value.data, attention.score_scale.value.data]
    wanted = [1, factor] if place.startswith("scores") else [factor**power, 1]
    assert scales == pytest.approx(wanted, rel=1e-12)
    assert attention.query == q


@pytest.mark.parametrize("query", ["an input", "a constant", "used elsewhere"])
def test_the_scale_of_the_key_stays_where_the_query_would_need_a_copy_for_it(query: str) -> None:
    model = Model()
    q, k, v = operands(model)
    if query == "a constant":
        q = model.constant(np.ones((2, 4, 3, 8)))
    elif query == "used elsewhere":
        q = model.add(graph.ReluOp(q))
    scaled = model.add(graph.MulOp(k, model.constant(0.5)))
    y = model.add(graph.MatMulOp(model.softmax(model.product(q, scaled)), v))
    attention = fused(model, y, *([q] if query == "used elsewhere" else []))
    assert attention.key == scaled
    assert attention.scale.value.data == 1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1), (4, 1, 1), (2, 4, 3, 5)])
def test_the_scale_is_one_number_in_any_shape(shape: tuple[int, ...]) -> None:
    model = Model()
    q, k, v = operands(model)
    scores = model.add(graph.MulOp(model.product(q, k), model.constant(np.full(shape, 0.5))))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert attention.score_scale.value.data == 0.5


def test_a_query_that_is_scaled_by_columns_stays_so() -> None:
    model = Model()
    q, k, v = operands(model)
    scaled = model.add(graph.MulOp(q, model.constant(np.arange(8))))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(model.product(scaled, k)), v)))
    assert attention.query == scaled


def test_a_scaled_query_that_is_used_elsewhere_stays() -> None:
    model = Model()
    q, k, v = operands(model)
    scaled = model.add(graph.MulOp(q, model.constant(0.5)))
    y = model.add(graph.MatMulOp(model.softmax(model.product(scaled, k)), v))
    assert fused(model, y, scaled).query == scaled


# Masks


def _row_of(model: Model) -> SSAValue:
    return model.given(np.where(model.rng.random((2, 1, 1, 5)) < 0.4, -np.inf, 0).astype(model.dtype))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (4, 3, 5), (2, 1, 1, 5), (3, 1), ()])
def test_masks_that_are_added(left: bool, shape: tuple[int, ...]) -> None:
    model = Model()
    q, k, v = operands(model)
    scores, mask = model.product(q, k), model.input(*shape)
    masked = model.add(graph.AddOp(mask, scores) if left else graph.AddOp(scores, mask))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(masked), v)))
    assert list(attention.masks) == [mask]
    assert attention.causal is None


@pytest.mark.parametrize("fill", [-np.inf, LOWEST, -1e4, 0.0])
@pytest.mark.parametrize("shows", [False, True])
def test_masks_that_choose(fill: float, shows: bool) -> None:
    model = Model()
    q, k, v = operands(model)
    mask = model.given(model.rng.random((2, 1, 3, 5)) < 0.6)
    scores = model.product(q, k)
    chosen = (scores, model.constant(fill)) if shows else (model.constant(fill), scores)
    masked = model.add(graph.WhereOp(mask, *chosen))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(masked), v)))
    assert attention.fill_value == fill
    assert (attention.masks[0] == mask) == shows


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_masks_of_zeros_are_left_out(zero: float) -> None:
    model = Model()
    q, k, v = operands(model)
    scores, mask = (
        model.add(graph.AddOp(model.product(q, k), model.constant(np.full((3, 5), zero)))),
        _row_of(model),
    )
    scores = model.add(graph.AddOp(scores, mask))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert list(attention.masks) == [mask]


def test_masks_stay_in_their_order() -> None:
    model = Model()
    q, k, v = operands(model)
    first, second, third = model.input(3, 5), model.given(model.rng.random((3, 5)) < 0.5), _row_of(model)
    scores = model.add(graph.AddOp(model.product(q, k), first))
    scores = model.add(graph.WhereOp(second, scores, model.constant(-2.0)))
    scores = model.add(graph.AddOp(third, scores))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert list(attention.masks) == [first, second, third]


CAUSAL = np.where(np.tri(3, 5, dtype=np.bool_), 0, -np.inf)
MASKS = {
    "exactly": (CAUSAL, True),
    "with dimensions of 1": (CAUSAL[None, None], True),
    "zeros": (np.zeros((3, 5)), False),
    "the lowest number": (np.maximum(CAUSAL, LOWEST), False),
    "aligned at the last key": (np.where(np.tri(3, 5, 2, dtype=np.bool_), 0, -np.inf), False),
    "without the diagonal": (np.where(np.tri(3, 5, -1, dtype=np.bool_), 0, -np.inf), False),
    "with a hole": (np.where(np.arange(15).reshape(3, 5) == 10, -np.inf, CAUSAL), False),
    "with a number": (np.where(np.arange(15).reshape(3, 5) == 0, 0.5, CAUSAL), False),
    "a row": (np.array([[0, 0, 0, -np.inf, -np.inf]]), False),
    "two": (np.broadcast_to(CAUSAL, (2, 1, 3, 5)), False),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_causal_by_its_values(name: str) -> None:
    model = Model()
    q, k, v = operands(model)
    array, causal = MASKS[name]
    masked = model.add(graph.AddOp(model.product(q, k), model.constant(array)))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(masked), v)))
    assert (attention.causal is not None) == causal
    assert len(attention.masks) == (not causal and bool(np.any(array)))


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("windows", [1, 3])
def test_masks_of_windows(batches: int, windows: int) -> None:
    """A relative position bias of each head, and a mask of each window, for which the batch is split and merged."""
    model = Model()
    total = batches * windows
    q, k, v = operands(model, (total, 4))
    bias, mask = model.input(4, 3, 5), model.input(windows, 1, 3, 5)
    scores = model.add(graph.AddOp(model.product(q, k), bias))
    scores = model.add(graph.ReshapeOp(scores, (batches, windows, 4, 3, 5)))
    scores = model.add(graph.AddOp(scores, mask))
    scores = model.add(graph.ReshapeOp(scores, (total, 4, 3, 5)))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert shape_of(attention.query) == (batches, windows, 4, 3, 8)


def test_masks_of_heads_that_were_merged_with_the_batch() -> None:
    model = Model()
    q, k, v = operands(model, (8,))
    scores = model.add(graph.ReshapeOp(model.product(q, k), (2, 4, 3, 5)))
    scores = model.add(graph.AddOp(scores, _row_of(model)))
    scores = model.add(graph.ReshapeOp(scores, (8, 3, 5)))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert shape_of(attention.result) == (2, 4, 3, 6)


def test_heads_in_groups_that_are_merged_for_a_mask_alone() -> None:
    """As GroupQueryAttention is taken apart: products of heads in groups, scores and weights of all heads."""
    model = Model()
    q, k, v = model.input(2, 2, 3, 5, 8), model.input(2, 2, 1, 7, 8), model.input(2, 2, 1, 7, 6)
    scores = model.add(graph.ReshapeOp(model.product(q, k), (2, 6, 5, 7)))
    mask = model.given(model.rng.random((2, 1, 5, 7)) < 0.6)
    scores = model.add(graph.WhereOp(mask, scores, model.constant(-10.0)))
    weights = model.add(graph.ReshapeOp(model.softmax(scores), (2, 2, 3, 5, 7)))
    attention = fused(model, model.add(graph.MatMulOp(weights, v)))
    assert attention.groups == 3
    assert shape_of(attention.masks[0]) == (2, 1, 1, 5, 7)


# NaN


def _without_nan(model: Model, weights: SSAValue, number: float = 0.0) -> SSAValue:
    is_nan = model.add(graph.IsNanOp(weights))
    return model.add(graph.WhereOp(is_nan, model.constant(number), weights))


@pytest.mark.parametrize("to_zero", [False, True])
@pytest.mark.parametrize(
    ("operand", "number"),
    [*product(range(3), (np.nan, np.inf, -np.inf)), (3, -np.inf), (3, np.nan), (3, np.inf)],
)
def test_nan_and_infinity_are_as_before(to_zero: bool, operand: int, number: float) -> None:
    """In one element of query, key or value, and in all of a row of the mask."""
    model = Model()
    arrays = [model.rng.standard_normal(shape).astype(np.float32)
              for shape in ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6), (3, 5))]  # fmt: skip
    if operand == 3:
        arrays[3][1] = number
    else:
        arrays[operand][0, 1, 2, 3] = number
    q, k, v, mask = map(model.given, arrays)
    weights = model.softmax(model.add(graph.AddOp(model.product(q, k), mask)))
    if to_zero:
        weights = _without_nan(model, weights)
    attention = fused(model, model.add(graph.MatMulOp(weights, v)))
    assert (attention.nan_to_zero is not None) == to_zero


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("zero", ["never", "in f32", "behind the cast"])
def test_a_softmax_in_f32_is_that_of_16_bits(dtype: type, zero: str) -> None:
    model = Model(dtype)
    q, k, v = operands(model)
    masked = model.add(graph.AddOp(model.product(q, k), _row_of(model)))
    weights = model.softmax(model.add(graph.CastOp(masked, f32)))
    if zero == "in f32":
        model.dtype = np.float32
        weights = _without_nan(model, weights)
        model.dtype = dtype
    weights = model.add(graph.CastOp(weights, from_numpy_dtype(np.dtype(dtype))))
    if zero == "behind the cast":
        weights = _without_nan(model, weights)
    attention = fused(model, model.add(graph.MatMulOp(weights, v)))
    assert (attention.nan_to_zero is None) == (zero == "never")


@pytest.mark.parametrize("wide", [f32, f64])
def test_a_softmax_of_another_type_is_another_one(wide: AnyFloat) -> None:
    """In f64, and from 16 bits to f32 without a cast back; f64 is computed in more digits."""
    model = Model(np.float16 if wide == f32 else np.float32)
    q, k, v = operands(model)
    weights = model.softmax(model.add(graph.CastOp(model.product(q, k), wide)))
    if wide == f32:
        v = model.add(graph.CastOp(v, f32))
    else:
        weights = model.add(graph.CastOp(weights, f32))
    y = model.add(graph.MatMulOp(weights, v))
    assert missed(model, y) == ["the softmax is of another type than the products"]


# Where heads and keys are


@pytest.mark.parametrize("batch", [(), (4,), (2, 4), (2, 3, 4), (1, 1)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_ranks_and_types(batch: tuple[int, ...], dtype: type) -> None:
    model = Model(dtype)
    q, k, v = operands(model, batch)
    fused(model, model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v)))


@pytest.mark.parametrize("sizes", [(0, 5, 8, 6), (3, 0, 8, 6), (3, 5, 0, 6), (3, 5, 8, 0), (1, 1, 1, 1)])
def test_sizes_of_0_and_1(sizes: tuple[int, int, int, int]) -> None:
    model = Model()
    queries, keys, depth, width = sizes
    q, k, v = (
        model.input(2, 4, queries, depth),
        model.input(2, 4, keys, depth),
        model.input(2, 4, keys, width),
    )
    fused(model, model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v)))


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 2, 1, 3), None])
def test_keys_are_read_as_they_are(order: tuple[int, ...] | None) -> None:
    """As rows of heads; as `[b, h, d, l]` already; and behind the transpose alone."""
    model = Model()
    q, v = model.input(2, 4, 3, 8), model.input(2, 4, 5, 6)
    shapes = {(0, 2, 3, 1): (2, 5, 4, 8), (0, 2, 1, 3): (2, 8, 4, 5)}
    key = model.input(*(shapes[order] if order else (2, 4, 8, 5)))
    transposed = model.add(graph.TransposeOp(key, order)) if order else key
    scores = model.add(graph.MatMulOp(q, transposed))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert shape_of(attention.key) == (2, 4, 5, 8)
    assert isinstance(attention.key.owner, graph.TransposeOp)
    assert attention.key.owner.input == key


def _repeated(model: Model, x: SSAValue, times: int) -> SSAValue:
    batch, heads, *matrix = shape_of(x)
    split = model.add(graph.ReshapeOp(x, (batch, heads, 1, *matrix)))
    expanded = model.add(graph.ExpandOp(split, (batch, heads, times, *matrix)))
    return model.add(graph.ReshapeOp(expanded, (batch, heads * times, *matrix)))


def _multiplied(model: Model, x: SSAValue, times: int) -> SSAValue:
    batch, _, *matrix = shape_of(x)
    return model.add(graph.ExpandOp(x, (batch, times, *matrix)))


@pytest.mark.parametrize(("heads", "repeat"), [(2, _repeated), (1, _repeated), (1, _multiplied)])
@pytest.mark.parametrize("scaled", ["before the transpose", "behind it"])
def test_heads_that_are_repeated_are_read_once(
    heads: int, repeat: Callable[[Model, SSAValue, int], SSAValue], scaled: str
) -> None:
    model = Model()
    q, k, v = model.input(2, 4, 3, 8), model.input(2, heads, 5, 8), model.input(2, heads, 5, 6)
    q = model.add(graph.ReluOp(q))
    keys, values = (repeat(model, x, 4 // heads) for x in (k, v))
    number = model.constant(0.5)
    if scaled == "behind it":
        keys = model.add(graph.MulOp(model.swapped(keys), number))
    else:
        keys = model.swapped(model.add(graph.MulOp(keys, number)))
    scores = model.add(graph.MatMulOp(q, keys))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v if heads == 4 else values)))
    assert shape_of(attention.key)[1] == shape_of(attention.value)[1] == heads


def test_heads_of_the_key_alone_stay_repeated() -> None:
    model = Model()
    q, k, v = model.input(2, 4, 3, 8), model.input(2, 2, 5, 8), model.input(2, 4, 5, 6)
    scores = model.product(q, _repeated(model, k, 2))
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(scores), v)))
    assert shape_of(attention.key)[1] == 4


def test_batches_broadcast() -> None:
    model = Model()
    q, k, v = model.input(2, 4, 3, 8), model.input(1, 4, 5, 8), model.input(4, 5, 6)
    fused(model, model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v)))


# Near misses


def test_each_part_may_be_used_nowhere_else() -> None:
    """As another output of the graph, or by another operation; the outputs and their values stay."""
    for part in range(5):
        for use in ("output", "operation"):
            model = Model()
            q, k, v = operands(model)
            scores = model.product(q, k)
            scaled = model.add(graph.MulOp(scores, model.constant(0.5)))
            masked = model.add(graph.AddOp(scaled, model.input(3, 5)))
            weights = model.softmax(masked)
            clean = _without_nan(model, weights)
            shared = (scores, scaled, masked, weights, clean)[part]
            y = model.add(graph.MatMulOp(clean, v))
            other = shared if use == "output" else model.add(graph.ReluOp(shared))
            (message,) = missed(model, y, other)
            kind = ("matmul", "mul", "add", "softmax", "where")[part]
            reason = "a graph output" if use == "output" else "used by 'relu'"
            assert message == f"the result of '{kind}' is also {reason}"


@pytest.mark.parametrize("operand", ["mask", "value"])
def test_a_part_may_not_be_an_operand(operand: str) -> None:
    """Scores that are added to themselves; weights that are multiplied by themselves."""
    model = Model()
    q, k = model.input(4, 5, 8), model.input(4, 5, 8)
    scores = model.product(q, k)
    if operand == "mask":
        scores = model.add(graph.AddOp(scores, scores))
    weights = model.softmax(scores)
    y = model.add(graph.MatMulOp(weights, weights if operand == "value" else model.input(4, 5, 6)))
    assert missed(model, y) == ["a part of it is an operand of it too"]


def test_weights_may_not_be_changed_behind_the_softmax() -> None:
    """A factor, as dropout leaves one, and a mask that is multiplied by; not weights that no product gave."""
    model = Model()
    q, k, v = operands(model)
    weights = model.softmax(model.product(q, k))
    factor = model.constant(0.9)
    changed = model.add(graph.MulOp(factor, weights))
    y = model.add(graph.MatMulOp(changed, v))
    assert missed(model, y) == ["the weights are changed by 'mul' behind the softmax"]

    model = Model()
    _, _, v = operands(model)
    weights = model.softmax(model.input(4, 5, shape_of(v)[-2]))
    y = model.add(graph.MatMulOp(model.add(graph.MulOp(weights, model.constant(0.9))), v))
    assert missed(model, y) == []


def test_the_softmax_must_be_along_the_keys() -> None:
    model = Model()
    q, k, v = operands(model)
    weights = model.add(graph.SoftmaxOp(model.product(q, k), 2))
    assert missed(model, model.add(graph.MatMulOp(weights, v))) == ["the softmax is not along the keys"]


def _many_numbers(model: Model, scores: SSAValue) -> SSAValue:
    return model.add(graph.MulOp(scores, model.constant([1, 1, 1, 1, 2])))


def _no_constant(model: Model, scores: SSAValue) -> SSAValue:
    return model.add(graph.DivOp(scores, model.input()))


def _zero(model: Model, scores: SSAValue) -> SSAValue:
    return model.add(graph.MulOp(scores, model.constant(0.0)))


def _behind_a_mask(model: Model, scores: SSAValue) -> SSAValue:
    masked = model.add(graph.AddOp(scores, model.input(3, 5)))
    return model.add(graph.MulOp(masked, model.constant(0.5)))


def _too_small(model: Model, scores: SSAValue) -> SSAValue:
    return model.add(graph.MulOp(scores, model.constant(1e-40)))


def _larger_mask(model: Model, scores: SSAValue) -> SSAValue:
    return model.add(graph.AddOp(scores, model.input(2, 1, 1, 1)))


def _two_fills(model: Model, scores: SSAValue) -> SSAValue:
    for fill in (-1.0, -2.0):
        shown = model.given(model.rng.random((3, 5)) < 0.5)
        scores = model.add(graph.WhereOp(shown, scores, model.constant(fill)))
    return scores


def _infinite(model: Model, scores: SSAValue) -> SSAValue:
    shown = model.given(model.rng.random((3, 5)) < 0.5)
    return model.add(graph.WhereOp(shown, model.constant(np.inf), scores))


def _other_rows(model: Model, scores: SSAValue) -> SSAValue:
    (batch, queries, keys) = shape_of(scores)
    split = model.add(graph.ReshapeOp(scores, (batch * queries, keys)))
    return model.add(graph.ReshapeOp(split, (batch, queries, keys)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_many_numbers, "the scores are multiplied by more than one number"),
        (_no_constant, "the scores are multiplied by more than one number"),
        (_zero, "the scores are multiplied by more than one number"),
        (_behind_a_mask, "the scores are multiplied behind a mask"),
        (_too_small, "the scale is not a normal number of the type"),
        (_larger_mask, "a mask has dimensions that the scores do not have"),
        (_two_fills, "two masks fill in different numbers"),
        (_infinite, "a mask fills in infinity"),
        (_other_rows, "the scores are reshaped to matrices of other rows and columns"),
    ],
)
def test_what_is_done_to_the_scores(change: Callable[[Model, SSAValue], SSAValue], reason: str) -> None:
    model = Model()
    q, k, v = operands(model, (1,) if change is _larger_mask else (4,))
    scores = change(model, model.product(q, k))
    assert missed(model, model.add(graph.MatMulOp(model.softmax(scores), v))) == [reason]


def test_heads_must_be_the_query_s() -> None:
    model = Model()
    q, k, v = model.input(2, 1, 3, 8), model.input(2, 4, 5, 8), model.input(2, 4, 5, 6)
    y = model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v))
    assert missed(model, y) == ["the heads of the query are broadcast"]


def test_keys_and_values_must_have_the_same_heads() -> None:
    model = Model()
    q, k, v = model.input(2, 4, 3, 8), model.input(2, 4, 5, 8), model.input(2, 1, 5, 6)
    y = model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v))
    assert missed(model, y) == ["key and value have different numbers of heads"]


def test_values_of_more_batches_would_repeat_the_scores() -> None:
    model = Model()
    q, k, v = model.input(1, 4, 3, 8), model.input(1, 4, 5, 8), model.input(2, 4, 5, 6)
    y = model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v))
    assert missed(model, y) == ["the value has more batches than the scores"]


def test_another_number_for_nan_is_no_attention() -> None:
    model = Model()
    q, k, v = operands(model)
    weights = _without_nan(model, model.softmax(model.product(q, k)), number=1.0)
    (message,) = missed(model, model.add(graph.MatMulOp(weights, v)))
    assert message == "the weights are changed by 'where' behind the softmax"


def test_two_layers_around_a_softmax_are_no_attention() -> None:
    model = Model()
    scores = model.add(graph.MatMulOp(model.input(3, 8), model.constant(np.ones((8, 5)))))
    y = model.add(graph.MatMulOp(model.softmax(scores), model.constant(np.ones((5, 6)))))
    assert missed(model, y) == []


def test_the_type_is_kept() -> None:
    model = Model(np.float16)
    q, k, v = operands(model)
    attention = fused(model, model.add(graph.MatMulOp(model.softmax(model.product(q, k)), v)))
    assert to_numpy_dtype(attention.result.type.get_element_type()) == np.float16  # pyright: ignore
