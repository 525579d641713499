"""Work grows with the model and no faster: calls are counted at two sizes, for makes of models that may go wrong.

Public faults Z01 and Z03: recursion over the depth of a graph, exponential time on nested subgraphs, quadratic
concatenation, rewriting that never ends.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import mlopt
from mlopt.frontend.onnx import import_model
from tests.counting import count_calls
from tests.frontend.onnx_models import assert_close, context, model_of, run_onnxruntime, value_info

Make = Callable[[int], onnx.ModelProto]
IMPORT_TIME = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks/import_time.py"))
MAKES: dict[str, Make] = IMPORT_TIME["MAKES"]
X = np.array([1.0, -2.0], np.float32)


def node(op_type: str, inputs: Sequence[str], output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], output, **attributes)


def growth(work: Callable[[int], object], small: int, large: int) -> float:
    """How many times as many calls the larger size takes, divided by how many times it is larger."""
    work(small)  # what is loaded and remembered once does not count
    counts = [count_calls(partial(work, size)) for size in (small, large)]
    return counts[1] / counts[0] * small / large


@pytest.mark.parametrize("make", list(MAKES))
def test_import_grows_with_the_number_of_nodes(make: str):
    assert growth(lambda count: import_model(MAKES[make](count), context()), 100, 800) <= 1.1


def test_a_file_with_many_weights_is_read_in_one_sweep(tmp_path: Path):
    def read(count: int) -> None:
        constants = {f"w{i}": np.full(2000, i, np.float32) for i in range(count)}
        nodes = [node("Add", [f"v{i}", f"w{i}"], f"v{i + 1}") for i in range(count)]
        model = model_of(nodes, [value_info("v0", np.zeros(2000, np.float32))], [f"v{count}"], constants)
        path = tmp_path / f"{count}.onnx"
        path.write_bytes(model.SerializeToString())
        import_model(path, context())

    assert growth(read, 50, 400) <= 1.1


# Whole compilations.


def relu_chain(count: int) -> onnx.ModelProto:
    nodes = [node("Relu", [f"v{i}"], f"v{i + 1}") for i in range(count)]
    return model_of(nodes, [value_info("v0", X)], [f"v{count}"])


def long_concat(count: int) -> onnx.ModelProto:
    """A concatenation of so many pieces, all computed."""
    constants = {f"c{i}": np.array(i, np.float32) for i in range(7)}
    nodes = [node("Add", ["x", f"c{i % 7}"], f"p{i}") for i in range(count)]
    nodes.append(node("Concat", [f"p{i}" for i in range(count)], "y", axis=0))
    return model_of(nodes, [value_info("x", X)], ["y"], constants)


def growing_concat(count: int) -> onnx.ModelProto:
    """A tensor to which a piece is added time and again."""
    nodes = [node("Concat", [f"v{i}", "x"], f"v{i + 1}", axis=0) for i in range(count)]
    return model_of(nodes, [value_info("v0", X), value_info("x", X)], [f"v{count}"])


def constant_concat(count: int) -> onnx.ModelProto:
    """A concatenation that folds away."""
    constants = {f"c{i}": np.full(3, i, np.float32) for i in range(count)}
    nodes = [node("Concat", list(constants), "k", axis=0), node("Add", ["k", "x"], "y")]
    return model_of(nodes, [value_info("x", X[:1])], ["y"], constants)


def split_and_sum(count: int) -> onnx.ModelProto:
    """One tensor in so many pieces, which one operator reads."""
    pieces = [f"p{i}" for i in range(count)]
    split = helper.make_node("Split", ["x"], pieces, "split", axis=0, num_outputs=count)
    x = np.zeros(count, np.float32)
    return model_of([split, node("Sum", pieces, "y")], [value_info("x", x)], ["y"])


def shared_terms(count: int) -> onnx.ModelProto:
    """c1 * (c2 * x) with both products used: as a tree it would be exponential."""
    nodes: list[onnx.NodeProto] = []
    for i in range(count):
        nodes += [
            node("Mul", ["c1", f"v{i}"], f"a{i}"),
            node("Mul", ["c2", f"a{i}"], f"b{i}"),
            node("Add", [f"a{i}", f"b{i}"], f"v{i + 1}"),
        ]
    constants = {"c1": np.array(0.5, np.float32), "c2": np.array(0.9, np.float32)}
    return model_of(nodes, [value_info("v0", X)], [f"v{count}"], constants)


def doubling(count: int) -> onnx.ModelProto:
    """v + v time and again."""
    nodes = [node("Add", [f"v{i}", f"v{i}"], f"v{i + 1}") for i in range(count)]
    return model_of(nodes, [value_info("v0", X)], [f"v{count}"])


def nested_branches(depth: int) -> onnx.ModelProto:
    """If in If in If, all on one input; what is innermost is Relu(x), every other branch -x."""

    def branch(output: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, output, [], [onnx.ValueInfoProto(name=output)])

    inner = branch("r0", node("Relu", ["x"], "r0"))
    for level in range(1, depth + 1):
        other = branch(f"e{level}", node("Neg", ["x"], f"e{level}"))
        inner = branch(f"r{level}", node("If", ["c"], f"r{level}", then_branch=inner, else_branch=other))
    inputs = [value_info("x", X), value_info("c", np.array(True))]
    return model_of(inner.node, inputs, [f"r{depth}"])


@pytest.mark.parametrize(
    ("make", "small", "limit"),
    [
        (relu_chain, 50, 1.1),
        (long_concat, 15, 1.1),
        (constant_concat, 100, 1.1),
        # What is fused grows up to a limit that these sizes do not reach.
        (growing_concat, 8, 1.5),
        (split_and_sum, 12, 2.0),
        (shared_terms, 8, 1.7),
        (doubling, 20, 1.7),
        # Each level of memory that a branch might yield is tried inside each of those around it.
        (nested_branches, 6, 2.5),
    ],
)
def test_compilation_grows_with_the_model(make: Make, small: int, limit: float):
    assert growth(lambda count: mlopt.compile(make(count)), small, 4 * small) <= limit


@pytest.mark.parametrize("condition", [True, False])
def test_deep_branches_have_the_right_values(condition: bool):
    inputs = {"x": X, "c": np.array(condition)}
    model = nested_branches(30)
    got = mlopt.compile(model).run(inputs)
    assert_close(got, {"r30": np.maximum(X, 0) if condition else -X})
    assert_close(got, run_onnxruntime(model, inputs))


def test_a_chain_of_20000_nodes_is_imported_and_one_of_5000_compiled_without_recursion():
    import_model(relu_chain(20_000), context())
    (result,) = mlopt.compile(relu_chain(5000)).run({"v0": X}).values()
    np.testing.assert_array_equal(result, np.maximum(X, 0))
