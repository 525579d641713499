"""Passes and patterns left out, and remarks chosen and written: `mlopt` and `mlopt-opt` alike, files, Python."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import mlopt as package
from mlopt.cli import opt
from tests.cli.mlopt_command import Command

COMPILE = ("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "-q")
RESHAPES = """func.func @main(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  %a = graph.reshape %x : tensor<2x6xf32> to tensor<12xf32>
  %b = graph.reshape %a : tensor<12xf32> to tensor<4x3xf32>
  func.return %b : tensor<4x3xf32>
}
"""


def report(mlopt: Command, *arguments: object) -> dict[str, dict[str, int]]:
    """The patterns that were applied, by pass."""
    done = mlopt(*COMPILE, "--report", "r.json", *arguments)
    assert done.code == 0, done.err
    passes = json.loads(Path("r.json").read_text())["time"]["passes"]
    return {entry["name"]: entry["patterns"] for entry in passes if entry["patterns"]}


def test_a_pattern_is_left_out(mlopt: Command) -> None:
    pattern = next(iter(report(mlopt)["fuse-kernels"]))
    for name in (pattern, f"fuse-kernels:{pattern}"):
        assert pattern not in report(mlopt, "--disable-pattern", name).get("fuse-kernels", {})
    assert report(mlopt, "--disable-pattern", "cse:erase-dead") == report(mlopt)


def test_passes_by_commas(mlopt: Command) -> None:
    both = report(mlopt, "--disable-pass", "cse,fuse-kernels")
    assert both
    assert both == report(mlopt, "--disable-pass", "cse", "--disable-pass", "fuse-kernels")
    assert not {"cse", "fuse-kernels"} & both.keys()
    done = mlopt(*COMPILE, "--disable-pass", "cse,fuse-kernel")
    assert done.code == 2
    assert done.err.splitlines() == [
        "mlopt compile: error: there is no pass 'fuse-kernel' to disable; did you mean 'fuse-kernels'?",
        "try 'mlopt compile --help'",
    ]


def test_a_model_is_no_kind_of_remark(mlopt: Command) -> None:
    done = mlopt("run", "--remarks", "m.onnx", "--inputs", "io.npz")
    assert done.code == 0
    assert "remark: [fuse-linear]" in done.err


def test_validation_says_what_it_found(mlopt: Command) -> None:
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--validate")
    assert done.code == 0
    assert re.search(
        r"^validated: [1-9]\d* changes hold, 0 undone; largest error \S+, by '[\w-]+'$",
        done.err,
        re.MULTILINE,
    )
    assert mlopt(*COMPILE, "--validate", "-q").err == ""


def test_configuration_files(mlopt: Command) -> None:
    pattern = next(iter(report(mlopt)["fuse-kernels"]))
    Path("c.json").write_text(json.dumps({"disable_pattern": [pattern], "pipeline": "O3"}))
    assert pattern not in report(mlopt, "--config", "c.json").get("fuse-kernels", {})
    Path("c.toml").write_text('pipeline = "O1"\n')
    assert "fuse-kernels" not in report(mlopt, "--config", "c.toml")
    assert "fuse-kernels" in report(mlopt, "--config", "c.toml", "--pipeline", "O2")
    Path("c.toml").write_text('pipeline = "cse,convert-graph-to-kernel"\n')
    assert mlopt(*COMPILE, "--config", "c.toml", "--to", "kernel").code == 0
    assert "kernel.launch" in Path("c.mlir").read_text()


def test_python() -> None:
    options = package.PipelineOptions(disabled_patterns=("MergeReshapes", "KeepRows"))
    for pipeline, count in ((package.PipelineOptions(), 1), (options, 2)):
        model = package.compile(RESHAPES, options=package.CompileOptions(pipeline=pipeline))
        assert model.ir("graph").count("graph.reshape") == count
    with pytest.raises(package.MloptError, match="did you mean 'MergeReshapes'"):
        wrong = package.PipelineOptions(disabled_patterns=("MergeReshape",))
        package.compile(RESHAPES, options=package.CompileOptions(pipeline=wrong))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--disable-pattern", "merge-launch-epilogue"], "did you mean 'merge-launches-epilogue'?"),
        (["--disable-pattern", "csee:merge-equal"], "did you mean 'cse'?"),
        (["--remarks-filter", "("], "expected a regular expression, found '('"),
        (["--config", "c.json"], "there is no pattern 'nope' to disable"),
    ],
)
def test_wrong_switches(mlopt: Command, arguments: list[str], message: str) -> None:
    Path("c.json").write_text('{"disable_pattern": ["nope"]}')
    try:
        done = mlopt(*COMPILE, *arguments)
    except SystemExit as error:  # argparse's own way out
        assert error.code == 2
        return
    assert done.code in (1, 2)
    assert message in done.err


@pytest.mark.parametrize(
    ("text", "column"),
    [("cse, dcee,O2", 6), ("builtin.module(dcee)", 16), ("O2,canonicalize{max-rewrites=x}", 17)],
)
def test_a_faulty_pipeline_shows_where_it_was_typed(mlopt: Command, text: str, column: int) -> None:
    done = mlopt(*COMPILE, "--pipeline", text)
    assert done.code == 1
    first, *rest = done.err.splitlines()
    assert first.startswith(f"--pipeline:1:{column}: error: ")
    assert rest == [text, " " * (column - 1) + "^"]


@pytest.mark.parametrize(
    ("name", "content", "start"),
    [
        (
            "c.toml",
            'optimize = true\npipeline = "cse,dcee"\n',
            "c.toml:2:17: error: 'pipeline': 'dcee' does not",
        ),
        ("c.json", '{"pipeline": "cse,dcee"}', "c.json:1:19: error: 'pipeline': 'dcee' does not"),
        ("c.json", '{"pipeline": "cse,\\u0020dcee"}', "c.json: error: 'pipeline': 'dcee' does not"),
        ("c.json", '{"disable_pass": ["cse",\n"dcee"]}', "c.json:2:2: error: there is no pass 'dcee'"),
        ("c.toml", "disable_pattern = ['nope']", "c.toml:1:21: error: there is no pattern 'nope'"),
        ("c.toml", "disable_pass = ['assign-buffers']", "c.toml:1:18: error: pass 'assign-buffers' can't be"),
    ],
)
def test_faults_in_configuration_files_have_their_places(
    mlopt: Command, name: str, content: str, start: str
) -> None:
    Path(name).write_text(content)
    done = mlopt(*COMPILE, "--config", name)
    assert done.code == 1
    assert done.err.startswith(start)


def test_names_in_lists_may_have_spaces_around_them(mlopt: Command) -> None:
    assert "fuse-kernels" not in report(mlopt, "--disable-pass", "cse, fuse-kernels")


def test_remarks_as_json(mlopt: Command) -> None:
    done = mlopt(*COMPILE, "--remarks-file", "remarks.json", "--report", "r.json")
    assert (done.code, done.err) == (0, "")
    remarks = json.loads(Path("remarks.json").read_text())
    assert {remark["kind"] for remark in remarks} == {"passed", "missed", "analysis"}
    keys = ("pass", "pattern", "kind", "message", "args", "place", "file", "line", "column", "node", "notes")
    assert all(tuple(remark) == keys for remark in remarks)
    fused = next(remark for remark in remarks if remark["pass"] == "fuse-kernels")
    assert fused["file"] == "m.onnx" and fused["node"] and fused["pattern"].startswith("merge-")
    assert len(json.loads(Path("r.json").read_text())["remarks"]) == len(remarks)


def test_remarks_are_chosen(mlopt: Command) -> None:
    def kinds(*arguments: object) -> Counter[tuple[str, str]]:
        mlopt(*COMPILE, "--remarks-file", "remarks.json", *arguments)
        remarks = json.loads(Path("remarks.json").read_text())
        return Counter((remark["pass"], remark["kind"]) for remark in remarks)

    everything = kinds()
    assert kinds("--remarks=missed") == {key: n for key, n in everything.items() if key[1] == "missed"}
    wanted = {key: n for key, n in everything.items() if key[0].startswith("reuse")}
    assert kinds("--remarks-filter", "^reuse") == wanted
    ((key, count),) = kinds("--remarks-filter", "^fuse-kernels:merge").items()
    assert key == ("fuse-kernels", "passed") and count > 0
    text = mlopt(*COMPILE, "--remarks=passed", "--remarks-filter", "^fuse-kernels:merge").err
    assert text.count("remark: [fuse-kernels]") == text.count("remark:") == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuse-kernel:", "no pass or pattern matches 'fuse-kernel:'; did you mean 'fuse-kernels'?"),
        ("reuse-in-plcae", "did you mean 'reuse-in-place'?"),
        ("^MergeReshapes", "did you mean 'MergeReshapes'?"),  # it is found in PASS:PATTERN
        ("xyz", "; mlopt-opt --list-passes and --list-patterns have the names"),
    ],
)
def test_a_filter_that_nothing_can_match_is_a_wrong_command_line(
    mlopt: Command, text: str, message: str
) -> None:
    done = mlopt(*COMPILE, "--remarks=passed", "--remarks-filter", text)
    assert done.code == 2
    assert message in done.err


def test_remarks_without_kinds_are_all(mlopt: Command) -> None:
    everything = mlopt(*COMPILE, "--remarks=passed,missed,analysis").err
    assert "remark:" in everything
    assert mlopt(*COMPILE, "--remarks").err == everything
    assert mlopt(*COMPILE[:1], "--remarks", "-q", *COMPILE[1:]).err == everything


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (["compil"], "invalid choice: 'compil'", "mlopt"),
        (["compil"], "; did you mean 'compile'?", "mlopt"),
        ([], "the following arguments are required: COMMAND", "mlopt"),
        (["compile", "m.onnx"], "the following arguments are required: -o", "mlopt compile"),
        (["check", "m.onnx", "--nope"], "unrecognized arguments: --nope", "mlopt check"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    mlopt: Command, arguments: list[str], message: str, command: str
) -> None:
    done = mlopt(*arguments)
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()
    assert message in error
    assert hint == f"try '{command} --help'"


def test_a_filter_without_remarks_is_a_wrong_command_line(mlopt: Command) -> None:
    done = mlopt(*COMPILE, "--remarks-filter", "cse")
    assert done.code == 2
    assert "goes with --remarks=passed,missed,analysis or --remarks-file" in done.err


def test_a_filter_that_leaves_nothing_says_so(mlopt: Command) -> None:
    done = mlopt(*COMPILE, "--remarks=missed", "--remarks-filter", "^quantize|:MergeReshapes")
    note = "no remark (missed) is of a pass or pattern that matches '^quantize|:MergeReshapes'"
    assert (done.code, done.err) == (0, f"note: {note}\n")


# The same of `mlopt-opt`


def opt_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    Path("x.mlir").write_text(RESHAPES)
    code = opt.main(["x.mlir", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_opt_leaves_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, left in (
        (["--canonicalize"], 1),
        (["--canonicalize", "--disable-pattern=MergeReshapes"], 2),
        (["--canonicalize", "--disable-pattern", "cse:MergeReshapes"], 2),
        (["--canonicalize", "--disable-pass", "canonicalize"], 2),
        (["--pass-pipeline=builtin.module(fixpoint(canonicalize,cse))", "--disable-pass=canonicalize"], 2),
    ):
        code, out, err = opt_run(capsys, *arguments)
        if "cse:MergeReshapes" in arguments:
            assert code == 2 and "no pattern 'MergeReshapes' of pass 'cse'" in err
        else:
            assert code == 0 and out.count("graph.reshape") == left, arguments


def test_opt_writes_remarks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = opt_run(capsys, "--canonicalize", "--remarks-file=r.json")
    assert (code, err) == (0, "")
    (remark,) = json.loads(Path("r.json").read_text())
    assert remark == {
        "pass": "canonicalize",
        "pattern": "MergeReshapes",
        "kind": "passed",
        "message": "rewrote 'graph.reshape' by MergeReshapes: reshape(reshape(x)) -> reshape(x)",
        "args": {"op": "graph.reshape"},
        "place": "x.mlir:3:8",
        "file": "x.mlir",
        "line": 3,
        "column": 8,
        "node": None,
        "notes": [],
    }


def test_opt_lists_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--list-patterns"]) == 0
    out = capsys.readouterr().out
    assert "--canonicalize\n" in out
    assert "    MergeReshapes\n        reshape(reshape(x)) -> reshape(x)\n" in out
