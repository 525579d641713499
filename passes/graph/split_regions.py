"""What of a function can be computed by several ways at once: from products split by columns to one split by rows.

A region ends at a product with a constant weight, the *root*. Its weight is split by rows, so its input must be
divided along the last dimension; what that needs is followed backwards, operation by operation (`sharding.py`), up to
products with a constant weight, the *sources*, whose weights are split by columns. What stands between is computed by
each way for its part. Whatever else it takes is there whole, and a way cuts out its part: of constants when compiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from xdsl.dialects import scf
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.ir.ways import way_of
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.fusion import described
from mlopt.passes.graph.sharding import Needs, Obstacle, Sharding, is_column_product, needs

_ENDS = (ReturnOp, scf.YieldOp, scf.ConditionOp)
"""What gives values to the outside of a block, whole."""


@dataclass(frozen=True)
class Region:
    """Operations that each way computes for its part.

    - `root`: the product that is split by rows; None if there is none, and the results are gathered.
    - `members`: the others, in program order, each with what it needs of its operands.
    - `sources`: how many of them are products split by columns.
    - `shardings`: how the values are divided that members and root use or make.
    - `gathered`: results of members that all ways must have whole.
    """

    root: Operation | None
    members: Mapping[Operation, Needs]
    sources: int
    shardings: Mapping[SSAValue, Sharding]
    gathered: Sequence[SSAValue]

    @property
    def products(self) -> int:
        """How many products are split."""
        return self.sources + (self.root is not None)


def region_to(
    root: Operation, ways: int, order: Mapping[Operation, int], *, gather: bool
) -> Region | Obstacle | None:
    """The region that ends at `root`; why there is none; None if nothing before it is split by columns.

    `order` numbers the operations in program order. With `gather`, members may be outputs of the model, or of the body
    that they are in, too.
    """
    if not is_column_product(root) or way_of(root) is not None or rank_of(root.operands[1]) != 2:
        return None
    input = root.operands[0]
    rows = shape_of(input)[-1]
    sharding = Sharding.of(shape_of(input), rank_of(input) - 1)
    if not sharding.is_possible(ways):
        return Obstacle(
            f"the rows of the weight of {described(root)}, {rows}, are not divisible by {ways} ways"
        )
    return _Search(root, ways, order, gather).run(input, sharding)


def region_of_columns(op: Operation, ways: int) -> Region | Obstacle | None:
    """A product alone, split by columns and gathered."""
    if not is_column_product(op) or way_of(op) is not None or rank_of(op.operands[1]) != 2:
        return None
    (result,) = op.results
    sharding = Sharding.of(shape_of(result), rank_of(result) - 1)
    wanted = needs(op, [sharding], ways)
    if wanted is None or isinstance(wanted, Obstacle):
        return wanted
    return Region(None, {op: wanted}, 1, {result: sharding}, [result])


@dataclass
class _Search:
    root: Operation
    ways: int
    order: Mapping[Operation, int]
    gather: bool
    shardings: dict[SSAValue, Sharding] = field(default_factory=dict[SSAValue, Sharding])
    visited: dict[Operation, Needs] = field(default_factory=dict[Operation, Needs])
    sources: set[Operation] = field(default_factory=set[Operation])
    queue: list[tuple[int, Operation]] = field(default_factory=list[tuple[int, Operation]])
    queued: set[Operation] = field(default_factory=set[Operation])

    def run(self, input: SSAValue, sharding: Sharding) -> Region | Obstacle | None:
        used_elsewhere: Obstacle | None = None
        obstacle = self._want(input, sharding)
        while self.queue and obstacle is None:
            _, op = heappop(self.queue)
            wanted = needs(op, [self.shardings.get(result) for result in op.results], self.ways)
            if wanted is None:
                continue
            if (use := self._use_of_the_whole(op)) is not None:
                used_elsewhere = used_elsewhere or Obstacle(use)
                continue
            if isinstance(wanted, Obstacle):
                return wanted
            self.visited[op] = wanted
            if is_column_product(op) and wanted[1] is not None:
                self.sources.add(op)
            for operand, own in zip(op.operands, wanted, strict=True):
                if own is not None:
                    obstacle = obstacle or self._want(operand, own)
        if obstacle is not None:
            return obstacle
        members = self._members()
        if not members:
            return used_elsewhere
        gathered = [
            result
            for op in members
            for result in op.results
            if any(isinstance(use.operation, _ENDS) for use in result.uses)
        ]
        return Region(self.root, members, len(self.sources), self.shardings, gathered)

    def _want(self, value: SSAValue, sharding: Sharding) -> Obstacle | None:
        known = self.shardings.setdefault(value, sharding)
        if known != sharding:
            what = described(value.owner) if isinstance(value, OpResult) else "an input"
            return Obstacle(f"the result of {what} would have to be divided in two ways at once")
        if known is sharding and isinstance(value, OpResult) and not is_constant(value):
            self._visit_later(value.op)
        return None

    def _visit_later(self, op: Operation) -> None:
        """Users come before what they use. What is in another block, or was put in place of parts, is there whole."""
        if op in self.queued:
            return
        self.queued.add(op)
        is_there = op in self.order and way_of(op) is None
        if is_there and op.parent is self.root.parent and isinstance(op, graph.GraphOp):
            heappush(self.queue, (-self.order[op], op))

    def _use_of_the_whole(self, op: Operation) -> str | None:
        """What uses the results of `op` undivided; None if all uses are inside, or of outputs that are gathered."""
        for result in op.results:
            for use in result.uses:
                user = use.operation
                if user is self.root and use.index == 0:
                    continue
                wanted = self.visited.get(user)
                if wanted is not None and wanted[use.index] is not None:
                    continue
                if isinstance(user, _ENDS) and self.gather and self._is_plain(result):
                    continue
                what = "a graph output" if isinstance(user, ReturnOp) else f"used by {described(user)}"
                return f"the result of {described(op)} is also {what}"
        return None

    def _is_plain(self, result: SSAValue) -> bool:
        sharding = self.shardings.get(result)
        return sharding is not None and sharding.is_plain

    def _members(self) -> dict[Operation, Needs]:
        """What was visited and depends on a source, in program order: only there is anything divided to begin with."""
        members: dict[Operation, Needs] = {}
        for op in sorted(self.visited, key=self.order.__getitem__):
            wanted = self.visited[op]
            depends = any(
                own is not None and isinstance(operand, OpResult) and operand.op in members
                for operand, own in zip(op.operands, wanted, strict=True)
            )
            if depends or op in self.sources:
                members[op] = wanted
        return members
