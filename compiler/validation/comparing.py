"""Outputs before and after a pass, compared: within a tolerance of the largest number, NaN and infinities in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import ml_dtypes
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
    function: str, after: Mapping[str, Array], before: Mapping[str, Array], tolerance: float, steps: int = 0
) -> Verdict:
    """Compare what a function computes after a pass with what it did before it."""
    if after.keys() != before.keys():
        names = ", ".join(after) or "none"
        reason = f"is missing or not alone: the outputs are {names}, expected {', '.join(before) or 'none'}"
        return Verdict(Difference(function, next(iter(before), ""), float("inf"), reason), 0.0, after)
    largest = 0.0
    for name, want in before.items():
        comparison = compare_output(name, after[name], want, tolerance, steps)
        if comparison.reason is not None:
            difference = Difference(function, name, comparison.max_rel_error, comparison.reason)
            return Verdict(difference, largest, after)
        largest = max(largest, comparison.max_rel_error)
    return Verdict(None, largest, after)


def compare_output(
    name: str, got: np.ndarray, want: np.ndarray, tolerance: float, steps: int = 0
) -> Comparison:
    """Compare one output; where all of it is 0, numbers that f32 has no normal form of count as 0.

    Integers of 8 and 16 bits, which quantized numbers are, may differ by `steps`.
    """
    smallest = float(np.finfo(np.float32).smallest_normal)
    comparison = compare(name, got, want, rtol=tolerance, atol=smallest)
    is_narrow = want.dtype.kind in "iu" and want.dtype.itemsize <= 2
    within_steps = is_narrow and got.dtype == want.dtype and comparison.max_abs_error <= steps
    return replace(comparison, reason=None) if within_steps else comparison


class Rounding:
    """Disturbs arrays of floats by up to one rounding of their type, each element by another part of it."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(0)

    def __call__(self, array: Array) -> Array:
        if array.dtype.kind == "c" or not is_floating(array):
            return array
        part = np.asarray(self._generator.random(array.shape), np.float64) * 2 - 1
        disturbed: Array = array.astype(np.float64) * (1 + part * _eps(array.dtype))
        return disturbed.astype(array.dtype)


class RangeWatch:
    """Sees whether arrays of floats hold infinities, NaN, or numbers that are so small that digits are lost.

    -inf alone does not count: it is what masks are made of.
    """

    def __init__(self) -> None:
        self.found = False

    def __call__(self, array: Array) -> Array:
        if array.dtype.kind != "c" and is_floating(array):
            wide = np.abs(array.astype(np.float64))
            smallest = float(cast(Any, ml_dtypes.finfo(array.dtype)).smallest_normal)
            is_outside = np.isnan(wide) | (array == np.inf) | ((wide > 0) & (wide < smallest))
            self.found |= bool(np.any(is_outside))
        return array


def default_tolerance(module: ModuleOp) -> float:
    """`DEFAULT_TOLERANCE`, or `ROUNDINGS` of the narrowest type that the module computes in, if that is more."""
    elements = {_element(type_) for op in module.walk() for type_ in op.result_types}
    narrow = [
        to_numpy_dtype(element) for element in elements if isinstance(element, Float16Type | BFloat16Type)
    ]
    return max([DEFAULT_TOLERANCE, *(ROUNDINGS * _eps(dtype) for dtype in narrow)])


def _element(type_: Attribute) -> Attribute:
    if isinstance(type_, MemRefType | TensorType):
        return cast(MemRefType[Attribute] | TensorType[Attribute], type_).element_type
    return type_


def _eps(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number of a type."""
    one = np.ones((), dtype)
    following = one.view(f"u{dtype.itemsize}") + 1
    return float(np.asarray(following).astype(f"u{dtype.itemsize}").view(dtype)) - 1.0
