"""`simplify-algebra`: the exact rules change no bit, on the values that go wrong first; the fast ones round otherwise.

Right values are those of the reference evaluation of the module before the pass, compared by their bits (NaN with
NaN), or stated by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.graph.exact_algebra import EXACT_RULES
from mlopt.passes.graph.fast_algebra import FAST_RULES
from mlopt.passes.graph.simplify_algebra import SimplifyAlgebraPass
from mlopt.passmanager.base import run_pass
from tests.passes.graph.special_values import ALL, ANY, DTYPES, FLOAT, INTEGER, TS, Case, binary, c, unary

EXACT_MODE, FAST_MODE = SimplifyAlgebraPass(), SimplifyAlgebraPass(mode="fast")


def chain(first: str, number: float | str, second: str, other: float | str) -> list[str]:
    """(a first number) second other"""
    return [
        c("c", number),
        c("d", other),
        binary("p", first, "a", "c", TS),
        binary("y", second, "p", "d", TS),
    ]


EXACT: list[tuple[str, tuple[str, ...], list[str], list[str]]] = [
    # The rule, element types, the body, and the operations that are left of it.
    ("AddNegated", ANY, [unary("n", "neg", "b"), binary("y", "add", "a", "n")], ["sub"]),
    ("AddNegated", ANY, [unary("n", "neg", "a"), binary("y", "add", "n", "b")], ["sub"]),
    ("SubtractNegated", ANY, [unary("n", "neg", "b"), binary("y", "sub", "a", "n")], ["add"]),
    (
        "NegatedFactors",
        ANY,
        [unary("n", "neg", "a"), unary("m", "neg", "b"), binary("y", "mul", "n", "m")],
        ["mul"],
    ),
    (
        "NegatedFactors",
        FLOAT,
        [unary("n", "neg", "a"), unary("m", "neg", "b"), binary("y", "div", "n", "m")],
        ["div"],
    ),
    (
        "NegatedTimesConstant",
        ANY,
        [c("c", 3), unary("n", "neg", "a"), binary("y", "mul", "n", "c", TS)],
        ["mul"],
    ),
    (
        "NegatedTimesConstant",
        FLOAT,
        [c("c", 3.0), unary("n", "neg", "a"), binary("y", "div", "n", "c", TS)],
        ["div"],
    ),
    (
        "NegateProduct",
        ANY,
        [c("c", 3), binary("p", "mul", "c", "a", "S, T"), unary("y", "neg", "p")],
        ["mul"],
    ),
    (
        "NegateProduct",
        FLOAT,
        [c("c", 3.0), binary("p", "div", "a", "c", TS), unary("y", "neg", "p")],
        ["div"],
    ),
    ("TimesMinusOne", ANY, [c("c", -1), binary("y", "mul", "c", "a", "S, T")], ["neg"]),
    ("TimesMinusOne", ANY, [c("c", -1), binary("y", "div", "a", "c", TS)], ["neg"]),
    ("TimesMinusOne", FLOAT, [c("c", -0.0), binary("y", "sub", "c", "a", "S, T")], ["neg"]),
    ("TimesMinusOne", ("i8", "i32"), [c("c", 0), binary("y", "sub", "c", "a", "S, T")], ["neg"]),
    ("AbsOfNegated", ANY, [unary("n", "neg", "a"), unary("y", "abs", "n")], ["abs"]),
    ("DivideByPowerOfTwo", FLOAT, [c("c", 8.0), binary("y", "div", "a", "c", TS)], ["mul"]),
    ("DivideByPowerOfTwo", FLOAT, [c("c", -0.25), binary("y", "div", "a", "c", TS)], ["mul"]),
    ("OneOver", FLOAT, [c("c", 1.0), binary("y", "div", "c", "a", "S, T")], ["reciprocal"]),
    ("Square", FLOAT, [c("c", 2.0), binary("y", "pow", "a", "c", TS)], ["mul"]),
    ("Square", INTEGER, [c("c", 2), binary("y", "pow", "a", "c", TS)], ["mul"]),
    (
        "MergeScales",
        FLOAT,
        [c("c", -4.0), c("d", 3.5), binary("p", "mul", "a", "c", TS), binary("y", "mul", "d", "p", "S, T")],
        ["mul"],
    ),
    *(
        (
            "MergeConstants",
            INTEGER,
            [c("c", 100), c("d", 99), binary("p", kind, "a", "c", TS), binary("y", kind, "d", "p", "S, T")],
            [kind],
        )
        for kind in ("add", "mul", "and", "or", "xor")
    ),
    *(
        (
            "MergeConstants",
            ALL,
            [c("c", 3), c("d", 2), binary("p", kind, "a", "c", TS), binary("y", kind, "p", "d", TS)],
            [kind],
        )
        for kind in ("min", "max")
    ),
    (
        "SubtractInteger",
        INTEGER,
        chain("sub", 100, "add", 99),
        ["add"],
    ),
    *(
        ("RepeatedOperand", ALL, [binary("p", kind, "a", "b"), binary("y", kind, "p", "b")], [kind])
        for kind in ("min", "max")
    ),
    ("RepeatedOperand", INTEGER, [binary("p", "and", "a", "b"), binary("y", "and", "p", "b")], ["and"]),
    ("MaxWithZero", ANY, [c("c", 0), binary("y", "max", "a", "c", TS)], ["relu"]),
    (
        "MergeBounds",
        ALL,
        [c("c", 1), c("d", 3), binary("p", "max", "a", "c", TS), binary("y", "min", "d", "p", "S, T")],
        ["clip"],
    ),
    ("MergeBounds", ANY, [c("d", 6), unary("p", "relu", "a"), binary("y", "min", "p", "d", TS)], ["clip"]),
    ("MergeBounds", ANY, [c("d", -6), unary("p", "relu", "a"), binary("y", "max", "p", "d", TS)], ["relu"]),
    (
        "MergeBounds",
        ANY,
        [
            *(c("c", -2), c("d", 100), c("e", 1)),
            "%p = graph.clip %a min(%c : S) max(%d : S) : T",
            "%q = graph.clip %p min(%e : S) : T",
            unary("y", "relu", "q"),
        ],
        ["clip"],
    ),
    (
        "MergeBounds",
        ANY,
        [c("c", -2), "%p = graph.clip %a min(%c : S) : T", unary("y", "relu", "p")],
        ["relu"],
    ),
    (
        "WhereOfNot",
        FLOAT,
        [
            *(binary("l", "less", "a", "b", "T, T", "B1"), unary("n", "not", "l", "B1")),
            "%y = graph.where %n, %a, %b : (B1, T, T) -> T",
        ],
        ["less", "where"],
    ),
    (
        "WhereInWhere",
        ALL,
        [
            *(c("c", 5), binary("l", "less", "a", "b", "T, T", "B1")),
            "%p = graph.where %l, %a, %b : (B1, T, T) -> T",
            "%y = graph.where %l, %p, %c : (B1, T, S) -> T",
        ],
        ["less", "where"],
    ),
    (
        "WhereInWhere",
        ALL,
        [
            *(c("c", 5), binary("l", "less", "a", "b", "T, T", "B1")),
            "%p = graph.where %l, %a, %b : (B1, T, T) -> T",
            "%y = graph.where %l, %c, %p : (B1, S, T) -> T",
        ],
        ["less", "where"],
    ),
    (
        "WhereOfBools",
        ("f32",),
        [
            *(c("t", "true", "S1"), c("f", "false", "S1"), binary("l", "less", "a", "b", "T, T", "B1")),
            "%y = graph.where %l, %t, %f : (B1, S1, S1) -> B1",
        ],
        ["less"],
    ),
    (
        "WhereOfBools",
        ("f32",),
        [
            *(c("t", "true", "S1"), c("f", "false", "S1"), binary("l", "less", "a", "b", "T, T", "B1")),
            "%y = graph.where %l, %f, %t : (B1, S1, S1) -> B1",
        ],
        ["less", "not"],
    ),
    ("CompareWithBool", ("i1",), [c("t", "true"), binary("y", "equal", "a", "t", TS)], []),
    ("CompareWithBool", ("i1",), [c("t", "false"), binary("y", "equal", "t", "a", "S, T")], ["not"]),
    ("CompareWithBool", ("i1",), [c("t", "false"), binary("y", "xor", "a", "t", TS)], []),
    ("CompareWithBool", ("i1",), [c("t", "true"), binary("y", "xor", "t", "a", "S, T")], ["not"]),
    *(
        (
            "NotOfComparison",
            INTEGER,
            [binary("l", kind, "a", "b", "T, T", "B1"), unary("y", "not", "l", "B1")],
            [opposite],
        )
        for kind, opposite in [
            ("less", "greater_equal"),
            ("less_equal", "greater"),
            ("greater", "less_equal"),
            ("greater_equal", "less"),
        ]
    ),
]


@pytest.mark.parametrize(
    ("rule", "element", "body", "left"),
    [(rule, element, body, left) for rule, elements, body, left in EXACT for element in elements],
)
def test_exact_rules_change_no_bit(rule: str, element: str, body: list[str], left: list[str]) -> None:
    case = Case(body, element)
    assert case.apply(EXACT_MODE) == left
    assert case.is_same()


def test_every_exact_rule_has_a_case() -> None:
    tested = {rule for rule, *_ in EXACT} | {"MergeReductions"}
    assert tested == {rule.__name__ for rule in EXACT_RULES}


NOT_EXACT: list[tuple[str, str, list[str]]] = [
    # Why it would be wrong, the element type, the body.
    ("-0.0 + 0.0 is 0.0", "f32", [c("c", 0), binary("y", "add", "a", "c", TS)]),
    ("0.0 - 0.0 is 0.0, not -0.0", "f32", [c("c", 0), binary("y", "sub", "c", "a", "S, T")]),
    ("inf * 0 is NaN", "f32", [c("c", 0), binary("y", "mul", "a", "c", TS)]),
    ("inf - inf is NaN", "f32", [binary("y", "sub", "a", "a")]),
    ("0 / 0 is NaN", "f32", [binary("y", "div", "a", "a")]),
    ("0 / 0 is NaN", "f32", [c("c", 0), binary("y", "div", "c", "a", "S, T")]),
    ("1 / 3 is rounded", "f32", [c("c", 3), binary("y", "div", "a", "c", TS)]),
    ("2^-126 has no normal inverse", "f16", [c("c", "0x7800"), binary("y", "div", "a", "c", TS)]),
    ("c * d overflows", "f32", chain("mul", 1e30, "mul", 1e30)),
    ("1e-30 * 2^-100 loses digits", "f32", chain("mul", 7.888609052210118e-31, "mul", 7.888609052210118e-31)),
    ("rounded twice", "f32", chain("mul", 3.1, "mul", 1.7)),
    ("rounded twice", "f32", chain("add", 3.1, "add", 1.7)),
    ("rounded twice", "f32", chain("mul", 4, "mul", 0.3)),
    ("NaN", "f32", [binary("l", "less", "a", "b", "T, T", "B1"), unary("y", "not", "l", "B1")]),
    ("the smallest integer is its own negative", "i8",
     [c("c", 3), unary("n", "neg", "a"), binary("y", "div", "n", "c", TS)]),
    ("bounds that exclude each other", "f32", chain("max", 3, "min", 1)),
    ("zeros of two signs", "f32", chain("max", 0, "min", -0.0)),
    ("x / 2 is not x * 0 for integers", "i32", [c("c", 2), binary("y", "div", "a", "c", TS)]),
    ("the product is used twice", "f32", [c("c", 4), c("d", 8), binary("p", "mul", "a", "c", TS),
      binary("q", "mul", "p", "d", TS), binary("y", "add", "p", "q")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "element", "body"), NOT_EXACT)
def test_what_is_not_exact_is_left(why: str, element: str, body: list[str]) -> None:
    case = Case(body, element)
    kinds = [line.split("graph.")[1].split(" ")[0] for line in body]
    left = case.apply(EXACT_MODE)
    assert case.is_same(), why
    relu = ["relu" if kind == "max" and "zeros" in why else kind for kind in kinds if kind != "constant"]
    assert left == relu, why


FAST: list[tuple[str, list[str], list[str]]] = [
    ("TimesZero", [c("c", 0), binary("y", "mul", "a", "c", TS)], ["expand"]),
    ("TimesZero", [c("c", -0.0), binary("y", "div", "c", "a", "S, T")], ["expand"]),
    ("PlusZero", [c("c", 0), binary("y", "add", "a", "c", TS)], []),
    ("PlusZero", [c("c", -0.0), binary("y", "sub", "a", "c", TS)], []),
    ("SameOperands", [binary("y", "sub", "a", "a")], ["expand"]),
    ("SameOperands", [binary("y", "div", "a", "a")], ["expand"]),
    ("LogOfExp", [unary("e", "exp", "a"), unary("y", "log", "e")], []),
    ("PowerByNumber", [c("c", 3), binary("y", "pow", "a", "c", TS)], ["mul", "mul"]),
    ("PowerByNumber", [c("c", 0.5), binary("y", "pow", "a", "c", TS)], ["sqrt"]),
    ("PowerByNumber", [c("c", -1), binary("y", "pow", "a", "c", TS)], ["reciprocal"]),
    ("PowerByNumber", [c("c", -0.5), binary("y", "pow", "a", "c", TS)], ["sqrt", "reciprocal"]),
    ("DivideByConstant", [c("c", 3), binary("y", "div", "a", "c", TS)], ["mul"]),
    (
        "SubtractConstant",
        chain("add", 3, "sub", 1.5),
        ["add"],
    ),
    (
        "RegroupConstants",
        [c("c", 3.1), c("d", 1.7), binary("p", "mul", "a", "c", TS), binary("y", "mul", "d", "p", "S, T")],
        ["mul"],
    ),
    (
        "RegroupConstants",
        [c("c", 3.1), c("d", 1.7), binary("p", "sub", "a", "c", TS), binary("y", "add", "d", "p", "S, T")],
        ["add"],
    ),
    (
        "CommonFactor",
        [c("c", 3.1), binary("p", "mul", "a", "c", TS), binary("q", "mul", "c", "b", "S, T"),
         binary("y", "sub", "p", "q")],
        ["sub", "mul"],
    ),
    (
        "CommonFactor",
        [c("c", 3.0), unary("s", "abs", "a"), binary("p", "div", "a", "s"), binary("q", "div", "b", "s"),
         binary("y", "add", "p", "q")],
        ["abs", "add", "div"],
    ),
    ("TimesReciprocal", [unary("r", "reciprocal", "b"), binary("y", "mul", "r", "a")], ["div"]),
    ("TimesReciprocal", [unary("r", "reciprocal", "b"), binary("y", "div", "a", "r")], ["mul"]),
]  # fmt: skip


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(("rule", "body", "left"), FAST)
def test_fast_rules(rule: str, body: list[str], left: list[str], element: str) -> None:
    """The exact mode leaves it, and says so; the fast mode gives the same numbers up to rounding, on ordinary ones."""
    exact = Case(body, element)
    exact.apply(EXACT_MODE)
    assert exact.is_same()
    assert any("mode=fast" in remark.message for remark in exact.ctx.remarks)
    case = Case(body, element)
    assert case.apply(FAST_MODE) == left
    ordinary = np.array([0.5, 1.25, 3.0, 7.0, 2.0, 0.75], case.dtype)
    size = case.inputs["arg0"].size
    case.inputs = {"arg0": np.resize(ordinary, size), "arg1": np.resize(ordinary[::-1], size)}
    reference = Case(body, element)
    reference.inputs = case.inputs
    np.testing.assert_allclose(case.run(), reference.run(), rtol=1e-5 if element == "f32" else 1e-14)


def test_every_fast_rule_has_a_case() -> None:
    assert {rule for rule, *_ in FAST} == {rule.__name__ for rule in FAST_RULES}


def test_constants_that_overflow_are_not_regrouped() -> None:
    """1e-30 * 1e30 * 1e30 is 1e30, also in the fast mode."""
    body = chain("mul", 1e30, "mul", 1e30)
    case = Case(body, "f32")
    case.apply(FAST_MODE)
    case.inputs = {name: np.full_like(array, 1e-30) for name, array in case.inputs.items()}
    np.testing.assert_allclose(case.run(), 1e30, rtol=1e-5)


def test_integers_are_the_same_in_the_fast_mode() -> None:
    body = [
        c("c", 3),
        binary("p", "div", "a", "c", TS),
        binary("q", "div", "b", "c", TS),
        binary("y", "add", "p", "q"),
    ]
    case = Case(body, "i8")
    case.apply(FAST_MODE)
    assert case.is_same()


def test_the_fast_mode_declares_a_tolerance() -> None:
    assert SimplifyAlgebraPass().declared_tolerance is None
    assert SimplifyAlgebraPass(mode="fast").declared_tolerance == 1e-3


@pytest.mark.parametrize(
    ("kind", "element", "merges"),
    [
        ("max", "f32", True),
        ("min", "f32", True),
        ("sum", "i32", True),
        ("prod", "i8", True),
        ("sum", "f32", False),
    ],
)
@pytest.mark.parametrize("first_keeps", [False, True])
@pytest.mark.parametrize("second_keeps", [False, True])
def test_reductions_merge(
    kind: str, element: str, merges: bool, first_keeps: bool, second_keeps: bool
) -> None:
    """Over axes 0 and 2 of [2, 3, 4, 5], and then over the one of size 5."""
    dtype = DTYPES[element]
    x = np.arange(120).reshape(2, 3, 4, 5).astype(dtype) - np.array(60).astype(dtype)
    middle = "1x3x1x5" if first_keeps else "3x5"
    last = {(True, True): "1x3x1x1", (True, False): "1x3x1", (False, True): "3x1", (False, False): "3"}
    result, axis = last[first_keeps, second_keeps], 3 if first_keeps else 1
    keep = {True: "keepdims ", False: ""}
    t = [f"tensor<{shape}x{element}>" for shape in ("2x3x4x5", middle, result)]
    text = f"""func.func @main(%x: {t[0]}) -> {t[2]} {{
      %m = graph.reduce_{kind} %x axes = [0, 2] {keep[first_keeps]}: ({t[0]}) -> {t[1]}
      %y = graph.reduce_{kind} %m axes = [{axis}] {keep[second_keeps]}: ({t[1]}) -> {t[2]}
      func.return %y : {t[2]}
    }}"""
    module = parse_module(text, make_context())
    want = evaluate_module(module, {"arg0": x})["result0"]
    changed, _ = run_pass(SimplifyAlgebraPass(), make_context(), module)
    assert changed == merges
    verify_module(module)
    assert sum(isinstance(op, graph.ReductionOp) for op in module.walk()) == (1 if merges else 2)
    np.testing.assert_array_equal(evaluate_module(module, {"arg0": x})["result0"], want)
