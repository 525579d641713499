"""`.npz` files and saved models with types that numpy lacks: bfloat16, floats of 8 bits and fewer, packed integers."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mlopt as api
from mlopt.arrays import read_npz, write_npz
from mlopt.weights import WeightStore
from tests.cli.mlopt_command import Command
from tests.test_narrow_types import PACKED, dequantize, model_of, numbers

TYPES = (*PACKED, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu)


@pytest.mark.parametrize("dtype", PACKED)
def test_models_on_disk(dtype: type, mlopt: Command) -> None:
    """Safetensors have a byte for each element, and their metadata the type."""
    values = numbers(dtype, 20, 7)
    onnx.save(dequantize(numpy_helper.from_array(values, "w")), "w.onnx")
    assert mlopt("import", "w.onnx", "-o", "w.mlir").code == 0
    store = WeightStore.load(Path("w.safetensors"))
    assert (store.dtype("w"), store.nbytes("w")) == (np.dtype(dtype), 140)
    (found,) = api.compile(Path("w.mlir")).run({}).values()
    np.testing.assert_array_equal(found, values.astype(np.float32) * np.float32(0.5))


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_keep_their_type_in_files(dtype: type, tmp_path: Path) -> None:
    arrays = {"matrix": np.array([[1, 2], [0.5, 3]]).astype(dtype), "number": np.array(1, dtype)}
    arrays["empty"] = np.empty((0, 3), dtype)
    write_npz(tmp_path / "a.npz", arrays)
    found = read_npz(tmp_path / "a.npz", "in")
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    with np.load(tmp_path / "a.npz") as file:
        name = np.dtype(dtype).name
        np.testing.assert_array_equal(file["matrix"][name].view(dtype), arrays["matrix"])


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", ["mlopt", "numpy"])
def test_run_and_check_with_files(dtype: type, form: str, mlopt: Command) -> None:
    """What numpy wrote itself are raw bytes of the types that the model declares."""
    x = np.array([[1, -2], [3, -4]]).astype(dtype)
    model = model_of([helper.make_node("Transpose", ["x"], ["y"])], {"x": x}, [])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    onnx.save(model, "t.onnx")
    write = (lambda name, arrays: np.savez(name, **arrays)) if form == "numpy" else write_npz
    write(Path("in.npz"), {"x": x})
    write(Path("right.npz"), {"y": x.T})
    write(Path("wrong.npz"), {"y": -x.T.astype(np.float32).astype(dtype)})
    done = mlopt("run", "t.onnx", "--inputs", "in.npz", "--check", "right.npz", "--outputs", "out.npz")
    assert (done.code, done.err) == (0, "wrote out.npz\n"), done
    np.testing.assert_array_equal(read_npz(Path("out.npz"), "out")["y"], x.T)
    assert mlopt("run", "t.onnx", "--inputs", "in.npz", "--check", "wrong.npz").code == 1


def test_raw_bytes_of_another_size_are_refused(mlopt: Command) -> None:
    x = np.array([1, -2], ml_dtypes.bfloat16)
    onnx.save(model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": x.astype(np.float32)}, []), "n.onnx")
    np.savez("in.npz", x=x)
    done = mlopt("run", "n.onnx", "--inputs", "in.npz")
    assert done.code == 1 and 'input "x": expected float32, found |V2' in done.err
