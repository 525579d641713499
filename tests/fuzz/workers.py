"""Runs a search in child processes: a crash of an oracle, or a program that never ends, costs one program."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from tests.fuzz.search import Found, Session, search

PATIENCE = 300.0
"""Seconds after which a program is given up."""

CHUNK = 500
"""Programs of one child."""

_FORK = multiprocessing.get_context("fork")


def search_in_children(
    session: Session, first: int, end: float, most: int, names: Sequence[str] | None
) -> Iterator[Found | str | None]:
    """What is found from seed `first` on, or what was given up; None after each child, that progress may be shown.

    Until the time `end`, or `most` programs that are not empty. `session` counts what the children did.
    """
    seed = first
    while session.examples < most and time.monotonic() < end:
        ours, theirs = _FORK.Pipe()
        count = min(CHUNK, most - session.examples)
        child = _FORK.Process(target=_work, args=(theirs, session, range(seed, seed + count), end, names))
        child.start()
        theirs.close()
        done = False
        try:
            while not done:
                if not ours.poll(PATIENCE):
                    yield f"seed {seed}: no end after {PATIENCE:.0f} seconds"
                    child.kill()
                    break
                message = ours.recv()
                if isinstance(message, Found):
                    yield message
                elif isinstance(message, Session):
                    session.__dict__.update(message.__dict__)
                    done = True
                else:
                    seed, session.examples = message
        except EOFError:
            child.join()
            yield f"seed {seed}: the process ended with code {child.exitcode}, likely in an oracle"
        child.join()
        seed += 1
        yield None


def _work(pipe: Connection, session: Session, seeds: range, end: float, names: Sequence[str] | None) -> None:
    logging.disable(logging.ERROR)

    def until_the_end() -> Iterator[int]:
        for seed in seeds:
            if time.monotonic() > end:
                return
            pipe.send((seed, session.examples))
            yield seed

    for found in search(session, until_the_end(), names=names):
        pipe.send(found)
    pipe.send(session)
