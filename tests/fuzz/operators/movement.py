"""Operators that move elements: reshapes, transposes, slices, gathers, scatters."""

from __future__ import annotations

import math

import numpy as np
from onnx import numpy_helper

from tests.fuzz.builder import (
    ANY,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I32,
    I64,
    NUMBERS,
    U8,
    Builder,
    Unfit,
)
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value


@operator("Reshape")
def reshape(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (0, 4))
    count = math.prod(x.shape)
    options: list[tuple[int, ...]] = [(count,), (1, count), (*x.shape, 1), x.shape, x.shape[::-1]]
    if x.rank > 1:
        options.append((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    options += [(size, count // size) for size in (2, 3) if count and count % size == 0]
    target = list(b.choice(options))
    if count and target and b.flag():
        target[b.integer(0, len(target) - 1)] = -1
    elif count and b.flag():
        target = [0 if i < x.rank and size == x.shape[i] else size for i, size in enumerate(target)]
    allowzero = 1 if 0 in target and not count and b.opset >= 14 else None
    return b.node(name, x, b.numbers(target), allowzero=allowzero)


@operator("Flatten")
def flatten(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4), dynamic=True)
    return b.node(name, x, axis=b.choice((None, *range(-x.rank, x.rank + 1))))


@operator("Squeeze")
def squeeze(b: Builder, name: str) -> object:
    fitting = [v for v in b.values if 1 in v.shape and v.rank <= 5 and v.dtype in ANY and not v.dynamic]
    sizes = [*b.shape(b.integer(0, 4)), 1]
    b.rng.shuffle(sizes)
    x = b.choice(fitting) if fitting and b.flag() else b.tensor(ANY, shape=sizes)
    ones = [i for i, size in enumerate(x.shape) if size == 1]
    axes = [i - x.rank if b.flag() else i for i in b.some(ones, least=1)]
    if b.opset < 13:
        return b.node(name, x, axes=axes)
    return b.node(name, x, b.numbers(axes) if b.flag() else None)


@operator("Unsqueeze")
def unsqueeze(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (0, 3), dynamic=True)
    count = b.integer(1, 2)
    axes = [i - x.rank - count if b.flag() else i for i in b.draw_axes(x.rank + count, count)]
    if b.opset < 13:
        return b.node(name, x, axes=axes)
    return b.node(name, x, b.numbers(axes))


@operator("Transpose")
def transpose(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (0, 5), dynamic=True)
    return b.node(name, x, perm=None if b.rarely() else b.permutation(x.rank))


@operator("Concat")
def concat(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4), dynamic=True)
    axis = b.axis(x.rank)
    others: list[Value] = []
    for _ in range(b.integer(0, 3)):
        if b.flag() or x.dynamic:
            others.append(x)
            continue
        shape = list(x.shape)
        shape[axis] = b.size()
        others.append(b.tensor([x.dtype], shape=shape))
    operands = [*others, x] if b.flag() else [x, *others]
    return b.node(name, *operands, axis=axis)


@operator("Slice")
def slice_(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4))
    axes = b.some(range(x.rank), least=1)
    bounds = (*range(-8, 9), 2**31, -(2**31), 2**63 - 1, -(2**63))
    starts, ends = ([b.choice(bounds) for _ in axes] for _ in range(2))
    steps = [b.choice((1, 1, 2, 3, -1, -2)) for _ in axes]
    # onnxruntime takes the largest number for "all that is left" also backwards, where the standard has nothing left.
    ends = [-(2**63) if step < 0 and end == 2**63 - 1 else end for end, step in zip(ends, steps, strict=True)]
    named = [axis - x.rank if b.flag() else axis for axis in axes]
    if b.flag():  # whole ends, so that something is left
        ends = [2**31 if step > 0 else -(2**31) for step in steps]
        starts = [b.choice((0, 1, -2)) if step > 0 else b.choice((-1, 2, -2)) for step in steps]
    operands = [b.numbers(values) for values in (starts, ends, named, steps)]
    return b.node(name, x, *operands)


@operator("Split")
def split(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4))
    axis = b.axis(x.rank)
    size = x.shape[axis]
    if b.flag():
        cuts = sorted(b.integer(0, size) for _ in range(b.integer(0, 2)))
        sizes = np.diff([0, *cuts, size]).tolist()
        if b.opset < 13:
            return b.node(name, x, axis=axis, split=sizes, outputs=len(sizes))
        return b.node(name, x, b.numbers(sizes), axis=axis, outputs=len(sizes))
    if b.opset >= 18:
        parts = b.integer(1, 3)
        return b.node(name, x, axis=axis, num_outputs=parts, outputs=parts)
    parts = next((n for n in (3, 2) if size % n == 0), 1)
    return b.node(name, x, axis=axis, outputs=parts)


@operator("Expand")
def expand(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (0, 4))
    target = [b.choice((1, size, size)) if size != 1 else b.choice((1, 3, 2, 0)) for size in x.shape]
    target = target[b.integer(0, len(target)) :] if b.rarely() else target
    if b.flag() and len(target) == x.rank:
        target = [b.choice((1, 2)), *target]
    return b.node(name, x, b.numbers(target))


@operator("Tile")
def tile(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (0, 4))
    return b.node(name, x, b.numbers([b.choice((1, 1, 2, 3, 0)) for _ in range(x.rank)]))


@operator("Pad")
def pad(b: Builder, name: str) -> object:
    x = b.tensor((*NUMBERS, BOOL) if b.opset >= 13 else FLOATS, (1, 4))
    mode = b.choice((None, None, "constant", "reflect", "edge", "wrap"))
    if mode == "wrap" and b.opset < 19:
        mode = "edge"
    axes = list(range(x.rank))
    with_axes = b.opset >= 18 and b.flag()
    if with_axes:
        axes = b.some(axes, least=1)
    widths: list[int] = []
    for _ in range(2):
        for axis in axes:
            most = {"reflect": x.shape[axis] - 1, "wrap": x.shape[axis]}.get(mode or "constant", 3)
            widths.append(b.integer(0, min(max(most, 0), 3)))
    if mode in (None, "constant") and b.flag():
        widths = [
            -1 if width == 1 and x.shape[axes[i % len(axes)]] > 2 else width for i, width in enumerate(widths)
        ]
    value = None
    if mode in (None, "constant") and b.flag():
        value = b.new([np.array(b.choice((0, 1, 2)), x.dtype)] * b.program.runs)
    operands = [b.numbers(widths), value]
    if with_axes:
        operands.append(b.numbers([axis - x.rank if b.flag() else axis for axis in axes]))
    return b.node(name, x, *operands, mode=mode)


@operator("DepthToSpace SpaceToDepth")
def depth_to_space(b: Builder, name: str) -> object:
    block = b.integer(1, 3)
    n, c, h, w = b.integer(1, 2), b.integer(1, 3), b.integer(1, 3), b.integer(1, 3)
    if name == "DepthToSpace":
        x = b.tensor((F32, F32, F64, U8), shape=(n, c * block * block, h, w))
        return b.node(name, x, blocksize=block, mode=b.choice((None, "DCR", "CRD")))
    return b.node(name, b.tensor((F32, F32, F64), shape=(n, c, h * block, w * block)), blocksize=block)


@operator("Gather")
def gather(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4))
    axis = b.axis(x.rank)
    return b.node(name, x, b.indices(x.shape[axis], b.shape(b.integer(0, 2))), axis=axis)


@operator("GatherElements")
def gather_elements(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4))
    axis = b.axis(x.rank)
    shape = [b.integer(0, size) if b.rarely() else size for size in x.shape]
    shape[axis] = b.size()
    return b.node(name, x, b.indices(x.shape[axis], shape), axis=axis)


def _nd_indices(b: Builder, x: Value, batch: int, count: int, *, unique: bool = False) -> Value:
    """Index tuples of the axes from `batch` on; with `unique`, none twice."""
    length = b.integer(1, x.rank - batch)
    sizes = x.shape[batch : batch + length]
    total = math.prod(sizes)
    if not total:
        raise Unfit("nothing to index")
    arrays = []
    for _ in range(b.program.runs):
        shape = (*x.shape[:batch], count)
        flat = b.seed().permutation(total)[:count] if unique else b.seed().integers(0, total, shape)
        arrays.append(np.stack(np.unravel_index(flat, sizes), axis=-1).astype(np.int64))
    if any(array.shape != arrays[0].shape for array in arrays):
        raise Unfit("fewer places than indices")
    if b.flag():
        arrays = [np.where(b.seed().integers(0, 2, a.shape) > 0, a - np.array(sizes), a) for a in arrays]
    return b.new(arrays, structural=True)


@operator("GatherND")
def gather_nd(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (1, 4), least=int(not b.rarely()))
    batch = b.integer(0, 1) if x.rank > 1 and b.opset >= 12 else 0
    return b.node(name, x, _nd_indices(b, x, batch, b.size()), batch_dims=batch or None)


def _reduction(b: Builder, x: Value) -> str | None:
    options: tuple[str | None, ...] = (None, "none") if b.opset >= 16 else (None,)
    if b.opset >= 16 and x.dtype != BOOL:
        options = (*options, "add", "mul")
    if b.opset >= 18 and x.dtype != BOOL:
        options = (*options, "max", "min")
    return b.choice(options)


@operator("ScatterElements")
def scatter_elements(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, F16, I64, I32, U8, I8, BOOL), (1, 3))
    axis = b.axis(x.rank)
    reduction = _reduction(b, x)
    kept = reduction in (None, "none")
    if not kept and not x.finite:
        raise Unfit("onnxruntime drops NaN")
    shape = [b.integer(0, size) if b.rarely() else size for size in x.shape]
    bound = x.shape[axis]
    shape[axis] = b.integer(0, bound) if kept else b.size()
    if bound == 0:
        raise Unfit("nothing to write to")
    arrays = []
    for _ in range(b.program.runs):
        if kept:  # which of two writes to one place is last is not said
            keys = b.seed().random([*shape[: axis % x.rank], bound, *shape[axis % x.rank + 1 :]])
            order = np.argsort(keys, axis=axis)
            array = np.take(order, range(shape[axis]), axis=axis)
        else:
            array = b.seed().integers(-bound, bound, shape)
        arrays.append(np.asarray(array).astype(np.int64))
    indices = b.new(arrays, structural=True)
    updates = b.tensor([x.dtype], shape=shape, special=kept)
    return b.node(name, x, indices, updates, axis=axis, reduction=reduction)


@operator("ScatterND")
def scatter_nd(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, F16, I64, I32, U8, I8, BOOL), (1, 3), least=1)
    reduction = _reduction(b, x)
    kept = reduction in (None, "none")
    if not kept and not x.finite:
        raise Unfit("onnxruntime drops NaN")
    indices = _nd_indices(b, x, 0, b.size(least=1), unique=kept)
    shape = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    return b.node(name, x, indices, b.tensor([x.dtype], shape=shape, special=kept), reduction=reduction)


@operator("TensorScatter", since=24)
def tensor_scatter(b: Builder, name: str) -> object:
    batch, length, width = b.integer(1, 3), b.size(least=1), b.size(least=1)
    count = b.integer(1, length)
    cache = b.tensor((F32, F64, F16, I64), shape=(batch, length, width))
    mode = b.choice((None, "linear", "circular"))
    most = length - count if mode != "circular" else length - 1
    arrays = [b.seed().integers(0, most + 1, batch).astype(np.int64) for _ in range(b.program.runs)]
    where = b.new(arrays, structural=True) if b.flag() else None
    return b.node(name, cache, b.tensor([cache.dtype], shape=(batch, count, width)), where, mode=mode, axis=1)


@operator("ReverseSequence")
def reverse_sequence(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (2, 4), least=1)
    batch, time = b.choice(((0, 1), (1, 0)))
    arrays = [b.seed().integers(1, x.shape[time] + 1, x.shape[batch]) for _ in range(b.program.runs)]
    return b.node(name, x, b.new(arrays, structural=True), batch_axis=batch, time_axis=time)


@operator("OneHot")
def one_hot(b: Builder, name: str) -> object:
    depth = b.integer(1, 5)
    indices = b.tensor((I64, I32), (0, 3))
    values = b.tensor((F32, I64, I32), shape=(2,), special=False)
    return b.node(
        name,
        indices,
        b.numbers(depth),
        values,
        axis=b.choice((None, *range(-indices.rank - 1, indices.rank + 1))),
    )


@operator("Shape")
def shape(b: Builder, name: str) -> object:
    x = b.tensor(ANY, (0, 4), dynamic=True)
    ends = {} if b.opset < 15 else {key: b.choice((None, -1, 1, -5, 5)) for key in ("start", "end")}
    return b.node(name, x, **ends)


@operator("Size")
def size(b: Builder, name: str) -> object:
    return b.node(name, b.tensor(ANY, (0, 4), dynamic=True))


@operator("ConstantOfShape")
def constant_of_shape(b: Builder, name: str) -> object:
    value = b.choice((None, np.array([7], np.int64), np.array([0.5], np.float32), np.array([True])))
    return b.node(
        name,
        b.numbers(list(b.shape(b.integer(0, 3)))),
        value=None if value is None else numpy_helper.from_array(value),
    )


@operator("Constant")
def constant(b: Builder, name: str) -> object:
    array = b.fill(b.choice(ANY), b.shape(b.integer(0, 3)))
    return b.node(name, value=numpy_helper.from_array(array))


@operator("Range")
def range_(b: Builder, name: str) -> object:
    dtype = b.choice((I64, I32, F32, F64))
    start, count, step = b.integer(-4, 4), b.integer(0, 6), b.choice((1, 2, -1, -3))
    if dtype.kind == "f":
        numbers = (start / 2, start / 2 + count * step / 4, step / 4)
    else:
        numbers = (start, start + count * step, step)
    return b.node(name, *(b.numbers(number, dtype) for number in numbers))


@operator("CenterCropPad", since=18)
def center_crop_pad(b: Builder, name: str) -> object:
    x = b.tensor((F32, F64, I64), (1, 4), least=1)
    axes = b.some(range(x.rank), least=1)
    return b.node(name, x, b.numbers([b.integer(1, 6) for _ in axes]), axes=axes)
