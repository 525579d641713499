"""Reading a model without its weights: the same model, the same weights, and files written in unusual ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mlopt.diagnostics import InputError
from mlopt.frontend.onnx import import_model
from mlopt.frontend.onnx.reader import read_model
from mlopt.frontend.onnx.weightless import without_weights
from mlopt.interpreter.graph import evaluate_module
from tests.frontend.onnx_models import context, model_of

MODELS = Path(__file__).parents[1] / "models"
LARGE = np.random.default_rng(0).standard_normal((40, 50), np.float32)


def model(**constants: np.ndarray) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", [name], [f"y_{name}"]) for name in constants]
    return model_of(nodes, [], [f"y_{name}" for name in constants], constants)


def outputs(path: Path) -> dict[str, np.ndarray]:
    ctx = context()
    return evaluate_module(import_model(path, ctx), {}, ctx.weights)


@pytest.mark.parametrize("name", ["bert_tiny_dyn", "resnet18s_legacy17"])
def test_what_is_read_is_the_model_without_large_weights(name: str):
    path = MODELS / f"{name}.onnx"
    expected = onnx.load(path)
    read = read_model(path)
    assert sum(span.length for span in read.spans.values()) > 0.95 * path.stat().st_size
    for tensor in expected.graph.initializer:
        if tensor.name in read.spans:
            span = read.spans[tensor.name]
            assert read.files.part(span.path, span.offset, span.length).tobytes() == tensor.raw_data
            tensor.ClearField("raw_data")
    assert read.proto == expected


def test_large_weights_have_their_values(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model(a=LARGE, small=LARGE[0], b=-LARGE).SerializeToString())
    assert set(read_model(path).spans) == {"a", "b"}
    got = outputs(path)
    np.testing.assert_array_equal(got["y_a"], np.maximum(LARGE, 0))
    np.testing.assert_array_equal(got["y_b"], np.maximum(-LARGE, 0))


def test_a_graph_in_two_pieces_is_read_whole(tmp_path: Path):
    """Protobuf merges a field that appears twice: here the second piece of the graph has the nodes."""
    whole = model(a=LARGE)
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(whole)
    del first.graph.node[:]
    second.graph.node.extend(whole.graph.node)
    path = tmp_path / "m.onnx"
    path.write_bytes(first.SerializeToString() + second.SerializeToString())
    assert read_model(path).spans == {}
    np.testing.assert_array_equal(outputs(path)["y_a"], np.maximum(LARGE, 0))


def test_data_of_the_wrong_length_are_an_error(tmp_path: Path):
    broken = model(a=LARGE)
    broken.graph.initializer[0].dims[0] = 41
    path = tmp_path / "m.onnx"
    path.write_bytes(broken.SerializeToString())
    with pytest.raises(InputError, match='tensor "a": expected 8200 bytes of data, found 8000'):
        import_model(path, context())


def test_files_that_are_no_messages_are_returned_whole(tmp_path: Path):
    whole = model(a=LARGE).SerializeToString()
    for content in (b"\xff" * 100, b"text", whole[:-1], b"\x3a\x7f", b""):
        path = tmp_path / "m"
        path.write_bytes(content)
        assert without_weights(path) == (content, {})


def test_constants_inside_nodes_stay_in_the_model(tmp_path: Path):
    node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(LARGE))
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of([node], [], ["c"]).SerializeToString())
    np.testing.assert_array_equal(outputs(path)["c"], LARGE)
