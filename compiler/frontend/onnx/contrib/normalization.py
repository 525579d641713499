"""Import of normalizations over the last dimension, with a sum before them: SkipLayerNormalization and its like."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.normalization import layer_norm, rms_norm, stash_limit
from mlopt.frontend.onnx.registry import importer

EPSILON = 1e-12
"""The default of those that have a sum in front."""

# onnxruntime puts these into the standard domain of models of any version.
importer("LayerNormalization", since=1, limit=stash_limit)(layer_norm)
importer("SimplifiedLayerNormalization", since=1, limit=stash_limit)(rms_norm)

_statistics = without(outputs={1: "the output mean", 2: "the output inv_std_var"})


@importer("SkipLayerNormalization", since=1, domain=MICROSOFT, limit=_statistics, outputs=4)
def skip_layer_norm(node: Node) -> Sequence[SSAValue]:
    """The normalization of `input + skip + bias`, and that sum as the fourth output."""
    total = _sum(node, node.optional(4))
    op = graph.LayerNormOp(
        total, node.operand(2), node.optional(3), axis=-1, epsilon=node.number("epsilon", EPSILON)
    )
    return _results(node.add(op).result, total)


@importer("SkipSimplifiedLayerNormalization", since=1, domain=MICROSOFT, limit=_statistics, outputs=4)
def skip_rms_norm(node: Node) -> Sequence[SSAValue]:
    """The same by the root of the mean of squares."""
    total = _sum(node, node.optional(3))
    op = graph.RmsNormOp(total, node.operand(2), axis=-1, epsilon=node.number("epsilon", EPSILON))
    return _results(node.add(op).result, total)


def _results(normalized: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
    """By position; the two in the middle are refused."""
    return normalized, total, total, total


def _sum(node: Node, bias: SSAValue | None) -> SSAValue:
    formula = Formula(node)
    total = formula.add(node.operand(0), node.operand(1))
    return total if bias is None else formula.add(total, bias)
