"""Names of SSA values: valid, unique where printed, and kept exactly."""

from __future__ import annotations

import re

from xdsl.ir import SSAValue

_VALID = re.compile(r"[A-Za-z_$.-][A-Za-z0-9_$.-]*")
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_$.-]+")


def set_name(value: SSAValue, name: str | None) -> None:
    """Name an SSA value after `name`: of a model's tensor, or anything else.

    What an SSA name can't hold becomes `_`; a name that starts with a digit gets one in front. Unlike xDSL's
    `name_hint` setter this keeps a suffix such as `_12`. The printer makes names unique.
    """
    value._name = valid_name(name) if name else None  # pyright: ignore[reportPrivateUsage] (see docstring)


def valid_name(name: str) -> str:
    """The nearest valid SSA name: `onnx::MatMul_12` becomes `onnx_MatMul_12`, `1` becomes `_1`."""
    if _VALID.fullmatch(name):
        return name
    name = _INVALID_CHARACTER.sub("_", name)
    return name if _VALID.fullmatch(name) else f"_{name}"


def copy_name(source: SSAValue, target: SSAValue) -> None:
    """Give `target` the name of `source` if it has none."""
    if target.name_hint is None:
        target._name = source.name_hint  # pyright: ignore[reportPrivateUsage] (the setter drops suffixes)
