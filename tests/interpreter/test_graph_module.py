"""Whole modules at graph level by reference evaluation: names, checks of inputs, and values dropped after use."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.diagnostics import InputError, MloptError, RunError
from mlopt.interpreter.graph import evaluate_function, evaluate_module, evaluation
from mlopt.interpreter.graph.evaluation import main_function
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore

LINEAR = """
func.func @main(%x: tensor<1x2xf32> {mlopt.name = "input:0"})
    -> (tensor<1x3xf32> {mlopt.name = "y"}, tensor<1x2xf32> {mlopt.name = "same"}) {
  %w = graph.constant #mlopt.weight<"w"> : tensor<2x3xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  %1 = graph.add %0, %b : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  func.return %1, %x : tensor<1x3xf32>, tensor<1x2xf32>
}
"""

X = np.array([[1, -1]], np.float32)


def parse(text: str) -> ModuleOp:
    return parse_module(text, make_context(), "test.mlir")


def weights() -> WeightStore:
    store = WeightStore()
    assert store.add(np.array([[1, 2, 3], [4, 5, 6]], np.float32), "w") == "w"
    return store


def test_outputs_by_name() -> None:
    outputs = evaluate_module(parse(LINEAR), {"input:0": X}, weights())
    assert list(outputs) == ["y", "same"]
    np.testing.assert_array_equal(outputs["y"], [[-2, -1, 0]])
    np.testing.assert_array_equal(outputs["same"], X)


def test_what_a_watcher_is_told() -> None:
    """Each block with the values of its arguments, and each operation behind what it needs, once for each trip."""
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %r = scf.for %i = %zero to %two step %one iter_args(%h = %x) -> (tensor<f32>) {
        %d = graph.add %h, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
        scf.yield %d : tensor<f32>
      }
      func.return %r : tensor<f32>
    }"""
    module = parse(text)
    told: list[tuple[object, list[float], list[float]]] = []
    evaluate_function(
        main_function(module),
        {"arg0": np.array(3, np.float32)},
        entered=lambda block, values: told.append((block.parent_op(), [], [*map(float, values)])),
        evaluated=lambda op, operands, results: told.append(
            (op, [*map(float, operands)], [*map(float, results)])
        ),
    )
    main = main_function(module)
    *constants, loop, _ = main.body.block.ops
    add = loop.regions[0].block.first_op
    assert told == [
        (main, [], [3]),
        *((constant, [], [index]) for index, constant in enumerate(constants)),
        (loop, [], [0, 3]),
        (add, [3, 3], [6]),
        (loop, [], [1, 6]),
        (add, [6, 3], [9]),
        (loop, [0, 2, 1, 3], [9]),
    ]


def test_outputs_share_no_memory_with_inputs_or_weights() -> None:
    outputs = evaluate_module(parse(LINEAR), {"input:0": X}, weights())
    assert not np.shares_memory(outputs["same"], X)
    assert outputs["same"].flags.writeable


def test_names_without_attributes() -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n func.return %x : tensor<f32>\n}"
    assert evaluate_module(parse(text), {"arg0": np.array(1, np.float32)}) == {"result0": 1}


def test_a_constant_as_output() -> None:
    text = """func.func @main() -> tensor<2xf32> {
      %c = graph.constant dense<[3.0, 2.0]> : tensor<2xf32>
      func.return %c : tensor<2xf32>
    }"""
    module = parse(text)
    first = evaluate_module(module, {})["result0"]
    first[:] = 0
    np.testing.assert_array_equal(evaluate_module(module, {})["result0"], [3, 2])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, 'expected an array for input "input:0", found none'),
        ({"input:0": X, "z": X}, 'expected the inputs input:0, found "z"'),
        ({"input:0": X[0]}, r'input "input:0": expected float32\[1, 2\], found float32\[2\]'),
        (
            {"input:0": X.astype(np.float64)},
            r'input "input:0": expected float32\[1, 2\], found float64\[1, 2\]',
        ),
    ],
)
def test_wrong_inputs(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_module(parse(LINEAR), inputs, weights())


def test_a_weight_that_is_not_there() -> None:
    with pytest.raises(MloptError, match='expected a weight called "w"'):
        evaluate_module(parse(LINEAR), {"input:0": X})


def test_an_operation_of_another_level() -> None:
    text = "func.func @main() {\n %m = memref.alloc() : memref<2xf32>\n func.return\n}"
    with pytest.raises(RunError, match=r"'memref\.alloc' is no operation of the graph level"):
        evaluate_module(parse(text), {})


def test_values_are_dropped_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain of 50 additions, no more than two results are alive at any moment."""
    lines = [
        f"%{index + 1} = graph.add %{index}, %{index} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
        for index in range(50)
    ]
    text = "func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {\n" + "\n".join(lines)
    module = parse(text.replace("%0", "%x") + "\nfunc.return %50 : tensor<4xf32>\n}")
    results_so_far: list[weakref.ref[np.ndarray]] = []
    most = 0
    evaluate = evaluation.evaluate

    def watched(*arguments: object) -> tuple[np.ndarray, ...]:
        nonlocal most
        results = evaluate(*arguments)  # pyright: ignore[reportArgumentType]
        results_so_far.extend(map(weakref.ref, results))
        gc.collect()
        most = max(most, sum(reference() is not None for reference in results_so_far))
        return results

    monkeypatch.setattr(evaluation, "evaluate", watched)
    evaluate_module(module, {"arg0": np.ones(4, np.float32)})
    assert 1 <= most <= 2
