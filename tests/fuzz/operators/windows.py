"""Convolutions, pooling, resizing and sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.builder import F16, F32, F64, I8, U8, Builder, Unfit
from tests.fuzz.operators.table import operator

IMAGES = (F32, F32, F32, F32, F64)
AUTO_PADS = (None, None, None, None, "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def _spatial(b: Builder) -> list[int]:
    return [b.choice((1, 2, 3, 4, 5, 7, 8)) for _ in range(b.choice((1, 2, 2, 2, 3)))]


def _window(
    b: Builder, size: list[int], kernel: list[int], *, dilations: bool = True, pads_below: bool = False
) -> dict[str, Any]:
    """Strides, dilations and padding; `kernel`, and dilations, are made smaller until a window fits."""
    rank = len(kernel)
    window: dict[str, Any] = {}
    if b.flag():
        window["strides"] = [b.choice((1, 2, 3)) for _ in range(rank)]
    steps = [1] * rank
    if dilations and b.flag():
        steps = window["dilations"] = [b.choice((1, 1, 2, 3)) for _ in range(rank)]
    window["auto_pad"] = b.choice(AUTO_PADS)
    if pads_below and window["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        # onnxruntime leaves dilations out of it, and takes padding of less than 0 as it is.
        steps = [1] * rank
        window.pop("dilations", None)
        window.pop("strides", None)
    pads = [0] * (2 * rank)
    if window["auto_pad"] in (None, "NOTSET") and b.flag():
        pads = window["pads"] = [
            b.integer(0, max(0, kernel[i % rank] - 1 if pads_below else 2)) for i in range(2 * rank)
        ]
    if window["auto_pad"] not in ("SAME_UPPER", "SAME_LOWER"):
        for i in range(rank):
            room = size[i] + pads[i] + pads[rank + i]
            kernel[i] = min(kernel[i], room)
            if kernel[i] > 1:
                steps[i] = min(steps[i], (room - 1) // (kernel[i] - 1))
    return window


def _require_elements(size: list[int], kernel: list[int], window: dict[str, Any]) -> None:
    """Every window has an element that is no padding: the standard does not say what pooling makes of the others.

    Under dilation, even with less padding than the kernel is large, and behind the end with `ceil_mode`.
    """
    rank = len(size)
    strides, steps = (window.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = window.get("pads", [0] * (2 * rank))
    for i in range(rank):
        before, reach = pads[i], (kernel[i] - 1) * steps[i] + 1
        room = size[i] + before + pads[rank + i] - reach
        last = -(-room // strides[i]) if window.get("ceil_mode") else room // strides[i]
        for first in range(-before, last * strides[i] - before + 1, strides[i]):
            if first < size[i] and all(not 0 <= first + k * steps[i] < size[i] for k in range(kernel[i])):
                raise Unfit("a window without elements")


@operator("Conv")
def convolution(b: Builder, name: str) -> object:
    group = b.choice((1, 1, 2, 3))
    per_group, out = b.integer(1, 3), group * b.integer(1, 3)
    size = _spatial(b)
    kernel = [b.integer(1, 3) for _ in size]
    x = b.tensor(IMAGES, shape=(b.choice((1, 1, 2, 0)), group * per_group, *size), special=False)
    bias = b.parameter(x.dtype, (out,)) if b.flag() else None
    window = _window(b, size, kernel)
    shape = kernel if b.flag() else None
    weight = b.parameter(x.dtype, (out, per_group, *kernel))
    return b.node(name, x, weight, bias, group=group if group > 1 else None, kernel_shape=shape, **window)


@operator("ConvTranspose")
def transposed_convolution(b: Builder, name: str) -> object:
    group = b.choice((1, 1, 2))
    per_group, out = b.integer(1, 3), b.integer(1, 3)
    size = _spatial(b)[:2]
    kernel = [b.integer(1, 4) for _ in size]
    x = b.tensor((F32,), shape=(b.choice((1, 2)), group * per_group, *size), special=False)
    weight = b.parameter(F32, (group * per_group, out, *kernel))
    bias = b.parameter(F32, (group * out,)) if b.flag() else None
    strides = [b.choice((1, 2, 3)) for _ in size]
    dilations = [b.choice((1, 1, 2)) for _ in size]
    extra: dict[str, Any] = {}
    match b.choice(("pads", "pads", "auto", "shape", "none")):
        case "pads":
            extra["pads"] = [b.integer(0, 1) for _ in range(2 * len(size))]
            if b.flag():
                extra["output_padding"] = [
                    b.integer(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)
                ]
        case "auto":
            extra["auto_pad"] = b.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        case "shape":
            full = [
                (n - 1) * s + (k - 1) * d + 1
                for n, s, k, d in zip(size, strides, kernel, dilations, strict=True)
            ]
            extra["output_shape"] = [max(1, n - b.integer(0, 2)) for n in full]
            extra["auto_pad"] = b.choice((None, "SAME_UPPER", "SAME_LOWER"))
        case _:
            pass
    if b.flag():
        extra["kernel_shape"] = kernel
    return b.node(
        name,
        x,
        weight,
        bias,
        group=group if group > 1 else None,
        strides=strides,
        dilations=dilations,
        **extra,
    )


@operator("MaxPool")
def max_pool(b: Builder, name: str) -> object:
    size = _spatial(b)
    kernel = [b.integer(1, 3) for _ in size]
    x = b.tensor((*IMAGES, F16, I8, U8), shape=(b.choice((1, 2)), b.integer(1, 3), *size), special=False)
    window = _window(b, size, kernel, pads_below=True)
    if window["auto_pad"] is None:
        window["ceil_mode"] = b.choice((None, 0, 1))
    _require_elements(size, kernel, window)
    outputs = b.choice((1, 1, 2)) if x.dtype in (F32, F64) else 1
    order = b.choice((None, 0, 1)) if outputs == 2 else None
    return b.node(name, x, outputs=outputs, kernel_shape=kernel, storage_order=order, **window)


@operator("AveragePool LpPool")
def average_pool(b: Builder, name: str) -> object:
    size = _spatial(b)
    kernel = [b.integer(1, 3) for _ in size]
    x = b.tensor((F32,), shape=(b.choice((1, 2)), b.integer(1, 3), *size), special=b.rarely())
    dilations = b.opset >= (19 if name == "AveragePool" else 18)
    window = _window(b, size, kernel, dilations=dilations, pads_below=True)
    if window["auto_pad"] is None and (name == "AveragePool" or b.opset >= 18):
        window["ceil_mode"] = b.choice((None, 0, 1))
    if name == "AveragePool":
        _require_elements(size, kernel, window)
        window["count_include_pad"] = b.choice((None, 0, 1))
    else:
        window["p"] = b.choice((None, 1, 2, 3))
    return b.node(name, x, kernel_shape=kernel, **window)


@operator("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pool(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (3, 5), least=1, special=False)
    return b.node(name, x, p=b.choice((None, 1, 2, 3)) if name == "GlobalLpPool" else None)


@operator("MaxUnpool")
def max_unpool(b: Builder, name: str) -> object:
    kernel = [b.integer(1, 3), b.integer(1, 3)]
    size = [b.integer(1, 3) * k for k in kernel]
    # Numbers alone: a NaN among others onnxruntime passes over or not, by where it stands; the standard says nothing.
    x = b.tensor((F32,), shape=(b.integer(1, 2), b.integer(1, 2), *size), special=False)
    values, positions = b.node("MaxPool", x, outputs=2, kernel_shape=kernel, strides=kernel)
    return b.node(name, values, positions, kernel_shape=kernel, strides=kernel)


@operator("Col2Im", since=18)
def columns_to_image(b: Builder, name: str) -> object:
    block = [b.integer(1, 3), b.integer(1, 3)]
    strides, dilations = ([b.choice((1, 1, 2)) for _ in block] for _ in range(2))
    pads = [b.integer(0, 1) for _ in range(4)]
    count = [b.integer(1, 3) for _ in block]
    image = [
        (n - 1) * s + (k - 1) * d + 1 - pads[i] - pads[i + 2]
        for i, (n, s, k, d) in enumerate(zip(count, strides, block, dilations, strict=True))
    ]
    for i, extent in enumerate(image):
        if extent < 1:
            pads[i] = pads[i + 2] = 0
            image[i] = (count[i] - 1) * strides[i] + (block[i] - 1) * dilations[i] + 1
    shape = (b.integer(1, 2), b.integer(1, 2) * block[0] * block[1], count[0] * count[1])
    x = b.tensor((F32,), shape=shape)
    return b.node(
        name,
        *(x, b.numbers(image, bound=False), b.numbers(block, bound=False)),
        strides=strides,
        dilations=dilations,
        pads=pads,
    )


@operator("Resize")
def resize(b: Builder, name: str) -> object:
    size = _spatial(b)[:2]
    mode = b.choice((None, "nearest", "linear", "cubic"))
    if mode == "cubic" and len(size) != 2:
        mode = "linear"
    # The standard does not say whether numbers of weight 0 are looked at, so that an infinity becomes a NaN there.
    special = mode in (None, "nearest")
    x = b.tensor((F32, F32, F32, U8, I8), shape=(1, b.integer(1, 3), *size), special=special)
    coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
    if b.opset >= 19:
        coordinates.append("half_pixel_symmetric")
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": b.choice((None, *coordinates)),
    }
    if mode in (None, "nearest"):
        attributes["nearest_mode"] = b.choice(
            (None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        )
    if mode == "cubic":
        attributes["cubic_coeff_a"] = b.choice((None, -0.5))
        attributes["exclude_outside"] = b.choice((None, 0, 1))
    if (
        mode in ("linear", "cubic") and b.opset >= 18 and x.dtype != I8
    ):  # onnxruntime makes negative ones 0 then
        attributes["antialias"] = b.choice((None, 0, 1))
    roi = None
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        attributes["extrapolation_value"] = b.choice((None, 2.0))
        attributes["antialias"] = None
        first = [b.choice((0.0, 0.25)) for _ in size]
        last = [b.choice((1.0, 0.75)) for _ in size]
        roi = b.numbers([0.0, 0.0, *first, 1.0, 1.0, *last], F32, bound=False)
    if b.flag():
        factors = [b.choice((0.5, 2.0, 1.5, 0.75, 3.0, 1.0)) for _ in size]
        if roi is not None:
            factors = [2.0 if factor == 1.0 else factor for factor in factors]  # see below
        if attributes["coordinate_transformation_mode"] in ("align_corners", "tf_crop_and_resize"):
            # Of a size that is no integer the standard's definition takes the fraction too, onnxruntime does not.
            factors = [
                factor if (n * factor).is_integer() else 2.0 for n, factor in zip(size, factors, strict=True)
            ]
        return b.node(name, x, roi, b.numbers([1.0, 1.0, *factors], F32, bound=False), **attributes)
    target = [b.integer(1, 9) for _ in size]
    if roi is not None:  # onnxruntime does not look at the region along an axis that keeps its size
        target = [new + 1 if new == old else new for new, old in zip(target, size, strict=True)]
    sizes = b.numbers([*x.shape[:2], *target], bound=False)
    return b.node(name, x, roi, None, sizes, **attributes)


@operator("GridSample", since=16)
def grid_sample(b: Builder, name: str) -> object:
    n, c, h, w = b.integer(1, 2), b.integer(1, 3), b.integer(1, 5), b.integer(1, 5)
    x = b.tensor((F32,), shape=(n, c, h, w), special=False)
    grid = b.parameter(F32, (n, b.integer(1, 4), b.integer(1, 4), 2))
    linear, cubic = ("linear", "cubic") if b.opset >= 20 else ("bilinear", "bicubic")
    return b.node(
        name,
        *(x, grid),
        mode=b.choice((None, linear, cubic, "nearest")),
        padding_mode=b.choice((None, "zeros", "border", "reflection")),
        align_corners=b.choice((None, 0, 1)),
    )


@operator("RoiAlign", since=16)
def roi_align(b: Builder, name: str) -> object:
    n, h, w = b.integer(1, 2), b.integer(1, 6), b.integer(1, 6)
    x = b.tensor((F32,), shape=(n, b.integer(1, 3), h, w), special=False)
    count = b.integer(0, 3)
    arrays = []
    for _ in range(b.program.runs):
        corner = b.seed().uniform(-1, 5, (count, 2))
        arrays.append(
            np.concatenate([corner, corner + b.seed().uniform(0, 6, (count, 2))], axis=1).astype(F32)
        )
    batches = [b.seed().integers(0, n, count) for _ in range(b.program.runs)]
    return b.node(
        name,
        *(x, b.new(arrays, structural=True), b.new(batches, structural=True)),
        mode=b.choice((None, "avg", "max")),
        output_height=b.integer(1, 3),
        output_width=b.integer(1, 3),
        sampling_ratio=b.choice((None, 0, 1, 2, 3)),
        spatial_scale=b.choice((None, 0.5, 1.0)),
        coordinate_transformation_mode=b.choice((None, "half_pixel", "output_half_pixel")),
    )


@operator("DeformConv", since=19)
def deformed_convolution(b: Builder, name: str) -> object:
    group, offset_group = b.choice((1, 1, 2)), b.choice((1, 1, 2))
    channels = 2 * b.integer(1, 2)
    n, h, w = b.integer(1, 2), b.integer(2, 6), b.integer(2, 6)
    kernel = [b.integer(1, 2), b.integer(1, 3)]
    strides, dilations = [b.choice((1, 2)) for _ in kernel], [b.choice((1, 1, 2)) for _ in kernel]
    pads = [b.integer(0, 1) for _ in range(4)]
    out = [
        (size + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, size in enumerate((h, w))
    ]
    if min(out) < 1:
        raise Unfit("no window fits")
    points = offset_group * kernel[0] * kernel[1]
    x = b.tensor((F32,), shape=(n, channels, h, w), special=False)
    weight = b.parameter(F32, (2 * group, channels // group, *kernel))
    offsets = b.parameter(F32, (n, 2 * points, *out), scale=0.7)
    bias = b.parameter(F32, (2 * group,)) if b.flag() else None
    mask = b.parameter(F32, (n, points, *out)) if b.flag() else None
    return b.node(
        name, *(x, weight, offsets, bias, mask), group=group, offset_group=offset_group, strides=strides,
        dilations=dilations, pads=pads, kernel_shape=kernel,
    )  # fmt: skip
