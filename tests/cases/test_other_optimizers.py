"""Public faults in which an optimization changed the answer, or refused a model, one for each kind of rewrite.

Each case is a small model, its inputs and the right outputs, by hand or by numpy. It is tried as imported and at O1 to
O3, with the inputs given and as constants, and its export in onnxruntime without optimisation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import numpy_helper

import mlopt
from mlopt.compilation import compile_model, load_model
from mlopt.export import to_onnx
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import OPTIMISATION_LEVELS, PipelineOptions, at_optimisation_level
from tests.frontend.all_levels import model_from
from tests.frontend.onnx_models import Arrays, assert_close
from tests.onnx_oracle import run_model

inf, nan = np.inf, np.nan
COUNT = np.arange(120, dtype=np.float32)


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


class Case(NamedTuple):
    """A graph in ONNX's text, its inputs and the outputs that it must have."""

    graph: str
    inputs: Arrays
    want: Arrays
    opset: int = 18


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


CUBE = (COUNT[:27].reshape(1, 3, 3, 3) % 7 - 3) / 4
PIXELS = f32([1, -2], [3, -4]).reshape(1, 1, 2, 2)

CASES = {
    "microsoft/onnxruntime#12071: a transposed addend of a product": Case(
        """g (float[2,3] a, float[3,4] b, float[4,2] c) => (float[2,4] y) {
          t = Transpose<perm=[1,0]>(c)
          y = Gemm<alpha=0.5, beta=2.0>(a, b, t)
        }""",
        {
            "a": COUNT[:6].reshape(2, 3),
            "b": COUNT[:12].reshape(3, 4),
            "c": (c := COUNT[:8].reshape(4, 2)),
        },
        {"y": 0.5 * COUNT[:6].reshape(2, 3) @ COUNT[:12].reshape(3, 4) + 2 * c.T},
    ),
    "microsoft/onnxruntime#30513: a mean without its dimension is one of columns for a square": Case(
        """g (float[2,2] x) => (float[2,2] y) <float eps = {0}> {
          m = ReduceMean<axes=[-1], keepdims=0>(x)
          d = Sub(x, m)
          q = Mul(d, d)
          v = ReduceMean<axes=[-1], keepdims=0>(q)
          e = Add(v, eps)
          s = Sqrt(e)
          y = Div(d, s)
        }""",
        {"x": f32([1, 3], [3, 7])},  # less the means 2, 5: [-1, -2], [1, 2], of mean squares 2.5, 2.5
        {"y": f32([-1, -2], [1, 2]) / np.sqrt(f32(2.5))},
        13,
    ),
    "pytorch/pytorch#195320: keys whose other axis is moved to the end": Case(
        """g (float[1,3,3,3] q, float[1,3,3,3] k, float[1,3,3,3] v) => (float[1,3,3,3] y) {
          t = Transpose<perm=[0,2,3,1]>(k)
          m = MatMul(q, t)
          p = Softmax<axis=-1>(m)
          y = MatMul(p, v)
        }""",
        {"q": CUBE, "k": CUBE * 2, "v": COUNT[:27].reshape(1, 3, 3, 3)},
        {"y": softmax(CUBE @ (CUBE * 2).transpose(0, 2, 3, 1)) @ COUNT[:27].reshape(1, 3, 3, 3)},
    ),
    "microsoft/onnxruntime#12517: a mask in front of a softmax along another axis": Case(
        """g (float[3,3] x, float[3,1] m) => (float[3,3] y) {
          a = Add(x, m)
          y = Softmax<axis=0>(a)
        }""",
        {"x": CUBE[0, 0], "m": f32([0], [-inf], [1])},
        {"y": softmax(CUBE[0, 0] + f32([0], [-inf], [1]), 0)},
    ),
    "apache/tvm#16211: a negative scale behind relu is no scale of the convolution": Case(
        """g (float[1,1,2,2] x) => (float[1,2,2,2] y) <float[2,1,1,1] w = {1, -1}, float[2,1,1] s = {-2, 3}> {
          c = Conv(x, w)
          a = Relu(c)
          y = Mul(a, s)
        }""",
        {"x": PIXELS},
        {"y": f32([[-2, 0], [-6, 0]], [[0, 6], [0, 12]])[None]},
    ),
    "microsoft/onnxruntime#12498: an addend as large as the result of a grouped convolution": Case(
        """g (float[1,2,1,2] x) => (float[1,2,1,2] y) <float[2,1,1,1] w = {1, 10}, float[1,2,1,2] s = {1, 2, 3, 4}> {
          c = Conv<group=2>(x, w)
          y = Add(c, s)
        }""",
        {"x": f32([[1, 2]], [[3, 4]])[None]},
        {"y": f32([[2, 4]], [[33, 44]])[None]},
    ),
    "openvinotoolkit/openvino#25649: a factor that makes channels of one is none of the weights": Case(
        """g (float[1,1,1,2] x) => (float[1,1,1,2] y) <float[3,1,1] s = {1, 10, 100}, float[1,3,1,1] w = {1, 2, 3}> {
          m = Mul(x, s)
          y = Conv(m, w)
        }""",
        {"x": f32(1, 2).reshape(1, 1, 1, 2)},
        {"y": f32(321, 642).reshape(1, 1, 1, 2)},
    ),
    "tensorflow/tensorflow#124103: a factor that makes columns of one, in front of a product": Case(
        """g (float[2,1] x) => (float[2,2] y) <float[3] s = {1, 2, 3}, float[3,2] w = {1, 2, 3, 4, 5, 6}> {
          m = Mul(x, s)
          y = MatMul(m, w)
        }""",
        {"x": f32([1], [-1])},
        {"y": f32([22, 28], [-22, -28])},
    ),
    "openxla/xla#48715: what is cropped is not padded again": Case(
        """g (float[1,1,1,2] x) => (float[1,1,1,1] y, float[1,1,1,1] z)
           <int64[8] crop = {0, 0, 0, -1, 0, 0, 0, 0}, float[1,1,1,2] w = {1, 1}> {
          p = Pad(x, crop)
          y = Conv<pads=[0,1,0,0]>(p, w)
          z = AveragePool<kernel_shape=[1,2], pads=[0,1,0,0], count_include_pad=1>(p)
        }""",
        {"x": f32(669, -763).reshape(1, 1, 1, 2)},
        {"y": f32(-763).reshape(1, 1, 1, 1), "z": f32(-381.5).reshape(1, 1, 1, 1)},
    ),
    "microsoft/onnxruntime#21176: a negative scale turns the order of integers around": Case(
        """g (int8[1,1,1,4] x) => (int8[1,1,1,2] y) <float s = {-0.5}, int8 z = {3}> {
          d = DequantizeLinear(x, s, z)
          p = MaxPool<kernel_shape=[1,2], strides=[1,2]>(d)
          y = QuantizeLinear(p, s, z)
        }""",
        {"x": np.array([1, 9, -4, -20], np.int8).reshape(1, 1, 1, 4)},
        {"y": np.array([1, -20], np.int8).reshape(1, 1, 1, 2)},
    ),
    "microsoft/onnxruntime#9425: relu in front of integers that go below zero": Case(
        """g (float[4] x) => (int8[4] y, int8[4] w) <float s = {0.5}, int8 z = {0}, int8 low = {-128}> {
          p = Relu(x)
          y = QuantizeLinear(p, s, z)
          w = QuantizeLinear(p, s, low)
        }""",
        {"x": f32(-3, -0.5, 0.75, 9000)},
        {"y": np.array([0, 0, 2, 127], np.int8), "w": np.array([-128, -128, -126, 127], np.int8)},
    ),
    "microsoft/onnxruntime#12800: scales of channels move with a transposed weight": Case(
        """g (float[1,2,1,1] x) => (float[1,3,1,1] y)
           <int8[2,3,1,1] w = {1, 2, 3, 4, 5, 6}, float[3] s = {1, 10, 100}, int8[3] z = {0, 0, 0}> {
          d = DequantizeLinear<axis=1>(w, s, z)
          t = Transpose<perm=[1,0,2,3]>(d)
          y = Conv(x, t)
        }""",
        {"x": f32(1, -1).reshape(1, 2, 1, 1)},
        {"y": f32(-3, -30, -300).reshape(1, 3, 1, 1)},
    ),
    "pytorch/pytorch#99686: parts of a split that are joined in another order": Case(
        """g (float[1,6] x) => (float[1,6] a, float[1,4] b) <int64[3] sizes = {2, 2, 2}> {
          p, q, r = Split<axis=1>(x, sizes)
          a = Concat<axis=1>(q, p, r)
          b = Concat<axis=1>(p, q)
        }""",
        {"x": COUNT[None, :6]},
        {"a": f32([2, 3, 0, 1, 4, 5]), "b": COUNT[None, :4]},
    ),
    "microsoft/onnxruntime#19600: one index takes the axis away, a list of one does not": Case(
        """g (float[1,5] x) => (float[1] a, float[1,1] b, float[1,3] c)
           <int64 first = {0}, int64[1] second = {1}, int64[1] two = {2}, int64[1] end = {99}, int64[1] axis = {1}> {
          a = Gather<axis=1>(x, first)
          b = Gather<axis=1>(x, second)
          c = Slice(x, two, end, axis)
        }""",
        {"x": COUNT[None, :5]},
        {"a": f32(0), "b": f32([1]), "c": f32([2, 3, 4])},
    ),
    "onnx/tensorflow-onnx#934: axes of a moved slice that others read": Case(
        """g (float[1,2,3] x) => (float[1,1,3] y, int64[1] z, float[1,2,1,3] w)
           <int64[1] one = {1}, int64[1] end = {2}, int64[1] axis = {2}> {
          t = Transpose<perm=[0,2,1]>(x)
          s = Slice(t, one, end, axis)
          y = Transpose<perm=[0,2,1]>(s)
          z = Add(axis, one)
          w = Unsqueeze(x, axis)
        }""",
        {"x": COUNT[:6].reshape(1, 2, 3)},
        {"y": COUNT[3:6].reshape(1, 1, 3), "z": np.array([3]), "w": COUNT[:6].reshape(1, 2, 1, 3)},
    ),
    "apache/tvm#12378: products of eight bits wrap before they are widened": Case(
        """g (int8[2] x) => (int64[2] y) <int64[2] k = {3, 5}> {
          p = Mul(x, x)
          c = Cast<to=7>(p)
          y = Mul(c, k)
        }""",
        {"x": np.array([127, -128], np.int8)},
        {"y": np.array([3, 0])},
    ),
    "microsoft/onnxruntime#28089: a fraction is no integer, and false as one": Case(
        """g (float[4] x) => (bool[4] y, bool[4] z) {
          i = Cast<to=6>(x)
          y = Cast<to=9>(i)
          z = Cast<to=9>(x)
        }""",
        {"x": f32(-0.2, 0.0, 0.9, -1.5)},
        {"y": np.array([False, False, False, True]), "z": np.array([True, False, True, True])},
    ),
    "openxla/xla#42732: what overflows in between is not undone": Case(
        """g (float[3] x) => (float[3] a, float[3] b) {
          p = Exp(x)
          a = Log(p)
          q = Mul(x, x)
          b = Sqrt(q)
        }""",
        {"x": f32(89, 1e20, -2)},
        {"a": f32(inf, inf, -2), "b": f32(89, inf, 2)},
    ),
    "openxla/stablehlo#2633: one is not all ones": Case(
        """g (int32[3] x) => (int32[3] a, int32[3] b, int32[3] c) <int32 one = {1}, int32 ones = {-1}> {
          a = BitwiseAnd(x, one)
          b = BitwiseOr(x, one)
          c = BitwiseAnd(x, ones)
        }""",
        {"x": np.array([6, -1, 7], np.int32)},
        {
            "a": np.array([0, 1, 1], np.int32),
            "b": np.array([7, -1, 7], np.int32),
            "c": np.array([6, -1, 7], np.int32),
        },
    ),
    "xdslproject/xdsl#4251: a comparison and a choice of the same are no maximum of NaN": Case(
        """g (float[3] a, float[3] b) => (float[3] y, bool[3] z) {
          g = Greater(a, b)
          y = Where(g, a, b)
          l = Less(a, b)
          z = Not(l)
        }""",
        {"a": f32(nan, 1, 2), "b": f32(1, nan, 3)},
        {"y": f32(1, nan, 3), "z": np.array([True, True, False])},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_level(name: str) -> None:
    case = CASES[name]
    for inputs in (case.inputs, {}):
        proto = model_from(case.graph, case.opset)
        if not inputs:
            arrays = [numpy_helper.from_array(array, key) for key, array in case.inputs.items()]
            proto.graph.initializer.extend(arrays)
            del proto.graph.input[:]
        levels = OPTIMISATION_LEVELS if inputs else ("O2",)
        for level in levels:
            pipeline = at_optimisation_level(level, PipelineOptions())
            got = mlopt.compile(proto, options=CompileOptions(pipeline=pipeline)).run(inputs)
            assert_close(got, case.want)
        compilation = compile_model(load_model(proto, CompileOptions()), "graph")
        exported = to_onnx(compilation.module, compilation.ctx.weights)
        outputs = [output.name for output in exported.graph.output]
        assert_close(dict(zip(outputs, run_model(exported, dict(inputs)), strict=True)), case.want)
