"""Refusals of `fit-memory` are answers where they say why, and findings where they can't be right."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mlopt import PassFailure
from mlopt.diagnostics import Diagnostic, Severity
from mlopt.passes.kernel.fit_memory import FitMemoryPass
from tests.frontend.all_levels import model_from
from tests.fuzz.corpus import program_of
from tests.fuzz.levels import Route, check
from tests.fuzz.program import Program


def program() -> Program:
    """1024 bytes that are made, and used twice."""
    text = """g (float[16,16] x) => (float[16,16] y) {
      n = Neg(x)
      t = Transpose(n)
      y = Sub(n, t)
    }"""
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    return program_of(model_from(text), [{"x": x}], [{"y": x.T - x}])


def route(budget: int) -> Route:
    return Route((), (f"fit-memory{{budget={budget}}}",))


def test_a_refusal_with_its_proof_is_an_answer() -> None:
    """`n` is read while `t` is made."""
    refusals = Counter[str]()
    assert check(program(), route(512), refusals) is None
    assert refusals == {"proved": 1}


PROVED = (
    "no order of the launches, and no second run of single ones, fits into {} bytes: "
    "while 'a' runs, at least {} are live"
)
FOUND = (
    "found no way to fit into {} bytes; it is proved that no order of the launches, and no second run of single ones, "
    "takes less than {}, which are live while 'a' runs"
)


@pytest.mark.parametrize(
    ("message", "listed", "wrong"),
    [
        ("it does not fit", 0, "it says neither what must be live nor what was found"),
        (PROVED.format(64, 1024), 1024, "it refuses 64 bytes, asked for were 512"),
        (PROVED.format(512, 512), 512, "512 bytes are no reason to refuse 512"),
        (FOUND.format(512, 576), 576, "576 bytes are no reason to refuse 512"),
        (PROVED.format(512, 1024), 960, "the notes are of 960 bytes, the message of 1024"),
        (PROVED.format(512, 65536), 65536, "65536 bytes are to be live at least, but "),
        (
            f"{PROVED.format(512, 1024)}; in tiles, at least 448 are, while 'b' runs",
            448,
            "448 bytes in tiles",
        ),
    ],
)
def test_a_refusal_without_a_reason_is_found(
    monkeypatch: pytest.MonkeyPatch, message: str, listed: int, wrong: str
) -> None:
    def refuse(*_: object) -> bool:
        raise PassFailure(message, notes=(Diagnostic(Severity.NOTE, f"{listed} bytes made by 'a'"),))

    monkeypatch.setattr(FitMemoryPass, "run", refuse)
    failure = check(program(), route(512))
    assert failure is not None
    assert failure.kind == "WrongRefusal at _fit_memory"
    assert wrong in failure.detail


def test_what_fits_must_not_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise PassFailure(FOUND.format(65536, 64), notes=(Diagnostic(Severity.NOTE, "64 bytes made by 'a'"),))

    monkeypatch.setattr(FitMemoryPass, "run", refuse)
    failure = check(program(), route(65536))
    assert failure is not None
    assert "it fits into 65536 bytes with convert-kernel-to-memref" in failure.detail
