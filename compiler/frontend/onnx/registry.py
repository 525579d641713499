"""Which operators can be imported: a table from domain, operator and operator set version to a function.

The functions stand in one file per operator family and enter themselves:

    @importer("Squeeze", since=13)
    def squeeze(node: Node) -> SSAValue: ...

`since` is the first operator set version with this form; it holds until the operator's next form begins. An operator
that is not in the table is imported by its definition in the standard, if it has one (see `functions`). Most models
need few of the families: the others are loaded when an operator is looked for that these do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto
from xdsl.ir import SSAValue

from mlopt.diagnostics import Place, UnsupportedError, counted
from mlopt.frontend.onnx.checks import node_fault
from mlopt.frontend.onnx.functions import ANY_TYPE, definition, depends_on_types
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.outside import kind_outside
from mlopt.frontend.onnx.reader import LATEST_OPSET, normal_domain, opset_versions
from mlopt.frontend.onnx.structure import node_name, subgraphs
from mlopt.on_demand import TableOnDemand

ImportFunction: TypeAlias = Callable[[Node], SSAValue | Sequence[SSAValue]]
"""Adds a node's operations and returns the value of its first output, or one value per output."""

_Function = TypeVar("_Function", bound=ImportFunction)

Limit: TypeAlias = Callable[[NodeProto], str | None]
"""Says which part of an operator a node uses that is not supported ("with storage_order = 1"), or None."""


class Form(NamedTuple):
    """How an operator is imported from version `since` on, but for nodes that `limit` gives a reason for.

    `outputs` is how many outputs it gives (None: any number).
    """

    since: int
    function: ImportFunction
    limit: Limit | None
    outputs: int | None


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One kind of node that can't be imported. `reason` is empty if the operator as a whole is unknown.

    Where the standard defines the operator by others, `reason` names those that are unknown.
    """

    domain: str
    op_type: str
    opset: int
    reason: str
    nodes: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many nodes are of this kind."""
        return len(self.nodes)

    def __str__(self) -> str:
        operator = f"{self.domain or 'ai.onnx'}.{self.op_type} (opset {self.opset})"
        if self.reason:
            operator += f" {self.reason}"
        named = ", ".join(self.nodes[:_NAMES_SHOWN])
        rest = f" and {self.count - _NAMES_SHOWN} more" if self.count > _NAMES_SHOWN else ""
        return f"{operator}: {counted(self.count, 'node')} ({named}{rest})"


_NAMES_SHOWN = 5
_forms: TableOnDemand[tuple[str, str], list[Form]] = TableOnDemand()


def load_on_demand(modules: Iterable[str]) -> None:
    """Name modules with import functions that need not be loaded before an operator is not found.

    None of them may have a newer form of an operator than a module that is loaded before.
    """
    _forms.expect(modules)


def importer(
    op_type: str, *, since: int, domain: str = "", limit: Limit | None = None, outputs: int | None = 1
) -> Callable[[_Function], _Function]:
    """Enter a function as the importer of an operator from version `since` on.

    `outputs` is how many outputs it gives (None: any number); a node that uses more is unsupported.
    """

    def enter(function: _Function) -> _Function:
        forms = _forms.setdefault((domain, op_type), [])
        forms.append(Form(since, function, limit, outputs))
        forms.sort(key=lambda form: form.since)
        return function

    return enter


def import_function(node: NodeProto, opset: int, used: Collection[str]) -> ImportFunction | None:
    """The importer of a node, or None if there is none and so its definition is to be imported.

    `used` are the names of values that anything reads.
    """
    form = _form(normal_domain(node.domain), node.op_type, opset)
    return form.function if form is not None and _shortcoming(form, node, used) is None else None


def supported_operators() -> Iterator[tuple[str, str, int]]:
    """(domain, operator, first version) of every form that can be imported, sorted."""
    _forms.load()
    for (domain, op_type), forms in sorted(_forms.items()):
        for form in forms:
            yield domain, op_type, form.since


def operator_forms() -> Iterator[tuple[str, str, Sequence[Form]]]:
    """(domain, operator, forms from the oldest on) of every operator that has an importer, sorted."""
    _forms.load()
    for (domain, op_type), forms in sorted(_forms.items()):
        yield domain, op_type, tuple(forms)


def find_unsupported(model: ModelProto) -> list[Unsupported]:
    """Every kind of node in the model that can't be imported, in the order of first appearance.

    Looks into subgraphs (branches, loop bodies) and into the model's own functions, which import inlines.
    """
    functions = {(normal_domain(f.domain), f.name) for f in model.functions}
    versions = opset_versions(model.opset_import)
    found: dict[tuple[str, str, int, str], list[str]] = {}
    for container, opsets in _containers(model, versions):
        used = used_names(container)
        for node in container.node:
            domain = normal_domain(node.domain)
            if (domain, node.op_type) in functions:
                continue
            reason = _obstacle(node, domain, opsets, used)
            if reason is not None:
                kind = (domain, node.op_type, opsets.get(domain, 0), reason)
                found.setdefault(kind, []).append(node_name(node))
    return [Unsupported(*kind, tuple(nodes)) for kind, nodes in found.items()]


class NodeFault(NamedTuple):
    """A node that breaks a rule of its operator, and which."""

    node: NodeProto
    message: str


def node_faults(model: ModelProto) -> Iterator[NodeFault]:
    """Every node that is not what the standard says its operator is, in subgraphs and functions too (see `checks`)."""
    functions = {(normal_domain(f.domain), f.name) for f in model.functions}
    for container, opsets in _containers(model, opset_versions(model.opset_import)):
        for node in container.node:
            domain = normal_domain(node.domain)
            if (domain, node.op_type) in functions:
                continue
            message = node_fault(node, domain, opsets.get(domain, 0))
            if message is not None:
                yield NodeFault(node, message)


def require_supported(model: ModelProto, place: Place) -> None:
    """Raise one `UnsupportedError` that lists all that can't be imported, if anything can't."""
    found = find_unsupported(model)
    if found:
        kinds = counted(len(found), "unsupported operator")
        raise UnsupportedError(f"the model uses {kinds}: {'; '.join(map(str, found))}", place=place)


def _form(domain: str, op_type: str, opset: int) -> Form | None:
    if _is_too_new(domain, opset):
        return None
    forms = _forms_until(domain, op_type, opset)
    if not forms:
        _forms.load()
        forms = _forms_until(domain, op_type, opset)
    return forms[-1] if forms else None


def _forms_until(domain: str, op_type: str, opset: int) -> list[Form]:
    return [form for form in _forms.get((domain, op_type), []) if form.since <= opset]


def _is_too_new(domain: str, opset: int) -> bool:
    return domain == "" and opset > LATEST_OPSET


def _obstacle(node: NodeProto, domain: str, opsets: Mapping[str, int], used: Collection[str]) -> str | None:
    """Why a node can't be imported: None if it can, the empty string if its operator is unknown."""
    opset = opsets.get(domain, 0)
    if opset == 0:
        return "of a domain that the model gives no version for"
    form = _form(domain, node.op_type, opset)
    if form is None and (kind := kind_outside(node.op_type, domain, opset)) is not None:
        return kind
    shortcoming = "" if form is None else _shortcoming(form, node, used)
    if shortcoming is None or _is_too_new(domain, opset):
        return shortcoming
    types = [ANY_TYPE if name else TypeProto() for name in node.input]
    function = definition(node, domain, opset, types)
    if function is not None:
        return _obstacle_in(function, opsets)
    # A definition that needs the types themselves is met, or refused, during the import.
    return None if depends_on_types(node, domain, opset) else shortcoming


def _obstacle_in(function: FunctionProto, opsets: Mapping[str, int]) -> str | None:
    """What is unknown in the definition of an operator; `opsets` are those around it."""
    opsets, used = {**opsets, **opset_versions(function.opset_import)}, used_names(function)
    unknown: list[str] = []
    for node in function.node:
        domain = normal_domain(node.domain)
        reason = _obstacle(node, domain, opsets, used)
        if reason is not None:
            unknown.append(f"{node.op_type} {reason}".rstrip())
    return f"which is defined by {', '.join(dict.fromkeys(unknown))}" if unknown else None


def _shortcoming(form: Form, node: NodeProto, used: Collection[str]) -> str | None:
    """What a node asks of its operator that the importer does not have."""
    if form.limit is not None and (reason := form.limit(node)) is not None:
        return reason
    if form.outputs is not None and any(name in used for name in node.output[form.outputs :]):
        return "with all its outputs" if form.outputs == 1 else f"with more than {form.outputs} outputs"
    return None


def _containers(
    model: ModelProto, versions: dict[str, int]
) -> Iterator[tuple[GraphProto | FunctionProto, dict[str, int]]]:
    """Every list of nodes of a model with the operator set versions that hold there."""
    pending: list[tuple[GraphProto | FunctionProto, dict[str, int]]] = [(model.graph, versions)]
    pending += [(function, versions | opset_versions(function.opset_import)) for function in model.functions]
    position = 0
    while position < len(pending):
        container, opsets = pending[position]
        yield container, opsets
        pending += [(graph, opsets) for node in container.node for graph in subgraphs(node)]
        position += 1


def used_names(container: GraphProto | FunctionProto) -> set[str]:
    """Names that are read in a list of nodes, or leave it; subgraphs count too."""
    used = (
        set(container.output) if isinstance(container, FunctionProto) else {v.name for v in container.output}
    )
    for node in container.node:
        used.update(node.input)
        for graph in subgraphs(node):
            used |= used_names(graph)
    used.discard("")
    return used
