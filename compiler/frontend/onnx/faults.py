"""Every fault that an import meets, not only the first: behind a node that fails, the model's declarations go on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from xdsl.dialects.builtin import TensorType

from mlopt.diagnostics import MloptError
from mlopt.dialects.graph.base import tensor_type
from mlopt.frontend.onnx.dims import input_dtype
from mlopt.frontend.onnx.importer import GraphImport, start_import
from mlopt.frontend.onnx.structure import names_read
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import from_numpy_dtype


def find_import_faults(
    source: str | Path | ModelProto,
    ctx: CompilerContext,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> list[MloptError]:
    """The errors of all nodes that can be looked at, in the order of the file; the arguments are `import_model`'s.

    What a failed node defines has the type that the model declares for it. Where it declares none, nothing is said of
    the nodes that read it. Nothing is found if the model can't be imported at all, for unsupported operators and such.
    """
    try:
        finder = start_import(source, ctx, dims or {}, inputs or {}, _FaultFinder)
    except MloptError:
        return []
    return finder.find()


class _FaultFinder(GraphImport):
    """An import that notes the errors of the main graph's nodes and goes on. What it makes is of no use."""

    faults: list[MloptError]
    missing: set[str]
    """Values of which nothing is known."""

    @np.errstate(all="ignore")
    def find(self) -> list[MloptError]:
        """The errors, each once."""
        self.faults, self.missing = [], set()
        for node in self.model.graph.node:
            self.import_one(node)
        self.faults += self.declaration_faults(self.model.graph)
        return list({str(fault): fault for fault in self.faults}.values())

    def import_one(self, node: NodeProto) -> None:
        if self.scope is not self.main:
            super().import_one(node)
            return
        if self.missing.isdisjoint(names_read(node)):
            try:
                super().import_one(node)
                return
            except MloptError as error:
                self.faults.append(error)
        self._stand_in(node)

    def _stand_in(self, node: NodeProto) -> None:
        """Arguments of the function stand for the results of a node, where their types are declared."""
        graph = self.model.graph
        declared = {value.name: value for value in (*graph.value_info, *graph.output)}
        for name in filter(None, node.output):
            type = self._declared_type(declared.get(name))
            if type is None:
                self.missing.add(name)
                continue
            block = self.main.block
            argument = block.insert_arg(type, len(block.args))
            self.known[argument] = None
            self.main.values[name] = argument

    def _declared_type(self, value: ValueInfoProto | None) -> TensorType | None:
        if value is None or not value.type.tensor_type.HasField("shape"):
            return None
        tensor = value.type.tensor_type
        if tensor.elem_type in (TensorProto.UNDEFINED, TensorProto.STRING):
            return None
        symbols = self._symbols()
        shape = [
            dim.dim_value if dim.HasField("dim_value") else symbols.get(dim.dim_param)
            for dim in tensor.shape.dim
        ]
        extents = [extent for extent in shape if extent is not None and extent >= 0]
        if len(extents) < len(shape):
            return None
        try:
            return TensorType(from_numpy_dtype(input_dtype(value)), extents)
        except (MloptError, KeyError):  # an element type that no tensor has here
            return None

    def _symbols(self) -> dict[str, int]:
        """The numbers of the dimensions that the inputs' declarations name."""
        numbers: dict[str, int] = {}
        for value, argument in zip(self.inputs, self.main.block.args, strict=False):
            extents = tensor_type(argument.type).get_shape()
            dims = value.type.tensor_type.shape.dim
            numbers.update({dim.dim_param: extent for dim, extent in zip(dims, extents, strict=False)})
        for unknown in ("", "?"):
            numbers.pop(unknown, None)
        return numbers
