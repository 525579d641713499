"""`canonicalize`, `cse` and `dce` report truly whether they changed anything, and are safe for our dialects."""

from __future__ import annotations

import pytest
from xdsl.dialects.arith import AddiOp

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, node_names, parse_module, print_module, verify_module
from mlopt.passes.common.dce import DCEPass
from mlopt.passes.registry import load_pass
from mlopt.passmanager import make_pass

PROGRAMS = {
    "duplicates": """
        func.func @f(%x: i32) -> i32 {
          %a = arith.addi %x, %x : i32 loc("a")
          %b = arith.addi %x, %x : i32 loc("b")
          %dead = arith.muli %a, %b : i32
          %c = arith.muli %a, %b : i32
          func.return %c : i32
        }""",
    "constants": """
        func.func @f() -> i32 {
          %a = arith.constant 3 : i32
          %b = arith.constant 3 : i32
          %c = arith.addi %a, %b : i32
          func.return %c : i32
        }""",
    "memory": """
        func.func @f(%p: memref<1xf32>, %v: f32) -> (f32, f32) {
          %c0 = arith.constant 0 : index
          %a = memref.load %p[%c0] : memref<1xf32>
          memref.store %v, %p[%c0] : memref<1xf32>
          %b = memref.load %p[%c0] : memref<1xf32>
          func.return %a, %b : f32, f32
        }""",
    "blocks": """
        func.func @f(%c: i1, %x: i32) -> i32 {
          cf.cond_br %c, ^a(%x : i32), ^b
        ^a(%p: i32):
          func.return %p : i32
        ^b:
          %y = arith.addi %x, %x : i32
          cf.br ^a(%y : i32)
        ^dead:
          cf.br ^dead
        }""",
    "kernel": """
        func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %e = tensor.empty() : tensor<4xf32>
          %f = tensor.empty() : tensor<4xf32>
          %0 = kernel.launch @neg ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
          ^bb0(%X: tensor<4xf32>, %O: tensor<4xf32>):
            %r = kernel.map bounds [i = 4] ins(%X[i] : tensor<4xf32>) outs(%O[i] : tensor<4xf32>) {
            ^bb1(%a: f32, %o: f32):
              %n = arith.negf %a : f32
              kernel.yield %n : f32
            }
            kernel.yield %r : tensor<4xf32>
          } -> tensor<4xf32>
          func.return %0, %f : tensor<4xf32>, tensor<4xf32>
        }""",
    "empty": "",
}


@pytest.mark.parametrize("name", ["canonicalize", "cse", "dce"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_changed_flag_is_true(name: str, program: str) -> None:
    """It says what the text says; a second run finds nothing to do; the result verifies."""
    ctx = make_context()
    module = parse_module(PROGRAMS[program], ctx)
    pass_ = make_pass(load_pass(name), {})
    before = print_module(module, debuginfo=True)
    changed = pass_.run(ctx, module)
    after = print_module(module, debuginfo=True)
    assert changed == (before != after)
    verify_module(module)
    assert not pass_.run(ctx, module)
    assert print_module(module, debuginfo=True) == after
    assert any(ctx.statistics[key] for key in ctx.statistics) == changed


def test_a_merged_operation_keeps_both_locations_and_a_name() -> None:
    ctx = make_context()
    module = parse_module(PROGRAMS["duplicates"], ctx)
    make_pass(load_pass("cse"), {}).run(ctx, module)
    (add,) = [op for op in module.walk() if isinstance(op, AddiOp)]
    assert node_names(add.location) == ["a", "b"]
    assert add.result.name_hint == "a"


def test_time_is_linear() -> None:
    """Ten thousand pairs of equal operations in a chain, all dead in the end."""
    lines = ["func.func @f(%v0: i32) {"]
    for i in range(5_000):
        lines += [f"  %v{i + 1} = arith.addi %v{i}, %v0 : i32", f"  %w{i + 1} = arith.addi %v{i}, %v0 : i32"]
    ctx = make_context()
    module = parse_module("\n".join([*lines, "  func.return", "}"]), ctx)
    make_pass(load_pass("cse"), {}).run(ctx, module)
    assert ctx.statistics["cse", "ops-merged"] == 5_000
    make_pass(load_pass("dce"), {}).run(ctx, module)
    assert ctx.statistics["dce", "ops-erased"] == 5_000


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_what_a_loop_carries_for_others_stays(trips: int) -> None:
    """s += u and u *= 2 from s = u = 1, so that s is 2 to the trips; what is read by nothing goes."""
    text = f"""func.func @main() -> tensor<f32> {{
      %first = arith.constant 0 : index
      %last = arith.constant {trips} : index
      %step = arith.constant 1 : index
      %one = graph.constant dense<1.0> : tensor<f32>
      %two = graph.constant dense<2.0> : tensor<f32>
      %r:3 = scf.for %i = %first to %last step %step iter_args(%t = %one, %s = %one, %u = %one)
          -> (tensor<f32>, tensor<f32>, tensor<f32>) {{
        %t2 = graph.sub %t, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
        %s2 = graph.add %s, %u : (tensor<f32>, tensor<f32>) -> tensor<f32>
        %u2 = graph.mul %u, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
        scf.yield %t2, %s2, %u2 : tensor<f32>, tensor<f32>, tensor<f32>
      }}
      func.return %r#1 : tensor<f32>
    }}"""
    ctx = make_context()
    module = parse_module(text, ctx)
    assert DCEPass().run(ctx, module)
    verify_module(module)
    assert "graph.sub" not in str(module) and "graph.mul" in str(module)
    assert evaluate_module(module, {})["result0"] == 2**trips
    assert not DCEPass().run(ctx, module)
