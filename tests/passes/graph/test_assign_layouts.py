"""`assign-layouts` finds the layouts that cost least, by brute force over all, and changes no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from mlopt.compilation import compile_model, load_model
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.dialects.graph.channels_last import channels_first
from mlopt.interpreter.graph import evaluate_module
from mlopt.interpreter.graph.registry import Array
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.options import CompileOptions
from mlopt.passes.graph.assign_layouts import AssignLayoutsPass, best_plan
from mlopt.passes.graph.channels_last import channels_last_of
from mlopt.passes.graph.layout_costs import MODELS, CostModel, ModelName, Rate
from mlopt.passes.graph.order_regions import OrderRegion
from mlopt.passes.pipelines import PipelineOptions, at_optimisation_level
from tests.counting import count_calls

MODEL_FILES = Path(__file__).parents[2] / "models"
IMAGE = "tensor<1x4x6x6xf32>"


def random_module(seed: int, length: int) -> ModuleOp:
    """Convolutions, pools, sums and activations of images of one size; some of their results are outputs."""
    rng = np.random.default_rng(seed)
    values, lines, arguments = ["x"], list[str](), [f"%x: {IMAGE}"]
    for i in range(length):
        first, second = (values[rng.integers(max(0, len(values) - 3), len(values))] for _ in range(2))
        kernel = int(rng.choice([1, 3]))
        weight = f"tensor<4x4x{kernel}x{kernel}xf32>"
        pads = "pads = [1, 1, 1, 1] " if kernel == 3 else ""
        match int(rng.integers(6)):
            case 0 | 1:
                arguments.append(f"%w{i}: {weight}")
                line = f"graph.conv %{first}, %w{i} {pads}: ({IMAGE}, {weight}) -> {IMAGE}"
            case 2:
                line = f"graph.max_pool %{first} kernel = [3, 3] pads = [1, 1, 1, 1] : ({IMAGE}) -> {IMAGE}"
            case 3:
                line = f"graph.relu %{first} : {IMAGE}"
            case 4:
                line = f"graph.add %{first}, %{second} : ({IMAGE}, {IMAGE}) -> {IMAGE}"
            case _:  # in one layout only
                pooled = f"graph.max_pool_with_indices %{first} kernel = [1, 1]"
                line = f"{pooled} : ({IMAGE}) -> ({IMAGE}, tensor<1x4x6x6xi64>)"
        lines.append(f"%v{i}{', %i' + str(i) if 'indices' in line else ''} = {line}")
        values.append(f"v{i}")
    returned = [values[-1], *(value for value in values[1:-1] if rng.random() < 0.2)]
    types = ", ".join(IMAGE for _ in returned)
    results = ", ".join(f"%{value}" for value in returned)
    body = "\n".join(lines)
    return parse_module(
        f"func.func @main({', '.join(arguments)}) -> ({types}) {{\n{body}\nfunc.return {results} : {types}\n}}",
        make_context(),
    )


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> Array:
    return np.asarray(rng.standard_normal(shape), dtype)


def random_model(seed: int) -> CostModel:
    rng = np.random.default_rng(seed)

    def rate() -> Rate:
        return Rate(None, *(float(number) for number in rng.integers(0, 60, 2)))

    rates = {kind: (rate(),) for kind in MODELS["numpy"].rates}
    call, to_last, to_first = (float(number) for number in rng.integers(0, 200, 3))
    return CostModel(rates, call, to_last, to_first)


def cost(values: set[SSAValue], last: set[Operation], region: OrderRegion, model: CostModel) -> int:
    """What a choice costs, value by value: a conversion to each layout that a use needs and the value has not."""
    total = sum(model.of(op)[op in last] for op in region.orders)
    for value in values:
        own = not isinstance(value.owner, Block) and value.owner in last
        for wanted in {use.operation in last for use in value.uses} - {own}:
            total += model.of_conversion(value, to_last=wanted)
    return total


def region_values(region: OrderRegion) -> Iterator[SSAValue]:
    for op in region.orders:
        yield from (*op.operands, *op.results)


@pytest.mark.parametrize("seed", range(40))
def test_no_other_choice_costs_less(seed: int) -> None:
    """Against all subsets of the operations of a region."""
    module, model = random_module(seed, 7), random_model(seed)
    for op in module.walk():
        if not isinstance(op, graph.ConvOp | graph.MaxPoolOp):
            continue
        region = OrderRegion.around(op.results[0], channels_first(4), make_context(), channels_last_of)
        assert region is not None
        ops = [*region.orders]
        plan, values = best_plan(region, model), set(region_values(region))
        costs = {
            chosen: cost(values, set(chosen), region, model)
            for size in range(len(ops) + 1)
            for chosen in combinations(ops, size)
        }
        assert plan.after == min(costs.values()) == cost(values, set(plan.chosen), region, model)
        assert plan.before == costs[()]
        # Of those that cost as much it has the fewest.
        assert len(plan.chosen) == min(len(chosen) for chosen, own in costs.items() if own == plan.after)


@pytest.mark.parametrize("target", ["numpy", "channels-last"])
@pytest.mark.parametrize("seed", range(25))
def test_no_result_changes(seed: int, target: ModelName) -> None:
    module = random_module(100 + seed, 9)
    rng = np.random.default_rng(seed)
    (main,) = (op for op in module.walk() if op.name == "func.func")
    inputs = {
        f"arg{i}": random(rng, shape_of(value), np.float32)
        for i, value in enumerate(main.regions[0].blocks[0].args)
    }
    want, before = evaluate_module(module, inputs), str(module)
    ctx = make_context()
    changed = AssignLayoutsPass(target, min_gain=0.0).run(ctx, module)
    verify_module(module)
    assert changed == (str(module) != before)
    for name, result in evaluate_module(module, inputs).items():
        np.testing.assert_allclose(result, want[name], rtol=1e-5, atol=1e-5)


WINDOWS = """func.func @main(%x: tensor<2x6x9x8xELEMENT>, %w: tensor<6x1x3x3xELEMENT>, %b: tensor<6xELEMENT>,
    %s: tensor<6x1x1xELEMENT>) -> (tensor<2x6xELEMENT>, tensor<2x12x10x8xELEMENT>) {
  %c = graph.conv %x, %w, %b strides = [2, 2] pads = [1, 1, 1, 1] group = 6 activation = <tanh>
    : (tensor<2x6x9x8xELEMENT>, tensor<6x1x3x3xELEMENT>, tensor<6xELEMENT>) -> tensor<2x6x5x4xELEMENT>
  %p = graph.average_pool %c kernel = [3, 3] pads = [1, 1, 1, 1]
    : (tensor<2x6x5x4xELEMENT>) -> tensor<2x6x5x4xELEMENT>
  %m = graph.mul %p, %s : (tensor<2x6x5x4xELEMENT>, tensor<6x1x1xELEMENT>) -> tensor<2x6x5x4xELEMENT>
  %r = graph.resize %m mode = "linear" coordinates = "half_pixel" scales = [1.0, 1.0, 2.0, 2.0]
    : (tensor<2x6x5x4xELEMENT>) -> tensor<2x6x10x8xELEMENT>
  %j = graph.concat %r, %r axis = 1
    : (tensor<2x6x10x8xELEMENT>, tensor<2x6x10x8xELEMENT>) -> tensor<2x12x10x8xELEMENT>
  %y = graph.reduce_mean %r axes = [2, 3] : (tensor<2x6x10x8xELEMENT>) -> tensor<2x6xELEMENT>
  func.return %y, %j : tensor<2x6xELEMENT>, tensor<2x12x10x8xELEMENT>
}"""


@pytest.mark.parametrize(
    ("element", "dtype"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)]
)
def test_every_kind_of_operation_converted(element: str, dtype: type[np.floating[Any]]) -> None:
    """All of them at once: strides, groups, per-channel operands, an axis, a reduction to another rank."""
    module = parse_module(WINDOWS.replace("ELEMENT", element), make_context())
    rng = np.random.default_rng(0)
    shapes = ((2, 6, 9, 8), (6, 1, 3, 3), (6,), (6, 1, 1))
    inputs = {f"arg{i}": random(rng, shape, dtype) for i, shape in enumerate(shapes)}
    want = evaluate_module(module, inputs)
    assert AssignLayoutsPass("channels-last").run(make_context(), module)
    verify_module(module)
    names = Counter(op.name for op in module.walk())
    assert names["graph.channels_last_conv"] == names["graph.channels_last_average_pool"] == 1
    assert names["graph.conv"] == names["graph.average_pool"] == 0
    tolerance = 2e-3 if dtype is np.float16 else 1e-5
    for name, result in evaluate_module(module, inputs).items():
        np.testing.assert_allclose(result, want[name], rtol=tolerance, atol=tolerance)


def test_a_type_that_was_not_measured_stays() -> None:
    module = parse_module(WINDOWS.replace("ELEMENT", "f64"), make_context())
    assert not AssignLayoutsPass("numpy", min_gain=0.0).run(make_context(), module)


def test_it_can_be_switched_off() -> None:
    options = CompileOptions(
        pipeline_text="assign-layouts{target=channels-last}",
        pipeline=PipelineOptions(disabled_patterns=("channels-last",)),
    )
    compilation = load_model(WINDOWS.replace("ELEMENT", "f32"), options)
    compile_model(compilation, "graph")
    assert not any("channels_last" in op.name for op in compilation.module.walk())


def chain(blocks: int) -> str:
    """Pairs of a convolution that gains and one that loses."""
    lines = [
        f"""%a{i} = graph.conv %v{i}, %w pads = [1, 1, 1, 1] : ({IMAGE}, tensor<4x4x3x3xf32>) -> {IMAGE}
            %r{i} = graph.relu %a{i} : {IMAGE}
            %v{i + 1} = graph.add %r{i}, %v{i} : ({IMAGE}, {IMAGE}) -> {IMAGE}"""
        for i in range(blocks)
    ]
    body = "\n".join(lines)
    return (
        f"func.func @main(%v0: {IMAGE}, %w: tensor<4x4x3x3xf32>) -> {IMAGE} {{\n{body}\n"
        f"func.return %v{blocks} : {IMAGE}\n}}"
    )


def test_the_work_grows_with_the_number_of_operations() -> None:
    def work(blocks: int) -> int:
        ctx = make_context()
        module = parse_module(chain(blocks), ctx)
        calls = count_calls(lambda: AssignLayoutsPass("channels-last").run(ctx, module))
        assert sum(isinstance(op, graph.ChannelsLastConvOp) for op in module.walk()) == blocks
        return calls

    assert work(160) < 2.5 * work(80)


@pytest.mark.parametrize(
    ("name", "level", "converted"),
    [
        ("resnet18s_legacy17", "O2", 15),
        ("mobilenetv2_035", "O2", 40),
        ("convnext_atto", "O2", 8),
        ("convnext_atto", "O1", 0),
        ("mobilenetv2_035_int8_qdq", "O3", 0),
    ],
)
def test_models(name: str, level: str, converted: int) -> None:
    """A level gives what the model gave in its own framework, with at least so many operations converted."""
    with np.load(MODEL_FILES / f"{name}.npz") as arrays:
        inputs = {key[3:]: arrays[key] for key in arrays if key.startswith("in:")}
        want = {key[4:]: arrays[key] for key in arrays if key.startswith("out:")}
    options = CompileOptions(pipeline=at_optimisation_level(level, PipelineOptions()))
    compilation = load_model(MODEL_FILES / f"{name}.onnx", options, inputs=inputs)
    compile_model(compilation, "graph")
    windows = Counter(op.name for op in compilation.module.walk() if "channels_last" in op.name)
    assert (sum(windows.values()) >= converted) if converted else not windows
    found = evaluate_module(compilation.module, inputs, compilation.ctx.weights)
    for output, array in want.items():
        scale = float(np.abs(array).max())
        tolerance = 0.1 if "int8" in name else 1e-4  # as far as the 8-bit model is from its own
        assert prod(array.shape) == 0 or float(np.abs(found[output] - array).max()) <= tolerance * scale
