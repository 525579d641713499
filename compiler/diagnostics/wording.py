"""Counts in sentences."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 buffer`, `2 buffers`; a plural that is not the noun with an `s` is given."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
