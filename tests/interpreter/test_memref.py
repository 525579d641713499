"""The engine as a session: it executes the IR as printed, checks its interface, and allocates nothing."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

from mlopt.diagnostics import InputError, MloptError, RunError, UnsupportedError, VerifyFailure
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, load, module, run

T = "memref<4x8xf32>"
X = np.arange(32, dtype=np.float32).reshape(4, 8)
W = X[::-1].copy() + 0.5

SUB = generic(
    "m:p n:p",
    [("%A", "m, n", T), ("%B", "m, n", T)],
    [("%O", "m, n", T)],
    "%r = arith.subf %i0, %i1 : f32\nlinalg.yield %r : f32",
)
FUNCTIONS = f"""
func.func private @sub(%A: {T}, %B: {T}, %O: {T}) {{
{SUB}
return
}}
"""


def three_calls(first: int = 0, second: int = 128, operands: str = "%x, %w") -> str:
    """a = x - w; b = a - x; y = a - b, with a and b in the arena at these offsets."""
    signature = f"({T}, {T}, {T}) -> ()"
    body = f"""
%c0 = arith.constant {first} : index
%c1 = arith.constant {second} : index
%a = memref.view %arena[%c0][] : memref<512xi8> to {T}
%b = memref.view %arena[%c1][] : memref<512xi8> to {T}
func.call @sub({operands}, %a) : {signature}
func.call @sub(%a, %x, %b) : {signature}
func.call @sub(%a, %b, %y) : {signature}
"""
    return module(body, inputs={"x": T, "w": T}, outputs={"y": T}, arena=512, functions=FUNCTIONS)


def test_calls_and_views() -> None:
    got = run(three_calls(), {"x": X, "w": W})["y"]
    np.testing.assert_array_equal(got, (X - W) - ((X - W) - X))


def test_swapped_operands_change_the_result() -> None:
    got = run(three_calls(operands="%w, %x"), {"x": X, "w": W})["y"]
    np.testing.assert_array_equal(got, (W - X) - ((W - X) - X))


@pytest.mark.parametrize("shift", [0, 32, 64, 4, 124])
def test_overlapping_buffers_change_the_result_as_the_text_says(shift: int) -> None:
    """With b on top of a, the second call overwrites the last 32 - shift/4 elements of a that the third one reads."""
    got = run(three_calls(second=shift), {"x": X, "w": W})["y"]
    memory = np.zeros(64, np.float32)
    memory[:32] = (X - W).ravel()
    b = memory[:32] - X.ravel()
    at = shift // 4
    memory[at : at + 32] = b
    np.testing.assert_array_equal(got.ravel(), memory[:32] - memory[at : at + 32])


def test_a_changed_body_changes_the_result() -> None:
    text = three_calls().replace("arith.subf %i0, %i1", "arith.subf %i1, %i0")
    got = run(text, {"x": X, "w": W})["y"]
    a = W - X
    np.testing.assert_array_equal(got, (X - a) - a)


def test_unaligned_buffers() -> None:
    got = run(three_calls(first=3, second=133), {"x": X, "w": W})["y"]
    np.testing.assert_array_equal(got, (X - W) - ((X - W) - X))


# Memory


def test_a_view_outside_the_arena_is_an_error_with_its_place() -> None:
    with pytest.raises(
        VerifyFailure, match=r"'memref.view' takes the bytes 400 to 528 of the arena, which has 512"
    ) as e:
        load(three_calls(second=400))
    assert e.value.place is not None and e.value.place.line == 6


@pytest.mark.parametrize("target", ["%x", "%g"])
def test_writing_to_what_is_read_only_is_an_error(target: str) -> None:
    functions = f'memref.global "private" constant @g : {T} = dense<1.0>\n'
    body = f"%g = memref.get_global @g : {T}\n%z = arith.constant 0.0 : f32\n"
    body += f"linalg.fill ins(%z : f32) outs({target} : {T})"
    with pytest.raises(VerifyFailure, match="read-only"):
        load(module(body, inputs={"x": T}, functions=functions))


def chain_module(arena: int, offsets: tuple[int, int]) -> str:
    """Four steps through two buffers, with a workspace: what is dead may be anything."""
    big = f"memref<{arena}xi8>"
    ws = "memref<1024xi8>"
    square = "%r = arith.mulf %i0, %i0 : f32\nlinalg.yield %r : f32"
    difference = "%r = arith.subf %i0, %i1 : f32\nlinalg.yield %r : f32"
    functions = f"""
func.func private @step(%A: {T}, %O: {T}, %ws: {ws} {{mlopt.workspace}}) {{
%c0 = arith.constant 0 : index
%t = memref.view %ws[%c0][] : {ws} to {T}
{generic("m:p n:p", [("%A", "m, n", T)], [("%t", "m, n", T)], square)}
{generic("m:p n:p", [("%A", "m, n", T), ("%t", "m, n", T)], [("%O", "m, n", T)], difference)}
return
}}
"""
    body = "\n".join(f"%c{n} = arith.constant {v} : index" for n, v in enumerate((*offsets, 256)))
    body += f"""
%a = memref.view %arena[%c0][] : {big} to {T}
%b = memref.view %arena[%c1][] : {big} to {T}
%ws = memref.view %arena[%c2][] {{mlopt.workspace}} : {big} to {ws}
"""
    for source, target in (("%x", "%a"), ("%a", "%b"), ("%b", "%a"), ("%a", "%y")):
        body += f"func.call @step({source}, {target}, %ws) : ({T}, {T}, {ws}) -> ()\n"
    return module(body, inputs={"x": T}, outputs={"y": T}, arena=arena, functions=functions)


def test_poison_changes_nothing_in_a_correct_module() -> None:
    want = X / 32
    for _ in range(4):
        want = want - want * want
    for poison in (False, True):
        executable = load(chain_module(1280, (0, 128)), poison=poison)
        for _ in range(2):
            np.testing.assert_array_equal(executable.run({"x": X / 32})["y"], want)


def test_poison_shows_a_read_of_dead_memory() -> None:
    """The last call reads %b, which the third call was the last to use, through a view of its own."""
    text = chain_module(1280, (0, 128))
    lines = text.splitlines()
    last = max(n for n, line in enumerate(lines) if "@step(%a, %y" in line)
    lines[last] = lines[last].replace("%a", "%late")
    lines.insert(last, f"%late = memref.view %arena[%c1][] : memref<1280xi8> to {T}")
    text = "\n".join(lines)
    assert np.isfinite(load(text).run({"x": X / 32})["y"]).all()
    assert np.isnan(load(text, poison=True).run({"x": X / 32})["y"]).all()


def wide_module(size: int, workspace: bool) -> str:
    """Two whole-array steps with temporaries, of 64 x 4096 elements, in one function."""
    t, ws = "memref<64x4096xf32>", f"memref<{size}xi8>"
    gelu = (
        "%k = arith.constant 0.70710678 : f32\n%a = arith.mulf %i0, %k : f32\n%b = math.erf %a : f32\n"
        "%one = arith.constant 1.0 : f32\n%c = arith.addf %b, %one : f32\n%d = arith.mulf %c, %i0 : f32\n"
        "%half = arith.constant 0.5 : f32\n%e = arith.mulf %d, %half : f32\nlinalg.yield %e : f32"
    )
    body = generic("m:p n:p", [("%A", "m, n", t)], [("%O", "m, n", t)], gelu)
    argument = f", %ws: {ws} {{mlopt.workspace}}" if workspace else ""
    functions = f"func.func private @gelu(%A: {t}, %O: {t}{argument}) {{\n{body}\nreturn\n}}\n"
    call = (
        f"%c = arith.constant 0 : index\n%ws = memref.view %arena[%c][] {{mlopt.workspace}} : {ws} to {ws}\n"
        if workspace
        else ""
    )
    operand, type_ = (", %ws", f", {ws}") if workspace else ("", "")
    call += f"func.call @gelu(%x, %y{operand}) : ({t}, {t}{type_}) -> ()"
    return module(
        call, inputs={"x": t}, outputs={"y": t}, arena=size if workspace else 0, functions=functions
    )


def need_of(text: str, name: str) -> tuple[int, int]:
    for op in parse_module(text, make_context()).ops:
        if getattr(op, "sym_name", None) is not None and op.sym_name.data == name:
            need = NumpyTarget().scratch_need(op)
            return need.minimum, need.preferred
    raise AssertionError(name)


def test_scratch_comes_from_the_workspace_and_never_changes_the_result() -> None:
    minimum, preferred = need_of(wide_module(64, True), "gelu")
    assert 0 < minimum < preferred < 1 << 20
    x = np.random.default_rng(0).standard_normal((64, 4096)).astype(np.float32)
    want = load(wide_module(0, False)).run({"x": x})["y"]
    for size in (minimum, (minimum + preferred) // 2 // 64 * 64, preferred, 4 * preferred):
        executable = load(wide_module(size, True))
        assert executable.engine_scratch_bytes == 0
        np.testing.assert_array_equal(executable.run({"x": x})["y"], want)


@pytest.mark.parametrize("size", [0, 64, 4096])
def test_a_missing_or_small_workspace_is_made_up_for_and_counted(size: int) -> None:
    executable = load(wide_module(size, bool(size)))
    assert executable.engine_scratch_bytes > 0
    assert np.isfinite(executable.run({"x": np.ones((64, 4096), np.float32)})["y"]).all()


def test_allocations_live_in_the_session() -> None:
    body = (
        f"%a = memref.alloc() : {T}\nmemref.copy %x, %a : {T} to {T}\n"
        f"memref.copy %a, %y : {T} to {T}\nmemref.dealloc %a : {T}"
    )
    executable = load(module(body, inputs={"x": T}, outputs={"y": T}))
    assert (executable.alloc_bytes, executable.engine_scratch_bytes) == (128, 0)
    np.testing.assert_array_equal(executable.run({"x": X})["y"], X)


def traced_peak(
    text: str, inputs: dict[str, np.ndarray], weights: dict[str, np.ndarray] | None = None
) -> int:
    executable = load(text, weights or {})
    out = {spec.name: np.empty(spec.shape, spec.dtype) for spec in executable.outputs}
    for _ in range(3):
        executable.run(inputs, out)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        executable.run(inputs, out)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_a_run_allocates_nothing_elementwise() -> None:
    assert traced_peak(wide_module(0, False), {"x": np.ones((64, 4096), np.float32)}) <= 16 << 10


BIG = "memref<256x512xf32>"
BODIES = {
    "bias": generic(
        "m:p n:p",
        [("%x", "m, n", BIG), ("%b", "n", "memref<512xf32>")],
        [("%y", "m, n", BIG)],
        "%r = arith.addf %i0, %i1 : f32\nlinalg.yield %r : f32",
    ),
    "transposed": generic(
        "m:p n:p",
        [("%z", "n, m", "memref<512x256xf32>")],
        [("%y", "m, n", BIG)],
        "%r = math.exp %i0 : f32\nlinalg.yield %r : f32",
    ),
    "casts": generic(
        "m:p n:p",
        [("%h", "m, n", "memref<256x512xf16>")],
        [("%y", "m, n", BIG)],
        "%r = arith.extf %i0 : f16 to f32\n%s = math.tanh %r : f32\nlinalg.yield %s : f32",
    ),
    "compare": generic(
        "m:p n:p",
        [("%x", "m, n", BIG)],
        [("%y", "m, n", BIG)],
        "%z0 = arith.constant 0.5 : f32\n%c = arith.cmpf ogt, %i0, %z0 : f32\n"
        "%r = arith.select %c, %i0, %z0 : f32\nlinalg.yield %r : f32",
    ),
    "gather": generic(
        "m:p n:p",
        [("%ids", "m", "memref<256xi32>")],
        [("%y", "m, n", BIG)],
        "%n = linalg.index 1 : index\n%k = arith.index_cast %i0 : i32 to index\n"
        f"%v = memref.load %x[%k, %n] : {BIG}\nlinalg.yield %v : f32",
    ),
    "softmax": "%low = arith.constant 0xFF800000 : f32\nlinalg.fill ins(%low : f32) outs(%rows : memref<256xf32>)\n"
    + generic(
        "m:p n:r",
        [("%x", "m, n", BIG)],
        [("%rows", "m", "memref<256xf32>")],
        "%s = arith.maximumf %o0, %i0 : f32\nlinalg.yield %s : f32",
    )
    + "\n"
    + generic(
        "m:p n:p",
        [("%x", "m, n", BIG), ("%rows", "m", "memref<256xf32>")],
        [("%y", "m, n", BIG)],
        "%s = arith.subf %i0, %i1 : f32\n%e = math.exp %s : f32\nlinalg.yield %e : f32",
    ),
    "matmul": "%low = arith.constant 0.0 : f32\nlinalg.fill ins(%low : f32) outs(%y : memref<256x512xf32>)\n"
    # No unit stride in the left factor: numpy would copy it where tracemalloc does not look.
    + generic(
        "m:p n:p k:r",
        [("%x", "m, 2 * k", BIG), ("%x", "k, n", BIG)],
        [("%y", "m, n", BIG)],
        "%p = arith.mulf %i0, %i1 : f32\n%s = arith.addf %o0, %p : f32\nlinalg.yield %s : f32",
    ),
    "while": """%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%ten = arith.constant 10 : i32
%n = scf.while (%i = %zero) : (i32) -> i32 {
  %go = arith.cmpi slt, %i, %ten : i32
  scf.condition(%go) %i : i32
} do {
^bb0(%i: i32):
  linalg.exp ins(%x : memref<256x512xf32>) outs(%y : memref<256x512xf32>)
  %j = arith.addi %i, %one : i32
  scf.yield %j : i32
}""",
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_run_allocates_nothing(name: str) -> None:
    rng = np.random.default_rng(4)
    types = {
        "x": BIG,
        "b": "memref<512xf32>",
        "z": "memref<512x256xf32>",
        "h": "memref<256x512xf16>",
        "ids": "memref<256xi32>",
    }
    arrays = {
        "x": rng.standard_normal((256, 512)).astype(np.float32),
        "b": rng.standard_normal(512).astype(np.float32),
        "z": rng.standard_normal((512, 256)).astype(np.float32),
        "h": rng.standard_normal((256, 512)).astype(np.float16),
        "ids": rng.integers(0, 256, 256).astype(np.int32),
    }
    text = module(BODIES[name], inputs=types, outputs={"y": BIG, "rows": "memref<256xf32>"})
    assert traced_peak(text, arrays) <= 16 << 10


def test_every_matrix_handed_to_blas_has_a_unit_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy copies other operands with malloc, which tracemalloc does not see; so look at the arrays themselves."""
    seen: list[tuple[np.ndarray, ...]] = []
    matmul = np.matmul

    def spy(*args: np.ndarray) -> np.ndarray:
        seen.append(args)
        return matmul(*args)

    monkeypatch.setattr(np, "matmul", spy)
    run(
        module(BODIES["matmul"], inputs={"x": BIG}, outputs={"y": BIG}),
        {"x": np.ones((256, 512), np.float32)},
    )
    assert seen
    for arrays in seen:
        assert len(arrays) == 3
        for array in arrays:
            row, column = array.strides[-2:]
            assert (column == 4 and row >= 4 * array.shape[-1]) or (
                row == 4 and column >= 4 * array.shape[-2]
            )


# Interface


INTERFACE = module(
    generic(
        "m:p n:p",
        [("%x", "m, n", T)],
        [("%y", "m, n", T)],
        "%r = arith.negf %i0 : f32\nlinalg.yield %r : f32",
    ),
    inputs={"x": T},
    outputs={"y": T},
)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, 'input "x" is missing; found none'),
        ({"x": X, "z": X}, 'there is no input "z"; expected "x"'),
        ({"x": X[:2]}, 'input "x" has the shape [2, 8], expected [4, 8]'),
        ({"x": X.astype(np.float64)}, 'input "x" has the type float64, expected float32'),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError) as error:
        load(INTERFACE).run(inputs)
    assert error.value.message == message


def test_outputs_that_do_not_fit() -> None:
    executable = load(INTERFACE)
    frozen = np.empty_like(X)
    frozen.flags.writeable = False
    x = X.copy()
    for out in (
        {"z": X.copy()},
        {"y": X[:2].copy()},
        {"y": X.astype(int)},
        {"y": np.empty((8, 4), "f4").T},
        {"y": frozen},
        {"y": x},
    ):
        with pytest.raises(InputError):
            executable.run({"x": x}, out)


def test_inputs_are_copied_where_needed_and_never_changed() -> None:
    executable = load(INTERFACE)
    raw = np.zeros(4 * 32 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(4, 8)
    misaligned[:] = X
    for x in (X, X.astype(">f4"), np.asfortranarray(X), misaligned, np.broadcast_to(np.float32(3), (4, 8))):
        before = x.copy()
        got = executable.run({"x": x})["y"]
        np.testing.assert_array_equal(got, -x.astype(np.float32))
        np.testing.assert_array_equal(x, before)


def test_outputs_are_fresh_or_the_callers() -> None:
    executable = load(INTERFACE)
    first, second = executable.run({"x": X})["y"], executable.run({"x": X + 1})["y"]
    np.testing.assert_array_equal(first, -X)
    np.testing.assert_array_equal(second, -(X + 1))
    mine = np.empty_like(X)
    assert executable.run({"x": X}, {"y": mine})["y"] is mine
    np.testing.assert_array_equal(mine, -X)


def test_unsigned_interface() -> None:
    t = "memref<3xi8>"
    body = generic(
        "m:p",
        [("%x", "m", t)],
        [("%y", "m", t)],
        "%o = arith.constant 2 : i8\n%r = arith.divui %i0, %o : i8\nlinalg.yield %r : i8",
    )
    text = module(body, inputs={"x": t}, outputs={"y": t}, dtypes={"x": "uint8", "y": "uint8"})
    executable = load(text)
    assert executable.inputs[0].dtype == np.uint8
    got = executable.run({"x": np.uint8([200, 3, 255])})["y"]
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, [100, 1, 127])


def test_a_second_run_at_the_same_time_is_an_error() -> None:
    executable = load(INTERFACE)
    held = threading.Event()
    go_on = threading.Event()

    def wait() -> None:
        held.set()
        go_on.wait(5)

    executable._plan.insert(0, wait)  # pyright: ignore[reportPrivateUsage]
    runner = threading.Thread(target=executable.run, args=({"x": X},))
    runner.start()
    assert held.wait(5)
    with pytest.raises(RunError, match="already running"):
        executable.run({"x": X})
    go_on.set()
    runner.join()
    np.testing.assert_array_equal(executable.run({"x": X})["y"], -X)


def test_the_buffer_size_of_numpy_is_restored() -> None:
    before = np.getbufsize()
    load(INTERFACE).run({"x": X})
    assert np.getbufsize() == before


def test_missing_and_wrong_weights() -> None:
    text = module(f"memref.copy %w, %y : {T} to {T}", weights={"w": T}, outputs={"y": T})
    with pytest.raises(VerifyFailure, match='there is no weight "w"'):
        load(text)
    with pytest.raises(VerifyFailure, match=r'weight "w" is float32\[8\], expected memref<4x8xf32>'):
        load(text, {"w": np.zeros(8, np.float32)})


# Control flow


def loop_module(body: str, **kwargs: object) -> str:
    return module(body, inputs={"x": T, "n": "memref<i64>"}, outputs={"y": T}, **kwargs)


ADD_TO_Y = generic(
    "m:p n:p",
    [("%x", "m, n", T)],
    [("%y", "m, n", T)],
    "%r = arith.addf %o0, %i0 : f32\nlinalg.yield %r : f32",
)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_for_with_trips_known_at_run_time(trips: int) -> None:
    body = "%z = arith.constant 0.0 : f32\nlinalg.fill ins(%z : f32) outs(%y : memref<4x8xf32>)\n"
    body += "%t = memref.load %n[] : memref<i64>\n%last = arith.index_cast %t : i64 to index\n"
    body += "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
    body += f"scf.for %i = %c0 to %last step %c1 {{\n{ADD_TO_Y}\n}}"
    np.testing.assert_array_equal(run(loop_module(body), {"x": X, "n": np.array(trips)})["y"], X * trips)


@pytest.mark.parametrize("known", [True, False])
def test_for_over_slices_at_moving_offsets(known: bool) -> None:
    """y[3 - i] = x[i] * (i + 1), a row per iteration."""
    row = "memref<1x8xf32, strided<[8, 1], offset: ?>>"
    body = (
        "%t = memref.load %n[] : memref<i64>\n"
        "%run = arith.index_cast %t : i64 to index\n%c4 = arith.constant 4 : index\n"
    )
    body += "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c3 = arith.constant 3 : index\n"
    body += f"scf.for %i = %c0 to {'%c4' if known else '%run'} step %c1 {{\n"
    body += "%j = arith.subi %c3, %i : index\n"
    body += (
        f"%from = memref.subview %x[%i, 0] [1, 8] [1, 1] : {T} to {row}\n"
        f"%to = memref.subview %y[%j, 0] [1, 8] [1, 1] : {T} to {row}\n"
    )
    body += (
        "%k = arith.addi %i, %c1 : index\n%m = arith.index_cast %k : index to i32\n"
        "%f = arith.sitofp %m : i32 to f32\n"
    )
    body += generic(
        "a:p b:p",
        [("%from", "a, b", row), ("%f", "", "f32")],
        [("%to", "a, b", row)],
        "%r = arith.mulf %i0, %i1 : f32\nlinalg.yield %r : f32",
    )
    got = run(loop_module(body + "\n}"), {"x": X, "n": np.array(4)})["y"]
    np.testing.assert_array_equal(got, (X * np.arange(1, 5)[:, None])[::-1])


def test_an_index_out_of_bounds_at_run_time_is_an_error_with_its_place() -> None:
    body = (
        "%t = memref.load %n[] : memref<i64>\n"
        "%i = arith.index_cast %t : i64 to index\n%c0 = arith.constant 0 : index\n"
    )
    body += f"%v = memref.load %x[%i, %c0] : {T}\nmemref.store %v, %y[%c0, %c0] : {T}"
    executable = load(loop_module(body))
    assert executable.run({"x": X, "n": np.array(2)})["y"][0, 0] == X[2, 0]
    with pytest.raises(RunError, match="index 4 is out of bounds, expected 0 to 3") as error:
        executable.run({"x": X, "n": np.array(4)})
    assert error.value.place is not None and error.value.place.line == 5


def test_a_carried_tensor_in_buffers_that_swap() -> None:
    """acc = 0.5 acc + x, n times; two buffers change places with every iteration, and a counter is carried too."""
    step = generic(
        "m:p n:p",
        [("%src", "m, n", T), ("%x", "m, n", T)],
        [("%dst", "m, n", T)],
        "%h = arith.constant 0.5 : f32\n%u = arith.mulf %i0, %h : f32\n"
        "%v = arith.addf %u, %i1 : f32\nlinalg.yield %v : f32",
    )
    body = f"""
%c0 = arith.constant 0 : index
%c128 = arith.constant 128 : index
%a = memref.view %arena[%c0][] : memref<256xi8> to {T}
%b = memref.view %arena[%c128][] : memref<256xi8> to {T}
memref.copy %x, %a : {T} to {T}
%limit = memref.load %n[] : memref<i64>
%zero = arith.constant 0 : i64
%one = arith.constant 1 : i64
%r:3 = scf.while (%i = %zero, %src = %a, %dst = %b) : (i64, {T}, {T}) -> (i64, {T}, {T}) {{
  %go = arith.cmpi slt, %i, %limit : i64
  scf.condition(%go) %i, %src, %dst : i64, {T}, {T}
}} do {{
^bb0(%i: i64, %src: {T}, %dst: {T}):
{step}
  %j = arith.addi %i, %one : i64
  scf.yield %j, %dst, %src : i64, {T}, {T}
}}
memref.copy %r#1, %y : {T} to {T}
"""
    executable = load(loop_module(body, arena=256))
    for trips in (0, 1, 2, 5):
        want = X
        for _ in range(trips):
            want = want * np.float32(0.5) + X
        np.testing.assert_array_equal(executable.run({"x": X, "n": np.array(trips)})["y"], want)


@pytest.mark.parametrize("unrolled", [True, False])
def test_for_carries_scalars_and_buffers(unrolled: bool) -> None:
    """Fibonacci in two carried scalars; the carried buffers swap and are read after the loop."""
    add = generic(
        "m:p n:p",
        [("%s", "m, n", T)],
        [("%d", "m, n", T)],
        "%r = arith.addf %o0, %i0 : f32\nlinalg.yield %r : f32",
    )
    body = f"""
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c128 = arith.constant 128 : index
%a = memref.view %arena[%c0][] : memref<256xi8> to {T}
%b = memref.view %arena[%c128][] : memref<256xi8> to {T}
memref.copy %x, %a : {T} to {T}
memref.copy %x, %b : {T} to {T}
%t = memref.load %n[] : memref<i64>
%run = arith.index_cast %t : i64 to index
%known = arith.constant 5 : index
%f0 = arith.constant 0.0 : f32
%f1 = arith.constant 1.0 : f32
%r:4 = scf.for %i = %c0 to {"%known" if unrolled else "%run"} step %c1
    iter_args(%p = %f0, %q = %f1, %s = %a, %d = %b) -> (f32, f32, {T}, {T}) {{
{add}
%sum = arith.addf %p, %q : f32
scf.yield %q, %sum, %d, %s : f32, f32, {T}, {T}
}}
memref.copy %r#2, %y : {T} to {T}
memref.store %r#0, %y[%c0, %c0] : {T}
"""
    got = run(loop_module(body, arena=256), {"x": X, "n": np.array(5)})["y"]
    s, d, p, q = X, X, 0, 1
    for _ in range(5):
        s, d, p, q = d + s, s, q, p + q
    want = s.copy()
    want[0, 0] = p
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("number", [-3, 3])
def test_if_at_run_time(number: int) -> None:
    body = f"""
%t = memref.load %n[] : memref<i64>
%zero = arith.constant 0 : i64
%c0 = arith.constant 0 : index
%neg = arith.cmpi slt, %t, %zero : i64
%v = scf.if %neg -> (f32) {{
  %m = arith.constant 10.0 : f32
  linalg.fill ins(%m : f32) outs(%y : {T})
  scf.yield %m : f32
}} else {{
  %k = arith.constant 20.0 : f32
  memref.copy %x, %y : {T} to {T}
  scf.yield %k : f32
}}
memref.store %v, %y[%c0, %c0] : {T}
"""
    want = np.full((4, 8), 10, np.float32) if number < 0 else X.copy()
    want[0, 0] = 10 if number < 0 else 20
    np.testing.assert_array_equal(run(loop_module(body), {"x": X, "n": np.array(number)})["y"], want)


def test_assertions() -> None:
    body = (
        "%t = memref.load %n[] : memref<i64>\n%z = arith.constant 0 : i64\n"
        '%ok = arith.cmpi sge, %t, %z : i64\ncf.assert %ok, "n is negative"'
    )
    executable = load(loop_module(body + f"\nmemref.copy %x, %y : {T} to {T}"))
    executable.run({"x": X, "n": np.array(0)})
    with pytest.raises(RunError, match="n is negative"):
        executable.run({"x": X, "n": np.array(-1)})


# Views


def test_reshapes_and_casts() -> None:
    """reinterpret_cast, collapse_shape, expand_shape, cast, dim, rank-reducing subview."""
    wide = "memref<4x8xf32, strided<[8, 1], offset: ?>>"
    row = "memref<8xf32, strided<[1], offset: 16>>"
    body = f"""
%f = memref.collapse_shape %x [[0, 1]] : {T} into memref<32xf32>
%e = memref.expand_shape %f [[0, 1, 2]] output_shape [2, 4, 4] : memref<32xf32> into memref<2x4x4xf32>
%r = memref.reinterpret_cast %e to offset: [0], sizes: [4, 8], strides: [8, 1] : memref<2x4x4xf32> to {T}
%c = memref.cast %r : {T} to {wide}
memref.copy %c, %y : {wide} to {T}
%s = memref.subview %y[2, 0] [1, 8] [1, 1] : {T} to {row}
%c1 = arith.constant 1 : index
%d = memref.dim %x, %c1 : {T}
%i = arith.index_cast %d : index to i32
%v = arith.sitofp %i : i32 to f32
linalg.fill ins(%v : f32) outs(%s : {row})
"""
    got = run(loop_module(body), {"x": X, "n": np.array(0)})["y"]
    want = X.copy()
    want[2] = 8
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (f"%g = memref.get_global @g : {T}", VerifyFailure, "there is no memref.global @g"),
        (
            f"%s = memref.subview %x[2, 0] [3, 8] [1, 1] : {T} to memref<3x8xf32, strided<[8, 1], offset: 16>>",
            VerifyFailure,
            "takes 3 elements from 2 on with stride 1 along axis 0, which has 4",
        ),
        (
            "func.call @external() : () -> ()",
            UnsupportedError,
            "@external is declared only, and no run-time function",
        ),
    ],
)
def test_what_can_not_be_executed_is_said(body: str, kind: type[MloptError], message: str) -> None:
    functions = "func.func private @external() -> ()\n"
    with pytest.raises(kind, match=message) as error:
        load(loop_module(body, functions=functions))
    assert error.value.place is not None and error.value.place.line == 2
