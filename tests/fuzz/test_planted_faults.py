"""The fuzzer finds faults: ten are planted one after the other, and each is found within a few programs."""

from __future__ import annotations

import pytest

from tests.fuzz.planted import FAULTS, Fault, find

MOST = 150
"""Programs of the operators concerned; `python -m tests.fuzz.planted` draws from all."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = find(fault, monkeypatch, fault.operators, MOST)
    assert found is not None
    assert not found.failure.kind.startswith("TypeError"), (
        "what is planted does not fit the function it replaces"
    )
