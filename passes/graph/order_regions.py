"""Operations that hang together and can run in another order of dimensions: which of them should, and the rewriting.

`eliminate-transposes` looks for the fewest transposes, `assign-layouts` for the layout that costs least.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Self

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import MAX_DENSE_ELEMENTS, to_numpy_dtype
from mlopt.ir.effects import is_dead
from mlopt.ir.names import copy_name
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
from mlopt.passes.graph.constants import constant_value, is_constant, make_constant, name_of
from mlopt.passes.graph.minimum_cut import FlowNetwork


@dataclass
class Edge:
    """A value at which a transpose stands if not all of its uses have its own form. True is the new form."""

    value: SSAValue
    own: Operation | bool | None
    """The operation whose form the value has; a bool if it has that one; None if both cost a transpose."""
    uses: list[Operation | bool] = field(default_factory=list[Operation | bool])

    @property
    def bytes(self) -> int:
        type_ = tensor_type(self.value.type)
        return prod(type_.get_shape()) * to_numpy_dtype(type_.element_type).itemsize

    def transposes(self, form: Callable[[Operation | bool], bool]) -> frozenset[bool]:
        """The forms that the value is transposed to if everything has the form that `form` says."""
        wanted = frozenset(form(use) for use in self.uses)
        return wanted if self.own is None else wanted - {form(self.own)}


class OrderRegion:
    """Operations of one block that hang together and can run in other orders, with the order of each of their values.

    `sources` are transposes that give a value which is there in the new order already; `sinks` are transposes
    of values of the region to the new order.
    """

    def __init__(
        self,
        block: Block,
        ctx: CompilerContext,
        reorderings: Callable[[Operation], Reordering | None] = reordering_of,
    ):
        self.block = block
        self.ctx = ctx
        self.reorderings = reorderings
        self.order: dict[SSAValue, Order] = {}
        self.orders: dict[Operation, tuple[Reordering, Orders]] = {}
        self.sources: list[graph.TransposeOp] = []
        self.sinks: list[graph.TransposeOp] = []
        self.edges: list[Edge] = []

    @classmethod
    def around(
        cls,
        seed: SSAValue,
        order: Order,
        ctx: CompilerContext,
        reorderings: Callable[[Operation], Reordering | None] = reordering_of,
        without: Container[Operation] = (),
    ) -> Self | None:
        """The region that `seed` is in if it has `order`, if there is one; `without` these operations."""
        block = seed.owner if isinstance(seed.owner, Block) else seed.owner.parent
        if block is None:
            return None
        region = cls(block, ctx, reorderings)
        region.order[seed] = order
        refused: set[Operation] = set()
        queue = deque([seed])
        while queue:
            value = queue.popleft()
            for op in region._neighbours(value):
                if op in region.orders or op in refused or op in without:
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
        reordering = self.reorderings(op)
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
        lower: dict[SSAValue, Edge] = {}
        for op, (_, orders) in self.orders.items():
            for operand, order in zip(op.operands, orders.operands, strict=True):
                if order is None or self.order.get(operand) == order or self.is_rewritten(operand):
                    continue
                lower.setdefault(operand, Edge(operand, False)).uses.append(op)
        self.edges += lower.values()
        for value, order in self.order.items():
            edge = Edge(value, self._form_of(value, order))
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

    def cut(
        self,
        move_cost: Callable[[Edge, bool], int],
        costs: Callable[[Operation], tuple[int, int]] | None = None,
    ) -> frozenset[Operation]:
        """The operations that run in the new order where that costs least in all; of several such sets the smallest.

        `move_cost(edge, form)`: what a transpose of the value to the new order (True) or back costs; `costs`: what an
        operation costs in its own order, and in the new one. Whole numbers. A minimum cut is exact for two orders.
        """
        network = FlowNetwork()
        nodes: dict[Operation | bool, int] = {True: network.SOURCE, False: network.SINK}
        for op in self.orders:
            node = nodes[op] = network.add_node()
            own, other = (0, 0) if costs is None else costs(op)
            if own > other:
                network.add_edge(network.SOURCE, node, own - other)
            elif other > own:
                network.add_edge(node, network.SINK, other - own)
        for edge in self.edges:
            for form in (True, False):
                if edge.own is form or not edge.uses:
                    continue
                # One that stands for "some use has this form": then it costs a transpose, unless the value has it.
                some = network.add_node()
                value = nodes[not form] if edge.own is None else nodes[edge.own]
                for use in edge.uses:
                    network.add_edge(*((nodes[use], some) if form else (some, nodes[use])))
                network.add_edge(*((some, value) if form else (value, some)), move_cost(edge, form))
        side = network.source_side()
        return frozenset(op for op in self.orders if nodes[op] in side)


class OpSequence:
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


class RegionRewriting:
    """Builds the chosen operations anew, in the sequence in which they stand."""

    def __init__(self, region: OrderRegion, chosen: frozenset[Operation], sequence: OpSequence):
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
            erase_if_dead(op)
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
            erase_if_dead(producer)

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


def erase_if_dead(op: Operation | Block) -> None:
    """Erase a graph operation that nothing uses, and what only it used."""
    worklist = [op]
    while worklist:
        op = worklist.pop()
        if not isinstance(op, graph.GraphOp) or op.parent is None or not is_dead(op):
            continue
        worklist += [operand.owner for operand in op.operands]
        Rewriter.erase_op(op)
