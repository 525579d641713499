"""`mlopt`: import, compile and run models."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlopt import __version__
from mlopt.cli.guard import guarded
from mlopt.cli.progress import progress
from mlopt.diagnostics import InputError, Place, UsageError

if TYPE_CHECKING:
    import numpy as np

    from mlopt.compilation import Compilation
    from mlopt.interpreter.memref import Executable
    from mlopt.options import CompileOptions

DESCRIPTION = "Compile neural networks for inference, look at them at every level, and run them."
EPILOG = """examples:
  mlopt run model.onnx --inputs in.npz --outputs out.npz
  mlopt compile model.onnx --dim batch=1 -o model.mlir
  mlopt run model.mlir --inputs in.npz --check reference.npz --report report.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the command; returns the exit code."""
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parsed = build_parser().parse_args(arguments)
    return parsed.command(parsed)


def build_parser() -> argparse.ArgumentParser:
    """The command line of `mlopt`."""
    parser = argparse.ArgumentParser(
        prog="mlopt",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mlopt {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = _add_command(
        commands,
        "import",
        import_command,
        "write the graph-level IR of an ONNX model and its weights",
        "mlopt import model.onnx -o model.mlir --dim batch=1",
    )
    command.add_argument("-o", dest="output", type=Path, required=True, help="the .mlir file to write")

    command = _add_command(
        commands,
        "compile",
        compile_command,
        "compile a model and write its IR",
        "mlopt compile model.onnx -o model.mlir --dim batch=1 --to kernel",
    )
    command.add_argument("-o", dest="output", type=Path, required=True, help="the .mlir file to write")
    command.add_argument(
        "--to",
        choices=("graph", "kernel", "memref"),
        default="memref",
        help="the level to stop at (default: memref)",
    )
    _add_pipeline_options(command)

    command = _add_command(
        commands,
        "run",
        run_command,
        "compile a model and run it",
        "mlopt run model.onnx --inputs in.npz --check reference.npz",
    )
    command.add_argument("--inputs", type=Path, help="an .npz file of inputs (default: seeded random inputs)")
    command.add_argument("--outputs", type=Path, help="the .npz file to write the outputs to")
    command.add_argument("--check", type=Path, metavar="REF.npz", help="compare the outputs with these")
    command.add_argument(
        "--rtol", type=float, help="allowed error relative to the largest |reference| (1e-4)"
    )
    command.add_argument("--atol", type=float, help="allowed absolute error (1e-6)")
    command.add_argument("--engine", choices=("numpy",), default="numpy", help="what executes the model")
    command.add_argument(
        "--poison", action="store_true", help="fill dead memory, to show that nothing reads it"
    )
    _add_pipeline_options(command)
    return parser


def _add_command(commands: Any, name: str, command: Any, help: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    parser.add_argument("model", metavar="MODEL", help="an .onnx or .mlir file")
    parser.add_argument(
        "--dim",
        dest="dims",
        action="append",
        default=[],
        metavar="NAME=N",
        help="the value of a symbolic dimension (INPUT.AXIS for one without a name)",
    )
    parser.add_argument(
        "--weights", type=Path, help="the weights of an .mlir model (default: STEM.safetensors)"
    )
    parser.add_argument("--version", action="version", version=f"mlopt {__version__}")
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    volume.add_argument("-v", "--verbose", action="store_true", help="print what each pass did")
    return parser


def _add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pipeline", metavar="TEXT", help="run this pipeline instead of the standard one")
    parser.add_argument("--no-optimize", action="store_true", help="lower the model as it was imported")
    parser.add_argument(
        "--disable-pass", action="append", default=[], metavar="NAME", help="leave a pass out"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="options by name, in JSON or TOML")
    parser.add_argument(
        "--report", type=Path, metavar="FILE.json", help="write figures of the compilation and run"
    )
    parser.add_argument(
        "--remarks",
        metavar="KINDS",
        help="print what passes did (passed) and why they did not (missed): passed,missed,analysis",
    )


def import_command(arguments: argparse.Namespace) -> int:
    """`mlopt import`."""
    from mlopt.compilation import load_model
    from mlopt.files import check_writable
    from mlopt.save import save_model

    if Path(arguments.model).suffix == ".mlir":
        raise UsageError(f"'mlopt import' takes an ONNX model, found '{arguments.model}'")
    check_writable(arguments.output)
    with progress(f"importing {arguments.model}"):
        compilation = load_model(arguments.model, _options(arguments))
    save_model(compilation.module, compilation.ctx.weights, arguments.output)
    _say(arguments, f"wrote {arguments.output}")
    return 0


def compile_command(arguments: argparse.Namespace) -> int:
    """`mlopt compile`."""
    from mlopt.compilation import load_model
    from mlopt.files import check_writable
    from mlopt.save import save_model

    for path in (arguments.output, arguments.report):
        if path is not None:
            check_writable(path)
    compilation = _compile(arguments, load_model(arguments.model, _options(arguments)), arguments.to)
    save_model(compilation.module, compilation.ctx.weights, arguments.output)
    _say(arguments, f"wrote {arguments.output}")
    _finish(arguments, compilation, None, {})
    return 0


def run_command(arguments: argparse.Namespace) -> int:
    """`mlopt run`."""
    from mlopt.arrays import read_npz, write_npz
    from mlopt.compare import DEFAULT_ATOL, DEFAULT_RTOL, compare_all
    from mlopt.compilation import load_model
    from mlopt.files import check_writable
    from mlopt.running import load_executable, run_once, seeded_inputs, traced_peak

    for path in (arguments.outputs, arguments.report):
        if path is not None:
            check_writable(path)
    inputs = read_npz(arguments.inputs, "in") if arguments.inputs else None
    want = read_npz(arguments.check, "out") if arguments.check else None
    with progress(f"loading {arguments.model}"):
        compilation = load_model(arguments.model, _options(arguments), inputs=inputs)
    compilation = _compile(arguments, compilation, "memref")
    loaded = load_executable(compilation)
    if inputs is None:
        inputs = seeded_inputs(loaded.executable)
        _say(arguments, "no --inputs: running on seeded random inputs of the declared shapes", always=True)
    with progress("running"):
        result = run_once(loaded.executable, inputs)
    if arguments.outputs is not None:
        write_npz(arguments.outputs, result.outputs)
        _say(arguments, f"wrote {arguments.outputs}")
    figures: dict[str, Any] = {"time": {"load_s": loaded.seconds, "run_s": result.seconds}}
    if arguments.report is not None:
        figures["memory"] = {"run_traced_peak_bytes": traced_peak(loaded.executable, inputs)}
    passed = True
    if want is not None:
        _check_names(result.outputs, want, arguments.check)
        comparisons = compare_all(
            result.outputs,
            want,
            rtol=DEFAULT_RTOL if arguments.rtol is None else arguments.rtol,
            atol=DEFAULT_ATOL if arguments.atol is None else arguments.atol,
        )
        for comparison in comparisons:
            verdict = "ok" if comparison.passed else f"FAILED: {comparison.reason}"
            print(
                f"{comparison.name}: largest absolute error {comparison.max_abs_error:.3g}, "
                f"relative {comparison.max_rel_error:.3g}: {verdict}"
            )
        passed = all(comparison.passed for comparison in comparisons)
        figures["check"] = {
            "max_abs_error": max(comparison.max_abs_error for comparison in comparisons),
            "max_rel_error": max(comparison.max_rel_error for comparison in comparisons),
        }
    elif arguments.outputs is None:
        _summarise(arguments, result.outputs)
    _finish(arguments, compilation, loaded.executable, figures)
    return 0 if passed else 1


def _options(arguments: argparse.Namespace) -> CompileOptions:
    """The options that the command line and its `--config` give; the command line wins."""
    from mlopt.options import CompileOptions, load_config

    options = CompileOptions(
        dims=_parse_dims(arguments.dims),
        weights=arguments.weights,
        poison=getattr(arguments, "poison", False),
    )
    if getattr(arguments, "config", None) is not None:
        options = load_config(arguments.config, options)
    pipeline = options.pipeline
    if getattr(arguments, "no_optimize", False):
        pipeline = replace(pipeline, optimize=False)
    if getattr(arguments, "disable_pass", None):
        pipeline = replace(pipeline, disabled=(*pipeline.disabled, *arguments.disable_pass))
    return replace(options, pipeline=pipeline, pipeline_text=getattr(arguments, "pipeline", None))


def _parse_dims(texts: Sequence[str]) -> dict[str, int]:
    dims: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value.isdecimal():
            raise UsageError(f"--dim wants NAME=N with a whole number N, found '{text}'")
        if dims.setdefault(name, int(value)) != int(value):
            raise UsageError(f"--dim gives '{name}' two values, {dims[name]} and {value}")
    return dims


def _compile(arguments: argparse.Namespace, compilation: Compilation, target: Any) -> Compilation:
    from mlopt.compilation import compile_model

    with progress(f"compiling {arguments.model}"):
        return compile_model(compilation, target)


def _check_names(outputs: dict[str, np.ndarray], want: dict[str, np.ndarray], path: Path) -> None:
    missing = [name for name in outputs if name not in want]
    if missing:
        found = ", ".join(want) or "nothing"
        raise InputError(f"no reference for output '{missing[0]}', found {found}", place=Place(str(path)))


def _summarise(arguments: argparse.Namespace, outputs: dict[str, np.ndarray]) -> None:
    for name, array in outputs.items():
        _say(arguments, f"{name}: {array.dtype} {list(array.shape)}")


def _finish(
    arguments: argparse.Namespace,
    compilation: Compilation,
    executable: Executable | None,
    figures: dict[str, Any],
) -> None:
    """Print remarks and pass times when asked, and write the report."""
    from mlopt.files import write_text
    from mlopt.report import build_report

    if arguments.remarks is not None:
        _print_remarks(arguments.remarks, compilation)
    if arguments.verbose:
        for result in compilation.passes:
            changed = "changed" if result.changed else "unchanged"
            print(f"{result.name}: {1e3 * result.seconds:.1f} ms, {changed}", file=sys.stderr)
    if arguments.report is not None:
        report = build_report(compilation, executable)
        for section, values in figures.items():
            report.setdefault(section, {}).update(values)
        write_text(arguments.report, json.dumps(report, indent=2) + "\n")
        _say(arguments, f"wrote {arguments.report}")


def _print_remarks(kinds: str, compilation: Compilation) -> None:
    from mlopt.diagnostics import print_diagnostic

    known = {"passed": "fused", "missed": "not fused", "analysis": ""}
    wanted = kinds.split(",")
    for kind in wanted:
        if kind not in known:
            raise UsageError(f"--remarks takes {', '.join(known)}, found '{kind}'")
    for remark in compilation.ctx.remarks:
        missed = remark.message.startswith("not ")
        if ("missed" if missed else "passed") in wanted:
            print_diagnostic(remark, file=sys.stderr)


def _say(arguments: argparse.Namespace, text: str, always: bool = False) -> None:
    """Tell the user what happened, on stderr; `-q` silences all but what is `always` said."""
    if always or not arguments.quiet:
        print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
