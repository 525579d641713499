"""The kernel dialect: structured ops over explicit iteration spaces, on tensors, in destination-passing style."""

from xdsl.ir import Dialect

from mlopt.dialects.kernel.access import Access, LinearExpr
from mlopt.dialects.kernel.ops import (
    CallOp,
    ConstantOp,
    CopyOp,
    FillOp,
    IndexOp,
    LaunchOp,
    ReshapeOp,
    SymbolicKernel,
)
from mlopt.dialects.kernel.structured import ContractOp, MapOp, ReduceOp, StructuredOp, tensor_type
from mlopt.dialects.kernel.syntax import NO_PAD
from mlopt.dialects.kernel.terminators import YieldOp

DestinationStyle = StructuredOp | FillOp | SymbolicKernel
"""The ops in destination-passing style: `ins` and `outs` operands, result `i` tied to `outs[i]`, its initial value."""

Kernel = Dialect(
    "kernel",
    [
        CallOp,
        ConstantOp,
        ContractOp,
        CopyOp,
        FillOp,
        IndexOp,
        LaunchOp,
        MapOp,
        ReduceOp,
        ReshapeOp,
        YieldOp,
    ],
)

__all__ = [
    "NO_PAD",
    "Access",
    "CallOp",
    "ConstantOp",
    "ContractOp",
    "CopyOp",
    "DestinationStyle",
    "FillOp",
    "IndexOp",
    "Kernel",
    "LaunchOp",
    "LinearExpr",
    "MapOp",
    "ReduceOp",
    "ReshapeOp",
    "StructuredOp",
    "SymbolicKernel",
    "YieldOp",
    "tensor_type",
]
