"""`fold-batch-norm` numerically: the folded module gives what the module gave, and names stay apart."""

from __future__ import annotations

from functools import partial

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
        changed = FoldBatchNormPass().run(self.ctx, self.module)
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
