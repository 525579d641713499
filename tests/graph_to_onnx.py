"""Graph-level modules as ONNX models, for tests that ask onnxruntime about random graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp
from mlopt.dialects.graph.base import get_ints, shape_of, tensor_type
from mlopt.interpreter.graph import evaluate
from mlopt.ir.dtypes import to_numpy_dtype
from tests.strategies import GraphCase

OPSET = 20

PLAIN = {
    graph.AbsOp: "Abs", graph.AddOp: "Add", graph.AndOp: "And", graph.CeilOp: "Ceil", graph.CosOp: "Cos",
    graph.DivOp: "Div", graph.EqualOp: "Equal", graph.ErfOp: "Erf", graph.ExpOp: "Exp", graph.FloorOp: "Floor",
    graph.GreaterEqualOp: "GreaterOrEqual", graph.GreaterOp: "Greater", graph.HardSwishOp: "HardSwish",
    graph.IsInfOp: "IsInf", graph.IsNanOp: "IsNaN", graph.LessEqualOp: "LessOrEqual", graph.LessOp: "Less",
    graph.LogOp: "Log", graph.MatMulOp: "MatMul", graph.MaxOp: "Max", graph.MinOp: "Min", graph.MulOp: "Mul",
    graph.NegOp: "Neg", graph.OrOp: "Or", graph.PowOp: "Pow", graph.ReciprocalOp: "Reciprocal",
    graph.ReluOp: "Relu", graph.RoundOp: "Round", graph.SigmoidOp: "Sigmoid", graph.SignOp: "Sign",
    graph.SinOp: "Sin", graph.SqrtOp: "Sqrt", graph.SubOp: "Sub", graph.TanhOp: "Tanh", graph.WhereOp: "Where",
    graph.XorOp: "Xor",
}  # fmt: skip
"""Operations that are one ONNX node without attributes."""

REDUCTIONS = {
    graph.ReduceMaxOp: "ReduceMax",
    graph.ReduceMeanOp: "ReduceMean",
    graph.ReduceMinOp: "ReduceMin",
    graph.ReduceProdOp: "ReduceProd",
    graph.ReduceSumOp: "ReduceSum",
}


def to_onnx(case: GraphCase) -> onnx.ModelProto:
    """The model that means the same; its inputs and outputs have the case's names."""
    return _Exporter(case).run()


class _Exporter:
    """One node for each operation; numbers that the dialect decides become initializers."""

    def __init__(self, case: GraphCase):
        self.case = case
        self.names: dict[SSAValue, str] = {}
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def run(self) -> onnx.ModelProto:
        block = _main(self.case.module).body.block
        self.names |= {argument: f"x{index}" for index, argument in enumerate(block.args)}
        outputs: Sequence[SSAValue] = ()
        for op in block.ops:
            if isinstance(op, ReturnOp):
                outputs = op.arguments
            else:
                assert isinstance(op, GraphOp)
                self.names |= {
                    result: f"v{len(self.names) + index}" for index, result in enumerate(op.results)
                }
                self.export(op)
        for index, value in enumerate(outputs):
            self.nodes.append(helper.make_node("Identity", [self.names[value]], [f"y{index}"]))
        graph_proto = helper.make_graph(
            self.nodes,
            "case",
            [_value_info(f"x{index}", argument) for index, argument in enumerate(block.args)],
            [_value_info(f"y{index}", value) for index, value in enumerate(outputs)],
            self.initializers,
        )
        return helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

    def numbers(self, array: np.ndarray | Sequence[int]) -> str:
        """The name of a new initializer."""
        name = f"c{len(self.initializers)}"
        values = array if isinstance(array, np.ndarray) else np.array(array, np.int64)
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op: GraphOp, onnx_op: str, *extra: str, **attributes: object) -> None:
        inputs = [self.names[operand] for operand in op.operands]
        outputs = [self.names[result] for result in op.results]
        self.nodes.append(helper.make_node(onnx_op, [*inputs, *extra], outputs, **attributes))

    def export(self, op: GraphOp) -> None:
        if type(op) in PLAIN:
            self.node(op, PLAIN[type(op)])
        elif type(op) in REDUCTIONS:
            assert isinstance(op, graph.ReductionOp)
            axes = self.numbers(get_ints(op.properties, "axes") or ())
            self.node(
                op, REDUCTIONS[type(op)], axes, keepdims=int(op.keepdims is not None), noop_with_empty_axes=1
            )
        else:
            EXPORTS[type(op)](self, op)


def _constant(e: _Exporter, op: graph.ConstantOp) -> None:
    array = evaluate(op, [], e.case.weights)[0]
    e.initializers.append(numpy_helper.from_array(array, e.names[op.result]))


def _clip(e: _Exporter, op: graph.ClipOp) -> None:
    operands = ["" if value is None else e.names[value] for value in (op.input, op.lower, op.upper)]
    e.nodes.append(helper.make_node("Clip", operands, [e.names[op.result]]))


def _not(e: _Exporter, op: graph.NotOp) -> None:
    e.node(op, "Not" if _dtype(op.input).kind == "b" else "BitwiseNot")


def _conv(e: _Exporter, op: graph.ConvOp) -> None:
    e.node(op, "Conv", **_window(op.window), group=op.groups)


def _pool(e: _Exporter, op: graph.PoolOp) -> None:
    attributes = {**_window(op.window), "kernel_shape": op.window.kernel}
    attributes["ceil_mode"] = int(op.ceil_mode is not None)
    if isinstance(op, graph.AveragePoolOp):
        e.node(op, "AveragePool", **attributes, count_include_pad=int(op.count_include_pad is not None))
    else:
        e.node(op, "MaxPool", **attributes)


def _slice(e: _Exporter, op: graph.SliceOp) -> None:
    starts, stops, steps = zip(*op.ranges, strict=True)
    # What stands for "down to the first element" here is "the last one" in ONNX.
    stops = tuple(stop if stop >= 0 else np.iinfo(np.int64).min for stop in stops)
    starts = tuple(start if start >= 0 else np.iinfo(np.int64).min for start in starts)
    e.node(op, "Slice", *map(e.numbers, (starts, stops, tuple(range(len(steps))), steps)))


def _pad(e: _Exporter, op: graph.PadOp) -> None:
    low, high = zip(*op.widths, strict=True)
    e.node(op, "Pad", e.numbers((*low, *high)), e.numbers(np.ones((), _dtype(op.input))))


def _split(e: _Exporter, op: graph.SplitOp) -> None:
    axis = op.axis.value.data
    e.node(op, "Split", e.numbers([shape_of(part)[axis] for part in op.parts]), axis=axis)


def _layer_norm(e: _Exporter, op: graph.LayerNormOp) -> None:
    e.node(op, "LayerNormalization", axis=op.axis.value.data, epsilon=op.epsilon.value.data)


def _rms_norm(e: _Exporter, op: graph.RmsNormOp) -> None:
    """Its definition in older operators: opset 23 is not everywhere yet."""
    x, scale, result = (e.names[value] for value in (op.input, op.scale, op.result))
    axes = e.numbers(range(op.axis.value.data, len(shape_of(op.input))))
    epsilon = e.numbers(np.array(op.epsilon.value.data, np.float32))
    for onnx_op, inputs, output in (
        ("Mul", [x, x], f"{result}_square"),
        ("ReduceMean", [f"{result}_square", axes], f"{result}_mean"),
        ("Add", [f"{result}_mean", epsilon], f"{result}_sum"),
        ("Sqrt", [f"{result}_sum"], f"{result}_root"),
        ("Div", [x, f"{result}_root"], f"{result}_scaled"),
        ("Mul", [f"{result}_scaled", scale], result),
    ):
        e.nodes.append(helper.make_node(onnx_op, inputs, [output]))


def _arg_max(e: _Exporter, op: graph.ArgMaxOp) -> None:
    flags = {"keepdims": int(op.keepdims is not None), "select_last_index": int(op.select_last is not None)}
    e.node(op, "ArgMax", axis=op.axis.value.data, **flags)


def _to_result_shape(onnx_op: str, **attributes: int) -> Callable[[_Exporter, GraphOp], None]:
    return lambda e, op: e.node(op, onnx_op, e.numbers(shape_of(op.results[0])), **attributes)


def _with_axis(onnx_op: str) -> Callable[[_Exporter, GraphOp], None]:
    return lambda e, op: e.node(op, onnx_op, axis=op.properties["axis"].value.data)  # pyright: ignore[reportAttributeAccessIssue]


EXPORTS: dict[type[GraphOp], Callable[..., None]] = {
    graph.ArgMaxOp: _arg_max,
    graph.AveragePoolOp: _pool,
    graph.BatchNormOp: lambda e, op: e.node(op, "BatchNormalization", epsilon=op.epsilon.value.data),
    graph.CastOp: lambda e, op: e.node(op, "Cast", to=helper.np_dtype_to_tensor_dtype(_dtype(op.result))),
    graph.ClipOp: _clip,
    graph.ConcatOp: _with_axis("Concat"),
    graph.ConstantOp: _constant,
    graph.ConvOp: _conv,
    graph.ExpandOp: _to_result_shape("Expand"),
    graph.GatherElementsOp: _with_axis("GatherElements"),
    graph.GatherNdOp: lambda e, op: e.node(op, "GatherND", batch_dims=op.batch_dims.value.data),
    graph.GatherOp: _with_axis("Gather"),
    graph.GeluOp: lambda e, op: e.node(op, "Gelu", approximate=op.approximate.data),
    graph.HardSigmoidOp: lambda e, op: e.node(
        op, "HardSigmoid", alpha=op.alpha.value.data, beta=op.beta.value.data
    ),
    graph.LayerNormOp: _layer_norm,
    graph.LeakyReluOp: lambda e, op: e.node(op, "LeakyRelu", alpha=op.alpha.value.data),
    graph.LogSoftmaxOp: _with_axis("LogSoftmax"),
    graph.MaxPoolOp: _pool,
    graph.ModOp: lambda e, op: e.node(op, "Mod", fmod=int(op.fmod is not None)),
    graph.NotOp: _not,
    graph.PadOp: _pad,
    graph.ReshapeOp: _to_result_shape("Reshape", allowzero=1),
    graph.RmsNormOp: _rms_norm,
    graph.SliceOp: _slice,
    graph.SoftmaxOp: _with_axis("Softmax"),
    graph.SplitOp: _split,
    graph.TransposeOp: lambda e, op: e.node(op, "Transpose", perm=op.permutation),
}


def _window(window: graph.Window) -> dict[str, object]:
    return {"strides": window.strides, "pads": window.low + window.high, "dilations": window.dilations}


def _main(module: ModuleOp) -> FuncOp:
    (main,) = module.body.block.ops
    assert isinstance(main, FuncOp)
    return main


def _dtype(value: SSAValue) -> np.dtype:
    return to_numpy_dtype(tensor_type(value.type).element_type)


def _value_info(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(_dtype(value)), shape_of(value)
    )
