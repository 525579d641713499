"""Outputs before and after a pass, compared: within a tolerance of the largest number, NaN and infinities in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute

from mlopt.compare import Comparison, compare, is_floating
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.validation.evaluation import Array

DEFAULT_TOLERANCE = 1e-4
"""Allowed difference, as a part of the largest number in the output."""

ROUNDINGS = 4
"""Where a module computes in f16 or bf16, so many roundings to that type are allowed if no tolerance is given."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An output of a function that is not what it was.

    `error` is the largest difference as a part of the largest number, infinite where types, shapes or the places of
    NaN differ. `reason` says it in words.
    """

    function: str
    output: str
    error: float
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first output that differs by too much, if any, and the largest error of those before it.

    `outputs` is what was compared with what had been there before; empty if nothing could be computed.
    """

    difference: Difference | None
    largest_error: float
    outputs: Mapping[str, Array]


def compare_outputs(
    function: str, after: Mapping[str, Array], before: Mapping[str, Array], tolerance: float
) -> Verdict:
    """Compare what a function computes after a pass with what it did before it."""
    if after.keys() != before.keys():
        names = ", ".join(after) or "none"
        reason = f"is missing or not alone: the outputs are {names}, expected {', '.join(before) or 'none'}"
        return Verdict(Difference(function, next(iter(before), ""), float("inf"), reason), 0.0, after)
    largest = 0.0
    for name, want in before.items():
        comparison = compare_output(name, after[name], want, tolerance)
        if comparison.reason is not None:
            difference = Difference(function, name, comparison.max_rel_error, comparison.reason)
            return Verdict(difference, largest, after)
        largest = max(largest, comparison.max_rel_error)
    return Verdict(None, largest, after)


def compare_output(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> Comparison:
    """Compare one output; a difference that is below the smallest normal number of the type is none."""
    atol = float(_info(want.dtype).smallest_normal) if is_floating(want) else 0.0
    return compare(name, got, want, rtol=tolerance, atol=atol)


def default_tolerance(module: ModuleOp) -> float:
    """`DEFAULT_TOLERANCE`, or `ROUNDINGS` of the narrowest type that the module computes in, if that is more."""
    elements = {_element(type_) for op in module.walk() for type_ in op.result_types}
    narrow = [
        to_numpy_dtype(element) for element in elements if isinstance(element, Float16Type | BFloat16Type)
    ]
    return max([DEFAULT_TOLERANCE, *(ROUNDINGS * float(_info(dtype).eps) for dtype in narrow)])


def _element(type_: Attribute) -> Attribute:
    if isinstance(type_, MemRefType | TensorType):
        return cast(MemRefType[Attribute] | TensorType[Attribute], type_).element_type
    return type_


def _info(dtype: np.dtype) -> np.finfo:
    import ml_dtypes  # numpy's own `finfo` does not know its types

    return ml_dtypes.finfo(dtype)
