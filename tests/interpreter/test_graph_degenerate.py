"""Every graph operation on numbers (rank 0) and on tensors without elements: refused when built, or all levels agree.

The operations are those of the table of exports, which has one or more of every kind. A size of the operands becomes 0
wherever it stands, or all operands become numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region
from xdsl.utils.exceptions import VerifyException

import mlopt
from mlopt.diagnostics import RunError
from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp, InferredOp
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.interpreter import graph as graph_interpreter
from mlopt.interpreter import kernel as kernel_interpreter
from mlopt.ir.printer import print_module
from mlopt.ir.verifier import verify_module
from mlopt.weights import WeightStore
from tests.export.test_operations import CASES, Case
from tests.graph_values import evaluate_checked, value_of
from tests.kernel_level import converted

Shape = tuple[int, ...]
Variant = tuple[ModuleOp, dict[str, np.ndarray]]
OPERATIONS = {
    case.op_type.name: [other for other in CASES if other.op_type is case.op_type] for case in CASES
}


def variants(case: Case) -> Iterator[Variant]:
    """What the verifier lets through of the operation with one size 0, and of the operation on numbers."""
    (op,) = (inner for inner in case.module.walk() if isinstance(inner, GraphOp))
    sizes = {size for operand in op.operands for size in shape_of(operand)} - {0}
    for size in sorted(sizes):
        yield from _variant(case, op, lambda old, size=size: _replaced(old, size), op.properties)
    # Lists of a number for each dimension are empty at rank 0; there are as many operands as before.
    properties = {
        name: DenseArrayBase.from_list(value.elt_type, [])
        if isinstance(value, DenseArrayBase) and name != "operandSegmentSizes"
        else value
        for name, value in op.properties.items()
    }
    yield from _variant(case, op, lambda _: (), properties)


def _replaced(shape: Shape, size: int) -> Shape:
    return tuple(0 if extent == size else extent for extent in shape)


def _variant(
    case: Case, op: GraphOp, shape: Callable[[Shape], Shape], properties: Mapping[str, Attribute]
) -> Iterator[Variant]:
    arrays = {
        name: np.resize(array, shape(array.shape)).astype(array.dtype) for name, array in case.inputs.items()
    }
    block = Block(arg_types=[_with_shape(operand.type, shape) for operand in op.operands])
    try:
        if isinstance(op, InferredOp):
            operands = [tensor_type(argument.type) for argument in block.args]
            results = list(type(op).infer(operands, properties))
        else:
            results = [_with_shape(result.type, shape) for result in op.results]
        made = type(op).create(operands=block.args, properties=dict(properties), result_types=results)
        made.verify()
    except VerifyException:
        return
    block.add_ops([made, ReturnOp(*made.results)])
    module = ModuleOp([FuncOp("main", (block.arg_types, made.result_types), Region(block))])
    verify_module(module)
    yield module, arrays


def _with_shape(type_: Attribute, shape: Callable[[Shape], Shape]) -> TensorType:
    tensor = tensor_type(type_)
    return TensorType(tensor.element_type, shape(tensor.get_shape()))


def agree(found: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> None:
    for name, array in want.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        if array.dtype.kind in "biu":
            np.testing.assert_array_equal(found[name], array)
        else:
            wide = (found[name].astype(np.float64), array.astype(np.float64))
            np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPERATIONS)
def test_all_levels_agree(name: str) -> None:
    """The evaluation has results of the inferred types, and the kernel level the same; once, the engine has too."""
    compiled = False
    for module, inputs in chain.from_iterable(map(variants, OPERATIONS[name])):
        try:
            want = graph_interpreter.evaluate_module(module, inputs)
        except RunError as error:
            # There is nothing to gather from.
            assert "expected indices in [0, 0)" in error.message or "bounds for 0 images" in error.message
            continue
        results = [value.type for op in module.walk() if isinstance(op, ReturnOp) for value in op.operands]
        for array, type_ in zip(want.values(), results, strict=True):
            assert array.shape == tensor_type(type_).get_shape()
        agree(kernel_interpreter.evaluate_module(converted(module), inputs, WeightStore()), want)
        if not compiled:
            agree(mlopt.compile(print_module(module)).run(inputs), want)
            compiled = True


def test_padding_a_number_leaves_it() -> None:
    op = graph.PadOp(value_of(np.array(2, np.float32)), [], [], FloatAttr(0.0, f32))
    assert evaluate_checked(op, np.array(2, np.float32)) == [np.float32(2)]


def test_most_operations_have_such_forms() -> None:
    """Only those that need several dimensions, none of which may be 0, are left out."""
    with_numbers = {
        name
        for name, cases in OPERATIONS.items()
        for module, _ in chain.from_iterable(map(variants, cases))
        if all(not argument.type.get_shape() for argument in _main(module).args)
    }
    assert {graph.PadOp.name, graph.SliceOp.name, graph.TransposeOp.name, graph.WhereOp.name} <= with_numbers


def _main(module: ModuleOp) -> Block:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function.body.block
