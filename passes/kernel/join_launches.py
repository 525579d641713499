"""Joining launches into one, with what passes between them inside of it.

Unlike fusion, it changes nothing of what they do: their ops stand one behind the other, and a tensor that one hands to
the next is a temporary of the launch. So it costs and saves nothing by itself; a cut (`cut_launch`) needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from mlopt.dialects.kernel import LaunchOp, ReshapeOp, YieldOp, tensor_type
from mlopt.ir.locations import fuse_locations
from mlopt.ir.names import copy_name, set_name
from mlopt.passes.kernel.launches import empty_like, is_empty


def can_join(members: Sequence[LaunchOp]) -> bool:
    """Whether launches, in the order of their block, can be one at the place of the last, as far as tensors show.

    All but the last have one result, which only other members use, perhaps reshaped, and which they build in a new
    tensor or in the result of another member; the last may build its result in any tensor.
    """
    inside = set[Operation](members)
    return all(_is_handed_on(member, inside) for member in members[:-1])


def _is_handed_on(member: LaunchOp, inside: set[Operation]) -> bool:
    if len(member.res) != 1 or not (is_empty(member.outs[0]) or member.outs[0].owner in inside):
        return False
    pending: list[SSAValue] = [member.res[0]]
    while pending:
        for use in pending.pop().uses:
            if isinstance(use.operation, ReshapeOp):
                pending.append(use.operation.result)
            elif use.operation not in inside:
                return False
    return True


def joined(members: Sequence[LaunchOp], name: str) -> LaunchOp:
    """One launch that does what the members do, whose results are those of the last one; it stands nowhere yet.

    The members stay as they are. `can_join` holds for them.
    """
    return _Joining(members).launch(name)


class _Joining:
    def __init__(self, members: Sequence[LaunchOp]):
        self._members = members
        self._block = Block()
        self._ins: list[SSAValue] = []
        self._outs: list[SSAValue] = []
        self._inside: dict[SSAValue, SSAValue] = {}
        """From tensors around the launches to those of the new body."""

    def launch(self, name: str) -> LaunchOp:
        last = self._members[-1]
        roots = [self._root(out) for out in last.outs]
        for value in dict.fromkeys(value for member in self._members for value in member.ins):
            if self._is_outside(value) and value not in roots:
                self._add_argument(value, self._ins)
        for value in roots:
            self._add_argument(value, self._outs)
        for member in self._members:
            self._add(member)
        results = [self._inside[result] for result in last.res]
        self._block.add_op(YieldOp(*results))
        launch = LaunchOp(name, self._ins, self._outs, Region(self._block))
        launch.location = fuse_locations([member.location for member in self._members])
        for old, new in zip(last.res, launch.res, strict=True):
            copy_name(old, new)
        return launch

    def _root(self, out: SSAValue) -> SSAValue:
        """What the chain of destinations of an out begins with, outside of the members."""
        while isinstance(out, OpResult) and out.op in self._members and isinstance(out.op, LaunchOp):
            out = out.op.outs[out.index]
        return out

    def _is_outside(self, value: SSAValue) -> bool:
        while isinstance(value, OpResult) and isinstance(value.op, ReshapeOp):
            value = value.op.source
        return not (isinstance(value, OpResult) and value.op in self._members)

    def _add_argument(self, value: SSAValue, operands: list[SSAValue]) -> None:
        argument = self._block.insert_arg(value.type, len(self._block.args), self._members[-1].location)
        set_name(argument, value.name_hint)
        operands.append(value)
        self._inside[value] = argument

    def _value(self, value: SSAValue, member: LaunchOp) -> SSAValue:
        """What stands for a tensor in the new body, made there if it is a reshape or a new destination."""
        if value in self._inside:
            return self._inside[value]
        if isinstance(value, OpResult) and isinstance(value.op, ReshapeOp):
            source = self._value(value.op.source, member)
            reshape = ReshapeOp(source, tensor_type(value).get_shape())
            reshape.location = value.op.location
            self._block.add_op(reshape)
            self._inside[value] = reshape.result
            return reshape.result
        destination = empty_like(value)
        destination.location = member.location
        self._block.add_op(destination)
        return destination.tensor

    def _add(self, member: LaunchOp) -> None:
        mapping: dict[SSAValue, SSAValue] = {}
        operands = [*member.ins, *member.outs]
        for operand, argument in zip(operands, member.body.args, strict=True):
            mapping[argument] = self._value(operand, member)
        for op in member.body.ops:
            if op is not member.body.last_op:
                self._block.add_op(op.clone(mapping))
        for result, value in zip(member.res, member.yielded, strict=True):
            self._inside[result] = mapping.get(value, value)
