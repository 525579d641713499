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

from typing import TYPE_CHECKING

from mlopt.on_demand import defer_methods_of_dataclasses, names_on_demand

defer_methods_of_dataclasses("mlopt", "xdsl")  # before there is any

from mlopt.diagnostics import (  # noqa: E402
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
    from mlopt.ir.donations import Donation
    from mlopt.model import Model, compile
    from mlopt.options import CompileOptions
    from mlopt.passes.pipelines import PipelineOptions

__version__ = "0.1.0"

__all__ = [
    "CompileOptions",
    "Donation",
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

__getattr__ = names_on_demand(
    __name__,
    {
        "mlopt.ir.donations": ("Donation",),
        "mlopt.model": ("Model", "compile"),
        "mlopt.options": ("CompileOptions",),
        "mlopt.passes.pipelines": ("PipelineOptions",),
    },
)
