"""Reproducer files: a module on which a pass goes wrong, its inputs and weights, and the command that shows it."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from mlopt.arrays import write_npz
from mlopt.diagnostics import InputError, Place
from mlopt.files import check_writable, replacing
from mlopt.ir.printer import print_module
from mlopt.passmanager.pipeline import element_text
from mlopt.save import used_weights
from mlopt.validation.reduction import Case, is_changed
from mlopt.validation.seeding import seeded_inputs
from mlopt.validation.trial import Suspect, at_path

MAX_FILES = 1000
"""Names tried for a reproducer in one folder: `PASS-1.mlir`, `PASS-2.mlir`, ..."""


def write_reproducer(case: Case, story: Sequence[str], folder: Path, *, needs_inputs: bool) -> Path:
    """Write `PASS-N.mlir` to a folder, under a name that is free, with what it needs beside it.

    `story` says in lines what the pass does; where it `needs_inputs`, it does that to what is computed of them.
    `PASS-N.safetensors` has the weights if there are any, `PASS-N.npz` the inputs unless seeded ones do. Raises
    `InputError` if the files can't be written.
    """
    suspect = case.suspect
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"can't make the folder: {error.strerror}", place=Place(str(folder))) from None
    path = _free_name(folder, suspect.pass_.name)
    check_writable(path)
    inputs = None
    if needs_inputs and not _seeded_inputs_show_it(case):
        inputs = path.with_suffix(".npz")
        write_npz(inputs, case.inputs)
    weights = used_weights(case.module)
    if weights:
        suspect.ctx.weights.save(path.with_suffix(".safetensors"), weights)
    command = [
        *(*_program(suspect, folder), path.name, f"--pass-pipeline={_pipeline(suspect, case.module)}"),
        f"--validate={suspect.tolerance:.3g}",
        *([f"--inputs={inputs.name}"] if inputs is not None else []),
    ]
    header = "".join(f"// {line}\n" for line in (*story, shlex.join(command)))
    with replacing(path) as file:
        file.write(f"{header}{print_module(case.module)}\n".encode())
    return path


def _program(suspect: Suspect, folder: Path) -> Sequence[str]:
    """What runs the pass in a folder: `mlopt-opt`, or the script that is running, if the pass is defined there."""
    script, source = Path(sys.argv[0]).resolve(), inspect.getsourcefile(type(suspect.pass_))
    if source is None or Path(source).resolve() != script:
        return ["mlopt-opt"]
    return ["python", os.path.relpath(script, folder.resolve())]


def _free_name(folder: Path, pass_name: str) -> Path:
    for number in range(1, MAX_FILES + 1):
        path = folder / f"{pass_name}-{number}.mlir"
        if not path.exists():
            return path
    raise InputError(f"there are {MAX_FILES} reproducers of '{pass_name}' already", place=Place(str(folder)))


def _pipeline(suspect: Suspect, module: ModuleOp) -> str:
    """The pipeline that runs the pass on the operation that it went wrong on."""
    text = element_text(suspect.pass_)
    anchors = [at_path(module, suspect.path[:depth]).name for depth in range(len(suspect.path) + 1)]
    for anchor in reversed(anchors):
        text = f"{anchor}({text})"
    return text


def _seeded_inputs_show_it(case: Case) -> bool:
    """Whether the pass goes wrong on seeded inputs too."""
    try:
        inputs = seeded_inputs(case.func, case.suspect.ctx.weights)
    except InputError:
        return False
    return is_changed(replace(case, inputs=inputs))
