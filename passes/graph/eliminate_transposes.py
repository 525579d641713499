"""`eliminate-transposes`: operations run with their dimensions in the order that takes the fewest transposes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.worklist import Worklist

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import MAX_DENSE_ELEMENTS, to_numpy_dtype
from mlopt.ir.effects import is_dead
from mlopt.ir.locations import nodes_text
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.axis_orders import (
    Order,
    Orders,
    Reordering,
    compose,
    inverse,
    moves_data,
    reordered,
    reordering_of,
)
from mlopt.passes.graph.canonicalization import DropIdentityMovement, MergeTransposes, TransposeOfOnes
from mlopt.passes.graph.constants import constant_value, is_constant, make_constant, name_of
from mlopt.passes.graph.minimum_cut import FlowNetwork
from mlopt.passes.graph.reported import Reported
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


@dataclass(frozen=True)
class EliminateTransposesPass(Pass):
    """Let operations run in another order of dimensions where that needs fewer transposes.

    1. Transposes of transposes are merged, one that undoes the other goes, one that moves no data becomes a reshape.
    2. Operations that can run in any order (elementwise, along axes, reductions, slices, pads, concats, reshapes that
       keep dimensions together, products and windows as far as their dimensions allow) and that hang together are
       looked at as a whole: a minimum cut says which of them run in the order of a transpose's operand, so that the
       fewest transposes stand at the borders. That sinks transposes, hoists them, and merges them into reductions,
       softmax, concats, products and convolutions, around values that are used several times too.

    Constants are rewritten, if they are small or used only there. Nothing is done that does not lower the number of
    transposes, and nothing that makes them move more bytes: that number falls with every change, so the pass ends.
    Sums over other orders of dimensions may round otherwise. Remarks: what went, and where transposes meet that stay.
    """

    name = "eliminate-transposes"
    requires: ClassVar = GRAPH_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "reorder-region": "Operations that hang together run in the order of dimensions with the fewest transposes."
    }

    regions: bool = True
    """Whether operations are put into another order (2.)."""

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        message = "a transpose is merged into what is before it, or is a reshape"
        patterns = [DropIdentityMovement(), MergeTransposes(), TransposeOfOnes()]
        merging = Reported(ctx, self.name, "transposes-merged", message, [graph.TransposeOp], patterns)
        changed = rewrite_greedily(op, [merging], dce=True).changed
        return (self.regions and _Eliminator(ctx).run(op)) or changed


class _Eliminator:
    """Looks at the region around each transpose, once for each of its sides, and again after a change at it."""

    def __init__(self, ctx: CompilerContext):
        self.ctx = ctx
        self.worklist: Worklist[graph.TransposeOp] = Worklist()
        self.seen: set[tuple[graph.TransposeOp, bool]] = set()
        self.sequence = _Sequence()

    def run(self, root: Operation) -> bool:
        for op in root.walk():
            self.sequence.append(op)
        for op in root.walk(reverse=True):
            if isinstance(op, graph.TransposeOp):
                self.worklist.push(op)
        changed = False
        while self.worklist:
            transpose = self.worklist.pop()
            for below in (True, False):
                if transpose.parent is not None and (transpose, below) not in self.seen:
                    changed |= self._visit(transpose, below)
        return changed

    def _visit(self, transpose: graph.TransposeOp, below: bool) -> bool:
        self.seen.add((transpose, below))
        perm = transpose.permutation
        seed, order = (transpose.result, perm) if below else (transpose.input, inverse(perm))
        region = None if is_constant(transpose.input) else _Region.around(seed, order, self.ctx)
        if region is None:
            return False
        self.seen.update((source, True) for source in region.sources)
        self.seen.update((sink, False) for sink in region.sinks)
        if len(region.sources) + len(region.sinks) < 2 and not region.absorbs():
            return False
        chosen, saved, why = region.choose()
        if not chosen:
            self.ctx.count(EliminateTransposesPass.name, "regions-kept")
            self.ctx.remark(EliminateTransposesPass.name, "missed", f"not removed: {why}", transpose)
            return False
        if not may_rewrite("reorder-region", transpose):
            return False
        self.ctx.count(EliminateTransposesPass.name, "regions-reordered")
        self.ctx.count(EliminateTransposesPass.name, "transposes-removed", saved)
        self.ctx.remark(
            EliminateTransposesPass.name,
            "passed",
            f"{saved} {'transpose' if saved == 1 else 'transposes'} fewer: {len(chosen)} "
            f"{'operation runs' if len(chosen) == 1 else 'operations run'} in another order of dimensions",
            transpose,
        )
        for new in _Rewriting(region, chosen, self.sequence).run():
            self.worklist.push(new)
        return True


@dataclass
class _Edge:
    """A value at which a transpose stands if not all of its uses have its own form. True is the new form."""

    value: SSAValue
    own: Operation | bool | None
    """The operation whose form the value has; a bool if it has that one; None if both cost a transpose."""
    uses: list[Operation | bool] = field(default_factory=list[Operation | bool])

    @property
    def bytes(self) -> int:
        type_ = tensor_type(self.value.type)
        return prod(type_.get_shape()) * to_numpy_dtype(type_.element_type).itemsize

    def transposes(self, form: Callable[[Operation | bool], bool]) -> int:
        """How many transposes of the value there are if everything has the form that `form` says."""
        wanted = {form(use) for use in self.uses}
        return len(wanted - (set() if self.own is None else {form(self.own)}))


class _Region:
    """Operations of one block that hang together and can run in other orders, with the order of each of their values.

    `sources` are transposes that give a value which is there in the new order already; `sinks` are transposes
    of values of the region to the new order.
    """

    def __init__(self, block: Block, ctx: CompilerContext):
        self.block = block
        self.ctx = ctx
        self.order: dict[SSAValue, Order] = {}
        self.orders: dict[Operation, tuple[Reordering, Orders]] = {}
        self.sources: list[graph.TransposeOp] = []
        self.sinks: list[graph.TransposeOp] = []
        self.edges: list[_Edge] = []

    @classmethod
    def around(cls, seed: SSAValue, order: Order, ctx: CompilerContext) -> _Region | None:
        """The region that `seed` is in if it has `order`, if there is one."""
        block = seed.owner if isinstance(seed.owner, Block) else seed.owner.parent
        if block is None:
            return None
        region = cls(block, ctx)
        region.order[seed] = order
        refused: set[Operation] = set()
        queue = deque([seed])
        while queue:
            value = queue.popleft()
            for op in region._neighbours(value):
                if op in region.orders or op in refused:
                    continue
                found = region._orders_of(op)
                if found is None:
                    refused.add(op)
                    continue
                region.orders[op] = found
                queue.extend(region._assign(op, found[1]))
        if not region.orders:
            return None
        region._find_edges()
        return region

    def _neighbours(self, value: SSAValue) -> Iterator[Operation]:
        """What makes and what uses a value, in the region's block."""
        if not isinstance(value.owner, Block) and value.owner.parent is self.block:
            yield value.owner
        for use in value.uses:
            if use.operation.parent is self.block:
                yield use.operation

    def _orders_of(self, op: Operation) -> tuple[Reordering, Orders] | None:
        """How `op` runs in the order of a value that it makes or uses; None if it can't, or with others only."""
        reordering = reordering_of(op)
        if reordering is None:
            return None
        orders: Orders | None = None
        for result in op.results:
            if result in self.order and orders is None:
                orders = reordering.from_result(op, self.order[result])
        for index, operand in enumerate(op.operands):
            if operand in self.order and orders is None:
                orders = reordering.from_operand(op, index, self.order[operand])
        if orders is None or not any(orders.operands):
            return None
        pairs = [
            *zip(op.operands, orders.operands, strict=True),
            *zip(op.results, orders.results, strict=True),
        ]
        for value, order in pairs:
            if order is not None and self.order.get(value, order) != order:
                return None
        return reordering, orders

    def _assign(self, op: Operation, orders: Orders) -> Iterator[SSAValue]:
        """Give the values of `op` their orders; yields those that had none."""
        pairs = [
            *zip(op.operands, orders.operands, strict=True),
            *zip(op.results, orders.results, strict=True),
        ]
        for value, order in pairs:
            if order is None or len(order) != rank_of(value) or value in self.order:
                continue
            if self.is_rewritten(value):
                continue
            self.order[value] = order
            yield value

    def _find_edges(self) -> None:
        """Find where transposes are, or may come to stand."""
        lower: dict[SSAValue, _Edge] = {}
        for op, (_, orders) in self.orders.items():
            for operand, order in zip(op.operands, orders.operands, strict=True):
                if order is None or self.order.get(operand) == order or self.is_rewritten(operand):
                    continue
                lower.setdefault(operand, _Edge(operand, False)).uses.append(op)
        self.edges += lower.values()
        for value, order in self.order.items():
            edge = _Edge(value, self._form_of(value, order))
            for use in value.uses:
                form = self._form_of_use(use.operation, use.index, order)
                if form is not None:
                    edge.uses.append(form)
            self.edges.append(edge)

    def _form_of(self, value: SSAValue, order: Order) -> Operation | bool | None:
        """The operation whose form a value has, or its form."""
        if isinstance(value.owner, Block):
            return False
        if value.owner in self.orders and value in value.owner.results:
            return value.owner
        if (
            isinstance(value.owner, graph.TransposeOp)
            and value.owner.parent is self.block
            and value.owner.input not in self.order
            and not is_constant(value)
        ):
            source = compose(value.owner.permutation, inverse(order))
            if moves_data(shape_of(value.owner.input), source):
                return None
            self.sources.append(value.owner)
            return True
        return False

    def _form_of_use(self, op: Operation, index: int, order: Order) -> Operation | bool | None:
        """The form that a use of a value of the region needs, or None if any will do."""
        if op in self.orders:
            return op if self.orders[op][1].operands[index] == order else False
        if not isinstance(op, graph.TransposeOp) or op.parent is not self.block or op.result in self.order:
            return False
        shape = reordered(shape_of(op.input), order)
        if moves_data(shape, compose(order, op.permutation)):
            return None
        self.sinks.append(op)
        return True

    def is_rewritten(self, value: SSAValue) -> bool:
        """Is it a constant that costs nothing in another order: of few elements, or used only once?"""
        few = prod(shape_of(value)) <= MAX_DENSE_ELEMENTS or value.has_one_use()
        return few and is_constant(value) and constant_value(value, self.ctx) is not None

    def absorbs(self) -> bool:
        """Is there an operation whose result is the same in both forms, though an operand is not?"""
        return any(not all(orders.results) for _, orders in self.orders.values())

    def choose(self) -> tuple[frozenset[Operation], int, str]:
        """The operations to run in the new order, how many transposes that saves, and if none why."""
        scale = 1 + 4 * sum(edge.bytes for edge in self.edges)
        network = FlowNetwork()
        nodes: dict[Operation | bool, int] = {True: network.SOURCE, False: network.SINK}
        for op in self.orders:
            nodes[op] = network.add_node()
        for edge in self.edges:
            for form in (True, False):
                if edge.own is form or not edge.uses:
                    continue
                # One that stands for "some use has this form": then it costs a transpose, unless the value has it.
                some = network.add_node()
                value = nodes[not form] if edge.own is None else nodes[edge.own]
                for use in edge.uses:
                    network.add_edge(*((nodes[use], some) if form else (some, nodes[use])))
                network.add_edge(*((some, value) if form else (value, some)), scale + edge.bytes)
        side = network.source_side()
        chosen = frozenset(op for op in self.orders if nodes[op] in side)

        def after(owner: Operation | bool) -> bool:
            return owner if isinstance(owner, bool) else owner in chosen

        def before(owner: Operation | bool) -> bool:
            return owner is True

        saved = self._count(before) - self._count(after)
        if saved <= 0:
            return frozenset(), 0, self._border_text()
        if self._count(after, in_bytes=True) > self._count(before, in_bytes=True):
            return frozenset(), 0, f"the {saved} fewer transposes would move more bytes"
        return chosen, saved, ""

    def _count(self, form: Callable[[Operation | bool], bool], *, in_bytes: bool = False) -> int:
        return sum(edge.transposes(form) * (edge.bytes if in_bytes else 1) for edge in self.edges)

    def _border_text(self) -> str:
        """Which values would have to be transposed instead."""
        count = len(self.sources) + len(self.sinks)
        for edge in self.edges:
            owner = edge.value.owner
            if edge.own is False and not isinstance(owner, Block):
                name = f"'{owner.name.removeprefix('graph.')}'{nodes_text(owner.location)}"
                return f"{count} transposes meet here, but the result of {name} has one order"
        return f"{count} transposes meet here, but as many would be needed elsewhere"


class _Sequence:
    """Where operations stand, so that a few of them can be sorted without a look at all of their block."""

    def __init__(self) -> None:
        self._positions: dict[Operation, tuple[int, ...]] = {}

    def append(self, op: Operation) -> None:
        """Note an operation that stands behind all others."""
        self._positions[op] = (len(self._positions),)

    def insert_before(self, op: Operation, place: Operation) -> None:
        """Note an operation in front of one that will go, and behind others that were put there."""
        self._positions[op] = (*self._positions[place], len(self._positions))

    def position(self, op: Operation) -> tuple[int, ...]:
        """A key to sort by."""
        return self._positions[op]


class _Rewriting:
    """Builds the chosen operations anew, in the sequence in which they stand."""

    def __init__(self, region: _Region, chosen: frozenset[Operation], sequence: _Sequence):
        self.sequence = sequence
        self.region = region
        self.chosen = chosen
        self.new: dict[tuple[SSAValue, Order], SSAValue] = {}
        """What stands for a value of an order, as far as it is there."""
        self.made: list[Operation] = []

    def run(self) -> list[graph.TransposeOp]:
        """Rewrite; returns the transposes that came to be and are left."""
        for op in sorted(self.chosen, key=self.sequence.position):
            self._rebuild(op)
        for op in reversed(self.made):
            _erase_if_dead(op)
        return [op for op in self.made if isinstance(op, graph.TransposeOp) and op.parent is not None]

    def _rebuild(self, op: Operation) -> None:
        reordering, orders = self.region.orders[op]
        operands = [
            operand if order is None else self._operand(operand, order, op)
            for operand, order in zip(op.operands, orders.operands, strict=True)
        ]
        new = reordering.rebuild(op, operands, orders)
        self._insert(new, op)
        for old, result, order in zip(op.results, new.results, orders.results, strict=True):
            if order is None:
                copy_name(old, result)
                old.replace_all_uses_with(result)
            else:
                self._replace_uses(old, result, order, op)
        producers = dict.fromkeys(operand.owner for operand in op.operands)
        self.region.block.erase_op(op)
        for producer in producers:
            _erase_if_dead(producer)

    def _replace_uses(self, old: SSAValue, result: SSAValue, order: Order, op: Operation) -> None:
        """Let transposes of a result read the new one. What else needs the old form uses a transpose back to it."""
        for use in list(old.uses):
            user = use.operation
            if isinstance(user, graph.TransposeOp) and user.parent is self.region.block:
                moved = self._moved(result, compose(order, user.permutation), user)
                copy_name(user.result, moved)
                user.result.replace_all_uses_with(moved)
                self.region.block.erase_op(user)
        if old.first_use is None:
            copy_name(old, result)
            return
        back = self._moved(result, order, op)
        self.new[back, order] = result
        in_old_form = any(use.operation not in self.chosen for use in old.uses)
        copy_name(old, back if in_old_form else result)
        old.replace_all_uses_with(back)

    def _operand(self, value: SSAValue, order: Order, op: Operation) -> SSAValue:
        """What stands for `value` in `order`, in front of `op` if it is not there yet."""
        if (value, order) not in self.new:
            self.new[value, order] = self._reordered(value, order, op)
        return self.new[value, order]

    def _reordered(self, value: SSAValue, order: Order, op: Operation) -> SSAValue:
        shape = (*[1] * (len(order) - rank_of(value)), *shape_of(value))
        array = constant_value(value, self.region.ctx) if self.region.is_rewritten(value) else None
        if array is not None:
            moved = array.reshape(shape).transpose(inverse(order))
            constant = make_constant(moved, self.region.ctx, name_of(value, "constant"))
            return self._insert(constant, op).results[0]
        if len(shape) == rank_of(value):
            if isinstance(value.owner, graph.TransposeOp):
                return self._moved(value.owner.input, compose(value.owner.permutation, inverse(order)), op)
            return self._moved(value, inverse(order), op)
        if not moves_data(shape, inverse(order)):
            return self._insert(graph.ReshapeOp(value, reordered(shape, order)), op).results[0]
        return self._moved(self._insert(graph.ReshapeOp(value, shape), op).results[0], inverse(order), op)

    def _moved(self, value: SSAValue, order: Order, place: Operation) -> SSAValue:
        """`transpose(value, order)` in front of `place`: the value itself, or a reshape, where that does."""
        shape = shape_of(value)
        if order == tuple(range(len(order))):
            return value
        if not moves_data(shape, order):
            return self._insert(graph.ReshapeOp(value, [shape[axis] for axis in order]), place).results[0]
        return self._insert(graph.TransposeOp(value, order), place).results[0]

    def _insert(self, new: Operation, place: Operation) -> Operation:
        new.location = place.location
        self.region.block.insert_op_before(new, place)
        self.sequence.insert_before(new, place)
        self.made.append(new)
        return new


def _erase_if_dead(op: Operation | Block) -> None:
    """Erase a graph operation that nothing uses, and what only it used."""
    worklist = [op]
    while worklist:
        op = worklist.pop()
        if not isinstance(op, graph.GraphOp) or op.parent is None or not is_dead(op):
            continue
        worklist += [operand.owner for operand in op.operands]
        Rewriter.erase_op(op)
