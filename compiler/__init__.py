"""mlopt: a readable compiler for neural-network inference.

```python
import mlopt

model = mlopt.compile("model.onnx", dims={"batch": 1})
outputs = model.run({"pixels": x})
print(model.ir("kernel"))
```

Names load when first used, so that the command-line tools start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlopt.diagnostics import (
    InputError,
    MloptError,
    ParseFailure,
    PassFailure,
    PipelineError,
    RunError,
    UnsupportedError,
    VerifyFailure,
)

if TYPE_CHECKING:
    from mlopt.model import Model, compile
    from mlopt.options import CompileOptions
    from mlopt.passes.pipelines import PipelineOptions

__version__ = "0.1.0"

__all__ = [
    "CompileOptions",
    "InputError",
    "MloptError",
    "Model",
    "ParseFailure",
    "PassFailure",
    "PipelineError",
    "PipelineOptions",
    "RunError",
    "UnsupportedError",
    "VerifyFailure",
    "__version__",
    "compile",
]

_LAZY = {
    "CompileOptions": "mlopt.options",
    "Model": "mlopt.model",
    "PipelineOptions": "mlopt.passes.pipelines",
    "compile": "mlopt.model",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mlopt' has no attribute {name!r}")
