"""What an operator's import function sees: one node, with its operands, attributes and known values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto
from xdsl.ir import Block, Operation, SSAValue

from mlopt.diagnostics import InputError, MloptError, UnsupportedError
from mlopt.dialects.graph.base import Tensor, tensor_type
from mlopt.frontend.onnx.bounds import Bound
from mlopt.frontend.onnx.structure import node_name

_OpT = TypeVar("_OpT", bound=Operation)
_T = TypeVar("_T")


class Surroundings(Protocol):
    """What a node needs from the import around it."""

    def insert(self, op: Operation, location: str, block: Block | None = None) -> None:
        """Add an operation at the end of a block, or of the one that the node's operations go to."""
        ...

    def constant(self, array: np.ndarray, name: str, location: str) -> SSAValue:
        """A constant of that value; large ones go to the weight store under `name`."""
        ...

    def known_value(self, value: SSAValue) -> np.ndarray | None:
        """The value, if it is small or a constant, and follows from constants, shapes and inputs with an example.

        Asking decides: the model then holds for no other values of those inputs.
        """
        ...

    def constant_value(self, value: SSAValue) -> np.ndarray | None:
        """The value, if it is small or a constant, and follows from constants and shapes alone. Decides nothing."""
        ...

    def is_known(self, value: SSAValue) -> bool:
        """Whether `known_value` has an answer. Asking this decides nothing."""
        ...

    def depends_on_data(self, value: SSAValue) -> bool:
        """Whether a small value follows from how large something is whose size depends on data."""
        ...

    @property
    def bounds(self) -> dict[SSAValue, Bound]:
        """The values whose size depends on data (see `bounded`)."""
        ...

    def subgraph(
        self, proto: NodeProto, graph: GraphProto, block: Block | None, arguments: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Import a node's branch or body, one argument per input, into `block`, or right here; its outputs' values."""
        ...

    def expand(
        self, proto: NodeProto, body: FunctionProto, operands: Sequence[SSAValue | None]
    ) -> Sequence[SSAValue | None]:
        """Import the nodes of a definition in place of a node, with its name as their location; the outputs' values."""
        ...

    def attempt(self, action: Callable[[], _T]) -> _T | MloptError:
        """What an action returns, or the error that it ended with; what values decided for it is forgotten then."""
        ...

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        """The value of a tensor in the model."""
        ...

    def error(self, node: NodeProto, message: str, kind: type[InputError] = InputError) -> MloptError:
        """An error at a node."""
        ...


class Node:
    """One ONNX node during its import. Indices are those of the node's inputs.

    Attributes are read by kind, with the default of the operator's definition. All errors name the node.
    """

    def __init__(
        self,
        proto: NodeProto,
        operands: Sequence[SSAValue | None],
        opset: int,
        surroundings: Surroundings,
    ):
        """`operands` has None where an optional input is left out (an empty name in the file)."""
        self.proto = proto
        self.opset = opset
        self.name = node_name(proto)
        self._operands = operands
        self._surroundings = surroundings
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    # Operands.

    def operand(self, index: int) -> SSAValue:
        """A required input."""
        value = self.optional(index)
        if value is None:
            raise self.error(f"expected at least {index + 1} inputs, found none at position {index}")
        return value

    def optional(self, index: int) -> SSAValue | None:
        """An input that may be left out."""
        return self._operands[index] if index < len(self._operands) else None

    @property
    def inputs(self) -> Sequence[SSAValue | None]:
        """All inputs, None for one that is left out."""
        return self._operands

    def operands(self) -> list[SSAValue]:
        """All inputs of an operator with any number of them; at least one."""
        return [self.operand(index) for index in range(max(1, len(self._operands)))]

    def type_of(self, index: int) -> Tensor:
        """The type of a required input."""
        return tensor_type(self.operand(index).type)

    def shape_of(self, index: int) -> tuple[int, ...]:
        """The shape of a required input."""
        return self.type_of(index).get_shape()

    def rank_of(self, index: int) -> int:
        """The number of dimensions of a required input."""
        return len(self.shape_of(index))

    # Values known at compile time.

    def known(self, index: int, what: str) -> np.ndarray:
        """The value of an input that decides shapes; `UnsupportedError` if it is not known at compile time."""
        value = self._surroundings.known_value(self.operand(index))
        if value is None:
            name = self.proto.input[index]
            message = (
                f'needs the {what} "{name}" at compile time, but it is computed at run time, '
                "or from inputs without an example"
            )
            raise self.error(message, UnsupportedError)
        return value

    def known_ints(self, index: int, what: str) -> list[int]:
        """The numbers of an integer input of rank 0 or 1 that decides shapes."""
        value = self.known(index, what)
        if value.ndim > 1 or value.dtype.kind not in "iu":
            raise self.error(
                f"expected a list of integers as the {what}, found {value.dtype}{list(value.shape)}"
            )
        return [int(number) for number in value.reshape(-1)]

    def known_int(self, index: int, what: str) -> int:
        """The number of an integer input of one element that decides shapes or positions."""
        numbers = self.known_ints(index, what)
        if len(numbers) != 1:
            raise self.error(f"expected one number as the {what}, found {len(numbers)}")
        return numbers[0]

    def optional_ints(self, index: int, what: str) -> list[int] | None:
        """As `known_ints`, or None if the input is left out."""
        return None if self.optional(index) is None else self.known_ints(index, what)

    def constant_value(self, value: SSAValue) -> np.ndarray | None:
        """A value that follows from constants and shapes alone, or None; asking decides nothing."""
        return self._surroundings.constant_value(value)

    def known_value(self, value: SSAValue) -> np.ndarray | None:
        """A value that is known at compile time, if need be from the inputs' examples, or None."""
        return self._surroundings.known_value(value)

    def is_known(self, value: SSAValue) -> bool:
        """Whether `known_value` has an answer. Asking this decides nothing."""
        return self._surroundings.is_known(value)

    # Values whose size depends on data: see `bounded`.

    def depends_on_data(self, value: SSAValue) -> bool:
        """Whether a small value follows from how large something is whose size depends on data."""
        return self._surroundings.depends_on_data(value)

    def bound_of(self, value: SSAValue | None) -> Bound | None:
        """How the size of a value depends on data, if it does."""
        return None if value is None else self._surroundings.bounds.get(value)

    def bounded(self, value: SSAValue, axis: int, extent: SSAValue) -> SSAValue:
        """`value`, which is noted to have no more than `extent` elements along `axis`."""
        self._surroundings.bounds[value] = Bound(axis, extent)
        return value

    def with_operands(self, operands: Mapping[int, SSAValue]) -> Node:
        """This node with other values at some of its inputs."""
        values = [operands.get(index, value) for index, value in enumerate(self._operands)]
        return Node(self.proto, values, self.opset, self._surroundings)

    # Subgraphs.

    def graph(self, name: str) -> GraphProto:
        """A required attribute that is a graph."""
        attribute = self._attribute(name, AttributeProto.GRAPH, True)
        assert attribute is not None
        return attribute.g

    def subgraph(
        self, graph: GraphProto, block: Block | None, arguments: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Import a branch or a loop body, into `block` or right here; the values of its outputs.

        Values of the graphs around it are used as they are.
        """
        return self._surroundings.subgraph(self.proto, graph, block, arguments)

    def expand(self, body: FunctionProto, operands: Sequence[SSAValue | None]) -> Sequence[SSAValue | None]:
        """Import the nodes of a function in place of this node; the values of its outputs, None for one not used."""
        return self._surroundings.expand(self.proto, body, operands)

    def attempt(self, action: Callable[[], _T]) -> _T | MloptError:
        """What an action returns, or the error that it ended with."""
        return self._surroundings.attempt(action)

    # Attributes.

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; required without a default."""
        attribute = self._attribute(name, AttributeProto.INT, default is None)
        return attribute.i if attribute is not None else _given(default)

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers, or None."""
        attribute = self._attribute(name, AttributeProto.INTS, False)
        return None if attribute is None else list(attribute.ints)

    def number(self, name: str, default: float | None = None) -> float:
        """A floating-point attribute (f32 in the file); required without a default."""
        attribute = self._attribute(name, AttributeProto.FLOAT, default is None)
        return attribute.f if attribute is not None else _given(default)

    def numbers(self, name: str) -> list[float]:
        """A required attribute that is a list of floating-point numbers."""
        attribute = self._attribute(name, AttributeProto.FLOATS, True)
        return [] if attribute is None else list(attribute.floats)

    def string(self, name: str, default: str) -> str:
        """A string attribute."""
        attribute = self._attribute(name, AttributeProto.STRING, False)
        return default if attribute is None else attribute.s.decode("utf-8", "replace")

    def strings(self, name: str) -> list[str] | None:
        """An attribute that is a list of strings, or None."""
        attribute = self._attribute(name, AttributeProto.STRINGS, False)
        return None if attribute is None else [text.decode("utf-8", "replace") for text in attribute.strings]

    def tensor(self, name: str) -> np.ndarray | None:
        """The value of a tensor attribute, or None."""
        attribute = self._attribute(name, AttributeProto.TENSOR, False)
        return None if attribute is None else self._surroundings.tensor(attribute.t)

    def has(self, name: str) -> bool:
        """Whether the node has this attribute."""
        return name in self._attributes

    def _attribute(self, name: str, kind: int, required: bool) -> AttributeProto | None:
        attribute = self._attributes.get(name)
        if attribute is None:
            if required:
                raise self.error(f'expected an attribute "{name}", found none')
            return None
        if attribute.type != kind:
            expected, found = (AttributeProto.AttributeType.Name(k).lower() for k in (kind, attribute.type))
            raise self.error(f'attribute "{name}": expected {expected}, found {found}')
        return attribute

    # Results.

    def add(self, op: _OpT, block: Block | None = None) -> _OpT:
        """Add an operation, with this node as its location; `block` is for the inside of loops and branches."""
        self._surroundings.insert(op, self.name, block)
        return op

    def constant(self, array: np.ndarray) -> SSAValue:
        """A constant that the operator's meaning needs."""
        return self._surroundings.constant(array, f"{self.name}.constant", self.name)

    # Errors.

    def error(self, message: str, kind: type[InputError] = InputError) -> MloptError:
        """An error at this node; the operator's name is put in front."""
        return self._surroundings.error(self.proto, f"{self.proto.op_type}: {message}", kind)


def _given(default: _T | None) -> _T:
    assert default is not None
    return default
