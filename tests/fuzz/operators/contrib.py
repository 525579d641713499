"""Operators of com.microsoft that onnxruntime's optimisers make."""

from __future__ import annotations

import numpy as np

from tests.fuzz.builder import F32, I32, Builder
from tests.fuzz.operators.table import operator
from tests.fuzz.program import MICROSOFT, Value


def _node(b: Builder, name: str, *operands: Value | None, **options: object) -> object:
    return b.node(name, *operands, domain=MICROSOFT, **options)  # pyright: ignore[reportArgumentType]


@operator("Gelu QuickGelu FastGelu BiasGelu", domain=MICROSOFT)
def activations(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (1, 4), special=False, least=1)
    if name == "QuickGelu":
        return _node(b, name, x, alpha=b.choice((None, 1.0, -0.5)))
    bias = b.parameter(F32, x.shape[-1:]) if name == "BiasGelu" or (name == "FastGelu" and b.flag()) else None
    return _node(b, name, x, bias)


@operator("FusedMatMul TransposeMatMul", domain=MICROSOFT)
def products(b: Builder, name: str) -> object:
    flags = b.choice((0, 1)), b.choice((0, 1))
    x = b.tensor((F32,), (2, 4), special=False, least=1)
    inner = x.shape[-2] if flags[0] else x.shape[-1]
    columns = b.size(least=1)
    batch = x.shape[:-2]
    y = b.parameter(F32, (*batch, columns, inner) if flags[1] else (*batch, inner, columns))
    return _node(b, name, x, y, transA=flags[0], transB=flags[1], alpha=b.choice((None, 0.25)))


@operator("FusedConv", domain=MICROSOFT)
def fused_convolution(b: Builder, name: str) -> object:
    c, out = b.integer(1, 3), b.integer(1, 3)
    x = b.tensor((F32,), shape=(1, c, b.integer(2, 6), b.integer(2, 6)), special=False)
    bias = b.parameter(F32, (out,)) if b.flag() else None
    activation, parameters = b.choice(
        (("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.25]), ("Clip", [-0.5, 1.0]))
    )
    pads = [b.integer(0, 1) for _ in range(4)]
    weight = b.parameter(F32, (out, c, 2, 2))
    return _node(b, name, x, weight, bias, activation=activation, activation_params=parameters, pads=pads)


@operator("SkipLayerNormalization SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_norm(b: Builder, name: str) -> object:
    x = b.tensor((F32,), 3, special=False, least=1)
    skip = b.tensor((F32,), shape=b.choice((x.shape, x.shape, (1, *x.shape[1:]), x.shape[1:])), special=False)
    parameters: list[Value | None] = [b.parameter(F32, x.shape[-1:])]
    for _ in range(2 if name == "SkipLayerNormalization" else 1):
        parameters.append(b.parameter(F32, x.shape[-1:]) if b.flag() else None)
    outputs = b.choice(([True], [True, False, False, True]))
    return _node(b, name, x, skip, *parameters, epsilon=b.choice((None, 1e-3)), outputs=outputs)


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embedding(b: Builder, name: str) -> object:
    n, s, h = b.integer(1, 2), b.integer(1, 4), b.integer(1, 6)
    ids = b.new([b.seed().integers(0, 7, (n, s)).astype(I32) for _ in range(2)], structural=True)
    segmented = b.flag()
    kinds = b.new([b.seed().integers(0, 2, (n, s)).astype(I32) for _ in range(2)], structural=True)
    tables = [
        b.parameter(F32, (7, h)),
        b.parameter(F32, (5, h)),
        b.parameter(F32, (2, h)) if segmented else None,
    ]
    mask = (
        b.new([b.seed().integers(0, 2, (n, s)).astype(I32) for _ in range(2)], structural=True)
        if b.flag()
        else None
    )
    parameters = [b.parameter(F32, (h,)) for _ in range(2)]
    return _node(b, name, ids, kinds if segmented else None, *tables, *parameters, mask, outputs=2)


def _mask(b: Builder, shape: tuple[int, ...]) -> Value:
    """Which keys are seen, the first one always: where none is, -10000 is added to all scores, and rounding decides."""
    masks = [b.seed().integers(0, 2, shape).astype(I32) for _ in range(2)]
    for mask in masks:
        mask[..., 0] = 1
    return b.new(masks, structural=True)


@operator("Attention", domain=MICROSOFT)
def attention(b: Builder, name: str) -> object:
    n, s, heads, d, width = (
        b.integer(1, 2),
        b.integer(1, 4),
        b.integer(1, 3),
        b.choice((2, 4)),
        b.integer(2, 6),
    )
    x = b.tensor((F32,), shape=(n, s, width), special=False)
    weight = b.parameter(F32, (width, 3 * heads * d))
    bias = b.parameter(F32, (3 * heads * d,)) if b.flag() else None
    mask = None
    if b.flag():
        mask = _mask(b, b.choice(((n, s), (n, s, s))))
    return _node(
        b, name, x, weight, bias, mask, num_heads=heads, unidirectional=b.choice((None, 0, 1)),
        scale=b.choice((None, 0.25)), outputs=b.integer(1, 2),
    )  # fmt: skip


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(b: Builder, name: str) -> object:
    n, s, heads, d = b.integer(1, 2), b.integer(1, 4), b.integer(1, 3), b.choice((2, 4))
    t = b.choice((s, b.integer(1, 5)))
    shapes = (n, s, heads * d), (n, t, heads * d), (n, t, heads * d)
    q, k, v = (b.tensor((F32,), shape=shape, special=False) for shape in shapes)
    bias = b.parameter(F32, (3 * heads * d,)) if b.flag() else None
    mask = None
    if b.flag():
        mask = _mask(b, b.choice(((n, t), (n, s, t))))
    scores = b.parameter(F32, (b.choice((1, n)), heads, s, t)) if b.flag() else None
    return _node(b, name, q, k, v, bias, mask, scores, num_heads=heads, unidirectional=b.choice((None, 0, 1)))


@operator("GroupQueryAttention", domain=MICROSOFT)
def grouped_attention(b: Builder, name: str) -> object:
    n, s, kv, d = b.integer(1, 2), b.integer(1, 4), b.integer(1, 2), b.choice((8, 16))
    heads, past = kv * b.integer(1, 2), b.integer(0, 3)
    q, k, v = (b.tensor((F32,), shape=(n, s, h * d), special=False) for h in (heads, kv, kv))
    caches = [b.parameter(F32, (n, kv, past, d)) for _ in range(2)]
    lengths = b.numbers(np.full(n, s + past - 1), I32)
    total = b.numbers(s + past, I32)
    return _node(
        b, name, q, k, v, *caches, lengths, total, num_heads=heads, kv_num_heads=kv, outputs=3,
        local_window_size=b.choice((None, 2)),
    )  # fmt: skip


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary(b: Builder, name: str) -> object:
    n, heads, s, d = b.integer(1, 2), b.integer(1, 3), b.integer(1, 4), b.choice((4, 8))
    x = b.tensor((F32,), shape=(n, heads, s, d), special=False)
    ids = b.new([b.seed().integers(0, 3, (n, s)) for _ in range(2)], structural=True)
    caches = [b.parameter(F32, (8, d // 2)) for _ in range(2)]
    return _node(b, name, x, ids, *caches, interleaved=b.choice((None, 0, 1)))
