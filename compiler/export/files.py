"""Writing an exported model: one file, or the graph in one and its weights in another beside it (external data)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import ModuleOp

from mlopt.diagnostics import InputError, Place
from mlopt.export.builder import Initializer
from mlopt.export.exporter import ExportedModel, export_graph
from mlopt.export.types import is_packed, onnx_type, tensor_proto
from mlopt.files import check_writable, replacing
from mlopt.weights import WeightStore

MAX_FILE_BYTES = 2**31 - 1
"""What a protobuf message may have: larger models have their weights in a file of their own."""

MIN_EXTERNAL_BYTES = 1024
"""Smaller initializers stay in the model: they may be shapes, which tools read to infer types."""

ALIGNMENT = 4096
"""Bytes that external data start at a multiple of, so that they can be mapped into memory as they are."""

_TENSOR_BYTES = 64
"""What a tensor adds to its data and its name in a file, at most."""


def check_onnx_path(path: Path) -> None:
    """Raise `InputError` unless a model can be written to `path`, an `.onnx` file."""
    if path.suffix != ".onnx":
        raise InputError("expected the name of an .onnx file to write", place=Place(str(path)))
    check_writable(path)
    check_writable(data_path(path))


def data_path(path: Path) -> Path:
    """The file for the weights beside the model's."""
    return path.with_name(f"{path.name}.data")


def save_onnx(
    module: ModuleOp,
    weights: WeightStore,
    path: Path,
    *,
    external_data: bool = False,
    opset: int | None = None,
) -> list[Path]:
    """Write a module at the graph level as an ONNX model; returns the files written, the model first.

    Weights are in the file, or with `external_data`, or if it would be larger than 2 GB, in `NAME.onnx.data` beside it.
    The operator set is `opset`, or the oldest that does (`to_onnx`).
    Both files are whole or not there: the weights take their place first, so that a reader of the model finds them.
    Errors are those of `to_onnx` and `check_onnx_path`.
    """
    check_onnx_path(path)
    exported = export_graph(module, weights, opset)
    external = external_data or _file_bytes(exported) > MAX_FILE_BYTES
    apart = [i for i in exported.initializers if external and i.nbytes >= MIN_EXTERNAL_BYTES]
    with ExitStack() as files:
        file = files.enter_context(replacing(path))
        data = files.enter_context(replacing(data_path(path), follow=False)) if apart else None
        _add_initializers(exported, apart, data, data_path(path).name)
        file.write(exported.proto.SerializeToString(deterministic=True))
        file.flush()
    return [path, data_path(path)] if apart else [path]


def _file_bytes(exported: ExportedModel) -> int:
    """How large a file with everything in it can be."""
    sizes = (
        i.nbytes + len(i.value.name.encode()) + _TENSOR_BYTES + 10 * len(i.shape)
        for i in exported.initializers
    )
    return exported.proto.ByteSize() + sum(sizes)


def _add_initializers(
    exported: ExportedModel, apart: Sequence[Initializer], data: BinaryIO | None, location: str
) -> None:
    """Add all initializers to the model, those of `apart` as places in the file `data`."""
    external = {initializer.value.name for initializer in apart}
    for initializer in exported.initializers:
        value = initializer.value
        if data is None or value.name not in external:
            tensor = tensor_proto(initializer.array(), value.name)
        else:
            tensor = _write_apart(initializer, data, location)
        exported.proto.graph.initializer.append(tensor)


def _write_apart(initializer: Initializer, data: BinaryIO, location: str) -> TensorProto:
    """Write the elements of an initializer to `data`; returns the tensor that says where they are."""
    value, array = initializer.value, initializer.array()
    data.write(b"\0" * (-data.tell() % ALIGNMENT))
    offset = data.tell()
    if is_packed(value.element):
        data.write(tensor_proto(array, value.name).raw_data)
    else:
        data.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    tensor = TensorProto(
        name=value.name,
        dims=initializer.shape,
        data_type=onnx_type(value.element),
        data_location=TensorProto.EXTERNAL,
    )
    for key, entry in (("location", location), ("offset", offset), ("length", data.tell() - offset)):
        tensor.external_data.add(key=key, value=str(entry))
    return tensor
