"""`scratch_bound`: never less than an engine takes at its least, and nothing where BLAS takes all as it lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from mlopt.arrays import read_npz
from mlopt.compilation import compile_model, load_model
from mlopt.dialects.kernel import LaunchOp
from mlopt.interpreter.scratch_bound import scratch_bound
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context
from mlopt.ir.parser import parse_module
from mlopt.options import CompileOptions
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds
from mlopt.passes.registry import load_pass
from tests.strategies import GraphCase, graph_modules

SHARED = Path(__file__).parents[4] / "shared" / "models"
OWN = Path(__file__).parents[2] / "models"
MODELS = {path.stem: path for folder in (SHARED, OWN) for path in sorted(folder.glob("*.onnx"))}

PASSES = ((), ("fuse-kernels",), ("fuse-kernels", "place-concats", "reuse-in-place"))

checked = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def assert_bound(module: ModuleOp) -> None:
    """Of each launch: what is quickly known is no less than what lowering it and asking the engine finds out."""
    for launch in launches_of(module):
        quick, exact = WorkspaceNeeds(NumpyTarget()), WorkspaceNeeds(NumpyTarget())
        assert quick.at_most(launch) >= exact.need(launch).minimum, str(launch)


def launches_of(module: ModuleOp) -> Iterator[LaunchOp]:
    return (op for op in module.walk() if isinstance(op, LaunchOp))


@checked
@given(case=graph_modules(max_ops=12), passes=st.sampled_from(PASSES))
def test_random_programs(case: GraphCase, passes: tuple[str, ...]) -> None:
    context = make_context()
    context.weights = case.weights
    for name in ("convert-graph-to-kernel", *passes):
        load_pass(name)().run(context, case.module)
    assert_bound(case.module)


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    inputs = read_npz(MODELS[name].with_suffix(".npz"), "in")
    compiled = compile_model(load_model(MODELS[name], CompileOptions(), inputs=inputs))
    assert_bound(parse_module(compiled.ir("kernel"), make_context()))


def test_what_blas_takes_as_it_lies_takes_nothing() -> None:
    """A linear, a product of heads that lie next to each other, and of a transposed factor."""
    products = {
        "m = 50, n = 96, k = 128": ("A[m, k], %B[n, k]", "50x128", "96x128", "m, n", "50x96"),
        "h = 4, m = 50, n = 96, k = 128": (
            "A[m, 128 * h + k], %B[h, k, n]",
            "50x512",
            "4x128x96",
            "m, h, n",
            "50x4x96",
        ),
        "m = 50, n = 96, k = 128, l = 3": (
            "A[l, k, m], %B[n, l, k]",
            "3x128x50",
            "96x3x128",
            "m, n",
            "50x96",
        ),
    }
    for bounds, (reads, left, right, where, out) in products.items():
        (launch,) = launches_of(parse_module(product(bounds, reads, left, right, where, out), make_context()))
        assert scratch_bound(launch) == 0 == WorkspaceNeeds(NumpyTarget()).need(launch).minimum


def test_blocks_that_are_packed() -> None:
    """16 columns at 128 taps of 4 bytes are less than the smallest block; 40 are more."""
    for columns, packed in ((16, 16 << 10), (40, 40 * 128 * 4)):
        text = product(
            f"m = 50, n = {columns}, k = 128",
            "A[m, k], %B[k + n]",
            "50x128",
            f"{columns + 127}",
            "m, n",
            f"50x{columns}",
        )
        (launch,) = launches_of(parse_module(text, make_context()))
        assert packed <= scratch_bound(launch) < packed + 256


def product(bounds: str, reads: str, left: str, right: str, where: str, out: str) -> str:
    a, b, o = (f"tensor<{shape}xf32>" for shape in (left, right, out))
    return f"""
func.func @main(%a: {a}, %b: {b}) -> {o} {{
  %e = tensor.empty() : {o}
  %y = kernel.launch @product ins(%a, %b : {a}, {b}) outs(%e : {o}) {{
  ^bb0(%A: {a}, %B: {b}, %O: {o}):
    %z = arith.constant 0.0 : f32
    %0 = kernel.fill %z : f32 outs(%O : {o})
    %1 = kernel.contract bounds [{bounds}] ins(%{reads} : {a}, {b}) outs(%0[{where}] : {o})
    kernel.yield %1 : {o}
  }} -> {o}
  return %y : {o}
}}"""


EXTENTS = st.sampled_from([1, 2, 3, 16, 70, 130])
FLOATS = st.sampled_from(["f16", "f32", "f64"])


@st.composite
def products(draw: st.DrawFn) -> str:
    """A product of batches, rows, columns and sums of some dimensions each, of tensors that lie in any order."""
    roles = {role: [f"{role}{i}" for i in range(draw(st.integers(0, 2)))] for role in "brcs"}
    bounds = {dim: draw(EXTENTS) for dims in roles.values() for dim in dims}
    for dim in bounds:  # no more than a few blocks of a tensor of a few megabytes
        if sum(extent > 16 for extent in bounds.values()) > 3:
            bounds[dim] = min(bounds[dim], 3)
    types = draw(st.sampled_from(["f16 f16", "f32 f32", "f64 f64", "f16 f32", "i8 i32", "i64 i64"])).split()
    operands = {
        "A": (roles["b"] + roles["r"] + roles["s"], types[0]),
        "B": (roles["b"] + roles["c"] + roles["s"], types[0]),
        "O": (roles["b"] + roles["r"] + roles["c"], types[1]),
    }
    access: dict[str, str] = {}
    tensor: dict[str, str] = {}
    for name, (dims, type_) in operands.items():
        order = draw(st.permutations(dims))
        access[name] = ", ".join(order)
        tensor[name] = "tensor<" + "".join(f"{bounds[dim]}x" for dim in order) + f"{type_}>"
    space = ", ".join(f"{dim} = {extent}" for dim, extent in bounds.items())
    init, fill = "%O", ""
    if draw(st.booleans()):
        zero = "0.0" if types[1].startswith("f") else "0"
        init = "%0"
        fill = f"""%z = arith.constant {zero} : {types[1]}
    %0 = kernel.fill %z : {types[1]} outs(%O : {tensor["O"]})"""
    return f"""
func.func @main(%a: {tensor["A"]}, %b: {tensor["B"]}) -> {tensor["O"]} {{
  %e = tensor.empty() : {tensor["O"]}
  %y = kernel.launch @product ins(%a, %b : {tensor["A"]}, {tensor["B"]}) outs(%e : {tensor["O"]}) {{
  ^bb0(%A: {tensor["A"]}, %B: {tensor["B"]}, %O: {tensor["O"]}):
    {fill}
    %1 = kernel.contract bounds [{space}]
      ins(%A[{access["A"]}], %B[{access["B"]}] : {tensor["A"]}, {tensor["B"]})
      outs({init}[{access["O"]}] : {tensor["O"]})
    kernel.yield %1 : {tensor["O"]}
  }} -> {tensor["O"]}
  return %y : {tensor["O"]}
}}"""


@checked
@given(products())
def test_random_products(text: str) -> None:
    assert_bound(parse_module(text, make_context()))


BINARY = ("arith.addf", "arith.mulf", "arith.divf", "arith.maximumf", "math.powf", "math.atan2")
UNARY = (
    "math.erf",
    "math.exp",
    "math.tanh",
    "math.log1p",
    "math.sqrt",
    "math.floor",
    "arith.negf",
    "math.sin",
)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A map, or a reduction of its rows, of an expression of several operands of which some are read with padding."""
    type_, rows, columns = draw(FLOATS), draw(EXTENTS), draw(st.sampled_from([1, 7, 64, 1000]))
    number = draw(st.integers(1, 5))
    values = [f"%x{i}" for i in range(number)]
    lines: list[str] = []
    for i in range(draw(st.integers(1, 14))):
        args = [draw(st.sampled_from(values)) for _ in range(2)]
        operation = draw(st.sampled_from([*BINARY, *UNARY]))
        used = ", ".join(args if operation in BINARY else args[:1])
        lines.append(f"%v{i} = {operation} {used} : {type_}")
        values.append(f"%v{i}")
    is_sum = draw(st.booleans())
    last = values[-1]
    if is_sum:
        lines.append(f"%total = arith.addf %old, {last} : {type_}")
        last = "%total"
    whole, kept = f"tensor<{rows}x{columns}x{type_}>", f"tensor<{rows}x{type_}>"
    out, where = (kept, "m") if is_sum else (whole, "m, n")
    reads = [
        f"%X{i}[m, n - {draw(st.integers(1, 3))}] pad 0.0 : {type_}"
        if draw(st.booleans())
        else f"%X{i}[m, n]"
        for i in range(number)
    ]
    names = ", ".join(f"%a{i}" for i in range(number))
    types = ", ".join([whole] * number)
    given_ = ", ".join(f"%a{i}: {whole}" for i in range(number))
    inside = ", ".join([*(f"%X{i}: {whole}" for i in range(number)), f"%O: {out}"])
    scalars = ", ".join([*(f"%x{i}: {type_}" for i in range(number)), f"%old: {type_}"])
    body = "\n      ".join(lines)
    return f"""
func.func @main({given_}) -> {out} {{
  %e = tensor.empty() : {out}
  %y = kernel.launch @body ins({names} : {types}) outs(%e : {out}) {{
  ^bb0({inside}):
    %z = arith.constant 0.0 : {type_}
    %0 = kernel.fill %z : {type_} outs(%O : {out})
    %1 = kernel.{"reduce" if is_sum else "map"} bounds [m = {rows}, n = {columns}]
      ins({", ".join(reads)} : {types}) outs(%0[{where}] : {out}) {{
    ^bb1({scalars}):
      {body}
      kernel.yield {last} : {type_}
    }}
    kernel.yield %1 : {out}
  }} -> {out}
  return %y : {out}
}}"""


@checked
@given(bodies())
def test_random_bodies(text: str) -> None:
    assert_bound(parse_module(text, make_context()))
