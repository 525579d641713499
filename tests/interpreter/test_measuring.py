"""How often the engine translates a function to find out how much scratch it needs; what it counts while it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import mlopt.interpreter.target as target
import mlopt.interpreter.translate as translate
from mlopt.interpreter.elementwise import Kernel
from mlopt.interpreter.plan import Memory, Repeats
from mlopt.interpreter.scratch import UNLIMITED, LateScratch, Scratch
from mlopt.interpreter.target import NumpyTarget
from mlopt.interpreter.views import Region
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, load, module
from tests.interpreter.test_memref_convolutions import Case, text_of

VECTOR = "memref<8192xf32>"


def a_map(
    source: str, out: str, body: str, type_: str = VECTOR, index: str = "i", iterators: str = "i:p"
) -> str:
    return generic(iterators, [(source, index, type_)], [(out, index, type_)], body)


DOUBLED = "%s = arith.addf %i0, %i0 : f32\nlinalg.yield %s : f32"
"""One ufunc, straight into the output."""

POLYNOMIAL = (
    "%a = math.exp %i0 : f32\n%b = math.sin %i0 : f32\n%c = math.cos %i0 : f32\n"
    "%d = arith.mulf %a, %b : f32\n%e = arith.mulf %b, %c : f32\n%f = arith.mulf %c, %a : f32\n"
    "%g = arith.addf %d, %e : f32\n%s = arith.addf %g, %f : f32\nlinalg.yield %s : f32"
)
"""Three values that are all needed until the end: two temporaries and more."""


def measurements(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> list[tuple[str, int]]:
    """The functions measured from now on, and with what capacities."""
    found: list[tuple[str, int]] = []
    measure = translate.measure

    def recorded(module: Any, function: FuncOp, capacity: int, *rest: Any) -> translate.Measurement:
        found.append((function.sym_name.data, capacity))
        return measure(module, function, capacity, *rest)

    for place in modules:
        monkeypatch.setattr(place, "measure", recorded)
    return found


def main_of(text: str) -> FuncOp:
    (main,) = parse_module(text, make_context()).ops
    assert isinstance(main, FuncOp)
    return main


def test_what_asks_for_no_scratch_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    measured = measurements(monkeypatch, target)
    text = module(a_map("%x", "%y", DOUBLED), inputs={"x": VECTOR}, outputs={"y": VECTOR})
    need = NumpyTarget().scratch_need(main_of(text))
    assert (need.minimum, need.preferred) == (0, 0)
    assert need.nanoseconds is not None and need.nanoseconds(0) == need.nanoseconds(1 << 20) > 0
    assert measured == [("main", UNLIMITED)]


def test_what_asks_is_measured_without_and_with_all_of_it(monkeypatch: pytest.MonkeyPatch):
    measured = measurements(monkeypatch, target)
    text = module(a_map("%x", "%y", POLYNOMIAL), inputs={"x": VECTOR}, outputs={"y": VECTOR})
    need = NumpyTarget().scratch_need(main_of(text))
    assert 0 < need.minimum < need.preferred
    assert measured == [("main", UNLIMITED), ("main", 0)]


def test_functions_without_workspaces_are_measured_only_if_they_ask(monkeypatch: pytest.MonkeyPatch):
    """When a module is loaded: @plain asks for nothing; @wide gets the session's own scratch."""
    measured = measurements(monkeypatch, translate)
    functions = "".join(
        f"func.func private @{name}(%X: {VECTOR}, %Y: {VECTOR}) {{\n{a_map('%X', '%Y', body)}\nreturn\n}}\n"
        for name, body in (("plain", DOUBLED), ("wide", POLYNOMIAL))
    )
    calls = "".join(
        f"func.call @{name}(%x, %{out}) : ({VECTOR}, {VECTOR}) -> ()\n"
        for name, out in (("plain", "y"), ("wide", "z"))
    )
    text = module(calls, inputs={"x": VECTOR}, outputs={"y": VECTOR, "z": VECTOR}, functions=functions)
    executable = load(text)
    assert measured == [("wide", UNLIMITED)]
    x = np.linspace(-2, 2, 8192, dtype=np.float32)
    got = executable.run({"x": x})
    np.testing.assert_array_equal(got["y"], x + x)
    e, s, c = (f(x.astype(np.float64)) for f in (np.exp, np.sin, np.cos))
    np.testing.assert_allclose(got["z"], e * s + s * c + c * e, rtol=1e-5, atol=1e-5)


def test_blocks_of_one_kind_are_looked_at_once(monkeypatch: pytest.MonkeyPatch):
    """A stem that is packed row by row: only rows at the borders have other padding than those between."""
    boxes: list[Any] = []
    emit_box = Kernel.emit_box
    monkeypatch.setattr(Kernel, "emit_box", lambda *args: boxes.append(args) or emit_box(*args))

    def looked_at(height: int) -> int:
        case = Case(size=(height, 64), kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3), filters=16)
        main = main_of(text_of(case))
        boxes.clear()
        translate.measure(main.parent_op(), main, 0, {})  # pyright: ignore[reportArgumentType]
        return len(boxes)

    assert looked_at(64) == looked_at(256) <= 8


def test_repeats_cost_what_the_first_of_their_kind_did():
    memory = Memory(measuring=True)
    repeats = Repeats(memory)
    done: list[str] = []

    def steps(kind: str, nanoseconds: float) -> None:
        done.append(kind)
        memory.nanoseconds += nanoseconds

    for kind, nanoseconds in (("a", 3.0), ("b", 5.0), ("a", 3.0), ("a", 3.0)):
        repeats.emit(kind, lambda kind=kind, nanoseconds=nanoseconds: steps(kind, nanoseconds))
    assert done == ["a", "b"]
    assert memory.nanoseconds == 14.0
    memory.measuring = False
    repeats.emit("a", lambda: steps("a", 3.0))
    assert done == ["a", "b", "a"], "every step is emitted when it is to run"


def test_scratch_tells_the_capacity_that_is_enough():
    scratch = Scratch(Memory(measuring=True), Region("scratch", 0), 0, UNLIMITED)
    assert scratch.fits(0) and scratch.asked == 0
    with scratch.frame():
        scratch.take(100)  # takes 128, aligned
        assert scratch.fits(50) and scratch.asked == 178
    assert scratch.fits(170) and scratch.asked == 178
    assert scratch.room == UNLIMITED and scratch.asked == UNLIMITED


def test_late_scratch_is_made_when_it_is_first_asked_for():
    memory, made = Memory(), []

    def provide() -> Region:
        made.append(1)
        return memory.region("scratch", 256)

    scratch = LateScratch(memory, provide)
    assert scratch.fits(0) and scratch.array((0, 4), np.dtype(np.float32)).size == 0
    assert not made
    assert scratch.fits(256) and not scratch.fits(257)
    assert scratch.take(64)[0].nbytes == 256
    assert scratch.room == 192
    assert made == [1]
