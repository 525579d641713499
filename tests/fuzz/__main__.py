"""`python -m tests.fuzz --minutes 20 [--operator NAME] [--seed N]`: a long search for wrong answers.

Prints what it finds, and writes each failing program, made small, to a directory: the model, its inputs, the right
outputs, and a text that says which passes fail. `--replay FILE.onnx` checks one again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tests.fuzz.corpus import load, save
from tests.fuzz.operators import OPERATORS
from tests.fuzz.search import Session, check_supported, search

PROGRESS = 100
"""Programs between two lines that say how far it is."""


def main() -> int:
    """1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--examples", type=int, default=10**9, help="stop after so many programs")
    parser.add_argument("--operator", action="append", help="one to look at; may be given several times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--replay", type=Path, help="a model that was written by an earlier search")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    if arguments.replay is not None:
        program, route = load(arguments.replay)
        _, failure = check_supported(program, route)
        print(failure or "passes")
        return failure is not None
    unknown = [name for name in arguments.operator or () if name not in OPERATORS]
    if unknown:
        parser.error(f"unknown operator {unknown[0]}, expected one of {', '.join(OPERATORS)}")
    session, start = Session(), time.monotonic()
    end = start + 60 * arguments.minutes

    def seeds() -> Iterator[int]:
        for seed in count(arguments.seed):
            if time.monotonic() > end or session.examples >= arguments.examples:
                return
            if session.examples and session.examples % PROGRESS == 0:
                minutes = (time.monotonic() - start) / 60
                rate = session.examples / minutes
                print(
                    f"{session.examples} programs ({session.empty} empty), {len(session.found)} failures, "
                    f"{rate:.0f} per minute, at seed {seed}",
                    flush=True,
                )
            yield seed

    for number, found in enumerate(search(session, seeds(), names=arguments.operator)):
        path = save(found, arguments.out, number)
        print(f"\n{path} (seed {found.seed}) on {found.route}\n  {found.failure}", flush=True)
    minutes = (time.monotonic() - start) / 60
    print(
        f"{session.examples} programs, {len(session.found)} failures, {session.examples / minutes:.0f} per minute"
    )
    for reason, times in session.refusals.most_common(40):
        print(f"refused {times} times: {reason[:200]}")
    never = [name for name in OPERATORS if not session.operators[name.rpartition(".")[2]]]
    print(f"never drawn: {', '.join(never) or 'none'}")
    return bool(session.found)


if __name__ == "__main__":
    sys.exit(main())
