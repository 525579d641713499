"""Public faults of hostile and broken files (part X) and their kin: refused by name, with nothing else touched."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlopt
from mlopt.compilation import compile_model, load_model
from mlopt.diagnostics import InputError, MloptError
from mlopt.export import save_onnx
from mlopt.frontend.onnx import import_model
from mlopt.options import CompileOptions
from mlopt.save import save_model
from tests.cases.models import check
from tests.frontend.onnx_models import context, model_of, one_node, value_info

X = np.ones((2, 3), np.float32)
LARGE = np.random.default_rng(0).standard_normal((64, 64), np.float32)


def product() -> onnx.ModelProto:
    """x @ w, with a weight that is stored outside of the IR."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model_of([node], [value_info("x", LARGE[:2])], ["y"], {"w": LARGE})


# X01: what is written stays in the folder that was named, whatever is there already. (Loading: test_external_data.py.)


def _save_ir(folder: Path) -> list[Path]:
    compiled = compile_model(load_model(product(), CompileOptions()))
    save_model(compiled.module, compiled.ctx.weights, folder / "out.mlir")
    return [folder / "out.mlir", folder / "out.safetensors"]


def _save_onnx(folder: Path) -> list[Path]:
    compiled = compile_model(load_model(product(), CompileOptions()), "graph")
    return save_onnx(compiled.module, compiled.ctx.weights, folder / "out.onnx", external_data=True)


SAVES = [_save_ir, _save_onnx]


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("kind", ["symbolic", "hard", "dangling"])
def test_x01_a_link_in_the_place_of_the_weights_is_not_written_through(
    save: Callable[[Path], list[Path]], kind: str, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    (tmp_path / "folder").mkdir()
    names = [path.name for path in save(tmp_path)]
    weights = tmp_path / "folder" / names[1]
    if kind == "hard":
        weights.hardlink_to(outside)
    else:
        weights.symlink_to(outside if kind == "symbolic" else tmp_path / "none")
    model, data = save(tmp_path / "folder")
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "none").exists()
    assert not data.is_symlink()
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == sorted(names)
    got = mlopt.compile(model).run({"x": LARGE[:2]})["y"]
    np.testing.assert_allclose(got, LARGE[:2] @ LARGE, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("save", SAVES)
def test_x01_nothing_half_written_is_left(
    save: Callable[[Path], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The weights can't be put in place: the old files are as they were, and no others are there."""
    paths = save(tmp_path)
    before = {path: path.read_bytes() for path in paths}

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(InputError, match="can't write here: No space left on device"):
        save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["a b.onnx", "ü.onnx", "..onnx.onnx", "model.v1.onnx"])
def test_x01_exported_data_have_a_plain_name(name: str, tmp_path: Path):
    compiled = compile_model(load_model(product(), CompileOptions()), "graph")
    model, data = save_onnx(compiled.module, compiled.ctx.weights, tmp_path / name, external_data=True)
    for tensor in onnx.load(model, load_external_data=False).graph.initializer:
        locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
        assert locations in ([], [data.name])
    np.testing.assert_allclose(
        mlopt.compile(model).run({"x": LARGE[:2]})["y"], LARGE[:2] @ LARGE, rtol=1e-4, atol=1e-4
    )


def test_x01_external_data_of_more_tensors_than_there_are_files_to_open(tmp_path: Path):
    """1500 tensors in one file: it is mapped once, and not once for each, which takes a file descriptor each time."""
    count, each = 1500, 16
    data = np.arange(count * each, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(data.tobytes())
    names = [f"w{index}" for index in range(count)]
    model = model_of([helper.make_node("Concat", names, ["y"], axis=0)], [], ["y"])
    for index, name in enumerate(names):
        tensor = model.graph.initializer.add(
            name=name, data_type=TensorProto.FLOAT, dims=[each], data_location=TensorProto.EXTERNAL
        )
        for key, value in (
            ("location", "w.bin"),
            ("offset", str(4 * index * each)),
            ("length", str(4 * each)),
        ):
            tensor.external_data.add(key=key, value=value)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(mlopt.compile(path).run({})["y"], data)


# X03: malformed but parseable models.


def _refused(model: onnx.ModelProto, message: str, node: str | None) -> None:
    """An error with that message at that node, without the memory that the numbers in the model ask for."""
    tracemalloc.start()
    try:
        with pytest.raises(MloptError, match=message) as error:
            import_model(model, context(), inputs={})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24
    assert error.value.place is not None
    assert error.value.place.node == node


def test_x03_gemm_of_a_scalar():
    inputs = {"a": np.array(1, np.float32), "b": X}
    _refused(one_node("Gemm", inputs, transB=823), "Gemm: expected a matrix as input 0", "n")


def test_x03_a_weight_of_higher_rank_than_the_input():
    for op_type in ("Conv", "ConvTranspose"):
        inputs = {"x": np.ones((1, 2, 8), np.float32), "w": np.ones((2, 2, 3, 3), np.float32)}
        _refused(one_node(op_type, inputs), op_type, "n")


@pytest.mark.parametrize("length", [10**9, 2**40, 2**62])
@pytest.mark.parametrize("op_type", ["Reshape", "Expand", "ConstantOfShape"])
def test_x03_a_shape_vector_without_end(length: int, op_type: str):
    operands = ["s"] if op_type == "ConstantOfShape" else ["x", "s"]
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["length"], ["s"], "long", value=numpy_helper.from_array(np.array([1]))
        ),
        helper.make_node(op_type, operands, ["y"], "n"),
    ]
    model = model_of(nodes, [value_info("x", X)], ["y"], {"length": np.array([length])})
    with pytest.raises(MloptError) as error:
        mlopt.compile(model)
    assert error.value.place is not None
    assert error.value.place.node in ("n", "long")


@pytest.mark.parametrize("shape", [[2**31, 2**31], [2**62, 4], [-(2**63)], [2**40, 0, 2**40]])
def test_x03_shapes_whose_product_is_beyond_all_memory(shape: list[int]):
    for op_type, operands in (("ConstantOfShape", ["s"]), ("Expand", ["x", "s"]), ("Reshape", ["x", "s"])):
        node = helper.make_node(op_type, operands, ["y"], "n")
        x = np.ones((1,) * len(shape), np.float32)
        model = model_of([node], [value_info("x", x)], ["y"], {"s": np.array(shape)})
        with pytest.raises(MloptError):
            mlopt.compile(model)


@pytest.mark.parametrize("dims", [[10**9], [2**40, 2**40], [2**40, 2**40, 0], [-1], [-1, -12]])
@pytest.mark.parametrize("external", [False, True])
def test_x03_a_tensor_of_another_size_than_its_data(dims: list[int], external: bool, tmp_path: Path):
    model = model_of([helper.make_node("Relu", ["c"], ["y"], "n")], [], ["y"])
    tensor = model.graph.initializer.add(name="c", dims=dims, data_type=TensorProto.FLOAT)
    if external:
        (tmp_path / "w.bin").write_bytes(bytes(48))
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    else:
        tensor.raw_data = bytes(48)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match='tensor "c"'):
        import_model(path, context())


def test_x03_truth_values_that_are_neither_0_nor_1():
    """ONNX keeps a bool in a byte; numpy computes nonsense with other bytes than 0 and 1. Any but 0 is true."""
    model = model_of([helper.make_node("Not", ["c"], ["y"])], [], ["y"])
    data = bytes([0, 1, 2, 255])
    model.graph.initializer.add(name="c", dims=[4], data_type=TensorProto.BOOL, raw_data=data)
    check(model, {}, {"y": np.array([True, False, False, False])})


def test_x03_cycles_and_values_defined_twice():
    cyclic = [
        helper.make_node("Add", ["x", "b"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "second"),
    ]
    _refused(model_of(cyclic, [value_info("x", X)], ["b"]), "the graph has a cycle", "first")
    twice = [
        helper.make_node("Relu", ["x"], ["y"], "first"),
        helper.make_node("Neg", ["x"], ["y"], "second"),
    ]
    message = 'Neg: defines the value "y", which node "first" defines already'
    _refused(model_of(twice, [value_info("x", X)], ["y"]), message, "second")


@pytest.mark.parametrize("opset", [11, 13])
def test_x03_functions_that_call_themselves(opset: int):
    """Of the version of the model, which is inlined, and of another."""

    def function(name: str, called: str) -> onnx.FunctionProto:
        call = helper.make_node(called, ["a"], ["r"], domain="own")
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, ["a"], ["r"], [call], opsets)

    call = helper.make_node("F", ["x"], ["y"], domain="own")
    for functions in ([function("F", "F")], [function("F", "G"), function("G", "F")]):
        model = model_of([call], [value_info("x", X)], ["y"], opset=13, domains={"own": 1})
        model.functions.extend(functions)
        with pytest.raises(InputError, match='function "F" calls itself'):
            import_model(model, context())


def test_x03_graphs_nested_deeper_than_a_file_can_say(tmp_path: Path):
    """Protobuf itself ends at a depth of 100 messages: an error of the file, as in onnxruntime."""
    path, content = tmp_path / "m.onnx", b"\x0a\x00"
    for field in [1, 5, 6] * 40:  # GraphProto.node, NodeProto.attribute, AttributeProto.g
        content = bytes([field << 3 | 2]) + onnx_length(len(content)) + content
    path.write_bytes(b"\x08\x08" + b"\x3a" + onnx_length(len(content)) + content)
    with pytest.raises(InputError, match="expected an ONNX model"):
        import_model(path, context())


def onnx_length(length: int) -> bytes:
    """A length as protobuf writes it."""
    out = bytearray()
    while length >= 0x80:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*out, length])
