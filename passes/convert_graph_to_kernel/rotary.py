"""Rotary embedding: one map for the first numbers of all pairs, one for the second."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars


@converts(graph.RotaryEmbeddingOp)
def _rotary_embedding(op: graph.RotaryEmbeddingOp, conversion: Conversion) -> None:
    element = element_of(op.input)
    launch = conversion.launch(op)
    *outer, size = shape_of(op.input)
    space = Space.over((*outer, size // 2))
    *rows, pair = space.names
    interleaved = op.interleaved is not None
    halves = (
        [space.access(*rows, space[pair] * 2 + i) for i in range(2)]
        if interleaved
        else [space.access(*rows, space[pair] + i * (size // 2)) for i in range(2)]
    )
    x = launch.use(op.input, "input")
    first, second = (Operand(x, half) for half in halves)
    cos, sin = (
        Operand(launch.use(table, name), space.broadcast(shape_of(table)))
        for table, name in ((op.cos, "cos"), (op.sin, "sin"))
    )

    def difference(s: Scalars, a: SSAValue, c: SSAValue, b: SSAValue, n: SSAValue, _: SSAValue) -> SSAValue:
        a, c, b, n = map(s.widen, (a, c, b, n))
        return s.truncate(s.sub(s.mul(a, c), s.mul(b, n)), element)

    def total(s: Scalars, a: SSAValue, c: SSAValue, b: SSAValue, n: SSAValue, _: SSAValue) -> SSAValue:
        a, c, b, n = map(s.widen, (a, c, b, n))
        return s.truncate(s.add(s.mul(a, c), s.mul(b, n)), element)

    half = launch.map(space, [first, cos, second, sin], Operand(launch.out, halves[0]), difference)
    whole = launch.map(space, [second, cos, first, sin], Operand(half, halves[1]), total)
    conversion.finish(op, launch, whole)
