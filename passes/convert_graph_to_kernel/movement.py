"""Ops that only move elements: maps that yield their input, with the movement in the index maps; reshape is a view."""

from __future__ import annotations

from itertools import accumulate

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from mlopt.dialects import graph, kernel
from mlopt.dialects.graph.base import GraphOp, shape_of, tensor_type
from mlopt.ir.names import copy_name
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts
from mlopt.passes.convert_graph_to_kernel.launch import Index, Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import number_attr, signless


@converts(graph.ReshapeOp)
def _reshape(op: graph.ReshapeOp, conversion: Conversion) -> None:
    source = conversion.value(op.input)
    if shape_of(op.input) == shape_of(op.result):
        conversion.replace(op, source)
        return
    reshape = kernel.ReshapeOp(source, shape_of(op.result))
    conversion.insert(op, reshape)
    copy_name(op.result, reshape.result)
    conversion.replace(op, reshape.result)


def convert_movement(
    op: GraphOp, conversion: Conversion, space: Space, axes: list[Index], pad: Attribute = kernel.NO_PAD
) -> None:
    """Each element of the result is that of the first operand at `axes`, which are over the result's dimensions."""
    launch = conversion.launch(op)
    source = Operand(launch.use(op.operands[0], "input"), space.access(*axes), pad)
    result = launch.move(space, source, Operand(launch.out, space.identity()))
    conversion.finish(op, launch, result)


@converts(graph.TransposeOp)
def _transpose(op: graph.TransposeOp, conversion: Conversion) -> None:
    space = Space.over(shape_of(op.result))
    axes: list[Index] = [0] * len(op.permutation)
    for name, axis in zip(space.names, op.permutation, strict=True):
        axes[axis] = name
    convert_movement(op, conversion, space, axes)


@converts(graph.SliceOp)
def _slice(op: graph.SliceOp, conversion: Conversion) -> None:
    space = Space.over(shape_of(op.result))
    ranges = zip(space.names, op.ranges, strict=True)
    convert_movement(op, conversion, space, [space[name] * step + start for name, (start, _, step) in ranges])


@converts(graph.ExpandOp)
def _expand(op: graph.ExpandOp, conversion: Conversion) -> None:
    space = Space.over(shape_of(op.result))
    convert_movement(op, conversion, space, [*space.broadcast(shape_of(op.input)).rows])


@converts(graph.PadOp)
def _pad(op: graph.PadOp, conversion: Conversion) -> None:
    space = Space.over(shape_of(op.result))
    axes: list[Index] = [space[name] + -low for name, (low, _) in zip(space.names, op.widths, strict=True)]
    crops_only = all(low <= 0 and high <= 0 for low, high in op.widths)
    value = op.value
    assert isinstance(value, IntegerAttr | FloatAttr)
    pad = number_attr(value.value.data, signless(tensor_type(op.input.type).element_type))
    convert_movement(op, conversion, space, axes, kernel.NO_PAD if crops_only else pad)


@converts(graph.ConcatOp, graph.AllGatherOp)
def _concat(op: graph.ConcatOp | graph.AllGatherOp, conversion: Conversion) -> None:
    launch = conversion.launch(op)
    whole, axis = launch.out, op.axis.value.data
    sizes = [shape_of(value)[axis] for value in op.inputs]
    for i, (value, offset) in enumerate(zip(op.inputs, accumulate(sizes, initial=0), strict=False)):
        space = Space.over(shape_of(value))
        axes = [space[name] + (offset if d == axis else 0) for d, name in enumerate(space.names)]
        source = Operand(launch.use(value, f"part{i}"), space.identity())
        whole = launch.move(space, source, Operand(whole, space.access(*axes)))
    conversion.finish(op, launch, whole)


@converts(graph.SplitOp)
def _split(op: graph.SplitOp, conversion: Conversion) -> None:
    """One launch per part, so that a part can be fused into what reads it."""
    axis, offset = op.axis.value.data, 0
    parts: list[SSAValue] = []
    for part in op.parts:
        space = Space.over(shape_of(part))
        axes = [space[name] + (offset if d == axis else 0) for d, name in enumerate(space.names)]
        launch = conversion.launch(op, [tensor_type(part.type)])
        source = Operand(launch.use(op.input, "input"), space.access(*axes))
        moved = launch.move(space, source, Operand(launch.out, space.identity()))
        parts.extend(conversion.insert_launch(op, launch, [part], moved))
        offset += shape_of(part)[axis]
    conversion.replace(op, *parts)
