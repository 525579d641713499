"""Evaluates one graph operation, or a whole module at graph level, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.diagnostics import InputError, RunError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.interpreter.blocks import BlockEvaluator

# Imported for what they register.
from mlopt.interpreter.graph import contraction as _contraction
from mlopt.interpreter.graph import elementwise as _elementwise
from mlopt.interpreter.graph import movement as _movement
from mlopt.interpreter.graph import normalization as _normalization
from mlopt.interpreter.graph import reduction as _reduction
from mlopt.interpreter.graph.registry import EVALUATIONS, Array
from mlopt.ir.context import Entered, Evaluated
from mlopt.ir.dtypes import constant_array, to_numpy_dtype
from mlopt.ir.extents import Extent, cut_outputs
from mlopt.ir.locations import place_of_op
from mlopt.weights import WeightStore

__all__ = ["FAMILIES", "evaluate", "evaluate_function", "evaluate_module"]

FAMILIES = (_contraction, _elementwise, _movement, _normalization, _reduction)
"""The modules that hold the evaluations of what most models have; the others are `registry.RARE_FAMILIES`."""


def evaluate(
    op: Operation, operands: Sequence[Array], weights: WeightStore | None = None
) -> tuple[Array, ...]:
    """The results of one graph operation for these operands.

    Operands have the shapes and dtypes of their types; absent optional ones are left out. Results have those
    of the result types and may be views of operands. `weights` holds what `graph.constant` names. Raises
    `LookupError` for an operation that is none of the graph dialect's, and `RunError` where the operation has
    no result (an index out of range).
    """
    if isinstance(op, graph.ConstantOp):
        return (constant_array(op.value, weights),)
    evaluation = EVALUATIONS.get(type(op))
    if evaluation is None:
        raise LookupError(f"'{op.name}' has no reference evaluation")
    with np.errstate(all="ignore"):
        results = evaluation(op, *operands)
    return tuple(map(np.asarray, results)) if isinstance(results, tuple) else (np.asarray(results),)


def evaluate_module(
    module: ModuleOp, inputs: Mapping[str, Array], weights: WeightStore | None = None
) -> dict[str, Array]:
    """The outputs of `@main` by name, for inputs by name. A value is dropped after its last use.

    Names are the `mlopt.name` attributes of arguments and results; where there is none, `argN` and `resultN`.
    Outputs are arrays of their own, cut to their extents. `InputError` if an input is missing, unknown or of the wrong
    shape or dtype; `RunError` for an operation that is not of the graph level.
    """
    return evaluate_function(main_function(module), inputs, weights)


def evaluate_function(
    main: FuncOp,
    inputs: Mapping[str, Array],
    weights: WeightStore | None = None,
    *,
    disturb: Callable[[Array], Array] | None = None,
    entered: Entered | None = None,
    evaluated: Evaluated | None = None,
) -> dict[str, Array]:
    """`evaluate_module` for a function of any name.

    `disturb`, if given, is applied to every result of an operation; `entered` is told of each block, and `evaluated` of
    each operation.
    """
    block = main.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, _arguments(main, inputs), strict=True))
    with np.errstate(all="ignore"):
        results = _Evaluator(weights, disturb, entered, evaluated).evaluate_block(block, values, owned=True)
    names = _names(main.res_attrs, "result", len(results))
    outputs: dict[str, Array] = {}
    extents: dict[Extent, int] = {}
    for name, attributes, value in zip(
        names, _attributes(main.res_attrs, len(results)), results, strict=True
    ):
        extent = Extent.read(attributes)
        if extent is None:
            outputs[name] = np.array(value)
        else:
            extents[extent] = int(value)
    return cut_outputs(outputs, extents)


_UPSTREAM = frozenset({"arith", "scf", "tensor"})
"""Dialects of control flow, its scalars, and the tensors that loops fill slice by slice."""


class _Evaluator(BlockEvaluator):
    """Evaluates blocks of a graph-level module."""

    def __init__(
        self,
        weights: WeightStore | None,
        disturb: Callable[[Array], Array] | None,
        entered: Entered | None,
        evaluated: Evaluated | None,
    ):
        super().__init__(disturb, entered, evaluated)
        self._weights = weights

    def evaluate(self, op: Operation, values: dict[SSAValue, Array]) -> Sequence[Array]:
        if isinstance(op, graph.GraphOp):
            return evaluate(op, [values[operand] for operand in op.operands], self._weights)
        if op.dialect_name() not in _UPSTREAM:
            raise RunError(f"'{op.name}' is no operation of the graph level", place=place_of_op(op))
        return super().evaluate(op, values)


def main_function(module: ModuleOp) -> FuncOp:
    """The function `@main`; `RunError` if there is none."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise RunError("the module has no function @main", place=place_of_op(module))


def _arguments(main: FuncOp, inputs: Mapping[str, Array]) -> list[Array]:
    arguments = main.body.block.args
    names = _names(main.arg_attrs, "arg", len(arguments))
    if unknown := inputs.keys() - set(names):
        raise InputError(f'expected the inputs {", ".join(names)}, found "{sorted(unknown)[0]}"')
    arrays: list[Array] = []
    for name, argument in zip(names, arguments, strict=True):
        if name not in inputs:
            raise InputError(f'expected an array for input "{name}", found none')
        array = np.asarray(inputs[name])
        _check_input(name, argument, array)
        arrays.append(array)
    return arrays


def _check_input(name: str, argument: SSAValue, array: Array) -> None:
    expected = tensor_type(argument.type)
    dtype = to_numpy_dtype(expected.element_type)
    if array.dtype != dtype or array.shape != expected.get_shape():
        wanted, found = f"{dtype}{list(expected.get_shape())}", f"{array.dtype}{list(array.shape)}"
        raise InputError(f'input "{name}": expected {wanted}, found {found}')


def _attributes(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[Mapping[str, Attribute]]:
    """The attributes of each argument or result."""
    return [{}] * count if attributes is None else [dictionary.data for dictionary in attributes]


def _names(attributes: ArrayAttr[DictionaryAttr] | None, default: str, count: int) -> list[str]:
    """The `mlopt.name` of each argument or result."""
    names = [dictionary.get("mlopt.name") for dictionary in _attributes(attributes, count)]
    return [
        name.data if isinstance(name, StringAttr) else f"{default}{index}" for index, name in enumerate(names)
    ]
