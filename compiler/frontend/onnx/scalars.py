"""Single numbers as attributes of an element type."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute

from mlopt.dialects.graph.base import is_float
from mlopt.ir.dtypes import to_numpy_dtype


def number_attribute(value: np.ndarray, element_type: Attribute) -> Attribute:
    """A rank-0 array as a number of `element_type`, which the value is converted to."""
    number = value.astype(to_numpy_dtype(element_type))[()]
    if isinstance(element_type, AnyFloat) and is_float(element_type):
        return FloatAttr(float(number), element_type)
    return IntegerAttr(int(number), cast(IntegerType, element_type))
