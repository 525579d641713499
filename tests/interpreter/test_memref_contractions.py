"""Contractions and reductions of the numpy engine, against numpy by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mlopt.interpreter.expressions import Structured
from mlopt.interpreter.recognize import as_contraction, as_reduction, is_structured, recognize
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import element, generic, load, module, padded_load, run

RNG = np.random.default_rng(7)


def fill(value: str, target: str, type_: str) -> str:
    kind = element(type_)
    suffix = "" if kind == "i1" else f" : {kind}"
    return (
        f"%fill{target[1:]} = arith.constant {value}{suffix}\n"
        f"linalg.fill ins(%fill{target[1:]} : {kind}) outs({target} : {type_})\n"
    )


MULTIPLY_ADD = "%p = arith.mulf %i0, %i1 : f32\n%s = arith.addf %o0, %p : f32\nlinalg.yield %s : f32"


def contraction(
    iterators: str,
    left: tuple[str, str],
    right: tuple[str, str],
    out: tuple[str, str],
    init: str | None = "0.0",
) -> str:
    """y (+)= x * w; operands are (index, type); without `init`, y is a copy of the input `c`."""
    body = fill(init, "%y", out[1]) if init is not None else f"memref.copy %c, %y : {out[1]} to {out[1]}\n"
    body += generic(iterators, [("%x", *left), ("%w", *right)], [("%y", *out)], MULTIPLY_ADD)
    inputs = {"x": left[1], "w": right[1]} | ({} if init is not None else {"c": out[1]})
    return module(body, inputs=inputs, outputs={"y": out[1]})


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


EINSUMS = [
    # (einsum, extents): what the factors and the output look like in memory is in the order of the letters.
    ("mk,kn->mn", {"m": 5, "k": 7, "n": 9}),
    ("mk,nk->mn", {"m": 5, "k": 7, "n": 9}),
    ("km,kn->mn", {"m": 5, "k": 7, "n": 9}),
    ("mk,kn->nm", {"m": 5, "k": 7, "n": 9}),
    ("k,kn->n", {"k": 7, "n": 9}),
    ("mk,k->m", {"m": 5, "k": 7}),
    ("k,k->", {"k": 7}),
    ("bmk,bkn->bmn", {"b": 3, "m": 5, "k": 7, "n": 9}),
    ("bsk,kn->bsn", {"b": 3, "s": 5, "k": 7, "n": 9}),
    # Attention on packed heads: scores, then the weighted sum.
    ("bshd,bthd->bhst", {"b": 2, "h": 3, "s": 5, "t": 6, "d": 8}),
    ("bhst,bthd->bshd", {"b": 2, "h": 3, "s": 5, "t": 6, "d": 8}),
    # No unit stride in a matrix: the factor, or the result, has to be rearranged.
    ("bmk,knb->bmn", {"b": 3, "m": 5, "k": 7, "n": 9}),
    ("mkb,bkn->mnb", {"m": 5, "k": 7, "n": 9, "b": 4}),
    # Inner dimensions in different orders.
    ("mkl,lkn->mn", {"m": 5, "k": 3, "l": 4, "n": 9}),
    ("amkb,kbn->amn", {"a": 2, "m": 5, "k": 3, "b": 4, "n": 9}),
    # A dimension that only one factor has, and that is summed.
    ("mkl,kn->mn", {"m": 5, "k": 3, "l": 4, "n": 9}),
    # Grouped pointwise convolution: groups are a batch.
    ("gfc,ngchw->ngfhw", {"g": 2, "f": 3, "c": 4, "n": 2, "h": 3, "w": 5}),
]


def memref(letters: str, extents: dict[str, int], kind: str = "f32") -> str:
    return f"memref<{''.join(f'{extents[c]}x' for c in letters)}{kind}>"


def einsum_module(equation: str, extents: dict[str, int], init: str | None) -> str:
    factors, out = equation.split("->")
    left, right = factors.split(",")
    iterators = " ".join(f"{c}:{'p' if c in out else 'r'}" for c in extents)
    operands = [(", ".join(part), memref(part, extents)) for part in (left, right, out)]
    return contraction(iterators, operands[0], operands[1], operands[2], init)


@pytest.mark.parametrize("init", ["0.0", "2.5", None])
@pytest.mark.parametrize(("equation", "extents"), EINSUMS)
def test_contraction(equation: str, extents: dict[str, int], init: str | None) -> None:
    factors, out = equation.split("->")
    x, w = (normal(*(extents[c] for c in part)) for part in factors.split(","))
    c = normal(*(extents[d] for d in out))
    want = np.einsum(equation, x, w) + (c if init is None else np.float32(init))
    inputs = {"x": x, "w": w} | ({"c": c} if init is None else {})
    got = run(einsum_module(equation, extents, init), inputs)["y"]
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_contraction_of_operands_with_unequal_strides() -> None:
    """Column slices, a step of two (no unit stride), and an output inside a larger buffer."""
    big, w, y = "memref<6x20xf32>", "memref<4x3xf32>", "memref<6x10xf32>"
    left, out = "memref<6x4xf32, strided<[20, 2], offset: 3>>", "memref<6x3xf32, strided<[10, 1], offset: 5>>"
    body = fill("-1.0", "%y", y)
    body += (
        f"%l = memref.subview %x[0, 3] [6, 4] [1, 2] : {big} to {left}\n"
        f"%o = memref.subview %y[0, 5] [6, 3] [1, 1] : {y} to {out}\n"
    )
    body += generic(
        "m:p n:p k:r", [("%l", "m, k", left), ("%w", "k, n", w)], [("%o", "m, n", out)], MULTIPLY_ADD
    )
    x, factor = normal(6, 20), normal(4, 3)
    want = np.full((6, 10), -1, np.float32)
    want[:, 5:8] += x[:, 3:11:2] @ factor
    got = run(module(body, inputs={"x": big, "w": w}, outputs={"y": y}), {"x": x, "w": factor})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def conv_module(
    n: int, c: int, f: int, size: int, kernel: int, stride: int, pad: int, groups: int = 1
) -> str:
    """A grouped 2-D convolution; x is [n, g, c/g, h, w], w is [g, f/g, c/g, kh, kw]."""
    out = (size + 2 * pad - kernel) // stride + 1
    x = f"memref<{n}x{groups}x{c // groups}x{size}x{size}xf32>"
    w = f"memref<{groups}x{f // groups}x{c // groups}x{kernel}x{kernel}xf32>"
    y = f"memref<{n}x{groups}x{f // groups}x{out}x{out}xf32>"
    iterators = "n:p g:p f:p h:p w:p c:r i:r j:r"
    body = fill("0.0", "%y", y)
    if not pad:
        ins = [("%x", f"n, g, c, {stride} * h + i, {stride} * w + j", x), ("%w", "g, f, c, i, j", w)]
        body += generic(iterators, ins, [("%y", "n, g, f, h, w", y)], MULTIPLY_ADD)
        return module(body, inputs={"x": x}, weights={"w": w}, outputs={"y": y})
    index = [f"%d{d} = linalg.index {d} : index" for d in range(8)]
    lines = [*index, f"%stride = arith.constant {stride} : index", f"%off = arith.constant {pad} : index"]
    for name, at, tap in (("%r", 3, 6), ("%q", 4, 7)):
        lines += [
            f"{name}0 = arith.muli %d{at}, %stride : index",
            f"{name}1 = arith.addi {name}0, %d{tap} : index",
            f"{name} = arith.subi {name}1, %off : index",
        ]
    lines.append("%zero = arith.constant 0.0 : f32")
    lines.append(padded_load("%x", x, ["%d0", "%d1", "%d5", "%r", "%q"], "%zero"))
    lines += ["%p = arith.mulf %v, %i0 : f32", "%s = arith.addf %o0, %p : f32", "linalg.yield %s : f32"]
    body += generic(iterators, [("%w", "g, f, c, i, j", w)], [("%y", "n, g, f, h, w", y)], "\n".join(lines))
    return module(body, inputs={"x": x}, weights={"w": w}, outputs={"y": y})


def conv_by_hand(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> np.ndarray:
    """The sum over taps of shifted images, in double precision."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (0, 0), (pad, pad), (pad, pad)))
    out = (x.shape[-1] - w.shape[-1]) // stride + 1
    reach = stride * (out - 1) + 1
    total = np.zeros((*x.shape[:2], w.shape[1], out, out))
    for i in range(w.shape[-1]):
        for j in range(w.shape[-1]):
            total += np.einsum(
                "ngchw,gfc->ngfhw", x[..., i : i + reach : stride, j : j + reach : stride], w[..., i, j]
            )
    return total


CONVOLUTIONS = [
    # n, c, f, size, kernel, stride, pad, groups
    (1, 3, 4, 9, 3, 1, 0, 1),
    (1, 3, 4, 9, 3, 1, 1, 1),
    (2, 3, 4, 9, 3, 2, 1, 1),
    (1, 3, 8, 16, 7, 2, 3, 1),
    (1, 6, 4, 8, 1, 1, 0, 1),
    (2, 6, 4, 8, 1, 2, 0, 1),
    (1, 6, 4, 9, 3, 1, 1, 2),
    (1, 6, 6, 9, 3, 1, 1, 6),
    (1, 6, 6, 9, 3, 2, 1, 6),
    (1, 2, 2, 2, 3, 1, 2, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case: tuple[int, ...]) -> None:
    n, c, f, size, kernel, stride, pad, groups = case
    x, w = (
        normal(n, groups, c // groups, size, size),
        normal(groups, f // groups, c // groups, kernel, kernel),
    )
    got = run(conv_module(*case), {"x": x}, {"w": w})["y"]
    np.testing.assert_allclose(got, conv_by_hand(x, w, stride, pad), rtol=1e-4, atol=1e-4)


def with_workspace(text: str, size: int) -> str:
    """The same module with the body of @main in a function that has a workspace of `size` bytes in an arena."""
    header, body = text.split(") {\n", 1)
    arguments = re.findall(r"(%\w+): (memref<[^>]*>) (\{[^}]*\})", header)
    arena = f"memref<{size}xi8>"
    types = ", ".join(type_ for _, type_, _ in arguments)
    main = ", ".join(f"{name}: {type_} {attributes}" for name, type_, attributes in arguments)
    inner = ", ".join(f"{name}: {type_}" for name, type_, _ in arguments)
    return f"""func.func @main(%arena: {arena} {{mlopt.arena}}, {main}) {{
%o = arith.constant 0 : index
%ws = memref.view %arena[%o][] {{mlopt.workspace}} : {arena} to {arena}
func.call @body({", ".join(name for name, _, _ in arguments)}, %ws) : ({types}, {arena}) -> ()
return
}}
func.func private @body({inner}, %ws: {arena} {{mlopt.workspace}}) {{
{body}"""


SCRATCH_CASES = {
    "convolution": conv_module(1, 8, 8, 64, 3, 1, 1),
    "strided": conv_module(2, 3, 8, 65, 7, 2, 3),
    "depthwise": conv_module(1, 24, 24, 30, 3, 1, 1, 24),
    "accumulate": einsum_module("mk,kn->mn", {"m": 70, "k": 40, "n": 300}, None),
    "rearranged": einsum_module("mkb,bkn->mnb", {"m": 30, "k": 40, "n": 70, "b": 5}, "1.0"),
}


@pytest.mark.parametrize("name", sorted(SCRATCH_CASES))
def test_any_amount_of_scratch_will_do(name: str) -> None:
    """From what the engine says it needs at least up to what it prefers: nothing more is taken, the result stays."""
    text = SCRATCH_CASES[name]
    (main,) = parse_module(text, make_context()).ops
    need = NumpyTarget().scratch_need(main)
    assert 0 < need.minimum < need.preferred
    reference = load(text, _weights(text))
    arrays = {spec.name: RNG.standard_normal(spec.shape).astype(np.float32) for spec in reference.inputs}
    want = reference.run(arrays)["y"]
    for size in (need.minimum, need.minimum + 64, (need.minimum + need.preferred) // 2, need.preferred):
        executable = load(with_workspace(text, -(-size // 64) * 64), _weights(text))
        assert executable.engine_scratch_bytes == 0
        np.testing.assert_allclose(executable.run(arrays)["y"], want, rtol=1e-5, atol=1e-4)


def _weights(text: str) -> dict[str, np.ndarray]:
    found = re.search(r"%w: memref<([\dx]+)xf32> \{mlopt.weight", text)
    if found is None:
        return {}
    shape = [int(n) for n in found[1].split("x")]
    return {"w": np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)}


def typed_contraction(kind: str, out: str, widen: str) -> str:
    """y[m, n] = sum x[m, k] * w[k, n] with the factors widened in the body."""
    word = "f" if out.startswith("f") else "i"
    x, w, y = f"memref<4x6x{kind}>", f"memref<6x5x{kind}>", f"memref<4x5x{out}>"
    cast = "".join(f"%c{n} = arith.{widen} %i{n} : {kind} to {out}\n" for n in range(2)) if widen else ""
    names = ("%c0", "%c1") if widen else ("%i0", "%i1")
    body = (
        f"{cast}%p = arith.mul{word} {names[0]}, {names[1]} : {out}\n"
        f"%s = arith.add{word} %o0, %p : {out}\nlinalg.yield %s : {out}"
    )
    text = fill("0.0" if word == "f" else "0", "%y", y)
    text += generic("m:p n:p k:r", [("%x", "m, k", x), ("%w", "k, n", w)], [("%y", "m, n", y)], body)
    return module(text, inputs={"x": x, "w": w}, outputs={"y": y})


@pytest.mark.parametrize(
    ("kind", "out", "widen", "dtype"),
    [
        ("f64", "f64", "", np.float64),
        ("f16", "f32", "extf", np.float16),
        ("f16", "f16", "", np.float16),
        ("i8", "i32", "extsi", np.int8),
        ("i8", "i8", "", np.int8),
        ("i64", "i64", "", np.int64),
        ("i8", "f32", "sitofp", np.int8),
    ],
)
def test_contraction_of_other_types(kind: str, out: str, widen: str, dtype: type) -> None:
    x, w = RNG.integers(-9, 9, (4, 6)).astype(dtype), RNG.integers(-9, 9, (6, 5)).astype(dtype)
    got = run(typed_contraction(kind, out, widen), {"x": x, "w": w})["y"]
    want = (x.astype(np.int64) @ w.astype(np.int64)).astype(got.dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("init", ["0", "1073741824"])
@pytest.mark.parametrize(("points", "summed"), [(300, np.float32), (3000, np.float64), (200000, np.int32)])
def test_sums_of_small_integers_are_exact(
    points: int, summed: type, init: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In floats as long as every partial sum is exact there and fits the result: 2^24 / 2^14 and 2^31 / 2^14 points."""
    used: list[np.dtype] = []
    matmul = np.matmul

    def spy(*args: np.ndarray) -> np.ndarray:
        used.append(args[0].dtype)
        return matmul(*args)

    monkeypatch.setattr(np, "matmul", spy)
    x, w, y = f"memref<2x{points}xi8>", f"memref<{points}x3xi8>", "memref<2x3xi32>"
    body = (
        "%a = arith.extsi %i0 : i8 to i32\n%b = arith.extsi %i1 : i8 to i32\n"
        "%p = arith.muli %a, %b : i32\n%s = arith.addi %o0, %p : i32\nlinalg.yield %s : i32"
    )
    text = fill(init, "%y", y)
    text += generic("m:p n:p k:r", [("%x", "m, k", x), ("%w", "k, n", w)], [("%y", "m, n", y)], body)
    left, right = np.full((2, points), -128, np.int8), np.full((points, 3), -128, np.int8)
    right[::2, 1] = 127
    left[1, 5] = 1
    got = run(module(text, inputs={"x": x, "w": w}, outputs={"y": y}), {"x": left, "w": right})["y"]
    want = left.astype(np.int64) @ right.astype(np.int64) + int(init)
    np.testing.assert_array_equal(got, want.astype(np.int32))
    assert set(used) == {np.dtype(summed)}


def test_contraction_with_a_zero_point() -> None:
    """Quantised: (x - 3) * w summed in i32."""
    x, w, y = "memref<4x6xi8>", "memref<6x5xi8>", "memref<4x5xi32>"
    body = (
        "%a = arith.extui %i0 : i8 to i32\n%zp = arith.constant 3 : i32\n%b = arith.subi %a, %zp : i32\n"
        "%c = arith.extsi %i1 : i8 to i32\n%p = arith.muli %b, %c : i32\n"
        "%s = arith.addi %o0, %p : i32\nlinalg.yield %s : i32"
    )
    text = fill("0", "%y", y) + generic(
        "m:p n:p k:r", [("%x", "m, k", x), ("%w", "k, n", w)], [("%y", "m, n", y)], body
    )
    left, right = RNG.integers(0, 255, (4, 6)).astype(np.uint8), RNG.integers(-99, 99, (6, 5)).astype(np.int8)
    text = module(text, inputs={"x": x, "w": w}, outputs={"y": y}, dtypes={"x": "uint8"})
    got = run(text, {"x": left, "w": right})["y"]
    np.testing.assert_array_equal(got, (left.astype(np.int32) - 3) @ right.astype(np.int32))


REDUCTIONS = [
    # (name, init, kind, numpy's)
    ("addf", "0.0", "f32", np.add),
    ("mulf", "1.0", "f32", np.multiply),
    ("maximumf", "0xFF800000", "f32", np.maximum),
    ("minimumf", "0x7F800000", "f32", np.minimum),
    ("maxnumf", "0xFF800000", "f32", np.fmax),
    ("addi", "0", "i8", np.add),
    ("muli", "1", "i64", np.multiply),
    ("maxsi", "-128", "i8", np.maximum),
    ("minsi", "127", "i8", np.minimum),
    ("andi", "true", "i1", np.logical_and),
    ("ori", "false", "i1", np.logical_or),
]


def reduction_module(name: str, init: str | None, kind: str, over: str, shape: tuple[int, ...]) -> str:
    dims = "abcd"[: len(shape)]
    kept = "".join(d for d in dims if d not in over)
    x = f"memref<{''.join(f'{n}x' for n in shape)}{kind}>"
    y = f"memref<{''.join(f'{shape[dims.index(d)]}x' for d in kept)}{kind}>"
    body = fill(init, "%y", y) if init is not None else f"memref.copy %c, %y : {y} to {y}\n"
    body += generic(
        " ".join(f"{d}:{'r' if d in over else 'p'}" for d in dims),
        [("%x", ", ".join(dims), x)],
        [("%y", ", ".join(kept), y)],
        f"%r = arith.{name} %o0, %i0 : {kind}\nlinalg.yield %r : {kind}",
    )
    inputs = {"x": x} | ({"c": y} if init is None else {})
    return module(body, inputs=inputs, outputs={"y": y})


def values(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "i1":
        return RNG.random(shape) < 0.9
    if kind.startswith("i"):
        return RNG.integers(-3, 4, shape).astype({"i8": np.int8, "i64": np.int64}[kind])
    return normal(*shape)


@pytest.mark.parametrize("over", ["b", "a", "ab", "bc", "ac", "abc"])
@pytest.mark.parametrize(("name", "init", "kind", "ufunc"), REDUCTIONS)
def test_reduction(name: str, init: str, kind: str, ufunc: np.ufunc, over: str) -> None:
    x = values(kind, (6, 5, 7))
    axes = tuple("abc".index(d) for d in over)
    got = run(reduction_module(name, init, kind, over, x.shape), {"x": x})["y"]
    np.testing.assert_allclose(got, ufunc.reduce(x, axis=axes, dtype=x.dtype), rtol=1e-4, atol=1e-5)
    start = values(kind, got.shape)
    got = run(reduction_module(name, None, kind, over, x.shape), {"x": x, "c": start})["y"]
    want = ufunc(start, ufunc.reduce(x, axis=axes, dtype=x.dtype))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_reduction_over_one_position_still_starts_from_its_fill() -> None:
    got = run(reduction_module("addf", "5.0", "f32", "b", (3, 1)), {"x": np.float32([[1], [2], [3]])})["y"]
    np.testing.assert_array_equal(got, [6, 7, 8])


def test_maximum_propagates_nan_and_a_fill_that_is_not_the_identity_counts() -> None:
    x = np.float32([[1, np.nan, 3, 0, 0], [-5, -7, -6, -9, -8]])
    got = run(reduction_module("maximumf", "-2.0", "f32", "b", x.shape), {"x": x})["y"]
    np.testing.assert_array_equal(got, [np.nan, -2])


def test_sum_of_squares_of_long_rows() -> None:
    """An expression before the reduction, in tiles, with the rows longer than a tile."""
    x, y = "memref<3x200000xf32>", "memref<3xf32>"
    body = fill("0.0", "%y", y)
    body += generic(
        "m:p k:r",
        [("%x", "m, k", x)],
        [("%y", "m", y)],
        "%q = arith.mulf %i0, %i0 : f32\n%s = arith.addf %o0, %q : f32\nlinalg.yield %s : f32",
    )
    data = normal(3, 200000)
    got = run(module(body, inputs={"x": x}, outputs={"y": y}), {"x": data})["y"]
    np.testing.assert_allclose(got, (data.astype(np.float64) ** 2).sum(1), rtol=1e-5)


def test_half_precision_summed_in_single() -> None:
    x, y = "memref<4x3000xf16>", "memref<4xf32>"
    body = fill("0.0", "%y", y)
    body += generic(
        "m:p k:r",
        [("%x", "m, k", x)],
        [("%y", "m", y)],
        "%q = arith.extf %i0 : f16 to f32\n%s = arith.addf %o0, %q : f32\nlinalg.yield %s : f32",
    )
    data = np.full((4, 3000), 0.1, np.float16)
    got = run(module(body, inputs={"x": x}, outputs={"y": y}), {"x": data})["y"]
    np.testing.assert_allclose(got, data.astype(np.float64).sum(1), rtol=1e-5)


def pool_module(name: str, init: str, pad: str, size: int, kernel: int, stride: int, border: int) -> str:
    """Pooling of [n, c, h, w] over windows; the window's extents come from an uninitialised global."""
    out = (size + 2 * border - kernel) // stride + 1
    x, y, window = (
        f"memref<2x3x{size}x{size}xf32>",
        f"memref<2x3x{out}x{out}xf32>",
        f"memref<{kernel}x{kernel}xf32>",
    )
    lines = [*(f"%d{d} = linalg.index {d} : index" for d in range(6))]
    lines += [f"%stride = arith.constant {stride} : index", f"%off = arith.constant {border} : index"]
    for value, at, tap in (("%r", 2, 4), ("%q", 3, 5)):
        lines += [
            f"{value}0 = arith.muli %d{at}, %stride : index",
            f"{value}1 = arith.addi {value}0, %d{tap} : index",
            f"{value} = arith.subi {value}1, %off : index",
        ]
    lines += [f"%pad = arith.constant {pad} : f32", padded_load("%x", x, ["%d0", "%d1", "%r", "%q"], "%pad")]
    lines += [f"%s = arith.{name} %o0, %v : f32", "linalg.yield %s : f32"]
    body = fill(init, "%y", y) + f"%win = memref.get_global @window : {window}\n"
    body += generic(
        "n:p c:p h:p w:p i:r j:r", [("%win", "i, j", window)], [("%y", "n, c, h, w", y)], "\n".join(lines)
    )
    return module(
        body,
        inputs={"x": x},
        outputs={"y": y},
        functions=f'memref.global "private" @window : {window} = uninitialized\n',
    )


@pytest.mark.parametrize("size", [8, 9])
@pytest.mark.parametrize(("kernel", "stride", "border"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 1, 2)])
@pytest.mark.parametrize(
    ("name", "init", "pad", "number", "ufunc"),
    [
        ("maximumf", "0xFF800000", "0xFF800000", -np.inf, np.maximum),
        ("addf", "0.0", "0.0", 0.0, np.add),
        ("addf", "0.0", "1.5", 1.5, np.add),
        ("maximumf", "0.5", "0.25", 0.25, np.maximum),
    ],
)
def test_pooling(
    name: str,
    init: str,
    pad: str,
    number: float,
    ufunc: np.ufunc,
    kernel: int,
    stride: int,
    border: int,
    size: int,
) -> None:
    x = normal(2, 3, size, size)
    x[0, 0, 3, 4] = np.nan
    wide = np.pad(x, ((0, 0), (0, 0), (border, border), (border, border)), constant_values=number)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), axis=(2, 3))[
        :, :, ::stride, ::stride
    ]
    want = ufunc.reduce(windows, axis=(4, 5))
    if init == "0.5":
        want = np.maximum(want, 0.5)
    got = run(pool_module(name, init, pad, size, kernel, stride, border), {"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_largest_element_and_its_position() -> None:
    """Two results folded together (argmax): no single associative operation, but no scalar loop either."""
    x, best, at = "memref<4x9xf32>", "memref<4xf32>", "memref<4xi64>"
    body = fill("0xFF800000", "%v", best) + fill("0", "%p", at)
    body += generic(
        "m:p k:r",
        [("%x", "m, k", x)],
        [("%v", "m", best), ("%p", "m", at)],
        "%k = linalg.index 1 : index\n%j = arith.index_cast %k : index to i64\n%more = arith.cmpf ogt, %i0, %o0 : f32\n"
        "%a = arith.select %more, %i0, %o0 : f32\n"
        "%b = arith.select %more, %j, %o1 : i64\nlinalg.yield %a, %b : f32, i64",
    )
    data = normal(4, 9)
    got = run(module(body, inputs={"x": x}, outputs={"v": best, "p": at}), {"x": data})
    np.testing.assert_array_equal(got["v"], data.max(1))
    np.testing.assert_array_equal(got["p"], data.argmax(1))


def test_running_sum_in_order() -> None:
    """An output that every point writes at a shifted place meets itself: executed point by point, in order."""
    x, y = "memref<6xf32>", "memref<8xf32>"
    body = fill("0.0", "%y", y)
    body += generic(
        "m:p k:p", [("%x", "m", x), ("%w", "k", "memref<3xf32>")], [("%y", "m + k", y)], MULTIPLY_ADD
    )
    data, taps = normal(6), normal(3)
    got = run(module(body, inputs={"x": x, "w": "memref<3xf32>"}, outputs={"y": y}), {"x": data, "w": taps})[
        "y"
    ]
    np.testing.assert_allclose(got, np.convolve(data, taps), rtol=1e-5)


def test_a_long_recurrence_is_a_counted_scalar_loop() -> None:
    """acc = 0.5 acc + x over 20000 elements has no whole-array form."""
    x = "memref<20000xf32>"
    body = fill("1.0", "%y", "memref<f32>")
    body += generic(
        "k:r",
        [("%x", "k", x)],
        [("%y", "", "memref<f32>")],
        "%h = arith.constant 0.5 : f32\n%a = arith.mulf %o0, %h : f32\n"
        "%b = arith.addf %a, %i0 : f32\nlinalg.yield %b : f32",
    )
    data = normal(20000)
    want = np.float32(1)
    for value in data:
        want = want * np.float32(0.5) + value
    text = module(body, inputs={"x": x}, outputs={"y": "memref<f32>"})
    assert run(text, {"x": data}, scalar_loops=1)["y"] == want


def recognized(text: str) -> list[Structured]:
    return [recognize(op) for op in parse_module(text, make_context()).walk() if is_structured(op)]


def test_the_recogniser_tells_kinds_apart() -> None:
    product = recognized(einsum_module("mk,kn->mn", {"m": 2, "k": 3, "n": 4}, "0.0"))[-1]
    assert product.extents == (2, 3, 4) and product.reductions == {1}
    assert as_contraction(product) is not None
    maximum = recognized(reduction_module("maximumf", "0.0", "f32", "b", (2, 3)))[-1]
    reduction = as_reduction(maximum, 0)
    assert reduction is not None and reduction.op == "arith.maximumf" and as_contraction(maximum) is None
    padded = recognized(conv_module(1, 2, 2, 5, 3, 1, 1))[-1]
    found = as_contraction(padded)
    assert found is not None
    bounds = found.left.bounds
    # 0 <= h + i - 1 < 5 and 0 <= w + j - 1 < 5, written without constants in the expression.
    assert [(b.expr.coefficients, b.low, b.high) for b in bounds] == [
        ((0, 0, 0, 1, 0, 0, 1, 0), 1, 6),
        ((0, 0, 0, 0, 1, 0, 0, 1), 1, 6),
    ]


def test_named_operations() -> None:
    """`linalg.matmul`, `linalg.transpose`, `linalg.broadcast`, `linalg.add` and `linalg.reduce`."""
    a, b, t, v = "memref<3x4xf32>", "memref<4x5xf32>", "memref<5x3xf32>", "memref<5xf32>"
    body = fill("0.0", "%p", "memref<3x5xf32>")
    body += f"linalg.matmul ins(%x, %w : {a}, {b}) outs(%p : memref<3x5xf32>)\n"
    body += f"linalg.transpose ins(%p : memref<3x5xf32>) outs(%t : {t}) permutation = [1, 0]\n"
    body += f"linalg.broadcast ins(%u : {v}) outs(%c : {t}) dimensions = [1]\n"
    body += f"linalg.add ins(%t, %c : {t}, {t}) outs(%s : {t})\n"
    body += fill("0.0", "%r", v)
    body += f"linalg.reduce ins(%s : {t}) outs(%r : {v}) dimensions = [1]\n"
    body += "(%e: f32, %acc: f32) {\n%q = arith.addf %e, %acc : f32\nlinalg.yield %q : f32\n}"
    text = module(
        body,
        inputs={"x": a, "w": b, "u": v},
        outputs={"p": "memref<3x5xf32>", "t": t, "c": t, "s": t, "r": v},
    )
    x, w, u = normal(3, 4), normal(4, 5), normal(5)
    got = run(text, {"x": x, "w": w, "u": u})
    want = (x @ w).T + u[:, None]
    np.testing.assert_allclose(got["s"], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got["r"], want.sum(1), rtol=1e-5, atol=1e-5)
