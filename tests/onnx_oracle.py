"""onnxruntime with every graph optimisation off: the outside oracle of the numeric tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper


def run_node(
    op_type: str,
    inputs: Sequence[np.ndarray | None],
    *,
    outputs: int = 1,
    opset: int = 18,
    **attributes: object,
) -> list[np.ndarray]:
    """The outputs of one ONNX node for these inputs (None for an optional one that is left out)."""
    names = [f"x{index}" if value is not None else "" for index, value in enumerate(inputs)]
    node = helper.make_node(op_type, names, [f"y{index}" for index in range(outputs)], **attributes)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
        if value is not None
    ]
    results = [helper.make_empty_tensor_value_info(f"y{index}") for index in range(outputs)]
    graph = helper.make_graph([node], "one_node", values, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return run_model(model, {n: v for n, v in zip(names, inputs, strict=True) if v is not None})


def run_model(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], *, optimize: bool = False
) -> list[np.ndarray]:
    """The outputs of a model, in its order; with `optimize`, after the optimisations that are onnxruntime's default."""
    options = ort.SessionOptions()
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(value) for name, value in inputs.items()})
