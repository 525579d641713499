"""How many scalar operations a launch performs, counted from its structured ops."""

from __future__ import annotations

from math import prod

from mlopt.dialects.kernel import ContractOp, LaunchOp, StructuredOp, YieldOp


def flops_of(launch: LaunchOp) -> int:
    """Scalar operations: two for each product of a contraction, those of the body for each point of maps and folds."""
    total = 0
    for op in launch.walk():
        if isinstance(op, StructuredOp):
            each = 2 if isinstance(op, ContractOp) else _body_ops(op)
            total += each * prod(op.extents)
    return total


def _body_ops(op: StructuredOp) -> int:
    return sum(
        1
        for inner in op.body.ops
        if not isinstance(inner, YieldOp) and inner.name != "arith.constant" and inner.results
    )
