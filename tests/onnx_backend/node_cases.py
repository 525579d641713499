"""The node cases of the onnx package, run through all three levels and compared as the package's own runner does.

A case is passed, refused with its reason, or a fault; or it is rounded differently: its float16 outputs are two units
in the last place from the expected ones, where the tolerance allows one, or its float32 outputs are at most one unit of
the largest expected number away, where a number next to 0 allows less. That happens where the package computed the
expected values step by step in the same type (a Fourier transform gives 2e-7 where 0 is right), and both answers round
the exact one differently. `not_passed.txt` lists what is refused and what is rounded differently. The list may only
shrink, and a wrong answer or an internal error can't stand in it: `python -m tests.onnx_backend.survey --write` brings
it up to date.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_node_model_tests
from onnx.backend.test.runner import Runner

from mlopt import UnsupportedError, onnx_backend

NOT_PASSED = Path(__file__).with_name("not_passed.txt")
_HEADER = """\
# Node cases of the onnx package that do not pass, each with the reason: what is missing, or that numbers are rounded
# differently. The list may only shrink; wrong answers and internal errors can't stand in it.
# Written by: python -m tests.onnx_backend.survey --write
"""


class Verdict(Enum):
    """How a case ended."""

    PASSED = "passed"
    REFUSED = "refused"
    ROUNDED = "rounded differently"
    FAULT = "fault"


@dataclass(frozen=True)
class Outcome:
    """How a case ended, and why it did not pass: the obstacles if it was refused, else what went wrong."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()

    @property
    def listable(self) -> bool:
        """Whether the case may stand in the list."""
        return self.verdict in (Verdict.REFUSED, Verdict.ROUNDED)

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)


@cache
def node_cases() -> tuple[TestCase, ...]:
    """All node cases, by name. Their data are computed: this takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(sorted(load_node_model_tests(), key=lambda case: case.name))


def run_case(case: TestCase) -> Outcome:
    """Run one case; nothing is compiled if its operators and types tell already that it will be refused."""
    assert case.model is not None
    outcome = Outcome(Verdict.PASSED)
    try:
        if obstacles := onnx_backend.obstacles(case.model):
            return Outcome(Verdict.REFUSED, tuple(obstacles))
        for inputs, expected in case.data_sets or ():
            outputs = onnx_backend.run_model(case.model, _arrays(inputs))
            try:
                Runner.assert_similar_outputs(_arrays(expected), outputs, case.rtol, case.atol)
            except AssertionError:
                if not _differ_by_rounding(_arrays(expected), outputs, case):
                    raise
                outcome = Outcome(Verdict.ROUNDED, (_rounded(outputs),))
    except UnsupportedError as error:
        return Outcome(Verdict.REFUSED, (error.message,))
    except Exception:  # whatever else comes out is a fault
        return Outcome(Verdict.FAULT, (traceback.format_exc(),))
    return outcome


def _rounded(outputs: Sequence[Any]) -> str:
    if any(found.dtype == np.float16 for found in outputs):
        return "float16 outputs differ by two units in the last place"
    return "float32 outputs differ by a unit of the largest number"


def _differ_by_rounding(expected: Sequence[Any], outputs: Sequence[Any], case: TestCase) -> bool:
    """Whether every output is close enough, or rounded differently (see above)."""
    for want, found in zip(expected, outputs, strict=True):
        if (
            want.dtype != found.dtype
            or want.shape != found.shape
            or want.dtype not in (np.float16, np.float32)
        ):
            Runner.assert_similar_outputs([want], [found], case.rtol, case.atol)
        elif want.dtype == np.float32:
            if not np.all(np.abs(want - found) <= np.spacing(np.abs(want).max(initial=0))):
                return False
        elif not np.array_equal(np.isfinite(want), np.isfinite(found)):
            return False
        else:
            finite = np.isfinite(want)
            unit = np.spacing(np.maximum(np.abs(want[finite]), np.abs(found[finite])))
            if np.any(np.abs(want[finite].astype(np.float64) - found[finite]) > 2 * unit.astype(np.float64)):
                return False
    return True


def _arrays(values: Iterable[Any]) -> list[Any]:
    """Tensors as arrays; arrays as they are."""
    return [numpy_helper.to_array(value) if isinstance(value, TensorProto) else value for value in values]


def read_not_passed() -> dict[str, str]:
    """Case → reason, as the list has it."""
    lines = NOT_PASSED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def write_not_passed(outcomes: Mapping[str, Outcome]) -> None:
    """Replace the list by what of these outcomes may stand in it."""
    lines = [f"{name}: {o.reason}\n" for name, o in sorted(outcomes.items()) if o.listable]
    NOT_PASSED.write_text(_HEADER + "".join(lines), encoding="utf-8")


def complaints(cases: Sequence[TestCase], listed: dict[str, str]) -> list[str]:
    """What is wrong with these cases, or with the list about them, one entry a case."""
    found: list[str] = []
    for case in cases:
        outcome = run_case(case)
        if outcome.verdict is Verdict.FAULT:
            found.append(f"{case.name} went wrong:\n{outcome.reason}")
        elif outcome.verdict is Verdict.PASSED and case.name in listed:
            found.append(f"{case.name} passes: take it off the list")
        elif outcome.listable and case.name not in listed:
            found.append(f"{case.name} is not on the list, but does not pass: {outcome.reason}")
        elif outcome.listable and listed[case.name] != outcome.reason:
            found.append(f"{case.name} does not pass for another reason than listed: {outcome.reason}")
    return found
