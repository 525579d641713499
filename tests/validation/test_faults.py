"""Planted faults: each is noticed, undone and blamed by name; its reproducer shows it again."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.cli.opt import main
from mlopt.engine import attach_engine
from mlopt.ir import make_context, parse_module, print_module, verify_module
from mlopt.ir.context import CompilerContext
from mlopt.passes.registry import PASSES, load_pass
from mlopt.passmanager import PassManager, PassResult, Pipeline
from mlopt.validation import ValidationOptions, Validator
from tests.validation.faults import FAULTS, Fault


def before_fault(fault: Fault) -> tuple[CompilerContext, ModuleOp]:
    """The module that the faulty pass runs on."""
    ctx = make_context()
    attach_engine(ctx)
    module = parse_module(fault.text, ctx, "model.mlir")
    for name in fault.before:
        load_pass(name)().run(ctx, module)
    verify_module(module)
    return ctx, module


def validate(
    fault: Fault, ctx: CompilerContext, module: ModuleOp, folder: Path, *, bisect: bool
) -> tuple[Validator, PassResult]:
    validator = Validator(ctx, ValidationOptions(bisect=bisect, reproducers=folder))
    pipeline = Pipeline("builtin.module", (fault.pass_,))
    (result,) = PassManager(ctx, pipeline, instrumentations=[validator]).run(module)
    return validator, result


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.pass_.name)
def test_a_fault_is_noticed_and_undone(fault: Fault, tmp_path: Path) -> None:
    ctx, module = before_fault(fault)
    text = print_module(module, debuginfo=True)
    remarks, statistics = list(ctx.remarks), dict(ctx.statistics)
    validator, result = validate(fault, ctx, module, tmp_path, bisect=False)
    (rejection,) = validator.rejections
    assert not result.changed
    assert print_module(module, debuginfo=True) == text
    assert rejection.pass_name == fault.pass_.name
    assert f"pass '{fault.pass_.name}' changes the answer" in rejection.diagnostic.message
    assert ctx.warnings == [rejection.diagnostic]
    assert (ctx.remarks, dict(ctx.statistics)) == (remarks, statistics)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.pass_.name)
def test_the_rewrite_to_blame_is_named(fault: Fault, tmp_path: Path) -> None:
    ctx, module = before_fault(fault)
    validator, _ = validate(fault, ctx, module, tmp_path, bisect=True)
    blame = validator.rejections[0].blame
    assert blame is not None
    if fault.pattern is None:
        assert blame.rewrite is None
        return
    assert blame.rewrite is not None
    assert (blame.rewrite.pattern, blame.rewrite.op) == (fault.pattern, fault.op)
    assert blame.rewrite.number == fault.number
    assert blame.rewrite.place.file == "model.mlir"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.pass_.name)
def test_the_reproducer_is_small_and_shows_the_fault(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ctx, module = before_fault(fault)
    validator, _ = validate(fault, ctx, module, tmp_path, bisect=False)
    path = validator.rejections[0].reproducer
    assert path is not None
    reduced = parse_module(path.read_text(), make_context())
    if fault.size is not None:
        (func,) = reduced.ops
        assert len(func.regions[0].block.ops) - 1 <= fault.size
    command = path.read_text().splitlines()[2].removeprefix("// mlopt-opt ")
    name = type(fault.pass_).__name__
    monkeypatch.setitem(PASSES, fault.pass_.name, f"tests.validation.faults:{name}")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 1
    assert f"pass '{fault.pass_.name}' changes the answer" in capsys.readouterr().err
