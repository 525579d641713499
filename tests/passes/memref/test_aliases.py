"""A buffer whose alias is still read keeps its bytes, whatever made the alias; the verifier knows them all too.

`a` = x + 0.25 is read last through an alias, after `b` = x + 0.125 was written; y = alias + b. For x = 0 that is 0.375;
with `b` in the place of `a` it is 0.25. This family of mistakes: apache/tvm #20190, Tencent/ncnn #797.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.diagnostics import PassFailure, VerifyFailure
from mlopt.interpreter.memref import Executable
from mlopt.ir import make_context, parse_module, print_module, verify_module
from mlopt.passes.memref.assign_buffers import AssignBuffersPass
from mlopt.passes.memref.verify_plan import verify_plan
from mlopt.weights import WeightStore

B = "memref<4x4xf32>"
ALIASES = {
    "itself": "",
    "cast": f'%s = "memref.cast"(%a) : ({B}) -> {B}',
    "memory_space_cast": f'%s = "memref.memory_space_cast"(%a) : ({B}) -> {B}',
    "assume_alignment": f"%s = memref.assume_alignment %a, 4 : {B}",
    "reinterpret_cast": f"%s = memref.reinterpret_cast %a to offset: [0], sizes: [4, 4], strides: [4, 1] : {B} to {B}",
    "subview": f"%s = memref.subview %a[0, 0] [4, 4] [1, 1] : {B} to {B}",
    "collapse and expand": f"""%flat = memref.collapse_shape %a [[0, 1]] : {B} into memref<16xf32>
      %s = memref.expand_shape %flat [[0, 1]] output_shape [4, 4] : memref<16xf32> into {B}""",
    "select": f"%s = arith.select %c, %a, %z : {B}",
    "if": f"%s = scf.if %c -> ({B}) {{\n scf.yield %a : {B}\n }} else {{\n scf.yield %z : {B}\n }}",
    "for": f"""%s = scf.for %i = %c0 to %c1 step %c1 iter_args(%p = %z) -> ({B}) {{
        scf.yield %a : {B}
      }}""",
    "while": f"""%s = scf.while (%p = %z) : ({B}) -> {B} {{
        scf.condition(%f) %a : {B}
      }} do {{
      ^bb0(%q: {B}):
        scf.yield %q : {B}
      }}""",
}
RUNNABLE = set(ALIASES) - {"select", "if", "for", "while"}
"""The numpy engine takes no buffers that control flow chooses; their lifetimes must be right all the same."""


def add(left: str, right: str, out: str) -> str:
    same = "affine_map<(i, j) -> (i, j)>"
    number = right.replace(".", "").isdigit()
    operands = f"%{left}" if number else f"%{left}, %{right}"
    arguments = "%l: f32" if number else "%l: f32, %r: f32"
    constant = f"%r = arith.constant {right} : f32" if number else ""
    return f"""linalg.generic {{indexing_maps = [{", ".join([same] * (2 if number else 3))}],
        iterator_types = ["parallel", "parallel"]}}
      ins({operands} : {", ".join([B] * (1 if number else 2))}) outs(%{out} : {B}) {{
      ^bb0({arguments}, %o: f32):
        {constant}
        %sum = arith.addf %l, %r : f32
        linalg.yield %sum : f32
      }}"""


def module_of(alias: str) -> ModuleOp:
    text = f"""func.func @main(%x: {B} {{mlopt.input = "x"}}, %y: {B} {{mlopt.output = "y"}}) {{
      %c = arith.constant true
      %f = arith.constant false
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %z = memref.alloc() : {B}
      %a = memref.alloc() : {B}
      %b = memref.alloc() : {B}
      {add("x", "1.0", "z")}
      {add("x", "0.25", "a")}
      {alias}
      {add("x", "0.125", "b")}
      {add("s" if alias else "a", "b", "y")}
      func.return
    }}"""
    module = parse_module(text, make_context())
    verify_module(module)
    return module


def offsets_of(module: ModuleOp) -> dict[str, int]:
    found = re.findall(r"%(\w+) = memref.view %arena\[%c(\d+)", print_module(module))
    return {name: int(offset) for name, offset in found}


@pytest.mark.parametrize("kind", ALIASES)
def test_an_alias_keeps_its_buffer(kind: str) -> None:
    module = module_of(ALIASES[kind])
    AssignBuffersPass().run(make_context(), module)
    offsets = offsets_of(module)
    assert offsets["a"] != offsets["b"]
    if kind not in RUNNABLE:
        return
    executable = Executable(module, WeightStore(), poison=True)
    result = executable.run({"x": np.zeros((4, 4), np.float32)})
    np.testing.assert_array_equal(result["y"], np.full((4, 4), 0.375, np.float32))


@pytest.mark.parametrize("kind", ALIASES)
def test_the_verifier_finds_a_plan_that_forgets_an_alias(kind: str) -> None:
    module = module_of(ALIASES[kind])
    AssignBuffersPass().run(make_context(), module)
    text, offsets = print_module(module), offsets_of(module)
    a, b = (f"memref.view %arena[%c{offsets[name]}" for name in "ab")
    assert f"%b = {b}" in text
    wrong = parse_module(text.replace(f"%b = {b}", f"%b = {a}"), make_context())
    with pytest.raises(VerifyFailure, match=r"'%a.*' .* and '%b.*' .* overlap"):
        verify_plan(wrong)


def test_a_buffer_that_a_loop_allocates_and_hands_on_is_refused() -> None:
    """Each iteration reads the buffer of the one before while it writes its own: one place can't be both."""
    text = f"""func.func @main(%x: {B} {{mlopt.input = "x"}}, %y: {B} {{mlopt.output = "y"}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %z = memref.alloc() : {B}
      {add("x", "1.0", "z")}
      %s = scf.for %i = %c0 to %c1 step %c1 iter_args(%p = %z) -> ({B}) {{
        %n = memref.alloc() : {B}
        {add("p", "1.0", "n")}
        scf.yield %n : {B}
      }}
      memref.copy %s, %y : {B} to {B}
      func.return
    }}"""
    module = parse_module(text, make_context())
    with pytest.raises(PassFailure, match="passes to its next iteration"):
        AssignBuffersPass().run(make_context(), module)


def test_a_call_that_reads_what_it_writes_through_an_alias_is_found() -> None:
    """The function's own view of its argument is what it writes; the caller passes one buffer under two names."""
    text = f"""func.func @main(%arena: memref<64xi8> {{mlopt.arena}}, %x: {B} {{mlopt.input = "x"}},
                               %y: {B} {{mlopt.output = "y"}}) {{
      %c0 = arith.constant 0 : index
      %a = memref.view %arena[%c0][] : memref<64xi8> to {B}
      memref.copy %x, %a : {B} to {B}
      %s = memref.collapse_shape %a [[0, 1]] : {B} into memref<16xf32>
      func.call @f(%a, %s) : ({B}, memref<16xf32>) -> ()
      memref.copy %a, %y : {B} to {B}
      func.return
    }}
    func.func private @f(%X: {B}, %O: memref<16xf32>) {{
      %s = memref.expand_shape %O [[0, 1]] output_shape [4, 4] : memref<16xf32> into {B}
      memref.copy %X, %s : {B} to {B}
      func.return
    }}"""
    with pytest.raises(VerifyFailure, match="argument 1 of the call of '@f' is written by it"):
        verify_plan(parse_module(text, make_context()))
