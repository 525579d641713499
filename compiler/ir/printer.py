"""The printer: xDSL's, with bit-exact constants that MLIR reads too, elision, and unique names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from io import StringIO
from typing import IO

from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.printer import Printer

from mlopt.ir import dense, memref_syntax

_PLAIN_LITERAL = re.compile(rb"[ !#-\[\]-~]*")
"""Bytes that stand for themselves in a string literal: printable ASCII without quotes and backslashes."""

_HEX_IF_LARGER = 100
"""A list of more elements prints as one hexadecimal string, as in MLIR."""


def print_module(
    module: ModuleOp, *, elide_larger_than: int | None = None, debuginfo: bool = False, generic: bool = False
) -> str:
    """The text of a module, with a newline at its end; `parse_module` reads it back to the same bits.

    `elide_larger_than`: constants with more elements print as `dense_resource<__elided__>`, as in MLIR; such a text
    can be read, but its data are gone. `debuginfo`: print locations. `generic`: no custom syntax.
    """
    return print_op(module, elide_larger_than=elide_larger_than, debuginfo=debuginfo, generic=generic)


def print_op(
    op: Operation, *, elide_larger_than: int | None = None, debuginfo: bool = False, generic: bool = False
) -> str:
    """The text of one operation and all that is in it, as `print_module` prints a module."""
    stream = StringIO()
    printer = MloptPrinter(stream, elide_larger_than=elide_larger_than, debuginfo=debuginfo, generic=generic)
    printer.print_op(op)
    stream.write("\n")
    return stream.getvalue()


class MloptPrinter(Printer):
    """xDSL's printer with bit-exact constants, elision of large ones, and names that never collide."""

    def __init__(
        self,
        stream: IO[str],
        *,
        elide_larger_than: int | None = None,
        debuginfo: bool = False,
        generic: bool = False,
    ):
        super().__init__(stream, print_generic_format=generic, print_debuginfo=debuginfo)
        self.elide_larger_than = elide_larger_than
        self._texts: dict[Attribute, str] = {}
        self._used_names: set[str] = set()
        self._next_suffix: dict[str, int] = {}
        self._scopes: list[tuple[list[str], dict[str, int]]] = [([], {})]

    # -- Names

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print the name of a value; the first time, give it one: its hint made unique, or a number."""
        name = self._ssa_values.get(value)
        if name is None:
            name = self._unique_name(value.name_hint) if value.name_hint else self._get_new_valid_name_id()
            self._ssa_values[value] = name
        self.print_string(f"%{name}")
        return name

    def _unique_name(self, hint: str) -> str:
        names, suffixes = self._scopes[-1]
        name = hint
        if name in self._used_names:
            suffixes.setdefault(hint, self._next_suffix.get(hint, 1))
            number = self._next_suffix.get(hint, 1)
            while (name := f"{hint}_{number}") in self._used_names:
                number += 1
            self._next_suffix[hint] = number + 1
        self._used_names.add(name)
        names.append(name)
        return name

    def enter_scope(self) -> None:
        """Begin an isolated region: names given in it may be given again after it."""
        super().enter_scope()
        self._scopes.append(([], {}))

    def exit_scope(self) -> None:
        """End an isolated region."""
        super().exit_scope()
        names, suffixes = self._scopes.pop()
        self._used_names.difference_update(names)
        self._next_suffix.update(suffixes)

    # -- Operations

    def print_op(self, op: Operation) -> None:
        """Print an operation, in upstream syntax also where xDSL knows only the generic one."""
        custom = None if self.print_generic_format else memref_syntax.PRINTERS.get(type(op))
        if custom is None:
            super().print_op(op)
            return
        self._print_results(op)
        self.print_string(op.name)
        custom(self, op)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(op.location)

    # -- Text

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print text, after a newline with the indentation; the common case first, for there are many pieces."""
        if "\n" in text:
            super().print_content(text, indent=indent)
        else:
            self._current_column += len(text)
            self.stream.write(text)

    print_content = print_string

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """Print bytes as a string in quotes, at once if nothing in them has to be escaped."""
        if _PLAIN_LITERAL.fullmatch(bytestring):
            self.print_string(f'"{bytestring.decode("ascii")}"')
        else:
            super().print_bytes_literal(bytestring)

    # -- Attributes

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute or type; constants bit for bit, or elided."""
        if _has_many_equal(type(attribute)) and not self.printing_location:
            self._print_once(attribute)
        elif dense.is_dense(attribute):
            self.print_dense(attribute)
            self.print_string(" : ")
            self.print_attribute(attribute.type)
        elif _is_dense_array(attribute):
            self._print_dense_array(attribute)
        else:
            super().print_attribute(attribute)

    def _print_once(self, attribute: Attribute) -> None:
        """Print an attribute of which there are many equal ones, from the text that it had the first time.

        Not for a part of a location, which has another text than the same location by itself.
        """
        text = self._texts.get(attribute)
        if text is not None:
            self.print_string(text)
            return
        stream, self.stream = self.stream, StringIO()
        super().print_attribute(attribute)
        text = self._texts[attribute] = self.stream.getvalue()
        self.stream = stream
        stream.write(text)

    def print_dense(self, attribute: DenseIntOrFPElementsAttr) -> None:
        """Print a dense constant without its type."""
        element_type = attribute.type.element_type
        data = attribute.data.data
        size = dense.element_bytes(element_type)
        count = len(data) // size
        if (
            self.elide_larger_than is not None
            and count > self.elide_larger_than
            and not dense.is_splat(data, size)
        ):
            self.print_string("dense_resource<__elided__>")
            return
        self.print_string("dense<")
        if count == 0:
            pass
        elif dense.is_splat(data, size):
            self.print_string(self._element(data[:size], element_type))
        elif count > _HEX_IF_LARGER:
            self.print_string(f'"{dense.pack_hex(data, element_type)}"')
        else:
            elements = [self._element(data[i : i + size], element_type) for i in range(0, len(data), size)]
            self.print_string(_nested(elements, attribute.type.get_shape()))
        self.print_string(">")

    def print_float(self, value: float, type: AnyFloat) -> None:
        """Print a float literal of a type: decimal if that is exact, else the bit pattern."""
        if dense.float_dtype(type) is None:
            super().print_float(value, type)
        else:
            self.print_string(dense.float_text(type.pack((value,)), type))

    def _print_dense_array(self, attribute: DenseArrayBase) -> None:
        element_type = attribute.elt_type
        data = attribute.data.data
        size = dense.element_bytes(element_type)
        self.print_string("array<")
        self.print_attribute(element_type)
        if data:
            elements = (self._element(data[i : i + size], element_type) for i in range(0, len(data), size))
            self.print_string(": " + ", ".join(elements))
        self.print_string(">")

    def _element(self, stored: bytes, element_type: Attribute) -> str:
        if dense.is_complex(element_type):
            half = len(stored) // 2
            inner = element_type.element_type
            return f"({self._element(stored[:half], inner)},{self._element(stored[half:], inner)})"
        if not dense.is_integer(element_type):
            return dense.float_text(stored, element_type)
        value = dense.integers(stored, element_type)[0]
        if dense.is_i1(element_type):
            return "true" if value else "false"
        return str(value)


@cache
def _has_many_equal(kind: type[Attribute]) -> bool:
    """Whether a module has many equal attributes of this kind: types and locations."""
    return issubclass(kind, TypeAttribute | LocationAttr)


def _is_dense_array(attribute: Attribute) -> TypeIs[DenseArrayBase]:
    return isinstance(attribute, DenseArrayBase)


def _nested(elements: list[str], shape: Sequence[int]) -> str:
    """The elements as nested lists of that shape, in row-major order."""
    if not shape:
        return elements[0]
    for size in reversed(shape[1:]):
        elements = [f"[{', '.join(elements[i : i + size])}]" for i in range(0, len(elements), size)]
    return f"[{', '.join(elements)}]"
