"""What the importer promises beside the operators: interface, names, dimensions, defaults, and its errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, StringAttr

from mlopt.diagnostics import InputError, MloptError, UnsupportedError
from mlopt.frontend.onnx import find_unsupported, import_model
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.verifier import verify_module
from tests.frontend.onnx_models import (
    assert_close,
    context,
    main_function,
    model_of,
    operations,
    run_mlopt,
    value_info,
)

X = np.array([1.0, -2.0], np.float32)


def node(op_type: str, inputs: str, outputs: str, name: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), name, **attributes)


def interface(module: ModuleOp) -> tuple[list[str], list[str]]:
    """The names of the arguments and of the results."""
    main = main_function(module)
    assert main.arg_attrs is not None
    assert main.res_attrs is not None
    names: list[list[str]] = []
    for attributes in (main.arg_attrs, main.res_attrs):
        values = [dictionary.data["mlopt.name"] for dictionary in attributes]
        names.append([value.data for value in values if isinstance(value, StringAttr)])
    return names[0], names[1]


# Interface and names.


def test_inputs_and_outputs_keep_their_order_and_names():
    inputs = [value_info(name, X) for name in ("input:0", "input_0", "unused", "1", "a b", "ü")]
    nodes = [node("Add", "input:0 input_0", "out:0"), node("Relu", "1", "y")]
    module = import_model(model_of(nodes, inputs, ["y", "out:0", "y"]), context())
    assert interface(module) == (["input:0", "input_0", "unused", "1", "a b", "ü"], ["y", "out:0", "y"])


def test_values_are_named_after_their_tensors():
    module = import_model(
        model_of([node("Relu", "x", "val_84")], [value_info("x", X)], ["val_84"]), context()
    )
    assert [op.results[0].name_hint for op in operations(module)] == ["val_84"]
    assert main_function(module).body.block.args[0].name_hint == "x"


def test_outputs_may_be_inputs_constants_and_each_other():
    nodes = [node("Relu", "x", "a"), node("Identity", "a", "b"), node("Identity", "c", "d")]
    model = model_of(nodes, [value_info("x", X)], ["x", "c", "a", "b", "d"], {"c": np.array([3, 2])})
    want = {"x": X, "c": np.array([3, 2]), "a": np.array([1, 0], np.float32)}
    want |= {"b": want["a"], "d": want["c"]}
    assert_close(run_mlopt(model, {"x": X}), want)


def test_small_constants_stand_in_the_ir_and_large_ones_in_the_store():
    ctx = context()
    constants = {"small": np.ones(64, np.float32), "large": np.ones(65, np.float32)}
    nodes = [node("Relu", "small", "a"), node("Relu", "large", "b")]
    text = str(import_model(model_of(nodes, [], ["a", "b"], constants), ctx))
    assert list(ctx.weights) == ["large"]
    assert '#mlopt.weight<"large">' in text


def test_a_model_in_memory_is_not_changed():
    model = model_of([node("Relu", "x", "y")], [value_info("x", X, ["n"])], ["y"])
    before = model.SerializeToString(deterministic=True)
    import_model(model, context(), dims={"n": 3})
    assert model.SerializeToString(deterministic=True) == before


def test_an_initializer_that_is_an_input_is_a_default_value():
    """Fed x = 3 and c = 5: 3 * (5 + 5) = 30; without c the default 2 gives 3 * (2 + 2) = 12."""
    x, c = np.array([3], np.float32), np.array([5], np.float32)
    nodes = [node("Add", "c c", "s"), node("Mul", "x s", "y")]
    inputs = [value_info("x", x), value_info("c", c)]
    model = model_of(nodes, inputs, ["y"], {"c": np.array([2], np.float32)})
    assert run_mlopt(model, {"x": x})["y"] == 12
    assert run_mlopt(model, {"x": x, "c": c})["y"] == 30


def test_functions_of_the_model_are_inlined():
    body = [node("Mul", "a a", "m"), node("Add", "m a", "r")]
    function = helper.make_function("own", "F", ["a"], ["r"], body, [helper.make_opsetid("", 18)])
    nodes = [
        helper.make_node("F", ["x"], ["t"], domain="own"),
        helper.make_node("F", ["t"], ["y"], domain="own"),
    ]
    model = model_of(nodes, [value_info("x", X)], ["y"], domains={"own": 1})
    model.functions.append(function)
    first = X * X + X
    assert_close(run_mlopt(model, {"x": X}), {"y": first * first + first})


def test_a_long_chain_is_imported_without_recursion():
    nodes = [node("Relu", f"v{i}", f"v{i + 1}") for i in range(5000)]
    module = import_model(model_of(nodes, [value_info("v0", X)], ["v5000"]), context())
    assert len(operations(module)) == 5000


# Shape arithmetic.


def test_shapes_are_computed_through_arithmetic():
    """The shape [rows / 2, columns * 2] is computed from that of x: [4, 3] becomes [2, 6]."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "rows"),
        node("Gather", "s one", "columns"),
        node("Div", "rows two", "half"),
        node("Mul", "columns two", "double"),
        node("Concat", "half double", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    model = model_of(nodes, [value_info("x", x, ["r", "c"])], ["y"], constants)
    assert_close(run_mlopt(model, {"x": x}), {"y": x.reshape(2, 6)})
    module = import_model(model, context(), dims={"r": 4, "c": 3})
    assert [op.name for op in operations(module)][:3] == ["graph.shape", "graph.gather", "graph.gather"]


def test_a_shape_that_is_an_input_is_refused():
    inputs = [value_info("x", np.ones((2, 6), np.float32)), value_info("s", np.array([2, 2]))]
    model = model_of([node("Reshape", "x s", "y", "r")], inputs, ["y"])
    with pytest.raises(UnsupportedError, match='needs the shape "s" at compile time') as error:
        import_model(model, context())
    assert str(error.value.place) == 'node "r"'


def test_an_index_out_of_range_in_shape_arithmetic_is_an_error():
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "g"), node("Expand", "x g", "y")]
    model = model_of(nodes, [value_info("x", X)], ["y"], {"i": np.array([5])})
    with pytest.raises(MloptError):
        import_model(model, context())


# Dimensions.


def symbolic() -> onnx.ModelProto:
    inputs = [value_info("x", X, ["n", None]), value_info("z", X, ["n", "m", 3])]
    return model_of([node("Relu", "x", "a"), node("Relu", "z", "b")], inputs, ["a", "b"])


def shapes(module: ModuleOp) -> list[str]:
    return [str(argument.type) for argument in main_function(module).body.block.args]


def test_dimensions_are_bound_by_name_position_and_inputs():
    bound = import_model(symbolic(), context(), dims={"n": 2, "m": 4, "x.1": 5})
    assert shapes(bound) == ["tensor<2x5xf32>", "tensor<2x4x3xf32>"]
    inputs = {"x": np.ones((2, 5), np.float32)}
    assert shapes(import_model(symbolic(), context(), dims={"m": 4}, inputs=inputs)) == shapes(bound)


def test_a_question_mark_is_no_name():
    model = model_of([node("Relu", "x", "y")], [value_info("x", X, ["?", "?"])], ["y"])
    assert shapes(import_model(model, context(), dims={"x.0": 2, "x.1": 3})) == ["tensor<2x3xf32>"]


@pytest.mark.parametrize(
    ("dims", "inputs", "message"),
    [
        (
            {},
            {},
            '"n" (x axis 0, z axis 0); "x.1" (x axis 1); "m" (z axis 1): give example inputs, or their sizes, as in '
            "--dim n=1",
        ),
        ({"n": 2, "m": 1}, {}, 'no value for the symbolic dimension "x.1" (x axis 1)'),
        ({"k": 2}, {}, 'the model has no dimension "k"; its dimensions are: "n", "x.1", "m"'),
        ({"n": -1}, {}, 'dimension "n": expected a number of at least 0, found -1'),
        ({"n": 7}, {"x": (2, 5)}, 'dimension "n" is 7 by the given value and 2 by axis 0 of input "x"'),
        ({}, {"x": (2, 5), "z": (4, 1, 3)}, 'is 2 by axis 0 of input "x" and 4 by axis 0 of input "z"'),
        ({}, {"z": (4, 1, 9)}, 'input "z": expected shape [n, m, 3], found [4, 1, 9]'),
        ({}, {"x": (4,)}, 'input "x": expected shape [n, ?], found [4]'),
        ({}, {"w": (4,)}, 'the model has no input "w"; its inputs are: "x", "z"'),
    ],
)
def test_dimensions_that_do_not_fit(dims: dict[str, int], inputs: dict[str, tuple[int, ...]], message: str):
    arrays = {name: np.ones(shape, np.float32) for name, shape in inputs.items()}
    with pytest.raises(InputError) as error:
        import_model(symbolic(), context(), dims=dims, inputs=arrays)
    assert message in str(error.value)


def test_an_input_of_another_type_is_an_error():
    with pytest.raises(InputError, match='input "x": expected float32, found float64'):
        import_model(symbolic(), context(), inputs={"x": np.ones((2, 5))})


def test_an_input_without_a_shape_takes_that_of_the_example():
    info = onnx.ValueInfoProto(name="x")
    info.type.tensor_type.elem_type = TensorProto.FLOAT
    model = model_of([node("Relu", "x", "y")], [info], ["y"])
    assert_close(run_mlopt(model, {"x": X}), {"y": np.maximum(X, 0)})
    with pytest.raises(InputError, match='input "x" has no declared shape'):
        import_model(model, context())


def test_inputs_that_are_no_tensors_of_numbers():
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    with pytest.raises(UnsupportedError, match='input "s": expected a tensor, found a sequence'):
        import_model(model_of([], [sequence], ["s"]), context())
    strings = helper.make_tensor_value_info("s", TensorProto.STRING, [2])
    with pytest.raises(UnsupportedError, match='input "s" holds strings'):
        import_model(model_of([], [strings], ["s"]), context())


# Unsupported operators.


def test_every_unsupported_operator_is_listed_at_once():
    body = helper.make_graph(
        [node("RandomNormalLike", "d", "inner", "hidden")], "body", [], [onnx.ValueInfoProto(name="inner")]
    )
    nodes = [
        helper.make_node("Strange", ["x"], ["p"], "first", domain="my.domain"),
        helper.make_node("Strange", ["p"], ["q"], "second", domain="my.domain"),
        node("If", "cond", "r", "branch", then_branch=body, else_branch=body),
        node(
            "Resize", "x", "w", "grow", mode="linear", coordinate_transformation_mode="tf_half_pixel_for_nn"
        ),
        node("Relu", "w", "y"),
    ]
    inputs = [value_info("x", X), value_info("d", X), value_info("cond", np.array(True))]
    model = model_of(nodes, inputs, ["q", "r", "y"], domains={"my.domain": 3})
    found = {(u.domain, u.op_type, u.opset, u.count) for u in find_unsupported(model)}
    assert found == {
        ("my.domain", "Strange", 3, 2),
        ("", "Resize", 18, 1),
        ("", "RandomNormalLike", 18, 2),
    }
    ctx = context()
    with pytest.raises(UnsupportedError) as error:
        import_model(model, ctx)
    assert str(error.value) == (
        "the model uses 3 unsupported operators: my.domain.Strange (opset 3): 2 nodes (first, second); "
        'ai.onnx.Resize (opset 18) with coordinate_transformation_mode = "tf_half_pixel_for_nn" and mode = "linear": '
        "1 node (grow); "
        "ai.onnx.RandomNormalLike (opset 18) which draws random numbers: 2 nodes (hidden, hidden)"
    )
    assert len(ctx.weights) == 0


def test_functions_are_searched_for_unsupported_operators():
    function = helper.make_function("own", "F", ["a"], ["r"], [node("RandomNormalLike", "a", "r", "det")], [
        helper.make_opsetid("", 18)
    ])  # fmt: skip
    call = helper.make_node("F", ["x"], ["y"], domain="own")
    model = model_of([call], [value_info("x", X)], ["y"], domains={"own": 1})
    model.functions.append(function)
    assert [(u.op_type, u.nodes) for u in find_unsupported(model)] == [("RandomNormalLike", ("det",))]


@pytest.mark.parametrize(
    ("one", "opset", "reason"),
    [
        (node("BatchNormalization", "x x x x x", "y m v", epsilon=0.1), 9, "with the outputs of training"),
        (node("BatchNormalization", "x x x x x", "y", spatial=0), 7, "with spatial = 0"),
        (node("MaxPool", "x", "y m"), 7, "with all its outputs"),
        (node("Cast", "x", "y", to=TensorProto.STRING), 13, "to string"),
        (node("Constant", "", "y", value_string="a"), 13, "with value_string"),
        (node("Add", "x x", "y"), 6, ""),
        (node("Add", "x x", "y"), 99, ""),
        (
            helper.make_node("Foo", ["x"], ["y"], domain="none"),
            13,
            "of a domain that the model gives no version for",
        ),
    ],
)
def test_forms_that_are_not_supported(one: onnx.NodeProto, opset: int, reason: str):
    model = model_of([one], [value_info("x", X)], list(one.output), opset=opset)
    assert [unsupported.reason for unsupported in find_unsupported(model)] == [reason]


# Malformed models.


@pytest.mark.parametrize(
    ("nodes", "outputs", "message", "place"),
    [
        (
            [node("Relu", "b", "c", "n1"), node("Relu", "x", "b", "n2")],
            "c",
            'uses the value "b" before node "n2"',
            "n1",
        ),
        ([node("Relu", "c", "b", "n1"), node("Relu", "b", "c", "n2")], "c", "the graph has a cycle", "n1"),
        ([node("Add", "b b", "b", "n1")], "b", "the graph has a cycle", "n1"),
        (
            [node("Relu", "q", "b", "n1")],
            "b",
            'uses the value "q", which no node, input or initializer defines',
            "n1",
        ),
        (
            [node("Relu", "x", "b", "n1"), node("Relu", "x", "b", "n2")],
            "b",
            'which node "n1" defines already',
            "n2",
        ),
        ([node("Relu", "x", "x", "n1")], "x", "which an input or initializer defines already", "n1"),
        ([node("Relu", "x", "b", "n1")], "z", 'output "z" is not defined by any node', None),
    ],
)
def test_values_defined_late_twice_or_never(
    nodes: list[onnx.NodeProto], outputs: str, message: str, place: str | None
):
    with pytest.raises(InputError) as error:
        import_model(model_of(nodes, [value_info("x", X)], [outputs]), context())
    assert message in str(error.value)
    assert error.value.place is not None
    assert error.value.place.node == place


def test_values_captured_by_a_branch_must_be_defined():
    branch = helper.make_graph([node("Relu", "later", "r")], "b", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        node("If", "c", "y", "if", then_branch=branch, else_branch=branch),
        node("Relu", "x", "later", "n"),
    ]
    inputs = [value_info("c", np.array(True)), value_info("x", X)]
    with pytest.raises(InputError, match='uses the value "later" before node "n" defines it'):
        import_model(model_of(nodes, inputs, ["y"]), context())


def test_names_given_twice():
    with pytest.raises(InputError, match='two inputs have the name "x"'):
        import_model(model_of([], [value_info("x", X), value_info("x", X)], ["x"]), context())
    model = model_of([], [], ["c"], {"c": X})
    model.graph.initializer.append(numpy_helper.from_array(X, "c"))
    with pytest.raises(InputError, match='two initializers have the name "c"'):
        import_model(model, context())


def test_tensors_whose_data_do_not_fit():
    for field, value in (("dims", [10**9]), ("raw_data", b"abc"), ("data_type", 0), ("data_type", 999)):
        model = model_of([node("Relu", "c", "y")], [], ["y"], {"c": X})
        tensor = model.graph.initializer[0]
        if field == "dims":
            tensor.ClearField("dims")
            tensor.dims.extend(value)
        else:
            setattr(tensor, field, value)
        with pytest.raises(InputError, match='tensor "c": expected'):
            import_model(model, context())


def test_sparse_initializers_are_refused():
    model = model_of([node("Relu", "c", "y")], [], ["y"])
    model.graph.sparse_initializer.add().values.name = "c"
    with pytest.raises(UnsupportedError, match='initializer "c" is sparse'):
        import_model(model, context())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "found no such file"),
        (b"", "found an empty file"),
        (b"this is a text, not a model\n" * 10, "expected an ONNX model"),
        (bytes(range(256)), "expected an ONNX model"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, content: bytes | None, message: str):
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as error:
        import_model(path, context())
    assert message in str(error.value)
    assert str(error.value.place) == str(path)


def test_a_directory_is_no_model(tmp_path: Path):
    with pytest.raises(InputError, match="expected an ONNX model, found a directory"):
        import_model(tmp_path, context())


def test_every_truncation_of_a_model_is_an_error(tmp_path: Path):
    whole = model_of([node("Relu", "x", "y")], [value_info("x", X)], ["y"]).SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            import_model(path, context())
    path.write_bytes(whole)
    ctx = context()
    module = import_model(str(path), ctx)
    verify_module(module)
    assert_close(evaluate_module(module, {"x": X}, ctx.weights), {"y": np.maximum(X, 0)})
