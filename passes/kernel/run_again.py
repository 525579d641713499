"""Running launches a second time: copies right before a later user, which takes their results from then on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, OpResult, SSAValue

from mlopt.dialects.kernel import LaunchOp, ReshapeOp, tensor_type
from mlopt.ir.names import copy_name
from mlopt.passes.kernel.launches import empty_like


def run_again(launches: Sequence[LaunchOp], before: Operation) -> None:
    """Copy launches, given in their order, to right before an op of the same block.

    That op, and those behind it, use the results of the copies in place of those of the launches, reshapes of them
    included. Each launch builds one result in a new tensor, and what it reads is the same at both places.
    """
    block = before.parent
    assert block is not None
    copies: dict[SSAValue, SSAValue] = {}
    for launch in launches:
        destination = empty_like(launch.outs[0])
        copy = launch.clone({launch.outs[0]: destination.tensor})
        copy.operands = [copies.get(operand, operand) for operand in copy.operands]
        copy_name(launch.res[0], copy.res[0])
        for op in (destination, copy):
            op.location = launch.location
            block.insert_op_before(op, before)
        copies[launch.res[0]] = copy.res[0]
    use_from(before, copies)


def use_from(before: Operation, copies: dict[SSAValue, SSAValue]) -> None:
    """Let an op and those behind it in its block use `copies` of tensors, and reshapes of them where they used such."""
    for op in _from(before):
        for inner in op.walk():
            for position, operand in enumerate(inner.operands):
                inner.operands[position] = _copy_of(operand, copies, before)


def _from(op: Operation | None) -> Iterator[Operation]:
    while op is not None:
        yield op
        op = op.next_op


def _copy_of(value: SSAValue, copies: dict[SSAValue, SSAValue], before: Operation) -> SSAValue:
    """What stands for a tensor behind the copies: of a reshape made before them, another one."""
    if value in copies or not isinstance(value, OpResult) or not isinstance(value.op, ReshapeOp):
        return copies.get(value, value)
    source = _copy_of(value.op.source, copies, before)
    if source is value.op.source:
        return value
    reshape = ReshapeOp(source, tensor_type(value).get_shape())
    reshape.location = value.op.location
    copy_name(value, reshape.result)
    assert before.parent is not None
    before.parent.insert_op_before(reshape, before)
    copies[value] = reshape.result
    return reshape.result
