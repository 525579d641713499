"""Faults of passes: found at the end of a level, and not blamed on the pass that trips over them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlopt.compilation import Compilation, compile_model, load_model, main_function
from mlopt.diagnostics import VerifyFailure
from mlopt.ir.context import CompilerContext
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import Level
from mlopt.passes.registry import load_pass
from tests.small_models import classifier


def _loaded() -> Compilation:
    return load_model(classifier(), CompileOptions(dims={"batch": 2}))


def _leaves_a_block_without_end(_: object, __: CompilerContext, op: Operation) -> bool:
    """A pass that erases the last operation of `@main`, which no block may be without."""
    assert isinstance(op, ModuleOp)
    end = main_function(op).body.block.last_op
    assert end is not None
    end.detach()
    end.erase()
    return True


def _trips(_: object, __: CompilerContext, op: Operation) -> bool:
    raise KeyError(op.name)


@pytest.mark.parametrize(("name", "level"), [("cse", "graph"), ("fuse-kernels", "kernel")])
def test_broken_ir_is_found_at_the_end_of_its_level(
    monkeypatch: pytest.MonkeyPatch, name: str, level: Level
) -> None:
    monkeypatch.setattr(load_pass(name), "run", _leaves_a_block_without_end)
    later = {"graph": "convert-graph-to-kernel", "kernel": "convert-kernel-to-memref"}[level]
    monkeypatch.setattr(load_pass(later), "run", _trips)
    for harmless in {"cse", "dce", "canonicalize", "fold-batch-norm", "reuse-in-place"} - {name}:
        monkeypatch.setattr(load_pass(harmless), "run", lambda *_: False)
    with pytest.raises(VerifyFailure) as failure:
        compile_model(_loaded())
    assert "terminator" in failure.value.message
    assert failure.value.notes[-1].message == (
        f"passes of level '{level}' left this IR (mlopt-opt verifies after each and says which)"
    )


@pytest.mark.parametrize(
    ("first", "expected"), [(_leaves_a_block_without_end, VerifyFailure), (lambda *_: False, KeyError)]
)
def test_a_pass_that_trips_over_broken_ir_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, first: Callable[..., bool], expected: type[Exception]
) -> None:
    """But one that trips over sound IR is."""
    monkeypatch.setattr(load_pass("fuse-kernels"), "run", first)
    monkeypatch.setattr(load_pass("reuse-in-place"), "run", _trips)
    with pytest.raises(expected):
        compile_model(_loaded())


def test_each_level_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is loaded, and at the end of each level, as the copies that are kept of them."""
    seen: list[str] = []
    monkeypatch.setattr("mlopt.compilation.verify_module", lambda module: seen.append(str(module)))
    compiled = compile_model(_loaded())
    assert seen[1:] == [str(module) for module in compiled.levels.values()]


def test_levels_are_copied_only_if_they_are_to_be_kept() -> None:
    compiled = compile_model(_loaded(), keep_levels=False)
    assert list(compiled.levels) == ["memref"]
    assert compiled.levels["memref"] is compiled.module
    kept = compile_model(_loaded())
    assert list(kept.levels) == ["graph", "kernel", "memref"]
    assert str(kept.module) == str(compiled.module)
