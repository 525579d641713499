"""Import of operators on optional values where these are tensors, or nothing; optional values proper are refused."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("OptionalHasElement", since=18)
def optional_has_element(node: Node) -> SSAValue:
    """A tensor is an element; an input that is left out has none."""
    return node.constant(np.array(node.optional(0) is not None))


@importer("OptionalGetElement", since=18)
def optional_get_element(node: Node) -> SSAValue:
    """A tensor is the element itself."""
    return node.operand(0)
