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
from tests.fuzz.search import Found, Session, check_supported, search

CHUNK = 100
"""Programs per seed."""


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

    def report(found: Found) -> None:
        path = save(found, arguments.out, len(session.found))
        print(f"\n{path} ({', '.join(found.program.operators)}) on {found.route}\n  {found.failure}", flush=True)

    def over() -> bool:
        return time.monotonic() > end or session.examples >= arguments.examples

    seed = arguments.seed
    while not over():
        search(session, seed=seed, examples=CHUNK, names=arguments.operator, stop=over, report=report)
        seed += 1
        minutes = (time.monotonic() - start) / 60
        print(
            f"{session.examples} programs ({session.empty} empty), {len(session.found)} failures, "
            f"{session.examples / minutes:.0f} per minute, next seed {seed}",
            flush=True,
        )
    for reason, count in session.refusals.most_common(40):
        print(f"refused {count} times: {reason[:200]}")
    never = [name for name in OPERATORS if not session.operators[name.rpartition(".")[2]]]
    print(f"never drawn: {', '.join(never) or 'none'}")
    return bool(session.found)


if __name__ == "__main__":
    sys.exit(main())
