"""Contractions that load their operand at computed indices, instead of reading it from a copy: experts, looked-up rows.

A *selection* copies whole rows from where indices say. Where a contraction uses each copied element once, it can as
well load it: the copy, which may be far larger than all else that lives, is not made, and an engine gathers block by
block what it multiplies. The contraction becomes a `kernel.reduce` of products, because it needs a body for the load.
"""

from __future__ import annotations

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, OpResult, Region

from mlopt.dialects.kernel import (
    NO_PAD,
    ContractOp,
    IndexOp,
    LaunchOp,
    MapOp,
    ReduceOp,
    YieldOp,
    tensor_type,
)
from mlopt.passes.kernel.inline_maps import inline_map
from mlopt.passes.kernel.launches import only_map, shape_of


def as_selection(launch: LaunchOp) -> MapOp | None:
    """The map of a launch that copies rows from computed positions and writes all of its result, else None."""
    op = only_map(launch)
    if op is None or not _selects_rows(op):
        return None
    return op if op.out_accesses[0].covers(shape_of(op.res[0]), op.extents) else None


def _selects_rows(op: MapOp) -> bool:
    """Whether a map yields what it loads, and walks along a row of it with the innermost dimension of its result."""
    terminator = op.body.last_op
    if len(op.outs) != 1 or not isinstance(terminator, YieldOp):
        return False
    loaded = terminator.values[0]
    innermost = next((row.single_dim for row in reversed(op.out_accesses[0].rows) if row.dims), None)
    if not isinstance(loaded, OpResult) or not isinstance(loaded.op, tensor.ExtractOp) or innermost is None:
        return False
    position = loaded.op.indices[-1].owner if loaded.op.indices else None
    return isinstance(position, IndexOp) and position.dim.value.data == innermost


def uses_once(contract: ContractOp, index: int) -> bool:
    """Whether a contraction multiplies every element of operand `index` once, in the type in which it sums."""
    access = contract.access_of(index)
    out = tensor_type(contract.outs[0]).element_type
    return (
        isinstance(out, AnyFloat)
        and all(tensor_type(value).element_type == out for value in contract.ins)
        and contract.pads.data[index] == NO_PAD
        and access.is_injective
        and all(extent == 1 or d in access.dims for d, extent in enumerate(contract.extents))
    )


def inline_selections(launch: LaunchOp) -> None:
    """Let the contractions of a launch load what selections of the same launch copy for them alone."""
    for contract in [op for op in launch.body.ops if isinstance(op, ContractOp)]:
        for index, value in enumerate(contract.ins):
            producer = value.owner
            if (
                isinstance(producer, MapOp)
                and _selects_rows(producer)
                and producer.res[0].has_one_use()
                and uses_once(contract, index)
            ):
                inline_map(producer, _as_reduce(contract), index)
                break


def _as_reduce(contract: ContractOp) -> ReduceOp:
    """Replace a contraction of operands of one type by the sum of products that it is, written out."""
    types = [tensor_type(value).element_type for value in contract.operands]
    body = Block(arg_types=types)
    left, right, total = body.args
    product = arith.MulfOp(left, right)
    sum_ = arith.AddfOp(total, product)
    body.add_ops([product, sum_, YieldOp(sum_.result)])
    for op in body.ops:
        op.location = contract.location
    reduce = ReduceOp(
        contract.named_bounds,
        contract.ins,
        contract.outs,
        contract.accesses,
        Region(body),
        pads=contract.pads.data,
    )
    reduce.location = contract.location
    reduce.res[0].name_hint = contract.res[0].name_hint
    block = contract.parent
    assert block is not None
    block.insert_op_before(reduce, contract)
    contract.res[0].replace_all_uses_with(reduce.res[0])
    block.erase_op(contract)
    return reduce
