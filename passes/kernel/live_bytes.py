"""How many bytes are live at each step of a block, kept up to date while tensors are put into one another.

The steps are the ops of the block, in order; what lives in an argument, a constant or a result of the function takes no
bytes of the arena. In-place updates that are only decided later are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from xdsl.dialects.func import ReturnOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Block, Operation, SSAValue

from mlopt.dialects.kernel import ConstantOp
from mlopt.ir.effects import is_buffer
from mlopt.passes.kernel.block_steps import byte_size
from mlopt.passes.kernel.liveness import AliasClass, BlockLiveness


@dataclass(slots=True)
class Span:
    """A tensor's memory: first and last step (both included), and its bytes in the arena."""

    first: int
    last: int
    bytes: int


class LiveBytes:
    """The bytes live at each step of a block."""

    def __init__(self, block: Block):
        self.liveness = BlockLiveness(block)
        self._spans: dict[AliasClass, Span] = {}
        for position, op in enumerate(block.ops):
            for result in op.results:
                if is_buffer(result) and not isinstance(op, EmptyOp):
                    self._add(result, position)
        changes = [0] * (len(list(block.ops)) + 1)
        for span in self._spans.values():
            changes[span.first] += span.bytes
            changes[span.last + 1] -= span.bytes
        self._profile = list(accumulate(changes))[:-1]

    def position(self, op: Operation) -> int:
        """The step of an op of the block, as it stood at first."""
        return self.liveness.position(op)

    def is_after(self, op: Operation, position: int) -> bool:
        """Whether an op of the block runs after that step; False for one that was not there at first."""
        return self.liveness.is_after(op, position)

    def span(self, value: SSAValue) -> Span:
        """The memory of a tensor that an op of the block computes."""
        return self._spans[self.liveness.alias_class(value)]

    def grows(self, part: SSAValue, whole: SSAValue) -> int:
        """By how many bytes the peak over the steps concerned would grow if `part` lay in `whole` from the start."""
        old = [self.span(part), self.span(whole)]
        new = self._together(old)
        steps = range(new.first, new.last + 1)
        before = [self._profile[step] for step in steps]
        after = [
            live + new.bytes - sum(span.bytes for span in old if span.first <= step <= span.last)
            for step, live in zip(steps, before, strict=True)
        ]
        return max(after) - max(before)

    def grows_by_reading(self, source: SSAValue, part: SSAValue) -> int:
        """By how many bytes the peak over the steps concerned would grow if `source` were read instead of `part`."""
        left = self.span(part)
        own = self._span_of(source)
        before = self._profile[left.first : left.last + 1]
        after = [
            live - left.bytes + (own.bytes if step > own.last else 0)
            for step, live in enumerate(before, left.first)
        ]
        return max(after) - max(before)

    def read_instead(self, source: SSAValue, part: SSAValue, view: SSAValue) -> None:
        """Record that `source`, seen as `view`, is read instead of `part`, which is gone."""
        left = self.span(part)
        own = self._span_of(source)
        for step in range(left.first, left.last + 1):
            self._profile[step] += (own.bytes if step > own.last else 0) - left.bytes
        own.last = max(own.last, left.last)
        left.bytes = 0
        self.liveness.unite(source, view)
        self._spans[self.liveness.alias_class(source)] = own

    def _span_of(self, value: SSAValue) -> Span:
        """The memory of any tensor; what lives elsewhere takes none."""
        last = len(self._profile) - 1
        return self._spans.get(self.liveness.alias_class(value)) or Span(0, last, 0)

    def put(self, part: SSAValue, whole: SSAValue, written: SSAValue) -> None:
        """Record that `part` lies in `whole`, and that `written` replaces it: the whole as the part's op leaves it."""
        old = [self.span(part), self.span(whole)]
        new = self._together(old)
        for sign, spans in ((-1, old), (1, [new])):
            for span in spans:
                for step in range(span.first, span.last + 1):
                    self._profile[step] += sign * span.bytes
        self.liveness.unite(whole, part)
        self.liveness.unite(whole, written)
        self._spans[self.liveness.alias_class(whole)] = new

    def _together(self, spans: list[Span]) -> Span:
        return Span(min(s.first for s in spans), max(s.last for s in spans), spans[-1].bytes)

    def _add(self, value: SSAValue, position: int) -> None:
        aliases = self.liveness.alias_class(value)
        span = self._spans.get(aliases)
        if span is None:
            free = any(_is_elsewhere(member) for member in aliases.members)
            self._spans[aliases] = Span(
                position, max(position, aliases.last_use), 0 if free else byte_size(value)
            )
        elif span.bytes:
            span.bytes = max(span.bytes, byte_size(value))


def _is_elsewhere(value: SSAValue) -> bool:
    """Whether a tensor lives outside of the arena: given, constant, or returned."""
    if isinstance(value.owner, Block | ConstantOp):
        return True
    return any(isinstance(use.operation, ReturnOp) for use in value.uses)
