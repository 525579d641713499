"""An ONNX graph that grows node by node: what exporters see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper
from xdsl.dialects.builtin import IndexType, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects.graph import ConstantOp
from mlopt.dialects.graph.base import is_tiny_float, tensor_type
from mlopt.export.liveness import finished_graph, read_names, written_names
from mlopt.export.types import (
    allowed_types,
    carrier,
    is_packed,
    onnx_type,
    output_variables,
    since_opset,
    type_string,
)
from mlopt.ir.dtypes import constant_array, to_numpy_dtype
from mlopt.ir.locations import node_names, place_of_op
from mlopt.weights import WeightStore

OPSET = 23
"""The operator set whose operators are used: the newest that the oldest supported onnxruntime, 1.22, runs. A model is
written in the oldest that has the operators that it uses (`opsets`)."""


AttributeValue: TypeAlias = int | float | str | Sequence[int] | GraphProto
Attributes: TypeAlias = Mapping[str, AttributeValue]
NONE: Attributes = {}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the ONNX graph: its name and the element type of its tensor."""

    name: str
    element: Attribute


Typed: TypeAlias = tuple[Value, Sequence[int]]
"""A value and its shape."""


@dataclass(frozen=True, slots=True)
class Initializer:
    """A constant of the ONNX graph; `array` gives its elements when they are written."""

    value: Value
    shape: tuple[int, ...]
    nbytes: int
    array: Callable[[], np.ndarray]


class Names:
    """Distinct names: the one asked for if it is free, else with a number behind it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Keep a name from being given away."""
        self._taken.add(name)

    def unique(self, name: str) -> str:
        """A name that was not given before."""
        candidate = name
        while candidate in self._taken:
            self._next[name] = self._next.get(name, 0) + 1
            candidate = f"{name}_{self._next[name]}"
        self._taken.add(candidate)
        return candidate


@dataclass(slots=True)
class _Scope:
    """The nodes of one graph, and the declared types of what they give."""

    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    types: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])


class Builder:
    """Nodes and initializers of a graph, and of the graphs inside its nodes, which see all that is around them.

    `export` adds the nodes of one operation. Names are distinct in all graphs together, and all initializers are in the
    outermost.

    `node` adds the node that gives an operation's results, `part` one that leads there. Where an ONNX operator does not
    take an element type, its operands are cast to a wider type that it takes and its results are cast back; this gives
    the same numbers, as widening is exact and integers wrap.
    """

    def __init__(self, export: Callable[[Operation], None], weights: WeightStore) -> None:
        self.names = Names()
        self.node_names = Names()
        self.values: dict[SSAValue, Value] = {}
        self.own: dict[SSAValue, str] = {}
        """Results that have the name of an output."""
        self.given: set[SSAValue] = set()
        """Results that the exporter of an operation before theirs has made nodes for."""
        self.initializers: list[Initializer] = []
        self.types: dict[str, str] = {}
        """The type of each value that a node takes or gives, as schemas name it."""
        self.op: Operation | None = None
        self._export = export
        self._weights = weights
        self._scope = _Scope()
        self._numbers: dict[tuple[str, tuple[int, ...], bytes], Value] = {}

    def value(self, value: SSAValue) -> Value:
        """What stands for an SSA value."""
        return self.values[value]

    def constant(self, value: SSAValue) -> np.ndarray | None:
        """The elements of a constant; None if the value is none."""
        if not isinstance(value.owner, ConstantOp):
            return None
        return constant_array(value.owner.value, self._weights)

    def declare(self, result: SSAValue, name: str | None = None) -> Value:
        """What stands for a result from now on: a value of the graph being built, named after it unless given."""
        name = self.own.get(result) if name is None else name
        if name is None:
            name = self.names.unique(result.name_hint or "value")
            self._scope.types.append(value_info(Value(name, element_of(result)), shape_of(result)))
        value = self.values[result] = Value(name, element_of(result))
        return value

    def block(self, block: Block, without: Collection[Operation] = ()) -> list[SSAValue]:
        """Export the operations of a block but for some; returns what its terminator takes."""
        around, terminator = self.op, block.last_op
        for op in block.ops:
            if op is not terminator and op not in without:
                self.op = op
                self._export(op)
        self.op = around
        return [] if terminator is None else list(terminator.operands)

    def subgraph(
        self, name: str, inputs: Sequence[Typed], fill: Callable[[], Sequence[SSAValue | Typed]]
    ) -> GraphProto:
        """A graph inside a node: `fill` adds its nodes and gives its outputs.

        An output that the graph does not make itself, or that it has twice, is a copy: ONNX wants it so.
        """
        around, self._scope = self._scope, _Scope()
        outputs: list[ValueInfoProto] = []
        own: set[str] | None = None
        for output in fill():
            if own is None:
                own = written_names(self._scope.nodes)
            value, shape = (self.value(output), shape_of(output)) if isinstance(output, SSAValue) else output
            given = value
            if value.name in own:
                own.remove(value.name)
            else:
                given = Value(self.names.unique(f"{value.name}_out"), value.element)
                self.copy(value, given.name)
            outputs.append(value_info(given, shape))
        scope, self._scope = self._scope, around
        declared = [value_info(*given) for given in inputs]
        return finished_graph(GraphProto(name=name, input=declared, output=outputs), scope.nodes, scope.types)

    def finish(self, graph: GraphProto) -> list[Initializer]:
        """Put what was built into the outermost graph; returns the initializers that it uses."""
        finished_graph(graph, self._scope.nodes, self._scope.types)
        used = {info.name for info in graph.output}.union(*map(read_names, graph.node))
        return [initializer for initializer in self.initializers if initializer.value.name in used]

    def node(
        self,
        op: Operation,
        onnx_op: str,
        operands: Sequence[SSAValue | Value | None] | None = None,
        attributes: Attributes = NONE,
        *,
        since: int = OPSET,
    ) -> None:
        """The node whose outputs are the results of `op`.

        Its inputs are `operands`: those of `op` if not given, None for one that is left out. `since` is the operator
        set that has the operator.
        """
        inputs = op.operands if operands is None else operands
        resolved = [self.values[value] if isinstance(value, SSAValue) else value for value in inputs]
        results = [self.values[result] for result in op.results]
        self._emit(onnx_op, resolved, results, attributes, since)

    def part(
        self,
        onnx_op: str,
        operands: Sequence[SSAValue | Value],
        element: Attribute | None = None,
        attributes: Attributes = NONE,
    ) -> Value:
        """The output of an inner node; its elements are those of the first operand unless given."""
        if element is None:
            first = operands[0]
            element = (self.values[first] if isinstance(first, SSAValue) else first).element
        return self.parts(onnx_op, operands, [element], attributes)[0]

    def parts(
        self,
        onnx_op: str,
        operands: Sequence[SSAValue | Value],
        elements: Sequence[Attribute],
        attributes: Attributes = NONE,
    ) -> list[Value]:
        """The outputs of an inner node, of these element types."""
        inputs = [self.values[value] if isinstance(value, SSAValue) else value for value in operands]
        assert self.op is not None
        name = f"{self.values[self.op.results[0]].name}_{onnx_op.lower()}"
        results = [Value(self.names.unique(name), element) for element in elements]
        self._emit(onnx_op, inputs, results, attributes, OPSET)
        return results

    def result(
        self,
        result: SSAValue,
        onnx_op: str,
        operands: Sequence[SSAValue | Value],
        attributes: Attributes = NONE,
    ) -> None:
        """The node whose output is one of the results of the operation."""
        inputs = [self.values[value] if isinstance(value, SSAValue) else value for value in operands]
        self._emit(onnx_op, inputs, [self.values[result]], attributes, OPSET)

    def named(self, name: str, element: Attribute) -> Value:
        """A value that is declared by a graph or given by a node, with a name like this."""
        return Value(self.names.unique(name), element)

    def control(
        self,
        onnx_op: str,
        operands: Sequence[SSAValue | Value],
        results: Sequence[SSAValue | Value],
        graphs: Mapping[str, GraphProto],
    ) -> None:
        """A node with graphs inside, which takes and gives values of any type."""
        inputs, outputs = (
            [self.value(value) if isinstance(value, SSAValue) else value for value in values]
            for values in (operands, results)
        )
        self._append(onnx_op, inputs, outputs, graphs)

    def cast(self, value: SSAValue | Value, element: Attribute) -> Value:
        """The value in another element type; itself if it has that type."""
        known = self.values[value] if isinstance(value, SSAValue) else value
        if known.element == element:
            return known
        return self.part("Cast", [known], element, cast_attributes(element))

    def copy(self, value: Value, name: str) -> None:
        """A node that gives a value another name."""
        self._append("Identity", [value], [Value(name, value.element)], {})

    def cut(self, value: Value, extent: Value, axis: int, name: str) -> None:
        """Nodes that give the first `extent` elements of a value along an axis a name."""
        end = self.named(f"{name}_end", i64)
        self._append("Reshape", [extent, self.ints([1])], [end], NONE)
        numbers = [self.ints([0]), end, self.ints([axis])]
        self._append("Slice", [value, *numbers], [Value(name, value.element)], NONE)

    def numbers(self, array: np.ndarray, element: Attribute) -> Value:
        """An initializer with these elements; equal ones are one initializer."""
        data = np.ascontiguousarray(array)
        key = (type_string(element), array.shape, data.tobytes())
        if key not in self._numbers:
            value = Value(self.names.unique("const"), element)
            self.initializers.append(Initializer(value, array.shape, array.nbytes, lambda: array))
            self._numbers[key] = value
        return self._numbers[key]

    def ints(self, values: Sequence[int]) -> Value:
        """An initializer with a list of i64 numbers."""
        return self.numbers(np.array(values, np.int64), i64)

    def scalar(self, number: float, element: Attribute) -> Value:
        """An initializer of rank 0."""
        return self.numbers(np.array(number, to_numpy_dtype(element)), element)

    def unsupported(self, message: str) -> UnsupportedError:
        """An error at the operation that is being exported."""
        assert self.op is not None
        return UnsupportedError(f"'{self.op.name}': {message}", place=place_of_op(self.op))

    def _emit(
        self,
        onnx_op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Attributes,
        opset: int,
    ) -> None:
        """Add a node, with casts around it where the operator does not take the element types."""
        opset = max([opset, *(since_opset(value.element) for value in (*inputs, *outputs) if value)])
        formal = allowed_types(onnx_op, opset)
        carriers: dict[str, Attribute] = {}
        taken: list[Value | None] = []
        for index, value in enumerate(inputs):
            if value is None:
                taken.append(None)
                continue
            variable, allowed = formal[min(index, len(formal) - 1)]
            if allowed is not None and type_string(value.element) not in allowed:
                wide = carrier(value.element, allowed)
                if wide is None:
                    raise self.unsupported(f"ONNX {onnx_op} takes no {value.element} elements")
                carriers[variable] = wide
                value = self.cast(value, wide)
            taken.append(value)
        variables = output_variables(onnx_op, opset)
        casts: list[tuple[Value, Value]] = []
        results: list[Value] = []
        for index, value in enumerate(outputs):
            wide = carriers.get(variables[min(index, len(variables) - 1)])
            inner = value
            if wide is not None:
                inner = Value(self.names.unique(f"{value.name}_wide"), wide)
                casts.append((inner, value))
            results.append(inner)
        self._append(onnx_op, taken, results, attributes)
        for inner, value in casts:
            self._append("Cast", [inner], [value], cast_attributes(value.element))

    def _append(
        self,
        onnx_op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Attributes,
    ) -> None:
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        for value in filter(None, (*inputs, *outputs)):
            self.types[value.name] = type_string(value.element)
        taken, given = ([value.name if value else "" for value in values] for values in (inputs, outputs))
        node = helper.make_node(onnx_op, taken, given, self._node_name(onnx_op, given[0] if given else ""))
        node.attribute.extend(
            helper.make_attribute(name, value) for name, value in sorted(attributes.items())
        )
        self._scope.nodes.append(node)

    def _node_name(self, onnx_op: str, output: str) -> str:
        """After the nodes of the model that the operation comes from: `fc1`, or `fc1...act` for several."""
        origins = [] if self.op is None else node_names(self.op.location)
        if not origins:
            name = f"{onnx_op}_{output}"
        else:
            name = origins[0] if len(origins) == 1 else f"{origins[0]}...{origins[-1]}"
        return self.node_names.unique(name)


def cast_attributes(
    element: Attribute, *, saturate: bool = False, round_mode: str | None = None
) -> Attributes:
    """The attributes of a Cast to this element type."""
    attributes: Attributes = {"to": onnx_type(element)}
    if is_tiny_float(element) and not is_packed(element):
        attributes = {**attributes, "saturate": int(saturate)}
    return attributes if round_mode is None else {**attributes, "round_mode": round_mode}


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor; a scalar is a tensor of rank 0, an `index` an i64."""
    is_scalar = not isinstance(value.type, TensorType)
    element = value.type if is_scalar else tensor_type(value.type).element_type
    return i64 if isinstance(element, IndexType) else element


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor, () of a scalar."""
    type = value.type
    return type.get_shape() if isinstance(type, TensorType) else ()


def value_info(value: Value, shape: Sequence[int]) -> ValueInfoProto:
    """The declaration of a value."""
    return helper.make_tensor_value_info(value.name, onnx_type(value.element), shape)
