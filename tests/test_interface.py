"""What `@main` must be: every interface that no caller could use is refused before anything is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import mlopt

COPY = """
func.func @main({extra}%x: memref<8xi8> {{{x}}}, %y: memref<8xi8> {{{y}}}) {{
  memref.copy %x, %y : memref<8xi8> to memref<8xi8>
  return
}}
"""
X, Y = 'mlopt.input = "x"', 'mlopt.output = "y"'


def copy(x: str = X, y: str = Y, extra: str = "") -> str:
    return COPY.format(x=x, y=y, extra=extra)


TENSORS = """
func.func @main(%x: tensor<8xi8> {{mlopt.name = "x"{x}}}) -> (tensor<8xi8> {y}, tensor<8xi8> {z}) {{
  return %x, %x : tensor<8xi8>, tensor<8xi8>
}}
"""


def tensors(x: str = "", y: str = '{mlopt.name = "y"}', z: str = '{mlopt.name = "z"}') -> str:
    return TENSORS.format(x=x, y=y, z=z)


HUGE = """
func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
  %0 = graph.relu %x : tensor<{shape}xf32>
  return %0 : tensor<{shape}xf32>
}}
"""
MEMREF_RESULT = """
func.func @main(%x: memref<8xf32> {mlopt.input = "x"}) -> memref<8xf32> {
  return %x : memref<8xf32>
}
"""


def test_signs_at_the_interface() -> None:
    """The bytes are the same with either sign: 200 is -56."""
    x = np.array([200, 1, 2, 3, 4, 5, 6, 7], np.uint8)
    unsigned = mlopt.compile(copy(f'{X}, mlopt.dtype = "uint8"', f'{Y}, mlopt.dtype = "uint8"'))
    np.testing.assert_array_equal(unsigned.run({"x": x})["y"], x)
    mixed = mlopt.compile(copy(f'{X}, mlopt.dtype = "uint8"'))
    np.testing.assert_array_equal(mixed.run({"x": x})["y"], x.view(np.int8))


def test_an_input_and_an_output_may_share_a_name() -> None:
    assert list(mlopt.compile(tensors(y='{mlopt.name = "x"}')).run({"x": np.zeros(8, np.int8)})) == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "as the mlopt.dtype of")
            for dtype in ('"float64"', '"int8"', '"uint16"', '"banana"', '"object"', '""', "8 : i32")
            for text in (
                copy(x=f"{X}, mlopt.dtype = {dtype}"),
                copy(y=f"{Y}, mlopt.dtype = {dtype}"),
                tensors(x=f", mlopt.dtype = {dtype}"),
                tensors(y=f"{{mlopt.dtype = {dtype}}}"),
            )
        ),
        (copy(extra=f"%z: memref<8xi8> {{{X}}}, "), "two inputs 'x'"),
        (copy(extra=f"%z: memref<8xi8> {{{Y}}}, "), "two outputs 'y'"),
        (tensors(z='{mlopt.name = "y"}'), "two outputs 'y'"),
        (copy(x="mlopt.input = 1 : i32"), "expected a string as the name of an input"),
        (
            copy(extra="%a: memref<8xi8> {mlopt.arena}, %b: memref<8xi8> {mlopt.arena}, "),
            "expected one arena, found 2",
        ),
        (
            copy(extra="%a: memref<8xf32> {mlopt.arena}, "),
            "expected an arena of bytes (memref<Nxi8>), found memref<8xf32>",
        ),
        (MEMREF_RESULT, "found a memref as its result"),
        (HUGE.format(shape="99999999999x99999999999"), "is larger than any memory"),
        (HUGE.format(shape="99999999999999999999999999"), "is larger than any memory"),
    ],
)
def test_interfaces_that_no_caller_could_use(text: str, message: str) -> None:
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(text)
    assert message in error.value.message
    assert error.value.place is not None and error.value.place.line in (2, 3)
