"""Slow spots of xDSL 0.75, replaced by code that does the same faster. Loaded before any dialect is.

1. Assembly formats are read when an operation is first parsed or printed, not when its dialect is loaded: most
   operations of a dialect do not occur in a model, and reading their formats took a fifth of all imports.
2. Operations are verified by a plan that is made of their definition once (`mlopt.ir.xdsl_verification`): half of
   verification.
3. Segment sizes of operands are unpacked once for equal ones: a twentieth of compiling.
4. A walk over operations is one generator for each that has regions, not three, and none for the others: most of what
   the conditions of passes take.

xDSL's own code still says what is wrong with an operation: these only find out faster that nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from xdsl.ir import BlockOps, Operation
from xdsl.irdl import declarative_assembly_format, operations
from xdsl.irdl.declarative_assembly_format import FormatDirective, FormatProgram
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.irdl.operations import BaseAttrAccessor, OpDef

from mlopt.ir.xdsl_verification import unpack_segment_sizes


class DeferredFormat(FormatProgram):
    """An assembly format that is read when it is first used."""

    def __init__(self, input: str, op_def: OpDef):
        object.__setattr__(self, "_source", (input, op_def))

    @cached_property
    def stmts(self) -> tuple[FormatDirective, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The statements of the format; raises xDSL's `ParseError` if it is none."""
        text, op_def = self.__dict__["_source"]
        return FormatParser(text, op_def).parse_format().stmts


def _get_segment(self: BaseAttrAccessor, obj: Operation, objtype: object = None) -> Any:
    sizes: Any = self.option.container(obj)[self.option.attribute_name]
    return self.index(
        unpack_segment_sizes(sizes.data.data), operations.get_op_constructs(obj, self.construct)
    )


_walk_in_other_orders = Operation.walk


def _walk(self: Operation, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
    if reverse or region_first:
        yield from _walk_in_other_orders(self, reverse=reverse, region_first=region_first)
        return
    yield self
    if self.regions:
        yield from _inside(self)


def _inside(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        block = region.blocks.first
        while block is not None:
            following = block.next_block
            for child in _from(block.first_op):
                yield child
                if child.regions:
                    yield from _inside(child)
            block = following


def _from(op: Operation | None) -> Iterator[Operation]:
    """An operation and those behind it; the next is known before one is handed out, which may be erased then."""
    while op is not None:
        following = op.next_op
        yield op
        op = following


def _operations_of_block(self: BlockOps) -> Iterator[Operation]:
    return _from(self.first)


_block_operations: Any = BlockOps
_block_operations.__iter__ = _operations_of_block
Operation.walk = _walk
declarative_assembly_format.FormatProgram.from_str = staticmethod(DeferredFormat)
BaseAttrAccessor.__get__ = _get_segment
