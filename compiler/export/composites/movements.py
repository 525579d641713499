"""Movements that importers take apart: blocks of pixels and channels, repetitions, and padding from inside."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, i32, i64
from xdsl.ir import Attribute, Operation

from mlopt.dialects import graph
from mlopt.export.builder import Builder, element_of, shape_of
from mlopt.export.composites.registry import Composite, composite

Mode: TypeAlias = Literal["edge", "reflect", "wrap"]
MODES: tuple[Mode, ...] = ("edge", "reflect", "wrap")


@composite(graph.ReshapeOp)
def blocks(builder: Builder, op: Operation) -> Composite | None:
    """SpaceToDepth and DepthToSpace, of the floats that onnxruntime has them for."""
    assert isinstance(op, graph.ReshapeOp)
    move = op.input.owner
    split = move.input.owner if isinstance(move, graph.TransposeOp) else None
    if not isinstance(move, graph.TransposeOp) or not isinstance(split, graph.ReshapeOp):
        return None
    source, target = shape_of(split.input), shape_of(op.result)
    if len(source) != 4 or len(target) != 4 or 0 in source or not _is_plain_float(element_of(op.result)):
        return None
    moved = _runs(shape_of(split.result), move.permutation)
    for onnx_op, mode, shape, order in _blocked(source, target):
        if moved == _runs(shape, order):
            size = target[2] // source[2] if mode else source[2] // target[2]
            attributes = {"blocksize": size, "mode": mode} if mode else {"blocksize": size}
            return Composite(onnx_op, [op, move, split], [split.input], attributes)
    return None


def _blocked(
    source: Sequence[int], target: Sequence[int]
) -> list[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    """The ways of moving blocks from one shape to the other: operator, mode, what shape is transposed, the order."""
    batch, channels, height, width = source
    size = height // target[2]
    if size > 1 and tuple(target) == (batch, channels * size * size, height // size, width // size):
        split = (batch, channels, target[2], size, target[3], size)
        return [("SpaceToDepth", "", split, (0, 3, 5, 1, 2, 4))]
    size = target[2] // height
    if size > 1 and tuple(source) == (batch, target[1] * size * size, height, target[3] // size):
        return [
            ("DepthToSpace", "DCR", (batch, size, size, target[1], height, width), (0, 3, 4, 1, 5, 2)),
            ("DepthToSpace", "CRD", (batch, target[1], size, size, height, width), (0, 1, 4, 2, 5, 3)),
        ]
    return []


def _runs(shape: Sequence[int], order: Sequence[int]) -> list[tuple[int, int]]:
    """A transpose as which elements it moves: where each run of dimensions that stay together begins, and its size.

    Two transposes of the same elements that have the same runs move them to the same places.
    """
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    runs: list[tuple[int, int]] = []
    for axis in order:
        if shape[axis] == 1:
            continue
        if runs and runs[-1][0] == strides[axis] * shape[axis]:
            runs[-1] = (strides[axis], runs[-1][1] * shape[axis])
        else:
            runs.append((strides[axis], shape[axis]))
    return runs


@composite(graph.ReshapeOp)
def tile(builder: Builder, op: Operation) -> Composite | None:
    """Dimensions of size 1 before those of the operand, repeated, and joined with them."""
    assert isinstance(op, graph.ReshapeOp)
    repeat = op.input.owner
    split = repeat.input.owner if isinstance(repeat, graph.ExpandOp) else None
    if not isinstance(repeat, graph.ExpandOp) or not isinstance(split, graph.ReshapeOp):
        return None
    source, target = shape_of(split.input), shape_of(op.result)
    if (
        len(source) != len(target)
        or 0 in (*source, *target)
        or any(after % before for before, after in zip(source, target, strict=True))
    ):
        return None
    repeats = [after // before for before, after in zip(source, target, strict=True)]
    parts = [
        part for times, size in zip(repeats, source, strict=True) for part in ((times, True), (size, False))
    ]
    expanded = shape_of(repeat.result)
    before = (*[1] * (len(expanded) - len(shape_of(split.result))), *shape_of(split.result))
    if _joined(parts) != _joined([(after, size == 1) for size, after in zip(before, expanded, strict=True)]):
        return None
    return Composite("Tile", [op, repeat, split], [split.input, builder.ints(repeats)])


def _joined(parts: Sequence[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """Sizes and whether they are repetitions; neighbours of one kind are one, those of size 1 are none."""
    joined: list[tuple[int, bool]] = []
    for size, repeated in parts:
        if size == 1:
            continue
        if joined and joined[-1][1] == repeated:
            joined[-1] = (joined[-1][0] * size, repeated)
        else:
            joined.append((size, repeated))
    return joined


@composite(graph.GatherOp)
def pad(builder: Builder, op: Operation) -> Composite | None:
    """Gathers along two axes or more, at positions that continue those of the operand: Pad from inside."""
    gathers: list[graph.GatherOp] = []
    last = op
    while isinstance(last, graph.GatherOp) and (not gathers or last.result.has_one_use()):
        gathers.append(last)
        last = last.input.owner
    axes = [gather.axis.value.data for gather in gathers]
    if len(gathers) < 2 or len(set(axes)) < len(axes) or not _is_padded(element_of(gathers[0].result)):
        return None
    source = gathers[-1].input
    shape = shape_of(source)
    for mode in MODES:
        low, high = [0] * len(shape), [0] * len(shape)
        for gather, axis in zip(gathers, axes, strict=True):
            positions = builder.constant(gather.indices)
            widths = None if positions is None else _widths(positions, shape[axis], mode)
            if widths is None:
                break
            low[axis], high[axis] = widths
        else:
            return Composite("Pad", gathers, [source, builder.ints((*low, *high))], {"mode": mode})
    return None


def _widths(positions: np.ndarray, size: int, mode: Mode) -> tuple[int, int] | None:
    """How many elements before and after `size` ones are read at these positions; None if another mode reads them."""
    if positions.ndim != 1 or positions.size < size or size == 0:
        return None
    for low in range(positions.size - size + 1):
        high = positions.size - size - low
        if mode == "reflect" and max(low, high) >= size:
            continue  # onnxruntime reflects once
        if np.array_equal(np.pad(np.arange(size), (low, high), mode), positions):
            return low, high
    return None


def _is_plain_float(element: Attribute) -> bool:
    return isinstance(element, Float16Type | Float32Type | Float64Type)


def _is_padded(element: Attribute) -> bool:
    """Whether onnxruntime pads these elements."""
    return _is_plain_float(element) or element in (i32, i64)
