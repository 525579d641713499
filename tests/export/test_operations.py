"""Every graph operation as ONNX: the checker accepts it, and onnxruntime without optimisation gives what the reference
evaluation gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import pytest
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f8E4M3FN,
    f32,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph import ActivationAttr, Graph, GraphOp
from mlopt.dialects.graph.recurrent import BACKWARDS
from mlopt.dialects.graph.resampling import Resampling
from mlopt.export import FAMILIES, to_onnx
from mlopt.export.opsets import OLDEST
from mlopt.export.registry import EXPORTERS
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.dtypes import array_to_dense, from_numpy_dtype
from mlopt.weights import WeightStore
from tests.onnx_oracle import run_model

RNG = np.random.default_rng(3)
X, Y = (RNG.standard_normal((2, 3)).astype(np.float32) for _ in range(2))
UNIT = RNG.uniform(-0.9, 0.9, (2, 3)).astype(np.float32)
ABOVE = np.abs(X) + 1
GRID = RNG.uniform(-1.5, 1.5, (1, 3, 5, 2)).astype(np.float32)
SPECIAL = np.array([[0.0, -0.0, 1.5], [np.inf, -np.inf, np.nan]], np.float32)
IMAGE = RNG.standard_normal((1, 4, 7, 6)).astype(np.float32)
CHANNELS = np.array([1.5, -2, 0.25, 0], np.float32)
SIGNED, UNSIGNED = (np.int8, np.int16, np.int32, np.int64), (np.uint8, np.uint16, np.uint32, np.uint64)
BYTES = RNG.integers(-128, 128, (1, 4, 7, 6)).astype(np.int8)
WEIGHTS = RNG.integers(-128, 128, (6, 4, 3, 2)).astype(np.int8)
BOXES = np.array([[[0, 0, 1, 1], [1, 1.1, 0, 0.1], [0, 3, 1, 4], [0, 0.6, 1, 1.6]]], np.float32)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95], [0.3, 0.3, 0.7, -1.0]]], np.float32)
W = RNG.standard_normal((3, 3)).astype(np.float32)
ACTIVATIONS = {
    "gelu": {"approximate": StringAttr("tanh")},
    "hard_sigmoid": {"alpha": FloatAttr(0.25, f64), "beta": FloatAttr(0.5, f64)},
    "hard_swish": {},
    "leaky_relu": {"alpha": FloatAttr(0.25, f64)},
    "sigmoid": {},
    "swish": {"alpha": FloatAttr(1.5, f64)},
    "tanh": {},
}
BOOLS = (np.array([True, False, True, False]), np.array([True, True, False, False]))


def ints(dtype: type, *values: int) -> np.ndarray:
    return np.array(values, dtype)


def lstm_arrays(directions: int) -> list[np.ndarray]:
    """Four steps of a batch of 3, of size 5, with 2 numbers of state."""
    shapes = ((4, 3, 5), (directions, 8, 5), (directions, 8, 2), (directions, 16), *[(directions, 3, 2)] * 2)
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


class Case:
    """An operation on these arrays, None for operands that are left out: a module of it with one result or more."""

    def __init__(
        self, op_type: type[GraphOp], arrays: tuple[np.ndarray | None, ...], options: dict[str, Any]
    ):
        self.op_type = op_type
        given = [array for array in arrays if array is not None]
        self.inputs = {f"arg{index}": array for index, array in enumerate(given)}
        block = Block(arg_types=[TensorType(from_numpy_dtype(a.dtype), a.shape) for a in given])
        build: Callable[..., GraphOp] = op_type
        if op_type in (graph.ConcatOp, graph.AllGatherOp, graph.AllReduceOp):
            op = build(list(block.args), **options)
        else:
            args = iter(block.args)
            op = build(*(None if array is None else next(args) for array in arrays), **options)
        block.add_ops([op, ReturnOp(*op.results)])
        types = (block.arg_types, op.result_types)
        self.module = ModuleOp([FuncOp("main", types, Region(block))])

    def __repr__(self) -> str:
        dtypes = "_".join(str(array.dtype) for array in self.inputs.values())
        return f"{self.op_type.name.removeprefix('graph.')}_{dtypes}"


def case(op_type: type[GraphOp], *arrays: np.ndarray | None, **options: Any) -> Case:
    return Case(op_type, tuple(None if array is None else np.asarray(array) for array in arrays), options)


CASES = [
    *(case(op, SPECIAL) for op in (
        graph.AbsOp, graph.CeilOp, graph.ErfOp, graph.ExpOp, graph.FloorOp, graph.IsInfOp, graph.IsNanOp, graph.LogOp,
        graph.NegOp, graph.ReciprocalOp, graph.ReluOp, graph.RoundOp, graph.SigmoidOp, graph.SqrtOp, graph.TanhOp,
        graph.LeakyReluOp,
    )),
    *(case(op, X) for op in (
        graph.AsinhOp, graph.AtanOp, graph.CosOp, graph.CoshOp, graph.GeluOp, graph.HardSigmoidOp, graph.HardSwishOp,
        graph.SignOp, graph.SinOp, graph.SinhOp, graph.TanOp,
    )),
    *(case(op, UNIT) for op in (graph.AcosOp, graph.AsinOp, graph.AtanhOp)),
    case(graph.AcoshOp, ABOVE),
    *(case(graph.ReluOp, ints(dtype, -128, -1, 0, 5)) for dtype in (np.int8, np.int32, np.int64)),
    case(graph.GeluOp, X, approximate="tanh"),
    case(graph.HardSigmoidOp, X, alpha=0.5, beta=0.25),
    *(case(graph.SwishOp, SPECIAL.astype(dtype), alpha=alpha)
      for dtype in (np.float32, np.float64) for alpha in (1.0, -0.3)),
    case(graph.NotOp, BOOLS[0]),
    case(graph.NotOp, ints(np.uint16, 0, 5, 65535)),
    *(case(op, X, Y[:1]) for op in (
        graph.AddOp, graph.SubOp, graph.MulOp, graph.DivOp, graph.MinOp, graph.MaxOp, graph.EqualOp, graph.LessOp,
        graph.LessEqualOp, graph.GreaterOp, graph.GreaterEqualOp,
    )),
    *(case(graph.AllReduceOp, *[X.astype(dtype), Y.astype(dtype), 2 * X.astype(dtype)][:ways])
      for dtype in (np.float16, np.float32, np.int8, np.int64) for ways in (1, 2, 3)),
    *(case(graph.AllGatherOp, *[X, Y, X][:ways], axis=axis) for ways in (1, 3) for axis in (0, 1)),
    case(graph.PowOp, ABOVE, Y),
    *(case(graph.PowOp, ints(dtype, 2, 3, 1), ints(dtype, 3, 2, 5)) for dtype in (*SIGNED, *UNSIGNED[:3])),
    case(graph.PowOp, ints(np.uint8, 16, 15), ints(np.uint8, 2, 2)),  # wraps
    *(case(graph.ModOp, ints(dtype, 7, -7, 7, -7), ints(dtype, 3, 3, -3, -3), fmod=fmod)
      for dtype in (np.int32, np.int64) for fmod in (False, True)),
    *(case(graph.ModOp, np.array([7.5, -7.5, 7.5, -7.5, 6.0, -6.0, 6.0, np.inf, 1.0], np.float32),
           np.array([2.0, 2.0, -2.0, -2.0, 3.0, 3.0, -3.0, 3.0, -np.inf], np.float32), fmod=fmod)
      for fmod in (False, True)),
    *(case(op, *BOOLS) for op in (graph.AndOp, graph.OrOp, graph.XorOp)),
    *(case(op, ints(np.int16, 12, -3), ints(np.int16, 10, 5)) for op in (graph.AndOp, graph.OrOp, graph.XorOp)),
    *(case(op, ints(dtype, 77, 5, 1, 3), ints(dtype, 1, 0, 100, 3)) for dtype in (*SIGNED, *UNSIGNED)
      for op in (graph.ShiftLeftOp, graph.ShiftRightOp)),
    *(case(op, ints(dtype, -77, -1, -128, 127), ints(dtype, 1, 7, 100, -1)) for dtype in SIGNED
      for op in (graph.ShiftLeftOp, graph.ShiftRightOp)),
    case(graph.ConstantOp, value=array_to_dense(np.array([1, -2, 3], np.int16))),
    case(graph.RangeOp, start=IntegerAttr(3, i64), delta=IntegerAttr(-2, i64), length=4),
    case(graph.RangeOp, start=IntegerAttr(3, i32), delta=IntegerAttr(0, i32), length=3),
    case(graph.RangeOp, start=IntegerAttr(100, i8), delta=IntegerAttr(9, i8), length=3),
    case(graph.RangeOp, start=FloatAttr(0.1, f32), delta=FloatAttr(0.1, f32), length=7),
    case(graph.RangeOp, start=IntegerAttr(2**63 - 2, i64), delta=IntegerAttr(1, i64), length=2),
    case(graph.ShapeOp, IMAGE),
    case(graph.ShapeOp, IMAGE, start=1, end=-1),
    case(graph.MatMulOp, RNG.standard_normal((3, 1, 2, 4)).astype(np.float32),
         RNG.standard_normal((2, 4, 5)).astype(np.float32)),
    case(graph.MatMulOp, X[0], Y[1]),
    case(graph.AttentionOp, *(RNG.standard_normal((1, 2, rows, 4)).astype(np.float32) for rows in (3, 5, 5)),
         scale=0.5),
    case(graph.AttentionOp, *(RNG.standard_normal((rows, 4)).astype(np.float32) for rows in (3, 5, 5)),
         causal=True, nan_to_zero=True),
    case(graph.MatMulOp, np.full((1, 3), 100, np.int8), np.full((3, 1), 2, np.int8)),  # wraps
    *(case(graph.LinearOp, X, W, *addends, activation=activation)
      for activation in (None, ActivationAttr("relu"), ActivationAttr.clip(-0.5, None))
      for addends in ((), (X[0],), (X[:1],), (None, Y), (X[0], Y))),
    *(case(graph.LinearOp, X[0], W, X[0], Y[0], activation=ActivationAttr(kind, options))
      for kind, options in ACTIVATIONS.items()),
    case(graph.LinearOp, IMAGE, RNG.standard_normal((6, 5)).astype(np.float32), None,
         RNG.standard_normal((1, 4, 7, 5)).astype(np.float32), activation=ActivationAttr.clip(0, 6)),
    case(graph.LinearOp, np.full((1, 3), 100, np.int8), np.full((3, 1), 2, np.int8), ints(np.int8, 100)),  # wraps
    *(case(graph.LinearOp, np.zeros(shape, np.float32), np.ones((shape[1], 2), np.float32), X[0, :2])
      for shape in ((0, 3), (2, 0))),
    *(case(graph.ConvOp, IMAGE, RNG.standard_normal((4, 2, 3, 3)).astype(np.float32), bias, IMAGE, pads=[1] * 4,
           group=2, activation=activation)
      for bias in (None, X.reshape(6)[:4]) for activation in (None, ActivationAttr.clip(0, 6))),
    case(graph.ConvOp, IMAGE, RNG.standard_normal((6, 2, 3, 2)).astype(np.float32), X.reshape(6), strides=[2, 1],
         pads=[1, 0, 2, 1], dilations=[1, 2], group=2),
    case(graph.ConvOp, IMAGE[0], RNG.standard_normal((2, 7, 3)).astype(np.float32)),
    case(graph.GatherOp, X, ints(np.int64, 2, -3, 0), axis=1),
    case(graph.GatherElementsOp, X, ints(np.int32, 1, 0, 1)[None], axis=0),
    *(case(graph.GatherNdOp, IMAGE, np.array([[3, -1], [0, 2]], dtype)[None], batch_dims=1)
      for dtype in (np.int64, np.int32)),
    case(graph.ScatterElementsOp, X, ints(np.int32, 1, 0, -1)[None], Y[:1], axis=0, reduction="add"),
    case(graph.ScatterElementsOp, X.astype(np.int8), ints(np.int64, 1, 0, -1)[None], Y[:1].astype(np.int8), axis=0),
    *(case(graph.ScatterNdOp, X, np.array([[1], [-2]], dtype), Y, reduction="max") for dtype in (np.int64, np.int32)),
    case(graph.CumSumOp, X, axis=1, reverse=True),
    case(graph.CumSumOp, X.astype(np.int8), axis=0, exclusive=True),
    case(graph.CumProdOp, X, axis=1, exclusive=True),
    case(graph.TopKOp, X, axis=1, k=2),
    case(graph.TopKOp, X.astype(np.int16), axis=0, k=1, smallest=True),
    case(graph.NonZeroOp, SPECIAL),
    case(graph.UniqueOp, SPECIAL[:1].round()),
    case(graph.UniqueOp, ints(np.int64, 3, 1, 3, 2, 1), in_order=True),
    case(graph.UniqueOp, ints(np.int64, 1, 0, 1, 0, 2, 2).reshape(3, 2), axis=0),
    case(graph.NonMaxSuppressionOp, BOXES, SCORES, np.array(9), np.float32(0.5), np.float32(0.2), most=3),
    case(graph.NonMaxSuppressionOp, BOXES, SCORES, np.array(9), np.float32(0.5), most=1, center=True),
    case(graph.RequireEqualOp, np.array(3), np.array(3)),
    case(graph.DetOp, IMAGE[..., :6, :]),
    *(case(graph.IntegerMatMulOp, ints(dtype, 100, -128).reshape(1, 2), ints(np.int8, 127, 2, -128, 9).reshape(2, 2))
      for dtype in (np.int8, np.int16)),
    case(graph.IntegerConvOp, BYTES, WEIGHTS, pads=[1, 1, 1, 1], pad_value=-128),
    case(graph.IntegerConvOp, BYTES.astype(np.int16), WEIGHTS[:, :2], strides=[2, 1], pads=[1, 0, 0, 1], group=2),
    case(graph.ReshapeOp, X, shape=[3, 1, 2]),
    case(graph.ReshapeOp, X[:0], shape=[3, 0]),
    case(graph.ReshapeOp, X[:1, :1], shape=[]),
    case(graph.TransposeOp, IMAGE, perm=[2, 0, 3, 1]),
    case(graph.TransposeOp, np.float32(2)),
    case(graph.ConcatOp, X, Y[:, :2], X[:, :0], axis=1),
    case(graph.SplitOp, IMAGE, axis=2, sizes=[3, 0, 4]),
    case(graph.SliceOp, IMAGE, starts=[0, 3, 5, 5], stops=[1, -1, -1, 2], steps=[1, -2, -3, -1]),
    case(graph.SliceOp, X, starts=[0, 0], stops=[2, 3]),
    case(graph.SliceOp, X, starts=[2, 1], stops=[2, 3]),
    case(graph.SliceOp, X[:0], starts=[-1, 2], stops=[-1, -1], steps=[-1, -1]),
    case(graph.SliceOp, np.float32(2), starts=[], stops=[]),
    case(graph.ExpandOp, X[:, None, :1], shape=[4, 2, 5, 3]),
    case(graph.PadOp, X, low=[1, -1], high=[0, 2], value=FloatAttr(-0.5, f32)),
    case(graph.PadOp, ints(np.int64, 1, 2), low=[1], high=[2], value=IntegerAttr(-7, i64)),
    case(graph.BatchNormOp, IMAGE, *(np.abs(RNG.standard_normal(4)).astype(np.float32) for _ in range(4)), epsilon=0.1),
    *(case(graph.LayerNormOp, IMAGE, scale, scale, axis=2, epsilon=0.1)
      for scale in (IMAGE[0, 0], IMAGE[0, :, :1, :1])),
    *(case(graph.RotaryEmbeddingOp, x.astype(dtype), *(x[0, 0, :, :4].astype(dtype).reshape(table) for _ in range(2)),
           interleaved=interleaved)
      for x in [RNG.standard_normal((1, 3, 5, 8))] for table in ((5, 4), (1, 1, 5, 4)) for interleaved in (False, True)
      for dtype in (np.float32, np.float64, np.float16)),
    *(case(graph.RotaryEmbeddingOp, IMAGE[0], IMAGE[0, :, :, :3], IMAGE[0, 0, 0, 3:], interleaved=interleaved)
      for interleaved in (False, True)),
    case(graph.RotaryEmbeddingOp, IMAGE, IMAGE[0, :1, :1, :3].reshape(1, 3), IMAGE[0, 1, :1, :3]),
    *(case(graph.LayerNormOp, X.astype(dtype), np.ones((), dtype), epsilon=1e-3)
      for dtype in (np.float32, np.float64, np.float16)),
    *(case(graph.RmsNormOp, X.astype(dtype), np.ones((), dtype), epsilon=1e-3)
      for dtype in (np.float32, np.float64, np.float16)),
    *(case(graph.GroupNormOp, IMAGE.astype(dtype), CHANNELS.astype(dtype), (2 * CHANNELS).astype(dtype), groups=groups)
      for dtype in (np.float32, np.float64, np.float16) for groups in (1, 2, 4)),
    case(graph.GroupNormOp, IMAGE[:, :, 0, 0], CHANNELS, -CHANNELS, groups=2, epsilon=1e-3),
    case(graph.LayerNormOp, X, X[0], epsilon=1e-3),
    case(graph.LayerNormOp, X.astype(np.float64), X[0].astype(np.float64), epsilon=1e-3),
    case(graph.LayerNormOp, X.astype(np.float16), X.astype(np.float16)),
    *(case(graph.RmsNormOp, IMAGE, scale, axis=2, epsilon=0.1) for scale in (IMAGE[0, 0], IMAGE[0, :, :1, :1])),
    case(graph.RmsNormOp, X.astype(np.float64), X[0].astype(np.float64)),
    case(graph.SoftmaxOp, IMAGE, axis=1),
    *(case(graph.LstmOp, *lstm_arrays(len(BACKWARDS[direction])), direction=direction) for direction in BACKWARDS),
    case(graph.LogSoftmaxOp, IMAGE, axis=-1),
    case(graph.MaxPoolOp, IMAGE, kernel=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0], ceil_mode=True),
    *(case(graph.MaxPoolWithIndicesOp, IMAGE, kernel=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0], column_major=column)
      for column in (False, True)),
    *(case(graph.MaxPoolOp, RNG.integers(0, 99, (1, 2, 5)).astype(dtype), kernel=[2], strides=[2])
      for dtype in (np.int8, np.int16, np.uint16, np.int32)),
    *(case(graph.AveragePoolOp, IMAGE, kernel=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0], count_include_pad=counts)
      for counts in (False, True)),
    case(graph.AveragePoolOp, IMAGE, kernel=[3, 2], strides=[3, 2], dilations=[2, 1], ceil_mode=True),
    *(case(graph.ChannelsLastMaxPoolOp, IMAGE.transpose(0, 2, 3, 1), kernel=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0],
           ceil_mode=ceil) for ceil in (False, True)),
    *(case(graph.ChannelsLastAveragePoolOp, IMAGE.transpose(0, 2, 3, 1), kernel=[3, 2], strides=[2, 2],
           pads=[1, 1, 1, 0], count_include_pad=counts) for counts in (False, True)),
    case(graph.ChannelsLastConvOp, IMAGE.transpose(0, 2, 3, 1), WEIGHTS.transpose(2, 3, 1, 0).astype(np.float32),
         np.arange(6, dtype=np.float32), np.linspace(-1, 1, 144, dtype=np.float32).reshape(1, 4, 6, 6),
         strides=[2, 1], pads=[1, 0, 1, 1], activation=ActivationAttr("relu", {})),
    case(graph.ChannelsLastConvOp, IMAGE[:, :, 0].transpose(0, 2, 1),
         WEIGHTS[:, :2, 0].transpose(2, 1, 0).astype(np.float32), group=2, dilations=[3]),
    case(graph.ConvTransposeOp, IMAGE, RNG.standard_normal((4, 3, 3, 2)).astype(np.float32), X.reshape(6),
         strides=[2, 3], pads=[1, 0, 2, 1], dilations=[2, 1], output_padding=[1, 0], group=2),
    case(graph.ConvTransposeOp, IMAGE, RNG.standard_normal((4, 3, 3, 2)).astype(np.float32)),
    case(graph.Col2ImOp, RNG.standard_normal((2, 18, 12)).astype(np.float32), image=[6, 5], kernel=[3, 2],
         dilations=[1, 2], pads=[1, 0, 0, 1], strides=[2, 1]),
    *(case(graph.GridSampleOp, IMAGE, GRID, mode=mode, padding=padding, align_corners=corners)
      for mode, padding, corners in (
          ("linear", "zeros", False), ("cubic", "reflection", False), ("nearest", "border", True),
      )),
    *(case(graph.RoiAlignOp, IMAGE, np.float32([[-1, 0, 5, 6], [2.5, 1, 3, 9]]), ints(np.int64, 0, 0), size=[3, 2],
           samples=samples, mode=mode, scale=0.5, half_pixel=half_pixel)
      for samples, mode, half_pixel in ((2, "avg", True), (0, "max", False))),
    case(graph.DeformConvOp, IMAGE, RNG.standard_normal((6, 2, 2, 3)).astype(np.float32),
         RNG.standard_normal((1, 24, 4, 6)).astype(np.float32), RNG.standard_normal((1, 12, 4, 6)).astype(np.float32),
         strides=[2, 1], pads=[1, 1, 0, 1], group=2, offset_group=2),
    *(case(graph.ResizeOp, IMAGE, shape=shape, scales=scales, how=Resampling(*how), **rest)
      for shape, scales, how, rest in (
        ((1, 4, 14, 3), (1, 1, 2, 0.5), ("linear",), {}),
        ((1, 4, 31, 3), (1, 1, 31 / 7, 0.5), ("nearest", "asymmetric", "ceil"), {}),  # by sizes: 7 times that is 30.9
        ((1, 4, 10, 9), (1, 1, 10 / 7, 10 / 7), ("cubic", "half_pixel"), {}),  # by the policy: 60 / 7 is 8.57
        ((1, 4, 4, 9), (1, 1, 0.6, 1.5), ("linear", "align_corners"), {}),
        ((1, 4, 14, 9), (1, 1, 2, 1.5), ("linear", "tf_crop_and_resize"),
         {"roi": (0, 0, 0.1, -0.2, 1, 1, 0.8, 1.25), "extrapolation": 5.0}),
        ((1, 4, 3, 9), (1, 1, 0.5, 1.5), ("cubic", "half_pixel", "ceil", -0.5, True, True), {}),
    )),
    *(case(graph.QuantizeOp, IMAGE, scale, zero, element_type=from_numpy_dtype(zero.dtype))
      for scale, zero in (
          (np.float32(0.02), np.uint8(100)),
          (np.full((1, 1), 0.02, np.float32), np.int8(-3)),
          (np.float32([0.01, 0.5, 0.1, 2]).reshape(4, 1, 1), np.int8([1, -2, 3, 0]).reshape(4, 1, 1)),
          (np.float32([0.01, 0.5, 0.1, 2]).reshape(4, 1, 1), np.uint16(9)),
      )),
    case(graph.QuantizeOp, X, np.float32(0.1), zero_point=None, element_type=i8),
    *(case(graph.QuantizeOp, X, np.float32(0.001), zero_point=None, element_type=f8E4M3FN, saturate=saturate)
      for saturate in (False, True)),
    case(graph.DequantizeOp, ints(np.uint8, 0, 200, 255), np.float32(0.1), np.uint8(7)),
    case(graph.DequantizeOp, ints(np.int8, 0, -100, 127)[None], np.float32([0.1, 2, 3]), ints(np.int8, 1, 2, -3)),
    case(graph.DequantizeOp, ints(np.int32, 0, -100, 2**30), np.float32(0.5)),
    case(graph.DequantizeOp, np.ones((2, 3), np.int8), np.float32([[0.1, 2, 3], [4, 5, 6]])),
    *(case(op, IMAGE, axes=[1, 3], keepdims=keepdims) for keepdims in (False, True) for op in (
        graph.ReduceSumOp, graph.ReduceMeanOp, graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceProdOp,
    )),
    case(graph.ReduceSumOp, X, axes=[]),
    *(case(op, np.array([[100, 100, 3], [1, 2, 5]], np.uint8), axes=[1]) for op in (
        graph.ReduceSumOp, graph.ReduceMeanOp, graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceProdOp,
    )),
    case(graph.ArgMaxOp, ints(np.int32, 1, 7, 7, 3), axis=0),
    case(graph.ArgMaxOp, ints(np.int32, 1, 7, 7, 3), axis=0, keepdims=True, select_last=True),
    case(graph.WhereOp, X > 0, X, Y[:1]),
    case(graph.ClipOp, X, np.float32(-0.5), np.float32(0.5)),
    case(graph.ClipOp, X),
    case(graph.ClipOp, np.array([np.inf, -np.inf, np.nan, 1], np.float32), np.float32(2)),
    *(case(graph.CastOp, X, element_type=element) for element in (i32, from_numpy_dtype(np.dtype(np.bool_)))),
    *(case(graph.CastOp, X * 1000, element_type=f8E4M3FN, saturate=saturate) for saturate in (False, True)),
    case(graph.CastOp, ints(np.int32, 300, -1), element_type=from_numpy_dtype(np.dtype(np.uint8))),
    case(graph.BitcastOp, SPECIAL, element_type=i32),
]  # fmt: skip


def test_every_operation_has_an_exporter_and_a_case() -> None:
    # Constants become initializers; of other dialects are the operations of loops and branches.
    of_graph = {op_type for op_type in EXPORTERS if op_type.name.startswith("graph.")}
    assert {*of_graph, graph.ConstantOp} == set(Graph.operations)
    assert {case.op_type for case in CASES} == set(Graph.operations)
    assert {exporter.__module__ for exporter in EXPORTERS.values()} <= {
        "mlopt.export.registry", *(family.__name__ for family in FAMILIES)
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_onnxruntime_gives_the_reference_s_numbers(case: Case) -> None:
    case.module.verify()
    model = to_onnx(case.module, WeightStore())
    onnx.checker.check_model(model, full_check=True)
    want = evaluate_module(case.module, case.inputs)
    for ours, theirs in zip(want.values(), run_model(model, case.inputs), strict=True):
        if theirs.dtype == np.uint8 and ours.dtype.name.startswith("float8"):
            theirs = theirs.view(ours.dtype)
        assert (theirs.dtype, theirs.shape) == (ours.dtype, ours.shape)
        if ours.dtype.kind in "biu":
            np.testing.assert_array_equal(theirs, ours)
            continue
        tolerance = 2e-3 if ours.dtype == np.float16 else 2e-6
        ours, theirs = (array.astype(np.float64) for array in (ours, theirs))
        np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_no_older_operator_set_has_it(case: Case) -> None:
    version = to_onnx(case.module, WeightStore()).opset_import[0].version
    if version > OLDEST:
        with pytest.raises(UnsupportedError, match=f"operator set {version - 1} .*needs {version}"):
            to_onnx(case.module, WeightStore(), opset=version - 1)


def test_doubles_are_normalised_in_doubles() -> None:
    """ONNX's own operator has its statistics in f32, which is off by 1e-8 here."""
    x = np.linspace(1e3, 1e3 + 1, 6).reshape(2, 3)
    made = case(graph.LayerNormOp, x, np.ones(3), epsilon=1e-12)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    (got,) = run_model(to_onnx(made.module, WeightStore()), made.inputs)
    np.testing.assert_allclose(got, (x - mean) / np.sqrt(variance + 1e-12), rtol=1e-9)


def test_a_remainder_of_zero_has_the_sign_of_the_divisor() -> None:
    """By the ONNX reference evaluator: onnxruntime's Where makes 0.0 of -0.0."""
    made = case(graph.ModOp, np.float32([6, -6, 6, -6]), np.float32([3, 3, -3, -3]))
    (got,) = onnx.reference.ReferenceEvaluator(to_onnx(made.module, WeightStore())).run(None, made.inputs)
    np.testing.assert_array_equal(np.signbit(got), [False, False, True, True])


def test_nothing_is_padded_at_rank_0() -> None:
    made = case(graph.PadOp, np.float32(2), low=[], high=[], value=FloatAttr(0.0, f32))
    assert run_model(to_onnx(made.module, WeightStore()), made.inputs) == [np.float32(2)]


def test_types_that_an_operator_lacks_go_through_wider_ones() -> None:
    """ONNX Gather takes no f8: its elements pass through f32 and come back bit for bit."""
    table = np.array([1.5, -0.0, np.inf, 57344], ml_dtypes.float8_e5m2)
    made = case(graph.GatherOp, table, ints(np.int64, 3, 2, 1, 0), axis=0)
    model = to_onnx(made.module, WeightStore())
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Cast", "Gather", "Cast"]
    (result,) = onnx.reference.ReferenceEvaluator(model).run(None, made.inputs)
    assert np.asarray(result).tobytes() == table[::-1].tobytes()


def test_groups_of_almost_equal_numbers() -> None:
    """The definition of GroupNormalization takes the mean of squares, less the square of the mean: 1e6 - 1e6 here."""
    x = (1000 + np.linspace(0, 1, 24)).astype(np.float32).reshape(1, 4, 6)
    made = case(graph.GroupNormOp, x, np.ones(4, np.float32), np.zeros(4, np.float32), groups=2)
    rows = x.reshape(2, 12).astype(np.float64)
    want = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    (got,) = run_model(to_onnx(made.module, WeightStore()), made.inputs)
    np.testing.assert_allclose(got, want.reshape(1, 4, 6), atol=1e-6)
