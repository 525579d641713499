"""Canonicalization changes no bit: rules for single operations, on the values that go wrong first."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
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


@pytest.mark.parametrize("part", [0, 1, 2])
def test_one_part_of_a_split(part: int) -> None:
    """Of the sizes 2, 3 and 1 along the middle dimension."""
    shapes = ["tensor<2x2x2xf32>", "tensor<2x3x2xf32>", "tensor<2x1x2xf32>"]
    module = parse_module(
        f"""func.func @main(%x: tensor<2x6x2xf32>) -> {shapes[part]} {{
          %a, %b, %c = graph.split %x axis = 1 : (tensor<2x6x2xf32>) -> ({", ".join(shapes)})
          func.return %{"abc"[part]} : {shapes[part]}
        }}""",
        ctx := make_context(),
    )
    assert CanonicalizerPass().run(ctx, module)
    verify_module(module)
    assert "graph.split" not in str(module)
    x = np.arange(24, dtype=np.float32).reshape(2, 6, 2)
    want = np.split(x, [2, 5], axis=1)[part]
    np.testing.assert_array_equal(evaluate_module(module, {"arg0": x})["result0"], want)


def test_a_pool_whose_indices_are_not_read() -> None:
    """Also with NaN, padding, and a last window that reaches beyond."""
    module = parse_module(
        """func.func @main(%x: tensor<1x1x6xf32>) -> tensor<1x1x4xf32> {
          %y, %i = graph.max_pool_with_indices %x kernel = [2] strides = [2] pads = [1, 0] ceil_mode
            : (tensor<1x1x6xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xi64>)
          func.return %y : tensor<1x1x4xf32>
        }""",
        ctx := make_context(),
    )
    x = np.array([[[-3, np.nan, 2, -np.inf, -np.inf, 5]]], np.float32)
    before = evaluate_module(module, {"arg0": x})["result0"]
    assert CanonicalizerPass().run(ctx, module)
    verify_module(module)
    assert "with_indices" not in str(module)
    np.testing.assert_array_equal(before, [[[-3, np.nan, -np.inf, 5]]])
    np.testing.assert_array_equal(evaluate_module(module, {"arg0": x})["result0"], before)
