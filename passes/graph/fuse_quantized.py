"""`fuse-quantized`: operators between dequantize and quantize work on the integers themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import Elements, is_unsigned, shape_of
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.effects import is_dead
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewriting import ERASE_DEAD, rewrite_greedily
from mlopt.passes.graph.algebra import is_normal
from mlopt.passes.graph.constants import make_constant
from mlopt.passes.graph.fusion import Fusion, Group, Miss, described, fuse
from mlopt.passes.graph.quantized_products import QuantizedProduct
from mlopt.passes.graph.quantized_values import (
    Quantized,
    element_of,
    quantized,
    quantized_as,
    why_unknown,
    width_of,
)
from mlopt.passes.graph.saturation import below_absorbed
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

STEPS_ALLOWED = 6
"""By how many steps of an 8-bit tensor an output may differ from what the QDQ form gives."""


class FuseQuantizedPass(Pass):
    """Compute with the integers of the QDQ form instead of the numbers that they stand for.

    1. quantize to ui8 that is only dequantized becomes quantize to i8, with a zero point less by 128.
    2. conv or matmul of dequantized numbers, with its bias and a quantize behind it, becomes a product of the integers
       (`graph.integer_conv`, `graph.integer_matmul`), the addition of what is constant, one multiplication, and the
       quantize with scale 1. Scales of weights may vary by feature. A matmul may have two variable factors without zero
       points.
    3. transpose, reshape, slice, expand, concat and max_pool between dequantize and quantize of one scale and zero
       point move the integers.
    4. add, sub, mul, reduce_mean and average_pool between dequantize and quantize take the integers, and one factor
       for each operand.
    5. relu and clip in front of a quantize that saturates there anyway go.

    1, 3 and 5 are exact. 2 and 4 round differently: results differ where a number is as good as halfway between two
    integers, by one of them. Not fused, with a remark: scales and zero points that are not constant, scales that vary
    otherwise, scales too far apart for f32, sums that may leave the integers that it holds (2^24), concat of unequal
    scales. Runs before `fold-constants`, which multiplies the weights out.

    One integer is one step, at most 1/127 of the largest number that its tensor can hold: its range includes 0, and has
    at least 254 steps. Behind one operator results differ by one step at most; what follows makes more of it or less.
    Over whole models 3.3 steps were measured (docs/quantization.md), and `STEPS_ALLOWED` is what `--validate` allows.
    """

    name = "fuse-quantized"
    requires: ClassVar = GRAPH_LEVEL
    validation_tolerance: ClassVar[float | None] = STEPS_ALLOWED / 127
    validation_steps: ClassVar[int] = STEPS_ALLOWED

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        dead = {inner for inner in op.walk() if is_dead(inner)}
        changed = rewrite_greedily(op, [SignedInsteadOfUnsigned(ctx, self.name)], ctx=ctx).changed
        fusions = (
            AbsorbedBounds(ctx, self.name),
            MovedIntegers(ctx, self.name),
            QuantizedProduct(ctx, self.name),
            QuantizedArithmetic(ctx, self.name),
        )
        changed |= fuse(ctx, op, fusions)
        if changed:
            _erase_unused(op, dead)
        return changed


@dataclass
class SignedInsteadOfUnsigned(RewritePattern):
    """dequantize(quantize(x, s, z : ui8), s, z) -> dequantize(quantize(x, s, z - 128 : i8), s, z - 128)"""

    ctx: CompilerContext
    pass_name: str

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /) -> None:
        element = element_of(op.result)
        to, width = quantized_as(op, self.ctx), width_of(element)
        if to is None or width is None or not is_unsigned(element):
            return
        users = [use.operation for use in op.result.uses]
        readers = [user for user in users if isinstance(user, graph.DequantizeOp)]
        known = [quantized(user.result, self.ctx) for user in readers]
        if not users or len(readers) < len(users) or None in known:
            return
        signed, middle = IntegerType(width), 1 << (width - 1)

        def zero_point(zero: int) -> graph.ConstantOp:
            array = np.array(zero - middle).astype(to_numpy_dtype(signed))
            return make_constant(array, self.ctx, "zero_point")

        zero = zero_point(to.zero)
        quantize = graph.QuantizeOp(op.input, op.scale, zero, signed)
        rewriter.insert([zero, quantize])
        for reader, values in zip(readers, known, strict=True):
            assert values is not None
            own = zero_point(values.zero)
            rewriter.replace(reader, [own, graph.DequantizeOp(quantize.result, reader.scale, own)])
        self.ctx.count(self.pass_name, "made-signed")
        self.ctx.remark(self.pass_name, "passed", f"{element} became {signed}", op)
        rewriter.erase(op)


class AbsorbedBounds(Fusion):
    """quantize(relu(x)) or quantize(clip(x)), saturating at the bounds -> quantize(x)"""

    statistic: ClassVar[str] = "bounds-absorbed"
    roots: ClassVar[tuple[type[Operation], ...] | None] = (graph.QuantizeOp,)
    elements: ClassVar[Elements | None] = None

    def match(self, op: Operation) -> Group | Miss | None:
        assert isinstance(op, graph.QuantizeOp)
        value, between = below_absorbed(op, self.ctx)
        if not between:
            return None

        def build() -> list[Operation]:
            return [graph.QuantizeOp(value, op.scale, op.zero_point, element_of(op.result))]

        return Group([op, *between], build, "'quantize', which saturates there")


_MOVEMENTS = graph.TransposeOp | graph.ReshapeOp | graph.SliceOp | graph.ExpandOp | graph.MaxPoolOp


class MovedIntegers(Fusion):
    """quantize(movement(dequantize(q))), of one scale and zero point -> movement(q)"""

    statistic: ClassVar[str] = "movements-of-integers"
    roots: ClassVar[tuple[type[Operation], ...] | None] = (graph.QuantizeOp,)
    elements: ClassVar[Elements | None] = None

    def match(self, op: Operation) -> Group | Miss | None:
        assert isinstance(op, graph.QuantizeOp)
        ops: list[Operation] = [op]
        sources = self._sources(op.input, ops)
        if sources is None or len(ops) == 1:
            return None
        for end in (op, *sources):
            if (unknown := why_unknown(end, self.ctx)) is not None:
                return Miss(unknown)
        to = quantized_as(op, self.ctx)
        assert to is not None
        for source in filter(None, (quantized(end.result, self.ctx) for end in sources)):
            if not source.same_numbers(to):
                what = f"scale {source.scale:.6g}, zero point {source.zero}"
                return Miss(
                    f"integers of {what} become integers of scale {to.scale:.6g}, zero point {to.zero}"
                )
        return Group(ops, lambda: self._moved(op.input, to), "movements of the integers")

    def _sources(self, value: SSAValue, ops: list[Operation]) -> list[graph.DequantizeOp] | None:
        """What movements that end in `value` move, if all of it is dequantized; the movements are added to `ops`."""
        movement = value.owner
        if isinstance(movement, graph.DequantizeOp):
            return [movement]
        if isinstance(movement, _MOVEMENTS | graph.ConcatOp):
            ops.append(movement)
            parts = [self._sources(operand, ops) for operand in dict.fromkeys(movement.operands)]
            found = [part for part in parts if part is not None]
            return [source for part in found for source in part] if len(found) == len(parts) else None
        return None

    def _moved(self, value: SSAValue, to: Quantized) -> list[Operation]:
        """The movements that end in `value`, of the integers."""
        movement = value.owner
        assert isinstance(movement, Operation)
        new: list[Operation] = []
        operands: list[SSAValue] = []
        for operand in movement.operands:
            known = quantized(operand, self.ctx)
            if known is None:
                new += self._moved(operand, to)
            operands.append(new[-1].results[0] if known is None else known.integers)
        types = [TensorType(to.element, shape_of(result)) for result in movement.results]
        copy = type(movement).create(
            operands=operands, result_types=types, properties=dict(movement.properties)
        )
        return [*new, copy]


_Arithmetic = graph.AddOp | graph.SubOp | graph.MulOp | graph.ReduceMeanOp | graph.AveragePoolOp


class QuantizedArithmetic(Fusion):
    """quantize(dequantize(a) + dequantize(b)), and the like -> quantize(a * (sa / sy) + b * (sb / sy) + c, 1)"""

    statistic: ClassVar[str] = "integer-arithmetic"
    roots: ClassVar[tuple[type[Operation], ...] | None] = (graph.QuantizeOp,)
    elements: ClassVar[Elements | None] = None

    def match(self, op: Operation) -> Group | Miss | None:
        assert isinstance(op, graph.QuantizeOp)
        to = quantized_as(op, self.ctx)
        value, between = below_absorbed(op, self.ctx)
        arithmetic = value.owner
        if not isinstance(arithmetic, _Arithmetic):
            return None
        sources = [quantized(operand, self.ctx) for operand in arithmetic.operands]
        known = [source for source in sources if source is not None]
        if not known:
            return None
        if to is None:
            return Miss(why_unknown(op, self.ctx) or "")
        if len(known) < len(sources):
            return Miss(f"an operand of {described(arithmetic)} is not dequantized by one constant scale")
        if isinstance(arithmetic, graph.AveragePoolOp) and _counts_padding(arithmetic):
            return Miss("the padding, which counts, is no integer of the input")
        if not _are_near(arithmetic, known, to):
            return Miss("its scales are so far apart that f32 would lose digits of the sums")
        return Group(
            [op, *between, arithmetic],
            lambda: self._build(op, arithmetic, known, to),
            "arithmetic on the integers",
        )

    def _build(
        self, quantize: graph.QuantizeOp, op: _Arithmetic, sources: list[Quantized], to: Quantized
    ) -> list[Operation]:
        new: list[Operation] = []

        def add(operation: Operation) -> SSAValue:
            new.append(operation)
            return operation.results[0]

        def number(value: float) -> SSAValue:
            return add(make_constant(np.array(value, np.float32), self.ctx, "number"))

        def scaled(value: SSAValue, factor: float) -> SSAValue:
            return add(graph.MulOp(value, number(factor)))

        def shifted(value: SSAValue, by: float) -> SSAValue:
            return add(graph.AddOp(value, number(by))) if by else value

        floats = [add(graph.CastOp(source.integers, f32)) for source in sources]
        factors = [source.scale / to.scale for source in sources]
        match op:
            case graph.MulOp():
                first, second = (
                    shifted(value, -source.zero) for value, source in zip(floats, sources, strict=True)
                )
                result = scaled(add(graph.MulOp(first, second)), factors[0] * sources[1].scale)
            case graph.AddOp() | graph.SubOp():
                sign = 1 if isinstance(op, graph.AddOp) else -1
                offset = -(sources[0].zero * factors[0] + sign * sources[1].zero * factors[1])
                if factors[0] == factors[1]:
                    result = scaled(add(type(op)(*floats)), factors[0])
                else:
                    terms = [scaled(value, factor) for value, factor in zip(floats, factors, strict=True)]
                    result = add(type(op)(*terms))
                result = shifted(result, offset)
            case graph.ReduceMeanOp() | graph.AveragePoolOp():
                mean = type(op).create(
                    operands=floats, result_types=op.result_types, properties=dict(op.properties)
                )
                result = shifted(scaled(add(mean), factors[0]), -sources[0].zero * factors[0])
        add(graph.QuantizeOp(result, number(1), quantize.zero_point, element_of(quantize.result)))
        return new


_LARGEST_SHIFT = 1 << 18
"""Up to here f32 is off by a 64th of an integer."""


def _are_near(op: _Arithmetic, sources: Sequence[Quantized], to: Quantized) -> bool:
    """Whether f32 has the factors, and what the zero points are moved by is small enough to be added exactly."""
    factors = [source.scale / to.scale for source in sources]
    if isinstance(op, graph.MulOp):
        shifts, factors = [], [factors[0] * sources[1].scale]
    else:
        shifts = [abs(source.zero) * factor for source, factor in zip(sources, factors, strict=True)]
    return is_normal(np.array(factors).astype(np.float32)) and max(shifts, default=0) <= _LARGEST_SHIFT


def _counts_padding(op: graph.AveragePoolOp) -> bool:
    return op.count_include_pad is not None and any((*op.window.low, *op.window.high))


def _erase_unused(root: Operation, before: Collection[Operation]) -> None:
    """Erase what dequantized the integers for operations that now take these; what was dead `before` stays."""
    kinds = graph.DequantizeOp | graph.TransposeOp | graph.ReshapeOp
    for op in reversed(list(root.walk())):
        if isinstance(op, kinds) and op not in before and is_dead(op) and may_rewrite(ERASE_DEAD, op):
            op.detach()
            op.erase()
