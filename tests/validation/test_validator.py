"""What validation compares, with what tolerance, what it says where it can't, and how the commands show it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

import mlopt
from mlopt.cli import main as mlopt_main
from mlopt.cli import opt
from mlopt.compilation import compile_model, load_model
from mlopt.dialects import graph
from mlopt.engine import attach_engine
from mlopt.ir import make_context, parse_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.options import CompileOptions
from mlopt.passes.common.dce import DCEPass
from mlopt.passes.graph.stabilize_softmax import StabilizeSoftmaxPass
from mlopt.passes.registry import PASSES
from mlopt.passmanager import Pass, PassManager, Pipeline
from mlopt.validation import ValidationOptions, Validator
from mlopt.validation.comparing import compare_outputs, default_tolerance
from mlopt.validation.seeding import seeded_inputs
from mlopt.weights import WeightStore
from tests.validation.faults import (
    REASSOCIATION,
    SWAPPED_OPERANDS,
    CancelSum,
    FaultyConversionPass,
    ReassociationPass,
    SwappedOperandsPass,
    SwapSub,
)


def validator_of(text: str, pass_: Pass, tmp_path: Path, **options: object) -> Validator:
    """Run a pass on a module, validated."""
    ctx = make_context(allow_unregistered=True)
    attach_engine(ctx)
    validator = Validator(ctx, ValidationOptions(reproducers=tmp_path, **options))  # pyright: ignore[reportArgumentType]
    module = parse_module(text, ctx, "model.mlir")
    PassManager(ctx, Pipeline("builtin.module", (pass_,)), instrumentations=[validator]).run(module)
    return validator


@dataclass(frozen=True)
class ApproximatingPass(Pass):
    """A pass that approximates by intent."""

    name = "approximating"
    validation_tolerance = 0.1

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return rewrite_greedily(op, [CancelSum()]).changed


@dataclass(frozen=True)
class DenyingPass(Pass):
    """A pass that changes something and says that it did not."""

    name = "denying"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        rewrite_greedily(op, [SwapSub()])
        return False


def test_a_pass_declares_its_own_tolerance(tmp_path: Path) -> None:
    """(x + 30000) - 30000 is off by up to 2**-10 (half the distance of f32 numbers there), x itself by nothing."""
    validator = validator_of(REASSOCIATION, ApproximatingPass(), tmp_path)
    assert not validator.rejections
    (checked,) = validator.validated
    assert 1e-4 < checked.largest_error < 2**-9


QUANTIZED = """
    func.func @main(%x: tensor<16xi8> {{mlopt.name = "x"}}) -> (tensor<16x{0}> {{mlopt.name = "y"}}) {{
      %one = graph.constant dense<1> : tensor<i8>
      %0 = graph.sub %x, %one : (tensor<16xi8>, tensor<i8>) -> tensor<16xi8>
      %1 = graph.cast %0 : tensor<16xi8> to tensor<16x{0}>
      func.return %1 : tensor<16x{0}>
    }}"""


@dataclass(frozen=True)
class StepsPass(Pass):
    """A pass that may round integers otherwise, by up to 2: it takes a - b for b - a, of 0 or 1 and 1."""

    name = "steps"
    validation_steps = 2

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return rewrite_greedily(op, [SwapSub()]).changed


@pytest.mark.parametrize(("element", "holds"), [("i8", True), ("i16", True), ("ui16", False), ("i32", False)])
def test_a_pass_declares_steps_of_narrow_integers(element: str, holds: bool, tmp_path: Path) -> None:
    """Of 0 - 1 the steps pass makes 1: by 2 in i8, by 65534 in ui16, and in i32 integers are exact."""
    assert (not validator_of(QUANTIZED.format(element), StepsPass(), tmp_path).rejections) == holds
    assert validator_of(QUANTIZED.format("i8"), SwappedOperandsPass(), tmp_path).rejections


@dataclass(frozen=True)
class SmallNumbersPass(Pass):
    """A pass that promises the same answer for small numbers only: it leaves out a clip to at most 1."""

    name = "small-numbers"
    largest: float = 1.0

    def validation_inputs(self, op: Operation) -> list[dict[str, np.ndarray]]:
        return [{"x": np.full(4, self.largest / n, np.float32)} for n in (1, 2)]

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        for inner in list(op.walk()):
            if isinstance(inner, graph.MinOp):
                inner.results[0].replace_all_uses_with(inner.operands[0])
                return True
        return False


CLIPPED = """
    func.func @main(%x: tensor<4xf32> {mlopt.name = "x"}) -> (tensor<4xf32> {mlopt.name = "y"}) {
      %one = graph.constant dense<1.0> : tensor<f32>
      %0 = graph.min %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %1 = graph.sub %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %1 : tensor<4xf32>
    }"""


def test_a_pass_is_judged_by_its_own_inputs_if_it_has_some(tmp_path: Path) -> None:
    """Of the seeded numbers some are above 1, and of those given all."""
    given = {"x": np.full(4, 9, np.float32)}
    validator = validator_of(CLIPPED, SmallNumbersPass(), tmp_path, inputs=given)
    assert [each.largest_error for each in validator.validated] == [0.0]
    (rejection,) = validator_of(CLIPPED, SmallNumbersPass(2.0), tmp_path).rejections
    assert "(on its own inputs)" in rejection.diagnostic.message


def test_what_follows_such_a_pass_is_compared_with_its_result(tmp_path: Path) -> None:
    ctx = make_context(allow_unregistered=True)
    attach_engine(ctx)
    validator = Validator(
        ctx, ValidationOptions(inputs={"x": np.full(4, 9, np.float32)}, reproducers=tmp_path)
    )
    dead = "%dead = graph.relu %x : tensor<4xf32>\n      %one ="
    module = parse_module(CLIPPED.replace("%one =", dead), ctx, "model.mlir")
    passes = (DCEPass(), SmallNumbersPass(), DCEPass())
    PassManager(ctx, Pipeline("builtin.module", passes), instrumentations=[validator]).run(module)
    assert not validator.rejections
    assert [each.pass_name for each in validator.validated] == ["dce", "small-numbers", "dce"]


def test_the_tolerance_that_is_given_counts(tmp_path: Path) -> None:
    assert validator_of(REASSOCIATION, ReassociationPass(), tmp_path, tolerance=1e-4).rejections
    assert not validator_of(REASSOCIATION, ReassociationPass(), tmp_path, tolerance=1e-2).rejections


def test_a_change_that_is_denied_counts_too(tmp_path: Path) -> None:
    assert validator_of(SWAPPED_OPERANDS, DenyingPass(), tmp_path).rejections


def test_given_inputs_show_what_seeded_ones_do_not(tmp_path: Path) -> None:
    """(x + c) - c is x but for a rounding where c is about as large, as seeds are; at 2**20 it is off by 1/16."""
    text = """
    func.func @main(%x: tensor<9xf32> {mlopt.name = "x"}, %c: tensor<9xf32> {mlopt.name = "c"}) -> tensor<9xf32> {
      %0 = graph.add %x, %c : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
      %1 = graph.sub %0, %c : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
      func.return %1 : tensor<9xf32>
    }"""
    assert not validator_of(text, ReassociationPass(), tmp_path).rejections
    inputs = {"x": np.arange(9, dtype=np.float32) / 7, "c": np.full(9, 2**20, np.float32)}
    (rejection,) = validator_of(text, ReassociationPass(), tmp_path, inputs=inputs).rejections
    assert "(on given inputs)" in rejection.diagnostic.message
    assert rejection.reproducer is not None
    assert "--inputs=reassociation-1.npz" in rejection.reproducer.read_text()
    with np.load(tmp_path / "reassociation-1.npz") as kept:
        assert {name: kept[name].tolist() for name in kept} == {
            name: array.tolist() for name, array in inputs.items()
        }


SOFTMAX = """
    func.func @main(%x: tensor<2x3xf32> {mlopt.name = "x"}) -> (tensor<2x3xf32> {mlopt.name = "y"}) {
      %e = graph.exp %x : tensor<2x3xf32>
      %s = graph.reduce_sum %e axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
      %y = graph.div %e, %s : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
      func.return %y : tensor<2x3xf32>
    }"""


@dataclass(frozen=True)
class WrongAxisPass(Pass):
    """A pass that says that it repairs overflow, and takes the softmax along the wrong axis."""

    name = "wrong-axis"
    repairs_overflow: ClassVar[bool] = True

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        for inner in list(op.walk()):
            if isinstance(inner, graph.DivOp):
                exp = inner.lhs.owner
                assert isinstance(exp, graph.ExpOp)
                Rewriter.replace_op(inner, graph.SoftmaxOp(exp.input, 0))
        return True


@pytest.mark.parametrize(
    "row",
    [
        [1000, 1000, 0],  # exp is inf: NaN before, 1/2 after
        [-1000, -1000, -1000],  # the sum is 0: NaN before, 1/3 after
        [88.5, 88.5, 88.5],  # the sum is inf: 0 before, 1/3 after
        [-103, -102, -102],  # exp has lost its digits: 0.25, 0.375, 0.375 before
    ],
)
def test_a_repaired_overflow_is_no_difference(row: list[float], tmp_path: Path) -> None:
    """The inputs given show what is repaired, and are said not to be judged by; the seeded ones still count."""
    inputs = {"x": np.array([row, [1, 2, 3]], np.float32)}
    validator = validator_of(SOFTMAX, StabilizeSoftmaxPass(), tmp_path, inputs=inputs)
    assert not validator.rejections
    (checked,) = validator.validated
    assert checked.largest_error < 1e-6
    (said,) = validator.report()["not_validated"]
    assert (
        "on given inputs: before pass 'stabilize-softmax' a result is too large or too small for its type"
        in said
    )
    (rejection,) = validator_of(SOFTMAX, WrongAxisPass(), tmp_path, inputs=inputs).rejections
    assert "(on seeded inputs)" in rejection.diagnostic.message


def test_inputs_on_which_nothing_overflows_judge_a_repair(tmp_path: Path) -> None:
    """No seeded input is needed: these are in range, and the axis is wrong."""
    inputs = {"x": np.array([[0, -5, 5], [1, 2, 3]], np.float32)}
    validator = validator_of(SOFTMAX, WrongAxisPass(), tmp_path, inputs=inputs)
    assert validator.rejections and not validator.report()["not_validated"]


NEGATION = "graph.neg %b : tensor<4xf32>"


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ('"other.op"(%b) : (tensor<4xf32>) -> tensor<4xf32>', "operation 'other.op' is not known"),
        ('graph.constant #mlopt.weight<"w"> : tensor<4xf32>', 'there is no weight "w"'),
    ],
)
def test_what_can_not_be_validated_is_said_once(operation: str, reason: str, tmp_path: Path) -> None:
    ctx = make_context(allow_unregistered=True)
    attach_engine(ctx)
    validator = Validator(ctx, ValidationOptions(reproducers=tmp_path))
    module = parse_module(SWAPPED_OPERANDS.replace(NEGATION, operation), ctx, "model.mlir")
    passes = (SwappedOperandsPass(), SwappedOperandsPass())
    PassManager(ctx, Pipeline("builtin.module", passes), instrumentations=[validator]).run(module)
    assert not validator.rejections and not validator.validated
    (warning,) = ctx.warnings
    assert warning.message == f"can't be validated: {reason}"


def test_nan_and_infinities_must_stand_in_their_places() -> None:
    """By hand: two NaN are equal, a NaN for a number is not, nor is an infinity of the other sign."""
    before = {"y": np.array([np.nan, np.inf, 2.0], np.float32)}
    for values, differs in (
        ([np.nan, np.inf, 2.0], False),
        ([np.nan, np.inf, 2.0001], False),
        ([np.nan, np.inf, 2.0003], True),
        ([np.nan, np.inf, np.nan], True),
        ([np.nan, -np.inf, 2.0], True),
    ):
        verdict = compare_outputs("main", {"y": np.array(values, np.float32)}, before, 1e-4)
        assert (verdict.difference is not None) == differs


def test_seeds_are_indices_where_they_are_used_as_such() -> None:
    """A gather of 5 rows takes 0 to 4; a one-hot comparison with 0 to 6 takes those; a mask is 0 or 1."""
    text = """
    func.func @main(%i: tensor<99xi64>, %h: tensor<99x1xi64>, %m: tensor<99xi64>)
        -> (tensor<99x2xf32>, tensor<99x7xi1>, tensor<99xi64>) {
      %t = graph.constant dense<1.0> : tensor<5x2xf32>
      %0 = graph.gather %t, %i axis = 0 : (tensor<5x2xf32>, tensor<99xi64>) -> tensor<99x2xf32>
      %c = graph.constant dense<[0, 1, 2, 3, 4, 5, 6]> : tensor<7xi64>
      %1 = graph.equal %h, %c : (tensor<99x1xi64>, tensor<7xi64>) -> tensor<99x7xi1>
      %2 = graph.neg %m : tensor<99xi64>
      func.return %0, %1, %2 : tensor<99x2xf32>, tensor<99x7xi1>, tensor<99xi64>
    }"""
    (func,) = parse_module(text, make_context()).ops
    inputs = seeded_inputs(func, WeightStore())  # pyright: ignore[reportArgumentType] (the only function)
    assert [set(array.flat) for array in inputs.values()] == [set(range(5)), set(range(7)), {0, 1}]


def test_modules_in_half_precision_get_four_roundings() -> None:
    """2**-10 is the distance from 1 to the next f16."""
    text = """
    func.func @main(%x: tensor<4x{0}>) -> tensor<4x{0}> {{
      %y = graph.relu %x : tensor<4x{0}>
      func.return %y : tensor<4x{0}>
    }}"""
    for element, tolerance in (("f32", 1e-4), ("f16", 4 * 2**-10), ("bf16", 4 * 2**-7)):
        assert default_tolerance(parse_module(text.format(element), make_context())) == tolerance


def test_a_compilation_ends_at_a_conversion_that_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PASSES, "convert-graph-to-kernel", "tests.validation.faults:FaultyConversionPass")
    assert FaultyConversionPass.name == "faulty-conversion"
    plain = mlopt.PipelineOptions(optimize=False)  # the subtractions are still there
    options = CompileOptions(validate=True, reproducers=tmp_path, pipeline=plain)
    with pytest.raises(
        mlopt.PassFailure, match="can't go below level 'graph': pass 'faulty-conversion' changes"
    ):
        compile_model(load_model(SWAPPED_OPERANDS, options))


@pytest.mark.parametrize("negations", [0, 2])
def test_where_no_operation_is_left_no_conversion_is_undone(negations: int) -> None:
    """Nothing in the module tells its level then."""
    names = [f"%{i}" for i in range(negations)]
    lines = [f"{y} = graph.neg {x} : tensor<2xf32>" for x, y in zip(["%x", *names], names, strict=False)]
    last = ["%x", *names][-1]
    body = "\n".join([*lines, f"func.return {last} : tensor<2xf32>"])
    text = f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n}}"
    x = np.array([1, 2], np.float32)
    (y,) = mlopt.compile(text, validate=True).run({"x": x}).values()
    np.testing.assert_array_equal(y, x)


def test_a_pipeline_may_end_at_the_kernel_level_with_nothing_converted() -> None:
    """Without operations a module looks alike at the graph and the kernel level, and is at the one asked for."""
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      func.return %x : tensor<2xf32>
    }"""
    pipeline = "builtin.module(canonicalize,convert-graph-to-kernel)"
    compilation = compile_model(load_model(text, CompileOptions(pipeline_text=pipeline)), "kernel")
    assert list(compilation.levels) == ["kernel"]


def test_the_api_reports_what_was_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where reproducers would go if this failed
    model = mlopt.compile(SWAPPED_OPERANDS, validate=True)
    report = model.report()["validation"]
    assert [each["pass"] for each in report["validated"]][-1] == "assign-buffers"
    assert not report["rejected"] and not report["not_validated"]
    assert mlopt.compile(SWAPPED_OPERANDS).report()["validation"] is None


def test_the_commands_undo_a_fault_and_return_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PASSES, "cse", "tests.validation.faults:SwappedOperandsPass")
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(SWAPPED_OPERANDS)
    assert mlopt_main.main(["run", "model.mlir", "--bisect", "--report", "r.json", "--outputs", "y.npz"]) == 1
    err = capsys.readouterr().err
    assert "pass 'swapped-operands' changes the answer: output 'result0' of '@main' differs by up to" in err
    a = np.load("y.npz")["result0"]
    (rejected, *_) = json.loads(Path("r.json").read_text())["validation"]["rejected"]
    assert rejected["pass"] == "swapped-operands" and Path(rejected["reproducer"]).exists()
    rewrite = rejected["rewrite"]
    assert (rewrite["pattern"], rewrite["op"]) == ("SwapSub", "graph.sub")
    assert rewrite["place"] == f"model.mlir:{rewrite['line']}:{rewrite['column']}"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert mlopt_main.main(["run", "model.mlir", "--outputs", "want.npz"]) == 0
    np.testing.assert_allclose(a, np.load("want.npz")["result0"], rtol=1e-6)


def test_what_is_right_all_the_same_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a file as to the terminal; the exit code is 1."""
    monkeypatch.setitem(PASSES, "cse", "tests.validation.faults:SwappedOperandsPass")
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(SWAPPED_OPERANDS)
    assert opt.main(["model.mlir", "--cse", "--validate", "-o", "out.mlir"]) == 1
    ctx = make_context()
    want = parse_module(SWAPPED_OPERANDS, ctx)
    assert parse_module(Path("out.mlir").read_text(), ctx).is_structurally_equivalent(want)


OWN_SCRIPT = """
import sys
from mlopt.cli.opt import main
from mlopt.passes.registry import PASSES
from tests.validation import faults

class OwnPass(faults.SwappedOperandsPass):
    name = "own"

PASSES["own"] = "own_script:OwnPass"
if __name__ == "__main__":
    sys.exit(main())
"""


def test_the_reproducer_of_a_pass_in_a_script_names_the_script(tmp_path: Path) -> None:
    """Its command, run in its folder, shows the fault again."""
    (tmp_path / "own_script.py").write_text(OWN_SCRIPT)
    (tmp_path / "model.mlir").write_text(SWAPPED_OPERANDS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(command: Sequence[str], folder: Path) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 1, done.stderr
        return done.stderr

    assert "changes the answer" in run(["own_script.py", "model.mlir", "--own", "--validate"], tmp_path)
    folder = tmp_path / "mlopt-reproducers"
    header = (folder / "own-1.mlir").read_text().splitlines()[:3]
    assert header[0] == "// In the whole model, pass 'own' changes output 'result0' of '@main':"
    program, *command = shlex.split(header[2].removeprefix("// "))
    assert (program, command[0]) == ("python", "../own_script.py")
    assert "pass 'own' changes the answer" in run(command, folder)


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "much"])
def test_a_tolerance_is_a_number_of_at_least_0(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--validate=" + value, "-"]) == 2
    assert f"expected a finite number of at least 0, found '{value}'" in capsys.readouterr().err


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "much", "1e-4", [1], None])
def test_a_tolerance_in_python_is_a_number_of_at_least_0(value: Any) -> None:
    with pytest.raises(mlopt.InputError, match="'validate' must be true, false or a finite number"):
        CompileOptions(validate=value)
