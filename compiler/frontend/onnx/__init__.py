"""ONNX models to the graph level.

One file per operator family holds the import functions (`elementwise`, `matmul`, `convolution`, ...);
`registry` is the table they stand in, `importer` walks a graph, `node` is what an import function sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

# Importing an operator family enters its functions into the registry.
from mlopt.frontend.onnx import bounded_axes as _bounded_axes
from mlopt.frontend.onnx import bounded_sizes as _bounded_sizes
from mlopt.frontend.onnx import convolution as _convolution
from mlopt.frontend.onnx import elementwise as _elementwise
from mlopt.frontend.onnx import indexing as _indexing
from mlopt.frontend.onnx import matmul as _matmul
from mlopt.frontend.onnx import movement as _movement
from mlopt.frontend.onnx import normalization as _normalization
from mlopt.frontend.onnx import pooling as _pooling
from mlopt.frontend.onnx import reduction as _reduction
from mlopt.frontend.onnx import shape as _shape
from mlopt.frontend.onnx.importer import import_onnx
from mlopt.frontend.onnx.reader import read_model
from mlopt.frontend.onnx.registry import Unsupported, find_unsupported, load_on_demand, supported_operators
from mlopt.ir.context import CompilerContext

FAMILIES = (
    _convolution,
    _elementwise,
    _indexing,
    _matmul,
    _movement,
    _normalization,
    _pooling,
    _reduction,
    _shape,
)
"""The modules with import functions of operators that most models use."""

RARE_FAMILIES = (
    "along_axis",
    "attention",
    "contrib",
    "control_flow",
    "einsum",
    "fourier",
    "ngrams",
    "optional",
    "positions",
    "quantization",
    "recurrent",
    "resize",
    "rotary",
    "sampling",
    "scan",
    "scatter",
    "selection",
    "training",
    "transposed",
)
"""The other modules with import functions: loaded when an operator is not found in `FAMILIES`, or all are asked for."""

load_on_demand(f"{__name__}.{name}" for name in RARE_FAMILIES)

CARRIERS = (_bounded_axes, _bounded_sizes)
"""The modules with rules for values whose size depends on data, beside `bounded` itself."""


def import_model(
    source: str | Path | ModelProto,
    ctx: CompilerContext,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> ModuleOp:
    """A module at the graph level with the model as `func.func @main`, over tensors of static shape.

    - `source` is the path of an ONNX file, or a model in memory, which is not changed.
    - `ctx.weights` receives the constants of more than 64 elements, under the names of the initializers;
      `ctx.evaluator` is used to compute shapes.
    - `dims` gives symbolic dimensions their numbers: by the model's name for one, or as `INPUT.AXIS` for one
      without a name. The shapes of the arrays in `inputs` (name → example) do the same.
    - Where an operator needs a value at compile time (the shape of a Reshape) that is computed from inputs, it
      takes it from the values in `inputs`. The module then holds for these values only: such an argument has its
      value as `mlopt.value`, and a run with another one is refused.

    Arguments and results are the model's inputs and outputs in their order, with their exact names as
    `mlopt.name`; inputs that nothing uses stay. An initializer that is an input too is a default value: it is
    an argument if it is in `inputs`, a constant otherwise. Each operation has its node as location. The
    module's attribute `mlopt.imported` holds what the model costs as it stands (see `statistics`).

    `UnsupportedError` lists every kind of node that can't be imported, before anything else is done.
    `InputError` for a file that can't be read, a model that is malformed, and dimensions without a number or
    with two.
    """
    return import_onnx(source, ctx, dims or {}, inputs or {})


def default_inputs(source: str | Path | ModelProto) -> frozenset[str]:
    """The names of inputs that are initializers too: a caller may feed them, or leave them at their values."""
    graph = read_model(source).graph
    return frozenset(value.name for value in graph.input) & {tensor.name for tensor in graph.initializer}


__all__ = [
    "Unsupported",
    "default_inputs",
    "find_unsupported",
    "import_model",
    "read_model",
    "supported_operators",
]
