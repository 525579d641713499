"""Reductions over axes, and arg_max."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    NUMERIC,
    SIGNATURE,
    I64Array,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    get_int,
    get_ints,
    int_attr,
    ints_attr,
    normalize_axes,
    normalize_axis,
    rank_of,
    require_axes,
    require_axis,
    require_elements,
    unit_attr,
    with_shape,
)


class ReductionOp(InferredOp):
    """Base of the reductions: `axes` (ascending) go, or with `keepdims` stay with size 1.

    f16 and bf16 are accumulated in f32; integers wrap; NaN propagates. Without axes nothing is reduced.
    """

    input = operand_def(TensorType)
    result = result_def(TensorType)
    axes = prop_def(I64Array)
    keepdims = opt_prop_def(UnitAttr)
    assembly_format = "$input `axes` `=` $axes (`keepdims` $keepdims^)? " + SIGNATURE

    def __init__(self, input: Operand, axes: Sequence[int] | None = None, *, keepdims: bool = False):
        """`axes` may be negative and in any order; None means all."""
        rank = rank_of(input)
        reduced = range(rank) if axes is None else normalize_axes(axes, rank)
        super().__init__([input], {"axes": ints_attr(reduced), "keepdims": unit_attr(keepdims)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(NUMERIC, input, "the operand")
        axes = get_ints(properties, "axes") or ()
        require_axes(axes, len(input.get_shape()))
        return (with_shape(input, reduced_shape(input.get_shape(), axes, "keepdims" in properties)),)


@irdl_op_definition
class ReduceSumOp(ReductionOp):
    """The sum; 0 of nothing. ONNX ReduceSum.

    ```mlir
    %y = graph.reduce_sum %x axes = [1] : (tensor<2x3xf32>) -> tensor<2xf32>
    ```
    """

    name = "graph.reduce_sum"


@irdl_op_definition
class ReduceMeanOp(ReductionOp):
    """The sum divided by the number of elements; NaN of nothing. ONNX ReduceMean.

    Integers divide toward zero, and give 0 of nothing.

    ```mlir
    %y = graph.reduce_mean %x axes = [2, 3] keepdims : (tensor<1x8x4x4xf32>) -> tensor<1x8x1x1xf32>
    ```
    """

    name = "graph.reduce_mean"


@irdl_op_definition
class ReduceMaxOp(ReductionOp):
    """The largest element; of nothing -inf, or the smallest number of an integer type. ONNX ReduceMax.

    ```mlir
    %y = graph.reduce_max %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
    ```
    """

    name = "graph.reduce_max"


@irdl_op_definition
class ReduceMinOp(ReductionOp):
    """The smallest element; of nothing +inf, or the largest number of an integer type. ONNX ReduceMin.

    ```mlir
    %y = graph.reduce_min %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
    ```
    """

    name = "graph.reduce_min"


@irdl_op_definition
class ReduceProdOp(ReductionOp):
    """The product; 1 of nothing. ONNX ReduceProd.

    ```mlir
    %y = graph.reduce_prod %x axes = [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
    ```
    """

    name = "graph.reduce_prod"


@irdl_op_definition
class ArgMaxOp(InferredOp):
    """The position (i64) of the largest element along `axis`; the first NaN if there is one. ONNX ArgMax.

    Of equal elements the first counts, with `select_last` the last. The axis must not be empty unless the result is.

    ```mlir
    %y = graph.arg_max %x axis = 1 : (tensor<2x3xf32>) -> tensor<2xi64>
    ```
    """

    name = "graph.arg_max"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    axis = prop_def(I64Attr)
    keepdims = opt_prop_def(UnitAttr)
    select_last = opt_prop_def(UnitAttr)
    assembly_format = (
        "$input `axis` `=` $axis (`keepdims` $keepdims^)? (`select_last` $select_last^)? " + SIGNATURE
    )

    def __init__(self, input: Operand, axis: int = 0, *, keepdims: bool = False, select_last: bool = False):
        properties = {
            "axis": int_attr(normalize_axis(axis, rank_of(input))),
            "keepdims": unit_attr(keepdims),
            "select_last": unit_attr(select_last),
        }
        super().__init__([input], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(NUMERIC, input, "the operand")
        shape = input.get_shape()
        axis = get_int(properties, "axis")
        require_axis(axis, len(shape))
        result = reduced_shape(shape, (axis,), "keepdims" in properties)
        if shape[axis] == 0 and 0 not in result:
            raise VerifyException(f"expected at least one element along axis {axis}, found {input}")
        return (TensorType(i64, result),)


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """`shape` with `axes` taken out, or with size 1 if `keepdims`."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)
