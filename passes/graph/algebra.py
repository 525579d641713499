"""What the rules of `simplify-algebra` are made of: a base class, and questions about constants."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import ml_dtypes
import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import MAX_DENSE_ELEMENTS, to_numpy_dtype
from mlopt.passes.graph.constants import constant_value, make_constant, name_of

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[[], Sequence[Operation]]
"""Makes new operations, the last of which has the result."""


@dataclass
class Rule(RewritePattern):
    """One rewrite of an operation with one result, one of `roots`; the docstring is the rule."""

    ctx: CompilerContext

    roots: ClassVar[tuple[type[Operation], ...]]

    @abstractmethod
    def simplified(self, op: Any) -> SSAValue | Build | None:  # each subclass: one of its roots
        """What takes the place of `op`, which it may broadcast to; None if the rule does not apply."""

    @property
    def text(self) -> str:
        """The rule in one line."""
        return (type(self).__doc__ or "").partition("\n")[0]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, self.roots):
            return
        found = self.simplified(op)
        if found is None:
            return
        new = [] if isinstance(found, SSAValue) else list(found())
        value = cast(SSAValue, found) if isinstance(found, SSAValue) else new[-1].results[0]
        if value.type != op.results[0].type:
            new.append(graph.ExpandOp(value, shape_of(op.results[0])))
            value = new[-1].results[0]
        rewriter.replace(op, new, [value])

    def constant(self, value: SSAValue) -> Array | None:
        """The elements of a constant that may be replaced by another one.

        None if there are none, or if they are many and something else uses them too: they would be there twice.
        """
        array = constant_value(value, self.ctx)
        if array is None or array.size == 0:
            return None
        return array if array.size <= MAX_DENSE_ELEMENTS or value.has_one_use() else None

    def is_filled(self, value: SSAValue, number: float) -> bool:
        """Is it a constant of this number only? Zeros are told apart by their sign."""
        array = constant_value(value, self.ctx)
        return array is not None and is_filled(array, number)

    def new_constant(self, array: Array, like: SSAValue) -> graph.ConstantOp:
        """A constant in place of `like`."""
        return make_constant(array, self.ctx, name_of(like, "constant"))

    def filled(self, op: Operation, number: float) -> Build:
        """The number in each element of the result of `op`, of which only one is stored."""
        result = tensor_type(op.results[0].type)
        array = np.array(number).astype(to_numpy_dtype(result.element_type))
        return lambda: [make_constant(array, self.ctx, op.results[0].name_hint or "constant")]


def is_filled(array: Array, number: float) -> bool:
    """Are all elements the number, and is there one? Zeros are told apart by their sign."""
    if array.size == 0:
        return False
    wanted = np.array(number).astype(array.dtype)
    return array.tobytes() == wanted.tobytes() * array.size


def zeros_differ(*arrays: Array) -> bool:
    """Are there zeros of both signs?"""
    zeros = [np.signbit(array[array == 0]) for array in arrays if array.dtype.kind not in "biu"]
    found = {
        bool(sign) for sign in np.concatenate([np.zeros(0, np.bool_), *(zero.reshape(-1) for zero in zeros)])
    }
    return len(found) > 1


def element_of(value: SSAValue) -> Any:
    """The element type."""
    return tensor_type(value.type).element_type


def has_floats(op: Operation) -> bool:
    """Does the operation compute in floating-point numbers?"""
    return is_float(element_of(op.operands[0]))


def sides(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The operands of a binary operation in order, and the other way round if that is the same."""
    lhs, rhs = op.operands
    yield lhs, rhs
    if isinstance(
        op, graph.AddOp | graph.MulOp | graph.MinOp | graph.MaxOp | graph.AndOp | graph.OrOp | graph.XorOp
    ):
        yield rhs, lhs


def fits(array: Array, *operands: Array) -> bool:
    """Has a constant that is made of others at most as many elements as the larger of them?"""
    return array.size <= max(operand.size for operand in operands)


def is_normal(array: Array) -> bool:
    """Are all numbers finite, and neither zero nor so small that digits are lost?"""
    smallest = float(cast(Any, ml_dtypes.finfo(array.dtype)).smallest_normal)
    return bool(np.all(np.isfinite(array) & (np.abs(array) >= smallest)))


def are_powers_of_two(array: Array) -> bool:
    """Are all numbers powers of two, of either sign?"""
    mantissa, _ = np.frexp(array.astype(np.float64))
    return bool(np.all(np.abs(mantissa) == 0.5))
