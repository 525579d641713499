"""Elementwise ops of the numpy engine: every scalar operation, broadcasts, in-place operands, gathers, padding.

Right values are numpy's by hand, or the scalar evaluator's (`mlopt.interpreter.scalar_ops`), which shares no code with
the engine's steps.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.diagnostics import RunError
from tests.interpreter.memref_text import generic, load, module, padded_load, run
from tests.memref_reference import run_memref

FLOATS = np.array(
    [0.0, -0.0, 1.5, -1.5, 2.5, -2.5, 0.49999997, 1e-30, 1e30, np.inf, -np.inf, np.nan], np.float32
)


def unary(operation: str, kind: str = "f32", n: int = 12, result: str | None = None) -> str:
    """A module that applies one operation to `x`."""
    result = result or kind
    a, b = f"memref<{n}x{kind}>", f"memref<{n}x{result}>"
    body = generic("m:p", [("%x", "m", a)], [("%y", "m", b)], f"%r = {operation}\nlinalg.yield %r : {result}")
    return module(body, inputs={"x": a}, outputs={"y": b})


def binary(operation: str, kind: str, n: int, result: str | None = None) -> str:
    result = result or kind
    a, b = f"memref<{n}x{kind}>", f"memref<{n}x{result}>"
    ins = [("%x", "m", a), ("%w", "m", a)]
    body = generic("m:p", ins, [("%y", "m", b)], f"%r = {operation}\nlinalg.yield %r : {result}")
    return module(body, inputs={"x": a, "w": a}, outputs={"y": b})


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("absf", np.abs),
        ("ceil", np.ceil),
        ("floor", np.floor),
        ("trunc", np.trunc),
        ("roundeven", np.rint),
        ("sqrt", np.sqrt),
        ("exp", np.exp),
        ("log", np.log),
        ("log1p", np.log1p),
        ("expm1", np.expm1),
        ("tanh", np.tanh),
        ("sin", np.sin),
        ("cos", np.cos),
        ("atan", np.arctan),
        ("rsqrt", lambda x: np.float32(1) / np.sqrt(x)),
        (
            "round",
            lambda x: np.array(
                [math.copysign(math.floor(abs(v) + 0.5), v) if np.isfinite(v) else v for v in x.astype("f8")],
                "f4",
            ),
        ),
    ],
)
def test_unary_float(name: str, want: object) -> None:
    with np.errstate(all="ignore"):
        right = want(FLOATS)
    got = run(unary(f"math.{name} %i0 : f32"), {"x": FLOATS})["y"]
    np.testing.assert_array_equal(got, right)
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(right[:2]))


def test_erf_in_single_precision() -> None:
    x = np.concatenate([np.linspace(-6, 6, 4001), [0.0, -0.0, 1e20, -1e20, np.inf, -np.inf]]).astype(
        np.float32
    )
    got = run(unary("math.erf %i0 : f32", n=x.size), {"x": x})["y"]
    right = np.array([math.erf(v) for v in x.astype(np.float64)])
    assert np.abs(got - right).max() < 3e-7
    assert np.isnan(run(unary("math.erf %i0 : f32", n=1), {"x": np.float32([np.nan])})["y"]).all()


def test_erf_in_double_precision() -> None:
    x = np.concatenate([np.linspace(-7, 7, 4001), [0.0, 0.46875, -0.46875, np.inf, -np.inf]])
    got = run(unary("math.erf %i0 : f64", "f64", n=x.size), {"x": x})["y"]
    right = np.array([math.erf(v) for v in x])
    assert np.abs(got - right).max() < 5e-16


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("addf", np.add),
        ("subf", np.subtract),
        ("mulf", np.multiply),
        ("divf", np.divide),
        ("maximumf", np.maximum),
        ("minimumf", np.minimum),
        ("maxnumf", np.fmax),
        ("minnumf", np.fmin),
    ],
)
def test_binary_float(name: str, want: np.ufunc) -> None:
    x, w = (a.ravel() for a in np.meshgrid(FLOATS, FLOATS))
    with np.errstate(all="ignore"):
        right = want(x, w)
    got = run(binary(f"arith.{name} %i0, %i1 : f32", "f32", x.size), {"x": x, "w": w})["y"]
    np.testing.assert_array_equal(got, right)


def _wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


_INTEGERS = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": lambda a, b: math.trunc(a / b),
    "remsi": lambda a, b: a - b * math.trunc(a / b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: (a & 255) // (b & 255),
    "remui": lambda a, b: (a & 255) % (b & 255),
    "ceildivui": lambda a, b: -(-(a & 255) // (b & 255)),
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(a & 255, b & 255),
    "minui": lambda a, b: min(a & 255, b & 255),
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("name", sorted(_INTEGERS))
def test_binary_integer_by_python(name: str) -> None:
    numbers = np.array([0, 1, -1, 2, -2, 7, -7, 100, -100, 127, -127], np.int8)
    x, w = (a.ravel() for a in np.meshgrid(numbers, numbers[1:]))
    right = [_wrap(_INTEGERS[name](int(a), int(b)), 8) for a, b in zip(x, w, strict=True)]
    got = run(binary(f"arith.{name} %i0, %i1 : i8", "i8", x.size), {"x": x, "w": w})["y"]
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_shifts_by_python(name: str) -> None:
    x = np.array([1, -1, 100, -100, 127, -128], np.int8)
    by = np.array([0, 1, 3, 4, 6, 7], np.int8)
    want = {
        "shli": lambda a, b: _wrap(a << b, 8),
        "shrsi": lambda a, b: a >> b,
        "shrui": lambda a, b: _wrap((a & 255) >> b, 8),
    }[name]
    got = run(binary(f"arith.{name} %i0, %i1 : i8", "i8", 6), {"x": x, "w": by})["y"]
    np.testing.assert_array_equal(got, [want(int(a), int(b)) for a, b in zip(x, by, strict=True)])


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        ("oeq", lambda a, b: a == b),
        ("ogt", lambda a, b: a > b),
        ("oge", lambda a, b: a >= b),
        ("olt", lambda a, b: a < b),
        ("ole", lambda a, b: a <= b),
        ("one", lambda a, b: a < b or a > b),
        ("ord", lambda a, b: a == a and b == b),
        ("ueq", lambda a, b: not (a < b or a > b)),
        ("ugt", lambda a, b: not a <= b),
        ("uge", lambda a, b: not a < b),
        ("ult", lambda a, b: not a >= b),
        ("ule", lambda a, b: not a > b),
        ("une", lambda a, b: a != b),
        ("uno", lambda a, b: a != a or b != b),
        ("true", lambda a, b: True),
        ("false", lambda a, b: False),
    ],
)
def test_float_comparisons_by_python(predicate: str, holds: object) -> None:
    x, w = (a.ravel() for a in np.meshgrid(FLOATS, FLOATS))
    right = [holds(a, b) for a, b in zip(x.tolist(), w.tolist(), strict=True)]
    got = run(binary(f"arith.cmpf {predicate}, %i0, %i1 : f32", "f32", x.size, "i1"), {"x": x, "w": w})["y"]
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize(("predicate", "nan"), [("uno", True), ("ord", False)])
def test_a_value_is_compared_with_itself_once(predicate: str, nan: bool) -> None:
    text = binary(f"arith.cmpf {predicate}, %i0, %i0 : f32", "f32", 2, "i1")
    x = np.float32([np.nan, 1])
    executable = load(text)
    assert executable.steps == 1
    np.testing.assert_array_equal(executable.run({"x": x, "w": x})["y"], [nan, not nan])


@pytest.mark.parametrize("kind", ["i8", "i1"])
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_integer_comparisons_by_python(predicate: str, kind: str) -> None:
    # A true i1 is -1 as a signed number and 1 as an unsigned one.
    bits = 8 if kind == "i8" else 1
    numbers = np.array([0, 1, -1, 127, -128], np.int8) if bits == 8 else np.array([False, True])
    x, w = (a.ravel() for a in np.meshgrid(numbers, numbers))
    mask = (1 << bits) - 1
    relation = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[predicate[-2:]]
    right: list[bool] = []
    for a, b in zip(x.tolist(), w.tolist(), strict=True):
        pair = [int(v) & mask if predicate.startswith("u") else _wrap(int(v), bits) for v in (a, b)]
        right.append(eval(f"{pair[0]} {relation} {pair[1]}"))
    got = run(binary(f"arith.cmpi {predicate}, %i0, %i1 : {kind}", kind, x.size, "i1"), {"x": x, "w": w})["y"]
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize(
    ("operation", "x", "result", "want"),
    [
        ("arith.extsi %i0 : i8 to i32", np.int8([-1, 5]), "i32", np.int32([-1, 5])),
        ("arith.extui %i0 : i8 to i32", np.int8([-1, 5]), "i32", np.int32([255, 5])),
        ("arith.extsi %i0 : i1 to i32", np.array([True, False]), "i32", np.int32([-1, 0])),
        ("arith.extui %i0 : i1 to i32", np.array([True, False]), "i32", np.int32([1, 0])),
        ("arith.trunci %i0 : i32 to i8", np.int32([257, -1]), "i8", np.int8([1, -1])),
        ("arith.trunci %i0 : i32 to i1", np.int32([2, 3]), "i1", np.array([False, True])),
        ("arith.sitofp %i0 : i8 to f32", np.int8([-1, 5]), "f32", np.float32([-1, 5])),
        ("arith.uitofp %i0 : i8 to f32", np.int8([-1, 5]), "f32", np.float32([255, 5])),
        ("arith.sitofp %i0 : i1 to f32", np.array([True, False]), "f32", np.float32([-1, 0])),
        ("arith.uitofp %i0 : i1 to f32", np.array([True, False]), "f32", np.float32([1, 0])),
        ("arith.fptosi %i0 : f32 to i32", np.float32([-2.9, 2.9]), "i32", np.int32([-2, 2])),
        ("arith.fptoui %i0 : f32 to i8", np.float32([200.5, 3.0]), "i8", np.int8([-56, 3])),
        ("arith.extf %i0 : f16 to f32", np.float16([0.1, 2]), "f32", np.float16([0.1, 2]).astype("f4")),
        ("arith.truncf %i0 : f32 to f16", np.float32([0.1, 1e6]), "f16", np.float16([0.1, np.inf])),
        (
            "arith.bitcast %i0 : f32 to i32",
            np.float32([1.0, -0.0]),
            "i32",
            np.int32([0x3F800000, -(1 << 31)]),
        ),
        ("arith.negf %i0 : f32", np.float32([1.0, -0.0]), "f32", np.float32([-1.0, 0.0])),
        ("math.absi %i0 : i32", np.int32([-7, 7]), "i32", np.int32([7, 7])),
    ],
)
def test_casts_by_hand(operation: str, x: np.ndarray, result: str, want: np.ndarray) -> None:
    kind = operation.split(" : ")[1].split(" to ")[0]
    got = run(unary(operation, kind, x.size, result), {"x": x})["y"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_select_and_positions() -> None:
    """Below the diagonal keep x, above it minus infinity: a causal mask."""
    t = "memref<5x5xf32>"
    body = generic(
        "m:p n:p",
        [("%x", "m, n", t)],
        [("%y", "m, n", t)],
        "%r = linalg.index 0 : index\n%c = linalg.index 1 : index\n"
        "%keep = arith.cmpi sle, %c, %r : index\n%low = arith.constant 0xFF800000 : f32\n"
        "%s = arith.select %keep, %i0, %low : f32\nlinalg.yield %s : f32",
    )
    x = np.arange(25, dtype=np.float32).reshape(5, 5)
    got = run(module(body, inputs={"x": t}, outputs={"y": t}), {"x": x})["y"]
    np.testing.assert_array_equal(got, np.where(np.tri(5, dtype=bool), x, -np.inf))


def test_computed_positions_become_values() -> None:
    """y[m, n] = 3 m + n - 2, as i64."""
    t = "memref<4x6xi64>"
    body = generic(
        "m:p n:p",
        [],
        [("%y", "m, n", t)],
        "%m = linalg.index 0 : index\n%n = linalg.index 1 : index\n%three = arith.constant 3 : index\n"
        "%two = arith.constant 2 : index\n%a = arith.muli %m, %three : index\n%b = arith.addi %a, %n : index\n"
        "%c = arith.subi %b, %two : index\n%v = arith.index_cast %c : index to i64\nlinalg.yield %v : i64",
    )
    got = run(module(body, outputs={"y": t}), {})["y"]
    np.testing.assert_array_equal(got, 3 * np.arange(4)[:, None] + np.arange(6) - 2)


def test_operands_in_place_and_broadcast() -> None:
    """y starts as x and is updated where it stands, with a row and a column: y = (y - m) * s + y."""
    t, row, column = "memref<300x70xf32>", "memref<70xf32>", "memref<300xf32>"
    body = generic("m:p n:p", [("%x", "m, n", t)], [("%y", "m, n", t)], "linalg.yield %i0 : f32")
    body += "\n" + generic(
        "m:p n:p",
        [("%s", "n", row), ("%m", "m", column)],
        [("%y", "m, n", t)],
        "%d = arith.subf %o0, %i1 : f32\n%e = arith.mulf %d, %i0 : f32\n%f = arith.addf %e, %o0 : f32\n"
        "linalg.yield %f : f32",
    )
    text = module(body, inputs={"x": t, "s": row, "m": column}, outputs={"y": t})
    rng = np.random.default_rng(1)
    x, s, m = (rng.standard_normal(shape).astype(np.float32) for shape in ((300, 70), 70, 300))
    np.testing.assert_array_equal(run(text, {"x": x, "s": s, "m": m})["y"], (x - m[:, None]) * s + x)


def test_two_outputs_that_swap() -> None:
    """a, b = b, a + b in one op, both updated in place."""
    t = "memref<40xf32>"
    body = generic("m:p", [("%x", "m", t)], [("%a", "m", t)], "linalg.yield %i0 : f32") + "\n"
    body += generic("m:p", [("%w", "m", t)], [("%b", "m", t)], "linalg.yield %i0 : f32") + "\n"
    body += generic(
        "m:p",
        [],
        [("%a", "m", t), ("%b", "m", t)],
        "%s = arith.addf %o0, %o1 : f32\nlinalg.yield %o1, %s : f32, f32",
    )
    text = module(body, inputs={"x": t, "w": t}, outputs={"a": t, "b": t})
    x, w = np.arange(40, dtype=np.float32), np.full(40, 0.5, np.float32)
    got = run(text, {"x": x, "w": w})
    np.testing.assert_array_equal(got["a"], w)
    np.testing.assert_array_equal(got["b"], x + w)


def test_movements() -> None:
    """Transpose, slice with steps, diagonal, broadcast, and a concatenation by an offset in the output."""
    a, d, c = "memref<4x6xf32>", "memref<4xf32>", "memref<2x9x3xf32>"
    body = generic("m:p", [("%x", "m, m + 2", a)], [("%d", "m", d)], "linalg.yield %i0 : f32") + "\n"
    body += "%low = arith.constant -1.0 : f32\nlinalg.fill ins(%low : f32) outs(%c : memref<2x9x3xf32>)\n"
    sub = "memref<2x6x3xf32, strided<[27, 3, 1], offset: 6>>"
    body += f"%part = memref.subview %c[0, 2, 0] [2, 6, 3] [1, 1, 1] : {c} to {sub}\n"
    body += generic(
        "b:p m:p n:p", [("%x", "2 * b + 1, m", a)], [("%part", "b, m, n", sub)], "linalg.yield %i0 : f32"
    )
    text = module(body, inputs={"x": a}, outputs={"d": d, "c": c})
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    # The dimension b is bounded by the output alone.
    got = run(text, {"x": x})
    np.testing.assert_array_equal(got["d"], [x[i, i + 2] for i in range(4)])
    want = np.full((2, 9, 3), -1, np.float32)
    want[:, 2:8, :] = x[1::2, :, None]
    np.testing.assert_array_equal(got["c"], want)


def pad_module(kind: str = "f32") -> str:
    """y[m, n] = x[m - 1, 2 n - 3], -7 outside."""
    a, b = f"memref<5x8x{kind}>", f"memref<7x6x{kind}>"
    number = "-7.0" if kind.startswith("f") else "-7"
    body = generic(
        "m:p n:p",
        [],
        [("%y", "m, n", b)],
        "%m = linalg.index 0 : index\n%n = linalg.index 1 : index\n%one = arith.constant 1 : index\n"
        "%two = arith.constant 2 : index\n%three = arith.constant 3 : index\n"
        "%r = arith.subi %m, %one : index\n%d = arith.muli %n, %two : index\n%c = arith.subi %d, %three : index\n"
        f"%pad = arith.constant {number} : {kind}\n"
        + padded_load("%x", a, ["%r", "%c"], "%pad")
        + f"\nlinalg.yield %v : {kind}",
    )
    return module(body, inputs={"x": a}, outputs={"y": b})


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("i8", np.int8), ("i64", np.int64)])
def test_padded_read(kind: str, dtype: type) -> None:
    x = np.arange(40).reshape(5, 8).astype(dtype)
    wide = np.full((7, 14), -7, dtype)
    wide[1:6, 3:11] = x
    got = run(pad_module(kind), {"x": x})["y"]
    np.testing.assert_array_equal(got, wide[:, 0:12:2])


def test_padded_read_in_an_expression() -> None:
    """y = 2 * pad(x) + 1: the padding takes part."""
    a, b = "memref<3xf32>", "memref<5xf32>"
    body = generic(
        "m:p",
        [],
        [("%y", "m", b)],
        "%m = linalg.index 0 : index\n%one = arith.constant 1 : index\n%r = arith.subi %m, %one : index\n"
        "%pad = arith.constant 10.0 : f32\n"
        + padded_load("%x", a, ["%r"], "%pad")
        + "\n%t = arith.constant 2.0 : f32\n"
        "%u = arith.constant 1.0 : f32\n%p = arith.mulf %v, %t : f32\n"
        "%q = arith.addf %p, %u : f32\nlinalg.yield %q : f32",
    )
    got = run(module(body, inputs={"x": a}, outputs={"y": b}), {"x": np.float32([1, 2, 3])})["y"]
    np.testing.assert_array_equal(got, [21, 3, 5, 7, 21])


def gather_module(rows: int, width: int, ids: str, kind: str = "i64") -> str:
    """y[..., n] = table[ids[...], n]: rows of a table; negative indices count from the end."""
    dims = ["a", "b"][: ids.count("x")]
    index, out = ", ".join(dims), f"memref<{ids.rsplit('x', 1)[0]}x{width}xf32>"
    table = f"memref<{rows}x{width}xf32>"
    iterators = " ".join(f"{d}:p" for d in [*dims, "n"])
    body = generic(
        iterators,
        [("%ids", index, f"memref<{ids}>")],
        [("%y", f"{index}, n", out)],
        f"%n = linalg.index {len(dims)} : index\n%zero = arith.constant 0 : {kind}\n"
        f"%rows = arith.constant {rows} : {kind}\n"
        f"%neg = arith.cmpi slt, %i0, %zero : {kind}\n%up = arith.addi %i0, %rows : {kind}\n"
        f"%j = arith.select %neg, %up, %i0 : {kind}\n%k = arith.index_cast %j : {kind} to index\n"
        f"%v = memref.load %table[%k, %n] : {table}\nlinalg.yield %v : f32",
    )
    return module(body, inputs={"ids": f"memref<{ids}>"}, weights={"table": table}, outputs={"y": out})


@pytest.mark.parametrize(("kind", "dtype"), [("i64", np.int64), ("i32", np.int32)])
def test_gather_of_rows(kind: str, dtype: type) -> None:
    table = np.random.default_rng(2).standard_normal((11, 16)).astype(np.float32)
    ids = np.array([[0, 10, -1, 3], [-11, 5, 5, 2]], dtype)
    text = gather_module(11, 16, f"2x4x{kind}", kind)
    np.testing.assert_array_equal(run(text, {"ids": ids}, {"table": table})["y"], table[ids])


def test_gather_along_the_last_axis_and_of_single_elements() -> None:
    a, ids, b = "memref<3x7xf32>", "memref<3x4xi64>", "memref<3x4xf32>"
    body = generic(
        "m:p n:p",
        [("%ids", "m, n", ids)],
        [("%y", "m, n", b)],
        "%m = linalg.index 0 : index\n%k = arith.index_cast %i0 : i64 to index\n"
        f"%v = memref.load %x[%m, %k] : {a}\n%w = arith.negf %v : f32\nlinalg.yield %w : f32",
    )
    text = module(body, inputs={"x": a, "ids": ids}, outputs={"y": b})
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    at = np.array([[0, 6, 3, 3], [1, 1, 1, 1], [6, 5, 4, 0]])
    np.testing.assert_array_equal(run(text, {"x": x, "ids": at})["y"], -np.take_along_axis(x, at, 1))


@pytest.mark.parametrize(("kind", "dtype"), [("i64", np.int64), ("i32", np.int32)])
@pytest.mark.parametrize("index", [11, -12, 2**31 - 1, -(2**31)])
def test_an_index_out_of_bounds_is_an_error_and_nothing_is_clipped(
    kind: str, dtype: type, index: int
) -> None:
    """Rows of a table with 11 rows; negative indices count from the end, and the error names them as given."""
    executable = load(gather_module(11, 16, f"2x4x{kind}", kind), {"table": np.ones((11, 16), np.float32)})
    ids = np.zeros((2, 4), dtype)
    executable.run({"ids": ids})
    ids[1, 2] = index
    with pytest.raises(RunError) as error:
        executable.run({"ids": ids})
    assert error.value.message == f"index {index} is out of bounds for axis 0 of size 11"
    assert error.value.place is not None and error.value.place.line is not None


def lookup(table: str, body: str, *, ids: str = "memref<4xi64>", out: str = "memref<4xf32>") -> str:
    """`y[m]`, computed by `body` from `%k`, the index `ids[m]`, and the table `%x`."""
    cast = "%m = linalg.index 0 : index\n%k = arith.index_cast %i0 : i64 to index\n"
    generics = generic("m:p", [("%ids", "m", ids)], [("%y", "m", out)], cast + body)
    return module(generics, inputs={"x": table, "ids": ids}, outputs={"y": out})


def test_an_index_out_of_bounds_of_single_elements() -> None:
    """The index along each axis is checked by itself: [0, 5] of a 4x4 table is not [1, 1]."""
    t = "memref<4x4xf32>"
    executable = load(lookup(t, f"%v = memref.load %x[%k, %m] : {t}\nlinalg.yield %v : f32"))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    got = executable.run({"x": x, "ids": np.array([3, 2, 1, 0])})["y"]
    np.testing.assert_array_equal(got, [12, 9, 6, 3])
    executable = load(lookup(t, f"%v = memref.load %x[%m, %k] : {t}\nlinalg.yield %v : f32"))
    for index in (4, -1):
        with pytest.raises(RunError, match=f"index {index} is out of bounds for axis 1 of size 4"):
            executable.run({"x": x, "ids": np.array([0, 0, index, 0])})


def test_an_index_out_of_bounds_in_a_scalar_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlopt.interpreter.loops.MAXIMUM_CALLS", 0)
    t, ids = "memref<4xf32>", "memref<3xi64>"
    body = generic(
        "m:p",
        [("%ids", "m", ids)],
        [("%y", "", "memref<f32>")],
        f"%k = arith.index_cast %i0 : i64 to index\n%v = memref.load %x[%k] : {t}\n"
        "%a = arith.addf %o0, %v : f32\n%b = arith.mulf %a, %v : f32\nlinalg.yield %b : f32",
    )
    executable = load(module(body, inputs={"x": t, "ids": ids}, outputs={"y": "memref<f32>"}))
    assert executable.scalar_loops == 1
    with pytest.raises(RunError, match="index 4 is out of bounds for axis 0 of size 4"):
        executable.run({"x": np.ones(4, np.float32), "ids": np.array([0, 4, 1])})


@pytest.mark.parametrize("guard", ["%i0, %five : i64", "%k, %five : index"])
def test_a_guarded_load_at_a_computed_index_is_not_checked(guard: str) -> None:
    """x[ids[m]] where ids[m] < 5 as an unsigned number, else -1."""
    t = "memref<5xf32>"
    body = (
        f"%five = arith.constant 5 : {guard.rpartition(' ')[2]}\n%ok = arith.cmpi ult, {guard}\n"
        f"%v = scf.if %ok -> (f32) {{\n%l = memref.load %x[%k] : {t}\nscf.yield %l : f32\n}} else {{\n"
        "%c = arith.constant -1.0 : f32\nscf.yield %c : f32\n}\nlinalg.yield %v : f32"
    )
    x = np.arange(5, dtype=np.float32)
    got = run(lookup(t, body), {"x": x, "ids": np.array([4, 5, -1, 0])})["y"]
    np.testing.assert_array_equal(got, [4, -1, -1, 0])


@pytest.mark.parametrize("relation", ["ugt", "ult"])
def test_a_guarded_load_from_an_empty_buffer(relation: str) -> None:
    """There is nothing to load, and the guard never holds: 0 > m, or m < 0, unsigned."""
    t, y = "memref<0x3xf32>", "memref<2xf32>"
    operands = "%c0, %i" if relation == "ugt" else "%i, %c0"
    body = generic(
        "m:p",
        [],
        [("%y", "m", y)],
        "%i = linalg.index 0 : index\n%c0 = arith.constant 0 : index\n"
        f"%ok = arith.cmpi {relation}, {operands} : index\n%v = scf.if %ok -> (f32) {{\n"
        f"%l = memref.load %x[%c0, %i] : {t}\nscf.yield %l : f32\n}} else {{\n"
        "%c = arith.constant 7.0 : f32\nscf.yield %c : f32\n}\nlinalg.yield %v : f32",
    )
    text = module(body, inputs={"x": t}, outputs={"y": y})
    np.testing.assert_array_equal(run(text, {"x": np.empty((0, 3), np.float32)})["y"], [7, 7])


def test_a_load_at_a_computed_index_from_an_empty_buffer() -> None:
    """No index is within."""
    t = "memref<0xf32>"
    executable = load(lookup(t, f"%v = memref.load %x[%k] : {t}\nlinalg.yield %v : f32"))
    with pytest.raises(RunError, match="index 0 is out of bounds for axis 0 of size 0"):
        executable.run({"x": np.empty(0, np.float32), "ids": np.zeros(4, np.int64)})


def test_constant_indices_are_looked_at_once() -> None:
    """When the plan is made: a run does not check them, unless one of them is out of bounds."""
    t, w = "memref<5xf32>", "memref<4xi64>"
    body = generic(
        "m:p",
        [("%ids", "m", w)],
        [("%y", "m", "memref<4xf32>")],
        f"%k = arith.index_cast %i0 : i64 to index\n%v = memref.load %x[%k] : {t}\nlinalg.yield %v : f32",
    )
    text = module(body, inputs={"x": t}, weights={"ids": w}, outputs={"y": "memref<4xf32>"})
    x = np.arange(5, dtype=np.float32)
    assert load(text, {"ids": np.array([4, 0, 0, 1])}).steps == 1
    wrong = load(text, {"ids": np.array([4, 0, 5, 1])})
    assert wrong.steps == 2
    with pytest.raises(RunError, match="index 5 is out of bounds for axis 0 of size 5"):
        wrong.run({"x": x})


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f16", np.float16), ("f64", np.float64), ("i64", np.int64), ("i8", np.int8)]
)
def test_element_types(kind: str, dtype: type) -> None:
    word = "f" if kind.startswith("f") else "i"
    x, w = np.arange(10).astype(dtype), np.arange(10)[::-1].astype(dtype)
    text = binary(f"arith.mul{word} %i0, %i1 : {kind}", kind, 10)
    got = run(text, {"x": x, "w": w})["y"]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x * w)


def test_bools() -> None:
    x, w = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name, want in (("andi", x & w), ("ori", x | w), ("xori", x ^ w), ("addi", x ^ w), ("maxui", x | w)):
        np.testing.assert_array_equal(
            run(binary(f"arith.{name} %i0, %i1 : i1", "i1", 4), {"x": x, "w": w})["y"], want
        )


def test_rank_zero_and_empty() -> None:
    text = module(
        generic(
            "",
            [("%x", "", "memref<f32>")],
            [("%y", "", "memref<f32>")],
            "%r = arith.addf %i0, %i0 : f32\nlinalg.yield %r : f32",
        ),
        inputs={"x": "memref<f32>"},
        outputs={"y": "memref<f32>"},
    )
    assert run(text, {"x": np.array(2.5, np.float32)})["y"] == 5.0
    empty = run(unary("arith.negf %i0 : f32", n=0), {"x": np.empty(0, np.float32)})["y"]
    assert empty.shape == (0,)


X32 = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


@pytest.mark.parametrize(
    ("iterators", "out", "first", "operation", "want"),
    [
        ("m:r n:p", "m, n", 0, "arith.addf %i0, %i0", X32 * 2),
        ("m:r n:r", "m, n", 1, "arith.addf %o0, %i0", X32 + 1),
        ("m:r n:r", "m, n", 1, "arith.mulf %o0, %i0", X32),
        ("m:r n:r", "m", 1, "arith.addf %o0, %i0", np.array([4, 8, 12], np.float32)),
        ("m:p n:p", "m", 1, "arith.addf %o0, %i0", np.array([4, 8, 12], np.float32)),
        ("m:r n:r", "n", 0, "arith.addf %i0, %i0", np.array([10, 12], np.float32)),
        ("m:r n:p", "n, m", 0, "arith.negf %i0", -X32.T),
    ],
)
def test_iterator_types_do_not_change_what_is_written(
    iterators: str, out: str, first: int, operation: str, want: np.ndarray
) -> None:
    """A dimension of the out map is not reduced and all others are, whatever the op declares; by a loop nest."""
    x, y = "memref<3x2xf32>", f"memref<{'x'.join(map(str, want.shape))}xf32>"
    fill = f"%c = arith.constant {first}.0 : f32\nlinalg.fill ins(%c : f32) outs(%y : {y})\n"
    body = f"%r = {operation} : f32\nlinalg.yield %r : f32"
    text = module(
        fill + generic(iterators, [("%x", "m, n", x)], [("%y", out, y)], body),
        inputs={"x": x},
        outputs={"y": y},
    )
    np.testing.assert_array_equal(run(text, {"x": X32})["y"], want)


@pytest.mark.parametrize("iterators", ["m:r n:r", "m:p n:p", "m:r n:p"])
@pytest.mark.parametrize("size", [3, 4, 5])
def test_elements_that_several_points_write_are_accumulated(iterators: str, size: int) -> None:
    """y[m + n] += x[m, n], as a loop nest does it; elements that no point writes keep what a fill wrote."""
    x, y = "memref<2x2xf32>", f"memref<{size}xf32>"
    body = "%r = arith.addf %o0, %i0 : f32\nlinalg.yield %r : f32"
    text = module(
        f"%c = arith.constant 1.0 : f32\nlinalg.fill ins(%c : f32) outs(%y : {y})\n"
        + generic(iterators, [("%x", "m, n", x)], [("%y", "m + n", y)], body),
        inputs={"x": x},
        outputs={"y": y},
    )
    want = [2, 6, 5, 1, 1][:size]
    got = run(text, {"x": np.array([[1, 2], [3, 4]], np.float32)})["y"]
    np.testing.assert_array_equal(got, np.array(want, np.float32))


def test_two_outputs_of_which_one_has_a_reduced_dimension() -> None:
    """y[m, n] = 2 x[m, n] beside s[m] += x[m, n]."""
    x, s = "memref<3x2xf32>", "memref<3xf32>"
    body = "%a = arith.addf %i0, %i0 : f32\n%b = arith.addf %o1, %i0 : f32\nlinalg.yield %a, %b : f32, f32"
    text = module(
        f"%c = arith.constant 0.0 : f32\nlinalg.fill ins(%c : f32) outs(%s : {s})\n"
        + generic("m:r n:r", [("%x", "m, n", x)], [("%y", "m, n", x), ("%s", "m", s)], body),
        inputs={"x": x},
        outputs={"y": x, "s": s},
    )
    got = run(text, {"x": X32})
    np.testing.assert_array_equal(got["y"], X32 * 2)
    np.testing.assert_array_equal(got["s"], np.array([3, 7, 11], np.float32))


def test_the_same_result_whatever_the_tile() -> None:
    """A chain with several temporaries on 90000 elements, tiled, equals numpy's on the whole."""
    t = "memref<300x300xf32>"
    chain = (
        "%a = arith.mulf %i0, %i0 : f32\n%b = math.exp %i1 : f32\n%c = arith.addf %a, %b : f32\n"
        "%d = arith.mulf %a, %b : f32\n%e = arith.divf %c, %d : f32\n"
        "%f = arith.subf %e, %i0 : f32\nlinalg.yield %f : f32"
    )
    ins = [("%x", "m, n", t), ("%w", "n, m", t)]
    text = module(
        generic("m:p n:p", ins, [("%y", "m, n", t)], chain), inputs={"x": t, "w": t}, outputs={"y": t}
    )
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal((300, 300)).astype(np.float32) for _ in range(2))
    a, b = x * x, np.exp(w.T)
    np.testing.assert_array_equal(run(text, {"x": x, "w": w})["y"], (a + b) / (a * b) - x)
    assert load(text).steps > 6


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_maps_against_the_scalar_reference(data: st.DataObject) -> None:
    """Random affine reads of random operands, random bodies; the scalar interpreter of the test suite decides."""
    rank = data.draw(st.integers(1, 3))
    extents = [data.draw(st.integers(1, 4)) for _ in range(rank)]
    names = ["a", "b", "c"][:rank]
    operands: list[tuple[str, str, str]] = []
    inputs: dict[str, str] = {}
    arrays: dict[str, np.ndarray] = {}
    for position in range(data.draw(st.integers(1, 3))):
        axes = data.draw(st.lists(st.integers(0, rank - 1), max_size=3))
        steps = [data.draw(st.integers(1, 2)) for _ in axes]
        shape = [step * (extents[axis] - 1) + 1 + (step > 1) for axis, step in zip(axes, steps, strict=True)]
        type_ = f"memref<{''.join(f'{n}x' for n in shape)}f32>"
        index = ", ".join(
            names[a] if s == 1 else f"{s} * {names[a]}" for a, s in zip(axes, steps, strict=True)
        )
        operands.append((f"%x{position}", index, type_))
        inputs[f"x{position}"] = type_
        arrays[f"x{position}"] = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + position
    values = [f"%i{n}" for n in range(len(operands))]
    lines: list[str] = []
    for step in range(data.draw(st.integers(0, 5))):
        left, right = data.draw(st.sampled_from(values)), data.draw(st.sampled_from(values))
        name = data.draw(st.sampled_from(["addf", "subf", "mulf", "maximumf"]))
        lines.append(f"%t{step} = arith.{name} {left}, {right} : f32")
        values.append(f"%t{step}")
    order = data.draw(st.permutations(range(rank)))
    out = f"memref<{''.join(f'{extents[d]}x' for d in order)}f32>"
    body = generic(
        " ".join(f"{n}:p" for n in names),
        operands,
        [("%y", ", ".join(names[d] for d in order), out)],
        "\n".join([*lines, f"linalg.yield {values[-1]} : f32"]),
    )
    text = module(body, inputs=inputs, outputs={"y": out})
    executable = load(text)
    from mlopt.ir import make_context, parse_module

    want = run_memref(parse_module(text, make_context()), arrays)["y"]
    np.testing.assert_array_equal(executable.run(arrays)["y"], want)
