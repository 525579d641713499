"""The table of reference evaluations, and what they share: widening of half precision, extreme values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from mlopt.dialects.graph import GraphOp
from mlopt.dialects.graph.base import is_float, tensor_type
from mlopt.on_demand import TableOnDemand

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Evaluation: TypeAlias = Callable[..., "Array | tuple[Array, ...]"]
_EvaluationT = TypeVar("_EvaluationT", bound=Evaluation)

RARE_FAMILIES = (
    "along_axis",
    "attention",
    "bounded",
    "channels_last",
    "integer_products",
    "quantization",
    "recurrent",
    "resize",
    "rotary",
    "sampling",
    "scatter",
    "transposed",
)
"""The modules of operations that few models have."""

EVALUATIONS: dict[type[Operation], Evaluation] = TableOnDemand(
    f"mlopt.interpreter.graph.{name}" for name in RARE_FAMILIES
)
"""Operation class → a function of the operation and its operands (absent optional ones left out)."""


def evaluates(*op_types: type[GraphOp]) -> Callable[[_EvaluationT], _EvaluationT]:
    """Register the decorated function as the meaning of these operations."""

    def register(evaluation: _EvaluationT) -> _EvaluationT:
        EVALUATIONS.update(dict.fromkeys(op_types, evaluation))
        return evaluation

    return register


def has_float_elements(value: SSAValue) -> bool:
    """Does the value hold f16, bf16, f32 or f64? (numpy's dtype does not tell: bf16 is no `np.floating`.)"""
    return is_float(tensor_type(value.type).element_type)


def widen(op: Operation, *arrays: Array) -> tuple[Array, ...]:
    """The arrays in the type that `op` computes in: f32 if its first operand is f16 or bf16, else theirs."""
    if isinstance(tensor_type(op.operands[0].type).element_type, Float16Type | BFloat16Type):
        return tuple(array.astype(np.float32) for array in arrays)
    return arrays


def lowest(op: Operation, dtype: np.dtype[Any]) -> float | int:
    """What never wins a maximum: -inf, or the smallest integer of `dtype`."""
    return -np.inf if has_float_elements(op.operands[0]) else np.iinfo(dtype).min


def highest(op: Operation, dtype: np.dtype[Any]) -> float | int:
    """What never wins a minimum: +inf, or the largest integer of `dtype`."""
    return np.inf if has_float_elements(op.operands[0]) else np.iinfo(dtype).max
