"""Loops whose trips are known, and what counts them."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, SSAValue


class Position(NamedTuple):
    """A number that counts the trips of a loop: the number of the trip, or, if `backwards`, `last` minus it."""

    loop: scf.ForOp
    backwards: bool
    last: int


def constant_integer(value: SSAValue) -> int | None:
    """The integer that a scalar is known to be."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def trips_of(loop: scf.ForOp) -> range | None:
    """The values that the variable of a loop takes, if they are known."""
    low, high, step = (constant_integer(bound) for bound in (loop.lb, loop.ub, loop.step))
    return None if low is None or high is None or step is None or step <= 0 else range(low, high, step)


def position_of(value: SSAValue) -> Position | None:
    """What a scalar counts, if it is the variable of a loop or a constant minus that, as a number or an index."""
    if isinstance(value.owner, arith.IndexCastOp):
        value = value.owner.input
    last = None
    if isinstance(value.owner, arith.SubiOp):
        last, value = constant_integer(value.owner.lhs), value.owner.rhs
        if last is None:
            return None
    if not isinstance(value, BlockArgument) or value.index != 0:
        return None
    loop = value.block.parent_op()
    return Position(loop, last is not None, last or 0) if isinstance(loop, scf.ForOp) else None


def positions(position: Position) -> range | None:
    """The values that a position takes, if they are known; in the order of the trips."""
    trips = trips_of(position.loop)
    if trips is None or not position.backwards:
        return trips
    return range(position.last - trips.start, position.last - trips.stop, -trips.step)
