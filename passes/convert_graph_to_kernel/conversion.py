"""What the conversions of graph ops share: the table of them, converted values, and making launches and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph, kernel
from mlopt.dialects.graph.base import GraphOp, Tensor, dense_attr, is_unsigned, tensor_type
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.dtypes import constant_attr, dense_to_array, from_numpy_dtype
from mlopt.ir.locations import place_of_op
from mlopt.ir.names import copy_name, set_name
from mlopt.on_demand import TableOnDemand
from mlopt.passes.convert_graph_to_kernel.launch import Launch
from mlopt.passes.convert_graph_to_kernel.scalars import Number, signless_type
from mlopt.weights import WeightStore

Convert: TypeAlias = Callable[[Any, "Conversion"], None]
"""Makes the kernel-level form of one graph op and tells the conversion what replaces its results."""

RARE_FAMILIES = (
    "bounded",
    "calls",
    "quantization",
    "recurrent",
    "resize",
    "rotary",
    "sampling",
    "transposed",
)
"""The modules that register the conversions of operations that few models have."""

CONVERSIONS: dict[type[Operation], Convert] = TableOnDemand(
    f"mlopt.passes.convert_graph_to_kernel.{name}" for name in RARE_FAMILIES
)
"""The conversion of each graph op, by its class."""

_Op = TypeVar("_Op", bound=GraphOp)


def converts(
    *classes: type[_Op],
) -> Callable[[Callable[[_Op, Conversion], None]], Callable[[_Op, Conversion], None]]:
    """Register the decorated function `(op, conversion)` as the conversion of these op classes."""

    def register(function: Callable[[_Op, Conversion], None]) -> Callable[[_Op, Conversion], None]:
        CONVERSIONS.update(dict.fromkeys(classes, function))
        return function

    return register


def element_of(value: SSAValue) -> Attribute:
    """The graph-level element type of a graph-level tensor."""
    return tensor_type(value.type).element_type


class Conversion:
    """The state of one conversion: which kernel-level value stands for which graph-level one."""

    def __init__(self, weights: WeightStore):
        self.weights = weights
        self._values: dict[SSAValue, SSAValue] = {}

    def convert(self, op: GraphOp) -> None:
        """Insert the kernel-level form of `op` before it; `UnsupportedError` if there is none."""
        conversion = CONVERSIONS.get(type(op))
        if conversion is None:
            raise unsupported(op, f"'{op.name}' has no form at the kernel level")
        conversion(op, self)

    def value(self, value: SSAValue) -> SSAValue:
        """What stands for a graph-level value; a constant is made when it is first asked for."""
        if value not in self._values and isinstance(value.owner, graph.ConstantOp):
            self._values[value] = self._constant(value.owner)
        return self._values.get(value, value)

    def replace(self, op: GraphOp, *values: SSAValue) -> None:
        """State what stands for the results of `op`."""
        for result, value in zip(op.results, values, strict=True):
            self._values[result] = value

    def insert(self, before: GraphOp, op: Operation) -> None:
        """Insert a kernel-level op, with the location of the graph op that it comes from."""
        op.location = before.location
        Rewriter.insert_op(op, InsertPoint.before(before))

    def expand(self, op: GraphOp, made: Sequence[Operation], results: Sequence[SSAValue]) -> None:
        """Put graph-level operations in place of `op`, and convert these; `results` stand for its own."""
        for part in made:
            self.insert(op, part)
            for inner in part.walk():
                if isinstance(inner, GraphOp):
                    self.convert(inner)
        self.replace(op, *map(self.value, results))

    # Constants

    def array(self, value: SSAValue) -> np.ndarray[Any, np.dtype[Any]] | None:
        """The contents of a graph-level constant; None if `value` is none."""
        if not isinstance(value.owner, graph.ConstantOp):
            return None
        attribute = value.owner.value
        dense = dense_attr(attribute)
        if dense is not None:
            return dense_to_array(dense)
        if isinstance(attribute, WeightAttr) and attribute.weight.data in self.weights:
            return self.weights.view(attribute.weight.data)
        return None

    def number(self, value: SSAValue) -> Number | None:
        """The number that a graph-level constant holds in all of its elements; None if `value` is not like that."""
        array = self.array(value)
        if array is None or array.size == 0 or array.dtype.kind == "c":
            return None
        bits = array.reshape(-1).view(f"u{array.itemsize}")
        if bits[0] != bits[-1] or not (bits == bits[0]).all():
            return None
        first = array.flat[0]
        return float(first) if isinstance(element_of(value), AnyFloat) else int(first)

    def constant(self, before: GraphOp, array: np.ndarray[Any, np.dtype[Any]], name: str) -> SSAValue:
        """A new constant tensor: in the text if it is small, else in the weight store under `name` or one like it."""
        type = TensorType(from_numpy_dtype(array.dtype), array.shape)
        constant = kernel.ConstantOp(constant_attr(array, self.weights, name), type)
        self.insert(before, constant)
        set_name(constant.result, name)
        return constant.result

    def _constant(self, op: graph.ConstantOp) -> SSAValue:
        type = signless_type(tensor_type(op.result.type))
        dense = dense_attr(op.value)
        if dense is not None:
            constant = kernel.ConstantOp(DenseIntOrFPElementsAttr(cast(TensorType[Any], type), dense.data))
        else:
            assert isinstance(op.value, WeightAttr)
            constant = kernel.ConstantOp(op.value, type)
        self.insert(op, constant)
        copy_name(op.result, constant.result)
        return constant.result

    # Launches

    def launch(
        self, op: GraphOp, out_types: Sequence[Tensor] | None = None, *, unsigned: bool | None = None
    ) -> Launch:
        """A launch named after `op`, with outs of the types of its results unless others are given.

        Bodies mean integers as the first operand does (of an op without operands: the result), unless `unsigned`
        says it.
        """
        types = [tensor_type(result.type) for result in op.results] if out_types is None else out_types
        if unsigned is None:
            unsigned = is_unsigned(element_of((*op.operands, *op.results)[0]))
        return Launch(
            op.name.removeprefix("graph."),
            [signless_type(type) for type in types],
            op.location,
            self.value,
            unsigned=unsigned,
        )

    def finish(self, op: GraphOp, launch: Launch, *yielded: SSAValue) -> None:
        """End a launch that computes the results of `op`: it yields these values."""
        self.replace(op, *self.insert_launch(op, launch, op.results, *yielded))

    def insert_launch(
        self, op: GraphOp, launch: Launch, named: Sequence[SSAValue], *yielded: SSAValue
    ) -> Sequence[SSAValue]:
        """Insert a launch that yields these values; its results, of which the first take the names of `named`."""
        empties, launched = launch.finish(*yielded)
        for made in (*empties, launched):
            self.insert(op, made)
        for source, result in zip(named, launched.res, strict=False):
            copy_name(source, result)
        return launched.res

    # Calls of run-time functions

    def call(
        self,
        op: GraphOp,
        function: str,
        ins: Sequence[SSAValue],
        parameters: Mapping[str, Attribute | None] | None = None,
        outs: Sequence[SSAValue] = (),
    ) -> None:
        """Insert a call of `@mlopt_rt_<function>` that gives the results of `op`.

        `ins` and `outs` are graph-level values; the outs begin uninitialised unless given. Parameters that are None are
        left out.
        """
        dests = [self.value(out) for out in outs]
        for result in () if outs else op.results:
            empty = tensor.EmptyOp([], signless_type(tensor_type(result.type)))
            self.insert(op, empty)
            dests.append(empty.tensor)
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        called = kernel.CallOp(f"mlopt_rt_{function}", [self.value(value) for value in ins], dests, given)
        self.insert(op, called)
        for source, result in zip(op.results, called.res, strict=True):
            copy_name(source, result)
        self.replace(op, *called.res)


def unsupported(op: Operation, message: str) -> UnsupportedError:
    """The error for a graph op, or a form of one, that the kernel level can't say."""
    return UnsupportedError(message, place=place_of_op(op))
