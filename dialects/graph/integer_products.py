"""Products of integers, summed in f32: what a quantized matrix product or convolution comes down to.

f32 holds every integer up to 2**24, so sums that can't leave that are exact, in any order, and are what i32 would give;
larger ones are rounded as all sums of floats are. `fuse-quantized` makes these operations where no sum can leave it.

`sum((a - za) * (w - zw))` is `sum(a * (w - zw))` less `za * sum(w - zw)`, a number for each column or feature if `w` is
constant: so these operations have no zero points. A convolution says instead what padding holds, and whoever knows the
zero points adds that number to the sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, TensorType, f32, i32
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    SIGNATURE,
    Elements,
    I64Array,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    get_int,
    int_attr,
    require_elements,
    shape_of,
)
from mlopt.dialects.graph.contraction import ConvOp, MatMulOp, window_properties
from mlopt.dialects.graph.window import Window

_NARROW: Mapping[Attribute, int] = {IntegerType(width): width for width in (8, 16)}

FACTOR = Elements("i8 or i16 elements", lambda e: e in _NARROW)


@irdl_op_definition
class IntegerMatMulOp(InferredOp):
    """The matrix product of signed integers, as `graph.matmul` of both operands as f32.

    Shapes are those of `graph.matmul`. ONNX MatMulInteger without zero points, cast to f32, where the sums are exact.

    ```mlir
    %y = graph.integer_matmul %a, %b : (tensor<8x77x64xi8>, tensor<64x32xi8>) -> tensor<8x77x32xf32>
    ```
    """

    name = "graph.integer_matmul"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs " + SIGNATURE

    def __init__(self, lhs: Operand, rhs: Operand):
        super().__init__([lhs, rhs])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        return MatMulOp.infer(_widened(operands), {})


@irdl_op_definition
class IntegerConvOp(InferredOp):
    """The convolution of signed integers, as `graph.conv` of both operands as f32.

    Padding holds `pad_value`, a number of the input's type: the number that stands for 0 there. With 0 this is ONNX
    ConvInteger without zero points, cast to f32, where the sums are exact.

    ```mlir
    %y = graph.integer_conv %x, %w pads = [1, 1, 1, 1] pad_value = -128
      : (tensor<1x16x48x48xi8>, tensor<8x16x3x3xi8>) -> tensor<1x8x48x48xf32>
    ```
    """

    name = "graph.integer_conv"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    result = result_def(TensorType)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    group = prop_def(I64Attr, default_value=int_attr(1))
    pad_value = prop_def(I64Attr, default_value=int_attr(0))
    assembly_format = (
        "$input `,` $weight (`strides` `=` $strides^)? (`pads` `=` $pads^)? (`dilations` `=` $dilations^)? "
        "(`group` `=` $group^)? (`pad_value` `=` $pad_value^)? " + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group: int = 1,
        pad_value: int = 0,
    ):
        window = window_properties(strides, pads, dilations)
        properties = {**window, "group": int_attr(group), "pad_value": int_attr(pad_value)}
        super().__init__([input, weight], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input = operands[0]
        # Neither bias nor residual: they would be floats.
        present = {AttrSizedOperandSegments.attribute_name: DenseArrayBase.from_list(i32, [1, 1, 0, 0])}
        result = ConvOp.infer(_widened(operands), {**properties, **present})
        padding, limit = get_int(properties, "pad_value"), 1 << (_NARROW[input.element_type] - 1)
        if not -limit <= padding < limit:
            raise VerifyException(f"expected a pad_value of type {input.element_type}, found {padding}")
        return result

    @property
    def window(self) -> Window:
        """The window over the spatial dimensions."""
        return Window.of(shape_of(self.weight)[2:], self.properties)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return get_int(self.properties, "group", 1)

    @property
    def padding(self) -> int:
        """What is read outside of the input."""
        return get_int(self.properties, "pad_value")


def _widened(factors: Sequence[Tensor]) -> list[Tensor]:
    """The types of two factors as f32."""
    for factor, what in zip(factors, ("the first factor", "the second factor"), strict=True):
        require_elements(FACTOR, factor, what)
    return [TensorType(f32, factor.get_shape()) for factor in factors]
