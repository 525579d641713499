"""What `convert-kernel-to-memref` makes: the interface of `@main`, functions of launches, windows, places."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FusedLoc, ModuleOp, NameLoc

from mlopt.diagnostics import PassFailure
from mlopt.ir import fuse_locations, make_context, node_names, parse_module, print_module
from mlopt.passes.registry import load_pass
from tests.memref_reference import run_memref
from tests.mlir_opt import check_with_mlir_opt
from tests.passes.lowering import CONVERT, check, lower

MIXED = """
func.func @main(%x: tensor<1x3x7x7xf32> {mlopt.name = "input:0"}, %ids: tensor<5xi64> {mlopt.name = "ids"})
    -> (tensor<1x4x4x4xf32> {mlopt.name = "conv"}, tensor<1x3x3x3xf32> {mlopt.name = "pool"},
        tensor<5x8xf32> {mlopt.name = "rows"}, tensor<8x1xf32> {mlopt.name = "sum"}) {
  %w = kernel.constant #mlopt.weight<"conv1.weight"> : tensor<4x3x3x3xf32>
  %b = kernel.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %t = kernel.constant #mlopt.weight<"table"> : tensor<10x8xf32>
  %e0 = tensor.empty() : tensor<1x4x4x4xf32>
  %conv = kernel.launch @conv ins(%x, %w, %b : tensor<1x3x7x7xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>)
                              outs(%e0 : tensor<1x4x4x4xf32>) {
  ^bb0(%X: tensor<1x3x7x7xf32>, %W: tensor<4x3x3x3xf32>, %B: tensor<4xf32>, %O: tensor<1x4x4x4xf32>):
    %0 = kernel.map bounds [n = 1, k = 4, h = 4, w = 4] ins(%B[k] : tensor<4xf32>)
                                                       outs(%O[n, k, h, w] : tensor<1x4x4x4xf32>) {
    ^bb1(%a: f32, %o: f32):
      kernel.yield %a : f32
    }
    %1 = kernel.contract bounds [n = 1, k = 4, h = 4, w = 4, c = 3, kh = 3, kw = 3]
      ins(%X[n, c, 2 * h + kh - 1, 2 * w + kw - 1] pad 0.0 : f32, %W[k, c, kh, kw]
          : tensor<1x3x7x7xf32>, tensor<4x3x3x3xf32>)
      outs(%0[n, k, h, w] : tensor<1x4x4x4xf32>)
    kernel.yield %1 : tensor<1x4x4x4xf32>
  } -> tensor<1x4x4x4xf32>
  %e1 = tensor.empty() : tensor<1x3x3x3xf32>
  %pool = kernel.launch @maxpool ins(%x : tensor<1x3x7x7xf32>) outs(%e1 : tensor<1x3x3x3xf32>) {
  ^bb0(%X: tensor<1x3x7x7xf32>, %O: tensor<1x3x3x3xf32>):
    %ninf = arith.constant 0xFF800000 : f32
    %0 = kernel.fill %ninf : f32 outs(%O : tensor<1x3x3x3xf32>)
    %1 = kernel.reduce bounds [n = 1, c = 3, h = 3, w = 3, kh = 3, kw = 2]
      ins(%X[n, c, 2 * h + kh, 2 * w + kw] : tensor<1x3x7x7xf32>) outs(%0[n, c, h, w] : tensor<1x3x3x3xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.maximumf %o, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %1 : tensor<1x3x3x3xf32>
  } -> tensor<1x3x3x3xf32>
  %e2 = tensor.empty() : tensor<5x8xf32>
  %rows = kernel.launch @gather ins(%t, %ids : tensor<10x8xf32>, tensor<5xi64>) outs(%e2 : tensor<5x8xf32>) {
  ^bb0(%T: tensor<10x8xf32>, %I: tensor<5xi64>, %O: tensor<5x8xf32>):
    %0 = kernel.map bounds [s = 5, d = 8] ins(%I[s] : tensor<5xi64>) outs(%O[s, d] : tensor<5x8xf32>) {
    ^bb1(%k: i64, %o: f32):
      %row = arith.index_cast %k : i64 to index
      %d = kernel.index 1
      %v = tensor.extract %T[%row, %d] : tensor<10x8xf32>
      kernel.yield %v : f32
    }
    kernel.yield %0 : tensor<5x8xf32>
  } -> tensor<5x8xf32>
  %e3 = tensor.empty() : tensor<8x1xf32>
  %sum = kernel.launch @sum ins(%rows : tensor<5x8xf32>) outs(%e3 : tensor<8x1xf32>) {
  ^bb0(%E: tensor<5x8xf32>, %O: tensor<8x1xf32>):
    %z = arith.constant 0.0 : f32
    %0 = kernel.fill %z : f32 outs(%O : tensor<8x1xf32>)
    %1 = kernel.reduce bounds [d = 8, s = 2] ins(%E[2 * s + 1, d] : tensor<5x8xf32>) outs(%0[d, 0] : tensor<8x1xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.addf %o, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %1 : tensor<8x1xf32>
  } -> tensor<8x1xf32>
  func.return %conv, %pool, %rows, %sum : tensor<1x4x4x4xf32>, tensor<1x3x3x3xf32>, tensor<5x8xf32>, tensor<8x1xf32>
}
"""


def test_windows_padding_gather_and_slices() -> None:
    """The right values by plain numpy; whole numbers, so sums are exact in any order."""
    generator = np.random.default_rng(0)
    x = generator.integers(-9, 9, (1, 3, 7, 7)).astype(np.float32)
    weights = {
        "conv1.weight": generator.integers(-3, 3, (4, 3, 3, 3)).astype(np.float32),
        "table": generator.integers(-9, 9, (10, 8)).astype(np.float32),
    }
    ids = np.array([3, 0, 9, 3, 1])
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    bias = np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1, 1)
    pooled = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (2, 3))[:, :, ::2, ::2].max((4, 5))
    want = {
        "conv": np.einsum("nchwij,kcij->nkhw", windows, weights["conv1.weight"]) + bias,
        "pool": pooled,
        "rows": weights["table"][ids],
        "sum": weights["table"][ids][[1, 3]].sum(0).reshape(8, 1),
    }
    check_with_mlir_opt(check(MIXED, {"input:0": x, "ids": ids}, want, weights))


def test_the_interface_of_main() -> None:
    """Inputs, then one argument per weight, then outputs, by their exact names; no results."""
    module = lower(MIXED, CONVERT)
    main = next(op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == "main")
    assert main.arg_attrs is not None
    assert [str(attributes) for attributes in main.arg_attrs] == [
        '{mlopt.input = "input:0"}',
        '{mlopt.input = "ids"}',
        '{mlopt.weight = "conv1.weight"}',
        '{mlopt.weight = "table"}',
        '{mlopt.output = "conv"}',
        '{mlopt.output = "pool"}',
        '{mlopt.output = "rows"}',
        '{mlopt.output = "sum"}',
    ]
    assert not main.function_type.outputs.data


def test_a_weight_that_is_used_twice_is_one_argument_and_dtypes_are_kept() -> None:
    text = """func.func @main(%x: tensor<2xi8> {mlopt.name = "x", mlopt.dtype = "uint8"})
    -> (tensor<2xf32> {mlopt.name = "y"}, tensor<2x1xf32> {mlopt.name = "z"},
        tensor<2xi8> {mlopt.name = "x2", mlopt.dtype = "uint8"}) {
  %a = kernel.constant #mlopt.weight<"w"> : tensor<2xf32>
  %b = kernel.constant #mlopt.weight<"w"> : tensor<2x1xf32>
  func.return %a, %b, %x : tensor<2xf32>, tensor<2x1xf32>, tensor<2xi8>
}"""
    w, x = np.array([1, 2], np.float32), np.array([100, 3], np.uint8)
    final = check(text, {"x": x}, {"y": w, "z": w.reshape(2, 1), "x2": x}, {"w": w})
    assert final.count('mlopt.weight = "w"') == 1
    assert final.count('mlopt.dtype = "uint8"') == 2


def layers(count: int, *, last_is_different: bool = False) -> str:
    """Alternating launches with other names, dimension names and value names in every layer."""
    t = "tensor<4x4xf32>"
    lines = [f'func.func @main(%x0: {t} {{mlopt.name = "x"}}) -> ({t} {{mlopt.name = "y"}}) {{']
    for i in range(count):
        constant = 3.0 if last_is_different and i == count - 1 else 2.0
        lines += [
            f'%w{i} = kernel.constant #mlopt.weight<"w{i}"> : {t}',
            f"%e{i} = tensor.empty() : {t}",
            f"%x{i + 1} = kernel.launch @layer{i}_scale ins(%x{i}, %w{i} : {t}, {t}) outs(%e{i} : {t}) {{",
            f"^bb0(%X{i}: {t}, %W{i}: {t}, %O{i}: {t}):",
            f"%c{i} = arith.constant {constant} : f32",
            f"%z{i} = kernel.map bounds [m{i} = 4, n = 4] ins(%X{i}[m{i}, n], %W{i}[n, m{i}] : {t}, {t}) "
            f"outs(%O{i}[m{i}, n] : {t}) {{",
            f"^bb1(%p{i}: f32, %q{i}: f32, %o{i}: f32):",
            f"%s{i} = arith.addf %p{i}, %q{i} : f32",
            f"%r{i} = arith.mulf %s{i}, %c{i} : f32",
            f"kernel.yield %r{i} : f32 }}",
            f'kernel.yield %z{i} : {t} }} -> {t} loc("node{i}")',
        ]
    return "\n".join([*lines, f"func.return %x{count} : {t}", "}"])


def functions(module: ModuleOp) -> list[func.FuncOp]:
    return [op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data != "main"]


def test_equal_launches_share_one_function() -> None:
    """Names of launches, dimensions, values and weights, and locations, make no difference; constants do."""
    assert [len(functions(lower(layers(n)))) for n in (2, 12)] == [1, 1]
    assert len(functions(lower(layers(12, last_is_different=True)))) == 2
    x, weights = np.ones((4, 4), np.float32), {f"w{i}": np.full((4, 4), i, np.float32) for i in range(3)}
    y = x
    for i in range(3):
        y = (y + weights[f"w{i}"].T) * 2
    assert np.array_equal(run_memref(lower(layers(3)), {"x": x}, weights)["y"], y)


def test_locations_are_exact_on_calls_and_fused_on_functions() -> None:
    module = lower(layers(3))
    (function,) = functions(module)
    calls = [op for op in module.walk() if isinstance(op, func.CallOp)]
    assert [node_names(call.location) for call in calls] == [["node0"], ["node1"], ["node2"]]
    assert isinstance(calls[0].location, NameLoc)
    assert isinstance(function.location, FusedLoc)
    assert function.location == fuse_locations(call.location for call in calls)


def test_buffers_are_named_after_what_is_computed_into_them() -> None:
    text = print_module(lower(layers(3)))
    assert "%x1 = memref.view" in text and "%x2 = memref.view" in text


def test_a_movement_into_the_output_needs_no_buffer() -> None:
    """A result is computed right in its output, through a reshape too."""
    text = """func.func @main(%x: tensor<2x3xf32> {mlopt.name = "x"}) -> (tensor<6xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<3x2xf32>
  %t = kernel.launch @transpose ins(%x : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%X: tensor<2x3xf32>, %O: tensor<3x2xf32>):
    %0 = kernel.map bounds [m = 3, n = 2] ins(%X[n, m] : tensor<2x3xf32>) outs(%O[m, n] : tensor<3x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      kernel.yield %a : f32
    }
    kernel.yield %0 : tensor<3x2xf32>
  } -> tensor<3x2xf32>
  %y = kernel.reshape %t : tensor<3x2xf32> to tensor<6xf32>
  func.return %y : tensor<6xf32>
}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    final = check(text, {"x": x}, {"y": x.T.reshape(6)})
    assert "memref<0xi8> {mlopt.arena}" in final and "memref.copy" not in final


def test_a_contract_extends_narrow_operands() -> None:
    """i8 products summed in i32: (-128) * (-128) * 2 = 32768, which i8 and i16 can't hold."""
    text = """func.func @main(%a: tensor<1x2xi8> {mlopt.name = "a"}) -> (tensor<1x1xi32> {mlopt.name = "y"}) {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x1xi32>
  %f = kernel.fill %zero : i32 outs(%e : tensor<1x1xi32>)
  %y = kernel.contract bounds [m = 1, n = 1, k = 2] ins(%a[m, k], %a[n, k] : tensor<1x2xi8>, tensor<1x2xi8>)
                                                    outs(%f[m, n] : tensor<1x1xi32>)
  func.return %y : tensor<1x1xi32>
}"""
    check(text, {"a": np.full((1, 2), -128, np.int8)}, {"y": np.array([[32768]], np.int32)})


def test_a_runtime_call_is_declared_once_for_each_of_its_forms() -> None:
    """The declaration says what is written, and the parameters: calls with others need another one."""
    call = """  %e{i} = tensor.empty() : tensor<3xf32>
  %y{i} = kernel.call @mlopt_rt_sort ins(%x : tensor<3xf32>) outs(%e{i} : tensor<3xf32>)
    attributes {{axis = {axis} : i64}} -> tensor<3xf32>"""
    calls = "\n".join(call.format(i=i, axis=axis) for i, axis in enumerate((0, 1, 0)))
    text = f"""func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {{
{calls}
  func.return %y0, %y1, %y2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}}"""
    final = print_module(lower(text))
    types = "(memref<3xf32>, memref<3xf32>) -> ()"
    assert final.count(f"func.call @mlopt_rt_sort(%x, %result0) : {types}") == 1
    assert final.count(f"func.call @mlopt_rt_sort_1(%x, %result1) : {types}") == 1
    assert final.count(f"func.call @mlopt_rt_sort(%x, %result2) : {types}") == 1
    for name, axis in (("mlopt_rt_sort", 0), ("mlopt_rt_sort_1", 1)):
        declaration = f"func.func private @{name}{types} attributes "
        assert (
            declaration
            + (
                '{mlopt.runtime = "mlopt_rt_sort", mlopt.written = array<i64: 1>, '
                f"mlopt.parameters = {{axis = {axis} : i64}}}}"
            )
            in final
        )
    check_with_mlir_opt(final)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @other() { func.return }", "no function '@main'"),
        (
            "func.func @main() -> (tensor<2xf32>) {\n %e = tensor.empty() : tensor<2xf32>\n"
            " %y = kernel.launch @f outs(%e : tensor<2xf32>) {\n ^bb0(%O: tensor<2xf32>):\n"
            '  %w = kernel.constant #mlopt.weight<"w"> : tensor<2xf32>\n  kernel.yield %w : tensor<2xf32>\n'
            " } -> tensor<2xf32>\n func.return %y : tensor<2xf32> }",
            "weight 'w' stands inside a kernel.launch",
        ),
        (
            "func.func @main(%x: f32) -> (tensor<f32>) {\n %e = tensor.empty() : tensor<f32>\n"
            " func.return %e : tensor<f32> }",
            "argument 0 of '@main' must be a tensor, found f32",
        ),
        (
            "func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>) { func.return %x : tensor<?xf32> }",
            r"dynamic shape, tensor<\?xf32>",
        ),
        (
            "func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>) {\n"
            " %y = arith.addf %x, %x : tensor<2xf32>\n func.return %y : tensor<2xf32> }",
            "'arith.addf' on tensors is no part of the kernel level",
        ),
    ],
)
def test_what_can_not_be_converted_is_an_error_with_a_place(text: str, message: str) -> None:
    context = make_context()
    module = parse_module(text, context, "input.mlir")
    with pytest.raises(PassFailure, match=message) as failure:
        load_pass(CONVERT)().run(context, module)
    assert failure.value.place is not None and failure.value.place.file == "input.mlir"


def test_a_module_at_the_memref_level_is_left_alone() -> None:
    module = lower(MIXED)
    before = print_module(module)
    assert not load_pass(CONVERT)().run(make_context(), module)
    assert print_module(module) == before
