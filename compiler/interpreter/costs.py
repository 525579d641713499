"""What numpy calls cost, roughly, in nanoseconds: for choices between ways that differ by more than the error.

Measured on one core with AVX-512, operands in the second-level cache.
"""

from __future__ import annotations

CALL = 500.0
"""A call on a handful of elements."""

MATRIX = 100.0
"""A matrix of a batch, in one call."""

PRODUCT = 1 / 30
"""A multiplication and an addition in BLAS."""

EINSUM = 2500.0
"""A call of `np.einsum`, which reads its equation first."""

_RUN = 4.0
_ELEMENT = 0.08


def copy(elements: int, run: int) -> float:
    """`np.copyto` of so many elements in runs of `run` along the innermost axis."""
    return CALL + elements * _ELEMENT + elements / max(run, 1) * _RUN


def turn(elements: int) -> float:
    """`np.copyto` of so many elements to an array whose axes lie in another order."""
    return CALL + elements * 0.4


def einsum_run(elements: int) -> float:
    """A product of two runs of elements, added to a third, within `np.einsum`."""
    return 13.0 + elements * 0.1
