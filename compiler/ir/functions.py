"""Finding the functions of a module, their blocks, and the kinds of what is in them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region

from mlopt.diagnostics import VerifyFailure
from mlopt.ir.locations import place_of_op


def find_main(module: ModuleOp) -> FuncOp | None:
    """The function `@main`, which holds the model; None if there is none."""
    return next((op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main"), None)


def only_block(function: FuncOp) -> Block:
    """The block of a function that has a body; `VerifyFailure` at the first branch if there are several."""
    block = function.body.blocks.first
    assert block is not None
    if block is not function.body.blocks.last:
        raise VerifyFailure(
            f"'@{function.sym_name.data}' has several blocks, expected one: control flow is scf",
            place=place_of_op(block.last_op or function),
        )
    return block


def kinds_of_operations(root: Operation) -> set[type[Operation]]:
    """The classes of an operation and of all that is in it: what a question about many operations is asked of."""
    kinds = {type(root)}
    regions: list[Region] = list(root.regions)
    for region in regions:
        for block in region.blocks:
            op = block.first_op
            while op is not None:
                kinds.add(type(op))
                if op.regions:
                    regions += op.regions
                op = op.next_op
    return kinds
