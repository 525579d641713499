"""The dialect as a whole: every operation that the package names."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Dialect

from mlopt.dialects import graph
from mlopt.dialects.graph.activation import ActivationAttr
from mlopt.dialects.graph.base import GraphOp


def _operations() -> Iterator[type[GraphOp]]:
    """The classes of operations, sorted; their bases have no name."""
    for name in sorted(graph.__all__):
        value = getattr(graph, name) if name != "Graph" else None
        if isinstance(value, type) and issubclass(value, GraphOp) and hasattr(value, "name"):
            yield value


Graph = Dialect("graph", [*_operations()], [ActivationAttr])
