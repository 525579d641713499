"""Inputs to evaluate functions on: random ones of the declared types, the same ones every time.

Floats are standard normal; integers are 0 or 1, as masks want them, but those that are only used as the indices of
gathers are drawn from all that the gathers allow; an input that must have one value (`mlopt.value`) has that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mlopt.arrays import random_array
from mlopt.diagnostics import InputError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.interface import argument_attributes
from mlopt.ir.dense import is_dense
from mlopt.ir.dtypes import dense_to_array, to_numpy_dtype
from mlopt.ir.locations import place_of_op

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
    """The inputs of a function at any level; `InputError` for an argument that is no tensor of static shape.

    Named by `mlopt.name` or `mlopt.input`; `argN` where tensors have no name. Other buffers than inputs are left out.
    """
    found: list[FunctionInput] = []
    for i, (argument, attributes) in enumerate(
        zip(func.body.block.args, argument_attributes(func), strict=True)
    ):
        type_ = argument.type
        if isinstance(type_, MemRefType):
            name = attributes.get("mlopt.input")
            if name is None:
                continue
        elif isinstance(type_, TensorType):
            name = attributes.get("mlopt.name", StringAttr(f"arg{i}"))
        else:
            raise InputError(f"argument {i} is of type {type_}, expected a tensor", place=place_of_op(func))
        if not type_.has_static_shape():
            raise InputError(
                f"argument {i} is of type {type_}, expected a static shape", place=place_of_op(func)
            )
        assert isinstance(name, StringAttr)
        declared, value = attributes.get("mlopt.dtype"), attributes.get("mlopt.value")
        dtype = (
            np.dtype(declared.data)
            if isinstance(declared, StringAttr)
            else to_numpy_dtype(type_.element_type)
        )
        array = dense_to_array(value).view(dtype) if value is not None and is_dense(value) else None
        found.append(FunctionInput(name.data, tuple(type_.get_shape()), dtype, array, argument))
    return found


def seeded_inputs(func: FuncOp) -> dict[str, Array]:
    """Random inputs of a function by name; `InputError` as for `function_inputs`."""
    generator = np.random.default_rng(SEED)
    return {each.name: _draw(each, generator) for each in function_inputs(func)}


def _draw(each: FunctionInput, generator: np.random.Generator) -> Array:
    if each.value is not None:
        return each.value
    bound = index_bound(each.argument) if each.dtype.kind in "iu" else None
    if bound is None:
        return random_array(each.shape, each.dtype, generator)
    return generator.integers(0, max(1, bound), size=each.shape).astype(each.dtype)


_MOVEMENTS = (
    *(graph.ReshapeOp, graph.TransposeOp, graph.ExpandOp, graph.SliceOp, graph.ConcatOp, graph.SplitOp),
    graph.CastOp,
)


def index_bound(value: SSAValue) -> int | None:
    """The largest number that every gather using `value` as indices has elements for; None if it is used otherwise."""
    bounds: list[int] = []
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, graph.GatherOp | graph.GatherElementsOp) and use.index == 1:
                bounds.append(shape_of(op.input)[op.axis.value.data])
            elif isinstance(op, graph.GatherNdOp) and use.index == 1:
                bounds.append(_smallest(shape_of(op.input), op))
            elif isinstance(op, _MOVEMENTS):
                pending += op.results
            else:
                return None
    return min(bounds, default=None)


def _smallest(shape: Sequence[int], op: graph.GatherNdOp) -> int:
    """The smallest axis that the indices of a `gather_nd` pick from."""
    first = op.batch_dims.value.data
    return min(shape[first : first + shape_of(op.indices)[-1]], default=1)
