"""Numbers for the symbolic dimensions of a model's inputs, from `--dim` and from example inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import NamedTuple, SupportsIndex

import numpy as np
import onnx
from onnx import ValueInfoProto

from mlopt.diagnostics import InputError, MissingSizeError, Place, UnsupportedError
from mlopt.ir.dtypes import typed_array


class _Axis(NamedTuple):
    """One symbolic axis of one input."""

    input: str
    axis: int
    symbol: str
    """The name to bind it by: the model's own, or `INPUT.AXIS` for a dimension without a name."""


class _Binding(NamedTuple):
    value: int
    source: str
    """Where the number comes from, in words."""


def bind_shapes(
    graph_inputs: Iterable[ValueInfoProto],
    dims: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    place: Place,
) -> dict[str, tuple[int, ...]]:
    """The static shape of every input.

    A dimension with a name in the model is bound by that name in `dims`, one without a name as `INPUT.AXIS`;
    both also take their value from the shape of an array in `inputs`. `inputs` may leave inputs out.

    `InputError` for an input or dimension that the model does not have, an array whose rank, dtype or fixed
    dimensions differ from the model's, two numbers for one dimension, and dimensions left without one.
    """
    values = list(graph_inputs)
    for value in values:
        _require_tensor(value, place)
    _check_arrays(values, inputs, place)
    axes = [axis for value in values for axis in _symbolic_axes(value)]
    bound = _bind(axes, dims, inputs, place)
    _require_all(axes, bound, place)
    symbol = {(axis.input, axis.axis): axis.symbol for axis in axes}
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        if not value.type.tensor_type.HasField("shape"):
            shapes[value.name] = _shape_of_unranked(value, inputs, place)
            continue
        declared = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(
            bound[symbol[value.name, axis]].value if (value.name, axis) in symbol else dim.dim_value
            for axis, dim in enumerate(declared)
        )
    return shapes


def has_symbolic_axes(graph_inputs: Iterable[ValueInfoProto]) -> bool:
    """Whether any extent of an input is left to be bound."""
    return any(_symbolic_axes(value) for value in graph_inputs)


def input_dtype(value: ValueInfoProto) -> np.dtype:
    """The dtype that a model declares for an input."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def typed_inputs(
    graph_inputs: Iterable[ValueInfoProto], inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The arrays, those of raw bytes as of the dtypes that the model declares."""
    values = {value.name: value for value in graph_inputs if _has_element_type(value)}
    return {
        name: typed_array(array, input_dtype(values[name])) if name in values else array
        for name, array in inputs.items()
    }


def _has_element_type(value: ValueInfoProto) -> bool:
    element = value.type.tensor_type.elem_type
    return element in onnx.TensorProto.DataType.values() and element != onnx.TensorProto.UNDEFINED


def _require_tensor(value: ValueInfoProto, place: Place) -> None:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        found = "no type" if kind is None else f"a {kind.removesuffix('_type').replace('_', ' ')}"
        raise UnsupportedError(f'input "{value.name}": expected a tensor, found {found}', place=place)
    element = value.type.tensor_type.elem_type
    if element == onnx.TensorProto.STRING:
        raise UnsupportedError(f'input "{value.name}" holds strings, which are not supported', place=place)
    if not _has_element_type(value):
        raise InputError(f'input "{value.name}" has no element type', place=place)


def _check_arrays(values: list[ValueInfoProto], inputs: Mapping[str, np.ndarray], place: Place) -> None:
    """Every array belongs to an input, and has its dtype, rank and fixed dimensions."""
    by_name = {value.name: value for value in values}
    for name, array in inputs.items():
        value = by_name.get(name)
        if value is None:
            known = ", ".join(f'"{known}"' for known in by_name) or "none"
            raise InputError(f'the model has no input "{name}"; its inputs are: {known}', place=place)
        dtype = input_dtype(value)
        if array.dtype != dtype:
            raise InputError(f'input "{name}": expected {dtype}, found {array.dtype}', place=place)
        if not value.type.tensor_type.HasField("shape"):
            continue
        declared = value.type.tensor_type.shape.dim
        fits = len(declared) == array.ndim and all(
            _is_symbolic(dim) or dim.dim_value == extent
            for dim, extent in zip(declared, array.shape, strict=True)
        )
        if not fits:
            expected = f"[{', '.join(map(_dim_text, declared))}]"
            message = f'input "{name}": expected shape {expected}, found {list(array.shape)}'
            raise InputError(message, place=place)


def _is_symbolic(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """A dimension with a name, with nothing, or with the -1 that older exporters write for an unknown one."""
    return not dim.HasField("dim_value") or dim.dim_value < 0


def _dim_text(dim: onnx.TensorShapeProto.Dimension) -> str:
    return _symbol(dim) or ("?" if _is_symbolic(dim) else str(dim.dim_value))


def _symbol(dim: onnx.TensorShapeProto.Dimension) -> str:
    """The name of a dimension, or nothing: some exporters write "?" for every one that they don't know."""
    return "" if dim.dim_param == "?" else dim.dim_param


def _symbolic_axes(value: ValueInfoProto) -> list[_Axis]:
    return [
        _Axis(value.name, axis, _symbol(dim) or f"{value.name}.{axis}")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if _is_symbolic(dim)
    ]


def _bind(
    axes: list[_Axis], dims: Mapping[str, int], inputs: Mapping[str, np.ndarray], place: Place
) -> dict[str, _Binding]:
    symbols = dict.fromkeys(axis.symbol for axis in axes)
    bound: dict[str, _Binding] = {}
    for name, number in dims.items():
        if name not in symbols:
            known = ", ".join(f'"{symbol}"' for symbol in symbols) or "none"
            raise InputError(f'the model has no dimension "{name}"; its dimensions are: {known}', place=place)
        bound[name] = _Binding(_extent(name, number, place), "the given value")
    for axis in axes:
        if axis.input not in inputs:
            continue
        found = _Binding(inputs[axis.input].shape[axis.axis], f'axis {axis.axis} of input "{axis.input}"')
        known = bound.setdefault(axis.symbol, found)
        if known.value != found.value:
            raise InputError(
                f'dimension "{axis.symbol}" is {known.value} by {known.source} '
                f"and {found.value} by {found.source}",
                place=place,
            )
    return bound


def _extent(name: str, number: SupportsIndex, place: Place) -> int:
    """A number given for a dimension, of Python's or of numpy's integers."""
    try:
        extent = index(number)
    except TypeError:
        raise InputError(
            f'dimension "{name}": expected a whole number, found {number!r}', place=place
        ) from None
    if extent < 0:
        raise InputError(f'dimension "{name}": expected a number of at least 0, found {extent}', place=place)
    return extent


def _require_all(axes: list[_Axis], bound: Mapping[str, _Binding], place: Place) -> None:
    missing: dict[str, list[str]] = {}
    for axis in axes:
        if axis.symbol not in bound:
            missing.setdefault(axis.symbol, []).append(f"{axis.input} axis {axis.axis}")
    if missing:
        listed = "; ".join(f'"{symbol}" ({", ".join(where)})' for symbol, where in missing.items())
        flags = " ".join(f"--dim {symbol}=1" for symbol in missing)
        plural = "s" if len(missing) > 1 else ""
        raise MissingSizeError(
            f"no value for the symbolic dimension{plural} {listed}: give example inputs, or their sizes, as in {flags}",
            place=place,
        )


def _shape_of_unranked(
    value: ValueInfoProto, inputs: Mapping[str, np.ndarray], place: Place
) -> tuple[int, ...]:
    array = inputs.get(value.name)
    if array is None:
        raise InputError(f'input "{value.name}" has no declared shape: give example inputs', place=place)
    return array.shape
