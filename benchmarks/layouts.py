"""Operations on images with their channels first and last: `python benchmarks/layouts.py [KIND ...] [--seconds S]`.

One line for each: the kind and the prediction of the cost model of `assign-layouts`
(`passes/graph/layout_costs.py`), whose table was made from these times, the median of runs in turns, and both ratios
of channels last to channels first. A time includes what a run costs that has nothing to do with the layout, about
15 us. Set `OPENBLAS_NUM_THREADS=1` for figures that vary less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

import mlopt
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.dialects.graph.channels_last import channels_first
from mlopt.dialects.graph.resampling import Resampling
from mlopt.passes.graph.axis_orders import Order, inverse, reordered
from mlopt.passes.graph.channels_last import channels_last_of
from mlopt.passes.graph.layout_costs import MODELS, kind_of

Shape = tuple[int, ...]
Build = Callable[..., Operation]
Case = tuple[Build, Sequence[Shape]]


def convolution(n: int, c: int, size: int, m: int, kernel: int, stride: int = 1, group: int = 1) -> Case:
    """With a bias and an activation, padded to keep its size but for the stride; one of even size is not padded."""
    pad = kernel // 2 if kernel % 2 else 0

    def build(x: SSAValue, w: SSAValue, b: SSAValue) -> Operation:
        relu = graph.ActivationAttr("relu")
        options = {"strides": [stride] * 2, "pads": [pad] * 4}
        return graph.ConvOp(x, w, b, **options, group=group, activation=relu)

    return build, ((n, c, size, size), (m, c // group, kernel, kernel), (m,))


def pool(kind: type[graph.PoolOp], c: int, size: int, kernel: int, stride: int) -> Case:
    """Of odd sizes padded."""
    pad = kernel // 2 if kernel % 2 else 0

    def build(x: SSAValue) -> Operation:
        return kind(x, [kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    return build, ((1, c, size, size),)


def other(build: Build, c: int, size: int, *more: Shape) -> Case:
    """Any operation on an image."""
    return build, ((1, c, size, size), *more)


def resized(x: SSAValue) -> Operation:
    """Twice as large, the nearest elements."""
    n, c, h, w = shape_of(x)
    return graph.ResizeOp(x, (n, c, 2 * h, 2 * w), (1, 1, 2, 2), Resampling("nearest", "asymmetric"))


IMAGES = ((64, 56), (256, 14), (1280, 7), (16, 8))
CASES: list[Case] = [
    *(convolution(n, c, size, m, 1) for n, c, size, m in (
        (1, 64, 56, 64), (1, 256, 56, 64), (1, 512, 28, 128), (1, 16, 32, 96), (1, 96, 32, 16), (1, 144, 14, 32),
        (8, 64, 14, 64), (1, 2048, 7, 512),
    )),
    *(convolution(n, c, size, m, 3, stride) for n, c, size, m, stride in (
        (1, 3, 224, 64, 2), (1, 3, 96, 16, 2), (1, 64, 56, 64, 1), (1, 128, 28, 128, 1), (1, 128, 56, 128, 2),
        (1, 16, 32, 16, 1), (1, 32, 16, 64, 2), (8, 32, 14, 32, 1),
    )),
    convolution(1, 32, 16, 64, 2, 2),
    convolution(1, 3, 224, 192, 16, 16),
    *(convolution(1, c, size, c, kernel, stride, c) for c, size, kernel, stride in (
        (32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (192, 28, 3, 1), (384, 14, 3, 1), (576, 14, 3, 2),
        (960, 7, 3, 1), (48, 48, 3, 1), (96, 24, 3, 2), (40, 8, 7, 1), (80, 16, 7, 1), (320, 4, 3, 1),
    )),
    convolution(1, 128, 28, 128, 3, 1, 32),
    convolution(1, 240, 28, 240, 1, 1, 3),
    *(pool(kind, *sizes) for kind in (graph.MaxPoolOp, graph.AveragePoolOp) for sizes in (
        (64, 112, 3, 2), (64, 56, 3, 2), (128, 28, 3, 2), (64, 112, 2, 2), (32, 48, 3, 1), (64, 24, 3, 2),
        (16, 64, 2, 2), (256, 28, 2, 2), (256, 14, 3, 1), (512, 7, 3, 1),
    )),
    *(other(resized, *image) for image in IMAGES),
    *(other(lambda x, b: graph.MulOp(x, b), c, size, (c, 1, 1)) for c, size in IMAGES),
    *(other(lambda x: graph.ReduceMeanOp(x, [2, 3], keepdims=True), *image) for image in IMAGES),
    *(other(lambda x: graph.SoftmaxOp(x, 1), *image) for image in IMAGES),
    *(other(lambda x, y: graph.ConcatOp([x, y], 1), c, size, (1, c, size, size)) for c, size in IMAGES),
]  # fmt: skip
"""What the table of costs was made from."""


def module_of(build: Build, shapes: Sequence[Shape]) -> tuple[ModuleOp, Operation]:
    """`@main` of one operation on f32."""
    block = Block(arg_types=[TensorType(f32, shape) for shape in shapes])
    op = build(*block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    return ModuleOp([FuncOp("main", (block.arg_types, op.result_types), Region(block))]), op


def channels_last(op: Operation) -> tuple[Build, list[Shape]]:
    """The operation with its channels last, as `assign-layouts` builds it."""
    reordering = channels_last_of(op)
    assert reordering is not None
    orders = reordering.from_result(op, channels_first(len(shape_of(op.results[0]))))
    assert orders is not None

    def shape(operand: SSAValue, order: Order | None) -> Shape:
        own = shape_of(operand)
        return own if order is None else reordered((*[1] * (len(order) - len(own)), *own), order)

    shapes = [shape(*pair) for pair in zip(op.operands, orders.operands, strict=True)]
    return lambda *operands: reordering.rebuild(op, operands, orders), shapes


def medians(modules: Sequence[ModuleOp], seconds: float) -> list[float]:
    """The median time of a run of each module, in microseconds; they run in turns for so long, seven times at least."""
    generator = np.random.default_rng(0)
    models = [mlopt.compile(str(module) + "\n") for module in modules]
    inputs = [
        {spec.name: generator.standard_normal(spec.shape, np.float32) for spec in model.inputs}
        for model in models
    ]
    times: list[list[float]] = [[] for _ in models]
    end = time.perf_counter() + seconds
    while len(times[0]) < 7 or time.perf_counter() < end:
        for model, arrays, own in zip(models, inputs, times, strict=True):
            start = time.perf_counter()
            model.run(arrays)
            own.append(time.perf_counter() - start)
    return [statistics.median(own) * 1e6 for own in times]


def transposes(shape: Shape) -> tuple[Operation, Operation]:
    """Conversions of an image of this shape to channels last, and back."""
    order = inverse(channels_first(len(shape)))
    to_last = module_of(lambda x: graph.TransposeOp(x, order), [shape])
    to_first = module_of(lambda x: graph.TransposeOp(x, inverse(order)), [tuple(shape[a] for a in order)])
    return to_last[0], to_first[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="time operations with their channels first and last")
    parser.add_argument("kinds", nargs="*", help="only kinds that contain one of these words")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each is measured")
    arguments = parser.parse_args()
    model = MODELS["numpy"]
    print(f"{'kind':24} {'operands':44} {'predicted us':>16} ratio {'measured us':>16} ratio")
    for build, shapes in CASES:
        module, op = module_of(build, shapes)
        kind = kind_of(op)
        if arguments.kinds and not any(word in kind for word in arguments.kinds):
            continue
        first, last = medians([module, module_of(*channels_last(op))[0]], arguments.seconds)
        predicted = [cost / 1000 for cost in model.of(op)]
        operands = " ".join("x".join(map(str, shape)) for shape in shapes)
        print(
            f"{kind:24} {operands:44} {predicted[0]:8.0f}{predicted[1]:8.0f} {predicted[1] / predicted[0]:5.2f} "
            f"{first:8.0f}{last:8.0f} {last / first:5.2f}",
            flush=True,
        )
    if not arguments.kinds or "conversion" in arguments.kinds:
        for c, size in IMAGES:
            shape = (1, c, size, size)
            to_last, to_first = medians(transposes(shape), arguments.seconds)
            of_one = [(model.call + prod(shape) * rate) / 1000 for rate in (model.to_last, model.to_first)]
            print(
                f"{'conversion, and back':24} {'x'.join(map(str, shape)):44} {of_one[0]:8.0f}{of_one[1]:8.0f}       "
                f"{to_last:8.0f}{to_first:8.0f}"
            )


if __name__ == "__main__":
    main()
