"""Remarks on the command line, of `mlopt` and `mlopt-opt` alike: which are printed, and which are written as JSON."""

from __future__ import annotations

import argparse
import json
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlopt.diagnostics import (
    REMARK_KINDS,
    Diagnostic,
    Remark,
    Severity,
    UsageError,
    did_you_mean,
    nearest,
    print_diagnostic,
    remark_record,
    remarks_as_text,
    select_remarks,
)

if TYPE_CHECKING:
    from mlopt.cli.opt_arguments import OptArguments


def add_remark_options(parser: argparse.ArgumentParser) -> None:
    """What prints and writes remarks."""
    parser.add_argument(
        "--remarks",
        type=_kinds,
        default=(),
        metavar="[=KINDS]",
        help="print what passes did (passed), why they did not (missed), sizes (analysis): passed,missed,analysis",
    )
    parser.add_argument(
        "--remarks-filter",
        type=_regular_expression,
        metavar="REGEX",
        help="only remarks of passes and patterns in whose PASS or PASS:PATTERN this is found",
    )
    parser.add_argument(
        "--remarks-file",
        type=Path,
        metavar="FILE.json",
        help="write the remarks, of all kinds or those of --remarks, as JSON",
    )


def check_remark_options(options: Namespace | OptArguments) -> None:
    """Raise `UsageError` for a filter that nothing is filtered by, or that no pass or pattern can match.

    `InputError` if the file of `--remarks-file` can't be written.
    """
    from mlopt.files import check_writable

    if options.remarks_file is not None:
        check_writable(options.remarks_file)
    wanted = options.remarks_filter
    if wanted is None:
        return
    if not options.remarks and options.remarks_file is None:
        raise UsageError(
            f"--remarks-filter goes with --remarks={','.join(REMARK_KINDS)} or --remarks-file, found neither"
        )
    if not any(wanted.search(origin) for origin in _origins()):
        from mlopt.passes.patterns import all_patterns
        from mlopt.passes.registry import PASSES

        names = [*PASSES, *(name for patterns in all_patterns().values() for name in patterns)]
        word = re.sub(r"[^\w:-]", "", wanted.pattern).strip(":").rpartition(":")[2]
        lists = "; mlopt-opt --list-passes and --list-patterns have the names"
        hint = did_you_mean(list(dict.fromkeys(nearest(word, names)))) or lists
        raise UsageError(f"--remarks-filter: no pass or pattern matches '{wanted.pattern}'{hint}")


def _origins() -> Iterator[str]:
    """All that `Remark.origin` can be: passes first, since listing the patterns loads every pass."""
    from mlopt.passes.registry import PASSES

    yield from PASSES

    from mlopt.ir.rewriting import DRIVER_REWRITES
    from mlopt.passes.patterns import all_patterns

    patterns = all_patterns()
    for name in PASSES:
        for pattern in (*patterns.get(name, ()), *DRIVER_REWRITES):
            yield f"{name}:{pattern}"


def print_remarks(options: Namespace | OptArguments, remarks: Iterable[Remark], file: str) -> None:
    """Print the remarks that `options` ask for, and write `--remarks-file`; what is in no file is in `file`."""
    placed = [
        remark if remark.place.file is not None else replace(remark, place=replace(remark.place, file=file))
        for remark in remarks
    ]
    for diagnostic in remarks_as_text(select_remarks(placed, options.remarks, options.remarks_filter)):
        print_diagnostic(diagnostic)
    finish_remarks(options, placed)


def finish_remarks(options: Namespace | OptArguments, remarks: Sequence[Remark]) -> None:
    """Write `--remarks-file`, and say so if a filter has left nothing of `remarks`, all that there were."""
    from mlopt.files import write_text

    kinds = options.remarks or REMARK_KINDS
    selected = select_remarks(remarks, kinds, options.remarks_filter)
    if options.remarks_file is not None:
        records = [remark_record(remark) for remark in selected]
        write_text(options.remarks_file, json.dumps(records, indent=2, allow_nan=False) + "\n")
    if options.remarks_filter is not None and not selected:
        what = f"no remark ({','.join(kinds)}) is of a pass or pattern that matches"
        print_diagnostic(Diagnostic(Severity.NOTE, f"{what} '{options.remarks_filter.pattern}'"))


def _kinds(text: str) -> tuple[str, ...]:
    """The kinds that `--remarks` lists."""
    kinds = tuple(text.split(","))
    for kind in kinds:
        if kind not in REMARK_KINDS:
            raise argparse.ArgumentTypeError(f"expected some of {','.join(REMARK_KINDS)}, found '{kind}'")
    return kinds


def _regular_expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"expected a regular expression, found '{text}': {error}") from None
