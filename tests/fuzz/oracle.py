"""The right value of one node, and how far a correct execution may be from it.

onnxruntime with every optimisation off is asked first, then the reference evaluator of the onnx package where that is
not known to be wrong, then mlopt's own reference evaluation (which checks the levels below it, but not itself).

An execution may round otherwise. By how much the result moves then is measured: the node is evaluated again with every
operand moved by what it may be off, in both directions, and to where two numbers that may be equal are. A node whose
result is decided by rounding (a comparison of two sums, say) has no right value, and none is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from mlopt import MloptError
from mlopt.compare import is_floating
from tests.frontend.onnx_models import run_mlopt
from tests.fuzz.bounds import floor, largest, names
from tests.fuzz.moving import MARGIN, moved_feeds
from tests.fuzz.program import Array, Value, one_step_model

EXACT = names(
    """
    Abs Add And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike
    Ceil Clip Compress Concat Constant ConstantOfShape DepthToSpace DequantizeLinear Div Equal Expand
    EyeLike Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Hardmax Identity IsInf
    IsNaN Less LessOrEqual Max MaxPool MaxUnpool Min Mul Neg NonMaxSuppression NonZero Not Or Pad
    QuantizeLinear Range ReduceMax ReduceMin Relu Reshape ReverseSequence Round Scatter ScatterElements
    ScatterND Shape Sign Size Slice SpaceToDepth Split Squeeze Sub TensorScatter ThresholdedRelu Tile
    TopK Transpose Trilu Unique Unsqueeze Where Xor GlobalMaxPool Sqrt Reciprocal CenterCropPad
    """
)
"""Operators with one right result for exact operands: selections, comparisons, and what IEEE 754 rounds correctly."""

PASSED_ON = names(
    """
    Abs CenterCropPad Clip Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND
    GlobalMaxPool Identity Max MaxPool Min Neg Pad ReduceMax ReduceMin Relu Reshape ReverseSequence Slice
    SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze Where
    """
)
"""Operators of which each result is an operand's element, perhaps without its sign: it is off by what that is off."""

SUMMED = names("Add Sub")
"""Operators of which each result is off by what its operands are off together, and its own rounding."""

JUMPS = names("DynamicQuantizeMatMul GridSample Mod")
"""Other operators whose results are numbers that jump: where an element is taken from, or what remains of a division,
is decided by what they compute of several operands."""

_REFERENCE_IS_WRONG = names(
    """
    BatchNormalization GlobalMaxPool Softmax LogSoftmax LayerNormalization Loop MaxPool AveragePool
    LpPool Resize ConvTranspose Attention NonMaxSuppression RoiAlign GridSample TopK Col2Im ArgMax
    ArgMin Mod QuantizeLinear DeformConv Clip Cast CastLike Round LSTM GRU RNN Scan Unique
    """
)
"""Operators of the onnx package's evaluator that are wrong in places, or do not take what the standard allows."""

IN_DOUBLE = names("DFT GroupNormalization LRN MeanVarianceNormalization Shrink")
"""Operators in which onnxruntime rounds more than it must: DFT is off by 30 units in the last place at 12 points, LRN
adds to and subtracts from one sum for all channels, Shrink computes in single precision for all types,
GroupNormalization, as the standard defines it, takes a mean of squares without the square of the mean for the variance,
and so does MeanVarianceNormalization, whose addend onnxruntime leaves out, too: numbers that are all 0 give 0 / 0. The
right value is computed in double precision, and onnxruntime's distance from it is allowed: exported models run in
onnxruntime."""

FLOAT_ATTRIBUTE = 1e-8
"""Attributes are of single precision, also where the operands are of double; their defaults may be taken as decimal."""

ROUNDS_OTHERWISE = names(
    """
    QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearConcat QLinearSoftmax QLinearWhere
    QLinearAveragePool QLinearGlobalAveragePool QGemm QLinearConv QLinearMatMul
    """
)
"""Quantized operators in which onnxruntime approximates before it rounds: an integer may be off by one."""

UNKNOWN_TO_NUMPY = {
    f"tensor({name})": type
    for name, type in {
        "bfloat16": ml_dtypes.bfloat16,
        "float8e4m3fn": ml_dtypes.float8_e4m3fn,
        "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
        "float8e5m2": ml_dtypes.float8_e5m2,
        "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
        "int4": ml_dtypes.int4,
        "uint4": ml_dtypes.uint4,
        "int2": ml_dtypes.int2,
        "uint2": ml_dtypes.uint2,
    }.items()
}
"""Types of which onnxruntime's Python interface gives the bytes, and takes no arrays."""


class NoValue(Exception):
    """No oracle takes the node, or rounding decides its result."""


def evaluate_step(
    node: onnx.NodeProto, operands: Sequence[Value], opset: int, runs: int
) -> tuple[list[tuple[Array, ...]], list[float]]:
    """The results of one node in each run, and how much each may be off."""
    leaves = list(dict.fromkeys(operands))
    constants = [value for value in leaves if value.structural or not is_floating(value.arrays[0])]
    constants = [value for value in constants if value.kind == "constant"]
    inputs = [value for value in leaves if value not in constants]
    model = one_step_model(node, inputs, constants, opset)
    wanted = [name for name in node.output if name]
    exact = node.op_type in EXACT
    results: list[list[Array]] = [[] for _ in wanted]
    errors = [0.0] * len(wanted)
    oracle: _Oracle | None = None
    for run in range(runs):
        feeds = {value.name: value.arrays[run] for value in inputs}
        in_run = [_in_run(value, run) for value in inputs]
        oracle = oracle or _Oracle(model, feeds)
        if run and any(value.dynamic for value in inputs):
            oracle = _Oracle(one_step_model(node, in_run, constants, opset), feeds)
        right = oracle.run(feeds)
        if node.op_type == "Equal":
            _require_told_apart(*(operands[index] for index in (0, -1)), run)
        if node.op_type == "Mod":
            _require_not_zero(operands[-1], run)
        if node.op_type == "LogSoftmax" and _has_special_doubles(operands[0], run):
            raise NoValue(
                "beside infinity and NaN onnxruntime has numbers in doubles, and NaN in other types"
            )
        decides = exact or node.op_type in JUMPS or not all(map(is_floating, right))
        moved_to = moved_feeds(node, inputs, run, exact=exact, decides=decides)
        moved = [oracle.run(other) for other in moved_to]

        def run_node(
            other: onnx.NodeProto, fed: Mapping[str, Array], values: Sequence[Value] = in_run
        ) -> list[Array]:
            return _Oracle(one_step_model(other, values, constants, opset), fed).run(fed)

        rounded = floor(node, feeds, run_node) if moved and any(map(is_floating, right)) else 0.0
        for index, array in enumerate(right):
            error = _error(array, [other[index] for other in moved], exact, rounded, _derived(node, operands))
            if node.op_type in IN_DOUBLE:
                array, distance = _in_double(model, feeds, array)
                error += distance
            results[index].append(array)
            if (node.op_type in ROUNDS_OTHERWISE or _interpolates(node)) and not is_floating(array):
                error = 1.0
            errors[index] = max(errors[index], error)
    return [tuple(arrays) for arrays in results], errors


def _derived(node: onnx.NodeProto, operands: Sequence[Value]) -> tuple[float | None, bool]:
    """By how much a result is off because the operands are, and whether it is rounded, too; None if not known."""
    errors = [operand.error for operand in operands]
    if node.op_type in PASSED_ON:
        return max(errors, default=0.0), False
    return (sum(errors) if node.op_type in SUMMED else None), True


def _interpolates(node: onnx.NodeProto) -> bool:
    """Whether it is a Resize between numbers: integers are truncated then, of 4 - 1e-7 as of 4."""
    return node.op_type == "Resize" and any(
        attribute.s in (b"linear", b"cubic") for attribute in node.attribute
    )


def _in_run(value: Value, run: int) -> Value:
    return Value(value.name, (value.arrays[run],), value.kind, value.error, value.structural)


def _require_told_apart(first: Value, second: Value, run: int) -> None:
    """`NoValue` if two numbers that differ may be equal: no moved operand would say so."""
    a, b = (value.arrays[run].astype(np.float64) for value in (first, second))
    with np.errstate(all="ignore"):
        distance = np.abs(a - b)
    if ((distance > 0) & (distance <= MARGIN * (first.error + second.error))).any():
        raise NoValue("rounding decides the result")


def _require_not_zero(divisor: Value, run: int) -> None:
    """`NoValue` if a divisor may be 0: what remains is small on both sides of that, and no number there."""
    if ((divisor.arrays[run] != 0) & (np.abs(divisor.arrays[run]) <= MARGIN * divisor.error)).any():
        raise NoValue("rounding decides whether a divisor is 0")


def _has_special_doubles(value: Value, run: int) -> bool:
    array = value.arrays[run]
    return array.dtype == np.float64 and bool((np.isposinf(array) | np.isnan(array)).any())


def _lrn(node: onnx.NodeProto, x: Array) -> Array:
    """LRN as the standard defines it; the reference evaluator takes as many channels as there are batches."""
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    size, squares = attributes["size"], np.square(x)
    sums = [
        squares[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].sum(1, keepdims=True)
        for c in range(x.shape[1])
    ]
    alpha, beta, bias = (
        attributes.get(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    return x / (bias + alpha / size * np.concatenate(sums, 1)) ** beta


def _mean_variance(node: onnx.NodeProto, x: Array) -> Array:
    """MeanVarianceNormalization with the mean of squares of what is left without the mean.

    `NoValue` if little is left: whether equal numbers give 0 is for the rounding of their mean to say.
    """
    axes = {attribute.name: tuple(attribute.ints) for attribute in node.attribute}.get("axes", (0, 2, 3))
    centered = x - x.mean(axes, keepdims=True)
    deviation = np.sqrt(np.square(centered).mean(axes, keepdims=True))
    if (deviation < 1e-3 * np.abs(x).max(axes, keepdims=True)).any():
        raise NoValue("rounding decides what is left without the mean")
    return centered / (deviation + 1e-9)


_DEFINED = {"LRN": _lrn, "MeanVarianceNormalization": _mean_variance}
"""Operators that are computed as the standard defines them, for want of an evaluator that does."""


def _in_double(model: onnx.ModelProto, feeds: Mapping[str, Array], found: Array) -> tuple[Array, float]:
    """The result of a node in double precision, rounded, and how far `found` is from it.

    `NoValue` if that is so far that one of the two must be wrong.
    """
    wide_model = onnx.ModelProto()
    wide_model.CopyFrom(model)
    (node,) = wide_model.graph.node
    if node.op_type == "GroupNormalization":  # which computes in a type of its own
        stashed = [attribute for attribute in node.attribute if attribute.name == "stash_type"]
        for attribute in stashed:
            node.attribute.remove(attribute)
        node.attribute.append(onnx.helper.make_attribute("stash_type", onnx.TensorProto.DOUBLE))
    for value in wide_model.graph.input:
        if is_floating(feeds[value.name]):
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    wide = {name: array.astype(np.float64) if is_floating(array) else array for name, array in feeds.items()}
    with np.errstate(all="ignore"):
        if node.op_type in _DEFINED:
            right = _DEFINED[node.op_type](node, *wide.values())
        else:
            right = np.asarray(ReferenceEvaluator(wide_model).run(None, wide)[0])
        finite = np.isfinite(right) & np.isfinite(found)
        distance = float(np.abs(right[finite] - found[finite]).max(initial=0.0))
        if distance > 1e-3 * float(np.abs(right[finite]).max(initial=1.0)):
            raise NoValue("the oracles do not agree")
        return right.astype(found.dtype), distance


def _error(
    right: Array,
    moved: Sequence[Array],
    exact: bool,
    largest_rounded: float,
    derived: tuple[float | None, bool],
) -> float:
    """By how much a result may be off; `NoValue` if it jumps.

    Numbers up to `largest_rounded` are rounded in between. An exact operator rounds only the elements that move with
    the operands. `derived`: see `_derived`.
    """
    if not moved:
        return 0.0
    if any(other.shape != right.shape or other.dtype != right.dtype for other in moved):
        raise NoValue("rounding decides the shape")
    if not is_floating(right):
        if any((other != right).any() for other in moved):
            raise NoValue("rounding decides the result")
        return 0.0
    wide = right.astype(np.float64)
    finite = np.isfinite(wide)
    rounded = np.zeros(wide.shape, np.bool_) if exact else finite
    error = 0.0
    for other in moved:
        found = other.astype(np.float64)
        if not np.array_equal(np.isfinite(found), finite) or not np.array_equal(
            found[~finite], wide[~finite], equal_nan=True
        ):
            raise NoValue("rounding decides what is finite")
        error = max(error, float(np.abs(found[finite] - wide[finite]).max(initial=0.0)))
        rounded = rounded | (finite & (found != wide))
    if exact and error == 0:
        return 0.0
    known, is_rounded = derived
    error = error if known is None else known
    if not is_rounded:
        return error
    if error > 1e-2 * max(largest(right), 1e-6) and error > 1e-30:
        raise NoValue("the result is ill-conditioned")
    # Two products and their sum: three roundings of half a unit, of which the last is of at most twice the size.
    eps = max(float(ml_dtypes.finfo(right.dtype).eps), FLOAT_ATTRIBUTE)
    return error + 2 * eps * max(largest(right[rounded]), largest_rounded)


def open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """The model in onnxruntime: one thread, no optimisation."""
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


class _Oracle:
    """Evaluates one model of one node. Which oracle takes it is found with the first operands."""

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, Array]):
        self._model = model
        self._node = model.graph.node[0]
        self.run = self._first_that_runs(feeds)

    def _first_that_runs(self, feeds: Mapping[str, Array]) -> Any:
        problems: list[str] = []
        for make in (self._onnxruntime, self._reference, self._mlopt):
            try:
                run = make()
                run(feeds)
            except MloptError as error:
                problems.append(str(error))
            except Exception as error:  # both foreign evaluators raise errors of any type
                problems.append(str(error))
            else:
                return run
        raise NoValue("; ".join(problems))

    def _onnxruntime(self) -> Any:
        session = open_session(self._model)
        types = [UNKNOWN_TO_NUMPY.get(value.type) for value in session.get_outputs()]

        def run(feeds: Mapping[str, Array]) -> list[Array]:
            results = session.run(None, dict(feeds))
            return [
                array if type is None else np.asarray(array).view(type)
                for array, type in zip(results, types, strict=True)
            ]

        return run

    def _reference(self) -> Any:
        if self._node.op_type in _REFERENCE_IS_WRONG or self._node.domain:
            raise NoValue(f"the reference evaluator is not trusted with {self._node.op_type}")
        evaluator = ReferenceEvaluator(self._model)

        def run(feeds: Mapping[str, Array]) -> list[Array]:
            with np.errstate(all="ignore"):
                return [np.asarray(array) for array in evaluator.run(None, dict(feeds))]

        return run

    def _mlopt(self) -> Any:
        return lambda feeds: list(run_mlopt(self._model, feeds).values())
