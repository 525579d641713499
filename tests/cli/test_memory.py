"""`mlopt memory`: the figures of the report as a table, the buffers at the peak, CSV, SVG and HTML of the plan."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.mlopt_command import BATCH, Command
from tests.test_spilling import PRODUCTS

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
    assert rows["activations, most live at once"] == f"{memory['max_live_bytes']:,}"
    assert rows["arena"] == f"{memory['arena_bytes']:,}"
    assert rows["status"] == memory["status"]


def test_tables_fit_80_columns(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "-v")
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 80


def test_the_peak_names_buffers_and_nodes(mlopt: Command) -> None:
    """Without optimisation every operator writes its own buffer, of 5 x 24 floats (480, so 512); three live at once.

    The first sum with a bias has room below that peak to write the bias out, and so the peak is there already.
    """
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize")
    assert done.code == 0
    live = done.out[done.out.index("live at the peak") :]
    assert "5x24xf32" in live
    assert "fc" in live  # the nodes of both hidden layers are called fc1/... and fc2/...
    total = sum(int(line.split()[1].replace(",", "")) for line in live.splitlines() if "f32" in line)
    total += sum(int(line.split()[1].replace(",", "")) for line in live.splitlines() if "workspace" in line)
    assert f"{total:,}" == figures(done.out)["lower bound: most live at once"]
    assert re.search(rf"{total:,} bytes at moment \d+, while fc1/Add runs", live)


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
    assert all("bytes at" in title and "live in [" in title for title in titles if title is not None)
    ids = [row["id"] for row in csv.DictReader(Path("p.csv").read_text().splitlines())]
    assert named == ids
    assert any((text.text or "").startswith("peak: ") for text in root.iter(f"{SVG}text"))


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


def test_the_page_stands_alone_and_has_all_names(mlopt: Command) -> None:
    """No address but the name of the SVG format; names that are too long for their rectangles are there, hidden."""
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--html", "p.html", "--csv", "p.csv", "-q")
    assert done.code == 0
    page = Path("p.html").read_text()
    assert set(re.findall(r"https?://[^\"]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)|src=|@import|url\(", page)
    names = re.findall(r'<text class="name[^>]*>([^<]*)</text>', page)
    ids = [row["id"] for row in csv.DictReader(Path("p.csv").read_text().splitlines())]
    assert sorted(names) == sorted(ids)
    assert "m.onnx: live at the peak" in page


def rows_of(done_out: str) -> dict[str, list[str]]:
    """The rows of the table that compares."""
    lines = done_out[done_out.index("\n compared") :].splitlines()
    return {cells[0]: cells[1:] for line in lines if len(cells := re.split(r"  +", line.strip())) > 2}


def test_a_name_that_fits_without_its_suffix_is_whole(mlopt: Command) -> None:
    Path("m.onnx").rename("twelve_chars_.onnx")
    done = mlopt("memory", "twelve_chars_.onnx", "--dim", f"batch={BATCH}", "--compare", "O0")
    assert rows_of(done.out)["compared"] == ["twelve_chars_", "O0", "change"]


def test_a_refusal_names_the_file_and_the_budget_as_given(mlopt: Command) -> None:
    """The budget is a multiple of no alignment; the node is one of the file's."""
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--memory-budget", "9")
    assert done.code == 1
    error, *notes = done.err.splitlines()
    assert error.startswith('m.onnx: node "') and "fits into 9 bytes: " in error
    assert all(note.startswith(('m.onnx: node "', "note: ")) for note in notes)


def test_a_long_name_leaves_room_for_the_numbers(mlopt: Command) -> None:
    """In the 80 columns of what is no terminal, figures and changes are whole."""
    long = f"{'name_' * 10}.onnx"
    Path("m.onnx").rename(long)
    done = mlopt("memory", long, "--dim", f"batch={BATCH}", "--compare", "O0")
    assert done.code == 0
    rows = rows_of(done.out)
    assert rows["compared"] == ["name_name_name_…", "O0", "change"]
    assert all(change.endswith("%") for *_, change in (rows["arena"], rows["buffers (number)"]))


def test_two_strategies_are_compared(mlopt: Command) -> None:
    """Without reuse the arena is the sum of all buffers; the lower bound is that of the order, and the same."""
    plain = ("memory", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize")
    done = mlopt(*plain, "--compare", "none", "--svg", "p.svg", "--html", "p.html")
    assert done.code == 0
    rows = rows_of(done.out)
    assert rows["compared"] == ["m.onnx", "none", "change"]
    assert rows["arena"][0] == figures(done.out.split("\n compared")[0])["arena"]
    total = figures(done.out.split("\n compared")[0])["all buffers, no reuse"]
    assert rows["arena"][1] == total != rows["arena"][0]
    assert rows["lower bound: most live at once"][0] == rows["lower bound: most live at once"][1]
    root = ET.parse("p.svg").getroot()
    titles = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "title"]
    assert titles == ["m.onnx", "m.onnx: none"]


def test_two_plans_are_drawn_on_one_scale(mlopt: Command) -> None:
    """A buffer is as high in one picture as in the other: all hidden layers have 5 x 24 floats (480, so 512 bytes)."""
    plain = ("memory", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize")
    assert mlopt(*plain, "--compare", "none", "--svg", "p.svg").code == 0
    rects = [r for r in ET.parse("p.svg").getroot().iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    half = len(rects) // 2
    for left, right in zip(rects[:half], rects[half:], strict=True):
        assert (
            left.findtext(f"{SVG}title", "").split(" at ")[0]
            == right.findtext(f"{SVG}title", "").split(" at ")[0]
        )
        assert float(left.attrib["height"]) == pytest.approx(float(right.attrib["height"]), abs=0.02)
        assert float(right.attrib["x"]) > float(left.attrib["x"]) + 500


@pytest.mark.parametrize("other", ["O0", "options.json", "m.mlir", "p.csv", "canonicalize,convert"])
def test_what_can_be_compared(mlopt: Command, other: str) -> None:
    plain = ("memory", "m.onnx", "--dim", f"batch={BATCH}")
    if other == "options.json":
        Path(other).write_text('{"optimization": {"memory_reuse_strategy": "none"}}')
    elif other == "m.mlir":
        assert mlopt("compile", "m.onnx", "--dim", f"batch={BATCH}", "-o", other).code == 0
    elif other == "p.csv":
        assert mlopt(*plain, "--csv", other).code == 0
    done = mlopt(*plain, "--compare", other)
    if other == "canonicalize,convert":
        assert done.code != 0
        assert "convert" in done.err
        return
    assert done.code == 0
    assert rows_of(done.out)["compared"][1] == other
    if other in ("m.mlir", "p.csv"):
        assert len(rows_of(done.out)["arena"]) == 2  # no change


def test_a_plan_in_a_file_is_shown(mlopt: Command) -> None:
    """The example of MiniMalloc: 12 bytes are enough, and at moment 3 so many live."""
    Path("b.csv").write_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n")
    assert mlopt("plan", "b.csv", "-o", "p.csv").code == 0
    done = mlopt("memory", "p.csv", "--svg", "p.svg", "--html", "p.html")
    assert done.code == 0
    rows = figures(done.out)
    assert (rows["all buffers, no reuse"], rows["arena"], rows["fragmentation (0.0%)"]) == ("20", "12", "0")
    assert rows["status"] == "optimal (max-live)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,lower,upper,size\na,0,1,4\n", "p.csv: error: expected a plan with a column 'offset'"),
        (
            "id,lower,upper,size,offset\na,0,1,4,x\n",
            "p.csv:2: error: expected a whole number as offset, found 'x'",
        ),
        ("id,lower,upper,size,offset\na,0,2,4,0\nb,1,2,4,2\n", "p.csv:3: error: buffers 'a' (bytes [0, 4),"),
        (
            "id,lower,upper,size,alignment,offset\na,0,2,4,4,0\nb,2,3,4,4,2\n",
            "p.csv:3: error: buffer 'b' is at offset 2, which is no multiple of its alignment 4",
        ),
    ],
)
def test_a_file_that_is_no_plan(mlopt: Command, text: str, message: str) -> None:
    Path("p.csv").write_text(text)
    done = mlopt("memory", "p.csv")
    assert done.code == 1
    assert done.err.startswith(message)


@pytest.mark.parametrize(
    "option", ["--waves=2", "--donate=x", "--memory-budget=9", "--dim=n=1", "--disable-pass=cse"]
)
def test_options_of_a_compilation_go_with_a_model(mlopt: Command, option: str) -> None:
    """One of the two that are compared is enough."""
    Path("p.csv").write_text("id,lower,upper,size,offset\na,0,1,4,0\n")
    done = mlopt("memory", "p.csv", option)
    assert done.code == 2
    assert "options of a compilation go with a model, found the plan 'p.csv'" in done.err
    if option == "--waves=2":
        assert mlopt("memory", "p.csv", option, "--compare", "m.onnx", "--dim", f"batch={BATCH}").code == 0


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
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--compare", "most")
    assert done.code == 2
    assert "--compare wants none, conservative, aggressive, O0" in done.err


@pytest.mark.parametrize("command", [("memory",), ("run", "--inputs", "io.npz")])
def test_a_wrong_plan_in_a_compiled_file_is_warned_of(mlopt: Command, command: tuple[str, ...]) -> None:
    """A file is run as it is, but its plan is verified: here all buffers are moved onto one another."""
    assert mlopt("compile", "m.onnx", "--dim", f"batch={BATCH}", "--no-optimize", "-o", "m.mlir").code == 0
    text = Path("m.mlir").read_text()
    assert len(set(re.findall(r"memref\.view %arena\[%c(\d+)\]", text))) > 1
    Path("m.mlir").write_text(re.sub(r"memref\.view %arena\[%c\d+\]", "memref.view %arena[%c0]", text))
    done = mlopt(command[0], "m.mlir", *command[1:])
    assert "warning: the memory plan is not safe, the results may be wrong: " in done.err
    assert re.search(r"buffers '%\w+ #0' .* and '%\w+ #1' .* overlap", done.err)


def test_a_budget_that_is_met(mlopt: Command) -> None:
    """Without fusion a hidden layer of 5 x 24 floats takes 512 bytes, and two of them are live at a time."""
    options = ("m.onnx", "--dim", f"batch={BATCH}", "--no-optimize")
    free = int(figures(mlopt("memory", *options).out)["arena"].replace(",", ""))
    done = mlopt("memory", *options, "--memory-budget", str(free - 64), "--remarks", "passed,analysis")
    assert done.code == 0
    assert int(figures(done.out)["arena"].replace(",", "")) <= free - 64
    assert "[fit-memory]" in done.err


def test_a_budget_that_is_not_met_is_explained(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--dim", f"batch={BATCH}", "--memory-budget", "0B")
    assert done.code == 1
    assert (
        "error: no order of the launches, and no second run of single ones, fits into 0 bytes: while"
        in done.err
    )
    assert "note: " in done.err


def test_spilling_where_nothing_else_fits(mlopt: Command) -> None:
    """The table has both memories, the picture a panel for each, and each has a file of offsets."""
    Path("p.mlir").write_text(PRODUCTS)
    options = ("p.mlir", "--no-optimize", "--memory-budget", "2KiB")
    assert mlopt("memory", *options).code == 1
    done = mlopt("memory", *options, "--spill-budget", "1KiB", "--csv", "p.csv", "--svg", "p.svg", "-v")
    assert done.code == 0
    found = figures(done.out)
    assert (found["arena"], found["memory space 1: arena"]) == ("2,048", "1,024")
    assert found["copied there and back in a run"] == "2,048"
    assert "a_spilled" in done.out
    assert Path("p.space1.csv").read_text().splitlines()[1].startswith("a_spilled,")
    assert "p.mlir: memory space 1" in Path("p.svg").read_text()
    assert mlopt("memory", "p.space1.csv").code == 0
    done = mlopt("memory", *options, "--spill-budget", "960")
    assert done.code == 1
    assert "found no way to fit into 2048 bytes, and 960 to spill to" in done.err


def test_wrong_budgets(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--memory-budget", "1KiB", "--spill-budget", "much")
    assert done.code == 2
    assert "expected a number of bytes, such as 65536, 64KiB or 1.5MB, or any, found 'much'" in done.err
    done = mlopt("memory", "m.onnx", "--spill-budget", "any")
    assert done.code == 2
    assert "--spill-budget goes with --memory-budget" in done.err
    done = mlopt("memory", "m.onnx", "--memory-budget", "much")
    assert done.code == 2
    assert "expected a number of bytes, such as 65536, 64KiB or 1.5MB, found 'much'" in done.err
    done = mlopt("memory", "m.onnx", "--memory-budget", "1KiB", "--pipeline", "cse,O2")
    assert done.code == 2
    assert "a memory budget goes with O0 to O3" in done.err


def test_waves_are_planned_for(mlopt: Command) -> None:
    """Compiled, what may run at once is in the file, which is loaded without a warning and gives the same."""
    options = ("m.onnx", "--dim", f"batch={BATCH}")
    alone = int(figures(mlopt("memory", *options).out)["arena"].replace(",", ""))
    assert int(figures(mlopt("memory", *options, "--waves", "4").out)["arena"].replace(",", "")) >= alone
    assert mlopt("run", *options, "--outputs", "alone.npz").code == 0
    assert mlopt("compile", *options, "--waves", "4", "-o", "planned.mlir").code == 0
    done = mlopt("run", "planned.mlir", "--check", "alone.npz")
    assert (done.code, "warning" in done.err) == (0, False)


@pytest.mark.parametrize("width", ["1", "-2", "two", "2.5", "9999999999"])
def test_wrong_waves(width: str, mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--waves", width)
    assert done.code == 2
    assert f"expected a number of launches, at least 2, found '{width}'" in done.err


def test_waves_go_with_standard_pipelines(mlopt: Command) -> None:
    done = mlopt("memory", "m.onnx", "--waves", "2", "--pipeline", "cse,O2")
    assert done.code == 2
    assert (
        "waves go with O0 to O3, in other pipelines they are the pass order-in-waves; found 'cse,O2'"
        in done.err
    )


def test_a_plan_from_a_file_keeps_to_the_budget_or_is_refused(mlopt: Command) -> None:
    options = ("--dim", f"batch={BATCH}")
    assert mlopt("compile", "m.onnx", *options, "-o", "planned.mlir").code == 0
    arena = int(figures(mlopt("memory", "planned.mlir").out)["arena"].replace(",", ""))
    assert mlopt("memory", "planned.mlir", "--memory-budget", str(arena)).code == 0
    done = mlopt("memory", "planned.mlir", "--memory-budget", str(arena - 1))
    assert done.code == 1
    assert f"its arena takes {arena} bytes, the budget is {arena - 1}" in done.err
