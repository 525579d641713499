"""Parsing and printing what the structured ops share: bounds, accessed operands, `ins(...)` and `outs(...)` lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import AffineMapAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from mlopt.dialects.kernel.access import Access, LinearExpr

NO_PAD = UnitAttr()
"""Stands in `pads` for an operand whose reads are all in bounds."""


class AccessedOperands(NamedTuple):
    """A parsed `ins(...)` or `outs(...)` list of a structured op."""

    values: tuple[SSAValue, ...]
    maps: tuple[AffineMapAttr, ...]
    pads: tuple[Attribute, ...]


def parse_bounds(parser: Parser) -> dict[str, int]:
    """`bounds [m = 77, n = 256]`: dimension name → extent, in order."""
    parser.parse_keyword("bounds")
    bounds: dict[str, int] = {}

    def dimension() -> None:
        position = parser.pos
        name = parser.parse_identifier()
        if name in bounds:
            parser.raise_error(f"dimension '{name}' is named twice", position, parser.pos)
        parser.parse_punctuation("=")
        bounds[name] = parser.parse_integer(allow_boolean=False)

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, dimension)
    return bounds


def print_bounds(printer: Printer, names: Sequence[str], bounds: Sequence[int]) -> None:
    """The inverse of `parse_bounds`."""
    printer.print_string(" bounds [")
    printer.print_string(", ".join(f"{name} = {bound}" for name, bound in zip(names, bounds, strict=True)))
    printer.print_string("]")


def _parse_linear(parser: Parser, names: dict[str, int]) -> LinearExpr:
    """A sum of `c * dim`, `dim * c`, `dim` and `c`."""
    coefficients = [0] * len(names)
    constant = 0
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    while True:
        factor = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        if factor is None or parser.parse_optional_punctuation("*"):
            position = parser.pos
            name = parser.parse_identifier()
            if name not in names:
                parser.raise_error(f"'{name}' is not a dimension of the bounds", position, parser.pos)
            if factor is None:
                factor = 1
                if parser.parse_optional_punctuation("*"):
                    factor = parser.parse_integer(allow_boolean=False, allow_negative=False)
            coefficients[names[name]] += sign * factor
        else:
            constant += sign * factor
        if parser.parse_optional_punctuation("+"):
            sign = -1 if parser.parse_optional_punctuation("-") else 1
        elif parser.parse_optional_punctuation("-"):
            sign = -1
        else:
            return LinearExpr(tuple(coefficients), constant)


def parse_accessed_operands(parser: Parser, keyword: str, bounds: dict[str, int]) -> AccessedOperands:
    """`ins(%x[m, k] pad 0.0 : f32, %w[k, n] : tensor<...>, tensor<...>)`; an absent list is empty."""
    if parser.parse_optional_keyword(keyword) is None:
        return AccessedOperands((), (), ())
    names = {name: position for position, name in enumerate(bounds)}
    unresolved: list[UnresolvedOperand] = []
    maps: list[AffineMapAttr] = []
    pads: list[Attribute] = []

    def operand() -> None:
        unresolved.append(parser.parse_unresolved_operand())
        rows = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _parse_linear(parser, names)
        )
        maps.append(AffineMapAttr(Access(len(names), tuple(rows)).to_map()))
        pads.append(parser.parse_attribute() if parser.parse_optional_keyword("pad") else NO_PAD)

    parser.parse_punctuation("(")
    position = parser.pos
    parser.parse_comma_separated_list(parser.Delimiter.NONE, operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    values = parser.resolve_operands(unresolved, types, position)
    return AccessedOperands(tuple(values), tuple(maps), tuple(pads))


def print_accessed_operands(
    printer: Printer,
    keyword: str,
    values: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    pads: Sequence[Attribute],
    names: Sequence[str],
) -> None:
    """The inverse of `parse_accessed_operands`; prints nothing for no operands."""
    if not values:
        return
    printer.print_string(f" {keyword}(")
    for i, (value, map, pad) in enumerate(zip(values, maps, pads, strict=True)):
        if i:
            printer.print_string(", ")
        printer.print_ssa_value(value)
        access = Access.from_map(map)
        rows = (row.text(names) for row in access.rows) if access else (str(expr) for expr in map.results)
        printer.print_string("[" + ", ".join(rows) + "]")
        if pad != NO_PAD:
            printer.print_string(" pad ")
            printer.print_attribute(pad)
    printer.print_string(" : ")
    printer.print_list([value.type for value in values], printer.print_attribute)
    printer.print_string(")")


def parse_operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """`ins(%a, %b : t, t)`; an absent list is empty."""
    if parser.parse_optional_keyword(keyword) is None:
        return ()
    parser.parse_punctuation("(")
    position = parser.pos
    unresolved = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return parser.resolve_operands(unresolved, types, position)


def print_operands(printer: Printer, keyword: str, values: Sequence[SSAValue]) -> None:
    """The inverse of `parse_operands`; prints nothing for no operands."""
    if not values:
        return
    printer.print_string(f" {keyword}(")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list([value.type for value in values], printer.print_attribute)
    printer.print_string(")")


def parse_optional_result_types(parser: Parser) -> Sequence[Attribute]:
    """`-> t, u`, or nothing."""
    if parser.parse_optional_punctuation("->") is None:
        return ()
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
