"""Control flow and recurrent operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.builder import BOOL, F32, Builder
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value

FLOAT = TensorProto.FLOAT


def _info(name: str, shape: tuple[int, ...] | None, element: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def _body_nodes(b: Builder, values: list[str], count: int) -> tuple[list[onnx.NodeProto], str]:
    """Some elementwise nodes on values of one shape; returns them and the name of the last result."""
    nodes: list[onnx.NodeProto] = []
    pool = list(values)
    for _ in range(count):
        op_type = b.choice(("Neg", "Add", "Mul", "Sub", "Max", "Relu", "Abs", "Sigmoid", "Tanh"))
        operands = [b.choice(pool[-3:]) for _ in range(2 if op_type in ("Add", "Mul", "Sub", "Max") else 1)]
        name = b.named("b")
        nodes.append(helper.make_node(op_type, operands, [name]))
        pool.append(name)
    return nodes, pool[-1]


@operator("If")
def branch(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (0, 3), special=False)
    y = b.tensor((F32,), shape=x.shape, special=False)
    condition = b.tensor((BOOL,), shape=())
    graphs: dict[str, Any] = {}
    for side in ("then_branch", "else_branch"):
        nodes, last = _body_nodes(b, [x.name, y.name], b.integer(1, 3))
        results = [last, nodes[b.integer(0, len(nodes) - 1)].output[0]]
        outer = [_info(result, x.shape) for result in results]
        if results[0] == results[1]:
            results[1] = b.named("b")
            nodes.append(helper.make_node("Identity", [results[0]], [results[1]]))
            outer[1] = _info(results[1], x.shape)
        graphs[side] = helper.make_graph(nodes, side, [], outer)
    return b.node(name, condition, outputs=2, reads=[x, y], **graphs)


def _by_trip(b: Builder, value: str, trip: str, shape: tuple[int, ...]) -> tuple[list[onnx.NodeProto], str]:
    """One of two branches by the number of the trip, and perhaps a Loop in one of them, both of a value around."""
    limit, early, result = (b.named("b") for _ in range(3))
    nodes = [
        helper.make_node("Constant", [], [limit], value_int=b.integer(0, 3)),
        helper.make_node("Less", [trip, limit], [early]),
    ]
    graphs: dict[str, onnx.GraphProto] = {}
    for side in ("then_branch", "else_branch"):
        inner, last = _body_nodes(b, [value], b.integer(1, 2))
        if b.flag():
            loop, last = _inner_loop(b, last, trip, value, shape)
            inner += loop
        graphs[side] = helper.make_graph(inner, side, [], [_info(last, shape)])
    return [*nodes, helper.make_node("If", [early], [result], **graphs)], result


def _inner_loop(
    b: Builder, initial: str, trips: str, captured: str, shape: tuple[int, ...]
) -> tuple[list[onnx.NodeProto], str]:
    """As many trips as the Loop around it has made; it ends with a Tanh, so that no number grows."""
    i, go, state, squashed, result = (b.named("b") for _ in range(5))
    nodes, last = _body_nodes(b, [captured, state], b.integer(1, 2))
    nodes.append(helper.make_node("Tanh", [last], [squashed]))
    out = b.named("b")
    nodes.append(helper.make_node("Identity", [go], [out]))
    body = helper.make_graph(
        nodes,
        "inner",
        [_info(i, (), TensorProto.INT64), _info(go, (), TensorProto.BOOL), _info(state, shape)],
        [_info(out, (), TensorProto.BOOL), _info(squashed, shape)],
    )
    return [helper.make_node("Loop", [trips, "", initial], [result], body=body)], result


@operator("Loop")
def loop(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (0, 3), special=False)
    y = b.tensor((F32,), shape=x.shape, special=False)
    state, i, go, out = (b.named("b") for _ in range(4))
    nodes, last = _body_nodes(b, [y.name, state], b.integer(1, 3))
    if b.integer(0, 3) == 0:
        more, last = _by_trip(b, last, i, x.shape)
        nodes += more
    squashed, scanned = b.named("b"), b.named("b")
    nodes.append(helper.make_node("Tanh", [last], [squashed]))
    nodes.append(helper.make_node("Neg", [squashed], [scanned]))
    if b.flag():
        nodes.append(helper.make_node("Identity", [go], [out]))
    else:
        (limit, small) = b.named("b"), b.named("b")
        nodes.append(helper.make_node("Constant", [], [limit], value_int=b.integer(0, 3)))
        nodes.append(helper.make_node("Less", [i, limit], [small]))
        nodes.append(helper.make_node("And", [small, go], [out]))
    body = helper.make_graph(
        nodes,
        "body",
        [_info(i, (), TensorProto.INT64), _info(go, (), TensorProto.BOOL), _info(state, x.shape)],
        [_info(out, (), TensorProto.BOOL), _info(squashed, x.shape), _info(scanned, x.shape)],
    )
    trips = (
        b.numbers(b.integer(0, 4)) if b.integer(0, 3) else b.new([np.array(3), np.array(1)], constant=False)
    )
    condition = b.numbers(True, BOOL, bound=False) if b.flag() else b.tensor((BOOL,), shape=())
    return b.node(name, trips, b.choice((condition, condition, None)), x, outputs=2, reads=[y], body=body)


@operator("Scan")
def scan(b: Builder, name: str) -> object:
    """Up to two tensors read along axes of their own, and up to three written."""
    steps, rest = b.integer(1, 4), b.shape(b.integer(0, 2), least=1)
    axes = [b.integer(0, len(rest)) for _ in range(b.integer(1, 2))]
    sources = [b.tensor((F32,), shape=(*rest[:axis], steps, *rest[axis:]), special=False) for axis in axes]
    state = b.tensor((F32,), shape=rest, special=False)
    s, *elements = (b.named("b") for _ in range(1 + len(sources)))
    nodes, last = _body_nodes(b, [*elements, s], b.integer(1, 3))
    squashed = b.named("b")
    nodes.append(helper.make_node("Tanh", [last], [squashed]))
    written = [b.named("b") for _ in range(b.integer(1, 3))]
    for result in written:
        nodes.append(helper.make_node(b.choice(("Add", "Sub")), [squashed, b.choice(elements)], [result]))
    body = helper.make_graph(
        nodes,
        "body",
        [_info(each, rest) for each in (s, *elements)],
        [_info(each, rest) for each in (squashed, *written)],
    )
    rank = len(rest) + 1
    return b.node(
        name,
        state,
        *sources,
        outputs=1 + len(written),
        body=body,
        num_scan_inputs=len(sources),
        scan_input_axes=[axis - rank if b.flag() else axis for axis in axes]
        if any(axes) or b.flag()
        else None,
        scan_output_axes=b.choice((None, [b.axis(rank) for _ in written])),
        scan_input_directions=b.choice((None, [b.integer(0, 1) for _ in sources])),
        scan_output_directions=b.choice((None, [b.integer(0, 1) for _ in written])),
    )


@operator("LSTM GRU RNN")
def recurrent(b: Builder, name: str) -> object:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, width, hidden = b.integer(1, 4), b.integer(1, 3), b.integer(1, 4), b.integer(1, 4)
    direction = b.choice((None, "forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    x = b.tensor((F32,), shape=(steps, batch, width), special=False)
    weights = [b.parameter(F32, (d, gates * hidden, size), scale=0.7) for size in (width, hidden)]
    bias = b.parameter(F32, (d, 2 * gates * hidden), scale=0.7) if b.flag() else None
    lengths = None
    if b.flag():
        arrays = [b.seed().integers(1, steps + 1, batch).astype(np.int32) for _ in range(2)]
        lengths = b.new(arrays, structural=True)
    states: list[Value | None] = [
        b.parameter(F32, (d, batch, hidden), scale=0.7) if b.flag() else None
        for _ in range(2 if name == "LSTM" else 1)
    ]
    if name == "LSTM":
        states.append(b.parameter(F32, (d, 3 * hidden), scale=0.7) if b.flag() else None)
    options: dict[str, Any] = {"clip": b.choice((None, None, 0.5))}
    if name == "GRU":
        options["linear_before_reset"] = b.choice((None, 0, 1))
    count = 3 if name == "LSTM" else 2
    asked = [b.flag() for _ in range(count)]
    return b.node(
        name, x, *weights, bias, lengths, *states, hidden_size=hidden, direction=direction,
        outputs=asked if any(asked) else count, **options,
    )  # fmt: skip
