"""Single numbers: as constants, and as attributes of an element type."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from mlopt.frontend.onnx.node import Node
from mlopt.ir.dtypes import to_numpy_dtype


def scalar(node: Node, number: float) -> SSAValue:
    """A constant of rank 0 and the first operand's type."""
    return node.constant(np.array(number).astype(to_numpy_dtype(node.type_of(0).element_type)))


def number_attribute(value: np.ndarray, element_type: Attribute) -> Attribute:
    """A rank-0 array as a number of `element_type`, which the value is converted to."""
    number = value.astype(to_numpy_dtype(element_type))[()]
    if isinstance(element_type, AnyFloat):
        return FloatAttr(float(number), element_type)
    return IntegerAttr(int(number), cast(IntegerType, element_type))
