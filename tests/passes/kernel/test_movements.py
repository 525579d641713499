"""Movements become index maps where that is exact: transposes, slices, broadcasts, pads, and reads beyond the edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.dialects.kernel import MapOp
from mlopt.ir import node_names
from tests.passes.kernel.support import FUSE, check_numbers, run_passes

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def relu_of(movement: str, shape: str, returned: bool = False) -> str:
    """`y = movement(x)`, `z = relu(y)`; returns z, and y if asked."""
    also = ", %y" if returned else ""
    types = f"{shape}, {shape}" if returned else shape
    return f"""
      func.func @main(%x: tensor<3x4xf32>) -> ({types}) {{
        %y = {movement}
        %z = graph.relu %y : {shape}
        func.return %z{also} : {types}
      }}"""


MOVEMENTS = {
    "transpose": (
        "graph.transpose %x perm = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
    ),
    "slice": (
        "graph.slice %x starts = [2, 3] stops = [0, 0] steps = [-1, -2] : (tensor<3x4xf32>) -> tensor<2x2xf32>",
        "tensor<2x2xf32>",
    ),
    "expand": ("graph.expand %x : tensor<3x4xf32> to tensor<2x3x4xf32>", "tensor<2x3x4xf32>"),
    "pad": (
        "graph.pad %x low = [1, -1] high = [0, 2] value = 7.0 : f32 : (tensor<3x4xf32>) -> tensor<4x5xf32>",
        "tensor<4x5xf32>",
    ),
}


@pytest.mark.parametrize("name", MOVEMENTS)
def test_into_a_map(name: str) -> None:
    text = relu_of(*MOVEMENTS[name])
    result = run_passes(text, *FUSE)
    assert result.kernels == ["relu"]
    assert result.count("movements-absorbed") == 1
    check_numbers(text, {"x": X - 6})


@pytest.mark.parametrize("name", MOVEMENTS)
def test_returned_stays(name: str) -> None:
    text = relu_of(*MOVEMENTS[name], returned=True)
    assert run_passes(text, *FUSE).kernels == [name, "relu"]
    check_numbers(text, {"x": X - 6})


def test_into_every_consumer_with_all_locations() -> None:
    """T06 without the returned transpose: one consumer reads it plainly, one transposes it back."""
    text = """
      func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
        %t = graph.transpose %x perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("t")
        %back = graph.transpose %t perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("back")
        %r = graph.relu %t : tensor<2x2xf32> loc("r")
        func.return %back, %r : tensor<2x2xf32>, tensor<2x2xf32>
      }"""
    x = np.array([[1, -2], [3, 4]], np.float32)
    want = check_numbers(text, {"x": x})
    np.testing.assert_array_equal(want["result0"], x)
    np.testing.assert_array_equal(want["result1"], [[1, 3], [0, 4]])
    result = run_passes(text, *FUSE)
    assert result.kernels == ["transpose", "relu"]
    assert [node_names(op.location) for op in result.launches] == [["t", "back"], ["t", "r"]]


def test_squares_are_not_symmetric() -> None:
    """T01: a transpose by [0, 1] is none, one by [1, 0] is; the shapes can't tell. Right by numpy."""
    template = """
      func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {{
        %t = graph.transpose %x perm = [{perm}] : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %y = graph.matmul %t, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        func.return %y : tensor<2x2xf32>
      }}"""
    x, w = np.array([[1, 2], [3, 4]], np.float32), np.diag([1, 2]).astype(np.float32)
    for perm, want in (("0, 1", x @ w), ("1, 0", x.T @ w)):
        text = template.format(perm=perm)
        assert run_passes(text, *FUSE).kernels == ["matmul"]
        np.testing.assert_array_equal(check_numbers(text, {"x": x, "w": w})["result0"], want)


def test_pad_of_another_value_than_the_pool() -> None:
    """F13: a pad of 0 in front of a max pool is read as 0, not as -inf."""
    text = """
      func.func @main(%x: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
        %p = graph.pad %x low = [0, 0, 1] high = [0, 0, 1] value = 0.0 : f32 : (tensor<1x1x1xf32>) -> tensor<1x1x3xf32>
        %y = graph.max_pool %p kernel = [3] : (tensor<1x1x3xf32>) -> tensor<1x1x1xf32>
        func.return %y : tensor<1x1x1xf32>
      }"""
    assert check_numbers(text, {"x": np.full((1, 1, 1), -5, np.float32)})["result0"].item() == 0


def test_pad_in_front_of_padded_windows() -> None:
    """Pads of two values don't become one; both values show in the result. Right by hand."""
    text = """
      func.func @main(%x: tensor<1x1x2xf32>) -> tensor<1x1x4xf32> {
        %p = graph.pad %x low = [0, 0, 1] high = [0, 0, 1] value = 1.0 : f32 : (tensor<1x1x2xf32>) -> tensor<1x1x4xf32>
        %y = graph.max_pool %p kernel = [3] pads = [1, 1] : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
        func.return %y : tensor<1x1x4xf32>
      }"""
    want = check_numbers(text, {"x": np.array([[[-5, -7]]], np.float32)})["result0"]
    np.testing.assert_array_equal(want, [[[1, 1, 1, 1]]])


def test_slice_in_front_of_padded_windows() -> None:
    """What a slice cut off is not what lies beyond its edge. Right by hand: max over windows of [2, 3]."""
    text = """
      func.func @main(%x: tensor<1x1x4xf32>) -> tensor<1x1x2xf32> {
        %s = graph.slice %x starts = [0, 0, 1] stops = [1, 1, 3] : (tensor<1x1x4xf32>) -> tensor<1x1x2xf32>
        %y = graph.max_pool %s kernel = [3] pads = [1, 1] : (tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
        func.return %y : tensor<1x1x2xf32>
      }"""
    assert run_passes(text, *FUSE).count("movements-absorbed") == 0
    want = check_numbers(text, {"x": np.array([[[9, 2, 3, 9]]], np.float32)})["result0"]
    np.testing.assert_array_equal(want, [[[3, 3]]])


def test_permutations_of_different_extents() -> None:
    """T07: through an unsqueeze and back, three different sizes; right by numpy."""
    text = """
      func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x1x3x4xf32> {
        %t = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
        %u = graph.reshape %t : tensor<2x4x3xf32> to tensor<2x1x4x3xf32>
        %r = graph.relu %u : tensor<2x1x4x3xf32>
        %y = graph.transpose %r perm = [0, 1, 3, 2] : (tensor<2x1x4x3xf32>) -> tensor<2x1x3x4xf32>
        func.return %y : tensor<2x1x3x4xf32>
      }"""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(check_numbers(text, {"x": x})["result0"], x.reshape(2, 1, 3, 4))
    assert len(run_passes(text, *FUSE).kernels) == 1


# Random movements and readers


@st.composite
def linear_text(draw: st.DrawFn, names: tuple[str, ...], bounds: tuple[int, ...]) -> tuple[str, int, int]:
    """A linear expression as text, with its smallest and largest value."""
    terms, low = [], draw(st.integers(-2, 2))
    high = low
    text = str(low)
    for name, bound in zip(names, bounds, strict=True):
        c = draw(st.sampled_from((0, 0, 1, 1, -1, 2)))
        if c:
            terms.append(f"{'-' if c < 0 else '+'} {abs(c)} * {name}")
            low, high = low + min(0, c * (bound - 1)), high + max(0, c * (bound - 1))
    return " ".join([text if int(text) >= 0 else f"- {-int(text)}", *terms]), low, high


@st.composite
def programs(draw: st.DrawFn) -> str:
    """`y` moves elements of `x`, read perhaps beyond its edges; `z = -y`, read perhaps beyond its edges too."""
    source = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    middle = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    target = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))

    def access(shape: tuple[int, ...], names: tuple[str, ...], bounds: tuple[int, ...]) -> str:
        rows, inside = [], True
        for size in shape:
            text, low, high = draw(linear_text(names, bounds))
            if draw(st.booleans()) and high - low < size:  # shifted into bounds
                text = f"{text} + {-low}" if low <= 0 else f"{text} - {low}"
                low, high = 0, high - low
            rows.append(text)
            inside = inside and low >= 0 and high < size
        pad = "" if inside else f" pad {draw(st.sampled_from(('5.0', '6.0')))} : f32"
        return f"[{', '.join(rows)}]{pad}"

    def type(shape: tuple[int, ...]) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    def launch(name: str, source: tuple[int, ...], target: tuple[int, ...], operand: str, body: str) -> str:
        names = tuple(f"d{i}" for i in range(len(target)))
        bounds = ", ".join(f"{n} = {size}" for n, size in zip(names, target, strict=True))
        order = draw(st.permutations(names)) if len(set(target)) == 1 else names
        return f"""
          %e_{name} = tensor.empty() : {type(target)}
          %{name} = kernel.launch @{name} ins({operand} : {type(source)}) outs(%e_{name} : {type(target)}) {{
          ^bb0(%X: {type(source)}, %O: {type(target)}):
            %r = kernel.map bounds [{bounds}] ins(%X{access(source, names, target)} : {type(source)})
                                              outs(%O[{", ".join(order)}] : {type(target)}) {{
            ^bb1(%a: f32, %o: f32):
              {body}
            }}
            kernel.yield %r : {type(target)}
          }} -> {type(target)}"""

    return f"""
      func.func @main(%x: {type(source)}) -> {type(target)} {{
        {launch("y", source, middle, "%x", "kernel.yield %a : f32")}
        {launch("z", middle, target, "%y", "%n = arith.negf %a : f32 kernel.yield %n : f32")}
        func.return %z : {type(target)}
      }}"""


@settings(max_examples=80, deadline=None)
@given(programs())
def test_any_movement_into_any_reader(text: str) -> None:
    shape = tuple(map(int, text[text.index("tensor<") + 7 : text.index("xf32>")].split("x")))
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    check_numbers(text, {"x": x}, convert=False)


def test_loads_of_rows_stay_loads_of_rows() -> None:
    """A gather of rows, then a transpose: the rows are loaded whole, and the transpose is a movement of its own."""
    text = """
      func.func @main(%x: tensor<9x8xf32>, %i: tensor<5xi64>) -> tensor<8x5xf32> {
        %y = graph.gather %x, %i axis = 0 : (tensor<9x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
        %z = graph.transpose %y perm = [1, 0] : (tensor<5x8xf32>) -> tensor<8x5xf32>
        func.return %z : tensor<8x5xf32>
      }"""
    result = run_passes(text, *FUSE)
    (gathered,) = [op for op in result.module.walk() if isinstance(op, MapOp) and not op.is_movement]
    assert gathered.out_accesses[0].is_identity
    table = np.arange(72, dtype=np.float32).reshape(9, 8)
    check_numbers(text, {"x": table, "i": np.array([3, 0, 8, 3, 1])})
