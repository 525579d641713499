"""`quantize`: small models of each kind stay near what they are in float, at every level and in onnxruntime."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.func import FuncOp

import mlopt
from mlopt.cli.main import main
from mlopt.diagnostics import MloptError, PassFailure
from mlopt.dialects.graph.base import tensor_type
from mlopt.engine import attach_engine
from mlopt.ir import parse_module, verify_module
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.graph.calibration import Histogram, Range, read_samples
from mlopt.passes.graph.fuse_quantized import STEPS_ALLOWED
from mlopt.passes.graph.quantize import QuantizePass
from tests.frontend.onnx_models import context, model_of, value_info
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parents[2] / "models"
PREPARED = "fixpoint(fold-constants,canonicalize,cse,dce,fold-batch-norm)"
RNG = np.random.default_rng(5)

SMALL_MODELS = {"resnet18s_dyn": 0.04, "vit_tiny_dyn": 0.05, "bert_tiny_dyn": 0.05}
"""The largest error of an output, as a part of its largest number, with one sample of calibration."""


def arrays_of(name: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    arrays = dict(np.load(MODELS / f"{name}.npz"))
    inputs = {key.removeprefix("in:"): array for key, array in arrays.items() if key.startswith("in:")}
    return inputs, [array for key, array in arrays.items() if key.startswith("out:")]


def compiled(path: Path, inputs: dict[str, np.ndarray], pipeline: str) -> mlopt.Model:
    return mlopt.compile(path, inputs=inputs, options=mlopt.CompileOptions(pipeline_text=pipeline))


def quantize_step(file: Path, options: str = "") -> str:
    return f"{PREPARED},quantize{{calibration={file} {options}}}"


def relative_error(found: np.ndarray, want: np.ndarray) -> float:
    return float(np.max(np.abs(found - want)) / np.max(np.abs(want)))


def assert_same_best(found: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """The largest number is in the same place, wherever it leads by what the tolerance leaves certain."""
    second, first = np.moveaxis(np.sort(want, axis=-1)[..., -2:], -1, 0)
    certain = first - second > 2 * tolerance * np.max(np.abs(want))
    np.testing.assert_array_equal(np.argmax(found, -1)[certain], np.argmax(want, -1)[certain])


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_validation_judges_by_the_calibration(name: str) -> None:
    """Within what the passes declare; numbers that no sample had, as seeds are, don't count for `quantize`."""
    inputs, _ = arrays_of(name)
    options = mlopt.CompileOptions(
        pipeline_text=f"{quantize_step(MODELS / f'{name}.npz')},fuse-quantized,O2", validate=True
    )
    report = mlopt.compile(MODELS / f"{name}.onnx", inputs=inputs, options=options).report()["validation"]
    assert report["rejected"] == []
    errors = {each["pass"]: each["largest_error"] for each in report["validated"]}
    assert 1e-3 < errors["quantize"] < SMALL_MODELS[name]
    assert errors["fuse-quantized"] < STEPS_ALLOWED / 127


def test_validation_undoes_what_is_far_from_the_samples(tmp_path: Path) -> None:
    """One number of 1e6 among numbers around 1 leaves no step for those: the ratio is far below 20 dB."""
    x = RNG.standard_normal((8, 16)).astype(np.float32)
    w = RNG.standard_normal((16, 4)).astype(np.float32)
    x[:, 0], w[0] = 1e6, 0
    np.savez(tmp_path / "samples.npz", x=x)
    model = model_of(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], [value_info("x", x)], ["y"], {"w": w}
    )
    text = f"quantize{{calibration={tmp_path / 'samples.npz'} min-sqnr=-100}},O2"
    options = mlopt.CompileOptions(pipeline_text=text, validate=True, reproducers=tmp_path / "reproducers")
    compiled_model = mlopt.compile(model, options=options)
    (rejected,) = compiled_model.report()["validation"]["rejected"]
    assert rejected["pass"] == "quantize" and rejected["error"] > 0.1
    np.testing.assert_allclose(compiled_model.run({"x": x})["y"], x @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_small_models(name: str) -> None:
    """Integers give what the QDQ form gives, which is near the float model; top-1 agrees."""
    inputs, want = arrays_of(name)
    step = quantize_step(MODELS / f"{name}.npz")
    quantized, integers = (
        list(compiled(MODELS / f"{name}.onnx", inputs, f"{step},{rest}").run(inputs).values())
        for rest in ("O2", "O3")
    )
    for qdq, found, exact in zip(quantized, integers, want, strict=True):
        assert 1e-6 < relative_error(found, exact) < SMALL_MODELS[name]
        assert relative_error(found, qdq) < 0.02
        assert_same_best(found, exact, SMALL_MODELS[name])


@pytest.mark.parametrize("name", ["resnet18s_dyn", "vit_tiny_dyn"])
@pytest.mark.parametrize("rest", ["", ",fuse-quantized"])
def test_what_is_exported_runs_in_onnxruntime(name: str, rest: str, tmp_path: Path) -> None:
    """In QDQ form and with integers; the same numbers as here, but for integers that are halfway between two."""
    inputs, _ = arrays_of(name)
    step = quantize_step(MODELS / f"{name}.npz")
    target = tmp_path / "quantized.onnx"
    declared = onnx.load(MODELS / f"{name}.onnx").graph.input[0].type.tensor_type.shape.dim
    sizes = zip(declared, next(iter(inputs.values())).shape, strict=True)
    options = [text for dim, size in sizes if dim.dim_param for text in ("--dim", f"{dim.dim_param}={size}")]
    pipeline = f"{step}{rest}"
    assert (
        main(["export", str(MODELS / f"{name}.onnx"), "-o", str(target), "--pipeline", pipeline, *options])
        == 0
    )
    model = onnx.load(target)
    onnx.checker.check_model(model)
    kinds = {node.op_type for node in model.graph.node}
    assert "QuantizeLinear" in kinds
    assert ("MatMulInteger" in kinds) == bool(rest)
    found = run_model(model, inputs)
    here = compiled(MODELS / f"{name}.onnx", inputs, f"{pipeline},O2").run(inputs).values()
    for theirs, ours in zip(found, here, strict=True):
        assert relative_error(theirs, ours) < 0.02


IMAGE = RNG.standard_normal((3, 1, 4, 8, 8)).astype(np.float32)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """conv, relu, conv, add, matmul, all with names; beside it calibration inputs of three samples."""
    constants = {
        "w1": RNG.standard_normal((4, 4, 3, 3)).astype(np.float32),
        "w2": RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "b": RNG.standard_normal(4).astype(np.float32),
        "w3": RNG.standard_normal((8, 5)).astype(np.float32),
    }
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b"], ["c1"], "first", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "relu"),
        node("Conv", ["r1", "w2"], ["c2"], "second"),
        node("Add", ["r1", "c2"], ["sum"], "residual"),
        node("MatMul", ["sum", "w3"], ["y"], "last"),
    ]
    onnx.save(model_of(nodes, [value_info("x", IMAGE[0])], ["y"], constants), tmp_path / "net.onnx")
    np.savez(tmp_path / "c.npz", x=IMAGE)
    return tmp_path / "net.onnx"


def kinds_of(network: Path, options: str) -> dict[str, int]:
    """How many convolutions etc. are integer products, and how many are not."""
    step = quantize_step(network.parent / "c.npz", options)
    target = network.parent / "out.mlir"
    arguments = [
        "compile",
        str(network),
        "-o",
        str(target),
        "--to",
        "graph",
        "--pipeline",
        f"{step},fuse-quantized",
    ]
    assert main(arguments) == 0
    text = target.read_text()
    counts = {
        "integer": text.count("= graph.integer_"),
        "float": text.count("= graph.conv") + text.count("= graph.matmul"),
        "quantize": text.count("= graph.quantize"),
    }
    model = compiled(network, {"x": IMAGE[0]}, f"{step},O3")
    (found,) = model.run({"x": IMAGE[0]}).values()
    (want,) = mlopt.compile(network).run({"x": IMAGE[0]}).values()
    assert relative_error(found, want) < 0.1
    return counts


@pytest.mark.parametrize(
    ("options", "integer"),
    [
        ("", 3),
        ("kinds=conv", 2),
        ("kinds={matmul,add}", 1),
        ("keep=sec*", 2),
        ("keep={first,last}", 1),
        ("keep-first", 2),
        ("keep-last", 2),
        ("keep-first keep-last", 1),
        ("method=percentile percentile=99.9", 3),
        ("method=mse", 3),
        ("min-sqnr=300", 0),
    ],
)
def test_what_stays_float(network: Path, options: str, integer: int) -> None:
    counts = kinds_of(network, options)
    assert (counts["integer"], counts["float"]) == (integer, 3 - integer)
    assert (counts["quantize"] > 0) == (integer > 0)


def test_remarks_say_the_error_and_why_not(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = quantize_step(network.parent / "c.npz", "keep={second,fourth*}")
    target = network.parent / "out.mlir"
    arguments = ["compile", str(network), "-o", str(target), "--to", "graph", "--remarks", "passed,missed"]
    assert main([*arguments, "--pipeline", step]) == 0
    text = capsys.readouterr().err
    assert "node \"first\": remark: [quantize] quantized 'conv': SQNR" in text
    assert "node \"second\": remark: [quantize] stays float: 'keep' names it ('second')" in text
    assert "warning: pass 'quantize': no node or value has the name 'fourth*' of 'keep'" in text
    assert "'second' of 'keep'" not in text


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": IMAGE}, "expected an array for input 'x'"),
        ({"x": IMAGE[..., 1:]}, "expected shape [1, 4, 8, 8] for input 'x'"),
        ({"x": IMAGE[:0]}, "expected equally many samples of all inputs"),
        ({"x": IMAGE, "in:x": IMAGE}, "expected one array for 'x', found two"),
        ({"x": IMAGE.astype(np.complex64)}, "expected numbers like float32 for input 'x', found complex64"),
        ({"x": IMAGE.astype(str)}, "expected numbers like float32 for input 'x', found <U"),
    ],
)
def test_calibration_inputs_that_do_not_fit(
    network: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(network.parent / "c.npz", **arrays)
    with pytest.raises(MloptError) as caught:
        compiled(network, {"x": IMAGE[0]}, f"{quantize_step(network.parent / 'c.npz')},O2")
    assert message in str(caught.value)


def as_npz(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, x=array)
    return file.getvalue()


def as_npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def as_zip(text: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", text)
    return file.getvalue()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "not a readable .npz file"),
        (b"no archive", "not a readable .npz file"),
        (as_npz(IMAGE)[:2000], "not a readable .npz file"),
        (as_npz(IMAGE)[:500] + bytes(9) + as_npz(IMAGE)[509:], "not a readable .npz file"),
        (as_npz(np.array([None])), "not a readable .npz file"),
        (as_npy(IMAGE), "found a single array"),
        (as_zip("no array"), "expected arrays only"),
    ],
)
def test_calibration_files_that_are_no_npz(network: Path, contents: bytes, message: str) -> None:
    (network.parent / "c.npz").write_bytes(contents)
    with pytest.raises(PassFailure, match=f"expected an .npz file of calibration inputs, .*{message}"):
        compiled(network, {"x": IMAGE[0]}, quantize_step(network.parent / "c.npz"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("scale", [np.inf, 1e30, 3e38, 1e-42, 0])
def test_calibration_inputs_of_odd_ranges(network: Path, method: str, scale: float) -> None:
    """Nothing that had infinite numbers becomes integers; nothing warns; the answer is a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.savez(network.parent / "c.npz", x=IMAGE[0] * np.float32(scale))
    step = quantize_step(network.parent / "c.npz", f"method={method}")
    model = compiled(network, {"x": IMAGE[0]}, f"{step},O3")
    (found,) = model.run({"x": IMAGE[0]}).values()
    assert np.all(np.isfinite(found))
    if not np.isfinite(scale):
        (want,) = mlopt.compile(network).run({"x": IMAGE[0]}).values()
        assert relative_error(found, want) < 1e-5


def test_no_number_of_decibels_is_measured_on_infinite_numbers(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(network.parent / "c.npz", x=np.where(IMAGE.max() == IMAGE, np.inf, IMAGE))
    step = quantize_step(network.parent / "c.npz")
    target = network.parent / "out.mlir"
    arguments = ["compile", str(network), "-o", str(target), "--to", "graph", "--remarks", "passed,missed"]
    assert main([*arguments, "--pipeline", step]) == 0
    text = capsys.readouterr().err
    assert text.count("stays float: on a sample it has numbers that are infinite or NaN") == 4
    assert "quantize " not in target.read_text()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_samples_that_hold_nan(network: Path, dtype: type[np.floating[Any]]) -> None:
    """The second of three samples is named; in a type that is converted, too."""
    image = IMAGE.astype(dtype)
    image[1, 0, 2, 3, 4] = np.nan
    np.savez(network.parent / "c.npz", x=image)
    where = re.escape(f"found NaN in sample 2 of 3 in '{network.parent / 'c.npz'}': leave the sample out")
    with pytest.raises(PassFailure, match=f"expected numbers for input 'x', {where}"):
        compiled(network, {"x": IMAGE[0]}, f"{quantize_step(network.parent / 'c.npz')},O2")


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_nan_in_inputs_of_each_float_type(element: str, tmp_path: Path) -> None:
    """Also in an array that is for all samples, which no sample can be left out for; infinities are numbers."""
    type_ = f"tensor<2x{element}>"
    text = f"""func.func @main(%x: {type_}, %m: {type_}, %i: tensor<2xi64>) -> {type_} {{
      func.return %x : {type_}
    }}"""
    main = next(op for op in parse_module(text, context()).walk() if isinstance(op, FuncOp))
    dtype = to_numpy_dtype(tensor_type(main.body.block.args[0].type).element_type)
    arrays = {
        "arg0": np.array([[1, np.inf], [-np.inf, 0]]).astype(dtype).astype(np.float32),
        "arg1": np.array([np.nan, 0], np.float32),
        "arg2": np.array([1, 2]),
    }
    path = tmp_path / "c.npz"
    np.savez(path, **arrays)
    with pytest.raises(
        PassFailure, match=r"'arg1', found NaN in the array for all 2 samples in .*: put numbers"
    ):
        read_samples(str(path), main)
    arrays["arg1"] = np.array([-np.inf, 0], np.float32)
    np.savez(path, **arrays)
    assert [sample["arg1"].dtype for sample in read_samples(str(path), main)] == [dtype, dtype]


def test_samples_beyond_the_largest_number_are_infinite(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1e300 is no number of f32, and nothing to warn of."""
    np.savez(network.parent / "c.npz", x=np.where(IMAGE.max() == IMAGE, 1e300, IMAGE.astype(np.float64)))
    arguments = ["compile", str(network), "-o", str(network.parent / "out.mlir"), "--remarks", "missed"]
    assert main([*arguments, "--pipeline", f"{quantize_step(network.parent / 'c.npz')},O2"]) == 0
    assert capsys.readouterr().err.count("on a sample it has numbers that are infinite or NaN") == 4


def quantized_error(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, np.ndarray],
    x: np.ndarray,
    options: str = "",
) -> float:
    """The largest error of any output, as QDQ and as integers, against onnxruntime on the float model."""
    outputs = [output for node in nodes for output in node.output if output.startswith("y")]
    path = tmp_path / "small.onnx"
    onnx.save(model_of(nodes, [value_info("x", x)], outputs, constants), path)
    np.savez(tmp_path / "c.npz", x=x)
    want = run_model(onnx.load(path), {"x": x})
    step = quantize_step(tmp_path / "c.npz", options)
    return max(
        relative_error(found, exact)
        for rest in ("O2", "fuse-quantized,O1", "O3")
        for found, exact in zip(
            compiled(path, {"x": x}, f"{step},{rest}").run({"x": x}).values(), want, strict=True
        )
    )


def test_one_value_as_both_factors(tmp_path: Path) -> None:
    x = RNG.standard_normal((5, 5)).astype(np.float32)
    nodes = [onnx.helper.make_node("MatMul", ["x", "x"], ["y"])]
    assert 0 < quantized_error(tmp_path, nodes, {}, x, "kinds=product") < 0.03


def test_weights_with_a_batch(tmp_path: Path) -> None:
    """A scale for each feature of each matrix: one matrix is 1000 times the other."""
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    w = RNG.standard_normal((2, 4, 5)).astype(np.float32)
    w[1] *= 1000
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["p"]),
        onnx.helper.make_node("Split", ["p"], ["y0", "y1"], axis=0, num_outputs=2),
    ]
    assert 0 < quantized_error(tmp_path, nodes, {"w": w}, x) < 0.02


def test_nothing_to_sum(tmp_path: Path) -> None:
    """The product is 0: what is left is the bias, whose unit means nothing."""
    image, bias = np.zeros((1, 0, 4, 4), np.float32), np.array([0.3, 2.0], np.float32)
    conv = onnx.helper.make_node("Conv", ["x", "w", "b"], ["y"])
    constants = {"w": np.zeros((2, 0, 3, 3), np.float32), "b": bias}
    assert quantized_error(tmp_path, [conv], constants, image) < 1e-6
    product = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["p"]),
        onnx.helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    constants["w"] = np.zeros((0, 2), np.float32)
    assert quantized_error(tmp_path, product, constants, np.zeros((3, 0), np.float32)) < 1e-6


def test_the_bias_of_a_channel_without_weights(tmp_path: Path) -> None:
    """0.3 is no multiple of the input's scale, 255 / 255, which is the unit with a weight scale of 1."""
    image = np.linspace(0, 255, 32, dtype=np.float32).reshape(1, 2, 4, 4)
    w = np.zeros((2, 2, 1, 1), np.float32)
    w[0] = 1
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        onnx.helper.make_node("Split", ["c"], ["y0", "y1"], axis=1, num_outputs=2),
    ]
    constants = {"w": w, "b": np.array([1, 0.3], np.float32)}
    assert quantized_error(tmp_path, nodes, constants, image) < 0.01


def test_movements_do_not_make_a_small_range_coarse(tmp_path: Path) -> None:
    """x is joined to numbers 100 times as large: of one scale for both, nothing of x would be left."""
    x = RNG.standard_normal((1, 4, 8, 8)).astype(np.float32)
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["large"]),
        node("Concat", ["large", "x"], ["joined"], axis=1),
        node("Conv", ["joined", "w2"], ["y0"]),
        node("Conv", ["x", "w3"], ["y1"]),
    ]
    constants = {
        "w1": 100 * RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "w2": RNG.standard_normal((4, 8, 1, 1)).astype(np.float32),
        "w3": RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
    }
    assert quantized_error(tmp_path, nodes, constants, x) < 0.02


def test_main_is_quantized_wherever_it_stands(tmp_path: Path) -> None:
    """Behind a declaration and another function."""
    np.savez(tmp_path / "c.npz", x=RNG.standard_normal((3, 4)).astype(np.float32))
    weight = "%w = graph.constant dense<2.0> : tensor<4x4xf32>"
    product = "graph.matmul %x, %w : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>"
    text = f"""func.func private @extern(tensor<3x4xf32>) -> tensor<3x4xf32>
    func.func @other(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {{ func.return %x : tensor<3x4xf32> }}
    func.func @main(%x: tensor<3x4xf32> {{mlopt.name = "x"}}) -> tensor<3x4xf32> {{
      {weight}
      %y = {product}
      func.return %y : tensor<3x4xf32>
    }}"""
    ctx = context()
    attach_engine(ctx)
    module = parse_module(text, ctx)
    assert QuantizePass(str(tmp_path / "c.npz")).run(ctx, module)
    verify_module(module)
    assert str(module).count("graph.quantize") == 1


def test_options_that_make_no_sense() -> None:
    with pytest.raises(PassFailure, match="expected a number of decibels for min-sqnr, found nan"):
        QuantizePass("c.npz", min_sqnr=float("nan"))
    with pytest.raises(PassFailure, match=r"expected kinds among conv, .* found 'pool'"):
        QuantizePass("c.npz", kinds=("pool",))
    with pytest.raises(PassFailure, match="expected a percentile above 0"):
        QuantizePass("c.npz", percentile=0)


def test_ranges_by_each_method() -> None:
    """99999 numbers up to 1 and one of 100: 99% are below 1; (100 - h)^2 + 1e5 (h / 255)^2 / 12 is least at 88.6."""
    histogram = Histogram.over(Range(0, 100))
    histogram.add(np.append(np.linspace(0, 1, 99_999), 100))
    assert histogram.chosen("minmax", 99) == Range(0, 100)
    percentile = histogram.chosen("percentile", 99)
    assert percentile.low == 0
    assert 0.9 < percentile.high < 1.1
    assert abs(histogram.chosen("mse", 99).high - 88.6) < 100 / 128
