"""A memory plan as tables: the totals, what is live at the peak, and every buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from mlopt.diagnostics import one_line
from mlopt.memory import GAP
from mlopt.passes.memref.summary import DonatedMemory
from mlopt.visual.planned import MemoryPlan, PlannedBuffer

_TOTALS = (
    (("weights", "weights_bytes"), ("inputs and outputs", "io_bytes")),
    (
        ("activations as imported, no reuse", "imported_no_reuse_bytes"),
        ("activations as imported, most live at once", "imported_max_live_bytes"),
    ),
    (
        ("activations, no reuse", "no_reuse_bytes"),
        ("activations, most live at once", "max_live_bytes"),
        ("workspaces, on top of that", "workspace_bytes"),
    ),
)
"""What the `memory` section of the report is called here, in groups."""

_SPILLED = (
    ("memory space 1: most live at once", "spill_max_live_bytes"),
    ("memory space 1: arena", "spill_bytes"),
    ("memory space 1: status", "spill_status"),
    ("copied there and back in a run", "spill_moved_bytes"),
)
"""What it says of the memory that tensors are spilled to, if they are."""


def totals_table(memory: Mapping[str, Any], plan: MemoryPlan) -> Table:
    """The figures of the report's `memory` section, and how the arena compares with its lower bound.

    Of a plan that comes from no model, `memory` has the status only.
    """
    table = _table("memory", ("bytes", "right"))
    for group in _TOTALS:
        for title, key in group:
            if memory.get(key) is not None:
                table.add_row(title, f"{memory[key]:,}")
        table.add_section()
    for title, text in _figures(plan, str(memory["status"])):
        table.add_row(title, text, style="bold" if title == "arena" else None)
    if memory.get("spill_bytes"):
        table.add_section()
        for title, key in _SPILLED:
            figure = memory[key]
            table.add_row(title, figure if isinstance(figure, str) else f"{figure:,}")
    return table


def _figures(plan: MemoryPlan, status: str) -> list[tuple[str, str]]:
    """What every plan has, wherever it comes from."""
    fragmentation = plan.arena_bytes - plan.peak_bytes
    share = fragmentation / plan.peak_bytes if plan.peak_bytes else 0.0
    return [
        ("all buffers, no reuse", f"{plan.no_reuse_bytes:,}"),
        ("lower bound: most live at once", f"{plan.peak_bytes:,}"),
        ("arena", f"{plan.arena_bytes:,}"),
        (f"fragmentation ({share:.1%})", f"{fragmentation:,}"),
        ("status", f"{status} (not proved optimal)" if status == GAP else status),
    ]


def comparison_table(plans: Sequence[tuple[str, MemoryPlan]]) -> Table:
    """Two plans side by side, and by how much the second one differs."""
    (first_title, first), (second_title, second) = plans
    titles = [_cut(one_line(title)) for title in (first_title, second_title.removeprefix(f"{first_title}: "))]
    table = _table("compared", *((escape(title), "right") for title in titles), ("change", "right"))
    for title, figure in _COMPARED:
        old, new = figure(first), figure(second)
        change = "" if new == old else f"{new / old - 1:+.1%}" if old else "new"
        table.add_row(title, f"{old:,}", f"{new:,}", change, style="bold" if title == "arena" else None)
    return table


def _cut(title: str) -> str:
    """A title that leaves a terminal of 80 columns room for the numbers below it and beside it."""
    if len(title) > _TITLE_WIDTH:
        title = title.removesuffix(".onnx").removesuffix(".mlir")
    return title if len(title) <= _TITLE_WIDTH else f"{title[: _TITLE_WIDTH - 1]}…"


_TITLE_WIDTH = 16

_COMPARED: tuple[tuple[str, Callable[[MemoryPlan], int]], ...] = (
    ("buffers (number)", lambda plan: len(plan.buffers)),
    ("activations, no reuse", lambda plan: _no_reuse(plan, workspaces=False)),
    ("workspaces, no reuse", lambda plan: _no_reuse(plan, workspaces=True)),
    ("lower bound: most live at once", lambda plan: plan.peak_bytes),
    ("arena", lambda plan: plan.arena_bytes),
    ("fragmentation", lambda plan: plan.arena_bytes - plan.peak_bytes),
)


def _no_reuse(plan: MemoryPlan, *, workspaces: bool) -> int:
    return sum(planned.buffer.footprint for planned in plan.buffers if planned.is_workspace == workspaces)


def peak_table(plan: MemoryPlan) -> Table:
    """What is live at the moment of the peak, largest first, and what runs then."""
    live = sorted(plan.live_at(plan.peak_moment), key=lambda planned: -planned.buffer.footprint)
    table = _table("live at the peak", ("bytes", "right"), ("type", "left"), ("from node", "left"))
    if live:
        maker = f", while {escape(one_line(plan.peak_maker))} runs" if plan.peak_maker else ""
        table.caption = f"{plan.live_bytes(plan.peak_moment):,} bytes at moment {plan.peak_moment}{maker}"
        table.caption_justify = "left"
    for planned in live:
        cells = (_name(planned), f"{planned.buffer.footprint:,}", _type(planned), _node(planned))
        table.add_row(*cells)
    return table


def donated_table(donated: Sequence[DonatedMemory]) -> Table:
    """Every donated input, which output lies in its memory, and which part of that the input is."""
    table = _table(
        "donated input", ("bytes", "right"), ("output", "left"), ("memory", "right"), ("input in it", "left")
    )
    for each in donated:
        place = "all" if each.output is not None else ""
        if each.part is not None:
            axis, offset, size = each.part
            place = escape(f"[{':, ' * axis}{offset}:{offset + size}]")
        output = "none" if each.output is None else escape(one_line(each.output))
        table.add_row(
            escape(one_line(each.input)), f"{each.nbytes:,}", output, f"{each.memory_bytes:,}", place
        )
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
