"""A spinner on a terminal for work that takes longer than a moment; silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def progress(what: str) -> Generator[None]:
    """Show `what` on stderr while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    # rich takes a while to load, and most runs are not on a terminal.
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
