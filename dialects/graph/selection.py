"""Elementwise operations of other forms: selection, clip, cast and bitcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, IntegerType, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    BOOL,
    CASTABLE,
    NUMERIC,
    SIGNATURE,
    GraphOp,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    broadcast_shapes,
    is_scale_float,
    is_tiny_float,
    require_elements,
    require_same_elements,
    require_shape,
    tensor_type,
    unit_attr,
    with_shape,
)


@irdl_op_definition
class WhereOp(InferredOp):
    """`true_value` where the condition holds, else `false_value`; all three broadcast. ONNX Where.

    ```mlir
    %y = graph.where %c, %a, %b : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.where"
    condition = operand_def(TensorType)
    true_value = operand_def(TensorType)
    false_value = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$condition `,` $true_value `,` $false_value {SIGNATURE}"

    def __init__(self, condition: Operand, true_value: Operand, false_value: Operand):
        super().__init__([condition, true_value, false_value])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        condition, true_value, false_value = operands
        require_elements(BOOL, condition, "the condition")
        require_same_elements(true_value, false_value, "the false value")
        return (with_shape(true_value, broadcast_shapes(*(operand.get_shape() for operand in operands))),)


@irdl_op_definition
class ClipOp(InferredOp):
    """`min(max(x, lower), upper)` with rank-0 bounds that may be left out; NaN stays NaN. ONNX Clip.

    Where lower is above upper the result is upper. A bound that is left out bounds nothing: an infinity stays (in ONNX
    it is the lowest or largest finite number).

    ```mlir
    %y = graph.clip %x min(%lo : tensor<f32>) max(%hi : tensor<f32>) : tensor<2x3xf32>
    ```
    """

    name = "graph.clip"
    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(T)
    lower = opt_operand_def(TensorType)
    upper = opt_operand_def(TensorType)
    result = result_def(T)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$input (`min` `(` $lower^ `:` type($lower) `)`)? (`max` `(` $upper^ `:` type($upper) `)`)? "
        "attr-dict `:` type($input)"
    )

    def __init__(self, input: Operand, lower: Operand | None = None, upper: Operand | None = None):
        super().__init__([input, lower, upper])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, *bounds = operands
        require_elements(NUMERIC, input, "the operand")
        for bound in bounds:
            require_same_elements(input, bound, "a bound")
            require_shape((), bound, "a bound")
        return (input,)


ROUND_MODES = ("up", "down", "nearest")
"""How a number becomes a power of two."""


@irdl_op_definition
class CastOp(GraphOp):
    """The same values in another element type. ONNX Cast.

    Between floating-point types it rounds to nearest, halves to even. From floating point to integer it
    truncates toward zero; what is out of range becomes the nearest integer of the type, and NaN becomes 0
    (ONNX leaves both open). Between integers it wraps; an integer of 4 or 2 bits has the low bits of what is i32
    otherwise, also from floating point. To i1 it is `x != 0`; from i1 it gives 0 or 1.

    A number that a floating-point type of 8 bits or fewer can't hold becomes its infinity, or NaN if it has none (or
    the largest number if it has neither); with `saturate` it becomes the largest number, as an infinity does.

    To f8E8M0FNU, whose numbers are powers of two, `round_mode` says how: "up", "down", or "nearest" with ties up. What
    is out of range then becomes NaN, or with `saturate` the nearest number of the type, as an infinity and 0 do;
    negative numbers become NaN (ONNX leaves them open).

    ```mlir
    %y = graph.cast %x : tensor<2x3xf32> to tensor<2x3xi32>
    %z = graph.cast %x saturate : tensor<2x3xf32> to tensor<2x3xf8E4M3FN>
    %s = graph.cast %x saturate round_mode = "up" : tensor<2x3xf32> to tensor<2x3xf8E8M0FNU>
    ```
    """

    name = "graph.cast"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    saturate = opt_prop_def(UnitAttr)
    round_mode = opt_prop_def(StringAttr)
    assembly_format = (
        "$input (`saturate` $saturate^)? (`round_mode` `=` $round_mode^)? attr-dict "
        "`:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: Operand,
        element_type: Attribute,
        *,
        saturate: bool = False,
        round_mode: str | None = None,
    ):
        """`round_mode` is for f8E8M0FNU, by default "up". Raises `VerifyException` for types that don't fit."""
        if round_mode is None and is_scale_float(element_type):
            round_mode = "up"
        shape = tensor_type(SSAValue.get(input).type).get_shape()
        super().__init__(
            operands=[input],
            result_types=[TensorType(element_type, shape)],
            properties={
                "saturate": unit_attr(saturate),
                "round_mode": None if round_mode is None else StringAttr(round_mode),
            },
        )
        self.verify_types()

    def verify_types(self) -> None:
        input, result = tensor_type(self.input.type), tensor_type(self.result.type)
        require_elements(CASTABLE, input, "the operand")
        require_elements(CASTABLE, result, "the result")
        require_shape(input.get_shape(), result, "the result")
        if self.saturate is not None and not is_tiny_float(result.element_type):
            raise VerifyException(
                f"expected 'saturate' only to floats of 8 bits or fewer, found it to {result}"
            )
        mode = None if self.round_mode is None else self.round_mode.data
        if is_scale_float(result.element_type):
            if mode not in ROUND_MODES:
                found = "none" if mode is None else f'"{mode}"'
                raise VerifyException(
                    f'expected a round_mode to {result}, "up", "down" or "nearest", found {found}'
                )
        elif mode is not None:
            raise VerifyException(f"expected a round_mode only to f8E8M0FNU, found it to {result}")


@irdl_op_definition
class BitcastOp(GraphOp):
    """The same bits read as numbers of another type of that width, which is not i1. ONNX BitCast.

    ```mlir
    %y = graph.bitcast %x : tensor<2x3xf32> to tensor<2x3xi32>
    ```
    """

    name = "graph.bitcast"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: Operand, element_type: Attribute):
        shape = tensor_type(SSAValue.get(input).type).get_shape()
        super().__init__(operands=[input], result_types=[TensorType(element_type, shape)])

    def verify_types(self) -> None:
        input, result = tensor_type(self.input.type), tensor_type(self.result.type)
        require_shape(input.get_shape(), result, "the result")
        widths = [_width(type.element_type) for type in (input, result)]
        if widths[0] is None or widths[0] != widths[1]:
            raise VerifyException(f"expected numbers of one width, found {input} and {result}")


def _width(element: Attribute) -> int | None:
    """The bits of a number; None for what is no number of whole bytes."""
    if isinstance(element, IntegerType | AnyFloat) and element.bitwidth % 8 == 0:
        return element.bitwidth
    return None
