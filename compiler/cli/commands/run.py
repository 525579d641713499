"""`mlopt run`: compile a model, run it, and compare its outputs with reference values."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_pipeline_options,
    compile_options,
    compile_with_progress,
    finish,
    say,
)
from mlopt.cli.progress import progress
from mlopt.diagnostics import InputError, Place


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
        "--rtol", type=float, help="allowed error relative to the largest |reference| (1e-4)"
    )
    command.add_argument("--atol", type=float, help="allowed absolute error (1e-6)")
    command.add_argument("--engine", choices=("numpy",), default="numpy", help="what executes the model")
    command.add_argument(
        "--poison", action="store_true", help="fill dead memory, to show that nothing reads it"
    )
    add_pipeline_options(command)


def run(arguments: argparse.Namespace) -> int:
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
        compilation = load_model(arguments.model, compile_options(arguments), inputs=inputs)
    compilation = compile_with_progress(arguments, compilation, "memref")
    loaded = load_executable(compilation)
    if inputs is None:
        inputs = seeded_inputs(loaded.executable)
        say(arguments, "no --inputs: running on seeded random inputs of the declared shapes", always=True)
    with progress("running"):
        result = run_once(loaded.executable, inputs)
    if arguments.outputs is not None:
        write_npz(arguments.outputs, result.outputs)
        say(arguments, f"wrote {arguments.outputs}")
    figures: dict[str, Any] = {"time": {"load_s": loaded.seconds, "run_s": result.seconds}}
    if arguments.report is not None:
        figures["memory"] = {"run_traced_peak_bytes": traced_peak(loaded.executable, inputs)}
    passed = True
    if want is not None:
        check_names(result.outputs, want, arguments.check)
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
        summarise(arguments, result.outputs)
    finish(arguments, compilation, loaded.executable, figures)
    return 0 if passed else 1


def check_names(outputs: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], path: Path) -> None:
    missing = [name for name in outputs if name not in want]
    if missing:
        found = ", ".join(want) or "nothing"
        raise InputError(f"no reference for output '{missing[0]}', found {found}", place=Place(str(path)))


def summarise(arguments: argparse.Namespace, outputs: Mapping[str, np.ndarray]) -> None:
    for name, array in outputs.items():
        say(arguments, f"{name}: {array.dtype} {list(array.shape)}")
