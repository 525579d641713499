"""The operators, one file per family."""

from __future__ import annotations

from tests.fuzz.operators import elementwise, movement
from tests.fuzz.operators.table import OPERATORS, Operator

FAMILIES = (elementwise, movement)

__all__ = ["FAMILIES", "OPERATORS", "Operator"]
