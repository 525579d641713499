"""`mlopt plan`: CSV in, CSV out, and one clear sentence for each way a file can be malformed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mlopt.cli.main import main

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
"""MiniMalloc's example: 12 bytes are live at every moment, and suffice."""

NINE_FOR_EIGHT = """\
id,lower,upper,size
b0,0,3,4
b1,0,4,4
b2,3,5,1
b3,3,7,1
b4,3,6,1
b5,3,6,1
b6,4,7,2
b7,4,9,1
b8,4,6,1
b9,5,10,1
b10,6,8,3
b11,7,10,3
"""
"""At most 8 bytes are live at once, and 9 are needed: by exhaustive search over all layouts (see test_search.py)."""


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "buffers.csv"
    path.write_text(EXAMPLE)
    return path


def test_writes_the_rows_with_offsets(
    buffers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    assert main(["plan", str(buffers), "-o", str(out), "--capacity", "12"]) == 0
    printed = capsys.readouterr().out
    assert "height       12\n" in printed
    assert "lower bound  12 (max-live)\n" in printed
    assert "status       optimal (max-live)\n" in printed
    assert "capacity     12: reached\n" in printed
    lines = out.read_text().splitlines()
    assert [line.rpartition(",")[0] for line in lines] == EXAMPLE.splitlines()
    rows = list(csv.DictReader(lines))
    for one in rows:
        for other in rows:
            together = int(one["lower"]) < int(other["upper"]) and int(other["lower"]) < int(one["upper"])
            if one is not other and together:
                assert abs(int(one["offset"]) - int(other["offset"])) >= 4
    assert max(int(row["offset"]) for row in rows) == 8


def test_says_that_nothing_is_written(buffers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "no -o: the offsets are not written (-v prints them)\n"
    for volume, err in (([], said), (["-q"], "")):
        assert main(["plan", str(buffers), *volume]) == 0
        printed = capsys.readouterr()
        assert "height       12\n" in printed.out
        assert printed.err == err


def test_verbose_prints_the_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,lower,upper,size\na,-1,2,3\nb,0,5,2\n")
    assert main(["plan", str(path), "-v"]) == 0
    assert capsys.readouterr().err == "a: bytes [0, 3) in [-1, 2)\nb: bytes [3, 5) in [0, 5)\n"


def test_a_planned_file_can_be_planned_again(buffers: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    assert main(["plan", str(buffers), "-o", str(first)]) == 0
    assert main(["plan", str(first), "-o", str(second)]) == 0
    assert first.read_text() == second.read_text()


def test_columns_in_another_order_and_alignment(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("size,id,upper,alignment,lower\n3,a,5,1,0\n8,b,5,8,0\n")
    assert main(["plan", str(path), "-o", str(out), "--capacity", "11"]) == 0
    offsets = {row["id"]: int(row["offset"]) for row in csv.DictReader(out.read_text().splitlines())}
    assert offsets["b"] % 8 == 0
    assert offsets == {"a": 8, "b": 0}


def test_a_capacity_may_have_a_unit(buffers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(buffers), "--capacity", "1KiB"]) == 0
    assert "capacity     1024: reached\n" in capsys.readouterr().out


def test_exit_code_1_if_the_capacity_is_not_reached(
    buffers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(buffers), "--capacity", "11"]) == 1
    assert "11: not reached, and no plan does: 12 bytes are needed at least" in capsys.readouterr().out


def test_efforts(capsys: pytest.CaptureFixture[str]) -> None:
    """On an instance of MiniMalloc whose capacity, 1048576, greedy plans miss and the search reaches."""
    instance = str(Path(__file__).parents[1] / "memory" / "challenging" / "G.1048576.csv")
    assert main(["plan", instance, "--capacity", "1048576"]) == 1
    assert "bytes are missing" in capsys.readouterr().out
    assert main(["plan", instance, "--capacity", "1048576", "--effort", "search", "--nodes", "100"]) == 1
    assert "nodes        100\n" in capsys.readouterr().out
    assert main(["plan", instance, "--capacity", "1048576", "--effort", "search"]) == 0
    assert "status       optimal (max-live)\n" in capsys.readouterr().out


def test_a_gap_says_between_what_the_smallest_plan_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No plan has less than 9 bytes, which the fast effort can't know: it knows of 8 live ones."""
    path = tmp_path / "in.csv"
    path.write_text(NINE_FOR_EIGHT)
    assert main(["plan", str(path)]) == 0
    assert (
        "status       gap 1 bytes, 12.50%: not proved optimal, the smallest plan has between 8 and 9 bytes\n"
    ) in capsys.readouterr().out


def test_exact_proves_what_is_above_max_live(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.csv"
    path.write_text(NINE_FOR_EIGHT)
    assert main(["plan", str(path), "--effort", "exact"]) == 0
    printed = capsys.readouterr().out
    assert "height       9\n" in printed
    assert "lower bound  8 (max-live)\n" in printed
    assert "proved bound 9 (search)\n" in printed
    assert "status       optimal (proved)\n" in printed


def test_gaps_and_fixed_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: `b` lives in the gap of `a`, which is fixed at 4; `c` must be below it."""
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("id,lower,upper,size,gaps,fixed\na,0,9,4,2-4 5-8,4\nb,5,8,8,,\nc,0,1,4,,\n")
    assert main(["plan", str(path), "-o", str(out), "--capacity", "8"]) == 0
    assert "status       optimal (max-live)\n" in capsys.readouterr().out
    assert out.read_text().splitlines()[1:] == ["a,0,9,4,2-4 5-8,4,4", "b,5,8,8,,,0", "c,0,1,4,,,0"]


def test_a_capacity_that_cannot_be_met_is_explained(
    tmp_path: Path, buffers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(buffers), "--capacity", "11"]) == 1
    assert capsys.readouterr().out.endswith(
        "because      the 3 buffers below are live at once and take 12 bytes; none can be left out:\n"
        "  b1: 4 bytes in [0, 3)\n  b3: 4 bytes in [0, 9)\n  b5: 4 bytes in [0, 21)\n"
    )
    path = tmp_path / "in.csv"
    path.write_text(NINE_FOR_EIGHT)
    assert main(["plan", str(path), "--capacity", "8", "--effort", "exact"]) == 1
    assert (
        "because      the 12 buffers below can't be placed within 8 bytes; none can be left out:\n"
    ) in capsys.readouterr().out


def test_the_kernel_makes_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    instance = str(Path(__file__).parents[1] / "memory" / "challenging" / "J.1048576.csv")
    printed: list[str] = []
    for kernel in ("python", "auto"):
        assert main(["plan", instance, "--effort", "search", "--nodes", "6000", "--kernel", kernel]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_strategies(buffers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: five buffers of 4 bytes, three of them live at once."""
    for strategy, height in (("none", 20), ("conservative", 12), ("coloring", 12)):
        assert main(["plan", str(buffers), "--strategy", strategy]) == 0
        assert f"height       {height}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "id,lower,upper,size,gaps\na,0,9,4,1:3\n",
            2,
            "expected gaps as LOWER-UPPER, separated by spaces, found '1:3'",
        ),
        ("id,lower,upper,size,gaps\na,0,9,4,0-3\n", 2, "expected gaps in order and within the lifetime"),
        ("id,lower,upper,size,fixed\na,0,9,4,x\n", 2, "expected a whole number as fixed, found 'x'"),
        (
            "id,lower,upper,size,fixed\na,0,9,4,-1\n",
            2,
            "expected a fixed offset that is a multiple of 1, found -1",
        ),
        (
            "id,lower,upper,size,fixed\na,0,2,4,0\nc,0,9,9,\nb,1,2,4,2\n",
            4,
            "buffers 'a' (bytes [0, 4), live in [0, 2)) and 'b' (bytes [2, 6), live in [1, 2)) overlap",
        ),
        ("", None, "found an empty file"),
        ("\n\n", None, "found an empty file"),
        ("id,lower,upper\na,0,1\n", 1, "expected a column 'size', found 'id', 'lower', 'upper'"),
        ("a,0,1,4\n", 1, "expected a column 'id'"),
        ("id,lower,upper,size,colour\na,0,1,4,red\n", 1, "found 'colour'"),
        ("id,lower,upper,size,size\na,0,1,4,4\n", 1, "expected every column once, found 'size' again"),
        ("id,lower,upper,size\na,0,1\n", 2, "expected 4 fields (id, lower, upper, size), found 3"),
        ("id,lower,upper,size\na,0,1,4,5\n", 2, "expected 4 fields (id, lower, upper, size), found 5"),
        ("id,lower,upper,size\n,0,1,4\n", 2, "expected an id, found an empty field"),
        ("id,lower,upper,size\na,0,1,4\nb,0,1,4\na,1,2,4\n", 4, "found 'a' again (first in line 2)"),
        ("id,lower,upper,size\na,0,1,-4\n", 2, "expected a size of at least 0, found -4"),
        ("id,lower,upper,size\na,3,1,4\n", 2, "expected lower < upper, found lower 3 and upper 1"),
        ("id,lower,upper,size\na,3,3,4\n", 2, "expected lower < upper, found lower 3 and upper 3"),
        ("id,lower,upper,size\na,0,1,4.5\n", 2, "expected a whole number as size, found '4.5'"),
        ("id,lower,upper,size\na,x,1,4\n", 2, "expected a whole number as lower, found 'x'"),
        ("id,lower,upper,size\na,0,,4\n", 2, "expected a whole number as upper, found ''"),
        ("id,lower,upper,size\na,0,1,1_000\n", 2, "expected a whole number as size, found '1_000'"),
        (f"id,lower,upper,size\na,0,1,{'9' * 5000}\n", 2, "at most 100 digits as size, found 5000"),
        ("id,lower,upper,size,alignment\na,0,1,4,0\n", 2, "expected an alignment of at least 1, found 0"),
        ('id,lower,upper,size\n"a,0,1,4\n', 2, "expected a CSV record"),
    ],
)
def test_malformed_files(
    text: str, line: int | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text(text)
    assert main(["plan", str(path), "-o", str(out)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{path}:{line}: error: " if line else f"{path}: error: ")
    assert message in error.splitlines()[0]
    assert not out.exists()


def test_files_that_are_no_text_or_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.csv"
    assert main(["plan", str(path)]) == 1
    assert "found no such file" in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe\x00")
    assert main(["plan", str(path)]) == 1
    assert "found no UTF-8 text" in capsys.readouterr().err
    assert main(["plan", str(tmp_path)]) == 1
    assert "can't read the buffers" in capsys.readouterr().err


def test_sizes_beyond_64_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"id,lower,upper,size\na,0,2,{1 << 70}\nb,1,3,{1 << 70}\n")
    assert main(["plan", str(path), "--effort", "exact"]) == 0
    assert f"height       {1 << 71}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--strategy", "none", "--effort", "exact"],
        ["--kernel", "c"],
        ["--nodes", "5"],
        ["--nodes", "x", "--effort", "search"],
        ["--capacity", "-1"],
        ["--effort", "lazy"],
    ],
)
def test_wrong_command_lines(arguments: list[str], buffers: Path) -> None:
    assert main(["plan", str(buffers), *arguments]) == 2
