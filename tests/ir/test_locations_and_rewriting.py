"""Locations, and the greedy driver: what it rewrites, where it stops, and what it keeps."""

from __future__ import annotations

import pytest
from xdsl.dialects.arith import AddiOp, ConstantOp, MuliOp
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation, OpResult
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import PassFailedException

from mlopt.diagnostics import EndlessRewrite, PassFailure, Place
from mlopt.ir import (
    fuse_locations,
    make_context,
    node_names,
    parse_module,
    place_of,
    place_of_op,
    print_module,
    rewrite_greedily,
)


def name(text: str) -> NameLoc:
    return NameLoc(StringAttr(text), NoneAttr())


FILE = FileLineColLoc(StringAttr("x.mlir"), IntAttr(3), IntAttr(4))


def test_places() -> None:
    assert place_of(UnknownLoc()) == Place()
    assert place_of(FILE) == Place("x.mlir", 3, 4)
    assert place_of(name("n")) == Place(node="n")
    assert place_of(NameLoc(StringAttr("n"), FILE)) == Place("x.mlir", 3, 4, "n")
    assert place_of(FusedLoc((UnknownLoc(), name("n"), FILE), NoneAttr())) == Place(node="n")
    assert place_of(CallSiteLoc(FILE, name("caller"))) == Place("x.mlir", 3, 4)


def test_fusing() -> None:
    a, b = name("a"), name("b")
    assert fuse_locations([]) == UnknownLoc()
    assert fuse_locations([UnknownLoc(), a, a]) == a
    fused = fuse_locations([a, b])
    assert fused == FusedLoc((a, b), NoneAttr())
    assert fuse_locations([fused, FILE, fused]) == FusedLoc((a, b, FILE), NoneAttr())
    assert node_names(fuse_locations([fused, NameLoc(StringAttr("c"), a)])) == ["a", "b", "c"]


def test_the_place_of_an_operation_without_one_is_that_around_it() -> None:
    module = parse_module("func.func @f() {\n  func.return\n}", make_context(), "x.mlir")
    func = next(iter(module.ops))
    terminator = func.regions[0].block.first_op
    assert terminator is not None
    terminator.location = UnknownLoc()
    assert place_of_op(terminator) == Place("x.mlir", 1, 1)


class AddToMul(RewritePattern):
    """x + x → x * 2."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddiOp, rewriter: PatternRewriter) -> None:
        if op.lhs is op.rhs:
            two = ConstantOp.from_int_and_width(2, 32)
            rewriter.replace(op, [two, MuliOp(op.lhs, two)])


class MulAddToOne(RewritePattern):
    """(x * y) + z, the product used once → z + x: erases two operations for one."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddiOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.lhs, OpResult) and isinstance(op.lhs.op, MuliOp):
            product = op.lhs.op
            rewriter.replace(op, AddiOp(op.rhs, product.lhs))
            rewriter.erase(product)


class Forever(RewritePattern):
    """Swaps the operands of an addition, again and again."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, AddiOp(op.rhs, op.lhs))


TEXT = """
func.func @f(%x: i32, %y: i32) -> i32 {
  %sum_1 = arith.addi %x, %x : i32 loc("add")
  func.return %sum_1 : i32
}
"""


def test_new_operations_get_the_location_and_name_of_what_they_replace() -> None:
    module = parse_module(TEXT, make_context())
    result = rewrite_greedily(module, [AddToMul()])
    assert result.changed and result.converged and result.rewrites == 1
    printed = print_module(module, debuginfo=True)
    assert 'arith.constant 2 : i32 loc("add")' in printed
    assert "%sum_1 = arith.muli" in printed and 'i32 loc("add")' in printed


def test_the_location_of_a_fusion_has_all_parts() -> None:
    text = """
    func.func @f(%x: i32, %y: i32) -> i32 {
      %p = arith.muli %x, %y : i32 loc("mul")
      %s = arith.addi %p, %y : i32 loc("add")
      func.return %s : i32
    }
    """
    module = parse_module(text, make_context())
    rewrite_greedily(module, [MulAddToOne()])
    (add,) = [op for op in module.walk() if isinstance(op, AddiOp)]
    assert node_names(add.location) == ["add", "mul"]


def test_nothing_to_do_reports_no_change() -> None:
    module = parse_module(TEXT, make_context())
    before = print_module(module)
    result = rewrite_greedily(module, [MulAddToOne()])
    assert (result.changed, result.rewrites, result.converged) == (False, 0, True)
    assert print_module(module) == before


def test_a_rewrite_without_end_is_stopped() -> None:
    module = parse_module(TEXT, make_context())
    result = rewrite_greedily(module, [Forever()], max_rewrites=50)
    assert result.rewrites == 50 and not result.converged and result.changed


def test_a_rewrite_without_end_is_an_error_that_names_it() -> None:
    module = parse_module(TEXT, make_context(), "model.mlir")
    with pytest.raises(
        EndlessRewrite, match=r"after \d+ of them, 'Forever' still rewrites 'arith\."
    ) as caught:
        rewrite_greedily(module, [Forever()])
    assert caught.value.place == Place(node="add")


def test_dead_operations_go_only_if_asked_for() -> None:
    text = "func.func @f(%x: i32) {\n  %a = arith.addi %x, %x : i32\n  %b = arith.muli %a, %a : i32\n  func.return\n}"
    module = parse_module(text, make_context())
    assert not rewrite_greedily(module, []).changed
    assert rewrite_greedily(module, [], dce=True).rewrites == 2
    assert "arith" not in print_module(module)


def test_folding() -> None:
    text = """
    func.func @f() -> i32 {
      %a = arith.constant 3 : i32
      %b = arith.addi %a, %a : i32 loc("sum")
      func.return %b : i32
    }"""
    ctx = make_context()
    module = parse_module(text, ctx)
    assert rewrite_greedily(module, [], ctx=ctx, fold=True, dce=True).changed
    assert 'arith.constant 6 : i32 loc("sum")' in print_module(module, debuginfo=True)
    with pytest.raises(ValueError, match="context"):
        rewrite_greedily(module, [], fold=True)


class Raises(RewritePattern):
    def __init__(self, error: Exception):
        self.error = error

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        raise self.error


def test_a_failing_pattern_ends_with_a_sentence_and_a_place() -> None:
    module = parse_module("\n%a = arith.constant 1 : i32", make_context(), "x.mlir")
    with pytest.raises(PassFailure) as failure:
        rewrite_greedily(module, [Raises(PassFailedException("no such thing"))])
    assert failure.value.message == "no such thing"
    assert failure.value.place == Place("x.mlir", 2, 6)


def test_a_fault_in_a_pattern_is_not_hidden() -> None:
    module = parse_module("%a = arith.constant 1 : i32", make_context())
    with pytest.raises(ZeroDivisionError):
        rewrite_greedily(module, [Raises(ZeroDivisionError("here"))])


def test_a_long_chain_takes_linear_time() -> None:
    lines = ["func.func @f(%v0: i32) -> i32 {"]
    lines += [f"  %v{i + 1} = arith.addi %v{i}, %v{i} : i32" for i in range(3000)]
    module = parse_module("\n".join([*lines, "  func.return %v3000 : i32", "}"]), make_context())
    assert rewrite_greedily(module, [AddToMul()]).rewrites == 3000
