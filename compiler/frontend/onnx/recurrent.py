"""Import of RNN, GRU and LSTM: one Scan over time for each direction, made as ONNX nodes and imported as these.

An LSTM without options is one operation instead.

With `x` the input of a step times `W` plus all biases (one product for all steps, in front of the loop), `R` the
recurrent weights and `f`, `g`, `h` the activations, a step is:

- RNN: `H' = f(x + H R)`
- GRU: `z = f(xz + H Rz)`, `r = f(xr + H Rr)`, `n = g(xn + (r * H) Rn)`, `H' = (1 - z) * n + z * H`;
  with `linear_before_reset`: `n = g(xn + r * (H Rn + Rbn))`
- LSTM: `i = f(xi + H Ri + Pi * C)`, `F = f(xf + H Rf + Pf * C)` or, with `input_forget`, `1 - i`,
  `C' = F * C + i * g(xc + H Rc)`, `o = f(xo + H Ro + Po * C')`, `H' = o * h(C')`

`clip` bounds what goes into an activation. Where `sequence_lens` is given, steps beyond a sequence's length leave its
state as it is and give zeros, in both directions; the last state of a sequence of length 0 is zero, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, shape_text
from mlopt.dialects.graph.recurrent import BACKWARDS
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.ir.dtypes import to_numpy_dtype

_OPSET = 18


class _Nodes:
    """A list of nodes under construction. Calls add one and give the name of its output."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.nodes: list[NodeProto] = []

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.add(op_type, inputs, 1, **attributes)[0]

    def add(self, op_type: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """A node with several outputs."""
        names = [f"{self.prefix}{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names

    def split(self, value: str, parts: int) -> list[str]:
        """Equal parts along the last axis."""
        return [value] if parts == 1 else self.add("Split", [value], parts, axis=-1, num_outputs=parts)

    def times(self, state: str, weights: str) -> str:
        """A state times weights, gates first: transposed here, so that the product reads them as they are."""
        return self("MatMul", state, self("Transpose", weights, perm=[1, 0]))

    def name(self, name: str, value: str) -> None:
        """Give a value another name."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def number(self, number: float, like: str) -> str:
        """A number of the type of another value."""
        tensor = helper.make_tensor("value", TensorProto.FLOAT, [], [number])
        return self("CastLike", self("Constant", value=tensor), like)


class _QuantizedNodes(_Nodes):
    """Of these, the products are of integers: what is multiplied is quantized each time, as its numbers ask for."""

    def times(self, state: str, weights: str) -> str:
        """A state times weights, which have gates last, and a scale and zero point for all or for each column."""
        numbers, scale, zero_point = self.add("DynamicQuantizeLinear", [state], 3)
        total = self("MatMulInteger", numbers, weights, zero_point, f"{weights}_zero_point")
        return self("Mul", self("Cast", total, to=TensorProto.FLOAT), self("Mul", scale, f"{weights}_scale"))


_Activation = Callable[[_Nodes, str, float, float], str]


@dataclass(frozen=True, slots=True)
class _ActivationKind:
    """An activation; which of `alpha` and `beta` it has, and their defaults, None where the standard has none."""

    build: _Activation
    defaults: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])


def _plain(op_type: str) -> _ActivationKind:
    return _ActivationKind(lambda n, x, _alpha, _beta: n(op_type, x))


def _with_alpha(op_type: str, alpha: float) -> _ActivationKind:
    return _ActivationKind(lambda n, x, alpha, _beta: n(op_type, x, alpha=alpha), {"alpha": alpha})


def _affine(n: _Nodes, x: str, alpha: float, beta: float) -> str:
    return n("Add", n("Mul", x, n.number(alpha, x)), n.number(beta, x))


def _thresholded(n: _Nodes, x: str, alpha: float, _: float) -> str:
    return n("Where", n("Less", x, n.number(alpha, x)), n.number(0, x), x)


def _scaled_tanh(n: _Nodes, x: str, alpha: float, beta: float) -> str:
    return n("Mul", n.number(alpha, x), n("Tanh", n("Mul", n.number(beta, x), x)))


def _hard_sigmoid(n: _Nodes, x: str, alpha: float, beta: float) -> str:
    return n("HardSigmoid", x, alpha=alpha, beta=beta)


_ACTIVATIONS: Mapping[str, _ActivationKind] = {
    **{name.lower(): _plain(name) for name in ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")},
    "affine": _ActivationKind(_affine, {"alpha": None, "beta": None}),
    "leakyrelu": _with_alpha("LeakyRelu", 0.01),
    "thresholdedrelu": _ActivationKind(_thresholded, {"alpha": 1.0}),
    "scaledtanh": _ActivationKind(_scaled_tanh, {"alpha": None, "beta": None}),
    "hardsigmoid": _ActivationKind(_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "elu": _with_alpha("Elu", 1.0),
}


@dataclass(frozen=True)
class _Step:
    """What a step is made of: the nodes in it, its activations, the node's options.

    Names of values: `x` (the step's input times `W`, plus biases), `H` and `C` (the state), `R` or its parts `Rzr` and
    `Rn`, `Rb` (the recurrent bias of a GRU with `linear_before_reset`), `Pi`, `Po`, `Pf` (peepholes).
    """

    nodes: _Nodes
    activations: Sequence[Callable[[_Nodes, str], str]]
    clip: float | None
    flag: bool
    """`linear_before_reset` of a GRU, `input_forget` of an LSTM."""
    biased: bool
    peepholes: bool

    def activate(self, index: int, value: str) -> str:
        """Activation `f`, `g` or `h` of a value, which is clipped first."""
        n = self.nodes
        if self.clip is not None:
            value = n("Clip", value, n.number(-self.clip, value), n.number(self.clip, value))
        return self.activations[index](n, value)


def _rnn_step(step: _Step) -> list[str]:
    n = step.nodes
    return [step.activate(0, n("Add", "x", n.times("H", "R")))]


def _gru_step(step: _Step) -> list[str]:
    n = step.nodes
    xz, xr, xn = n.split("x", 3)
    if step.flag:
        product = n.times("H", "R")
        hz, hr, hn = n.split(n("Add", product, "Rb") if step.biased else product, 3)
    else:
        hz, hr = n.split(n.times("H", "Rzr"), 2)
        hn = ""
    z = step.activate(0, n("Add", xz, hz))
    r = step.activate(0, n("Add", xr, hr))
    recurrent = n("Mul", r, hn) if step.flag else n.times(n("Mul", r, "H"), "Rn")
    new = step.activate(1, n("Add", xn, recurrent))
    return [n("Add", n("Mul", n("Sub", n.number(1, z), z), new), n("Mul", z, "H"))]


def _lstm_step(step: _Step) -> list[str]:
    n = step.nodes
    i, o, f, c = n.split(n("Add", "x", n.times("H", "R")), 4)
    if step.peepholes:
        i, f = n("Add", i, n("Mul", "Pi", "C")), n("Add", f, n("Mul", "Pf", "C"))
    i = step.activate(0, i)
    f = n("Sub", n.number(1, i), i) if step.flag else step.activate(0, f)
    cell = n("Add", n("Mul", f, "C"), n("Mul", i, step.activate(1, c)))
    if step.peepholes:
        o = n("Add", o, n("Mul", "Po", cell))
    return [n("Mul", step.activate(0, o), step.activations[2](n, cell)), cell]


@dataclass(frozen=True)
class _Cell:
    """One of the operators: gates, default activations of a direction, the step, and the attribute that alters it."""

    gates: int
    defaults: Sequence[str]
    step: Callable[[_Step], list[str]]
    flag: str = ""
    state: Sequence[str] = field(default=("H",))
    quantized: bool = False


_RNN = _Cell(1, ("Tanh",), _rnn_step)
_GRU = _Cell(3, ("Sigmoid", "Tanh"), _gru_step, "linear_before_reset")
_LSTM = _Cell(4, ("Sigmoid", "Tanh", "Tanh"), _lstm_step, "input_forget", ("H", "C"))
_QUANTIZED_LSTM = replace(_LSTM, quantized=True)


@importer("RNN", since=7, outputs=2)
def rnn(node: Node) -> Sequence[SSAValue]:
    """Y and the last H."""
    return _import(node, _RNN)


@importer("GRU", since=7, outputs=2)
def gru(node: Node) -> Sequence[SSAValue]:
    """Y and the last H."""
    return _import(node, _GRU)


@importer("LSTM", since=7, outputs=3)
def lstm(node: Node) -> Sequence[SSAValue]:
    """Y, the last H and the last C. A layer as the standard has it by default is one operation."""
    if _is_plain_lstm(node):
        return _plain_lstm(node)
    return _import(node, _LSTM)


def _is_plain_lstm(node: Node) -> bool:
    """In f32, of one step at least, time first; without peepholes, lengths and other options."""
    activations = [name.lower() for name in node.strings("activations") or []]
    defaults = [name.lower() for name in _LSTM.defaults]
    return (
        node.rank_of(0) == 3
        and node.shape_of(0)[0] > 0
        and node.type_of(0).element_type == f32
        and activations in ([], defaults, defaults * 2)
        and node.optional(4) is None
        and node.optional(7) is None
        and not node.has("clip")
        and node.integer("input_forget", 0) == 0
        and node.integer("layout", 0) == 0
    )


def _plain_lstm(node: Node) -> Sequence[SSAValue]:
    backwards = _backwards(node)
    _activations(node, _LSTM, len(backwards))
    inputs = _inputs(node, _LSTM, len(backwards), by_batch=False)
    if "B" not in inputs:
        zeros = np.zeros((len(backwards), 8 * shape_of(inputs["R"])[2]), np.float32)
        inputs["B"] = node.constant(zeros)
    x, w, r, b, h, c = (inputs[name] for name in ("X", "W", "R", "B", "H", "C"))
    return node.add(graph.LstmOp(x, w, r, b, h, c, node.string("direction", "forward"))).results


@importer("DynamicQuantizeLSTM", since=1, domain="com.microsoft", outputs=3)
def dynamic_quantize_lstm(node: Node) -> Sequence[SSAValue]:
    """An LSTM with weights of 8 bits; all steps of X are quantized together, H at each step."""
    return _import(node, _QUANTIZED_LSTM)


def _import(node: Node, cell: _Cell) -> Sequence[SSAValue]:
    backwards = _backwards(node)
    by_batch = node.integer("layout", 0) == 1
    inputs = _inputs(node, cell, len(backwards), by_batch=by_batch)
    activations = _activations(node, cell, len(backwards))
    results: list[list[SSAValue]] = []
    for direction, back in enumerate(backwards):
        ours = {n: v if n in _SHARED else _part(node, v, direction) for n, v in inputs.items()}
        count = len(cell.defaults)
        body = _function(
            node, cell, list(ours), activations[direction * count : (direction + 1) * count], back
        )
        made = [value for value in node.expand(body, list(ours.values())) if value is not None]
        results.append(
            [node.add(graph.ReshapeOp(v, _with_direction(v, i))).result for i, v in enumerate(made)]
        )
    joined = [
        parts[0] if len(parts) == 1 else node.add(graph.ConcatOp(parts, 1 if index == 0 else 0)).result
        for index, parts in enumerate(zip(*results, strict=True))
    ]
    if by_batch:
        orders = [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)]
        joined = [
            node.add(graph.TransposeOp(value, order)).result
            for value, order in zip(joined, orders, strict=False)
        ]
    return joined


def _backwards(node: Node) -> Sequence[bool]:
    name = node.string("direction", "forward")
    if name not in BACKWARDS:
        raise node.error(f'attribute "direction": expected one of {", ".join(BACKWARDS)}, found "{name}"')
    return BACKWARDS[name]


_SHARED = frozenset({"X", "lengths", "steps"})
"""Inputs that all directions have in common."""


def _with_direction(value: SSAValue, index: int) -> tuple[int, ...]:
    """The shape of a result with its axis of directions: the second of Y, the first of a state."""
    shape = shape_of(value)
    return (shape[0], 1, *shape[1:]) if index == 0 else (1, *shape)


def _part(node: Node, value: SSAValue, direction: int) -> SSAValue:
    """What belongs to a direction, by the first axis."""
    shape = shape_of(value)
    if shape[0] > 1:
        starts, stops = [direction] + [0] * (len(shape) - 1), [direction + 1, *shape[1:]]
        value = node.add(graph.SliceOp(value, starts, stops, [1] * len(shape))).result
    return node.add(graph.ReshapeOp(value, shape[1:])).result


def _inputs(node: Node, cell: _Cell, directions: int, *, by_batch: bool) -> dict[str, SSAValue]:
    """The inputs of the function by their names, all with time or direction first; states are zero by default."""
    if node.rank_of(0) != 3 or node.rank_of(2) != 3:
        raise node.error(f"expected X and R of rank 3, found {node.type_of(0)} and {node.type_of(2)}")
    x = node.operand(0)
    if by_batch:
        x = node.add(graph.TransposeOp(x, (1, 0, 2))).result
    steps, batch, size = shape_of(x)
    hidden = node.shape_of(2)[1 if cell.quantized else 2]
    rows = cell.gates * hidden
    if node.has("hidden_size") and node.integer("hidden_size") != hidden:
        raise node.error(f"expected a hidden_size of {hidden}, as R has, found {node.integer('hidden_size')}")
    inputs = {"X": x}

    def take(index: int, name: str, *shape: int) -> SSAValue | None:
        value = node.optional(index)
        if value is None:
            return None
        if shape_of(value) != shape:
            raise node.error(f"expected {name} of shape {shape_text(shape)}, found {value.type}")
        inputs[name] = value
        return value

    node.operand(1)
    for index, name, columns in ((1, "W", size), (2, "R", hidden)):
        take(index, name, directions, *((columns, rows) if cell.quantized else (rows, columns)))
    take(3, "B", directions, 2 * rows)
    if take(4, "lengths", batch) is not None:
        inputs["steps"] = node.constant(np.arange(steps, dtype=np.int32).reshape(steps, 1, 1))
    for index, name in enumerate(cell.state, 5):
        shape = (batch, directions, hidden) if by_batch else (directions, batch, hidden)
        state = take(index, name, *shape)
        if state is None:
            zero = node.constant(np.zeros((), to_numpy_dtype(node.type_of(0).element_type)))
            inputs[name] = node.add(graph.ExpandOp(zero, (directions, batch, hidden))).result
        elif by_batch:
            inputs[name] = node.add(graph.TransposeOp(state, (1, 0, 2))).result
    if cell.step is _lstm_step:
        take(7, "P", directions, 3 * hidden)
    if cell.quantized:
        for index, name in enumerate(("W_scale", "W_zero_point", "R_scale", "R_zero_point"), 8):
            per_column = len(node.shape_of(index)) > 1
            take(index, name, directions, *([rows] if per_column else []))
    return inputs


def _activations(node: Node, cell: _Cell, directions: int) -> list[Callable[[_Nodes, str], str]]:
    """The activations of all directions; each takes its `alpha` and `beta` off the front of the lists of them."""
    names = node.strings("activations") or [*cell.defaults] * directions
    if len(names) != len(cell.defaults) * directions:
        raise node.error(f"expected {len(cell.defaults) * directions} activations, found {len(names)}")
    given = {
        name: iter(node.numbers(attribute) if node.has(attribute) else [])
        for name, attribute in (("alpha", "activation_alpha"), ("beta", "activation_beta"))
    }
    found: list[Callable[[_Nodes, str], str]] = []
    for name in names:
        kind = _ACTIVATIONS.get(name.lower())
        if kind is None:
            raise node.error(f'activation "{name}" is not supported', UnsupportedError)
        numbers = {"alpha": 0.0, "beta": 0.0}
        for parameter, default in kind.defaults.items():
            number = next(given[parameter], default)
            if number is None:
                raise node.error(f'expected an activation_{parameter} for activation "{name}", found none')
            numbers[parameter] = number
        found.append(_bound(kind, numbers["alpha"], numbers["beta"]))
    return found


def _bound(kind: _ActivationKind, alpha: float, beta: float) -> Callable[[_Nodes, str], str]:
    return lambda n, x: kind.build(n, x, alpha, beta)


def _function(
    node: Node,
    cell: _Cell,
    inputs: Sequence[str],
    activations: Sequence[Callable[[_Nodes, str], str]],
    backwards: bool,
) -> FunctionProto:
    """One direction: from the inputs, without an axis of directions, to Y and the last state."""
    nodes = _QuantizedNodes if cell.quantized else _Nodes
    n, step, lengths = nodes("v"), nodes("s"), ""
    flag = bool(cell.flag) and node.integer(cell.flag, 0) != 0
    clip = node.number("clip") if node.has("clip") else None
    _prepare(n, cell, inputs, resets_late=flag and cell is _GRU)
    new = cell.step(_Step(step, activations, clip, flag, "B" in inputs, "P" in inputs))
    y, scanned = new[0], ["xs"]
    if "lengths" in inputs:
        lengths = n("Unsqueeze", n("Cast", "lengths", to=TensorProto.INT32), n("Constant", value_ints=[1]))
        scanned.append(n("Less", "steps", lengths))
        y = step("Where", "running", new[0], step.number(0, new[0]))
        new = [step("Where", "running", value, old) for value, old in zip(new, cell.state, strict=True)]
    # Outputs of a graph have names of their own.
    outputs = [step("Identity", value) for value in (*new, y)]
    body = helper.make_graph(
        step.nodes,
        "step",
        [
            helper.make_empty_tensor_value_info(v)
            for v in (*cell.state, "x", *["running"] * (len(scanned) - 1))
        ],
        [helper.make_empty_tensor_value_info(v) for v in outputs],
    )
    directions = {
        "scan_input_directions": [int(backwards)] * len(scanned),
        "scan_output_directions": [int(backwards)],
    }
    *states, y = n.add(
        "Scan",
        [*cell.state, *scanned],
        len(cell.state) + 1,
        body=body,
        num_scan_inputs=len(scanned),
        **directions,
    )
    if "lengths" in inputs:
        empty = n("Less", lengths, n.number(1, lengths))
        states = [n("Where", empty, n.number(0, state), state) for state in states]
    opset = [helper.make_opsetid("", _OPSET)]
    return helper.make_function("mlopt", "direction", inputs, [y, *states], n.nodes, opset)


def _prepare(n: _Nodes, cell: _Cell, inputs: Sequence[str], *, resets_late: bool) -> None:
    """Name what a step uses: the products of all steps, parts of the recurrent weights, peepholes (see `_Step`)."""
    product = n.times("X", "W")
    if "B" in inputs:
        bias, recurrent = n.split("B", 2)
        if resets_late:
            n.name("Rb", recurrent)
        else:
            bias = n("Add", bias, recurrent)
        product = n("Add", product, bias)
    n.name("xs", product)
    if cell is _GRU and not resets_late:
        z, r, new = n.add("Split", ["R"], 3, axis=0, num_outputs=3)
        n.name("Rzr", n("Concat", z, r, axis=0))
        n.name("Rn", new)
    if "P" in inputs:
        for name, part in zip(("Pi", "Po", "Pf"), n.split("P", 3), strict=True):
            n.name(name, part)
