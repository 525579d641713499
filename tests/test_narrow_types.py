"""Models with types of less than a byte and other types that numpy lacks, from every kind of file to numbers."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlopt
from mlopt import InputError, UnsupportedError
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import PipelineOptions
from mlopt.weights import WeightStore
from mlopt.weights.sub_byte import WIDTHS
from tests.mlir_opt import check_with_mlir_opt
from tests.onnx_oracle import run_model

SUB_BYTE = (ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4)
UNOPTIMIZED = CompileOptions(pipeline=PipelineOptions(optimize=False))
PACKED = (*SUB_BYTE, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn)


def numbers(dtype: type, *shape: int) -> np.ndarray:
    """Numbers of all bit patterns of a packed type, in an order that is not theirs."""
    count, bits = int(np.prod(shape)), WIDTHS[np.dtype(dtype)]
    return ((np.arange(count) * 7 + 3) % (1 << bits)).astype(np.uint8).view(dtype).reshape(shape)


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], constants: list[TensorProto], opset: int = 25
) -> onnx.ModelProto:
    """A model with the output y; its type is left open."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def dequantize(weights: TensorProto, block: int = 0) -> onnx.ModelProto:
    """y = weights * scale, by blocks along axis 0 if they are given."""
    rows, columns = weights.dims
    scale = np.linspace(0.5, 2, max(1, rows // block) * columns if block else 1, dtype=np.float32)
    scales = numpy_helper.from_array(scale.reshape((-1, columns) if block else ()), "scale")
    attributes = {"block_size": block} if block else {}
    node = helper.make_node("DequantizeLinear", ["w", "scale"], ["y"], axis=0, **attributes)
    return model_of([node], {}, [weights, scales], 28)


def as_i32_data(array: np.ndarray) -> TensorProto:
    """The packed bytes in `int32_data`, as older writers have them; of 6 bits each element in a number of its own."""
    raw = numpy_helper.from_array(array, "w")
    tensor = TensorProto(name="w", data_type=raw.data_type, dims=raw.dims)
    whole = WIDTHS[array.dtype] == 6
    tensor.int32_data.extend(array.view(np.uint8).reshape(-1).tolist() if whole else raw.raw_data)
    return tensor


@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize("shape", [(3, 5), (128, 65)])  # odd, and large enough to stay in the file
@pytest.mark.parametrize("form", ["raw", "int32", "external"])
def test_packed_initializers(dtype: type, shape: tuple[int, int], form: str, tmp_path: Path) -> None:
    values = numbers(dtype, *shape)
    weights = as_i32_data(values) if form == "int32" else numpy_helper.from_array(values, "w")
    path = tmp_path / "m.onnx"
    onnx.save(dequantize(weights), path, save_as_external_data=form == "external", size_threshold=0)
    (found,) = mlopt.compile(path).run({}).values()
    np.testing.assert_array_equal(found, values.astype(np.float32) * np.float32(0.5))


def test_packed_data_of_the_wrong_length(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(numbers(ml_dtypes.int4, 3, 5), "w")
    weights.raw_data += b"\0"
    with pytest.raises(InputError, match='tensor "w": expected 8 bytes of data, found 9'):
        mlopt.compile(dequantize(weights))
    weights = as_i32_data(numbers(ml_dtypes.int4, 3, 5))
    weights.int32_data.append(0)
    with pytest.raises(InputError, match='tensor "w": expected 8 numbers in int32_data, found 9'):
        mlopt.compile(dequantize(weights))


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_blocked_weights_against_onnxruntime(dtype: type) -> None:
    model = dequantize(numpy_helper.from_array(numbers(dtype, 32, 6), "w"), block=16)
    model.opset_import[0].version = 21  # the newest that it has for them
    (found,) = mlopt.compile(model).run({}).values()
    (want,) = run_model(model, {})
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", SUB_BYTE)
def test_inputs_and_outputs(dtype: type) -> None:
    """Whatever is in the unused bits of an input's bytes does not count."""
    x = numbers(dtype, 3, 4)
    nodes = [helper.make_node("Transpose", ["x"], ["y"])]
    model = mlopt.compile(model_of(nodes, {"x": x}, []))
    assert [spec.dtype for spec in (*model.inputs, *model.outputs)] == [np.dtype(dtype)] * 2
    for unused in (0, 0x50, 0xF0):
        given = (x.view(np.uint8) | np.uint8(unused)).view(dtype)
        (found,) = model.run({"x": given}).values()
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, x.T)


@pytest.mark.parametrize("dtype", SUB_BYTE)
def test_padding_and_control_flow(dtype: type) -> None:
    x = numbers(dtype, 3, 4)
    pads, value = np.array([1, 0, 0, 2]), np.array(1, dtype)
    inner = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads", "value"], ["t"])], "then", [], [onnx.ValueInfoProto(name="t")]
    )
    other = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["e"])], "else", [], [onnx.ValueInfoProto(name="e")]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)
    constants = [numpy_helper.from_array(pads, "pads"), numpy_helper.from_array(value, "value")]
    model = mlopt.compile(model_of([node], {"x": x, "c": np.array(True)}, constants))
    wide = x.astype(np.int8)
    for condition in (True, False):
        (found,) = model.run({"x": x, "c": np.array(condition)}).values()
        want = np.pad(wide, [(1, 0), (0, 2)], constant_values=int(condition))
        np.testing.assert_array_equal(found.astype(np.int8), want)


def test_the_text_of_each_level(tmp_path: Path) -> None:
    """What is printed is read back; below the graph level a number is a byte, and the interface knows its type."""
    table = numpy_helper.from_array(np.array([-8, 7, -1], ml_dtypes.int4), "table")
    nodes = [
        helper.make_node("Cast", ["table"], ["wide"], to=TensorProto.INT32),
        helper.make_node("Add", ["wide", "x"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.INT4),
    ]
    x = np.array([0, 1, 100], np.int32)
    model = mlopt.compile(model_of(nodes, {"x": x}, [table]), options=UNOPTIMIZED)
    assert "dense<[-8, 7, -1]> : tensor<3xi4>" in model.ir("graph")
    assert 'memref<3xi8> {mlopt.output = "y", mlopt.dtype = "int4"}' in model.ir("memref")
    check_with_mlir_opt(model.ir("memref"))
    for level in ("graph", "kernel", "memref"):
        (found,) = mlopt.compile(model.ir(level)).run({"x": x}).values()
        assert found.dtype == ml_dtypes.int4
        np.testing.assert_array_equal(found.astype(np.int32), [-8, -8, 3])  # 8 and 99 wrap


def test_bytes_out_of_range_in_a_weight_file(tmp_path: Path) -> None:
    """They mean the numbers of their low bits, whoever wrote them."""
    path = tmp_path / "w.safetensors"
    store = WeightStore()
    store.add(np.array([1, -2] * 40, ml_dtypes.int4), "w")
    store.save(path, ["w"])
    data = bytearray(path.read_bytes())
    data[-1], data[-2] = 0x5E, 0xF1
    path.write_bytes(data)
    array = WeightStore.load(path).get("w")
    np.testing.assert_array_equal(array.astype(np.int8), [1, -2] * 40)
    np.testing.assert_array_equal(array.view(np.int8), [1, -2] * 40)


@pytest.mark.parametrize(
    "text",
    [
        'dense<"0x0180"> : tensor<2xui4>',
        'dense<"0x0108"> : tensor<2xi4>',
        'dense<"0x11"> : tensor<1xf4E2M1FN>',
    ],
)
def test_bytes_out_of_range_in_the_text(text: str) -> None:
    with pytest.raises(mlopt.MloptError, match="is out of range for type"):
        mlopt.compile(f"func.func @main() {{\n  %c = graph.constant {text}\n  func.return\n}}")


def test_other_widths_are_no_types_of_the_engine() -> None:
    text = """
        func.func @main(%arena: memref<0xi8> {mlopt.arena}, %x: memref<2xi4> {mlopt.input = "x"},
                        %y: memref<2xi4> {mlopt.output = "y"}) {
          memref.copy %x, %y : memref<2xi4> to memref<2xi4>
          return
        }"""
    with pytest.raises(UnsupportedError, match="memref<2xi4>, expected integers of 1, 8, 16, 32 or 64 bits"):
        mlopt.compile(text)
