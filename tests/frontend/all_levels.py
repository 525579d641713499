"""One ONNX model at all levels: the importer's text, the reference evaluations, the engine, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import parser

import mlopt
from mlopt.frontend.onnx import import_model
from mlopt.interpreter import graph, kernel
from mlopt.ir.parser import parse_module
from mlopt.ir.printer import print_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from tests.frontend.onnx_models import assert_close, context, run_onnxruntime
from tests.mlir_opt import check_with_mlir_opt

Arrays = Mapping[str, np.ndarray]

_AS_IMPORTED = mlopt.CompileOptions(
    pipeline=mlopt.PipelineOptions(optimize=False, memory_reuse="none"), poison=True
)
_OPTIMISED = mlopt.CompileOptions(poison=True)


def model_from(text: str, opset: int = 18) -> onnx.ModelProto:
    """A model in ONNX's own text, from its graph on."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def check_all_levels(
    model: onnx.ModelProto,
    inputs: Arrays,
    want: Arrays | None = None,
    *,
    rtol: float = 1e-5,
    mlir: bool = True,
) -> mlopt.Model:
    """Compare the outputs of all levels, optimised and as imported, with `want`, else with onnxruntime.

    The text of the graph level is parsed again, the engine runs twice with poisoned memory and without scalar loops,
    and `mlir-opt` accepts the memref level (`mlir`; it takes a while). Returns the optimised model.
    """
    want = run_onnxruntime(model, inputs) if want is None else want
    ctx = context()
    module = import_model(model, ctx, inputs=inputs)
    verify_module(module)
    text = print_module(module)
    assert print_module(parse_module(text, make_context())) == text
    assert_close(graph.evaluate_module(module, inputs, ctx.weights), want, rtol)
    plain, optimised = (
        mlopt.compile(model, options=options, inputs=inputs) for options in (_AS_IMPORTED, _OPTIMISED)
    )
    for compiled in (plain, optimised):
        compilation = compiled.compilation
        at_kernel = kernel.evaluate_module(compilation.levels["kernel"], inputs, compilation.ctx.weights)
        assert_close(at_kernel, want, rtol)
        first, second = compiled.run(inputs), compiled.run(inputs)
        assert_close(first, want, rtol)
        for name, array in first.items():
            np.testing.assert_array_equal(second[name], array)
        assert compiled.executable.scalar_loops == 0
        if mlir:
            check_with_mlir_opt(compiled.ir("memref"))
    return optimised
