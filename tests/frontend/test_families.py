"""Families of operators that are loaded only when a model needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from mlopt.frontend.onnx import FAMILIES, registry, supported_operators
from tests.small_models import classifier

COUNT = """
import sys
from mlopt.compilation import load_model
from mlopt.options import CompileOptions
load_model(sys.argv[1], CompileOptions(dims={"batch": 2}))
from mlopt.frontend.onnx import RARE_FAMILIES
print([name for name in RARE_FAMILIES if f"mlopt.frontend.onnx.{name}" in sys.modules])
"""


def _loaded_by(model: onnx.ModelProto, path: Path) -> str:
    """The rare families that are there after the import of a model, in a process of its own."""
    onnx.save(model, path)
    done = subprocess.run(
        [sys.executable, "-c", COUNT, path], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def test_a_model_without_rare_operators_loads_no_rare_family(tmp_path: Path) -> None:
    assert _loaded_by(classifier(), tmp_path / "m.onnx") == "[]"


def test_a_rare_operator_is_found(tmp_path: Path) -> None:
    model = classifier()
    (node,) = [node for node in model.graph.node if node.op_type == "Exp"]
    node.op_type = "CumSum"
    node.input.append("axis")
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "axis"))
    assert "along_axis" in _loaded_by(model, tmp_path / "m.onnx")


def test_the_newest_form_of_an_operator_is_loaded_first() -> None:
    """Else the older one would be taken for it as long as the rare family is not there."""
    assert any(supported_operators())  # which loads all
    first = {family.__name__ for family in FAMILIES}
    for operator, forms in registry._forms.items():  # pyright: ignore[reportPrivateUsage] - no one else asks for these
        early = [form.function.__module__ in first for form in forms]
        assert early == sorted(early), operator
