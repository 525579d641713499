"""What `fuse-kernels` merges and what it leaves, with numbers: every bit of the results stays."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.dialects.kernel import MapOp
from mlopt.ir import node_names
from tests.counting import count_calls
from tests.passes.kernel.support import FUSE, check_numbers, run_passes

RNG = np.random.default_rng(5)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def main(arguments: str, body: str, results: str) -> str:
    return f"func.func @main({arguments}) -> ({results}) {{ {body} }}"


LINEAR = """
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %s = graph.add %m, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %r = graph.relu %s : tensor<4x6xf32>
"""
LINEAR_ARGS = "%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>"
LINEAR_INPUTS = {"x": f32(4, 8), "w": f32(8, 6), "b": f32(6)}

PROGRAMS = {
    "bias and activation": (
        main(LINEAR_ARGS, LINEAR + "func.return %r : tensor<4x6xf32>", "tensor<4x6xf32>"),
        LINEAR_INPUTS,
        ["matmul_add_relu"],
    ),
    "residual": (
        main(
            LINEAR_ARGS + ", %res: tensor<4x6xf32>",
            LINEAR
            + """%y = graph.add %res, %r : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
            func.return %y : tensor<4x6xf32>""",
            "tensor<4x6xf32>",
        ),
        LINEAR_INPUTS | {"res": f32(4, 6)},
        ["matmul_add_relu_add"],
    ),
    "transposed epilogue": (
        main(
            LINEAR_ARGS + ", %res: tensor<6x4xf32>",
            LINEAR
            + """%t = graph.transpose %r perm = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
            %y = graph.add %res, %t : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
            func.return %y : tensor<6x4xf32>""",
            "tensor<6x4xf32>",
        ),
        LINEAR_INPUTS | {"res": f32(6, 4)},
        ["matmul_add_relu_add"],
    ),
    "transpose behind a product": (
        main(
            LINEAR_ARGS,
            LINEAR
            + """%t = graph.transpose %r perm = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
            func.return %t : tensor<6x4xf32>""",
            "tensor<6x4xf32>",
        ),
        LINEAR_INPUTS,
        ["matmul_add_relu_transpose"],
    ),
    "convolution": (
        main(
            "%x: tensor<1x2x5x5xf32>, %w: tensor<3x2x3x3xf32>, %res: tensor<1x3x5x5xf32>",
            """%c = graph.conv %x, %w pads = [1, 1, 1, 1]
                : (tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x5x5xf32>
            %s = graph.add %c, %res : (tensor<1x3x5x5xf32>, tensor<1x3x5x5xf32>) -> tensor<1x3x5x5xf32>
            %y = graph.relu %s : tensor<1x3x5x5xf32>
            func.return %y : tensor<1x3x5x5xf32>""",
            "tensor<1x3x5x5xf32>",
        ),
        {"x": f32(1, 2, 5, 5), "w": f32(3, 2, 3, 3), "res": f32(1, 3, 5, 5)},
        ["conv_add_relu"],
    ),
    "mask, softmax and what follows": (
        main(
            "%x: tensor<2x3x4xf32>, %mask: tensor<3x4xf32>",
            """%a = graph.add %x, %mask : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
            %p = graph.softmax %a axis = 2 : tensor<2x3x4xf32>
            %n = graph.is_nan %p : (tensor<2x3x4xf32>) -> tensor<2x3x4xi1>
            %z = graph.constant dense<0.0> : tensor<f32>
            %y = graph.where %n, %z, %p : (tensor<2x3x4xi1>, tensor<f32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
            func.return %y : tensor<2x3x4xf32>""",
            "tensor<2x3x4xf32>",
        ),
        {"x": f32(2, 3, 4), "mask": np.array([[0, 0, 0, 0], [-np.inf] * 4, [0, -np.inf, 0, 0]], np.float32)},
        ["add_softmax_is_nan_where"],
    ),
    "embeddings and layer norm": (
        main(
            "%t: tensor<9x6xf32>, %p: tensor<5x6xf32>, %i: tensor<2x5xi64>, %g: tensor<6xf32>",
            """%e = graph.gather %t, %i axis = 0 : (tensor<9x6xf32>, tensor<2x5xi64>) -> tensor<2x5x6xf32>
            %s = graph.add %e, %p : (tensor<2x5x6xf32>, tensor<5x6xf32>) -> tensor<2x5x6xf32>
            %y = graph.layer_norm %s, %g axis = 2 epsilon = 1.0e-5
                : (tensor<2x5x6xf32>, tensor<6xf32>) -> tensor<2x5x6xf32>
            func.return %y : tensor<2x5x6xf32>""",
            "tensor<2x5x6xf32>",
        ),
        {"t": f32(9, 6), "p": f32(5, 6), "i": RNG.integers(-9, 9, (2, 5)), "g": f32(6)},
        ["gather_add_layer_norm"],
    ),
    "rows one after the other": (
        main(
            "%x: tensor<3x8xf32>",
            """%m = graph.reduce_mean %x axes = [1] keepdims : (tensor<3x8xf32>) -> tensor<3x1xf32>
            %d = graph.sub %x, %m : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
            %q = graph.mul %d, %d : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
            %v = graph.reduce_mean %q axes = [1] keepdims : (tensor<3x8xf32>) -> tensor<3x1xf32>
            %s = graph.sqrt %v : tensor<3x1xf32>
            %y = graph.div %d, %s : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
            func.return %y : tensor<3x8xf32>""",
            "tensor<3x8xf32>",
        ),
        {"x": f32(3, 8)},
        ["reduce_mean_sub_mul_reduce_mean_sqrt_div"],
    ),
    "scale of attention above reshape and transpose": (
        main(
            "%x: tensor<2x5x8xf32>, %w: tensor<8x8xf32>, %k: tensor<2x4x2x5xf32>",
            """%c = graph.constant dense<0.5> : tensor<f32>
            %m = graph.matmul %x, %w : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
            %h = graph.reshape %m : tensor<2x5x8xf32> to tensor<2x5x4x2xf32>
            %t = graph.transpose %h perm = [0, 2, 1, 3] : (tensor<2x5x4x2xf32>) -> tensor<2x4x5x2xf32>
            %q = graph.mul %t, %c : (tensor<2x4x5x2xf32>, tensor<f32>) -> tensor<2x4x5x2xf32>
            %y = graph.matmul %q, %k : (tensor<2x4x5x2xf32>, tensor<2x4x2x5xf32>) -> tensor<2x4x5x5xf32>
            func.return %y : tensor<2x4x5x5xf32>""",
            "tensor<2x4x5x5xf32>",
        ),
        {"x": f32(2, 5, 8), "w": f32(8, 8), "k": f32(2, 4, 2, 5)},
        ["matmul_mul", "matmul"],
    ),
    "transposes with a reshape between": (
        main(
            "%x: tensor<2x3x4x5xf32>",
            """%a = graph.transpose %x perm = [0, 2, 1, 3] : (tensor<2x3x4x5xf32>) -> tensor<2x4x3x5xf32>
            %b = graph.reshape %a : tensor<2x4x3x5xf32> to tensor<8x3x5xf32>
            %c = graph.transpose %b perm = [0, 2, 1] : (tensor<8x3x5xf32>) -> tensor<8x5x3xf32>
            %d = graph.reshape %c : tensor<8x5x3xf32> to tensor<2x4x5x3xf32>
            %y = graph.relu %d : tensor<2x4x5x3xf32>
            func.return %y : tensor<2x4x5x3xf32>""",
            "tensor<2x4x5x3xf32>",
        ),
        {"x": f32(2, 3, 4, 5)},
        ["relu"],
    ),
    "residual behind a reshape": (
        main(
            "%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %res: tensor<2x2x6xf32>",
            """%m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
            %h = graph.reshape %m : tensor<4x6xf32> to tensor<2x2x6xf32>
            %y = graph.add %res, %h : (tensor<2x2x6xf32>, tensor<2x2x6xf32>) -> tensor<2x2x6xf32>
            func.return %y : tensor<2x2x6xf32>""",
            "tensor<2x2x6xf32>",
        ),
        {"x": f32(4, 8), "w": f32(8, 6), "res": f32(2, 2, 6)},
        ["matmul_add"],
    ),
    "maps in front of a concatenation": (
        main(
            "%x: tensor<2x3xf32>, %y: tensor<2x2xf32>",
            """%a = graph.relu %x : tensor<2x3xf32>
            %b = graph.exp %y : tensor<2x2xf32>
            %c = graph.concat %a, %b axis = 1 : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
            func.return %c : tensor<2x5xf32>""",
            "tensor<2x5xf32>",
        ),
        {"x": f32(2, 3), "y": f32(2, 2)},
        ["relu_exp_concat"],
    ),
    "a map in front of a product stays": (
        main(
            "%x: tensor<4x8xf32>, %w: tensor<8x6xf32>",
            """%r = graph.relu %x : tensor<4x8xf32>
            %m = graph.matmul %r, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
            func.return %m : tensor<4x6xf32>""",
            "tensor<4x6xf32>",
        ),
        {"x": f32(4, 8), "w": f32(8, 6)},
        ["relu", "matmul"],
    ),
    "a softmax behind a product stays": (
        main(
            "%x: tensor<4x8xf32>, %w: tensor<8x6xf32>",
            """%m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
            %y = graph.softmax %m axis = 1 : tensor<4x6xf32>
            func.return %y : tensor<4x6xf32>""",
            "tensor<4x6xf32>",
        ),
        {"x": f32(4, 8), "w": f32(8, 6)},
        ["matmul", "softmax"],
    ),
}


SELECTED = """
func.func @main(%w: tensor<4x3x5xf32>, %i: tensor<7xi64>, %x: tensor<7x5x1xf32>) -> (tensor<7x3x1xf32>) {
  %s = graph.gather %w, %i axis = 0 : (tensor<4x3x5xf32>, tensor<7xi64>) -> tensor<7x3x5xf32>
  %y = graph.matmul %s, %x : (tensor<7x3x5xf32>, tensor<7x5x1xf32>) -> tensor<7x3x1xf32>
  func.return %y : tensor<7x3x1xf32>
}"""
"""Matrices at computed positions, each for one vector."""


def test_selected_matrices_are_loaded_where_they_are_multiplied() -> None:
    """Small integers, so that no sum is rounded; the right values are numpy's. -1 is the last matrix."""
    w, x = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in ((4, 3, 5), (7, 5, 1)))
    i = np.array([0, 3, 3, -1, -4, 2, 1])
    assert run_passes(SELECTED, *FUSE).kernels == ["gather_matmul"]
    got = check_numbers(SELECTED, {"w": w, "i": i, "x": x})
    np.testing.assert_array_equal(got["result0"], w[i] @ x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    text, inputs, kernels = PROGRAMS[name]
    result = run_passes(text, *FUSE)
    assert result.kernels == kernels
    check_numbers(text, inputs)
    again = run_passes(result.text, *FUSE, convert=False)
    assert again.changed == [False]
    assert again.kernels == kernels


# Public faults


def test_two_readers_of_a_product_that_is_also_returned() -> None:
    """F08: outputs m and y; m = x @ w = [1, -5], y = relu(m + 1) = [2, 0]."""
    text = """
      func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
        %one = graph.constant dense<1.0> : tensor<f32>
        %m = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %s = graph.add %m, %one : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
        %y = graph.relu %s : tensor<1x2xf32>
        func.return %m, %y : tensor<1x2xf32>, tensor<1x2xf32>
      }"""
    want = check_numbers(
        text, {"x": np.array([[1, 5]], np.float32), "w": np.diag([1, -1]).astype(np.float32)}
    )
    np.testing.assert_array_equal(want["result0"], [[1, -5]])
    np.testing.assert_array_equal(want["result1"], [[2, 0]])
    result = run_passes(text, *FUSE)
    assert result.kernels == ["matmul", "add_relu"]
    assert result.missed() == [
        "not fused: 'matmul' with 'add_relu': its result '%m' is also a function result"
    ]


def test_no_cycle_around_a_reduction() -> None:
    """F12: a = relu(x), s = sum(a), y = 2 * a + s; x = [1, -2, 3] gives [6, 4, 10]."""
    text = """
      func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
        %two = graph.constant dense<2.0> : tensor<f32>
        %a = graph.relu %x : tensor<3xf32>
        %s = graph.reduce_sum %a axes = [0] keepdims : (tensor<3xf32>) -> tensor<1xf32>
        %b = graph.mul %a, %two : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
        %y = graph.add %b, %s : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
        func.return %y : tensor<3xf32>
      }"""
    want = check_numbers(text, {"x": np.array([1, -2, 3], np.float32)})
    np.testing.assert_array_equal(want["result0"], [6, 4, 10])


def test_no_cycle_through_a_product() -> None:
    """As F12 with a product outside of the group: y = relu(x) + relu(x) @ w. Right by hand: [[1 + 1, 0 - 1]]."""
    text = """
      func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> tensor<1x2xf32> {
        %a = graph.relu %x : tensor<1x2xf32>
        %m = graph.matmul %a, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.add %a, %m : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
        func.return %y : tensor<1x2xf32>
      }"""
    inputs = {"x": np.array([[1, -2]], np.float32), "w": np.array([[1, -1], [5, 5]], np.float32)}
    np.testing.assert_array_equal(check_numbers(text, inputs)["result0"], [[2, -1]])
    result = run_passes(text, *FUSE)
    assert result.kernels == ["relu", "matmul_add"]
    assert result.missed() == []  # the product itself reads relu(x) too, so the two are never one kernel


@pytest.mark.parametrize(
    ("bias", "want"),
    [
        (
            [[0], [10], [20], [30]],
            [[2] * 3, [12] * 3, [22] * 3, [32] * 3],
        ),  # F06 (a): it enlarges the product
        ([[10], [20], [30], [40]], [[12] * 3, [22] * 3, [32] * 3, [42] * 3]),
    ],
)
def test_bias_that_enlarges_the_product(bias: list[list[int]], want: list[list[int]]) -> None:
    text = """
      func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x3xf32>, %b: tensor<4x1xf32>) -> tensor<4x3xf32> {
        %m = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
        %y = graph.add %m, %b : (tensor<1x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
        func.return %y : tensor<4x3xf32>
      }"""
    ones = {"x": np.ones((1, 2), np.float32), "w": np.ones((2, 3), np.float32)}
    np.testing.assert_array_equal(
        check_numbers(text, ones | {"b": np.array(bias, np.float32)})["result0"], want
    )
    result = run_passes(text, *FUSE)
    assert result.kernels == ["matmul", "add"]
    assert result.missed() == ["not fused: 'matmul' with 'add': its result is broadcast by 'add'"]


def test_column_bias_of_a_square_product() -> None:
    """F06 (b): x = [[1, 2], [3, 4]], w = identity, bias a column [[10], [20]]: [[11, 12], [23, 24]]."""
    text = """
      func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %b: tensor<2x1xf32>) -> tensor<2x2xf32> {
        %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        %y = graph.add %m, %b : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
        func.return %y : tensor<2x2xf32>
      }"""
    inputs = {"x": np.array([[1, 2], [3, 4]]), "w": np.eye(2), "b": np.array([[10], [20]])}
    inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
    np.testing.assert_array_equal(check_numbers(text, inputs)["result0"], [[11, 12], [23, 24]])
    assert run_passes(text, *FUSE).kernels == ["matmul_add"]


def test_scale_by_two_constants_stays_two() -> None:
    """D12: (x * c1) * c2 is never x * (c1 * c2); 1e-30 * 1e30 * 1e30 = 1e30 in f32."""
    text = """
      func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
        %c = graph.constant dense<1.0e30> : tensor<f32>
        %a = graph.mul %x, %c : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
        %y = graph.mul %a, %c : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
        func.return %y : tensor<1xf32>
      }"""
    want = check_numbers(text, {"x": np.array([1e-30], np.float32)})["result0"]
    assert run_passes(text, *FUSE).kernels == ["mul"]
    np.testing.assert_allclose(want, [1e30], rtol=1e-6)


def test_zeros_of_both_signs_stay_apart() -> None:
    """C01: x = -0.0; 1 / (x + 0.0) = inf, 1 / (x + -0.0) = -inf, also when both are in one kernel."""
    text = """
      func.func @main(%x: tensor<1xf32>) -> tensor<2xf32> {
        %p = graph.constant dense<0.0> : tensor<f32>
        %n = graph.constant dense<-0.0> : tensor<f32>
        %a = graph.add %x, %p : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
        %b = graph.add %x, %n : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
        %c = graph.concat %a, %b axis = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
        %y = graph.reciprocal %c : tensor<2xf32>
        func.return %y : tensor<2xf32>
      }"""
    want = check_numbers(text, {"x": np.array([-0.0], np.float32)})["result0"]
    np.testing.assert_array_equal(want, [np.inf, -np.inf])
    assert len(run_passes(text, *FUSE).kernels) == 1


# Details


def test_at_most_one_product_in_a_kernel() -> None:
    text = """
      func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<8x6xf32>) -> tensor<4x6xf32> {
        %a = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
        %b = graph.matmul %x, %v : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
        %s = graph.sigmoid %a : tensor<4x6xf32>
        %y = graph.mul %s, %b : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
        func.return %y : tensor<4x6xf32>
      }"""
    check_numbers(text, {"x": f32(4, 8), "w": f32(8, 6), "v": f32(8, 6)})
    result = run_passes(text, *FUSE)
    assert result.kernels == ["matmul", "matmul_sigmoid_mul"]
    assert [message.rpartition(": ")[2] for message in result.missed()] == [
        "the launch would have two contractions"
    ]


def test_nothing_is_computed_twice() -> None:
    """exp(x), broadcast to rows, is one kernel with the sum, but is still evaluated once for each element of x."""
    text = """
      func.func @main(%x: tensor<3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> {
        %e = graph.exp %x : tensor<3xf32>
        %s = graph.add %e, %y : (tensor<3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
        func.return %s : tensor<4x3xf32>
      }"""
    check_numbers(text, {"x": f32(3), "y": f32(4, 3)})
    result = run_passes(text, *FUSE)
    assert result.kernels == ["exp_add"]
    assert [op.extents for op in result.module.walk() if isinstance(op, MapOp)] == [(3,), (4, 3)]


def test_max_ops() -> None:
    text = PROGRAMS["bias and activation"][0]
    small = run_passes(text, *FUSE, max_ops=8)
    assert small.kernels == ["matmul_add", "relu"]
    assert small.missed() == [
        "not fused: 'matmul_add' with 'relu': the launch would have 12 ops, more than max-ops = 8"
    ]


def test_locations_and_names() -> None:
    text = LINEAR.replace("tensor<4x6xf32>\n", 'tensor<4x6xf32> loc("n")\n')
    for line in ("matmul", "add", "relu"):
        text = text.replace('loc("n")', f'loc("{line}")', 1)
    result = run_passes(
        main(LINEAR_ARGS, text + "func.return %r : tensor<4x6xf32>", "tensor<4x6xf32>"), *FUSE
    )
    (launch,) = result.launches
    assert node_names(launch.location) == ["matmul", "add", "relu"]
    assert launch.res[0].name_hint == "r"
    assert result.remarks == [
        "fused 'matmul' (matmul) with 'add' (add)",
        "fused 'matmul_add' (matmul ... add) with 'relu' (relu)",
    ]


def test_a_long_name_is_cut() -> None:
    body, name = "", "x"
    for i, op in enumerate(["tanh", "sigmoid"] * 8):
        body += f"%{op}{i} = graph.{op} %{name} : tensor<2xf32>\n"
        name = f"{op}{i}"
    text = main("%x: tensor<2xf32>", body + f"func.return %{name} : tensor<2xf32>", "tensor<2xf32>")
    assert run_passes(text, *FUSE).kernels == ["tanh_sigmoid_tanh_sigmoid_tanh_and_11_more"]


def chain(length: int) -> str:
    body = "".join(f"%v{i + 1} = graph.relu %v{i} : tensor<4xf32>\n" for i in range(length))
    return main("%v0: tensor<4xf32>", body + f"func.return %v{length} : tensor<4xf32>", "tensor<4xf32>")


def test_work_grows_linearly() -> None:
    """Z01, Z03: four times the ops take about four times the calls (a quadratic pass would take sixteen times)."""

    def work(length: int) -> int:
        text = chain(length)

        def fuse() -> None:
            assert len(run_passes(text, *FUSE, max_ops=32).kernels) < length / 5

        return count_calls(fuse)

    work(20)
    assert work(400) < 5 * work(100)
