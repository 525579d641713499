"""External data: read from inside the model's folder and nowhere else, mapped and not copied."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mlopt.diagnostics import InputError
from mlopt.frontend.onnx import import_model
from mlopt.interpreter.graph import evaluate_module
from tests.frontend.onnx_models import context, model_of

DATA = np.arange(100, dtype=np.float32)


def write_model(folder: Path, location: str, **entries: str) -> Path:
    """A model that returns a tensor of 100 elements whose data are in another file."""
    model = model_of([helper.make_node("Relu", ["w"], ["y"])], [], ["y"])
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=DATA.shape, data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.append(onnx.StringStringEntryProto(key=key, value=value))
    model.graph.initializer.append(tensor)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def output(path: Path) -> np.ndarray:
    ctx = context()
    module = import_model(path, ctx)
    return evaluate_module(module, {}, ctx.weights)["y"]


def test_data_beside_the_model_and_below_it(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/w.bin").write_bytes(b"12345678" + DATA.tobytes())
    np.testing.assert_array_equal(output(write_model(tmp_path, "sub/w.bin", offset="8")), DATA)
    np.testing.assert_array_equal(output(write_model(tmp_path, "sub/w.bin", offset="8", length="400")), DATA)


def test_the_working_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_model(tmp_path / "models", "w.bin")
    (tmp_path / "models/w.bin").write_bytes(DATA.tobytes())
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(output(Path("models/m.onnx")), DATA)
    monkeypatch.chdir(tmp_path / "models")
    np.testing.assert_array_equal(output(Path("m.onnx")), DATA)


def test_a_download_cache_links_model_and_data(tmp_path: Path):
    """As the Hugging Face cache does: both names are links to one folder of files named by their contents."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots/1"
    snapshot.mkdir(parents=True)
    write_model(blobs, "m.onnx_data").rename(blobs / "aaa")
    (blobs / "bbb").write_bytes(DATA.tobytes())
    (snapshot / "m.onnx").symlink_to("../../blobs/aaa")
    (snapshot / "m.onnx_data").symlink_to("../../blobs/bbb")
    np.testing.assert_array_equal(output(snapshot / "m.onnx"), DATA)


def test_the_data_are_mapped_and_later_writes_to_the_store_are_impossible(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    ctx = context()
    import_model(write_model(tmp_path, "w.bin"), ctx)
    array = ctx.weights.get("w")
    assert not array.flags.writeable
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.bin", "must not go up with '..'"),
        ("sub/../../w.bin", "must not go up with '..'"),
        ("..\\w.bin", "must not go up with '..'"),
        ("/etc/passwd", "must be given relative to the model's folder"),
        ("C:\\w.bin", "must be given relative to the model's folder"),
        ("", "has no valid name"),
        ("none.bin", "does not exist"),
        ("folder", "is no file"),
        ("link.bin", "leads out of the model's folder through a link"),
        ("linked/w.bin", "leads out of the model's folder through a link"),
        ("hard.bin", "has several hard links"),
    ],
)
def test_locations_that_are_refused(tmp_path: Path, location: str, message: str):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    model = write_model(tmp_path / "model", location)
    (model.parent / "folder").mkdir()
    (model.parent / "link.bin").symlink_to("../w.bin")
    (model.parent / "linked").symlink_to("..")
    os.link(tmp_path / "w.bin", model.parent / "hard.bin")
    with pytest.raises(InputError) as error:
        import_model(model, context())
    assert error.value.message.startswith(f'tensor "w": its data file "{location}" ')
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "4"}, "expected bytes 4 to 404 of"),
        ({"offset": "-4"}, 'expected a number for its offset, found "-4"'),
        ({"length": "396"}, "expected 400 bytes of data, found length 396"),
        ({"length": "many"}, 'expected a number for its length, found "many"'),
        ({"offset": "9" * 30}, "which has 400"),
    ],
)
def test_ranges_that_do_not_fit(tmp_path: Path, entries: dict[str, str], message: str):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    with pytest.raises(InputError) as error:
        import_model(write_model(tmp_path, "w.bin", **entries), context())
    assert message in str(error.value)


def test_a_model_in_memory_has_no_folder(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    model = onnx.load(write_model(tmp_path, "w.bin"), load_external_data=False)
    with pytest.raises(InputError, match="in another file, which a model in memory can't have"):
        import_model(model, context())
