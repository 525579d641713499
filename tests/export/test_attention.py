"""Attention as ONNX: the operator of that name where it gives the same numbers, its parts elsewhere.

The right numbers are those of the reference evaluation, which `tests/interpreter/test_attention.py` holds against
numpy by hand.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from mlopt.dialects import graph
from mlopt.export import to_onnx
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.dtypes import array_to_dense, from_numpy_dtype
from mlopt.weights import WeightStore
from tests.onnx_oracle import run_model

RNG = np.random.default_rng(5)
Q, K, V = (
    RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6))
)
MASK = RNG.standard_normal((1, 4, 3, 5)).astype(np.float32)
HOLES = np.where(np.arange(5) % 2 == 1, -np.inf, 0).astype(np.float32) * np.ones((3, 1), np.float32)
HIDDEN_ROW = np.where(np.arange(3) == 1, -np.inf, 0).astype(np.float32)[:, None] * np.ones(5, np.float32)


def module_of(*arrays: np.ndarray, constants: int = 0, **options: Any) -> ModuleOp:
    """Attention of these arrays, of which the last `constants` are constants."""
    inputs = len(arrays) - constants
    block = Block(arg_types=[TensorType(from_numpy_dtype(a.dtype), a.shape) for a in arrays[:inputs]])
    made = [graph.ConstantOp(array_to_dense(array)) for array in arrays[inputs:]]
    op = graph.AttentionOp(*block.args, *made, **options)
    block.add_ops([*made, op, ReturnOp(op.result)])
    module = ModuleOp([FuncOp("main", (block.arg_types, op.result_types), Region(block))])
    module.verify()
    return module


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def assert_same(module: ModuleOp, inputs: tuple[np.ndarray, ...], tolerance: float = 2e-6) -> list[str]:
    """Assert that onnxruntime gives what the reference evaluation gives, NaN included; returns the operators."""
    model = to_onnx(module, WeightStore())
    onnx.checker.check_model(model, full_check=True)
    named = {f"arg{index}": array for index, array in enumerate(inputs)}
    (want,) = evaluate_module(module, named).values()
    for optimize in (False, True):
        (got,) = run_model(model, named, optimize=optimize)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    return operators(model)


def special(array: np.ndarray, number: float) -> np.ndarray:
    """The array with one element replaced."""
    copy = array.copy()
    copy[0, 1, 1, 0] = number
    return copy


STANDARD = {
    "plain": ((Q, K, V), 0, {}),
    "scaled": ((Q, K, V), 0, {"scale": 0.3}),
    "scaled twice": ((Q, K, V), 0, {"scale": 0.5, "score_scale": 0.6}),
    "grouped": ((Q, K[:, :2], V[:, :2]), 0, {"scale": 0.3}),
    "one head of keys": ((Q, K[:, :1], V[:, :1]), 0, {}),
    "causal": ((Q, K, V), 0, {"causal": True}),
    "causal, fewer keys": ((Q, K[:, :, :2], V[:, :, :2]), 0, {"causal": True}),
    "a constant mask": ((Q, K, V, MASK), 1, {"scale": 0.3}),
    "a constant mask with holes": ((Q, K, V, HOLES), 1, {}),
    **{
        f"{number} in a key, behind a mask with holes": ((Q, special(K, number), V, HOLES), 1, {})
        for number in (np.nan, np.inf, -np.inf)
    },
    **{
        f"{number} in a key, causal": ((Q, special(K, number), V), 0, {"causal": True})
        for number in (np.nan, np.inf, -np.inf)
    },
    **{
        f"{number} in operand {position}": (
            tuple(special(array, number) if i == position else array for i, array in enumerate((Q, K, V))),
            *(0, {"scale": 0.3}),
        )
        for number, position in itertools.product((np.nan, np.inf, -np.inf), range(3))
    },
}


@pytest.mark.parametrize("name", STANDARD)
def test_one_operator(name: str) -> None:
    arrays, constants, options = STANDARD[name]
    module = module_of(*arrays, constants=constants, **options)
    assert assert_same(module, arrays[: len(arrays) - constants]) == ["Attention"]


PARTS = {
    "NaN becomes 0": ((Q, special(K, np.nan), V), 0, {"nan_to_zero": True}),
    "a scale that makes the query overflow": ((special(Q, 1e10), K, V), 0, {"scale": 1e30}),
    "a negative scale": ((Q, K, V), 0, {"scale": -0.3}),
    "scaled twice, one of them negative": ((Q, K, V), 0, {"scale": 0.5, "score_scale": -0.6}),
    "a mask that may hide all": ((Q, K, V, MASK), 0, {}),
    "a constant mask that hides all of a row": ((Q, K, V, HIDDEN_ROW), 1, {}),
    "the lowest number in all of a row": ((Q, K, V, np.maximum(HIDDEN_ROW, np.finfo(np.float32).min)), 1, {}),
    "a mask that broadcasts to rows": ((Q, K, V, MASK[:, :1, :1]), 1, {}),
    "a mask that broadcasts to columns": ((Q, K, V, MASK[..., :1]), 1, {}),
    "a constant mask of i1": ((Q, special(K, np.nan), V, HOLES == 0), 1, {}),
    "a number in place of hidden scores": ((Q, K, V, HOLES == 0), 1, {"fill": -10.0}),
    "a mask of i1": ((Q, K, V, HIDDEN_ROW == 0), 0, {}),
    "two masks": ((Q, K, V, MASK, HOLES), 2, {}),
    "a mask and the future": ((Q, K, V, MASK), 1, {"causal": True}),
    "one batch of keys": ((Q, K[:1], V[:1]), 0, {}),
    "grouped": ((Q, K[:, :2], V[:, :2], MASK), 0, {"scale": 0.3}),
    "grouped, one batch of queries": ((Q[:1], K[:, :2], V[:, :2], MASK), 0, {}),
    "rank 3": ((Q[0], K[0], V[0]), 0, {}),
    "rank 2": ((Q[0, 0], K[0, 0], V[0, 0]), 0, {"scale": 2.0}),
    "rank 5, grouped": ((Q[None], K[None, :, :2], V[None, :, :2]), 0, {}),
    "no queries": ((Q[:, :, :0], K, V), 0, {}),
    "no keys": ((Q, K[:, :, :0], V[:, :, :0]), 0, {}),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(name: str) -> None:
    arrays, constants, options = PARTS[name]
    module = module_of(*arrays, constants=constants, **options)
    assert "Attention" not in assert_same(module, arrays[: len(arrays) - constants])


def test_doubles_are_scaled_in_doubles() -> None:
    """ONNX's own operator has its scale in f32, which is off by 1e-8 here."""
    arrays = tuple(array.astype(np.float64) for array in (Q, K, V))
    assert "Attention" not in assert_same(module_of(*arrays, scale=0.3), arrays, tolerance=1e-12)


def test_halves_are_rounded_where_the_parts_are() -> None:
    arrays = tuple(array.astype(np.float16) for array in (Q, K, V))
    found = assert_same(module_of(*arrays, scale=0.3), arrays, tolerance=2e-3)
    assert found == ["Mul", "Transpose", "MatMul", "Softmax", "MatMul"]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("uses", ["one", "the transpose is an output too"])
def test_heads_inside_of_rows_are_read_as_they_are(batch: int, uses: str) -> None:
    """`[b, l, h * d]` goes into the operator and comes out of it, without the reshapes and transposes around."""
    widths = (32, 16, 12)
    arrays = [RNG.standard_normal((batch, length, width)).astype(np.float32)
              for length, width in zip((3, 5, 5), widths, strict=True)]  # fmt: skip
    block = Block(arg_types=[TensorType(from_numpy_dtype(a.dtype), a.shape) for a in arrays])
    heads: list[graph.GraphOp] = []
    for argument, length, (count, depth) in zip(block.args, (3, 5, 5), ((4, 8), (2, 8), (2, 6)), strict=True):
        reshape = graph.ReshapeOp(argument, (batch, length, count, depth))
        block.add_op(reshape)
        heads.append(graph.TransposeOp(reshape, (0, 2, 1, 3)))
        block.add_op(heads[-1])
    attention = graph.AttentionOp(*heads, scale=0.3)
    transpose = graph.TransposeOp(attention, (0, 2, 1, 3))
    reshape = graph.ReshapeOp(transpose, (batch, 3, 24))
    results = [reshape.result] if uses == "one" else [reshape.result, transpose.result]
    block.add_ops([attention, transpose, reshape, ReturnOp(*results)])
    types = (block.arg_types, [result.type for result in results])
    module = ModuleOp([FuncOp("main", types, Region(block))])
    model = to_onnx(module, WeightStore())
    onnx.checker.check_model(model, full_check=True)
    named = {f"arg{index}": array for index, array in enumerate(arrays)}
    for want, got in zip(evaluate_module(module, named).values(), run_model(model, named), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    assert (operators(model) == ["Attention"]) == (uses == "one")


def test_the_transpose_of_the_key_is_one_with_that_before_it() -> None:
    shapes = ((2, 4, 3, 8), (2, 5, 4, 8), (2, 4, 5, 6))
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    block = Block(arg_types=[TensorType(from_numpy_dtype(a.dtype), a.shape) for a in arrays])
    key = graph.TransposeOp(block.args[1], (0, 2, 1, 3))
    attention = graph.AttentionOp(block.args[0], key, block.args[2], nan_to_zero=True)
    block.add_ops([key, attention, ReturnOp(attention.result)])
    module = ModuleOp([FuncOp("main", (block.arg_types, attention.result_types), Region(block))])
    found = assert_same(module, tuple(arrays))
    assert found == ["Transpose", "MatMul", "Softmax", "IsNaN", "Where", "MatMul"]
