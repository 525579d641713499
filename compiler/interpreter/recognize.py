"""From a `linalg` op on memrefs to its structured form, and from that to what kind of computation it is.

The recogniser sees through index arithmetic on `linalg.index`, through loads at affine indices, and through the
guarded load of a padded read (`scf.if` on comparisons of affine positions). It is shared by every engine: it decides by
maps, iterator types and bodies alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import BroadcastOp, IndexOp, ReduceOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from mlopt.diagnostics import UnsupportedError, VerifyFailure
from mlopt.interpreter.expressions import (
    Apply,
    Bound,
    Captured,
    Const,
    Expr,
    Gather,
    Index,
    Linear,
    Read,
    Store,
    Structured,
    uses,
)
from mlopt.ir.locations import place_of_op

_ASSOCIATIVE_KINDS = (
    "addf mulf maximumf minimumf maxnumf minnumf addi muli maxsi maxui minsi minui andi ori xori"
)

ASSOCIATIVE: frozenset[str] = frozenset(f"arith.{kind}" for kind in _ASSOCIATIVE_KINDS.split())
"""Operations whose reduction may be evaluated in any order (floats up to rounding)."""

_PRODUCT_OF = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


class Reduction(NamedTuple):
    """`stores[j] = op(stores[j], element)` over the reduction dimensions; `element` does not read `stores[j]`."""

    op: str
    element: Expr


@dataclass(frozen=True, slots=True)
class Contraction:
    """`stores[0] += left * right` over the reduction dimensions."""

    left: Expr
    right: Expr


def is_structured(op: Operation) -> bool:
    """Whether `recognize` takes this op."""
    return isinstance(op, LinalgStructuredOperation | BroadcastOp | ReduceOp)


def recognize(op: Operation) -> Structured:
    """The structured form of a `linalg` op on memrefs of static shape.

    Raises `UnsupportedError` for a body with effects or control flow other than `scf.if` with results, and
    `VerifyFailure` for an access outside its memref or extents that contradict each other.
    """
    operands, output_count, maps, body = _parts(op)
    rank = maps[0].num_dims if maps else 0
    extents = _extents(op, operands, maps, rank)
    reader = _BodyReader(op, extents)
    for operand, map_, argument in zip(operands, maps, body.args, strict=True):
        reader.define_argument(argument, operand, map_)
    outputs = operands[len(operands) - output_count :]
    initial: list[Read] = []
    stores: list[Store] = []
    for argument, target in zip(body.args[len(operands) - output_count :], outputs, strict=True):
        read = reader.values[argument]
        if not isinstance(read, Read):
            raise _unsupported(op, "an output at an index that is not affine")
        initial.append(read)
        stores.append(Store(target, read.index))
    yields = reader.run(body)
    used = {d for store in stores for index in store.index for d in index.dims}
    return Structured(
        op,
        extents,
        frozenset(d for d in range(rank) if extents[d] != 1 and d not in used),
        tuple(stores),
        tuple(initial),
        tuple(yields),
    )


def as_reduction(form: Structured, position: int) -> Reduction | None:
    """Result `position` as a reduction by one associative operation, or None."""
    value, initial = form.yields[position], form.initial[position]
    if not isinstance(value, Apply) or value.name not in ASSOCIATIVE:
        return None
    left, right = value.args
    element = right if left is initial else left if right is initial else None
    if element is None or any(uses(element, other) for other in form.initial):
        return None
    return Reduction(value.name, element)


def as_contraction(form: Structured) -> Contraction | None:
    """The op as a sum of products of two factors, or None."""
    if len(form.stores) != 1 or not form.reductions:
        return None
    reduction = as_reduction(form, 0)
    if reduction is None or reduction.op not in _PRODUCT_OF:
        return None
    product = reduction.element
    if not isinstance(product, Apply) or product.name != _PRODUCT_OF[reduction.op]:
        return None
    left, right = product.args
    return None if left is right else Contraction(left, right)


def _unsupported(op: Operation, what: str) -> UnsupportedError:
    return UnsupportedError(f"'{op.name}' has {what}, which no engine executes", place=place_of_op(op))


def _parts(op: Operation) -> tuple[Sequence[SSAValue], int, list[AffineMap], Block]:
    """Operands, number of outputs, a map per operand, the body. What the iterator types declare is not needed."""
    if isinstance(op, BroadcastOp):
        rank = len(_memref_type(op, op.init).get_shape())
        added = set(op.dimensions.get_values())
        source = AffineMap(rank, 0, tuple(AffineDimExpr(d) for d in range(rank) if d not in added))
        return [op.input, op.init], 1, [source, AffineMap.identity(rank)], op.hidden_region.block
    if isinstance(op, ReduceOp):
        rank = len(_memref_type(op, op.input).get_shape())
        reduced = set(op.dimensions.get_values())
        target = AffineMap(rank, 0, tuple(AffineDimExpr(d) for d in range(rank) if d not in reduced))
        return [op.input, op.init], 1, [AffineMap.identity(rank), target], op.region.block
    assert isinstance(op, LinalgStructuredOperation)
    maps = [attr.data for attr in op.get_indexing_maps()]
    if any(kind.data is IteratorType.WINDOW for kind in op.get_iterator_types()):
        raise _unsupported(op, "an iterator of type window")
    return list(op.operands), len(op.outputs), maps, op.body.block


def _memref_type(op: Operation, value: SSAValue) -> MemRefType:
    if not isinstance(value.type, MemRefType):
        raise _unsupported(op, f"an operand of type {value.type}")
    type_ = cast("MemRefType[Attribute]", value.type)
    if not type_.has_static_shape():
        raise _unsupported(op, f"an operand of the dynamic shape {type_}")
    return type_


def _extents(
    op: Operation, operands: Sequence[SSAValue], maps: Sequence[AffineMap], rank: int
) -> tuple[int, ...]:
    """The extent of every dimension, from the operands that a map reaches by that dimension alone."""
    extents: list[int | None] = [None] * rank
    for operand, map_ in zip(operands, maps, strict=True):
        if not map_.results:
            continue
        for expr, size in zip(map_.results, _memref_type(op, operand).get_shape(), strict=True):
            if not isinstance(expr, AffineDimExpr):
                continue
            known = extents[expr.position]
            if known is not None and known != size:
                raise VerifyFailure(
                    f"'{op.name}' has the extents {known} and {size} for dimension {expr.position}",
                    place=place_of_op(op),
                )
            extents[expr.position] = size
    found = tuple(extent for extent in extents if extent is not None)
    if len(found) != rank:
        raise VerifyFailure(
            f"'{op.name}' has no operand that bounds dimension {extents.index(None)}", place=place_of_op(op)
        )
    return found


def _linear(expr: AffineExpr, rank: int) -> Linear | None:
    """An affine expression without division, or None."""
    match expr:
        case AffineDimExpr():
            return Linear.of_dim(rank, expr.position)
        case AffineConstantExpr():
            return Linear.of_constant(rank, expr.value)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            left, right = _linear(expr.lhs, rank), _linear(expr.rhs, rank)
            return left + right if left is not None and right is not None else None
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
            return _product(_linear(expr.lhs, rank), _linear(expr.rhs, rank))
        case _:
            return None


def _product(left: Linear | None, right: Linear | None) -> Linear | None:
    if left is None or right is None:
        return None
    if right.is_constant:
        return left.scaled(right.constant)
    return right.scaled(left.constant) if left.is_constant else None


_DIVISIONS = {
    AffineBinaryOpKind.FloorDiv: "arith.floordivsi",
    AffineBinaryOpKind.CeilDiv: "arith.ceildivsi",
    AffineBinaryOpKind.Mod: "affine.mod",
    AffineBinaryOpKind.Add: "arith.addi",
    AffineBinaryOpKind.Mul: "arith.muli",
}

_INDEX = IndexType()

# Predicates of arith.cmpi by number: (eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge).
_SLT, _SLE, _SGT, _SGE, _ULT = 2, 3, 4, 5, 6


class _BodyReader:
    """Turns the operations of a body into expressions, block by block."""

    def __init__(self, op: Operation, extents: tuple[int, ...]):
        self.op = op
        self.extents = extents
        self.rank = len(extents)
        self.values: dict[SSAValue, Expr] = {}
        self._reads: dict[tuple[SSAValue, tuple[Linear, ...], tuple[Bound, ...]], Read] = {}

    def define_argument(self, argument: SSAValue, operand: SSAValue, map_: AffineMap) -> None:
        if not isinstance(operand.type, MemRefType):
            self.values[argument] = Captured(operand.type, operand)
            return
        element = _memref_type(self.op, operand).element_type
        index = [_linear(expr, self.rank) for expr in map_.results]
        linear = tuple(i for i in index if i is not None)
        if len(linear) == len(index):
            self.values[argument] = self._read(element, operand, linear, ())
        else:
            positions = tuple(map(self._position, map_.results))
            self.values[argument] = Gather(element, operand, positions, place_of_op(self.op))

    def run(self, block: Block, conditions: tuple[Expr, ...] = ()) -> list[Expr]:
        """Read a block that runs where all `conditions` hold; return what its terminator yields."""
        for op in block.ops:
            if isinstance(op, YieldOp | scf.YieldOp):
                return [self._value(operand) for operand in op.operands]
            self._define(op, conditions)
        raise _unsupported(self.op, "a body without a yield")

    def _define(self, op: Operation, conditions: tuple[Expr, ...]) -> None:
        match op:
            case arith.ConstantOp():
                self.values[op.result] = self._constant(op)
            case IndexOp():
                self.values[op.result] = Index(_INDEX, Linear.of_dim(self.rank, op.dim.value.data))
            case memref.LoadOp():
                self.values[op.res] = self._load(op, conditions)
            case scf.IfOp() if op.output:
                self._define_if(op, conditions)
            case _ if (
                op.regions or len(op.results) != 1 or op.name.partition(".")[0] not in ("arith", "math")
            ):
                raise _unsupported(self.op, f"the operation '{op.name}' in its body")
            case _:
                self.values[op.results[0]] = self._apply(op)

    def _value(self, value: SSAValue) -> Expr:
        """The expression of a value; one from outside the op is the same at every point."""
        found = self.values.get(value)
        if found is not None:
            return found
        owner = value.owner
        result = self._constant(owner) if isinstance(owner, arith.ConstantOp) else Captured(value.type, value)
        self.values[value] = result
        return result

    def _constant(self, op: arith.ConstantOp) -> Expr:
        match op.value:
            case IntegerAttr() if isinstance(op.result.type, IndexType):
                return Index(_INDEX, Linear.of_constant(self.rank, op.value.value.data))
            case IntegerAttr() | FloatAttr():
                return Const(op.result.type, op.value.value.data)
            case _:
                raise _unsupported(self.op, f"the constant {op.value} in its body")

    def _apply(self, op: Operation) -> Expr:
        args = tuple(self._value(operand) for operand in op.operands)
        linear = self._affine(op.name, args)
        if linear is not None:
            return Index(_INDEX, linear)
        predicate = op.properties.get("predicate")
        return Apply(
            op.results[0].type,
            op.name,
            args,
            predicate.value.data if isinstance(predicate, IntegerAttr) else None,
        )

    def _affine(self, name: str, args: Sequence[Expr]) -> Linear | None:
        """Index arithmetic that stays affine."""
        if len(args) != 2:
            return None
        left, right = args
        if not (isinstance(left, Index) and isinstance(right, Index)):
            return None
        match name:
            case "arith.addi":
                return left.value + right.value
            case "arith.subi":
                return left.value - right.value
            case "arith.muli":
                return _product(left.value, right.value)
            case _:
                return None

    def _read(
        self, element: Attribute, source: SSAValue, index: tuple[Linear, ...], bounds: tuple[Bound, ...]
    ) -> Read:
        key = (source, index, bounds)
        if key not in self._reads:
            pad = Const(element, 0) if bounds else None
            self._reads[key] = Read(element, source, index, bounds, pad)
        return self._reads[key]

    def _load(self, op: memref.LoadOp, conditions: tuple[Expr, ...]) -> Expr:
        shape = _memref_type(self.op, op.memref).get_shape()
        index = tuple(self._value(i) for i in op.indices)
        linear = tuple(i.value for i in index if isinstance(i, Index))
        if len(linear) < len(index):
            if not conditions:
                self._require_inside(op, index, shape)
            return Gather(op.res.type, op.memref, index, place_of_op(op), speculative=bool(conditions))
        if 0 in self.extents:
            return self._read(op.res.type, op.memref, linear, ())
        inside = [Bound(i, 0, size) for i, size in zip(linear, shape, strict=True)]
        open_bounds = [bound for bound in inside if not bound.holds_everywhere(self.extents)]
        if not open_bounds:
            return self._read(op.res.type, op.memref, linear, ())
        guards = _conjunction(conditions)
        if guards is not None and all(_implied(bound, guards) for bound in open_bounds):
            needed = tuple(guard for guard in guards if not guard.holds_everywhere(self.extents))
            return self._read(op.res.type, op.memref, linear, needed)
        if not conditions:
            self._require_inside(op, index, shape)
        return Gather(op.res.type, op.memref, index, place_of_op(op), speculative=True)

    def _require_inside(self, op: memref.LoadOp, index: Sequence[Expr], shape: Sequence[int]) -> None:
        """`VerifyFailure` if an affine index of a load leaves the memref; computed ones are checked at run time."""
        for i, size in zip(index, shape, strict=True):
            if isinstance(i, Index) and not (
                0 in self.extents or Bound(i.value, 0, size).holds_everywhere(self.extents)
            ):
                raise VerifyFailure(
                    f"'{self.op.name}' loads from {op.memref.type} at an index that leaves it",
                    place=place_of_op(op),
                )

    def _define_if(self, op: scf.IfOp, conditions: tuple[Expr, ...]) -> None:
        condition = self._value(op.cond)
        then = self.run(op.true_region.block, (*conditions, condition))
        otherwise = self.run(op.false_region.block, (*conditions, Apply(condition.type, "not", (condition,))))
        guards = _conjunction((*conditions, condition))
        for result, yes, no in zip(op.output, then, otherwise, strict=True):
            self.values[result] = self._choose(condition, guards, yes, no)

    def _choose(self, condition: Expr, guards: tuple[Bound, ...] | None, yes: Expr, no: Expr) -> Expr:
        """`condition ? yes : no`; a read under exactly this guard takes the other value as its padding."""
        own = _conjunction((condition,))
        if (
            isinstance(yes, Read)
            and guards is not None
            and own is not None
            and isinstance(no, Const | Captured)
        ):
            if all(bound.holds_everywhere(self.extents) for bound in own):
                return yes
            needed = tuple(guard for guard in guards if not guard.holds_everywhere(self.extents))
            # A guard over several dimensions that no index needs is a mask (causal attention), no padding.
            padding = all(len(bound.expr.dims) == 1 for bound in needed) or yes.bounds
            if guards == own and padding and yes.bounds in ((), needed):
                return Read(yes.type, yes.source, yes.index, needed, no)
        return Apply(yes.type, "arith.select", (condition, yes, no))

    def _position(self, expr: AffineExpr) -> Expr:
        """An affine expression with divisions, as index arithmetic."""
        linear = _linear(expr, self.rank)
        if linear is not None:
            return Index(_INDEX, linear)
        if not isinstance(expr, AffineBinaryOpExpr):
            raise _unsupported(self.op, f"the index {expr}")
        args = (self._position(expr.lhs), self._position(expr.rhs))
        return Apply(_INDEX, _DIVISIONS[expr.kind], args)


def _conjunction(conditions: Sequence[Expr]) -> tuple[Bound, ...] | None:
    """The conditions as bounds on affine positions that must all hold, or None."""
    bounds: list[Bound] = []
    for condition in conditions:
        part = _bounds(condition)
        if part is None:
            return None
        bounds.extend(part)
    return _merged(bounds)


def _bounds(condition: Expr) -> list[Bound] | None:
    match condition:
        case Const():
            return [] if condition.value else None
        case Apply(name="arith.andi", args=(left, right)):
            first, second = _bounds(left), _bounds(right)
            return None if first is None or second is None else first + second
        case Apply(name="arith.select", args=(left, right, Const(value=0))):
            first, second = _bounds(left), _bounds(right)
            return None if first is None or second is None else first + second
        case Apply(name="arith.cmpi", args=(Index() as left, Index() as right), predicate=int() as predicate):
            return _comparison(predicate, left.value, right.value)
        case _:
            return None


def _comparison(predicate: int, left: Linear, right: Linear) -> list[Bound] | None:
    difference = left - right
    expr = Linear(difference.coefficients, 0)
    limit = -difference.constant  # left < right is expr < limit
    if predicate == _ULT and right.is_constant and right.constant >= 0:
        return [Bound(left, 0, right.constant)]
    if predicate == _SLT:
        return [Bound(expr, None, limit)]
    if predicate == _SLE:
        return [Bound(expr, None, limit + 1)]
    if predicate == _SGT:
        return [Bound(expr, limit + 1, None)]
    if predicate == _SGE:
        return [Bound(expr, limit, None)]
    return None


def _merged(bounds: Sequence[Bound]) -> tuple[Bound, ...]:
    """One bound per varying part, in normal form."""
    limits: dict[tuple[int, ...], tuple[float, float]] = {}
    for bound in bounds:
        coefficients, low, high = _normal(bound)
        held = limits.get(coefficients, (-math.inf, math.inf))
        limits[coefficients] = (max(held[0], low), min(held[1], high))
    return tuple(
        Bound(Linear(c), None if low == -math.inf else int(low), None if high == math.inf else int(high))
        for c, (low, high) in limits.items()
    )


def _normal(bound: Bound) -> tuple[tuple[int, ...], float, float]:
    """The bound without a constant in the expression, whose first coefficient is positive."""
    coefficients, constant = bound.expr.coefficients, bound.expr.constant
    low = -math.inf if bound.low is None else bound.low - constant
    high = math.inf if bound.high is None else bound.high - constant
    if next((c for c in coefficients if c), 1) < 0:
        return tuple(-c for c in coefficients), 1 - high, 1 - low
    return coefficients, low, high


def _implied(bound: Bound, guards: Sequence[Bound]) -> bool:
    """Whether one of the guards implies `bound`."""
    coefficients, low, high = _normal(bound)
    return any(
        found == coefficients and at_least >= low and below <= high
        for found, at_least, below in map(_normal, guards)
    )
