"""A memory plan as an SVG picture: time runs to the right, bytes upwards, every buffer is a rectangle.

The moment of the peak is marked, and the lower bound of all plans. Pointing at a rectangle shows the buffer's name.
"""

from __future__ import annotations

import colorsys
from html import escape

from mlopt.visual.planned import MemoryPlan, PlannedBuffer

WIDTH, HEIGHT = 1000, 500
"""Of the area of the plan, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 72, 50
"""Margins around it, for the axes and the title."""

_FONT = 'font-family="sans-serif" font-size="12"'
_WORKSPACE_FILL = "#c9c9c9"
_CHARACTER_WIDTH, _LINE_HEIGHT = 6, 12
"""In pixels; a rectangle that its name fits into has it written there."""


def memory_picture(plan: MemoryPlan, title: str) -> str:
    """The text of an SVG file."""
    moments = max((planned.buffer.upper for planned in plan.buffers), default=1)
    begin = min((planned.buffer.lower for planned in plan.buffers), default=0)
    frame = _Frame(begin, max(moments, begin + 1), max(plan.arena_bytes, 1))
    total_width, total_height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}"',
        f'     width="{total_width}" height="{total_height}" {_FONT}>',
        f'<rect width="{total_width}" height="{total_height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{LEFT}" y="42">arena {plan.arena_bytes:,} bytes, most live at once {plan.peak_bytes:,}; '
        f"{len(plan.buffers)} buffers, workspaces grey</text>",
        *_axes(frame),
        *(_rectangle(planned, index, frame) for index, planned in enumerate(plan.buffers)),
        *_peak(plan, frame),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Frame:
    """From moments and bytes to pixels."""

    def __init__(self, begin: int, end: int, height: int):
        self.begin, self.end, self.height = begin, end, height

    def x(self, moment: float) -> float:
        return LEFT + WIDTH * (moment - self.begin) / (self.end - self.begin)

    def y(self, offset: float) -> float:
        return TOP + HEIGHT * (1 - offset / self.height)


def _rectangle(planned: PlannedBuffer, index: int, frame: _Frame) -> str:
    buffer = planned.buffer
    x, width = frame.x(buffer.lower), frame.x(buffer.upper) - frame.x(buffer.lower)
    y = frame.y(planned.offset + buffer.footprint)
    height = frame.y(planned.offset) - y
    fill = _WORKSPACE_FILL if planned.is_workspace else _color(index)
    tip = f"{buffer.id}: {planned.type}, {buffer.size:,} bytes at {planned.offset:,}"
    if planned.nodes:
        tip += f"\n{', '.join(planned.nodes)}"
    text = (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}" '
        f'stroke="#555" stroke-width="0.5"><title>{escape(tip)}</title></rect>'
    )
    if width >= _CHARACTER_WIDTH * len(buffer.id) and height >= _LINE_HEIGHT:
        middle = f'x="{x + width / 2:.2f}" y="{y + height / 2 + 4:.2f}"'
        label = f'text-anchor="middle" font-size="10" pointer-events="none">{escape(buffer.id)}</text>'
        text += f"<text {middle} {label}"
    return text


def _color(index: int) -> str:
    """A light color; neighbours in program order get hues far apart, steps of the golden angle."""
    rgb = colorsys.hls_to_rgb(index * 137.5 % 360 / 360, 0.78, 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def _axes(frame: _Frame) -> list[str]:
    parts = [f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="#fafafa" stroke="#555"/>']
    for offset in _ticks(0, frame.height):
        y = frame.y(offset)
        parts.append(f'<line x1="{LEFT - 4}" y1="{y:.2f}" x2="{LEFT}" y2="{y:.2f}" stroke="#555"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.2f}" text-anchor="end">{offset:,}</text>')
    bottom = TOP + HEIGHT
    for moment in _ticks(frame.begin, frame.end):
        x = frame.x(moment)
        parts.append(f'<line x1="{x:.2f}" y1="{bottom}" x2="{x:.2f}" y2="{bottom + 4}" stroke="#555"/>')
        parts.append(f'<text x="{x:.2f}" y="{bottom + 18}" text-anchor="middle">{moment}</text>')
    parts.append(f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 38}" text-anchor="middle">moment</text>')
    parts.append(f'<text x="{LEFT - 30}" y="{TOP - 10}" text-anchor="end">bytes</text>')
    return parts


def _ticks(begin: int, end: int) -> range:
    """At most eleven round numbers from `begin` to `end`: steps of 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if end - begin <= 10 * step:
                return range(-(-begin // step) * step, end + 1, step)
        power *= 10


def _peak(plan: MemoryPlan, frame: _Frame) -> list[str]:
    """The moment of the peak as a frame, and the lower bound as a line, if it is below the top."""
    if not plan.buffers:
        return []
    x, width = frame.x(plan.peak_moment), frame.x(1) - frame.x(0)
    parts = [
        f'<rect x="{x:.2f}" y="{TOP}" width="{width:.2f}" height="{HEIGHT}" fill="none" stroke="#d00" '
        f'stroke-width="1.5" pointer-events="none"/>',
        f'<text x="{x + width / 2:.2f}" y="{TOP - 6}" fill="#d00" text-anchor="middle">peak</text>',
    ]
    if plan.peak_bytes < plan.arena_bytes:
        y = frame.y(plan.peak_bytes)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.2f}" x2="{LEFT + WIDTH}" y2="{y:.2f}" stroke="#d00" '
            f'stroke-dasharray="6 4"><title>the most bytes live at once: no plan is lower</title></line>'
        )
    return parts
