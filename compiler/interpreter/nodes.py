"""Expressions as numpy steps: every node is one call that writes an array, or no call at all.

A body is lowered to a DAG of these nodes for one binding of its memrefs. Views of leaves have one axis per iteration
dimension. A `Ref` is a node seen as elements of some type: reading the bits as unsigned integers costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mlopt.diagnostics import Place
from mlopt.interpreter.expressions import Bound
from mlopt.interpreter.views import View


@dataclass(eq=False, slots=True)
class Node:
    """A value for every point of the iteration space; `dims` are the dimensions along which it varies."""

    dtype: np.dtype
    dims: frozenset[int]

    @property
    def operands(self) -> tuple[Ref, ...]:
        return ()


class Ref(NamedTuple):
    """A node, with its elements read as `dtype` (of the same size)."""

    node: Node
    dtype: np.dtype

    def bitcast(self, dtype: np.dtype) -> Ref:
        """The same bits as another type of the same size."""
        return Ref(self.node, dtype)


@dataclass(eq=False, slots=True)
class Leaf(Node):
    """Elements that stand in memory: `view` has one axis per iteration dimension (stride 0 where it is constant).

    `constant` leaves hold one element whose value is known when the plan is made. Of `view`, only elements of `source`
    are read: where padding is left out of a reduction, the rest of it reaches beyond.
    """

    view: View
    constant: bool = False
    source: View | None = None


@dataclass(eq=False, slots=True)
class Padded(Node):
    """Elements in memory where all bounds hold, `pad` elsewhere."""

    view: View
    bounds: tuple[Bound, ...]
    pad: Ref

    @property
    def operands(self) -> tuple[Ref, ...]:
        return (self.pad,)


@dataclass(eq=False, slots=True)
class Compute(Node):
    """A ufunc of its operands."""

    function: np.ufunc
    args: tuple[Ref, ...]

    @property
    def operands(self) -> tuple[Ref, ...]:
        return self.args


@dataclass(eq=False, slots=True)
class Cast(Node):
    """The operand's elements converted to `dtype` as C does; also a plain copy."""

    source: Ref

    @property
    def operands(self) -> tuple[Ref, ...]:
        return (self.source,)


@dataclass(eq=False, slots=True)
class Select(Node):
    """`yes` where the condition is true, else `no`."""

    condition: Ref
    yes: Ref
    no: Ref

    @property
    def operands(self) -> tuple[Ref, ...]:
        return (self.condition, self.yes, self.no)


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The claim that `index` (int64) lies in `[0, size)`, the extent of an axis.

    `from_end`: `size` was added to what was negative, so that a negative index is one below `-size`.
    """

    index: Ref
    axis: int
    size: int
    from_end: bool
    place: Place


@dataclass(eq=False, slots=True)
class Take(Node):
    """Elements (or whole rows) of a table at computed positions, once all `checks` hold.

    Positions are clipped to the table, which matters only where a value is not used: such loads have no checks.
    `table` has one axis (elements), or two (rows); rows vary along the dimensions `row`, which come last.
    """

    table: View
    index: Ref
    row: tuple[int, ...]
    checks: tuple[IndexCheck, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        return (self.index, *(check.index for check in self.checks))
