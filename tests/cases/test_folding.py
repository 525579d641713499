"""Public faults of folding into weights and windows (part F), and their kin, with the right values by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mlopt
from mlopt.cli import main as mlopt_main
from mlopt.cli import opt
from mlopt.diagnostics import MloptError
from tests.cases.models import check
from tests.frontend.onnx_models import Arrays, assert_close, model_of, run_onnxruntime, value_info


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def norm(input: str, output: str, name: str, epsilon: float = 0.0, **attributes: Any) -> onnx.NodeProto:
    """Batch normalization with the parameters `NAME_scale`, `NAME_bias`, `zero` and `one`."""
    operands = f"{input} {name}_scale {name}_bias zero one"
    return node("BatchNormalization", operands, output, epsilon=epsilon, **attributes)


def statistics(channels: int) -> dict[str, np.ndarray]:
    return {"zero": np.zeros(channels, np.float32), "one": np.ones(channels, np.float32)}


def model(
    nodes: list[onnx.NodeProto], x: np.ndarray, constants: Arrays, outputs: str = "y"
) -> onnx.ModelProto:
    return model_of(nodes, [value_info("x", x)], outputs.split(), constants)


# F01: what is folded into has another consumer.

BESIDE = {"Relu": [2, 0], "Identity": [2, -4]}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("first", [False, True])
def test_f01_a_convolution_with_another_consumer(beside: str, first: bool) -> None:
    """x = [1, -2], weight 2: c = [2, -4]; 3 c + 1 = [7, -11]. The order of the consumers makes no difference."""
    x = f32(1, -2).reshape(1, 1, 1, 2)
    consumers = [norm("c", "y1", "n"), node(beside, "c", "y2")]
    nodes = [node("Conv", "x w", "c"), *(consumers if first else consumers[::-1])]
    constants = {"w": f32(2).reshape(1, 1, 1, 1), "n_scale": f32(3), "n_bias": f32(1), **statistics(1)}
    want = {"y1": f32(7, -11).reshape(x.shape), "y2": f32(*BESIDE[beside]).reshape(x.shape)}
    check(model(nodes, x, constants, "y1 y2"), {"x": x}, want)


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose", "MatMul", "Gemm"])
def test_f01_two_norms_of_one_result(op_type: str) -> None:
    """2 x = [2, -4]: the one norm gives 3 c + 1, the other 5 c."""
    is_product = op_type in ("MatMul", "Gemm")
    x = f32(1, -2).reshape((2, 1) if is_product else (1, 1, 2))
    w = f32(2).reshape((1, 1) if is_product else (1, 1, 1))
    nodes = [node(op_type, "x w", "c"), norm("c", "y1", "n"), norm("c", "y2", "m")]
    constants = {
        "w": w,
        "n_scale": f32(3),
        "n_bias": f32(1),
        "m_scale": f32(5),
        "m_bias": f32(0),
        **statistics(1),
    }
    want = {"y1": f32(7, -11).reshape(x.shape), "y2": f32(10, -20).reshape(x.shape)}
    check(model(nodes, x, constants, "y1 y2"), {"x": x}, want)


def test_f01_the_product_is_used_before_its_bias_is_added() -> None:
    """x w = [2, -4], + 10 = [12, 6], * 3 = [36, 18]; the product itself is read too."""
    x = f32(1, -2).reshape(2, 1)
    nodes = [
        node("MatMul", "x w", "p"),
        node("Add", "p c", "s"),
        node("Mul", "s a", "y1"),
        node("Neg", "p", "y2"),
    ]
    constants = {"w": f32(2).reshape(1, 1), "c": f32(10), "a": f32(3)}
    want = {"y1": f32(36, 18).reshape(2, 1), "y2": f32(-2, 4).reshape(2, 1)}
    check(model(nodes, x, constants, "y1 y2"), {"x": x}, want)


def test_f01_a_scaled_input_of_two_products() -> None:
    """Both read 3 x: the scale may go into neither alone, or into both."""
    x = f32(1, -2).reshape(1, 2)
    nodes = [node("Mul", "x a", "s"), node("MatMul", "s w", "y1"), node("MatMul", "s v", "y2")]
    constants = {"a": f32(3), "w": f32([1], [1]), "v": f32([1], [-1])}
    check(model(nodes, x, constants, "y1 y2"), {"x": x}, {"y1": f32([-3]), "y2": f32([9])})


def test_f01_one_weight_in_two_convolutions() -> None:
    """Only the one with a norm behind it gets another weight."""
    x = f32(1, -2).reshape(1, 1, 2)
    nodes = [node("Conv", "x w", "c"), norm("c", "y1", "n"), node("Conv", "x w", "y2")]
    constants = {"w": f32(2).reshape(1, 1, 1), "n_scale": f32(3), "n_bias": f32(1), **statistics(1)}
    want = {"y1": f32(7, -11).reshape(x.shape), "y2": f32(2, -4).reshape(x.shape)}
    check(model(nodes, x, constants, "y1 y2"), {"x": x}, want)


# F03: names of new weights.

CHANNELS = 9
"""So many that weights of 3x3 filters are in the store, by name, and not in the IR."""


def two_convolutions(names: tuple[str, ...]) -> tuple[onnx.ModelProto, Arrays]:
    """Two convolutions of x, each with a norm behind it and no bias; and tensors with `names`, added to the result."""
    generator = np.random.default_rng(0)

    def random(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    x = random(1, CHANNELS, 4, 4)
    constants = {name: random(CHANNELS, 4, 4) for name in names}
    nodes: list[onnx.NodeProto] = []
    for name in "ab":
        constants[f"{name}_w"] = random(CHANNELS, CHANNELS, 3, 3)
        constants[f"{name}_scale"], constants[f"{name}_bias"] = random(CHANNELS), random(CHANNELS)
        nodes.append(node("Conv", f"x {name}_w", f"{name}_c", pads=[1] * 4))
        nodes.append(norm(f"{name}_c", f"{name}_n", name))
    total = "a_n"
    for i, name in enumerate(("b_n", *names)):
        nodes.append(node("Mul" if i == 0 else "Add", f"{total} {name}", f"t{i}"))
        total = f"t{i}"
    nodes.append(node("Identity", total))
    return model(nodes, x, {**constants, **statistics(CHANNELS)}), {"x": x}


TAKEN = ("a_w_1", "b_w_1", "weight", "bias", "weight_1", "bias_1", "a_bias_1", "a_w_2", "scale", "shift")


@pytest.mark.parametrize("names", [(), TAKEN])
def test_f03_names_stay_apart(names: tuple[str, ...], tmp_path: Path) -> None:
    """Where the names that a pass would take are taken; the pipeline run twice; saved, read and run again."""
    proto, inputs = two_convolutions(names)
    want = run_onnxruntime(proto, inputs)
    check(proto, inputs, want, 1e-5)
    onnx.save(proto, tmp_path / "0.onnx")  # pyright: ignore[reportUnknownMemberType]
    for i in range(2):
        # Exported, and the export exported again: the checker finds names that are there twice.
        assert (
            mlopt_main.main(["export", str(tmp_path / f"{i}.onnx"), "-o", str(tmp_path / f"{i + 1}.onnx")])
            == 0
        )
        exported = onnx.load(tmp_path / f"{i + 1}.onnx")  # pyright: ignore[reportUnknownMemberType]
        onnx.checker.check_model(exported, full_check=True)  # pyright: ignore[reportUnknownMemberType]
        assert_close(run_onnxruntime(exported, inputs), want, 1e-5)
    assert mlopt_main.main(["import", str(tmp_path / "0.onnx"), "-o", str(tmp_path / "0.mlir")]) == 0
    for i in range(2):
        pipeline = "--pass-pipeline=builtin.module(fold-batch-norm,cse,dce)"
        assert opt.main([str(tmp_path / f"{i}.mlir"), pipeline, "-o", str(tmp_path / f"{i + 1}.mlir")]) == 0
        assert_close(mlopt.compile(tmp_path / f"{i + 1}.mlir", inputs=inputs).run(inputs), want, 1e-5)


def test_f03_weights_of_others_are_not_written_to() -> None:
    proto, inputs = two_convolutions(TAKEN)
    store = mlopt.compile(proto, inputs=inputs).compilation.ctx.weights
    names = [name for name in TAKEN if name in store]
    assert names
    for constant in proto.graph.initializer:
        if constant.name in names:
            np.testing.assert_array_equal(store.get(constant.name), numpy_helper.to_array(constant))


# F04: attributes of the producer are part of the formula.


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_f04_beta_is_applied_once(opset: int) -> None:
    """(x I + 2 [10, 20]) * 2 + 1 = [43, 85]."""
    x = f32([1, 2])
    nodes = [node("Gemm", "x w b", "g", beta=2.0), norm("g", "y", "n")]
    constants = {
        "w": np.eye(2, dtype=np.float32),
        "b": f32(10, 20),
        "n_scale": f32(2, 2),
        "n_bias": f32(1, 1),
    }
    proto = model_of(nodes, [value_info("x", x)], ["y"], {**constants, **statistics(2)}, opset=opset)
    check(proto, {"x": x}, {"y": f32([43, 85])})


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("beta", [1.0, 2.0, 0.0])
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("bias", [(), (3,), (1, 3), (2, 1), (2, 3)])
def test_f04_every_form_of_gemm(
    alpha: float, beta: float, trans_a: int, trans_b: int, bias: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(1)
    a, b = generator.standard_normal((2, 4)), generator.standard_normal((4, 3))
    c, scale, shift = (
        generator.standard_normal(bias),
        generator.standard_normal(3),
        generator.standard_normal(3),
    )
    want = ((alpha * (a @ b) + beta * c) * scale + shift).astype(np.float32)
    x = (a.T if trans_a else a).astype(np.float32)
    gemm = node("Gemm", "x w b", "g", alpha=alpha, beta=beta, transA=trans_a, transB=trans_b)
    constants = {
        "w": np.ascontiguousarray(b.T if trans_b else b).astype(np.float32),
        "b": c.astype(np.float32),
        "n_scale": scale.astype(np.float32),
        "n_bias": shift.astype(np.float32),
        **statistics(3),
    }
    assert_close(
        mlopt.compile(model([gemm, norm("g", "y", "n")], x, constants), inputs={"x": x}).run({"x": x}),
        {"y": want},
    )


def test_f04_batch_statistics_are_no_constants() -> None:
    """With training_mode the norm is by the mean and variance of x, whatever the model says: refused, or right."""
    x = f32([1, 2], [3, 6])
    nodes = [node("Gemm", "x w b", "g"), norm("g", "y", "n", epsilon=1e-5, training_mode=1)]
    nodes[1].output.extend(["m", "v"])
    constants = {"w": np.eye(2, dtype=np.float32), "b": f32(0, 0), "n_scale": f32(2, 2), "n_bias": f32(1, 1)}
    proto = model(nodes, x, {**constants, **statistics(2)})
    try:
        got = mlopt.compile(proto, inputs={"x": x}).run({"x": x})
    except MloptError as error:
        assert "training_mode" in str(error)
    else:
        assert_close(got, {"y": f32([-1, -1], [3, 3])}, 1e-4)


# F05: which axis of the weight has the channels.


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_f05_grouped_weights(op_type: str) -> None:
    """Two channels in two groups, four features: 1 * 1, 1 * 2 * 10, 2 * 3 * 100, 2 * 4 * 1000 + 1."""
    x = f32(1, 2).reshape(1, 2, 1, 1)
    shape = (4, 1, 1, 1) if op_type == "Conv" else (2, 2, 1, 1)
    nodes = [node(op_type, "x w", "c", group=2), norm("c", "y", "n")]
    constants = {
        "w": f32(1, 2, 3, 4).reshape(shape),
        "n_scale": f32(1, 10, 100, 1000),
        "n_bias": f32(0, 0, 0, 1),
    }
    want = f32(1, 20, 600, 8001).reshape(1, 4, 1, 1)
    check(model(nodes, x, {**constants, **statistics(4)}), {"x": x}, {"y": want})


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("pads", [[0, 0], [1, 1]])
def test_f05_norms_on_either_side(op_type: str, before: bool, group: int, pads: list[int]) -> None:
    """Two channels in, six out, weights that differ everywhere. By onnxruntime without optimisation."""
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4) / 7
    shape = (6, 4 // group, 3) if op_type == "Conv" else (4, 6 // group, 3)
    w = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape) / 5
    channels = 4 if before else 6
    scale, bias = 10.0 ** np.arange(channels) / 1e3, np.arange(channels) - 1.5
    convolution = node(op_type, "m w" if before else "x w", "y" if before else "m", group=group, pads=pads)
    normalization = norm("x" if before else "m", "m" if before else "y", "n")
    nodes = [normalization, convolution] if before else [convolution, normalization]
    constants = {"w": w, "n_scale": scale.astype(np.float32), "n_bias": bias.astype(np.float32)}
    proto = model(nodes, x, {**constants, **statistics(channels)})
    check(proto, {"x": x}, run_onnxruntime(proto, {"x": x}))


# F13: padding with another value than that of what comes after.

POOLS: list[tuple[str, dict[str, Any], float]] = [
    ("MaxPool", {}, 0.0),
    ("AveragePool", {}, -5 / 3),
    ("AveragePool", {"count_include_pad": 1}, -5 / 3),
]


@pytest.mark.parametrize(("op_type", "attributes", "want"), POOLS)
def test_f13_zeros_around_a_pool(op_type: str, attributes: dict[str, Any], want: float) -> None:
    """x = -5 between zeros: their maximum is 0, and zeros count in the mean."""
    x = f32(-5).reshape(1, 1, 1)
    nodes = [node("Pad", "x p", "q"), node(op_type, "q", kernel_shape=[3], **attributes)]
    check(model(nodes, x, {"p": np.array([0, 0, 1, 0, 0, 1])}), {"x": x}, {"y": f32(want).reshape(1, 1, 1)})


@pytest.mark.parametrize(
    ("value", "low", "want"), [(0.0, 1, [5, 5]), (1.0, 1, [6, 6]), (-np.inf, 1, [-np.inf] * 2), (0.0, -1, [])]
)
def test_f13_padding_before_a_convolution(value: float, low: int, want: list[float]) -> None:
    """x = [2, 3], weights [1, 1, 1], one element more, or less, on each side: cropping is no padding."""
    x = f32(2, 3).reshape(1, 1, 2) if low > 0 else f32(9, 2, 3, 4, 9).reshape(1, 1, 5)
    nodes = [node("Pad", "x p v", "q"), node("Conv", "q w")]
    constants = {
        "p": np.array([0, 0, low, 0, 0, low]),
        "v": f32(value)[0],
        "w": np.ones((1, 1, 3), np.float32),
    }
    right = want or [9]
    check(model(nodes, x, constants), {"x": x}, {"y": f32(*right).reshape(1, 1, -1)})
