"""Sliding windows over the spatial dimensions: what convolution and pooling have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import Properties, get_ints, shape_text


class Window(NamedTuple):
    """A window sliding over `n` spatial dimensions; every field has one number per dimension.

    `kernel` is its extent in elements, `dilations` their distance, `strides` the steps it moves by,
    `low` and `high` the elements of padding before and after the tensor.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Sequence[int], properties: Properties) -> Window:
        """The window of this kernel shape and an operation's `strides`, `pads` and `dilations`.

        `pads` has all lows, then all highs; where one is left out it is 1, 0 or 1. Raises `VerifyException`
        for numbers that make no window.
        """
        rank = len(kernel)
        strides = _numbers(properties, "strides", rank, default=1, minimum=1)
        dilations = _numbers(properties, "dilations", rank, default=1, minimum=1)
        pads = _numbers(properties, "pads", 2 * rank, default=0, minimum=0)
        if any(size < 1 for size in kernel):
            raise VerifyException(
                f"expected a kernel of 1 or more in each dimension, found {shape_text(kernel)}"
            )
        return cls(tuple(kernel), strides, pads[:rank], pads[rank:], dilations)

    @property
    def extent(self) -> tuple[int, ...]:
        """Elements from the first to the last that a window covers, dilation included."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def positions(self, spatial: Sequence[int], *, ceil_mode: bool = False) -> tuple[int, ...]:
        """How many positions the window takes over a tensor of these spatial sizes.

        With `ceil_mode` a last window may reach beyond the padding, if it starts before the high padding; it may be
        the first one, and larger than the tensor.
        """
        result: list[int] = []
        for size, extent, stride, low, high in zip(
            spatial, self.extent, self.strides, self.low, self.high, strict=True
        ):
            room = size + low + high - extent
            if room < 0 and not (ceil_mode and room > -stride and size + low > 0):
                raise VerifyException(
                    f"expected spatial sizes of at least the window's extent {shape_text(self.extent)} "
                    f"with padding, found {shape_text(spatial)}"
                )
            count = room // stride + 1
            if ceil_mode and room % stride and count * stride < size + low:
                count += 1
            result.append(count)
        return tuple(result)


def _numbers(properties: Properties, name: str, count: int, *, default: int, minimum: int) -> tuple[int, ...]:
    numbers = get_ints(properties, name)
    if numbers is None:
        return (default,) * count
    if len(numbers) != count or any(number < minimum for number in numbers):
        raise VerifyException(f"expected {count} {name} of {minimum} or more, found {shape_text(numbers)}")
    return numbers
