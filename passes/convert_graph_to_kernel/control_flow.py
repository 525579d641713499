"""What stands between scalars and tensors around control flow, which itself is the same at both levels."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.dialects import kernel
from mlopt.dialects.graph.base import tensor_type
from mlopt.ir.names import copy_name
from mlopt.passes.convert_graph_to_kernel.conversion import unsupported
from mlopt.passes.convert_graph_to_kernel.scalars import signless_type


def fill_single_elements(root: Operation) -> bool:
    """Turn each `tensor.from_elements` of one element into a `kernel.fill` with it; whether there were any."""
    made = [op for op in root.walk() if isinstance(op, tensor.FromElementsOp)]
    for op in made:
        if len(op.elements) != 1:
            raise unsupported(op, f"expected 1 element of a tensor.from_elements, found {len(op.elements)}")
        empty = tensor.EmptyOp([], signless_type(tensor_type(op.result.type)))
        fill = kernel.FillOp(op.elements[0], empty.tensor)
        empty.location = fill.location = op.location
        Rewriter.insert_op([empty, fill], InsertPoint.before(op))
        copy_name(op.result, fill.results[0])
        op.result.replace_all_uses_with(fill.results[0])
        Rewriter.erase_op(op)
    return bool(made)
