"""Operations along an axis whose results are in an order: cumulative sums and products, and the largest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.irdl import (
    BaseAttr,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    NUMERIC,
    SIGNATURE,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    get_int,
    int_attr,
    normalize_axis,
    rank_of,
    require_axis,
    require_elements,
    unit_attr,
    with_shape,
)


class CumulativeOp(InferredOp):
    """Base of what accumulates the elements along `axis` up to each one.

    `exclusive`: without the element itself; `reverse`: from the last element on to the first. f16 and bf16 are
    accumulated in f32; integers wrap.
    """

    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(T)
    result = result_def(T)
    axis = prop_def(I64Attr)
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)
    assembly_format = (
        "$input `axis` `=` $axis (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($input)"
    )

    def __init__(self, input: Operand, axis: int, *, exclusive: bool = False, reverse: bool = False):
        properties = {
            "axis": int_attr(normalize_axis(axis, rank_of(input))),
            "exclusive": unit_attr(exclusive),
            "reverse": unit_attr(reverse),
        }
        super().__init__([input], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(NUMERIC, input, "the operand")
        require_axis(get_int(properties, "axis"), len(input.get_shape()))
        return (input,)


@irdl_op_definition
class CumSumOp(CumulativeOp):
    """Sums; an exclusive one begins with 0. ONNX CumSum, `numpy.cumsum`.

    ```mlir
    %y = graph.cum_sum %x axis = 1 exclusive reverse : tensor<2x3xf32>
    ```
    """

    name = "graph.cum_sum"


@irdl_op_definition
class CumProdOp(CumulativeOp):
    """Products; an exclusive one begins with 1. ONNX CumProd, `numpy.cumprod`.

    ```mlir
    %y = graph.cum_prod %x axis = 0 reverse : tensor<2x3xi32>
    ```
    """

    name = "graph.cum_prod"


@irdl_op_definition
class TopKOp(InferredOp):
    """The `k` largest elements along `axis`, largest first, and their indices; with `smallest` the smallest ones.

    Of equal elements the one of lower index is first. NaN counts as larger than every number. ONNX TopK.

    ```mlir
    %v, %i = graph.top_k %x axis = 1 k = 3 smallest : (tensor<2x9xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
    ```
    """

    name = "graph.top_k"
    input = operand_def(TensorType)
    values = result_def(TensorType)
    indices = result_def(TensorType)
    axis = prop_def(I64Attr)
    k = prop_def(I64Attr)
    smallest = opt_prop_def(UnitAttr)
    assembly_format = "$input `axis` `=` $axis `k` `=` $k (`smallest` $smallest^)? " + SIGNATURE

    def __init__(self, input: Operand, axis: int, k: int, *, smallest: bool = False):
        properties = {
            "axis": int_attr(normalize_axis(axis, rank_of(input))),
            "k": int_attr(k),
            "smallest": unit_attr(smallest),
        }
        super().__init__([input], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(NUMERIC, input, "the operand")
        shape, axis, k = input.get_shape(), get_int(properties, "axis"), get_int(properties, "k")
        require_axis(axis, len(shape))
        if not 0 <= k <= shape[axis]:
            raise VerifyException(f"expected k in [0, {shape[axis]}], found {k}")
        result = (*shape[:axis], k, *shape[axis + 1 :])
        return with_shape(input, result), TensorType(i64, result)
