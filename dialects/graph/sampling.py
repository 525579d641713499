"""Operations that read an image between its elements, at positions that are computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, UnitAttr, f64
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    INDEX,
    NUMERIC,
    SIGNATURE,
    F64Attr,
    I64Array,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    get_int,
    get_ints,
    int_attr,
    ints_attr,
    require_elements,
    require_same_elements,
    require_shape,
    shape_of,
    shape_text,
    unit_attr,
    with_shape,
)
from mlopt.dialects.graph.contraction import window_properties
from mlopt.dialects.graph.window import Window


@irdl_op_definition
class GridSampleOp(InferredOp):
    """The image at the positions that a grid gives, interpolated between its elements. ONNX GridSample.

    Shapes: input `[n, c, spatial...]` with 2 or 3 spatial dimensions, grid `[n, positions..., rank]`, result `[n, c,
    positions...]`. The last axis of the grid has the coordinates of the last spatial dimension first; -1 and 1 are
    the outer edges of the first and the last element, with `align_corners` their middles. `mode` is "nearest" (halves
    to even), "linear" or "cubic" (2 dimensions only). What lies outside is 0 ("zeros"), the nearest element
    ("border"), or the image reflected at its edges ("reflection"). f16 and bf16 are computed in f32. Integers:
    "nearest" only.

    ```mlir
    %y = graph.grid_sample %x, %grid mode = "linear" padding = "zeros"
      : (tensor<1x8x32x32xf32>, tensor<1x16x16x2xf32>) -> tensor<1x8x16x16xf32>
    ```
    """

    name = "graph.grid_sample"
    input = operand_def(TensorType)
    grid = operand_def(TensorType)
    result = result_def(TensorType)
    mode = prop_def(StringAttr)
    padding = prop_def(StringAttr)
    align_corners = opt_prop_def(UnitAttr)
    assembly_format = (
        "$input `,` $grid `mode` `=` $mode `padding` `=` $padding (`align_corners` $align_corners^)? "
        + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        grid: Operand,
        mode: str = "linear",
        padding: str = "zeros",
        *,
        align_corners: bool = False,
    ):
        properties = {
            "mode": StringAttr(mode),
            "padding": StringAttr(padding),
            "align_corners": unit_attr(align_corners),
        }
        super().__init__([input, grid], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, grid = operands
        mode = _one_of(properties, "mode", ("nearest", "linear", "cubic"))
        _one_of(properties, "padding", ("zeros", "border", "reflection"))
        require_elements(NUMERIC if mode == "nearest" else FLOAT, input, "the input")
        require_elements(FLOAT, grid, "the grid")
        batch, channels, *spatial = _image(input, (2, 3))
        if mode == "cubic" and len(spatial) != 2:
            raise VerifyException(f"expected an input of rank 4 for cubic interpolation, found {input}")
        shape = grid.get_shape()
        if len(shape) != len(spatial) + 2 or shape[0] != batch or shape[-1] != len(spatial):
            raise VerifyException(
                f"expected a grid of rank {len(spatial) + 2} for batch {batch}, with {len(spatial)} coordinates, "
                f"found {grid}"
            )
        if 0 in spatial:
            raise VerifyException(f"expected an image that is not empty, found {input}")
        return (with_shape(input, (batch, channels, *shape[1:-1])),)


@irdl_op_definition
class RoiAlignOp(InferredOp):
    """Regions of images pooled to one size. ONNX RoiAlign.

    Shapes: input `[n, c, h, w]`, rois `[r, 4]` (x1, y1, x2, y2), batch indices `[r]`, result `[r, c, size...]`. Each
    bin of a region is sampled at `samples x samples` points, bilinearly, or with `samples = 0` at as many along an axis
    as it is long, rounded up; what is more than 1 outside counts as 0. "avg" is the mean of the points, "max" the
    largest of their weighted neighbours, as in onnxruntime. Without `half_pixel` a region is not shifted by half an
    element, and at least 1 x 1.

    ```mlir
    %y = graph.roi_align %x, %rois, %batch mode = "avg" size = [7, 7] samples = 2 scale = 0.25 half_pixel
      : (tensor<1x8x32x32xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x8x7x7xf32>
    ```
    """

    name = "graph.roi_align"
    input = operand_def(TensorType)
    rois = operand_def(TensorType)
    batch_indices = operand_def(TensorType)
    result = result_def(TensorType)
    mode = prop_def(StringAttr)
    size = prop_def(I64Array)
    samples = prop_def(I64Attr)
    scale = prop_def(F64Attr)
    half_pixel = opt_prop_def(UnitAttr)
    assembly_format = (
        "$input `,` $rois `,` $batch_indices `mode` `=` $mode `size` `=` $size `samples` `=` $samples "
        "`scale` `=` $scale (`half_pixel` $half_pixel^)? " + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        rois: Operand,
        batch_indices: Operand,
        size: Sequence[int],
        samples: int,
        *,
        mode: str = "avg",
        scale: float = 1.0,
        half_pixel: bool = False,
    ):
        properties = {
            "mode": StringAttr(mode),
            "size": ints_attr(size),
            "samples": int_attr(samples),
            "scale": FloatAttr(scale, f64),
            "half_pixel": unit_attr(half_pixel),
        }
        super().__init__([input, rois, batch_indices], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, rois, indices = operands
        _one_of(properties, "mode", ("avg", "max"))
        require_elements(FLOAT, input, "the input")
        require_same_elements(input, rois, "the rois")
        require_elements(INDEX, indices, "the batch indices")
        _, channels, *image = _image(input, (2,))
        shape, size, samples = (
            rois.get_shape(),
            get_ints(properties, "size") or (),
            get_int(properties, "samples"),
        )
        if len(shape) != 2 or shape[1] != 4:
            raise VerifyException(f"expected rois of shape [r, 4], found {rois}")
        require_shape((shape[0],), indices, "the batch indices")
        if len(size) != 2 or min(size) < 1 or samples < 0:
            raise VerifyException(
                f"expected 2 sizes of 1 or more and samples of 0 or more, found {shape_text(size)} and {samples}"
            )
        if 0 in image:
            raise VerifyException(f"expected an image that is not empty, found {input}")
        return (with_shape(input, (shape[0], channels, *size)),)


@irdl_op_definition
class DeformConvOp(InferredOp):
    """Convolution whose taps are moved by offsets, read bilinearly, and weighted by a mask. ONNX DeformConv, no bias.

    Shapes: input `[n, c, h, w]`, weight `[m, c / group, kernel...]`, offset `[n, offset_group * prod(kernel) * 2,
    positions...]` (vertical, then horizontal), mask `[n, offset_group * prod(kernel), positions...]`, result `[n, m,
    positions...]`. Channels share offsets in `offset_group` groups. The input is 0 outside. f16 and bf16 are computed
    in f32.

    ```mlir
    %y = graph.deform_conv %x, %w, %offset, %mask pads = [1, 1, 1, 1]
      : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<1x18x8x8xf32>, tensor<1x9x8x8xf32>) -> tensor<1x6x8x8xf32>
    ```
    """

    name = "graph.deform_conv"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    offset = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    result = result_def(TensorType)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    group = prop_def(I64Attr, default_value=int_attr(1))
    offset_group = prop_def(I64Attr, default_value=int_attr(1))
    assembly_format = (
        "operands (`strides` `=` $strides^)? (`pads` `=` $pads^)? (`dilations` `=` $dilations^)? "
        "(`group` `=` $group^)? (`offset_group` `=` $offset_group^)? " + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        offset: Operand,
        mask: Operand | None = None,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group: int = 1,
        offset_group: int = 1,
    ):
        groups = {"group": int_attr(group), "offset_group": int_attr(offset_group)}
        super().__init__(
            [input, weight, offset, mask], {**window_properties(strides, pads, dilations), **groups}
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, offset, *mask = operands
        require_elements(FLOAT, input, "the input")
        for tensor, what in (
            (weight, "the weight"),
            (offset, "the offset"),
            *((m, "the mask") for m in mask),
        ):
            require_same_elements(input, tensor, what)
        batch, channels, *spatial = _image(input, (2,))
        if len(weight.get_shape()) != 4 or 0 in spatial:
            raise VerifyException(
                f"expected an image that is not empty and a weight of rank 4, found {input} and {weight}"
            )
        features, group_channels, *kernel = weight.get_shape()
        group, offset_group = get_int(properties, "group", 1), get_int(properties, "offset_group", 1)
        if group < 1 or features % group or channels != group * group_channels:
            raise VerifyException(
                f"expected {group} groups to divide {features} features, and {channels} channels into groups "
                f"of {group_channels}"
            )
        if offset_group < 1 or channels % offset_group:
            raise VerifyException(f"expected {offset_group} offset groups to divide {channels} channels")
        positions = Window.of(kernel, properties).positions(spatial)
        require_shape((batch, offset_group * prod(kernel) * 2, *positions), offset, "the offset")
        for tensor in mask:
            require_shape((batch, offset_group * prod(kernel), *positions), tensor, "the mask")
        return (with_shape(input, (batch, features, *positions)),)

    @property
    def window(self) -> Window:
        """The window over the spatial dimensions, with taps where they are not moved."""
        return Window.of(shape_of(self.weight)[2:], self.properties)


def _one_of(properties: Properties, name: str, allowed: Sequence[str]) -> str:
    attribute = properties.get(name)
    found = attribute.data if isinstance(attribute, StringAttr) else ""
    if found not in allowed:
        choices = ", ".join(f'"{choice}"' for choice in allowed)
        raise VerifyException(f'expected {name} to be one of {choices}, found "{found}"')
    return found


def _image(input: Tensor, ranks: Sequence[int]) -> tuple[int, ...]:
    """The shape of an input with one of these numbers of spatial dimensions."""
    shape = input.get_shape()
    if len(shape) - 2 not in ranks:
        expected = " or ".join(str(rank + 2) for rank in ranks)
        raise VerifyException(f"expected an input of rank {expected}, found {input}")
    return shape
