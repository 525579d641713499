"""A memory plan as an SVG picture: time runs to the right, bytes upwards, every buffer is a rectangle.

Colours tell workspaces from activations, and what is live at the peak from the rest. The moment of the peak is marked,
and so is the lower bound of all plans where the arena is larger. Below, in a strip of its own, the bytes that live at
each moment. Pointing at a rectangle shows the buffer's name. Two plans are drawn side by side, bytes on one scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from mlopt.diagnostics import counted, one_line
from mlopt.visual.planned import MemoryPlan, PlannedBuffer

WIDTH, HALF_WIDTH, HEIGHT = 1000, 560, 460
"""Of the area of a plan, in pixels; the narrower one is for two plans side by side."""
LEFT, RIGHT, TOP, BOTTOM = 92, 24, 116, 46
"""Margins around it, for the axes, titles and the legend."""
STRIP, STRIP_GAP = 56, 14
"""Height of the strip of live bytes, and what is between it and the plan above."""
STRIP_TOP = TOP + HEIGHT + STRIP_GAP
STRIP_BOTTOM = STRIP_TOP + STRIP
BETWEEN = 40
"""Between two plans."""

CHARACTER = 0.66
"""The width of a character, as a part of the font's size: an upper estimate for names in sans-serif."""
LABEL_SIZE, SMALLEST_LABEL, SHORTEST_LABEL = 10, 0.5, 6
"""Font sizes (pixels) of names in rectangles, and how many characters a shortened name has at least."""

SHADES = 4
"""Shades of one colour, given in turn, so that neighbours differ."""

STYLE = """
.page { fill: #ffffff } .area { fill: #f6f8fa; stroke: #8c959f }
text { fill: #1f2328; font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px }
.title { font-size: 16px; font-weight: 600 } .muted { fill: #59636e }
.grid { stroke: #d8dee4; stroke-width: 1 } .tick { stroke: #8c959f }
.buffer { stroke: #3d4752; stroke-width: 0.4 } .buffer:hover { stroke-width: 2 }
.a0 { fill: #a9cdf5 } .a1 { fill: #8fbdee } .a2 { fill: #bcd9f8 } .a3 { fill: #9cc4e8 }
.p0 { fill: #f9b872 } .p1 { fill: #f4a65a } .p2 { fill: #fbc88c } .p3 { fill: #f2b26b }
.w0 { fill: #c9ced4 } .w1 { fill: #c9ced4 } .w2 { fill: #c9ced4 } .w3 { fill: #c9ced4 }
.q0 { fill: #9aa3ad } .q1 { fill: #9aa3ad } .q2 { fill: #9aa3ad } .q3 { fill: #9aa3ad }
.name { font-size: 10px; text-anchor: middle; pointer-events: none; fill: #14202c } .fine { display: none }
.live { fill: #c8d3de; stroke: #59636e; stroke-width: 0.8 }
.peak { fill: #cf222e; fill-opacity: 0.12; stroke: #cf222e; stroke-width: 1; pointer-events: none }
.mark { fill: #cf222e } .bound { stroke: #cf222e; stroke-dasharray: 6 4 }
"""
DARK_STYLE = """
.page { fill: #0d1117 } .area { fill: #161b22; stroke: #6e7681 }
text { fill: #e6edf3 } .muted { fill: #9198a1 } .grid { stroke: #2a313a } .tick { stroke: #6e7681 }
.buffer { stroke: #0d1117 } .name { fill: #f0f6fc }
.a0 { fill: #2f6cab } .a1 { fill: #275d96 } .a2 { fill: #387ab9 } .a3 { fill: #235487 }
.p0 { fill: #b8651b } .p1 { fill: #a65812 } .p2 { fill: #c57326 } .p3 { fill: #954f10 }
.w0 { fill: #49525c } .w1 { fill: #49525c } .w2 { fill: #49525c } .w3 { fill: #49525c }
.q0 { fill: #6a7480 } .q1 { fill: #6a7480 } .q2 { fill: #6a7480 } .q3 { fill: #6a7480 }
.live { fill: #303a45; stroke: #9198a1 } .mark { fill: #ff7b72 } .peak { fill: #ff7b72; stroke: #ff7b72 }
.bound { stroke: #ff7b72 }
"""
"""What differs where the reader prefers a dark page."""

_KINDS = (
    ("a", "activation"),
    ("p", "activation live at the peak"),
    ("w", "workspace"),
    ("q", "workspace live at the peak"),
)


def memory_picture(plans: Sequence[tuple[str, MemoryPlan]], *, zoomable: bool = False) -> str:
    """The text of an SVG file with one plan, or with several side by side, each under its title.

    `zoomable`: names that do not fit at this size are there too, hidden and as small as they have to be (class `fine`,
    attribute `data-size`), for a page that can enlarge the picture.
    """
    width = WIDTH if len(plans) == 1 else HALF_WIDTH
    height = max(1, *(plan.arena_bytes for _, plan in plans))
    peak = max(1, *(plan.peak_bytes for _, plan in plans))
    total_width = LEFT + len(plans) * (width + BETWEEN) - BETWEEN + RIGHT
    total_height = STRIP_BOTTOM + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" '
        f'width="{total_width}" height="{total_height}">',
        f"<style>{STYLE}@media (prefers-color-scheme: dark) {{{DARK_STYLE}}}</style>",
        f'<rect class="page" width="{total_width}" height="{total_height}"/>',
        *_legend([plan for _, plan in plans]),
    ]
    for position, (title, plan) in enumerate(plans):
        frame = _Frame(LEFT + position * (width + BETWEEN), width, *plan.span, height, peak)
        parts += _panel(title, plan, frame, with_bytes=position == 0, zoomable=zoomable)
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True)
class _Frame:
    """From moments and bytes to pixels: `height` bytes fill the area of the plan, `peak` bytes the strip below."""

    left: float
    width: float
    begin: int
    end: int
    height: int
    peak: int

    @property
    def right(self) -> float:
        return self.left + self.width

    def x(self, moment: float) -> float:
        return self.left + self.width * (moment - self.begin) / (self.end - self.begin)

    def y(self, offset: float) -> float:
        return TOP + HEIGHT * (1 - offset / self.height)

    def strip_y(self, live: float) -> float:
        return STRIP_BOTTOM - STRIP * live / self.peak


def _panel(title: str, plan: MemoryPlan, frame: _Frame, *, with_bytes: bool, zoomable: bool) -> list[str]:
    live = {id(planned) for planned in plan.live_at(plan.peak_moment)}
    rectangles: list[str] = []
    labels: list[str] = []
    for index, planned in enumerate(plan.buffers):
        kind = _KINDS[2 * planned.is_workspace + (id(planned) in live)][0]
        for run in planned.buffer.runs:
            box = _box(planned, run, frame)
            rectangles.append(_rectangle(planned, box, f"{kind}{index % SHADES}"))
            labels += _label(planned.buffer.id, box, zoomable)
    return [
        *_heading(title, plan, frame),
        *_axes(frame, with_bytes),
        *rectangles,
        *_live_strip(plan, frame),
        *_peak(plan, frame),
        *labels,
    ]


def _heading(title: str, plan: MemoryPlan, frame: _Frame) -> list[str]:
    share = (plan.arena_bytes - plan.peak_bytes) / plan.peak_bytes if plan.peak_bytes else 0.0
    buffers = counted(len(plan.buffers), "buffer")
    figures = f"arena {plan.arena_bytes:,} bytes, fragmentation {share:.1%}, {buffers}"
    return [
        f'<text class="title" x="{frame.left}" y="26">{escape(_shortened(title, frame.width, 16))}</text>',
        f'<text class="muted" x="{frame.left}" y="48">{escape(_shortened(figures, frame.width, 12))}</text>',
    ]


def _legend(plans: Sequence[MemoryPlan]) -> list[str]:
    """One row of coloured squares with their meaning; kinds that are not there are left out."""
    with_workspaces = any(planned.is_workspace for plan in plans for planned in plan.buffers)
    parts: list[str] = []
    x = float(LEFT)
    for kind, meaning in _KINDS if with_workspaces else _KINDS[:2]:
        parts.append(f'<rect class="{kind}0" x="{x:.0f}" y="62" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{x + 18:.0f}" y="72">{meaning}</text>')
        x += 18 + 12 * CHARACTER * len(meaning) + 12
    if any(plan.peak_bytes < plan.arena_bytes for plan in plans):
        parts.append(f'<line class="bound" x1="{x:.0f}" y1="68" x2="{x + 24:.0f}" y2="68"/>')
        parts.append(f'<text x="{x + 30:.0f}" y="72">lower bound</text>')
    return parts


@dataclass(frozen=True)
class _Box:
    """A rectangle in pixels; `y` is its upper edge."""

    x: float
    y: float
    width: float
    height: float


def _box(planned: PlannedBuffer, run: tuple[int, int], frame: _Frame) -> _Box:
    x, top = frame.x(run[0]), frame.y(planned.offset + planned.buffer.footprint)
    return _Box(x, top, frame.x(run[1]) - x, frame.y(planned.offset) - top)


def _rectangle(planned: PlannedBuffer, box: _Box, classes: str) -> str:
    buffer = planned.buffer
    tip = [
        f"{one_line(buffer.id)}: {'workspace' if planned.is_workspace else planned.type}",
        f"{buffer.size:,} bytes at {planned.offset:,}, live in [{buffer.lower}, {buffer.upper})",
    ]
    if planned.nodes:
        tip.append(("for " if planned.is_workspace else "from ") + one_line(", ".join(planned.nodes)))
    return (
        f'<rect class="buffer {classes}" x="{box.x:.2f}" y="{box.y:.2f}" width="{box.width:.2f}" '
        f'height="{box.height:.2f}"><title>{escape(chr(10).join(tip))}</title></rect>'
    )


def _label(name: str, box: _Box, zoomable: bool) -> Iterable[str]:
    """The name in the rectangle: across, upright, or shortened; none where it has no room."""
    name = one_line(name)
    across = CHARACTER * LABEL_SIZE * len(name) + 4 <= box.width and box.height >= LABEL_SIZE + 2
    upright = not across and box.height > box.width
    length, breadth = (box.height, box.width) if upright else (box.width, box.height)
    shown = _shortened(name, length - 4, LABEL_SIZE)
    size, hidden = float(LABEL_SIZE), ""
    if breadth < LABEL_SIZE + 2 or len(shown) < min(len(name), SHORTEST_LABEL):
        size = min(0.8 * breadth, 0.9 * length / (CHARACTER * max(len(name), 1)))
        if not zoomable or size < SMALLEST_LABEL:
            return
        shown, hidden = name, f' fine" style="font-size:{size:.2f}px" data-size="{size:.2f}'
    x, y = box.x + box.width / 2, box.y + box.height / 2
    turn = f' transform="rotate(-90 {x:.2f} {y:.2f})"' if upright else ""
    yield f'<text class="name{hidden}" x="{x:.2f}" y="{y + 0.35 * size:.2f}"{turn}>{escape(shown)}</text>'


def _shortened(text: str, width: float, size: float) -> str:
    """As much of a text as `width` pixels hold, with an ellipsis where something is left out."""
    room = int(width / (CHARACTER * size))
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


def _axes(frame: _Frame, with_bytes: bool) -> list[str]:
    """Both areas, a grid at round numbers of bytes, and the moments at the bottom."""
    parts = [
        f'<rect class="area" x="{frame.left}" y="{top}" width="{frame.width}" height="{height}"/>'
        for top, height in ((TOP, HEIGHT), (STRIP_TOP, STRIP))
    ]
    step = _bytes_step(frame.height)
    for offset in range(0, frame.height + 1, step):
        y = frame.y(offset)
        parts.append(f'<line class="grid" x1="{frame.left}" y1="{y:.2f}" x2="{frame.right}" y2="{y:.2f}"/>')
        if with_bytes:
            parts.append(
                f'<text x="{frame.left - 8}" y="{y + 4:.2f}" text-anchor="end">{_bytes(offset)}</text>'
            )
    if with_bytes:
        middle = (STRIP_TOP + STRIP_BOTTOM) / 2
        parts.append(
            f'<text class="muted" x="{frame.left - 8}" y="{middle + 4}" text-anchor="end">live bytes</text>'
        )
    for moment in _ticks(frame.begin, frame.end):
        x = frame.x(moment)
        parts.append(
            f'<line class="tick" x1="{x:.2f}" y1="{STRIP_BOTTOM}" x2="{x:.2f}" y2="{STRIP_BOTTOM + 4}"/>'
        )
        parts.append(f'<text x="{x:.2f}" y="{STRIP_BOTTOM + 18}" text-anchor="middle">{moment:,}</text>')
    middle = frame.left + frame.width / 2
    parts.append(
        f'<text class="muted" x="{middle}" y="{STRIP_BOTTOM + 36}" text-anchor="middle">moment</text>'
    )
    return parts


def _ticks(begin: int, end: int) -> range:
    """At most eleven round numbers from `begin` to `end`: steps of 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if end - begin <= 10 * step:
                return range(-(-begin // step) * step, end + 1, step)
        power *= 10


def _bytes_step(height: int) -> int:
    """A power of two, of which at most eight are in `height` bytes."""
    return 1 << max(0, (-(-height // 8) - 1).bit_length())


def _bytes(number: int) -> str:
    """Bytes, a multiple of a power of two, in the largest unit in which they have a short name."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number / unit:.4g} {name}"
    return f"{number} B" if number else "0"


def _live_strip(plan: MemoryPlan, frame: _Frame) -> list[str]:
    """The bytes that live at each moment, as steps over the strip's lower edge."""
    if not plan.buffers:
        return []
    steps = [f"M{frame.x(frame.begin):.2f} {STRIP_BOTTOM}"]
    for moment, live in plan.profile:
        steps.append(f"H{frame.x(moment):.2f}V{frame.strip_y(live):.2f}")
    return [f'<path class="live" d="{"".join(steps)}Z"/>']


def _peak(plan: MemoryPlan, frame: _Frame) -> list[str]:
    """The moment of the peak as a band with what it is, and the lower bound as a line, if it is below the top."""
    if not plan.buffers:
        return []
    x, width = frame.x(plan.peak_moment), max(frame.x(frame.begin + 1) - frame.x(frame.begin), 2)
    text = f"peak: {plan.live_bytes(plan.peak_moment):,} bytes at moment {plan.peak_moment:,}"
    if plan.peak_maker:
        text += f", {one_line(plan.peak_maker)}"
    text = _shortened(text, frame.width, 12)
    middle, half = x + width / 2, len(text) * CHARACTER * 12 / 2
    anchor, at = "middle", middle
    if middle - half < frame.left:
        anchor, at = "start", frame.left
    elif middle + half > frame.right:
        anchor, at = "end", frame.right
    top = TOP - 2
    parts = [
        f'<rect class="peak" x="{x:.2f}" y="{TOP}" width="{width:.2f}" height="{STRIP_BOTTOM - TOP}"/>',
        f'<path class="mark" d="M{middle - 5:.2f} {top - 7}h10l-5 7z"/>',
        f'<text class="mark" x="{at:.2f}" y="{top - 12}" text-anchor="{anchor}">{escape(text)}</text>',
    ]
    if plan.peak_bytes < plan.arena_bytes:
        y = frame.y(plan.peak_bytes)
        parts.append(
            f'<line class="bound" x1="{frame.left}" y1="{y:.2f}" x2="{frame.right}" y2="{y:.2f}">'
            f"<title>lower bound: {plan.peak_bytes:,} bytes, the most that are live at once</title></line>"
        )
    return parts
