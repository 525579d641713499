"""A part that is taken out of a tensor only to be reshaped is read where it lies: the reshape moves above the slice.

Rows that follow one another are the same elements in any shape. So the reshape of a slice is a slice of a reshape, if
the slice takes whole steps of what the reshape makes of its axes: `[2:4]` of 8 rows of 6, as 3 rows of 4, is `[3:6]` of
12 rows of 4. What reads the result then reads the tensor itself, through its index maps, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xdsl.ir import Block, OpResult, SSAValue

from mlopt.dialects.kernel import NO_PAD, Access, LaunchOp, LinearExpr, MapOp, ReshapeOp, tensor_type
from mlopt.ir.names import copy_name
from mlopt.passes.kernel.fusion_groups import as_movement, can_absorb
from mlopt.passes.kernel.hoist_maps import reshape_pieces
from mlopt.passes.kernel.launches import erase_with_destinations, only_map, read_of, shape_of
from mlopt.passes.kernel.merge_launches import absorb_into_users
from mlopt.passes.kernel.placing import slice_launch


class LiftedReshape(NamedTuple):
    """`reshape`, of what `launch` takes out of its operand, is what is at `where` in the operand under `shape`."""

    launch: LaunchOp
    reshape: ReshapeOp
    shape: tuple[int, ...]
    where: Access


def find_lift(reshape: ReshapeOp) -> LiftedReshape | None:
    """Where the result of a reshape lies in what it was taken out of; None if it has no such place."""
    launch = reshape.source.owner
    if not isinstance(launch, LaunchOp) or launch.parent is not reshape.parent:
        return None
    if not reshape.source.has_one_use():
        return None  # the part is needed anyway
    movement = as_movement(launch)
    if movement is None:
        return None
    found = place_of_reshape(movement, shape_of(reshape.result))
    return None if found is None else LiftedReshape(launch, reshape, *found)


def place_of_reshape(movement: MapOp, shape: Sequence[int]) -> tuple[tuple[int, ...], Access] | None:
    """The shape of what a movement reads, and the place in it, of the movement's result reshaped to `shape`."""
    read = read_of(movement, 0)
    source, result = shape_of(read.value), shape_of(movement.res[0])
    point = movement.out_accesses[0].inverse()
    if read.pad != NO_PAD or point is None or 0 in result or 0 in source:
        return None
    rows = list(read.access.compose(point).without_unit_dims(result).rows)
    if any(len(row.dims) > 1 for row in rows):
        return None
    new_shape: list[list[int]] = [[size] for size in source]
    new_rows = [[LinearExpr((0,) * len(shape), row.constant)] for row in rows]
    for above, below in reshape_pieces(result, shape):
        wide = [axis for axis in above if result[axis] != 1]
        if not wide:
            continue
        axes = [axis for axis, row in enumerate(rows) if row.single_dim in wide]
        made = [axis for axis in below if shape[axis] != 1]
        if len(wide) == len(made) == 1:
            for axis in axes:
                coefficient = rows[axis].coefficients[wide[0]]
                new_rows[axis] = [
                    LinearExpr.dim(made[0], len(shape), scale=coefficient, offset=rows[axis].constant)
                ]
            continue
        step = prod(shape[axis] for axis in made[1:])
        if not _follow_one_another(rows, axes, wide, source, result):
            return None
        inside = prod(source[axis] for axis in axes[1:])
        start, whole = rows[axes[0]].constant * inside, source[axes[0]] * inside
        if start % step or whole % step:
            return None
        new_shape[axes[0]] = [whole // step, *(shape[axis] for axis in made[1:])]
        new_rows[axes[0]] = [LinearExpr.dim(axis, len(shape)) for axis in made]
        new_rows[axes[0]][0] += start // step
        for axis in axes[1:]:
            new_shape[axis], new_rows[axis] = [], []
    flat = tuple(size for group in new_shape for size in group)
    return flat, Access(len(shape), tuple(row for group in new_rows for row in group))


def _follow_one_another(
    rows: Sequence[LinearExpr],
    axes: Sequence[int],
    wide: Sequence[int],
    source: Sequence[int],
    result: Sequence[int],
) -> bool:
    """Whether axes of the source, of which all but the first are read whole, are the `wide` axes of the result."""
    return (
        [rows[axis].single_dim for axis in axes] == list(wide)
        and list(axes) == list(range(axes[0], axes[0] + len(axes)))
        and all(rows[axis].coefficients[dim] == 1 for axis, dim in zip(axes, wide, strict=True))
        and all(
            rows[axis].constant == 0 and source[axis] == result[dim]
            for axis, dim in zip(axes[1:], wide[1:], strict=True)
        )
    )


def can_be_read(found: LiftedReshape, block: Block) -> bool:
    """Whether all that reads the reshaped part can read it, through its index maps, where it lies."""
    above = ReshapeOp(found.launch.ins[0], found.shape)
    movement = only_map(slice_launch(above.result, found.where, tensor_type(found.reshape.result)))
    assert movement is not None
    uses = list(found.reshape.result.uses)
    readable = bool(uses) and all(can_absorb(use, movement, block) for use in uses)
    above.erase(safe_erase=False)
    return readable


def lift(found: LiftedReshape, block: Block) -> SSAValue:
    """Let all that reads the reshaped part read it where it lies; returns the tensor in the shape that they read."""
    reshape, launch = found.reshape, found.launch
    source = launch.ins[0]
    if found.shape != shape_of(source):
        above = ReshapeOp(source, found.shape)
        above.location = launch.location
        block.insert_op_before(above, reshape)
        source = above.result
    reading = slice_launch(source, found.where, tensor_type(reshape.result))
    (out,) = reading.outs
    assert isinstance(out, OpResult)
    for op in (out.op, reading):
        op.location = launch.location
        block.insert_op_before(op, reshape)
    copy_name(reshape.result, reading.res[0])
    reshape.result.replace_all_uses_with(reading.res[0])
    block.erase_op(reshape)
    erase_with_destinations(launch)
    movement = only_map(reading)
    assert movement is not None
    absorb_into_users(reading, movement)
    return source
