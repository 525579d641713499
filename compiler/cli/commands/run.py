"""`mlopt run`: compile a model, run it, and compare its outputs with reference values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_dump_option,
    add_pipeline_options,
    compile_options,
    compile_with_progress,
    exit_code,
    finish,
    say,
)
from mlopt.cli.progress import progress
from mlopt.diagnostics import InputError, Place, one_line

if TYPE_CHECKING:
    import numpy as np

    from mlopt.compare import Comparison
    from mlopt.interpreter.memref import TensorSpec


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "run",
        run,
        "compile a model and run it",
        "mlopt run model.onnx --inputs in.npz --check reference.npz",
    )
    command.add_argument("--inputs", type=Path, help="an .npz file of inputs (default: seeded random inputs)")
    command.add_argument("--outputs", type=Path, help="the .npz file to write the outputs to")
    command.add_argument("--check", type=Path, metavar="REF.npz", help="compare the outputs with these")
    command.add_argument(
        "--rtol",
        type=tolerance,
        help="allowed error relative to the largest |reference| (default: 1e-4, for models in float32; "
        "float16 rounds to 1e-3, bfloat16 to 1e-2)",
    )
    command.add_argument("--atol", type=tolerance, help="allowed absolute error (default: 1e-6)")
    command.add_argument("--engine", choices=("numpy",), default="numpy", help="what executes the model")
    command.add_argument(
        "--poison", action="store_true", help="fill dead memory, to show that nothing reads it"
    )
    add_pipeline_options(command)
    add_dump_option(command)


def tolerance(text: str) -> float:
    """A number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found '{text}'")
    return value


def run(arguments: argparse.Namespace) -> int:
    """`mlopt run`."""
    from mlopt.arrays import read_npz, write_npz
    from mlopt.compilation import load_model
    from mlopt.files import check_all_writable
    from mlopt.running import load_executable, run_once, seeded_inputs, traced_peak

    check_all_writable(arguments.outputs, arguments.report)
    options = compile_options(arguments)
    inputs = read_npz(arguments.inputs, "in") if arguments.inputs else None
    want = read_npz(arguments.check, "out") if arguments.check else None
    with progress(f"loading {arguments.model}"):
        compilation = load_model(arguments.model, options, inputs=inputs)
    compile_with_progress(arguments, compilation, "memref")
    loaded = load_executable(compilation)
    if want is not None:
        check_names(loaded.executable.outputs, want, arguments.check)
    if inputs is None:
        inputs = seeded_inputs(loaded.executable)
        say(arguments, "no --inputs: running on seeded random inputs of the declared shapes", always=True)
    with progress("running"):
        result = run_once(loaded.executable, inputs)
    figures: dict[str, Any] = {"time": {"load_s": loaded.seconds, "run_s": result.seconds}}
    if arguments.report is not None:
        copied = loaded.executable.copied_bytes
        peak = traced_peak(loaded.executable, inputs)
        figures["memory"] = {"run_traced_peak_bytes": peak, "run_copied_bytes": copied}
    if arguments.outputs is not None:
        write_npz(arguments.outputs, result.outputs)
        say(arguments, f"wrote {arguments.outputs}")
    passed = True
    if want is not None:
        comparisons = check(arguments, result.outputs, want)
        passed = all(comparison.passed for comparison in comparisons)
        figures["check"] = errors(comparisons)
    elif arguments.outputs is None:
        summarise(arguments, result.outputs)
    finish(arguments, compilation, loaded.executable, figures)
    return exit_code(compilation) if passed else 1


def check_names(outputs: Sequence[TensorSpec], want: Mapping[str, np.ndarray], path: Path) -> None:
    """Raise `InputError` unless the file of references has one for every output."""
    for spec in outputs:
        if spec.name not in want:
            found = ", ".join(f"'{name}'" for name in want) or "none"
            raise InputError(
                f"expected a reference for output '{spec.name}', found {found}", place=Place(str(path))
            )


def check(
    arguments: argparse.Namespace, outputs: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]
) -> list[Comparison]:
    """Compare the outputs with their references and print the errors of each."""
    from mlopt.compare import DEFAULT_ATOL, DEFAULT_RTOL, compare_all

    rtol = DEFAULT_RTOL if arguments.rtol is None else arguments.rtol
    atol = DEFAULT_ATOL if arguments.atol is None else arguments.atol
    comparisons = compare_all(outputs, want, rtol=rtol, atol=atol)
    for comparison in comparisons:
        verdict = "ok" if comparison.passed else f"FAILED: {comparison.reason}"
        if math.isinf(comparison.max_abs_error):
            print(f"{one_line(comparison.name)}: {verdict}")
            continue
        print(
            f"{one_line(comparison.name)}: largest absolute error {comparison.max_abs_error:.3g}, "
            f"relative {comparison.max_rel_error:.3g}: {verdict}"
        )
    return comparisons


def errors(comparisons: Sequence[Comparison]) -> dict[str, float | None]:
    """The largest errors over all outputs; None where there is no finite number, which JSON could not hold."""
    largest = {
        "max_abs_error": max((comparison.max_abs_error for comparison in comparisons), default=0.0),
        "max_rel_error": max((comparison.max_rel_error for comparison in comparisons), default=0.0),
    }
    return {name: value if math.isfinite(value) else None for name, value in largest.items()}


def summarise(arguments: argparse.Namespace, outputs: Mapping[str, np.ndarray]) -> None:
    """Say what came out, where nothing else shows it."""
    for name, array in outputs.items():
        say(arguments, f"{one_line(name)}: {array.dtype} {list(array.shape)}")
