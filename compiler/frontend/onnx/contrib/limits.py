"""What the import of operators of com.microsoft has in common: the domain, and limits by names of a node's parts."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto, helper

from mlopt.frontend.onnx.registry import Limit

MICROSOFT = "com.microsoft"


def without(
    *,
    attributes: Mapping[str, int | float | str] | None = None,
    inputs: Mapping[int, str] | None = None,
    outputs: Mapping[int, str] | None = None,
) -> Limit:
    """The limit of an operator of which some parts are not supported.

    `attributes` has the only value of each that is; `inputs` and `outputs` name those that are not, by position. Its
    docstring says so, for the table of operators.
    """

    refused = [f"{name} other than {value}" for name, value in (attributes or {}).items()]
    refused += [*(inputs or {}).values(), *(outputs or {}).values()]

    def limit(node: NodeProto) -> str | None:
        for attribute in node.attribute:
            supported = (attributes or {}).get(attribute.name)
            value = helper.get_attribute_value(attribute)
            found = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if supported is not None and found != supported:
                return f"with {attribute.name} = {found}"
        for given, names in ((node.input, inputs or {}), (node.output, outputs or {})):
            for position, name in names.items():
                if position < len(given) and given[position]:
                    return f"with {name}"
        return None

    limit.__doc__ = f"With {', '.join(refused)}."
    return limit
