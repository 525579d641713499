"""Passes that are wrong about equal numbers alone, or half-way between integers: rounded inputs show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.engine import attach_engine
from mlopt.ir import make_context, parse_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.constants import make_constant
from mlopt.passmanager import Pass, PassManager, Pipeline
from mlopt.validation import ValidationOptions, Validator
from mlopt.validation.seeding import seeded_inputs
from mlopt.validation.ties import are_decided_by_inputs
from mlopt.weights import WeightStore

X = "tensor<5x7xf32>"


def function_of(body: Sequence[str], result: str) -> str:
    """A function of two inputs, x and y, which gives %r."""
    lines = "\n      ".join(body)
    return f"""
    func.func @main(%x: {X} {{mlopt.name = "x"}}, %y: {X} {{mlopt.name = "y"}}) -> {result} {{
      {lines}
      func.return %r : {result}
    }}"""


LESS = function_of([f"%r = graph.less %x, %y : ({X}, {X}) -> tensor<5x7xi1>"], "tensor<5x7xi1>")
ARG_MAX = function_of([f"%r = graph.arg_max %x axis = 1 : ({X}) -> tensor<5xi64>"], "tensor<5xi64>")
ROUND = function_of([f"%r = graph.round %x : {X}"], X)


class LessToLessEqual(RewritePattern):
    """x < y -> x <= y"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.LessOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, graph.LessEqualOp(op.lhs, op.rhs))


class FirstToLast(RewritePattern):
    """The last of equal elements, not the first."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ArgMaxOp, rewriter: PatternRewriter, /) -> None:
        if op.select_last is None:
            rewriter.replace(op, graph.ArgMaxOp(op.input, op.axis.value.data, select_last=True))


class RoundToFloor(RewritePattern):
    """round(x) -> floor(x + 0.5), which gives 1 for 0.5"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.RoundOp, rewriter: PatternRewriter, /) -> None:
        half = make_constant(np.array(0.5, np.float32), CompilerContext(), "half")
        total = graph.AddOp(op.input, half)
        rewriter.replace(op, [half, total, graph.FloorOp(total)])


@dataclass(frozen=True)
class TiesPass(Pass):
    """A pass of one of the patterns."""

    name = "ties"
    pattern: RewritePattern = field(default_factory=LessToLessEqual)

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return rewrite_greedily(op, [self.pattern]).changed


def only_function(text: str) -> FuncOp:
    module = parse_module(text, make_context())
    (func,) = module.ops
    assert isinstance(func, FuncOp)
    return func


def validated(text: str, pattern: RewritePattern, folder: Path) -> Validator:
    ctx = make_context()
    attach_engine(ctx)
    module: ModuleOp = parse_module(text, ctx, "model.mlir")
    validator = Validator(ctx, ValidationOptions(reproducers=folder))
    PassManager(ctx, Pipeline("builtin.module", (TiesPass(pattern),)), instrumentations=[validator]).run(
        module
    )
    return validator


@pytest.mark.parametrize(
    ("text", "pattern"),
    [(LESS, LessToLessEqual()), (ARG_MAX, FirstToLast()), (ROUND, RoundToFloor())],
    ids=["less", "arg_max", "round"],
)
def test_what_is_wrong_for_equal_numbers_only_is_undone(
    text: str, pattern: RewritePattern, tmp_path: Path
) -> None:
    (rejection,) = validated(text, pattern, tmp_path).rejections
    assert "(on rounded inputs)" in rejection.diagnostic.message
    assert rejection.reproducer is not None
    assert "--inputs=ties-1.npz" in rejection.reproducer.read_text()


COMPARED_SUM = function_of(
    [f"%s = graph.add %x, %x : ({X}, {X}) -> {X}", f"%r = graph.less %s, %y : ({X}, {X}) -> tensor<5x7xi1>"],
    "tensor<5x7xi1>",
)
MOVED = function_of(
    [
        f"%t = graph.transpose %x perm = [1, 0] : ({X}) -> tensor<7x5xf32>",
        "%n = graph.neg %t : tensor<7x5xf32>",
        "%r = graph.arg_max %n axis = 0 : (tensor<7x5xf32>) -> tensor<5xi64>",
    ],
    "tensor<5xi64>",
)
NOT_DECIDED = function_of([f"%r = graph.add %x, %y : ({X}, {X}) -> {X}"], X)
COUNTED = function_of(
    [
        f"%i = graph.cast %x : {X} to tensor<5x7xi32>",
        "%j = graph.add %i, %i : (tensor<5x7xi32>, tensor<5x7xi32>) -> tensor<5x7xi32>",
        f"%f = graph.cast %j : tensor<5x7xi32> to {X}",
        f"%r = graph.sign %f : {X}",
    ],
    X,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LESS, True),
        (ROUND, True),
        (MOVED, True),
        (COUNTED, True),
        (COMPARED_SUM, False),
        (NOT_DECIDED, False),
    ],
    ids=["less", "round", "moved", "counted", "sum", "not decided"],
)
def test_roundings_in_between_decide_nothing(text: str, expected: bool) -> None:
    assert are_decided_by_inputs(only_function(text)) is expected


def test_rounded_inputs_are_halves_but_for_those_with_one_value() -> None:
    text = """
    func.func @main(%x: tensor<99xf32>, %h: tensor<99xbf16>, %i: tensor<99xi64>,
                    %c: tensor<f32> {mlopt.value = dense<0.3> : tensor<f32>}) {
      func.return
    }"""
    x, h, i, c = seeded_inputs(only_function(text), WeightStore(), in_halves=True).values()
    for array in (x, h):
        assert set(array.astype(np.float64).flat) == {-1, -0.5, 0, 0.5, 1}
    assert set(i.flat) == {0, 1}
    assert c == np.float32(0.3)
