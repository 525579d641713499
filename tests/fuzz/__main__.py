"""`python -m tests.fuzz --minutes 20 [--operator NAME] [--seed N]`: a long search for wrong answers.

Prints what it finds, and writes each failing program, made small, to a directory: the model, its inputs, the right
outputs, and a text that says which passes fail. `--replay FILE.onnx` checks one again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.fuzz.corpus import load, save
from tests.fuzz.operators import OPERATORS
from tests.fuzz.search import Found, Session, check_supported
from tests.fuzz.workers import search_in_children


def main() -> int:
    """1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument(
        "--examples", type=int, default=10**9, help="stop after so many programs that are not empty"
    )
    parser.add_argument("--operator", action="append", help="one to look at; may be given several times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--replay", type=Path, help="a model that was written by an earlier search")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    if arguments.replay is not None:
        _, failure = check_supported(*load(arguments.replay))
        print(failure or "passes")
        return failure is not None
    unknown = [name for name in arguments.operator or () if name not in OPERATORS]
    if unknown:
        parser.error(f"unknown operator {unknown[0]}, expected one of {', '.join(OPERATORS)}")
    session, start, findings = Session(), time.monotonic(), 0
    end = start + 60 * arguments.minutes
    for result in search_in_children(session, arguments.seed, end, arguments.examples, arguments.operator):
        rate = 60 * session.examples / (time.monotonic() - start)
        print(f"[{session.examples} programs, {rate:.0f} per minute, {findings} failures]", flush=True)
        if isinstance(result, Found):
            path = save(result, arguments.out, findings)
            findings += 1
            print(f"{path} (seed {result.seed}) on {result.route}\n  {result.failure}\n", flush=True)
        elif result is not None:
            print(f"{result}\n", flush=True)
    rate = 60 * session.examples / (time.monotonic() - start)
    print(
        f"{session.examples} programs, {rate:.0f} per minute, {findings} failures; {session.empty} more were empty"
    )
    for reason, times in session.refusals.most_common(40):
        print(f"refused {times} times: {reason[:200]}")
    for reason, times in session.budgets.items():
        print(f"budgets refused {times} times: {reason}")
    by_name = [(key, operator.name) for key, operator in OPERATORS.items() if operator.name[0].isupper()]
    never = [key for key, name in by_name if not session.operators[name]]
    print(f"never drawn: {', '.join(never) or 'none'}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
