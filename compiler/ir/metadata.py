"""What the author of a model says about it: kept as an attribute of the module, for nothing but a later export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

METADATA = "mlopt.metadata"
"""The attribute's name."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Texts and properties of a model, its graph, and its inputs and outputs by name; what is empty is left out."""

    doc: str = ""
    graph_doc: str = ""
    domain: str = ""
    version: int = 0
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of a module with this metadata: one, or none if nothing was said."""
        entries: dict[str, Attribute] = {
            name: StringAttr(text) for name in _TEXTS if (text := getattr(self, name))
        }
        if self.version:
            entries["version"] = IntegerAttr(self.version, i64)
        for name in _TABLES:
            table: Mapping[str, str] = getattr(self, name)
            if table:
                entries[name] = ArrayAttr(ArrayAttr(map(StringAttr, pair)) for pair in table.items())
        return {METADATA: DictionaryAttr(entries)} if entries else {}

    @staticmethod
    def read(module: ModuleOp) -> Metadata:
        """The metadata of a module; entries of another form are as if they were not there."""
        entries = module.attributes.get(METADATA)
        if not isinstance(entries, DictionaryAttr):
            return Metadata()
        data = entries.data
        version = data.get("version")
        doc, graph_doc, domain = (_text(data.get(name)) for name in _TEXTS)
        number = version.value.data if isinstance(version, IntegerAttr) else 0
        properties, inputs, outputs = (_table(data.get(name)) for name in _TABLES)
        return Metadata(doc, graph_doc, domain, number, properties, inputs, outputs)


_TEXTS = ("doc", "graph_doc", "domain")
_TABLES = ("properties", "inputs", "outputs")


def _text(attribute: Attribute | None) -> str:
    return attribute.data if isinstance(attribute, StringAttr) else ""


def _table(attribute: Attribute | None) -> dict[str, str]:
    """Pairs of strings: names may be any text, which the keys of a dictionary in the IR may not."""
    if not isa(attribute, ArrayAttr[ArrayAttr[StringAttr]]):
        return {}
    return {pair.data[0].data: pair.data[1].data for pair in attribute.data if len(pair.data) == 2}
