"""A memory plan as an HTML page: the picture, to be enlarged and pointed at, and what is live at the peak.

The page stands alone: no other file, no network. Without scripts the picture is still there, and names buffers when
they are pointed at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mlopt.diagnostics import one_line
from mlopt.visual.memory_picture import memory_picture
from mlopt.visual.planned import MemoryPlan

_STYLE = """
:root { color-scheme: light dark }
body { margin: 24px auto; max-width: 1400px; padding: 0 16px; background: #fff; color: #1f2328;
  font: 14px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
svg { width: 100%; height: auto; display: block; cursor: grab; touch-action: none }
h2 { font-size: 16px; margin: 24px 0 4px } p { margin: 4px 0; color: #59636e }
.tables { display: flex; flex-wrap: wrap; gap: 8px 48px }
table { border-collapse: collapse } th, td { padding: 3px 16px 3px 0; text-align: left }
th { border-bottom: 1px solid #8c959f } td { border-bottom: 1px solid #d8dee4; overflow-wrap: anywhere }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
#tip { position: fixed; display: none; max-width: 480px; padding: 6px 10px; border-radius: 6px; white-space: pre-line;
  background: #1f2328; color: #fff; font-size: 12px; pointer-events: none; z-index: 1 }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } p { color: #9198a1 } #tip { background: #e6edf3; color: #0d1117 }
  th { border-color: #6e7681 } td { border-color: #2a313a }
}
"""

_SCRIPT = """
const svg = document.querySelector("svg"), tip = document.getElementById("tip");
const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
const fine = [...svg.querySelectorAll(".fine")];
let view = { x: 0, y: 0, zoom: 1 }, drag = null;
function show() {
  view.x = Math.min(Math.max(view.x, 0), width - width / view.zoom);
  view.y = Math.min(Math.max(view.y, 0), height - height / view.zoom);
  svg.setAttribute("viewBox", [view.x, view.y, width / view.zoom, height / view.zoom].join(" "));
  for (const name of fine) name.style.display = name.dataset.size * view.zoom >= 7 ? "inline" : "none";
}
svg.addEventListener("wheel", event => {
  event.preventDefault();
  const box = svg.getBoundingClientRect(), zoom = Math.min(Math.max(view.zoom * 1.002 ** -event.deltaY, 1), 60);
  const right = (event.clientX - box.left) / box.width, down = (event.clientY - box.top) / box.height;
  view.x += right * width * (1 / view.zoom - 1 / zoom);
  view.y += down * height * (1 / view.zoom - 1 / zoom);
  view.zoom = zoom;
  show();
}, { passive: false });
svg.addEventListener("pointerdown", event => { drag = { x: event.clientX, y: event.clientY, from: { ...view } }; });
addEventListener("pointerup", () => { drag = null; });
addEventListener("pointermove", event => {
  if (!drag) return;
  const scale = width / view.zoom / svg.getBoundingClientRect().width;
  view.x = drag.from.x - (event.clientX - drag.x) * scale;
  view.y = drag.from.y - (event.clientY - drag.y) * scale;
  show();
});
svg.addEventListener("dblclick", () => { view = { x: 0, y: 0, zoom: 1 }; show(); });
for (const title of svg.querySelectorAll("rect.buffer > title")) {
  const buffer = title.parentNode, text = title.textContent;
  buffer.setAttribute("aria-label", text);
  title.remove();
  buffer.addEventListener("pointermove", event => {
    tip.textContent = text;
    tip.style.display = "block";
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });
  buffer.addEventListener("pointerleave", () => { tip.style.display = "none"; });
}
"""


def memory_page(plans: Sequence[tuple[str, MemoryPlan]]) -> str:
    """The text of an HTML file with one plan, or with several side by side, each with its title."""
    picture = memory_picture(plans, zoomable=True)
    tables = "\n".join(_peak_table(title, plan) for title, plan in plans)
    heading = escape(one_line(" and ".join(title for title, _ in plans)))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}: memory plan</title>
<style>{_STYLE}</style>
</head>
<body>
{picture}<p>The wheel enlarges, dragging moves, a double click shows all. Point at a buffer for its name.</p>
<div class="tables">
{tables}
</div>
<div id="tip"></div>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _peak_table(title: str, plan: MemoryPlan) -> str:
    """What is live at the peak, largest first."""
    live = sorted(plan.live_at(plan.peak_moment), key=lambda planned: -planned.buffer.footprint)
    rows = "\n".join(
        _row(
            "td",
            one_line(planned.buffer.id),
            f"{planned.buffer.footprint:,}",
            "workspace" if planned.is_workspace else planned.type,
            one_line(", ".join(planned.nodes)),
        )
        for planned in live
    )
    head = _row("th", "buffer", "bytes", "type", "from nodes")
    return (
        f"<section><h2>{escape(one_line(title))}: live at the peak</h2>\n"
        f"<p>{plan.live_bytes(plan.peak_moment):,} bytes at moment {plan.peak_moment}</p>\n"
        f"<table>{head}\n{rows}</table></section>"
    )


def _row(cell: str, *texts: str) -> str:
    return f"<tr>{''.join(_cells(cell, texts))}</tr>"


def _cells(cell: str, texts: Iterable[str]) -> Iterable[str]:
    for column, text in enumerate(texts):
        kind = ' class="number"' if column == 1 else ""
        yield f"<{cell}{kind}>{escape(text)}</{cell}>"
