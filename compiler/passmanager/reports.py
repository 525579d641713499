"""What passes took and did, as text in MLIR's form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from mlopt.passmanager.manager import PassResult

PASSES_PHASE = "Passes"
"""The phase of a timing report that the passes stand for."""

_RULE = f"==={'-' * 73}==="


def statistics_report(results: Sequence[PassResult]) -> str:
    """The statistics of each pass, in the order of the pipeline, under the anchors of nested pipelines.

    Lines `(S) N NAME` are what the pass counted, lines `(S) N pattern NAME` how often each pattern was applied.
    """
    lines = _heading("Pass statistics report")
    for depth, name, rows in _tree(results):
        lines.append("  " * depth + name)
        if len(rows) == 1 and rows[0].title == name:
            indent = "  " * (depth + 1)
            row = rows[0]
            lines += [f"{indent}(S) {count} {key}" for key, count in sorted(row.statistics.items())]
            lines += [f"{indent}(S) {count} pattern {key}" for key, count in sorted(row.patterns.items())]
    return "\n".join(lines) + "\n"


def timing_report(results: Sequence[PassResult], phases: Mapping[str, float], total: float) -> str:
    """The wall time of each phase and pass in seconds, and its part of `total`.

    `phases` has the seconds of the phases by name, in order; the passes are listed where `PASSES_PHASE` stands.
    """

    def entry(depth: int, name: str, seconds: float) -> str:
        share = 100 * seconds / total if total else 0.0
        return f"  {seconds:8.4f} ({share:5.1f}%)  {'  ' * depth}{name}"

    lines = _heading("Execution time report")
    lines += [f"  Total Execution Time: {total:.4f} seconds", "", "  ----Wall Time----  ----Name----"]
    for phase, seconds in phases.items():
        if phase == PASSES_PHASE:
            lines += [
                entry(depth, name, sum(row.seconds for row in rows)) for depth, name, rows in _tree(results)
            ]
        else:
            lines.append(entry(0, phase, seconds))
    rest = total - sum(phases.values()) - sum(result.seconds for result in results)
    lines += [entry(0, "Rest", max(0.0, rest)), entry(0, "Total", total)]
    return "\n".join(lines) + "\n"


def _heading(title: str) -> list[str]:
    return [_RULE, f"... {title} ...".center(79).rstrip(), _RULE]


def _tree(results: Sequence[PassResult]) -> Iterator[tuple[int, str, list[PassResult]]]:
    """Depth, name and results of each line: a line for each nested pipeline, and one for each pass below it."""
    shown: tuple[str, ...] = ()
    for i, result in enumerate(results):
        nested = result.path[1:]
        for depth in range(len(nested)):
            prefix = nested[: depth + 1]
            if shown[: depth + 1] != prefix:
                inside = takewhile(
                    lambda other, prefix=prefix: other.path[1 : len(prefix) + 1] == prefix, results[i:]
                )
                yield depth, f"'{nested[depth]}' Pipeline", list(inside)
        shown = nested
        yield len(nested), result.title, [result]
