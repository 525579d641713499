"""Models of one node of com.microsoft, run in mlopt's reference evaluation and in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from mlopt.frontend.onnx import find_unsupported
from tests.frontend.onnx_models import assert_close, model_of, run_mlopt, value_info
from tests.onnx_oracle import run_model

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(17)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def node_model(
    op_type: str,
    *inputs: Any,
    outputs: str | Sequence[str] = "y",
    domain: str = MICROSOFT,
    opset: int = 17,
    **attributes: Any,
) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray]]:
    """A model of one node and its inputs, None for one that is left out, as "" is among the names of the outputs."""
    given = {f"x{index}": np.asarray(array) for index, array in enumerate(inputs) if array is not None}
    operands = [f"x{index}" if array is not None else "" for index, array in enumerate(inputs)]
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    node = helper.make_node(op_type, operands, names, "n", domain=domain, **attributes)
    infos = [value_info(*item) for item in given.items()]
    proto = model_of([node], infos, [name for name in names if name], opset=opset, domains={MICROSOFT: 1})
    return proto, given


def agree(op_type: str, *inputs: Any, rtol: float = 1e-5, **options: Any) -> None:
    """mlopt's result is onnxruntime's on one thread (with several, it quantizes the rows of a batch apart)."""
    proto, given = node_model(op_type, *inputs, **options)
    names = [output.name for output in proto.graph.output]
    want = dict(zip(names, run_model(proto, dict(given)), strict=True))
    assert_close(run_mlopt(proto, given), want, rtol=rtol)


def result(op_type: str, *inputs: Any, **options: Any) -> list[np.ndarray]:
    """mlopt's results."""
    proto, given = node_model(op_type, *inputs, **options)
    return list(run_mlopt(proto, given).values())


def refusal(op_type: str, *inputs: Any, **options: Any) -> str:
    """Why such a node is refused; it is."""
    proto, _ = node_model(op_type, *inputs, **options)
    (found,) = find_unsupported(proto)
    return found.reason
