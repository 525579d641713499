"""Collectives: what the ways of a model that is split over several devices give each other.

A split model is one function. An operation that one way alone computes says so by the discardable attribute
`{mlopt.way = 1 : i64}` (`compiler/ir/ways.py`); a collective takes one operand from each way, in their order, and every
way has its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    NUMERIC,
    SIGNATURE,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    int_attr,
    rank_of,
    require_elements,
)
from mlopt.dialects.graph.movement import joined_along, normalize_axis


@irdl_op_definition
class AllReduceOp(InferredOp):
    """The sum of the partial results of all ways, in their order, each step rounded to the element type.

    All operands have one type, which the result has too. Integers wrap. `MPI_Allreduce` with a sum; ONNX Sum.

    ```mlir
    %y = graph.all_reduce %p0, %p1 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    ```
    """

    name = "graph.all_reduce"
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "operands " + SIGNATURE

    def __init__(self, inputs: Sequence[Operand]):
        super().__init__([inputs])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        _require_one(operands)
        first = operands[0]
        require_elements(NUMERIC, first, "the partial results")
        for way, operand in enumerate(operands):
            if operand != first:
                raise VerifyException(f"expected {first} of way {way}, as of way 0, found {operand}")
        return (first,)


@irdl_op_definition
class AllGatherOp(InferredOp):
    """What the ways hold one after the other along `axis`, in their order; the other dimensions are equal.

    `MPI_Allgather`; ONNX Concat.

    ```mlir
    %y = graph.all_gather %s0, %s1 axis = 1 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x32xf32>
    ```
    """

    name = "graph.all_gather"
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    axis = prop_def(I64Attr)
    assembly_format = "operands `axis` `=` $axis " + SIGNATURE

    def __init__(self, inputs: Sequence[Operand], axis: int):
        if not inputs:
            _require_one(())
        super().__init__([inputs], {"axis": int_attr(normalize_axis(axis, rank_of(inputs[0])))})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        _require_one(operands)
        return (joined_along(operands, properties),)


def _require_one(operands: Sequence[Tensor]) -> None:
    if not operands:
        raise VerifyException("expected an operand from each way, found none")
