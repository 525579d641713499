"""Moving maps and transposes above the reshapes that they read, to where they can be merged.

A map of tensors of one shape does the same to every element, whatever the shape; a transpose of axes that a reshape
only merges is a transpose of what they were merged from. So the scale of attention, behind a reshape and a transpose
of the projected queries, gets back to the projection, and transposes with a reshape between them become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from mlopt.dialects.kernel import NO_PAD, Access, LaunchOp, LinearExpr, MapOp, ReshapeOp, YieldOp, tensor_type
from mlopt.ir.names import copy_name
from mlopt.passes.kernel.align_layouts import alignment
from mlopt.passes.kernel.launches import (
    erase_with_destinations,
    is_sole_user,
    only_map,
    reads_of,
    shape_of,
)


class Hoist(NamedTuple):
    """What `launch` does may be done above `reshape` instead, on the result of `producer`.

    `map` is all of the launch. `operand`: the position, among the reads of the map, of the one that reads the
    reshaped tensor. `axes`: for a transpose, the axis of the producer's result that each axis of the new one is;
    None for a map that computes something.
    """

    launch: LaunchOp
    map: MapOp
    operand: int
    reshape: ReshapeOp
    producer: LaunchOp
    axes: tuple[int, ...] | None = None


def find_hoist(launch: LaunchOp) -> Hoist | None:
    """What of a launch can move above a reshape that it reads, if all of it can.

    Either a map of tensors of one shape and of scalars: it must read all of each tensor, each element once, all in
    the same order, and neither positions nor old contents; the other tensors are reshaped, which costs nothing. Or a
    transpose that moves axes only together with those that the reshape makes of one, or makes into one. The reshape,
    and the result of the launch above it, must not be used otherwise.
    """
    op = only_map(launch)
    if op is None or len(launch.ins) != len(op.ins) or 0 in op.extents:
        return None
    for operand, value in enumerate(op.ins):
        assert isinstance(value, BlockArgument)
        source = launch.ins[value.index]
        if (
            any(size != 1 for size in shape_of(source))
            and (above := _reshaped_launch(launch, source)) is not None
        ):
            found = Hoist(launch, op, operand, *above)
            if op.is_movement:
                return _transpose_above(found)
            if _commutes(found):
                return found
    return None


def _reshaped_launch(launch: LaunchOp, value: SSAValue) -> tuple[ReshapeOp, LaunchOp] | None:
    """The reshape that `value` is and the launch whose only result it reshapes, if nothing else uses the two."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ReshapeOp):
        return None
    reshape = value.op
    producer = reshape.source.owner
    if (
        not isinstance(producer, LaunchOp)
        or any(op.parent is not launch.parent for op in (reshape, producer))
        or not is_sole_user(launch, value)
        or not is_sole_user(reshape, reshape.source)
        or len(producer.res) != 1
    ):
        return None
    return reshape, producer


def _commutes(found: Hoist) -> bool:
    """Whether the map is scalar arithmetic on elements at the same place of each tensor, and on scalars."""
    op = found.map
    reads = reads_of(op)
    chosen = reads[found.operand].access.without_unit_dims(op.extents)
    for read in reads:
        is_scalar = all(size == 1 for size in shape_of(read.value))
        if read.pad != NO_PAD or not (is_scalar or read.access.without_unit_dims(op.extents) == chosen):
            return False
        if not is_scalar and shape_of(read.value) != shape_of(found.reshape.result):
            return False
    return (
        reads[found.operand].access.is_permutation(shape_of(found.reshape.result), op.extents)
        and op.out_accesses[0].is_permutation(shape_of(op.res[0]), op.extents)
        and all(argument.first_use is None for argument in op.body.args[len(op.ins) :])
        and not any(
            nested.dialect_name() in ("kernel", "tensor") and not isinstance(nested, YieldOp)
            for nested in op.body.ops
        )
    )


def _transpose_above(found: Hoist) -> Hoist | None:
    axes = alignment(found.map, reads_of(found.map)[0])
    if axes is None:
        return None
    source = transposed_above(shape_of(found.reshape.source), shape_of(found.reshape.result), axes)
    if source is None:
        return None
    return Hoist(found.launch, found.map, found.operand, found.reshape, found.producer, source)


def transposed_above(
    source: Sequence[int], result: Sequence[int], axes: Sequence[int]
) -> tuple[int, ...] | None:
    """The transpose of a tensor of shape `source` that, reshaped, is the transpose by `axes` of it as `result`.

    None if `axes` takes axes apart that a reshape of `source` to `result` makes of one axis, or of several together.
    """
    pieces = reshape_pieces(source, result)
    by_axis = {axis: piece for piece in pieces for axis in piece[1]}
    order: list[int] = []
    position = 0
    while position < len(axes):
        above, below = by_axis[axes[position]]
        if tuple(axes[position : position + len(below)]) != below:
            return None
        order.extend(above)
        position += len(below)
    return tuple(order) if len(order) == len(source) else None


def reshape_pieces(
    source: Sequence[int], result: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The finest cut of a reshape into pieces: adjacent axes of `source` that become adjacent axes of `result`.

    No extent may be 0. A new axis of extent 1 is a piece of its own, with nothing above; one that goes belongs to the
    piece of a neighbour.
    """
    pieces: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = j = 0
    while j < len(result):
        first_i, first_j = i, j
        if result[j] == 1 and (i == len(source) or source[i] != 1):
            pieces.append(((), (j,)))
            j += 1
            continue
        above, i = source[i], i + 1
        below, j = result[j], j + 1
        while above != below:
            if above < below:
                above, i = above * source[i], i + 1
            else:
                below, j = below * result[j], j + 1
        pieces.append((tuple(range(first_i, i)), tuple(range(first_j, j))))
    if i < len(source) and pieces:
        above, below = pieces[-1]
        pieces[-1] = (*above, *range(i, len(source))), below
    return pieces


def hoist(found: Hoist) -> tuple[LaunchOp, LaunchOp | None]:
    """Do what was found; returns the new launch above the reshape, and the transpose left below it, if any."""
    launch, reshape = found.launch, found.reshape
    block = launch.parent
    assert block is not None
    result = launch.res[0]
    above = _movement_above(found) if found.axes is not None else _map_above(found)
    below = ReshapeOp(above.res[0], shape_of(result) if found.axes is not None else shape_of(reshape.result))
    left: LaunchOp | None = None
    value = below.result
    if found.axes is None and alignment(found.map, reads_of(found.map)[found.operand]) is not None:
        left = _movement_below(found, below.result)
        value = left.res[0]
    below.location = reshape.location
    empty = above.outs[0].owner
    assert isinstance(empty, Operation)
    empty.location = launch.location
    for op in (empty, above, below, left):
        if op is not None:
            block.insert_op_before(op, launch)
    for named in (value, above.res[0]):
        copy_name(result, named)
    copy_name(reshape.result, below.result)
    result.replace_all_uses_with(value)
    erase_with_destinations(launch)
    block.erase_op(reshape)
    for value in above.ins:
        if isinstance(value.owner, ReshapeOp) and value.owner.parent is block:
            fold_reshape(value.owner)
    for use in list(below.result.uses):
        if isinstance(use.operation, ReshapeOp):
            fold_reshape(use.operation)
    return above, left


def _map_above(found: Hoist) -> LaunchOp:
    """A launch of the map on the shape above the reshape; it takes the body of the map."""
    old, launch = found.map, found.launch
    shape = shape_of(found.reshape.source)
    rank = len(shape)
    ins = [_above_reshape(found, value) for value in launch.ins]
    out = tensor.EmptyOp((), TensorType(tensor_type(launch.res[0]).element_type, shape)).tensor
    block = _launch_block(launch, ins, out)
    for constant in [op for op in launch.body.ops if isinstance(op, arith.ConstantOp)]:
        constant.detach()
        block.add_op(constant)
    arguments: dict[SSAValue, SSAValue] = dict(zip(launch.body.args, block.args, strict=True))
    reads = reads_of(old)
    accesses = [
        Access.identity(rank)
        if shape_of(arguments[read.value]) == shape
        else Access(rank, tuple(LinearExpr((0,) * rank) for _ in read.access.rows))
        for read in reads
    ]
    new = MapOp(
        {f"d{d}": size for d, size in enumerate(shape)},
        [arguments[read.value] for read in reads],
        [block.args[-1]],
        [*accesses, Access.identity(rank)],
        old.detach_region(old.region),
    )
    return _finish(launch.kernel_name.data, ins, out, block, new, old)


def _above_reshape(found: Hoist, value: SSAValue) -> SSAValue:
    """What the map reads above the reshape in place of `value`: what is reshaped, another tensor reshaped back."""
    if value is found.reshape.result:
        return found.reshape.source
    if all(size == 1 for size in shape_of(value)):
        return value
    back = ReshapeOp(value, shape_of(found.reshape.source))
    back.location = found.reshape.location
    copy_name(value, back.result)
    block = found.launch.parent
    assert block is not None
    block.insert_op_before(back, found.launch)
    return back.result


def _movement_above(found: Hoist) -> LaunchOp:
    """A launch of the transpose by `found.axes` of what is above the reshape."""
    assert found.axes is not None
    source = found.reshape.source
    shape = [shape_of(source)[axis] for axis in found.axes]
    rank = len(shape)
    out = tensor.EmptyOp((), TensorType(tensor_type(source).element_type, shape)).tensor
    read = Access.of_dims([found.axes.index(axis) for axis in range(rank)], rank)
    bounds = {f"d{d}": size for d, size in enumerate(shape)}
    return _movement(found, found.launch.kernel_name.data, source, out, bounds, (read, Access.identity(rank)))


def _movement_below(found: Hoist, value: SSAValue) -> LaunchOp:
    """A launch that moves the elements of `value` as the map did, to the destination of the map's launch."""
    old = found.map
    accesses = reads_of(old)[found.operand].access, old.out_accesses[0]
    return _movement(found, "transpose", value, found.launch.outs[0], old.named_bounds, accesses)


def _movement(
    found: Hoist,
    name: str,
    source: SSAValue,
    out: SSAValue,
    bounds: dict[str, int],
    accesses: tuple[Access, Access],
) -> LaunchOp:
    element = tensor_type(source).element_type
    block = _launch_block(found.launch, [source], out)
    body = Block(arg_types=[element, element])
    terminator = YieldOp(body.args[0])
    terminator.location = found.map.location
    body.add_op(terminator)
    new = MapOp(bounds, [block.args[0]], [block.args[1]], accesses, Region(body))
    return _finish(name, [source], out, block, new, found.map)


def _launch_block(like: LaunchOp, ins: Sequence[SSAValue], out: SSAValue) -> Block:
    """The block of a new launch with the argument names, as far as they fit, and the location of another."""
    block = Block(arg_types=[value.type for value in (*ins, out)])
    names = [*like.body.args[: len(ins)], like.body.args[-1]]
    for old, argument in zip(names, block.args, strict=True):
        copy_name(old, argument)
        argument.location = like.location
    return block


def _finish(
    name: str, ins: Sequence[SSAValue], out: SSAValue, block: Block, new: MapOp, old: MapOp
) -> LaunchOp:
    """The launch of one map, which gets the location and name of the old one."""
    terminator = YieldOp(new.res[0])
    for op in (new, terminator):
        op.location = old.location
        block.add_op(op)
    copy_name(old.res[0], new.res[0])
    launch = LaunchOp(name, ins, [out], Region(block))
    launch.location = old.location
    return launch


def reshape_folds(op: ReshapeOp) -> bool:
    """Whether a reshape reads another, or changes nothing."""
    return isinstance(op.source.owner, ReshapeOp) or op.source.type == op.result.type


def fold_reshape(op: ReshapeOp) -> None:
    """Let a reshape of a reshape read what that one reads, and replace it if it changes nothing then."""
    above = op.source.owner
    block = op.parent
    assert block is not None
    if isinstance(above, ReshapeOp):
        op.operands[0] = above.source
        if above.result.first_use is None and above.parent is block:
            block.erase_op(above)
    if op.source.type == op.result.type:
        copy_name(op.result, op.source)
        op.result.replace_all_uses_with(op.source)
        block.erase_op(op)
