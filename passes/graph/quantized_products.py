"""Matrix products and convolutions of dequantized numbers as products of the integers.

With x = (a - za) * sx and w = b * sw, the zero point of w subtracted, and a scale sw for each output feature,

    sum(x * w) + bias = (sum(a * b) + bias / (sx * sw) - za * sum(b)) * (sx * sw)

where the sum of products is an integer, and all else is constant. A `graph.quantize` that follows divides by its scale:
the factor becomes `sx * sw / sy`, the scale 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import Elements, rank_of, shape_of
from mlopt.passes.graph.algebra import is_normal
from mlopt.passes.graph.constants import constant_value, make_constant, name_of
from mlopt.passes.graph.fusion import Fusion, Group, Miss, either_way
from mlopt.passes.graph.quantized_values import (
    EXACT,
    Array,
    Quantized,
    QuantizedConstant,
    element_of,
    quantized,
    quantized_as,
    quantized_constant,
    signed,
)
from mlopt.passes.graph.saturation import below_absorbed

Product = graph.ConvOp | graph.MatMulOp


@dataclass(frozen=True, slots=True)
class _Factors:
    """`sum(x * w) = sums * scale`: the integers, what is added to their sums, and the factor, f64 arrays.

    `offset` and `scale` broadcast to the result. `bound` is the largest magnitude of a partial sum.
    """

    x: Quantized
    w: QuantizedConstant | Quantized
    offset: Array
    scale: Array
    bound: float


class QuantizedProduct(Fusion):
    """[quantize](product(dequantize(a), dequantize(b)) + bias) -> [quantize]((integer product + c) * scale)"""

    statistic: ClassVar[str] = "integer-products"
    roots: ClassVar[tuple[type[Operation], ...] | None] = (
        graph.QuantizeOp,
        graph.AddOp,
        graph.ConvOp,
        graph.MatMulOp,
    )
    elements: ClassVar[Elements | None] = None

    def match(self, op: Operation) -> Group | Miss | None:
        product = self._product_before(op)
        if product is None:
            return None
        ops = self._group_of(product)
        if ops[0] is not op:
            return None
        factors = self._factors(product)
        if factors is None or isinstance(factors, Miss):
            return factors
        bias = self._bias(product, ops)
        if bias is None:
            return Miss("its bias is not constant")
        if not _is_finite(factors):
            return Miss("numbers that it multiplies or sums may overflow")
        if not is_normal(self._scale(ops[0], factors)):
            return Miss("f32 has no number for the product of its scales, or less than all digits")
        offset = factors.offset + _in_units(bias, factors.scale)
        largest = factors.bound + float(np.max(np.abs(offset), initial=0))
        if not largest <= EXACT:
            return Miss(f"sums may reach {largest:.3g}, and f32 holds integers up to {EXACT}")
        return Group(ops, lambda: self._build(product, ops, factors, offset), "a product of integers")

    # What belongs to the group

    def _product_before(self, op: Operation) -> Product | None:
        """The product that a group that ends at `op` would start with."""
        last = below_absorbed(op, self.ctx)[0].owner if isinstance(op, graph.QuantizeOp) else op
        if isinstance(last, graph.AddOp):
            for value, _ in either_way(last):
                if isinstance(value.owner, Product) and self._addend(last, value.owner) is not None:
                    return value.owner
        return last if isinstance(last, Product) else None

    def _group_of(self, product: Product) -> list[Operation]:
        """The operations from the last one to the product: quantize, what it absorbs, the bias, as far as they go."""
        ops: list[Operation] = [product]
        user = _only_user(product)
        if isinstance(user, graph.AddOp) and self._addend(user, product) is not None:
            ops.insert(0, user)
            user = _only_user(user)
        between: list[Operation] = []
        while isinstance(user, graph.ReluOp | graph.ClipOp):
            between.insert(0, user)
            user = _only_user(user)
        if isinstance(user, graph.QuantizeOp) and below_absorbed(user, self.ctx)[0] is ops[0].results[0]:
            return [user, *between, *ops] if quantized_as(user, self.ctx) is not None else ops
        return ops

    def _addend(self, add: graph.AddOp, product: Product) -> Array | None:
        """What is added to a product, if it is constant, and one number for each feature."""
        other = add.rhs if add.lhs.owner is product else add.lhs
        array = self._constant(other)
        shape = shape_of(product.result)
        if array is None or shape_of(add.result) != shape or array.ndim > len(shape):
            return None
        axis = 1 if isinstance(product, graph.ConvOp) else len(shape) - 1
        aligned = array.reshape(*[1] * (len(shape) - array.ndim), *array.shape)
        return aligned if all(size == 1 for a, size in enumerate(aligned.shape) if a != axis) else None

    def _constant(self, value: SSAValue) -> Array | None:
        """A constant, or one that is dequantized, in f64."""
        array = constant_value(value, self.ctx)
        if array is not None:
            return array.astype(np.float64)
        known = quantized_constant(value, self.ctx)
        return known and known.integers * known.scale

    def _bias(self, product: Product, ops: Sequence[Operation]) -> Array | None:
        """All that is added to the product, in f64; None if it is not constant."""
        rank = rank_of(product.result)
        total = np.zeros([1] * rank)
        if isinstance(product, graph.ConvOp) and product.bias is not None:
            bias = self._constant(product.bias)
            if bias is None:
                return None
            total = bias.reshape(1, -1, *[1] * (rank - 2))
        for op in ops:
            if isinstance(op, graph.AddOp):
                addend = self._addend(op, product)
                assert addend is not None
                total = total + addend
        return total

    # What it means

    def _factors(self, product: Product) -> _Factors | Miss | None:
        if isinstance(product, graph.ConvOp):
            if len(product.operands) > 2 + (product.bias is not None) or "activation" in product.properties:
                return None
            return self._of_constant(product, product.input, product.weight)
        if rank_of(product.lhs) < 2 or rank_of(product.rhs) < 2:
            return None
        first, second = quantized(product.lhs, self.ctx), quantized(product.rhs, self.ctx)
        constants = [quantized_constant(value, self.ctx) for value in product.operands]
        if first is not None and second is not None and constants == [None, None]:
            return self._of_variables(product, first, second)
        return self._of_constant(product, product.lhs, product.rhs)

    def _of_constant(self, product: Product, input: SSAValue, weight: SSAValue) -> _Factors | Miss | None:
        x, w = quantized(input, self.ctx), quantized_constant(weight, self.ctx)
        if x is None and w is None:
            return None
        if x is None:
            return Miss("its input is not dequantized from integers by one constant scale")
        if w is None:
            return Miss("its weight is not dequantized from constant integers")
        rank = rank_of(product.result)
        summed = [*range(1, w.integers.ndim)] if isinstance(product, graph.ConvOp) else [w.integers.ndim - 2]
        scale = w.scale_along(summed)
        if scale is None:
            return Miss("the scale of its weight varies along what is summed")
        low, high = w.integers.min(initial=0), w.integers.max(initial=0)
        if low < -(1 << 15) or high >= 1 << 15:
            return Miss("its weight less the zero point does not fit 16 bits")
        sums = w.integers.sum(axis=tuple(summed), keepdims=True)
        magnitudes = np.abs(w.integers).sum(axis=tuple(summed))
        if isinstance(product, graph.ConvOp):
            scale, sums = (array.reshape(1, -1, *[1] * (rank - 2)) for array in (scale, sums))
        bound = float(np.max(magnitudes, initial=0)) * x.largest
        return _Factors(x, w, -x.zero * sums, scale * x.scale, bound)

    def _of_variables(self, product: graph.MatMulOp, x: Quantized, w: Quantized) -> _Factors | Miss:
        if x.zero or w.zero:
            return Miss("both factors vary, and one has a zero point")
        none = np.zeros([1] * rank_of(product.result))
        depth = shape_of(product.lhs)[-1]
        return _Factors(x, w, none, none + x.scale * w.scale, float(depth) * x.largest * w.largest)

    def _scale(self, last: Operation, factors: _Factors) -> Array:
        """What the sums are multiplied by, in f32."""
        to = quantized_as(last, self.ctx) if isinstance(last, graph.QuantizeOp) else None
        scale = factors.scale if to is None else factors.scale / to.scale
        return scale.astype(np.float32)

    # What it becomes

    def _build(
        self, product: Product, ops: Sequence[Operation], factors: _Factors, offset: Array
    ) -> list[Operation]:
        new: list[Operation] = []

        def add(op: Operation) -> SSAValue:
            new.append(op)
            return op.results[0]

        def constant(array: Array, name: str) -> SSAValue:
            return add(make_constant(array, self.ctx, name))

        def number(array: Array, name: str) -> SSAValue:
            if array.size and bool(np.all(array == array.reshape(-1)[0])):
                array = array.reshape(-1)[0]
            elif isinstance(product, graph.MatMulOp):
                array = array.reshape(array.shape[-1:]) if array.size == array.shape[-1] else array
            else:
                array = array.reshape(array.shape[1:])
            return constant(np.asarray(array, np.float32), name)

        casts, x = signed(factors.x)
        new += casts
        if isinstance(factors.w, Quantized):
            casts, w = signed(factors.w)
            new += casts
        elif factors.w.is_plain:
            w = factors.w.source
        else:
            w = constant(_narrowest(factors.w.integers), name_of(factors.w.source, "weight"))
        result = add(_integer_product(product, x, w, factors.x.zero))
        last = ops[0]
        if np.any(offset):
            result = add(graph.AddOp(result, number(offset, "offset")))
        result = add(graph.MulOp(result, number(self._scale(last, factors), "scale")))
        if isinstance(last, graph.QuantizeOp):
            one = constant(np.array(1, np.float32), "one")
            add(graph.QuantizeOp(result, one, last.zero_point, element_of(last.result)))
        return new


def _is_finite(factors: _Factors) -> bool:
    """Whether f32 has the dequantized numbers and the sums of their products, which the integers know no bounds of."""
    limit = float(np.finfo(np.float32).max)
    weights = 0.0 if isinstance(factors.w, Quantized) else np.abs(factors.w.integers * factors.w.scale)
    sums = 2 * factors.bound * np.abs(factors.scale)  # a zero point may double the integers
    return bool(np.all(weights <= limit) and np.all(sums <= limit))


def _in_units(bias: Array, scale: Array) -> Array:
    """`bias / scale`; integers where it was integers times that scale, as far as f32 tells."""
    units = np.asarray(bias / scale)
    whole = np.rint(units)
    return np.where(np.abs(units - whole) <= np.abs(units) * 2.0**-22, whole, units)


def _narrowest(integers: Array) -> Array:
    """As i8, or i16 if that is too narrow."""
    fits = bool(np.all((integers >= -128) & (integers < 128)))
    return integers.astype(np.int8 if fits else np.int16)


def _integer_product(product: Product, x: SSAValue, w: SSAValue, zero: int) -> Operation:
    if isinstance(product, graph.MatMulOp):
        return graph.IntegerMatMulOp(x, w)
    window = product.window
    return graph.IntegerConvOp(
        x,
        w,
        strides=window.strides,
        pads=window.low + window.high,
        dilations=window.dilations,
        group=product.groups,
        pad_value=zero,
    )


def _only_user(op: Operation) -> Operation | None:
    """The operation in the same block that uses the result of `op`, once, if nothing else does."""
    (result,) = op.results
    user = next(iter(result.uses)).operation if result.has_one_use() else None
    return user if user is not None and user.parent is op.parent else None
