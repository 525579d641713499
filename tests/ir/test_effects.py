"""The table of effects: complete for every dialect, in step with xDSL's traits, and right op by op.

The right values are the definitions of the upstream dialects (mlir.llvm.org/docs/Dialects) and docs/architecture.md.
"""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import (
    MemoryAllocEffect,
    MemoryEffect,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    RecursiveMemoryEffect,
)

from mlopt.dialects.graph import GraphOp
from mlopt.dialects.kernel import DestinationStyle
from mlopt.ir import make_context, parse_module
from mlopt.ir.effects import TABLE, aliases_of, destinations, effects_of, is_dead
from mlopt.ir.registration import DIALECTS
from mlopt.passes.registry import load_pass
from mlopt.passmanager import make_pass


def all_operations() -> list[type[Operation]]:
    """Every operation of every dialect that a context knows."""
    ctx = make_context()
    for name in DIALECTS:
        if name != "builtin":
            ctx.load_registered_dialect(name)
    return [op for dialect in ctx.loaded_dialects for op in dialect.operations]


OPERATIONS = all_operations()
BY_TRAITS = {"arith", "math", "complex", "graph"}
"""Dialects of pure functions: their traits say so, and what they make is never a view of what they take."""


def dialect_of(op: type[Operation]) -> str:
    return op.name.partition(".")[0]


def test_every_operation_is_in_the_table() -> None:
    """Or it is a pure function of values by its traits."""

    def is_known(op: type[Operation]) -> bool:
        return op.name in TABLE or (dialect_of(op) in BY_TRAITS and op.get_trait(NoMemoryEffect) is not None)

    assert [op.name for op in OPERATIONS if not is_known(op)] == []


def test_the_table_holds_only_operations_that_exist() -> None:
    assert sorted(set(TABLE) - {op.name for op in OPERATIONS}) == []


def test_every_graph_operation_is_pure() -> None:
    graph_ops = [op for op in OPERATIONS if dialect_of(op) == "graph"]
    assert graph_ops
    assert all(issubclass(op, GraphOp) and op.get_trait(NoMemoryEffect) is not None for op in graph_ops)


CORRECTED = {
    "memref.global": "a definition; MLIR's MemRef_GlobalOp has no effects either",
    "tensor.empty": "two of them are two destinations",
    "memref.dma_start": "goes on after the op",
    "memref.dma_wait": "what it waits for may have written anything",
    "memref.extract_aligned_pointer_as_index": "an address that can go anywhere",
}
"""Where the table says another thing than xDSL's traits, and why."""


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATIONS if op.name in TABLE and op.get_trait(MemoryEffect) is not None],
    ids=lambda op: op.name,
)
def test_the_table_agrees_with_declared_traits(op: type[Operation]) -> None:
    row = TABLE[op.name]
    if op.name in CORRECTED:
        return
    assert bool(row.reads) == (op.get_trait(MemoryReadEffect) is not None) or row.outs is not None
    assert bool(row.writes) == (op.get_trait(MemoryWriteEffect) is not None)
    assert bool(row.frees) == (op.get_trait(MemoryFreeEffect) is not None)
    assert row.allocates == (op.get_trait(MemoryAllocEffect) is not None)
    if op.get_trait(RecursiveMemoryEffect) is not None:
        assert row.runs_regions
    if op.get_trait(NoMemoryEffect) is not None:
        assert not row.unknown
        assert not row.stops


def parse(text: str) -> ModuleOp:
    return parse_module(text, make_context())


def named(module: ModuleOp, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def hints(values: tuple[SSAValue | None, ...]) -> list[str | None]:
    return [None if value is None else value.name_hint for value in values]


MEMORY = """
func.func @f(%p: memref<4xf32>, %q: memref<4xf32>, %v: f32, %i: index, %c: i1) {
  %l = memref.load %p[%i] : memref<4xf32>
  memref.store %v, %q[%i] : memref<4xf32>
  memref.copy %p, %q : memref<4xf32> to memref<4xf32>
  %a = memref.alloc() : memref<4xf32>
  memref.dealloc %a : memref<4xf32>
  linalg.fill ins(%v : f32) outs(%q : memref<4xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%p : memref<4xf32>) outs(%q : memref<4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %e = memref.load %a[%i] : memref<4xf32>
    linalg.yield %e : f32
  }
  scf.for %j = %i to %i step %i {
    scf.if %c {
      memref.store %v, %q[%j] : memref<4xf32>
    }
  }
  func.call @g(%p) : (memref<4xf32>) -> ()
  cf.assert %c, "no"
  %d = memref.dim %p, %i : memref<4xf32>
  func.return
}
func.func private @g(memref<4xf32>)
"""


@pytest.mark.parametrize(
    ("name", "reads", "writes", "frees", "allocates"),
    [
        ("memref.load", ["p"], [], [], []),
        ("memref.store", [], ["q"], [], []),
        ("memref.copy", ["p"], ["q"], [], []),
        ("memref.alloc", [], [], [], ["a"]),
        ("memref.dealloc", [], [], ["a"], []),
        ("linalg.fill", [], ["q"], [], []),
        ("linalg.generic", ["p", "q", "a"], ["q"], [], []),
        ("scf.for", [], ["q"], [], []),
        ("memref.dim", [], [], [], []),
    ],
)
def test_what_is_read_and_written(
    name: str, reads: list[str], writes: list[str], frees: list[str], allocates: list[str]
) -> None:
    """The body of a `linalg.generic` and what is nested in a loop count."""
    effects = effects_of(named(parse(MEMORY), name)[0])
    assert not effects.unknown
    assert hints(effects.reads) == reads
    assert hints(effects.writes) == writes
    assert hints(effects.frees) == frees
    assert hints(effects.allocates) == allocates


def test_calls_may_do_anything_and_assertions_may_stop() -> None:
    module = parse(MEMORY)
    assert effects_of(named(module, "func.call")[0]).unknown
    assertion = effects_of(named(module, "cf.assert")[0])
    assert assertion.stops
    assert not assertion.touches_memory


def test_unregistered_operations_may_do_anything() -> None:
    module = parse_module(
        '%x = "other.make"() : () -> memref<4xf32>\n%y = "other.use"(%x) : (memref<4xf32>) -> memref<4xf32>',
        make_context(allow_unregistered=True),
    )
    first, second = module.ops
    assert effects_of(second).unknown
    assert not is_dead(second)
    assert list(aliases_of(second)) == [(first.results[0], second.results[0])]


VIEWS = """
func.func @f(%p: memref<4x6xf32>, %bytes: memref<256xi8>, %i: index, %c: i1) {
  %view = memref.view %bytes[%i][] : memref<256xi8> to memref<4xf32>
  %subview = memref.subview %p[0, 0] [2, 6] [1, 1] : memref<4x6xf32> to memref<2x6xf32, strided<[6, 1]>>
  %cast = "memref.cast"(%p) : (memref<4x6xf32>) -> memref<?x6xf32>
  %flat = memref.reinterpret_cast %p to offset: [0], sizes: [24], strides: [1] : memref<4x6xf32> to memref<24xf32>
  %collapse = memref.collapse_shape %p [[0, 1]] : memref<4x6xf32> into memref<24xf32>
  %expand = memref.expand_shape %p [[0, 1], [2]] output_shape [2, 2, 6] : memref<4x6xf32> into memref<2x2x6xf32>
  %aligned = memref.assume_alignment %p, 64 : memref<4x6xf32>
  %chosen = arith.select %c, %p, %aligned : memref<4x6xf32>
  func.return
}
func.func @g(%t: tensor<4x6xf32>, %s: tensor<2x6xf32>) {
  %reshape = kernel.reshape %t : tensor<4x6xf32> to tensor<24xf32>
  %extract = tensor.extract_slice %t[0, 0] [2, 6] [1, 1] : tensor<4x6xf32> to tensor<2x6xf32>
  %cast = tensor.cast %t : tensor<4x6xf32> to tensor<?x6xf32>
  func.return
}
"""


def test_every_view_is_an_alias() -> None:
    """A buffer may not be given away while one of these is used: each result is (part of) its operand's memory."""
    found = {
        (source.name_hint, other.name_hint)
        for op in parse(VIEWS).walk()
        if op.name not in ("builtin.module", "func.func")
        for source, other in aliases_of(op)
    }
    assert found == {
        ("bytes", "view"),
        *(("p", name) for name in ("subview", "cast", "flat", "collapse", "expand", "aligned", "chosen")),
        ("aligned", "chosen"),
        *(("t", name) for name in ("reshape", "extract", "cast")),
    }


FLOW = """
func.func @f(%a: memref<4xf32>, %b: memref<4xf32>, %n: index, %c: i1) {
  %if = scf.if %c -> (memref<4xf32>) {
    scf.yield %a : memref<4xf32>
  } else {
    scf.yield %b : memref<4xf32>
  }
  %for = scf.for %i = %n to %n step %n iter_args(%x = %a) -> (memref<4xf32>) {
    scf.yield %b : memref<4xf32>
  }
  %while = scf.while (%y = %a) : (memref<4xf32>) -> memref<4xf32> {
    scf.condition(%c) %b : memref<4xf32>
  } do {
  ^bb0(%z: memref<4xf32>):
    scf.yield %z : memref<4xf32>
  }
  func.return
}
"""


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("scf.if", {("a", "if"), ("b", "if")}),
        ("scf.for", {("a", "x"), ("a", "for"), ("b", "x"), ("b", "for")}),
        ("scf.while", {("a", "y"), ("b", "z"), ("b", "while"), ("z", "y")}),
    ],
)
def test_control_flow_passes_buffers_on(name: str, pairs: set[tuple[str, str]]) -> None:
    (op,) = named(parse(FLOW), name)
    assert {(source.name_hint, other.name_hint) for source, other in aliases_of(op)} == pairs
    terminator = op.regions[0].block.last_op
    assert terminator is not None
    assert set(aliases_of(terminator)) == set(aliases_of(op))


def test_destinations_are_those_of_the_kernel_dialect() -> None:
    """The table counts operand segments; the dialect names them `outs`."""
    module = parse("""
        func.func @main(%x: tensor<4xf32>, %z: f32) -> tensor<4xf32> {
          %e = tensor.empty() : tensor<4xf32>
          %f = kernel.fill %z : f32 outs(%e : tensor<4xf32>)
          %m = kernel.map bounds [i = 4] ins(%x[i], %x[i] : tensor<4xf32>, tensor<4xf32>) outs(%f[i] : tensor<4xf32>) {
          ^bb1(%a: f32, %b: f32, %o: f32):
            kernel.yield %a : f32
          }
          %c = kernel.call @mlopt_rt_sort ins(%m : tensor<4xf32>) outs(%f : tensor<4xf32>) -> tensor<4xf32>
          func.return %c : tensor<4xf32>
        }""")
    ops = [op for op in module.walk() if isinstance(op, DestinationStyle)]
    assert len(ops) == 3
    for op in ops:
        assert [(op.operands[position], result) for position, result in destinations(op)] == list(
            zip(op.outs, op.results, strict=True)
        )


def run_passes(module: ModuleOp, *names: str) -> None:
    ctx = make_context()
    for name in names:
        make_pass(load_pass(name), {}).run(ctx, module)


def test_nothing_with_an_effect_is_erased_or_merged() -> None:
    """Both loads around a store stay, and a loop or a launch whose only content can be noticed."""
    module = parse("""
        func.func @f(%p: memref<1xf32>, %v: f32, %c: i1, %t: tensor<4xf32>) -> (f32, f32) {
          %i = arith.constant 0 : index
          %n = arith.constant 1 : index
          %a = memref.load %p[%i] : memref<1xf32>
          memref.store %v, %p[%i] : memref<1xf32>
          %b = memref.load %p[%i] : memref<1xf32>
          scf.for %j = %i to %n step %n {
            memref.store %v, %p[%j] : memref<1xf32>
          }
          scf.for %j = %i to %n step %n {
            memref.store %v, %p[%j] : memref<1xf32>
          }
          %l = kernel.launch @checked ins(%c : i1) outs(%t : tensor<4xf32>) {
          ^bb0(%C: i1, %T: tensor<4xf32>):
            cf.assert %C, "no"
            kernel.yield %T : tensor<4xf32>
          } -> tensor<4xf32>
          func.return %a, %b : f32, f32
        }""")
    run_passes(module, "cse", "dce")
    assert len(named(module, "memref.load")) == 2
    assert len(named(module, "scf.for")) == 2
    assert len(named(module, "memref.store")) == 3
    assert len(named(module, "kernel.launch")) == 1


def test_what_has_no_effect_goes() -> None:
    """Also what xDSL declares nothing for: `arith.remui`, `arith.extsi`, a `linalg.fill` of a tensor."""
    module = parse("""
        func.func @f(%x: i32, %v: f32, %t: tensor<4xf32>) {
          %a = arith.remui %x, %x : i32
          %b = arith.extsi %x : i32 to i64
          %c = linalg.fill ins(%v : f32) outs(%t : tensor<4xf32>) -> tensor<4xf32>
          func.return
        }""")
    run_passes(module, "dce")
    assert [op.name for op in module.walk()] == ["builtin.module", "func.func", "func.return"]
