"""Gathers: maps that load the operand at computed indices (`tensor.extract`); negative indices count from the end."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.ir.loops import position_of, positions
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Index, Operand, Space, position
from mlopt.passes.convert_graph_to_kernel.movement import convert_movement
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, signless


def _convert_gather(
    op: graph.GatherOp | graph.GatherElementsOp | graph.GatherNdOp,
    conversion: Conversion,
    space: Space,
    reads: Sequence[Sequence[Index]],
    axes: Sequence[int | str],
) -> None:
    """Each result element is the operand's at `axes`: the dimension of that name, or the index read number `i`.

    `reads` are the accesses of `indices`. Where these are constants, none of them negative, they are positions as they
    stand.
    """
    launch = conversion.launch(op)
    source, indices = launch.use(op.input, "input"), launch.use(op.indices, "indices")
    sizes = shape_of(op.input)
    known = conversion.array(op.indices)
    are_positions = known is not None and not (known < 0).any()

    def index(s: Scalars, value: SSAValue, size: int) -> SSAValue:
        return s.index_cast(value, IndexType()) if are_positions else s.wrapped_index(value, size)

    def body(s: Scalars, *values: SSAValue) -> SSAValue:
        at = [
            position(s, space, axis) if isinstance(axis, str) else index(s, values[axis], size)
            for axis, size in zip(axes, sizes, strict=True)
        ]
        return s.emit(tensor.ExtractOp(source, at, signless(element_of(op.input))))

    ins = [Operand(indices, space.access(*read)) for read in reads]
    conversion.finish(op, launch, launch.map(space, ins, Operand(launch.out, space.identity()), body))


@converts(graph.GatherOp)
def _gather(op: graph.GatherOp, conversion: Conversion) -> None:
    """With one constant index it is a movement; with one that counts trips, a slice that moves nothing."""
    trip = _position_of_trip(op.indices, shape_of(op.input)[op.axis.value.data])
    if trip is not None:
        _slice(op, conversion, trip)
        return
    space, axis = Space.over(shape_of(op.result)), op.axis.value.data
    size, last = shape_of(op.input)[axis], axis + len(shape_of(op.indices))
    index = conversion.number(op.indices)
    if index is not None and -size <= index < size:
        axes: list[Index] = [*space.names[:axis], int(index) % size, *space.names[last:]]
        convert_movement(op, conversion, space, axes)
        return
    _convert_gather(
        op, conversion, space, [space.names[axis:last]], [*space.names[:axis], 0, *space.names[last:]]
    )


def _slice(op: graph.GatherOp, conversion: Conversion, position: SSAValue) -> None:
    """A gather at one position that is known to be inside."""
    offset = arith.IndexCastOp(position, IndexType())
    sizes = list(shape_of(op.input))
    axis = op.axis.value.data
    sizes[axis] = 1
    offsets = [offset.result if d == axis else 0 for d in range(len(sizes))]
    taken = tensor.ExtractSliceOp(op.input, offsets, sizes, [1] * len(sizes), op.result.type)
    offset.location = taken.location = op.location
    conversion.expand(op, [offset, taken], [taken.result])


def _position_of_trip(indices: SSAValue, size: int) -> SSAValue | None:
    """The scalar that `indices` hold, if that counts the trips of a loop from either end and is less than `size`."""
    made = indices.owner
    if not isinstance(made, tensor.FromElementsOp) or shape_of(indices):
        return None
    position = position_of(made.elements[0])
    taken = None if position is None else positions(position)
    return made.elements[0] if taken and min(taken) >= 0 and max(taken) < size else None


@converts(graph.GatherElementsOp)
def _gather_elements(op: graph.GatherElementsOp, conversion: Conversion) -> None:
    space, axis = Space.over(shape_of(op.result)), op.axis.value.data
    axes: list[int | str] = [*space.names]
    axes[axis] = 0
    _convert_gather(op, conversion, space, [space.names], axes)


@converts(graph.GatherNdOp)
def _gather_nd(op: graph.GatherNdOp, conversion: Conversion) -> None:
    space = Space.over(shape_of(op.result))
    *tuples, length = shape_of(op.indices)
    batch = space.names[: op.batch_dims.value.data]
    outer, rest = space.names[: len(tuples)], space.names[len(tuples) :]
    _convert_gather(
        op, conversion, space, [(*outer, i) for i in range(length)], [*batch, *range(length), *rest]
    )
