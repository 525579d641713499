"""Unary elementwise operations, and the predicates on single elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, f64, i1
from xdsl.irdl import (
    BaseAttr,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    BITS,
    FLOAT,
    NUMERIC,
    SIGNATURE,
    SIGNED,
    Elements,
    F64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    require_elements,
)


class UnaryOp(InferredOp):
    """Base of the unary elementwise operations: the result has the operand's type; `ELEMENTS` is what they accept."""

    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(T)
    result = result_def(T)
    assembly_format = "$input attr-dict `:` type($input)"

    ELEMENTS: ClassVar[Elements] = FLOAT

    def __init__(self, input: Operand):
        super().__init__([input])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        require_elements(cls.ELEMENTS, operands[0], "the operand")
        return (operands[0],)


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
class AcosOp(UnaryOp):
    """The arc cosine in radians; NaN outside of [-1, 1]. ONNX Acos.

    ```mlir
    %y = graph.acos %x : tensor<2x3xf32>
    ```
    """

    name = "graph.acos"


@irdl_op_definition
class AcoshOp(UnaryOp):
    """The inverse hyperbolic cosine; NaN below 1. ONNX Acosh.

    ```mlir
    %y = graph.acosh %x : tensor<2x3xf32>
    ```
    """

    name = "graph.acosh"


@irdl_op_definition
class AsinOp(UnaryOp):
    """The arc sine in radians; NaN outside of [-1, 1]. ONNX Asin.

    ```mlir
    %y = graph.asin %x : tensor<2x3xf32>
    ```
    """

    name = "graph.asin"


@irdl_op_definition
class AsinhOp(UnaryOp):
    """The inverse hyperbolic sine. ONNX Asinh.

    ```mlir
    %y = graph.asinh %x : tensor<2x3xf32>
    ```
    """

    name = "graph.asinh"


@irdl_op_definition
class AtanOp(UnaryOp):
    """The arc tangent in radians. ONNX Atan.

    ```mlir
    %y = graph.atan %x : tensor<2x3xf32>
    ```
    """

    name = "graph.atan"


@irdl_op_definition
class AtanhOp(UnaryOp):
    """The inverse hyperbolic tangent; an infinity at -1 and 1, NaN beyond. ONNX Atanh.

    ```mlir
    %y = graph.atanh %x : tensor<2x3xf32>
    ```
    """

    name = "graph.atanh"


@irdl_op_definition
class CoshOp(UnaryOp):
    """The hyperbolic cosine. ONNX Cosh.

    ```mlir
    %y = graph.cosh %x : tensor<2x3xf32>
    ```
    """

    name = "graph.cosh"


@irdl_op_definition
class SinhOp(UnaryOp):
    """The hyperbolic sine. ONNX Sinh.

    ```mlir
    %y = graph.sinh %x : tensor<2x3xf32>
    ```
    """

    name = "graph.sinh"


@irdl_op_definition
class TanOp(UnaryOp):
    """The tangent of an angle in radians. ONNX Tan.

    ```mlir
    %y = graph.tan %x : tensor<2x3xf32>
    ```
    """

    name = "graph.tan"


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
    """`x * max(0, min(1, x/6 + 0.5))`, computed as `x * (min(max(x + 3, 0), 6) / 6)`: exact at -3. ONNX HardSwish.

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
class SwishOp(UnaryOp):
    """`x * sigmoid(alpha * x)`, computed as `x / (1 + exp(-alpha * x))`. ONNX Swish.

    f16 and bf16 are computed in f32 and rounded once. NaN for an infinite `x` with a sigmoid of 0.

    ```mlir
    %y = graph.swish %x alpha = 1.000000e+00 : tensor<2x3xf32>
    ```
    """

    name = "graph.swish"
    alpha = prop_def(F64Attr)
    assembly_format = "$input `alpha` `=` $alpha attr-dict `:` type($input)"

    def __init__(self, input: Operand, alpha: float = 1.0):
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
