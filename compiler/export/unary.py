"""Unary elementwise operations, and the predicates on single elements."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_bool, is_integer
from mlopt.export.builder import Builder, element_of
from mlopt.export.registry import exports, exports_plainly

exports_plainly(
    {
        graph.AbsOp: "Abs",
        graph.AcosOp: "Acos",
        graph.AcoshOp: "Acosh",
        graph.AsinOp: "Asin",
        graph.AsinhOp: "Asinh",
        graph.AtanOp: "Atan",
        graph.AtanhOp: "Atanh",
        graph.CeilOp: "Ceil",
        graph.CosOp: "Cos",
        graph.CoshOp: "Cosh",
        graph.ErfOp: "Erf",
        graph.ExpOp: "Exp",
        graph.FloorOp: "Floor",
        graph.HardSwishOp: "HardSwish",
        graph.IsInfOp: "IsInf",
        graph.IsNanOp: "IsNaN",
        graph.LogOp: "Log",
        graph.NegOp: "Neg",
        graph.ReciprocalOp: "Reciprocal",
        graph.RoundOp: "Round",
        graph.SigmoidOp: "Sigmoid",
        graph.SignOp: "Sign",
        graph.SinOp: "Sin",
        graph.SinhOp: "Sinh",
        graph.SqrtOp: "Sqrt",
        graph.TanOp: "Tan",
        graph.TanhOp: "Tanh",
    }
)


@exports(graph.NotOp)
def not_(builder: Builder, op: graph.NotOp) -> None:
    builder.node(op, "Not" if is_bool(element_of(op.input)) else "BitwiseNot")


@exports(graph.ReluOp)
def relu(builder: Builder, op: graph.ReluOp) -> None:
    """Of integers the largest of them and 0: engines have Relu for few integer types, or none."""
    element = element_of(op.input)
    if is_integer(element):
        builder.node(op, "Max", [op.input, builder.scalar(0, element)])
    else:
        builder.node(op, "Relu")


@exports(graph.GeluOp)
def gelu(builder: Builder, op: graph.GeluOp) -> None:
    builder.node(op, "Gelu", attributes={"approximate": op.approximate.data})


@exports(graph.LeakyReluOp)
def leaky_relu(builder: Builder, op: graph.LeakyReluOp) -> None:
    builder.node(op, "LeakyRelu", attributes={"alpha": op.alpha.value.data})


@exports(graph.SwishOp)
def swish(builder: Builder, op: graph.SwishOp) -> None:
    """By its definition: ONNX Swish needs operator set 24, which the oldest supported onnxruntime does not run."""
    alpha, exponent = op.alpha.value.data, builder.value(op.input)
    if alpha != 1:
        exponent = builder.part("Mul", [exponent, builder.scalar(alpha, exponent.element)])
    builder.node(op, "Mul", [op.input, builder.part("Sigmoid", [exponent])])


@exports(graph.HardSigmoidOp)
def hard_sigmoid(builder: Builder, op: graph.HardSigmoidOp) -> None:
    builder.node(op, "HardSigmoid", attributes={"alpha": op.alpha.value.data, "beta": op.beta.value.data})
