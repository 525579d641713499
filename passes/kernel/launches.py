"""Asking about launches and changing them: kinds, reads, destination chains, operands.

Everything here looks at one launch or one structured op; which launches to merge is decided in `fusion_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    ContractOp,
    DestinationStyle,
    FillOp,
    LaunchOp,
    MapOp,
    ReduceOp,
    StructuredOp,
    YieldOp,
    tensor_type,
)
from mlopt.ir.names import set_name

_I32 = IntegerType(32)
_SCALAR_DIALECTS = frozenset((arith.Arith.name, math.Math.name))


class Kind(Enum):
    """What a launch computes, which decides what it may be merged with."""

    POINTWISE = "pointwise"
    """Maps and fills only (movements, gathers and concatenations too)."""
    ROWS = "rows"
    """At least one reduction, no contraction."""
    CONTRACT = "contract"
    """A contraction."""
    OPAQUE = "opaque"
    """Something else (tiles, loops, loads of scalars): neither merged nor looked into."""


def kind_of(launch: LaunchOp) -> Kind:
    """The kind of a launch, from the ops in its body."""
    kind = Kind.POINTWISE
    for op in launch.body.ops:
        match op:
            case ContractOp():
                kind = Kind.CONTRACT
            case ReduceOp():
                kind = Kind.CONTRACT if kind is Kind.CONTRACT else Kind.ROWS
            case MapOp() | FillOp() | tensor.EmptyOp() | YieldOp():
                pass
            case _ if op.dialect_name() in _SCALAR_DIALECTS and not op.regions:
                pass
            case _:
                return Kind.OPAQUE
    return kind


def count_ops(launch: LaunchOp) -> int:
    """The ops in the body of a launch, those in the bodies of its structured ops included."""
    return sum(1 for _ in launch.region.walk())


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor."""
    return tuple(tensor_type(value).get_shape())


# Reads


class Read(NamedTuple):
    """One entry of the `ins` of a structured op; `pad` is `NO_PAD` if all of it is in bounds."""

    value: SSAValue
    access: Access
    pad: Attribute = NO_PAD


def reads_of(op: StructuredOp) -> list[Read]:
    """The reads of a structured op, in the order of its `ins`."""
    return [
        Read(value, access, pad) for value, access, pad in zip(op.ins, op.in_accesses, op.pads, strict=True)
    ]


def read_of(op: StructuredOp, index: int) -> Read:
    """One entry of `reads_of`."""
    return Read(op.ins[index], op.access_of(index), op.pads.data[index])


def set_reads(op: StructuredOp, reads: Sequence[Read]) -> None:
    """Replace the `ins` of a structured op. Its body's arguments are the caller's business."""
    outs = list(op.outs)
    out_maps = op.indexing_maps.data[len(op.ins) :]
    op.operands = [*(read.value for read in reads), *outs]
    op.properties["indexing_maps"] = ArrayAttr(
        [*(AffineMapAttr(read.access.to_map()) for read in reads), *out_maps]
    )
    op.properties["pads"] = ArrayAttr([read.pad for read in reads])
    op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(_I32, [len(reads), len(outs)])


def drop_read(op: StructuredOp, index: int, replacement: SSAValue | None = None) -> None:
    """Remove one of the `ins`; the body uses `replacement` instead of its element (None: it is not used)."""
    if isinstance(op, MapOp | ReduceOp):
        argument = op.body.args[index]
        if replacement is not None:
            argument.replace_all_uses_with(replacement)
        op.body.erase_arg(argument)
    reads = reads_of(op)
    set_reads(op, [*reads[:index], *reads[index + 1 :]])


def structured_reads(value: SSAValue) -> list[tuple[StructuredOp, int]] | None:
    """All uses of a tensor as (structured op, position in its `ins`), or None if it is used in another way too.

    Other ways are: as a destination, captured by a body, yielded, reshaped.
    """
    reads: list[tuple[StructuredOp, int]] = []
    for use in value.uses:
        if not isinstance(use.operation, StructuredOp) or use.index >= len(use.operation.ins):
            return None
        reads.append((use.operation, use.index))
    return reads


def only_map(launch: LaunchOp) -> MapOp | None:
    """The map of a launch that does just this map, of its ins into its out; beside it there are at most constants."""
    found: MapOp | None = None
    for op in launch.body.ops:
        match op:
            case MapOp() if found is None:
                found = op
            case arith.ConstantOp() | YieldOp():
                pass
            case _:
                return None
    if found is None or launch.yielded != tuple(found.res) or tuple(found.outs) != launch.out_args:
        return None
    if any(value in launch.out_args for value in found.ins):
        return None
    return found


def is_sole_user(user: Operation, value: SSAValue) -> bool:
    """Whether `value` is used, and by `user` alone."""
    uses = iter(value.uses)
    first = next(uses, None)
    return first is not None and first.operation is user and all(use.operation is user for use in uses)


# Destination chains


def tied_destination(value: SSAValue) -> SSAValue | None:
    """The destination that `value` overwrites, or None if it starts a chain."""
    if isinstance(value, OpResult) and isinstance(value.op, DestinationStyle):
        return value.op.outs[value.index]
    return None


def chain_of(value: SSAValue) -> list[SSAValue]:
    """`value`, the destination it overwrites, and so on to the root of the chain."""
    chain = [value]
    while (above := tied_destination(chain[-1])) is not None:
        chain.append(above)
    return chain


def is_destination_use(op: Operation, index: int) -> bool:
    """Whether operand `index` of `op` is one of its destinations."""
    # The outs are the last operands, one for each result.
    return index >= len(op.operands) - len(op.results) and isinstance(op, DestinationStyle)


def is_overwritten(value: SSAValue) -> bool:
    """Whether some op takes `value` as a destination."""
    return any(is_destination_use(use.operation, use.index) for use in value.uses)


def is_empty(value: SSAValue) -> bool:
    """Whether `value` is an uninitialised tensor."""
    return isinstance(value, OpResult) and isinstance(value.op, tensor.EmptyOp)


# Operands of launches


def set_operands(launch: LaunchOp, ins: Sequence[SSAValue], outs: Sequence[SSAValue]) -> None:
    """Replace the operands of a launch. Its region's arguments are the caller's business."""
    launch.operands = [*ins, *outs]
    launch.properties["operandSegmentSizes"] = DenseArrayBase.from_list(_I32, [len(ins), len(outs)])


def drop_in(launch: LaunchOp, index: int, replacement: SSAValue | None = None) -> None:
    """Remove one of the `ins`; the body uses `replacement` instead (None: it is not used)."""
    argument = launch.body.args[index]
    if replacement is not None:
        argument.replace_all_uses_with(replacement)
    launch.body.erase_arg(argument)
    ins = list(launch.ins)
    set_operands(launch, [*ins[:index], *ins[index + 1 :]], list(launch.outs))


def insert_in(launch: LaunchOp, index: int, value: SSAValue, name: str | None = None) -> BlockArgument:
    """Give a launch one more operand at position `index` of its `ins`; returns the region's argument for it."""
    argument = launch.body.insert_arg(value.type, index, launch.location)
    set_name(argument, name or value.name_hint)
    ins = list(launch.ins)
    set_operands(launch, [*ins[:index], value, *ins[index:]], list(launch.outs))
    return argument


def argument_for(launch: LaunchOp, value: SSAValue, index: int, name: str | None = None) -> SSAValue:
    """The region's argument for an operand among the `ins`, added at position `index` (and named) if there is none."""
    for position, operand in enumerate(launch.ins):
        if operand is value:
            return launch.body.args[position]
    return insert_in(launch, index, value, name)


def erase_with_destinations(launch: LaunchOp) -> None:
    """Erase an unused launch and the uninitialised tensors that were only its destinations."""
    outs = list(launch.outs)
    launch.detach()
    launch.erase()
    for out in outs:
        erase_if_unused(out)


def erase_if_unused(value: SSAValue) -> None:
    """Erase a `tensor.empty` whose result is not used."""
    if isinstance(value, OpResult) and isinstance(value.op, tensor.EmptyOp) and value.first_use is None:
        value.op.detach()
        value.op.erase()


# Blocks of launches


def blocks_with_launches(root: Operation) -> Iterator[Block]:
    """Every block outside launches that holds a launch, of functions and of control flow, outer ones first."""
    pending = _blocks(root)
    while pending:
        block = pending.pop()
        found = False
        nested: list[Block] = []
        for op in block.ops:
            if isinstance(op, LaunchOp):
                found = True
            elif op.regions:
                nested = [*_blocks(op), *nested]
        pending.extend(nested)
        if found:
            yield block


def _blocks(op: Operation) -> list[Block]:
    """The blocks of an op, the first last."""
    return [block for region in reversed(op.regions) for block in reversed(region.blocks)]


def empty_like(value: SSAValue) -> tensor.EmptyOp:
    """An uninitialised tensor of the type of `value`."""
    return tensor.EmptyOp((), tensor_type(value))
