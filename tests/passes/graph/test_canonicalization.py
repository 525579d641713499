"""Canonicalization changes no bit: rules for single operations, on the values that go wrong first."""

from __future__ import annotations

import pytest

from mlopt.passes.common.canonicalize import CanonicalizerPass
from tests.passes.graph.special_values import ALL, ANY, FLOAT, INTEGER, TS, Case, binary, c, unary

BITS = (*INTEGER, "i1")
LOWEST = {"i8": -128, "i32": -(2**31), "ui8": 0}
HIGHEST = {"i8": 127, "i32": 2**31 - 1, "ui8": 255}
INFINITY = {"f16": "0x7C00", "f32": "0x7F800000", "f64": "0x7FF0000000000000"}
MINUS_INFINITY = {"f16": "0xFC00", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}

RULES: list[tuple[tuple[str, ...], list[str], list[str]]] = [
    # Element types, the body, and the operations that are left of it.
    (INTEGER, [c("c", 0), binary("y", "xor", "c", "a", "S, T")], []),
    (INTEGER, [c("c", 0), binary("y", "shift_left", "a", "c", TS)], []),
    (INTEGER, [c("c", 0), binary("y", "shift_right", "a", "c", TS)], []),
    (ALL, [c("c", 1), binary("y", "pow", "a", "c", TS)], []),
    *(((element,), [c("c", n), binary("y", "max", "a", "c", TS)], []) for element, n in LOWEST.items()),
    *(((element,), [c("c", n), binary("y", "min", "c", "a", "S, T")], []) for element, n in HIGHEST.items()),
    *(
        ((element,), [c("c", n), binary("y", "max", "a", "c", TS)], [])
        for element, n in MINUS_INFINITY.items()
    ),
    *(((element,), [c("c", n), binary("y", "min", "a", "c", TS)], []) for element, n in INFINITY.items()),
    *(
        ((element,), [c("c", n), binary("y", "max", "a", "c", TS)], ["max"])
        for element, n in INFINITY.items()
    ),
    *((ALL, [binary("y", kind, "a", "a")], []) for kind in ("min", "max")),
    *((BITS, [binary("y", kind, "a", "a")], []) for kind in ("and", "or")),
    (BITS, [binary("y", "xor", "a", "a")], ["expand"]),
    (INTEGER, [binary("y", "sub", "a", "a")], ["expand"]),
    (FLOAT, [binary("y", "sub", "a", "a")], ["sub"]),
    *((ALL, [binary("y", kind, "a", "a", "T, T", "B1")], ["expand"]) for kind in ("less", "greater")),
    *((INTEGER, [binary("y", kind, "a", "a", "T, T", "B1")], ["expand"]) for kind in ("equal", "less_equal")),
    *((FLOAT, [binary("y", kind, "a", "a", "T, T", "B1")], [kind]) for kind in ("equal", "greater_equal")),
    (INTEGER, [c("c", 0), binary("y", "mul", "c", "a", "S, T")], ["expand"]),
    (FLOAT, [c("c", 0), binary("y", "mul", "c", "a", "S, T")], ["mul"]),
    (INTEGER, [c("c", 0), binary("y", "and", "a", "c", TS)], ["expand"]),
    (("i8", "i32"), [c("c", -1), binary("y", "or", "a", "c", TS)], ["expand"]),
    (("i1",), [c("c", "true"), binary("y", "or", "a", "c", TS)], ["expand"]),
    (("i1",), [c("c", "false"), binary("y", "and", "a", "c", TS)], ["expand"]),
    *((ANY, [unary("p", kind, "a"), unary("y", kind, "p")], [kind]) for kind in ("abs", "sign", "relu")),
    (ANY, [unary("p", "neg", "a"), unary("y", "neg", "p")], []),
    *(
        (FLOAT, [unary("p", first, "a"), unary("y", second, "p")], [first])
        for first in ("floor", "ceil", "round")
        for second in ("floor", "ceil", "round")
    ),
]


@pytest.mark.parametrize(
    ("element", "body", "left"),
    [(element, body, left) for elements, body, left in RULES for element in elements],
)
def test_no_bit_changes(element: str, body: list[str], left: list[str]) -> None:
    case = Case(body, element)
    assert case.apply(CanonicalizerPass()) == left
    assert case.is_same()
