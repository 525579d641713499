"""Whether the values of a model are each defined once and before their first use, in its graph and inside its nodes.

A branch or body sees what the graphs around it define before its node. It may give its inputs and initializers names
that are used around it, but not the results of its nodes (ONNX: static single assignment).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from onnx import AttributeProto, GraphProto, NodeProto

from mlopt.diagnostics import InputError, Place

PlaceOf: TypeAlias = Callable[[NodeProto | None], Place]
"""The place of a node, or of the model."""


def node_name(node: NodeProto) -> str:
    """The node's name, or for a node without one its operator and first output: `Relu_output`."""
    if node.name:
        return node.name
    output = next((name for name in node.output if name), "")
    return f"{node.op_type}_{output}"


def nodes_within(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those inside their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from nodes_within(graph.node)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The graphs in the attributes of a node (the branches of If, the bodies of Loop and Scan)."""
    found: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            found.extend(attribute.graphs)
    return found


@dataclass(slots=True)
class _Visible:
    """What one graph has defined so far; `around` are the graphs that its node stands in, `node` that node."""

    graph: GraphProto
    around: _Visible | None = None
    node: NodeProto | None = None
    values: dict[str, NodeProto | None] = field(default_factory=dict[str, "NodeProto | None"])

    def outwards(self) -> Iterator[_Visible]:
        """This graph, then those around it."""
        scope: _Visible | None = self
        while scope is not None:
            yield scope
            scope = scope.around

    def has(self, name: str) -> bool:
        """Whether a value of that name is defined here or around."""
        return any(name in scope.values for scope in self.outwards())


def check_graph(graph: GraphProto, place: PlaceOf) -> None:
    """Check that every value is defined once and before its first use; `InputError` names node and value."""
    for fault in graph_faults(graph, place):
        raise fault


def graph_faults(graph: GraphProto, place: PlaceOf) -> Iterator[InputError]:
    """An error for every value that is not defined once and before its first use; each names node and value."""
    yield from _faults(place, _Visible(graph))


def _faults(place: PlaceOf, scope: _Visible) -> Iterator[InputError]:
    graph = scope.graph
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    initializers += [tensor.values.name for tensor in graph.sparse_initializer]
    for what, names in (("inputs", inputs), ("initializers", initializers)):
        for name, count in Counter(names).items():
            if count > 1:
                yield InputError(f'two {what} have the name "{name}"', place=place(scope.node))
    scope.values.update(dict.fromkeys((*inputs, *initializers)))
    for node in graph.node:
        for name in filter(None, node.input):
            if not scope.has(name):
                yield _undefined(place, scope, node, name)
        for inner in subgraphs(node):
            yield from _faults(place, _Visible(inner, scope, node))
        for name in filter(None, node.output):
            if scope.has(name):
                yield _defined_twice(place, scope, node, name)
            scope.values[name] = node
    for value in graph.output:
        if not scope.has(value.name):
            whose = "the model's" if scope.node is None else f"{scope.node.op_type}: its graph's"
            message = f'{whose} output "{value.name}" is not defined by any node, input or initializer'
            yield InputError(message, place=place(scope.node))


def _defined_twice(place: PlaceOf, scope: _Visible, node: NodeProto, name: str) -> InputError:
    other = next(around.values[name] for around in scope.outwards() if name in around.values)
    by = "an input or initializer" if other is None else f'node "{node_name(other)}"'
    message = f'{node.op_type}: defines the value "{name}", which {by} defines already'
    return InputError(message, place=place(node))


def _undefined(place: PlaceOf, scope: _Visible, node: NodeProto, name: str) -> InputError:
    """The error of a node that uses what is not there: it comes later, from the node itself, or never."""
    user = node
    for around in scope.outwards():
        definition = next((other for other in around.graph.node if name in other.output), None)
        if definition is not None:
            cyclic = _reaches(around.graph, user, definition)
            how = (
                "which depends on this node itself (the graph has a cycle)"
                if cyclic
                else f'before node "{node_name(definition)}" defines it'
            )
            separator = ", " if cyclic else " "
            message = f'{node.op_type}: uses the value "{name}"{separator}{how}'
            return InputError(message, place=place(node))
        user = around.node or user
    message = f'{node.op_type}: uses the value "{name}", which no node, input or initializer defines'
    return InputError(message, place=place(node))


def _reaches(graph: GraphProto, start: NodeProto, end: NodeProto) -> bool:
    """Whether `end` reads, directly or through other nodes, what `start` defines."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in names_read(node):
            readers.setdefault(name, []).append(node)
    pending, seen = [start], set[str]()
    while pending:
        node = pending.pop()
        if node is end:
            return True
        for name in node.output:
            if name not in seen:
                seen.add(name)
                pending.extend(readers.get(name, []))
    return False


def names_read(node: NodeProto) -> Iterator[str]:
    """Names that a node or anything inside it reads."""
    yield from node.input
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from names_read(inner)
        yield from (value.name for value in graph.output)
