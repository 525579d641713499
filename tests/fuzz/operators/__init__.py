"""The operators, one file per family."""

from __future__ import annotations

from tests.fuzz.operators import contrib, control, elementwise, movement, numeric, quantized, selection, windows
from tests.fuzz.operators.table import OPERATORS, Operator

FAMILIES = (elementwise, movement, numeric, windows, selection, quantized, contrib, control)

__all__ = ["FAMILIES", "OPERATORS", "Operator"]
