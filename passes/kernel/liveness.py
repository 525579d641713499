"""When the tensors of one block die, aliases included.

Two tensors are in one *alias class* if they may share memory: reshapes and slices of each other, a result and the
destination that it overwrites, what a loop or branch carries, yields and returns. The order of the ops of a block is
the order of execution; what stands inside an op (a loop, a body) happens when that op does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue, Use

from mlopt.ir.effects import aliases_of, destinations
from mlopt.passes.kernel.launches import is_empty


@dataclass(eq=False)
class AliasClass:
    """Tensors that may share memory. `last_use`: the position of the last op that uses one, -1 if none does."""

    members: list[SSAValue] = field(default_factory=list[SSAValue])
    last_use: int = -1
    merged_into: AliasClass | None = None


class BlockLiveness:
    """Positions of the ops of a block, and the alias classes and last uses of the tensors that they use."""

    def __init__(self, block: Block):
        self.block = block
        self._positions: dict[Operation, int] = {}
        self._classes: dict[SSAValue, AliasClass] = {}
        for position, op in enumerate(block.ops):
            for nested in op.walk():
                self._positions[nested] = position
        for argument in block.args:
            self.alias_class(argument)
        for op in block.ops:
            if op is not block.last_op:  # what the block itself yields is the op's around it
                self._unite_aliases(op)

    def position(self, op: Operation) -> int:
        """The position in the block of an op, or of the op of the block that it stands in."""
        return self._positions[op]

    def contains(self, owner: Operation | Block) -> bool:
        """Whether an op is one of the block or stands in one, or a block does."""
        op = owner if isinstance(owner, Operation) else owner.parent_op()
        return op in self._positions

    def is_after(self, op: Operation, position: int) -> bool:
        """Whether an op of the block runs after that position; False for ops from elsewhere."""
        return self._positions.get(op, -1) > position

    def alias_class(self, value: SSAValue) -> AliasClass:
        """The alias class of a tensor."""
        known = self._classes.get(value)
        if known is None:
            last = max((self._positions.get(use.operation, -1) for use in value.uses), default=-1)
            known = self._classes[value] = AliasClass([value], last)
        while known.merged_into is not None:
            known = known.merged_into
        return known

    def may_alias(self, a: SSAValue, b: SSAValue) -> bool:
        """Whether two tensors may share memory."""
        return self.alias_class(a) is self.alias_class(b)

    def last_use(self, value: SSAValue) -> int:
        """The position of the last op that uses a tensor or an alias of it; -1 if none does."""
        return self.alias_class(value).last_use

    def uses_at(self, value: SSAValue, position: int) -> Iterator[Use]:
        """The uses of a tensor and its aliases at one position of the block."""
        for member in self.alias_class(value).members:
            for use in member.uses:
                if self._positions.get(use.operation, -1) == position:
                    yield use

    def unite(self, a: SSAValue, b: SSAValue) -> None:
        """Record that two tensors may share memory."""
        first, second = self.alias_class(a), self.alias_class(b)
        if first is second:
            return
        if len(first.members) < len(second.members):
            first, second = second, first
        first.members.extend(second.members)
        first.last_use = max(first.last_use, second.last_use)
        second.merged_into = first

    def _unite_aliases(self, op: Operation) -> None:
        """Views, results and what they overwrite; what one loop or branch takes, yields and returns is one class."""
        shared = [value for pair in aliases_of(op) for value in pair]
        for value in shared[1:]:
            self.unite(shared[0], value)
        for position, result in destinations(op):
            destination = op.operands[position]
            if not is_empty(destination):  # it has no contents, whoever else takes it
                self.unite(destination, result)
