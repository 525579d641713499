"""Clip of infinities: a bound that is left out is the lowest or largest finite number, "numeric_limits::lowest()".

Up to opset 6 that is written as the default of an attribute, which is of single precision for all types. Right values
by hand; onnxruntime gives the same.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.all_levels import check_all_levels, model_from
from tests.frontend.onnx_models import assert_close, run_onnxruntime

TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16}
FORMS = {
    "Clip(x)": (None, None),
    "Clip(x, b)": (-1, None),
    "Clip(x, , b)": (None, -1),
    "Clip(x, b, b)": (-1, -1),
}


def _right(x: np.ndarray, low: float | None, high: float | None, limit: float) -> np.ndarray:
    """What lies outside of the bounds becomes the bound; NaN stays."""
    lowest, largest = -limit if low is None else low, limit if high is None else high
    wide = x.astype(np.float64)
    return np.where(np.isnan(wide), wide, np.clip(wide, lowest, largest)).astype(x.dtype)


@pytest.mark.parametrize("opset", [11, 12, 13, 18])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", TYPES)
def test_bounds_as_inputs(element: str, form: str, opset: int) -> None:
    dtype = np.dtype(TYPES[element])
    x = np.array([np.inf, -np.inf, np.nan, -2, 0, 3]).astype(dtype)
    model = model_from(f"g ({element}[6] x, {element} b) => ({element}[6] y) {{ y = {form} }}", opset)
    inputs = {"x": x, "b": np.array(-1, dtype)}
    want = {"y": _right(x, *FORMS[form], float(np.finfo(dtype).max))}
    if opset >= 12:  # before, onnxruntime has it for float alone
        assert_close(run_onnxruntime(model, inputs), want, 0)
    check_all_levels(model, inputs, want, rtol=0, mlir=False)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("held", [True, False])
def test_bounds_of_one_element(form: str, held: bool) -> None:
    x = np.array([[np.inf, -np.inf, np.nan, -2, 0, 3]], np.float32)
    given = " <float[1] b = {-1.0}>" if held else ""
    text = f"g (float[1,6] x{'' if held else ', float[1] b'}) => (float[1,6] y){given} {{ y = {form} }}"
    inputs = {"x": x} | ({} if held else {"b": np.array([-1], np.float32)})
    want = {"y": _right(x, *FORMS[form], float(np.finfo(np.float32).max))}
    assert_close(run_onnxruntime(model_from(text), inputs), want, 0)
    check_all_levels(model_from(text), inputs, want, rtol=0, mlir=False)


@pytest.mark.parametrize(
    "attributes, bounds", [("", (None, None)), ("<min=-1.0>", (-1, None)), ("<max=2.0>", (None, 2))]
)
@pytest.mark.parametrize("element", TYPES)
def test_bounds_as_attributes(
    element: str, attributes: str, bounds: tuple[float | None, float | None]
) -> None:
    dtype = np.dtype(TYPES[element])
    x = np.array([np.inf, -np.inf, np.nan, -2, 0, 3]).astype(dtype)
    limit = np.inf if element == "float16" else float(np.finfo(np.float32).max)
    want = {"y": _right(x, *bounds, limit)}
    model = model_from(f"g ({element}[6] x) => ({element}[6] y) {{ y = Clip{attributes}(x) }}", 6)
    check_all_levels(model, {"x": x}, want, rtol=0, mlir=False)
