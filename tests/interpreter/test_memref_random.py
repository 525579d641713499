"""Random structured ops: whole-array execution against the scalar reference of the test suite, point by point."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, load, module
from tests.memref_reference import run_memref

NAMES = ("a", "b", "c", "d", "e")


def shape_type(shape: list[int], kind: str) -> str:
    return f"memref<{''.join(f'{n}x' for n in shape)}{kind}>"


@st.composite
def windows(draw: st.DrawFn, extents: list[int]) -> tuple[str, list[int]]:
    """An index of up to three axes, each a sum of up to two scaled dimensions and an offset, and a shape that fits."""
    index: list[str] = []
    shape: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        dims = draw(st.lists(st.integers(0, len(extents) - 1), min_size=1, max_size=2, unique=True))
        steps = [draw(st.integers(1, 2)) for _ in dims]
        offset = draw(st.integers(0, 1))
        terms = [f"{step} * {NAMES[dim]}" for dim, step in zip(dims, steps, strict=True)]
        reach = sum(step * (extents[dim] - 1) for dim, step in zip(dims, steps, strict=True))
        plain = len(dims) == 1 and steps == [1] and not offset
        index.append(NAMES[dims[0]] if plain else " + ".join([*terms, str(offset)]))
        shape.append(extents[dims[0]] if plain else reach + offset + 1 + draw(st.integers(0, 1)))
    return ", ".join(index), shape


@st.composite
def reductions(draw: st.DrawFn) -> tuple[str, dict[str, np.ndarray]]:
    """A fill or a copy, then an op with reductions, on integers (so that the order of sums does not matter)."""
    rank = draw(st.integers(1, 4))
    extents = [draw(st.integers(1, 4)) for _ in range(rank)]
    reduced = [draw(st.booleans()) for _ in range(rank)]
    kept = draw(st.permutations([d for d in range(rank) if not reduced[d]]))
    out_shape = [extents[d] for d in kept]
    operands: list[tuple[str, str, str]] = []
    inputs = {"bound": shape_type(extents, "i64")}
    arrays = {"bound": np.zeros(extents, np.int64)}
    for position in range(draw(st.integers(1, 2))):
        index, shape = draw(windows(extents))
        inputs[f"x{position}"] = shape_type(shape, "i64")
        values = np.arange(int(np.prod(shape))) * 7 % 11 - 4
        arrays[f"x{position}"] = values.reshape(shape).astype(np.int64)
        operands.append((f"%x{position}", index, inputs[f"x{position}"]))
    element = "%i0"
    lines: list[str] = []
    for step, name in enumerate(draw(st.lists(st.sampled_from(["muli", "subi", "maxsi"]), max_size=2))):
        other = draw(st.sampled_from([f"%i{n}" for n in range(len(operands))]))
        lines.append(f"%t{step} = arith.{name} {element}, {other} : i64")
        element = f"%t{step}"
    fold = draw(st.sampled_from(["addi", "addi", "maxsi", "minsi", "xori", "subi"]))
    sides = draw(st.permutations(["%acc", element])) if fold != "subi" else ["%acc", element]
    acc = "%o0"
    lines += [f"%r = arith.{fold} {', '.join(sides)} : i64".replace("%acc", acc), "linalg.yield %r : i64"]
    out = shape_type(out_shape, "i64")
    if draw(st.booleans()):
        number = draw(st.sampled_from([0, 3, -9]))
        text = f"%f = arith.constant {number} : i64\nlinalg.fill ins(%f : i64) outs(%y : {out})\n"
    else:
        inputs["init"] = out
        arrays["init"] = np.arange(int(np.prod(out_shape))).reshape(out_shape).astype(np.int64)
        text = f"memref.copy %init, %y : {out} to {out}\n"
    bound = ("%bound", ", ".join(NAMES[:rank]), inputs["bound"])
    # The last input bounds the dimensions; the body ignores it.
    iterators = " ".join(f"{NAMES[d]}:{'r' if reduced[d] else 'p'}" for d in range(rank))
    text += generic(
        iterators, [*operands, bound], [("%y", ", ".join(NAMES[d] for d in kept), out)], "\n".join(lines)
    )
    return module(text, inputs=inputs, outputs={"y": out}), arrays


@settings(max_examples=60, deadline=None)
@given(reductions())
def test_random_reductions(case: tuple[str, dict[str, np.ndarray]]) -> None:
    text, arrays = case
    parsed = parse_module(text, make_context())
    want = run_memref(parsed, arrays)["y"]
    np.testing.assert_array_equal(load(text).run(arrays)["y"], want)
    (main,) = parsed.ops
    need = NumpyTarget().scratch_need(main)
    assert 0 <= need.minimum <= need.preferred


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 3), st.booleans())
def test_buffers_at_any_offsets(first: int, second: int, rows: int, transposed: bool) -> None:
    """b = f(a) with a and b anywhere in one arena: an op reads all its operands before it writes."""
    t, size = f"memref<{rows}x{rows}xf32>", 4 * rows * rows
    arena = 4 * 12 + size
    read = "n, m" if transposed else "m, n"
    body = f"%p = arith.constant {4 * first} : index\n%q = arith.constant {4 * second} : index\n"
    body += f"%a = memref.view %arena[%p][] : memref<{arena}xi8> to {t}\n"
    body += f"%b = memref.view %arena[%q][] : memref<{arena}xi8> to {t}\nmemref.copy %x, %a : {t} to {t}\n"
    square = "%r = arith.mulf %i0, %i0 : f32\n%s = arith.addf %r, %i0 : f32\nlinalg.yield %s : f32"
    body += generic("m:p n:p", [("%a", read, t)], [("%b", "m, n", t)], square)
    body += f"\nmemref.copy %a, %y : {t} to {t}\nmemref.copy %b, %z : {t} to {t}"
    text = module(body, inputs={"x": t}, outputs={"y": t, "z": t}, arena=arena)
    x = np.arange(1, rows * rows + 1, dtype=np.float32).reshape(rows, rows)
    memory = np.zeros(arena // 4, np.float32)
    a, b = memory[first : first + rows * rows], memory[second : second + rows * rows]
    a[:] = x.ravel()
    source = a.reshape(rows, rows).T if transposed else a.reshape(rows, rows)
    b[:] = (source * source + source).ravel()
    got = load(text).run({"x": x})
    np.testing.assert_array_equal(got["y"].ravel(), a)
    np.testing.assert_array_equal(got["z"].ravel(), b)
