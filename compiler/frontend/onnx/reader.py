"""Opening an ONNX model, and the checks that hold for every model before anything is imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto
from onnx.inliner import inline_local_functions

from mlopt.diagnostics import InputError, Place
from mlopt.frontend.onnx.weightless import Span, without_weights


@dataclass(frozen=True)
class OnnxModel:
    """A model that has been read and checked.

    `path` is the file it came from, if any: external data lies beside it. `spans` has the places in that file of
    the data of large initializers, by their names: `proto` does not hold them.
    """

    proto: ModelProto
    path: Path | None
    spans: Mapping[str, Span] = field(default_factory=dict[str, Span])

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.proto.graph

    @property
    def opsets(self) -> dict[str, int]:
        """Domain → version of its operator set; the standard domain is `""`."""
        return opset_versions(self.proto.opset_import)

    def place(self, node: NodeProto | None = None) -> Place:
        """The place of a node, or of the model."""
        return Place(
            None if self.path is None else str(self.path), node=None if node is None else node_name(node)
        )


def opset_versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Domain → version, with `ai.onnx` under its other name `""`."""
    return {normal_domain(entry.domain): entry.version for entry in imports}


def normal_domain(domain: str) -> str:
    """The standard domain has two names; this gives the short one."""
    return "" if domain == "ai.onnx" else domain


def node_name(node: NodeProto) -> str:
    """The node's name, or for a node without one its operator and first output: `Relu_output`."""
    if node.name:
        return node.name
    output = next((name for name in node.output if name), "")
    return f"{node.op_type}_{output}"


def read_model(source: str | Path | ModelProto) -> OnnxModel:
    """Read and check a model from a file, or check one in memory (which is not changed).

    `InputError` if the file is missing, is no ONNX or is truncated, or if the model's values are not each
    defined once and before they are used.
    """
    model = OnnxModel(source, None) if isinstance(source, ModelProto) else _parse(Path(source))
    _check_model(model)
    return model


def inline_functions(model: OnnxModel) -> OnnxModel:
    """The same model with the calls of its own functions replaced by their bodies."""
    if not model.proto.functions:
        return model
    try:
        inlined = OnnxModel(inline_local_functions(model.proto), model.path, model.spans)
    except (RuntimeError, ValueError, EncodeError) as error:
        message = f"can't inline the functions of the model: {_first_line(error)}"
        raise InputError(message, place=model.place()) from error
    check_graph(inlined)
    return inlined


def _parse(path: Path) -> OnnxModel:
    place = Place(str(path))
    if path.is_dir():
        raise InputError("expected an ONNX model, found a directory", place=place)
    try:
        data, spans = without_weights(path)
    except FileNotFoundError as error:
        raise InputError("expected an ONNX model, found no such file", place=place) from error
    except OSError as error:
        raise InputError(f"can't read the model: {error.strerror or error}", place=place) from error
    if not data:
        raise InputError("expected an ONNX model, found an empty file", place=place)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise InputError(
            "expected an ONNX model, found a truncated file or another format", place=place
        ) from error
    initializers = proto.graph.initializer
    return OnnxModel(proto, path, {initializers[index].name: span for index, span in spans.items()})


def _check_model(model: OnnxModel) -> None:
    if not model.proto.HasField("graph"):
        message = "expected an ONNX model, found none (no graph in it)"
        raise InputError(message, place=model.place())
    if not model.proto.opset_import:
        message = "expected an ONNX model with an operator set version, found none (truncated?)"
        raise InputError(message, place=model.place())
    check_graph(model)


def check_graph(model: OnnxModel) -> None:
    """Check that every value is defined once and before its first use; `InputError` names node and value."""
    graph = model.graph
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    initializers += [tensor.values.name for tensor in graph.sparse_initializer]
    for what, names in (("inputs", inputs), ("initializers", initializers)):
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise InputError(f'two {what} have the name "{twice}"', place=model.place())
    defined: dict[str, NodeProto | None] = dict.fromkeys((*inputs, *initializers))
    for node in graph.node:
        for name in _uses(node):
            if name not in defined:
                raise _undefined(model, node, name)
        for name in node.output:
            if not name:
                continue
            if name in defined:
                raise _defined_twice(model, node, name, defined[name])
            defined[name] = node
    for value in graph.output:
        if value.name not in defined:
            message = f'the model\'s output "{value.name}" is not defined by any node, input or initializer'
            raise InputError(message, place=model.place())


def _uses(node: NodeProto) -> list[str]:
    """The values of the surrounding graph that a node reads, also from inside its subgraphs."""
    names = [name for name in node.input if name]
    pending = [(graph, frozenset[str]()) for graph in subgraphs(node)]
    while pending:
        graph, visible = pending.pop()
        visible |= {value.name for value in graph.input}
        visible |= {tensor.name for tensor in graph.initializer}
        visible |= {name for inner in graph.node for name in inner.output}
        for inner in graph.node:
            names += [name for name in inner.input if name and name not in visible]
            pending += [(deeper, visible) for deeper in subgraphs(inner)]
        names += [value.name for value in graph.output if value.name not in visible]
    return names


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The graphs in the attributes of a node (the branches of If, the bodies of Loop and Scan)."""
    found: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            found.extend(attribute.graphs)
    return found


def _defined_twice(model: OnnxModel, node: NodeProto, name: str, other: NodeProto | None) -> InputError:
    by = "an input or initializer" if other is None else f'node "{node_name(other)}"'
    return InputError(f'defines the value "{name}", which {by} defines already', place=model.place(node))


def _undefined(model: OnnxModel, node: NodeProto, name: str) -> InputError:
    definition = next((other for other in model.graph.node if name in other.output), None)
    if definition is None:
        message = f'uses the value "{name}", which no node, input or initializer defines'
    elif _reaches(model.graph, node, definition):
        message = f'uses the value "{name}", which depends on this node itself (the graph has a cycle)'
    else:
        message = f'uses the value "{name}" before node "{node_name(definition)}" defines it'
    return InputError(message, place=model.place(node))


def _reaches(graph: GraphProto, start: NodeProto, end: NodeProto) -> bool:
    """Whether `end` reads, directly or through other nodes, what `start` defines."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
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


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
