"""Every operator of ONNX that moves elements, with every element type that its schema allows, through all levels.

The right elements are numpy's: indexing is the same for all types.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

import mlopt
from mlopt import InputError, UnsupportedError
from tests.frontend.onnx_models import one_node
from tests.mlir_opt import check_with_mlir_opt

OPSET = 28
TYPES = [
    *(np.bool_, np.float16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4),
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
    *(ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn),
]


def matrix(dtype: type) -> np.ndarray:
    """Numbers of a 3x4 matrix; of complex numbers both parts."""
    numbers = np.array([1, 2, 4, 1, 0.5, 2, 1, 1, 2, 4, 1, 0.5])
    x = numbers.astype(np.float32).astype(dtype).reshape(3, 4)
    return x + np.array(1j, dtype) * x[::-1] if x.dtype.kind == "c" else x


def padded(x: np.ndarray, widths: list[tuple[int, int]], value: np.ndarray) -> np.ndarray:
    """The array inside a larger one of the value."""
    shape = [low + size + high for size, (low, high) in zip(x.shape, widths, strict=True)]
    result = np.full(shape, value, x.dtype)
    result[tuple(slice(low, low + size) for size, (low, _) in zip(x.shape, widths, strict=True))] = x
    return result


def cases(x: np.ndarray) -> list[tuple[str, list[np.ndarray], dict[str, Any], np.ndarray]]:
    """Operator, inputs, attributes, result; what is a view of `x` becomes an input of the model."""
    rows, one = np.array([2, 0]), x[0, 0].reshape(()).astype(x.dtype)
    chosen = np.array([True, False, True, False])
    blocks, pixels = x.reshape(1, 4, 1, 3), x.reshape(2, 2, 1, 1, 3).transpose(2, 3, 0, 4, 1)
    reversed_rows = [[0, 1, 2, 0], [1, 0, 1, 1], [2, 2, 0, 2]]
    return [
        ("Identity", [x], {}, x),
        ("Transpose", [x], {}, x.T),
        ("Reshape", [x, np.array([4, 3])], {}, x.reshape(4, 3)),
        ("Flatten", [x], {"axis": 0}, x.reshape(1, 12)),
        ("Squeeze", [x[None]], {}, x),
        ("Unsqueeze", [x, np.array([1])], {}, x[:, None]),
        ("Concat", [x, x[:1]], {"axis": 0}, x[[0, 1, 2, 0]]),
        ("Split", [x], {"axis": 0, "num_outputs": 3}, x[:1]),
        ("Slice", [x, np.array([2]), np.array([-9]), np.array([0]), np.array([-1])], {}, x[::-1]),
        ("Expand", [x, np.array([2, 3, 4])], {}, np.stack([x, x])),
        ("Tile", [x, np.array([2, 1])], {}, np.concatenate([x, x])),
        ("Gather", [x, rows], {}, x[rows]),
        ("GatherElements", [x, np.array([[0, 1, 2, 0]])], {}, x[[0, 1, 2, 0], [0, 1, 2, 3]][None]),
        ("GatherND", [x, np.array([[0, 1], [2, 3]])], {}, x[[0, 2], [1, 3]]),
        ("Where", [chosen, x, x[:1]], {}, np.where(chosen, x, x[:1])),
        ("Pad", [x, np.array([1, 0, 0, 2]), one], {}, padded(x, [(1, 0), (0, 2)], one)),
        ("Pad", [x, np.array([-1, 0, 0, 1]), one], {}, padded(x[1:], [(0, 0), (0, 1)], one)),
        ("Pad", [x, np.array([1, 0, 0, 1])], {"mode": "edge"}, x[[0, 0, 1, 2]][:, [0, 1, 2, 3, 3]]),
        ("CenterCropPad", [x, np.array([1, 2])], {}, x[1:2, 1:3]),
        ("DepthToSpace", [blocks], {"blocksize": 2}, pixels.reshape(1, 1, 2, 6)),
        ("ScatterND", [x, np.array([[1]]), x[:1]], {}, x[[0, 0, 2]]),
        ("ScatterElements", [x, np.array([[1, 1, 1, 1]]), x[:1]], {}, x[[0, 0, 2]]),
        ("TensorScatter", [x[None], x[None, :1], np.array([1])], {"axis": 1}, x[None, [0, 0, 2]]),
        ("ReverseSequence", [x, np.array([1, 2, 3, 1])], {}, x[reversed_rows, np.arange(4)]),
        ("Compress", [x, np.array([True, False, True])], {"axis": 0}, x[[0, 2]]),
        ("Constant", [], {"value": numpy_helper.from_array(x)}, x),
        ("ConstantOfShape", [np.array([2])], {"value": numpy_helper.from_array(one[None])}, np.array([one, one])),
        ("OneHot", [np.array([0, 1]), np.array(2), x[0, :2]], {}, x[0, [[1, 0], [0, 1]]]),
    ]  # fmt: skip


_VARIABLES = {"Where": "T", "Constant": "T", "ConstantOfShape": "T2", "OneHot": "T3"}
"""The type variable of the elements that are moved, where it is not that of the first input."""


def allowed(op_type: str, dtype: np.dtype) -> bool:
    """Whether the operator's schema has the element type."""
    schema = defs.get_schema(op_type, OPSET)
    variable = _VARIABLES.get(op_type) or schema.inputs[0].type_str
    (types,) = [c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable]
    return f"tensor({TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype)).lower()})" in types


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_moves(dtype: type) -> None:
    """One model with a node for each operator."""
    x = matrix(dtype)
    nodes: list[onnx.NodeProto] = []
    constants: list[TensorProto] = []
    given: dict[str, np.ndarray] = {}
    wants: dict[str, np.ndarray] = {}
    for number, (op_type, inputs, attributes, want) in enumerate(cases(x)):
        if not allowed(op_type, x.dtype):
            continue
        names = [f"{op_type}_{number}_{index}" for index in range(len(inputs))]
        for name, array in zip(names, inputs, strict=True):
            if np.shares_memory(array, x):
                given[name] = array
            else:
                constants.append(numpy_helper.from_array(array, name))
        outputs = [
            f"y{number}",
            *(f"{number}_{index}" for index in range(attributes.get("num_outputs", 1) - 1)),
        ]
        nodes.append(helper.make_node(op_type, names, outputs, **attributes))
        wants[f"y{number}"] = want
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    graph = helper.make_graph(
        nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in wants], constants
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model = mlopt.compile(proto)
    assert model.executable.scalar_loops == 0
    found = model.run(given)
    for name, want in wants.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, want.shape), name
        np.testing.assert_array_equal(found[name], want, err_msg=name)
    if dtype in (np.complex64, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4):
        check_with_mlir_opt(model.ir("memref"))


@pytest.mark.parametrize("dtype", [np.complex64, ml_dtypes.float8_e5m2])
def test_padding_with_nothing_said_is_with_0(dtype: type) -> None:
    x = matrix(dtype)
    given = {"x": x, "pads": np.array([0, 1, 2, 0])}
    (found,) = mlopt.compile(one_node("Pad", given, opset=25), inputs=given).run(given).values()
    np.testing.assert_array_equal(found, padded(x, [(0, 2), (1, 0)], np.array(0, dtype)))


def test_a_type_without_0_is_not_padded_with_it() -> None:
    given = {"x": matrix(ml_dtypes.float8_e8m0fnu), "pads": np.array([0, 1, 2, 0])}
    with pytest.raises(InputError, match="float8e8m0 has no 0 to pad with"):
        mlopt.compile(one_node("Pad", given, opset=25), inputs=given)


def test_complex_numbers_have_no_arithmetic_in_onnx() -> None:
    x = matrix(np.complex64)
    with pytest.raises(InputError, match=r'Add: input 0 "x": expected .* kinds of elements, found complex64'):
        mlopt.compile(one_node("Add", {"x": x, "z": x}))
    with pytest.raises(UnsupportedError, match="BitCast: from complex64 to float64 is not supported"):
        mlopt.compile(one_node("BitCast", {"x": x}, opset=26, to=TensorProto.DOUBLE))
