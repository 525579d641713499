"""`tile-contractions`: a launch gives the same in tiles, f16 up to rounding, and takes less memory for its sums."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i8
from xdsl.ir import Attribute

import mlopt
from mlopt.compilation import main_function
from mlopt.dialects.graph.base import tensor_type
from mlopt.interpreter import kernel as kernel_interpreter
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.passes.convert_graph_to_kernel import ConvertGraphToKernelPass
from mlopt.passes.kernel.fuse_kernels import FuseKernelsPass
from mlopt.passes.kernel.tile_contractions import TileContractionsPass
from mlopt.passes.pipelines import named_pipeline

RNG = np.random.default_rng(2)

CONV = """func.func @main(%x: tensor<{x}xi8>, %w: tensor<{w}xi8>) -> tensor<{y}xi8> {{
  %scale = graph.constant dense<0.0031> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %zero = graph.constant dense<-5> : tensor<i8>
  %0 = graph.integer_conv %x, %w {attributes} : (tensor<{x}xi8>, tensor<{w}xi8>) -> tensor<{y}xf32>
  %1 = graph.mul %0, %scale : (tensor<{y}xf32>, tensor<f32>) -> tensor<{y}xf32>
  %y = graph.quantize %1, %one, %zero : (tensor<{y}xf32>, tensor<f32>, tensor<i8>) -> tensor<{y}xi8>
  func.return %y : tensor<{y}xi8>
}}"""

HALF = """func.func @main(%x: tensor<33x16xf16>, %w: tensor<16x24xf16>) -> tensor<24x33xf16> {
  %0 = graph.matmul %x, %w : (tensor<33x16xf16>, tensor<16x24xf16>) -> tensor<33x24xf16>
  %1 = graph.relu %0 : tensor<33x24xf16>
  %y = graph.transpose %1 perm = [1, 0] : (tensor<33x24xf16>) -> tensor<24x33xf16>
  func.return %y : tensor<24x33xf16>
}"""

PROGRAMS = {
    "conv": CONV.format(
        x="1x4x16x15", w="8x4x3x3", y="1x8x16x15", attributes="pads = [1, 1, 1, 1] pad_value = -3"
    ),
    "strided": CONV.format(x="2x4x17x15", w="8x4x3x3", y="2x8x8x13", attributes="strides = [2, 1]"),
    "depthwise": CONV.format(x="1x6x16x15", w="6x1x3x3", y="1x6x14x13", attributes="group = 6"),
    "grouped": CONV.format(x="1x6x16x15", w="8x3x3x3", y="1x8x14x13", attributes="group = 2"),
    "pointwise": CONV.format(x="1x40x4x4", w="300x40x1x1", y="1x300x4x4", attributes=""),
    "half": HALF,
}


def numbers(type_: Attribute) -> np.ndarray:
    tensor = tensor_type(type_)
    if tensor.element_type == i8:
        return RNG.integers(-128, 128, tensor.get_shape()).astype(np.int8)
    return RNG.standard_normal(tensor.get_shape()).astype(np.float16)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("max_bytes", [1, 1000, 3000])
def test_tiles_give_the_same_numbers(name: str, max_bytes: int) -> None:
    ctx = make_context()
    module = parse_module(PROGRAMS[name], ctx)
    inputs = {f"arg{i}": numbers(type_) for i, type_ in enumerate(main_function(module).function_type.inputs)}
    want = evaluate_module(module, inputs)
    ConvertGraphToKernelPass().run(ctx, module)
    FuseKernelsPass().run(ctx, module)
    assert TileContractionsPass(max_bytes=max_bytes).run(ctx, module)
    verify_module(module)
    assert str(module).count("kernel.contract") > 1
    assert not TileContractionsPass(max_bytes=1 << 20).run(ctx, module)
    for key, found in kernel_interpreter.evaluate_module(module, inputs, ctx.weights).items():
        np.testing.assert_allclose(found, want[key], rtol=2e-3 if name == "half" else 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tiles_run_in_less_memory(name: str) -> None:
    """The arena shrinks by most of the sums, and the engine gives what it gives without tiles."""
    plain = named_pipeline("O2")
    tiled = plain.replace("fuse-kernels", "fuse-kernels,tile-contractions{max-bytes=1024}")
    models = [
        mlopt.compile(PROGRAMS[name], options=mlopt.CompileOptions(pipeline_text=text))
        for text in (plain, tiled)
    ]
    inputs = {info.name: RNG.integers(-128, 128, info.shape).astype(info.dtype) for info in models[0].inputs}
    first, second = (next(iter(model.run(inputs).values())) for model in models)
    np.testing.assert_allclose(first, second, rtol=2e-3 if name == "half" else 0)
    assert models[1].report()["memory"]["arena_bytes"] < models[0].report()["memory"]["arena_bytes"]
