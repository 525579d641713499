"""Which way of a split model computes an operation: the discardable attribute `mlopt.way`.

Operations without it are for all ways: each has their results.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

WAY = "mlopt.way"


def way_of(op: Operation) -> int | None:
    """The way that alone computes `op`, counted from 0; None if all do."""
    way = op.attributes.get(WAY)
    return way.value.data if isinstance(way, IntegerAttr) else None


def set_way(op: Operation, way: int) -> None:
    """Let only this way compute `op`."""
    op.attributes[WAY] = IntegerAttr(way, i64)
