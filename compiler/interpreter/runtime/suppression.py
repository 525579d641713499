"""Non-maximum suppression of boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.selection import NUMBER

_F32 = np.dtype(np.float32)
_BOOL = np.dtype(np.bool_)
_HALF = np.float32(0.5)


class NonMaxSuppression(RuntimeFunction):
    """Boxes by descending score without those that overlap one chosen before, for each batch and class.

    `boxes` are `[batch, box, 4]`: two opposite corners, or with `center` the middle, then the sides; `scores` are
    `[batch, class, box]`. A box is chosen if its score is above `score_threshold` (with `all_scores`: any score but
    NaN), and its intersection over union with each one chosen before is not above `iou_threshold`; of equal scores
    the first box counts. No more than `limit` or `most` are chosen of a class. A row of `selected` is batch, class,
    box; rows behind their number, `count`, are zero.
    """

    NAME = "mlopt_rt_non_max_suppression"
    READS = ("boxes", "scores", "limit", "iou_threshold", "score_threshold")
    WRITES = ("selected", "count")
    PARAMETERS: ClassVar[Mapping[str, type]] = {"most": int, "center": bool, "all_scores": bool}

    def check(self) -> None:
        boxes, scores, limit, iou, least, selected, count = self.operands.values()
        fits = len(scores.shape) == 3 and boxes == Buffer((scores.shape[0], scores.shape[2], 4), _F32)
        self.require(
            fits and scores.dtype == _F32,
            f"expected boxes [batch, box, 4] and scores [batch, class, box] in float32, found {boxes} and {scores}",
        )
        self.require(limit == NUMBER and count == NUMBER, f"expected {NUMBER} for the limit and the count")
        number = Buffer((), _F32)
        self.require(iou == number and least == number, f"expected {number} for the thresholds")
        bound = scores.shape[0] * scores.shape[1] * min(self.integer("most"), scores.shape[2])
        expected = Buffer((bound, 3), np.dtype(np.int64))
        self.require(selected == expected, f"expected {expected} for the selected boxes, found {selected}")

    def scratch(self) -> Sequence[Buffer]:
        """Corners, areas, scores; intersections, sides, unions, overlaps; which boxes are left, go, and may go."""
        count = self.operands["scores"].shape[2]
        numbers, flags = Buffer((count,), _F32), Buffer((count,), _BOOL)
        return (Buffer((4, count), _F32), *([numbers] * 6), flags, flags, flags)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        boxes, scores, limit, iou, least = reads
        (selected, count), (corners, areas, left_scores, side, *_) = writes, scratch
        alive = scratch[-3]
        most, found = min(int(limit), self.integer("most")), 0
        selected.fill(0)
        for batch, of_classes in enumerate(scores):
            _find_corners(boxes[batch], corners, areas, side, center=self.flag("center"))
            for number, of_boxes in enumerate(of_classes):
                if self.flag("all_scores"):
                    np.equal(of_boxes, of_boxes, out=alive)
                else:
                    np.greater(of_boxes, least, out=alive)
                left_scores.fill(-np.inf)
                np.copyto(left_scores, of_boxes, where=alive)
                for _ in range(most):
                    box = _best(left_scores, alive)
                    if box is None:
                        break
                    selected[found] = batch, number, box
                    found += 1
                    _suppress(box, iou, scratch)
        count[...] = found


def _find_corners(boxes: Array, corners: Array, areas: Array, side: Array, *, center: bool) -> None:
    """The two lower, then the two upper coordinates of each box, one row each, and the areas."""
    low, high = corners[:2], corners[2:]
    first, second = boxes[:, :2].T, boxes[:, 2:].T
    if center:
        np.multiply(second, _HALF, out=high)
        np.subtract(first, high, out=low)
        np.add(first, high, out=high)
    else:
        np.minimum(first, second, out=low)
        np.maximum(first, second, out=high)
    np.subtract(high[0], low[0], out=areas)
    np.multiply(areas, np.subtract(high[1], low[1], out=side), out=areas)


def _best(scores: Array, alive: Array) -> int | None:
    """The first of the boxes with the highest score that is left; None if none is."""
    if not alive.size:
        return None
    best = int(scores.argmax())
    if not alive[best]:  # those that are left have the score -inf, as all others have here
        best = int(alive.argmax())
    return best if alive[best] else None


def _suppress(box: int, iou: Array, scratch: Sequence[Array]) -> None:
    """Take away a box, and those whose intersection over union with it is above the threshold."""
    corners, areas, scores, inside, side, union, overlap, alive, gone, test = scratch
    inside.fill(1)
    np.greater(areas, 0, out=gone)
    for axis in (0, 1):
        np.minimum(corners[2 + axis], corners[2 + axis, box], out=side)
        np.maximum(corners[axis], corners[axis, box], out=overlap)
        np.subtract(side, overlap, out=side)
        np.multiply(inside, side, out=inside)
        np.logical_and(gone, np.greater(side, 0, out=test), out=gone)
    np.add(areas, areas[box], out=union)
    np.subtract(union, inside, out=union)
    np.logical_and(gone, np.greater(union, 0, out=test), out=gone)
    np.divide(inside, union, out=overlap)
    np.logical_and(gone, np.greater(overlap, iou, out=test), out=gone)
    if not areas[box] > 0:
        gone.fill(False)
    gone[box] = True
    np.copyto(scores, -np.inf, where=gone)
    np.copyto(alive, False, where=gone)
