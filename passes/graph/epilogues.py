"""What follows a sum of products and becomes part of it: a bias, a residual, an activation. One fusion for each.

`fuse-linear` and `fuse-conv` say by a `Products` which operations they take and what a bias of theirs is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import ClassVar, NamedTuple

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph import ActivationAttr
from mlopt.dialects.graph.base import Elements, is_float, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.fusion import (
    Fusion,
    Group,
    Miss,
    described,
    either_way,
    fuse,
    name_of_kind,
    uniform_value,
    use_outside,
)


class Epilogue(NamedTuple):
    """What an operation does with its sums of products, in this order."""

    bias: SSAValue | None = None
    residual: SSAValue | None = None
    activation: ActivationAttr | None = None


class Products(ABC):
    """A kind of operation whose results are sums of products."""

    kinds: ClassVar[tuple[type[Operation], ...]]

    def into(self, op: Operation) -> str:
        """What the operation is called with an epilogue."""
        return name_of_kind(op)

    @abstractmethod
    def epilogue(self, op: Operation) -> Epilogue:
        """What the operation, one of `kinds`, does already."""

    @abstractmethod
    def extended(self, op: Operation, epilogue: Epilogue) -> Sequence[Operation]:
        """The operation with this epilogue, and before it what it takes."""

    @abstractmethod
    def is_bias(self, op: Operation, value: SSAValue) -> bool:
        """Has `value` the shape of a bias of the operation?"""

    def obstacle(self, op: Operation, role: str) -> str | None:
        """Why the operation can't have a bias, a residual or an activation (`role`), whatever that is."""
        return None

    def takes_residual(self, op: Operation) -> bool:
        """Can a tensor of the shape of the result be added?"""
        return True


def fuse_epilogues(ctx: CompilerContext, root: Operation, pass_name: str, products: Products) -> bool:
    """Fuse what follows these operations into them; returns whether anything changed."""
    order = {op: number for number, op in enumerate(root.walk())}
    fusions = [kind(ctx, pass_name, products, order) for kind in (FuseBias, FuseResidual, FuseActivation)]
    return fuse(ctx, root, fusions)


@dataclass
class EpilogueFusion(Fusion):
    """Base of the fusions. `order` numbers the operations as they stand in the module."""

    elements: ClassVar[Elements | None] = None

    products: Products
    order: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def group(self, op: Operation, product: Operation, role: str, epilogue: Epilogue) -> Group:
        """`op` and the product before it as one operation, of which it becomes the bias, the residual, ..."""

        def build() -> Sequence[Operation]:
            new = self.products.extended(product, epilogue)
            self.order[new[-1]] = self.order[op]
            return new

        return Group((op, product), build, f"'{self.products.into(product)}' as its {role}")


class FuseAddend(EpilogueFusion):
    """Base of the fusions of sums."""

    roots: ClassVar = (graph.AddOp,)

    def candidates(self, op: Operation) -> Iterator[tuple[Operation, Epilogue, SSAValue]]:
        """The products that `op` adds something to, with that; one that is computed later comes first.

        So what is computed first stays where it is.
        """
        found = [
            (value.owner, other)
            for value, other in either_way(op)
            if isinstance(value.owner, self.products.kinds) and value.owner.parent is op.parent
        ]
        for product, other in sorted(found, key=lambda pair: -self.order.get(pair[0], 0)):
            yield product, self.products.epilogue(product), other

    def role(self, op: Operation, product: Operation, epilogue: Epilogue, addend: SSAValue) -> str | Miss:
        """What `addend` is to `product`, "bias" or "residual"; why it is neither."""
        result = product.results[0]
        if addend is result:
            return Miss(f"the result of {described(product)} is added to itself")
        if op.results[0].type != result.type:
            return Miss(f"what is added enlarges {result.type} to {op.results[0].type}")
        if epilogue.activation is not None:
            return Miss(f"the activation of {described(product)} comes before the addition")
        fits_bias = self.products.is_bias(product, addend)
        fits_residual = addend.type == result.type and self.products.takes_residual(product)
        is_bias = fits_bias and epilogue.bias is None and epilogue.residual is None
        is_residual = fits_residual and epilogue.residual is None
        if not is_bias and not is_residual:
            return Miss(self._why_neither(product, epilogue, addend, fits_bias, fits_residual))
        role = "bias" if is_bias and (not is_residual or is_constant(addend)) else "residual"
        obstacle = self.products.obstacle(product, role)
        return role if obstacle is None else Miss(obstacle)

    def _why_neither(
        self, product: Operation, epilogue: Epilogue, addend: SSAValue, fits_bias: bool, fits_residual: bool
    ) -> str:
        if fits_residual:
            return f"{described(product)} has a residual already"
        if not fits_bias:
            can_be = self.products.takes_residual(product)
            also = "nor of the shape of its result" if can_be else "which has no residual"
            return f"{addend.type} is no bias of {described(product)}, {also}"
        if epilogue.residual is not None:
            return f"the residual of {described(product)} is added before the bias"
        return f"{described(product)} has a bias already"


class FuseBias(FuseAddend):
    """product + b -> product with the bias b"""

    statistic: ClassVar[str] = "biases-fused"

    def match(self, op: Operation) -> Group | Miss | None:
        miss: Miss | None = None
        for product, epilogue, addend in self.candidates(op):
            role = self.role(op, product, epilogue, addend)
            outside = use_outside((op, product))
            if isinstance(role, Miss):
                miss = miss or role
            elif outside is not None:
                miss = miss or Miss(outside)
            else:
                return (
                    self.group(op, product, role, epilogue._replace(bias=addend)) if role == "bias" else None
                )
        return miss


class FuseResidual(FuseAddend):
    """product + r -> product with the residual r; what is no sum for it is reported by `FuseBias`"""

    statistic: ClassVar[str] = "residuals-fused"

    def match(self, op: Operation) -> Group | Miss | None:
        for product, epilogue, addend in self.candidates(op):
            role = self.role(op, product, epilogue, addend)
            if not isinstance(role, Miss) and use_outside((op, product)) is None:
                is_residual = role == "residual"
                return (
                    self.group(op, product, role, epilogue._replace(residual=addend)) if is_residual else None
                )
        return None


class FuseActivation(EpilogueFusion):
    """activation(product) -> product with the activation"""

    statistic: ClassVar[str] = "activations-fused"
    roots: ClassVar = (*graph.UNARY_ACTIVATIONS.values(), graph.ClipOp)

    def match(self, op: Operation) -> Group | Miss | None:
        assert isinstance(op, graph.UnaryOp | graph.ClipOp)
        product = op.input.owner
        if not isinstance(product, self.products.kinds) or product.parent is not op.parent:
            return None
        epilogue = self.products.epilogue(product)
        if epilogue.activation is not None:
            return None
        obstacle = self.products.obstacle(product, "activation")
        activation = clip_activation(op, self.ctx) if isinstance(op, graph.ClipOp) else ActivationAttr.of(op)
        if obstacle is not None:
            return Miss(obstacle)
        if activation is None:
            return Miss(
                f"{described(op)} is of integers, or has numbers that are not finite, or not constant"
            )
        return self.group(op, product, "activation", epilogue._replace(activation=activation))


def clip_activation(op: graph.ClipOp, ctx: CompilerContext) -> ActivationAttr | None:
    """A clip of floats between finite constants, at least one, as an activation; None for another."""
    bounds = [None if bound is None else uniform_value(bound, ctx) for bound in (op.lower, op.upper)]
    unknown = (op.lower is None) != (bounds[0] is None) or (op.upper is None) != (bounds[1] is None)
    known = [bound for bound in bounds if bound is not None]
    if not known or unknown or not all(map(isfinite, known)):
        return None
    return ActivationAttr.clip(*bounds) if is_float(tensor_type(op.result.type).element_type) else None
