"""Recurrent layers at the kernel level give what they mean, with constant weights and with given ones."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.recurrent import BACKWARDS
from mlopt.interpreter import graph as graph_level
from mlopt.interpreter.kernel import evaluate_module
from mlopt.ir.dtypes import array_to_dense, from_numpy_dtype
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.convert_graph_to_kernel import ConvertGraphToKernelPass

RNG = np.random.default_rng(5)


def arrays_of(directions: int, steps: int) -> list[np.ndarray]:
    """A batch of 2 of size 3, with 2 numbers of state."""
    shapes = (
        (steps, 2, 3),
        (directions, 8, 3),
        (directions, 8, 2),
        (directions, 16),
        *[(directions, 2, 2)] * 2,
    )
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


def module_of(
    arrays: list[np.ndarray], direction: str, constants: int
) -> tuple[ModuleOp, dict[str, np.ndarray]]:
    """A layer whose operands 1 to `constants` are constants, and its inputs."""
    given = [index for index in range(len(arrays)) if not 0 < index <= constants]
    block = Block(arg_types=[TensorType(from_numpy_dtype(arrays[i].dtype), arrays[i].shape) for i in given])
    operands: list[SSAValue] = []
    arguments = iter(block.args)
    for index, array in enumerate(arrays):
        if index in given:
            operands.append(next(arguments))
        else:
            constant = graph.ConstantOp(array_to_dense(array))
            block.add_op(constant)
            operands.append(constant.result)
    layer = graph.LstmOp(*operands, direction=direction)
    block.add_ops([layer, ReturnOp(*layer.results)])
    module = ModuleOp([FuncOp("main", (block.arg_types, layer.result_types), Region(block))])
    return module, {f"arg{i}": arrays[index] for i, index in enumerate(given)}


@pytest.mark.parametrize("direction", BACKWARDS)
@pytest.mark.parametrize("constants", [0, 3])
@pytest.mark.parametrize("steps", [1, 4])
def test_lstm(direction: str, constants: int, steps: int) -> None:
    arrays = arrays_of(len(BACKWARDS[direction]), steps)
    module, inputs = module_of(arrays, direction, constants)
    want = graph_level.evaluate_module(module, inputs)
    context = make_context()
    assert ConvertGraphToKernelPass().run(context, module)
    verify_module(module)
    assert sum(op.name == "scf.for" for op in module.walk()) == (
        len(BACKWARDS[direction]) if steps > 1 else 0
    )
    got = evaluate_module(module, inputs, context.weights)
    assert [*got] == [*want]
    for name, right in want.items():
        np.testing.assert_allclose(got[name], right, rtol=1e-5, atol=1e-6)


def test_a_step_by_hand() -> None:
    """One number of everything; gates i, o, f and c are 1, 3, 10 and 2."""
    column = np.array([[[1.0], [3.0], [10.0], [2.0]]], np.float32)
    zeros = np.zeros((1, 1, 1), np.float32)
    arrays = [
        np.ones((1, 1, 1), np.float32),
        column,
        0 * column,
        np.zeros((1, 8), np.float32),
        zeros,
        zeros + 0.5,
    ]
    module, inputs = module_of(arrays, "forward", 3)
    _, h, c = graph_level.evaluate_module(module, inputs).values()

    def sigmoid(x: float) -> float:
        return float(1 / (1 + np.exp(-x)))

    cell = 0.5 * sigmoid(10) + sigmoid(1) * np.tanh(2)
    np.testing.assert_allclose(c, [[[cell]]], rtol=1e-6)
    np.testing.assert_allclose(h, [[[sigmoid(3) * np.tanh(cell)]]], rtol=1e-6)
