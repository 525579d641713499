"""A memory plan as tables: the totals, what is live at the peak, and every buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from mlopt.diagnostics import one_line
from mlopt.memory import GAP
from mlopt.visual.planned import MemoryPlan, PlannedBuffer

_TOTALS = (
    ("weights", "weights_bytes"),
    ("inputs and outputs", "io_bytes"),
    ("tensors as imported, no reuse", "imported_no_reuse_bytes"),
    ("tensors as imported, most live at once", "imported_max_live_bytes"),
    ("tensors as planned, no reuse", "no_reuse_bytes"),
    ("tensors as planned, most live at once", "max_live_bytes"),
    ("workspaces, on top of that", "workspace_bytes"),
)
"""What the `memory` section of the report is called here."""


def totals_table(memory: dict[str, Any], plan: MemoryPlan) -> Table:
    """The figures of the report's `memory` section, and how the arena compares with its lower bound."""
    table = _table("memory", ("bytes", "right"))
    for title, key in _TOTALS:
        if memory.get(key) is not None:
            table.add_row(title, f"{memory[key]:,}")
    fragmentation = plan.arena_bytes - plan.peak_bytes
    table.add_section()
    table.add_row("lower bound: most live at once", f"{plan.peak_bytes:,}")
    table.add_row("arena", f"{plan.arena_bytes:,}", style="bold")
    share = fragmentation / plan.peak_bytes if plan.peak_bytes else 0.0
    table.add_row(f"fragmentation ({share:.1%})", f"{fragmentation:,}")
    status = str(memory["status"])
    table.add_row("status", f"{status} (not proved optimal)" if status == GAP else status)
    return table


def peak_table(plan: MemoryPlan) -> Table:
    """What is live at the moment of the peak, largest first."""
    live = sorted(plan.live_at(plan.peak_moment), key=lambda planned: -planned.buffer.footprint)
    table = _table("live at the peak", ("bytes", "right"), ("type", "left"), ("from node", "left"))
    for planned in live:
        cells = (_name(planned), f"{planned.buffer.footprint:,}", _type(planned), _node(planned))
        table.add_row(*cells)
    return table


def buffers_table(buffers: Sequence[PlannedBuffer]) -> Table:
    """Every buffer in program order: where it lies, how large it is, when it lives."""
    table = _table(
        "buffer", ("offset", "right"), ("bytes", "right"), ("moments", "right"), ("from node", "left")
    )
    for planned in buffers:
        buffer = planned.buffer
        moments = f"{buffer.lower}-{buffer.upper - 1}"
        table.add_row(_name(planned), f"{planned.offset:,}", f"{buffer.footprint:,}", moments, _node(planned))
    return table


def _table(first: str, *columns: tuple[str, Any]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="ellipsis", no_wrap=True)
    for name, justify in columns:
        table.add_column(
            name, justify=justify, no_wrap=True, overflow="ellipsis" if justify == "left" else "fold"
        )
    return table


def _name(planned: PlannedBuffer) -> str:
    return escape(one_line(planned.buffer.id))


def _type(planned: PlannedBuffer) -> str:
    return "workspace" if planned.is_workspace else planned.type


def _node(planned: PlannedBuffer) -> str:
    """The node that made it, and how many more were fused into it."""
    more = len(planned.nodes) - 1
    text = escape(one_line(planned.maker)) + (f" +{more}" if more > 0 else "")
    return f"{text} (workspace)" if planned.is_workspace else text
