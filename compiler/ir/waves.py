"""Waves: operations of a block that may run at the same time.

An operation says its wave by the attribute `mlopt.wave`, an i64. Those of one wave stand one after the other in their
block, with nothing between them that touches memory, and the numbers rise; what has no number runs alone. They read
and write apart from each other, so that they may run in any order, or at once.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

WAVE = "mlopt.wave"
"""Attribute of an operation: the number of its wave."""


def wave_of(op: Operation) -> int | None:
    """The number of the wave that `op` runs in, or None if it runs alone."""
    attribute = op.attributes.get(WAVE)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None
