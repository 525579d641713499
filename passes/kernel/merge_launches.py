"""The surgery of fusion: one launch into another, a movement into its users.

Nothing is decided here (see `fusion_groups`) and nothing is tidied up afterwards (see `simplify_launch`).
"""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from mlopt.dialects.kernel import (
    LaunchOp,
    MapOp,
)
from mlopt.ir.locations import fuse_locations
from mlopt.ir.names import copy_name
from mlopt.passes.kernel.inline_maps import absorb_movement
from mlopt.passes.kernel.launches import (
    argument_for,
    drop_in,
    empty_like,
    erase_with_destinations,
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
