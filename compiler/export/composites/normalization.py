"""Normalizations that onnxruntime computes with less digits than their formulas, if they were one node: LRN and
MeanVarianceNormalization.

LRN adds the square that enters a window to those of the window before, and subtracts the one that leaves; the variance
of MeanVarianceNormalization is a difference of two means. A model that has the operator gets no other answer than
before; one that has the formula keeps its digits.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints
from mlopt.export.builder import Builder, element_of, shape_of
from mlopt.export.composites.formula import Match, Parameter, Variable, call, result_of
from mlopt.export.composites.registry import Composite, composite, is_one_node

x = Variable("x")
centered = x - call(graph.ReduceMeanOp, x)
deviation = call(graph.SqrtOp, call(graph.ReduceMeanOp, centered * centered))
mean_variance = centered / (deviation + 1e-9)

planes = call(graph.ReshapeOp, x * x)
mean = call(graph.ReshapeOp, call(graph.AveragePoolOp, planes))
lrn = x / call(graph.PowOp, mean * Parameter("alpha") + Parameter("bias"), Parameter("beta"))


@composite(graph.DivOp)
def mean_variance_normalization(builder: Builder, op: Operation) -> Composite | None:
    for found in mean_variance.match(result_of(op), Match(), builder):
        means = [one for one in found.ops if isinstance(one, graph.ReduceMeanOp)]
        axes = {get_ints(one.properties, "axes") for one in means}
        kept = all(one.keepdims is not None for one in means)
        if len(axes) == 1 and kept and _is_whole(op, found):
            return Composite(
                "MeanVarianceNormalization", found.ops, [found.values["x"]], {"axes": axes.pop() or ()}
            )
    return None


@composite(graph.DivOp)
def local_response_normalization(builder: Builder, op: Operation) -> Composite | None:
    """Of images, over an odd number of channels: onnxruntime has no other."""
    shape = shape_of(result_of(op))
    for found in lrn.match(result_of(op), Match(), builder):
        (pool,) = (one for one in found.ops if isinstance(one, graph.AveragePoolOp))
        if len(shape) != 4 or 0 in shape or not _is_whole(op, found):
            continue
        size, around = pool.window.kernel[0], (pool.window.kernel[0] - 1) // 2
        window = graph.Window((size, 1), (1, 1), (around, 0), (around, 0), (1, 1))
        batch, channels, *pixels = shape
        if (
            size % 2
            and pool.window == window
            and (size == 1 or pool.count_include_pad is not None)
            and shape_of(pool.input) == (batch, 1, channels, prod(pixels))
        ):
            return Composite("LRN", found.ops, [found.values["x"]], {**found.numbers, "size": size})
    return None


def _is_whole(op: Operation, found: Match) -> bool:
    """Whether this was one node, of f32, whose operand has the shape of the result."""
    result = result_of(op)
    is_f32 = isinstance(element_of(result), Float32Type)
    return is_f32 and found.values["x"].type == result.type and is_one_node(found.ops)
