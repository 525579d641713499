"""Where the numpy engine takes a cheaper way to the same result: powers, quotients, erf, sums and maxima of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from mlopt.diagnostics import UnsupportedError
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, load, module, run
from tests.interpreter.test_memref_contractions import fill, with_workspace

RNG = np.random.default_rng(5)


class Calls:
    """The numpy functions that a plan calls, by name."""

    def __init__(self, text: str, weights: Mapping[str, np.ndarray] = {}) -> None:
        plan = load(text, weights)._plan  # pyright: ignore[reportPrivateUsage]: what is called is the point of these tests
        self.names = [getattr(step, "func", getattr(step, "function", step)).__name__ for step in plan]


def mapped(body: str, n: int, kind: str = "f32") -> str:
    """y = body(x), which yields %r from %i0, over `n` elements."""
    type_ = f"memref<{n}x{kind}>"
    text = generic("m:p", [("%x", "m", type_)], [("%y", "m", type_)], f"{body}\nlinalg.yield %r : {kind}")
    return module(text, inputs={"x": type_}, outputs={"y": type_})


def of_constant(operation: str, constant: str, kind: str = "f32", n: int = 9) -> str:
    """The same for one operation on %i0 and the constant %c."""
    return mapped(f"%c = arith.constant {constant} : {kind}\n%r = {operation} : {kind}", n, kind)


def erf_of(operation: str, constant: str, n: int) -> str:
    """The error function of that."""
    body = f"%c = arith.constant {constant} : f32\n%a = arith.{operation} : f32\n%r = math.erf %a : f32"
    return mapped(body, n)


VALUES = np.array([0.0, -0.0, 1.0, -1.5, 2.5, -3e-4, 1e20, np.inf, -np.inf])


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("exponent", [2, 3, 4])
def test_small_powers_are_products(exponent: int, kind: str) -> None:
    text = of_constant("math.powf %i0, %c", f"{exponent}.0", kind)
    assert set(Calls(text).names) == {"multiply"}
    x = VALUES.astype("f4" if kind == "f32" else "f8")
    with np.errstate(over="ignore"):
        want = np.power(x.astype(np.longdouble), exponent).astype(x.dtype)
    np.testing.assert_allclose(run(text, {"x": x})["y"], want, rtol=3e-7 if kind == "f32" else 1e-15)


@pytest.mark.parametrize("exponent", ["5.0", "-1.0"])
def test_other_powers_are_powers(exponent: str) -> None:
    text = of_constant("math.powf %i0, %c", exponent)
    assert Calls(text).names == ["power"]
    x = VALUES.astype(np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(text, {"x": x})["y"], np.power(x, np.float32(exponent)))


def test_powers_in_half_precision_are_rounded_once() -> None:
    x = RNG.standard_normal(9).astype(np.float16)
    got = run(of_constant("math.powf %i0, %c", "3.0", "f16"), {"x": x})["y"]
    np.testing.assert_array_equal(got, (x.astype(np.float64) ** 3).astype(np.float16))


@pytest.mark.parametrize(
    ("divisor", "function"), [("8.0", "multiply"), ("-0.25", "multiply"), ("3.0", "divide")]
)
def test_division_by_a_power_of_two_is_exact(divisor: str, function: str) -> None:
    text = of_constant("arith.divf %i0, %c", divisor)
    assert Calls(text).names == [function]
    x = np.concatenate([VALUES[:7], [1e-44, 3.4e38]]).astype(np.float32)  # subnormal and nearly infinite
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(text, {"x": x})["y"], x / np.float32(divisor))


def test_division_whose_inverse_is_no_number_is_a_division() -> None:
    """2^-149, the smallest number: its inverse is infinite."""
    text = of_constant("arith.divf %i0, %c", "1.40129846e-45")
    assert Calls(text).names == ["divide"]


def between(low: str, high: str, *, low_first: bool, kind: str = "f32") -> str:
    """A lower and an upper bound of %i0."""
    steps = (
        [("maximumf", "%l"), ("minimumf", "%h")] if low_first else [("minimumf", "%h"), ("maximumf", "%l")]
    )
    (first, a), (second, b) = steps
    body = f"%l = arith.constant {low} : {kind}\n%h = arith.constant {high} : {kind}\n"
    body += f"%m = arith.{first} %i0, {a} : {kind}\n%r = arith.{second} {b}, %m : {kind}"
    return mapped(body, 10, kind)


@pytest.mark.parametrize("low_first", [True, False])
@pytest.mark.parametrize(
    ("low", "high", "calls"),
    [
        ("0.0", "6.0", ["clip", "add"]),
        ("-1.0", "1.0", ["clip"]),
        ("-0.0", "1.0", None),
        ("-1.0", "0.0", None),
        ("2.0", "1.0", None),
    ],
)
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_two_bounds_are_one_step(
    kind: str, low: str, high: str, calls: list[str] | None, low_first: bool
) -> None:
    """NaN stays, and the zeros keep their signs: -0.0 is below 0.0 (IEEE 754-2019, `maximum`), so 0.0 is its bound."""
    text = between(low, high, low_first=low_first, kind=kind)
    names = Calls(text).names
    assert names == calls if calls is not None else sorted(names) == ["maximum", "minimum"]
    with np.errstate(over="ignore"):
        x = np.append(VALUES, np.nan).astype({"f16": "f2", "f32": "f4", "f64": "f8"}[kind])
    lowest, highest = x.dtype.type(low), x.dtype.type(high)
    want = np.maximum(x, lowest) if low_first else np.minimum(x, highest)
    want = np.minimum(want, highest) if low_first else np.maximum(want, lowest)
    got = run(text, {"x": x})["y"]
    np.testing.assert_array_equal(got, want)
    if calls is not None:
        zeros = got == 0
        expected = np.signbit(x[zeros]) & (lowest != 0)
        np.testing.assert_array_equal(np.signbit(got[zeros]), expected)


@pytest.mark.parametrize(
    ("operation", "bound", "calls"),
    [
        ("maximumf", "0.0", ["clip", "add"]),
        ("maximumf", "-0.0", ["clip"]),
        ("maximumf", "-1.0", ["clip"]),
        ("minimumf", "0.0", ["clip"]),
        ("minimumf", "-0.0", ["minimum"]),
        ("minimumf", "6.0", ["clip"]),
        ("maximumf", "0x{nan}", ["maximum"]),
        ("maximumf", "0x{minus}", ["copyto"]),
        ("minimumf", "0x{plus}", ["copyto"]),
    ],
)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("bound_first", [True, False])
def test_one_bound_of_many_elements(
    kind: str, bound_first: bool, operation: str, bound: str, calls: list[str]
) -> None:
    """NaN stays; -0.0 is below 0.0 (IEEE 754-2019, `maximum` and `minimum`). A bound of few elements is one call."""
    digits = {
        "f32": ("7FC00000", "FF800000", "7F800000"),
        "f64": ("7FF8" + "0" * 12, "FFF" + "0" * 13, "7FF" + "0" * 13),
    }
    nan, minus, plus = digits[kind]
    literal = bound.format(nan=nan, minus=minus, plus=plus)
    operands = "%c, %i0" if bound_first else "%i0, %c"
    text = of_constant(f"arith.{operation} {operands}", literal, kind, n=4000)
    assert Calls(text).names == calls
    small = Calls(of_constant(f"arith.{operation} {operands}", literal, kind)).names
    assert small == (calls if calls == ["copyto"] else [operation.removesuffix("f")])
    x = np.resize(np.append(VALUES, np.nan), 4000).astype("f4" if kind == "f32" else "f8")
    number = {"0x{nan}": np.nan, "0x{minus}": -np.inf, "0x{plus}": np.inf}.get(bound) or float(bound)
    got = run(text, {"x": x})["y"]
    want = (np.maximum if operation == "maximumf" else np.minimum)(x, x.dtype.type(number))
    np.testing.assert_array_equal(got, want)
    if calls[0] == "clip" and number == 0:
        zeros = (x == 0) & (got == 0)
        signs = [np.signbit(x[zeros]), np.full(zeros.sum(), np.signbit(number))]
        expected = np.logical_and(*signs) if operation == "maximumf" else np.logical_or(*signs)
        np.testing.assert_array_equal(np.signbit(got[zeros]), expected)


@pytest.mark.parametrize("upper", [None, "6.0"])
@pytest.mark.parametrize("bias_at_zero", [0.0, -0.0])
@pytest.mark.parametrize("bias_is", ["weight", "input"])
def test_a_sum_with_a_bias_without_negative_zeros_needs_no_sum_behind_a_bound(
    bias_is: str, bias_at_zero: float, upper: str | None
) -> None:
    """-0.0 comes of -0.0 + -0.0 alone; the bias of a model is there when the plan is made, that of a run is not."""
    x, b = "memref<64x64xf32>", "memref<64xf32>"
    body = "%s = arith.addf %i0, %i1 : f32\n%c = arith.constant 0.0 : f32\n%m = arith.maximumf %s, %c : f32\n"
    if upper is not None:
        body += f"%u = arith.constant {upper} : f32\n%n = arith.minimumf %m, %u : f32\n"
    body += f"linalg.yield %{'m' if upper is None else 'n'} : f32"
    text = generic("m:p n:p", [("%x", "m, n", x), ("%b", "n", b)], [("%y", "m, n", x)], body)
    bias = RNG.standard_normal(64).astype(np.float32)
    bias[:2] = 0.0, bias_at_zero
    values = RNG.standard_normal((64, 64)).astype(np.float32)
    values[:, :2] = np.resize([0.0, -0.0, 1.0, -1.0], (64, 1))
    if bias_is == "weight":
        text = module(text, inputs={"x": x}, outputs={"y": x}, weights={"b": b})
        inputs, weights = {"x": values}, {"b": bias}
    else:
        text = module(text, inputs={"x": x, "b": b}, outputs={"y": x})
        inputs, weights = {"x": values, "b": bias}, {}
    is_known = bias_is == "weight" and not np.signbit(bias_at_zero)
    names = [name for name in Calls(text, weights).names if name != "copyto"]
    assert names == (["add", "clip"] if is_known else ["add", "clip", "add"])
    got = run(text, inputs, weights)["y"]
    np.testing.assert_array_equal(got, np.clip(values + bias, 0, upper and float(upper)))
    assert not np.signbit(got).any()


ERF_POINTS = np.concatenate([np.linspace(-7, 7, 4001), [1e-30, 1e4, -3e38, np.inf, -np.inf]]).astype(
    np.float32
)


@pytest.mark.parametrize(
    ("operation", "constant", "scale"),
    [
        ("mulf %i0, %c", "0.70710678", 0.70710678),
        ("divf %i0, %c", "1.41421354", 1 / 1.41421354),
        ("mulf %c, %i0", "-2.0", -2),
    ],
)
def test_erf_of_a_scaled_argument(operation: str, constant: str, scale: float) -> None:
    """The factor moves into the approximation; the error stays below 5e-7 (measured: 2.7e-7)."""
    text = erf_of(operation, constant, len(ERF_POINTS))
    got = run(text, {"x": ERF_POINTS})["y"]
    want = [math.erf(scale * float(x)) for x in ERF_POINTS]
    np.testing.assert_allclose(got, want, atol=5e-7, rtol=0)


@pytest.mark.parametrize("constant", ["0.0", "1.0e-20", "1.0e20", "0x7F800000"])
def test_erf_of_an_argument_with_an_extreme_factor(constant: str) -> None:
    text = erf_of("mulf %i0, %c", constant, 4)
    x = np.float32([1.0, -2.0, 3e-20, 0.5])
    factor = np.float32(np.inf) if constant.startswith("0x") else np.float32(float(constant))
    with np.errstate(over="ignore"):
        want = [math.erf(float(v)) for v in x * factor]
    np.testing.assert_allclose(run(text, {"x": x})["y"], want, atol=5e-7, rtol=0)


def test_gelu() -> None:
    """0.5 x (1 + erf(x / sqrt 2)), with an error below 5.5e-7 where the formula itself has 1.2e-7."""
    n = len(ERF_POINTS) - 3
    body = (
        "%c = arith.constant 1.41421354 : f32\n%one = arith.constant 1.0 : f32\n%half = arith.constant 0.5 : f32\n"
        "%a = arith.divf %i0, %c : f32\n%b = math.erf %a : f32\n%d = arith.addf %b, %one : f32\n"
        "%e = arith.mulf %half, %d : f32\n%r = arith.mulf %i0, %e : f32"
    )
    text = mapped(body, n)
    x = ERF_POINTS[:n].clip(-30, 30)
    want = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(float)]
    np.testing.assert_allclose(run(text, {"x": x})["y"], want, atol=5.5e-7, rtol=2e-7)


def row_reduction(op: str, init: str, shape: tuple[int, ...], kind: str = "f32", body: str = "") -> str:
    """y[...] = reduction of x over its last axis; `body` defines %e from %i0."""
    dims = "abcd"[: len(shape)]
    x = f"memref<{'x'.join(map(str, shape))}x{kind}>"
    y = f"memref<{''.join(f'{n}x' for n in shape[:-1])}{kind}>"
    element = "%e" if body else "%i0"
    text = fill(init, "%y", y) + generic(
        " ".join(f"{d}:{'r' if d == dims[-1] else 'p'}" for d in dims),
        [("%x", ", ".join(dims), x)],
        [("%y", ", ".join(dims[:-1]), y)],
        f"{body}%r = arith.{op} %o0, {element} : {kind}\nlinalg.yield %r : {kind}",
    )
    return module(text, inputs={"x": x}, outputs={"y": y})


SQUARE = "%e = arith.mulf %i0, %i0 : f32\n"


@pytest.mark.parametrize("shape", [(70, 33), (3, 5, 17), (1, 1000), (64, 5), (700,), (2, 1024)])
def test_sums_of_rows_are_products_with_ones(shape: tuple[int, ...]) -> None:
    text = row_reduction("addf", "1.5", shape)
    assert {"dot", "matmul"} & set(Calls(text).names)
    x = RNG.standard_normal(shape).astype(np.float32) + 1
    want = x.astype(np.float64).sum(-1) + 1.5
    np.testing.assert_allclose(run(text, {"x": x})["y"], want, rtol=1e-6, atol=1e-6)


def test_sums_of_long_rows_are_pairwise() -> None:
    """A million ones and a third: adding them up one after another would lose 1e-4."""
    text = row_reduction("addf", "0.0", (3, 1 << 18))
    x = np.full((3, 1 << 18), 1 / 3, np.float32)
    want = x.astype(np.float64).sum(-1)
    np.testing.assert_allclose(run(text, {"x": x})["y"], want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(70, 33), (3, 5, 17), (1, 1000), (513,)])
def test_sums_of_squares_of_rows_are_dot_products(shape: tuple[int, ...]) -> None:
    text = row_reduction("addf", "0.0", shape, body=SQUARE)
    assert Calls(text).names == ["vecdot"]
    x = RNG.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run(text, {"x": x})["y"], (x.astype(np.float64) ** 2).sum(-1), rtol=1e-6)


def test_sums_of_squares_of_differences() -> None:
    """The factor is computed, once, and multiplied with itself."""
    body = "%c = arith.constant 0.25 : f32\n%d = arith.subf %i0, %c : f32\n%e = arith.mulf %d, %d : f32\n"
    text = row_reduction("addf", "2.0", (40, 50), body=body)
    assert Calls(text).names[:2] == ["subtract", "vecdot"]
    x = RNG.standard_normal((40, 50)).astype(np.float32)
    want = ((x.astype(np.float64) - 0.25) ** 2).sum(-1) + 2
    np.testing.assert_allclose(run(text, {"x": x})["y"], want, rtol=1e-6)


def test_squares_of_what_has_no_contiguous_rows_are_added_up_as_usual() -> None:
    """The sum runs over the outer axis."""
    x, y = "memref<50x40xf32>", "memref<40xf32>"
    body = fill("0.0", "%y", y)
    body += generic(
        "a:r b:p",
        [("%x", "a, b", x)],
        [("%y", "b", y)],
        f"{SQUARE}%r = arith.addf %o0, %e : f32\nlinalg.yield %r : f32",
    )
    text = module(body, inputs={"x": x}, outputs={"y": y})
    assert "vecdot" not in Calls(text).names
    data = RNG.standard_normal((50, 40)).astype(np.float32)
    np.testing.assert_allclose(run(text, {"x": data})["y"], (data.astype(np.float64) ** 2).sum(0), rtol=1e-6)


@pytest.mark.parametrize("shape", [(192, 16), (6, 40, 9), (64, 1)])
@pytest.mark.parametrize(
    ("op", "init", "kind", "ufunc"),
    [
        ("maximumf", "0xFF800000", "f32", np.maximum),
        ("minsi", "127", "i8", np.minimum),
        ("addi", "0", "i64", np.add),
        ("mulf", "1.0", "f64", np.multiply),
    ],
)
def test_short_rows_are_turned_around_if_there_is_room(
    op: str, init: str, kind: str, ufunc: np.ufunc, shape: tuple[int, ...]
) -> None:
    text = row_reduction(op, init, shape, kind)
    (main,) = parse_module(text, make_context()).ops
    need = NumpyTarget().scratch_need(main)
    assert need.minimum == 0
    dtype = {"f32": np.float32, "i8": np.int8, "i64": np.int64, "f64": np.float64}[kind]
    x = RNG.integers(-5, 5, shape).astype(dtype)
    if kind == "f32":
        x.reshape(-1)[3] = np.nan
    want = ufunc.reduce(x, axis=-1, dtype=dtype)
    for size in (64, -(-need.preferred // 64) * 64):
        executable = load(with_workspace(text, max(size, 64)), poison=True)
        assert executable.engine_scratch_bytes == 0
        np.testing.assert_array_equal(executable.run({"x": x})["y"], want)


def test_outputs_that_overlap_each_other_are_refused() -> None:
    a, whole = "memref<6xf32>", "memref<9xf32>"
    first, second = "memref<6xf32, strided<[1]>>", "memref<6xf32, strided<[1], offset: 3>>"
    views = (
        f"%a = memref.subview %y[0] [6] [1] : {whole} to {first}\n"
        f"%b = memref.subview %y[3] [6] [1] : {whole} to {second}\n"
    )
    body = views + generic(
        "m:p",
        [("%x", "m", a)],
        [("%a", "m", first), ("%b", "m", second)],
        "%r = arith.negf %i0 : f32\nlinalg.yield %i0, %r : f32, f32",
    )
    with pytest.raises(UnsupportedError, match=r"outputs 0 and 1 of 'linalg\.generic' may overlap"):
        load(module(body, inputs={"x": a}, outputs={"y": whole}))


def test_outputs_that_interleave_do_not_overlap() -> None:
    a, whole, half = "memref<6xf32>", "memref<12xf32>", "memref<6xf32, strided<[2]{}>>"
    first, second = half.format(""), half.format(", offset: 1")
    body = (
        f"%a = memref.subview %y[0] [6] [2] : {whole} to {first}\n"
        f"%b = memref.subview %y[1] [6] [2] : {whole} to {second}\n"
    )
    body += generic(
        "m:p",
        [("%x", "m", a)],
        [("%a", "m", first), ("%b", "m", second)],
        "%r = arith.negf %i0 : f32\nlinalg.yield %i0, %r : f32, f32",
    )
    x = RNG.standard_normal(6).astype(np.float32)
    got = run(module(body, inputs={"x": a}, outputs={"y": whole}), {"x": x})["y"]
    np.testing.assert_array_equal(got, np.stack([x, -x], 1).reshape(-1))
