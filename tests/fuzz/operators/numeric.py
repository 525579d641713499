"""Products, reductions, normalizations and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.builder import BOOL, F16, F32, F64, FLOATS, I8, I32, I64, U8, Builder, Unfit
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value

WIDE = (F32, F32, F32, F64)


def _require_small(*values: Value) -> None:
    """Sums of integers that overflow: onnxruntime saturates here and wraps there."""
    for value in values:
        if value.dtype.kind in "iu" and any(
            np.abs(a.astype(float)).max(initial=0) > 100 for a in value.arrays
        ):
            raise Unfit("large integers")


def _require_small_product(value: Value) -> None:
    """The same for products."""
    if value.dtype.kind in "iu" and any(
        np.log2(np.maximum(1, np.abs(a.astype(float)))).sum() > 8 * value.dtype.itemsize - 2
        for a in value.arrays
    ):
        raise Unfit("a large product")


@operator("MatMul")
def matmul(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F32, F64, F16, I32, I64), (1, 4), special=False)
    inner, columns = x.shape[-1], b.choice(((), (1,), (3,), (8,)))
    batch = tuple(b.choice((1, size)) for size in x.shape[:-2]) if columns and b.flag() else ()
    y = b.parameter(x.dtype, (*batch, inner, *columns))
    _require_small(x, y)
    return b.node(name, x, y)


@operator("Gemm")
def gemm(b: Builder, name: str) -> object:
    flags = b.choice((None, 0, 1)), b.choice((None, 0, 1))
    x = b.tensor(WIDE, 2, special=False)
    rows, inner = x.shape[::-1] if flags[0] else x.shape
    columns = b.size()
    y = b.parameter(x.dtype, (columns, inner) if flags[1] else (inner, columns))
    shape = b.choice(((), (1,), (columns,), (1, columns), (rows, 1), (rows, columns)))
    c = b.parameter(x.dtype, shape) if b.flag() else None
    numbers = (None, 1.0, 0.5, -2.0, 0.0)
    alpha, beta = b.choice(numbers), b.choice(numbers)
    return b.node(name, x, y, c, transA=flags[0], transB=flags[1], alpha=alpha, beta=beta)


EQUATIONS = (
    "ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "bij,bkj", "i,j->ij", "i,i->", "ij->ji", "ij->", "ij->i", "ij->j",
    "ii->i", "ii->", "bii->b", "bhid,bhjd->bhij", "abc,cd,de->abe", "ij,ij->ij", "ij,i->j", "...ij,...jk->...ik",
    "a...,a...->...", "abc,acd->dba", "ij,jk,k->i", "aij,ijk->ka",
)  # fmt: skip


@operator("Einsum")
def einsum(b: Builder, name: str) -> object:
    equation = b.choice(EQUATIONS)
    sizes = {letter: b.choice((1, 2, 3, 4, 5)) for letter in "abcdehijk"}
    dots = tuple(b.choice((1, 2, 3)) for _ in range(b.integer(0, 2)))
    dtype = b.choice((F32, F32, F64, I64, I32))
    operands = []
    for term in equation.split("->")[0].split(","):
        shape = [sizes[letter] for letter in term.replace(".", "")]
        if "..." in term:
            at = term.index("...")
            shape[at:at] = dots
        operands.append(b.tensor([dtype], shape=shape, special=False))
    _require_small(*operands)
    return b.node(name, *operands, equation=equation)


@operator("Det")
def determinant(b: Builder, name: str) -> object:
    n = b.integer(1, 5)
    return b.node(name, b.tensor((F32, F64), shape=(*b.shape(b.integer(0, 2), least=1), n, n), special=False))


REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare"


@operator(" ".join(f"Reduce{kind}" for kind in REDUCTIONS.split()))
def reduce(b: Builder, name: str) -> object:
    kind = name.removeprefix("Reduce")
    dtypes: tuple[np.dtype, ...] = WIDE if kind.startswith("Log") else (F32, F32, F32, F64, F16, I32, I64)
    if kind in ("Max", "Min"):
        dtypes = (*dtypes, I8, U8, *((BOOL,) if b.opset >= 20 else ()))
    special = kind == "Sum"
    least = 0 if kind in ("Sum", "Prod", "L1", "L2", "SumSquare") else 1
    x = b.tensor(dtypes, (0, 4), dynamic=True, special=special, least=least)
    _require_small(x)
    if kind == "Prod":
        _require_small_product(x)
    axes = [axis - x.rank if b.flag() else axis for axis in b.some(range(x.rank), least=min(1, x.rank))]
    keep = b.choice((None, 0, 1))
    if b.opset >= (13 if kind == "Sum" else 18):
        noop = b.choice((None, 0, 1))
        operand = b.numbers(axes) if axes and b.integer(0, 3) else None
        return b.node(name, x, operand, keepdims=keep, noop_with_empty_axes=noop)
    return b.node(name, x, axes=axes if axes and b.integer(0, 3) else None, keepdims=keep)


@operator("ArgMax ArgMin")
def positions(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, I32, I8, U8), (1, 4), least=1, dynamic=True, special=False)
    return b.node(
        name,
        x,
        axis=b.axis(x.rank),
        keepdims=b.choice((None, 0, 1)),
        select_last_index=b.choice((None, 0, 1)),
    )


@operator("Softmax LogSoftmax")
def softmax(b: Builder, name: str) -> object:
    x = b.tensor(FLOATS, (1, 4), dynamic=True, special=b.rarely())
    return b.node(name, x, axis=None if b.rarely() else b.axis(x.rank))


@operator("Hardmax")
def hardmax(b: Builder, name: str) -> object:
    x = b.tensor((F32, F64), (1, 4), least=1, special=False)
    return b.node(name, x, axis=None if b.rarely() else b.axis(x.rank))


@operator("BatchNormalization")
def batch_norm(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64), (2, 5), least=1, special=False)
    parameters = [b.parameter(x.dtype, (x.shape[1],), positive=i == 3) for i in range(4)]
    return b.node(name, x, *parameters, epsilon=b.choice((None, 1e-3)))


@operator("InstanceNormalization")
def instance_norm(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (3, 5), least=1, special=False)
    parameters = [b.parameter(x.dtype, (x.shape[1],)) for _ in range(2)]
    return b.node(name, x, *parameters, epsilon=b.choice((None, 1e-3)))


@operator("GroupNormalization", since=21)
def group_norm(b: Builder, name: str) -> object:
    groups = b.integer(1, 3)
    shape = (b.integer(1, 2), groups * b.integer(1, 2), *b.shape(b.integer(1, 2), least=1))
    x = b.tensor((F32,), shape=shape, special=False)
    return b.node(name, x, *(b.parameter(F32, (shape[1],)) for _ in range(2)), num_groups=groups)


@operator("LayerNormalization", since=17)
def layer_norm(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, F16), (1, 4), least=1, special=False)
    axis = b.axis(x.rank)
    shape = x.shape[axis:]
    bias = b.parameter(x.dtype, shape) if b.flag() else None
    return b.node(name, x, b.parameter(x.dtype, shape), bias, axis=axis, epsilon=b.choice((None, 1e-3)))


@operator("RMSNormalization", since=23)
def rms_norm(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64), (1, 4), least=1, special=False)
    axis = b.axis(x.rank)
    return b.node(name, x, b.parameter(x.dtype, x.shape[axis:]), axis=axis, epsilon=b.choice((None, 1e-3)))


@operator("LpNormalization")
def lp_norm(b: Builder, name: str) -> object:
    x = b.tensor((F32, F64), (1, 4), least=1, special=False)
    return b.node(name, x, p=b.choice((None, 1, 2)), axis=b.axis(x.rank))


@operator("LRN")
def lrn(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (4, 4), least=1, special=False)
    return b.node(
        name, x, size=b.choice((1, 3, 5)), alpha=b.choice((None, 0.5)), beta=b.choice((None, 0.5)),
        bias=b.choice((None, 2.0)),
    )  # fmt: skip


@operator("MeanVarianceNormalization")
def mean_variance(b: Builder, name: str) -> object:
    x = b.tensor((F32,), 4, least=2, special=False)  # of one number nothing is left
    return b.node(name, x, axes=b.choice((None, [0, 2, 3], [1, 2], [2, 3])))


@operator("CumSum")
def cumulative_sum(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, I32, I64), (1, 4), dynamic=True, special=False)
    _require_small(x)
    axis = b.numbers(b.axis(x.rank), bound=False)
    return b.node(name, x, axis, exclusive=b.choice((None, 0, 1)), reverse=b.choice((None, 0, 1)))


@operator("CumProd", since=26)
def cumulative_product(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, I32, I64), (1, 4), special=False)
    _require_small_product(x)
    axis = b.numbers(b.axis(x.rank), bound=False)
    return b.node(name, x, axis, exclusive=b.choice((None, 0, 1)), reverse=b.choice((None, 0, 1)))


@operator("TopK")
def top_k(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, I32, I64), (1, 4))
    axis = b.axis(x.rank)
    k = b.integer(0, x.shape[axis])
    flags: dict[str, Any] = {"largest": b.choice((None, 0, 1)), "sorted": b.choice((None, 1))}
    return b.node(name, x, b.numbers([k]), axis=axis, outputs=2, **flags)


@operator("DFT", since=17)
def fourier(b: Builder, name: str) -> object:
    length = b.choice((1, 2, 3, 4, 5, 8, 12))
    shape = [b.integer(1, 3), length, b.integer(1, 3)]
    inverse = b.choice((None, 0, 1))
    parts = b.choice((1, 2))
    onesided = 1 if parts == 1 and not inverse and b.flag() else None
    x = b.tensor((F32, F32, F64), shape=(*shape, parts), special=False)
    count = b.numbers(b.integer(1, 9), bound=False) if b.rarely() else None
    if b.opset < 20:
        return b.node(name, x, count, axis=b.choice((1, 2, -2)), inverse=inverse, onesided=onesided)
    axis = b.numbers(b.choice((1, 2, -2)), bound=False)
    return b.node(name, x, count, axis, inverse=inverse, onesided=onesided)


@operator("STFT", since=17)
def short_time_fourier(b: Builder, name: str) -> object:
    length, step = b.choice((2, 3, 4, 8)), b.integer(1, 4)
    signal = b.tensor((F32,), shape=(b.integer(1, 2), length + b.integer(0, 12), 1), special=False)
    window = b.parameter(F32, (length,)) if b.flag() else None
    size = b.numbers(length, bound=False) if window is None or b.flag() else None
    return b.node(name, signal, b.numbers(step, bound=False), window, size, onesided=b.choice((None, 0, 1)))


@operator("HannWindow HammingWindow BlackmanWindow", since=17)
def windows(b: Builder, name: str) -> object:
    return b.node(name, b.numbers(b.integer(1, 9), bound=False), periodic=b.choice((None, 0, 1)))


@operator("Attention", since=23)
def attention(b: Builder, name: str) -> object:
    n, heads, s, t, d = (
        b.integer(1, 2),
        b.choice((2, 4)),
        b.integer(1, 4),
        b.integer(1, 5),
        b.choice((2, 4, 8)),
    )
    kv = b.choice((heads, heads, 2, 1))
    if b.flag():
        shapes: list[tuple[int, ...]] = [(n, heads, s, d), (n, kv, t, d), (n, kv, t, b.choice((d, 3)))]
        extra = {}
    else:
        shapes = [(n, s, heads * d), (n, t, kv * d), (n, t, kv * d)]
        extra = {"q_num_heads": heads, "kv_num_heads": kv}
    q, k, v = (b.tensor((F32,), shape=shape, special=False) for shape in shapes)
    mask = None
    if b.flag():
        shape = b.choice(((s, t), (1, 1, s, t), (n, heads, s, t)))
        mask = b.parameter(F32, shape) if b.flag() else b.new([b.fill(BOOL, shape) for _ in range(2)])
    return b.node(
        name, q, k, v, mask, is_causal=b.choice((None, 0, 1)), scale=b.choice((None, 0.25)),
        softcap=b.choice((None, None, 2.0)), **extra,
    )  # fmt: skip


@operator("RotaryEmbedding", since=23)
def rotary(b: Builder, name: str) -> object:
    n, heads, s, d = b.integer(1, 2), b.integer(1, 3), b.integer(1, 4), b.choice((4, 8))
    x = b.tensor((F32,), shape=(n, heads, s, d), special=False)
    caches = [b.parameter(F32, (6, d // 2)) for _ in range(2)]
    ids = b.new([b.seed().integers(0, 6, (n, s)) for _ in range(2)], structural=True)
    return b.node(name, x, *caches, ids, interleaved=b.choice((None, 0, 1)))


@operator("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def losses(b: Builder, name: str) -> object:
    n, classes = b.integer(1, 3), b.integer(2, 4)
    rest = b.choice(((), (3,), (2, 3)))
    x = b.tensor((F32,), shape=(n, classes, *rest), special=False)
    labels = b.new([b.seed().integers(0, classes, (n, *rest)) for _ in range(2)], structural=True)
    weight = b.parameter(F32, (classes,), positive=True) if b.flag() else None
    return b.node(
        name,
        x,
        labels,
        weight,
        reduction=b.choice((None, "none", "sum", "mean")),
        ignore_index=b.choice((None, 1)),
    )


@operator("AffineGrid", since=20)
def affine_grid(b: Builder, name: str) -> object:
    n = b.integer(1, 2)
    theta = b.parameter(F32, (n, 2, 3))
    corners = b.choice((None, 0, 1))
    least = 2 if corners else 1  # where the only position of an axis is then, the oracles don't agree
    size = b.numbers([n, 2, b.integer(least, 4), b.integer(least, 4)], bound=False)
    return b.node(name, theta, size, align_corners=corners)
