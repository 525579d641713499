"""The pass `convert-graph-to-kernel`: every graph op becomes one `kernel.launch` over structured ops."""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter

from mlopt.dialects.graph.base import GraphOp, Tensor, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.convert_graph_to_kernel import (
    attention as _attention,
)
from mlopt.passes.convert_graph_to_kernel import (
    constant as _constant,
)
from mlopt.passes.convert_graph_to_kernel import (
    contraction as _contraction,
)
from mlopt.passes.convert_graph_to_kernel import (
    elementwise as _elementwise,
)
from mlopt.passes.convert_graph_to_kernel import (
    indexing as _indexing,
)
from mlopt.passes.convert_graph_to_kernel import (
    movement as _movement,
)
from mlopt.passes.convert_graph_to_kernel import (
    normalization as _normalization,
)
from mlopt.passes.convert_graph_to_kernel import (
    pooling as _pooling,
)
from mlopt.passes.convert_graph_to_kernel import (
    reduction as _reduction,
)
from mlopt.passes.convert_graph_to_kernel.control_flow import fill_single_elements
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion
from mlopt.passes.convert_graph_to_kernel.scalars import signless, signless_type
from mlopt.passmanager import Condition, Pass, no_ops_of
from mlopt.passmanager.conditions import ABOVE_MEMREF

FAMILIES = (
    *(_attention, _constant, _contraction, _elementwise, _indexing, _movement, _normalization, _pooling),
    _reduction,
)
"""The modules that register the conversions of what most models have; the others are `conversion.RARE_FAMILIES`."""


class ConvertGraphToKernelPass(Pass):
    """Every graph op becomes one `kernel.launch` named after it, or a `kernel.reshape` or `kernel.constant`.

    1. Elementwise ops become a `kernel.map`; broadcasting is in the index maps, and constants that hold one number
       stand in the bodies as `arith.constant`.
    2. Movements (transpose, slice, split, expand, concat, pad) become maps that yield their input.
    3. Matrix products and convolutions become a `kernel.contract` into a filled destination; padding is a padded read.
    4. Reductions, pooling, softmax and normalizations become reduces and maps over row temporaries.
    5. Gathers become maps that load at computed indices.
    6. Unsigned integers become signless ones with unsigned ops, integers of 4 and 2 bits i8; the arguments and results
       of functions keep their type in `mlopt.dtype`.
    7. Windows that spread (transposed convolution) become one contraction or reduce per phase of the strides. Resize
       becomes a launch per axis; sampling at computed positions one that lays the image out in rows of channels, one
       that loads the rows, and a transpose.
    8. A recurrent layer becomes a loop over its steps, of ops that are converted likewise; attention becomes a launch
       for the scaled query, one for the scores behind their masks, one for the softmax, and one for the result.
    9. Control flow stays as it is; a scalar that becomes a tensor of one element (`tensor.from_elements`) is a fill.

    `UnsupportedError` for a form of an op that the kernel level can't say.
    """

    name = "convert-graph-to-kernel"
    requires: ClassVar = ABOVE_MEMREF
    ensures: ClassVar[tuple[Condition, ...]] = (no_ops_of("graph"),)

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        graph_ops = [inner for inner in op.walk() if isinstance(inner, GraphOp)]
        conversion = Conversion(ctx.weights)
        for graph_op in graph_ops:
            conversion.convert(graph_op)
        for other in op.walk():
            if not isinstance(other, GraphOp):
                _replace_operands(other, conversion)
        # With those that conversions put in.
        graph_ops = [inner for inner in op.walk() if isinstance(inner, GraphOp)]
        for graph_op in reversed(graph_ops):
            Rewriter.erase_op(graph_op)
        changed = fill_single_elements(op)
        return _make_signless(op) or changed or bool(graph_ops)


def _replace_operands(op: Operation, conversion: Conversion) -> None:
    for index, operand in enumerate(op.operands):
        value = conversion.value(operand)
        if value is not operand:
            op.operands[index] = value


def _make_signless(root: Operation) -> bool:
    """Give what is left of such tensors signless types, and functions the attributes that tell; True if changed."""
    functions = [op for op in root.walk() if isinstance(op, FuncOp)]
    for function in functions:
        _mark_interface(function)
    changed = False
    for op in root.walk():
        arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
        for value in (*op.results, *arguments):
            type = _changing_tensor(value.type)
            if type is not None:
                Rewriter.replace_value_with_new_type(value, signless_type(type))
                changed = True
    for function in functions:
        function.update_function_type()
    return changed


def _changing_tensor(type: Attribute) -> Tensor | None:
    """The type if it is a tensor of integers that are unsigned or narrower than a byte."""
    if not isinstance(type, TensorType):
        return None
    tensor = tensor_type(cast(Attribute, type))
    return tensor if signless(tensor.element_type) != tensor.element_type else None


def _mark_interface(op: FuncOp) -> None:
    """Keep the dtype of arguments and results whose type changes in `mlopt.dtype`."""
    op.arg_attrs = _marked(op.function_type.inputs.data, op.arg_attrs)
    op.res_attrs = _marked(op.function_type.outputs.data, op.res_attrs)


def _marked(
    types: tuple[Attribute, ...], attributes: ArrayAttr[DictionaryAttr] | None
) -> ArrayAttr[DictionaryAttr] | None:
    changing = [_changing_tensor(type) for type in types]
    if not any(changing):
        return attributes
    given = attributes.data if attributes is not None else [DictionaryAttr({})] * len(types)
    return ArrayAttr(
        DictionaryAttr({**old.data, "mlopt.dtype": StringAttr(to_numpy_dtype(type.element_type).name)})
        if type
        else old
        for type, old in zip(changing, given, strict=True)
    )
