"""The surgery of fusion: one launch into another, a movement into its users, a map above a reshape.

Nothing is decided here (see `fusion_groups`) and nothing is tidied up afterwards (see `simplify_launch`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    LaunchOp,
    LinearExpr,
    MapOp,
    ReshapeOp,
    YieldOp,
    tensor_type,
)
from mlopt.ir.locations import fuse_locations
from mlopt.ir.names import copy_name
from mlopt.passes.kernel.inline_maps import absorb_movement
from mlopt.passes.kernel.launches import (
    argument_for,
    drop_in,
    empty_like,
    erase_with_destinations,
    is_sole_user,
    only_map,
    reads_of,
    shape_of,
    structured_reads,
)


def merge_into(producer: LaunchOp, consumer: LaunchOp) -> None:
    """Move the body of `producer` in front of that of `consumer`, the only user of its results, and erase it.

    What `producer` wrote becomes a tensor inside the launch. The consumer keeps its place, results and outs.
    """
    body = consumer.body
    first = body.first_op
    assert first is not None
    yielded = producer.yielded
    terminator = producer.body.last_op

    position = next(i for i, value in enumerate(consumer.ins) if value.owner is producer)
    for value, argument in zip(list(producer.ins), producer.in_args, strict=True):
        known = len(consumer.ins)
        target = argument_for(consumer, value, position, argument.name_hint)
        position += len(consumer.ins) - known
        argument.replace_all_uses_with(target)
    for argument, result in zip(producer.out_args, producer.res, strict=True):
        empty = empty_like(argument)
        empty.location = producer.location
        body.insert_op_before(empty, first)
        argument.replace_all_uses_with(empty.tensor)
        copy_name(result, yielded[result.index])
    for op in list(producer.body.ops):
        if op is not terminator:
            op.detach()
            body.insert_op_before(op, first)
    for index in reversed(range(len(consumer.ins))):
        value = consumer.ins[index]
        if isinstance(value, OpResult) and value.op is producer:
            drop_in(consumer, index, yielded[value.index])
    consumer.location = fuse_locations([producer.location, consumer.location])
    erase_with_destinations(producer)


def absorb_into_users(launch: LaunchOp, movement: MapOp) -> list[LaunchOp]:
    """Let every user of a movement read the movement's source itself, and erase it; returns the users."""
    source = launch.ins[0]
    result = launch.res[0]
    users: list[LaunchOp] = []
    for user in dict.fromkeys(use.operation for use in result.uses):
        assert isinstance(user, LaunchOp)
        users.append(user)
        for index in reversed(range(len(user.ins))):
            if user.ins[index] is result:
                _absorb_operand(user, index, source, movement)
        user.location = fuse_locations([launch.location, user.location])
    erase_with_destinations(launch)
    return users


def _absorb_operand(user: LaunchOp, index: int, source: SSAValue, movement: MapOp) -> None:
    argument = user.body.args[index]
    reads = structured_reads(argument)
    assert reads is not None
    for op, position in reads:
        absorbed = absorb_movement(op, position, movement)
        assert absorbed
    # The reads name the movement's own argument now; let them read the user's.
    inside = movement.ins[0]
    target = argument_for(user, source, index + 1, inside.name_hint)
    inside.replace_uses_with_if(target, lambda use: use.operation is not movement)
    drop_in(user, index)


@dataclass(frozen=True, slots=True)
class Hoist:
    """`map`, alone in `launch`, may be evaluated above `reshape`, on the result of `producer`.

    `operand`: the position, among the reads of the map, of the one that reads the reshaped tensor.
    """

    launch: LaunchOp
    map: MapOp
    operand: int
    reshape: ReshapeOp
    producer: LaunchOp


def find_hoist(launch: LaunchOp) -> Hoist | None:
    """Whether a launch is a map of one tensor (and scalars) that commutes with the reshape it reads.

    It does if it reads all of the tensor, each element once, and neither positions nor old contents. The result of
    the launch above the reshape must not be used otherwise.
    """
    op = only_map(launch)
    if op is None or op.is_movement or len(launch.ins) != len(op.ins) or not _is_elementwise(op):
        return None
    tensors = [i for i, value in enumerate(launch.ins) if any(size != 1 for size in shape_of(value))]
    if len(tensors) != 1:
        return None
    value = launch.ins[tensors[0]]
    argument = launch.body.args[tensors[0]]
    reads = structured_reads(argument)
    if (
        reads is None
        or len(reads) != 1
        or not isinstance(value, OpResult)
        or not isinstance(value.op, ReshapeOp)
    ):
        return None
    reshape, operand = value.op, reads[0][1]
    source = reshape.source
    if (
        not isinstance(source, OpResult)
        or not isinstance(source.op, LaunchOp)
        or any(op.parent is not launch.parent for op in (reshape, source.op))
        or not is_sole_user(launch, value)
        or not is_sole_user(reshape, source)
        or len(source.op.res) != 1
    ):
        return None
    for position, read in enumerate(reads_of(op)):
        if read.pad != NO_PAD:
            return None
        if position == operand and not read.access.is_permutation(shape_of(read.value), op.extents):
            return None
    if not op.out_accesses[0].is_permutation(shape_of(op.res[0]), op.extents):
        return None
    return Hoist(launch, op, operand, reshape, source.op)


def _is_elementwise(op: MapOp) -> bool:
    """Whether the body is scalar arithmetic on the elements read: no positions, captured tensors, old contents."""
    return all(argument.first_use is None for argument in op.body.args[len(op.ins) :]) and not any(
        nested.dialect_name() in ("kernel", "tensor") and not isinstance(nested, YieldOp)
        for nested in op.body.ops
    )


def hoist(found: Hoist) -> tuple[LaunchOp, LaunchOp | None]:
    """Evaluate the map above the reshape; returns the new launch above, and what is left below, a movement if any."""
    launch, reshape = found.launch, found.reshape
    block = launch.parent
    assert block is not None
    result = launch.res[0]
    type = TensorType(tensor_type(result).element_type, shape_of(reshape.source))
    empty = tensor.EmptyOp((), type)
    above = _map_above(found, empty.tensor)
    below = ReshapeOp(above.res[0], shape_of(reshape.result))
    for op in (empty, above, below):
        op.location = launch.location
        block.insert_op_before(op, launch)
    below.location = fuse_locations([reshape.location])
    copy_name(reshape.result, below.result)
    copy_name(result, above.res[0])

    old = found.map
    movement: LaunchOp | None = None
    read, written = reads_of(old)[found.operand].access, old.out_accesses[0]
    if read.without_unit_dims(old.extents) == written.without_unit_dims(old.extents):
        copy_name(result, below.result)
        result.replace_all_uses_with(below.result)
    else:
        movement = _movement_below(found, below.result)
        movement.location = launch.location
        block.insert_op_before(movement, launch)
        copy_name(result, movement.res[0])
        result.replace_all_uses_with(movement.res[0])
    erase_with_destinations(launch)
    block.erase_op(reshape)
    return above, movement


def _map_above(found: Hoist, out: SSAValue) -> LaunchOp:
    """A launch of the map on the shape of `out`, above the reshape; it takes the body of the map."""
    old, launch = found.map, found.launch
    shape = shape_of(out)
    rank = len(shape)
    ins = [found.reshape.source if value is found.reshape.result else value for value in launch.ins]
    block = Block(arg_types=[value.type for value in (*ins, out)])
    for inside, argument in zip(launch.body.args, block.args, strict=True):
        copy_name(inside, argument)
        argument.location = launch.location
    arguments: dict[SSAValue, SSAValue] = dict(zip(launch.body.args, block.args, strict=True))
    for constant in [op for op in launch.body.ops if isinstance(op, arith.ConstantOp)]:
        constant.detach()
        block.add_op(constant)
    reads = reads_of(old)
    accesses = [Access(rank, tuple(LinearExpr((0,) * rank) for _ in read.access.rows)) for read in reads]
    accesses[found.operand] = Access.identity(rank)
    new = MapOp(
        {f"d{d}": size for d, size in enumerate(shape)},
        [arguments[read.value] for read in reads],
        [block.args[-1]],
        [*accesses, Access.identity(rank)],
        old.detach_region(old.region),
    )
    _add_located(block, old, new, YieldOp(new.res[0]))
    copy_name(old.res[0], new.res[0])
    return LaunchOp(launch.kernel_name.data, ins, [out], Region(block))


def _movement_below(found: Hoist, value: SSAValue) -> LaunchOp:
    """A launch that moves the elements of `value` as the map did, to the destination of the map's launch."""
    old, out = found.map, found.launch.outs[0]
    element = tensor_type(value).element_type
    block = Block(arg_types=[value.type, out.type])
    for argument in block.args:
        argument.location = found.launch.location
    body = Block(arg_types=[element, element])
    _add_located(body, old, YieldOp(body.args[0]))
    accesses = [reads_of(old)[found.operand].access, old.out_accesses[0]]
    new = MapOp(old.named_bounds, [block.args[0]], [block.args[1]], accesses, Region(body))
    _add_located(block, old, new, YieldOp(new.res[0]))
    return LaunchOp("transpose", [value], [out], Region(block))


def _add_located(block: Block, like: Operation, *ops: Operation) -> None:
    """Append ops with the location of another op."""
    for op in ops:
        op.location = like.location
        block.add_op(op)
