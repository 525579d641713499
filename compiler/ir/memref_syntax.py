"""The upstream syntax of memref operations that xDSL knows in generic form only: `global`, `cast` and `copy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, get_args

from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    AnyDenseElement,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.memref import CastOp, CopyOp, GlobalOp
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser

if TYPE_CHECKING:
    from mlopt.ir.printer import MloptPrinter

_GLOBAL_PROPERTIES = ("sym_name", "sym_visibility", "type", "initial_value", "constant")


def _parse_global(parser: Parser) -> Operation:
    """Parse `memref.global "private" constant @name : type = dense<...> | uninitialized {alignment = ...}`."""
    visibility = parser.parse_optional_str_literal() or "public"
    constant = parser.parse_optional_keyword("constant") is not None
    name = parser.parse_symbol_name()
    parser.parse_punctuation(":")
    start = parser.pos
    type_ = parser.parse_type()
    if not _is_data_memref(type_):
        parser.raise_error("type of 'memref.global' must be a static shaped memref", start)
    parser.parse_punctuation("=", " (mlopt has no external globals)")
    initial: UnitAttr | DenseIntOrFPElementsAttr = UnitAttr()
    if parser.parse_optional_keyword("uninitialized") is None:
        parser.parse_keyword("dense", " or 'uninitialized' as the initial value")
        initial = parser.parse_dense_int_or_fp_elements_attr(
            TensorType(type_.element_type, type_.get_shape())
        )
    attributes = parser.parse_optional_attr_dict()
    alignment = attributes.pop("alignment", None)
    if not _is_integer_attribute(alignment):
        parser.raise_error("'alignment' must be an integer", start)
    op = GlobalOp.get(
        name, type_, initial, StringAttr(visibility), UnitAttr() if constant else None, alignment
    )
    op.attributes.update(attributes)
    return op


def _print_global(printer: MloptPrinter, op: Operation) -> None:
    assert isinstance(op, GlobalOp)
    if op.sym_visibility.data != "public":
        printer.print_string(" ")
        printer.print_string_literal(op.sym_visibility.data)
    printer.print_string(" constant " if op.constant is not None else " ")
    printer.print_symbol_name(op.sym_name)
    printer.print_string(" : ")
    printer.print_attribute(op.type)
    printer.print_string(" = ")
    if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
        printer.print_dense(op.initial_value)
    else:
        printer.print_string("uninitialized")
    properties = {key: value for key, value in op.properties.items() if key not in _GLOBAL_PROPERTIES}
    printer.print_op_attributes({**properties, **op.attributes})


def _is_data_memref(type_: Attribute) -> TypeIs[MemRefType[AnyDenseElement]]:
    """Whether a type is a memref whose elements constants can have."""
    if not isinstance(type_, MemRefType):
        return False
    return isinstance(cast("MemRefType", type_).element_type, get_args(AnyDenseElement))


def _is_integer_attribute(attribute: Attribute | None) -> TypeIs[IntegerAttr[IntegerType] | None]:
    if not isinstance(attribute, IntegerAttr):
        return attribute is None
    return isinstance(cast("IntegerAttr", attribute).type, IntegerType)


def _parse_cast(parser: Parser) -> Operation:
    """Parse `memref.cast %source : type to type`."""
    source = parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    source_type = parser.parse_type()
    parser.parse_keyword("to")
    result_type = parser.parse_type()
    return CastOp.create(
        operands=[parser.resolve_operand(source, source_type)],
        result_types=[result_type],
        attributes=attributes,
    )


def _print_cast(printer: MloptPrinter, op: Operation) -> None:
    printer.print_string(" ")
    printer.print_operand(op.operands[0])
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
    printer.print_string(" to ")
    printer.print_attribute(op.results[0].type)


def _parse_copy(parser: Parser) -> Operation:
    """Parse `memref.copy %source, %destination : type to type`."""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    destination = parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    source_type = parser.parse_type()
    parser.parse_keyword("to")
    destination_type = parser.parse_type()
    operands = [
        parser.resolve_operand(source, source_type),
        parser.resolve_operand(destination, destination_type),
    ]
    return CopyOp.create(operands=operands, attributes=attributes)


def _print_copy(printer: MloptPrinter, op: Operation) -> None:
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_operand)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
    printer.print_string(" to ")
    printer.print_attribute(op.operands[1].type)


PARSERS: dict[type[Operation], Callable[[Parser], Operation]] = {
    GlobalOp: _parse_global,
    CastOp: _parse_cast,
    CopyOp: _parse_copy,
}
"""Operation → parser of what follows its name."""

PRINTERS: dict[type[Operation], Callable[[MloptPrinter, Operation], None]] = {
    GlobalOp: _print_global,
    CastOp: _print_cast,
    CopyOp: _print_copy,
}
"""Operation → printer of what follows its name."""
