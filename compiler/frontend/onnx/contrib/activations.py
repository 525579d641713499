"""Import of the forms of Gelu, and the activations of fused operators."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.contrib.limits import MICROSOFT
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("Gelu", since=1, domain=MICROSOFT)
def gelu(node: Node) -> SSAValue:
    """The exact form, with erf."""
    return node.add(graph.GeluOp(node.operand(0), "none")).result


@importer("BiasGelu", since=1, domain=MICROSOFT)
def bias_gelu(node: Node) -> SSAValue:
    """The exact form of a sum."""
    return node.add(graph.GeluOp(Formula(node).add(node.operand(0), node.operand(1)), "none")).result


@importer("FastGelu", since=1, domain=MICROSOFT)
def fast_gelu(node: Node) -> SSAValue:
    """The tanh form, of a sum if there is a bias."""
    bias = node.optional(1)
    x = node.operand(0) if bias is None else Formula(node).add(node.operand(0), bias)
    return node.add(graph.GeluOp(x, "tanh")).result


@importer("QuickGelu", since=1, domain=MICROSOFT)
def quick_gelu(node: Node) -> SSAValue:
    """`x * sigmoid(alpha * x)`."""
    return node.add(graph.SwishOp(node.operand(0), node.number("alpha", 1.702))).result


# Activations of fused operators

_PLAIN = {"Relu": graph.ReluOp, "Sigmoid": graph.SigmoidOp, "Tanh": graph.TanhOp}
_WITH_PARAMETERS = ("Clip", "HardSigmoid", "LeakyRelu")


def activation_limit(node: NodeProto) -> str | None:
    """With an activation other than Relu, Sigmoid, Tanh, LeakyRelu, HardSigmoid, Clip."""
    name = next((attribute.s.decode() for attribute in node.attribute if attribute.name == "activation"), "")
    return None if name in ("", *_PLAIN, *_WITH_PARAMETERS) else f"with activation = {name}"


def activated(node: Node, x: SSAValue, parameters: Sequence[float]) -> SSAValue:
    """The activation that the node names, if it names one; `parameters` are those of its operator, in their order."""
    name = node.string("activation", "")
    if name in _PLAIN:
        return node.add(_PLAIN[name](x)).result
    if name not in _WITH_PARAMETERS:
        return x
    expected = 1 if name == "LeakyRelu" else 2
    if len(parameters) < expected:
        raise node.error(f"expected {expected} parameters of the activation {name}, found {len(parameters)}")
    first, second, *_ = (*parameters, 0.0)
    if name == "LeakyRelu":
        return node.add(graph.LeakyReluOp(x, first)).result
    if name == "HardSigmoid":
        return node.add(graph.HardSigmoidOp(x, first, second)).result
    formula = Formula(node)
    return node.add(graph.ClipOp(x, formula.number(first, x), formula.number(second, x))).result
