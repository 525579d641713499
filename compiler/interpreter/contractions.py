"""Contractions: `out += left * right`, summed over the dimensions that `out` does not have.

A contraction is a matrix product (`MatrixProduct`) as a whole or cut where padding begins, or a batch of dot products
(`Dots`), whichever is cheaper within the scratch there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlopt.interpreter.dots import Dots
from mlopt.interpreter.elementwise import sorted_by_strides
from mlopt.interpreter.expressions import Expr, Structured
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.matrix_product import MatrixProduct
from mlopt.interpreter.parts import Parts, unpadded_ranges
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.precision import converted, sum_dtype
from mlopt.interpreter.recognize import Contraction
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import View

_WORTH_CUTTING = 1.2
"""How much longer than it could a contraction must take for its parts to be looked at: that takes time, too."""


def emit_contraction(
    builder: PlanBuilder,
    scratch: Scratch,
    binding: Binding,
    form: Structured,
    contraction: Contraction,
    out: View,
    fill: object | None,
) -> None:
    """Emit `out += left * right`; with `fill`, `out` is known to hold that number everywhere and need not be read.

    `out` has one axis per dimension of `form` and must not overlap what the factors read.
    """
    points = math.prod(form.extents[d] for d in form.reductions)
    dtype = sum_dtype(contraction.left, contraction.right, points, out.dtype)
    left, right = converted(contraction.left, dtype), converted(contraction.right, dtype)
    parts = Parts(binding)

    def emission(left: Expr, right: Expr, out: View) -> MatrixProduct:
        return MatrixProduct(builder, scratch, parts, left, right, out, fill)

    products = _cheapest(emission, parts, left, right, out)
    dots = Dots.of(builder, scratch, binding, left, right, out, fill)
    if dots is not None and dots.cost < _total(products):
        dots.run()
        return
    for part in products:
        part.run()


def _total(products: Sequence[MatrixProduct]) -> float:
    return sum(part.cost for part in products)


def _cheapest(
    emission: Callable[[Expr, Expr, View], MatrixProduct], cuts: Parts, left: Expr, right: Expr, out: View
) -> list[MatrixProduct]:
    """The contraction as a whole, or cut where padding begins, whichever is cheaper and fits the scratch.

    What lies inside needs no padding, and is packed by one call without a slab.
    """
    whole = emission(left, right, out)
    if whole.is_one_block or whole.cost < _WORTH_CUTTING * whole.least_cost:
        return [whole]
    for dim in reversed(sorted_by_strides((d for d, s in enumerate(out.strides) if s), out)):
        ranges = unpadded_ranges((left, right), dim, out)
        if len(ranges) == 1:
            continue
        parts: list[MatrixProduct] = []
        for low, high in ranges:
            shape = tuple(high - low if d == dim else e for d, e in enumerate(out.shape))
            box = out.box([low if d == dim else 0 for d in range(out.ndim)], shape)
            first, second = (cuts.shifted(factor, dim, low, shape) for factor in (left, right))
            parts += _cheapest(emission, cuts, first, second, box)
        if all(part.fits for part in parts) and _total(parts) < whole.cost:
            return parts
    return [whole]
