"""The pieces of IR in `lit_tests`, with the passes that their RUN lines run on them: something for each pass to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from mlopt.cli.opt_arguments import SPLIT_MARKER
from mlopt.compilation import level_of
from mlopt.diagnostics import MloptError
from mlopt.engine import attach_engine
from mlopt.ir import CompilerContext, make_context, parse_module, verify_module
from mlopt.passes.pipelines import OPTIMISATION_LEVELS, named_pipeline
from mlopt.passes.registry import PASSES
from mlopt.passmanager import Instrumentation, PassManager, PassResult, Pipeline, parse_pipeline

FOLDER = Path(__file__).parents[2] / "lit_tests"

_RUN = re.compile(r"^// RUN: (?:not )?mlopt-opt (.*)", re.MULTILINE)
_PIPELINE = "--pass-pipeline="


@dataclass(frozen=True)
class Piece:
    """IR from a file, from line `line` on, and the pipeline that one of the file's RUN lines runs on it."""

    file: str
    line: int
    text: str
    pipeline: str


class Run(NamedTuple):
    """What became of a piece."""

    ctx: CompilerContext
    module: ModuleOp
    results: list[PassResult]


@cache
def pieces_of(file: str) -> tuple[Piece, ...]:
    """The pieces of a file on which the passes run without an error."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    found: dict[Piece, None] = {}
    for run in _RUN.finditer(text):
        arguments = _arguments(run[1])
        pipeline = _pipeline(arguments)
        if pipeline is None or "%t" in pipeline:
            continue
        parts = text.split(SPLIT_MARKER) if "--split-input-file" in arguments else [text]
        for i, part in enumerate(parts):
            line = text.count("\n", 0, len(SPLIT_MARKER.join(parts[:i])))
            found[Piece(file, line + 1, part, pipeline)] = None
    return tuple(piece for piece in found if _runs(piece))


@cache
def _runs_passes(path: Path) -> bool:
    runs = _RUN.finditer(path.read_text(encoding="utf-8"))
    return any(_pipeline(_arguments(run[1])) is not None for run in runs)


def _arguments(line: str) -> list[str]:
    """The arguments of the first command of a line, redirections aside."""
    return list(takewhile(lambda word: word != "|" and ">" not in word, shlex.split(line)))


def _pipeline(arguments: Sequence[str]) -> str | None:
    """The pipeline of a command line; None if it runs no passes."""
    elements: list[str] = []
    for argument in arguments:
        if argument.startswith(_PIPELINE):
            return argument.removeprefix(_PIPELINE)
        name, _, options = argument.lstrip("-").partition("=")
        if argument.startswith("-") and (name in PASSES or name in OPTIMISATION_LEVELS):
            elements.append(f"{name}{{{options}}}" if options else name)
    return f"builtin.module({','.join(elements)})" if elements else None


FILES = tuple(sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.mlir") if _runs_passes(path)))
"""The files with RUN lines that run passes."""


def _runs(piece: Piece) -> bool:
    try:
        run_piece(piece)
    except MloptError:
        return False
    return True


def load_piece(piece: Piece) -> tuple[CompilerContext, ModuleOp, Pipeline]:
    """The module of a piece, and its pipeline from the level of the module down."""
    ctx = make_context(allow_unregistered=True)
    attach_engine(ctx)
    module = parse_module(piece.text, ctx, piece.file, first_line=piece.line)
    verify_module(module)

    def expand(name: str) -> str:
        return named_pipeline(name, level_of(module))

    return ctx, module, parse_pipeline(piece.pipeline, expand=expand)


def run_piece(
    piece: Piece,
    disabled: Collection[str] = (),
    watching: Callable[[CompilerContext], Instrumentation] | None = None,
) -> Run:
    """Run a piece's pipeline, without some patterns; what is left verifies. `watching` makes what watches it."""
    ctx, module, pipeline = load_piece(piece)
    ctx.disabled_patterns = frozenset(disabled)
    instrumentations = [] if watching is None else [watching(ctx)]
    results = PassManager(ctx, pipeline, instrumentations=instrumentations).run(module)
    verify_module(module)
    return Run(ctx, module, results)
