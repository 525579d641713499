"""`mlopt-opt` beside the real `mlir-opt`: headers of dumps, names of files, reports and messages are the same."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from mlopt.cli.opt import main
from tests.mlir_opt import run_mlir_opt

TEXT = """func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  %c = arith.muli %a, %b : i32
  return %c : i32
}
func.func @g(%x: i32) -> i32 {
  return %x : i32
}
"""
NESTED = "builtin.module(func.func(cse,canonicalize),cse)"

REGIONS = """func.func @f(%n: index, %x: memref<8xf32>, %c: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %step = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %v = memref.load %x[%i] : memref<8xf32>
    %a = arith.addf %v, %v : f32
    %b = arith.addf %v, %v : f32
    scf.if %c {
      %d = arith.mulf %a, %b : f32
      memref.store %d, %x[%i] : memref<8xf32>
    } else {
      memref.store %b, %x[%i] : memref<8xf32>
    }
  }
  scf.for %i = %c0 to %n step %step {
    %z = memref.load %x[%c0] : memref<8xf32>
    memref.store %z, %x[%i] : memref<8xf32>
  }
  return
}
func.func @g(%c: i1, %x: f32) -> f32 {
  %r = scf.if %c -> (f32) {
    %a = arith.addf %x, %x : f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  return %r : f32
}
func.func private @h(f32) -> f32
module @inner {
  func.func @"a/b"(%x: f32) -> f32 {
    %a = arith.addf %x, %x : f32
    %b = arith.addf %x, %x : f32
    %s = arith.mulf %a, %b : f32
    return %s : f32
  }
}
"""
PIPELINES = {
    "by function": ("builtin.module(func.func(cse,canonicalize,cse),builtin.module(func.func(cse)),cse)", 22),
    "by module": ("builtin.module(cse,func.func(canonicalize),builtin.module(canonicalize))", 10),
}
"""Of `REGIONS`, and how often a pass begins or ends in them."""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Runs both commands on a text; the exit code and the messages of each, mlopt's first."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *flags: str) -> list[tuple[int, str]]:
        (tmp_path / "x.mlir").write_text(text)
        ours = main(["x.mlir", *flags, "-o", "out.mlir"])
        messages = capfd.readouterr().err
        theirs = run_mlir_opt(["x.mlir", *flags, "-o", "out.mlir"])
        return [(ours, messages), (theirs.returncode, theirs.stderr)]

    return run


def headers(text: str) -> Sequence[str]:
    return [line for line in text.splitlines() if line.startswith("// -----// IR Dump")]


@pytest.mark.parametrize(
    ("flags", "dumps"),
    [
        (["--mlir-print-ir-after-all"], 5),
        (["--mlir-print-ir-before-all"], 5),
        (["--mlir-print-ir-before=cse", "--mlir-print-ir-after=canonicalize"], 5),
        (["--mlir-print-ir-before=cse,canonicalize"], 5),
        (["--mlir-print-ir-after-all", "--mlir-print-ir-after-change"], 1),
        (["--mlir-print-ir-after-change"], 0),
        (["--mlir-print-ir-after=cse", "--mlir-print-ir-after-change"], 1),
        (["--mlir-print-ir-before-all", "--mlir-print-ir-after-change"], 5),
        (
            ["--mlir-print-ir-after-all", "--mlir-print-ir-module-scope", "--mlir-disable-threading"],
            5,
        ),
        (["--mlir-print-ir-after-failure"], 0),
    ],
)
def test_headers_of_dumps(both, flags: list[str], dumps: int) -> None:
    (code, ours), (their_code, theirs) = both(TEXT, f"--pass-pipeline={NESTED}", *flags)
    assert (code, their_code) == (0, 0)
    assert sorted(headers(ours)) == sorted(headers(theirs))
    assert len(headers(ours)) == dumps


def test_a_tree_of_no_dumps(tmp_path: Path, both) -> None:
    """What says how dumps are made makes none; mlopt says so."""
    (code, ours), (their_code, theirs) = both(TEXT, "--cse", f"--mlir-print-ir-tree-dir={tmp_path / 'tree'}")
    assert (code, their_code, theirs) == (0, 0, "")
    assert ours.startswith("warning: --mlir-print-ir-tree-dir prints nothing by itself: it goes with")
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize(
    "pipeline", ["builtin.module(func.func(scf.for(cse)))", "builtin.module(func.func(scf.if(cse)))"]
)
def test_passes_run_on_isolated_operations(both, pipeline: str) -> None:
    (code, ours), (their_code, theirs) = both(REGIONS, f"--pass-pipeline={pipeline}")
    assert (code, their_code) == (1, 1)
    for messages in (ours, theirs):
        assert "op trying to schedule a pass on an operation not marked as 'IsolatedFromAbove'" in messages


def test_an_anchor_that_is_no_operation_is_warned_of(both) -> None:
    (code, ours), (their_code, theirs) = both(TEXT, "--pass-pipeline=builtin.module(func.fun(cse))")
    assert (code, their_code, theirs) == (0, 0, "")
    assert "warning: there is no operation 'func.fun': its passes run nowhere" in ours


@pytest.mark.parametrize(
    ("text", "pipeline", "files"),
    [(TEXT, NESTED, 5), *((REGIONS, pipeline, dumps // 2) for pipeline, dumps in PIPELINES.values())],
)
def test_the_tree_of_dumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, pipeline: str, files: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.mlir").write_text(text)
    flags = ["x.mlir", f"--pass-pipeline={pipeline}", "--mlir-print-ir-after-all", "-o", os.devnull]
    main([*flags, "--mlir-print-ir-tree-dir=ours"])
    run_mlir_opt([*flags, "--mlir-print-ir-tree-dir=theirs"])
    ours, theirs = (
        sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*.mlir"))
        for folder in ("ours", "theirs")
    )
    assert ours == theirs
    assert len(ours) == files


def pieces(text: str) -> list[tuple[str, str]]:
    """Each dump of a run: its header and the IR under it."""
    parts = re.split(r"^(// -----// IR Dump .*)\n", text, flags=re.MULTILINE)[1:]
    return [*zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.parametrize(
    "flags",
    [[], ["--mlir-print-ir-module-scope"], ["--mlir-print-op-generic"]],
    ids=lambda flags: "".join(flags),
)
@pytest.mark.parametrize("name", PIPELINES)
def test_dumps_of_nested_regions(both, name: str, flags: list[str]) -> None:
    """In the same order, of the same operations, and the same IR but for the names of values."""
    pipeline, dumps = PIPELINES[name]
    everything = ["--mlir-print-ir-before-all", "--mlir-print-ir-after-all", "--mlir-disable-threading"]
    (_, ours), (_, theirs) = both(REGIONS, f"--pass-pipeline={pipeline}", *everything, *flags)
    found, want = pieces(ours), pieces(theirs)
    assert [header for header, _ in found] == [header for header, _ in want]
    assert len(found) == dumps
    texts = ["\n// -----\n".join(ir for _, ir in dumped) for dumped in (found, want)]
    printed = [run_mlir_opt(["-", "--split-input-file"], text) for text in texts]
    assert [done.returncode for done in printed] == [0, 0]
    assert printed[0].stdout == printed[1].stdout != ""


def test_reports(both) -> None:
    (_, ours), (_, theirs) = both(
        TEXT, f"--pass-pipeline={NESTED}", "--mlir-timing", "--mlir-pass-statistics"
    )

    def shape(text: str) -> list[str]:
        """The lines without their numbers; user time, analyses and the passes' own counts are not common to both."""
        lines = [line for line in text.splitlines() if "(A)" not in line and "(S)" not in line]
        lines = [re.sub(r"^( +[\d.]+ \( *[\d.]+%\))+", "", line) for line in lines]
        lines = [re.sub(r"[\d.]+ seconds", "", line).replace("----User Time----  ", "") for line in lines]
        return [line.strip() for line in lines if line.strip()]

    assert shape(ours) == shape(theirs)
    assert shape(ours)[1] == "... Pass statistics report ..."


@pytest.mark.parametrize(
    "text",
    [
        "%0 = arith.constant 1 : i32 // expected-error {{nope}}",
        "// expected-warning @below {{never}}\nfunc.func private @f()",
        "%b = arith.addi %a, %a : i32 // expected-error {{nope}}\n%a = arith.constant 1 : i32",
        "%b = arith.addi %a, %a : i32 // expected-error {{does not dominate}}\n"
        "%a = arith.constant 1 : i32 // expected-note {{defined here}}",
        "%b = arith.addi %a, %a : i32 // expected-error-re {{operand #{{[0-9]}}{{.*}} does not dominate}}\n"
        "%a = arith.constant 1 : i32 // expected-note-re {{operand {{de.*}} here}}",
    ],
)
def test_verify_diagnostics(both, text: str) -> None:
    """The same complaints at the same places, and the same exit code; a value's name in a message is ours alone."""
    body = text if "func" in text else f"func.func @f() {{\n{text}\nreturn\n}}"
    (code, ours), (their_code, theirs) = both(body, "--verify-diagnostics")

    def complaints(printed: str) -> list[str]:
        lines = [line.replace(" (%a)", "") for line in printed.splitlines()]
        return [line for line in lines if re.match(r"x\.mlir:\d+:\d+: error: ", line)]

    assert code == their_code
    assert complaints(ours) == complaints(theirs)
    assert (code == 0) == (not complaints(ours))


def test_the_pipeline_as_text(both) -> None:
    (_, ours), (_, theirs) = both(
        TEXT, "--pass-pipeline=builtin.module(func.func(cse),cse)", "--dump-pass-pipeline"
    )
    assert ours == theirs
    assert ours.startswith("Pass Manager with 2 passes:\nbuiltin.module(\n  func.func(\n    cse\n")


def test_generic_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mlir-opt` reads it, and makes of it what it makes of the original."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.mlir").write_text(TEXT)
    assert main(["x.mlir", "--mlir-print-op-generic", "-o", "generic.mlir"]) == 0
    assert '"func.func"() <{' in (tmp_path / "generic.mlir").read_text()
    assert run_mlir_opt(["generic.mlir"]).stdout == run_mlir_opt(["x.mlir"]).stdout != ""


def test_locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads the locations that the other prints, aliases such as `loc(#loc1)` included."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.mlir").write_text(TEXT.replace("%x, %x : i32\n", '%x, %x : i32 loc("add")\n', 1))
    aliased = run_mlir_opt(["x.mlir", "--mlir-print-debuginfo"]).stdout
    assert "loc(#loc" in aliased
    (tmp_path / "aliased.mlir").write_text(aliased)
    assert main(["aliased.mlir", "--mlir-print-debuginfo", "-o", "ours.mlir"]) == 0
    assert run_mlir_opt(["ours.mlir", "--mlir-print-debuginfo"]).stdout == aliased
