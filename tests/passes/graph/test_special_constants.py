"""A constant may hold any numbers: no pass fails, changes the answer, or lets numpy warn, because one is special."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import mlopt
from mlopt.compare import compare
from mlopt.compilation import compile_model, load_model
from mlopt.interpreter.graph import evaluate_module
from tests.frontend.all_levels import model_from

NUMBERS = {
    "a signalling NaN": np.array([0x7FA00000], np.uint32).view(np.float32),
    "infinity": np.array([np.inf], np.float32),
    "the largest number": np.array([np.finfo(np.float32).max]),
    "the smallest number": np.array([np.finfo(np.float32).smallest_subnormal]),
    "zero": np.zeros(1, np.float32),
}
GRAPHS = {
    "a convolution, its norm and a scale": """g (float[1,2,4,4] x) => (float[1,2,4,4] y)
      <float[2,2,1,1] w = {1, 2, -1, 0.5}, float[2] a = {1, 2}, float[2] b = {-1, 0.5}, float[2] m = {0.1, 0.2},
       float[2] v = {1, 2}, float[1,2,1,1] s = {2, 3}> {
      c = Conv(x, w, b)
      n = BatchNormalization(c, a, b, m, v)
      d = Div(n, s)
      y = Relu(d)
    }""",
    "linears between integers": """g (float[2,2] x) => (float[2,2] y)
      <float s = {0.02}, uint8 z = {3}, float t = {0.01}, int8 o = {0}, float[2,2] w = {1, 0.2, -1, 0.5},
       float[2] b = {0.3, -0.2}> {
      q = QuantizeLinear(x, s, z)
      u = DequantizeLinear(q, s, z)
      k = QuantizeLinear(w, t, o)
      v = DequantizeLinear(k, t, o)
      p = MatMul(u, v)
      l = Add(p, b)
      r = QuantizeLinear(l, s, z)
      y = DequantizeLinear(r, s, z)
    }""",
    "a norm, a gate and an attention": """g (float[1,2,2] x) => (float[1,2,2] y)
      <float[2] a = {1, 2}, float[2] b = {-1, 0.5}, float e = {0.00001}, float p = {2}, float r = {1.4142135},
       float h = {0.5}, float o = {1}, float[2,2] mask = {0, -1, 0, 0}, float k = {0.7}> {
      mean = ReduceMean<axes = [-1]>(x)
      c = Sub(x, mean)
      q = Pow(c, p)
      v = ReduceMean<axes = [-1]>(q)
      ve = Add(v, e)
      sd = Sqrt(ve)
      n = Div(c, sd)
      na = Mul(n, a)
      nb = Add(na, b)
      g1 = Div(nb, r)
      g2 = Erf(g1)
      g3 = Add(g2, o)
      g4 = Mul(nb, g3)
      g5 = Mul(g4, h)
      t = Transpose<perm = [0, 2, 1]>(g5)
      scores = MatMul(g5, t)
      scaled = Mul(scores, k)
      masked = Add(scaled, mask)
      weights = Softmax<axis = -1>(masked)
      y = MatMul(weights, g5)
    }""",
}
THOROUGH = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(thorough=True))


def with_number(model: onnx.ModelProto, name: str, number: np.ndarray) -> onnx.ModelProto:
    """The model with a number in place of the first one of a constant."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    (tensor,) = (tensor for tensor in changed.graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array.reshape(-1)[:1] = number
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    return changed


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_each_constant(graph: str, number: str) -> None:
    model = model_from(GRAPHS[graph], opset=17)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    floats = [tensor.name for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT]
    for name in floats:
        compilation = load_model(with_number(model, name, NUMBERS[number]), THOROUGH)
        (plain,) = evaluate_module(compilation.module, x, compilation.ctx.weights).values()
        compile_model(compilation, "graph")
        (optimised,) = evaluate_module(compilation.module, x, compilation.ctx.weights).values()
        if number == "the largest number":  # what overflows in one order of products need not in another
            optimised = np.where(np.isinf(plain), plain, optimised)
        comparison = compare(name, optimised, plain)
        assert comparison.passed, comparison
