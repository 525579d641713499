"""How many node cases of the onnx package pass, and what the others need: `python -m tests.onnx_backend.survey`.

survey                the table: passes, faults, and what is missing, by how many cases it would unlock
survey --write        the same, and bring `not_passed.txt` up to date (not while there are faults)
survey NAME ...       the cases whose names contain NAME, with what went wrong in full
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from tests.onnx_backend.node_cases import Outcome, Verdict, node_cases, run_case, write_not_passed


def main() -> int:
    """See the module's docstring. 1 if there is a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.onnx_backend.survey", description="node cases of onnx"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the name of a case to look at")
    parser.add_argument("--write", action="store_true", help="bring not_passed.txt up to date")
    arguments = parser.parse_args()
    if arguments.names and arguments.write:
        parser.error("--write needs all cases")
    start = time.perf_counter()
    cases = [
        c for c in node_cases() if not arguments.names or any(name in c.name for name in arguments.names)
    ]
    outcomes = {case.name: run_case(case) for case in cases}
    faults = {name: outcome for name, outcome in outcomes.items() if outcome.verdict is Verdict.FAULT}
    console = Console()
    if arguments.names:
        for name, outcome in outcomes.items():
            console.print(f"{name}: {outcome.verdict.value} {outcome.reason}", markup=False, highlight=False)
        return 1 if faults else 0
    counts = Counter(outcome.verdict for outcome in outcomes.values())
    verdicts = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict)
    console.print(f"{len(cases)} cases: {verdicts}; {time.perf_counter() - start:.0f} s")
    console.print(missing_table(outcomes))
    for name, outcome in faults.items():
        console.print(
            f"FAULT {name}: {outcome.reason.strip().splitlines()[-1]}", markup=False, highlight=False
        )
    if arguments.write and faults:
        sys.exit("not_passed.txt stays as it is: faults can't be listed")
    if arguments.write:
        write_not_passed(outcomes)
    return 1 if faults else 0


def missing_table(outcomes: Mapping[str, Outcome]) -> Table:
    """What refused cases lack, most wanted first: cases that lack nothing else, and all cases that lack it."""
    alone: Counter[tuple[str, str]] = Counter()
    wanted: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes.values():
        if outcome.verdict is Verdict.REFUSED:
            kinds = {_kind(reason) for reason in outcome.reasons}
            wanted.update(kinds)
            if len(kinds) == 1:
                alone.update(kinds)
    table = Table("group", "missing", title="What the refused cases lack")
    table.add_column("unlocks", justify="right")
    table.add_column("used in", justify="right")
    for (group, what), count in sorted(wanted.items(), key=lambda item: (-alone[item[0]], -item[1], item[0])):
        table.add_row(group, what, str(alone[group, what]), str(count))
    return table


def _kind(reason: str) -> tuple[str, str]:
    """The group that a reason belongs to (operator, type, other) and what exactly is missing, without names."""
    cast = re.fullmatch(r"operator ai\.onnx\.Cast to (\w+)", reason)
    if cast:
        return "type", cast[1]
    group, _, what = reason.partition(" ")
    return (group, what) if group in ("operator", "type") else ("other", re.sub(r'"[^"]*"', '"..."', reason))


if __name__ == "__main__":
    sys.exit(main())
