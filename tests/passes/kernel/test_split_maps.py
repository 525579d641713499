"""A map of which several launches read parts is evaluated by each of them, if that is not more work: right numbers."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.dialects.kernel import MapOp
from tests.passes.kernel.support import FUSE, check_numbers, run_passes

RNG = np.random.default_rng(5)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def main(arguments: str, body: str, *results: str) -> str:
    """A function of the values `%r0`, `%r1`, ..., of these types."""
    names = ", ".join(f"%r{i}" for i in range(len(results)))
    types = ", ".join(results)
    return f"func.func @main({arguments}) -> ({types}) {{ {body} func.return {names} : {types} }}"


def slice(source: str, part: str, start: int, stop: int, step: int = 1) -> str:
    """Columns of a 4 x 8 tensor."""
    columns = len(range(start, stop, step))
    return f"""%{part} = graph.slice %{source} starts = [0, {start}] stops = [4, {stop}] steps = [1, {step}]
        : (tensor<4x8xf32>) -> tensor<4x{columns}xf32>\n"""


HALF, WHOLE = "tensor<4x4xf32>", "tensor<4x8xf32>"
EXP = f"%e = graph.exp %x : {WHOLE}\n"
HALVES = slice("e", "r0", 0, 4) + slice("e", "r1", 4, 8)

PROGRAMS = {
    "halves": (main(f"%x: {WHOLE}", EXP + HALVES, HALF, HALF), ["exp_slice", "exp_slice"]),
    "even and odd columns": (
        main(f"%x: {WHOLE}", EXP + slice("e", "r0", 0, 8, 2) + slice("e", "r1", 1, 8, 2), HALF, HALF),
        ["exp_slice", "exp_slice"],
    ),
    "parts that together are less than the whole": (
        main(
            f"%x: {WHOLE}",
            EXP + slice("e", "r0", 1, 3) + slice("e", "r1", 2, 7),
            "tensor<4x2xf32>",
            "tensor<4x5xf32>",
        ),
        ["exp_slice", "exp_slice"],
    ),
    "parts that more is computed of": (
        main(
            f"%x: {WHOLE}",
            EXP
            + slice("e", "a", 0, 4)
            + slice("e", "b", 4, 8)
            + f"%r0 = graph.relu %a : {HALF}\n"
            + f"%r1 = graph.reduce_sum %b axes = [1] : ({HALF}) -> tensor<4xf32>\n",
            HALF,
            "tensor<4xf32>",
        ),
        ["exp_relu", "exp_reduce_sum"],
    ),
    "overlapping parts that together are more than the whole": (
        main(
            f"%x: {WHOLE}",
            EXP + slice("e", "r0", 0, 5) + slice("e", "r1", 4, 8),
            "tensor<4x5xf32>",
            HALF,
        ),
        ["exp", "slice", "slice"],
    ),
    "what is read twice by a launch": (
        main(
            f"%x: {WHOLE}",
            EXP
            + slice("e", "a", 0, 4)
            + slice("e", "b", 4, 8)
            + f"%r0 = graph.softmax %a axis = 1 : {HALF}\n"
            + f"%r1 = graph.relu %b : {HALF}\n",
            HALF,
            HALF,
        ),
        ["exp", "softmax", "relu"],
    ),
    "a part for a product": (
        main(
            f"%x: {WHOLE}, %w: tensor<4x3xf32>",
            EXP
            + slice("e", "a", 0, 4)
            + slice("e", "r1", 4, 8)
            + f"%r0 = graph.matmul %a, %w : ({HALF}, tensor<4x3xf32>) -> tensor<4x3xf32>\n",
            "tensor<4x3xf32>",
            HALF,
        ),
        ["exp", "slice", "matmul"],
    ),
    "halves, and the whole is a result": (
        main(
            f"%x: {WHOLE}", f"%r2 = graph.exp %x : {WHOLE}\n" + HALVES.replace("%e", "%r2"), HALF, HALF, WHOLE
        ),
        ["exp", "slice", "slice"],
    ),
    "halves of a map of what is computed": (
        main(
            "%v: tensor<4x3xf32>, %w: tensor<3x8xf32>",
            f"%x = graph.matmul %v, %w : (tensor<4x3xf32>, tensor<3x8xf32>) -> {WHOLE}\n"
            + f"%r2 = graph.softmax %x axis = 1 : {WHOLE}\n"
            + EXP
            + HALVES,
            HALF,
            HALF,
            WHOLE,
        ),
        ["matmul", "softmax", "exp_slice", "exp_slice"],
    ),
    "halves of the sum of two products, which would both live on": (
        main(
            "%v: tensor<4x3xf32>, %w: tensor<3x8xf32>",
            f"%x = graph.matmul %v, %w : (tensor<4x3xf32>, tensor<3x8xf32>) -> {WHOLE}\n"
            + f"%y = graph.softmax %x axis = 1 : {WHOLE}\n"
            + f"%e = graph.add %x, %y : ({WHOLE}, {WHOLE}) -> {WHOLE}\n"
            + f"%r2 = graph.reduce_sum %y axes = [1] : ({WHOLE}) -> tensor<4xf32>\n"
            + HALVES,
            HALF,
            HALF,
            "tensor<4xf32>",
        ),
        ["matmul", "softmax", "add", "reduce_sum", "slice", "slice"],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    text, kernels = PROGRAMS[name]
    shapes = {"x": (4, 8), "v": (4, 3), "w": (3, 8) if "%w: tensor<3x8" in text else (4, 3)}
    result = run_passes(text, *FUSE)
    assert result.kernels == kernels
    check_numbers(text, {key: f32(*shape) for key, shape in shapes.items() if f"%{key}: " in text})
    assert run_passes(result.text, *FUSE, convert=False).changed == [False]


def test_it_is_said_once() -> None:
    result = run_passes(PROGRAMS["halves"][0], *FUSE)
    assert result.remarks == ["fused 'exp' with each reader of a part: 'slice', 'slice'"]


def concat(axis: int, *parts: str, shapes: str, result: str) -> str:
    return f"%r0 = graph.concat {', '.join(parts)} axis = {axis} : ({shapes}) -> {result}\n"


IN_ONE_LAUNCH = {
    "halves exchanged": (
        slice("e", "a", 4, 8)
        + slice("e", "b", 0, 4)
        + concat(1, "%a", "%b", shapes=f"{HALF}, {HALF}", result=WHOLE),
        WHOLE,
        2,
    ),
    "a product of halves": (
        slice("e", "a", 4, 8)
        + slice("e", "b", 0, 4)
        + f"%r0 = graph.mul %a, %b : ({HALF}, {HALF}) -> {HALF}\n",
        HALF,
        1,
    ),
    "a part and the sum of another": (
        slice("e", "a", 6, 8)
        + slice("e", "b", 0, 6)
        + "%s = graph.reduce_sum %b axes = [1] keepdims : (tensor<4x6xf32>) -> tensor<4x1xf32>\n"
        + "%r0 = graph.mul %a, %s : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>\n",
        "tensor<4x2xf32>",
        1,
    ),
    "overlapping parts: the map is kept, and two maps move": (
        slice("e", "a", 3, 8)
        + slice("e", "b", 0, 4)
        + concat(1, "%a", "%b", shapes=f"tensor<4x5xf32>, {HALF}", result="tensor<4x9xf32>"),
        "tensor<4x9xf32>",
        3,
    ),
}


@pytest.mark.parametrize("name", IN_ONE_LAUNCH)
def test_in_one_launch(name: str) -> None:
    """How many maps it has: one for each part, or one for the whole and one for each that moves a part of it."""
    body, result, maps = IN_ONE_LAUNCH[name]
    text = main(f"%x: {WHOLE}", EXP + body, result)
    fused = run_passes(text, *FUSE)
    (launch,) = fused.launches
    assert sum(isinstance(op, MapOp) for op in launch.body.ops) == maps
    check_numbers(text, {"x": f32(4, 8)})
    assert run_passes(fused.text, *FUSE, convert=False).changed == [False]
