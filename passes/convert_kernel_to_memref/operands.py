"""Which tensor operands a kernel-level op reads, carries or slices; `mlopt.ir.effects` says what it overwrites."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from mlopt.dialects import kernel
from mlopt.ir.effects import destinations

DestinationOp = kernel.StructuredOp | kernel.FillOp | kernel.SymbolicKernel | tensor.InsertSliceOp
"""Ops that have a buffer form and overwrite their `destinations`."""

Loop = scf.ForOp | scf.WhileOp


def is_tensor(value: SSAValue) -> bool:
    """Whether the value becomes a buffer."""
    return isinstance(value.type, TensorType)


def carried(op: Loop) -> Sequence[tuple[int, SSAValue]]:
    """The positions of a loop's carried tensors among its operands, each with the argument that holds it inside."""
    first = 3 if isinstance(op, scf.ForOp) else 0
    args = op.body.block.args[1:] if isinstance(op, scf.ForOp) else op.before_region.block.args
    return [(first + i, arg) for i, arg in enumerate(args) if is_tensor(arg)]


def is_read(op: Operation, position: int) -> bool:
    """Whether what the operand holds can influence a result; views and loops count as reading."""
    if isinstance(op, DestinationOp) and any(position == destination for destination, _ in destinations(op)):
        return needs_init(op, position)
    return True


def needs_init(op: DestinationOp, position: int) -> bool:
    """Whether a result depends on what its destination held before: accumulated into, read, or partly kept."""
    match op:
        case kernel.FillOp():
            return False
        case kernel.MapOp():
            number = position - len(op.ins)
            shape = kernel.tensor_type(op.operands[position]).get_shape()
            covered = op.out_accesses[number].covers(shape, op.extents)
            return not covered or op.body.args[position].first_use is not None
        case kernel.LaunchOp():
            return any(is_read(use.operation, use.index) for use in op.body.args[position].uses)
        case _:
            return True


def slice_of(value: SSAValue) -> tensor.ExtractSliceOp | None:
    """The slice that a chain of destinations started from, if it did."""
    while isinstance(value, OpResult):
        op = value.op
        if isinstance(op, tensor.ExtractSliceOp):
            return op
        if isinstance(op, DestinationOp):
            value = op.operands[destinations(op)[value.index][0]]
        elif isinstance(op, scf.ForOp):
            value = op.iter_args[value.index]
        else:
            return None
    return None


def puts_back(op: tensor.InsertSliceOp) -> tensor.ExtractSliceOp | None:
    """The slice that `op` inserts where it was taken from, out of the very tensor it is inserted into."""
    taken = slice_of(op.source)
    if taken is None or taken.source is not op.dest:
        return None
    same_place = (
        taken.static_offsets == op.static_offsets
        and taken.static_sizes == op.static_sizes
        and taken.static_strides == op.static_strides
        and list(taken.operands[1:]) == list(op.operands[2:])
    )
    return taken if same_place else None
