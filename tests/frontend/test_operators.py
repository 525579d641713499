"""Every operator that can be imported, in each of its forms: the reference evaluation against onnxruntime.

A case is a model of one node. Where onnxruntime has no such kernel, the right value is computed with numpy by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import mlopt
from mlopt.frontend.onnx import supported_operators
from tests.frontend.onnx_models import Arrays, assert_close, one_node, run_mlopt, run_onnxruntime


@dataclass
class Case:
    """One node: its inputs at run time, its constants, the version of the operator set, its attributes."""

    op_type: str
    inputs: dict[str, np.ndarray]
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    opset: int = 18
    outputs: int = 1
    operands: list[str] | None = None
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        attributes = "-".join(f"{k}={v}" for k, v in self.attributes.items() if not hasattr(v, "dims"))
        return f"{self.op_type}-{self.opset}-{attributes}".replace(" ", "")[:70]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = floats(2, 3, 4)
LARGE = np.array([[300, 7, 25], [1, 5, 2]])
POSITIVE = np.abs(X) + np.float32(0.1)
IMAGE = floats(1, 4, 7, 8)
SPECIAL = np.array([0.5, -0.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, 2.5, -1.5], np.float32)
I64 = np.array([[7, -7, 3], [-3, 5, 0]], np.int64)
DIVISOR = np.array([[2, 2, -2], [2, -5, 3]], np.int64)
BOOLS = np.array([[True, False], [False, True]])


def case(op_type: str, *inputs: Any, opset: int = 18, outputs: int = 1, **attributes: Any) -> Case:
    """All operands are inputs `x0`, `x1`, ..."""
    named = {f"x{index}": np.asarray(array) for index, array in enumerate(inputs)}
    return Case(op_type, named, opset=opset, outputs=outputs, attributes=attributes)


def shaped(op_type: str, x: Any, *numbers: Any, opset: int = 18, outputs: int = 1, **attributes: Any) -> Case:
    """One input `x`, the other operands constants `c0`, `c1`, ...; None is an operand that is left out."""
    constants = {f"c{i}": np.asarray(array) for i, array in enumerate(numbers) if array is not None}
    operands = ["x", *(f"c{i}" if array is not None else "" for i, array in enumerate(numbers))]
    return Case(op_type, {"x": np.asarray(x)}, constants, opset, outputs, operands, attributes)


UNARY = [
    *(case(op, SPECIAL) for op in ("Abs", "Ceil", "Erf", "Exp", "Floor", "IsNaN", "Neg", "Relu", "Round")),
    *(case(op, SPECIAL) for op in ("Sigmoid", "Tanh", "Reciprocal", "Softsign")),
    *(case(op, X) for op in ("Cos", "Sin", "Sign", "HardSwish", "HardSigmoid", "ThresholdedRelu")),
    *(case(op, POSITIVE) for op in ("Log", "Sqrt")),
    *(case(op, SPECIAL) for op in ("Asinh", "Atan", "Cosh", "Sinh", "Softplus")),
    *(case(op, X, opset=13) for op in ("Acosh", "Atanh", "Tan")),
    *(case(op, np.linspace(-1.1, 1.1, 9, dtype=np.float32)) for op in ("Acos", "Asin", "Atanh")),
    case("Softplus", np.array([-1e4, -100, 100, 1e4], np.float32)),
    case("Abs", I64),
    case("Neg", I64),
    case("Not", BOOLS),
    case("BitwiseNot", np.array([0, 7, 255], np.uint8)),
    case("LeakyRelu", X, alpha=0.3),
    case("HardSigmoid", X, alpha=0.5, beta=0.25),
    case("ThresholdedRelu", X, alpha=0.25),
    case("Gelu", X, opset=20),
    case("Gelu", X, opset=20, approximate="tanh"),
    *(case("Swish", SPECIAL, opset=24, **alpha) for alpha in ({}, {"alpha": 1.702})),
    case("IsInf", SPECIAL),
    case("IsInf", SPECIAL, detect_negative=0),
    case("IsInf", SPECIAL, detect_positive=0),
    case("IsInf", SPECIAL, detect_positive=0, detect_negative=0),
    case("Identity", X),
    *(case(op, X, opset=18) for op in ("OptionalGetElement", "OptionalHasElement")),
    case("Dropout", X, opset=11, ratio=0.5),
    shaped("Dropout", X, np.float32(0.5), np.array(False), opset=13, outputs=2),
]

BINARY = [
    *(case(op, X, floats(3, 1, seed=1)) for op in ("Add", "Sub", "Mul", "Div")),
    *(case(op, X, np.float32(0.1)) for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")),
    *(case(op, I64, DIVISOR) for op in ("Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less")),
    *(case(op, BOOLS, BOOLS[:1]) for op in ("And", "Or", "Xor", "Equal")),
    *(case(op, I64, DIVISOR) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(
        case("BitShift", np.array([[1, 3], [200, 255]], width), np.array([0, 7], width), direction=direction)
        for width in (np.uint8, np.uint32, np.uint64)
        for direction in ("LEFT", "RIGHT")
    ),
    case("Mod", I64, DIVISOR, fmod=1),
    case("Mod", X, floats(2, 3, 4, seed=1), fmod=1),
    case("Pow", POSITIVE, floats(4, seed=1)),
    case("Pow", POSITIVE, ints(0, 1, 2, 3)),
    case("PRelu", X, floats(3, 1, seed=1)),
    *(case(op, X, floats(4, seed=1), floats(3, 1, seed=2)) for op in ("Max", "Min", "Sum", "Mean")),
    *(case(op, X) for op in ("Max", "Sum")),
    case("Where", BOOLS, floats(2, 2), np.float32(3)),
    shaped("Clip", X, np.float32(-0.5), np.float32(0.5)),
    shaped("Clip", X, None, np.float32(0.5)),
    shaped("Clip", X, np.float32(-0.5)),
    shaped("Clip", X),
    case("Clip", X, opset=10, min=-0.5, max=0.5),
    case("Clip", X, opset=6, max=0.5),
    case("Cast", X, to=TensorProto.INT32),
    case("Cast", X, to=TensorProto.FLOAT16),
    case("Cast", X, to=TensorProto.BOOL),
    case("Cast", I64, to=TensorProto.UINT8),
    case("Cast", BOOLS, to=TensorProto.FLOAT),
    case("CastLike", X, I64, opset=19),
]

POSITIONS = [
    *(shaped("Trilu", X, upper=upper) for upper in (0, 1)),
    *(shaped("Trilu", X, np.int64(k), upper=upper) for upper in (0, 1) for k in (-9, -1, 2, 9)),
    case("Trilu", np.ones((3, 3), np.bool_)),
    *(case("EyeLike", floats(3, 4), k=k) for k in (-9, -1, 0, 2, 9)),
    case("EyeLike", floats(3, 3), dtype=TensorProto.INT32),
    case("Hardmax", np.array([[1, 3, 3], [2, 2, 0]], np.float32)),
    case("Hardmax", X, opset=13, axis=1),
    case("Hardmax", X, opset=11, axis=1),
    *(
        Case("OneHot", {"i": indices, "v": np.array([2, 5], np.float32)}, {"d": np.int64(4)}, operands=["i", "d", "v"],
             attributes={"axis": axis})
        for indices in (np.array([[0, 3, 4], [-1, -4, -5]]),)
        for axis in (-1, 0, 1)
    ),
]  # fmt: skip

CONTRACTIONS = [
    case("MatMul", X, floats(4, 5, seed=1)),
    case("MatMul", floats(4), X.transpose(0, 2, 1).copy()),
    case("MatMul", X, floats(4, seed=1)),
    case("Gemm", floats(3, 4), floats(4, 5), floats(5)),
    case("Gemm", floats(4, 3), floats(5, 4), floats(3, 1), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", floats(3, 4), floats(4, 5), opset=11),
    case("Einsum", X, floats(3, 4, 5, seed=1), equation="aij,ijk->ka"),
    case("Conv", IMAGE, floats(6, 4, 3, 3), floats(6)),
    case("Conv", IMAGE, floats(6, 2, 3, 2), group=2, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2]),
    case("Conv", IMAGE, floats(6, 4, 3, 2), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", IMAGE, floats(6, 4, 3, 2), auto_pad="SAME_LOWER", strides=[2, 2]),
    case("Conv", IMAGE, floats(6, 4, 3, 2), auto_pad="VALID", kernel_shape=[3, 2]),
    case("Conv", floats(2, 3, 9), floats(4, 3, 3)),
    case("Conv", floats(1, 2, 4, 5, 6), floats(3, 2, 2, 2, 2)),
]

TRANSFORMS = [
    case("DFT", floats(2, 8, 2), opset=17, inverse=1),
    shaped("DFT", floats(3, 4, 5, 1), None, np.int64(2), opset=20),
    shaped("DFT", floats(2, 600, 1), np.int64(512), opset=20, onesided=1),
    shaped("STFT", floats(2, 50, 1), np.int64(5), np.hanning(8).astype(np.float32), np.int64(8)),
    shaped("STFT", floats(2, 50, 2), np.int64(5), None, np.int64(8), onesided=0),
    Case(
        "MelWeightMatrix",
        {},
        {"b": np.int64(8), "n": np.int64(64), "r": np.int64(8000), "l": np.float32(20), "h": np.float32(4e3)},
    ),
]

POOLS = [
    case("MaxPool", IMAGE, kernel_shape=[3, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", IMAGE, opset=7, kernel_shape=[3, 3]),
    *(
        case("MaxPool", IMAGE, outputs=2, kernel_shape=[3, 2], pads=[1, 1, 1, 0], storage_order=n)
        for n in (0, 1)
    ),
    shaped(
        "MaxUnpool", floats(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]
    ),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="VALID", ceil_mode=0),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], pads=[1, 1, 1, 0]),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], pads=[1, 1, 1, 0], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("AveragePool", IMAGE, opset=19, kernel_shape=[2, 2], dilations=[2, 2]),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    *(case("GlobalLpPool", IMAGE, p=p) for p in (1, 2, 3)),
    *(case("LpPool", IMAGE, p=p, kernel_shape=[3, 2], pads=[1, 1, 1, 0]) for p in (1, 2, 3)),
    case("LpPool", IMAGE, kernel_shape=[3, 2], strides=[2, 3]),
    case("LpPool", IMAGE, kernel_shape=[3, 2], dilations=[1, 2], opset=18),
    case("LpPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
]

SCALES, SIZES = np.array([1, 1, 2, 0.6], np.float32), ints(1, 4, 5, 11)
CROP = np.array([0, 0, 0.1, -0.2, 1, 1, 0.8, 1.25], np.float32)
SAMPLING = [
    *(shaped("Resize", IMAGE, SCALES, opset=10, mode=mode) for mode in ("nearest", "linear")),
    *(shaped("Resize", IMAGE, None, SCALES, opset=13, mode=mode) for mode in ("nearest", "linear", "cubic")),
    shaped("Resize", IMAGE, floats(0), floats(0), SIZES, opset=11, mode="linear"),
    shaped("Resize", IMAGE, floats(0), SCALES, opset=11, coordinate_transformation_mode="tf_half_pixel_for_nn"),
    *(
        shaped("Resize", IMAGE, CROP, SCALES, mode=mode, extrapolation_value=5.0,
               coordinate_transformation_mode="tf_crop_and_resize")
        for mode in ("nearest", "linear", "cubic")
    ),
    *(
        shaped("Resize", IMAGE, None, None, ints(13, 5), axes=[3, 2], keep_aspect_ratio_policy=policy, mode="linear")
        for policy in ("not_larger", "not_smaller")
    ),
    shaped("Resize", IMAGE, None, SCALES, opset=19, mode="linear", antialias=1),
    *(shaped("Upsample", IMAGE, np.array([1, 1, 2, 1.5], np.float32), opset=9, mode=mode)
      for mode in ("nearest", "linear")),
    *(case("Upsample", IMAGE, opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 1.5]) for mode in ("nearest", "linear")),
]  # fmt: skip
"""More of Resize is in `test_resize.py`."""

TRANSPOSED = [
    case("ConvTranspose", IMAGE, floats(4, 3, 3, 2), floats(3), opset=11),
    case("ConvTranspose", IMAGE, floats(4, 3, 3, 2), opset=11, group=2, strides=[2, 3], pads=[1, 0, 2, 1],
         dilations=[2, 1]),
    *(case("ConvTranspose", IMAGE, floats(4, 3, 4, 4), opset=11, strides=[2, 3], auto_pad=mode)
      for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    case("ConvTranspose", IMAGE, floats(4, 3, 4, 4), opset=11, strides=[2, 3], output_shape=[13, 22]),
    shaped("Col2Im", floats(2, 3 * 6, 12), ints(5, 5), ints(2, 3)),
    shaped("Col2Im", floats(2, 3 * 6, 12), ints(6, 5), ints(3, 2), dilations=[1, 2], pads=[1, 0, 0, 1], strides=[2, 1]),
]  # fmt: skip
"""More of ConvTranspose is in `test_transposed.py`."""

GRID, REGIONS = floats(1, 3, 5, 2) * 2, np.array([[-1, 0, 5, 6], [2.5, 1, 3, 9]], np.float32)
READ_BETWEEN = [
    *(case("GridSample", IMAGE, GRID, opset=opset, mode=mode, padding_mode=padding, align_corners=corners)
      for opset, mode in ((16, "bilinear"), (20, "cubic"), (20, "nearest"))
      for padding, corners in (("zeros", 0), ("border", 1), ("reflection", 0))),
    *(case("RoiAlign", IMAGE, REGIONS, ints(0, 0), opset=opset, mode=mode, output_height=3, output_width=2,
           sampling_ratio=2) for opset in (10, 16) for mode in ("avg", "max")),
    case("DeformConv", IMAGE, floats(2, 4, 2, 3), floats(1, 12, 6, 6, seed=1), floats(2), floats(1, 6, 6, 6), opset=19),
]  # fmt: skip
"""More of them is in `test_sampling.py`."""

PARAMETERS = [floats(4), floats(4, seed=1), floats(4, seed=2), np.abs(floats(4, seed=3))]
NORMALIZATIONS = [
    *(case("BatchNormalization", IMAGE, *PARAMETERS, opset=opset, epsilon=1e-3) for opset in (7, 9, 14, 15)),
    *(
        case(
            "GroupNormalization",
            IMAGE,
            floats(4),
            floats(4, seed=1),
            opset=21,
            num_groups=groups,
            epsilon=1e-3,
        )
        for groups in (1, 2, 4)
    ),
    case("InstanceNormalization", IMAGE, floats(4), floats(4, seed=1), epsilon=1e-3),
    case("InstanceNormalization", IMAGE[0, None, :, 0], floats(4), floats(4, seed=1)),
    *(case("LRN", IMAGE, size=size) for size in (1, 3)),
    case("LRN", IMAGE, size=5, alpha=0.5, beta=0.5, bias=2.0),
    case("MeanVarianceNormalization", IMAGE),
    case("MeanVarianceNormalization", IMAGE, axes=[1, 3]),
    *(case("LpNormalization", X, p=p, axis=axis) for p in (1, 2) for axis in (-1, 0)),
    case("LpNormalization", np.array([[0, 0], [3, -4]], np.float32)),
    case("Attention", *(floats(1, 2, length, 8) for length in (3, 5, 5)), opset=23),
    *(
        case(
            "RotaryEmbedding",
            floats(2, 3, 5, 8),
            *(floats(2, 5, 4, seed=seed) for seed in (1, 2)),
            opset=23,
            interleaved=interleaved,
        )
        for interleaved in (0, 1)
    ),
    shaped(
        "RotaryEmbedding",
        floats(2, 5, 24),
        floats(9, 3, seed=1),
        floats(9, 3, seed=2),
        np.array([[0, 1, 2, 3, 4], [8, 7, 6, 5, 4]]),
        opset=23,
        num_heads=3,
        rotary_embedding_dim=6,
    ),
    case("LayerNormalization", X, floats(4), floats(4, seed=1)),
    case("LayerNormalization", X, floats(3, 4), axis=1, epsilon=1e-3),
    *(case(op, X, floats(4), opset=12) for op in ("LayerNormalization", "SimplifiedLayerNormalization")),
    *(case(op, X, opset=opset) for op in ("Softmax", "LogSoftmax") for opset in (11, 13)),
    *(
        case(op, X, opset=opset, axis=a)
        for op in ("Softmax", "LogSoftmax")
        for opset in (11, 13)
        for a in (0, -1)
    ),
    case("Softmax", np.array([[1000, 1000], [-np.inf, 0], [-np.inf, -np.inf]], np.float32)),
]

REDUCTION_NAMES = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
REDUCTIONS = [
    *(case(f"Reduce{n}", POSITIVE, opset=11, axes=[1, -1], keepdims=0) for n in REDUCTION_NAMES),
    *(case(f"Reduce{n}", POSITIVE, opset=11) for n in REDUCTION_NAMES),
    *(shaped(f"Reduce{n}", POSITIVE, ints(-2), keepdims=0) for n in REDUCTION_NAMES),
    *(shaped(f"Reduce{n}", POSITIVE) for n in REDUCTION_NAMES),
    *(shaped(f"Reduce{n}", X, noop_with_empty_axes=1) for n in ("Sum", "Max", "Mean")),
    shaped("ReduceSum", X, ints(1), opset=13),
    shaped("ReduceMax", I64, ints(1)),
    shaped("ReduceSum", floats(0, 4), ints(0)),
    shaped("ReduceMean", np.float32(5)),
    *(
        case(f"Reduce{n}", LARGE.astype(np.float16), opset=11, axes=[1])
        for n in REDUCTION_NAMES
        if n != "Prod"
    ),
    *(case(f"Reduce{n}", LARGE.astype(np.int64), opset=11, axes=[1]) for n in REDUCTION_NAMES),
    shaped("ReduceLogSumExp", np.array([[-np.inf, -np.inf], [1000, 1000]], np.float32), ints(1)),
    shaped("ReduceMax", BOOLS, ints(1), opset=20),
    *(case(op, X, axis=1) for op in ("ArgMax", "ArgMin")),
    *(case(op, I64, axis=-1, keepdims=0) for op in ("ArgMax", "ArgMin")),
    *(case(op, np.ones((2, 3), np.float32), axis=1, select_last_index=1) for op in ("ArgMax", "ArgMin")),
]

MOVEMENTS = [
    shaped("Reshape", X, ints(4, -1)),
    shaped("Reshape", X, ints(0, 12)),
    shaped("Reshape", floats(1, 1), ints()),
    shaped("Reshape", floats(0, 3), ints(3, 0), allowzero=1),
    *(case("Flatten", X, axis=axis) for axis in (0, 1, 2, 3, -1)),
    case("Squeeze", floats(1, 3, 1), opset=11),
    case("Squeeze", floats(1, 3, 1), opset=11, axes=[-1]),
    shaped("Squeeze", floats(1, 3, 1)),
    shaped("Squeeze", floats(1, 3, 1), ints(0)),
    case("Unsqueeze", X, opset=11, axes=[0, -1]),
    shaped("Unsqueeze", X, ints(1, -1)),
    case("Transpose", X),
    case("Transpose", X, perm=[1, 2, 0]),
    case("Concat", X, floats(2, 1, 4, seed=1), X, axis=1),
    case("Concat", X, floats(2, 3, 2, seed=1), axis=-1),
    case("Slice", X, opset=9, starts=[1, -3], ends=[1000, -1], axes=[1, 2]),
    case("Slice", X, opset=9, starts=[1], ends=[2]),
    shaped("Slice", X, ints(0, -1), ints(2, -(2**63)), ints(1, 2), ints(1, -2)),
    shaped("Slice", X, ints(-2), ints(2**63 - 1), ints(-1)),
    shaped("Slice", X, ints(-9, -(2**63)), ints(-(2**31), -(2**63)), ints(1, 2), ints(-1, -2)),
    shaped("Slice", X, ints(-9, 9), ints(1, -9), ints(1, 2), ints(-1, -3)),
    shaped("Slice", X[:, :0], ints(-1), ints(-9), ints(1), ints(-1)),
    shaped("Slice", X, ints(1), ints(2)),
    case("Split", X, opset=11, outputs=2, axis=2, split=[1, 3]),
    case("Split", X, opset=11, outputs=3, axis=1),
    shaped("Split", X, ints(1, 3), opset=13, outputs=2, axis=-1),
    shaped("Split", X, opset=13, outputs=2, axis=-1),
    shaped("Split", floats(7, 2), opset=18, outputs=3, num_outputs=3),
    shaped("Split", floats(7, 2), ints(3, 4), opset=18, outputs=2),
    shaped("Expand", floats(3, 1), ints(2, 1, 4)),
    shaped("Tile", X, ints(2, 1, 3)),
    shaped("Tile", X, ints(0, 1, 1)),
    case("Pad", X, opset=10, pads=[0, 1, 0, 2, 0, 1], value=0.5),
    shaped("Pad", X, ints(0, 1, -1, 2, 0, 1), np.float32(-np.inf)),
    shaped("Pad", X, ints(0, 1, 2, 0, 0, 1)),
    shaped("Pad", X, ints(1, 2), np.float32(1), ints(-1)),
    *(shaped("Pad", X, ints(0, 1, 2, 0, 2, 3), mode=mode) for mode in ("edge", "reflect")),
    *(shaped("Pad", X, ints(1, -1, 2, 1, 1, -1), mode=mode) for mode in ("edge", "reflect")),
    case("Pad", X, opset=10, pads=[0, 1, 2, 0, 2, 3], mode="reflect"),
    shaped("Pad", X, ints(5, -1), None, ints(-1), opset=19, mode="wrap"),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2),
]

INDEXING = [
    case("Gather", X, np.array([[0, -1], [2, 1]]), axis=1),
    case("Gather", X, np.array(1, np.int32)),
    case("GatherElements", X, np.array([[[0, -1, 2, 1]], [[3, 0, 0, 1]]])[..., :2], axis=-1),
    case("GatherND", X, np.array([[0, 1], [1, -1]])),
    case("GatherND", X, np.array([[1], [-1]]), batch_dims=1),
    case("Scatter", X, np.array([[[0, -1, 2, 1]]]), floats(1, 1, 4), axis=-1, opset=10),
    case("ScatterElements", X, np.array([[[0, -1, 2, 1]]]), floats(1, 1, 4), axis=2, reduction="add"),
    case("ScatterND", X, np.array([[0, 1], [1, -1]]), floats(2, 4), reduction="max"),
    case("TensorScatter", X, floats(2, 2, 4), ints(2, 0), axis=1, mode="circular", opset=24),
    case("ReverseSequence", X, ints(1, 2, 0)),
]
"""More of scatters and of what follows is in `test_scatter.py` and `test_along_axis.py`."""

BOXES = np.array([[0, 0, 1, 1], [1, 1.1, 0, 0.1], [0, 3, 1, 4], [0, 0.6, 1, 1.6]], np.float32)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95], [0.3, 0.3, 0.7, -1.0]]], np.float32)
SELECTIONS = [
    case("NonZero", np.array([[1.0, 0.0, -0.0], [np.nan, 0.0, 3.0]], np.float32)),
    *(
        case("NonZero", array)
        for array in (BOOLS, I64, np.zeros((2, 3), np.int32), np.zeros((0, 3), np.int32))
    ),
    case("Compress", X, BOOLS[0], axis=1),
    case("Compress", X, np.array([True, False, False, True, True])),
    *(case("Unique", np.float32([2, 1, 1, 3, 4, 3]), outputs=4, sorted=flag) for flag in (0, 1)),
    *(
        case(
            "Unique", np.array([[1, 0, 0], [1, 0, 0], [0, 3, 4]], np.int64), outputs=4, axis=axis, sorted=flag
        )
        for axis, flag in ((0, 1), (-1, 1), (0, 0))
    ),
    *(
        case("NonMaxSuppression", BOXES[None], SCORES, np.array([most]), np.float32([0.5]), *least, **center)
        for most in (3, 1, 0)
        for least in ((), (np.float32([0.5]),))
        for center in ({}, {"center_point_box": 1})
    ),
    case("NonMaxSuppression", BOXES[None], SCORES),
]
ALONG_AXIS = [
    shaped("CumSum", X, np.array(1), exclusive=1),
    shaped("CumProd", X, np.array(-1), reverse=1, opset=26),
    case("TopK", X, k=2, axis=1, opset=9, outputs=2),
    shaped("TopK", X, ints(3), opset=10, outputs=2),
    shaped("TopK", X, ints(1), axis=0, largest=0, sorted=0, outputs=2),
    case("Det", floats(2, 4, 4)),
]

NGRAMS = [
    case(
        "TfIdfVectorizer",
        np.array([[1, 2, 2, 1], [2, 1, 3, 2]]),
        mode="TFIDF",
        pool_int64s=[1, 2, 1, 2],
        ngram_counts=[0, 2],
        ngram_indexes=[2, 0, 1],
        weights=[0.5, 2.0, 4.0],
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=1,
    ),
]

SHAPES = [
    case("Shape", X),
    case("Shape", X, start=-2, end=-1),
    case("Shape", X, start=5),
    case("Size", X),
    Case("Constant", {}, attributes={"value_ints": [1, 2]}),
    Case("Constant", {}, attributes={"value": numpy_helper.from_array(X)}),
    Case("Constant", {}, attributes={"value_float": 0.5}),
    Case("Constant", {}, attributes={"value_floats": [0.5, 2.0]}),
    Case("Constant", {}, attributes={"value_int": 3}),
    Case("ConstantOfShape", {}, {"s": ints(2, 3)}),
    Case("ConstantOfShape", {}, {"s": ints()}),
    Case("ConstantOfShape", {}, {"s": ints(9, 9)}, attributes={"value": numpy_helper.from_array(ints(7))}),
    Case("Range", {}, {"a": np.int64(10), "b": np.int64(1), "c": np.int64(-3)}),
    Case("Range", {}, {"a": np.float32(0), "b": np.float32(1), "c": np.float32(0.3)}),
    Case("Range", {}, {"a": np.int64(3), "b": np.int64(1), "c": np.int64(1)}),
]

A8, B8 = (
    (np.arange(n) * 37 % 256).astype(np.uint8).reshape(shape) for n, shape in ((6, (2, 3)), (12, (3, 4)))
)
IMAGE8 = (np.arange(50) * 37 % 256).astype(np.uint8).reshape(1, 2, 5, 5)
WEIGHT8 = (np.arange(54) * 29 % 256).astype(np.uint8).reshape(3, 2, 3, 3)

QUANTIZED = [
    case("QuantizeLinear", SPECIAL, np.float32(1), np.uint8(3), opset=10),
    case("DequantizeLinear", A8, np.float32(0.25), np.uint8(3), opset=10),
    case("DynamicQuantizeLinear", X, outputs=3),
    case("MatMulInteger", A8, B8, np.uint8(130), np.uint8(7)),
    case("ConvInteger", IMAGE8, WEIGHT8, np.uint8(130), np.uint8(7), pads=[1, 1, 0, 2]),
    case(
        "QLinearMatMul",
        *(
            A8,
            np.float32(0.1),
            np.uint8(130),
            B8,
            np.float32(0.05),
            np.uint8(7),
            np.float32(0.7),
            np.uint8(99),
        ),
    ),
    case(
        "QLinearConv",
        *(IMAGE8, np.float32(0.1), np.uint8(130), WEIGHT8, np.float32(0.05), np.uint8(7)),
        *(np.float32(5), np.uint8(99), np.array([100, -200, 300], np.int32)),
        strides=[2, 1],
    ),
]
"""More of these is in `test_quantization.py`."""

CASES = [
    *(*UNARY, *BINARY, *CONTRACTIONS, *TRANSFORMS, *POOLS, *SAMPLING, *TRANSPOSED, *READ_BETWEEN),
    *(*NORMALIZATIONS, *REDUCTIONS),
    *(*MOVEMENTS, *INDEXING, *SELECTIONS, *ALONG_AXIS, *NGRAMS, *POSITIONS, *SHAPES, *QUANTIZED),
]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_against_onnxruntime(one: Case):
    model = one_node(
        one.op_type,
        one.inputs,
        one.constants,
        operands=one.operands,
        outputs=one.outputs,
        opset=one.opset,
        **one.attributes,
    )
    assert_close(run_mlopt(model, one.inputs), run_onnxruntime(model, one.inputs))


def by_hand(model_case: Case, want: Arrays) -> None:
    model = one_node(
        model_case.op_type,
        model_case.inputs,
        model_case.constants,
        opset=model_case.opset,
        **model_case.attributes,
    )
    assert_close(run_mlopt(model, model_case.inputs), want)


def test_rms_norm_by_hand():
    scale = floats(4, seed=1)
    want = X / np.sqrt((X**2).mean(-1, keepdims=True) + np.float32(1e-5)) * scale
    by_hand(case("RMSNormalization", X, scale, opset=23), {"y0": want})


@pytest.mark.parametrize(
    ("x", "to", "want"),
    [
        (np.array([1.0, -0.0], np.float32), TensorProto.INT32, np.array([0x3F800000, -(2**31)], np.int32)),
        (np.array([0x7FF0000000000000], np.uint64), TensorProto.DOUBLE, np.array([np.inf])),
        (np.array([200], np.uint8), TensorProto.INT8, np.array([-56], np.int8)),
        (np.array([0x3F80], np.int16), TensorProto.BFLOAT16, np.array([1], ml_dtypes.bfloat16)),
        (np.array([0.5], np.float16), TensorProto.UINT16, np.array([0x3800], np.uint16)),
        (BOOLS, TensorProto.UINT8, BOOLS.astype(np.uint8)),
    ],
)
def test_bit_cast_by_hand(x: np.ndarray, to: int, want: np.ndarray):
    by_hand(case("BitCast", x, opset=26, to=to), {"y0": want})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_signed_numbers_by_hand(direction: str):
    """By 1, by 7, by the width, by more, and by a negative number; the sign comes in from above."""
    x, y = np.array([[-128], [-3], [5]], np.int8), np.array([1, 7, 8, 100, -1], np.int8)
    left = np.array([[0, 0, 0, 0, 0], [-6, -128, 0, 0, 0], [10, -128, 0, 0, 0]], np.int8)
    right = np.array([[-64, -1, -1, -1, -1], [-2, -1, -1, -1, -1], [2, 0, 0, 0, 0]], np.int8)
    want = left if direction == "LEFT" else right
    by_hand(case("BitShift", x, y, opset=28, direction=direction), {"y0": want})


def test_softplus_of_half_precision_does_not_overflow():
    x = np.array([-60000, 0, 60000], np.float16)
    by_hand(case("Softplus", x, opset=22), {"y0": np.array([0, np.log(2), 60000], np.float16)})


def test_reshape_by_attribute_by_hand():
    by_hand(case("Reshape", X, opset=1, shape=[0, -1]), {"y0": X.reshape(2, 12)})


def test_concat_of_version_1_has_a_default_axis():
    by_hand(case("Concat", X, X, opset=3), {"y0": np.concatenate([X, X], axis=1)})


def test_space_to_depth_with_channels_slowest_by_hand():
    x = floats(1, 2, 4, 6)
    want = x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3)
    by_hand(case("SpaceToDepth", x, opset=28, blocksize=2, mode="CRD"), {"y0": want})


def test_batch_norm_parameters_of_another_type_by_hand():
    x = np.array([[[1, 2], [3, 4]]], np.float16)
    scale, bias = np.array([2, 1], np.float16), np.array([0, 1], np.float16)
    mean, variance = np.array([1, 3], np.float32), np.array([1, 4], np.float32)
    model = case("BatchNormalization", x, scale, bias, mean, variance, opset=15, epsilon=0.0)
    by_hand(model, {"y0": np.array([[[0, 2], [1, 1.5]]], np.float16)})


def test_cast_to_bfloat16_by_hand():
    x = np.array([1.00390625, -2.0, np.inf], np.float32)  # the first lies halfway: to the even neighbour, 1.0
    got = run_mlopt(one_node("Cast", {"x": x}, to=TensorProto.BFLOAT16), {"x": x})["y0"]
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got.astype(np.float32), [1.0, -2.0, np.inf])


_WITH_BODIES = ("If", "Loop", "Scan", "RNN", "GRU", "LSTM")
"""Operators that become control flow: see `test_control_flow.py` and `test_recurrent.py`."""


_IN_TRAINING = {("BatchNormalization", 1), ("Dropout", 1)}
"""Forms that onnxruntime does not have: see `test_training.py`."""


def test_every_form_of_every_operator_is_tested():
    """A form is covered if a case has its operator in a version from its first to before the next form's."""
    forms: dict[str, list[int]] = {}
    for domain, op_type, since in supported_operators():
        assert domain in ("", "com.microsoft")
        if domain:  # see `contrib`
            continue
        if op_type in _WITH_BODIES:
            continue
        forms.setdefault(op_type, []).append(since)
    tested = {(one.op_type, max(s for s in forms[one.op_type] if s <= one.opset)) for one in CASES}
    by_hand_only = {("RMSNormalization", 23), ("Reshape", 1), ("BitCast", 26)} | _IN_TRAINING
    assert {(op, since) for op, all_forms in forms.items() for since in all_forms} - tested == by_hand_only


@pytest.mark.parametrize(
    ("op_type", "size", "kernel", "stride", "pads", "want"),
    [
        ("MaxPool", 2, 3, 2, [0, 0], [2]),
        ("AveragePool", 2, 3, 2, [0, 0], [1.5]),
        ("LpPool", 2, 3, 2, [0, 0], [5**0.5]),
        ("MaxPool", 3, 2, 3, [0, 0], [2]),
        ("AveragePool", 3, 2, 3, [0, 0], [1.5]),
        ("LpPool", 3, 2, 3, [0, 0], [5**0.5]),
        ("MaxPool", 1, 4, 3, [1, 0], [1]),
    ],
)
def test_windows_that_round_up(
    op_type: str, size: int, kernel: int, stride: int, pads: list[int], want: list[float]
) -> None:
    """Windows over 1, 2, ...: the only one may be larger than the operand; none begins behind it. By hand."""
    x = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size)
    attributes = {"kernel_shape": [kernel], "strides": [stride], "pads": pads, "ceil_mode": 1}
    model = one_node(op_type, {"x": x}, opset=19, **attributes)
    for run in (run_mlopt, run_onnxruntime):
        np.testing.assert_allclose(run(model, {"x": x})["y0"], np.array([[want]]), rtol=1e-6)
    np.testing.assert_allclose(mlopt.compile(model).run({"x": x})["y0"], np.array([[want]]), rtol=1e-6)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_no_positions_along_an_empty_axis(op_type: str) -> None:
    """There is none to give where the result is empty; onnxruntime accepts it."""
    x = np.empty((0, 28, 0, 0), np.float32)
    model = one_node(op_type, {"x": x}, axis=2)
    want = run_onnxruntime(model, {"x": x})["y0"]
    assert want.shape == (0, 28, 1, 0)
    np.testing.assert_array_equal(run_mlopt(model, {"x": x})["y0"], want)
    np.testing.assert_array_equal(mlopt.compile(model).run({"x": x})["y0"], want)
