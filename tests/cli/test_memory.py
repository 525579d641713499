"""`mlopt memory`: the figures of the report as a table, the buffers at the peak, CSV and SVG of the plan."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.mlopt_command import BATCH, Command

SVG = "{http://www.w3.org/2000/svg}"


def figures(table: str) -> dict[str, str]:
    """The rows of a table of two columns."""
    rows = (line.strip().rsplit("  ", 1) for line in table.splitlines() if "  " in line.strip())
    return {name.strip(): value.strip() for name, value in rows}


def test_totals_are_those_of_the_report(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--report", "report.json")
    assert done.code == 0
    memory = json.loads(Path("report.json").read_text())["memory"]
    rows = figures(done.out)
    assert rows["weights"] == f"{memory['weights_bytes']:,}"
    # x is 5 times 8 floats, y 5 times 3.
    assert rows["inputs and outputs"] == f"{4 * (BATCH * 8 + BATCH * 3):,}" == "220"
    assert rows["tensors as planned, most live at once"] == f"{memory['max_live_bytes']:,}"
    assert rows["arena"] == f"{memory['arena_bytes']:,}"
    assert rows["status"] == memory["status"]


def test_tables_fit_80_columns(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "-v")
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 80


def test_the_peak_names_buffers_and_nodes(mlopt: Command) -> None:
    """Without optimisation every operator writes its own buffer; two live at once, of 5 x 24 floats (480, so 512)."""
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize")
    assert done.code == 0
    live = done.out[done.out.index("live at the peak") :]
    assert "5x24xf32" in live
    assert "fc" in live  # the nodes of both hidden layers are called fc1/... and fc2/...
    total = sum(int(line.split()[1].replace(",", "")) for line in live.splitlines() if "f32" in line)
    total += sum(int(line.split()[1].replace(",", "")) for line in live.splitlines() if "workspace" in line)
    assert f"{total:,}" == figures(done.out)["lower bound: most live at once"]


def test_csv_is_a_plan_that_the_planner_reads(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize", "--csv", "p.csv")
    rows = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "lower", "upper", "size", "alignment", "offset"]
    assert all(int(row["offset"]) % 64 == 0 for row in rows)
    arena = figures(done.out)["arena"].replace(",", "")
    assert mlopt("plan", "p.csv", "--capacity", arena).code == 0


def test_svg_has_a_rectangle_with_a_title_for_each_buffer(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--svg", "p.svg", "--csv", "p.csv")
    assert done.code == 0
    root = ET.parse("p.svg").getroot()
    titles = [rect.findtext(f"{SVG}title") for rect in root.iter(f"{SVG}rect")]
    named = [title.partition(":")[0] for title in titles if title is not None]
    ids = [row["id"] for row in csv.DictReader(Path("p.csv").read_text().splitlines())]
    assert named == ids
    assert any(text.text == "peak" for text in root.iter(f"{SVG}text"))


def test_rectangles_are_where_the_plan_says(mlopt: Command) -> None:
    """Areas of different buffers do not overlap, and widths are in proportion to lifetimes."""
    mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize", "--svg", "p.svg", "--csv", "p.csv")
    rows = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    rects = [r for r in ET.parse("p.svg").getroot().iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    boxes = [tuple(float(r.attrib[name]) for name in ("x", "y", "width", "height")) for r in rects]
    scale = boxes[0][2] / (int(rows[0]["upper"]) - int(rows[0]["lower"]))
    for row, (x, y, width, height) in zip(rows, boxes, strict=True):
        assert width == pytest.approx((int(row["upper"]) - int(row["lower"])) * scale, abs=0.02)
        for other_x, other_y, other_width, other_height in boxes:
            same = (x, y) == (other_x, other_y)
            across = min(x + width, other_x + other_width) - max(x, other_x)
            up = min(y + height, other_y + other_height) - max(y, other_y)
            assert same or across < 0.05 or up < 0.05


def test_a_compiled_file_and_a_model_without_buffers(mlopt: Command) -> None:
    assert mlopt("compile", "m.onnx", "--dim", f"batch={BATCH}", "-o", "m.mlir").code == 0
    compiled = figures(mlopt("memory", "m.mlir").out)
    imported = figures(mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}").out)
    assert compiled["arena"] == imported["arena"]
    Path("empty.mlir").write_text(
        'func.func @main(%x: tensor<2xf32> {mlopt.name = "x"}) -> (tensor<2xf32> {mlopt.name = "y"}) {\n'
        "  return %x : tensor<2xf32>\n}\n"
    )
    done = mlopt("memory", "empty.mlir", "--svg", "empty.svg", "--csv", "empty.csv")
    assert done.code == 0
    assert figures(done.out)["arena"] == "0"
    assert ET.parse("empty.svg").getroot().tag == f"{SVG}svg"


def test_errors(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx")
    assert done.code == 1
    assert 'no value for the symbolic dimension "batch"' in done.err
    done = mlopt("memory", "m.onnx", "--svg", "none/p.svg")
    assert done.code == 1
    assert "there is no folder 'none'" in done.err
