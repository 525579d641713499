"""Operations without data operands: constants, ranges, and the shape of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseResourceAttr, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.irdl.operations import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    NUMERIC,
    SIGNATURE,
    GraphOp,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    dense_attr,
    get_int,
    int_attr,
    number_type,
    rank_of,
    require_elements,
    require_result,
    tensor_type,
)
from mlopt.dialects.mlopt import WeightAttr


@irdl_custom_directive
class TypedValue(CustomDirective):
    """A constant's value and its type: `dense<...> : type`, or `#mlopt.weight<...> : type`.

    A dense attribute, or one whose data stand elsewhere, prints its type itself.
    """

    value: AttributeVariable
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        value = parser.parse_attribute()
        self.value.set(state, value)
        if (dense := dense_attr(value)) is not None:
            self.result.set(state, (dense.type,))
        elif isinstance(value, DenseResourceAttr):
            self.result.set(state, (value.type,))
        else:
            parser.parse_punctuation(":")
            self.result.set(state, (parser.parse_type(),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        value = self.value.get(op)
        assert value is not None
        printer.print_attribute(value)
        if dense_attr(value) is None and not isinstance(value, DenseResourceAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.result.get(op)[0])


@irdl_op_definition
class ConstantOp(GraphOp):
    """A constant tensor: its elements, or a name into the weight store. ONNX Constant and initializers.

    ```mlir
    %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %w = graph.constant #mlopt.weight<"fc1.weight"> : tensor<256x128xf32>
    ```
    """

    name = "graph.constant"
    value = prop_def(Attribute)
    result = result_def(TensorType)
    traits = traits_def(ConstantLike())
    custom_directives = (TypedValue,)
    assembly_format = "attr-dict custom<TypedValue>($value, type($result))"

    def __init__(self, value: Attribute, result_type: Tensor | None = None):
        """`result_type` may be left out for dense values, which know their own."""
        if result_type is None and (dense := dense_attr(value)) is not None:
            result_type = tensor_type(dense.type)
        if result_type is None:
            raise VerifyException("expected a result type for a value that has none of its own")
        super().__init__(properties={"value": value}, result_types=[result_type])

    def verify_types(self) -> None:
        result = tensor_type(self.result.type)
        if (dense := dense_attr(self.value)) is not None:
            require_result(tensor_type(dense.type), result)
            if len(dense) != prod(result.get_shape()):
                raise VerifyException(f"expected {prod(result.get_shape())} elements, found {len(dense)}")
        elif isinstance(self.value, DenseResourceAttr):
            raise VerifyException(
                f"the text has no data for dense_resource<{self.value.resource_handle.data}>: "
                "print it without --mlir-elide-elementsattrs-if-larger"
            )
        elif not isinstance(self.value, WeightAttr):
            raise VerifyException(f'expected dense<...> or #mlopt.weight<"...">, found {self.value}')


@irdl_op_definition
class RangeOp(InferredOp):
    """The numbers `start + i * delta` for `i` from 0 to `length - 1`. ONNX Range, its length decided.

    `start` and `delta` are attributes of the element type.

    ```mlir
    %r = graph.range start = 0 : i64 delta = 1 : i64 length = 16 : tensor<16xi64>
    ```
    """

    name = "graph.range"
    start = prop_def(Attribute)
    delta = prop_def(Attribute)
    length = prop_def(I64Attr)
    result = result_def(TensorType)
    assembly_format = "`start` `=` $start `delta` `=` $delta `length` `=` $length attr-dict `:` type($result)"

    def __init__(self, start: Attribute, delta: Attribute, length: int):
        super().__init__([], {"start": start, "delta": delta, "length": int_attr(length)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        start, delta = number_type(properties["start"]), number_type(properties["delta"])
        length = get_int(properties, "length")
        if start != delta:
            raise VerifyException(f"expected delta of the type of start, {start}, found {delta}")
        if length < 0:
            raise VerifyException(f"expected a length of 0 or more, found {length}")
        result = TensorType(start, [length])
        require_elements(NUMERIC, result, "the result")
        return (result,)


@irdl_op_definition
class ShapeOp(InferredOp):
    """The dimensions `start` to `end - 1` of a tensor's shape, as i64. ONNX Shape.

    Shapes are static, so this always folds to a constant.

    ```mlir
    %s = graph.shape %x start = 0 end = 2 : (tensor<2x3x4xf32>) -> tensor<2xi64>
    ```
    """

    name = "graph.shape"
    input = operand_def(TensorType)
    start = opt_prop_def(I64Attr)
    end = opt_prop_def(I64Attr)
    result = result_def(TensorType)
    assembly_format = "$input (`start` `=` $start^)? (`end` `=` $end^)? " + SIGNATURE

    def __init__(self, input: Operand, start: int = 0, end: int | None = None):
        """Negative numbers count from the end and what is out of range is clamped, as ONNX says."""
        rank = rank_of(input)
        first, last, _ = slice(start, end).indices(rank)
        whole = (first, last) == (0, rank)
        super().__init__(
            [input],
            {
                "start": None if whole else int_attr(first),
                "end": None if whole else int_attr(max(first, last)),
            },
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        rank = len(operands[0].get_shape())
        start, end = get_int(properties, "start"), get_int(properties, "end", rank)
        if not 0 <= start <= end <= rank:
            raise VerifyException(f"expected 0 <= start <= end <= {rank}, found start {start} and end {end}")
        return (TensorType(i64, [end - start]),)

    def dimensions(self) -> tuple[int, ...]:
        """The value of the result."""
        shape = tensor_type(self.input.type).get_shape()
        return shape[get_int(self.properties, "start") : get_int(self.properties, "end", len(shape))]
