"""Operations that sum products: matrix multiplication, convolution and determinant."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    NUMERIC,
    SIGNATURE,
    I64Array,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    broadcast_shapes,
    get_int,
    int_attr,
    ints_attr,
    require_elements,
    require_rank_at_least,
    require_same_elements,
    require_shape,
    tensor_type,
    with_shape,
)
from mlopt.dialects.graph.window import Window


@irdl_op_definition
class MatMulOp(InferredOp):
    """The matrix product of the last two dimensions; those before broadcast. ONNX MatMul, `numpy.matmul`.

    A rank-1 operand is a row on the left, a column on the right; its dimension of 1 is not in the result.
    f16 and bf16 products are summed in f32; integers wrap.

    ```mlir
    %y = graph.matmul %a, %b : (tensor<8x77x64xf32>, tensor<64x32xf32>) -> tensor<8x77x32xf32>
    ```
    """

    name = "graph.matmul"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs " + SIGNATURE

    def __init__(self, lhs: Operand, rhs: Operand):
        super().__init__([lhs, rhs])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        lhs, rhs = operands
        require_elements(NUMERIC, lhs, "the left operand")
        require_same_elements(lhs, rhs, "the right operand")
        require_rank_at_least(1, lhs, "the left operand")
        require_rank_at_least(1, rhs, "the right operand")
        left, right = lhs.get_shape(), rhs.get_shape()
        if left[-1] != right[-2:][0]:
            raise VerifyException(f"expected equal inner dimensions, found {lhs} and {rhs}")
        rows = left[-2:-1]
        columns = right[-1:] if len(right) > 1 else ()
        return (with_shape(lhs, (*broadcast_shapes(left[:-2], right[:-2]), *rows, *columns)),)


@irdl_op_definition
class ConvOp(InferredOp):
    """Convolution (cross-correlation) over 1 to 3 spatial dimensions, padded with zeros. ONNX Conv.

    Shapes: input `[n, c, spatial...]`, weight `[m, c / group, kernel...]`, bias `[m]`, result `[n, m,
    positions...]`. `pads` has all low paddings, then all high ones. f16 and bf16 products are summed in f32; integers
    wrap.

    ```mlir
    %y = graph.conv %x, %w, %b strides = [2, 2] pads = [3, 3, 3, 3]
      : (tensor<1x3x224x224xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<1x64x112x112xf32>
    ```
    """

    name = "graph.conv"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    group = prop_def(I64Attr, default_value=int_attr(1))
    assembly_format = (
        "operands (`strides` `=` $strides^)? (`pads` `=` $pads^)? (`dilations` `=` $dilations^)? "
        "(`group` `=` $group^)? " + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group: int = 1,
    ):
        properties = window_properties(strides, pads, dilations)
        super().__init__([input, weight, bias], {**properties, "group": int_attr(group)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, *bias = operands
        require_elements(NUMERIC, input, "the input")
        require_same_elements(input, weight, "the weight")
        rank = len(input.get_shape())
        if not 3 <= rank <= 5:
            raise VerifyException(f"expected an input of rank 3 to 5, found {input}")
        if len(weight.get_shape()) != rank:
            raise VerifyException(f"expected a weight of the input's rank {rank}, found {weight}")
        batch, channels, *spatial = input.get_shape()
        features, group_channels, *kernel = weight.get_shape()
        group = get_int(properties, "group", 1)
        if group < 1 or features % group or channels != group * group_channels:
            raise VerifyException(
                f"expected {group} groups to divide {features} features, and {channels} channels into groups "
                f"of {group_channels}"
            )
        for operand in bias:
            require_same_elements(input, operand, "the bias")
            require_shape((features,), operand, "the bias")
        positions = Window.of(kernel, properties).positions(spatial)
        return (with_shape(input, (batch, features, *positions)),)

    @property
    def window(self) -> Window:
        """The window over the spatial dimensions."""
        return Window.of(tensor_type(self.weight.type).get_shape()[2:], self.properties)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return get_int(self.properties, "group", 1)


def window_properties(
    strides: Sequence[int] | None, pads: Sequence[int] | None, dilations: Sequence[int] | None
) -> dict[str, I64Array | None]:
    """The properties of a window; lists that are all default are left out."""

    def unless_all(values: Sequence[int] | None, default: int) -> I64Array | None:
        return None if values is None or all(value == default for value in values) else ints_attr(values)

    return {
        "strides": unless_all(strides, 1),
        "pads": unless_all(pads, 0),
        "dilations": unless_all(dilations, 1),
    }


@irdl_op_definition
class DetOp(InferredOp):
    """The determinant of the matrices in the last two dimensions, computed in f64. ONNX Det, `numpy.linalg.det`.

    ```mlir
    %y = graph.det %x : (tensor<8x3x3xf32>) -> tensor<8xf32>
    ```
    """

    name = "graph.det"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input " + SIGNATURE

    def __init__(self, input: Operand):
        super().__init__([input])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(FLOAT, input, "the operand")
        require_rank_at_least(2, input, "the operand")
        *batch, rows, columns = input.get_shape()
        if rows != columns:
            raise VerifyException(f"expected square matrices, found {input}")
        return (with_shape(input, batch),)
