"""Operators whose output size depends on data. What comes after them takes these values as others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.fuzz.builder import ANY, BOOL, F32, F64, I32, I64, Builder, Unfit
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Array, Value


def _mask(b: Builder, shape: Sequence[int]) -> Value:
    """A mask at run time: mostly true in one run, mostly false in another, now and then all or none."""
    shares = b.choice(((0.3, 0.7), (0.0, 1.0), (0.5, 0.5), (1.0, 0.2)))
    arrays: list[Array] = [np.asarray(b.seed().random(shape) < share) for share in shares]
    value = b.new(arrays, constant=b.rarely())
    if value.kind == "constant":
        value.structural = True
    return value


@operator("NonZero")
def nonzero(b: Builder, name: str) -> object:
    if b.flag():
        return b.node(name, _mask(b, b.shape(b.integer(1, 3), least=1)))
    return b.node(name, b.tensor((BOOL, F32, I64, I32), (1, 3)))


@operator("Compress")
def compress(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 3), least=1)
    axis = None if b.rarely() else b.axis(x.rank)
    size = x.arrays[0].size if axis is None else x.shape[axis]
    return b.node(name, x, _mask(b, (max(1, size - b.integer(0, 1)),)), axis=axis)


@operator("Unique")
def unique(b: Builder, name: str) -> object:
    x = b.tensor((F32, F64, I64), (1, 3), least=1, special=False)
    if b.flag():
        x = b.new([np.asarray(b.seed().integers(0, 4, x.shape)).astype(x.dtype) for _ in range(2)])
    axis = None if b.flag() else b.axis(x.rank)
    asked = [True, *(b.flag() for _ in range(3))]
    return b.node(name, x, axis=axis, sorted=b.choice((None, 0, 1)), outputs=asked)


@operator("NonMaxSuppression")
def suppression(b: Builder, name: str) -> object:
    n, count, classes = b.integer(1, 2), b.integer(1, 6), b.integer(1, 2)
    boxes, scores = [], []
    for _ in range(b.program.runs):
        corner = b.seed().integers(0, 5, (n, count, 2))
        boxes.append(
            np.concatenate([corner, corner + b.seed().integers(1, 5, (n, count, 2))], axis=2).astype(F32)
        )
        order = [b.seed().permutation(count) for _ in range(n * classes)]
        scores.append((np.reshape(order, (n, classes, count)) / 8).astype(F32))
    operands: list[Value | None] = [b.new(boxes), b.new(scores)]
    operands.append(b.numbers([b.integer(1, 4)], bound=False) if b.integer(0, 5) else None)
    operands.append(b.numbers([b.choice((0.1, 0.3, 0.55))], F32, bound=False) if b.flag() else None)
    operands.append(b.numbers([b.choice((0.2, 0.55))], F32, bound=False) if b.flag() else None)
    return b.node(name, *operands, center_point_box=b.choice((None, 0, 1)))


@operator("select")
def selected(b: Builder, name: str) -> object:
    """Rows at the places where a mask is true, and what is done with them: NonZero, Squeeze, Gather and more."""
    x = b.tensor((F32, F32, F64, I64), (1, 3), least=1)
    axis = b.integer(0, x.rank - 1)
    (found,) = b.node("NonZero", _mask(b, (x.shape[axis],)))
    axes = b.numbers([0], bound=False)
    if b.opset < 13:
        raise Unfit("axes as an attribute")
    (places,) = b.node("Squeeze", found, axes)
    (rows,) = b.node("Gather", x, places, axis=axis)
    kind = b.choice(
        ("none", "concat", "scatter", "reshape", "matmul", "slice", "expand", "pad", "cumsum", "topk")
    )
    match kind:
        case "concat":
            other = b.tensor([x.dtype], shape=x.shape)
            return b.node("Concat", *((rows, other) if b.flag() else (other, rows)), axis=axis)
        case "scatter" if x.rank == 1:
            return b.node("ScatterElements", b.tensor([x.dtype], shape=x.shape), places, rows)
        case "reshape":
            return b.node("Reshape", rows, b.numbers([-1], bound=False))
        case "matmul" if x.rank == 2 and axis == 0 and x.dtype in (F32, F64):
            return b.node("MatMul", rows, b.parameter(x.dtype, (x.shape[1], b.integer(1, 3))))
        case "slice":
            bounds = [[b.choice((0, 1, -2))], [b.choice((2, -1, 2**31))], [axis], [b.choice((1, 2))]]
            return b.node("Slice", rows, *(b.numbers(bound, bound=False) for bound in bounds))
        case "expand":
            (extents,) = b.node("Shape", rows)
            return b.node("Expand", b.tensor([x.dtype], shape=()), extents)
        case "pad":
            widths = [0] * (2 * x.rank)
            widths[b.integer(0, 2 * x.rank - 1)] = 2
            return b.node("Pad", rows, b.numbers(widths, bound=False))
        case "cumsum":
            return b.node("CumSum", rows, b.numbers(axis, bound=False), reverse=b.choice((0, 1)))
        case "topk":
            (size,) = b.node("Shape", rows, start=axis, end=axis + 1)
            return b.node("TopK", rows, size, axis=axis, outputs=2)
        case _:
            return b.node("Shape", rows)
