"""Choosing the axis order of tensors inside a launch, so that what is read transposed is written transposed instead.

A tensor that only lives inside a launch has no layout that anyone else sees. When the op that uses it up reads it
transposed, its whole destination chain is transposed, and the read becomes plain. A copy of such a tensor is no work
at all then: the chain is built in the copy's destination right away. So a transpose behind a matrix product costs
nothing. So is a result of a launch, where that is to be written into another tensor with its axes in another order
(`transpose_out`). And what is put together from parts, only to be moved, is put together where it is moved to.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue, Use

from mlopt.dialects.kernel import NO_PAD, Access, LaunchOp, MapOp, StructuredOp, YieldOp, tensor_type
from mlopt.ir.locations import fuse_locations
from mlopt.ir.names import set_name
from mlopt.passes.kernel.inline_maps import keeps_rows, keeps_unit_stride
from mlopt.passes.kernel.launches import (
    Read,
    chain_of,
    is_destination_use,
    is_empty,
    is_overwritten,
    reads_of,
    shape_of,
)


def align_layout(op: MapOp) -> bool:
    """Transpose an input of `op`, a tensor of this launch that is read transposed, so that it is read plainly.

    Only what `op` alone reads, and in one order: nothing else can want another layout.
    """
    if len(op.outs) != 1:
        return False
    reads = reads_of(op)
    return any(
        isinstance(read.value, OpResult)
        and (axes := alignment(op, read)) is not None
        and read.value.uses.get_length() == sum(other == read for other in reads)
        and _transpose_chain(chain_of(read.value), axes)
        for read in reads
    )


def alignment(op: MapOp, read: Read) -> tuple[int, ...] | None:
    """Which axis of what is read each axis of the result runs along, if that is a transposition, else None."""
    written = op.out_accesses[0]
    if (
        read.pad != NO_PAD
        or len(read.access.rows) != len(written.rows)
        or not read.access.is_permutation(shape_of(read.value), op.extents)
        or not written.is_permutation(shape_of(op.res[0]), op.extents)
    ):
        return None
    source = read.access.without_unit_dims(op.extents).rows
    target = written.without_unit_dims(op.extents).rows
    if source == target:
        return None
    axes: list[int] = []
    free = list(range(len(source)))
    for row in target:
        axis = next((axis for axis in free if source[axis] == row), None)
        if axis is None:
            return None
        free.remove(axis)
        axes.append(axis)
    return tuple(axes)


def _transpose_chain(chain: list[SSAValue], axes: Sequence[int]) -> bool:
    """Give every tensor of a chain the axes `axes` of what it has, if nothing but structured ops sees them."""
    if not is_empty(chain[-1]) or is_overwritten(chain[0]):
        return False
    if not all(_can_permute(use, chain, axes) for value in chain for use in value.uses):
        return False
    _permute(chain, axes)
    return True


def can_transpose_out(launch: LaunchOp, position: int, axes: Sequence[int]) -> bool:
    """Whether structured ops alone build a result of a launch in its out, and can do so with its axes in that order."""
    chain = chain_of(launch.yielded[position])
    uses = [use for value in chain for use in value.uses]
    yields = [use for use in uses if isinstance(use.operation, YieldOp)]
    return (
        chain[-1] is launch.out_args[position]
        and len(yields) == 1
        and all(use in yields or _can_permute(use, chain, axes) for use in uses)
    )


def transpose_out(launch: LaunchOp, position: int, axes: Sequence[int]) -> None:
    """Let a launch, of which `can_transpose_out` holds, build a result with its axes in that order.

    The operand and the result of the launch keep their types, which are the caller's business.
    """
    _permute(chain_of(launch.yielded[position]), axes)


def _can_permute(use: Use, chain: Sequence[SSAValue], axes: Sequence[int]) -> bool:
    """Whether what uses a tensor of a chain may find it with its axes in that order, as fast as before."""
    op = use.operation
    if is_destination_use(op, use.index):
        if op.results[use.index - len(op.operands) + len(op.results)] not in chain:
            return False
    elif not isinstance(op, StructuredOp):
        return False
    if not isinstance(op, StructuredOp):
        return True
    access = op.accesses[use.index].permute(axes)
    return keeps_unit_stride(op, use.index, access) and keeps_rows(op, use.index, access)


def _permute(chain: Sequence[SSAValue], axes: Sequence[int]) -> None:
    for value in chain:
        for use in value.uses:
            if isinstance(use.operation, StructuredOp):
                _set_access(use.operation, use.index, use.operation.accesses[use.index].permute(axes))
        type = tensor_type(value)
        shape = type.get_shape()
        value._type = TensorType(type.element_type, [shape[axis] for axis in axes])  # pyright: ignore[reportPrivateUsage] (in place, so that uses and names stay)


def _set_access(op: StructuredOp, index: int, access: Access) -> None:
    maps = list(op.indexing_maps.data)
    maps[index] = AffineMapAttr(access.to_map())
    op.properties["indexing_maps"] = ArrayAttr(maps)


def drop_copy(op: MapOp) -> bool:
    """Build what `op` copies, a tensor of this launch that nothing else overwrites, in the destination of `op`.

    Only a copy of all of the tensor to a destination with no contents of its own (an uninitialised tensor or an
    argument of the launch).
    """
    if not op.is_movement:
        return False
    read, written = reads_of(op)[0], op.out_accesses[0]
    target = op.outs[0]
    if (
        read.pad != NO_PAD
        or read.access.without_unit_dims(op.extents) != written.without_unit_dims(op.extents)
        or not written.covers(shape_of(op.res[0]), op.extents)
        or read.value.type != target.type
    ):
        return False
    chain = chain_of(read.value)
    root = chain[-1]
    if not is_empty(root) or len(chain) == 1 or is_overwritten(read.value):
        return False
    if not is_empty(target) and not (isinstance(target, BlockArgument) and target.uses.get_length() == 1):
        return False
    producer, block = read.value.owner, op.parent
    assert isinstance(producer, Operation) and block is not None
    producer.location = fuse_locations([producer.location, op.location])
    set_name(read.value, op.res[0].name_hint or read.value.name_hint)
    op.res[0].replace_all_uses_with(read.value)
    block.erase_op(op)
    if isinstance(target, BlockArgument):
        root.replace_all_uses_with(target)
    return True


def build_in_part(op: MapOp) -> bool:
    """Build what `op` moves, a tensor of this launch that maps put together, where `op` would move it to.

    Only all of a tensor that nothing else reads, nor reads on the way. So a concatenation of concatenations puts each
    part into the last one.
    """
    place = _place_moved_to(op)
    block = op.parent
    if place is None or block is None:
        return False
    chain = chain_of(op.ins[0])
    maps: list[MapOp] = []
    for value in chain[:-1]:
        link = value.owner
        if not isinstance(link, MapOp) or not _can_write_at(link, place):
            return False
        maps.append(link)
    if len(maps) < 2 or not is_empty(chain[-1]) or not all(value.has_one_use() for value in chain):
        return False
    target = op.outs[0]
    type = tensor_type(target)
    for link in reversed(maps):
        _set_access(link, len(link.ins), place.compose(link.out_accesses[0]))
        link.operands[len(link.ins)] = target
        target = link.res[0]
        target._type = type  # pyright: ignore[reportPrivateUsage] (as above)
        link.detach()
        block.insert_op_before(link, op)
        link.location = fuse_locations([link.location, op.location])
    set_name(target, op.res[0].name_hint or target.name_hint)
    op.res[0].replace_all_uses_with(target)
    block.erase_op(op)
    return True


def _place_moved_to(op: MapOp) -> Access | None:
    """Where a movement puts each element of what it reads, if it reads all of that."""
    if not op.is_movement or len(op.outs) != 1:
        return None
    read = reads_of(op)[0]
    point = read.access.inverse()
    if point is None or read.pad != NO_PAD or not read.access.covers(shape_of(read.value), op.extents):
        return None
    place = op.out_accesses[0].compose(point)
    return None if any(c < 0 for row in place.rows for c in row.coefficients) else place


def _can_write_at(op: MapOp, place: Access) -> bool:
    """Whether a map of one result can write it at `place` in a larger tensor, later than now."""
    if len(op.outs) != 1 or any(is_overwritten(value) for value in op.ins):
        return False
    access = place.compose(op.out_accesses[0])
    return len(access.dims) == len(op.extents) and keeps_rows(op, len(op.ins), access)
