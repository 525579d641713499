"""Opening an ONNX model, and the checks that hold for every model before anything is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import GraphProto, ModelProto, NodeProto
from onnx.checker import ValidationError
from onnx.inliner import inline_local_functions

from mlopt.diagnostics import InputError, Place, UnsupportedError
from mlopt.frontend.onnx.structure import check_graph, node_name, nodes_within
from mlopt.frontend.onnx.weightless import Span, without_weights
from mlopt.weights.mapped import MappedFiles

_Key = tuple[str, str, str]
"""Domain, name and overload of a function."""

LATEST_OPSET = 28
"""The newest version of the standard operator set whose changes are known here."""


@dataclass(frozen=True)
class OnnxModel:
    """A model that has been read and checked.

    `path` is the file it came from, if any: external data lies beside it. `spans` has the places in that file of
    the data of large initializers, by their names: `proto` does not hold them. `files` maps that file and its external
    data.
    """

    proto: ModelProto
    path: Path | None
    spans: Mapping[str, Span] = field(default_factory=dict[str, Span])
    files: MappedFiles = field(default_factory=MappedFiles)

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


def read_model(source: str | Path | ModelProto) -> OnnxModel:
    """Read and check a model from a file, or check one in memory (which is not changed).

    `InputError` if the file is missing, is no ONNX or is truncated, or if the model's values are not each
    defined once and before they are used.
    """
    model = parse_model(source)
    check_graph(model.graph, model.place)
    return model


def parse_model(source: str | Path | ModelProto) -> OnnxModel:
    """The same, without looking at how the model's values hang together (see `structure.graph_faults`)."""
    model = OnnxModel(source, None) if isinstance(source, ModelProto) else _parse(Path(source))
    _check_model(model)
    return model


def inline_functions(model: OnnxModel) -> OnnxModel:
    """The same model with the calls of its own functions replaced by their bodies.

    Functions that were written for other operator set versions than the model stay.
    """
    if not model.proto.functions:
        return model
    _check_calls(model)
    try:
        inlined = OnnxModel(inline_local_functions(model.proto), model.path, model.spans, model.files)
    except (RuntimeError, ValueError, EncodeError, ValidationError) as error:
        message = f"can't inline the functions of the model: {_first_line(error)}"
        raise InputError(message, place=model.place()) from error
    check_graph(inlined.graph, inlined.place)
    return inlined


def _check_calls(model: OnnxModel) -> None:
    """Raise `InputError` if a function calls itself, directly or through others."""
    functions = {(normal_domain(f.domain), f.name, f.overload): f for f in model.proto.functions}
    calls: dict[_Key, list[_Key]] = {}
    for key, function in functions.items():
        keys = ((normal_domain(n.domain), n.op_type, n.overload) for n in nodes_within(function.node))
        calls[key] = [called for called in keys if called in functions]
    done = set[_Key]()
    for start in functions:
        path, pending = [start], [iter(calls[start])]
        while pending:
            called = next(pending[-1], None)
            if called is None:
                pending.pop()
                done.add(path.pop())
            elif called in path:
                raise InputError(f'function "{called[1]}" calls itself', place=model.place())
            elif called not in done:
                path.append(called)
                pending.append(iter(calls[called]))


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
    _check_versions(model)
    if not model.graph.output:
        raise InputError("expected a model with at least one output, found none", place=model.place())


def _check_versions(model: OnnxModel) -> None:
    proto, place = model.proto, model.place()
    if not proto.opset_import:
        message = "expected an ONNX model with an operator set version, found none (truncated?)"
        raise InputError(message, place=place)
    if proto.ir_version < 1:
        raise InputError(
            f"expected an IR version of at least 1, found {proto.ir_version or 'none'}", place=place
        )
    if proto.ir_version > onnx.IR_VERSION:
        message = f"expected an IR version of at most {onnx.IR_VERSION}, found {proto.ir_version}"
        raise UnsupportedError(message, place=place)
    for whose, imports in (
        ("", proto.opset_import),
        *((f'function "{f.name}": ', f.opset_import) for f in proto.functions),
    ):
        _check_opsets(imports, whose, place)


def _check_opsets(imports: Iterable[onnx.OperatorSetIdProto], whose: str, place: Place) -> None:
    """Check that every domain has one version, and the standard one a version that is known here."""
    seen: dict[str, int] = {}
    for entry in imports:
        domain, version = normal_domain(entry.domain), entry.version
        name = f"{whose}operator set {domain or 'ai.onnx'}"
        if version < 1:
            raise InputError(f"{name}: expected a version of at least 1, found {version}", place=place)
        if seen.setdefault(domain, version) != version:
            raise InputError(f"{name}: expected one version, found {seen[domain]} and {version}", place=place)
        if domain == "" and version > LATEST_OPSET:
            message = f"{name}: expected a version of at most {LATEST_OPSET}, found {version}"
            raise UnsupportedError(message, place=place)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
