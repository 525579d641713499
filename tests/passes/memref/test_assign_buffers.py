"""Offsets in the arena: lifetimes in straight code, loops and branches; the verifier finds every kind of wrong plan."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.diagnostics import PassFailure, VerifyFailure
from mlopt.ir import make_context, parse_module, print_module
from mlopt.memory import Buffer, Plan, Strategy, max_live, plan
from mlopt.passes.memref.assign_buffers import AssignBuffersPass
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.memref.verify_plan import verify_plan
from tests.memory.instances import smallest_height
from tests.mlir_opt import check_with_mlir_opt

B = "memref<16xf32>"
STEP = f"""func.func private @step(%X: {B}, %O: {B}) {{
  linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
    ins(%X : {B}) outs(%O : {B}) {{
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  }}
  func.return
}}
"""


def module_of(body: str) -> ModuleOp:
    """`@main` with input `%x`, output `%y`, a condition, and `call a -> b` for a call of @step."""
    body = re.sub(r"call (%\w+) -> (%\w+)", rf"func.call @step(\1, \2) : ({B}, {B}) -> ()", body)
    body = re.sub(r"(%\w+) = new", rf"\1 = memref.alloc() : {B}", body)
    text = f"""func.func @main(%x: {B} {{mlopt.input = "x"}}, %y: {B} {{mlopt.output = "y"}}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %true = arith.constant true
  {body}
  func.return
}}
{STEP}"""
    return parse_module(text, make_context(), "input.mlir")


def assign(body: str, strategy: str = "aggressive", alignment: int = 64) -> tuple[ModuleOp, dict[str, int]]:
    """The module after the pass, and the offset of each buffer by name."""
    module = module_of(body)
    context = make_context()
    assert AssignBuffersPass(strategy=strategy, alignment=alignment).run(context, module)  # pyright: ignore[reportArgumentType] (text option)
    text = print_module(module)
    offsets = {
        name: int(offset) for name, offset in re.findall(r"%(\w+) = memref.view %arena\[%c(\d+)", text)
    }
    return module, offsets


CHAIN = "%a = new\n %b = new\n %c = new\n call %x -> %a\n call %a -> %b\n call %b -> %c\n call %c -> %y"


def test_a_chain_needs_two_buffers() -> None:
    """An op's input and output overlap at that op; the one before and the one after do not."""
    module, offsets = assign(CHAIN)
    assert offsets["a"] == offsets["c"] != offsets["b"]
    assert memory_summary(module).arena_bytes == 128
    check_with_mlir_opt(print_module(module))


def test_strategies() -> None:
    sizes = [
        memory_summary(assign(CHAIN, strategy)[0]).arena_bytes
        for strategy in ("none", "conservative", "aggressive")
    ]
    assert sizes == [192, 128, 128]


def test_the_alignment_of_offsets() -> None:
    module, offsets = assign(CHAIN, alignment=256)
    assert sorted(set(offsets.values())) == [0, 256]
    with pytest.raises(VerifyFailure, match="alignment 512"):
        verify_plan(module, alignment=512)
    with pytest.raises(PassFailure, match="at least 1"):
        AssignBuffersPass(alignment=0).run(make_context(), module_of(CHAIN))


def test_a_view_keeps_its_buffer_alive() -> None:
    """`a` is last used through a reshape of it, after `b` was written."""
    flat = "memref<4x4xf32>"
    body = f"""%a = new
  %b = new
  %c = new
  call %x -> %a
  %r = memref.reinterpret_cast %a to offset: [0], sizes: [4, 4], strides: [4, 1] : {B} to {flat}
  %s = memref.reinterpret_cast %r to offset: [0], sizes: [16], strides: [1] : {flat} to {B}
  call %x -> %b
  call %b -> %c
  call %s -> %y
  call %c -> %y"""
    _, offsets = assign(body)
    assert offsets["a"] not in (offsets["b"], offsets["c"])


def test_a_buffer_used_in_a_loop_lives_through_the_whole_loop() -> None:
    """`a` is read at the start of every iteration; `t`, allocated inside, must not take its place after that."""
    body = """%a = new
  call %x -> %a
  scf.for %i = %c0 to %c3 step %c1 {
    %t = new
    %u = new
    call %a -> %t
    call %t -> %u
    call %u -> %y
  }"""
    module, offsets = assign(body)
    assert len({offsets["a"], offsets["t"], offsets["u"]}) == 3
    assert memory_summary(module).arena_bytes == 192


def test_a_carried_buffer_lives_through_the_whole_loop() -> None:
    """`a` is written in the loop's last op and read in its first: what lies between must not overwrite it."""
    body = """%a = new
  call %x -> %a
  scf.for %i = %c0 to %c3 step %c1 {
    %t = new
    %u = new
    call %a -> %t
    call %t -> %u
    call %u -> %a
  }
  call %a -> %y"""
    _, offsets = assign(body)
    assert len({offsets["a"], offsets["t"], offsets["u"]}) == 3


def test_a_while_loop_is_a_loop() -> None:
    body = """%a = new
  call %x -> %a
  scf.while () : () -> () {
    %t = new
    call %a -> %t
    call %t -> %y
    scf.condition(%true)
  } do {
    %u = new
    call %x -> %u
    call %u -> %y
    scf.yield
  }"""
    _, offsets = assign(body)
    assert offsets["a"] not in (offsets["t"], offsets["u"])
    assert offsets["t"] == offsets["u"]


def test_branches_share() -> None:
    body = """%a = new
  call %x -> %a
  scf.if %true {
    %t = new
    call %a -> %t
    call %t -> %y
  } else {
    %u = new
    call %a -> %u
    call %u -> %y
  }"""
    module, offsets = assign(body)
    assert offsets["t"] == offsets["u"] != offsets["a"]
    assert memory_summary(module).arena_bytes == 128


def test_a_buffer_that_is_written_and_never_read_has_its_own_space() -> None:
    module, offsets = assign("%a = new\n %b = new\n call %x -> %a\n call %a -> %b\n call %a -> %y")
    assert offsets["a"] != offsets["b"]
    assert memory_summary(module).arena_bytes == 128


def test_a_buffer_that_nobody_uses_is_gone() -> None:
    module, offsets = assign("%a = new\n call %x -> %y")
    assert offsets == {} and memory_summary(module).arena_bytes == 0
    assert "memref.alloc" not in print_module(module)


def test_the_summary() -> None:
    summary = memory_summary(assign(CHAIN, "none")[0])
    assert (summary.no_reuse_bytes, summary.max_live_bytes, summary.arena_bytes) == (192, 128, 192)
    assert (summary.workspace_bytes, summary.status) == (0, "gap")
    with pytest.raises(VerifyFailure, match="arena"):
        memory_summary(module_of(CHAIN))


FRAGMENTED = [
    *((0, 3, 4), (0, 4, 4), (3, 5, 1), (3, 7, 1), (3, 6, 1), (3, 6, 1)),
    *((4, 7, 2), (4, 9, 1), (4, 6, 1), (5, 10, 1), (6, 8, 3), (7, 10, 3)),
]
"""Buffers (first moment, moment after the last, units of 64 bytes) of which 8 units live at once, and that need 9."""


def fragmented_body() -> str:
    """A body whose buffers live as `FRAGMENTED` says: at each moment some are written first, then some read last."""
    lines = ["%f = arith.constant 1.0 : f32"]
    type_of = [f"memref<{16 * size}xf32>" for _, _, size in FRAGMENTED]
    lines += [f"%b{i} = memref.alloc() : {type_}" for i, type_ in enumerate(type_of)]
    for moment in range(max(upper for _, upper, _ in FRAGMENTED)):
        for i, (lower, _, _) in enumerate(FRAGMENTED):
            if lower == moment:
                lines.append(f"memref.store %f, %b{i}[%c0] : {type_of[i]}")
        for i, (_, upper, _) in enumerate(FRAGMENTED):
            if upper == moment + 1:
                lines.append(f"%l{i} = memref.load %b{i}[%c0] : {type_of[i]}")
    return "\n".join(lines)


def test_an_arena_above_max_live_that_is_proved_to_be_the_smallest_says_so() -> None:
    """As exhaustive search has it; the proof is in the IR, as text and in the summary."""
    buffers = [Buffer(f"{i}", *entry, alignment=1) for i, entry in enumerate(FRAGMENTED)]
    assert (max_live(buffers), smallest_height(buffers)) == (8, 9)
    module, _ = assign(fragmented_body())
    assert "memref<576xi8> {mlopt.arena, mlopt.smallest = 576 : i64}" in print_module(module)
    summary = memory_summary(parse_module(print_module(module), make_context(), "again.mlir"))
    assert (summary.max_live_bytes, summary.arena_bytes, summary.status) == (512, 576, "optimal (proved)")
    check_with_mlir_opt(print_module(module))


@pytest.mark.parametrize("claim", ["640 : i64", "1.0 : f32"])
def test_a_proof_that_cannot_be_is_found(claim: str) -> None:
    text = print_module(assign(fragmented_body())[0])
    wrong = parse_module(text.replace("576 : i64", claim), make_context(), "input.mlir")
    with pytest.raises(
        VerifyFailure, match=r"expected 'mlopt.smallest' to be a number of bytes, at most 576"
    ):
        verify_plan(wrong)


def test_it_runs_once_and_verifies_again() -> None:
    module, _ = assign(CHAIN)
    assert not AssignBuffersPass().run(make_context(), module)


def test_a_planner_that_errs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass itself runs the verifier: a planner that places everything at the start does not get through."""

    def everything_at_the_start(buffers: Sequence[Buffer], strategy: Strategy) -> Plan:
        height = plan(buffers, strategy).height
        return Plan({buffer.id: 0 for buffer in buffers}, height, height)

    monkeypatch.setattr("mlopt.passes.memref.assign_buffers.plan", everything_at_the_start)
    with pytest.raises(VerifyFailure, match="overlap"):
        assign(CHAIN)


# The verifier, on plans edited by hand


def edited(old: str, new: str) -> ModuleOp:
    module, _ = assign(CHAIN)
    text = print_module(module)
    assert old in text
    return parse_module(text.replace(old, new), make_context(), "edited.mlir")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%b = memref.view %arena[%c64]", "%b = memref.view %arena[%c0]", "'%a.*' .* and '%b.*' .* overlap"),
        ("%c64 = arith.constant 64", "%c64 = arith.constant 32", "no multiple of its alignment 64"),
        ("%c64 = arith.constant 64", "%c64 = arith.constant 128", "takes bytes"),
        ("%b = memref.view %arena[%c64][] : memref<128xi8> to", "%b = memref.alloc() :", "allocation is left"),
        ("func.call @step(%a, %b)", "func.call @step(%b, %b)", "argument 1 of the call of '@step' is written by it"),
    ],
)  # fmt: skip
def test_a_wrong_plan_is_found(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyFailure, match=message) as failure:
        verify_plan(edited(old, new))
    assert failure.value.place is not None and failure.value.place.file == "edited.mlir"


def test_an_offset_that_is_no_constant_is_found() -> None:
    text = f"""func.func @main(%arena: memref<128xi8> {{mlopt.arena}}, %n: index, %y: {B} {{mlopt.output = "y"}}) {{
  %a = memref.view %arena[%n][] : memref<128xi8> to {B}
  func.call @step(%a, %y) : ({B}, {B}) -> ()
  func.return
}}
{STEP}"""
    with pytest.raises(VerifyFailure, match="constant offset"):
        verify_plan(parse_module(text, make_context()))


def test_a_workspace_with_overlapping_views_is_found() -> None:
    text = f"""func.func private @f(%X: {B}, %O: {B}, %ws: memref<128xi8> {{mlopt.workspace}}) {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = memref.view %ws[%c0][] : memref<128xi8> to {B}
  %b = memref.view %ws[%c64][] : memref<128xi8> to {B}
  memref.copy %X, %a : {B} to {B}
  memref.copy %a, %b : {B} to {B}
  memref.copy %b, %O : {B} to {B}
  func.return
}}"""
    verify_plan(parse_module(text, make_context()))
    with pytest.raises(VerifyFailure, match="overlap"):
        verify_plan(parse_module(text.replace("constant 64", "constant 0"), make_context()))


def test_the_verifier_knows_loops() -> None:
    """A plan in which a buffer of the loop's body takes the place of one that the next iteration reads."""
    module, offsets = assign(
        """%a = new
  call %x -> %a
  scf.for %i = %c0 to %c3 step %c1 {
    %t = new
    %u = new
    call %a -> %t
    call %t -> %u
    call %u -> %y
  }"""
    )
    text = print_module(module)
    u, a = f"%u = memref.view %arena[%c{offsets['u']}", f"%u = memref.view %arena[%c{offsets['a']}"
    assert u in text
    with pytest.raises(VerifyFailure, match=r"'%a.*' .* and '%u.*' .* overlap"):
        verify_plan(parse_module(text.replace(u, a), make_context()))
