"""Numeric comparison of outputs with reference values: the rule of `mlopt run --check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mlopt.diagnostics import counted
from mlopt.ir.dtypes import typed_array
from mlopt.weights.sub_byte import is_integer

DEFAULT_RTOL = 1e-4
DEFAULT_ATOL = 1e-6


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one output compares with its reference.

    `max_abs_error` is the largest |got - want|; `max_rel_error` is that over M, the largest finite |want|. `reason`
    says why the output does not pass, or is None.
    """

    name: str
    max_abs_error: float
    max_rel_error: float
    reason: str | None

    @property
    def passed(self) -> bool:
        return self.reason is None


def compare(
    name: str, got: np.ndarray, want: np.ndarray, *, rtol: float = DEFAULT_RTOL, atol: float = DEFAULT_ATOL
) -> Comparison:
    """Compare one output.

    Passes if `|got - want| <= atol + rtol * M` everywhere, where M is the largest finite |want|. Shapes and dtypes must
    be equal, NaN and infinities must stand in the same places, integers and bools must be equal. A reference of raw
    bytes is taken as of the other's type.
    """
    want = typed_array(want, got.dtype)
    if got.dtype != want.dtype:
        return _failed(name, f"has dtype {got.dtype}, expected {want.dtype}")
    if got.shape != want.shape:
        return _failed(name, f"has shape {got.shape}, expected {want.shape}")
    if not is_floating(want):
        return _compare_exact(name, got, want)
    complex_ = np.issubdtype(want.dtype, np.complexfloating)
    wide = np.complex128 if complex_ else np.float64
    with np.errstate(
        invalid="ignore", over="ignore"
    ):  # signalling NaN; differences that are infinite fail as they are
        got, want = got.astype(wide), want.astype(wide)
        finite = np.isfinite(want)
        special = ~finite
        same = (got[special] == want[special]) | (np.isnan(got[special]) & np.isnan(want[special]))
        if not same.all() or not np.isfinite(got[finite]).all():
            return _failed(name, "has NaN or infinities in other places than expected")
        errors = np.abs(got[finite] - want[finite])
        scale = float(np.abs(want[finite]).max(initial=0.0))
    largest = float(errors.max(initial=0.0))
    relative = largest / scale if scale else (0.0 if largest == 0 else float("inf"))
    limit = atol + rtol * scale
    reason = None if largest <= limit else f"differs by up to {largest:.3g}, allowed is {limit:.3g}"
    return Comparison(name, largest, relative, reason)


def is_floating(array: np.ndarray) -> bool:
    """Whether the elements are real or complex floating-point numbers, the types of `ml_dtypes` included."""
    return array.dtype.kind in "fc" or (array.dtype.kind == "V" and "float" in array.dtype.name)


def compare_all(
    got: Mapping[str, np.ndarray],
    want: Mapping[str, np.ndarray],
    *,
    rtol: float = DEFAULT_RTOL,
    atol: float = DEFAULT_ATOL,
) -> list[Comparison]:
    """Compare every output that has a reference; outputs without one are left out."""
    return [compare(name, got[name], want[name], rtol=rtol, atol=atol) for name in got if name in want]


def _compare_exact(name: str, got: np.ndarray, want: np.ndarray) -> Comparison:
    different = got != want
    count = int(np.count_nonzero(different))
    if not count:
        return Comparison(name, 0.0, 0.0, None)
    if want.dtype.kind not in "iu" and not is_integer(want.dtype):
        return Comparison(name, 1.0, 1.0, f"differs in {count} of {counted(want.size, 'element')}")
    largest = max(abs(int(a) - int(b)) for a, b in zip(got[different], want[different], strict=True))
    scale = max(abs(int(b)) for b in want.flat)
    relative = largest / scale if scale else float("inf")
    return Comparison(
        name, float(largest), relative, f"differs in {count} of {counted(want.size, 'element')}"
    )


def _failed(name: str, reason: str) -> Comparison:
    return Comparison(name, float("inf"), float("inf"), reason)
