"""Constants between arrays and value attributes: small ones in the IR, large ones in the weight store, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr

from mlopt.diagnostics import ParseFailure, VerifyFailure
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir import make_context, parse_module
from mlopt.ir.dtypes import constant_array, constant_attr
from mlopt.weights import WeightStore


@pytest.mark.parametrize(
    "array",
    [
        np.array([np.inf, -np.inf, np.nan, -0.0, 2.0**24], np.float32),
        np.array([1.5, -0.0], ml_dtypes.bfloat16),
        np.array([65504, -np.inf], np.float16),
        np.array([[True, False]]),
        np.array([0, 255], np.uint8),
        np.array(-(2**63)),
        np.zeros((0, 3), np.float64),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_small_constants_stand_in_the_ir(array: np.ndarray) -> None:
    attribute = constant_attr(array, WeightStore(), "unused")
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    back = constant_array(attribute, None)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize(("size", "is_weight"), [(64, False), (65, True)])
def test_more_than_64_elements_are_a_weight(size: int, is_weight: bool) -> None:
    store = WeightStore()
    array = np.arange(size, dtype=np.float32)
    attribute = constant_attr(array, store, "w")
    assert (attribute == WeightAttr("w")) == is_weight
    np.testing.assert_array_equal(constant_array(attribute, store), array)


def test_equal_arrays_share_a_weight_and_names_stay_apart() -> None:
    store = WeightStore()
    array = np.arange(100)
    assert constant_attr(array, store, "a") == constant_attr(array.copy(), store, "b") == WeightAttr("a")
    assert constant_attr(array + 1, store, "a") != WeightAttr("a")


def test_a_weight_that_is_not_stored_and_an_attribute_that_is_no_value() -> None:
    with pytest.raises(VerifyFailure, match='expected a weight called "w"'):
        constant_array(WeightAttr("w"), WeightStore())
    with pytest.raises(VerifyFailure, match=r'expected dense<...> or #mlopt.weight<"...">, found "x"'):
        constant_array(StringAttr("x"), None)


@pytest.mark.parametrize("literal", ["1.0", '"0x0000803F"'])
def test_a_constant_that_is_larger_than_memory_is_an_error_at_its_place(literal: str) -> None:
    """A splat of 2^60 elements: one sentence, where the constant stands."""
    text = f"func.func @main() {{\n  %c = arith.constant dense<{literal}> : tensor<{2**30}x{2**30}xf32>\n  return\n}}"
    with pytest.raises(ParseFailure, match=f"out of memory: the constant has the {2**60} elements") as error:
        parse_module(text, make_context(), "big.mlir")
    assert error.value.place is not None and error.value.place.line == 2
