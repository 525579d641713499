"""All run-time functions by name. A new one is a class in the file of its family, and stands in `FUNCTIONS`."""

from __future__ import annotations

from mlopt.interpreter.runtime.base import RuntimeFunction
from mlopt.interpreter.runtime.determinant import Determinant
from mlopt.interpreter.runtime.roi_align import RoiAlign
from mlopt.interpreter.runtime.scan import Scan
from mlopt.interpreter.runtime.scatter import (
    CountedScatterElements,
    CountedScatterNd,
    ScatterElements,
    ScatterNd,
)
from mlopt.interpreter.runtime.selection import NonZero, RequireEqual
from mlopt.interpreter.runtime.suppression import NonMaxSuppression
from mlopt.interpreter.runtime.top_k import TopK
from mlopt.interpreter.runtime.unique import Unique

FUNCTIONS: tuple[type[RuntimeFunction], ...] = (
    CountedScatterElements,
    CountedScatterNd,
    Determinant,
    NonMaxSuppression,
    NonZero,
    RequireEqual,
    RoiAlign,
    Scan,
    ScatterElements,
    ScatterNd,
    TopK,
    Unique,
)

RUNTIME_FUNCTIONS: dict[str, type[RuntimeFunction]] = {function.NAME: function for function in FUNCTIONS}
"""Name → the class of its calls."""
