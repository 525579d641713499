"""Slow spots of xDSL 0.75, replaced by code that does the same faster. Loaded before any dialect is.

1. Assembly formats are read when an operation is first parsed or printed, not when its dialect is loaded: most
   operations of a dialect do not occur in a model, and reading their formats took a fifth of all imports.
2. How many operands, results, regions and successors an operation may have is looked up, where it is a fixed number,
   not derived anew from its definition: a third of verification.
3. Segment sizes of operands are unpacked once for equal ones: a twentieth of compiling.

xDSL's own code still says what is wrong with an operation: these only find out faster that nothing is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from xdsl.ir import Operation
from xdsl.irdl import declarative_assembly_format, operations
from xdsl.irdl.constraints import VerificationContext
from xdsl.irdl.declarative_assembly_format import FormatDirective, FormatProgram
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.irdl.operations import BaseAttrAccessor, OpDef, VariadicDef, VarIRConstruct
from xdsl.utils.exceptions import VerifyException


class DeferredFormat(FormatProgram):
    """An assembly format that is read when it is first used."""

    def __init__(self, input: str, op_def: OpDef):
        object.__setattr__(self, "_source", (input, op_def))

    @cached_property
    def stmts(self) -> tuple[FormatDirective, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The statements of the format; raises xDSL's `ParseError` if it is none."""
        text, op_def = self.__dict__["_source"]
        return FormatParser(text, op_def).parse_format().stmts


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many operands and so on a definition wants; None where that is not fixed."""

    op_def: OpDef
    operands: int | None
    results: int | None
    regions: int | None
    successors: int | None

    @staticmethod
    def of(op_def: OpDef) -> _Counts:
        known = _counts.get(id(op_def))
        if known is None:
            known = _counts[id(op_def)] = _Counts(op_def, *(_fixed(op_def, one) for one in VarIRConstruct))
        return known


_counts: dict[int, _Counts] = {}
"""By the identity of a definition, which is kept alive here: definitions can't be hashed."""


def _fixed(op_def: OpDef, construct: VarIRConstruct) -> int | None:
    definitions = operations.get_construct_defs(op_def, construct)
    option = operations.get_attr_size_option(construct)
    varies = any(isinstance(definition, VariadicDef) for _, definition in definitions)
    sized = any(isinstance(other, option) for other in op_def.options)
    return None if varies or sized else len(definitions)


_verify_size = operations.verify_variadic_size
_verify_arguments = operations.irdl_op_verify_arg_list


def verify_variadic_size(op: Operation, op_def: OpDef, construct: VarIRConstruct) -> None:
    """Raise `VerifyException` unless an operation has as many of something as its definition says."""
    counts = _Counts.of(op_def)
    if construct is VarIRConstruct.REGION:
        right = len(op.regions) == counts.regions
    elif construct is VarIRConstruct.SUCCESSOR:
        right = len(op.successors) == counts.successors
    else:
        right = False
    if not right:
        _verify_size(op, op_def, construct)


def verify_arguments(
    op: Operation,
    op_def: OpDef,
    construct: Literal[VarIRConstruct.OPERAND, VarIRConstruct.RESULT],
    constraint_context: VerificationContext,
) -> None:
    """Raise `VerifyException` unless the operands or results of an operation are as its definition says."""
    if construct is VarIRConstruct.OPERAND:
        values, definitions, count = op.operands, op_def.operands, _Counts.of(op_def).operands
    else:
        values, definitions, count = op.results, op_def.results, _Counts.of(op_def).results
    if len(values) == count:
        try:
            for value, (_, definition) in zip(values, definitions, strict=True):
                definition.constr.verify((value.type,), constraint_context)
        except VerifyException:
            pass  # said below, with the name and the position
        else:
            return
    _verify_arguments(op, op_def, construct, constraint_context)


@cache
def _segment_sizes(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 4}i", data)


def _get_segment(self: BaseAttrAccessor, obj: Operation, objtype: object = None) -> Any:
    sizes: Any = self.option.container(obj)[self.option.attribute_name]
    return self.index(_segment_sizes(sizes.data.data), operations.get_op_constructs(obj, self.construct))


declarative_assembly_format.FormatProgram.from_str = staticmethod(DeferredFormat)
operations.verify_variadic_size = verify_variadic_size
operations.irdl_op_verify_arg_list = verify_arguments
BaseAttrAccessor.__get__ = _get_segment
