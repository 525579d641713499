"""Groups of operations that are one ONNX operator: what was taken apart, or written out, is put together.

`formula` says what a group looks like, `registry` holds the operators by the operation that a group ends at, and one
file per family enters its operators.
"""

from __future__ import annotations

# Importing a family enters its operators into the registry.
from mlopt.export.composites import activations as _activations
from mlopt.export.composites import movements as _movements
from mlopt.export.composites import normalization as _normalization
from mlopt.export.composites import positions as _positions
from mlopt.export.composites import reductions as _reductions
from mlopt.export.composites import sums as _sums
from mlopt.export.composites.registry import COMPOSITES, export_composite

FAMILIES = (_activations, _movements, _normalization, _positions, _reductions, _sums)
"""The modules with operators."""

__all__ = ["COMPOSITES", "export_composite"]
