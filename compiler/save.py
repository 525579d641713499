"""Writing a module and the weights it uses: `model.mlir` and `model.safetensors`, both whole or neither."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from mlopt.diagnostics import InputError, Place
from mlopt.dialects.mlopt import WeightAttr
from mlopt.files import check_writable, replacing
from mlopt.ir.printer import print_module
from mlopt.weights import WeightStore
from mlopt.weights.safetensors_file import check_replaceable


def save_model(module: ModuleOp, weights: WeightStore, path: Path) -> list[Path]:
    """Write the module to `path` and the weights that it names beside it, as `STEM.safetensors`; the files written.

    The weights take their place first: a reader of a whole `.mlir` file finds them. Raises `InputError` if the files
    can't be written, or one of that name was not written by mlopt.
    """
    check_model_path(path)
    names = used_weights(module)
    beside = path.with_suffix(".safetensors")
    with replacing(path) as file:
        file.write(print_module(module, debuginfo=True).encode())
        file.flush()
        if names:
            weights.save(beside, names)
    return [path, beside] if names else [path]


def check_model_path(path: Path) -> None:
    """Raise `InputError` unless a model can be written to `path`, an `.mlir` file."""
    if path.suffix != ".mlir":
        raise InputError("expected the name of an .mlir file to write", place=Place(str(path)))
    check_writable(path)
    beside = path.with_suffix(".safetensors")
    check_writable(beside)
    check_replaceable(beside)


def used_weights(module: ModuleOp) -> list[str]:
    """The names of the weights that a module refers to, at any level, in the order they first appear."""
    names: dict[str, None] = {}
    for op in module.walk():
        value = op.get_attr_or_prop("value")
        if isinstance(value, WeightAttr):
            names[value.weight.data] = None
        if isinstance(op, FuncOp) and op.arg_attrs is not None:
            for attributes in op.arg_attrs:
                name = attributes.data.get("mlopt.weight")
                if isinstance(name, StringAttr):
                    names[name.data] = None
    return list(names)
