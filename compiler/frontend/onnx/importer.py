"""From an ONNX graph to a function at the graph level, node by node in the order of the file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlopt.diagnostics import InputError, MloptError, UnsupportedError
from mlopt.dialects.graph.base import tensor_type
from mlopt.dialects.graph.constant import ConstantOp, ShapeOp
from mlopt.dialects.mlopt import WeightAttr
from mlopt.frontend.onnx.dims import bind_shapes, input_dtype
from mlopt.frontend.onnx.functions import definition, onnx_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.reader import (
    OnnxModel,
    inline_functions,
    node_name,
    normal_domain,
    opset_versions,
    read_model,
)
from mlopt.frontend.onnx.registry import import_function, require_supported, used_names
from mlopt.frontend.onnx.statistics import ImportedStatistics, TensorKind, imported_statistics
from mlopt.frontend.onnx.tensors import tensor_array
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import array_to_dense, dense_to_array, from_numpy_dtype, to_numpy_dtype
from mlopt.ir.names import set_name
from mlopt.ir.verifier import first_sentence

_MAX_BYTES = 2**62  # figures are 64-bit integers
_SMALL = 64
"""Elements: constants of no more stand in the IR, and computed values of no more are evaluated on demand."""


def import_onnx(
    source: str | Path | ModelProto,
    ctx: CompilerContext,
    dims: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
) -> ModuleOp:
    """See `mlopt.frontend.onnx.import_model`."""
    model = read_model(source)
    require_supported(model.proto, model.place())
    model = inline_functions(model)
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise UnsupportedError(f'initializer "{name}" is sparse, which is not supported', place=model.place())
    return _GraphImport(model, ctx, dims, inputs).run()


class _GraphImport:
    """One import. Values are known by their ONNX names; constants are added where they are first used."""

    def __init__(
        self,
        model: OnnxModel,
        ctx: CompilerContext,
        dims: Mapping[str, int],
        inputs: Mapping[str, np.ndarray],
    ):
        self.model = model
        self.ctx = ctx
        self.opsets = model.opsets
        self.used = used_names(model.graph)
        self.initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.values: dict[str, SSAValue] = {}
        # Values that are known at compile time, and those of them that were asked for, with all they come from.
        self.known: dict[SSAValue, np.ndarray | None] = {}
        self.decisive: set[SSAValue] = set()
        # An initializer that is also an input is a default: an input only if the caller feeds it.
        self.inputs = [
            value
            for value in model.graph.input
            if value.name not in self.initializers or value.name in inputs
        ]
        shapes = bind_shapes(model.graph.input, dims, inputs, model.place())
        types = [self._input_type(value, shapes[value.name]) for value in self.inputs]
        self.block = Block(arg_types=types)
        for value, argument in zip(self.inputs, self.block.args, strict=True):
            set_name(argument, value.name)
            argument.location = _location(value.name)
            self.values[value.name] = argument
            example = inputs.get(value.name)
            self.known[argument] = example if example is not None and example.size <= _SMALL else None

    def run(self) -> ModuleOp:
        """Import every node; returns the module."""
        for node in self.model.graph.node:
            self._import_node(node)
        names = [value.name for value in self.model.graph.output]
        results = [self._value(name) for name in names]
        self.block.add_op(ReturnOp(*results))
        function = FuncOp(
            "main",
            FunctionType.from_lists(self.block.arg_types, [result.type for result in results]),
            Region(self.block),
            arg_attrs=ArrayAttr(map(self._argument_attributes, self.inputs)),
            res_attrs=ArrayAttr(DictionaryAttr({"mlopt.name": StringAttr(name)}) for name in names),
        )
        statistics = imported_statistics(self.model.graph, self._kinds())
        if statistics.traffic_bytes > _MAX_BYTES:
            raise InputError(
                f"the tensors of these shapes are too large: nodes would read and write {statistics.traffic_bytes} "
                "bytes",
                place=self.model.place(),
            )
        return ModuleOp([function], {"mlopt.imported": _statistics_attribute(statistics)})

    def _import_node(self, proto: NodeProto) -> None:
        operands = [self._value(name) if name else None for name in proto.input]
        results = self._import(proto, operands, self.opsets, self.used)
        self.values.update(_named_results(proto, results))

    def _import(
        self,
        proto: NodeProto,
        operands: Sequence[SSAValue | None],
        opsets: Mapping[str, int],
        used: Collection[str],
    ) -> Sequence[SSAValue | None]:
        """The results of a node, None for one that is not used.

        `opsets` and `used` (the names of values that anything reads) are those of the nodes around it.
        """
        domain = normal_domain(proto.domain)
        opset = opsets[domain]
        function = import_function(proto, opset, used)
        if function is None:
            types = [onnx_type(None if value is None else tensor_type(value.type)) for value in operands]
            body = definition(proto, domain, opset, types)
            if body is None:
                message = f"{proto.op_type}: its definition does not allow inputs of these types"
                raise self.error(proto, message, UnsupportedError)
            return self._import_definition(proto, body, operands, opsets)
        try:
            produced = function(Node(proto, operands, opset, self))
        except VerifyException as error:
            raise self.error(proto, f"{proto.op_type}: {first_sentence(error)}") from error
        return [produced] if isinstance(produced, SSAValue) else produced

    def _import_definition(
        self,
        proto: NodeProto,
        body: FunctionProto,
        operands: Sequence[SSAValue | None],
        opsets: Mapping[str, int],
    ) -> Sequence[SSAValue | None]:
        """The results of a node by the definition of its operator, whose nodes get its name as their location."""
        opsets, used = {**opsets, **opset_versions(body.opset_import)}, used_names(body)
        values: dict[str, SSAValue | None] = dict(zip(body.input, operands, strict=False))
        for inner in body.node:
            inner.name = node_name(proto)
            needed = [values.get(name) for name in inner.input]
            values.update(_named_results(inner, self._import(inner, needed, opsets, used)))
        return [values.get(name) for name in body.output]

    def _value(self, name: str) -> SSAValue:
        """The value of that ONNX name; an initializer becomes a constant when it is first asked for."""
        value = self.values.get(name)
        if value is None:
            tensor = self.initializers[name]
            span = self.model.spans.get(name)
            value = self.constant(tensor_array(tensor, self.model.path, self.model.place(), span), name, name)
            self.values[name] = value
        return value

    def _input_type(self, value: ValueInfoProto, shape: Sequence[int]) -> TensorType:
        dtype = input_dtype(value)
        try:
            return TensorType(from_numpy_dtype(dtype), shape)
        except UnsupportedError as error:
            message = f'input "{value.name}": element type {dtype} is not supported'
            raise UnsupportedError(message, place=self.model.place()) from error

    def _argument_attributes(self, value: ValueInfoProto) -> DictionaryAttr:
        """The name of an input, and its value if that decided something."""
        attributes: dict[str, Attribute] = {"mlopt.name": StringAttr(value.name)}
        argument = self.values[value.name]
        example = self.known[argument]
        if argument in self.decisive and example is not None:
            attributes["mlopt.value"] = array_to_dense(example)
        return DictionaryAttr(attributes)

    def _kinds(self) -> dict[str, TensorKind]:
        kinds: dict[str, TensorKind] = {}
        for name, value in self.values.items():
            type = tensor_type(value.type)
            kinds[name] = (to_numpy_dtype(type.element_type), type.get_shape())
        return kinds

    # What nodes ask for: see `node.Surroundings`.

    def insert(self, op: Operation, location: str) -> None:
        op.location = _location(location)
        self.block.add_op(op)

    def constant(self, array: np.ndarray, name: str, location: str) -> SSAValue:
        try:
            type = TensorType(from_numpy_dtype(array.dtype), array.shape)
        except UnsupportedError as error:
            message = f'constant "{name}": element type {array.dtype} is not supported'
            raise UnsupportedError(message, place=self.model.place()) from error
        if array.size <= _SMALL:
            op = ConstantOp(array_to_dense(np.asarray(array), type))
        else:
            op = ConstantOp(WeightAttr(self.ctx.weights.add(array, name)), type)
        self.insert(op, location)
        set_name(op.result, name)
        return op.result

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        return tensor_array(tensor, self.model.path, self.model.place())

    def error(self, node: NodeProto, message: str, kind: type[InputError] = InputError) -> MloptError:
        return kind(message, place=self.model.place(node))

    def known_value(self, value: SSAValue) -> np.ndarray | None:
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self.known:
                pending.pop()
                continue
            op = current.owner
            if isinstance(op, Block) or not (isinstance(op, ConstantOp) or _is_small(current)):
                self.known[current] = None
                continue
            needed = [operand for operand in _origins(op) if operand not in self.known]
            if needed:
                pending.extend(needed)
            else:
                self._evaluate(op)
        if self.known[value] is not None:
            self._decide_by(value)
        return self.known[value]

    def _decide_by(self, value: SSAValue) -> None:
        """Note that a known value, and so all that it is computed from, decided something about the module."""
        pending = [value]
        while pending:
            current = pending.pop()
            if current not in self.decisive:
                self.decisive.add(current)
                if isinstance(current.owner, Operation):
                    pending.extend(_origins(current.owner))

    def _evaluate(self, op: Operation) -> None:
        """Enter the results of `op`, whose operands have been entered, into `known`."""
        outcome: Sequence[np.ndarray | None] = [None] * len(op.results)
        match op:
            case ConstantOp(value=WeightAttr() as weight):
                outcome = [self.ctx.weights.get(weight.weight.data)]
            case ConstantOp(value=DenseIntOrFPElementsAttr() as dense):
                outcome = [dense_to_array(dense)]
            case ShapeOp():
                outcome = [np.array(op.dimensions(), np.int64)]
            case _:
                operands = [self.known[operand] for operand in op.operands]
                present = [operand for operand in operands if operand is not None]
                if len(present) == len(operands) and self.ctx.evaluator is not None:
                    outcome = self._run_evaluator(op, present) or outcome
        self.known.update(zip(op.results, outcome, strict=True))

    def _run_evaluator(self, op: Operation, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray] | None:
        assert self.ctx.evaluator is not None
        try:
            return self.ctx.evaluator(op, operands)
        except LookupError:
            return None


def _origins(op: Operation) -> Sequence[SSAValue]:
    """The operands whose values the results of `op` are computed from."""
    return () if isinstance(op, ShapeOp) else op.operands


def _is_small(value: SSAValue) -> bool:
    return tensor_type(value.type).element_count() <= _SMALL


def _named_results(proto: NodeProto, results: Sequence[SSAValue | None]) -> dict[str, SSAValue]:
    """The results of a node by their names, which they keep if they have none yet."""
    named = {
        name: value for name, value in zip(proto.output, results, strict=False) if name and value is not None
    }
    for name, value in named.items():
        if isinstance(value, OpResult) and value.name_hint is None:
            set_name(value, name)
    return named


def _location(name: str) -> LocationAttr:
    return NameLoc(StringAttr(name), NoneAttr())


def _statistics_attribute(statistics: ImportedStatistics) -> DictionaryAttr:
    def number(value: int) -> Attribute:
        return IntegerAttr(value, i64)

    return DictionaryAttr(
        {
            "ops": number(statistics.ops),
            "no_reuse_bytes": number(statistics.no_reuse_bytes),
            "max_live_bytes": number(statistics.max_live_bytes),
            "traffic_bytes": number(statistics.traffic_bytes),
            "by_name": DictionaryAttr({name: number(n) for name, n in statistics.by_name.items()}),
        }
    )
