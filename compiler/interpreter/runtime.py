"""The functions `@mlopt_rt_*` that memref-level code may declare and call: algorithms without structured form."""

from __future__ import annotations

from collections.abc import Callable

PREFIX = "mlopt_rt_"

RUNTIME_FUNCTIONS: dict[str, Callable[..., object]] = {}
"""Name → the function; it is called with one array per operand (scalars as arrays of rank 0) and allocates nothing."""
