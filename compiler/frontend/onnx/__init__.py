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
from mlopt.frontend.onnx import along_axis as _along_axis
from mlopt.frontend.onnx import attention as _attention
from mlopt.frontend.onnx import bounded_axes as _bounded_axes
from mlopt.frontend.onnx import bounded_sizes as _bounded_sizes
from mlopt.frontend.onnx import contrib as _contrib
from mlopt.frontend.onnx import control_flow as _control_flow
from mlopt.frontend.onnx import convolution as _convolution
from mlopt.frontend.onnx import einsum as _einsum
from mlopt.frontend.onnx import elementwise as _elementwise
from mlopt.frontend.onnx import fourier as _fourier
from mlopt.frontend.onnx import indexing as _indexing
from mlopt.frontend.onnx import matmul as _matmul
from mlopt.frontend.onnx import movement as _movement
from mlopt.frontend.onnx import ngrams as _ngrams
from mlopt.frontend.onnx import normalization as _normalization
from mlopt.frontend.onnx import optional as _optional
from mlopt.frontend.onnx import pooling as _pooling
from mlopt.frontend.onnx import positions as _positions
from mlopt.frontend.onnx import quantization as _quantization
from mlopt.frontend.onnx import recurrent as _recurrent
from mlopt.frontend.onnx import reduction as _reduction
from mlopt.frontend.onnx import resize as _resize
from mlopt.frontend.onnx import scan as _scan
from mlopt.frontend.onnx import scatter as _scatter
from mlopt.frontend.onnx import selection as _selection
from mlopt.frontend.onnx import shape as _shape
from mlopt.frontend.onnx import transposed as _transposed
from mlopt.frontend.onnx import training as _training
from mlopt.frontend.onnx.importer import import_onnx
from mlopt.frontend.onnx.reader import read_model
from mlopt.frontend.onnx.registry import Unsupported, find_unsupported, supported_operators
from mlopt.ir.context import CompilerContext

FAMILIES = (
    _along_axis,
    _attention,
    _contrib,
    _control_flow,
    _convolution,
    _einsum,
    _elementwise,
    _fourier,
    _indexing,
    _matmul,
    _movement,
    _ngrams,
    _normalization,
    _optional,
    _pooling,
    _positions,
    _quantization,
    _recurrent,
    _reduction,
    _resize,
    _scan,
    _scatter,
    _selection,
    _shape,
    _transposed,
    _training,
)
"""The modules with import functions."""

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
