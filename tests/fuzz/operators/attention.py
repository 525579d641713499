"""Scaled dot-product attention in the forms that exporters and people write, and near misses.

Scales on query, key and scores; masks of every shape, added or chosen by, constant or not; heads in rows, repeated, or
merged with the batch; softmaxes along the wrong axis; parts that are used again or are outputs.
"""

from __future__ import annotations

import numpy as np

from tests.fuzz.builder import F16, F32, F64, Builder
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value


def _number(b: Builder, number: float, dtype: np.dtype, rank: int = 0) -> Value:
    return b.new([np.full((1,) * rank, number, dtype)] * b.program.runs, constant=True)


def _numbers(b: Builder, values: list[int]) -> Value:
    return b.numbers(values, bound=False)


def _scaled(b: Builder, x: Value, number: float) -> Value:
    """`x` times a number, or divided by its inverse; rarely times a number for each column."""
    if b.rarely():
        return b.node("Mul", x, b.parameter(x.dtype, x.shape[-1:]))[0]
    rank = b.choice((0, 0, 1, x.rank))
    match b.integer(0, 2):
        case 0:
            return b.node("Mul", x, _number(b, number, x.dtype, rank))[0]
        case 1:
            return b.node("Mul", _number(b, number, x.dtype, rank), x)[0]
        case _:
            return b.node("Div", x, _number(b, 1 / number, x.dtype, rank))[0]


def _by_heads(b: Builder, x: Value, heads: int, order: list[int]) -> Value:
    """`[n, l, h * d]` split into heads, in an order of `[n, l, h, d]`."""
    n, rows, width = x.shape
    (split,) = b.node("Reshape", x, _numbers(b, [n, rows, heads, width // heads]))
    return b.node("Transpose", split, perm=order)[0]


def _repeated(b: Builder, x: Value, times: int) -> Value:
    """Each head of `[n, h, l, d]` several times, by Expand; rarely in turn, which is another thing."""
    n, heads, *matrix = x.shape
    if b.rarely():
        return b.node("Concat", *[x] * times, axis=1)[0]
    (split,) = b.node("Unsqueeze", x, _numbers(b, [2])) if b.opset >= 13 else b.node("Unsqueeze", x, axes=[2])
    (expanded,) = b.node("Expand", split, _numbers(b, [n, heads, times, *matrix]))
    return b.node("Reshape", expanded, _numbers(b, [n, heads * times, *matrix]))[0]


def _operands(b: Builder, dtype: np.dtype) -> tuple[Value, Value, Value]:
    """Query, transposed key and value of any rank from 2 to 5."""
    n, heads, s, t = b.integer(1, 2), b.choice((1, 2, 2, 4)), b.integer(1, 4), b.integer(1, 5)
    d, width = b.choice((1, 2, 4)), b.integer(1, 4)
    if b.rarely():
        s, t = b.choice(((0, t), (s, 0), (s, t)))

    def new(*shape: int) -> Value:
        """Numbers of size 1: of larger ones the softmax is decided by rounding."""
        if b.rarely():
            return b.tensor((dtype,), shape=shape)
        arrays = [b.seed().standard_normal(shape).astype(dtype) for _ in range(b.program.runs)]
        if b.rarely() and arrays[0].size:
            arrays[0].reshape(-1)[0] = b.choice((np.inf, -np.inf, np.nan))
        return b.new(arrays)

    match b.choice(
        ("rows", "rows", "grouped", "grouped", "heads", "rank 2", "rank 3", "rank 5", "broadcast")
    ):
        case "rows" if s and t:
            q, k, v = new(n, s, heads * d), new(n, t, heads * d), new(n, t, heads * width)
            values = _by_heads(b, v, heads, [0, 2, 1, 3])
            return _by_heads(b, q, heads, [0, 2, 1, 3]), _by_heads(b, k, heads, [0, 2, 3, 1]), values
        case "grouped" if s and t:
            times = b.choice((2, 2, 3))
            q, k, v = new(n, heads * times, s, d), new(n, heads, t, d), new(n, heads, t, width)
            keys = _repeated(b, k, times)
            values = (
                b.tensor((dtype,), shape=(n, heads * times, t, width))
                if b.rarely()
                else _repeated(b, v, times)
            )
            return q, b.node("Transpose", keys, perm=[0, 1, 3, 2])[0], values
        case "rank 2":
            batch: tuple[int, ...] = ()
        case "rank 3":
            batch = (n * heads,)
        case "rank 5":
            batch = (n, 2, heads)
        case "broadcast":
            batches = [
                [b.choice((size, size, 1)) for size in (n, heads)][b.integer(0, 1) :] for _ in range(3)
            ]
            return new(*batches[0], s, d), new(*batches[1], d, t), new(*batches[2], t, width)
        case _:
            batch = (n, heads)
    q, k, v = new(*batch, s, d), new(*batch, t, d), new(*batch, t, width)
    if b.flag():
        return q, new(*batch, d, t), v
    rank = len(batch) + 2
    return q, b.node("Transpose", k, perm=[*range(rank - 2), rank - 1, rank - 2])[0], v


def _lowest(scores: Value) -> float:
    """Nearly the lowest number of the type: whether the scores below it are finite is not to be decided by rounding."""
    return float(np.finfo(scores.dtype).min) * 0.9


def _mask(b: Builder, scores: Value) -> Value:
    """What is added: nothing, holes, triangles and numbers, in a shape that broadcasts to the scores."""
    *batch, s, t = scores.shape
    rows, columns = b.choice(((s, t), (s, t), (1, t), (s, 1)))
    outer = [b.choice((size, 1)) for size in batch][b.integer(0, len(batch)) :]
    shape = (*outer, rows, columns)
    low = b.choice((-np.inf, _lowest(scores), -100.0))
    arrays: list[np.ndarray] = []
    for _ in range(b.program.runs):
        match b.choice(("zeros", "holes", "causal", "later", "numbers")):
            case "zeros":
                shown = np.ones(shape, np.bool_)
            case "holes":
                shown = b.seed().random(shape) < 0.7
            case "causal":
                shown = np.broadcast_to(np.tri(rows, columns, dtype=np.bool_), shape)
            case "later":
                shown = np.broadcast_to(np.tri(rows, columns, columns - rows, dtype=np.bool_), shape)
            case _:
                arrays.append(b.seed().standard_normal(shape).astype(scores.dtype))
                continue
        arrays.append(np.where(shown, 0, low).astype(scores.dtype))
    return b.new(arrays, constant=b.flag())


def _masked(b: Builder, scores: Value) -> Value:
    """The scores behind one mask or two, of which one may be chosen by, or for a batch that is split."""
    for _ in range(b.choice((0, 1, 1, 2))):
        *batch, s, t = scores.shape
        match b.choice(("add", "add", "where", "window")):
            case "where":
                shown = b.new([b.seed().random((s, t)) < 0.7 for _ in range(b.program.runs)])
                fill = _number(b, b.choice((-np.inf, -1e4, _lowest(scores))), scores.dtype)
                (scores,) = b.node("Where", shown, *b.rng.sample([scores, fill], 2))
            case "window" if batch and s and t:
                windows = b.choice([size for size in (1, 2) if batch[0] % size == 0])
                split = [batch[0] // windows, windows, *batch[1:], s, t]
                (scores,) = b.node("Reshape", scores, _numbers(b, split))
                mask = b.parameter(scores.dtype, (windows, *[1] * (len(batch) - 1), s, t))
                (scores,) = b.node("Add", scores, mask)
                (scores,) = b.node("Reshape", scores, _numbers(b, [*batch, s, t]))
            case _:
                (scores,) = b.node("Add", *b.rng.sample([scores, _mask(b, scores)], 2))
    return scores


@operator("attention")
def attention(b: Builder, name: str) -> object:
    dtype = b.choice((F32, F32, F32, F32, F32, F64, F16))
    q, k, v = _operands(b, dtype)
    root = b.choice((0.5, 0.25, 0.35355338))
    match b.choice(("none", "query", "key", "both", "scores", "scores")):
        case "query":
            q = _scaled(b, q, root)
        case "key":
            k = _scaled(b, k, root)
        case "both":
            q, k = _scaled(b, q, root), _scaled(b, k, root)
        case "scores":
            root = -root if b.rarely() else root
            scores = _scaled(b, b.node("MatMul", q, k)[0], root)
            return _weighted(b, _masked(b, scores), v)
        case _:
            pass
    (scores,) = b.node("MatMul", q, k)
    scores = _masked(b, scores)
    return _weighted(b, _scaled(b, scores, root) if b.rarely() else scores, v)


def _weighted(b: Builder, scores: Value, v: Value) -> object:
    (weights,) = b.node("Softmax", scores, axis=b.axis(scores.rank) if b.rarely() else -1)
    if b.flag():
        (bad,) = b.node("IsNaN", weights)
        number = _number(b, b.choice((0.0, 0.0, 0.0, -0.0, 1.0)), weights.dtype)
        (weights,) = b.node("Where", bad, number, weights)
    (y,) = b.node("MatMul", weights, v)
    if y.rank == 4 and b.flag():
        n, heads, rows, width = y.shape
        (y,) = b.node("Transpose", y, perm=[0, 2, 1, 3])
        return b.node("Reshape", y, _numbers(b, [n, rows, heads * width]))
    return y
