"""Public faults of numerics (part P) and their kin, with the right values: by hand, or by numpy in f64."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, inf, log, nan, sqrt
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cases.models import check
from tests.frontend.onnx_models import model_of, value_info

Arrays = Mapping[str, np.ndarray]
F16, BF16, F32 = np.float16, ml_dtypes.bfloat16, np.float32
MICROSOFT = "com.microsoft"
RTOL = {F16: 2e-3, BF16: 1.6e-2, F32: 1e-5}


def h(*values: Any) -> np.ndarray:
    return np.array(values, F16)


def model(
    op_type: str, inputs: Arrays, opset: int = 22, domain: str = "", **attributes: Any
) -> onnx.ModelProto:
    """One node, all inputs at run time."""
    node = helper.make_node(op_type, list(inputs), ["y"], "n", domain=domain, **attributes)
    proto = model_of([node], [value_info(*item) for item in inputs.items()], ["y"], opset=opset)
    proto.ir_version = 10
    if domain:
        proto.opset_import.append(helper.make_opsetid(domain, 1))
    return proto


def check_node(
    op_type: str, inputs: Arrays, want: Any, rtol: float = 1e-5, dtype: Any = None, **attributes: Any
) -> None:
    """Every way of running the node gives `want`, in the type of the first input unless given; bf16 is cast to f32."""
    dtype = np.dtype(next(iter(inputs.values())).dtype if dtype is None else dtype)
    proto, right = model(op_type, inputs, **attributes), np.asarray(want, np.float64).astype(dtype)
    if dtype == BF16:
        proto.graph.node[0].output[0] = "narrow"
        proto.graph.node.append(helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.FLOAT))
        right = right.astype(F32)
        proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    check(proto, inputs, {"y": right}, rtol)


# P01: rows of a softmax that are masked, infinite or not numbers.


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
@pytest.mark.parametrize(
    ("row", "shares"),
    [
        ([1000, 1000], [0.5, 0.5]),
        ([-inf, 0], [0, 1]),
        ([-inf, -inf], [nan, nan]),
        ([inf, 0], [nan, nan]),
        ([inf, -inf], [nan, nan]),
        ([nan, 0], [nan, nan]),
        ([60000, -60000], [1, 0]),
    ],
)
def test_p01_softmax(row: list[float], shares: list[float], dtype: type) -> None:
    """A second row, of equal numbers, is not touched by what the first one is."""
    x = np.array([row, [1, 1]], dtype)
    check_node("Softmax", {"x": x}, [shares, [0.5, 0.5]], RTOL[dtype])
    with np.errstate(all="ignore"):
        shifted = x.astype(np.float64) - np.max(x.astype(np.float64), axis=1, keepdims=True)
        logarithms = (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(dtype)
    check_node("LogSoftmax", {"x": x}, logarithms, RTOL[dtype])


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_p01_the_logarithm_of_a_sum_of_exponentials(dtype: type) -> None:
    rows = [[1000, 1000], [-1000, -1000], [-inf, -inf], [inf, 0], [-inf, 3], [inf, -inf], [nan, 1]]
    want = [1000 + log(2), -1000 + log(2), -inf, inf, 3, inf, nan]
    check_node(
        "ReduceLogSumExp", {"x": np.array(rows, dtype)}, want, RTOL[dtype], opset=13, axes=[1], keepdims=0
    )


@pytest.mark.parametrize("dtype", [F16, F32])
def test_p01_attention_of_a_masked_row(dtype: type) -> None:
    """A query that may see nothing gets zeros, as the standard defines Attention; the plain Softmax above gives NaN."""
    mask = np.array([[-inf, -inf], [0, -inf]], dtype)
    values = np.array([[1, 2], [3, 4]], dtype).reshape(1, 1, 2, 2)
    eye = np.eye(2, dtype=dtype).reshape(1, 1, 2, 2)
    inputs = {"q": eye, "k": eye, "v": values, "m": mask}
    check_node("Attention", inputs, [[[[0, 0], [1, 2]]]], RTOL[dtype], opset=23)


def test_p01_cross_entropy_of_large_scores() -> None:
    x, label = np.full((1, 2), 1000, F32), np.array([0])
    check_node("SoftmaxCrossEntropyLoss", {"x": x, "l": label}, log(2))


# P02: 16-bit floats, where a step between operands and result is too large for them.

ROW, ONES = h(-600, 600, -600, 600).reshape(1, 4), np.ones(4, F16)
SIGNS = np.sign(ROW)
IMAGE = ROW.reshape(1, 1, 2, 2)
HIGH = np.full((1, 1, 4, 4), 6e4, F16)
STRONG = np.full((1, 1, 4, 4), 600, F16)
LRN_SUMS = np.array([2, 3, 2]) * 36e4 / 3
NARROW: list[tuple[str, Arrays, Any, dict[str, Any]]] = [
    ("LayerNormalization", {"x": ROW, "s": ONES}, SIGNS, {}),
    ("RMSNormalization", {"x": ROW, "s": ONES}, SIGNS, {"opset": 23}),
    ("InstanceNormalization", {"x": IMAGE, "s": h(1), "b": h(0)}, SIGNS.reshape(IMAGE.shape), {}),
    ("GroupNormalization", {"x": IMAGE, "s": h(1), "b": h(0)}, SIGNS.reshape(IMAGE.shape), {"num_groups": 1}),
    ("MeanVarianceNormalization", {"x": IMAGE}, SIGNS.reshape(IMAGE.shape), {}),
    ("LpNormalization", {"x": ROW}, SIGNS / 2, {"p": 2}),
    ("LpNormalization", {"x": h(6e4, 6e4)}, [0.5, 0.5], {"p": 1}),
    (
        *("BatchNormalization", {"x": h(6e4).reshape(1, 1), "s": h(1), "b": h(0), "m": h(-6e4), "v": h(6e4)}),
        [[12e4 / sqrt(6e4)]],
        {},
    ),
    (
        *("LRN", {"x": np.full((1, 3, 1, 1), 600, F16)}),
        (600 / (1 + 1e-4 * LRN_SUMS) ** 0.75).reshape(1, 3, 1, 1),
        {"size": 3},
    ),
    ("ReduceL1", {"x": h(6e4, -5e3)}, [65000], {}),
    ("ReduceL2", {"x": ROW}, [[1200]], {}),
    ("ReduceSumSquare", {"x": h(200, 100)}, [5e4], {}),
    ("ReduceMean", {"x": h(6e4, 6e4, -6e4, 5e4)}, [27500], {}),
    ("ReduceMean", {"x": np.full(5000, 2.5, F16)}, [2.5], {}),
    ("ReduceSum", {"x": h(6e4, 6e4, -6e4, -5e4)}, [1e4], {}),
    ("ReduceSum", {"x": np.ones(5000, F16)}, [5000], {}),
    ("ReduceProd", {"x": h(3e3, 3e3, 2**-10, 2**-10)}, [9e6 / 2**20], {}),
    ("ReduceLogSum", {"x": h(6e4, 6e4)}, [log(12e4)], {}),
    ("CumSum", {"x": h(6e4, 5e3, -6e4), "a": np.array(0)}, [6e4, 65e3, 5e3], {}),
    ("GlobalAveragePool", {"x": HIGH}, [[[[6e4]]]], {}),
    ("AveragePool", {"x": HIGH}, np.full((1, 1, 3, 3), 6e4), {"kernel_shape": [2, 2]}),
    ("LpPool", {"x": STRONG}, np.full((1, 1, 3, 3), 1200), {"kernel_shape": [2, 2]}),
    ("GlobalLpPool", {"x": STRONG}, [[[[2400]]]], {}),
    ("MatMul", {"a": h(300, 300).reshape(1, 2), "b": h(300, -299).reshape(2, 1)}, [[300]], {}),
    ("Gemm", {"a": h(300, 300).reshape(1, 2), "b": h(300, 300).reshape(2, 1)}, [[180]], {"alpha": 1e-3}),
    (
        *("FusedMatMul", {"a": h(300, 300).reshape(1, 2), "b": h(300, 300).reshape(2, 1)}, [[180]]),
        {"alpha": 1e-3, "domain": MICROSOFT},
    ),
    ("Einsum", {"a": h(300, 300), "b": h(300, -299)}, 300, {"equation": "i,i->"}),
    (
        *("Conv", {"x": np.full((1, 2, 1, 1), 300, F16), "w": h(300, -299).reshape(1, 2, 1, 1)}),
        [[[[300]]]],
        {},
    ),
    ("Sum", {"a": h(6e4), "b": h(6e4), "c": h(-6e4)}, [6e4], {}),
    ("Mean", {"a": h(6e4), "b": h(5e4)}, [55e3], {}),
    ("NegativeLogLikelihoodLoss", {"x": np.full((2, 2), -6e4, F16), "l": np.array([0, 1])}, 6e4, {}),
    (
        *("SkipLayerNormalization", {"x": h(-600, 600).reshape(1, 1, 2), "k": h(-600, 600).reshape(1, 1, 2)}),
        [[[-1, 1]]],
        {"domain": MICROSOFT},
    ),
]


@pytest.mark.parametrize(("op_type", "inputs", "want", "options"), NARROW, ids=lambda value: str(value)[:24])
def test_p02_steps_that_are_too_large_for_f16(
    op_type: str, inputs: Arrays, want: Any, options: dict[str, Any]
) -> None:
    given = {**inputs, "g": np.ones(2, F16)} if op_type.startswith("Skip") else inputs
    check_node(op_type, given, want, RTOL[F16], **options)


LARGE = {F16: 20.0, BF16: 100.0, F32: 100.0}  # e to this power is too large
MOST = {F16: 6e4, BF16: 3e38, F32: 3e38}


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_p02_activations_of_large_numbers(dtype: type) -> None:
    e, most, rtol = LARGE[dtype], float(dtype(MOST[dtype])), RTOL[dtype]
    formulas: dict[str, tuple[list[float], list[float]]] = {
        "Softplus": ([e, -e, 0], [e, np.exp(-e), log(2)]),
        "Mish": ([e, -e], [e, -e * np.exp(-e)]),
        "Sigmoid": ([e, -e, inf, -inf], [1, np.exp(-e), 1, 0]),
        "Tanh": ([e, -e, inf, -inf], [1, -1, 1, -1]),
        "Softsign": ([most, -most], [1, -1]),
        "Elu": ([e, -e], [e, -1]),
        "Selu": ([e, -e], [1.0507009873554805 * e, -1.7580993408473766]),
        "Gelu": ([20 * e, -20 * e], [20 * e, 0]),
        "Erf": ([e, -e], [1, -1]),
        "Asinh": ([most, -most], [np.arcsinh(most), -np.arcsinh(most)]),
        "Acosh": ([most], [np.arccosh(most)]),
        "HardSwish": ([most / 10, -most / 10], [most / 10, 0]),
    }
    for op_type, (x, y) in formulas.items():
        check_node(op_type, {"x": np.array(x, dtype)}, y, rtol)
    check_node("Gelu", {"x": np.array([20 * e, -20 * e], dtype)}, [20 * e, 0], rtol, approximate="tanh")


def test_p02_variance_far_from_zero() -> None:
    """A difference of two means of squares would have no digit left."""
    x = (4096 + np.arange(4, dtype=F32)).reshape(1, 1, 2, 2)
    want = ((np.arange(4) - 1.5) / sqrt(1.25)).reshape(x.shape)
    check_node("MeanVarianceNormalization", {"x": x}, want)
    check_node("InstanceNormalization", {"x": x, "s": np.ones(1, F32), "b": np.zeros(1, F32)}, want)
    check_node("LayerNormalization", {"x": x.reshape(1, 4), "s": np.ones(4, F32)}, want.reshape(1, 4))


def test_p02_equal_numbers_have_no_variance() -> None:
    x = np.full((1, 1, 2, 2), 4097.3, F32)
    check_node("MeanVarianceNormalization", {"x": x}, np.zeros(x.shape))


INTEGERS: list[tuple[str, list[np.ndarray], Any]] = [
    ("ReduceMean", [np.array([2**31 - 1, 2**31 - 1], np.int32)], 2**31 - 1),
    ("ReduceMean", [np.array([-(2**31), -(2**31) + 1], np.int32)], -(2**31) + 1),
    ("ReduceMean", [np.array([2**63 - 1, 2**63 - 1, 2**63 - 3])], 2**63 - 2),
    ("ReduceMean", [np.array([-(2**63), -(2**63) + 3])], -(2**63) + 2),
    ("ReduceMean", [np.array([-3, -4])], -3),
    ("ReduceMean", [np.array([5, 5, -11])], 0),
    ("ReduceMean", [np.array([7, 7, -1, -1])], 3),
    ("ReduceMean", [np.array([-7, -7, 1, 1])], -3),
    ("ReduceMean", [np.array([2**64 - 1, 2**64 - 3], np.uint64)], 2**64 - 2),
    ("ReduceSum", [np.array([2**31 - 1, 1000], np.int32)], -2147482649),
    ("ReduceProd", [np.array([2**16, 2**16], np.int32)], 0),
    ("ReduceL1", [np.array([2**31 - 1, 1], np.int32)], -(2**31)),
    ("ReduceSumSquare", [np.array([2**16, 1], np.int32)], 1),
]


@pytest.mark.parametrize(("op_type", "operands", "want"), INTEGERS)
def test_p02_integers(op_type: str, operands: list[np.ndarray], want: int) -> None:
    """Sums and products wrap; a mean, which is between its operands, is towards zero."""
    (x,) = operands
    check(model(op_type, {"x": x}, keepdims=0), {"x": x}, {"y": np.array(want, x.dtype)})


# P03: GELU is exact unless the tanh form is asked for.


def test_p03_gelu_is_what_was_asked_for() -> None:
    """At -2.699 the two forms differ most, by 4.73e-4."""
    x = np.array([-2.699, -2.27, 1.0], F32)
    exact = [v / 2 * (1 + erf(v / sqrt(2))) for v in x.tolist()]
    rough = [v / 2 * (1 + np.tanh(sqrt(2 / np.pi) * (v + 0.044715 * v**3))) for v in x.tolist()]
    assert abs(exact[0] - rough[0]) > 4.7e-4
    check_node("Gelu", {"x": x}, exact)
    check_node("Gelu", {"x": x}, rough, approximate="tanh")


@pytest.mark.parametrize("half", [0.5, 0.6])
def test_p03_gelu_in_parts_stays_exact(half: float) -> None:
    nodes = [
        helper.make_node("Div", ["x", "root"], ["a"]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("Add", ["b", "one"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["d"]),
        helper.make_node("Mul", ["d", "half"], ["y"]),
    ]
    x = np.array([-2.699, 1.0], F32)
    constants = {"root": np.array(sqrt(2), F32), "one": np.array(1, F32), "half": np.array(half, F32)}
    proto = model_of(nodes, [value_info("x", x)], ["y"], constants, opset=20)
    want = [v * half * (1 + erf(v / sqrt(2))) for v in x.tolist()]
    check(proto, {"x": x}, {"y": np.array(want, F32)})


# P05: quantized axes that move with their weights; rounding.

WEIGHTS, SCALES = np.array([[1, 2], [3, 4], [5, 6]], np.int8), np.array([1, 10], F32)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("constant", [True, False])
def test_p05_a_quantized_axis_is_transposed(axis: int, constant: bool) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=axis),
        helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    check_quantized(nodes, np.ones((1, 2), F32), [[21, 43, 65]], constant)


@pytest.mark.parametrize("constant", [True, False])
def test_p05_a_quantized_axis_is_reshaped(constant: bool) -> None:
    """3 x 2 read as 1 x 6: the scale goes with the element, not with the position."""
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        helper.make_node("Reshape", ["d", "flat"], ["r"]),
        helper.make_node("Mul", ["x", "r"], ["y"]),
    ]
    check_quantized(nodes, np.ones((1, 6), F32), [[1, 20, 3, 40, 5, 60]], constant)


def check_quantized(nodes: list[onnx.NodeProto], x: np.ndarray, want: Any, constant: bool) -> None:
    arrays = {"w": WEIGHTS, "s": SCALES, "flat": np.array([1, 6])}
    used = {name: array for name, array in arrays.items() if any(name in node.input for node in nodes)}
    fed = {} if constant else {name: array for name, array in used.items() if name != "flat"}
    constants = {name: array for name, array in used.items() if name not in fed}
    inputs = {"x": x, **fed}
    proto = model_of(nodes, [value_info(*item) for item in inputs.items()], ["y"], constants, opset=21)
    proto.ir_version = 10
    check(proto, inputs, {"y": np.array(want, F32)})


def test_p05_transposed_convolution_has_its_channels_second() -> None:
    """Weights are [in, out / groups, ...]: with axis 1 the scale is of the output channel."""
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        helper.make_node("ConvTranspose", ["x", "d"], ["y"]),
    ]
    w, x = WEIGHTS.reshape(3, 2, 1, 1), np.array([1, 10, 100], F32).reshape(1, 3, 1, 1)
    proto = model_of(nodes, [value_info("x", x)], ["y"], {"w": w, "s": SCALES}, opset=21)
    proto.ir_version = 10
    check(proto, {"x": x}, {"y": np.array([531, 6420], F32).reshape(1, 2, 1, 1)})


LIMITS = {
    np.int8: [0, 2, 2, 0, -2, 127, -128],
    np.uint8: [0, 2, 2, 0, 0, 255, 0],
    np.int16: [0, 2, 2, 0, -2, 300, -300],
    ml_dtypes.int4: [0, 2, 2, 0, -2, 7, -8],
    ml_dtypes.uint4: [0, 2, 2, 0, 0, 15, 0],
}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("source", [F32, F16])
def test_p05_rounding_is_half_to_even_and_saturates(dtype: Any, source: type) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300], source)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=number)
    proto = model_of([node], [value_info("x", x)], ["y"], {"s": np.array(1, source)}, opset=21)
    proto.ir_version = 10
    check(proto, {"x": x}, {"y": np.array(LIMITS[dtype]).astype(dtype)})


def test_p05_quantizing_a_second_time_keeps_both_scales() -> None:
    """2.6 is 3 in steps of 1, and 4 in steps of 2, a half going to the even number."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "one"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "two"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "two"], ["y"]),
    ]
    x, constants = np.array([2.6, 1.2], F32), {"one": np.array(1, F32), "two": np.array(2, F32)}
    check(
        model_of(nodes, [value_info("x", x)], ["y"], constants, opset=21), {"x": x}, {"y": np.float32([4, 0])}
    )


def test_p05_casts_truncate_and_rounding_is_to_even() -> None:
    x = np.array([1.7, -1.7, 2.5, -0.5], F32)
    check_node("Cast", {"x": x}, [1, -1, 2, 0], dtype=np.int32, to=TensorProto.INT32)
    check_node("Round", {"x": np.array([0.5, 1.5, 2.5, -0.5, -1.5], F32)}, [0, 2, 2, -0.0, -2])
