"""Ops without data operands: constants, made where they are used; ranges; shapes, which are known."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f64, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, shape_of
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Operand, Space, position
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, integer_type, signless


@converts(graph.ConstantOp)
def _constant(op: graph.ConstantOp, conversion: Conversion) -> None:
    """Nothing yet: `Conversion.value` makes the constant when an op asks for it."""


@converts(graph.ShapeOp)
def _shape(op: graph.ShapeOp, conversion: Conversion) -> None:
    dimensions = np.array(op.dimensions(), np.int64)
    conversion.replace(op, conversion.constant(op, dimensions, op.result.name_hint or "shape"))


@converts(graph.RangeOp)
def _range(op: graph.RangeOp, conversion: Conversion) -> None:
    launch = conversion.launch(op)
    space = Space.over(shape_of(op.result))
    element = signless(element_of(op.result))
    start, delta = op.start, op.delta
    assert isinstance(start, IntegerAttr | FloatAttr) and isinstance(delta, IntegerAttr | FloatAttr)

    def body(s: Scalars, _: SSAValue) -> SSAValue:
        # In 64 bits, rounded or wrapped to the element type once.
        i = s.index_cast(position(s, space, "d0"), i64)
        if is_float(element):
            i = s.emit(arith.SIToFPOp(i, f64))
        x = s.add(s.like(start.value.data, i), s.mul(i, s.like(delta.value.data, i)))
        if is_float(element):
            return s.truncate(x, element)
        return x if element == i64 else s.emit(arith.TruncIOp(x, integer_type(element)))

    result = launch.map(space, [], Operand(launch.out, space.identity()), body)
    conversion.finish(op, launch, result)
