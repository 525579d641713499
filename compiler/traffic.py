"""What the launches of a kernel-level module read and write, in bytes: the `traffic` of a report.

An operand is read in whole; a result is written as far as its launch writes it. `outs` names where a result goes: of
that, what is read before it is written counts too.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, Use
from xdsl.traits import ConstantLike

from mlopt.dialects.kernel import FillOp, LaunchOp, MapOp, ReshapeOp, StructuredOp, tensor_type
from mlopt.dialects.kernel.terminators import YieldOp
from mlopt.ir.dtypes import to_numpy_dtype

SHAPE_ARITHMETIC_ELEMENTS = 64
"""Integer tensors of at most so many elements are shape arithmetic, which the figures leave out."""


def traffic_of_module(module: ModuleOp) -> int:
    """Bytes that all launches read and write; a launch inside a loop counts once."""
    return sum(traffic_of(op) for op in module.walk() if isinstance(op, LaunchOp))


def traffic_of(launch: LaunchOp) -> int:
    """Bytes that a launch reads and writes; weights, constants and shape arithmetic aside."""
    counted = dict.fromkeys(value for value in launch.ins if not _is_untouched(value))
    total = sum(map(_counted_bytes, counted))
    for out, argument, yielded in zip(launch.outs, launch.out_args, launch.yielded, strict=True):
        update = _update_of(argument, yielded)
        is_operand = out not in counted and not _is_untouched(out)
        elements = update.written + (update.read if is_operand else 0)
        total += _counted_bytes(out) * elements // max(1, _size(out))
    return total


def value_bytes(value: SSAValue) -> int:
    """Bytes of a tensor or buffer; 0 for anything else."""
    if not isinstance(value.type, TensorType | MemRefType):
        return 0
    type = cast(TensorType[Attribute] | MemRefType[Attribute], value.type)
    return prod(type.get_shape()) * to_numpy_dtype(type.element_type).itemsize


class _Update(NamedTuple):
    """Of how many elements a launch reads what stood there before, and how many it writes; each counts once."""

    read: int
    written: int


def _update_of(argument: SSAValue, value: SSAValue) -> _Update:
    """What becomes of an argument of the launch, by the operations that make `value` of it, one after the other."""
    whole, steps = _size(argument), list[_Update]()
    while isinstance(value, OpResult):
        match value.op:
            case StructuredOp() as op:
                steps.append(_step(op, value.index))
                value = op.outs[value.index]
            case FillOp() as op:
                steps.append(_Update(0, whole))
                value = op.init
            case tensor.InsertSliceOp() as op:
                steps.append(_Update(0, _size(op.source)))
                value = op.dest
            case ReshapeOp() as op:
                value = op.operands[0]
            case _:  # a loop may update any part
                return _Update(whole, whole)
    read = written = 0
    for step in reversed(steps):
        if written < whole:
            read += step.read
        written += step.written
    if not all(map(_is_destination, argument.uses)):
        read = whole
    return _Update(min(read, whole), min(written, whole))


def _step(op: StructuredOp, index: int) -> _Update:
    """What a structured operation reads and writes of `outs[index]`."""
    dims = op.out_accesses[index].dims
    written = prod(extent for d, extent in enumerate(op.extents) if d in dims)
    is_read = not isinstance(op, MapOp) or op.body.args[len(op.ins) + index].first_use is not None
    return _Update(written if is_read else 0, written)


def _is_destination(use: Use) -> bool:
    """Whether a use only says where something is written to."""
    match use.operation:
        case StructuredOp() as op:
            return use.index >= len(op.ins)
        case FillOp() | YieldOp():
            return True
        case tensor.InsertSliceOp():
            return use.index == 1
        case _:
            return False


def _is_untouched(value: SSAValue) -> bool:
    """Whether a value is a constant, or a destination in which nothing stands yet."""
    owner = value.owner
    while isinstance(owner, ReshapeOp):
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and (
        owner.has_trait(ConstantLike) or isinstance(owner, tensor.EmptyOp)
    )


def _counted_bytes(value: SSAValue) -> int:
    size = value_bytes(value)
    is_int64 = TensorType.constr(i64).verifies(value.type)
    return 0 if is_int64 and size <= SHAPE_ARITHMETIC_ELEMENTS * 8 else size


def _size(value: SSAValue) -> int:
    return prod(tensor_type(value).get_shape())
