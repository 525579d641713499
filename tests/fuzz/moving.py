"""Operands moved by what a correct execution may be off: does that decide a result, and how far does it move one?"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import onnx

from mlopt.compare import is_floating
from tests.fuzz.bounds import names
from tests.fuzz.program import Array, Value

MARGIN = 4.0
"""By how many units in the last place, or times its error, an operand is moved."""

SHIFT_INVARIANT = names("Softmax LogSoftmax")
"""Functions of the distances from the largest number along the axis: rounding is relative to these, so that a row of
equal numbers, however large, is a row of equal numbers behind any rounding."""

F64_EPS = float(np.finfo(np.float64).eps)


def moved_feeds(
    node: onnx.NodeProto, inputs: Sequence[Value], run: int, *, exact: bool, decides: bool
) -> list[dict[str, Array]]:
    """The operands moved up and down, element by element, and to multiples of what they may be off.

    - At random, all alike, and every other one, and each the other way round: what moves alike may add up, or cancel.
    - If the operator `decides`, that is, compares elements or rounds what it makes of two, as well so that any two
      elements are moved both up, both down, and each up while the other is moved down: those that are equal are told
      apart, and those that are nearly equal change their order.
    - If it is `exact`, also to multiples. Of two sets of multiples one lies half-way between the other: numbers that
      may be equal are, in one of them at least.

    Operators that round in between move also operands that are exact; but no exponent, of which parity counts.
    """
    if exact and all(value.error == 0 for value in inputs):
        return []
    up = {value.name: value.arrays[run] for value in inputs}
    deltas = {value.name: _delta(node, value, run, exact) for value in inputs if _is_moved(value, run)}
    sizes = [delta.size for delta in deltas.values()]
    generator = np.random.default_rng(len(inputs))
    at_random = np.concatenate([generator.choice([-1.0, 1.0], size) for size in (0, *sizes)])
    rows = [at_random, *directions(sum(sizes))[: None if decides else 2]]
    moved: list[dict[str, Array]] = []
    for signs in (signs for row in rows for signs in (row, -row)):
        parts = np.split(signs, np.cumsum(sizes)[:-1])
        feeds = dict(up)
        for (name, delta), part in zip(deltas.items(), parts, strict=False):
            wide = up[name].astype(np.float64)
            with np.errstate(all="ignore"):
                feeds[name] = np.asarray(wide + delta * part.reshape(wide.shape)).astype(up[name].dtype)
        moved.append(feeds)
    return [*moved, *_multiples(inputs, run)] if exact else moved


def directions(count: int) -> list[Array]:
    """1 or -1 for each of `count` elements: with their opposites, any two of them in all four combinations.

    All alike, and one for each binary digit of their numbers: two numbers differ in a digit.
    """
    digits = range(max(count - 1, 0).bit_length())
    return [np.ones(count), *(1.0 - 2.0 * (np.arange(count) >> digit & 1) for digit in digits)]


def _is_moved(value: Value, run: int) -> bool:
    return not value.structural and is_floating(value.arrays[run]) and value.arrays[run].size > 0


def _delta(node: onnx.NodeProto, value: Value, run: int, exact: bool) -> Array:
    """By how much each element is moved; not at all if it is not finite."""
    array = value.arrays[run]
    wide = array.astype(np.float64)
    fixed = exact or (node.op_type == "Pow" and value.name == node.input[1])
    relative = 0.0 if fixed else MARGIN * min(float(ml_dtypes.finfo(array.dtype).eps), 1e-3)
    with np.errstate(all="ignore"):
        sizes = np.abs(_distances(node, wide) if node.op_type in SHIFT_INVARIANT else wide)
        return np.where(np.isfinite(wide), sizes * relative + MARGIN * value.error, 0.0)


def _multiples(inputs: Sequence[Value], run: int) -> list[dict[str, Array]]:
    moved: list[dict[str, Array]] = []
    for offset in (0.0, 0.5):
        feeds = {value.name: value.arrays[run] for value in inputs}
        for value in (value for value in inputs if value.error and _is_moved(value, run)):
            array = value.arrays[run]
            wide = array.astype(np.float64)
            grid = 2 * MARGIN * value.error
            small = np.isfinite(wide) & (np.abs(wide) < grid / F64_EPS)  # all larger ones are multiples
            nearest = (np.rint(np.where(small, wide, 0.0) / grid + offset) - offset) * grid
            feeds[value.name] = np.where(small, nearest, wide).astype(array.dtype)
        moved.append(feeds)
    return moved


def _distances(node: onnx.NodeProto, wide: Array) -> Array:
    """How far the numbers are from the largest along the axis, 0 where that is not finite."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), -1)
    if not wide.size or not wide.ndim:
        return np.zeros_like(wide)
    distances = wide.max(axis, keepdims=True) - wide
    return np.where(np.isfinite(distances), distances, 0.0)
