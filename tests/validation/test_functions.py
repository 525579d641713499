"""Faults in loops, branches and functions other than the first: blamed at their place, shown by their reproducers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.engine import attach_engine
from mlopt.ir import CompilerContext, make_context, parse_module
from mlopt.passes.common.canonicalize import CanonicalizerPass
from mlopt.passmanager import Pass, PassManager, Pipeline
from mlopt.validation import ValidationOptions, Validator
from tests.validation.faults import ReassociationPass, WrongConstantPass

LOOP = """func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @second(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %two = graph.constant dense<2.0> : tensor<f32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0 : i64
  %m = tensor.extract %n[] : tensor<i64>
  %cond = arith.cmpi sge, %m, %zero : i64
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %x) -> (tensor<4xf32>) {
    %p = graph.mul %acc, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %b = scf.if %cond -> (tensor<4xf32>) {
      %q = graph.mul %p, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      scf.yield %q : tensor<4xf32>
    } else {
      scf.yield %p : tensor<4xf32>
    }
    scf.yield %b : tensor<4xf32>
  }
  %y = graph.sigmoid %r : tensor<4xf32>
  func.return %y : tensor<4xf32>
}"""

LARGE = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @second(%x: tensor<4xf32>) -> tensor<4xf32> {
  %k = graph.constant dense<30000.0> : tensor<f32>
  %e = graph.cos %x : tensor<4xf32>
  %big = graph.mul %e, %k : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = graph.add %x, %big : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.sub %0, %big : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}"""

BRANCHES = """func.func @main(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  cf.br ^bb2
^bb2:
  %a = graph.relu %x : tensor<4xf32>
  %b = graph.relu %a : tensor<4xf32>
  func.return %b : tensor<4xf32>
}"""


def validated(text: str, pass_: Pass, folder: Path, **options: object) -> tuple[CompilerContext, Validator]:
    ctx = make_context()
    attach_engine(ctx)
    module: ModuleOp = parse_module(text, ctx, "model.mlir")
    validator = Validator(ctx, ValidationOptions(reproducers=folder, **options))  # pyright: ignore[reportArgumentType]
    PassManager(ctx, Pipeline("builtin.module", (pass_,)), instrumentations=[validator]).run(module)
    return ctx, validator


def test_a_fault_in_a_branch_in_a_loop_of_the_second_function(tmp_path: Path) -> None:
    """x * 3 becomes x + x in line 16; x * 2 before it does too, and is right."""
    _, validator = validated(LOOP, WrongConstantPass(), tmp_path, bisect=True)
    (rejection,) = validator.rejections
    assert rejection.difference.function == "second"
    assert rejection.blame is not None and rejection.blame.rewrite is not None
    assert (rejection.blame.rewrite.number, rejection.blame.rewrite.place.line) == (2, 16)
    assert rejection.reproducer is not None
    _, again = validated(rejection.reproducer.read_text(), WrongConstantPass(), tmp_path)
    assert [each.difference.function for each in again.rejections] == ["second"]


def test_inputs_of_a_reproducer_are_those_of_its_only_function(tmp_path: Path) -> None:
    """Only large numbers show the fault; what is cut off in front of it computed them."""
    _, validator = validated(LARGE, ReassociationPass(), tmp_path)
    (rejection,) = validator.rejections
    assert rejection.reproducer is not None
    text = rejection.reproducer.read_text()
    assert "--inputs=reassociation-1.npz" in text
    with np.load(rejection.reproducer.with_suffix(".npz")) as arrays:
        inputs = dict(arrays)
    assert not validated(text, ReassociationPass(), tmp_path)[1].rejections
    assert validated(text, ReassociationPass(), tmp_path, inputs=inputs)[1].rejections


def test_a_function_of_several_blocks_is_said_not_to_be_validated(tmp_path: Path) -> None:
    ctx, validator = validated(BRANCHES, CanonicalizerPass(), tmp_path)
    assert not validator.rejections
    (warning,) = ctx.warnings
    assert "can't be validated: '@main' has several blocks, expected one" in warning.message


CHOICE = """func.func @main(%x: tensor<4xf32>, %c: tensor<i1>, %n: tensor<i64>) -> tensor<4xf32> {
  %k = graph.constant dense<3.0> : tensor<f32>
  %b = tensor.extract %c[] : tensor<i1>
  %m = tensor.extract %n[] : tensor<i64>
  %limit = arith.constant 7 : i64
  %never = arith.cmpi sgt, %m, %limit : i64
  %r = scf.if %b -> (tensor<4xf32>) {
    THEN
    scf.yield %1 : tensor<4xf32>
  } else {
    ELSE
    scf.yield %2 : tensor<4xf32>
  }
  %s = scf.if %never -> (tensor<4xf32>) {
    %3 = graph.exp %r : tensor<4xf32>
    scf.yield %3 : tensor<4xf32>
  } else {
    scf.yield %r : tensor<4xf32>
  }
  func.return %s : tensor<4xf32>
}"""
WRONG = "graph.mul %x, %k : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>"
RIGHT = "graph.exp %x : tensor<4xf32>"


@pytest.mark.parametrize("branch", ["THEN", "ELSE"])
def test_inputs_take_both_branches(tmp_path: Path, branch: str) -> None:
    """A fault in either is seen; a branch that no inputs tried take is said."""
    other = "ELSE" if branch == "THEN" else "THEN"
    numbers = {"THEN": "%1 = ", "ELSE": "%2 = "}
    text = CHOICE.replace(branch, numbers[branch] + WRONG).replace(other, numbers[other] + RIGHT)
    ctx = make_context()
    attach_engine(ctx)
    module = parse_module(text, ctx, "model.mlir")
    validator = Validator(ctx, ValidationOptions(bisect=True, reproducers=tmp_path))
    passes = Pipeline("builtin.module", (WrongConstantPass(),))
    PassManager(ctx, passes, instrumentations=[validator]).run(module)
    (rejection,) = validator.rejections
    assert rejection.blame is not None and rejection.blame.rewrite is not None
    assert rejection.blame.rewrite.place.line == (8 if branch == "THEN" else 11)
    assert validator.report()["not_validated"] == [
        "function '@main': no inputs tried enter region 0 of 'scf.if'"
    ]
