"""From an ONNX graph to a function at the graph level, node by node in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
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

from mlopt.diagnostics import Diagnostic, InputError, MloptError, Severity, UnsupportedError
from mlopt.dialects.graph.base import Tensor, tensor_type
from mlopt.dialects.graph.bounded import DATA_DEPENDENT
from mlopt.dialects.graph.constant import ConstantOp, ShapeOp
from mlopt.dialects.mlopt import WeightAttr
from mlopt.frontend.onnx import bounded
from mlopt.frontend.onnx.bounds import Bound
from mlopt.frontend.onnx.checks import type_fault
from mlopt.frontend.onnx.declarations import Contradiction, contradictions
from mlopt.frontend.onnx.dims import bind_shapes, has_symbolic_axes, input_dtype, typed_inputs
from mlopt.frontend.onnx.functions import definition, onnx_type, with_attributes
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.reader import (
    OnnxModel,
    inline_functions,
    node_name,
    normal_domain,
    opset_versions,
    read_model,
)
from mlopt.frontend.onnx.registry import import_function, node_faults, require_supported, used_names
from mlopt.frontend.onnx.scopes import Scope
from mlopt.frontend.onnx.statistics import ImportedStatistics, TensorKind, imported_statistics
from mlopt.frontend.onnx.tensors import tensor_array
from mlopt.frontend.onnx.weightless import Span
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import array_to_dense, dense_to_array, from_numpy_dtype, to_numpy_dtype
from mlopt.ir.extents import EXTENT, Extent
from mlopt.ir.metadata import Metadata
from mlopt.ir.names import set_name
from mlopt.ir.verifier import first_sentence

_MAX_BYTES = 2**62  # figures are 64-bit integers
_MAX_ELEMENTS = 2**58
"""What numpy can say the size of in bytes, for an array without elements too."""

_SMALL = 64
"""Elements: constants of no more stand in the IR, and computed values of no more are evaluated on demand."""

_MAX_INLINED = 1 << 16
"""Nodes of branches and bodies imported in place of their node: nested loops, trip by trip, could make any number."""

_MAX_FAILED_ATTEMPTS = 256
"""Nested branches and bodies that are tried in several ways could take exponential time."""

_T = TypeVar("_T")
_Import = TypeVar("_Import", bound="GraphImport")


@np.errstate(all="ignore")  # constants may be any numbers
def import_onnx(
    source: str | Path | ModelProto,
    ctx: CompilerContext,
    dims: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
) -> ModuleOp:
    """See `mlopt.frontend.onnx.import_model`."""
    return start_import(source, ctx, dims, inputs, GraphImport).run()


def start_import(
    source: str | Path | ModelProto,
    ctx: CompilerContext,
    dims: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    kind: type[_Import],
) -> _Import:
    """An import that has checked the model as a whole, and has not begun with its nodes."""
    model = read_model(source)
    require_supported(model.proto, model.place())
    fault = next(node_faults(model.proto), None)
    if fault is not None:
        raise InputError(fault.message, place=model.place(fault.node))
    model = inline_functions(model)
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise UnsupportedError(f'initializer "{name}" is sparse, which is not supported', place=model.place())
    return kind(model, ctx, dims, typed_inputs(model.graph.input, inputs))


class GraphImport:
    """One import. Values are known by their ONNX names; a constant is added to its own graph when it is first used."""

    def __init__(
        self,
        model: OnnxModel,
        ctx: CompilerContext,
        dims: Mapping[str, int],
        inputs: Mapping[str, np.ndarray],
    ):
        self.model = model
        self.ctx = ctx
        initializers = _initializers(model.graph)
        # Values that are known at compile time, and those of them that were asked for, with all they come from.
        self.known: dict[SSAValue, np.ndarray | None] = {}
        self.decisive: set[SSAValue] = set()
        # Values whose size depends on data.
        self.bounds: dict[SSAValue, Bound] = {}
        # The blocks of branches and bodies that an attempt has filled, which are let go if it fails.
        self.attempted: list[Block] = []
        self.failed_attempts = self.inlined = 0
        # An initializer that is also an input is a default: an input only if the caller feeds it.
        self.inputs = [
            value for value in model.graph.input if value.name not in initializers or value.name in inputs
        ]
        shapes = bind_shapes(model.graph.input, dims, inputs, model.place())
        # Functions of the model that are not inlined: they were written for other operator set versions than the model.
        self.functions = {(normal_domain(f.domain), f.name, f.overload): f for f in model.proto.functions}
        self.symbolic = has_symbolic_axes(model.graph.input)
        types = [self._input_type(value, shapes[value.name]) for value in self.inputs]
        self.main = Scope(Block(arg_types=types), model.opsets, used_names(model.graph), initializers)
        self.scope = self.main
        for value, argument in zip(self.inputs, self.main.block.args, strict=True):
            set_name(argument, value.name)
            argument.location = _location(value.name)
            self.main.values[value.name] = argument
            example = inputs.get(value.name)
            self.known[argument] = example if example is not None and example.size <= _SMALL else None

    def run(self) -> ModuleOp:
        """Import every node; returns the module."""
        results = self._import_nodes(self.model.graph)
        attributes: list[dict[str, Attribute]] = [
            {"mlopt.name": StringAttr(value.name)} for value in self.model.graph.output
        ]
        for value, result in zip(self.model.graph.output, tuple(results), strict=True):
            bound = self.bounds.get(result)
            if bound is not None:
                results.append(bound.extent)
                attributes.append({EXTENT: Extent(value.name, bound.axis).attribute})
        block = self.main.block
        block.add_op(ReturnOp(*results))
        function = FuncOp(
            "main",
            FunctionType.from_lists(block.arg_types, [result.type for result in results]),
            Region(block),
            arg_attrs=ArrayAttr(map(self._argument_attributes, self.inputs)),
            res_attrs=ArrayAttr(map(DictionaryAttr, attributes)),
        )
        statistics = imported_statistics(self.model.graph, self._kinds())
        if statistics.traffic_bytes > _MAX_BYTES:
            raise InputError(
                f"the tensors of these shapes are too large: nodes would read and write {statistics.traffic_bytes} "
                "bytes",
                place=self.model.place(),
            )
        attributes_of_module = _metadata(self.model.proto).attributes()
        return ModuleOp(
            [function], {**attributes_of_module, "mlopt.imported": _statistics_attribute(statistics)}
        )

    def _import_nodes(self, graph: GraphProto) -> list[SSAValue]:
        """Import a graph in the current scope; the values of its outputs."""
        for node in graph.node:
            self.import_one(node)
        results: list[SSAValue] = []
        for output in graph.output:
            value = self._value(output.name, None)
            assert value is not None  # only inputs of definitions may be left out
            results.append(value)
        self._check_declarations(graph)
        return results

    def import_one(self, node: NodeProto) -> None:
        """Import a node of the current scope, and enter its results there."""
        operands = [self._value(name, node) if name else None for name in node.input]
        domain = normal_domain(node.domain)
        fault = type_fault(node, domain, self.scope.opsets[domain], operands)
        if fault is not None:
            raise self.error(node, fault)
        self.scope.values.update(_named_results(node, self._import(node, operands)))

    def declaration_faults(self, graph: GraphProto) -> Iterator[InputError]:
        """An error for every value that a graph of the current scope declares otherwise than it is."""
        for found in self._contradictions(graph):
            if not self._is_stale(found):
                yield InputError(found.message, place=self.model.place(found.node))

    def _contradictions(self, graph: GraphProto) -> Iterator[Contradiction]:
        return contradictions(graph, self.scope.values, self.bounds, shapes=self.scope is self.main)

    def _is_stale(self, found: Contradiction) -> bool:
        return found.extents and self.symbolic

    def _check_declarations(self, graph: GraphProto) -> None:
        """Raise `InputError` if a graph declares a value otherwise than it is; see `declarations` for warnings."""
        for fault in self.declaration_faults(graph):
            raise fault
        stale = list(self._contradictions(graph))
        if stale:
            more = f" (and {len(stale) - 1} more such declarations)" if len(stale) > 1 else ""
            place = self.model.place(stale[0].node)
            self.ctx.warnings.append(Diagnostic(Severity.WARNING, f"{stale[0].message}{more}", place))

    def _import(self, proto: NodeProto, operands: Sequence[SSAValue | None]) -> Sequence[SSAValue | None]:
        """The results of a node, None for one that is not used."""
        domain = normal_domain(proto.domain)
        called = self.functions.get((domain, proto.op_type, proto.overload))
        if called is not None:
            return self.expand(proto, with_attributes(called, proto), operands)
        opset = self.scope.opsets[domain]
        function = import_function(proto, opset, self.scope.used)
        node = Node(proto, operands, opset, self)
        if function is None or (bounded.is_bounded(node) and not bounded.has_rule(node)):
            types = [onnx_type(None if value is None else tensor_type(value.type)) for value in operands]
            body = definition(proto, domain, opset, types)
            if body is not None:
                return self.expand(proto, body, operands)
            if function is None:
                message = f"{proto.op_type}: its definition does not allow inputs of these types"
                raise self.error(proto, message, UnsupportedError)
        try:
            produced = bounded.import_node(node, function)
        except VerifyException as error:
            raise self.error(proto, f"{proto.op_type}: {first_sentence(error)}") from error
        return [produced] if isinstance(produced, SSAValue) else produced

    @contextmanager
    def _inside(self, scope: Scope) -> Generator[None, None, None]:
        outer, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = outer

    def _value(self, name: str, node: NodeProto | None) -> SSAValue | None:
        """The value of that ONNX name, which `node` reads, from the innermost graph that has it.

        An initializer becomes a constant of its own graph when it is first asked for.
        """
        for scope in self.scope.outwards():
            if name in scope.values:
                return scope.values[name]
            if name in scope.initializers:
                span = self.model.spans.get(name) if scope is self.main else None
                array = self.tensor(scope.initializers[name], span)
                with self._inside(scope):
                    value = scope.values[name] = self.constant(array, name, name)
                return value
        raise InputError(f'uses the value "{name}", which is not defined there', place=self.model.place(node))

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
        argument = self.main.values[value.name]
        assert argument is not None
        example = self.known[argument]
        if argument in self.decisive and example is not None:
            attributes["mlopt.value"] = array_to_dense(example)
        return DictionaryAttr(attributes)

    def _kinds(self) -> dict[str, TensorKind]:
        kinds: dict[str, TensorKind] = {}
        for name, value in self.main.values.items():
            if value is None:
                continue
            type = tensor_type(value.type)
            kinds[name] = (to_numpy_dtype(type.element_type), type.get_shape())
        return kinds

    # What nodes ask for: see `node.Surroundings`.

    def insert(self, op: Operation, location: str, block: Block | None = None) -> None:
        for type in op.result_types:
            if isinstance(type, TensorType):
                _require_possible(cast(Tensor, type))
        op.location = _location(location)
        (self.scope.block if block is None else block).add_op(op)

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

    def subgraph(
        self, proto: NodeProto, graph: GraphProto, block: Block | None, arguments: Sequence[SSAValue]
    ) -> list[SSAValue]:
        if graph.sparse_initializer:
            message = f'"{graph.name}" has a sparse initializer, which is not supported'
            raise self.error(proto, message, UnsupportedError)
        around = self.scope
        used = used_names(graph)
        scope = Scope(block or around.block, around.opsets, used, _initializers(graph), around)
        scope.values.update(zip((value.name for value in graph.input), arguments, strict=True))
        if block is not None:
            self.attempted.append(block)
        else:
            self.inlined += len(graph.node)
        if self.inlined > _MAX_INLINED:
            message = f"branches and bodies make more than {_MAX_INLINED} nodes when each trip is imported"
            raise self.error(proto, message, UnsupportedError)
        with self._inside(scope):
            results = self._import_nodes(graph)
        for output, result in zip(graph.output, results, strict=True):
            if block is not None and result in self.bounds:
                message = f'"{output.name}" leaves a branch or a body, and its size depends on data'
                raise self.error(proto, message, UnsupportedError)
        return results

    def expand(
        self, proto: NodeProto, body: FunctionProto, operands: Sequence[SSAValue | None]
    ) -> Sequence[SSAValue | None]:
        opsets = {**self.scope.opsets, **opset_versions(body.opset_import)}
        scope = Scope(self.scope.block, opsets, used_names(body))
        scope.values.update(dict.fromkeys(body.input))
        scope.values.update(zip(body.input, operands, strict=False))
        with self._inside(scope):
            for inner in body.node:
                inner.name = node_name(proto)
                needed = [self._value(name, inner) if name else None for name in inner.input]
                scope.values.update(_named_results(inner, self._import(inner, needed)))
        return [scope.values.get(name) for name in body.output]

    def attempt(self, action: Callable[[], _T]) -> _T | MloptError:
        decisive, outer, self.attempted = set(self.decisive), self.attempted, []
        try:
            return action()
        except MloptError as error:
            self.failed_attempts += 1
            if self.failed_attempts > _MAX_FAILED_ATTEMPTS:
                raise
            self.decisive = decisive
            for block in self.attempted:
                block.drop_all_references()
            self.attempted = []
            return error
        finally:
            self.attempted = outer + self.attempted

    def tensor(self, tensor: TensorProto, span: Span | None = None) -> np.ndarray:
        return tensor_array(tensor, self.model.path, self.model.place(), self.model.files, span)

    def error(self, node: NodeProto, message: str, kind: type[InputError] = InputError) -> MloptError:
        return kind(message, place=self.model.place(node))

    def constant_value(self, value: SSAValue) -> np.ndarray | None:
        pending, seen = [value], {value}
        while pending:
            op = pending.pop().owner
            if isinstance(op, Block) or not (isinstance(op, ConstantOp) or _all_small(op)):
                return None
            new = [operand for operand in _origins(op) if operand not in seen]
            pending += new
            seen.update(new)
        return self.known_value(value)

    def known_value(self, value: SSAValue) -> np.ndarray | None:
        if self.is_known(value):
            self._decide_by(value)
        return self.known[value]

    def is_known(self, value: SSAValue) -> bool:
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
        return self.known[value] is not None

    def depends_on_data(self, value: SSAValue) -> bool:
        pending, seen = [value], {value}
        while pending:
            current = pending.pop()
            if current in self.bounds or isinstance(current.owner, DATA_DEPENDENT):
                return True
            if isinstance(current.owner, Operation) and _is_small(current):
                new = [operand for operand in _origins(current.owner) if operand not in seen]
                pending += new
                seen.update(new)
        return False

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
                outcome = [self.ctx.weights.view(weight.weight.data)]
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


def _require_possible(type: Tensor) -> None:
    """Raise `VerifyException` for a shape that no array can have, whatever an operator made it of."""
    shape = type.get_shape()
    if min(shape, default=0) < 0:
        raise VerifyException(f"expected extents of at least 0 for its result, found {list(shape)}")
    if prod(max(1, extent) for extent in shape) > _MAX_ELEMENTS:
        raise VerifyException(f"its result of shape {list(shape)} is larger than any memory")


def _origins(op: Operation) -> Sequence[SSAValue]:
    """The operands whose values the results of `op` are computed from."""
    return () if isinstance(op, ShapeOp) else op.operands


def _is_small(value: SSAValue) -> bool:
    is_tensor = isinstance(value.type, TensorType)
    return is_tensor and tensor_type(value.type).element_count() <= _SMALL


def _all_small(op: Operation) -> bool:
    return all(map(_is_small, op.results))


def _initializers(graph: GraphProto) -> dict[str, TensorProto]:
    return {tensor.name: tensor for tensor in graph.initializer}


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


def _metadata(model: ModelProto) -> Metadata:
    graph = model.graph
    inputs, outputs = (
        {value.name: value.doc_string for value in values if value.doc_string}
        for values in (graph.input, graph.output)
    )
    properties = {entry.key: entry.value for entry in model.metadata_props}
    return Metadata(
        model.doc_string, graph.doc_string, model.domain, model.model_version, properties, inputs, outputs
    )


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
