"""What an operator rounds in between: numbers that are larger than its result, if terms cancel.

A correct execution, which takes these terms in another sequence, fuses a product with a sum or computes the operator by
parts, is off by some units in the last place of the largest of them, however small the result is. `floor` derives that
largest number from the operands. Twice the precision times it bounds a sum of two products, whose three roundings are
of half a unit each; longer sums are off by more in the worst case only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from mlopt.compare import is_floating
from tests.fuzz.program import Array

Feeds = Mapping[str, Array]
RunNode = Callable[[onnx.NodeProto, Feeds], list[Array]]


def names(text: str) -> frozenset[str]:
    """The operators in a text."""
    return frozenset(text.split())


FLOOR = 0.05
"""Approximations of functions are right to some units of numbers of this size, however small the result is."""

FIXED = {
    **dict.fromkeys(names("RNN GRU LSTM"), 0.25),
    **dict.fromkeys(names("HannWindow HammingWindow BlackmanWindow"), 1.0),
    **dict.fromkeys(names("LogSoftmax ReduceLogSumExp SoftmaxCrossEntropyLoss"), 1.0),
    "HardSwish": 3.0,
}
"""Operators that round numbers of a size that no operand decides.

In recurrent layers onnxruntime approximates tanh and sigmoid, with results up to 1: it is off by 7e-8 where the right
number, in double precision, is 0.02. Windows are sums of cosines. Where the logarithm of a sum of exponentials is near
0, a number near 1 was rounded before. HardSwish is `x * (x / 6 + 1 / 2)` between -3 and 3.
"""

EXPONENTIAL = names("Elu Selu Celu Softplus")
"""Functions that the standard defines by `exp(x) - 1` or `log(1 + exp(x))`: a number of size 1 is rounded in between,
however small the result is."""

GATED = names("Gelu BiasGelu FastGelu QuickGelu Swish Mish")
"""Functions `x * gate`, where the gate is `(1 + erf(x / sqrt(2))) / 2`, `(1 + tanh(...)) / 2`, a sigmoid or the tanh of
`log(1 + exp(x))`: a number of size 1 is rounded in between, and what rounding does is relative to `x`, however small
the gate is. `x` is the sum of the operands."""

SHIFTED = names("InstanceNormalization GroupNormalization")
"""Operators that onnxruntime computes as `x * a + (b - mean * a)` with `a = scale / sqrt(variance + epsilon)`, or that
are exported as one of these: what rounding does is relative to `x * a`, however near the mean `x` is."""

SUMS = names(
    """
    AveragePool Col2Im Conv ConvTranspose CumSum Einsum FusedMatMul Gemm GlobalAveragePool MatMul Mean ReduceMean
    ReduceSum Sum TransposeMatMul
    """
)
"""Sums of products of the operands: what rounding does is relative to the sum of the terms without their signs."""

SAMPLED = names("GridSample Resize RoiAlign")
"""Operators that compute positions in an image, whose rounding is relative to its extents: it shifts the weights of the
neighbours, and so the result by as many units of these."""


def floor(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """The largest number that is rounded in between, at least `FLOOR`; `run` evaluates another node.

    `feeds` holds the operands that are floating-point numbers, and others.
    """
    operator = node.op_type
    if operator in FIXED:
        return FIXED[operator]
    if operator in EXPONENTIAL:
        return math.prod(max(1.0, abs(attribute.f)) for attribute in node.attribute)  # alpha and gamma
    if operator == "HardSigmoid":
        return 1.0 + abs(
            float(_attributes(node).get("beta", 0.5))
        )  # where alpha * x + beta is within 0 and 1
    if operator in GATED:
        return max(FLOOR, sum(largest(feeds[name]) for name in node.input if name))
    if operator in SUMS:
        return max(FLOOR, largest(run(_with_magnitudes(node), _magnitudes(feeds))[0]))
    derive = _DERIVED.get((node.domain, operator))
    return FLOOR if derive is None else max(FLOOR, derive(node, feeds, run))


def _log_of_sum(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """A number near 1 is rounded, then its logarithm is near 0; a sum of terms that cancel is off by more."""
    with np.errstate(all="ignore"):
        distance = run(node, _magnitudes(feeds))[0].astype(np.float64) - run(node, feeds)[0]
    return max(1.0, largest(np.exp(distance)))


def largest(array: Array) -> float:
    """The largest finite number, without its sign."""
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def _norm(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """The largest `x * a` of a norm in `SHIFTED`."""
    attributes = _attributes(node)
    x, scale = (feeds[name].astype(np.float64) for name in node.input[:2])
    batch, channels = x.shape[:2]
    groups = attributes.get("num_groups", channels)
    deviation = np.sqrt(x.reshape(batch, groups, -1).var(-1) + attributes.get("epsilon", 1e-5))
    factors = np.abs(scale.reshape(groups, -1)) / deviation[:, :, None]
    products = np.abs(x.reshape(batch, channels, -1)) * factors.reshape(batch, channels, 1)
    return float(products.max(initial=0.0))


def _layer_norm(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """The mean is off by its rounding, which is relative to the numbers of the row; then the bias is added.

    In RMSNormalization no terms cancel: what rounding does is relative to the result.
    """
    attributes = _attributes(node)
    x, *parameters = (feeds[name].astype(np.float64) for name in node.input if name)
    rows = x.reshape(math.prod(x.shape[: attributes.get("axis", -1) % x.ndim]), -1)
    deviation = np.sqrt(rows.var(-1) + attributes.get("epsilon", 1e-5))
    factors = np.abs(rows).max(-1, initial=0.0) / deviation
    return largest(factors) * largest(parameters[0]) + sum(map(largest, parameters[1:]))


def _mean_variance(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """The mean is off by its rounding, which is relative to the numbers that it is of."""
    x = feeds[node.input[0]].astype(np.float64)
    axes = tuple(_attributes(node).get("axes", (0, 2, 3)))
    return largest(np.abs(x).max(axes, initial=0.0) / (x.std(axes) + 1e-9))


def _batch_norm(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """`x * a + (bias - mean * a)` with `a = scale / sqrt(variance + epsilon)`, channel by channel."""
    x, scale, bias, mean, variance = (feeds[name].astype(np.float64) for name in node.input)
    factors = np.abs(scale) / np.sqrt(variance + _attributes(node).get("epsilon", 1e-5))
    largest_of_channel = np.abs(x).max(axis=(0, *range(2, x.ndim)), initial=0.0)
    return largest((largest_of_channel + np.abs(mean)) * factors + np.abs(bias))


def _rotary(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """The products whose sums and differences are the result."""
    x, *tables = (feeds[name] for name in node.input if name in feeds and is_floating(feeds[name]))
    return largest(x) * max(map(largest, tables))


def _attention(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """A score is off by its rounding, which is relative to the terms of its sum without their signs.

    A weight moves by its score's error, relative to itself, and by what that does to their sum. So scores that are
    hidden do not count.
    """
    query, key, value, *mask = node.input[:4]
    attributes = {name: number for name, number in _attributes(node).items() if name != "softcap"}

    def scores(mode: int, fed: Feeds) -> Array:
        asked = {**attributes, "qk_matmul_output_mode": mode}
        other = helper.make_node("Attention", list(node.input), ["y", "", "", "scores"], "n", **asked)
        return run(other, fed)[1].astype(np.float64)

    size = scores(0, {**feeds, **{name: np.abs(feeds[name]) for name in (query, key)}})
    weights = scores(3, feeds)
    with np.errstate(all="ignore"):
        size = size + sum(np.abs(feeds[name]) for name in mask if name in feeds and is_floating(feeds[name]))
        moved = np.where(weights > 0, weights * size, 0.0).sum(-1)
    return largest(feeds[value]) * (1 + 2 * largest(moved))


def _determinant(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """Hadamard's bound: no product in an expansion is larger than that of the rows' lengths."""
    lengths = np.linalg.norm(feeds[node.input[0]].astype(np.float64), axis=-1)
    return largest(lengths.prod(-1))


def _sampled(node: onnx.NodeProto, feeds: Feeds, run: RunNode) -> float:
    """As many times the largest number as the image has rows or columns."""
    x = feeds[node.input[0]]
    return largest(x) * max(x.shape[2:], default=1)


_DERIVED: dict[tuple[str, str], Callable[[onnx.NodeProto, Feeds, RunNode], float]] = {
    **{("", name): _norm for name in SHIFTED},
    **{("", name): _sampled for name in SAMPLED},
    ("", "LayerNormalization"): _layer_norm,
    ("", "BatchNormalization"): _batch_norm,
    ("", "MeanVarianceNormalization"): _mean_variance,
    ("", "RotaryEmbedding"): _rotary,
    ("com.microsoft", "RotaryEmbedding"): _rotary,
    ("", "Attention"): _attention,
    ("", "Det"): _determinant,
    ("", "ReduceLogSum"): _log_of_sum,
}


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _with_magnitudes(node: onnx.NodeProto) -> onnx.NodeProto:
    """A sum whose factors, the numbers among the attributes, have no signs."""
    other = onnx.NodeProto()
    other.CopyFrom(node)
    for attribute in other.attribute:
        if attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f = abs(attribute.f)
    return other


def _magnitudes(feeds: Feeds) -> dict[str, Array]:
    return {name: np.abs(array) if is_floating(array) else array for name, array in feeds.items()}
