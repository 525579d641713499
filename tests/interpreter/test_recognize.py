"""The recogniser: guards of all forms become padded reads, index arithmetic becomes affine accesses."""

from __future__ import annotations

import pytest

from mlopt.diagnostics import MloptError, UnsupportedError, VerifyFailure
from mlopt.interpreter.expressions import Apply, Bound, Const, Gather, Index, Linear, Read, Structured
from mlopt.interpreter.recognize import is_structured, recognize
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, module

X, Y = "memref<5xf32>", "memref<7xf32>"
HEAD = """%m = linalg.index 0 : index
%one = arith.constant 1 : index
%zero = arith.constant 0 : index
%five = arith.constant 5 : index
%pad = arith.constant -1.0 : f32
%r = arith.subi %m, %one : index
"""
LOAD = """
%v = scf.if %ok -> (f32) {
  %l = memref.load %x[%r] : memref<5xf32>
  scf.yield %l : f32
} else {
  scf.yield %pad : f32
}
linalg.yield %v : f32"""


def form(body: str, out: str = Y, iterators: str = "m:p", index: str = "m") -> Structured:
    text = module(generic(iterators, [], [("%y", index, out)], body), inputs={"x": X}, outputs={"y": out})
    (op,) = [op for op in parse_module(text, make_context()).walk() if is_structured(op)]
    return recognize(op)


@pytest.mark.parametrize(
    "guard",
    [
        "%ok = arith.cmpi ult, %r, %five : index",
        "%a = arith.cmpi sge, %r, %zero : index\n%b = arith.cmpi slt, %r, %five : index\n%ok = arith.andi %a, %b : i1",
        "%a = arith.cmpi sle, %zero, %r : index\n%b = arith.cmpi sgt, %five, %r : index\n%ok = arith.andi %b, %a : i1",
        "%six = arith.constant 6 : index\n%a = arith.cmpi sge, %m, %one : index\n"
        "%b = arith.cmpi slt, %m, %six : index\n"
        "%no = arith.constant false\n%ok = arith.select %a, %b, %no : i1",
    ],
)
def test_guarded_loads_are_padded_reads(guard: str) -> None:
    (value,) = form(HEAD + guard + LOAD).yields
    assert isinstance(value, Read)
    assert value.index == (Linear((1,), -1),)
    assert value.bounds == (Bound(Linear((1,)), 1, 6),)
    assert isinstance(value.pad, Const) and value.pad.value == -1.0


def test_a_guarded_load_that_walks_backwards() -> None:
    """x[5 - m] while it is inside."""
    body = HEAD.replace("%m, %one", "%five, %m") + "%ok = arith.cmpi ult, %r, %five : index" + LOAD
    (value,) = form(body).yields
    assert isinstance(value, Read) and value.index == (Linear((-1,), 5),)
    assert value.bounds == (Bound(Linear((1,)), 1, 6),)


def test_a_guard_that_always_holds_is_no_guard() -> None:
    body = (
        HEAD
        + "%ten = arith.constant 10 : index\n%ok = arith.cmpi ult, %m, %ten : index"
        + LOAD.replace("%x[%r]", "%x[%zero]")
    )
    (value,) = form(body).yields
    assert isinstance(value, Read) and value.bounds == () and value.pad is None


def test_a_guard_that_does_not_protect_the_load_leaves_a_gather() -> None:
    """Under m < 6 alone, x[m - 1] may still be x[-1]: the load is clipped, and the choice stays."""
    body = HEAD + "%six = arith.constant 6 : index\n%ok = arith.cmpi slt, %m, %six : index" + LOAD
    (value,) = form(body).yields
    assert isinstance(value, Apply) and value.name == "arith.select"
    assert isinstance(value.args[1], Gather) and value.args[1].speculative


def test_a_mask_over_two_dimensions_stays_a_choice() -> None:
    """n <= m, as in causal attention: no padding, since the load is inside everywhere."""
    body = """%m = linalg.index 0 : index
%n = linalg.index 1 : index
%low = arith.constant 0xFF800000 : f32
%ok = arith.cmpi sle, %n, %m : index
%v = scf.if %ok -> (f32) {
  %l = memref.load %x[%n] : memref<5xf32>
  scf.yield %l : f32
} else {
  scf.yield %low : f32
}
linalg.yield %v : f32"""
    (value,) = form(body, "memref<5x5xf32>", "m:p n:p", "m, n").yields
    assert isinstance(value, Apply) and value.name == "arith.select"
    assert isinstance(value.args[1], Read) and value.args[1].bounds == ()


def test_index_arithmetic_is_affine() -> None:
    body = (
        HEAD
        + "%a = arith.muli %m, %five : index\n%b = arith.subi %a, %r : index\n%c = arith.index_cast %b : index to i64\n"
    )
    body += "%f = arith.sitofp %c : i64 to f32\nlinalg.yield %f : f32"
    (value,) = form(body).yields
    assert isinstance(value, Apply) and isinstance(value.args[0], Apply)
    position = value.args[0].args[0]
    assert isinstance(position, Index) and position.value == Linear((4,), 1)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            HEAD + "%l = memref.load %x[%r] : memref<5xf32>\nlinalg.yield %l : f32",
            VerifyFailure,
            "an index that leaves it",
        ),
        (
            HEAD + "memref.store %pad, %x[%zero] : memref<5xf32>\nlinalg.yield %pad : f32",
            UnsupportedError,
            "'memref.store' in its body",
        ),
    ],
)
def test_what_no_engine_executes_is_said(body: str, kind: type[MloptError], message: str) -> None:
    with pytest.raises(kind, match=message) as error:
        form(body)
    assert error.value.place is not None and error.value.place.line is not None
