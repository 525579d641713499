"""Elementwise operations: unary, binary with numpy's broadcasting, comparison, selection, clip and cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, UnitAttr, f64, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    BITS,
    BOOL,
    FLOAT,
    NUMERIC,
    SIGNATURE,
    SIGNED,
    Elements,
    F64Attr,
    GraphOp,
    InferredOp,
    Operand,
    Properties,
    SameShapeOp,
    Tensor,
    broadcast_shapes,
    is_float,
    require_elements,
    require_same_elements,
    require_shape,
    tensor_type,
    unit_attr,
    with_shape,
)


class UnaryOp(SameShapeOp):
    """Base of the unary elementwise operations: the result has the operand's type."""

    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(T)
    result = result_def(T)
    assembly_format = "$input attr-dict `:` type($input)"

    def __init__(self, input: Operand):
        super().__init__([input])


@irdl_op_definition
class ReluOp(UnaryOp):
    """`max(x, 0)`; NaN stays NaN. ONNX Relu.

    ```mlir
    %y = graph.relu %x : tensor<2x3xf32>
    ```
    """

    name = "graph.relu"
    ELEMENTS: ClassVar = SIGNED


@irdl_op_definition
class ErfOp(UnaryOp):
    """The error function `2/sqrt(pi) * integral of exp(-t^2) from 0 to x`. ONNX Erf.

    ```mlir
    %y = graph.erf %x : tensor<2x3xf32>
    ```
    """

    name = "graph.erf"


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent. ONNX Tanh.

    ```mlir
    %y = graph.tanh %x : tensor<2x3xf32>
    ```
    """

    name = "graph.tanh"


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """`1 / (1 + exp(-x))`. ONNX Sigmoid.

    ```mlir
    %y = graph.sigmoid %x : tensor<2x3xf32>
    ```
    """

    name = "graph.sigmoid"


@irdl_op_definition
class ExpOp(UnaryOp):
    """`e ** x`. ONNX Exp.

    ```mlir
    %y = graph.exp %x : tensor<2x3xf32>
    ```
    """

    name = "graph.exp"


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm; -inf at 0, NaN below. ONNX Log.

    ```mlir
    %y = graph.log %x : tensor<2x3xf32>
    ```
    """

    name = "graph.log"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root; NaN below 0. ONNX Sqrt.

    ```mlir
    %y = graph.sqrt %x : tensor<2x3xf32>
    ```
    """

    name = "graph.sqrt"


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """`1 / x`; an infinity of the right sign at 0. ONNX Reciprocal.

    ```mlir
    %y = graph.reciprocal %x : tensor<2x3xf32>
    ```
    """

    name = "graph.reciprocal"


@irdl_op_definition
class NegOp(UnaryOp):
    """`-x`; the smallest integer of a type is its own negative. ONNX Neg.

    ```mlir
    %y = graph.neg %x : tensor<2x3xf32>
    ```
    """

    name = "graph.neg"
    ELEMENTS: ClassVar = SIGNED


@irdl_op_definition
class AbsOp(UnaryOp):
    """The absolute value; the smallest signed integer of a type is its own. ONNX Abs.

    ```mlir
    %y = graph.abs %x : tensor<2x3xf32>
    ```
    """

    name = "graph.abs"
    ELEMENTS: ClassVar = NUMERIC


@irdl_op_definition
class FloorOp(UnaryOp):
    """The largest whole number that is not above `x`. ONNX Floor.

    ```mlir
    %y = graph.floor %x : tensor<2x3xf32>
    ```
    """

    name = "graph.floor"


@irdl_op_definition
class CeilOp(UnaryOp):
    """The smallest whole number that is not below `x`. ONNX Ceil.

    ```mlir
    %y = graph.ceil %x : tensor<2x3xf32>
    ```
    """

    name = "graph.ceil"


@irdl_op_definition
class RoundOp(UnaryOp):
    """The nearest whole number, halves to the even one. ONNX Round.

    ```mlir
    %y = graph.round %x : tensor<2x3xf32>
    ```
    """

    name = "graph.round"


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1 by the sign of `x`; NaN for NaN. ONNX Sign.

    ```mlir
    %y = graph.sign %x : tensor<2x3xf32>
    ```
    """

    name = "graph.sign"
    ELEMENTS: ClassVar = NUMERIC


@irdl_op_definition
class SinOp(UnaryOp):
    """The sine of an angle in radians. ONNX Sin.

    ```mlir
    %y = graph.sin %x : tensor<2x3xf32>
    ```
    """

    name = "graph.sin"


@irdl_op_definition
class CosOp(UnaryOp):
    """The cosine of an angle in radians. ONNX Cos.

    ```mlir
    %y = graph.cos %x : tensor<2x3xf32>
    ```
    """

    name = "graph.cos"


@irdl_op_definition
class NotOp(UnaryOp):
    """Logical not of i1, bitwise not of integers. ONNX Not and BitwiseNot.

    ```mlir
    %y = graph.not %x : tensor<2x3xi1>
    ```
    """

    name = "graph.not"
    ELEMENTS: ClassVar = BITS


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """`x * max(0, min(1, x/6 + 0.5))`. ONNX HardSwish.

    ```mlir
    %y = graph.hard_swish %x : tensor<2x3xf32>
    ```
    """

    name = "graph.hard_swish"


@irdl_op_definition
class GeluOp(UnaryOp):
    """The Gaussian error linear unit, exact (`approximate = "none"`) or by its tanh form. ONNX Gelu.

    none: `0.5 * x * (1 + erf(x / sqrt(2)))`; tanh: `0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))`.

    ```mlir
    %y = graph.gelu %x approximate = "tanh" : tensor<2x3xf32>
    ```
    """

    name = "graph.gelu"
    approximate = prop_def(StringAttr, default_value=StringAttr("none"))
    assembly_format = "$input (`approximate` `=` $approximate^)? attr-dict `:` type($input)"

    def __init__(self, input: Operand, approximate: str = "none"):
        InferredOp.__init__(self, [input], {"approximate": StringAttr(approximate)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        approximate = properties.get("approximate", StringAttr("none"))
        if approximate not in (StringAttr("none"), StringAttr("tanh")):
            raise VerifyException(f'expected approximate = "none" or "tanh", found {approximate}')
        return super().infer(operands, properties)


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """`x` where `x >= 0`, else `alpha * x`. ONNX LeakyRelu.

    ```mlir
    %y = graph.leaky_relu %x alpha = 1.000000e-02 : tensor<2x3xf32>
    ```
    """

    name = "graph.leaky_relu"
    alpha = prop_def(F64Attr)
    assembly_format = "$input `alpha` `=` $alpha attr-dict `:` type($input)"

    def __init__(self, input: Operand, alpha: float = 0.01):
        InferredOp.__init__(self, [input], {"alpha": FloatAttr(alpha, f64)})


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """`max(0, min(1, alpha * x + beta))`. ONNX HardSigmoid.

    ```mlir
    %y = graph.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<2x3xf32>
    ```
    """

    name = "graph.hard_sigmoid"
    alpha = prop_def(F64Attr)
    beta = prop_def(F64Attr)
    assembly_format = "$input `alpha` `=` $alpha `beta` `=` $beta attr-dict `:` type($input)"

    def __init__(self, input: Operand, alpha: float = 0.2, beta: float = 0.5):
        InferredOp.__init__(self, [input], {"alpha": FloatAttr(alpha, f64), "beta": FloatAttr(beta, f64)})


class PredicateOp(InferredOp):
    """Base of the unary operations that ask something of each element: i1 result of the operand's shape."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input " + SIGNATURE

    def __init__(self, input: Operand):
        super().__init__([input])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        require_elements(FLOAT, operands[0], "the operand")
        return (TensorType(i1, operands[0].get_shape()),)


@irdl_op_definition
class IsNanOp(PredicateOp):
    """Is the element NaN? ONNX IsNaN.

    ```mlir
    %y = graph.is_nan %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.is_nan"


@irdl_op_definition
class IsInfOp(PredicateOp):
    """Is the element an infinity, of either sign? ONNX IsInf with its default attributes.

    ```mlir
    %y = graph.is_inf %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
    ```
    """

    name = "graph.is_inf"


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

    Without `fmod` (integers only) it has the sign of the divisor, with `fmod` that of the dividend. An
    integer modulo 0 gives 0.

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

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        if is_float(operands[0].element_type) and "fmod" not in properties:
            raise VerifyException(f"expected 'fmod' for floating-point elements, found none on {operands[0]}")
        return super().infer(operands, properties)


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
    """The smaller element; NaN if either is NaN. ONNX Min.

    ```mlir
    %y = graph.min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.min"
    traits = traits_def(Commutative())


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger element; NaN if either is NaN. ONNX Max.

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

    Where lower is above upper the result is upper.

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


@irdl_op_definition
class CastOp(GraphOp):
    """The same values in another element type. ONNX Cast.

    Between floating-point types it rounds to nearest, halves to even. From floating point to integer it
    truncates toward zero; what is out of range becomes the nearest integer of the type, and NaN becomes 0
    (ONNX leaves both open). Between integers it wraps. To i1 it is `x != 0`; from i1 it gives 0 or 1.

    ```mlir
    %y = graph.cast %x : tensor<2x3xf32> to tensor<2x3xi32>
    ```
    """

    name = "graph.cast"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: Operand, element_type: Attribute):
        shape = tensor_type(SSAValue.get(input).type).get_shape()
        super().__init__(operands=[input], result_types=[TensorType(element_type, shape)])

    def verify_types(self) -> None:
        require_shape(tensor_type(self.input.type).get_shape(), tensor_type(self.result.type), "the result")
