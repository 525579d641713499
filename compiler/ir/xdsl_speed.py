"""Slow spots of xDSL 0.75, replaced by code that does the same faster. Loaded before any dialect is.

1. Assembly formats are read when an operation is first parsed or printed, not when its dialect is loaded: most
   operations of a dialect do not occur in a model, and reading their formats took a fifth of all imports.
2. How many operands, results, regions and successors an operation may have is looked up, where it is a fixed number,
   not derived anew from its definition: a fifth of verification.
3. Segment sizes of operands are unpacked once for equal ones: a twentieth of compiling.

xDSL's own code still says what is wrong with an operation: these only find out faster that nothing is.
"""

from __future__ import annotations

import struct
from functools import cache, cached_property
from typing import Any

from xdsl.ir import Operation
from xdsl.irdl import declarative_assembly_format, operations
from xdsl.irdl.declarative_assembly_format import FormatDirective, FormatProgram
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.irdl.operations import BaseAttrAccessor, OpDef, VariadicDef, VarIRConstruct


class DeferredFormat(FormatProgram):
    """An assembly format that is read when it is first used."""

    def __init__(self, input: str, op_def: OpDef):
        object.__setattr__(self, "_source", (input, op_def))

    @cached_property
    def stmts(self) -> tuple[FormatDirective, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The statements of the format; raises xDSL's `ParseError` if it is none."""
        text, op_def = self.__dict__["_source"]
        return FormatParser(text, op_def).parse_format().stmts


_verify_size = operations.verify_variadic_size
_fixed: dict[tuple[int, VarIRConstruct], tuple[OpDef, int | None]] = {}
"""By the identity of a definition, which is kept alive with it: how many there must be, if that is fixed."""


def verify_variadic_size(op: Operation, op_def: OpDef, construct: VarIRConstruct) -> None:
    """Raise `VerifyException` unless an operation has as many of something as its definition says."""
    known = _fixed.get((id(op_def), construct))
    if known is None:
        known = _fixed[id(op_def), construct] = op_def, _fixed_count(op_def, construct)
    if known[1] is None or _count(op, construct) != known[1]:
        _verify_size(op, op_def, construct)


def _fixed_count(op_def: OpDef, construct: VarIRConstruct) -> int | None:
    definitions = operations.get_construct_defs(op_def, construct)
    option = operations.get_attr_size_option(construct)
    varies = any(isinstance(definition, VariadicDef) for _, definition in definitions)
    sized = any(isinstance(other, option) for other in op_def.options)
    return None if varies or sized else len(definitions)


def _count(op: Operation, construct: VarIRConstruct) -> int:
    match construct:
        case VarIRConstruct.OPERAND:
            return len(op.operands)
        case VarIRConstruct.RESULT:
            return len(op.results)
        case VarIRConstruct.REGION:
            return len(op.regions)
        case VarIRConstruct.SUCCESSOR:
            return len(op.successors)


@cache
def _segment_sizes(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 4}i", data)


def _get_segment(self: BaseAttrAccessor, obj: Operation, objtype: object = None) -> Any:
    sizes: Any = self.option.container(obj)[self.option.attribute_name]
    return self.index(_segment_sizes(sizes.data.data), operations.get_op_constructs(obj, self.construct))


declarative_assembly_format.FormatProgram.from_str = staticmethod(DeferredFormat)
operations.verify_variadic_size = verify_variadic_size
BaseAttrAccessor.__get__ = _get_segment
