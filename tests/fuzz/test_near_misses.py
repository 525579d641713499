"""Mutants of the idioms that passes match: the same every time. The long search: `python -m tests.fuzz.near_misses`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random

import pytest

from mlopt.passes.graph import fusion
from tests.fuzz.levels import GRAPH_PASSES
from tests.fuzz.mutants import mutant
from tests.fuzz.near_misses import IDIOMS, Tally, near_misses
from tests.fuzz.operators import OPERATORS
from tests.fuzz.search import random_program


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_every_pass_that_fuses_has_idioms() -> None:
    assert {name for name in GRAPH_PASSES if name.startswith("fuse-")} <= IDIOMS.keys()
    assert {idiom for idioms in IDIOMS.values() for idiom in idioms} <= OPERATORS.keys()


def test_near_misses() -> None:
    """Both sides of the edges are met."""
    tallies = {name: Tally() for name in IDIOMS}
    for name, tally in tallies.items():
        for seed in range(3):
            near_misses(name, seed, tally)
    found = [one for tally in tallies.values() for one in tally.found]
    assert not found, "\n".join(f"seed {one.seed}, {one.route}: {one.failure}" for one in found)
    assert sum(tally.still for tally in tallies.values()) > 30
    assert sum(tally.no_more for tally in tallies.values()) > 10


def test_a_seed_makes_one_mutant() -> None:
    first, second = (mutant(Random(5), random_program(Random(7), ["product-tail"], most=1)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.model() == second.model()


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A formula of floats that is taken for one where integers are divided."""
    monkeypatch.setattr(fusion.Fusion, "elements", None)
    tally = Tally()
    for seed in range(12):
        near_misses("fuse-rotary", seed, tally)
        if tally.found:
            return
    pytest.fail("not found")
