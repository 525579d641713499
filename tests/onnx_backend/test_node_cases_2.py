"""Every fourth node case of the onnx package, from number 2 on (files are what tests are distributed by)."""

from __future__ import annotations

from tests.onnx_backend.node_cases import complaints, node_cases, read_not_passed


def test_node_cases() -> None:
    """Expected outputs are those of the onnx package, compared with its tolerances."""
    found = complaints(node_cases()[1::4], read_not_passed())
    assert not found, "\n".join(found)
