"""Source locations of operations: where they point to, how they are fused, which model nodes they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation

from mlopt.diagnostics import Place


def place_of(location: Attribute) -> Place:
    """The place in a file or model that a location points to; an empty `Place` if it points nowhere.

    A fused location points to where its first part does, a call site to its callee. A named location whose
    child is a place in a file gives both.
    """
    match location:
        case FileLineColLoc():
            return Place(location.filename.data, location.line.data, location.column.data)
        case NameLoc():
            inner = place_of(location.location)
            return Place(inner.file, inner.line, inner.column, location.desc.data)
        case CallSiteLoc():
            return place_of(location.callee)
        case FusedLoc():
            places = (place_of(part) for part in _parts(location))
            return next((place for place in places if place != Place()), Place())
        case _:
            return Place()


def place_of_op(op: Operation) -> Place:
    """The place of an operation, or of the innermost operation around it that has one."""
    current: Operation | None = op
    while current is not None:
        place = place_of(current.location)
        if place != Place():
            return place
        current = current.parent_op()
    return Place()


def fuse_locations(locations: Iterable[LocationAttr]) -> LocationAttr:
    """One location for what came from several: parts in order, flattened, each once, unknown ones dropped."""
    parts: dict[LocationAttr, None] = {}
    for location in locations:
        if isinstance(location, FusedLoc) and isinstance(location.metadata, NoneAttr):
            parts.update(dict.fromkeys(_parts(location)))
        elif not isinstance(location, UnknownLoc):
            parts[location] = None
    if not parts:
        return UnknownLoc()
    if len(parts) == 1:
        return next(iter(parts))
    return FusedLoc(tuple(parts), NoneAttr())


def node_names(location: Attribute) -> list[str]:
    """The names of the model's nodes in a location, in order, each once."""
    return list(dict.fromkeys(_names(location)))


def nodes_text(location: Attribute) -> str:
    """The first and last of the model's nodes in a location, to follow a name: ` (fc1 ... act)`; empty without any."""
    nodes = node_names(location)
    return f" ({nodes[0]} ... {nodes[-1]})" if len(nodes) > 1 else f" ({nodes[0]})" if nodes else ""


def _names(location: Attribute) -> Iterator[str]:
    match location:
        case NameLoc():
            yield location.desc.data
            yield from _names(location.location)
        case FusedLoc():
            for part in _parts(location):
                yield from _names(part)
        case CallSiteLoc():
            yield from _names(location.callee)
            yield from _names(location.caller)
        case _:
            return


def _parts(location: FusedLoc) -> Iterator[LocationAttr]:
    parts: object = location.locations
    assert isinstance(parts, Iterable)
    for part in parts:  # pyright: ignore[reportUnknownVariableType] (xDSL types the array as any attribute)
        assert isinstance(part, UnknownLoc | FileLineColLoc | CallSiteLoc | NameLoc | FusedLoc)
        yield part
