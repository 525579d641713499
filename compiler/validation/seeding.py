"""Inputs to evaluate functions on: random ones of the declared types, the same ones every time.

Floats are standard normal; integers are 0 or 1, as masks want them, but those that are only used as the indices of
gathers, or compared with constants (the one-hot form), are drawn from all that these allow; an input that must have
one value (`mlopt.value`) has that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from mlopt.arrays import random_array
from mlopt.compare import is_floating
from mlopt.diagnostics import InputError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.interface import argument_attributes
from mlopt.ir.dense import is_dense
from mlopt.ir.donations import INPUT_PART, AxisPart, part_shape
from mlopt.ir.dtypes import constant_array, dense_to_array, to_numpy_dtype
from mlopt.ir.functions import only_block
from mlopt.ir.locations import place_of_op
from mlopt.weights import WeightStore

Array = np.ndarray[Any, np.dtype[Any]]

SEED = 0


@dataclass(frozen=True, slots=True)
class FunctionInput:
    """An input of a function: its name and shape, the dtype that callers see, the value that it must have, if any."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    value: Array | None
    argument: SSAValue


def function_inputs(func: FuncOp) -> list[FunctionInput]:
    """The inputs of a function at any level.

    `InputError` for an argument that is no tensor of static shape, `VerifyFailure` for a function of several blocks.
    Named by `mlopt.name` or `mlopt.input`; `argN` where tensors have no name. Other buffers than inputs are left out.
    """
    found: list[FunctionInput] = []
    for i, (argument, attributes) in enumerate(
        zip(only_block(func).args, argument_attributes(func), strict=True)
    ):
        given: Attribute = argument.type
        if isinstance(given, MemRefType) and "mlopt.input" not in attributes:
            continue
        if not isinstance(given, MemRefType | TensorType) or not given.has_static_shape():
            what = f"argument {i} is of type {argument.type}, expected a tensor of static shape"
            raise InputError(what, place=place_of_op(func))
        type_ = cast(MemRefType[Attribute] | TensorType[Attribute], given)
        name = attributes.get("mlopt.input") or attributes.get("mlopt.name") or StringAttr(f"arg{i}")
        assert isinstance(name, StringAttr)
        declared, value = attributes.get("mlopt.dtype"), attributes.get("mlopt.value")
        dtype = (
            np.dtype(declared.data)
            if isinstance(declared, StringAttr)
            else to_numpy_dtype(type_.element_type)
        )
        array = dense_to_array(value).view(dtype) if value is not None and is_dense(value) else None
        shape = part_shape(type_.get_shape(), AxisPart.read(attributes, INPUT_PART))
        found.append(FunctionInput(name.data, shape, dtype, array, argument))
    return found


def seeded_inputs(
    func: FuncOp, weights: WeightStore, seed: int = SEED, *, in_halves: bool = False
) -> dict[str, Array]:
    """Random inputs of a function by name; errors as for `function_inputs`.

    With `in_halves`, floats are -1, -0.5, 0, 0.5 or 1: many are equal, and some half-way between integers.
    """
    generator = np.random.default_rng(seed)
    inputs = function_inputs(func)
    arrays = {each.name: _draw(each, generator, weights) for each in inputs}
    if in_halves:
        free = [each.name for each in inputs if each.value is None and is_floating(arrays[each.name])]
        arrays.update((name, _in_halves(arrays[name])) for name in free)
    return arrays


def _in_halves(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array
    return (np.rint(2 * np.clip(array.astype(np.float64), -1, 1)) / 2).astype(array.dtype)


def _draw(each: FunctionInput, generator: np.random.Generator, weights: WeightStore) -> Array:
    if each.value is not None:
        return each.value
    bound = index_bound(each.argument, weights) if each.dtype.kind in "iu" else None
    if bound is None:
        return random_array(each.shape, each.dtype, generator)
    return generator.integers(0, max(1, bound), size=each.shape).astype(each.dtype)


_MOVEMENTS = (
    *(graph.ReshapeOp, graph.TransposeOp, graph.ExpandOp, graph.SliceOp, graph.ConcatOp, graph.SplitOp),
    graph.CastOp,
)


def index_bound(value: SSAValue, weights: WeightStore) -> int | None:
    """The largest number below which every integer is an index that all uses of `value` take; None if it is no index.

    Uses are the indices of gathers, and comparisons with constants of several elements.
    """
    bounds: list[int] = []
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, graph.GatherOp | graph.GatherElementsOp) and use.index == 1:
                bounds.append(shape_of(op.input)[op.axis.value.data])
            elif isinstance(op, graph.GatherNdOp) and use.index == 1:
                bounds.append(_smallest(shape_of(op.input), op))
            elif isinstance(op, graph.EqualOp):
                bounds.append(_largest(op.operands[1 - use.index], weights) + 1)
            elif isinstance(op, _MOVEMENTS):
                pending += op.results
            elif not isinstance(op, graph.ShapeOp):
                return None
    bound = min(bounds, default=0)
    return bound if bound > 0 else None


def _largest(value: SSAValue, weights: WeightStore) -> int:
    """The largest element of a constant of several elements; -1 for any other value."""
    constant = value.owner
    if not isinstance(constant, graph.ConstantOp):
        return -1
    array = constant_array(constant.value, weights)
    return int(array.max()) if array.size > 1 and array.dtype.kind in "iu" else -1


def _smallest(shape: Sequence[int], op: graph.GatherNdOp) -> int:
    """The smallest axis that the indices of a `gather_nd` pick from."""
    first = op.batch_dims.value.data
    return min(shape[first : first + shape_of(op.indices)[-1]], default=1)
