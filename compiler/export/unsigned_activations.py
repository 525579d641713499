"""Activations in i8 become ui8, before a model is exported.

onnxruntime does this itself for its x86 kernels, which want ui8 activations, and fails at it from operator set 21 on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.ir.dtypes import array_to_dense, constant_array
from mlopt.ir.names import copy_name
from mlopt.weights import WeightStore

_MIDDLE = 128
"""What turns i8 into ui8 in the same order."""


def with_unsigned_activations(module: ModuleOp, weights: WeightStore) -> ModuleOp:
    """dequantize(quantize(x, s, z : i8), s, z) -> dequantize(quantize(x, s, z + 128 : ui8), s, z + 128)

    In a copy of the module, if there are such. It is exact: what saturates at -128 and 127 does at 0 and 255, and a
    dequantize subtracts the zero point exactly. A quantize whose result has another user, or with a zero point that is
    not constant there or at a dequantize, stays as it is; so do constants, which are weights.
    """
    if not any(_readers(op) for op in module.walk()):
        return module
    copy = module.clone()
    for op in [*copy.walk()]:
        if isinstance(op, graph.QuantizeOp):
            _make_unsigned(op, _readers(op), weights)
    return copy


def _readers(op: Operation) -> Sequence[graph.DequantizeOp]:
    """The users of a quantize that can be made unsigned; none if it can't."""
    if not isinstance(op, graph.QuantizeOp) or tensor_type(op.result.type).element_type != i8:
        return []
    users = {use.operation: None for use in op.result.uses}
    readers = [user for user in users if isinstance(user, graph.DequantizeOp) and user.input is op.result]
    zero_points = [op.zero_point, *(reader.zero_point for reader in readers)]
    is_known = all(zero is None or isinstance(zero.owner, graph.ConstantOp) for zero in zero_points)
    return readers if is_known and len(readers) == len(users) else []


def _make_unsigned(op: graph.QuantizeOp, readers: Sequence[graph.DequantizeOp], weights: WeightStore) -> None:
    if not readers:
        return
    zero = _zero_point(op, weights)
    quantized = graph.QuantizeOp(op.input, op.scale, zero.result, IntegerType(8, Signedness.UNSIGNED))
    for reader in readers:
        own = _zero_point(reader, weights)
        _replace(reader, [own, graph.DequantizeOp(quantized.result, reader.scale, own.result)])
    _replace(op, [zero, quantized])


def _zero_point(op: graph.QuantizeOp | graph.DequantizeOp, weights: WeightStore) -> graph.ConstantOp:
    """The constant zero point as ui8; one that is left out has the shape of the scale."""
    zeros = np.zeros(shape_of(op.scale), np.int16)
    if op.zero_point is not None:
        assert isinstance(op.zero_point.owner, graph.ConstantOp)
        zeros = constant_array(op.zero_point.owner.value, weights).astype(np.int16)
    constant = graph.ConstantOp(array_to_dense((zeros + _MIDDLE).astype(np.uint8)))
    constant.result.name_hint = "zero_point"
    return constant


def _replace(op: Operation, operations: Sequence[Operation]) -> None:
    """Put operations in the place of `op`; the result of the last one is in the place of its result."""
    for new in operations:
        new.location = op.location
    copy_name(op.results[0], operations[-1].results[0])
    Rewriter.replace_op(op, operations)
