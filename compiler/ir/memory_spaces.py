"""Memory spaces of buffers, as MLIR has them: the memory space of a `memref`, a whole number, none for space 0.

- `ARENA_SPACE`: where kernels work. All that `@main` computes lies here, in the arena.
- `SPILL_SPACE`: a second memory, larger and farther away, with an arena of its own. Only copies touch it.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, i64
from xdsl.ir import Attribute

from mlopt.diagnostics import VerifyFailure

ARENA_SPACE = 0
SPILL_SPACE = 1

ARENA_NAMES = {ARENA_SPACE: "arena", SPILL_SPACE: "spill"}
"""What the argument of `@main` that is the arena of a space is called."""


def space_of(type: Attribute) -> int:
    """The memory space of a buffer. `VerifyFailure` for one that is no whole number."""
    assert isinstance(type, MemRefType)
    space = cast(MemRefType[Attribute], type).memory_space
    match space:
        case NoneAttr():
            return ARENA_SPACE
        case IntegerAttr():
            return space.value.data
        case _:
            raise VerifyFailure(f"expected a whole number as the memory space of a buffer, found {space}")


def space_attr(space: int) -> Attribute:
    """The memory space of a buffer's type."""
    return NoneAttr() if space == ARENA_SPACE else IntegerAttr(space, i64)


def arena_name(space: int) -> str:
    """What the arena of a space is called in messages."""
    return "the arena" if space == ARENA_SPACE else f"the arena of memory space {space}"
