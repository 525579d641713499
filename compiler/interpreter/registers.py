"""Register allocation for one tile: which scratch bytes, or which output, hold each node's result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mlopt.interpreter.nodes import Compute, Leaf, Node, Ref, Select, Take
from mlopt.interpreter.scratch import aligned
from mlopt.interpreter.views import View, may_overlap, same_elements


class Out(NamedTuple):
    """The tile of an output."""

    position: int


Place = Out | int
"""An output, or an offset in bytes from the start of the kernel's temporaries."""


class Registers(NamedTuple):
    """A place per node (leaves have none), and the bytes of scratch that the places take."""

    places: dict[Node, Place]
    nbytes: int


def assign(
    order: Sequence[Node], yields: Sequence[Ref], outs: Sequence[View], tile: tuple[int, ...]
) -> Registers:
    """Place the results of `order` (operands first) for tiles of at most the shape `tile`.

    A result may take the place of an operand that is not needed any more if the call may work in place: same
    elements, same type. An output's tile is used for a value while no operand that is still to be read stands in it.
    """
    return _Assignment(order, yields, outs, tile).run()


def _may_read(leaf: Leaf, out: View) -> bool:
    """Whether an element of the leaf may stand in an output."""
    return may_overlap(leaf.view, out) and (leaf.source is None or may_overlap(leaf.source, out))


class _Assignment:
    def __init__(
        self, order: Sequence[Node], yields: Sequence[Ref], outs: Sequence[View], tile: tuple[int, ...]
    ):
        self._steps = [node for node in order if not isinstance(node, Leaf)]
        self._yields = yields
        self._outs = outs
        self._tile = tile
        self._varying = frozenset(a for a, e in enumerate(tile) if e > 1)
        self._positions = {node.index.node for node in self._steps if isinstance(node, Take)}
        self._last_use: dict[Node, int] = {}
        for step, node in enumerate(self._steps):
            for ref in node.operands:
                self._last_use[ref.node] = step
        end = len(self._steps)
        for ref in yields:
            self._last_use[ref.node] = end
        leaves = [node for node in order if isinstance(node, Leaf)]
        self._hazards = [[leaf for leaf in leaves if _may_read(leaf, out)] for out in outs]
        self._places: dict[Node, Place] = {}
        self._free: list[tuple[int, int]] = []
        self._top = 0

    def run(self) -> Registers:
        holder: dict[Out, Node] = {}
        for step, node in enumerate(self._steps):
            dying = list(dict.fromkeys(r.node for r in node.operands if self._last_use[r.node] == step))
            place = self._choose(step, node, dying, holder)
            self._places[node] = place
            if isinstance(place, Out):
                holder[place] = node
            for operand in dying:
                self._release(operand, place, holder)
        return Registers(self._places, self._top)

    def _choose(self, step: int, node: Node, dying: Sequence[Node], holder: dict[Out, Node]) -> Place:
        final = [Out(j) for j, ref in enumerate(self._yields[: len(self._outs)]) if ref.node is node]
        for out in final:
            if self._can_write(out, step, node) and (
                out not in holder or self._in_place(node, holder[out], dying)
            ):
                return out
        for operand in dying:
            if operand in self._places and self._in_place(node, operand, dying):
                place = self._places[operand]
                if not isinstance(place, Out) or (not final and self._can_write(place, step, node)):
                    return place
        for out in map(Out, range(len(self._outs) if not final else 0)):
            if out not in holder and self._can_write(out, step, node):
                return out
        return self._allocate(self._size(node))

    def _can_write(self, out: Out, step: int, node: Node) -> bool:
        """Whether a node's result fits an output's tile, and nothing that is read later stands there."""
        view = self._outs[out.position]
        if (
            node.dtype.itemsize != view.itemsize
            or not self._varying <= node.dims
            or not self._same_kind(out, node)
        ):
            return False
        if (isinstance(node, Take) or node in self._positions) and not view.is_contiguous:
            return False
        for leaf in self._hazards[out.position]:
            if self._last_use[leaf] > step:
                return False
            if self._last_use[leaf] == step and not self._reads_in_place(node, leaf, view):
                return False
        return True

    def _same_kind(self, out: Out, node: Node) -> bool:
        """Numpy works in place only if the types are equal; equal size is enough for what ends in the output."""
        return node.dtype == self._outs[out.position].dtype or any(ref.node is node for ref in self._yields)

    def _reads_in_place(self, node: Node, leaf: Leaf, view: View) -> bool:
        """Whether a step may read a leaf from the elements that it writes."""
        refs = [ref for ref in node.operands if ref.node is leaf]
        if not same_elements(leaf.view, view) or any(ref.dtype != node.dtype for ref in refs):
            return False
        return self._may_alias(node, leaf)

    def _in_place(self, node: Node, operand: Node, dying: Sequence[Node]) -> bool:
        """Whether a step may write over its operand."""
        if operand not in dying or node.dtype != operand.dtype:
            return False
        if node.dims & self._varying != operand.dims & self._varying:
            return False
        refs = [ref for ref in node.operands if ref.node is operand]
        return all(ref.dtype == node.dtype for ref in refs) and self._may_alias(node, operand)

    @staticmethod
    def _may_alias(node: Node, operand: Node) -> bool:
        if isinstance(node, Compute):
            return True
        if isinstance(node, Select):
            return node.no.node is operand and operand not in (node.yes.node, node.condition.node)
        return False

    def _size(self, node: Node) -> int:
        return aligned(math.prod(self._tile[a] for a in node.dims) * node.dtype.itemsize)

    def _release(self, operand: Node, taken: Place, holder: dict[Out, Node]) -> None:
        place = self._places.get(operand)
        if place is None or place == taken:
            return
        if isinstance(place, Out):
            if holder.get(place) is operand:
                del holder[place]
            return
        self._free.append((place, self._size(operand)))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for offset, size in self._free:
            if merged and sum(merged[-1]) == offset:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((offset, size))
        self._free = merged

    def _allocate(self, size: int) -> int:
        for position, (offset, free) in enumerate(self._free):
            if free >= size:
                self._free[position : position + 1] = [(offset + size, free - size)] if free > size else []
                return offset
        if self._free and sum(self._free[-1]) == self._top:
            offset, _ = self._free.pop()
        else:
            offset = self._top
        self._top = offset + size
        return offset
