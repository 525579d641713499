"""From `@main` at the graph level to an ONNX model, operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import GraphProto, ModelProto, helper
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mlopt import __version__
from mlopt.diagnostics import InputError, UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, tensor_type
from mlopt.dialects.mlopt import WeightAttr
from mlopt.export.builder import Builder, Initializer, Value, element_of, shape_of, value_info
from mlopt.export.composites import export_composite
from mlopt.export.opsets import choose_opset
from mlopt.export.registry import EXPORTERS
from mlopt.export.types import tensor_proto
from mlopt.export.unsigned_activations import with_unsigned_activations
from mlopt.interface import argument_attributes, result_attributes
from mlopt.ir.dtypes import constant_array, to_numpy_dtype
from mlopt.ir.extents import Extent
from mlopt.ir.functions import find_main
from mlopt.ir.locations import place_of_op
from mlopt.ir.metadata import Metadata
from mlopt.weights import WeightStore


@dataclass(frozen=True)
class ExportedModel:
    """An ONNX model without its initializers, and these, whose elements are still where they were."""

    proto: ModelProto
    initializers: Sequence[Initializer]


def to_onnx(module: ModuleOp, weights: WeightStore, *, opset: int | None = None) -> ModelProto:
    """A module at the graph level as an ONNX model that holds its weights.

    - Inputs and outputs have the names of the interface (`mlopt.name`; `argN` and `resultN` without one) and its order.
    - Other values are named after the SSA values, nodes after the nodes in their locations, made unique.
    - The operator set is the oldest from `opsets.OLDEST` on that has all operators as they are written, or `opset`.
    - What the author of the model says of it is kept (`mlopt.metadata`): texts, domain, version and properties.
    - Activations in i8 are written as ui8, with the same numbers (`unsigned_activations`).
    - Shapes are numbers; the types of all results of operations are declared.

    `UnsupportedError` names an operation that has no ONNX form, or operators that `opset` lacks; `InputError` an
    interface that ONNX can't have, or an `opset` that is not written.
    """
    exported = export_graph(module, weights, opset)
    exported.proto.graph.initializer.extend(
        tensor_proto(initializer.array(), initializer.value.name) for initializer in exported.initializers
    )
    return exported.proto


def bound_inputs(module: ModuleOp) -> list[str]:
    """The inputs whose value decided something when the model was imported, so that it holds for no other."""
    main = _main(module)
    return [
        name
        for name, attributes in zip(
            _names(argument_attributes(main), "arg"), argument_attributes(main), strict=True
        )
        if "mlopt.value" in attributes
    ]


def export_graph(module: ModuleOp, weights: WeightStore, opset: int | None) -> ExportedModel:
    """See `to_onnx`; the initializers are apart."""
    written = with_unsigned_activations(module, weights)
    exported = _GraphExport(_main(written), weights).run(opset)
    _describe(exported.proto, Metadata.read(module))
    return exported


def _main(module: ModuleOp) -> FuncOp:
    main = find_main(module)
    if main is None:
        raise InputError("the module has no function @main", place=place_of_op(module))
    return main


class _GraphExport:
    """One export. Constants are added where they are first used."""

    def __init__(self, main: FuncOp, weights: WeightStore):
        self.main = main
        self.weights = weights
        self.builder = Builder(self._add_operation, weights)
        self.own = self.builder.own
        self.graph = GraphProto(name="main")
        self.constants: dict[tuple[Attribute, Attribute], Value] = {}

    def run(self, opset: int | None) -> ExportedModel:
        block = self.main.body.block
        returned = block.last_op
        results = returned.operands if isinstance(returned, ReturnOp) else ()
        outputs, extents = self._results(results)
        self._add_interface(block.args, outputs, extents)
        self.builder.block(block)
        self._add_copies(outputs, extents)
        initializers = self.builder.finish(self.graph)
        return ExportedModel(self._model(choose_opset(self.graph, self.builder.types, opset)), initializers)

    def _add_operation(self, op: Operation) -> None:
        if isinstance(op, graph.ConstantOp):
            self._add_constant(op)
            return
        if not self.builder.given.isdisjoint(op.results):
            return
        if isinstance(op, graph.TransposeOp | graph.ReshapeOp) and self._is_constant_moved(op):
            self._add_moved_constant(op)
            return
        exporter = EXPORTERS.get(type(op))
        if exporter is None:
            raise UnsupportedError(f"'{op.name}' has no form in ONNX", place=place_of_op(op))
        for result in op.results:
            self.builder.declare(result)
        if not export_composite(self.builder, op):
            exporter(self.builder, op)

    def _results(
        self, results: Sequence[SSAValue]
    ) -> tuple[dict[str, SSAValue], dict[str, tuple[int, SSAValue]]]:
        """The outputs by name, and for those that are cut the axis and their extent along it."""
        attributes = result_attributes(self.main)
        outputs: dict[str, SSAValue] = {}
        extents: dict[str, tuple[int, SSAValue]] = {}
        for name, entry, value in zip(_names(attributes, "result"), attributes, results, strict=True):
            extent = Extent.read(entry)
            if extent is None:
                outputs[name] = value
            else:
                extents[extent.of] = extent.axis, value
        return outputs, extents

    def _add_interface(
        self,
        arguments: Sequence[BlockArgument],
        outputs: Mapping[str, SSAValue],
        extents: Mapping[str, tuple[int, SSAValue]],
    ) -> None:
        """Declare inputs and outputs; `own` are the results of operations that have the name of an output."""
        attributes = argument_attributes(self.main)
        inputs = dict(zip(_names(attributes, "arg"), arguments, strict=True))
        for name in (*inputs, *outputs):
            if not name:
                raise InputError(
                    "an input or output has an empty name, which ONNX takes for none",
                    place=place_of_op(self.main),
                )
            self.builder.names.reserve(name)
        for (name, argument), given in zip(inputs.items(), attributes, strict=True):
            info = value_info(self.builder.declare(argument, name), shape_of(argument))
            if "mlopt.value" in given:
                info.doc_string = "The model holds for one value of this input: it decided shapes."
            self.graph.input.append(info)
        for name, value in outputs.items():
            if name in inputs and inputs[name] is not value:
                raise InputError(
                    f'"{name}" is the name of an input and of another output, which ONNX can\'t have',
                    place=place_of_op(self.main),
                )
            info = value_info(Value(name, element_of(value)), shape_of(value))
            if name in extents:
                info.type.tensor_type.shape.dim[extents[name][0]].dim_param = f"{name}_size"
            self.graph.output.append(info)
            if (
                name not in extents
                and not isinstance(value, BlockArgument)
                and not isinstance(value.owner, graph.ConstantOp)
            ):
                self.own.setdefault(value, name)

    def _add_constant(self, op: graph.ConstantOp) -> None:
        if not op.result.uses:
            return
        key = (op.value, op.result.type)
        if key not in self.constants:
            type = tensor_type(op.result.type)
            hint = op.value.weight.data if isinstance(op.value, WeightAttr) else op.result.name_hint
            value = Value(self.builder.names.unique(hint or "const"), type.element_type)
            nbytes = type.element_count() * to_numpy_dtype(type.element_type).itemsize
            attribute, weights = op.value, self.weights
            self.builder.initializers.append(
                Initializer(value, type.get_shape(), nbytes, lambda: constant_array(attribute, weights))
            )
            self.constants[key] = value
        self.builder.values[op.result] = self.constants[key]

    def _is_constant_moved(self, op: graph.TransposeOp | graph.ReshapeOp) -> bool:
        """Whether it moves the elements of a constant that is used in no other form."""
        source = op.input.owner
        return (
            isinstance(source, graph.ConstantOp)
            and op.result not in self.own
            and all(
                type(use.operation) is type(op)
                and use.operation.properties == op.properties
                and use.operation.results[0].type == op.result.type
                for use in source.result.uses
            )
        )

    def _add_moved_constant(self, op: graph.TransposeOp | graph.ReshapeOp) -> None:
        """The result becomes an initializer."""
        source = op.input.owner
        assert isinstance(source, graph.ConstantOp)
        permutation = op.permutation if isinstance(op, graph.TransposeOp) else range(rank_of(op.input))
        shape, attribute, weights = shape_of(op.result), source.value, self.weights

        def array() -> np.ndarray:
            return constant_array(attribute, weights).transpose(permutation).reshape(shape)

        constant = self.builder.values[op.input]
        value = Value(self.builder.names.unique(constant.name), constant.element)
        nbytes = prod(shape) * to_numpy_dtype(value.element).itemsize
        self.builder.initializers.append(Initializer(value, shape, nbytes, array))
        self.builder.values[op.result] = value

    def _add_copies(
        self, outputs: Mapping[str, SSAValue], extents: Mapping[str, tuple[int, SSAValue]]
    ) -> None:
        """Outputs that are cut; and those that are inputs, constants, or the same as another output."""
        for name, value in outputs.items():
            source = self.builder.value(value)
            if name in extents:
                axis, extent = extents[name]
                self.builder.cut(source, self.builder.value(extent), axis, name)
            elif source.name != name:
                self.builder.copy(source, name)

    def _model(self, opset: int) -> ModelProto:
        operators = helper.make_opsetid("", opset)
        return helper.make_model(
            self.graph,
            opset_imports=[operators],
            ir_version=helper.find_min_ir_version_for([operators]),
            producer_name="mlopt",
            producer_version=__version__,
        )


def _describe(model: ModelProto, metadata: Metadata) -> None:
    """Give a model its author's texts and properties; what mlopt says of an input goes before them."""
    model.doc_string, model.graph.doc_string = metadata.doc, metadata.graph_doc
    model.domain, model.model_version = metadata.domain, metadata.version
    helper.set_model_props(model, dict(metadata.properties))
    for values, texts in ((model.graph.input, metadata.inputs), (model.graph.output, metadata.outputs)):
        for value in values:
            value.doc_string = " ".join(filter(None, (value.doc_string, texts.get(value.name))))


def _names(entries: Sequence[dict[str, Attribute]], default: str) -> list[str]:
    names = [entry.get("mlopt.name") for entry in entries]
    return [
        name.data if isinstance(name, StringAttr) else f"{default}{index}" for index, name in enumerate(names)
    ]
