"""Nodes, declarations and versions that the ONNX standard forbids: an error says where, what was expected, what found.

onnxruntime refuses each of the malformed models here too, but for those that a comment says it accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlopt.diagnostics import InputError, MloptError, UnsupportedError
from mlopt.frontend.onnx import import_model
from tests.frontend.onnx_models import assert_close, context, model_of, run_mlopt, value_info

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
N = np.array([1, 2, 3])


def node(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, "n", **attributes)


def model(*nodes: onnx.NodeProto, opset: int = 18) -> onnx.ModelProto:
    """A model with the inputs x (f32) and n (i64), the constants c (f32) and k (i64), and the output y."""
    constants = {"c": np.float32(2), "k": np.int64(1)}
    return model_of(nodes, [value_info("x", X), value_info("n", N)], ["y"], constants, opset=opset)


def refused(proto: onnx.ModelProto, message: str, place: str | None = "n") -> None:
    with pytest.raises(InputError) as error:
        import_model(proto, context())
    assert message in str(error.value)
    assert error.value.place is not None
    assert error.value.place.node == place


# Nodes as they stand in the file.


@pytest.mark.parametrize(
    ("one", "opset", "message"),
    [
        (
            node("Relu", ["x"], slope=0.5),
            18,
            'Relu: has no attribute "slope" at opset 18; its attributes are: none',
        ),
        (node("Reshape", ["x", "n"], allowzero=0), 13, 'Reshape: has no attribute "allowzero" at opset 13'),
        (node("Squeeze", ["x"], axes=[0]), 13, 'Squeeze: has no attribute "axes" at opset 13'),
        (node("Concat", ["x"]), 18, 'Concat: expected an attribute "axis", found none'),
        (node("Concat", ["x"], axis=1.0), 18, 'Concat: attribute "axis": expected int, found float'),
        (node("Concat", ["x"], axis=[1]), 18, 'Concat: attribute "axis": expected int, found ints'),
        (node("Relu", ["x", "x"]), 18, "Relu: expected 1 input at opset 18, found 2"),
        (node("Relu", ["x", ""]), 18, "Relu: expected 1 input at opset 18, found 2"),
        (node("Clip", ["x", "c", "c"]), 6, "Clip: expected 1 input at opset 6, found 3"),
        (node("Clip", ["x"], ["y"], min=0.0), 18, 'Clip: has no attribute "min" at opset 18'),
        (node("Add", ["x"]), 18, "Add: expected 2 inputs at opset 18, found 1"),
        (node("Add", ["x", ""]), 18, "Add: expected an input at position 1, found an empty name"),
        (node("Concat", [], axis=0), 18, "Concat: expected at least 1 input at opset 18, found 0"),
        (node("Dropout", ["x"], ["y", "m", "o"]), 18, "Dropout: expected 1 to 2 outputs at opset 18, found 3"),
        (node("Relu", ["x"], ["y", ""]), 18, "Relu: expected 1 output at opset 18, found 2"),
        (node("Relu", ["x"], [""]), 18, "Relu: expected an output at position 0, found an empty name"),
        (
            node("Upsample", ["x", "c"]),
            13,
            "Upsample: the standard has no such operator since opset 10, found it at opset 13",
        ),
    ],
)  # fmt: skip
def test_a_node_that_is_not_its_operator(one: onnx.NodeProto, opset: int, message: str):
    proto = model(node("Abs", ["x"], ["y0"]), one, opset=opset)
    if one.op_type == "Upsample":  # it has an importer only if it is supported where it is valid
        with pytest.raises(MloptError, match="Upsample"):
            import_model(proto, context())
        return
    proto.graph.output[0].name = "y0"
    refused(proto, message)


def test_an_attribute_given_twice():
    one = node("Concat", ["x"], axis=0)
    one.attribute.append(helper.make_attribute("axis", 1))
    refused(model(one), 'Concat: two attributes have the name "axis"')


def test_notes_of_tools_are_no_attributes():
    """onnxruntime lets names with two underscores pass, which its own optimiser writes."""
    assert_close(run_mlopt(model(node("Neg", ["x"], __note=1)), {"x": X, "n": N}), {"y": -X})


def test_nodes_in_branches_and_functions_are_checked():
    body = helper.make_graph([node("Relu", ["x"], ["r"], slope=1)], "b", [], [onnx.ValueInfoProto(name="r")])
    cond = node("If", ["t"], then_branch=body, else_branch=body)
    proto = model(cond)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "t"))
    refused(proto, 'Relu: has no attribute "slope"')
    function = helper.make_function("own", "F", ["a"], ["r"], [node("Relu", ["a"], ["r"], slope=1)], [
        helper.make_opsetid("", 18)
    ])  # fmt: skip
    proto = model(helper.make_node("F", ["x"], ["y"], "call", domain="own"))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(function)
    refused(proto, 'Relu: has no attribute "slope"')


@pytest.mark.parametrize("allowzero", [0, 1])
def test_a_size_that_is_left_beside_an_empty_axis(allowzero: int):
    """[0, 17] to [0, -1], as exporters write it for a batch of any size: the standard says that -1 has no value."""
    proto = model_of(
        [node("Reshape", ["x", "s"], allowzero=allowzero)],
        [value_info("x", np.zeros((0, 17), np.float32))],
        ["y"],
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array([0, -1]), "s"))
    refused(proto, "Reshape: can't reshape [0, 17] to [0, -1]: beside a size of 0, -1 could be any size")


# Element types.


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (node("Not", ["x"]), 'Not: input 0 "x": expected bool elements, found float'),
        (node("Sqrt", ["n"]), 'Sqrt: input 0 "n": expected bfloat16, double, float or float16 elements, found int64'),
        (node("Add", ["x", "k"]), 'Add: input 1 "k": expected float elements as in input 0, found int64'),
        (node("Where", ["x", "x", "x"]), 'Where: input 0 "x": expected bool elements, found float'),
        (node("Concat", ["x", "x", "n"], axis=0), 'Concat: input 2 "n": expected float elements as in input 0'),
        (node("Reshape", ["x", "c"]), 'Reshape: input 1 "c": expected int64 elements, found float'),
        (node("Gather", ["x", "c"]), 'Gather: input 1 "c": expected int32 or int64 elements, found float'),
        (node("Clip", ["x", "", "k"]), 'Clip: input 2 "k": expected float elements as in input 0, found int64'),
    ],
)  # fmt: skip
def test_element_types_that_an_operator_does_not_take(one: onnx.NodeProto, message: str):
    refused(model(one), message)


def test_element_types_are_those_of_the_opset():
    """Add takes 8-bit integers from opset 14 on; onnxruntime refuses them before too."""
    one = helper.make_node("Add", ["a", "a"], ["y"], "n")
    a = np.array([1, 2], np.int8)
    refused(
        model_of([one], [value_info("a", a)], ["y"], opset=13), 'Add: input 0 "a": expected bfloat16, double'
    )
    assert_close(run_mlopt(model_of([one], [value_info("a", a)], ["y"], opset=14), {"a": a}), {"y": a + a})


def test_schemas_are_looked_up_once_per_operator_and_not_per_node(monkeypatch: pytest.MonkeyPatch):
    """Checking must not be felt: 300 nodes of two operators ask the standard's table twice at most, once for each."""
    asked: list[str] = []
    look_up = onnx.defs.get_schema
    monkeypatch.setattr(onnx.defs, "get_schema", lambda *key: asked.append(key[0]) or look_up(*key))
    nodes = [
        helper.make_node("Relu" if i % 2 else "Erf", [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(300)
    ]
    # Other tests may have asked for one of them.
    import_model(model_of(nodes, [value_info("v0", X)], ["v300"], opset=17), context())
    assert len(asked) == len(set(asked)) and set(asked) <= {"Erf", "Relu"}


# What a model declares about its values.


def declared(
    element: int, shape: Sequence[Any] | None, *, output: bool, symbolic: bool = False
) -> onnx.ModelProto:
    """x → z → y, where one of z and y is declared; all extents of x are 2 x 3 or the first is symbolic."""
    info = helper.make_tensor_value_info("y" if output else "z", element, shape)
    nodes = [node("Neg", ["x"], ["z"]), helper.make_node("Abs", ["z"], ["y"], "last")]
    proto = model_of(nodes, [value_info("x", X, ["b", 3] if symbolic else None)], ["y"])
    if output:
        proto.graph.output[0].CopyFrom(info)
    else:
        proto.graph.value_info.append(info)
    return proto


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize(
    ("element", "shape", "message"),
    [
        (TensorProto.INT64, [2, 3], "int64, found float"),
        (TensorProto.INT64, None, "int64, found float"),
        # onnxruntime warns of these two and goes on; nobody could rely on such a declaration.
        (TensorProto.FLOAT, [3, 2], "[3, 2], found [2, 3]"),
        (TensorProto.FLOAT, [6], "[6], found [2, 3]"),
    ],
)
def test_declarations_that_contradict(output: bool, element: int, shape: list[int] | None, message: str):
    operator, name, place = ("Abs", "y", "last") if output else ("Neg", "z", "n")
    proto = declared(element, shape, output=output)
    refused(proto, f'{operator}: the model declares "{name}" as {message}', place)


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("shape", [None, [2, 3], ["a", "b"], [2, None], [-1, 3]])
def test_declarations_that_fit(output: bool, shape: list[Any] | None):
    assert_close(run_mlopt(declared(TensorProto.FLOAT, shape, output=output), {"x": X}), {"y": np.abs(X)})


def test_old_numbers_beside_symbolic_inputs_are_a_warning():
    """A batch of 1 left in the declarations by a tool that freed it in the inputs; onnxruntime runs such models."""
    proto = declared(TensorProto.FLOAT, [1, 3], output=False, symbolic=True)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3]))
    ctx = context()
    import_model(proto, ctx, dims={"b": 2})
    assert [warning.message for warning in ctx.warnings] == [
        'Abs: the model declares "y" as [1, 3], found [2, 3] (and 1 more such declarations)'
    ]
    other_rank = declared(TensorProto.FLOAT, [6], output=True, symbolic=True)
    with pytest.raises(InputError, match="as \\[6\\], found \\[2, 3\\]"):
        import_model(other_rank, context(), dims={"b": 2})


def test_outputs_without_a_node_have_their_types():
    for name, found in (("x", "float"), ("c", "float"), ("k", "int64")):
        proto = model()
        proto.graph.output[0].CopyFrom(helper.make_tensor_value_info(name, TensorProto.BOOL, None))
        refused(proto, f'the model declares "{name}" as bool, found {found}', None)


def test_a_default_value_must_fit_its_input():
    proto = model(node("Neg", ["c"]))
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [3]))
    refused(proto, 'the model declares "c" as [3], found []', None)


def test_declarations_inside_a_body():
    """Types must agree there too; extents may change from trip to trip."""
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["r"], "inner")], "b", [],
        [helper.make_tensor_value_info("r", TensorProto.INT32, None)],
    )  # fmt: skip
    proto = model(node("If", ["t"], then_branch=branch, else_branch=branch))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "t"))
    refused(proto, 'Neg: the model declares "r" as int32, found float', "inner")


# Versions.


def _opsets(*entries: tuple[str, int]) -> Callable[[onnx.ModelProto], None]:
    def edit(proto: onnx.ModelProto) -> None:
        del proto.opset_import[:]
        proto.opset_import.extend(helper.make_opsetid(*entry) for entry in entries)

    return edit


def _ir_version(number: int) -> Callable[[onnx.ModelProto], None]:
    def edit(proto: onnx.ModelProto) -> None:
        proto.ir_version = number

    return edit


@pytest.mark.parametrize(
    ("edit", "kind", "message"),
    [
        (_opsets(("", 29)), UnsupportedError, "operator set ai.onnx: expected a version of at most 28, found 29"),
        (_opsets(("ai.onnx", 10**9)), UnsupportedError, "expected a version of at most 28, found 1000000000"),
        (_opsets(("", 0)), InputError, "operator set ai.onnx: expected a version of at least 1, found 0"),
        (_opsets(("", -5)), InputError, "expected a version of at least 1, found -5"),
        (_opsets(("", 18), ("own", 0)), InputError, "operator set own: expected a version of at least 1, found 0"),
        (_opsets(), InputError, "with an operator set version, found none"),
        (_opsets(("own", 1)), UnsupportedError, "of a domain that the model gives no version for"),
        # onnxruntime takes the last of several.
        (_opsets(("", 13), ("ai.onnx", 18)), InputError, "ai.onnx: expected one version, found 13 and 18"),
        (_ir_version(99), UnsupportedError, "expected an IR version of at most"),
        (lambda proto: proto.ClearField("ir_version"), InputError, "expected an IR version of at least 1, found none"),
        # onnxruntime takes these for an old version.
        (_ir_version(0), InputError, "expected an IR version of at least 1, found none"),
        (_ir_version(-3), InputError, "expected an IR version of at least 1, found -3"),
    ],
)  # fmt: skip
def test_versions_that_do_not_exist(
    edit: Callable[[onnx.ModelProto], None], kind: type[InputError], message: str
):
    proto = model(node("Neg", ["x"]))
    edit(proto)
    with pytest.raises(kind) as error:
        import_model(proto, context())
    assert message in str(error.value)


def test_one_version_may_be_said_twice():
    proto = model(node("Neg", ["x"]))
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 18))
    assert_close(run_mlopt(proto, {"x": X, "n": N}), {"y": -X})


def test_graphs_with_nothing_in_them():
    """A model may have no nodes, but not no outputs."""
    with pytest.raises(InputError, match="expected a model with at least one output, found none"):
        import_model(model_of([], [], []), context())
    assert_close(run_mlopt(model_of([], [value_info("x", X)], ["x"]), {"x": X}), {"x": X})


# Values inside branches.


@pytest.mark.parametrize(
    ("body", "output", "message", "place"),
    [
        (["Neg x r", "Abs x r"], "r", 'Abs: defines the value "r", which node "Neg_r" defines already', "Abs_r"),
        (["Neg q r", "Abs x q"], "r", 'Neg: uses the value "q" before node "Abs_q" defines it', "Neg_r"),
        (["Neg q r", "Abs r q"], "r", 'Neg: uses the value "q", which depends on this node itself', "Neg_r"),
        (["Neg y r"], "r", 'Neg: uses the value "y", which depends on this node itself', "Neg_r"),
        (["Neg x before"], "before", 'Neg: defines the value "before", which node "Abs_before"', "Neg_before"),
        (["Neg x r"], "later", 'If: its graph\'s output "later" is not defined by any node', "n"),
    ],
)  # fmt: skip
def test_values_defined_late_twice_or_never_in_a_branch(
    body: list[str], output: str, message: str, place: str
):
    def plain(text: str) -> onnx.NodeProto:
        op_type, operand, result = text.split()
        return helper.make_node(op_type, [operand], [result])

    branch = helper.make_graph([plain(text) for text in body], "b", [], [onnx.ValueInfoProto(name=output)])
    nodes = [
        plain("Abs x before"),
        node("If", ["t"], then_branch=branch, else_branch=branch),
        plain("Abs x later"),
    ]
    proto = model(*nodes)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "t"))
    refused(proto, message, place)
