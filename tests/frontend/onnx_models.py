"""Building small ONNX models, and running them in mlopt's reference evaluation and in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlopt.frontend.onnx import import_model
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module

Arrays = Mapping[str, np.ndarray]


def context() -> CompilerContext:
    """A context with the reference evaluation."""
    ctx = make_context()
    ctx.evaluator = evaluate
    return ctx


def value_info(name: str, array: np.ndarray, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    """The declaration of an input like `array`, with its shape unless another is given."""
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape if shape is None else shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Arrays | None = None,
    *,
    opset: int = 18,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model; the types of its outputs are left open."""
    graph = helper.make_graph(
        nodes,
        "test",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def one_node(
    op_type: str,
    inputs: Arrays,
    constants: Arrays | None = None,
    *,
    operands: Sequence[str] | None = None,
    outputs: int = 1,
    opset: int = 18,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; its operands are the inputs and then the constants, unless `operands` says otherwise."""
    names = [f"y{index}" for index in range(outputs)]
    operands = [*inputs, *(constants or {})] if operands is None else operands
    node = helper.make_node(op_type, operands, names, "n", **attributes)
    return model_of([node], [value_info(*item) for item in inputs.items()], names, constants, opset=opset)


def run_onnxruntime(model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
    """The outputs in onnxruntime with all optimisation off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def run_mlopt(model: onnx.ModelProto, inputs: Arrays, **dims: int) -> dict[str, np.ndarray]:
    """The outputs of the imported module in the reference evaluation; the module is verified."""
    ctx = context()
    module = import_model(model, ctx, dims=dims, inputs=inputs)
    verify_module(module)
    return evaluate_module(module, inputs, ctx.weights)


def assert_close(got: Arrays, want: Arrays, rtol: float = 1e-5) -> None:
    """Same names, dtypes, shapes; floats within `rtol` of the largest finite value, the rest equal."""
    assert list(got) == list(want)
    for name, right in want.items():
        assert (got[name].dtype, got[name].shape) == (right.dtype, right.shape), name
        if right.dtype.kind in "f":
            finite = np.abs(right[np.isfinite(right)])
            atol = rtol * float(finite.max(initial=0.0)) + 1e-12
            np.testing.assert_allclose(got[name], right, rtol=0, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], right, err_msg=name)


def main_function(module: ModuleOp) -> FuncOp:
    """The function of an imported module."""
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    return function


def operations(module: ModuleOp) -> list[Operation]:
    """The operations of an imported model, without constants and the return."""
    ops = main_function(module).body.block.ops
    return [op for op in ops if op.name not in ("graph.constant", "func.return")]
