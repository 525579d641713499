"""Prints the page `docs/run-time-functions.md`."""

from __future__ import annotations

from mlopt.interpreter.runtime.page import page

print(page(), end="")
