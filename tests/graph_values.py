"""SSA values and evaluation of single graph operations, for tests."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from mlopt.dialects.graph import GraphOp
from mlopt.interpreter.graph import evaluate
from mlopt.ir.dtypes import from_numpy_dtype, to_numpy_dtype


def value_of(array: np.ndarray) -> SSAValue:
    """An SSA value of the array's type, defined by nothing."""
    return create_ssa_value(TensorType(from_numpy_dtype(array.dtype), array.shape))


def evaluate_checked(op: GraphOp, *operands: np.ndarray) -> list[np.ndarray]:
    """The results of a verified operation, checked against its result types."""
    op.verify()
    results = evaluate(op, operands)
    for result, value in zip(results, op.results, strict=True):
        assert isinstance(value.type, TensorType)
        assert result.shape == value.type.get_shape()
        assert result.dtype == to_numpy_dtype(value.type.element_type)
    return list(results)
