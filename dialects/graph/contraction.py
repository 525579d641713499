"""Operations that sum products: matrix multiplication, linear layer, convolution; and the determinant."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.activation import ActivationAttr, require_activation
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
    by_definition,
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

_EPILOGUE_OPERANDS = "$input `,` $weight (`,` $bias^)? (`residual` `(` $residual^ `:` type($residual) `)`)?"
_EPILOGUE_END = (
    "(`activation` `=` $activation^)? attr-dict "
    "`:` `(` type($input) `,` type($weight) (`,` type($bias)^)? `)` `->` type($result)"
)
"""The assembly format of a sum of products with bias, residual and activation."""

CONVOLUTION = (
    f"{_EPILOGUE_OPERANDS} (`strides` `=` $strides^)? (`pads` `=` $pads^)? (`dilations` `=` $dilations^)? "
    f"(`group` `=` $group^)? {_EPILOGUE_END}"
)
"""The assembly format of a convolution."""


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
class LinearOp(InferredOp):
    """`activation(input @ weight + bias + residual)`; bias, residual and activation may be left out. ONNX Gemm.

    Shapes: input `[..., k]`, weight `[k, n]`, result `[..., n]`; the bias has one number for each column, `[n]` or
    `[1, ..., 1, n]` of at most the rank of the result; the residual has the shape of the result.

    It means `graph.matmul`, `graph.add`, `graph.add` and the operation of the activation one after the other, each
    rounded to the element type as it is there: a 16-bit product is summed in f32, rounded, and then added to. A
    transposed weight is a `graph.transpose` before this.

    ```mlir
    %y = graph.linear %x, %w, %b residual(%r : tensor<8x77x32xf32>) activation = <relu>
      : (tensor<8x77x64xf32>, tensor<64x32xf32>, tensor<32xf32>) -> tensor<8x77x32xf32>
    ```
    """

    name = "graph.linear"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    result = result_def(TensorType)
    activation = opt_prop_def(ActivationAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = f"{_EPILOGUE_OPERANDS} {_EPILOGUE_END}"

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        residual: Operand | None = None,
        activation: ActivationAttr | None = None,
    ):
        super().__init__([input, weight, bias, residual], {"activation": activation})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, *addends = by_definition(operands, properties)
        assert input is not None
        assert weight is not None
        require_elements(NUMERIC, input, "the input")
        require_same_elements(input, weight, "the weight")
        require_rank_at_least(1, input, "the input")
        *rows, inner = input.get_shape()
        if len(weight.get_shape()) != 2 or weight.get_shape()[0] != inner:
            raise VerifyException(f"expected a weight of {inner} rows and of rank 2, found {weight}")
        result = with_shape(input, (*rows, weight.get_shape()[1]))
        bias, residual = addends
        if bias is not None:
            require_same_elements(input, bias, "the bias")
            if not is_bias_of(bias.get_shape(), result.get_shape()):
                raise VerifyException(
                    f"expected {result.get_shape()[-1]} numbers along the last dimension for the bias, in at most "
                    f"{len(result.get_shape())} dimensions, found {bias}"
                )
        require_epilogue(residual, properties, result)
        return (result,)


def is_bias_of(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Is it the shape of one number for each column of a result: `[n]`, or `[1, ..., 1, n]` of at most its rank?"""
    return (
        1 <= len(shape) <= len(result) and shape[-1] == result[-1] and all(size == 1 for size in shape[:-1])
    )


def require_epilogue(residual: Tensor | None, properties: Properties, result: Tensor) -> None:
    """Raise unless what is added to a result has its type, and its activation is one for it."""
    if residual is not None:
        require_same_elements(result, residual, "the residual")
        require_shape(result.get_shape(), residual, "the residual")
    require_activation(properties, result)


@irdl_op_definition
class ConvOp(InferredOp):
    """Convolution (cross-correlation) over 1 to 3 spatial dimensions, padded with zeros. ONNX Conv.

    Shapes: input `[n, c, spatial...]`, weight `[m, c / group, kernel...]`, bias `[m]`, result `[n, m,
    positions...]`. `pads` has all low paddings, then all high ones. f16 and bf16 products are summed in f32, with the
    bias, and rounded once; integers wrap.

    A `residual` of the type of the result is added to that (as `graph.add`), then the `activation` is applied.

    ```mlir
    %y = graph.conv %x, %w, %b strides = [2, 2] pads = [3, 3, 3, 3]
      : (tensor<1x3x224x224xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<1x64x112x112xf32>
    %z = graph.conv %x, %w residual(%r : tensor<1x64x8x8xf32>) activation = <relu>
      : (tensor<1x3x8x8xf32>, tensor<64x3x1x1xf32>) -> tensor<1x64x8x8xf32>
    ```
    """

    name = "graph.conv"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    result = result_def(TensorType)
    activation = opt_prop_def(ActivationAttr)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    group = prop_def(I64Attr, default_value=int_attr(1))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = CONVOLUTION

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        residual: Operand | None = None,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group: int = 1,
        activation: ActivationAttr | None = None,
    ):
        properties = window_properties(strides, pads, dilations)
        super().__init__(
            [input, weight, bias, residual],
            {**properties, "group": int_attr(group), "activation": activation},
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, bias, residual = by_definition(operands, properties)
        assert input is not None
        assert weight is not None
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
        if bias is not None:
            require_same_elements(input, bias, "the bias")
            require_shape((features,), bias, "the bias")
        positions = Window.of(kernel, properties).positions(spatial)
        result = with_shape(input, (batch, features, *positions))
        require_epilogue(residual, properties, result)
        return (result,)

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
