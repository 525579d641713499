"""A run makes no more memory resident than its arena and its outputs: measured from outside, in a process of its own.

`benchmarks/peak_rss.py` shows the same for 100 MiB of activations.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARK: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "peak_rss.py"))
MIB = 2**20


@pytest.fixture(autouse=True)
def peaks_can_be_set_back() -> None:
    try:
        BENCHMARK["forget_peak"]()
    except OSError:
        pytest.skip("the system does not let a process set back its peak of resident memory")


def test_what_is_resident_for_a_moment_is_in_the_peak() -> None:
    """So that the test below can fail: memory that is taken and given back is seen, and only once."""
    before = BENCHMARK["resident"]()
    for _ in range(2):
        np.ones(64 * MIB, np.uint8)
    assert 60 * MIB < BENCHMARK["resident"]("VmHWM") - before < 80 * MIB
    BENCHMARK["forget_peak"]()
    assert BENCHMARK["resident"]("VmHWM") < before + 20 * MIB


@pytest.mark.parametrize("make", BENCHMARK["MAKES"])
def test_a_run_takes_its_arena_and_its_outputs(make: str) -> None:
    got = BENCHMARK["measure_in_fresh_process"](make, 24)
    assert got.arena + got.outputs > 12 * MIB
    assert 0.9 < got.ratio <= 1.05, got
