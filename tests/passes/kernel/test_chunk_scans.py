"""`chunk-scans`: products for some steps at a time, and results written over what they were made from."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import mlopt
from mlopt.diagnostics import PassFailure
from mlopt.ir import verify_module
from mlopt.passes.kernel.chunk_scans import ChunkScansPass
from tests.onnx_oracle import run_model
from tests.passes.kernel.support import check_module, run_passes

RNG = np.random.default_rng(11)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    operator: str = "LSTM",
    direction: str = "forward",
    layers: int = 1,
    steps: int = 12,
    batch: int = 2,
    size: int = 16,
    hidden: int = 16,
    lengths: bool = False,
) -> onnx.ModelProto:
    """`size` numbers a step through layers, and a product behind them that makes 3 of each step."""
    directions = 2 if direction == "bidirectional" else 1
    weights: dict[str, np.ndarray] = {}
    nodes = [helper.make_node("Tanh", ["x"], ["y"])]
    read = "y"
    for layer in range(layers):
        for name, shape in (
            ("w", (GATES[operator] * hidden, size)),
            ("r", (GATES[operator] * hidden, hidden)),
        ):
            values = RNG.standard_normal((directions, *shape)) / np.sqrt(shape[1])
            weights[f"{name}{layer}"] = values.astype(np.float32)
        weights[f"b{layer}"] = RNG.standard_normal((directions, 2 * GATES[operator] * hidden)).astype(
            np.float32
        )
        weights[f"s{layer}"] = np.array([0, 0, -1])
        names = [read, f"w{layer}", f"r{layer}", f"b{layer}", *(["n"] if lengths else [])]
        nodes += [
            helper.make_node(
                operator, names, [f"y{layer}"], f"layer{layer}", hidden_size=hidden, direction=direction
            ),
            helper.make_node("Transpose", [f"y{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"t{layer}", f"s{layer}"], [f"z{layer}"]),
        ]
        read, size = f"z{layer}", directions * hidden
    weights["v"] = RNG.standard_normal((size, 3)).astype(np.float32)
    nodes.append(helper.make_node("MatMul", [read, "v"], ["out"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, weights["w0"].shape[2]])]
    if lengths:
        inputs.append(helper.make_tensor_value_info("n", TensorProto.INT32, [batch]))
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, [steps, batch, 3])]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "recurrent", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs_of(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}
    given_ = {"x": RNG.standard_normal(shapes["x"]).astype(np.float32)}
    if "n" in shapes:
        given_["n"] = RNG.integers(1, shapes["x"][0] + 1, shapes["n"]).astype(np.int32)
    return given_


def compiled(proto: onnx.ModelProto, **options: object) -> mlopt.Model:
    return mlopt.compile(proto, options=mlopt.CompileOptions(poison=True, **options))


def check(proto: onnx.ModelProto) -> mlopt.Model:
    """A model in chunks and without them, both as onnxruntime has it."""
    model, inputs = compiled(proto), inputs_of(proto)
    whole = compiled(proto, pipeline=mlopt.PipelineOptions(disabled=["chunk-scans"]))
    assert model.report()["memory"]["arena_bytes"] <= whole.report()["memory"]["arena_bytes"]
    (want,) = run_model(proto, inputs)
    for each in (model, whole):
        np.testing.assert_allclose(each.run(inputs)["out"], want, rtol=1e-4, atol=1e-5)
    return model


def remarks_of(model: mlopt.Model) -> list[str]:
    return [r.message for r in model.compilation.ctx.remarks if r.pass_name == "chunk-scans"]


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_layers_are_written_over_what_they_read(operator: str, direction: str) -> None:
    """All layers in the memory of one sequence, 200 * 2 * 16 floats, and a little: as imported it is two."""
    model = check(recurrent(operator, direction, layers=3, steps=200))
    memory, sequence = model.report()["memory"], 200 * 2 * 16 * 4
    assert memory["imported_max_live_bytes"] >= 2 * sequence
    assert memory["arena_bytes"] <= 1.25 * sequence
    assert sum("is written over" in message for message in remarks_of(model)) == 3


def test_both_directions_of_layers() -> None:
    """The second direction of each layer but the first overwrites what is read: 3 of 4 halves."""
    model = check(recurrent("LSTM", "bidirectional", layers=3, steps=100, size=4))
    memory = model.report()["memory"]
    assert memory["arena_bytes"] <= memory["imported_max_live_bytes"]
    assert sum("is written over" in message for message in remarks_of(model)) == 2


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([*GATES]),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.integers(1, 3),
    st.integers(1, 24),
    st.integers(1, 4),
    st.sampled_from([4, 16]),
    st.booleans(),
)
def test_any_layers(
    operator: str, direction: str, layers: int, steps: int, batch: int, size: int, lengths: bool
) -> None:
    check(recurrent(operator, direction, layers, steps, batch, size, 8, lengths))


SCAN = """
  func.func @main(%x: tensor<7x8xf32>, %w: tensor<8x64xf32>, %v: tensor<64x8xf32>) -> tensor<8xf32> {
    %e = graph.exp %x : tensor<7x8xf32>
    %g = graph.matmul %e, %w : (tensor<7x8xf32>, tensor<8x64xf32>) -> tensor<7x64xf32>
    %z = graph.constant dense<0.0> : tensor<64xf32>
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %c7 = arith.constant 7 : i64
    %s = scf.for %i = %c0 to %c7 step %c1 iter_args(%a = %z) -> (tensor<64xf32>) : i64 {
      %p = tensor.from_elements %i : tensor<i64>
      %t = graph.gather %g, %p axis = 0 : (tensor<7x64xf32>, tensor<i64>) -> tensor<64xf32>
      %n = graph.add %a, %t : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      %h = graph.tanh %n : tensor<64xf32>
      scf.yield %h : tensor<64xf32>
    }
    %y = graph.matmul %s, %v : (tensor<64xf32>, tensor<64x8xf32>) -> tensor<8xf32>
    func.return %y : tensor<8xf32>
  }"""


def chunked(text: str, growth: int) -> tuple[list[str], str]:
    """The remarks on a module in chunks, and its text."""
    result = run_passes(text, "fuse-kernels")
    before = len(result.remarks)
    ChunkScansPass(growth=growth).run(result.context, result.module)
    verify_module(result.module)
    return result.remarks[before:], result.text


@pytest.mark.parametrize(("growth", "size"), [(0, 1), (100, 4)])
def test_chunks_are_as_large_as_fits(growth: int, size: int) -> None:
    """With single steps 256 bytes of exponentials are live, 256 of the state and 256 of one step."""
    remarks, text = chunked(SCAN, growth)
    assert remarks == [f"'matmul' for {size} of 7 steps at a time"]
    assert text.count("scf.for") == 2


def test_what_fits_as_a_whole_stays_whole() -> None:
    assert chunked(SCAN, 1000)[0] == []


def test_what_is_needed_as_a_whole_is_made_as_a_whole() -> None:
    """Something else reads the product."""
    reduced = """%q = graph.reduce_max %g axes = [0] : (tensor<7x64xf32>) -> tensor<64xf32>
    %u = graph.add %s, %q : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %y = graph.matmul %u, %v"""
    other = SCAN.replace("%y = graph.matmul %s, %v", reduced)
    assert chunked(other, 0)[0] == []


def test_numbers_stay() -> None:
    x, w, v = (RNG.standard_normal(shape).astype(np.float32) for shape in ((7, 8), (8, 64), (64, 8)))
    result = run_passes(SCAN)
    check_module(result.module, [x, w, v], result.context, passes=("fuse-kernels", "chunk-scans"), rtol=1e-6)


def test_within_a_budget_chunks_are_smaller() -> None:
    """As few bytes as single steps take, and what the budget says is live at most."""
    proto = recurrent("GRU", layers=2, steps=64)
    free = compiled(proto).report()["memory"]["arena_bytes"]
    model = compiled(proto, pipeline=mlopt.PipelineOptions(memory_budget=free * 9 // 10))
    assert model.report()["memory"]["arena_bytes"] <= free * 9 // 10
    inputs = inputs_of(proto)
    (want,) = run_model(proto, inputs)
    np.testing.assert_allclose(model.run(inputs)["out"], want, rtol=1e-4, atol=1e-5)


def test_a_negative_growth_is_refused() -> None:
    with pytest.raises(PassFailure, match="can't be negative, found -1"):
        chunked(SCAN, -1)
