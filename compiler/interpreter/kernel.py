"""The reference interpreter of the kernel level: what a kernel-level module computes, in plain numpy.

It is written for reading and is the oracle for every pass on this level: nothing is updated in place, and
contents that are undefined (`tensor.empty`) are poisoned so that a use of them shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Operation, SSAValue

from mlopt.diagnostics import InputError
from mlopt.dialects.kernel import (
    CallOp,
    ConstantOp,
    CopyOp,
    FillOp,
    LaunchOp,
    ReshapeOp,
    StructuredOp,
    tensor_type,
)
from mlopt.interpreter.blocks import BlockEvaluator, run_error
from mlopt.interpreter.element_types import require_known_integers
from mlopt.interpreter.runtime import BoundFunction, called_function
from mlopt.interpreter.scalar_ops import Array, poison
from mlopt.interpreter.structured_ops import evaluate_structured
from mlopt.ir.context import Entered
from mlopt.ir.donations import INPUT_PART, OUTPUT_PART, AxisPart, part_shape
from mlopt.ir.dtypes import dense_to_array, to_numpy_dtype
from mlopt.ir.extents import Extent, cut_outputs
from mlopt.ir.locations import place_of_op
from mlopt.weights import WeightStore
from mlopt.weights.sub_byte import extended


def evaluate_module(module: ModuleOp, inputs: Mapping[str, Array], weights: WeightStore) -> dict[str, Array]:
    """Evaluate `@main` of a kernel-level module.

    `inputs` are named by the `mlopt.name` of the arguments, or else `arg0`, `arg1`, ...; the results by
    theirs, or else `result0`, `result1`, ... Arrays have the shapes of the module and the dtypes of its
    interface: unsigned where `mlopt.dtype` says so, and parts where `mlopt.input_part` does. Outputs are cut to their
    parts and extents.

    `InputError` if the module has no `@main`, or an input is missing or does not fit; `UnsupportedError` for a call of
    a run-time function that is not there or takes other operands; `RunError` if an operation can't be evaluated or
    reads out of bounds.
    """
    main = next((op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == "main"), None)
    if main is None or not main.body.blocks:
        raise InputError("the module has no function @main")
    return evaluate_function(main, inputs, weights)


def evaluate_function(
    main: func.FuncOp,
    inputs: Mapping[str, Array],
    weights: WeightStore,
    *,
    disturb: Callable[[Array], Array] | None = None,
    entered: Entered | None = None,
) -> dict[str, Array]:
    """`evaluate_module` for a function of any name. A value is dropped after its last use.

    `disturb`, if given, is applied to every result of an operation, and `entered` is told of each block.
    """
    require_known_integers(main)
    block = main.body.block
    values: dict[SSAValue, Array] = {}
    for i, (arg, attributes) in enumerate(
        zip(block.args, _interface(main.arg_attrs, len(block.args)), strict=True)
    ):
        values[arg] = _input(arg, _text(attributes, "mlopt.name") or f"arg{i}", attributes, inputs)
    with np.errstate(all="ignore"):  # overflow, NaN and division by zero have results
        results = _Evaluator(weights, disturb, entered).evaluate_block(block, values, owned=True)
    named: dict[str, Array] = {}
    extents: dict[Extent, int] = {}
    for i, (result, attributes) in enumerate(
        zip(results, _interface(main.res_attrs, len(results)), strict=True)
    ):
        extent = Extent.read(attributes.data)
        if extent is not None:
            extents[extent] = int(result)
            continue
        part = AxisPart.read(attributes.data, OUTPUT_PART)
        named[_text(attributes, "mlopt.name") or f"result{i}"] = (
            result if part is None else part.of(result)
        ).view(_interface_dtype(result.dtype, attributes))
    return cut_outputs(named, extents)


# The interface of @main


def _interface(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> Sequence[DictionaryAttr]:
    """One dictionary per argument or result."""
    return [DictionaryAttr({})] * count if attributes is None else attributes.data


def _text(attributes: DictionaryAttr, key: str) -> str | None:
    value = attributes.data.get(key)
    return value.data if isinstance(value, StringAttr) else None


def _interface_dtype(dtype: np.dtype[Any], attributes: DictionaryAttr) -> np.dtype[Any]:
    """The dtype that the model's user sees: `mlopt.dtype` where it is given."""
    text = _text(attributes, "mlopt.dtype")
    return dtype if text is None else np.dtype(text)


def _input(arg: SSAValue, name: str, attributes: DictionaryAttr, inputs: Mapping[str, Array]) -> Array:
    if name not in inputs:
        raise InputError(f"input '{name}' is missing")
    type, array = tensor_type(arg), inputs[name]
    dtype, part = to_numpy_dtype(type.element_type), AxisPart.read(attributes.data, INPUT_PART)
    expected, shape = _interface_dtype(dtype, attributes), part_shape(type.get_shape(), part)
    if array.shape != shape or array.dtype != expected:
        raise InputError(
            f"input '{name}': expected {expected}{list(shape)}, found {array.dtype}{list(array.shape)}"
        )
    if part is None:
        return extended(array).view(dtype)
    whole = poison(type.get_shape(), dtype)
    part.of(whole)[...] = extended(array).view(dtype)
    return whole


# Operations


class _Evaluator(BlockEvaluator):
    """Evaluates blocks of a kernel-level module; values of tensors are arrays that are never written to."""

    def __init__(
        self,
        weights: WeightStore,
        disturb: Callable[[Array], Array] | None = None,
        entered: Entered | None = None,
    ):
        super().__init__(disturb, entered)
        self._weights = weights

    def evaluate(self, op: Operation, values: dict[SSAValue, Array]) -> Sequence[Array]:
        match op:
            case StructuredOp():
                return evaluate_structured(op, values)
            case LaunchOp():
                arguments = [values[operand] for operand in op.operands]
                inside: dict[SSAValue, Array] = dict(zip(op.body.args, arguments, strict=True))
                return self.evaluate_block(op.body, inside, owned=True)
            case FillOp():
                return [np.full_like(values[op.init], values[op.value])]
            case CopyOp():
                return [values[op.source].copy()]
            case ReshapeOp():
                return [values[op.source].reshape(tensor_type(op.result).get_shape())]
            case ConstantOp():
                return [self._constant(op)]
            case CallOp():
                return _call(op, values)
            case _:
                return super().evaluate(op, values)

    def _constant(self, op: ConstantOp) -> Array:
        if isinstance(op.value, DenseIntOrFPElementsAttr):
            return dense_to_array(cast(DenseIntOrFPElementsAttr[Any], op.value))
        type, name = tensor_type(op.result), op.value.weight.data
        if name not in self._weights:
            raise run_error(op, f"weight '{name}' is not in the store")
        array, dtype = self._weights.get(name), to_numpy_dtype(type.element_type)
        if array.shape != type.get_shape() or array.dtype.itemsize != dtype.itemsize:
            raise run_error(op, f"weight '{name}' is {array.dtype}{list(array.shape)}, expected {type}")
        return array.view(dtype)


def _call(op: CallOp, values: Mapping[SSAValue, Array]) -> Sequence[Array]:
    """The outs after the function has run on copies of them, with scratch that holds no numbers."""
    function = called_function(op)
    ins = [np.ascontiguousarray(values[value]).reshape(values[value].shape) for value in op.ins]
    outs = [np.array(values[value], order="C") for value in op.outs]
    scratch = [poison(buffer.shape, buffer.dtype) for buffer in function.scratch()]
    BoundFunction(function, place_of_op(op))(*ins, *outs, *scratch)
    return outs
