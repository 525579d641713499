"""`mlopt-opt`: flags, exit codes, and what bad input gets: a sentence with a place, never a traceback."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlopt.cli.opt import main

GOOD = """func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  %c = arith.muli %a, %b : i32
  func.return %c : i32
}
"""
USE_BEFORE_DEFINITION = (
    "func.func @f() {\n  %b = arith.addi %a, %a : i32\n  %a = arith.constant 1 : i32\n  func.return\n}\n"
)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def opt(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the command in an empty directory that holds `good.mlir`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.mlir").write_text(GOOD)

    def run(*arguments: str) -> Done:
        code = main(list(arguments))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err and "internal error" not in captured.err
        return Done(code, captured.out, captured.err)

    return run


def test_prints_what_it_read(opt) -> None:
    done = opt("good.mlir")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("arith.addi") == 2


def test_reads_stdin(opt, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
        assert opt(*arguments).out.count("arith.addi") == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"}")))
    done = opt("--cse")
    assert done.code == 1
    assert done.err == "<stdin>:1:1: error: expected an operation\n}\n^\n"


@pytest.mark.parametrize(
    "flags",
    [
        ["--pass-pipeline=builtin.module(func.func(cse))"],
        ["-pass-pipeline=builtin.module(cse)"],
        ["--pass-pipeline", "any(cse)"],
        ["--cse"],
        ["-cse"],
        ["--canonicalize=max-rewrites=100", "--cse"],
    ],
)
def test_ways_to_name_a_pass(opt, flags: Sequence[str]) -> None:
    done = opt(*flags, "good.mlir")
    assert done.code == 0
    assert done.out.count("arith.addi") == 1


def test_output_file(opt, tmp_path: Path) -> None:
    assert opt("good.mlir", "--cse", "-o", "out.mlir") == Done(0, "", "")
    assert (tmp_path / "out.mlir").read_text().count("arith.addi") == 1
    assert opt("good.mlir", "-o", os.devnull).code == 0
    assert Path(os.devnull).is_char_device()


def test_no_output_file_after_an_error(opt, tmp_path: Path) -> None:
    (tmp_path / "out.mlir").write_text("before")
    (tmp_path / "bad.mlir").write_text(GOOD + "// -----\n" + USE_BEFORE_DEFINITION)
    assert opt("bad.mlir", "--split-input-file", "-o", "out.mlir").code == 1
    assert (tmp_path / "out.mlir").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.mlir", "good.mlir", "out.mlir"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.mlir"], 1, "missing.mlir: error: cannot open input file: no such file"),
        (["."], 1, ".: error: cannot open input file: Is a directory"),
        (["good.mlir/x"], 1, "good.mlir/x: error: cannot open input file: Not a directory"),
        (
            ["good.mlir", "-o", "nowhere/out.mlir"],
            1,
            "nowhere/out.mlir: error: can't write here: there is no folder 'nowhere'",
        ),
        (["good.mlir", "-o", "."], 1, "error: can't write here: this is a folder"),
        (["good.mlir", "--nope"], 2, "unknown command line argument '--nope'"),
        (["good.mlir", "--canonicalise"], 2, "did you mean '--canonicalize'?"),
        (["good.mlir", "--fuse-kernel"], 2, "did you mean '--fuse-kernels'?"),
        (["good.mlir", "other.mlir"], 2, "unknown command line argument 'other.mlir'"),
        (["good.mlir", "-o"], 2, "argument -o: expected one argument"),
        (
            ["good.mlir", "--pass-pipeline=builtin.module(cse)", "--cse"],
            2,
            "can't be used with individual pass options",
        ),
        (["good.mlir", "--mlir-print-ir-after=nope"], 2, "cannot find pass named 'nope'"),
        (
            ["good.mlir", "--mlir-elide-elementsattrs-if-larger=x"],
            2,
            "expected a whole number, found 'x'",
        ),
        (["good.mlir", "--verify-each=perhaps"], 2, "expected true or false, found 'perhaps'"),
        (["good.mlir", "--verify-diagnostics=some"], 2, "invalid choice: 'some'"),
        (["good.mlir", "--mlir-print-ir-tree-dir="], 2, "expected a folder, found no name"),
        (["good.mlir", "--cse=nope=1"], 1, "error: pass 'cse': no such option nope"),
        (
            ["good.mlir", "--canonicalize=max-rewrites=x"],
            1,
            "option 'max-rewrites' expects an integer, found 'x'",
        ),
        (
            ["good.mlir", "--pass-pipeline="],
            1,
            "<pass-pipeline>:1:1: error: expected pass pipeline to be wrapped",
        ),
        (
            ["good.mlir", "--pass-pipeline=func.func(cse)"],
            1,
            "can't run 'func.func' pass manager on 'builtin.module' op",
        ),
        (["good.mlir", "--weights", "missing.safetensors", "--cse"], 0, ""),
    ],
)
def test_wrong_command_lines_and_files(opt, arguments: list[str], code: int, message: str) -> None:
    done = opt(*arguments)
    assert message in done.err
    assert done.code == code
    assert (done.out == "") == (code != 0)


def test_a_faulty_pipeline_shows_where(opt) -> None:
    done = opt("good.mlir", "--pass-pipeline=builtin.module(cse, nope)")
    assert done.err == (
        "<pass-pipeline>:1:21: error: 'nope' does not refer to a registered pass or pass pipeline\n"
        "builtin.module(cse, nope)\n" + " " * 20 + "^\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\xff\xfe", "bad.mlir:1:7: error: expected IR as UTF-8 text, found byte 0xFF"),
        (b"\x08\x07\x12\x04test", "bad.mlir:1:1: error: "),
        (b"\x00\x00", "bad.mlir:1:1: error: "),
        (b"func.func @f(", "bad.mlir:1:14: error: "),
        (b"%0 = arith.constant dense<[1.0", "bad.mlir:1:"),
        (b'"unclosed', "bad.mlir:1:1: error: "),
        (
            b"func.func @f() {\r\n  %0 = arith.nope\r\n}",
            "bad.mlir:2:8: error: operation 'arith.nope' is not registered",
        ),
        (
            b"a.b",
            "dialect 'a' of operation 'a.b' is not registered; mlopt-opt takes it with "
            '--allow-unregistered-dialect, as "a.b"(...)',
        ),
        (b"%c = arith.constant true\n" + b"scf.if %c {\n" * 9000, "the text is nested too deeply"),
        (b"(" * 100_000, "bad.mlir:1:1: error: expected an operation"),
        (b"func.func @f(%a: " + b"tuple<" * 9000, "nested too deeply"),
        (USE_BEFORE_DEFINITION.encode(), "bad.mlir:2:8: error: operand #0 (%a) does not dominate this use"),
        (
            b"func.func @f() {\n  %0 = arith.addi %x, %x : i32\n  func.return\n}",
            "bad.mlir:2:19: error: use of undeclared SSA value name %x",
        ),
        (
            b'func.func @f() {\n  "func.call"() <{callee = @g}> : () -> ()\n  func.return\n}',
            "bad.mlir:2:3: error: ",
        ),
        (b'"func.func"() : () -> ()', "bad.mlir:1:1: error: "),
        (b"func.func @f(%a: tensor<-1xf32>) { func.return }", "bad.mlir:1:"),
        (b"func.func @f(%a: tensor<99999999999999999999xf32>) { func.return }", ""),
        (b"%0 = arith.constant dense<1.0> : tensor<999999999999999xf32>", "bad.mlir:1:"),
        ("func.func @\N{SNOWMAN}() {}".encode(), "bad.mlir:1:"),
    ],
)
def test_malformed_input(opt, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.mlir").write_bytes(content)
    done = opt("bad.mlir", "--cse")
    assert message in done.err
    assert len(done.err) < 2000
    if message:
        assert (done.code, done.out) == (1, "")


def test_an_unreadable_file(opt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the system is simulated: root, as whom tests often run, may read any file."""

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert opt("good.mlir").err == "good.mlir: error: cannot open input file: Permission denied\n"


def test_split_input(opt, tmp_path: Path) -> None:
    text = f"{GOOD}// -----\n{USE_BEFORE_DEFINITION}// -----\n// ------ no marker\n{GOOD}"
    (tmp_path / "pieces.mlir").write_text(text)
    done = opt("pieces.mlir", "--split-input-file")
    assert done.code == 1
    assert "pieces.mlir:9:8: error: operand #0 (%a) does not dominate this use" in done.err
    assert done.out.count("@f") == 2 and done.out.count("// -----\n") == 2  # a failed piece keeps its place
    assert opt("pieces.mlir", "--split-input-file=").out == done.out  # no marker is the default one
    (tmp_path / "pieces.mlir").write_text(GOOD + "// cut\n" + GOOD)
    assert opt("pieces.mlir", "--split-input-file=// cut").out.count("builtin.module") == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("%0 = arith.constant 1 : i32 // expected-error {{nope}}", 'expected error "nope" was not produced'),
        ("a.b", "unexpected error: dialect 'a'"),
        ("a.b // expected-warning {{not registered}}", "unexpected error: dialect 'a'"),
        ("// expected-error {{not registered}}\n\na.b", "unexpected error"),
        ("a.b // expected-error {not registered}", "malformed expected comment"),
        ("a.b // expected-error {{not registered}}", ""),
        ("a.b\n\n// expected-error @-2 {{not registered}}", ""),
        ("a.b\n// expected-error @above {{not registered}}", ""),
        ("// expected-error @below {{not registered}}\na.b", ""),
        ("// expected-error-re @+1 {{'{{[a-z.]+}}' is not}}\na.b", ""),
        ("// expected-error-re @+1 {{'{{[[:alpha:].]+}}' is not}}\na.b", ""),
        ("a.b // expected-error-re {{is {{(}} not}}", "invalid regex: '('"),
        ("a.b // expected-error-re {{is {{[[:none:]]}} not}}", "invalid regex: '[[:none:]]'"),
        ("a.b // expected-error-re {{is {{.* not}}", "found start of regex with no end '}}'"),
        ("// \x0c \u2028 end no line\na.b // expected-error {{not registered}}", ""),
    ],
)
def test_verify_diagnostics(opt, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "x.mlir").write_text(text)
    done = opt("x.mlir", "--verify-diagnostics")
    assert complaint in done.err
    assert done.code == int(bool(complaint))
    assert (done.err == "") == (complaint == "")


def test_only_expected_diagnostics(opt, tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text("a.b")
    assert opt("x.mlir", "--verify-diagnostics=only-expected").code == 0


def test_verify_each_can_be_turned_off(opt) -> None:
    for flag in ("--verify-each", "--verify-each=false", "--verify-each=0", "--verify-each=1"):
        assert opt("good.mlir", "--cse", flag).code == 0


def test_lists(opt) -> None:
    passes = opt("--list-passes").out
    assert "--cse\n    Replace an operation by an equal one" in passes
    assert "max-rewrites=<int>" in passes
    assert opt("--show-dialects").out.startswith("Available Dialects: arith,builtin,cf,")
    assert opt("--version").out.startswith("mlopt-opt 0.")
    assert "examples:" in opt("--help").out


def test_unregistered_dialects(opt, tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text('%0 = "a.b"() {k = #c.d<1>} : () -> !e.f\n')
    assert "not registered" in opt("x.mlir").err
    assert '"a.b"() {k = #c.d<1>} : () -> !e.f' in opt("x.mlir", "--allow-unregistered-dialect").out
    (tmp_path / "x.mlir").write_text("\n  a.b\n")
    expected = (
        "x.mlir:2:3: error: operation 'a.b' has no custom form, expected its generic form \"a.b\"(...)\n"
    )
    assert opt("x.mlir", "--allow-unregistered-dialect").err.startswith(expected)


def test_weights_beside_the_file(opt, tmp_path: Path) -> None:
    """The weights go where the output goes; a weights file that is not asked for is not opened."""
    text = (
        'func.func @main() {\n  %0 = kernel.constant #mlopt.weight<"w"> : tensor<128xf32>\n  func.return\n}\n'
    )
    (tmp_path / "model.mlir").write_text(text)
    (tmp_path / "good.safetensors").write_bytes(b"broken")
    save_file({"w": np.arange(128, dtype=np.float32)}, tmp_path / "model.safetensors")
    assert opt("good.mlir").code == 0
    done = opt("model.mlir", "--cse", "-o", "out.mlir")
    assert done == Done(0, "", "")
    assert (tmp_path / "out.safetensors").exists()
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    done = opt("model.mlir")
    assert done.code == 1 and "model.safetensors" in done.err


def command(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from mlopt.cli.opt import main; sys.exit(main())", *arguments],
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("arguments", [["good.mlir"], ["--list-passes"]])
def test_a_full_device(opt, tmp_path: Path, arguments: list[str]) -> None:
    """`/dev/full` takes no byte: for stdout as for `-o`, that is an error of one line."""
    with (
        open("/dev/full", "w") as full,
        command(*arguments, stdout=full) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"error: can't write the output: No space left on device\n")
    done = opt("good.mlir", "-o", "/dev/full")
    assert done == Done(1, "", "/dev/full: error: can't write here: No space left on device\n")


def test_closed_streams(tmp_path: Path) -> None:
    """Output to a closed stream goes nowhere; input from one is an error."""
    run = f"exec {sys.executable} -c 'import sys; from mlopt.cli.opt import main; sys.exit(main())'"
    quiet = subprocess.run(f"echo | {run} >&- 2>&-", shell=True, timeout=60)
    assert quiet.returncode == 0
    silent = subprocess.run(f"{run} <&-", shell=True, timeout=60, capture_output=True)
    assert (silent.returncode, silent.stderr) == (1, b"<stdin>: error: cannot read input: it is closed\n")


def test_a_device_in_a_folder_that_is_read_only(opt, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/null` may be written to by all, `/dev` not: what counts is the permission of what is written to."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "/dev" and access(path, mode))
    assert opt("good.mlir", "-o", "/dev/null") == Done(0, "", "")


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "long.mlir"
    path.write_text("".join(f"%v{i} = arith.constant {i} : i32\n" for i in range(5000)))
    with command(str(path), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_an_interrupt(tmp_path: Path) -> None:
    with command("-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(
            b"\n" * (1 << 20)
        )  # more than a pipe holds: when it is written, the command is reading
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert err == b"mlopt-opt: interrupted\n"
        assert process.returncode == 130


def test_a_fault_of_mlopt_asks_to_report_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr("mlopt.passes.common.cse.CSEPass.run", broken)
    (tmp_path / "good.mlir").write_text(GOOD)
    assert main([str(tmp_path / "good.mlir"), "--cse"]) == 1
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oh no, while running pass 'cse'" in err
    assert "please report it" in err and "Traceback" not in err
    monkeypatch.setenv("MLOPT_DEBUG", "1")
    main([str(tmp_path / "good.mlir"), "--cse"])
    assert "Traceback" in capsys.readouterr().err
