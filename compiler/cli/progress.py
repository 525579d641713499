"""A spinner on a terminal for work that takes longer than a second; silent elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

DELAY = 1.0
"""Seconds until a spinner appears; quicker work shows none, and does not load what draws it."""

Update = Callable[[str], None]
"""Tells what the work is at now, such as the name of a pass."""


@contextmanager
def progress(what: str) -> Generator[Update]:
    """Show `what` on stderr while the block runs, if stderr is a terminal, followed by what the block last told."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    spinner = _Spinner(what)
    try:
        yield spinner.update
    finally:
        spinner.stop()


def _ignore(step: str) -> None:
    """Nobody is watching."""


class _Spinner:
    """Appears after `DELAY`, from a thread of its own."""

    def __init__(self, what: str):
        self._what = what
        self._step = ""
        self._status: Status | None = None
        self._stopped = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY, self._show)
        self._timer.daemon = True
        self._timer.start()

    def update(self, step: str) -> None:
        """Show another step."""
        with self._lock:
            self._step = step
            if self._status is not None:
                self._status.update(self._text())

    def stop(self) -> None:
        """Take the spinner away."""
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            if self._status is not None:
                self._status.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.status import Status

        with self._lock:
            if not self._stopped:
                self._status = Status(self._text(), console=Console(stderr=True))
                self._status.start()

    def _text(self) -> str:
        from rich.markup import escape

        return escape(f"{self._what}: {self._step}" if self._step else self._what)
