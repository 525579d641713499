"""Chains of ONNX nodes as exporters write them, and what passes make of them, against onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from mlopt.frontend.onnx import import_model
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.verifier import verify_module
from mlopt.passmanager import PassManager, parse_pipeline
from tests.frontend.onnx_models import context, model_of, run_onnxruntime, value_info

TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 4e-3, "bfloat16": 4e-2}
"""Parts of the largest number: some roundings of each type, all but the last of which a fused operation leaves out."""


@dataclass(frozen=True)
class Outcome:
    """The operations that are left but for constants, and the remarks of the last pass."""

    ops: Counter[str]
    passed: list[str]
    missed: list[str]


class Chain:
    """A model under construction: `chain("Mul", "x", 0.5)` adds a node and gives the name of its output.

    Operands are names, arrays (constants), or numbers, which are constants of rank 0 in the type of the first input.
    """

    def __init__(self, opset: int = 20, **inputs: np.ndarray):
        self.opset = opset
        self.inputs = inputs
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.dtype = next(iter(inputs.values())).dtype

    def __call__(self, op_type: str, *operands: Any, outputs: int = 1, **attributes: Any) -> Any:
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        results = [f"v{len(self.nodes)}" if i == 0 else f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, names, results, f"n{len(self.nodes)}", **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, value: Any) -> str:
        array = value if isinstance(value, np.ndarray) else np.asarray(value, self.dtype)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def ints(self, *values: int) -> np.ndarray:
        return np.array(values, np.int64)

    def mean(self, x: str, axes: Sequence[int] = (-1,), keepdims: int = 1) -> str:
        return self("ReduceMean", x, self.ints(*axes), keepdims=keepdims)

    def model(self, *outputs: str) -> onnx.ModelProto:
        infos = [value_info(name, array) for name, array in self.inputs.items()]
        return model_of(self.nodes, infos, outputs, self.constants, opset=self.opset)

    def check(self, *outputs: str, passes: str, rtol: float | None = None) -> Outcome:
        """Run the passes, and assert that the outputs are onnxruntime's: shapes, infinities, NaN and numbers."""
        model = self.model(*outputs)
        want = self._right(model)
        ctx = context()
        module = import_model(model, ctx)
        pipeline = f"builtin.module(fold-constants,canonicalize,cse,{passes},fold-constants,dce)"
        PassManager(ctx, parse_pipeline(pipeline)).run(module)
        verify_module(module)
        got = evaluate_module(module, dict(self.inputs), ctx.weights)
        for name, right in want.items():
            _assert_same(got[name], right, TOLERANCE[str(self.dtype)] if rtol is None else rtol)
        names = (op.name.removeprefix("graph.") for op in module.walk() if op.name.startswith("graph."))
        last = passes.rpartition(",")[2]
        remarks = [remark for remark in ctx.remarks if remark.pass_name == last]
        return Outcome(
            Counter(name for name in names if name != "constant"),
            [remark.message for remark in remarks if remark.kind == "passed"],
            [remark.message for remark in remarks if remark.kind == "missed"],
        )

    def _right(self, model: onnx.ModelProto) -> dict[str, np.ndarray]:
        """Of bf16 and f64, in which onnxruntime lacks functions, the evaluation of the module as imported."""
        if self.dtype not in (ml_dtypes.bfloat16, np.float64):
            return run_onnxruntime(model, self.inputs)
        ctx = context()
        module = import_model(model, ctx)
        return evaluate_module(module, dict(self.inputs), ctx.weights)


def _assert_same(got: np.ndarray, want: np.ndarray, rtol: float) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    wide, right = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(right)
    largest = np.abs(right[finite]).max(initial=0.0)
    np.testing.assert_array_equal(np.isfinite(wide), finite)
    np.testing.assert_array_equal(wide[~finite], right[~finite])
    np.testing.assert_allclose(wide[finite], right[finite], rtol=0, atol=rtol * largest)


def cast(dtype: Any) -> int:
    """The ONNX number of a type, for the attribute `to` of a Cast."""
    return (
        TensorProto.BFLOAT16
        if dtype == ml_dtypes.bfloat16
        else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )
