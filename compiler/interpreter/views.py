"""Memory as the engine plans with it: regions of bytes and strided views of them. No array is made here until asked.

All offsets and strides are in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlopt.interpreter.expressions import Linear


class Region:
    """Bytes that belong together: the arena, a weight, an input, scratch.

    `data` (uint8, contiguous) is None while an engine only measures what it would need.
    """

    __slots__ = ("data", "name", "nbytes", "writable")

    def __init__(self, name: str, nbytes: int, data: np.ndarray | None = None, *, writable: bool = True):
        self.name = name
        self.nbytes = nbytes
        self.data = data
        self.writable = writable

    @staticmethod
    def of_array(name: str, array: np.ndarray, *, writable: bool = False) -> Region:
        """The bytes of a C-contiguous array."""
        return Region(name, array.nbytes, array.reshape(-1).view(np.uint8), writable=writable)

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.name}', {self.nbytes} bytes)"

    @property
    def roots(self) -> frozenset[Region]:
        """The regions that its bytes may lie in."""
        return frozenset((self,))


class Slot(Region):
    """A region whose bytes are known only at run time.

    Inputs and outputs of a run are slots, and so are views at run-time offsets: `data` and `base` (bytes) are set
    before a step that uses them runs. `origins` are the regions that it may lie in; empty for memory of its own.
    One that `stays` is set before a run, and no more during it.
    """

    __slots__ = ("_origins", "base", "stays")

    def __init__(
        self,
        name: str,
        nbytes: int,
        *,
        writable: bool,
        origins: frozenset[Region] = frozenset(),
        stays: bool = False,
    ):
        super().__init__(name, nbytes, writable=writable)
        self.base = 0
        self.stays = stays
        self._origins = origins

    @property
    def roots(self) -> frozenset[Region]:
        return self._origins or frozenset((self,))


@dataclass(frozen=True, slots=True)
class View:
    """A strided view of a region."""

    region: Region
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        expected = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    def span(self) -> tuple[int, int]:
        """First byte and one past the last byte; the view must not be empty."""
        low = high = self.offset
        for extent, stride in zip(self.shape, self.strides, strict=True):
            reach = stride * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + self.dtype.itemsize

    def over(self, index: Sequence[Linear], extents: tuple[int, ...]) -> View:
        """The elements at an affine index, one per axis, as a view with one axis per iteration dimension."""
        offset = self.offset
        strides = [0] * len(extents)
        for linear, stride in zip(index, self.strides, strict=True):
            offset += linear.constant * stride
            for dim, coefficient in enumerate(linear.coefficients):
                strides[dim] += coefficient * stride
        return View(self.region, offset, extents, tuple(strides), self.dtype)

    def box(self, lows: Sequence[int], shape: Sequence[int]) -> View:
        """The sub-box that starts at `lows`."""
        offset = self.offset + sum(low * stride for low, stride in zip(lows, self.strides, strict=True))
        return View(self.region, offset, tuple(shape), self.strides, self.dtype)

    def transposed(self, axes: Sequence[int]) -> View:
        """The view with its axes in another order; axes left out must have extent 1 or are fixed at 0."""
        shape, strides = tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes)
        return View(self.region, self.offset, shape, strides, self.dtype)

    def reshaped(self, shape: tuple[int, ...]) -> View:
        """A contiguous view in another shape."""
        assert self.is_contiguous, "elements that do not follow one another have no other shape"
        return replace(self, shape=shape, strides=row_major(shape, self.dtype.itemsize))

    def with_dtype(self, dtype: np.dtype) -> View:
        """The same bits as elements of another type of the same size."""
        return self if dtype == self.dtype else replace(self, dtype=dtype)

    def array(self) -> np.ndarray:
        """The array, for a region whose memory is there."""
        assert self.region.data is not None
        return np.ndarray(self.shape, self.dtype, self.region.data, self.offset, self.strides)


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of a contiguous array."""
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def same_elements(a: View, b: View) -> bool:
    """Whether two views of equal shape hold the same element at every index."""
    if a.region is not b.region or a.offset != b.offset or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return all(e <= 1 or s == t for e, s, t in zip(a.shape, a.strides, b.strides, strict=True))


def may_overlap(a: View, b: View) -> bool:
    """Whether two views may share a byte; exact for row blocks and column slices of one buffer."""
    if not a.size or not b.size:
        return False
    if a.region is not b.region:
        if not (isinstance(a.region, Slot) or isinstance(b.region, Slot)):
            return False
        return bool(a.region.roots & b.region.roots)
    a_low, a_high = a.span()
    b_low, b_high = b.span()
    if a_high <= b_low or b_high <= a_low:
        return False
    steps = {abs(s) for v in (a, b) for e, s in zip(v.shape, v.strides, strict=True) if e > 1 and s}
    return not any(_columns_disjoint(a, b, step) for step in steps)


def _columns_disjoint(a: View, b: View, step: int) -> bool:
    """Whether the views occupy disjoint columns of a matrix with rows of `step` bytes."""
    columns: list[tuple[int, int]] = []
    for view in (a, b):
        low = high = view.offset
        for extent, stride in zip(view.shape, view.strides, strict=True):
            if stride % step:
                reach = stride * (extent - 1)
                low, high = low + min(reach, 0), high + max(reach, 0)
        start = low % step
        columns.append((start, start + high - low + view.itemsize))
    (a_start, a_end), (b_start, b_end) = columns
    return a_end <= step and b_end <= step and (a_end <= b_start or b_end <= a_start)


def is_injective(view: View) -> bool:
    """Whether different indices are certainly different elements."""
    reach = view.itemsize
    dims = sorted((abs(s), e) for e, s in zip(view.shape, view.strides, strict=True) if e > 1)
    for stride, extent in dims:
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return True


def broadcast_strides(view: View, rank: int) -> tuple[int, ...]:
    """The strides of a view on the axes of a larger one, 0 along those that it does not have."""
    own = [0 if extent == 1 else stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    return (*[0] * (rank - view.ndim), *own)


def merged_strides(shapes: Sequence[int], strides: Iterable[Sequence[int]]) -> list[list[int]]:
    """Groups of adjacent axes that every one of the views (given by its strides) can treat as one.

    Axes of extent 1 are left out.
    """
    rows = [tuple(row) for row in strides]
    groups: list[list[int]] = []
    for axis, extent in enumerate(shapes):
        if extent == 1:
            continue
        if groups and all(row[groups[-1][-1]] == row[axis] * extent for row in rows):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups
