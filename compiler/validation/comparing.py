"""Outputs before and after a pass, compared: within a tolerance of the largest number, NaN and infinities in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute

from mlopt.compare import Comparison, compare, is_floating
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.validation.evaluation import Outputs

DEFAULT_TOLERANCE = 1e-4
"""Allowed difference, as a part of the largest number in the output."""

ROUNDINGS = 4
"""Where a module computes in f16 or bf16, so many roundings to that type are allowed if no tolerance is given."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An output that is not what it was.

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
    outputs: Outputs


def compare_outputs(after: Outputs, before: Outputs, tolerance: float) -> Verdict:
    """Compare what functions compute after a pass with what they did before it."""
    largest = 0.0
    for function, wanted in before.items():
        if function not in after:
            continue  # a pass may erase a function that nothing calls
        found = after[function]
        if found.keys() != wanted.keys():
            names = ", ".join(found) or "none"
            reason = f"has the outputs {names}, expected {', '.join(wanted) or 'none'}"
            return Verdict(Difference(function, next(iter(wanted), ""), float("inf"), reason), largest, after)
        for name, want in wanted.items():
            comparison = compare_output(name, found[name], want, tolerance)
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
