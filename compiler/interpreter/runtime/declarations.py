"""From the IR to run-time functions: what a `kernel.call` or a declaration with `mlopt.runtime` asks for.

A declaration states what it is by itself, so that no pass needs the table:

    func.func private @mlopt_rt_f(memref<4xf32>, memref<4xi64>, memref<64xi8>) -> () attributes {
      mlopt.runtime = "mlopt_rt_f", mlopt.parameters = {axis = 0 : i64}, mlopt.written = array<i64: 1>, mlopt.workspace}

`mlopt.written` holds the positions of the arguments that it writes; with `mlopt.workspace` the last argument is its
workspace. Here all that is held against the table: what a declaration says must be what the function does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mlopt.diagnostics import Place, UnsupportedError, VerifyFailure
from mlopt.dialects.kernel import CallOp
from mlopt.interpreter.runtime.base import PREFIX, Buffer, Parameter, RuntimeFunction
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.locations import place_of_op

RUNTIME, PARAMETERS = "mlopt.runtime", "mlopt.parameters"
WRITTEN, WORKSPACE = "mlopt.written", "mlopt.workspace"


def called_function(op: CallOp) -> RuntimeFunction:
    """The run-time function that a `kernel.call` calls; `UnsupportedError` if there is none that takes its operands."""
    types = [operand.type for operand in op.operands]
    function = _function(place_of_op(op), op.kernel_name.data, types, op.attributes)
    _require_counts(op, function, len(op.ins))
    return function


def declared_function(declaration: FuncOp, place: Place | None) -> RuntimeFunction:
    """The run-time function that a function without a body stands for; `place` is for errors.

    `UnsupportedError` if it is none, or not for these operands; `VerifyFailure` if what it says it writes is not what
    the function writes.
    """
    name = declaration.attributes.get(RUNTIME)
    if not isinstance(name, StringAttr):
        raise UnsupportedError(
            f'@{declaration.sym_name.data} is declared only, and no run-time function ({RUNTIME} = "{PREFIX}...")',
            place=place,
        )
    types = list(declaration.function_type.inputs)
    if WORKSPACE in declaration.attributes:
        workspace = types.pop() if types else None
        if not isinstance(workspace, MemRefType) or _buffer(cast(Attribute, workspace)).dtype != np.int8:
            raise VerifyFailure(
                f"expected a workspace of bytes (i8) as the last argument, found {workspace}",
                place=place,
            )
    parameters = declaration.attributes.get(PARAMETERS, DictionaryAttr({}))
    if not isinstance(parameters, DictionaryAttr):
        raise VerifyFailure(f"expected a dictionary for {PARAMETERS}, found {parameters}", place=place)
    function = _function(place, name.data, types, parameters.data)
    written = declaration.attributes.get(WRITTEN)
    expected = DenseArrayBase.from_list(i64, list(range(len(function.READS), len(types))))
    if written != expected or declaration.function_type.outputs.data:
        raise VerifyFailure(
            f"@{name.data} writes {_listed(function.WRITES)} and has no results: expected {WRITTEN} = {expected}, "
            f"found {written} and {len(declaration.function_type.outputs)} results",
            place=place,
        )
    return function


def _function(
    place: Place | None, name: str, types: Sequence[Attribute], attributes: Mapping[str, Attribute]
) -> RuntimeFunction:
    """The function of a name for operands of these types. The table is loaded here: most models call none."""
    from mlopt.interpreter.runtime.table import RUNTIME_FUNCTIONS

    found = RUNTIME_FUNCTIONS.get(name)
    if found is None:
        raise UnsupportedError(f"there is no run-time function '@{name}'", place=place)
    try:
        parameters = {key: _parameter(key, value) for key, value in attributes.items()}
        return found([_buffer(type) for type in types], parameters)
    except UnsupportedError as error:
        raise UnsupportedError(error.message, place=place) from None


def _require_counts(op: CallOp, function: RuntimeFunction, ins: int) -> None:
    if ins != len(function.READS):
        raise UnsupportedError(
            f"@{function.NAME}: expected {_listed(function.READS)} as ins and {_listed(function.WRITES)} as outs, "
            f"found {ins} and {len(op.outs)}",
            place=place_of_op(op),
        )


def _buffer(type: Attribute) -> Buffer:
    if isinstance(type, MemRefType | TensorType):
        shaped = cast(MemRefType[Attribute] | TensorType[Attribute], type)
        return Buffer(tuple(shaped.get_shape()), to_numpy_dtype(shaped.element_type))
    return Buffer((), to_numpy_dtype(type))


def _parameter(name: str, attribute: Attribute) -> Parameter:
    match attribute:
        case UnitAttr():
            return True
        case StringAttr():
            return attribute.data
        case IntegerAttr():
            return attribute.value.data
        case FloatAttr():
            return attribute.value.data
        case DenseArrayBase():
            return tuple(int(value) for value in cast(DenseArrayBase[Any], attribute).get_values())
        case _:
            raise UnsupportedError(f"the parameter '{name}' can't be {attribute}")


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names)) or "none"
