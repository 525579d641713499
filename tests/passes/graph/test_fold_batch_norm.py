"""`fold-batch-norm` numerically: the folded module gives what the module gave, and names stay apart."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import from_numpy_dtype
from mlopt.ir.registration import make_context
from mlopt.passes.common.dce import DCEPass
from mlopt.passes.graph.constants import make_constant
from mlopt.passes.graph.fold_batch_norm import FoldBatchNormPass
from mlopt.passmanager.base import run_pass

RNG = np.random.default_rng(3)


class Model:
    """A module under construction: one input, constants, and the operations added."""

    def __init__(self, x: np.ndarray):
        self.ctx: CompilerContext = make_context()
        self.ctx.evaluator = partial(evaluate, weights=self.ctx.weights)
        self.x = x
        self.block = Block(arg_types=[TensorType(from_numpy_dtype(x.dtype), x.shape)])
        self.input: SSAValue = self.block.args[0]

    def constant(self, array: np.ndarray, name: str) -> SSAValue:
        op = make_constant(array, self.ctx, name)
        self.block.add_op(op)
        return op.result

    def add(self, op: graph.GraphOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def batch_norm(self, x: SSAValue, scale: np.ndarray, bias: np.ndarray, epsilon: float = 0.0) -> SSAValue:
        zero, one = np.zeros_like(scale), np.ones_like(scale)
        parameters = [self.constant(array, name) for array, name in
                      ((scale, "scale"), (bias, "bias"), (zero, "mean"), (one, "variance"))]  # fmt: skip
        return self.add(graph.BatchNormOp(x, *parameters, epsilon=epsilon))

    def finish(self, *outputs: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*outputs))
        types = ([self.input.type], [output.type for output in outputs])
        self.module = ModuleOp([FuncOp("main", types, Region(self.block))])
        self.module.verify()
        return self.module

    def run(self) -> list[np.ndarray]:
        return list(evaluate_module(self.module, {"arg0": self.x}, self.ctx.weights).values())

    def fold(self) -> bool:
        changed, _ = run_pass(FoldBatchNormPass(), self.ctx, self.module)
        DCEPass().run(self.ctx, self.module)
        self.module.verify()
        return changed

    def count(self, op_type: type[graph.GraphOp]) -> int:
        return sum(isinstance(op, op_type) for op in self.module.walk())


def f(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_convolution_with_another_use_keeps_its_weights() -> None:
    model = Model(f(1, -2).reshape(1, 1, 1, 2))
    conv = model.add(graph.ConvOp(model.input, model.constant(f(2).reshape(1, 1, 1, 1), "w")))
    y1 = model.batch_norm(conv, f(3), f(1))
    model.finish(y1, model.add(graph.ReluOp(conv)))
    assert model.fold()
    y1, y2 = (output.reshape(-1) for output in model.run())
    np.testing.assert_array_equal(y1, [7, -11])
    np.testing.assert_array_equal(y2, [2, 0])
    assert model.count(graph.ConvOp) == 1


def test_a_convolution_that_is_an_output_keeps_its_weights() -> None:
    model = Model(f(1, -2).reshape(1, 1, 2))
    conv = model.add(graph.ConvOp(model.input, model.constant(f(2).reshape(1, 1, 1), "w")))
    model.finish(conv, model.batch_norm(conv, f(3), f(1)))
    model.fold()
    conv_output, y = (output.reshape(-1) for output in model.run())
    np.testing.assert_array_equal(conv_output, [2, -4])
    np.testing.assert_array_equal(y, [7, -11])


def test_grouped_weights_are_scaled_per_output_channel() -> None:
    model = Model(f(1, 2).reshape(1, 2, 1, 1))
    conv = model.add(
        graph.ConvOp(model.input, model.constant(f(1, 2, 3, 4).reshape(4, 1, 1, 1), "w"), group=2)
    )
    model.finish(model.batch_norm(conv, f(1, 10, 100, 1000), f(0, 0, 0, 1)))
    assert model.fold()
    assert model.count(graph.BatchNormOp) == 0 and model.count(graph.MulOp) == 0
    np.testing.assert_array_equal(model.run()[0].reshape(-1), [1, 20, 600, 8001])
    assert model.ctx.statistics["fold-batch-norm", "folded-into-conv"] == 1


def test_two_convolutions_of_one_input_get_different_weights_and_biases() -> None:
    """Large weights with equal names wanted: all names stay apart, also when the pass runs again."""
    model = Model(RNG.standard_normal((1, 8, 3, 3)).astype(np.float32))
    weight = RNG.standard_normal((8, 8, 3, 3)).astype(np.float32)
    outputs: list[SSAValue] = []
    for _ in range(2):
        conv = model.add(graph.ConvOp(model.input, model.constant(weight, "w"), pads=[1] * 4))
        scale, bias = (RNG.standard_normal(8).astype(np.float32) for _ in range(2))
        outputs.append(model.batch_norm(conv, scale, bias, epsilon=1e-5))
    model.finish(*outputs)
    want = model.run()
    assert model.fold()
    for got, expected in zip(model.run(), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(model.ctx.weights.get("w"), weight)
    weights = {str(op.value) for op in model.module.walk() if isinstance(op, graph.ConstantOp)}
    assert len(weights) == 4
    assert not model.fold()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("with_bias", [False, True])
def test_random_parameters(dtype: type, with_bias: bool) -> None:
    def random(*shape: int) -> np.ndarray:
        return RNG.standard_normal(shape).astype(dtype)

    model = Model(random(2, 4, 6, 5))
    bias = model.constant(random(6), "c") if with_bias else None
    weight = model.constant(random(6, 2, 3, 2), "w")
    window = {"strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}
    conv = model.add(graph.ConvOp(model.input, weight, bias, group=2, **window))
    variance = model.constant(np.abs(random(6)) + dtype(0.5), "v")
    parameters = [model.constant(random(6), name) for name in ("s", "b", "m")]
    model.finish(model.add(graph.BatchNormOp(conv, *parameters, variance, epsilon=1e-3)))
    (want,) = model.run()
    assert model.fold()
    assert model.count(graph.BatchNormOp) == 0
    (got,) = model.run()
    tolerance = 8 * float(np.finfo(dtype).eps) * float(np.abs(want).max())
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance)


def test_beta_of_a_gemm_is_applied_once() -> None:
    """Gemm with beta 2 arrives as matmul + (bias * 2); the bias of the sum is scaled, and once."""
    model = Model(f(1, 2).reshape(1, 2))
    product = model.add(graph.MatMulOp(model.input, model.constant(np.eye(2, dtype=np.float32), "w")))
    total = model.add(graph.AddOp(product, model.constant(f(20, 40), "c")))
    model.finish(model.batch_norm(total, f(2, 2), f(1, 1)))
    assert model.fold()
    np.testing.assert_array_equal(model.run()[0], [[43, 85]])
    assert model.count(graph.MulOp) == 0


def test_the_weight_of_a_matmul_may_be_a_transposed_constant() -> None:
    model = Model(f(1, 2).reshape(1, 2))
    weight = model.add(graph.TransposeOp(model.constant(np.array([[1, 2], [3, 4], [5, 6]], np.float32), "w")))
    model.finish(model.batch_norm(model.add(graph.MatMulOp(model.input, weight)), f(1, 10, 100), f(1, 1, 1)))
    assert model.fold()
    np.testing.assert_array_equal(model.run()[0], [[6, 111, 1701]])
    assert model.count(graph.TransposeOp) == 0


def test_a_bias_per_row_is_not_folded_as_one_per_column() -> None:
    model = Model(np.array([[1, 2], [3, 4]], np.float32))
    product = model.add(graph.MatMulOp(model.input, model.constant(np.eye(2, dtype=np.float32), "w")))
    total = model.add(graph.AddOp(product, model.constant(f(10, 20).reshape(2, 1), "c")))
    model.finish(model.batch_norm(total, f(1, 2), f(0, 0)))
    model.fold()
    np.testing.assert_array_equal(model.run()[0], [[11, 24], [23, 48]])


# Transposed convolutions, matrix products of any rank, and what is before them. The right values are by hand, or those
# of the reference evaluation of the module before the pass, which tests/interpreter holds against onnxruntime.


def random(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def assert_folded(model: Model, folded: str, left: int = 0) -> None:
    """The pass folds, as often as it can, with the same result, and runs a second time without effect."""
    want = model.run()
    assert model.fold()
    assert model.ctx.statistics["fold-batch-norm", folded] >= 1
    affine = (graph.BatchNormOp, graph.MulOp, graph.DivOp, graph.SubOp)
    assert sum(map(model.count, affine)) == left
    for got, expected in zip(model.run(), want, strict=True):
        assert got.dtype == expected.dtype
        tolerance = 8 * float(np.finfo(got.dtype).eps) * float(np.abs(expected).max(initial=0))
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), rtol=0, atol=tolerance
        )
    assert not model.fold()


def test_weights_of_a_transposed_convolution_are_scaled_along_their_second_dimension() -> None:
    """Two groups, two input channels, four output channels: 1 * 1, 1 * 2 * 10, 2 * 3 * 100, 2 * 4 * 1000 + 1."""
    model = Model(f(1, 2).reshape(1, 2, 1, 1))
    weight = model.constant(f(1, 2, 3, 4).reshape(2, 2, 1, 1), "w")
    conv = model.add(graph.ConvTransposeOp(model.input, weight, group=2))
    model.finish(model.batch_norm(conv, f(1, 10, 100, 1000), f(0, 0, 0, 1)))
    assert_folded(model, "folded-into-conv-transpose")
    np.testing.assert_array_equal(model.run()[0].reshape(-1), [1, 20, 600, 8001])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolutions(dtype: type, with_bias: bool, group: int) -> None:
    model = Model(random(2, 4, 3, 5, dtype=dtype))
    bias = model.constant(random(6, dtype=dtype), "c") if with_bias else None
    weight = model.constant(random(4, 6 // group, 3, 2, dtype=dtype), "w")
    window: dict[str, Any] = {
        "strides": [2, 1],
        "pads": [1, 0, 0, 1],
        "dilations": [1, 2],
        "output_padding": [1, 0],
    }
    conv = model.add(graph.ConvTransposeOp(model.input, weight, bias, group=group, **window))
    model.finish(model.batch_norm(conv, random(6, dtype=dtype), random(6, dtype=dtype)))
    assert_folded(model, "folded-into-conv-transpose")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("x", "weight", "side", "shape"),
    [
        ((2, 3, 4), (4, 5), "right", (5,)),
        ((2, 3, 4), (2, 4, 5), "right", (1, 1, 5)),
        ((4,), (4, 5), "right", (5,)),
        ((3, 4), (4,), "right", ()),
        ((2, 4, 3), (5, 4), "left", (5, 1)),
        ((2, 4, 3), (2, 5, 4), "left", (1, 5, 1)),
        ((4,), (5, 4), "left", (5,)),
        ((4, 3), (4,), "left", (1,)),
        ((0, 4), (4, 5), "right", (5,)),
    ],
)
def test_scales_and_shifts_after_matrix_products(
    x: tuple[int, ...], weight: tuple[int, ...], side: str, shape: tuple[int, ...], dtype: type
) -> None:
    """((product + c) * s - t) / d, all constants per channel of the result, on either side."""
    model = Model(random(*x, dtype=dtype))
    w = model.constant(random(*weight, dtype=dtype), "w")
    value = model.add(graph.MatMulOp(*((model.input, w) if side == "right" else (w, model.input))))
    c, s, t, d = (model.constant(random(*shape, dtype=dtype), name) for name in "cstd")
    value = model.add(graph.MulOp(s, model.add(graph.AddOp(c, value))))
    model.finish(model.add(graph.DivOp(model.add(graph.SubOp(value, t)), d)))
    assert_folded(model, "folded-into-matmul")
    assert model.count(graph.AddOp) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("x", "weight", "side", "shape"),
    [
        ((2, 3, 4), (4, 5), "right", (4,)),
        ((4,), (4, 5), "right", (4,)),
        ((3, 4), (4,), "right", (1, 4)),
        ((2, 4, 3), (5, 4), "left", (4, 1)),
        ((4, 3), (4,), "left", (4, 1)),
        ((2, 3, 4), (4, 5), "right", ()),
    ],
)
def test_scales_and_shifts_before_matrix_products(
    x: tuple[int, ...], weight: tuple[int, ...], side: str, shape: tuple[int, ...], dtype: type
) -> None:
    """t - x / d, then the product: exact, since every row of the result sums over all channels."""
    model = Model(random(*x, dtype=dtype))
    w = model.constant(random(*weight, dtype=dtype), "w")
    t, d = (model.constant(random(*shape, dtype=dtype), name) for name in "td")
    value = model.add(graph.SubOp(t, model.add(graph.DivOp(model.input, d))))
    model.finish(model.add(graph.MatMulOp(*((value, w) if side == "right" else (w, value)))))
    assert_folded(model, "folded-into-matmul")
    assert model.count(graph.AddOp) == 1


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_norm_before_a_convolution_without_padding(group: int, with_bias: bool) -> None:
    model = Model(random(2, 4, 6, 5))
    norm = model.batch_norm(model.input, random(4), random(4))
    bias = model.constant(random(6), "c") if with_bias else None
    weight = model.constant(random(6, 4 // group, 3, 2), "w")
    model.finish(model.add(graph.ConvOp(norm, weight, bias, group=group, strides=[2, 1])))
    assert_folded(model, "folded-into-conv")
    assert model.count(graph.AddOp) == 0


@pytest.mark.parametrize("group", [1, 2])
def test_a_norm_before_a_transposed_convolution_of_one_tap(group: int) -> None:
    model = Model(random(2, 4, 6))
    norm = model.batch_norm(model.input, random(4), random(4))
    weight = model.constant(random(4, 6 // group, 1), "w")
    model.finish(model.add(graph.ConvTransposeOp(norm, weight, group=group, pads=[1, 0])))
    assert_folded(model, "folded-into-conv-transpose")
    assert model.count(graph.AddOp) == 0


def test_zeros_around_a_convolution_are_not_shifted() -> None:
    """x = [1, 2], + 10, weight [1, 1, 1], padded by one 0 on each side: 0 + 11 + 12, 11 + 12 + 0."""
    model = Model(f(1, 2).reshape(1, 1, 2))
    shifted = model.add(graph.AddOp(model.input, model.constant(f(10).reshape(1, 1), "t")))
    conv = graph.ConvOp(shifted, model.constant(f(1, 1, 1).reshape(1, 1, 3), "w"), pads=[1, 1])
    model.finish(model.add(conv))
    assert not model.fold()
    np.testing.assert_array_equal(model.run()[0].reshape(-1), [23, 23])


def test_zeros_around_a_convolution_are_scaled() -> None:
    model = Model(random(1, 3, 5))
    scaled = model.add(graph.MulOp(model.constant(random(3, 1), "s"), model.input))
    weight = model.constant(random(2, 3, 3), "w")
    model.finish(model.add(graph.ConvOp(scaled, weight, pads=[1, 1])))
    assert_folded(model, "folded-into-conv")


@pytest.mark.parametrize("window", [{"strides": [2]}, {"output_padding": [1], "strides": [2]}, {}])
def test_positions_of_a_transposed_convolution_are_not_shifted_alike(window: dict[str, Any]) -> None:
    model = Model(random(1, 2, 4))
    shifted = model.add(graph.AddOp(model.input, model.constant(random(2, 1), "t")))
    size = 2 if not window else 1
    weight = model.constant(random(2, 3, size), "w")
    model.finish(model.add(graph.ConvTransposeOp(shifted, weight, **window)))
    want = model.run()
    assert not model.fold()
    np.testing.assert_array_equal(model.run()[0], want[0])


def test_a_shift_before_16_bits_stays() -> None:
    """512 + 1 is a number of f16, and so is 3 * 513; a bias of 3 * -512 rounds what it is added to."""
    model = Model(np.array([[513]], np.float16))
    shifted = model.add(graph.SubOp(model.input, model.constant(np.array([512], np.float16), "t")))
    model.finish(model.add(graph.MatMulOp(shifted, model.constant(np.array([[3]], np.float16), "w"))))
    assert not model.fold()
    np.testing.assert_array_equal(model.run()[0], [[3]])


def test_layer_scale_goes_into_the_bias_too() -> None:
    """(x @ w + c) * s, as transformers for images have it; the same in one matrix product and one addition."""
    model = Model(random(2, 3, 4))
    product = model.add(graph.MatMulOp(model.input, model.constant(random(4, 4), "w")))
    total = model.add(graph.AddOp(product, model.constant(random(4), "c")))
    model.finish(model.add(graph.MulOp(model.constant(random(4), "s"), total)))
    assert_folded(model, "folded-into-matmul")


@pytest.mark.parametrize("shape", [(3, 1), (2, 3, 4), (1, 2, 3, 4), (2, 1, 1)])
def test_constants_that_are_not_per_channel_stay(shape: tuple[int, ...]) -> None:
    """A scale per row, per element, of one more dimension, per matrix."""
    model = Model(random(2, 3, 4))
    product = model.add(graph.MatMulOp(model.input, model.constant(random(4, 4), "w")))
    model.finish(model.add(graph.MulOp(product, model.constant(random(*shape), "s"))))
    want = model.run()
    assert not model.fold()
    np.testing.assert_array_equal(model.run()[0], want[0])


def test_a_scale_that_enlarges_the_result_stays() -> None:
    model = Model(random(1, 4))
    product = model.add(graph.MatMulOp(model.input, model.constant(random(4, 1), "w")))
    model.finish(model.add(graph.MulOp(product, model.constant(random(3), "s"))))
    assert not model.fold()
    assert model.run()[0].shape == (1, 3)


def test_a_large_weight_that_is_used_elsewhere_is_not_copied() -> None:
    model = Model(random(1, 128))
    weight = model.constant(random(256, 128), "w")
    transposed = model.add(graph.TransposeOp(weight))
    product = model.add(graph.MatMulOp(model.input, transposed))
    model.finish(
        model.add(graph.MulOp(product, model.constant(f(0.5), "s"))), model.add(graph.ReluOp(weight))
    )
    assert not model.fold()
    assert len(model.ctx.weights) == 1


@pytest.mark.parametrize("scale", [3e38, 1e-45])
def test_weights_that_would_overflow_or_lose_digits_stay(scale: float) -> None:
    """In f32: 3 * 3e38 is infinite, 0.3 * 1e-45 has no digits left."""
    model = Model(f(0.25, 0.5).reshape(1, 2))
    product = model.add(graph.MatMulOp(model.input, model.constant(f(3, 0.3).reshape(2, 1), "w")))
    model.finish(model.add(graph.MulOp(product, model.constant(f(scale), "s"))))
    want = model.run()
    assert not model.fold()
    np.testing.assert_array_equal(model.run()[0], want[0])


def test_integers_are_left_alone() -> None:
    model = Model(np.array([[100, 3]], np.int8))
    weight = model.constant(np.array([[2], [1]], np.int8), "w")
    product = model.add(graph.MatMulOp(model.input, weight))
    model.finish(model.add(graph.DivOp(product, model.constant(np.array([3], np.int8), "d"))))
    assert not model.fold()
    np.testing.assert_array_equal(model.run()[0], [[(203 - 256 + 2) // 3]])
