"""Each rewrite is counted, has one remark with a place, and can be switched off: on every piece of `lit_tests`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

import pytest
from xdsl.ir import Operation

from mlopt.diagnostics import MloptError, Remark
from mlopt.ir import CompilerContext
from mlopt.ir.rewrite_limit import limited_rewrites
from mlopt.ir.rewriting import DRIVER_REWRITES
from mlopt.passes.patterns import all_patterns, patterns_of
from mlopt.passmanager import Instrumentation, Pass, PassResult
from mlopt.passmanager.base import run_pass
from mlopt.validation import ValidationOptions, Validator
from tests.passes.lit_pieces import FILES, Piece, pieces_of, run_piece
from tests.passes.test_patterns import assert_said_once, context

OTHERS = frozenset(
    {
        *("convert-graph-to-kernel", "convert-kernel-to-memref"),
        *("order-in-waves", "plan-workspaces", "assign-buffers"),
        "quantize",
    }
)
"""Passes that do one thing to the whole module, which is no rewrite of a part of it."""

every_file = pytest.mark.parametrize("file", FILES)


def counted(results: Sequence[PassResult]) -> Counter[tuple[str, str]]:
    """How often each pattern of each pass was applied."""
    found = Counter[tuple[str, str]]()
    for result in results:
        for pattern, count in result.patterns.items():
            found[result.name, pattern] += count
    return found


def said(remarks: Sequence[Remark]) -> Counter[tuple[str, str | None]]:
    """How often each pattern of each pass is said to have been applied."""
    return Counter((remark.pass_name, remark.pattern) for remark in remarks if remark.kind == "passed")


@every_file
def test_each_rewrite_has_one_remark_with_a_place(file: str) -> None:
    """But what a rewrite leaves dead goes without one."""
    for piece in pieces_of(file):
        ctx, _, results = run_piece(piece)
        assert_said_once(ctx, results)
        assert all(each.changed == bool(each.patterns) for each in results if each.name not in OTHERS)


class _WithoutRewrites(Instrumentation):
    """Runs each pass beforehand, on a copy, where it may not rewrite anything: then nothing changes or is said."""

    def __init__(self, ctx: CompilerContext) -> None:
        self.weights = ctx.weights

    def before_pass(self, pass_: Pass, op: Operation) -> None:
        if pass_.name in OTHERS or op.parent_op() is not None:
            return
        copy = op.clone()
        with limited_rewrites(0):
            self._run(pass_, copy)
        assert copy.is_structurally_equivalent(op), f"{pass_.name}, up to the limit"
        self._run(pass_, copy, {*patterns_of(type(pass_)), *DRIVER_REWRITES})
        assert copy.is_structurally_equivalent(op), f"{pass_.name}, switched off"

    def _run(self, pass_: Pass, copy: Operation, disabled: Collection[str] = ()) -> None:
        ctx = context(*disabled)
        ctx.weights = self.weights
        try:
            changed, scope = run_pass(pass_, ctx, copy)
        except MloptError as error:
            assert pass_.name == "fit-memory" and "bytes" in error.message, error.message
        else:
            assert not changed and not scope.counts
        assert not said(ctx.remarks)
        assert not stray_users(copy)


def stray_users(root: Operation) -> list[Operation]:
    """What uses values of a module and does not stand in it."""
    inside = set(root.walk())
    values = [value for op in inside for value in op.results]
    values += [
        argument
        for op in inside
        for region in op.regions
        for block in region.blocks
        for argument in block.args
    ]
    return [use.operation for value in values for use in value.uses if use.operation not in inside]


@every_file
def test_a_pass_does_nothing_beside_its_rewrites(file: str) -> None:
    """Neither where a limit allows none, nor with all of them switched off; nor is anything left that was made."""
    for piece in pieces_of(file):
        run_piece(piece, watching=_WithoutRewrites)


@cache
def pieces_of_patterns() -> dict[tuple[str, str], Piece]:
    """Of each pattern of each pass the first piece that it is applied to."""
    found: dict[tuple[str, str], Piece] = {}
    for file in FILES:
        for piece in pieces_of(file):
            for key in counted(run_piece(piece).results):
                found.setdefault(key, piece)
    return found


def test_there_are_pieces_for_all_passes_that_rewrite() -> None:
    with_pieces = {name for name, _ in pieces_of_patterns()}
    assert all_patterns().keys() - with_pieces == set()


@pytest.mark.parametrize("name", all_patterns())
def test_without_a_pattern_it_is_not_applied(name: str, tmp_path: Path) -> None:
    """And what the piece computes is the same."""
    for (pass_name, pattern), piece in pieces_of_patterns().items():
        if pass_name == name:
            _run_without(name, pattern, piece, tmp_path)


def _run_without(name: str, pattern: str, piece: Piece, folder: Path) -> None:
    validators: list[Validator] = []

    def watching(ctx: CompilerContext) -> Validator:
        validators.append(Validator(ctx, ValidationOptions(reproducers=folder)))
        return validators[-1]

    try:
        ctx, _, results = run_piece(piece, [f"{name}:{pattern}"], watching)
    except MloptError as error:
        assert name == "fit-memory" and f"switched off: {pattern}" in error.message, error.message
        return
    assert counted(results)[name, pattern] == 0
    assert said(ctx.remarks)[name, pattern] == 0
    assert not validators[0].rejections
