"""All run-time functions by name. A new one is a class in the file of its family, and stands in `FUNCTIONS`."""

from __future__ import annotations

from mlopt.interpreter.runtime.base import RuntimeFunction
from mlopt.interpreter.runtime.determinant import Determinant
from mlopt.interpreter.runtime.scan import Scan
from mlopt.interpreter.runtime.scatter import ScatterElements, ScatterNd
from mlopt.interpreter.runtime.top_k import TopK

FUNCTIONS: tuple[type[RuntimeFunction], ...] = (Determinant, Scan, ScatterElements, ScatterNd, TopK)

RUNTIME_FUNCTIONS: dict[str, type[RuntimeFunction]] = {function.NAME: function for function in FUNCTIONS}
"""Name → the class of its calls."""
