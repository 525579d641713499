"""Constants of the graph level as arrays, and back."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mlopt.diagnostics import VerifyFailure
from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import constant_array, constant_attr, from_numpy_dtype, to_numpy_dtype
from mlopt.ir.locations import place_of_op
from mlopt.ir.names import set_name


def constant_of(op: graph.ConstantOp, ctx: CompilerContext) -> np.ndarray | None:
    """The array of a constant, read-only; None if it names a weight that is not in the store.

    `VerifyFailure` if the weight has another shape or dtype than the constant's type.
    """
    if isinstance(op.value, WeightAttr) and op.value.weight.data not in ctx.weights:
        return None
    array = constant_array(op.value, ctx.weights)
    expected = tensor_type(op.result.type)
    dtype = to_numpy_dtype(expected.element_type)
    if array.shape != expected.get_shape() or array.dtype != dtype:
        raise VerifyFailure(
            f"expected {expected} for {op.value}, found {array.dtype}{list(array.shape)} in the weights",
            place=place_of_op(op),
        )
    return array


def is_constant(value: SSAValue) -> bool:
    """Is the value a `graph.constant`, or reshapes and transposes of one?"""
    while isinstance(value.owner, graph.ReshapeOp | graph.TransposeOp):
        value = value.owner.input
    return isinstance(value.owner, graph.ConstantOp)


def constant_value(value: SSAValue, ctx: CompilerContext) -> np.ndarray | None:
    """The array of a `graph.constant`, or of reshapes and transposes of one; None for anything else.

    The array may be a view of the weight store and must not be written to.
    """
    match value.owner:
        case graph.ConstantOp():
            return constant_of(value.owner, ctx)
        case graph.ReshapeOp() | graph.TransposeOp():
            operand = constant_value(value.owner.input, ctx)
            if operand is None or ctx.evaluator is None:
                return None
            return ctx.evaluator(value.owner, [operand])[0]
        case _:
            return None


def make_constant(array: np.ndarray, ctx: CompilerContext, name: str) -> graph.ConstantOp:
    """A `graph.constant` of the array: its elements if they are few, else a weight called `name` (made unique)."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    constant = graph.ConstantOp(
        constant_attr(array, ctx.weights, name), TensorType(from_numpy_dtype(array.dtype), array.shape)
    )
    set_name(constant.result, name)
    return constant


def name_of(value: SSAValue, default: str) -> str:
    """A name for what is made from `value`: that of its weight, else its own, else `default`."""
    if isinstance(value.owner, graph.ConstantOp) and isinstance(value.owner.value, WeightAttr):
        return value.owner.value.weight.data
    return value.name_hint or default
