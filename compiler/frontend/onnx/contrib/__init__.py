"""Operators of the domain com.microsoft, which onnxruntime's optimisers and quantisers put into models.

One file per family; each operator is taken apart into graph operations by the rule in its import function. Some stand
in the standard domain instead: LayerNormalization and SimplifiedLayerNormalization, of version 1 there. What an
operator has and the importer doesn't is refused by the name of its attribute, input or output.
"""

from __future__ import annotations

from mlopt.frontend.onnx.contrib import activations as _activations
from mlopt.frontend.onnx.contrib import attention as _attention
from mlopt.frontend.onnx.contrib import embedding as _embedding
from mlopt.frontend.onnx.contrib import grouped_attention as _grouped_attention
from mlopt.frontend.onnx.contrib import normalization as _normalization
from mlopt.frontend.onnx.contrib import packed as _packed
from mlopt.frontend.onnx.contrib import products as _products
from mlopt.frontend.onnx.contrib import quantized as _quantized
from mlopt.frontend.onnx.contrib import rotary as _rotary

FAMILIES = (
    _activations,
    _attention,
    _embedding,
    _grouped_attention,
    _normalization,
    _packed,
    _products,
    _quantized,
    _rotary,
)
"""The modules with import functions."""
