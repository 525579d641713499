"""The onnx package's backend interface: what users of `onnx.backend.base` expect of one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.backend.base import Backend

import mlopt
from mlopt import onnx_backend
from mlopt.onnx_backend import MloptBackend


def model(op_type: str = "Add", element: int = TensorProto.FLOAT, default: bool = False) -> ModelProto:
    """`sum:0 = a + b` over vectors of any length; b may have the default [10, 20]."""
    node = helper.make_node(op_type, ["a", "b"], ["sum:0"])
    inputs = [helper.make_tensor_value_info(name, element, ["n"]) for name in ("a", "b")]
    outputs = [helper.make_tensor_value_info("sum:0", element, ["n"])]
    defaults = [numpy_helper.from_array(np.array([10, 20], np.float32), "b")] if default else []
    return helper.make_model(helper.make_graph([node], "g", inputs, outputs, defaults))


A, B = np.array([1, 2], np.float32), np.array([3, 5], np.float32)


def test_it_is_a_backend() -> None:
    assert issubclass(MloptBackend, Backend)
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")
    assert not onnx_backend.supports_device("no such thing")


@pytest.mark.parametrize("inputs", [[A, B], (A, B), {"b": B, "a": A}])
def test_inputs_in_order_or_by_name(inputs: object) -> None:
    outputs = onnx_backend.run_model(model(), inputs)
    np.testing.assert_array_equal(outputs[0], [4, 7])
    assert len(outputs) == 1


def test_outputs_by_name() -> None:
    """The names of a model need not be Python's."""
    outputs = onnx_backend.run_model(model(), [A, B])
    np.testing.assert_array_equal(outputs["sum:0"], [4, 7])  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_one_input_with_the_other_by_default() -> None:
    np.testing.assert_array_equal(onnx_backend.run_model(model(default=True), A)[0], [11, 22])


def test_a_prepared_model_meets_inputs_of_several_shapes() -> None:
    prepared = onnx_backend.prepare(model())
    for n in (2, 5, 0):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(prepared.run([x, x])[0], 2 * x)


def test_values_that_decide_shapes() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, -1]):
        (y,) = onnx_backend.run_node(node, [x, np.array(shape)])
        np.testing.assert_array_equal(y, x.reshape(shape))


def test_one_node_with_an_input_twice() -> None:
    (y,) = onnx_backend.run_node(helper.make_node("Mul", ["x", "x"], ["y"]), [A, A], opset_version=13)
    np.testing.assert_array_equal(y, [1, 4])


def test_obstacles_are_operators_and_types() -> None:
    assert onnx_backend.obstacles(model()) == []
    assert onnx_backend.is_compatible(model())
    unknown = model("Magic", TensorProto.STRING)
    assert onnx_backend.obstacles(unknown) == ["type string", "operator ai.onnx.Magic"]
    assert not onnx_backend.is_compatible(unknown)
    with pytest.raises(mlopt.UnsupportedError, match=r"type string; operator ai\.onnx\.Magic"):
        onnx_backend.prepare(unknown)


def test_what_is_wrong_gets_a_sentence() -> None:
    with pytest.raises(mlopt.UnsupportedError, match='device "CUDA" is not supported'):
        onnx_backend.prepare(model(), "CUDA")
    with pytest.raises(mlopt.InputError, match="expected 2 inputs, found 1"):
        onnx_backend.run_model(model(), [A])
    with pytest.raises(mlopt.InputError, match="found no_such_option"):
        onnx_backend.prepare(model(), no_such_option=1)
    with pytest.raises(mlopt.InputError, match="expected 2 inputs, found 3"):
        onnx_backend.run_node(helper.make_node("Add", ["a", "b"], ["c"]), [A, A, A])
    with pytest.raises(mlopt.InputError, match="no graph"):
        onnx_backend.prepare(ModelProto())
