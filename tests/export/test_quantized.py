"""Quantized models as ONNX: activations in ui8, the same numbers, and onnxruntime runs them as it is by default."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.arrays import read_npz
from mlopt.compilation import compile_model, load_model
from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.export import to_onnx
from mlopt.export.unsigned_activations import with_unsigned_activations
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.options import CompileOptions
from mlopt.passes.graph.fuse_quantized import FuseQuantizedPass
from mlopt.weights import WeightStore
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parents[1] / "models"
STORED = sorted(path.stem for path in MODELS.glob("*.onnx"))
Zero: TypeAlias = int | list[list[int]]
AtGraphLevel: TypeAlias = tuple[ModuleOp, WeightStore]


def quantize_dequantize(element: str, parameters: str, zero: Zero | None) -> ModuleOp:
    """x quantized and dequantized by a constant scale, 0.25 in that shape, and zero points; None for none."""
    shape = f"{parameters}x" if parameters else ""
    scale, integers = f"tensor<{shape}{element}>", f"tensor<{shape}i8>"
    constant = "" if zero is None else f"%z = graph.constant dense<{zero}> : {integers}"
    operands, types = ("%s", scale) if zero is None else ("%s, %z", f"{scale}, {integers}")
    text = f"""func.func @main(%x: tensor<4x1200x{element}>) -> tensor<4x1200x{element}> {{
      %s = graph.constant dense<0.25> : {scale}
      {constant}
      %q = graph.quantize %x, {operands} : (tensor<4x1200x{element}>, {types}) -> tensor<4x1200xi8>
      %y = graph.dequantize %q, {operands} : (tensor<4x1200xi8>, {types}) -> tensor<4x1200x{element}>
      return %y : tensor<4x1200x{element}>
    }}"""
    return parse_module(text, make_context())


def elements_of_quantized(module: ModuleOp) -> list[str]:
    return [
        str(tensor_type(op.result.type).element_type)
        for op in module.walk()
        if isinstance(op, graph.QuantizeOp)
    ]


STEPS = np.array([*np.arange(-599.0, 600), np.inf]) / 2
"""In units of the scale: all integers of 8 bits around any zero point, the ties between them, and what saturates."""


@pytest.mark.parametrize(
    ("element", "dtype"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)]
)
@pytest.mark.parametrize(
    ("parameters", "zero"),
    [
        ("", None),
        *(("", number) for number in (-128, -127, -1, 0, 5, 127)),
        ("4x1", None),
        ("4x1", [[-128], [-1], [0], [127]]),
    ],
)
def test_unsigned_activations_are_the_same_numbers(
    element: str, dtype: type, parameters: str, zero: Zero | None
) -> None:
    signed = quantize_dequantize(element, parameters, zero)
    unsigned = with_unsigned_activations(signed, WeightStore())
    unsigned.verify()
    assert (elements_of_quantized(signed), elements_of_quantized(unsigned)) == (["i8"], ["ui8"])
    row = (STEPS * 0.25).astype(dtype)
    x = np.array([row, row[::-1], np.nextafter(row, dtype(0)), -np.roll(row, 7)])
    inputs = {"arg0": x}
    want, got = ((*evaluate_module(module, inputs).values(),) for module in (signed, unsigned))
    assert want[0].tobytes() == got[0].tobytes()
    # By hand: rounded to nearest, halves to even, in the range of i8 from the zero point on.
    zeros = np.array(0 if zero is None else zero, np.float64)
    steps = np.clip(np.rint(np.clip(x, -999, 999).astype(np.float64) / 0.25) + zeros, -128, 127) - zeros
    np.testing.assert_array_equal(got[0], (steps * 0.25).astype(dtype))
    if dtype != np.float64:  # which ONNX's operators don't take
        (theirs,) = run_model(to_onnx(signed, WeightStore()), inputs)
        np.testing.assert_array_equal(theirs, want[0])


def test_the_module_stays_as_it_is() -> None:
    module = quantize_dequantize("f32", "", "3")
    before = str(module)
    to_onnx(module, WeightStore())
    assert str(module) == before


def test_zero_points_may_be_weights() -> None:
    weights, zeros = WeightStore(), np.arange(-50, 50).astype(np.int8)
    weights.add(zeros, "zeros")
    text = """func.func @main(%x: tensor<2x100xf32>) -> tensor<2x100xf32> {
      %s = graph.constant dense<1.0> : tensor<f32>
      %z = graph.constant #mlopt.weight<"zeros"> : tensor<100xi8>
      %q = graph.quantize %x, %s, %z : (tensor<2x100xf32>, tensor<f32>, tensor<100xi8>) -> tensor<2x100xi8>
      %y = graph.dequantize %q, %s, %z : (tensor<2x100xi8>, tensor<f32>, tensor<100xi8>) -> tensor<2x100xf32>
      return %y : tensor<2x100xf32>
    }"""
    model = to_onnx(parse_module(text, make_context()), weights)
    (stored,) = (
        onnx.numpy_helper.to_array(t)
        for t in model.graph.initializer
        if t.data_type == onnx.TensorProto.UINT8
    )
    np.testing.assert_array_equal(stored, np.arange(78, 178, dtype=np.uint8))


OTHERS = {
    "an output": "return %q, %y : tensor<4xi8>, tensor<4xf32>",
    "an operator on integers": """%m = graph.max %q, %z : (tensor<4xi8>, tensor<i8>) -> tensor<4xi8>
      return %m, %y : tensor<4xi8>, tensor<4xf32>""",
    "a zero point": """%d = graph.dequantize %w, %s, %q : (tensor<4xi8>, tensor<f32>, tensor<4xi8>) -> tensor<4xf32>
      return %w, %d : tensor<4xi8>, tensor<4xf32>""",
}


@pytest.mark.parametrize("end", OTHERS.values(), ids=OTHERS)
def test_integers_with_another_user_stay_signed(end: str) -> None:
    text = f"""func.func @main(%x: tensor<4xf32>, %w: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xf32>) {{
      %s = graph.constant dense<0.25> : tensor<f32>
      %z = graph.constant dense<3> : tensor<i8>
      %q = graph.quantize %x, %s, %z : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
      %y = graph.dequantize %q, %s, %z : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
      {end}
    }}"""
    module = parse_module(text, make_context())
    assert with_unsigned_activations(module, WeightStore()) is module


def test_a_zero_point_that_is_computed_stays_signed() -> None:
    text = """func.func @main(%x: tensor<4xf32>, %z: tensor<i8>) -> tensor<4xf32> {
      %s = graph.constant dense<0.25> : tensor<f32>
      %q = graph.quantize %x, %s, %z : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
      %y = graph.dequantize %q, %s, %z : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    module = parse_module(text, make_context())
    assert with_unsigned_activations(module, WeightStore()) is module


def inputs_of(name: str) -> dict[str, np.ndarray]:
    return dict(read_npz(MODELS / f"{name}.npz", "in"))


def at_graph_level(model: Path | onnx.ModelProto, name: str, passes: str | None) -> AtGraphLevel:
    """A model after these passes, or those of O2."""
    compilation = load_model(model, CompileOptions(pipeline_text=passes), inputs=inputs_of(name))
    compile_model(compilation, "graph")
    return compilation.module, compilation.ctx.weights


def quantized(name: str, *, behind: str = "") -> AtGraphLevel:
    passes = "fixpoint(fold-constants,canonicalize,cse,dce,fold-batch-norm),quantize"
    return at_graph_level(
        MODELS / f"{name}.onnx", name, f"{passes}{{calibration={MODELS / name}.npz}}{behind}"
    )


def assert_close(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Within what `fuse-quantized` may be off: where one side multiplies scales, or sums in another order, a number
    that is as good as halfway between two integers becomes the other one, and what follows makes a few steps of it."""
    tolerance = FuseQuantizedPass.validation_tolerance
    assert tolerance is not None
    for ours, theirs in zip(got, want, strict=True):
        off = np.abs(ours.astype(np.float64) - theirs).max()
        assert off <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("how", ["qdq", "optimised", "integers"])
@pytest.mark.parametrize("name", STORED)
def test_onnxruntime_runs_it_as_it_is_by_default(name: str, how: str) -> None:
    module, weights = quantized(name, behind=",fuse-quantized" if how == "integers" else "")
    if how == "optimised":
        module, weights = at_graph_level(to_onnx(module, weights), name, None)
    model, inputs = to_onnx(module, weights), inputs_of(name)
    onnx.checker.check_model(model, full_check=True)
    plain, default = (run_model(model, inputs, optimize=optimize) for optimize in (False, True))
    ours = [*evaluate_module(module, inputs, weights).values()]
    assert_close(default, plain)
    assert_close(ours, plain)
    imported, its_weights = at_graph_level(model, name, "dce")
    again = [*evaluate_module(imported, inputs, its_weights).values()]
    assert [a.tobytes() for a in again] == [a.tobytes() for a in ours]


@pytest.mark.parametrize("name", STORED)
def test_what_is_imported_again_is_fused_as_before(name: str) -> None:
    """`fuse-quantized` makes the same products of integers of an export as of what was exported."""
    model = to_onnx(*quantized(name))
    kinds = (graph.IntegerConvOp, graph.IntegerMatMulOp)
    counts = [
        sum(isinstance(op, kinds) for op in module.walk())
        for module, _ in (
            quantized(name, behind=",fuse-quantized"),
            at_graph_level(model, name, "fuse-quantized"),
        )
    ]
    assert counts[0] == counts[1] > 0
