"""What it is for a value to be bounded: its size along one axis depends on data."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue


class Bound(NamedTuple):
    """Along `axis` a value has the first `extent` of the elements that its type has; what is behind them is no part
    of it.

    `extent` is a tensor<i64> computed at run time, from 0 to the size in the type. The elements behind it are
    defined, and no operation fails because of them, but which they are is left open.
    """

    axis: int
    extent: SSAValue
