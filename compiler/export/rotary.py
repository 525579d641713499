"""Rotary embedding: ONNX's operator where it takes the operands, else its formula."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f32, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.export.builder import Attributes, Builder, Value, cast_attributes, element_of
from mlopt.export.registry import exports

_SHAPE: Attributes = {"allowzero": 1}
"""Of a Reshape whose shape says the size of every dimension."""

_LAST: Attributes = {"axis": -1}


@exports(graph.RotaryEmbeddingOp)
def rotary_embedding(builder: Builder, op: graph.RotaryEmbeddingOp) -> None:
    """ONNX's operator rounds f16 and bf16 after each step, does not take f64, and wants rank 4."""
    tables = _tables(builder, op) if isinstance(element_of(op.input), Float32Type) else None
    if tables is None:
        _by_definition(builder, op)
        return
    builder.node(op, "RotaryEmbedding", [op.input, *tables], {"interleaved": int(op.interleaved is not None)})


def _tables(builder: Builder, op: graph.RotaryEmbeddingOp) -> list[SSAValue | Value] | None:
    """The operands after the first: tables `[b, s, h]`, or `[p, h]` and positions in them; None if they are neither."""
    if len(shape_of(op.input)) != 4:
        return None
    batch, _, length, size = shape_of(op.input)
    shapes = {shape_of(table) for table in (op.cos, op.sin)}
    if len(shapes) > 1:
        return None
    (shape,) = shapes
    if shape == (length, size // 2):
        positions = np.broadcast_to(np.arange(length), (batch, length))
        return [op.cos, op.sin, builder.numbers(positions.astype(np.int64), i64)]
    if shape != (batch, 1, length, size // 2):
        return None
    return [_without_heads(builder, table, (batch, length, size // 2)) for table in (op.cos, op.sin)]


def _without_heads(builder: Builder, table: SSAValue, shape: Sequence[int]) -> SSAValue | Value:
    reshape = table.owner
    if isinstance(reshape, graph.ReshapeOp) and shape_of(reshape.input) == tuple(shape):
        return reshape.input
    return builder.part("Reshape", [table, builder.ints(shape)], attributes=_SHAPE)


def _by_definition(builder: Builder, op: graph.RotaryEmbeddingOp) -> None:
    """`(a * cos - b * sin, b * cos + a * sin)`, rounded once."""
    shape, element = shape_of(op.input), element_of(op.input)
    half, interleaved = shape[-1] // 2, op.interleaved is not None
    wide = f32 if isinstance(element, Float16Type | BFloat16Type) else element
    x, cos, sin = (builder.cast(operand, wide) for operand in op.operands)
    if interleaved:
        numbers = [[builder.ints([n]) for n in (start, shape[-1], -1, 2)] for start in range(2)]
        first, second = (builder.part("Slice", [x, *row]) for row in numbers)
    else:
        first, second = builder.parts("Split", [x, builder.ints([half, half])], [wide, wide], _LAST)
    a = builder.part("Sub", [builder.part("Mul", [first, cos]), builder.part("Mul", [second, sin])])
    b = builder.part("Add", [builder.part("Mul", [second, cos]), builder.part("Mul", [first, sin])])
    if interleaved:
        apart = builder.ints((*shape[:-1], half, 1))
        pair = [builder.part("Reshape", [value, apart], attributes=_SHAPE) for value in (a, b)]
        last, operands, attributes = "Reshape", [_joined(builder, pair), builder.ints(shape)], _SHAPE
    else:
        last, operands, attributes = "Concat", [a, b], _LAST
    if wide != element:
        operands = [builder.part(last, operands, attributes=attributes)]
        last, attributes = "Cast", cast_attributes(element)
    builder.node(op, last, operands, attributes)


def _joined(builder: Builder, values: Sequence[Value]) -> Value:
    return builder.part("Concat", values, attributes=_LAST)
