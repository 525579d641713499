"""Which integers the engines below the graph level compute with: those of 1, 8, 16, 32 and 64 bits.

Wrapping and sign extension of other widths are not what numpy's types do, so that modules with such types are refused;
the graph level's integers of 4 and 2 bits are i8 below it.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IndexType, MemRefType, TensorType
from xdsl.ir import Attribute, Operation

from mlopt.diagnostics import UnsupportedError
from mlopt.ir.dense import is_integer
from mlopt.ir.locations import place_of_op

_WIDTHS = (1, 8, 16, 32, 64)


def require_known_integers(root: Operation) -> None:
    """`UnsupportedError` at an operation that has, or whose regions have, a value with integers of another width."""
    for op in root.walk():
        for type_ in op.result_types:
            _require(op, type_)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    _require(op, argument.type)


def _require(op: Operation, type_: Attribute) -> None:
    element = type_
    if isinstance(type_, MemRefType | TensorType):
        element = cast(MemRefType[Attribute] | TensorType[Attribute], type_).element_type
    if is_integer(element) and not isinstance(element, IndexType) and element.bitwidth not in _WIDTHS:
        raise UnsupportedError(
            f"'{op.name}' has a value of type {type_}, expected integers of 1, 8, 16, 32 or 64 bits below the graph "
            "level",
            place=place_of_op(op),
        )
