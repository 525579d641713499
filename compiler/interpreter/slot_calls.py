"""Calls some of whose arrays lie in slots: memory that is known only at run time.

An input or an output stays where it is throughout a run, so that its views are made when the run begins, each once
for all the calls that take it. All other slots move: their views live only as long as a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mlopt.interpreter.views import Slot

MOST_RUN_VIEWS = 32
"""Views that live as long as a run, about 200 bytes each; those of further ones live only as long as a call."""


class Recipe(NamedTuple):
    """How to make an array in a slot's memory."""

    slot: Slot
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        """The view of what the slot points at now."""
        slot, offset, shape, strides, dtype = self
        return np.ndarray(shape, dtype, slot.data, slot.base + offset, strides)


class RunViews:
    """The views of slots that stay, and where the calls that take them have a place for them."""

    def __init__(self) -> None:
        self._places: dict[Recipe, list[tuple[list[object], int]]] = {}

    def add(self, recipe: Recipe, values: list[object], position: int) -> bool:
        """Whether the view stands in `values` during a run; else it has to be made when it is needed."""
        if not recipe.slot.stays or (recipe not in self._places and len(self._places) == MOST_RUN_VIEWS):
            return False
        self._places.setdefault(recipe, []).append((values, position))
        return True

    def make(self) -> None:
        """Put every view in its places: the slots point at the memory of a run."""
        for recipe, places in self._places.items():
            array = recipe.array()
            for values, position in places:
                values[position] = array

    def drop(self) -> None:
        """Take them out again, so that nobody holds on to the memory."""
        for places in self._places.values():
            for values, position in places:
                values[position] = None


class SlotCall:
    """A call some of whose arguments are recipes."""

    __slots__ = ("_moving", "_names", "_values", "function")

    def __init__(
        self,
        function: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        run_views: RunViews,
    ):
        self.function = function
        self._names = tuple(kwargs)
        self._values = [*args, *kwargs.values()]
        recipes = [(i, value) for i, value in enumerate(self._values) if isinstance(value, Recipe)]
        self._moving = [(i, recipe) for i, recipe in recipes if not run_views.add(recipe, self._values, i)]

    def __call__(self) -> None:
        values = self._values
        if self._moving:
            values = list(values)
            for position, recipe in self._moving:
                values[position] = recipe.array()
        if self._names:
            split = len(values) - len(self._names)
            self.function(*values[:split], **dict(zip(self._names, values[split:], strict=True)))
        else:
            self.function(*values)
