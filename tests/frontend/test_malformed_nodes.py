"""Nodes that no model should have: every operator answers with an error that names the node, or imports them.

What the operator's schema forbids is refused before its import function sees it (`test_checks.py`): the nodes here have
no more operands and attributes than the operator has, so that the functions themselves are tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import helper

from mlopt.diagnostics import MloptError
from mlopt.frontend.onnx import import_model, supported_operators
from tests.frontend.onnx_models import context, model_of, one_node, value_info


def has_schema(domain: str, op_type: str, version: int) -> bool:
    """Not the operators that onnxruntime adds to the standard domain: see `contrib`."""
    return any(
        schema.since_version <= version
        for schema in onnx.defs.get_all_schemas_with_history()
        if (schema.domain, schema.name) == (domain, op_type)
    )


OPERATORS = [form[1:] for form in supported_operators() if not form[0] and has_schema(*form)]
OPERANDS: dict[str, Mapping[str, np.ndarray]] = {
    "nothing": {},
    "scalars": {f"x{i}": np.array(1, np.float32) for i in range(5)},
    "integer scalars": {f"x{i}": np.array(1, np.int64) for i in range(5)},
    "integer lists": {f"x{i}": np.array([-1, 0, 7]) for i in range(5)},
    "empty": {f"x{i}": np.zeros((0, 2, 0), np.float32) for i in range(5)},
    "bools": {f"x{i}": np.ones((2, 3, 4), np.bool_) for i in range(5)},
    "complex": {f"x{i}": np.ones((2, 3, 4), np.complex64) for i in range(5)},
}
INTEGER_ATTRIBUTES = (
    "axis", "batch_dims", "blocksize", "dtype", "group", "k", "keepdims", "num_outputs", "p", "size", "start", "end",
    "to", "transA", "value_int",
)  # fmt: skip
LIST_ATTRIBUTES = (
    "axes", "dilations", "ends", "kernel_shape", "pads", "perm", "shape", "split", "starts", "strides",
)  # fmt: skip


def attempt(
    op_type: str, opset: int, operands: Mapping[str, np.ndarray], constant: bool, **attributes: Any
) -> None:
    """Import one node with those of the operands and attributes that it has; only an `MloptError` may come of it."""
    schema = onnx.defs.get_schema(op_type, opset, "")
    operands = dict(list(operands.items())[: schema.max_input])
    attributes = {name: value for name, value in attributes.items() if name in schema.attributes}
    inputs, constants = ({}, operands) if constant else (operands, {})
    model = one_node(op_type, inputs, constants, opset=opset, **attributes)
    try:
        import_model(model, context())
    except MloptError as error:
        assert "n" in str(error.place) or op_type in str(error)


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("constant", [False, True])
def test_operands_that_do_not_fit(operands: str, constant: bool):
    for op_type, opset in OPERATORS:
        attempt(op_type, opset, OPERANDS[operands], constant)
        attempt(op_type, opset, OPERANDS[operands], constant, axis=0, kernel_shape=[1], axes=[0], pads=[0, 0])


@pytest.mark.parametrize("number", [-(2**63), -5, 0, 823, 2**63 - 1])
def test_attributes_out_of_range(number: int):
    x = {f"x{i}": np.ones((1, 2, 3, 4), np.float32) for i in range(3)}
    for op_type, opset in OPERATORS:
        integers = dict.fromkeys(INTEGER_ATTRIBUTES, number)
        lists = {name: [number] * 4 for name in LIST_ATTRIBUTES}
        attempt(op_type, opset, x, False, **integers)
        attempt(op_type, opset, x, False, **lists, blocksize=1)
        attempt(op_type, opset, {**x, "x1": np.array([number] * 4)}, True, **integers)


def test_attributes_of_another_kind():
    x = {"x0": np.ones((1, 2, 3, 4), np.float32), "x1": np.ones((1, 2, 3, 4), np.float32)}
    names = (
        *INTEGER_ATTRIBUTES,
        *LIST_ATTRIBUTES,
        "alpha",
        "epsilon",
        "mode",
        "auto_pad",
        "value",
        "value_floats",
    )
    for op_type, opset in OPERATORS:
        attempt(op_type, opset, x, False, **dict.fromkeys(names, "text"))
        attempt(op_type, opset, x, False, **dict.fromkeys(names, 0.5))


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "message"),
    [
        ("Gemm", [(), (2, 2)], {"transB": 823}, "Gemm: expected a matrix as input 0"),
        (
            "Conv",
            [(1, 2, 8), (1, 2, 3, 3)],
            {},
            "Conv: expected an input of rank 3 or more and a weight of that rank",
        ),
        ("Add", [(2, 3), (4,)], {}, "Add: expected shapes that broadcast to one shape"),
        ("MatMul", [(2, 3), (4, 5)], {}, "MatMul: expected equal inner dimensions"),
        ("Transpose", [(2, 3)], {"perm": [0, 0]}, "Transpose: expected a permutation of 2 axes"),
        ("Concat", [(2, 3), (2, 4)], {"axis": 7}, "Concat: expected an axis in [-2, 2), found 7"),
        ("MaxPool", [(1, 1, 4, 4)], {}, 'MaxPool: expected an attribute "kernel_shape", found none'),
        ("Concat", [(2, 3)], {"axis": 0.5}, 'Concat: attribute "axis": expected int, found float'),
    ],
)
def test_the_error_names_node_and_operator(
    op_type: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], message: str
):
    inputs = {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
    with pytest.raises(MloptError) as error:
        import_model(one_node(op_type, inputs, **attributes), context())
    assert str(error.value.place) == 'node "n"' or str(error.value.place).endswith(': node "n"')
    assert message in str(error.value)


def test_a_node_without_a_name_is_named_after_its_output():
    node = helper.make_node("Add", ["x", "y"], ["sum"])
    infos = [value_info("x", np.ones(2, np.float32)), value_info("y", np.ones(3, np.float32))]
    with pytest.raises(MloptError) as error:
        import_model(model_of([node], infos, ["sum"]), context())
    assert error.value.place is not None
    assert error.value.place.node == "Add_sum"
