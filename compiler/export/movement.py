"""Operations that only move elements."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.export.builder import Builder, element_of
from mlopt.export.registry import exports
from mlopt.interpreter.graph.movement import number
from mlopt.ir.dtypes import to_numpy_dtype

_BEFORE_FIRST = np.iinfo(np.int64).min
"""An end that leads down to the first element: -1 means the last one in ONNX."""


@exports(graph.ReshapeOp)
def reshape(builder: Builder, op: graph.ReshapeOp) -> None:
    shape = shape_of(op.result)
    builder.node(op, "Reshape", [op.input, builder.ints(shape)], {"allowzero": 1} if 0 in shape else {})


@exports(graph.TransposeOp)
def transpose(builder: Builder, op: graph.TransposeOp) -> None:
    if rank_of(op.input) == 0:
        builder.node(op, "Identity")
    else:
        builder.node(op, "Transpose", attributes={"perm": op.permutation})


@exports(graph.ConcatOp, graph.AllGatherOp)
def concat(builder: Builder, op: graph.ConcatOp | graph.AllGatherOp) -> None:
    builder.node(op, "Concat", attributes={"axis": op.axis.value.data})


@exports(graph.SplitOp)
def split(builder: Builder, op: graph.SplitOp) -> None:
    axis = op.axis.value.data
    sizes = builder.ints([shape_of(part)[axis] for part in op.parts])
    builder.node(op, "Split", [op.input, sizes], {"axis": axis})


@exports(graph.SliceOp)
def slice_(builder: Builder, op: graph.SliceOp) -> None:
    """Only the axes that lose or turn something."""
    whole = [(0, size, 1) for size in shape_of(op.input)]
    cut = [axis for axis, numbers in enumerate(op.ranges) if numbers != whole[axis]]
    if not cut:
        builder.node(op, "Identity")
        return
    starts = [op.ranges[axis][0] for axis in cut]
    stops = [op.ranges[axis][1] for axis in cut]
    steps = [op.ranges[axis][2] for axis in cut]
    lists = (
        [start if start >= 0 else _BEFORE_FIRST for start in starts],
        [stop if stop >= 0 else _BEFORE_FIRST for stop in stops],
        cut,
        steps,
    )
    builder.node(op, "Slice", [op.input, *map(builder.ints, lists)])


@exports(graph.ExpandOp)
def expand(builder: Builder, op: graph.ExpandOp) -> None:
    builder.node(op, "Expand", [op.input, builder.ints(shape_of(op.result))])


@exports(graph.PadOp)
def pad(builder: Builder, op: graph.PadOp) -> None:
    if rank_of(op.input) == 0:
        builder.node(op, "Identity")
        return
    low, high = zip(*op.widths, strict=True)
    element = element_of(op.input)
    value = builder.numbers(np.asarray(number(op.value, to_numpy_dtype(element))), element)
    builder.node(op, "Pad", [op.input, builder.ints((*low, *high)), value])
