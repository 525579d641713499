"""Quantization: floating-point numbers as small integers (or small floats) times a scale, from a zero point.

Scale and zero point broadcast to the tensor, as numpy does: a number quantizes the tensor as a whole, shape `[c, 1, 1]`
each channel by its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, UnitAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    SIGNATURE,
    Elements,
    GraphOp,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    is_scale_float,
    is_tiny_float,
    require_broadcast_to,
    require_elements,
    require_same_elements,
    require_shape,
    shape_of,
    tensor_type,
    unit_attr,
    with_shape,
)

_NARROW_INTEGERS: Collection[Attribute] = frozenset(
    IntegerType(width, signedness)
    for width in (2, 4, 8, 16)
    for signedness in (Signedness.SIGNLESS, Signedness.UNSIGNED)
)

QUANTIZED = Elements(
    "integer elements of 2 to 16 bits, or floats of 8 bits or fewer but f8E8M0FNU",
    lambda e: e in _NARROW_INTEGERS or (is_tiny_float(e) and not is_scale_float(e)),
)
DEQUANTIZABLE = Elements(
    "i32 elements, integer elements of 2 to 16 bits, or floats of 8 bits or fewer but f8E8M0FNU",
    lambda e: QUANTIZED.accepts(e) or e == i32,
)


@irdl_op_definition
class QuantizeOp(GraphOp):
    """`input / scale`, rounded to nearest (halves to even), plus the zero point (0 if left out). ONNX QuantizeLinear.

    The quotient has the type of its operands; what follows is computed in f32 or wider. What an integer type can't
    hold becomes its nearest number, and NaN its lowest. For a float type the sum is rounded to that type's precision
    instead, as `graph.cast` does; `saturate` means the same as there.

    ```mlir
    %y = graph.quantize %x, %scale, %zero : (tensor<2x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x3xui8>
    %z = graph.quantize %x, %scale saturate : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf8E5M2>
    ```
    """

    name = "graph.quantize"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = opt_operand_def(TensorType)
    result = result_def(TensorType)
    saturate = opt_prop_def(UnitAttr)
    assembly_format = "operands (`saturate` $saturate^)? " + SIGNATURE

    def __init__(
        self,
        input: Operand,
        scale: Operand,
        zero_point: Operand | None,
        element_type: Attribute,
        *,
        saturate: bool = False,
    ):
        """Raises `VerifyException` if operands and element type don't fit."""
        super().__init__(
            operands=[input, scale, [] if zero_point is None else zero_point],
            result_types=[TensorType(element_type, shape_of(input))],
            properties={"saturate": unit_attr(saturate)},
        )
        self.verify_types()

    def verify_types(self) -> None:
        input, scale, *zero_point = (tensor_type(operand.type) for operand in self.operands)
        result = tensor_type(self.result.type)
        require_elements(FLOAT, input, "the input")
        require_same_elements(input, scale, "the scale")
        require_broadcast_to(input.get_shape(), scale, "the scale")
        require_elements(QUANTIZED, result, "the result")
        require_shape(input.get_shape(), result, "the result")
        for tensor in zero_point:
            require_same_elements(result, tensor, "the zero point")
            require_broadcast_to(input.get_shape(), tensor, "the zero point")
        if self.saturate is not None and not is_tiny_float(result.element_type):
            raise VerifyException(
                f"expected 'saturate' only to floats of 8 bits or fewer, found it to {result}"
            )


@irdl_op_definition
class DequantizeOp(InferredOp):
    """`(input - zero_point) * scale` in the type of the scale; the zero point is 0 if left out. ONNX DequantizeLinear.

    The difference is exact (of i32 it wraps); it and the product are computed in f32 for f16 and bf16, and rounded
    once.

    ```mlir
    %y = graph.dequantize %x, %scale, %zero : (tensor<2x3xi8>, tensor<3xf32>, tensor<3xi8>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.dequantize"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = opt_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "operands " + SIGNATURE

    def __init__(self, input: Operand, scale: Operand, zero_point: Operand | None = None):
        super().__init__([input, scale, zero_point])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, scale, *zero_point = operands
        require_elements(DEQUANTIZABLE, input, "the input")
        require_elements(FLOAT, scale, "the scale")
        require_broadcast_to(input.get_shape(), scale, "the scale")
        for tensor in zero_point:
            require_same_elements(input, tensor, "the zero point")
            require_broadcast_to(input.get_shape(), tensor, "the zero point")
        return (with_shape(scale, input.get_shape()),)
