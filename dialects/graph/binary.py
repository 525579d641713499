"""Binary elementwise operations and comparisons, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr, i1
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative

from mlopt.dialects.graph.base import (
    BITS,
    BOOL,
    INTEGER,
    NUMERIC,
    SIGNATURE,
    Elements,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    broadcast_shapes,
    require_elements,
    require_same_elements,
    unit_attr,
    with_shape,
)


class BinaryOp(InferredOp):
    """Base of the binary elementwise operations: equal element types, shapes broadcast as numpy does."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs " + SIGNATURE

    ELEMENTS: ClassVar[Elements] = NUMERIC

    def __init__(self, lhs: Operand, rhs: Operand):
        super().__init__([lhs, rhs])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        lhs, rhs = operands
        require_elements(cls.ELEMENTS, lhs, "the left operand")
        require_same_elements(lhs, rhs, "the right operand")
        return (with_shape(lhs, broadcast_shapes(lhs.get_shape(), rhs.get_shape())),)


@irdl_op_definition
class AddOp(BinaryOp):
    """`lhs + rhs`; integers wrap. ONNX Add and Sum.

    ```mlir
    %y = graph.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.add"
    traits = traits_def(Commutative())


@irdl_op_definition
class SubOp(BinaryOp):
    """`lhs - rhs`; integers wrap. ONNX Sub.

    ```mlir
    %y = graph.sub %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """`lhs * rhs`; integers wrap. ONNX Mul.

    ```mlir
    %y = graph.mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.mul"
    traits = traits_def(Commutative())


@irdl_op_definition
class DivOp(BinaryOp):
    """`lhs / rhs`. ONNX Div.

    Integers are divided toward zero. An integer divided by 0 gives 0; the smallest signed integer divided by
    -1 wraps to itself.

    ```mlir
    %y = graph.div %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.div"


@irdl_op_definition
class ModOp(BinaryOp):
    """The remainder of a division. ONNX Mod.

    Without `fmod` it has the sign of the divisor, as Python's `%`, with `fmod` that of the dividend, as C's; a
    remainder of 0.0 has that sign too. A number modulo 0 gives 0 for integers and NaN for floats.

    ```mlir
    %y = graph.mod %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
    %z = graph.mod %c, %d fmod : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "graph.mod"
    fmod = opt_prop_def(UnitAttr)
    assembly_format = "$lhs `,` $rhs (`fmod` $fmod^)? " + SIGNATURE

    def __init__(self, lhs: Operand, rhs: Operand, *, fmod: bool = False):
        InferredOp.__init__(self, [lhs, rhs], {"fmod": unit_attr(fmod)})


@irdl_op_definition
class PowOp(BinaryOp):
    """`lhs ** rhs`. ONNX Pow, after casting the exponent to the type of the base.

    Integers wrap; a negative integer exponent gives the true result truncated toward zero, and 0 for base 0.

    ```mlir
    %y = graph.pow %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.pow"


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller element; NaN if either is NaN, either of two zeros of different signs. ONNX Min.

    ```mlir
    %y = graph.min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.min"
    traits = traits_def(Commutative())


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger element; NaN if either is NaN, either of two zeros of different signs. ONNX Max.

    ```mlir
    %y = graph.max %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.max"
    traits = traits_def(Commutative())


@irdl_op_definition
class AndOp(BinaryOp):
    """Logical and of i1, bitwise and of integers. ONNX And and BitwiseAnd.

    ```mlir
    %y = graph.and %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.and"
    ELEMENTS: ClassVar = BITS
    traits = traits_def(Commutative())


@irdl_op_definition
class OrOp(BinaryOp):
    """Logical or of i1, bitwise or of integers. ONNX Or and BitwiseOr.

    ```mlir
    %y = graph.or %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.or"
    ELEMENTS: ClassVar = BITS
    traits = traits_def(Commutative())


@irdl_op_definition
class XorOp(BinaryOp):
    """Logical exclusive or of i1, bitwise of integers. ONNX Xor and BitwiseXor.

    ```mlir
    %y = graph.xor %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.xor"
    ELEMENTS: ClassVar = BITS
    traits = traits_def(Commutative())


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """The bits of `lhs` moved up by `rhs`, and 0 below. ONNX BitShift with direction LEFT.

    A shift that is negative or the width or more leaves 0.

    ```mlir
    %y = graph.shift_left %a, %b : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
    ```
    """

    name = "graph.shift_left"
    ELEMENTS: ClassVar = INTEGER


@irdl_op_definition
class ShiftRightOp(BinaryOp):
    """The bits of `lhs` moved down by `rhs`, and 0 above, or the sign for signed integers.

    ONNX BitShift with direction RIGHT. A shift that is negative or the width or more leaves only what comes in from
    above.

    ```mlir
    %y = graph.shift_right %a, %b : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
    ```
    """

    name = "graph.shift_right"
    ELEMENTS: ClassVar = INTEGER


class ComparisonOp(BinaryOp):
    """Base of the comparisons: i1 result; a comparison with NaN is false."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (common,) = super().infer(operands, properties)
        return (TensorType(i1, common.get_shape()),)


@irdl_op_definition
class EqualOp(ComparisonOp):
    """`lhs == rhs`. ONNX Equal.

    ```mlir
    %y = graph.equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.equal"
    ELEMENTS: ClassVar = Elements(
        "floating-point, integer or i1 elements", lambda e: NUMERIC.accepts(e) or BOOL.accepts(e)
    )
    traits = traits_def(Commutative())


@irdl_op_definition
class LessOp(ComparisonOp):
    """`lhs < rhs`. ONNX Less.

    ```mlir
    %y = graph.less %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.less"


@irdl_op_definition
class LessEqualOp(ComparisonOp):
    """`lhs <= rhs`. ONNX LessOrEqual.

    ```mlir
    %y = graph.less_equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.less_equal"


@irdl_op_definition
class GreaterOp(ComparisonOp):
    """`lhs > rhs`. ONNX Greater.

    ```mlir
    %y = graph.greater %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.greater"


@irdl_op_definition
class GreaterEqualOp(ComparisonOp):
    """`lhs >= rhs`. ONNX GreaterOrEqual.

    ```mlir
    %y = graph.greater_equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.greater_equal"
