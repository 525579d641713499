"""What the importer counted on an ONNX file, as the module holds it (`mlopt.frontend.onnx.statistics`)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute

_ATTRIBUTE = "mlopt.imported"


def imported_figures(module: ModuleOp) -> dict[str, Any]:
    """The figures by name. Empty for a module that does not come from ONNX."""
    attribute = module.attributes.get(_ATTRIBUTE)
    return _plain(attribute) if isinstance(attribute, DictionaryAttr) else {}


def imported_max_live(module: ModuleOp) -> int | None:
    """The most bytes that live at once if every operator of the file runs on its own; None if that is not known."""
    found = imported_figures(module).get("max_live_bytes")
    return found if isinstance(found, int) and found > 0 else None


def _plain(attribute: Attribute) -> Any:
    match attribute:
        case DictionaryAttr():
            return {name: _plain(value) for name, value in attribute.data.items()}
        case IntegerAttr():
            return attribute.value.data
        case _:
            return str(attribute)
