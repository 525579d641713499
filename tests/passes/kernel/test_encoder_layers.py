"""An encoder of any depth becomes the same few kernels."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.dialects.kernel import LaunchOp
from tests.passes.kernel.support import BOTH, check_numbers, run_passes

X = "tensor<2x5x8xf32>"  # batch, tokens, features; 2 heads of 4
HEADS = "tensor<2x2x5x4xf32>"


def layer(n: int) -> tuple[str, dict[str, str]]:
    """The text of layer `n`, from %x{n} to %x{n + 1}, and its parameters with their types."""
    weights = {f"{name}{n}": "tensor<8x8xf32>" for name in ("wq", "wk", "wv", "wo")}
    weights |= {f"w1{n}": "tensor<8x16xf32>", f"w2{n}": "tensor<16x8xf32>"}
    vectors = {f"{name}{n}": "tensor<8xf32>" for name in ("bq", "bk", "bv", "bo", "b2", "g1", "g2")}
    vectors[f"b1{n}"] = "tensor<16xf32>"
    lines: list[str] = []

    def linear(name: str, x: str, hidden: str = X) -> None:
        wide = "16" if name == "1" else "8"
        out = f"tensor<2x5x{wide}xf32>"
        weight = (weights | vectors)[f"w{name}{n}"]
        lines.append(f"%m{name}{n} = graph.matmul {x}, %w{name}{n} : ({hidden}, {weight}) -> {out}")
        lines.append(
            f"%l{name}{n} = graph.add %m{name}{n}, %b{name}{n} : ({out}, tensor<{wide}xf32>) -> {out}"
        )

    for name in "qkv":
        linear(name, f"%x{n}")
        lines.append(f"%h{name}{n} = graph.reshape %l{name}{n} : {X} to tensor<2x5x2x4xf32>")
        perm, turned = ("0, 2, 3, 1", "tensor<2x2x4x5xf32>") if name == "k" else ("0, 2, 1, 3", HEADS)
        lines.append(
            f"%t{name}{n} = graph.transpose %h{name}{n} perm = [{perm}] : (tensor<2x5x2x4xf32>) -> {turned}"
        )
    scores = "tensor<2x2x5x5xf32>"
    lines.append(f"%s{n} = graph.matmul %tq{n}, %tk{n} : ({HEADS}, tensor<2x2x4x5xf32>) -> {scores}")
    lines.append(f"%d{n} = graph.mul %s{n}, %half : ({scores}, tensor<f32>) -> {scores}")
    lines.append(f"%a{n} = graph.add %d{n}, %mask : ({scores}, tensor<2x1x1x5xf32>) -> {scores}")
    lines.append(f"%p{n} = graph.softmax %a{n} axis = 3 : {scores}")
    lines.append(f"%c{n} = graph.matmul %p{n}, %tv{n} : ({scores}, {HEADS}) -> {HEADS}")
    lines.append(f"%u{n} = graph.transpose %c{n} perm = [0, 2, 1, 3] : ({HEADS}) -> tensor<2x5x2x4xf32>")
    lines.append(f"%f{n} = graph.reshape %u{n} : tensor<2x5x2x4xf32> to {X}")
    linear("o", f"%f{n}")
    norm = f"axis = 2 epsilon = 1.0e-5 : ({X}, tensor<8xf32>) -> {X}"
    lines.append(f"%r{n} = graph.add %lo{n}, %x{n} : ({X}, {X}) -> {X}")
    lines.append(f"%y{n} = graph.layer_norm %r{n}, %g1{n} {norm}")
    linear("1", f"%y{n}")
    lines.append(f"%e{n} = graph.gelu %l1{n} : tensor<2x5x16xf32>")
    linear("2", f"%e{n}", "tensor<2x5x16xf32>")
    lines.append(f"%z{n} = graph.add %l2{n}, %y{n} : ({X}, {X}) -> {X}")
    lines.append(f"%x{n + 1} = graph.layer_norm %z{n}, %g2{n} {norm}")
    return "\n".join(lines), weights | vectors


def encoder(depth: int) -> tuple[str, dict[str, np.ndarray]]:
    """An encoder of `depth` layers, with random inputs for it."""
    parameters = {"x0": X, "keep": "tensor<2x1x1x5xf32>"}
    body = [
        "%half = graph.constant dense<0.5> : tensor<f32>",
        "%big = graph.constant dense<-1.0e4> : tensor<f32>",
    ]
    mask = "tensor<2x1x1x5xf32>"
    body.append(f"%mask = graph.mul %keep, %big : ({mask}, tensor<f32>) -> {mask}")
    for n in range(depth):
        text, more = layer(n)
        body.append(text)
        parameters |= more
    arguments = ", ".join(f"%{name}: {type}" for name, type in parameters.items())
    text = (
        f"func.func @main({arguments}) -> {X} {{\n" + "\n".join(body) + f"\nfunc.return %x{depth} : {X}\n}}"
    )
    generator = np.random.default_rng(0)
    shapes = {name: type[len("tensor<") : -len("xf32>")].split("x") for name, type in parameters.items()}
    return text, {
        name: generator.standard_normal([int(size) for size in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }


def distinct(launches: list[LaunchOp]) -> int:
    """How many kernels differ in more than names."""
    found: list[LaunchOp] = []
    for launch in launches:
        if not any(launch.region.is_structurally_equivalent(other.region) for other in found):
            found.append(launch)
    return len(found)


@pytest.mark.parametrize("depth", [1, 2])
def test_numbers(depth: int) -> None:
    check_numbers(*encoder(depth))


def test_kernels_of_a_layer() -> None:
    """Three projections, scores, softmax, context, output and norm, two products and a norm; the mask once before."""
    layer_kernels = [
        *["matmul_add"] * 3,
        "matmul_mul_add",
        "softmax",
        "matmul_transpose",
        "matmul_add",
        "layer_norm",
        "matmul_add_gelu",
        "matmul_add",
        "layer_norm",
    ]
    assert run_passes(encoder(2)[0], *BOTH).kernels == ["mul", *layer_kernels, *layer_kernels]


def test_depth_adds_no_kernel() -> None:
    shallow, deep = run_passes(encoder(2)[0], *BOTH), run_passes(encoder(12)[0], *BOTH)
    assert len(deep.kernels) == 1 + 12 * 11
    assert distinct(deep.launches) == distinct(shallow.launches)
