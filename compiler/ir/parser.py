"""The parser: xDSL's, with file locations, bit-exact constants and errors at the place of the fault."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from typing_extensions import TypeIs
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    RankedStructure,
    ShapedType,
    StringAttr,
    UnknownLoc,
    f64,
    i64,
)
from xdsl.ir import Attribute, AttributeInvT, Block, Operation, SSAValue
from xdsl.parser import AttrParser, Parser, ParserState, UnresolvedOperand
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import (
    MultipleSpansParseError,
    ParseError,
    VerifyException,
)
from xdsl.utils.lexer import Input, Position, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from mlopt.diagnostics import Diagnostic, ParseFailure, Place, Severity, did_you_mean, nearest
from mlopt.ir import dense, memref_syntax
from mlopt.ir.lexer import MloptLexer
from mlopt.ir.names import set_name
from mlopt.ir.resources import replace_resources
from mlopt.ir.verifier import first_sentence

_NUMBER_STARTS = (MLIRTokenKind.MINUS, MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT)
_LOCATION_ALIAS = re.compile(r"^[ \t]*(#[\w$.-]+) = loc\(", re.MULTILINE)


def parse_module(text: str, ctx: Context, filename: str = "<string>", *, first_line: int = 1) -> ModuleOp:
    """Parse the text of one module; raise `ParseFailure` with the place and the line of the fault.

    Operations without a `module` around them get one. `first_line` is the number of the text's first line in the
    file, for a piece of a file.
    """
    try:
        parser = MloptParser(ctx, text, filename, first_line=first_line)
    except ParseError as error:
        raise _failure(error, first_line) from error
    try:
        return parser.parse_whole_module()
    except ParseError as error:
        raise _failure(error, first_line) from error
    except ParseFailure:
        raise
    except RecursionError:
        here = Span(parser.pos, parser.pos, parser.lexer.input)
        raise _failure(ParseError(here, "the text is nested too deeply"), first_line) from None
    except Exception as error:
        # Constructors of attributes and operations raise errors of many kinds for text that breaks their rules.
        here = Span(parser.pos, parser.pos, parser.lexer.input)
        raise _failure(ParseError(here, first_sentence(error)), first_line) from error


def _failure(error: ParseError, first_line: int) -> ParseFailure:
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(error, MultipleSpansParseError):
        notes = tuple(
            Diagnostic(Severity.NOTE, message or error.ref_text or "see here", _place(span, first_line))
            for span, message in error.refs
        )
    start, text = error.span.start, error.span.input
    line = str(text.slice(text.get_start_of_line(start), text.get_end_of_line(start)) or "")
    return ParseFailure(
        error.msg.strip(), place=_place(error.span, first_line), notes=notes, source_line=line
    )


def _place(span: Span[str] | Span[bytes], first_line: int) -> Place:
    location = span.get_location()
    return Place(location.file, location.line + first_line - 1, location.col)


class _Literal(NamedTuple):
    """One element of a dense list: the spans of its numbers, two for a complex one."""

    parts: tuple[Span, ...]


class MloptParser(Parser):
    """xDSL's parser with file locations, bit-exact dense constants, and undefined values reported at their use."""

    def __init__(self, ctx: Context, text: str, filename: str = "<string>", *, first_line: int = 1):
        # Not xDSL's own constructor: it would read the first token with its own lexer.
        AttrParser.__init__(self, ParserState(MloptLexer(Input(text, filename))), ctx)
        self.ssa_values = {}
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}
        self._file = StringAttr(filename)
        self._first_line = first_line
        self._line_starts = _line_starts(text)
        self._uses: dict[str, Span] = {}
        self._undefined: dict[SSAValue, UnresolvedOperand] = {}
        self._resources: dict[str, str] = {}
        self._resources_used = False
        self._aliases_ahead: set[Position] = set()

    # -- Places

    def line_and_column(self, position: Position) -> tuple[int, int]:
        """Line (in the file) and column of a position in the text, both from 1."""
        line = bisect_right(self._line_starts, position) - 1
        return line + self._first_line, position - self._line_starts[line] + 1

    def location_at(self, position: Position) -> FileLineColLoc:
        """The location attribute of a position in the text."""
        line, column = self.line_and_column(position)
        return FileLineColLoc(self._file, IntAttr(line), IntAttr(column))

    # -- Operations

    def parse_whole_module(self) -> ModuleOp:
        """Parse all of the text: one module, or operations that become the body of one."""
        ops: list[Operation] = []
        while self._current_token.kind != MLIRTokenKind.EOF:
            if self._current_token.kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self._parse_alias_def()
            elif self._current_token.kind == MLIRTokenKind.FILE_METADATA_BEGIN:
                self._parse_file_metadata_dictionary()
            elif (op := self.parse_optional_operation()) is not None:
                ops.append(op)
            else:
                self.raise_error("expected an operation")
        self._check_undeclared(self.forward_ssa_references)
        if len(ops) == 1 and isinstance(ops[0], ModuleOp):
            module = ops[0]
        else:
            module = ModuleOp(ops)
            module.location = self.location_at(0)
        if self._resources_used:
            replace_resources(module, self._resources)
        return module

    def parse_operation(self) -> Operation:
        """Parse one operation; without an explicit `loc` its location is where its name stands."""
        start = self._current_token.span
        bound = self._parse_op_result_list()
        position = self.pos
        unresolved_before = set(self.forward_ssa_references)

        name_token = self._parse_optional_token(MLIRTokenKind.BARE_IDENT)
        if name_token is not None:
            op_type = self._op_type(name_token.text, name_token.span)
            self._parser_state.dialect_stack.append(op_type.dialect_name())
            custom = memref_syntax.PARSERS.get(op_type)
            if custom is None and op_type.parse.__func__ is Operation.parse.__func__:
                name = name_token.text
                self.raise_error(
                    f"operation '{name}' has no custom form, expected its generic form \"{name}\"(...)",
                    name_token.span,
                )
            op = op_type.parse(self) if custom is None else custom(self)
            self._parser_state.dialect_stack.pop()
            location = self.parse_optional_location()
            if location is not None:
                op.location = location
        else:
            name_token = self._current_token
            name = self.expect(self.parse_optional_str_literal, "operation name expected")
            op_type = self._op_type(name, name_token.span)
            self._parser_state.dialect_stack.append(op_type.dialect_name())
            op = self._parse_generic_operation(op_type)
            self._parser_state.dialect_stack.pop()

        if isinstance(op.location, UnknownLoc):
            op.location = self.location_at(position)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    if isinstance(argument.location, UnknownLoc):
                        argument.location = op.location

        if self._undefined:
            self._check_operands(op)
        count = sum(size for _, size in bound)
        if count != 0 and len(op.results) != count:
            self.raise_error(
                f"operation defines {len(op.results)} results but was provided {count} to bind", start
            )
        first = 0
        for span, size in bound:
            self._register_ssa_definition(span.text[1:], op.results[first : first + size], span)
            first += size
        if op.has_trait(IsolatedFromAbove) and len(self.forward_ssa_references) > 0:
            self._check_undeclared_inside(op, unresolved_before)
        return op

    def _parse_block(self) -> Block:
        if self._current_token.kind != MLIRTokenKind.CARET_IDENT:
            self.raise_error("expected an operation, a block label or '}' to end the region")
        return super()._parse_block()

    def _op_type(self, name: str, span: Span) -> type[Operation]:
        op_type = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op_type is None:
            dialect = name.partition(".")[0]
            known = "." not in name or self.ctx.get_optional_dialect(dialect) is not None
            what = f"operation '{name}'" if known else f"dialect '{dialect}' of operation '{name}'"
            hint = did_you_mean(self._similar_ops(name))
            if not known and not hint:
                hint = f'; mlopt-opt takes it with --allow-unregistered-dialect, as "{name}"(...)'
            self.raise_error(f"{what} is not registered{hint}", span)
        return op_type

    def _similar_ops(self, name: str) -> list[str]:
        """What a name that is not registered may stand for: one of its dialect, or the same one of another dialect."""
        dialect, _, own = name.rpartition(".")
        for prefix in [dialect] if dialect else reversed(self._parser_state.dialect_stack):
            found = self.ctx.get_optional_dialect(prefix)
            if found is not None:
                operations = [op.name.removeprefix(f"{prefix}.") for op in found.operations]
                similar = [f"{prefix}.{op}" for op in nearest(own, operations)]
                if similar or dialect:
                    return similar
        dialects = (self.ctx.get_dialect(one) for one in sorted(self.ctx.registered_dialect_names))
        return [op.name for one in dialects for op in one.operations if op.name == f"{one.name}.{own}"]

    # -- SSA values

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Resolve an operand as xDSL does; remembers where a value that is not defined yet was used first."""
        if operand.operand_name not in self.ssa_values:
            self._uses.setdefault(operand.operand_name, operand.span)
        value = super().resolve_operand(operand, type)
        if isinstance(value, ForwardDeclaredValue):
            self._undefined[value] = operand
        return value

    def _check_operands(self, op: Operation) -> None:
        """Report operands of `op` that only its own regions define: their names end with the regions."""
        for operand in op.operands:
            if isinstance(operand, ForwardDeclaredValue):
                used = self._undefined[operand]
                waiting = self.forward_ssa_references.get(used.operand_name, {})
                if waiting.get(used.index) is not operand:
                    self.raise_error(f"use of undeclared SSA value name {used.span.text}", used.span)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        if not name[0].isdigit():
            for value in values:
                set_name(value, name)

    def _check_undeclared_inside(self, op: Operation, before: set[str]) -> None:
        """Report values that are used inside an isolated operation and not defined there.

        Operands of the operation itself may still be defined later in the text.
        """
        inside = [
            name
            for name, values in self.forward_ssa_references.items()
            if name not in before
            and any(use.operation is not op for value in values.values() for use in value.uses)
        ]
        self._check_undeclared(inside)

    def _check_undeclared(self, names: Iterable[str]) -> None:
        spans = [self._uses[name] for name in names]
        if spans:
            span = min(spans, key=lambda span: span.start)
            self.raise_error(f"use of undeclared SSA value name {span.text}", span)

    # -- Dense constants

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        """Parse `<` literal `>` and, unless given, `:` type, of a `dense` attribute."""
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        literals: list[_Literal] = []
        shape: list[int] | None = None
        hexadecimal = self.parse_optional_str_literal()
        if hexadecimal is None and self._current_token.kind != MLIRTokenKind.GREATER:
            shape = self._parse_dense_list(literals)
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        count = math.prod(type.get_shape())
        try:
            if hexadecimal is not None:
                data = dense.unpack_hex(hexadecimal, type.element_type, count)
            else:
                data = self._dense_data(literals, shape, type.element_type, type.get_shape(), start)
        except dense.ElementError as error:
            self.raise_error(str(error), start)
        except (MemoryError, OverflowError):
            self.raise_error(f"out of memory: the constant has the {count} elements of {type}", start)
        return DenseIntOrFPElementsAttr(type, BytesAttr(data))

    def _parse_dense_list(self, literals: list[_Literal]) -> list[int]:
        """Parse nested lists of literals into `literals`; returns their shape, `[]` for a single literal."""
        if self._parse_optional_token(MLIRTokenKind.L_SQUARE) is None:
            literals.append(self._parse_dense_literal())
            return []
        if self._parse_optional_token(MLIRTokenKind.R_SQUARE) is not None:
            return [0]
        inner = self._parse_dense_list(literals)
        size = 1
        while self._parse_optional_token(MLIRTokenKind.COMMA) is not None:
            position = self.pos
            if self._parse_dense_list(literals) != inner:
                self.raise_error(
                    "tensor literal is invalid; ranks are not consistent between elements", position
                )
            size += 1
        self.parse_punctuation("]", " in dense attribute")
        return [size, *inner]

    def _parse_dense_literal(self) -> _Literal:
        if self._parse_optional_token(MLIRTokenKind.L_PAREN) is None:
            return _Literal((self._parse_number_span(),))
        real = self._parse_number_span()
        self.parse_punctuation(",", " in complex literal")
        imaginary = self._parse_number_span()
        self.parse_punctuation(")", " in complex literal")
        return _Literal((real, imaginary))

    def _parse_number_span(self) -> Span:
        """The span of one number or boolean, its sign included."""
        start = self.pos
        negative = self._parse_optional_token(MLIRTokenKind.MINUS) is not None
        token = self._current_token
        boolean = not negative and token.kind == MLIRTokenKind.BARE_IDENT and token.text in ("true", "false")
        if not boolean and token.kind not in (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT):
            self.raise_error("expected an integer, float, boolean or complex literal")
        self._consume_token()
        return Span(start, token.span.end, self.lexer.input)

    def _dense_data(
        self,
        literals: list[_Literal],
        shape: list[int] | None,
        element_type: Attribute,
        type_shape: Sequence[int],
        start: Position,
    ) -> bytes:
        count = math.prod(type_shape)
        if shape is None:
            if count != 0:
                self.raise_error(f"expected {count} elements in dense attribute, found none", start)
            return b""
        data = b"".join(self._element(literal, element_type) for literal in literals)
        if not shape:
            return data * count
        if list(type_shape) != shape and not (count == 0 and not literals):
            self.raise_error(
                f"inferred shape of elements literal ({shape}) does not match type ({list(type_shape)})",
                start,
            )
        return data

    def _element(self, literal: _Literal, element_type: Attribute) -> bytes:
        if dense.is_complex(element_type):
            if len(literal.parts) != 2:
                self.raise_error("expected a complex literal: (real, imaginary)", literal.parts[0])
            return b"".join(self._number(part, element_type.element_type) for part in literal.parts)
        if len(literal.parts) != 1:
            self.raise_error(
                f"expected a literal of type {element_type}, found a complex one", literal.parts[0]
            )
        return self._number(literal.parts[0], element_type)

    def _number(self, span: Span, element_type: Attribute) -> bytes:
        text = span.text.replace(" ", "")
        try:
            if not dense.is_integer(element_type):
                if text in ("true", "false"):
                    raise dense.ElementError(f"expected a literal of type {element_type}, found a boolean")
                return dense.float_bits(text, element_type)
            if text in ("true", "false"):
                if not dense.is_i1(element_type):
                    raise dense.ElementError(f"expected a literal of type {element_type}, found a boolean")
                return dense.integer_bytes_of(int(text == "true"), element_type)
            return dense.integer_bytes_of(_integer(text, element_type), element_type)
        except dense.ElementError as error:
            self.raise_error(str(error), span)

    def _parse_builtin_densearray_attr(self) -> DenseArrayBase:
        self.parse_characters("<", " in dense array")
        start = self.pos
        element_type = self.parse_type()
        if not _is_array_element(element_type):
            self.raise_error("element type of a dense array must be an integer or floating point type", start)
        data = b""
        if self.parse_optional_punctuation(":") is not None:
            spans = self.parse_comma_separated_list(self.Delimiter.NONE, self._parse_number_span)
            data = b"".join(self._number(span, element_type) for span in spans)
        self.parse_characters(">", " in dense array")
        if dense.is_i1(element_type):
            # xDSL stores a set bit of a dense array as a byte of ones.
            data = data.replace(b"\x01", b"\xff")
        return DenseArrayBase(element_type, BytesAttr(data))

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        """Parse a boolean, integer or float attribute; a hexadecimal literal of a float type is its bit pattern."""
        if (boolean := self.try_parse_builtin_boolean_attr()) is not None:
            return boolean
        if self._current_token.kind not in _NUMBER_STARTS:
            return None
        span = self._parse_number_span()
        text = span.text.replace(" ", "")
        if self._parse_optional_token(MLIRTokenKind.COLON) is None:
            if "." in text:
                return FloatAttr(float(text), f64)
            return self._integer_attribute(span, i64)
        start = self.pos
        type_ = self.parse_type()
        if dense.is_integer(type_):
            return self._integer_attribute(span, type_)
        if not isinstance(type_, AnyFloat):
            self.raise_error(f"expected an integer or float type for the literal, found {type_}", start)
        return FloatAttr(type_.unpack(self._number(span, type_), 1)[0], type_)

    def _integer_attribute(self, span: Span, type_: IntegerType | IndexType) -> IntegerAttr:
        try:
            return IntegerAttr(_integer(span.text.replace(" ", ""), type_), type_)
        except (dense.ElementError, VerifyException) as error:
            self.raise_error(str(error), span)

    def parse_float_attribute(self, type: AnyFloat) -> FloatAttr:
        """Parse a float literal of a known type, decimal or the bit pattern in hexadecimal."""
        span = self._parse_number_span()
        return FloatAttr(type.unpack(self._number(span, type), 1)[0], type)

    # -- Resources

    def _parse_builtin_dense_resource_attr(self) -> DenseResourceAttr:
        self._resources_used = True
        self.parse_punctuation("<", " in dense_resource attribute")
        key = self.parse_identifier_or_str_literal()
        self.parse_punctuation(">", " in dense_resource attribute")
        self.parse_punctuation(":", " in dense_resource attribute")
        start = self.pos
        type_ = self.parse_type()
        if not isinstance(type_, ShapedType):
            self.raise_error(f"expected a shaped type for dense_resource, found {type_}", start)
        return DenseResourceAttr.from_params(key, type_)

    def _parse_dialect_resources(self) -> None:
        self.parse_comma_separated_list(self.Delimiter.BRACES, self._parse_resources_of_dialect)

    def _parse_resources_of_dialect(self) -> None:
        start = self.pos
        dialect = self.parse_identifier(context_msg=" as the name of a dialect")
        if dialect != "builtin":
            self.raise_error(f"expected resources of dialect 'builtin', found '{dialect}'", start)
        self.parse_punctuation(":")
        self.parse_comma_separated_list(self.Delimiter.BRACES, self._parse_blob)

    def _parse_blob(self) -> None:
        key = self.parse_identifier_or_str_literal()
        self.parse_punctuation(":")
        start = self.pos
        blob = self.parse_str_literal("a blob in hexadecimal")
        if not blob.startswith("0x"):
            self.raise_error("expected a blob in hexadecimal that starts with 0x", start)
        self._resources[key] = blob

    def _parse_external_resources(self) -> None:
        """Read over external resources: they speak to tools (such as a reproducer's pipeline), not of the IR."""

        def skip_entry() -> None:
            self.parse_identifier_or_str_literal()
            self.parse_punctuation(":")
            if self._current_token.kind == MLIRTokenKind.L_BRACE:
                self.parse_comma_separated_list(self.Delimiter.BRACES, skip_entry)
            else:
                self.parse_attribute()

        self.parse_comma_separated_list(self.Delimiter.BRACES, skip_entry)

    # -- Locations

    def _parse_location(self) -> LocationAttr:
        token = self._current_token
        if token.kind == MLIRTokenKind.HASH_IDENT and token.text not in self.attribute_aliases:
            self._read_aliases_ahead(token.text)
        if token.kind != MLIRTokenKind.BARE_IDENT or token.text != "fused":
            return super()._parse_location()
        self._consume_token()
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<") is not None:
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(tuple(parts), metadata)

    def _read_aliases_ahead(self, wanted: str) -> None:
        """Read location aliases that are defined below their use, as MLIR prints them."""
        position = self.pos
        for match in _LOCATION_ALIAS.finditer(self.lexer.input.content, position):
            if match.group(1) not in self.attribute_aliases:
                self._resume_from(match.start(1))
                self._parse_alias_def()
                self._aliases_ahead.add(match.start(1))
            if match.group(1) == wanted:
                break
        self._resume_from(position)

    def _parse_alias_def(self) -> None:
        if self.pos in self._aliases_ahead:
            self._consume_token()
            self.parse_punctuation("=")
            self.parse_attribute()
        else:
            super()._parse_alias_def()


def _is_array_element(type_: Attribute) -> TypeIs[IntegerType | AnyFloat]:
    return isinstance(type_, IntegerType) or dense.float_dtype(type_) is not None


def _integer(text: str, element_type: IntegerType | IndexType) -> int:
    if "." in text:
        raise dense.ElementError(f"expected an integer literal for type {element_type}, found {text}")
    negative, digits = text.startswith("-"), text.removeprefix("-")
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    return -value if negative else value


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]
