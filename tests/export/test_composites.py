"""Operators that the importer takes apart are one again in an export, at every level; what nearly is one stays.

The right numbers are those of the reference evaluation of the imported model, and onnxruntime's of the original.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from mlopt.compilation import compile_model, load_model
from mlopt.export import to_onnx
from mlopt.options import CompileOptions, for_export
from mlopt.passes.pipelines import PipelineOptions, at_optimisation_level
from tests.frontend.onnx_models import Arrays, model_of, one_node, run_mlopt, value_info
from tests.onnx_oracle import run_model

RANDOM = np.random.default_rng(7)
IMAGE = RANDOM.standard_normal((2, 8, 6, 4)).astype(np.float32)
ROWS = np.float32(
    [
        [1, 2, -3],
        [0, -0.0, 0],
        [np.inf, 1, 2],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, -np.inf, 0],
        [np.nan, 1, 2],
        [1e30, 1e30, 1],
        [1e-30, 1e-30, 0],
        [1000, 999, -1000],
        [-1000, -1001, -1002],
    ]
)
SPECIAL = np.float32(
    [
        *(0.0, -0.0, 1e-38, -1e-38, 1e-8, -1e-8, 1e-4, -1e-4, 0.5, -0.5, 1, -1, 3, -3, 10, -10, 20, -20),
        *(88, -88, 89, -89, 104, -104, 1000, -1000, 3e38, -3e38, np.inf, -np.inf, np.nan, 2),
    ]
).reshape(2, 16)
LEVELS = ("O0", "O1", "O2", "O3")


def exported(model: onnx.ModelProto, level: str) -> onnx.ModelProto:
    options = for_export(CompileOptions(pipeline=at_optimisation_level(level, PipelineOptions())))
    compilation = compile_model(load_model(model, options), "graph")
    written = to_onnx(compilation.module, compilation.ctx.weights)
    onnx.checker.check_model(written, full_check=True)
    return written


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def assert_numbers(got: Arrays, want: Arrays, tolerance: float) -> None:
    for name, array in want.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
        wide = array.astype(np.float64)
        np.testing.assert_allclose(got[name].astype(np.float64), wide, rtol=tolerance, atol=tolerance)


def assert_runs(model: onnx.ModelProto, written: onnx.ModelProto, inputs: Arrays, tolerance: float) -> None:
    (got,) = run_model(written, dict(inputs))
    assert_numbers({written.graph.output[0].name: got}, run_mlopt(model, inputs), tolerance)


ACTIVATIONS = [
    ("Softplus", {}),
    ("Softsign", {}),
    ("Mish", {}),
    ("ThresholdedRelu", {}),
    ("ThresholdedRelu", {"alpha": 0.0}),
    ("ThresholdedRelu", {"alpha": -2.0}),
    ("Elu", {}),
    ("Elu", {"alpha": 0.3}),
    ("Elu", {"alpha": -0.5}),
    ("Celu", {"alpha": 0.5}),
    ("Celu", {"alpha": 0.3}),
    ("Selu", {}),
    ("Selu", {"alpha": 2.0, "gamma": -1.5}),
    ("Shrink", {"lambd": 0.5}),
    ("Shrink", {"lambd": 0.7, "bias": 0.3}),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("op_type", "attributes"), ACTIVATIONS)
def test_activations_are_one_operator(op_type: str, attributes: dict[str, Any], level: str) -> None:
    for dtype, tolerance in ((np.float32, 1e-6), (np.float16, 2e-3)):
        if op_type in ("Celu", "Softplus") and dtype == np.float16:
            continue  # of f32 only
        with np.errstate(over="ignore"):
            inputs = {"x": SPECIAL.astype(dtype)}
        model = one_node(op_type, inputs, opset=22, **attributes)
        written = exported(model, level)
        assert kinds(written) == [op_type]
        if dtype == np.float32:
            # The formula of Celu divides by alpha, and overflows where the operator does not.
            finite = (
                np.where(np.abs(SPECIAL) > 1e38, np.float32(7), SPECIAL) if op_type == "Celu" else SPECIAL
            )
            assert_runs(model, written, {"x": finite}, tolerance)
        assert_numbers({"y0": run_model(written, inputs)[0]}, {"y0": run_model(model, inputs)[0]}, tolerance)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", [(), (16,), (2, 1), (2, 16)])
def test_prelu_is_one_operator(shape: tuple[int, ...], level: str) -> None:
    slope = np.float32(RANDOM.uniform(-1, 1, shape))
    model = one_node("PRelu", {"x": SPECIAL}, {"slope": slope})
    written = exported(model, level)
    assert kinds(written) == ["PRelu"]
    assert_runs(model, written, {"x": SPECIAL}, 1e-6)


def test_softplus_of_half_precision_does_not_overflow() -> None:
    """onnxruntime has no kernel for it in older operator sets, and takes `log(exp(x) + 1)`."""
    inputs = {"x": np.float16([1000, -1000, 20, 0, np.inf])}
    model = one_node("Softplus", inputs)
    written = exported(model, "O2")
    assert len(written.graph.node) == 7
    assert_runs(model, written, inputs, 2e-3)


def test_celu_of_alpha_1_is_elu() -> None:
    assert kinds(exported(one_node("Celu", {"x": SPECIAL}), "O2")) == ["Elu"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", ["L1", "L2", "LogSum", "LogSumExp", "SumSquare"])
def test_reductions_are_one_operator(op_type: str, keepdims: int, level: str) -> None:
    for x, axes in ((ROWS, [1]), (IMAGE, [1, -1]), (IMAGE.astype(np.float64), [0])):
        model = one_node(f"Reduce{op_type}", {"x": x}, {"axes": np.array(axes)}, keepdims=keepdims)
        written = exported(model, level)
        assert kinds(written) == [f"Reduce{op_type}"]
        assert_runs(model, written, {"x": x}, 1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("SpaceToDepth", {"blocksize": 2}),
        ("DepthToSpace", {"blocksize": 2}),
        ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
        ("Hardmax", {"axis": 1}),
        ("LRN", {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 2.0}),
        ("LRN", {"size": 5}),
        ("MeanVarianceNormalization", {}),
        ("MeanVarianceNormalization", {"axes": [1, 3]}),
        ("ArgMin", {"axis": 2, "keepdims": 0}),
        ("ArgMin", {"axis": 1, "select_last_index": 1}),
    ],
)
def test_operators_of_images(op_type: str, attributes: dict[str, Any], level: str) -> None:
    model = one_node(op_type, {"x": IMAGE}, **attributes)
    written = exported(model, level)
    assert kinds(written) == [op_type]
    assert_runs(model, written, {"x": IMAGE}, 1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_pools_of_norms_are_reductions(p: int) -> None:
    model = one_node("GlobalLpPool", {"x": IMAGE}, p=p)
    written = exported(model, "O2")
    assert kinds(written) == [f"ReduceL{p}"]
    assert_runs(model, written, {"x": IMAGE}, 1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padding_from_inside_is_one_operator(mode: str, level: str) -> None:
    model = one_node("Pad", {"x": IMAGE}, {"pads": np.array([0, 0, 2, 3, 0, 0, 1, 0])}, opset=19, mode=mode)
    written = exported(model, level)
    assert kinds(written) == ["Pad"]
    assert_runs(model, written, {"x": IMAGE}, 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("repeats", [[1, 2, 1, 3], [2, 2, 2, 2], [3, 1, 1, 1]])
def test_tile_is_one_operator(repeats: list[int], level: str) -> None:
    model = one_node("Tile", {"x": IMAGE}, {"repeats": np.array(repeats)})
    written = exported(model, level)
    assert kinds(written) == ["Tile"]
    assert_runs(model, written, {"x": IMAGE}, 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_operators_of_any_number_of_operands(op_type: str, level: str) -> None:
    for count in (3, 4):
        arrays = [np.roll(SPECIAL, index).astype(np.float32) for index in range(count - 1)]
        inputs = {f"x{index}": array for index, array in enumerate([*arrays, SPECIAL[0]])}
        model = one_node(op_type, inputs)
        written = exported(model, level)
        assert kinds(written) == [op_type]
        assert_runs(model, written, inputs, 1e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attribute", ["detect_negative", "detect_positive"])
def test_infinities_of_one_sign(attribute: str, level: str) -> None:
    model = one_node("IsInf", {"x": SPECIAL}, **{attribute: 0})
    written = exported(model, level)
    assert kinds(written) == ["IsInf"]
    assert_runs(model, written, {"x": SPECIAL}, 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("addend", [None, (3, 5), (5,), (3, 1), ()])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm_is_one_operator(
    transposed: tuple[int, int], addend: tuple[int, ...] | None, level: str
) -> None:
    shapes = [(4, 3) if transposed[0] else (3, 4), (5, 4) if transposed[1] else (4, 5)]
    shapes += [] if addend is None else [addend]
    inputs = {f"x{i}": np.float32(RANDOM.standard_normal(shape)) for i, shape in enumerate(shapes)}
    attributes = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.3, "beta": -2.0}
    model = one_node("Gemm", inputs, **attributes)
    written = exported(model, level)
    assert kinds(written) == ["Gemm"]
    assert_runs(model, written, inputs, 1e-5)


# What nearly is one.


def formula(
    text: str, inputs: Arrays, outputs: str = "y", constants: Arrays | None = None
) -> onnx.ModelProto:
    """A model of nodes, one a line: `y = Add(a, b)`; attributes follow the operands: `axis=1`."""
    nodes = list[NodeProto]()
    for index, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        result, _, call = line.partition(" = ")
        op_type, _, arguments = call.rstrip(")").partition("(")
        parts = [part.strip() for part in arguments.split(",")]
        attributes = {
            k: eval(v.replace(";", ",")) for k, _, v in (p.partition("=") for p in parts if "=" in p)
        }
        operands = [part for part in parts if "=" not in part]
        nodes.append(helper.make_node(op_type, operands, [result], f"node {index}", **attributes))
    infos = [value_info(*item) for item in inputs.items()]
    return model_of(nodes, infos, outputs.split(), constants, opset=18)


ONE, TWO, ZERO = np.float32(1), np.float32(2), np.float32(0)
SOFTSIGN = "a = Abs(x)\n b = Add(a, one)\n y = Div(x, b)"
ELU = "c = Less(x, zero)\n e = Exp(x)\n s = Sub(e, one)\n y = Where(c, s, x)"
NUMBERS = {"one": ONE, "two": TWO, "zero": ZERO}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (SOFTSIGN, ["Softsign"]),
        (SOFTSIGN.replace("(a, one)", "(one, a)"), ["Softsign"]),
        (ELU, ["Elu"]),
        (ELU.replace("Less(x, zero)", "Greater(zero, x)"), ["Elu"]),
        ("c = Less(x, zero)\n m = Mul(x, two)\n y = Where(c, m, x)", ["PRelu"]),
        ("a = Mul(x, x)\n s = ReduceSum(a)\n y = Sqrt(s)", ["ReduceL2"]),
        ("s = Add(x, x)\n y = Div(s, two)", ["Mean"]),
    ],
)
def test_formulas_that_a_model_writes_out(text: str, want: list[str]) -> None:
    model = formula(text, {"x": SPECIAL}, constants=NUMBERS)
    written = exported(model, "O0")
    assert kinds(written) == want
    assert_runs(model, written, {"x": SPECIAL}, 1e-6)


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        (SOFTSIGN.replace("one", "two"), "y"),
        (SOFTSIGN, "y a"),
        (SOFTSIGN + "\n z = Neg(b)", "y z"),
        (SOFTSIGN.replace("Div(x, b)", "Div(b, x)"), "y"),
        (ELU.replace("zero", "two"), "y"),
        (ELU.replace("Less(x, zero)", "Less(zero, x)"), "y"),
        (ELU, "y s"),
        # overflow where the operator does not
        ("e = Exp(x)\n a = Add(e, one)\n y = Log(a)", "y"),
        ("e = Exp(x)\n s = ReduceSum(e)\n t = Sqrt(s)\n y = Log(t)", "y"),
        ("a = Mul(x, x)\n m = ReduceMean(a)\n y = Sqrt(m)", "y"),
        ("a = Mul(x, two)\n s = ReduceSum(a)\n y = Sqrt(s)", "y"),
        # chains of Add stay, for engines look for them
        ("a = Add(x, one)\n b = Abs(x)\n y = Add(a, b)", "y"),
        ("a = Abs(x)\n s = Add(x, a)\n y = Div(s, one)", "y"),
        ("a = Neg(x)\n t = Transpose(a)\n y = Add(t, two)", "y"),
    ],
)
def test_near_misses_stay(text: str, outputs: str) -> None:
    model = formula(text, {"x": SPECIAL}, outputs, NUMBERS)
    assert kinds(exported(model, "O0")) == kinds(model)


def test_a_constant_that_enlarges_the_result() -> None:
    """`x / (1 + |x|)` with a 1 of a larger shape is no Softsign of x."""
    model = formula(SOFTSIGN, {"x": SPECIAL}, constants={"one": np.ones((3, 1, 1), np.float32)})
    assert kinds(exported(model, "O0")) == ["Abs", "Add", "Div"]


def test_a_mean_and_variance_that_are_written_out_keep_their_digits() -> None:
    """onnxruntime's operator takes a difference of two means of squares, which of equal numbers is not 0."""
    text = """
        m = ReduceMean(x, axes=[0; 2; 3])
        c = Sub(x, m)
        q = Mul(c, c)
        v = ReduceMean(q, axes=[0; 2; 3])
        d = Sqrt(v)
        e = Add(d, epsilon)
        y = Div(c, e)
    """
    inputs = {"x": IMAGE}
    model = formula(text, inputs, constants={"epsilon": np.float32(1e-9)})
    model.opset_import[0].version = 13
    written = exported(model, "O2")
    assert len(written.graph.node) == 7
    assert_runs(model, written, inputs, 1e-5)


def test_gathers_that_are_no_padding() -> None:
    constants = {"i": np.array([0, 0, 1, 2, 3, 4, 5]), "j": np.array([1, 0, 1, 2, 3])}
    text = "a = Gather(x, i, axis=2)\n y = Gather(a, j, axis=3)"
    inputs = {"x": IMAGE}
    assert kinds(exported(formula(text, inputs, constants=constants), "O2")) == ["Gather", "Gather"]


@pytest.mark.parametrize("order", [(0, 5, 3, 1, 2, 4), (0, 1, 3, 5, 2, 4)])
def test_blocks_in_another_order(order: tuple[int, ...]) -> None:
    """The second is torch's pixel_unshuffle, which ONNX has no operator for."""
    text = f"""
        a = Reshape(x, split)
        t = Transpose(a, perm=[{"; ".join(map(str, order))}])
        y = Reshape(t, joined)
    """
    constants = {"split": np.array([2, 8, 3, 2, 2, 2]), "joined": np.array([2, 32, 3, 2])}
    model = formula(text, {"x": IMAGE}, constants=constants)
    assert kinds(exported(model, "O2")) == ["Reshape", "Transpose", "Reshape"]
