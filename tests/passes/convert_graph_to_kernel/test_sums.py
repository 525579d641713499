"""Contractions, reductions, pooling, softmax and normalizations against the reference evaluation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, TensorType, f32, f64
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from mlopt.dialects import graph, kernel
from mlopt.dialects.graph.base import shape_of
from tests.kernel_level import Build, assert_same

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 1e-5, np.float64: 1e-12}


def random(*shape: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    """Standard normal floats, or integers that make sums wrap."""
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0, 256, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def close(op: Build, *inputs: np.ndarray) -> ModuleOp:
    """`assert_same` at the tolerance of sums in the type of the first input."""
    tolerance = TOLERANCE.get(inputs[0].dtype.type, 0.0)
    return assert_same(op, *inputs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "left, right",
    [
        *(((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5))),
        *(
            ((2, 1, 3, 4), (6, 4, 5)),
            ((1, 3, 4), (2, 4, 5)),
            ((3, 0), (0, 5)),
            ((0, 4), (4, 2)),
            ((4,), (2, 4, 3)),
        ),
    ],
)
def test_matmul_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    close(graph.MatMulOp, random(*left), random(*right, seed=1))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint8, np.int64])
def test_matmul_types(dtype: type) -> None:
    close(graph.MatMulOp, random(3, 40, dtype=dtype), random(40, 5, dtype=dtype, seed=1))


EPILOGUES: dict[str, graph.ActivationAttr | None] = {
    "none": None,
    **{kind: graph.ActivationAttr(kind) for kind in ("relu", "sigmoid", "tanh", "hard_swish", "gelu")},
    "gelu by tanh": graph.ActivationAttr("gelu", {"approximate": StringAttr("tanh")}),
    "leaky_relu": graph.ActivationAttr("leaky_relu", {"alpha": FloatAttr(0.1, f64)}),
    "swish": graph.ActivationAttr("swish", {"alpha": FloatAttr(1.702, f64)}),
    "hard_sigmoid": graph.ActivationAttr(
        "hard_sigmoid", {"alpha": FloatAttr(0.3, f64), "beta": FloatAttr(0.4, f64)}
    ),
    "clip": graph.ActivationAttr.clip(-0.5, 1.0),
    "clip above": graph.ActivationAttr.clip(None, 0.25),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", EPILOGUES)
def test_linear_activations(activation: str, dtype: type) -> None:
    operands = [
        random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(((3, 40), (40, 5), (5,), (3, 5)))
    ]
    module = close(lambda *values: graph.LinearOp(*values, EPILOGUES[activation]), *operands)
    assert [op.name for op in module.walk()].count("kernel.launch") == 1


@pytest.mark.parametrize("given", [(), ("bias",), ("residual",), ("bias", "residual")])
@pytest.mark.parametrize(
    "shape, weight, bias",
    [((2, 3, 4), (4, 5), (1, 1, 5)), ((4,), (4, 5), (5,)), ((3, 0), (0, 5), (5,)), ((0, 4), (4, 2), (1, 2))],
)
def test_linear_shapes(
    shape: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...], given: tuple[str, ...]
) -> None:
    shapes = {"bias": bias, "residual": (*shape[:-1], weight[1])}
    addends = [random(*shapes[name], seed=2) for name in given]

    def build(*values: SSAValue) -> graph.LinearOp:
        return graph.LinearOp(*values[:2], **dict(zip(given, values[2:], strict=True)))

    close(build, random(*shape), random(*weight, seed=1), *addends)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_linear_integers(dtype: type) -> None:
    operands = [
        random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(((3, 40), (40, 5), (5,), (3, 5)))
    ]
    close(graph.LinearOp, *operands)


CONVOLUTIONS = {
    "plain": ((2, 3, 6, 7), (4, 3, 3, 3), {}),
    "strided and padded": ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "uneven pads, dilated": ((1, 2, 9, 8), (3, 2, 2, 3), {"pads": [0, 2, 1, 0], "dilations": [3, 2]}),
    "pointwise": ((1, 5, 4, 4), (6, 5, 1, 1), {}),
    "groups": ((2, 6, 5, 5), (4, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((1, 4, 5, 5), (4, 1, 3, 3), {"group": 4}),
    "depthwise with a multiplier": ((1, 2, 5, 5), (6, 1, 3, 3), {"group": 2}),
    "one dimension": ((2, 3, 9), (4, 3, 3), {"strides": [3]}),
    "three dimensions": ((1, 2, 4, 5, 4), (3, 2, 2, 2, 2), {"pads": [1, 0, 0, 0, 1, 0]}),
    "no batch": ((0, 3, 5, 5), (4, 3, 3, 3), {}),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case: str, bias: bool) -> None:
    shape, weight, options = CONVOLUTIONS[case]
    operands = [random(*shape), random(*weight, seed=1), *([random(weight[0], seed=2)] if bias else [])]
    close(lambda *values: graph.ConvOp(*values, **options), *operands)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_with_residual_and_activation(case: str, bias: bool) -> None:
    """As its parts, in one launch."""
    shape, weight, options = CONVOLUTIONS[case]
    operands = [random(*shape), random(*weight, seed=1), *([random(weight[0], seed=2)] if bias else [])]
    types = [create_ssa_value(TensorType(f32, array.shape)) for array in operands]
    residual = random(*shape_of(graph.ConvOp(*types, **options).result), seed=3)

    def build(*values: SSAValue) -> graph.ConvOp:
        *before, last = values
        return graph.ConvOp(*before, residual=last, activation=EPILOGUES["clip"], **options)

    module = close(build, *operands, residual)
    assert [op.name for op in module.walk()].count("kernel.launch") == 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", EPILOGUES)
def test_transposed_convolution_activations(activation: str, dtype: type) -> None:
    operands = [
        random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(((1, 4, 5, 5), (4, 3, 2, 2), (6,)))
    ]
    close(
        lambda *values: graph.ConvTransposeOp(
            *values, group=2, strides=[2, 2], activation=EPILOGUES[activation]
        ),
        *operands,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolution_types(dtype: type) -> None:
    shapes = ((1, 6, 5, 5), (4, 3, 3, 3), (4,))
    operands = [random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    close(lambda *values: graph.ConvOp(*values, group=2), *operands)


POOLS = {
    "plain": ((1, 2, 6, 6), {"kernel": [2, 2]}),
    "strided": ((2, 3, 7, 7), {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "uneven": ((1, 1, 6, 5), {"kernel": [3, 2], "pads": [2, 0, 0, 1]}),
    "dilated": ((1, 1, 8, 8), {"kernel": [3, 3], "dilations": [2, 2], "pads": [1, 1, 1, 1]}),
    "ceil": ((1, 1, 6, 6), {"kernel": [3, 3], "strides": [2, 2], "ceil_mode": True}),
    "ceil and padded": (
        (1, 1, 5, 7),
        {"kernel": [2, 4], "strides": [2, 3], "pads": [0, 1, 1, 2], "ceil_mode": True},
    ),
    "one dimension": ((1, 2, 7), {"kernel": [3]}),
    "three dimensions": ((1, 1, 3, 4, 5), {"kernel": [2, 2, 2]}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8])
@pytest.mark.parametrize("case", POOLS)
def test_max_pool(case: str, dtype: type) -> None:
    shape, options = POOLS[case]
    # Negative everywhere: padding must never win.
    x = (
        -np.abs(random(*shape, dtype=dtype)) - 1
        if np.dtype(dtype).kind == "f"
        else random(*shape, dtype=dtype)
    )
    close(lambda value: graph.MaxPoolOp(value, **options), x.astype(dtype))


def test_max_pool_propagates_nan() -> None:
    x = random(1, 1, 4, 4)
    x[0, 0, 1, 2] = np.nan
    close(lambda value: graph.MaxPoolOp(value, [2, 2]), x)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", POOLS)
def test_average_pool(case: str, dtype: type, include: bool) -> None:
    shape, options = POOLS[case]
    close(
        lambda value: graph.AveragePoolOp(value, **options, count_include_pad=include),
        random(*shape, dtype=dtype),
    )


REDUCTIONS = (graph.ReduceSumOp, graph.ReduceMeanOp, graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceProdOp)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op: type, axes: tuple[int, ...], keepdims: bool) -> None:
    close(lambda x: op(x, axes, keepdims=keepdims), random(3, 4, 5))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint8, np.int64, np.uint64])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduction_types(op: type, dtype: type) -> None:
    close(lambda x: op(x, [1]), random(3, 50, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_of_nothing(op: type, dtype: type) -> None:
    close(lambda x: op(x, [1]), random(3, 0, dtype=dtype))


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_propagate_nan(op: type) -> None:
    close(lambda x: op(x, [1]), np.array([[1, np.nan, 3], [-np.inf, 2, 3]], np.float32))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_arg_max(axis: int, keepdims: bool, last: bool) -> None:
    x = np.array([[1, 3, 3, -np.inf], [np.nan, 2, np.nan, -np.inf], [4, 4, 1, -np.inf]], np.float32)
    close(lambda value: graph.ArgMaxOp(value, axis, keepdims=keepdims, select_last=last), x)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16])
def test_arg_max_types(dtype: type) -> None:
    close(lambda value: graph.ArgMaxOp(value, 1), random(4, 30, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", [graph.SoftmaxOp, graph.LogSoftmaxOp])
def test_softmax(op: type, axis: int, dtype: type) -> None:
    close(lambda x: op(x, axis), random(2, 3, 5, dtype=dtype) * dtype(4))


@pytest.mark.parametrize("op", [graph.SoftmaxOp, graph.LogSoftmaxOp])
def test_softmax_of_masked_rows(op: type) -> None:
    # Large numbers must not overflow, -inf has weight 0, and a row of -inf only is NaN.
    close(lambda x: op(x, 1), np.array([[1e4, 1e4, -np.inf], [-np.inf] * 3, [-1e4, 0, 1e4]], np.float32))


def test_softmax_makes_no_full_temporary() -> None:
    for dtype in (np.float32, np.float16):
        module = close(lambda x: graph.SoftmaxOp(x, 1), random(4, 6, dtype=dtype))
        (launch,) = (op for op in module.walk() if isinstance(op, kernel.LaunchOp))
        shapes = [op.results[0].type.get_shape() for op in launch.body.ops if op.name == "tensor.empty"]
        assert shapes == [(4,), (4,)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm(bias: bool, axis: int, dtype: type) -> None:
    shape = (2, 3, 8)
    parameters = [random(*shape[axis:], dtype=dtype, seed=i) for i in range(1 + bias)]
    close(lambda x, *p: graph.LayerNormOp(x, *p, axis=axis), random(*shape, dtype=dtype), *parameters)


def test_layer_norm_centers_before_it_squares() -> None:
    # With E[x^2] - E[x]^2 the variance of these would be lost in f32.
    x = (random(3, 64) + np.float32(3000)).astype(np.float32)
    assert_same(
        lambda value, scale: graph.LayerNormOp(value, scale), x, np.ones(64, np.float32), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype: type) -> None:
    close(
        lambda x, scale: graph.RmsNormOp(x, scale),
        random(2, 3, 8, dtype=dtype),
        random(8, dtype=dtype, seed=1),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", [graph.LayerNormOp, graph.RmsNormOp])
def test_a_scale_of_1_is_not_multiplied_by(op: type, dtype: type) -> None:
    x = random(2, 3, 8, dtype=dtype)
    one = np.ones((), dtype)
    rtol = TOLERANCE[dtype]
    kernels = assert_same(lambda x, scale: op(x, scale), x, one, constants=[1], rtol=rtol, atol=rtol)
    (launch,) = (inner for inner in kernels.walk() if isinstance(inner, kernel.LaunchOp))
    assert len(launch.ins) == 1


def test_scale_that_broadcasts() -> None:
    close(
        lambda x, s, b: graph.LayerNormOp(x, s, b, axis=1), random(2, 3, 8), random(3, 1), random(()[:0] or 1)
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (5, 3), (1, 3, 7)])
def test_batch_norm(shape: tuple[int, ...], dtype: type) -> None:
    parameters = [np.abs(random(3, dtype=dtype, seed=i)) for i in range(4)]
    close(graph.BatchNormOp, random(*shape, dtype=dtype), *parameters)
