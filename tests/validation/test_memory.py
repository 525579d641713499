"""Evaluations keep no more values than are live: their memory does not grow with the length of a function."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mlopt.ir import make_context, parse_module
from mlopt.passes.registry import load_pass
from mlopt.validation.evaluation import Evaluator
from mlopt.weights import WeightStore

ELEMENTS = 1 << 20
"""A tensor of 4 MiB: large beside the IR and the plan of a few operations."""


def chain(length: int) -> str:
    """relu(... relu(x)), `length` times, each value used once."""
    type_ = f"tensor<{ELEMENTS}xf32>"
    ops = [f"%v{i + 1} = graph.relu %v{i} : {type_}" for i in range(length)]
    body = "\n".join([*ops, f"func.return %v{length} : {type_}"])
    return f"func.func @main(%v0: {type_}) -> {type_} {{\n{body}\n}}"


def peak(length: int, passes: tuple[str, ...]) -> int:
    """Bytes traced at the peak of an evaluation of a chain."""
    ctx = make_context()
    module = parse_module(chain(length), ctx)
    for name in passes:
        load_pass(name)().run(ctx, module)
    x = np.ones(ELEMENTS, np.float32)
    evaluator = Evaluator(module, WeightStore())
    tracemalloc.start()
    try:
        evaluator.run("main", {"arg0": x})
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "passes",
    [(), ("convert-graph-to-kernel",), ("convert-graph-to-kernel", "convert-kernel-to-memref")],
    ids=["graph", "kernel", "memref"],
)
def test_a_longer_function_takes_no_more_memory(passes: tuple[str, ...]) -> None:
    """24 more values of 4 MiB add less than one of them."""
    assert peak(32, passes) - peak(8, passes) < 4 * ELEMENTS
