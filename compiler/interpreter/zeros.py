"""Whether a value may be -0.0: `clip` takes it for 0.0, so that a lower bound of 0.0 needs a sum behind it.

A sum is -0.0 only if both operands are, so one with a constant operand that has no -0.0, such as most biases, is not.
"""

from __future__ import annotations

import numpy as np

from mlopt.interpreter.nodes import Compute, Leaf, Ref
from mlopt.interpreter.views import Slot, View


def may_be_negative_zero(ref: Ref) -> bool:
    """Whether an element of a floating-point value may be -0.0; True where nothing is known."""
    node = ref.node
    if isinstance(node, Compute) and node.function is np.add:
        return all(map(may_be_negative_zero, node.args))
    if isinstance(node, Leaf) and ref.dtype == node.dtype:
        return _holds_negative_zero(node.view)
    return True


def _holds_negative_zero(view: View) -> bool:
    """Whether memory holds a -0.0; that it may, if it can be written or is not there yet."""
    region = view.region
    if region.writable or region.data is None or isinstance(region, Slot):
        return True
    varying = [axis for axis, stride in enumerate(view.strides) if stride]
    elements = view.transposed(varying).array()
    return bool(np.any(np.signbit(elements) & (elements == 0)))
