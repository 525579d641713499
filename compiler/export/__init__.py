"""The graph level as an ONNX model in standard operators.

One file per operator family holds the exporters, as in `mlopt.dialects.graph`; `registry` is the table they stand in,
`builder` is what an exporter sees, `exporter` walks `@main`, `files` writes the model.
"""

from __future__ import annotations

# Importing an operator family enters its exporters into the registry.
from mlopt.export import along_axis as _along_axis
from mlopt.export import attention as _attention
from mlopt.export import binary as _binary
from mlopt.export import bounded as _bounded
from mlopt.export import channels_last as _channels_last
from mlopt.export import constant as _constant
from mlopt.export import contraction as _contraction
from mlopt.export import control_flow as _control_flow
from mlopt.export import indexing as _indexing
from mlopt.export import integer_products as _integer_products
from mlopt.export import movement as _movement
from mlopt.export import normalization as _normalization
from mlopt.export import pooling as _pooling
from mlopt.export import quantization as _quantization
from mlopt.export import recurrent as _recurrent
from mlopt.export import reduction as _reduction
from mlopt.export import resize as _resize
from mlopt.export import rotary as _rotary
from mlopt.export import sampling as _sampling
from mlopt.export import scalars as _scalars
from mlopt.export import scatter as _scatter
from mlopt.export import selection as _selection
from mlopt.export import transposed as _transposed
from mlopt.export import unary as _unary
from mlopt.export.exporter import bound_inputs, to_onnx
from mlopt.export.files import check_onnx_path, save_onnx
from mlopt.export.opsets import check_opset

FAMILIES = (
    _along_axis,
    _attention,
    _binary,
    _bounded,
    _channels_last,
    _constant,
    _contraction,
    _control_flow,
    _indexing,
    _integer_products,
    _movement,
    _normalization,
    _pooling,
    _quantization,
    _recurrent,
    _reduction,
    _resize,
    _rotary,
    _sampling,
    _scalars,
    _scatter,
    _selection,
    _transposed,
    _unary,
)
"""The modules with exporters."""

__all__ = ["bound_inputs", "check_onnx_path", "check_opset", "save_onnx", "to_onnx"]
