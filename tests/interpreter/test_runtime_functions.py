"""How run-time functions are declared, checked, given scratch and called; the numbers of each are tested by family."""

from __future__ import annotations

import collections.abc
import re
import tracemalloc
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from mlopt.diagnostics import MloptError, RunError, UnsupportedError, VerifyFailure
from mlopt.interpreter.runtime import PREFIX, Buffer, RuntimeFunction, base
from mlopt.interpreter.runtime.page import page
from mlopt.interpreter.runtime.table import FUNCTIONS, RUNTIME_FUNCTIONS
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module, print_module
from mlopt.ir.functions import find_main
from mlopt.passes.registry import load_pass
from tests.interpreter.memref_text import load, module, run
from tests.interpreter.runtime_functions import Reversed
from tests.mlir_opt import check_with_mlir_opt
from tests.passes.lowering import CONVERT

PAGE = Path(__file__).parents[2] / "docs" / "run-time-functions.md"
T = "memref<4xf32>"
ATTRIBUTES = 'mlopt.runtime = "mlopt_rt_reversed", mlopt.written = array<i64: 1>, mlopt.parameters = {factor = 2 : i64}'
X = np.array([1, 2, 3, 4], np.float32)
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def reversed_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIME_FUNCTIONS, Reversed.NAME, Reversed)


def call(operands: str = "%x, %y", types: str = f"{T}, {T}", attributes: str = ATTRIBUTES) -> str:
    """A module with inputs x and z, outputs y and w, that calls a declaration `@f` of these types."""
    return module(
        f"func.call @f({operands}) : ({types}) -> ()",
        inputs={"x": T, "z": T},
        outputs={"y": T},
        functions=f"func.func private @f({types}) -> () attributes {{{attributes}}}\n",
    )


def test_the_page_lists_what_the_table_holds() -> None:
    assert PAGE.read_text() == page(), "python -m mlopt.interpreter.runtime > docs/run-time-functions.md"


def test_the_example_on_the_page_is_a_function() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {**vars(base), **vars(collections.abc), "ClassVar": ClassVar, "RunError": RunError}
    exec(source, names)
    operand = Buffer((4,), X.dtype)
    squares: RuntimeFunction = names["Squares"]([operand, operand], {"limit": 16})
    result = np.zeros_like(X)
    squares.run([X], [result], [np.empty_like(X)])
    np.testing.assert_array_equal(result, X * X)
    with pytest.raises(RunError, match="a square is more than 16"):
        squares.run([X + 1], [result], [np.empty_like(X)])
    np.testing.assert_array_equal(result, X * X)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.NAME)
def test_every_function_is_described(function: type) -> None:
    assert RUNTIME_FUNCTIONS[function.NAME] is function
    assert function.NAME.startswith(PREFIX) and function.WRITES
    assert function.__doc__ and not function.__doc__.startswith("The calls of")


def test_a_call_without_a_workspace_takes_the_session_s_scratch() -> None:
    text = call()
    np.testing.assert_array_equal(run(text, {"x": X, "z": X})["y"], 2 * X[::-1])
    assert load(text).engine_scratch_bytes == 64
    check_with_mlir_opt(text)


def test_strided_operands_are_copied() -> None:
    """Rows 0 and 2 of a matrix, reversed, times -2, into its column of a buffer and from there to the output."""
    strided = "memref<4xf32, strided<[2]>>"
    text = module(
        f"""%s = memref.subview %x[0, 0] [4, 1] [1, 1] : memref<4x2xf32> to {strided}
%t = memref.subview %y[0, 0] [4, 1] [1, 1] : memref<4x2xf32> to {strided}
memref.copy %x, %y : memref<4x2xf32> to memref<4x2xf32>
func.call @f(%s, %t) : ({strided}, {strided}) -> ()""",
        inputs={"x": "memref<4x2xf32>"},
        outputs={"y": "memref<4x2xf32>"},
        functions=f"func.func private @f({strided}, {strided}) -> () attributes "
        f"{{{ATTRIBUTES.replace('2 : i64', '2 : i64, negative')}}}\n",
    )
    x = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    want = x.copy()
    want[:, 0] = [-14, -10, -6, -2]
    np.testing.assert_array_equal(run(text, {"x": x})["y"], want)
    parsed = parse_module(text, make_context())
    (declaration,) = [op for op in parsed.ops if op is not find_main(parsed)]
    assert NumpyTarget().scratch_need(declaration).minimum == 3 * 64, "two copies and the function's own"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            call(attributes='mlopt.runtime = "mlopt_rt_none"'),
            UnsupportedError,
            "no run-time function '@mlopt_rt_none'",
        ),
        (call(attributes="other"), UnsupportedError, "@f is declared only, and no run-time function"),
        (call("%x", T), UnsupportedError, r"expected 2 operands \(source, target\), found 1"),
        (
            call(attributes=ATTRIBUTES.replace("2 : i64", "2.0 : f32")),
            UnsupportedError,
            "the parameter 'factor' must be an integer, found 2.0",
        ),
        (
            call(attributes=ATTRIBUTES.replace("factor", "scale")),
            UnsupportedError,
            "there is no parameter 'scale', expected factor, negative",
        ),
        (
            call(attributes=ATTRIBUTES.replace("factor = 2 : i64", "")),
            UnsupportedError,
            "the parameter 'factor' is missing",
        ),
        (
            call(attributes=ATTRIBUTES.replace("2 : i64", "dense<2> : tensor<1xi64>")),
            UnsupportedError,
            "the parameter 'factor' can't be dense",
        ),
        (
            call(attributes=ATTRIBUTES.replace("{factor = 2 : i64}", "3 : i64")),
            VerifyFailure,
            "expected a dictionary for mlopt.parameters, found 3",
        ),
        (
            call(attributes=ATTRIBUTES.replace("i64: 1", "i64: 0")),
            VerifyFailure,
            "writes target and has no results: expected mlopt.written = array<i64: 1>, found array<i64: 0> and 0",
        ),
        (
            call(attributes=ATTRIBUTES + ", mlopt.workspace"),
            VerifyFailure,
            r"expected a workspace of bytes \(i8\) as the last argument, found memref<4xf32>",
        ),
        (
            call("%y, %y"),
            VerifyFailure,
            "operand 1 of @mlopt_rt_reversed is written, but shares memory with operand 0",
        ),
        (call("%x, %z"), VerifyFailure, "'func.call' writes to input \"z\", which is read-only"),
    ],
)
def test_what_a_declaration_says_is_checked(text: str, kind: type[MloptError], message: str) -> None:
    with pytest.raises(kind, match=message) as error:
        load(text)
    assert error.value.place is not None and error.value.place.line == 2


def test_an_error_of_the_run_has_the_place_of_the_call() -> None:
    text = call().replace("-> ()\nreturn", '-> () loc("node")\nreturn')
    with pytest.raises(RunError, match="the first element is 0") as error:
        load(text).run({"x": 0 * X, "z": X})
    assert error.value.place is not None and error.value.place.node == "node"


LONG = RNG.permutation(1 << 18)
LARGE: list[tuple[str, list[np.ndarray], list[np.ndarray], dict[str, Any]]] = [
    ("det", [np.ones((64, 64, 64))], [np.ones(64)], {}),
    *(
        (
            "scan",
            [np.zeros(shape, dtype)],
            [np.ones(shape, dtype)],
            {"axis": 0, "operation": "add", "reverse": True},
        )
        for shape in ((1 << 18,), (512, 512))
        for dtype in (np.float32, np.float16, np.int64)
    ),
    *(
        ("scatter_elements", [LONG[:, None], np.ones((1 << 18, 1))], [np.ones((1 << 18, 1))], parameters)
        for parameters in ({"axis": 0, "reduction": "none"}, {"axis": 0, "reduction": "add"})
    ),
    *(
        (
            "scatter_nd",
            [LONG.reshape(-1, 1) % width, np.ones((1 << 18, 2))],
            [np.ones((width, 2))],
            {"reduction": "max"},
        )
        for width in (1 << 18, 100)
    ),
    *(
        ("top_k", [LONG.astype(dtype).reshape(shape)], [np.ones(k, dtype), np.ones(k, np.int64)], {"axis": 1})
        for dtype in (np.float32, np.int32, np.int64)
        for shape, k in (
            ((64, 1 << 12), (64, 40)),
            ((1 << 15, 8), (1 << 15, 2)),
            ((1, 1 << 18), (1, 1 << 18)),
        )
    ),
]


@pytest.mark.parametrize(
    ("name", "reads", "writes", "parameters"),
    LARGE,
    ids=[f"{name}-{i}" for i, (name, *_) in enumerate(LARGE)],
)
def test_nothing_large_is_allocated_while_a_function_runs(
    name: str, reads: list[np.ndarray], writes: list[np.ndarray], parameters: dict[str, Any]
) -> None:
    """All that grows with the operands is scratch; what numpy converts with is of fixed size, up to twice 64 KB."""
    operands = [Buffer(array.shape, array.dtype) for array in (*reads, *writes)]
    function = RUNTIME_FUNCTIONS[f"mlopt_rt_{name}"](operands, parameters)
    scratch = [np.empty(buffer.shape, buffer.dtype) for buffer in function.scratch()]
    function.run(reads, writes, scratch)
    tracemalloc.start()
    function.run(reads, writes, scratch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 140_000 < max(array.nbytes for array in reads) / 3


KERNEL = """
func.func @main(%x: tensor<4xf32> {mlopt.name = "x"}) -> (tensor<4xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<4xf32>
  %t = kernel.call @mlopt_rt_reversed ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>)
    attributes {factor = 2 : i64} -> tensor<4xf32>
  %f = tensor.empty() : tensor<4xf32>
  %y = kernel.call @mlopt_rt_reversed ins(%t : tensor<4xf32>) outs(%f : tensor<4xf32>)
    attributes {factor = 3 : i64, negative} -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


@pytest.mark.parametrize("poison", [False, True])
def test_scratch_is_a_planned_workspace(poison: bool) -> None:
    ctx = make_context()
    ctx.target = NumpyTarget()
    lowered = parse_module(KERNEL, ctx)
    for name in (CONVERT, "plan-workspaces", "assign-buffers"):
        load_pass(name)().run(ctx, lowered)
    text = print_module(lowered)
    assert "memref<192xi8> {mlopt.arena}" in text or "memref<128xi8> {mlopt.arena}" in text
    assert text.count("{mlopt.workspace} : ") == 2 and text.count(", mlopt.workspace}") == 2
    executable = load(text, poison=poison)
    assert executable.engine_scratch_bytes == 0
    np.testing.assert_array_equal(executable.run({"x": X})["y"], -6 * X)
    check_with_mlir_opt(text)


def test_a_plan_that_lets_a_call_overwrite_what_it_reads_is_wrong() -> None:
    """`assign-buffers` verifies plans; the declaration alone says what the call writes."""
    arena = "memref<64xi8>"
    text = f"""
func.func @main(%arena: {arena} {{mlopt.arena}}, %x: {T} {{mlopt.input = "x"}}, %y: {T} {{mlopt.output = "y"}}) {{
  %c0 = arith.constant 0 : index
  %t = memref.view %arena[%c0][] : {arena} to {T}
  memref.copy %x, %t : {T} to {T}
  func.call @f(%t, %t) : ({T}, {T}) -> ()
  memref.copy %t, %y : {T} to {T}
  return
}}
func.func private @f({T}, {T}) -> () attributes {{{ATTRIBUTES}}}"""
    ctx = make_context()
    with pytest.raises(
        VerifyFailure, match="argument 1 of the call of '@f' is written by it, but the same buffer is"
    ):
        load_pass("assign-buffers")().run(ctx, parse_module(text, ctx))
