"""Which nodes of an ONNX graph are needed: those that lead to its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import GraphProto, NodeProto, ValueInfoProto


def finished_graph(
    graph: GraphProto, nodes: Sequence[NodeProto], types: Iterable[ValueInfoProto]
) -> GraphProto:
    """The graph, with those of the nodes that lead to its outputs, and of the types that are of their inner values."""
    outputs = {info.name for info in graph.output}
    kept = _live(nodes, outputs)
    inner = written_names(kept) - outputs
    graph.node.extend(kept)
    graph.value_info.extend(info for info in types if info.name in inner)
    return graph


def written_names(nodes: Iterable[NodeProto]) -> set[str]:
    """The values that nodes give."""
    return {name for node in nodes for name in node.output}


def read_names(node: NodeProto) -> set[str]:
    """The values that a node reads, and all that are read in the graphs inside it."""
    names = {*node.input}
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names.update(info.name for info in attribute.g.output)
            names.update(*map(read_names, attribute.g.node))
    return names


def _live(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    needed, kept = {*outputs}, list[NodeProto]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed |= read_names(node)
    return kept[::-1]
