"""`quantize` in branches and loops: near onnxruntime on the float model, and what is calibrated, kept, rewritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import mlopt
from mlopt.cli.main import main
from mlopt.diagnostics import MloptError, PassFailure
from mlopt.dialects import graph
from mlopt.engine import attach_engine
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.constants import constant_value
from mlopt.passes.graph.fuse_quantized import STEPS_ALLOWED, FuseQuantizedPass
from mlopt.passes.graph.quantize import QuantizePass
from tests.onnx_oracle import run_model
from tests.passes.graph.quantized_bodies import CASES, Case, RandomBodies, body, model, node

PREPARED = "fixpoint(fold-constants,canonicalize,cse,dce,fold-batch-norm)"
ALLOWED = QuantizePass.validation_tolerance
every_case = pytest.mark.parametrize("name", CASES)


def saved(case: Case, folder: Path) -> tuple[Path, str]:
    """The model's file, and a pipeline that quantizes it by all of its samples."""
    onnx.save(case.model, folder / "m.onnx")
    np.savez(folder / "c.npz", **case.calibration)
    return folder / "m.onnx", f"{PREPARED},quantize{{calibration={folder / 'c.npz'}}}"


def relative_error(found: np.ndarray, want: np.ndarray) -> float:
    return float(np.max(np.abs(found - want)) / np.max(np.abs(want)))


@every_case
@pytest.mark.parametrize("rest", ["O2", "fuse-quantized,O2", "O3"])
def test_near_onnxruntime_at_the_lowest_level(name: str, rest: str, tmp_path: Path) -> None:
    """Every output of every sample within the 20 dB that the pass declares; validation of O3 undoes nothing."""
    case = CASES[name](np.random.default_rng(3))
    path, step = saved(case, tmp_path)
    validate = rest == "O3"
    options = mlopt.CompileOptions(pipeline_text=f"{step},{rest}", validate=validate)
    compiled = mlopt.compile(path, options=options)
    if validate:
        assert compiled.report()["validation"]["rejected"] == []
    for sample in case.samples:
        want = run_model(case.model, dict(sample))
        for found, exact in zip(compiled.run(sample).values(), want, strict=True):
            assert ALLOWED is not None
            assert 1e-5 < relative_error(found, exact) < ALLOWED


@every_case
def test_all_products_become_integer_operators(name: str, tmp_path: Path) -> None:
    case = CASES[name](np.random.default_rng(3))
    path, step = saved(case, tmp_path)
    target = tmp_path / "out.mlir"
    arguments = ["compile", str(path), "-o", str(target), "--to", "graph", "--pipeline"]
    assert main([*arguments, f"{step},fuse-quantized"]) == 0
    text = target.read_text()
    assert text.count("= graph.integer_") == case.products
    assert "= graph.conv" not in text
    assert "= graph.matmul" not in text


@every_case
@pytest.mark.parametrize("rest", ["", ",fuse-quantized"])
def test_what_is_exported_runs_in_onnxruntime(name: str, rest: str, tmp_path: Path) -> None:
    """As there, so here, but for integers that are halfway between two."""
    case = CASES[name](np.random.default_rng(3))
    path, step = saved(case, tmp_path)
    target = tmp_path / "quantized.onnx"
    assert main(["export", str(path), "-o", str(target), "--pipeline", f"{step}{rest}"]) == 0
    exported = onnx.load(target)
    onnx.checker.check_model(exported)
    here = mlopt.compile(path, options=mlopt.CompileOptions(pipeline_text=f"{step}{rest},O2"))
    for sample in case.samples:
        found = run_model(exported, dict(sample))
        for theirs, ours in zip(found, here.run(sample).values(), strict=True):
            assert relative_error(theirs, ours) < 0.02


def remarks_of(case: Case, folder: Path, options: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is said of each operator, in program order: `conv: quantized`, `conv: stays float: why`."""
    path, _ = saved(case, folder)
    capsys.readouterr()
    pipeline = f"{PREPARED},quantize{{calibration={folder / 'c.npz'} {options}}}"
    arguments = [
        "compile",
        str(path),
        "-o",
        str(folder / "out.mlir"),
        "--to",
        "graph",
        "--pipeline",
        pipeline,
    ]
    assert main([*arguments, "--remarks", "passed,missed", "--remarks-filter", "^quantize"]) == 0
    lines = [
        line for line in capsys.readouterr().err.splitlines() if "[quantize]" in line or "warning" in line
    ]
    return [line.rpartition("m.onnx: ")[2].partition(": SQNR")[0] for line in lines]


def quantized_nodes(remarks: list[str]) -> set[str]:
    return {line.split('"')[1] for line in remarks if "quantized '" in line}


BRANCHES = {"before", "then_conv", "then_add", "then_matmul", "else_conv", "behind"}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("", set[str]()),
        ("keep=else_conv", {"else_conv"}),
        ("keep=then*", {"then_conv", "then_add", "then_matmul"}),
        ("keep=choice", {"then_conv", "then_add", "then_matmul", "else_conv"}),
        ("keep=q", {"then_conv", "then_add", "then_matmul", "else_conv"}),  # the value that the If gives
        (
            "keep-first",
            {"before", "then_add"},
        ),  # the add is in the wake of two convolutions, or stays float too
        ("keep-last", {"behind"}),
        ("keep={before,behind} keep-first", {"before", "behind", "then_conv", "then_add", "else_conv"}),
        ("keep=behind keep-last", {"behind", "then_matmul", "else_conv"}),
        ("kinds=matmul", {"before", "then_conv", "then_add", "else_conv"}),
    ],
)
def test_what_stays_float(
    options: str, kept: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of an If is that of all in it; the first and the last are those of each branch."""
    remarks = remarks_of(CASES["branches"](np.random.default_rng(3)), tmp_path, options, capsys)
    assert quantized_nodes(remarks) == BRANCHES - kept
    assert not [line for line in remarks if "warning" in line]


def test_a_kept_branch_is_said_to_be_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["scan"](np.random.default_rng(3))
    remarks = remarks_of(case, tmp_path, "keep={choice,nowhere}", capsys)
    said = "remark: [quantize] stays float: 'keep' names what it is in ('choice')"
    assert [line for line in remarks if "choice" in line] == [
        f'node "then_matmul": {said}',
        f'node "else_matmul": {said}',
    ]
    assert any("no node or value has the name 'nowhere' of 'keep'" in line for line in remarks)
    assert quantized_nodes(remarks_of(case, tmp_path, "keep=steps", capsys)) == set()
    gru = CASES["recurrent"](np.random.default_rng(3))
    assert quantized_nodes(remarks_of(gru, tmp_path, "keep=gru", capsys)) == {"before"}


@pytest.mark.parametrize(("is_taken", "left"), [(True, "else_conv"), (False, "then_matmul")])
def test_a_branch_that_no_sample_takes(
    is_taken: bool, left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = CASES["branches"](np.random.default_rng(3))
    case = Case(full.model, [sample for sample in full.samples if bool(sample["c"]) is is_taken], 5)
    remarks = remarks_of(case, tmp_path, "", capsys)
    assert f'node "{left}": remark: [quantize] stays float: no sample reaches it' in remarks
    untaken = {"else_conv"} if is_taken else {"then_conv", "then_add", "then_matmul"}
    assert quantized_nodes(remarks) == BRANCHES - untaken
    path, step = saved(case, tmp_path)
    compiled = mlopt.compile(path, options=mlopt.CompileOptions(pipeline_text=f"{step},O3"))
    for (
        sample
    ) in case.samples:  # the branch takes what was calibrated; what is behind it has never seen its result
        other = {**sample, "c": np.array(not is_taken)}
        assert relative_error(compiled.run(other)["q"], run_model(full.model, other)[1]) < 0.05


def test_a_loop_without_trips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of trips is an input, and 0 in every sample."""
    inside = [node("MatMul", ["h", "w"], ["next"], "inside"), node("Identity", ["go"], ["still_go"])]
    step = body("step", inside, ["i", "go", "h"], ["still_go", "next"])
    nodes = [node("Loop", ["n", "", "x"], ["h_end"], "loop", body=step)]
    sample = {"x": np.ones((2, 3), np.float32), "n": np.array(0)}
    case = Case(model(nodes, sample, ["h_end"], {"w": np.eye(3, dtype=np.float32)}), [sample], 1)
    remarks = remarks_of(case, tmp_path, "", capsys)
    assert remarks == ['node "inside": remark: [quantize] stays float: no sample reaches it']


class Quantized:
    """A `@main` of the text, quantized by samples of its arguments, and maybe fused."""

    def __init__(self, text: str, folder: Path, *samples: np.ndarray, **options: object):
        np.savez(folder / "c.npz", arg0=np.stack(samples))
        self.ctx: CompilerContext = make_context()
        attach_engine(self.ctx)
        self.module: ModuleOp = parse_module(text, self.ctx)
        verify_module(self.module)
        self.pass_ = QuantizePass(str(folder / "c.npz"), **options)  # pyright: ignore[reportArgumentType]
        self.changed = self.pass_.run(self.ctx, self.module)
        verify_module(self.module)

    def named(self, name: str) -> Operation:
        return next(op for op in self.module.walk() for result in op.results if result.name_hint == name)

    def scale_of(self, name: str, operand: int = 0) -> float:
        """The scale with which an operand of an operation was quantized."""
        pair = self.named(name).operands[operand].owner
        assert isinstance(pair, graph.DequantizeOp)
        scale = constant_value(pair.scale, self.ctx)
        assert scale is not None
        return float(scale)


LOOP = """func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<2x1xf32>) {{
  %w = graph.constant dense<[[1.0, 0.5], [0.25, -1.0]]> : tensor<2x2xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %start = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 3 : index
  %t = graph.transpose %x perm = [1, 0] : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %r:2 = scf.for %i = %start to %end step %one iter_args(%h = %x, %k = %t) -> (tensor<1x2xf32>, tensor<2x1xf32>) {{
    {lines}
  }}
  func.return %r#0, %r#1 : tensor<1x2xf32>, tensor<2x1xf32>
}}"""


@pytest.mark.parametrize("options", [{}, {"method": "percentile", "percentile": 100.0}])
def test_a_range_is_that_of_all_trips(options: dict[str, object], tmp_path: Path) -> None:
    """h is x, 2 x and 4 x for x of 1 and then of -2: from -8 to 4 in all, and from -16 to 8 behind the product."""
    lines = """%d = graph.mul %h, %two : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
    %p = graph.matmul %h, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %q = graph.matmul %d, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    scf.yield %d, %k : tensor<1x2xf32>, tensor<2x1xf32>"""
    samples = np.array([[1, 0]], np.float32), np.array([[-2, -1]], np.float32)
    quantized = Quantized(LOOP.format(lines=lines), tmp_path, *samples, **options)
    assert quantized.scale_of("p") == pytest.approx(12 / 255, rel=1e-3)
    assert quantized.scale_of("q") == pytest.approx(24 / 255, rel=1e-3)


def test_float_operators_take_what_a_loop_carries_as_it_is(tmp_path: Path) -> None:
    """Half of the least step of 8 bits is added in each trip: with h rounded each time, nothing would come of it."""
    lines = """%p = graph.matmul %h, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %c = graph.constant dense<0.001> : tensor<f32>
    %d = graph.add %h, %c : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
    scf.yield %d, %k : tensor<1x2xf32>, tensor<2x1xf32>"""
    text = LOOP.format(lines=lines).replace("constant 3 : index", "constant 100 : index")
    x = np.array([[1, -1]], np.float32)
    quantized = Quantized(text, tmp_path, x)
    assert quantized.changed
    assert quantized.ctx.function_evaluator is not None
    main_function = next(iter(quantized.module.body.block.ops))
    outputs = quantized.ctx.function_evaluator(main_function, {"arg0": x})  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(outputs["result0"], x + 0.1, rtol=1e-5)


def test_movements_in_a_body_share_the_scale_of_what_they_move(tmp_path: Path) -> None:
    """k, which a product takes transposed: one pair at k, one behind the movement, of the range of both."""
    lines = """%m = graph.transpose %k perm = [1, 0] : (tensor<2x1xf32>) -> tensor<1x2xf32>
    %p = graph.matmul %m, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %n = graph.mul %k, %two : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
    scf.yield %p, %n : tensor<1x2xf32>, tensor<2x1xf32>"""
    quantized = Quantized(LOOP.format(lines=lines), tmp_path, np.array([[1, -0.5]], np.float32))
    assert quantized.scale_of("m") == quantized.scale_of("p") == pytest.approx(6 / 255, rel=1e-6)
    assert FuseQuantizedPass().run(quantized.ctx, quantized.module)
    transposes = [op for op in quantized.module.walk() if isinstance(op, graph.TransposeOp)]
    assert [str(op.result.type) for op in transposes] == ["tensor<2x1xf32>", "tensor<1x2xi8>"]


def test_products_of_two_variables_in_a_body(tmp_path: Path) -> None:
    """One factor is carried, and at last 1.25^3, one comes from outside; both without zero point."""
    lines = """%p = graph.matmul %h, %t : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
    %d = graph.mul %h, %p : (tensor<1x2xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
    scf.yield %d, %k : tensor<1x2xf32>, tensor<2x1xf32>"""
    quantized = Quantized(
        LOOP.format(lines=lines), tmp_path, np.array([[1, -0.5]], np.float32), kinds=("product",)
    )
    assert quantized.scale_of("p", 1) == pytest.approx(1 / 127, rel=1e-6)
    assert quantized.scale_of("p") == pytest.approx(1.25**3 / 127, rel=1e-6)
    assert FuseQuantizedPass().run(quantized.ctx, quantized.module)
    assert sum(isinstance(op, graph.IntegerMatMulOp) for op in quantized.module.walk()) == 1


def test_an_operator_without_a_result_on_a_sample(tmp_path: Path) -> None:
    """There is no row 9."""
    text = """func.func @main(%x: tensor<2xi64>) -> tensor<2x2xf32> {
      %w = graph.constant dense<[[1.0, 0.5], [0.25, -1.0]]> : tensor<2x2xf32>
      %a = graph.gather %w, %x axis = 0 : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
      %y = graph.matmul %a, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      func.return %y : tensor<2x2xf32>
    }"""
    with pytest.raises(PassFailure, match=r"calibration stops in sample 2 of 2: .*9"):
        Quantized(text, tmp_path, np.array([0, 1]), np.array([0, 9]))


def test_calibration_needs_an_evaluator_and_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", arg0=np.ones((1, 2), np.float32))
    product = "%y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>"
    text = f"""func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {{
      %w = graph.constant #mlopt.weight<"w"> : tensor<2x2xf32>
      {product}
      func.return %y : tensor<1x2xf32>
    }}"""
    ctx = make_context()
    module = parse_module(text, ctx)
    with pytest.raises(
        MloptError, match="calibration needs an evaluator of functions in its context, found none"
    ):
        QuantizePass(str(tmp_path / "c.npz")).run(ctx, module)
    attach_engine(ctx)
    with pytest.raises(MloptError, match="a model can't be calibrated without its weights"):
        QuantizePass(str(tmp_path / "c.npz")).run(ctx, module)


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(seed: int, tmp_path: Path) -> None:
    """Nested loops and branches: what is quantized verifies, and its integers give what the QDQ form gives."""
    rng = np.random.default_rng(seed)
    samples = [
        {
            "arg0": rng.uniform(-1, 1, (4, 4)).astype(np.float32),
            "arg1": rng.uniform(-1, 1, (4, 4)).astype(np.float32),
            "arg2": np.array(trial % 2 == 0),
        }
        for trial in range(4)
    ]
    path = tmp_path / "c.npz"
    np.savez(path, **{name: np.stack([sample[name] for sample in samples]) for name in samples[0]})
    ctx = make_context()
    attach_engine(ctx)
    module = parse_module(RandomBodies(seed).text, ctx)
    verify_module(module)
    exact = [evaluate_module(module, sample, ctx.weights)["result0"] for sample in samples]
    options = {"kinds": ("matmul", "product"), "method": "percentile", "percentile": 99.9}
    assert QuantizePass(str(path), **(options if seed % 2 else {})).run(ctx, module)  # pyright: ignore[reportArgumentType]
    verify_module(module)
    quantized = [evaluate_module(module, sample, ctx.weights)["result0"] for sample in samples]
    assert FuseQuantizedPass().run(ctx, module)
    verify_module(module)
    for sample, qdq, right in zip(samples, quantized, exact, strict=True):
        integers = evaluate_module(module, sample, ctx.weights)["result0"]
        np.testing.assert_allclose(integers, qdq, rtol=0, atol=STEPS_ALLOWED / 127)
        assert np.max(np.abs(qdq - right)) < 0.2
