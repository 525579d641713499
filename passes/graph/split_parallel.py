"""`split-parallel`: linears and attention heads computed by several ways, each with a part of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.diagnostics import PassFailure, counted
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.effects import is_dead
from mlopt.ir.names import copy_name, set_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.ways import set_way, way_of
from mlopt.passes.graph.constants import constant_value, is_constant, make_constant, name_of
from mlopt.passes.graph.fusion import described
from mlopt.passes.graph.sharding import Array, Obstacle, Sharding, is_column_product, local
from mlopt.passes.graph.split_regions import Region, region_of_columns, region_to
from mlopt.passes.graph.split_report import Holdings, bytes_of, holdings
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


@dataclass(frozen=True)
class SplitParallelPass(Pass):
    """Split products with constant weights, and what is between them, over `ways` devices (tensor parallelism).

    1. Pairs: a product whose weight is split by rows, the products before it whose weights are split by columns, and
       what is between, element by element or by heads of attention. A `graph.all_reduce` adds up the partial results;
       bias, residual and activation of the last product come after it, once.
    2. With `columns`, what is left over: a product whose weight is split by columns, and a `graph.all_gather`.

    A result inside a pair that is an output too, of the model or of the body of a loop or branch that the pair is in,
    is gathered, unless `gather-outputs` is false. What one way alone computes has `{mlopt.way = N}`. Not split, with a
    remark: numbers of rows, columns or heads that `ways` does not divide; results that something else uses too; weights
    that are not constant. After the fusions; in no pipeline, and a second run changes nothing. Sums of products are
    rounded in another order.
    """

    name = "split-parallel"
    requires: ClassVar = GRAPH_LEVEL
    idempotent: ClassVar[bool] = True
    rewrites: ClassVar[Mapping[str, str]] = {
        "split-pair": "A product split by rows, those before it split by columns, and what is between.",
        "split-columns": "A product split by columns, gathered.",
    }

    ways: int = 2
    gather_outputs: bool = True
    columns: bool = False

    def __post_init__(self) -> None:
        if self.ways < 1:
            raise PassFailure(f"expected at least 1 way, found {self.ways}")

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        if self.ways == 1:
            return False
        functions = [inner for inner in op.walk() if isinstance(inner, FuncOp) and not inner.is_declaration]
        changed = False
        for function in functions:
            changed |= self._run(ctx, function)
        return changed

    def _run(self, ctx: CompilerContext, op: FuncOp) -> bool:
        products = [inner for inner in op.walk() if is_column_product(inner) and way_of(inner) is None]
        if not products:
            return False
        order = {inner: number for number, inner in enumerate(op.walk())}
        before = holdings(op, 1)
        left: dict[Operation, str] = {}
        changed = False
        for product in products:
            if product.parent is None:
                continue
            region = region_to(product, self.ways, order, gather=self.gather_outputs)
            if isinstance(region, Region) and may_rewrite("split-pair", product):
                self._split(ctx, region, product)
                changed = True
            elif not isinstance(region, Region):
                left[product] = "nothing before it is split by columns" if region is None else region.reason
        for product, reason in left.items():
            if product.parent is None:
                continue
            columns = region_of_columns(product, self.ways) if self.columns else None
            if isinstance(columns, Region) and may_rewrite("split-columns", product):
                self._split(ctx, columns, product)
                changed = True
            elif not isinstance(columns, Region):
                also = f", and {columns.reason}" if isinstance(columns, Obstacle) else ""
                ctx.remark(self.name, "missed", f"not split: {reason}{also}", product)
        if changed:
            self._report(ctx, op, before)
        return changed

    def _split(self, ctx: CompilerContext, region: Region, at: Operation) -> None:
        """Put the parts of a region in place of it, report it, and count."""
        kinds = [described(member) for member in region.members if is_column_product(member)]
        if region.root is not None:
            kinds.append(described(region.root))
        splitting = _Splitting(ctx, region, at, self.ways)
        location = at.location
        splitting.run()
        collectives = ["1 all_reduce"] if region.root is not None else []
        if gathers := len(region.gathered):
            collectives.append(counted(gathers, "all_gather"))
        weight = splitting.bytes_per_way
        message = f"split {', '.join(kinds)} in {self.ways} ways: {weight} bytes of weights each, "
        facts = {
            "ways": self.ways,
            "products": region.products,
            "weight_bytes_per_way": weight,
            "all_reduces": int(region.root is not None),
            "all_gathers": len(region.gathered),
        }
        ctx.remark(self.name, "passed", message + " and ".join(collectives), location, args=facts)
        ctx.count(self.name, "pairs-split" if region.root is not None else "columns-split")
        ctx.count(self.name, "products-split", region.products)
        ctx.count(self.name, "all-reduces", int(region.root is not None))
        ctx.count(self.name, "all-gathers", len(region.gathered))

    def _report(self, ctx: CompilerContext, function: FuncOp, before: Holdings) -> None:
        """How many bytes the ways hold."""
        now = holdings(function, self.ways)
        ctx.remark(
            self.name,
            "analysis",
            f"each of {self.ways} ways holds {now.own} bytes of constants of its own, {now.shared} that all have, and "
            f"at most {now.peak} of results at once; the whole held {before.shared} and {before.peak}",
            function,
            args={
                "ways": self.ways,
                "own_bytes": now.own,
                "shared_bytes": now.shared,
                "peak_bytes": now.peak,
                "whole_bytes": before.shared,
                "whole_peak_bytes": before.peak,
            },
        )


@dataclass
class _Splitting:
    """Replaces one region by its parts, all of one way after those of the other, in front of its last product."""

    ctx: CompilerContext
    region: Region
    at: Operation
    ways: int
    bytes_per_way: int = 0
    parts: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """The parts of results that are gathered."""
    arrays: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])

    def run(self) -> None:
        partials = [self._way(way) for way in range(self.ways)]
        for value in self.region.gathered:
            sharding = self.region.shardings[value]
            gathered = self._insert(graph.AllGatherOp(self.parts[value], sharding.axis), self.at)
            if isinstance(value, OpResult):
                gathered.location = value.op.location
            copy_name(value, gathered.results[0])
            value.replace_all_uses_with(gathered.results[0])
        if self.region.root is not None:
            result = self._after_reduction(partials)
            self.region.root.results[0].replace_all_uses_with(result)
        self._erase()

    def _way(self, way: int) -> SSAValue:
        """Everything that one way computes; returns its partial result, or its part of a region without root."""
        values: dict[tuple[SSAValue, Sharding], SSAValue] = {}

        def part(value: SSAValue, sharding: Sharding, user: Operation) -> SSAValue:
            if (value, sharding) not in values:
                made = self._cut(value, sharding, way, user)
                values[value, sharding] = made
            return values[value, sharding]

        result: SSAValue | None = None
        for op, wanted in self.region.members.items():
            operands = [
                operand if own is None else part(operand, own, op)
                for operand, own in zip(op.operands, wanted, strict=True)
            ]
            shardings = [self.region.shardings.get(value) for value in op.results]
            new = self._insert(local(op, operands, shardings, self.ways), op, way)
            for old, made, sharding in zip(op.results, new.results, shardings, strict=True):
                copy_name(old, made)
                if sharding is not None:
                    values[old, sharding] = made
                if old in self.region.gathered:
                    self.parts.setdefault(old, []).append(made)
            result = new.results[-1]
        root = self.region.root
        if root is None:
            assert result is not None
            return result
        input, weight = root.operands[:2]
        rows = Sharding.of(shape_of(weight), 0)
        factors = (part(input, self.region.shardings[input], root), part(weight, rows, root))
        partial = self._insert(graph.MatMulOp(*factors), root, way).results[0]
        copy_name(root.results[0], partial)
        return partial

    def _cut(self, value: SSAValue, sharding: Sharding, way: int, user: Operation) -> SSAValue:
        """One way's part of a value that is there whole: a constant of its own, or slices."""
        array = self._array(value)
        if array is not None:
            name = f"{name_of(value, 'weight')}.way{way}"
            constant = make_constant(sharding.part(array, way, self.ways), self.ctx, name)
            if way == 0:
                self.bytes_per_way += bytes_of(constant.result)
            origin = value.owner if isinstance(value, OpResult) else user
            return self._insert(constant, origin, way).results[0]
        shape = shape_of(value)
        pieces: list[SSAValue] = []
        for start, stop in sharding.ranges(way, self.ways):
            slice_ = graph.SliceOp.over_axes(value, [start], [stop], [sharding.axis])
            pieces.append(self._insert(slice_, user, way).results[0])
        if len(pieces) == 1:
            return pieces[0]
        assert len(shape) > sharding.axis
        return self._insert(graph.ConcatOp(pieces, sharding.axis), user, way).results[0]

    def _array(self, value: SSAValue) -> Array | None:
        if value not in self.arrays:
            array = constant_value(value, self.ctx) if is_constant(value) else None
            if array is None:
                return None
            self.arrays[value] = array
        return self.arrays[value]

    def _after_reduction(self, partials: Sequence[SSAValue]) -> SSAValue:
        """The sum of the partial results, and what the product did with it."""
        root = self.region.root
        assert root is not None
        steps: list[Operation] = [self._insert(graph.AllReduceOp(partials), root)]
        if isinstance(root, graph.LinearOp):
            for addend in (root.bias, root.residual):
                if addend is not None:
                    steps.append(self._insert(graph.AddOp(steps[-1], addend), root))
            if root.activation is not None:
                steps.append(self._activation(root.activation, steps[-1].results[0], root))
        for step in steps:
            set_name(step.results[0], root.results[0].name_hint)
        return steps[-1].results[0]

    def _activation(self, activation: graph.ActivationAttr, value: SSAValue, root: Operation) -> Operation:
        """The operation that an activation stands for."""
        type_ = tensor_type(value.type)
        like = activation.operation(type_)
        dtype = to_numpy_dtype(type_.element_type)
        numbers: list[SSAValue] = []
        for number in activation.numbers:
            constant = make_constant(dtype.type(number).reshape(()), self.ctx, "bound")
            numbers.append(self._insert(constant, root).results[0])
        applied = type(like).create(
            operands=[value, *numbers], properties=like.properties, result_types=[value.type]
        )
        return self._insert(applied, root)

    def _insert(self, new: Operation, origin: Operation, way: int | None = None) -> Operation:
        new.location = origin.location
        if way is not None:
            set_way(new, way)
        Rewriter.insert_op(new, InsertPoint.before(self.at))
        return new

    def _erase(self) -> None:
        """What the parts stand for, and constants that nothing uses any more."""
        old = [*self.region.members, *([] if self.region.root is None else [self.region.root])]
        for op in reversed(old):
            taken = [operand.op for operand in op.operands if isinstance(operand, OpResult)]
            Rewriter.erase_op(op)
            for constant in taken:
                _erase_unused_constant(constant)


def _erase_unused_constant(op: Operation) -> None:
    """Erase a constant, or reshapes and transposes of one, if nothing uses it."""
    while op.parent is not None and is_dead(op) and is_constant(op.results[0]):
        before = op.operands[0].owner if op.operands else None
        Rewriter.erase_op(op)
        if not isinstance(before, Operation):
            return
        op = before
