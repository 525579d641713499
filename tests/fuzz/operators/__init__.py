"""The operators, one file per family."""

from __future__ import annotations

from tests.fuzz.operators import (
    attention,
    contrib,
    control,
    elementwise,
    epilogues,
    formulas,
    idioms,
    movement,
    numeric,
    quantized,
    selection,
    windows,
)
from tests.fuzz.operators.table import OPERATORS, Operator

FAMILIES = (
    elementwise,
    epilogues,
    formulas,
    idioms,
    movement,
    numeric,
    windows,
    selection,
    quantized,
    contrib,
    control,
    attention,
)

__all__ = ["FAMILIES", "OPERATORS", "Operator"]
