"""Running in memory of the caller's: its size is known without a run, and what does not do is refused in a sentence."""

from __future__ import annotations

import gc
import mmap

import numpy as np
import pytest
from onnx import helper

import mlopt
from mlopt.options import CompileOptions
from tests.frontend.onnx_models import model_of, value_info

X = np.random.default_rng(0).standard_normal((3, 40), np.float32)
RIGHT = np.sort(np.exp(-X), axis=1)[:, ::-1]


def compiled(poison: bool = False) -> mlopt.Model:
    """y = the sorted elements of exp(-x) in each row, with two intermediate tensors at least."""
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Exp", ["n"], ["e"]),
        helper.make_node("TopK", ["e", "k"], ["t", "i"]),
        helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]),
        helper.make_node("CumSum", ["u", "first"], ["c"]),
        helper.make_node("Transpose", ["u"], ["y"], perm=[1, 0]),
    ]
    constants = {"k": np.array([40]), "first": np.array(0)}
    model = model_of(nodes, [value_info("x", X, ["n", 40])], ["y", "c"], constants)
    return mlopt.compile(model, dims={"n": 3}, options=CompileOptions(poison=poison))


def aligned(nbytes: int, beyond: int = 0) -> np.ndarray:
    """`nbytes` bytes that begin `beyond` bytes after a multiple of 64."""
    raw = np.zeros(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + beyond
    return raw[start : start + nbytes]


def objects(nbytes: int, dtype: object = object) -> np.ndarray:
    """An array of references, at a multiple of 64: Python would follow whatever a run writes there."""
    itemsize = np.dtype(dtype).itemsize  # pyright: ignore[reportArgumentType, reportCallIssue]
    raw = np.zeros(nbytes // itemsize + 64, dtype)  # pyright: ignore[reportArgumentType, reportCallIssue]
    start = next(start for start in range(64) if raw[start:].ctypes.data % 64 == 0)
    return raw[start : start + nbytes // itemsize]


@pytest.mark.parametrize("poison", [False, True])
def test_the_caller_lends_exactly_the_arena(poison: bool) -> None:
    model = compiled(poison)
    assert model.arena_bytes == model.memory.arena_bytes > 0
    arena = aligned(model.arena_bytes + 64)
    arena[model.arena_bytes :] = 7
    for garbage in (0, 255, 42):
        arena[: model.arena_bytes] = garbage
        np.testing.assert_allclose(model.run({"x": X}, arena=arena)["y"], RIGHT, rtol=1e-6)
    assert (arena[: model.arena_bytes] != 42).any()
    assert (arena[model.arena_bytes :] == 7).all()


def test_the_same_arena_again_loads_nothing_anew() -> None:
    model = compiled()
    arena = aligned(model.arena_bytes)
    model.run({"x": X}, arena=arena)
    executable = model.executable
    model.run({"x": X}, arena=arena)
    assert model.executable is executable


def test_without_an_arena_the_last_one_is_left_alone() -> None:
    model = compiled()
    arena = aligned(model.arena_bytes)
    lent = model.run({"x": X}, arena=arena)
    arena[:] = 42
    own = model.run({"x": X})
    assert (arena == 42).all()
    assert own["y"].tobytes() == lent["y"].tobytes()


def test_any_writable_buffer_does() -> None:
    """Pages of the operating system are aligned; an array of any type is bytes, too."""
    model = compiled()
    with mmap.mmap(-1, 1 << 16) as pages:
        np.testing.assert_allclose(model.run({"x": X}, arena=pages)["y"], RIGHT, rtol=1e-6)
        model.run({"x": X})  # lets go of the pages, as soon as garbage is collected
        gc.collect()
    for dtype in ("f8", ">f8", "c8", "V8", [("O", "f4"), ("b", "u4")]):
        array = aligned(-(-model.arena_bytes // 8) * 8).view(dtype)
        np.testing.assert_allclose(model.run({"x": X}, arena=array)["y"], RIGHT, rtol=1e-6)


def test_two_models_take_turns_in_one_arena() -> None:
    one, other = compiled(), compiled()
    arena = aligned(one.arena_bytes)
    for _ in range(2):
        for model in (one, other):
            np.testing.assert_allclose(model.run({"x": X}, arena=arena)["y"], RIGHT, rtol=1e-6)


def test_another_shape_needs_another_size() -> None:
    model = compiled()
    arena = aligned(model.arena_bytes)
    more = np.concatenate([X] * 9)
    with pytest.raises(mlopt.InputError, match=rf"the arena has {len(arena)} bytes, expected at least \d+"):
        model.run({"x": more}, arena=arena)
    np.testing.assert_allclose(model.run({"x": X}, arena=arena)["y"], RIGHT, rtol=1e-6)


@pytest.mark.parametrize(
    ("arena", "message"),
    [
        (aligned(10), "the arena has 10 bytes, expected at least"),
        (aligned(1 << 16, 8), "the arena begins 8 bytes after a multiple of 64"),
        (aligned(1 << 16, 1), "the arena begins 1 bytes after a multiple of 64"),
        (bytes(1 << 16), "expected a writable, contiguous buffer as the arena, found one that is read-only"),
        (aligned(1 << 16)[::2], "found one with gaps between its elements"),
        (
            objects(1 << 16),
            "expected a writable, contiguous buffer as the arena, found one of Python objects",
        ),
        (objects(1 << 16, [("O", "u8"), ("o", "O")]), "found one of Python objects"),
        (1 << 16, "expected a writable buffer of bytes as the arena, found int"),
        (np.empty(0, np.uint8), "the arena has 0 bytes"),
    ],
)
def test_what_does_not_do(arena: object, message: str) -> None:
    model = compiled()
    with pytest.raises(mlopt.InputError, match=message):
        model.run({"x": X}, arena=arena)  # pyright: ignore[reportArgumentType]: what users may give
    np.testing.assert_allclose(model.run({"x": X})["y"], RIGHT, rtol=1e-6)


def test_inputs_and_outputs_in_the_arena() -> None:
    model = compiled()
    arena = aligned(1 << 16)
    inside = arena[: X.nbytes].view(np.float32).reshape(X.shape)
    with pytest.raises(mlopt.InputError, match='input "x" overlaps the arena'):
        model.run({"x": inside}, arena=arena)
    with pytest.raises(mlopt.InputError, match='output "y" overlaps the arena'):
        model.run({"x": X}, out={"y": inside}, arena=arena)
    beside = arena[-X.nbytes :].view(np.float32).reshape(X.shape)
    np.testing.assert_allclose(model.run({"x": X}, out={"y": beside}, arena=arena)["y"], RIGHT, rtol=1e-6)


def test_a_model_without_intermediate_tensors_takes_any_arena() -> None:
    model = mlopt.compile(model_of([helper.make_node("Neg", ["x"], ["y"])], [value_info("x", X)], ["y"]))
    assert model.arena_bytes == 0
    np.testing.assert_array_equal(model.run({"x": X}, arena=np.empty(0, np.uint8))["y"], -X)
