"""Counting Python calls, for tests of how work grows: a count is the same on every machine, a time is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(work: Callable[[], Any]) -> int:
    """How many Python and builtin functions are called while `work` runs."""
    calls = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(previous)
    return calls
