"""`fuse-quantized`: the integer form differs from what onnxruntime makes of the QDQ form by one integer at most.

Where a number is nowhere near halfway between two integers both must be equal; what is only moved is equal always.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, helper, save
from xdsl.dialects.builtin import ModuleOp

import mlopt
from mlopt import CompileOptions
from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp
from mlopt.frontend.onnx import import_model
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.verifier import verify_module
from mlopt.passes.graph.fuse_quantized import FuseQuantizedPass
from mlopt.passes.pipelines import PipelineOptions, named_pipeline
from mlopt.passmanager.base import run_pass
from tests.frontend.onnx_models import context, model_of, value_info
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parents[2] / "models"
RNG = np.random.default_rng(11)


def f32(*numbers: float) -> np.ndarray:
    return np.array(numbers if len(numbers) > 1 else numbers[0], np.float32)


class Qdq:
    """An ONNX model in QDQ form that grows: `x` etc. are f32 inputs, which are quantized at once."""

    def __init__(self, **inputs: np.ndarray):
        self.inputs = inputs
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def node(self, kind: str, *operands: str | np.ndarray, **attributes: object) -> str:
        names = [o if isinstance(o, str) else self.constant(o) for o in operands]
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [result], **attributes))
        return result

    def pair(self, value: str, scale: float, zero: np.integer) -> str:
        """quantize and dequantize"""
        parameters = self.constant(f32(scale)), self.constant(np.array(zero))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, *parameters), *parameters)

    def weight(self, array: np.ndarray, scale: np.ndarray, axis: int, zero: np.ndarray | None = None) -> str:
        """A dequantized constant"""
        operands = [array, scale] if zero is None else [array, scale, zero]
        return self.node("DequantizeLinear", *operands, **({"axis": axis} if scale.ndim else {}))

    def fused(self, result: str) -> tuple[ModuleOp, ModuleOp, np.ndarray, np.ndarray]:
        """The module before and after the pass, what onnxruntime gives, and what the module then gives."""
        infos = [value_info(name, array) for name, array in self.inputs.items()]
        model = model_of(self.nodes, infos, [result], self.constants)
        ctx = context()
        before = import_model(model, ctx)
        after = before.clone()
        run_pass(FuseQuantizedPass(), ctx, after)
        verify_module(after)
        (want,) = run_model(model, self.inputs)
        (found,) = evaluate_module(after, self.inputs, ctx.weights).values()
        return before, after, want, found


def count(module: ModuleOp, *kinds: type[GraphOp]) -> int:
    return sum(isinstance(op, kinds) for op in module.walk())


def assert_near(found: np.ndarray, want: np.ndarray, scale: float) -> None:
    """At most one integer apart, and that in at most one of a hundred places."""
    steps = np.abs(found.astype(np.float64) - want) / scale
    assert steps.max(initial=0) < 1.01
    assert np.mean(steps > 0.01) <= 0.01


IMAGE = RNG.standard_normal((2, 4, 9, 8)).astype(np.float32)
CONVS: Mapping[str, tuple[tuple[int, ...], Mapping[str, object]]] = {
    "plain": ((6, 4, 3, 3), {}),
    "padded": ((6, 4, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "pointwise": ((5, 4, 1, 1), {}),
    "grouped": ((6, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "dilated": ((2, 4, 2, 2), {"dilations": [2, 3], "pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("form", CONVS)
@pytest.mark.parametrize("zero", [np.int8(0), np.int8(-128), np.uint8(131)])
@pytest.mark.parametrize("bias", [None, "i32", "f32"])
def test_conv(form: str, zero: np.integer, bias: str | None) -> None:
    shape, attributes = CONVS[form]
    features = shape[0]
    model = Qdq(x=IMAGE)
    scale = RNG.uniform(0.005, 0.02, features).astype(np.float32)
    operands = [
        model.pair("x", 0.03, zero),
        model.weight(RNG.integers(-127, 128, shape, np.int8), scale, 0),
    ]
    if bias == "i32":
        numbers = RNG.integers(-2000, 2000, features).astype(np.int32)
        operands.append(model.weight(numbers, scale * np.float32(0.03), 0))
    elif bias == "f32":
        operands.append(model.constant(RNG.standard_normal(features).astype(np.float32)))
    y = model.pair(model.node("Conv", *operands, **attributes), 0.05, np.int8(3))
    before, after, want, found = model.fused(y)
    assert (count(before, graph.ConvOp), count(after, graph.ConvOp)) == (1, 0)
    assert count(after, graph.IntegerConvOp) == 1
    assert_near(found, want, 0.05)


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_bounds_that_saturation_stands_for_go(activation: str) -> None:
    model = Qdq(x=IMAGE)
    weight = model.weight(RNG.integers(-127, 128, (6, 4, 3, 3), np.int8), f32(0.01), 0)
    y = model.node("Conv", model.pair("x", 0.03, np.int8(-4)), weight)
    y = model.node("Relu", y) if activation == "Relu" else model.node("Clip", y, f32(0), f32(6))
    _, after, want, found = model.fused(model.pair(y, 6 / 255, np.int8(-128)))
    assert count(after, graph.ReluOp, graph.ClipOp) == 0
    assert_near(found, want, 6 / 255)


def test_a_bound_that_is_an_output_stays(tmp_path: Path) -> None:
    """And what was looked at for it leaves no trace: the constants have no users but those in the module."""
    model = Qdq(x=IMAGE)
    bounded = model.node("Relu", "x")
    moved = model.node("Transpose", model.pair(bounded, 0.03, np.uint8(0)), perm=[0, 2, 3, 1])
    result = model.pair(moved, 0.03, np.uint8(0))
    onnx_model = model_of(model.nodes, [value_info("x", IMAGE)], [bounded, result], model.constants)
    save(onnx_model, tmp_path / "model.onnx")
    pipeline = f"fuse-quantized,{','.join(named_pipeline('O0').split(',')[1:])}"
    compiled = mlopt.compile(tmp_path / "model.onnx", options=mlopt.CompileOptions(pipeline_text=pipeline))
    for found, want in zip(
        compiled.run({"x": IMAGE}).values(), run_model(onnx_model, {"x": IMAGE}), strict=True
    ):
        np.testing.assert_array_equal(found, want)


def test_bounds_inside_of_the_range_stay() -> None:
    model = Qdq(x=IMAGE)
    y = model.node("Clip", model.pair("x", 0.03, np.int8(-4)), f32(0), f32(3))
    _, after, want, found = model.fused(model.pair(y, 6 / 255, np.int8(-128)))
    assert count(after, graph.ClipOp) == 1
    np.testing.assert_array_equal(found, want)


ROWS = RNG.standard_normal((3, 5, 40)).astype(np.float32)


@pytest.mark.parametrize("zero", [np.int8(0), np.int8(-20), np.uint8(131)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("unsigned_weight", [False, True])
def test_matmul(zero: np.integer, biased: bool, unsigned_weight: bool) -> None:
    model = Qdq(x=ROWS)
    scale = RNG.uniform(0.005, 0.02, 7).astype(np.float32)
    if unsigned_weight:  # less its zero points, this needs more than 8 bits
        zeros = np.array([0, 1, 128, 255, 3, 9, 200], np.uint8)
        weight = model.weight(RNG.integers(0, 256, (40, 7)).astype(np.uint8), scale, 1, zeros)
    else:
        weight = model.weight(RNG.integers(-127, 128, (40, 7), np.int8), scale, 1)
    y = model.node("MatMul", model.pair("x", 0.03, zero), weight)
    if biased:
        y = model.node("Add", RNG.standard_normal(7).astype(np.float32), y)
    _, after, want, found = model.fused(model.pair(y, 0.1, np.int8(3)))
    assert (count(after, graph.MatMulOp), count(after, graph.IntegerMatMulOp)) == (0, 1)
    assert_near(found, want, 0.1)


def test_a_transposed_weight_and_a_float_result() -> None:
    model = Qdq(x=ROWS[0])
    weight = model.weight(
        RNG.integers(-127, 128, (7, 40), np.int8), RNG.uniform(0.01, 0.02, 7).astype(np.float32), 0
    )
    bias = RNG.standard_normal(7).astype(np.float32)
    _, after, want, found = model.fused(
        model.node("Gemm", model.pair("x", 0.03, np.int8(5)), weight, bias, transB=1)
    )
    assert count(after, graph.IntegerMatMulOp) == 1
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_two_variable_factors() -> None:
    model = Qdq(x=ROWS, y=RNG.standard_normal((3, 40, 6)).astype(np.float32))
    product = model.node("MatMul", model.pair("x", 0.03, np.int8(0)), model.pair("y", 0.02, np.int8(0)))
    _, after, want, found = model.fused(model.pair(product, 0.1, np.int8(3)))
    assert count(after, graph.IntegerMatMulOp) == 1
    assert_near(found, want, 0.1)


def test_sums_that_f32_may_not_hold_stay_float() -> None:
    """1025 products of 127 and -128, and one more: the integers could sum up to more than 2**24."""
    model = Qdq(x=RNG.standard_normal((2, 1100)).astype(np.float32))
    weight = model.weight(np.full((1100, 2), 127, np.int8), f32(0.01), 1)
    y = model.node("MatMul", model.pair("x", 0.03, np.int8(0)), weight)
    _, after, want, found = model.fused(model.pair(y, 1.0, np.int8(0)))
    assert count(after, graph.IntegerMatMulOp) == 0
    np.testing.assert_allclose(found, want)


@pytest.mark.parametrize("zero", [np.int8(-7), np.uint8(100)])
def test_movements_move_the_integers(zero: np.integer) -> None:
    model = Qdq(x=IMAGE, y=IMAGE[:, :1] * 2)
    x, y = (model.pair(name, 0.02, zero) for name in "xy")
    value = model.node("Concat", x, model.node("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), axis=1)
    value = model.node("Transpose", value, perm=[0, 2, 3, 1])
    value = model.node("Reshape", value, np.array([2, 72, 5], np.int64))
    _, after, want, found = model.fused(model.pair(value, 0.02, zero))
    assert count(after, graph.DequantizeOp) == 1
    np.testing.assert_array_equal(found, want)


def test_other_scales_are_not_moved() -> None:
    model = Qdq(x=IMAGE)
    value = model.node("Transpose", model.pair("x", 0.02, np.int8(0)), perm=[0, 2, 3, 1])
    before, after, want, found = model.fused(model.pair(value, 0.03, np.int8(0)))
    assert count(before, GraphOp) == count(after, GraphOp)
    np.testing.assert_array_equal(found, want)


ARITHMETIC = ("Add", "Sub", "Mul", "ReduceMean", "AveragePool", "double")


@pytest.mark.parametrize("kind", ARITHMETIC)
@pytest.mark.parametrize("same", [False, True])
def test_arithmetic(kind: str, same: bool) -> None:
    """With scales of no simple ratio: 0.02 / 0.04 would make every other sum lie halfway between two integers."""
    model = Qdq(x=IMAGE, y=RNG.standard_normal((4, 1, 8)).astype(np.float32))
    x = model.pair("x", 0.0217, np.int8(-9))
    y = model.pair("y", 0.0217 if same else 0.0513, np.uint8(100))
    if kind in ("Add", "Sub", "Mul"):
        value = model.node(kind, x, y)
    elif kind == "double":
        value = model.node("Add", x, x)
    elif kind == "ReduceMean":
        value = model.node(kind, x, np.array([2, 3], np.int64), keepdims=1)
    else:
        value = model.node(kind, x, kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    before, after, want, found = model.fused(model.pair(value, 0.0439, np.int8(3)))
    assert count(before, graph.DequantizeOp) > count(after, graph.DequantizeOp) == 1
    assert_near(found, want, 0.0439)


def test_integers_that_are_outputs_may_differ_by_a_step(tmp_path: Path) -> None:
    """The mean of k and k + 1 is halfway between them: in tenths it is rounded up or down, as integers always to even.

    Validation allows that, and the pass is not undone.
    """
    x = np.repeat(np.arange(3, 250), 2).reshape(1, 1, 1, -1).astype(np.uint8)
    x[..., 1::2] += 1
    tenths = {"s": f32(0.1), "z": np.array(3, np.uint8)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
        helper.make_node("AveragePool", ["d"], ["p"], kernel_shape=[1, 2], strides=[1, 2]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    proto = model_of(nodes, [value_info("x", x)], ["y"], tenths)
    options = CompileOptions(
        pipeline=PipelineOptions(thorough=True), validate=True, reproducers=tmp_path / "reproducers"
    )
    model = mlopt.compile(proto, inputs={"x": x}, options=options)
    validation = model.report()["validation"]
    assert "fuse-quantized" in [each["pass"] for each in validation["validated"]]
    assert not validation["rejected"]
    steps = np.abs(model.run({"x": x})["y"].astype(int) - run_model(proto, {"x": x})[0])
    assert steps.max() == 1


def test_what_is_used_elsewhere_stays() -> None:
    """The product is an output, too."""
    model = Qdq(x=ROWS)
    weight = model.weight(RNG.integers(-127, 128, (40, 7), np.int8), f32(0.01), 1)
    product = model.node("MatMul", model.pair("x", 0.03, np.int8(1)), weight)
    result = model.pair(product, 0.1, np.int8(3))
    both = model.node("Concat", result, product, axis=0)
    _, after, want, found = model.fused(both)
    assert count(after, graph.IntegerMatMulOp) == 1
    assert_near(found[:3], want[:3], 0.1)
    np.testing.assert_allclose(found[3:], want[3:], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("scale", [0.0, -0.01, np.nan, np.inf, 1e-42, 3e38])
def test_strange_scales_are_left_alone(scale: float) -> None:
    """Products with them are infinite, subnormal or NaN, or turn the order around."""
    model = Qdq(x=ROWS)
    value = model.node("Transpose", model.pair("x", scale, np.int8(0)), perm=[0, 2, 1])
    before, after, _, _ = model.fused(model.pair(value, scale, np.int8(0)))
    assert str(before) == str(after)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["Add", "Sub"])
@pytest.mark.parametrize("scales", [(1e30, 0.02), (0.02, 1e30), (0.03, 0.02, 1e-30), (1e30, 0.02, 1e-30)])
def test_scales_that_are_too_far_apart_for_f32(kind: str, scales: tuple[float, ...]) -> None:
    """Moved by the zero point, the numbers of the larger scale would swallow the others: 0.5 + 0 would be 0."""
    model = Qdq(x=f32(0, 0, 1e30), y=f32(0.5, -0.7, 0.5))
    total = model.node(kind, model.pair("x", scales[0], np.int8(3)), model.pair("y", scales[1], np.int8(-4)))
    to = scales[2] if len(scales) > 2 else 0.02
    _, after, want, found = model.fused(model.pair(total, to, np.int8(2)))
    assert count(after, graph.DequantizeOp) == 3
    np.testing.assert_array_equal(found, want)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("scale", "weight_scale", "to"),
    [
        (1e10, 1e30, None),  # the product of the scales is infinite
        (1e10, 1e27, None),  # the sums of the products are
        (0.03, 3e38, 0.1),  # the weights are
        (1e-20, 1e-20, None),  # the product of the scales has no number in f32
        (1e30, 1, 1e-30),  # divided by the result's scale it is infinite
    ],
)
def test_products_that_overflow_stay_float(scale: float, weight_scale: float, to: float | None) -> None:
    """Where the QDQ form has infinities and NaN, so has what is left of it."""
    model = Qdq(x=(RNG.standard_normal((3, 4)) * 50 * scale).astype(np.float32))
    weight = model.weight(RNG.integers(-127, 128, (4, 5), np.int8), f32(weight_scale), 1)
    product = model.node("MatMul", model.pair("x", scale, np.int8(3)), weight)
    _, after, want, found = model.fused(product if to is None else model.pair(product, to, np.int8(0)))
    assert count(after, graph.IntegerMatMulOp) == 0
    if to is None or weight_scale < 1e38:  # what integer NaN becomes is not said
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0, 4, 9, 8), (2, 4, 1, 1)])
def test_few_numbers_and_none(shape: tuple[int, ...]) -> None:
    model = Qdq(x=np.zeros(shape, np.float32))
    weight = model.weight(RNG.integers(-127, 128, (6, 4, 1, 1), np.int8), f32(0.01), 0)
    y = model.node("Conv", model.pair("x", 0.03, np.int8(2)), weight)
    _, _, want, found = model.fused(model.pair(y, 0.1, np.int8(3)))
    assert found.shape == want.shape


def test_a_quantized_mobilenet_computes_with_integers_only() -> None:
    """In O3 its 52 convolutions and its classifier are integer products, and it gives what onnxruntime gave."""
    path = MODELS / "mobilenetv2_035_int8_qdq"
    arrays = dict(np.load(f"{path}.npz"))
    options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(thorough=True))
    model = mlopt.compile(f"{path}.onnx", options=options)
    (found,) = model.run({"pixel_values": arrays["in:pixel_values"]}).values()
    np.testing.assert_allclose(found, arrays["out:logits"], atol=1e-4 * np.abs(arrays["out:logits"]).max())
    levels = model.compilation.levels["graph"]
    assert (count(levels, graph.IntegerConvOp), count(levels, graph.IntegerMatMulOp)) == (52, 1)
    assert count(levels, graph.ConvOp, graph.MatMulOp, graph.LinearOp, graph.ClipOp) == 0
    memory = model.report()["memory"]
    assert memory["weights_bytes"] < 450_000
