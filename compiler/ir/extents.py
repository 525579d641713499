"""Outputs whose size depends on data: `mlopt.extent` at the interface of `@main`.

Types are static, so that an output of such a size is a tensor of the largest size there can be, and how much of it
counts is a result of its own, a number in i64:

    func.func @main(%x: tensor<2x3xf32> {mlopt.name = "x"})
        -> (tensor<2x6xi64> {mlopt.name = "y"}, tensor<i64> {mlopt.extent = {of = "y", axis = 1 : i64}})

At the memref level it is an argument with that attribute, as an output is one with `mlopt.output`. The caller gets
the output cut to its extent, and the extent not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

from mlopt.diagnostics import RunError

EXTENT = "mlopt.extent"
"""The name of the attribute."""


class Extent(NamedTuple):
    """What a number says: how many elements the output of the name `of` has along `axis`."""

    of: str
    axis: int

    @property
    def attribute(self) -> DictionaryAttr:
        """The value of `mlopt.extent`."""
        return DictionaryAttr({"of": StringAttr(self.of), "axis": IntegerAttr(self.axis, i64)})

    @classmethod
    def read(cls, attributes: Mapping[str, Attribute]) -> Extent | None:
        """What the attributes of an argument or result say; None if nothing, or not in this form."""
        match attributes.get(EXTENT):
            case DictionaryAttr(data={"of": StringAttr(data=of), "axis": IntegerAttr(value=axis)}):
                return cls(of, axis.data)
            case _:
                return None

    def cut(self, output: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
        """The part of an output that counts, as a view; `RunError` for a number that is no size of it."""
        size = output.shape[self.axis]
        if not 0 <= number <= size:
            raise RunError(
                f'output "{self.of}" has the extent {number} along axis {self.axis}, of {size} elements'
            )
        return output[(slice(None),) * self.axis + (slice(number),)]


def cut_outputs(
    outputs: Mapping[str, np.ndarray[Any, Any]], extents: Mapping[Extent, int]
) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs by name, those with an extent cut to it."""
    cut = dict(outputs)
    for extent, number in extents.items():
        cut[extent.of] = extent.cut(cut[extent.of], number)
    return cut
