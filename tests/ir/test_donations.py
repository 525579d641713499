"""Donations as text and as attributes, what is refused of them, and what plans may write because of them."""

from __future__ import annotations

import numpy as np
import pytest

import mlopt
from mlopt.ir import make_context, parse_module
from mlopt.ir.donations import Donation
from mlopt.passes.memref.verify_plan import verify_plan


@pytest.mark.parametrize(
    ("text", "donation"),
    [
        ("x", Donation("x")),
        ("x:0=y:0", Donation("x:0", "y:0")),
        ("x=y@12", Donation("x", "y", 12)),
        ("x=a=b", Donation("x", "a=b")),
    ],
)
def test_donations_as_text(text: str, donation: Donation) -> None:
    assert Donation.parse(text) == donation
    assert Donation.read("x", {"mlopt.donated": donation.attribute}) == donation._replace(input="x")


PART = "{{axis = {} : i64, offset = {} : i64, size = {} : i64}}"


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ('mlopt.donated = "y"', "", "expected mlopt.donated = {output = NAME, capacity = N}"),
        (
            "mlopt.donated = {capacity = 4 : i64}",
            "",
            "expected mlopt.donated = {output = NAME, capacity = N}",
        ),
        ('mlopt.donated = {output = "z"}', "", 'there is no output "z" to donate input "x" to; expected "y"'),
        ("mlopt.input_part = 1 : i64", "", "expected mlopt.input_part = {axis, offset, size} inside of"),
        (
            f"mlopt.input_part = {PART.format(1, 0, 1)}",
            "",
            "expected mlopt.input_part = {axis, offset, size} inside of",
        ),
        (
            f"mlopt.input_part = {PART.format(0, 5, 4)}",
            "",
            "expected mlopt.input_part = {axis, offset, size} inside of",
        ),
        (
            "",
            f"mlopt.output_part = {PART.format(0, -1, 4)}",
            "expected mlopt.output_part = {axis, offset, size}",
        ),
        ("", "mlopt.donated = {}", "expected mlopt.donated on an input, found it on a result"),
    ],
)
def test_attributes_that_say_nothing(x: str, y: str, message: str) -> None:
    text = f"""func.func @main(%x: tensor<8xf32> {{mlopt.name = "x"{", " if x else ""}{x}}})
    -> (tensor<8xf32> {{mlopt.name = "y"{", " if y else ""}{y}}}) {{
  return %x : tensor<8xf32>
}}
"""
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(text)
    assert message in error.value.message
    assert error.value.place is not None


def test_an_argument_that_is_input_and_output_is_donated() -> None:
    text = """func.func @main(%x: memref<8xf32> {mlopt.input = "x", mlopt.output = "y"DONATED}) {
  return
}
"""
    with pytest.raises(
        mlopt.InputError, match=r"is input \"x\" and output \"y\", expected mlopt.donated on it"
    ):
        mlopt.compile(text.replace("DONATED", ""))
    model = mlopt.compile(text.replace("DONATED", ", mlopt.donated = {}"))
    x = np.arange(8, dtype=np.float32)
    assert model.run({"x": x})["y"] is x


@pytest.mark.parametrize(("donated", "is_wrong"), [("", True), (", mlopt.donated = {}", False)])
def test_the_verifier_lets_only_donated_inputs_be_written(donated: str, is_wrong: bool) -> None:
    """By a copy, and by a call."""
    text = """func.func @main(%arena: memref<64xi8> {mlopt.arena}, %x: memref<4xf32> {mlopt.input = "x"DONATED},
                               %y: memref<4xf32> {mlopt.output = "y"}) {
  BODY
  return
}
func.func private @clear(%z: memref<4xf32>) {
  %c = arith.constant 0.0 : f32
  linalg.fill ins(%c : f32) outs(%z : memref<4xf32>)
  return
}
""".replace("DONATED", donated)
    for body in (
        "memref.copy %y, %x : memref<4xf32> to memref<4xf32>",
        "func.call @clear(%x) : (memref<4xf32>) -> ()",
        "%v = memref.reinterpret_cast %x to offset: [0], sizes: [2, 2], strides: [2, 1] : memref<4xf32> to "
        "memref<2x2xf32>\n  %w = memref.collapse_shape %v [[0, 1]] : memref<2x2xf32> into memref<4xf32>\n"
        "  func.call @clear(%w) : (memref<4xf32>) -> ()",
    ):
        module = parse_module(text.replace("BODY", body), make_context())
        if not is_wrong:
            verify_plan(module)
            continue
        with pytest.raises(mlopt.VerifyFailure, match="an input that is not donated is written"):
            verify_plan(module)
