"""The costs of a model as imported, on small graphs whose numbers can be checked by hand."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mlopt.frontend.onnx.statistics import ImportedStatistics, TensorKind, imported_statistics

F32 = np.dtype(np.float32)
I64 = np.dtype(np.int64)


def statistics(
    nodes: list[str], outputs: str, kinds: dict[str, TensorKind], constants: str = ""
) -> ImportedStatistics:
    """`nodes` are written "Op inputs -> outputs"."""
    protos: list[onnx.NodeProto] = []
    for text in nodes:
        left, _, right = text.partition("->")
        op_type, *inputs = left.split()
        protos.append(helper.make_node(op_type, inputs, right.split()))
    graph = helper.make_graph(
        protos,
        "test",
        [onnx.ValueInfoProto(name="x")],
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(np.zeros(1, np.float32), name) for name in constants.split()],
    )
    return imported_statistics(graph, {"x": (F32, (1,)), **kinds})


def test_a_chain_has_two_tensors_alive_and_its_output_is_not_counted():
    kinds = dict.fromkeys("xabcy", (F32, (16,)))  # 64 bytes each
    found = statistics(["Relu x -> a", "Relu a -> b", "Relu b -> c", "Relu c -> y"], "y", kinds)
    assert found == ImportedStatistics(4, 192, 128, 8 * 64, {"Relu": 4})


def test_each_tensor_takes_a_multiple_of_64_bytes():
    kinds: dict[str, TensorKind] = {"a": (F32, (17,)), "b": (np.dtype(np.bool_), (1,)), "y": (F32, (1,))}
    found = statistics(["Relu x -> a", "Cast a -> b", "Cast b -> y"], "y", kinds)
    assert (found.no_reuse_bytes, found.max_live_bytes) == (128 + 64, 128 + 64)


def test_a_view_costs_nothing_and_keeps_its_operand_alive():
    kinds = dict.fromkeys(("a", "v", "w", "b", "c", "y"), (F32, (16,)))
    nodes = [
        "Relu x -> a",
        "Reshape a s -> v",
        "Flatten v -> w",
        "Relu x -> b",
        "Relu b -> c",
        "Add w c -> y",
    ]
    found = statistics(nodes, "y", kinds, "s")
    assert (found.ops, found.no_reuse_bytes, found.max_live_bytes) == (6, 192, 192)


def test_outputs_that_an_importer_gives_no_value_for_are_not_counted():
    """The mask of a Dropout, say, which nothing reads."""
    kinds = dict.fromkeys("xay", (F32, (16,)))
    found = statistics(["Dropout x -> a mask", "Relu a -> y"], "y", kinds)
    assert (found.no_reuse_bytes, found.max_live_bytes, found.traffic_bytes) == (64, 64, 4 * 64)


def test_constants_and_what_follows_from_them_are_not_counted():
    kinds = dict.fromkeys(("c", "d", "e", "y"), (F32, (100,)))
    found = statistics(["Constant -> c", "Add c w -> d", "Shape x -> e", "Add x d -> y"], "y", kinds, "w")
    assert (found.ops, found.no_reuse_bytes, found.max_live_bytes) == (4, 0, 0)


def test_shape_arithmetic_is_not_counted_and_larger_integers_are():
    kinds: dict[str, TensorKind] = {"a": (I64, (64,)), "b": (I64, (65,)), "y": (I64, (1,))}
    found = statistics(["Cast x -> a", "Gather a i -> b", "Gather b a -> y"], "y", kinds, "i")
    assert (found.no_reuse_bytes, found.max_live_bytes) == (576, 576)


def test_a_tensor_that_nothing_reads_lives_at_its_node_only():
    kinds = dict.fromkeys("aby", (F32, (16,)))
    found = statistics(["Relu x -> a", "Relu x -> b", "Relu b -> y"], "y", kinds)
    assert (found.no_reuse_bytes, found.max_live_bytes) == (128, 64)


def test_traffic_is_what_each_node_reads_and_writes():
    """Operands once each; views, constants and shape arithmetic cost nothing; sizes are not rounded."""
    kinds: dict[str, TensorKind] = dict.fromkeys("xavsy", (F32, (17,))) | {"n": (I64, (1,)), "y": (F32, (3,))}
    nodes = ["Mul x x -> a", "Reshape a n -> v", "Add v w -> s", "Shape s -> n", "Slice s n n -> y"]
    found = statistics(nodes, "y", kinds, "w")
    assert found.traffic_bytes == (68 + 68) + (68 + 68) + (68 + 12)
