"""`fuse-swish`: products of a value and its sigmoid, straight or in pieces, become one operation."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import ClassVar, NamedTuple

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.fusion import (
    Fusion,
    Group,
    Miss,
    described,
    either_way,
    fuse,
    is_number,
    uniform_value,
)
from mlopt.passes.graph.polynomials import Polynomial, expand, goes_on, is_close, once, operands_below
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

DEPTH = 3
"""How many steps of arithmetic may follow the bounded value of a hard swish."""


class FuseSwishPass(Pass):
    """Make one `graph.swish` or `graph.hard_swish` of what computes it.

    1. `x * sigmoid(alpha * x)` becomes `swish`; alpha is any number: 1 (SiLU), 1.702 (the sigmoid form of gelu), ...
       The sigmoid may be written `1 / (1 + exp(-alpha * x))`, and the product as the quotient `x / (1 + exp(...))`.
    2. `x * clip(x + 3, 0, 6) / 6` becomes `hard_swish`, also where the numbers are distributed otherwise
       (`x * clip(x / 6 + 0.5, 0, 1)`, `x * hard_sigmoid(x)` with alpha 1/6 and beta 0.5), and where the bounds are
       minimum, maximum or relu.

    Not fused: an inner value that is used elsewhere or is a graph output, constants that enlarge `x`, other numbers.
    f16 and bf16 are computed in f32 and rounded once. Remarks: each fusion, each near miss.
    """

    name = "fuse-swish"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse(ctx, op, [FuseSwish(ctx, self.name), FuseHardSwish(ctx, self.name)])


class _Sigmoid(NamedTuple):
    """`1 / (1 + exp(-argument))`: its operations, the last one first; `exponent` if that is `-argument`."""

    argument: SSAValue
    ops: tuple[Operation, ...]
    exponent: bool = False


class FuseSwish(Fusion):
    """x * sigmoid(alpha * x) -> swish(x)"""

    statistic: ClassVar[str] = "swishes-fused"
    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def match(self, op: Operation) -> Group | Miss | None:
        for x, sigmoid in self._products(op):
            inner = expand(sigmoid.argument, [x], self.ctx)
            if inner is None or not set(inner.terms) <= {(0,), (1,)}:
                continue
            if set(inner.terms) != {(1,)}:
                return Miss(f"the sigmoid is not of a multiple of {_text(x)}")
            alpha = -inner.terms[1,] if sigmoid.exponent else inner.terms[1,]
            if not isfinite(alpha):
                return Miss(f"the factor in the sigmoid is {alpha}")
            if op.results[0].type != x.type:
                return Miss(f"a constant enlarges {x.type} to {op.results[0].type}")
            return self._group(op, x, alpha, sigmoid, inner)
        return None

    def _group(self, op: Operation, x: SSAValue, alpha: float, sigmoid: _Sigmoid, inner: Polynomial) -> Group:
        return Group(once((op, *sigmoid.ops, *inner.ops)), lambda: [graph.SwishOp(x, alpha)], "'swish'")

    def _products(self, op: Operation) -> Iterator[tuple[SSAValue, _Sigmoid]]:
        """What is multiplied by a sigmoid, and the sigmoid."""
        if isinstance(op, graph.MulOp):
            for x, factor in either_way(op):
                if (sigmoid := self._sigmoid(factor)) is not None:
                    yield x, sigmoid
        elif isinstance(op, graph.DivOp) and (divisor := self._divisor(op.rhs)) is not None:
            yield op.lhs, divisor

    def _sigmoid(self, value: SSAValue) -> _Sigmoid | None:
        match value.owner:
            case graph.SigmoidOp() as op:
                return _Sigmoid(op.input, (op,))
            case graph.ReciprocalOp() as op:
                divisor = self._divisor(op.input)
            case graph.DivOp() as op if is_number(op.lhs, 1, self.ctx):
                divisor = self._divisor(op.rhs)
            case _:
                return None
        return None if divisor is None else _Sigmoid(divisor.argument, (op, *divisor.ops), divisor.exponent)

    def _divisor(self, value: SSAValue) -> _Sigmoid | None:
        """`1 + exp(e)`."""
        if isinstance(value.owner, graph.AddOp):
            for one, power in either_way(value.owner):
                if isinstance(power.owner, graph.ExpOp) and is_number(one, 1, self.ctx):
                    return _Sigmoid(power.owner.input, (value.owner, power.owner), exponent=True)
        return None


class _Bounded(NamedTuple):
    """`min(max(scale * argument + shift, lower), upper)`: its operations, the last one first."""

    argument: SSAValue
    lower: float
    upper: float
    ops: tuple[Operation, ...]
    scale: float = 1.0
    shift: float = 0.0


class FuseHardSwish(Fusion):
    """x * clip(x + 3, 0, 6) / 6 -> hard_swish(x)"""

    statistic: ClassVar[str] = "hard-swishes-fused"
    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def match(self, op: Operation) -> Group | Miss | None:
        miss: Miss | None = None
        for gate in operands_below(op.results[0], DEPTH):
            bounded = self._bounded(gate)
            if bounded is None:
                continue
            for x in operands_below(bounded.argument, 2):
                outer = expand(op.results[0], [x, gate], self.ctx)
                inner = expand(bounded.argument, [x], self.ctx)
                if outer is None or inner is None or set(outer.terms) != {(1, 1)}:
                    continue
                found = self._compared(op, x, bounded, inner, outer)
                if isinstance(found, Group):
                    return found
                miss = miss or (None if goes_on(op, [x, gate], self.ctx) else found)
        return miss

    def _compared(
        self, op: Operation, x: SSAValue, bounded: _Bounded, inner: Polynomial, outer: Polynomial
    ) -> Group | Miss | None:
        factor = outer.terms[1, 1]
        if not set(inner.terms) <= {(0,), (1,)} or bounded.lower != 0:
            return None
        slope = inner.terms.get((1,), 0.0) * bounded.scale
        shift = inner.terms.get((0,), 0.0) * bounded.scale + bounded.shift
        if slope == 0 or shift == 0:
            return None
        found, wanted = (slope * factor, shift * factor, bounded.upper * factor), (1 / 6, 0.5, 1.0)
        if not all(is_close(number, right, x) for number, right in zip(found, wanted, strict=True)):
            numbers, right = (", ".join(f"{number:.7g}" for number in row) for row in (found, wanted))
            what = f"slope, shift and upper bound of {described(bounded.ops[0])}"
            return Miss(f"{what} come to {numbers}, not {right}")
        if op.results[0].type != x.type:
            return Miss(f"a constant enlarges {x.type} to {op.results[0].type}")
        ops = once((*outer.ops, *bounded.ops, *inner.ops))
        return Group(ops, lambda: [graph.HardSwishOp(x)], "'hard_swish'")

    def _bounded(self, value: SSAValue) -> _Bounded | None:
        match value.owner:
            case graph.HardSigmoidOp() as op:
                return _Bounded(op.input, 0.0, 1.0, (op,), op.alpha.value.data, op.beta.value.data)
            case graph.ClipOp() as op if op.lower is not None and op.upper is not None:
                lower, upper = uniform_value(op.lower, self.ctx), uniform_value(op.upper, self.ctx)
                return None if lower is None or upper is None else _Bounded(op.input, lower, upper, (op,))
            case graph.MinOp() | graph.MaxOp() as last:
                return self._min_max(last)
            case _:
                return None

    def _min_max(self, last: graph.MinOp | graph.MaxOp) -> _Bounded | None:
        """The minimum of a maximum, or the maximum of a minimum, with numbers."""
        first = self._one_bound(last)
        if first is None:
            return None
        inside, outer_bound = first
        match inside.owner:
            case graph.ReluOp() as op if isinstance(last, graph.MinOp):
                return _Bounded(op.input, 0.0, outer_bound, (last, op))
            case graph.MaxOp() as op if isinstance(last, graph.MinOp):
                second = self._one_bound(op)
                return None if second is None else _Bounded(second[0], second[1], outer_bound, (last, op))
            case graph.MinOp() as op if isinstance(last, graph.MaxOp):
                second = self._one_bound(op)
                return None if second is None else _Bounded(second[0], outer_bound, second[1], (last, op))
            case _:
                return None

    def _one_bound(self, op: graph.MinOp | graph.MaxOp) -> tuple[SSAValue, float] | None:
        for value, bound in either_way(op):
            number = uniform_value(bound, self.ctx)
            if number is not None:
                return value, number
        return None


def _text(x: SSAValue) -> str:
    return f"the result of {described(x.owner)}" if isinstance(x.owner, Operation) else "its other operand"
