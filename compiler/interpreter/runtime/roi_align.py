"""Pooling of regions with a number of sampling points that depends on their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction


@dataclass(frozen=True, slots=True)
class Samples:
    """The sampling points of one bin along an axis: those in the image, by their neighbours and the weights of these.

    `count` is how many there are in all; `misses`: some of them lie more than 1 outside of the image.
    """

    neighbours: tuple[Array, Array]
    weights: tuple[Array, Array]
    count: int
    misses: bool

    def terms(self) -> Iterator[tuple[np.integer, np.floating]]:
        """Each neighbour of each point with its weight, point by point."""
        for index, weight in zip(
            zip(*self.neighbours, strict=True), zip(*self.weights, strict=True), strict=True
        ):
            yield from zip(index, weight, strict=True)


class RoiAlign(RuntimeFunction):
    """Regions `[r, 4]` (x1, y1, x2, y2, times `scale`) of the images `source`, `[n, c, h, w]`, in bins of equal size.

    The size of `result`, `[r, c, height, width]`, is the number of bins; a bin is sampled at as many points along an
    axis as it is long, rounded up. A point is interpolated between its four neighbours; more than 1 outside of the
    image it is 0. `mode` is "avg", the mean of the points, or "max", the largest of the weighted neighbours. With
    `half_pixel` regions are shifted by -0.5; without it they are at least 1 long. `batch` is the image of each region.
    Computed in f32, or f64 for f64.
    """

    NAME = "mlopt_rt_roi_align"
    READS = ("source", "rois", "batch")
    WRITES = ("result",)
    PARAMETERS: ClassVar[Mapping[str, type]] = {"mode": str, "scale": float, "half_pixel": bool}

    def check(self) -> None:
        source, rois, batch, result = (self.operands[name] for name in (*self.READS, *self.WRITES))
        self.require(
            self.text("mode") in ("avg", "max"), f"expected mode avg or max, found {self.text('mode')}"
        )
        self.require(
            len(source.shape) == 4 and source.dtype.kind in "fV" and 0 not in source.shape[2:],
            f"expected floating-point images that are not empty, found {source}",
        )
        self.require(
            rois.dtype == source.dtype and rois.shape == (*rois.shape[:1], 4),
            f"expected rois {source.dtype}[r, 4], found {rois}",
        )
        self.require(
            batch.shape == rois.shape[:1] and batch.dtype.kind == "i",
            f"expected {rois.shape[0]} integers, found {batch}",
        )
        wanted = (rois.shape[0], source.shape[1])
        self.require(
            len(result.shape) == 4 and result.shape[:2] == wanted and result.dtype == source.dtype,
            f"expected a result {source.dtype}[{wanted[0]}, {wanted[1]}, height, width], found {result}",
        )

    @property
    def _work(self) -> np.dtype:
        source = self.operands["source"].dtype
        return source if source == np.float64 else np.dtype(np.float32)

    def scratch(self) -> Sequence[Buffer]:
        """Two rows of an image; elements, weighted elements and the largest ones at the points of a row; a bin."""
        _, channels, _, width = self.operands["source"].shape
        row, points = Buffer((channels, width), self._work), Buffer((channels, 2 * width + 4), self._work)
        return (row, row, points, points, Buffer((channels,), self._work), Buffer((channels,), self._work))

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source, rois, batch), (result,) = reads, writes
        outside = batch[(batch < 0) | (batch >= len(source))]
        if outside.size:
            raise RunError(f"batch index {outside[0]} is out of bounds for {len(source)} images")
        pool = self._average if self.text("mode") == "avg" else self._largest
        for region, box, image in zip(result, rois, batch, strict=True):
            rows, columns = self._samples(box, 0), self._samples(box, 1)
            pool(source[image], rows, columns, region, scratch)

    def _samples(self, box: Array, axis: int) -> list[Samples]:
        """The sampling points of each bin along an axis."""
        work = self._work.type
        size, bins = self.operands["source"].shape[2 + axis], self.operands["result"].shape[2 + axis]
        half = work(0.5 if self.flag("half_pixel") else 0)
        start, end = (work(box[i]) * work(self.number("scale")) - half for i in (1 - axis, 3 - axis))
        length = end - start if self.flag("half_pixel") else np.maximum(end - start, work(1))
        step = length / work(bins)
        count = math.ceil(step) if np.isfinite(step) else 0
        return [_in_image(start + work(number) * step, step, count, size) for number in range(bins)]

    def _average(
        self,
        image: Array,
        rows: list[Samples],
        columns: list[Samples],
        region: Array,
        scratch: Sequence[Array],
    ) -> None:
        """Rows are added up once for all bins of a row: weights of points are products of those along the axes."""
        total, row, _, _, value, term = scratch
        for y, down in enumerate(rows):
            total.fill(0)
            for index, weight in down.terms():
                np.copyto(row, image[:, index])
                np.multiply(row, weight, out=row)
                np.add(total, row, out=total)
            for x, across in enumerate(columns):
                value.fill(0)
                for index, weight in across.terms():
                    np.multiply(total[:, index], weight, out=term)
                    np.add(value, term, out=value)
                np.divide(value, max(1, max(0, down.count) * max(0, across.count)), out=value)
                np.copyto(region[:, y, x], value, casting="unsafe")

    def _largest(
        self,
        image: Array,
        rows: list[Samples],
        columns: list[Samples],
        region: Array,
        scratch: Sequence[Array],
    ) -> None:
        """Of the neighbours of all points, each weighted; a point outside counts as 0."""
        row, _, points, _, value, term = scratch
        for y, down in enumerate(rows):
            for x, across in enumerate(columns):
                is_empty = down.count <= 0 or across.count <= 0
                value.fill(0 if is_empty or down.misses or across.misses else -np.inf)
                for indices, weights in zip(down.neighbours, down.weights, strict=True):
                    for index, weight in zip(indices, weights, strict=True):
                        np.copyto(row, image[:, index])
                        np.multiply(row, weight, out=row)
                        for places, factors in zip(across.neighbours, across.weights, strict=True):
                            if places.size:
                                at = points.reshape(-1)[: len(row) * places.size].reshape(len(row), -1)
                                np.take(row, places, axis=1, out=at, mode="clip")
                                np.multiply(at, factors, out=at)
                                np.maximum.reduce(at, axis=1, out=term)
                                np.maximum(value, term, out=value)
                np.copyto(region[:, y, x], value, casting="unsafe")


def _in_image(start: np.floating, length: np.floating, count: int, size: int) -> Samples:
    """The `count` points of a bin, of which there may be very many, with those only that are near the image."""
    work = type(start)
    first, last = 0, max(count, 0)
    if count > 1:  # points are at least half an element apart
        distance = float(length) / count
        first = max(first, math.floor((-1 - float(start)) / distance) - 1)
        last = min(last, math.ceil((size - float(start)) / distance) + 2)
    numbers = np.arange(first, max(first, last)).astype(work)
    at = start + (numbers + work(0.5)) * length / work(max(count, 1))
    at = at[(at >= -1) & (at <= size)]
    inside = np.clip(at, 0, size - 1).astype(work)
    low = inside.astype(np.int64)
    part = inside - low.astype(work)
    return Samples((low, np.minimum(low + 1, size - 1)), (work(1) - part, part), count, len(at) < count)
