"""Passes that fail: they raise, do not end, leave wrong IR or nothing. They are undone, blamed and reproduced."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.cli.opt import main
from mlopt.diagnostics import MloptError, PassFailure
from mlopt.dialects import graph
from mlopt.engine import attach_engine
from mlopt.ir import make_context, parse_module, print_module
from mlopt.ir.context import CompilerContext
from mlopt.passes.registry import PASSES
from mlopt.passmanager import Pass, PassManager, Pipeline
from mlopt.passmanager.conditions import no_ops_of
from mlopt.validation import ValidationOptions, Validator
from tests.validation.faults import DONE, PatternPass, done

MODEL = """func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %k = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = graph.add %x, %k : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.relu %0 : tensor<4xf32>
  %2 = graph.add %1, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.exp %2 : tensor<4xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
}"""


class SwapAdd(RewritePattern):
    """a + b -> b + a, which ends in an error behind a relu."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.AddOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(op.lhs.owner, graph.ReluOp):
            raise IndexError("list index out of range")
        if DONE not in op.attributes:
            rewriter.replace(op, done(graph.AddOp(op.rhs, op.lhs)))


class SwapForever(RewritePattern):
    """a + b -> b + a -> a + b ..."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.AddOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, graph.AddOp(op.rhs, op.lhs))


class ReluFirst(RewritePattern):
    """A relu in front of what it reads."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReluOp, rewriter: PatternRewriter, /) -> None:
        block = op.parent
        assert block is not None and block.first_op is not None
        if block.first_op is not op:
            op.detach()
            block.insert_op_before(op, block.first_op)
            rewriter.notify_op_modified(op)
            rewriter.has_done_action = True


@dataclass(frozen=True)
class CrashingPass(PatternPass):
    name = "crashing"
    pattern = SwapAdd


@dataclass(frozen=True)
class EndlessPass(PatternPass):
    name = "endless"
    pattern = SwapForever


@dataclass(frozen=True)
class BreakingPass(PatternPass):
    name = "breaking"
    pattern = ReluFirst


class EmptyingPass(Pass):
    """A pass that leaves nothing."""

    name = "emptying"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        for inner in list(op.regions[0].block.ops):
            inner.detach()
            inner.erase()
        return True


class PromisingPass(Pass):
    """A pass that does not keep what it ensures."""

    name = "promising"
    ensures: ClassVar = (no_ops_of("graph"),)

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return False


class RefusingPass(Pass):
    """A pass that says what it can't do, which is no fault of its own."""

    name = "refusing"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        raise PassFailure("the budget is too small")


def validate(pass_: Pass, folder: Path, *, verify_each: bool = True) -> tuple[Validator, ModuleOp, str]:
    ctx = make_context()
    attach_engine(ctx)
    module = parse_module(MODEL, ctx, "model.mlir")
    before = print_module(module, debuginfo=True)
    validator = Validator(ctx, ValidationOptions(bisect=True, reproducers=folder))
    pipeline = Pipeline("builtin.module", (pass_,))
    PassManager(ctx, pipeline, verify_each=verify_each, instrumentations=[validator]).run(module)
    return validator, module, before


FAILURES = [
    (CrashingPass(), "fails: IndexError: list index out of range", ("SwapAdd", "graph.add", 5), 4),
    (EndlessPass(), "fails: the rewrite does not end: after", None, 2),
    (
        BreakingPass(),
        "leaves IR that is wrong: operand #0 does not dominate this use",
        ("ReluFirst", "graph.relu", 4),
        3,
    ),
    (
        PromisingPass(),
        "leaves IR that is wrong: expected no operation of dialect 'graph' to be left",
        None,
        1,
    ),
    (EmptyingPass(), "can't be computed any more: expected a function with a body, found none", None, 1),
]


@pytest.mark.parametrize(
    ("pass_", "reason", "blamed", "size"), FAILURES, ids=lambda case: getattr(case, "name", "")
)
def test_a_pass_that_fails_is_undone_and_reproduced(
    pass_: Pass,
    reason: str,
    blamed: tuple[str, str, int] | None,
    size: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    validator, module, before = validate(pass_, tmp_path)
    (rejection,) = validator.rejections
    assert print_module(module, debuginfo=True) == before
    message = rejection.diagnostic.message
    assert message.startswith(f"pass '{pass_.name}' ") and message.endswith("its change is undone")
    assert reason in message
    (record,) = validator.report()["rejected"]
    assert record["pass"] == pass_.name and record["error"] is None and reason in record["reason"]
    rewrite = None if rejection.blame is None else rejection.blame.rewrite
    assert (rewrite and (rewrite.pattern, rewrite.op, rewrite.place.line)) == blamed
    path = rejection.reproducer
    assert path is not None
    (func,) = parse_module(path.read_text(), make_context()).ops
    assert len(func.regions[0].block.ops) - 1 <= size
    command = next(line for line in path.read_text().splitlines() if line.startswith("// mlopt-opt "))
    monkeypatch.setitem(PASSES, pass_.name, f"{__name__}:{type(pass_).__name__}")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command.removeprefix("// mlopt-opt "))) == 1
    assert reason in capsys.readouterr().err


def test_a_refusal_ends_the_pipeline(tmp_path: Path) -> None:
    with pytest.raises(PassFailure, match="the budget is too small"):
        validate(RefusingPass(), tmp_path)


def test_without_validation_failures_end_the_pipeline() -> None:
    for pass_, kind in (
        (CrashingPass(), IndexError),
        (EndlessPass(), MloptError),
        (BreakingPass(), MloptError),
    ):
        module = parse_module(MODEL, make_context())
        with pytest.raises(kind):
            PassManager(make_context(), Pipeline("builtin.module", (pass_,))).run(module)


def test_wrong_ir_that_is_not_verified_is_undone_all_the_same(tmp_path: Path) -> None:
    validator, module, before = validate(BreakingPass(), tmp_path, verify_each=False)
    assert len(validator.rejections) == 1
    assert print_module(module, debuginfo=True) == before
