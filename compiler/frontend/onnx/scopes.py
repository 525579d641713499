"""What the nodes of one list see: the main graph, a branch or loop body inside it, the definition of an operator."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from onnx import TensorProto
from xdsl.ir import Block, SSAValue


@dataclass(slots=True)
class Scope:
    """Values by their ONNX names, and the block that the operations of these nodes go to.

    Names that are not found here are looked up in `outer`, the scope around the node whose body this is. `values` has
    None for an input of a definition that is left out; `used` are the names that anything reads here.
    """

    block: Block
    opsets: Mapping[str, int]
    used: Collection[str]
    initializers: Mapping[str, TensorProto] = field(default_factory=dict[str, TensorProto])
    outer: Scope | None = None
    values: dict[str, SSAValue | None] = field(default_factory=dict[str, "SSAValue | None"])

    def outwards(self) -> Iterator[Scope]:
        """This scope, then those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer
