"""What holds for every graph operation, and what the constructors accept."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f16,
    f32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from mlopt.diagnostics import VerifyFailure
from mlopt.dialects import graph
from mlopt.dialects.graph import Graph, GraphOp
from mlopt.interpreter.graph.registry import EVALUATIONS
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module

OPERATIONS = list(Graph.operations)


def tensor(*shape: int, element: object = f32) -> SSAValue:
    return create_ssa_value(TensorType(element, shape))  # pyright: ignore[reportArgumentType]


def result_shape(op: GraphOp) -> tuple[int, ...]:
    op.verify()
    (result,) = op.results
    assert isinstance(result.type, TensorType)
    return result.type.get_shape()


@pytest.mark.parametrize("op_type", OPERATIONS, ids=lambda op_type: op_type.name)
class TestEveryOperation:
    def test_is_a_pure_graph_operation(self, op_type: type[GraphOp]) -> None:
        assert issubclass(op_type, GraphOp)
        assert is_side_effect_free(op_type.create(operands=[], result_types=[]))

    def test_has_a_reference_evaluation(self, op_type: type[GraphOp]) -> None:
        # A constant is its value.
        assert op_type in EVALUATIONS or op_type is graph.ConstantOp

    def test_prints_and_parses_its_documented_example(self, op_type: type[GraphOp]) -> None:
        example = re.search(r"```mlir\n(.*?)```", op_type.__doc__ or "", re.DOTALL)
        assert example is not None
        statements = re.sub(r"\n\s+(:|->) ", r" \1 ", example.group(1)).strip().split("\n")
        for statement in map(str.strip, statements):
            text = function_around(statement)
            printed = str(parse_module(text, make_context(), "example.mlir"))
            assert f"{op_type.name} " in printed
            assert str(parse_module(printed, make_context(), "printed.mlir")) == printed


def function_around(statement: str) -> str:
    """A function with the statement's operands as arguments, of the types that its signature gives them."""
    operation = statement.split(" = ", 1)[1]
    typed = dict(re.findall(r"\((%\w+) : (tensor<[^>]*>)\)", operation))
    operands = [name for name in dict.fromkeys(re.findall(r"%\w+", operation)) if name not in typed]
    signature = re.search(r": \((.*)\) ->", operation)
    types = re.findall(r"tensor<[^>]*>", signature.group(1) if signature else operation.split(" : ")[-1])
    arguments = {**dict(zip(operands, types, strict=False)), **typed}
    declared = ", ".join(f"{name}: {type_}" for name, type_ in arguments.items())
    return f"func.func @main({declared}) {{\n{statement}\nfunc.return\n}}"


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: graph.AddOp(tensor(2, 1, 4), tensor(3, 1)), (2, 3, 4)),
        (lambda: graph.AddOp(tensor(0, 3), tensor(1, 3)), (0, 3)),
        (lambda: graph.AddOp(tensor(), tensor()), ()),
        (lambda: graph.WhereOp(tensor(2, 1, element=IntegerAttr(1, 1).type), tensor(3), tensor()), (2, 3)),
        (lambda: graph.MatMulOp(tensor(3), tensor(3)), ()),
        (lambda: graph.MatMulOp(tensor(5, 1, 2, 3), tensor(6, 3, 4)), (5, 6, 2, 4)),
        (lambda: graph.MatMulOp(tensor(4, 2, 3), tensor(3)), (4, 2)),
        (lambda: graph.ConvOp(tensor(1, 3, 224, 224), tensor(64, 3, 7, 7), strides=[2, 2], pads=[3] * 4),
         (1, 64, 112, 112)),
        (lambda: graph.MaxPoolOp(tensor(1, 1, 5), [2], strides=[2], ceil_mode=True), (1, 1, 3)),
        (lambda: graph.MaxPoolOp(tensor(1, 1, 2), [2], strides=[3], pads=[0, 1], ceil_mode=True), (1, 1, 1)),
        (lambda: graph.ReduceSumOp(tensor(2, 3, 4), [-1, 0]), (3,)),
        (lambda: graph.ReduceSumOp(tensor(2, 3, 4), keepdims=True), (1, 1, 1)),
        (lambda: graph.ReduceSumOp(tensor(2, 3), []), (2, 3)),
        (lambda: graph.ArgMaxOp(tensor(2, 3), -1), (2,)),
        (lambda: graph.TransposeOp(tensor(2, 3, 4)), (4, 3, 2)),
        (lambda: graph.ConcatOp([tensor(2, 3), tensor(2, 0)], -1), (2, 3)),
        (lambda: graph.ExpandOp(tensor(3, 1), [2, 1, 4]), (2, 3, 4)),
        (lambda: graph.PadOp(tensor(2, 3), [1, -1], [0, 2], FloatAttr(0.0, f32)), (3, 4)),
        (lambda: graph.GatherOp(tensor(5, 3), tensor(2, 2, element=i64), -1), (5, 2, 2)),
        (lambda: graph.GatherNdOp(tensor(2, 9, 4), tensor(2, 5, 1, element=i64), 1), (2, 5, 4)),
        (lambda: graph.ShapeOp(tensor(2, 3, 4), -2), (2,)),
        (lambda: graph.ShapeOp(tensor(2, 3), 2, 1), (0,)),
        (lambda: graph.RangeOp(FloatAttr(0.0, f16), FloatAttr(1.0, f16), 0), (0,)),
        (lambda: graph.ReshapeOp(tensor(0, 3), [7, 0]), (7, 0)),
        (lambda: graph.SliceOp.over_axes(tensor(10), [9], [0], steps=[-3]), (3,)),
        (lambda: graph.SliceOp.over_axes(tensor(10), [-1], [-(2**63)], [0], [-1]), (10,)),
        (lambda: graph.SliceOp.over_axes(tensor(2, 10), [-3], [2**63 - 1], [-1]), (2, 3)),
    ],
)  # fmt: skip
def test_inferred_shape(build: Callable[[], GraphOp], shape: tuple[int, ...]) -> None:
    assert result_shape(build()) == shape


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: graph.AddOp(tensor(2), tensor(3)), r"broadcast to one shape, found \[2\] and \[3\]"),
        (lambda: graph.ReluOp(tensor(DYNAMIC_INDEX)), "expected a static shape"),
        (lambda: graph.SoftmaxOp(tensor(2), 1), r"expected an axis in \[-1, 1\), found 1"),
        (lambda: graph.ReduceSumOp(tensor(2, 3), [0, -2]), "without repetition"),
        (lambda: graph.ReshapeOp(tensor(2, 3), [5]), "expected a result of 6 elements"),
        (lambda: graph.ExpandOp(tensor(2), [3]), "broadcast"),
        (
            lambda: graph.SplitOp(tensor(4), 0, [1, 2]),
            r"expected results of 4 in all along axis 0, found \[1, 2\]",
        ),
        (lambda: graph.ConcatOp([], 0), "expected at least one operand"),
        (lambda: graph.SliceOp.over_axes(tensor(4), [0], [1], [0], [0]), "expected steps other than 0"),
        (lambda: graph.SliceOp.over_axes(tensor(4), [0, 0], [1, 1], [0, -1]), "distinct axes"),
        (lambda: graph.SliceOp.over_axes(tensor(4), [0, 0], [1, 1]), "expected at most 1 axes, found 2"),
        (lambda: graph.ReluOp(create_ssa_value(f32)), "expected a tensor, found f32"),
        (lambda: graph.ConstantOp(IntegerAttr(1, i64)), "expected a result type"),
    ],
)
def test_constructors_refuse_in_one_sentence(build: Callable[[], object], message: str) -> None:
    with pytest.raises(VerifyException, match=message) as error:
        build()
    assert "\n" not in str(error.value)


def test_default_windows_are_not_printed() -> None:
    op = graph.ConvOp(tensor(1, 2, 3), tensor(2, 2, 1), strides=[1], pads=[0, 0], dilations=[1])
    assert {"strides", "pads", "dilations"}.isdisjoint(op.properties)
    assert op.window == graph.Window((1,), (1,), (0,), (0,), (1,))


RESOURCE = """func.func @main() -> tensor<3xf32> {
  %c = graph.constant dense_resource<foo> : tensor<3xf32>
  return %c : tensor<3xf32>
}
"""


def test_a_constant_whose_data_are_not_in_the_text() -> None:
    with pytest.raises(VerifyFailure, match="the text has no data for dense_resource<foo>") as error:
        verify_module(parse_module(RESOURCE, make_context(), "t.mlir"))
    assert error.value.place is not None and error.value.place.line == 2


def test_a_constant_whose_data_follow_in_the_text() -> None:
    """Four bytes of alignment, then 1.0, 2.0 and 3.0."""
    data = '{-# dialect_resources: { builtin: { foo: "0x040000000000803F0000004000004040" } } #-}'
    module = parse_module(RESOURCE + data, make_context(), "t.mlir")
    verify_module(module)
    (constant,) = [op for op in module.walk() if isinstance(op, graph.ConstantOp)]
    assert isinstance(constant.value, DenseIntOrFPElementsAttr)
    assert tuple(constant.value.get_values()) == (1.0, 2.0, 3.0)
