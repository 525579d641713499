"""Windows the other way round: each element is spread over the window at its position, and what meets is added."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.activation import ActivationAttr, require_activation
from mlopt.dialects.graph.base import (
    NUMERIC,
    SIGNATURE,
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
    with_shape,
)
from mlopt.dialects.graph.contraction import window_properties
from mlopt.dialects.graph.window import Window


@irdl_op_definition
class ConvTransposeOp(InferredOp):
    """Transposed convolution over 1 to 3 spatial dimensions: the gradient of `graph.conv`. ONNX ConvTranspose.

    Shapes: input `[n, c, spatial...]`, weight `[c, m / group, kernel...]`, bias `[m]`, result `[n, m, sizes...]`. The
    element at position `i` adds its product with tap `k` of the weight to the result at `stride * i + dilation * k -
    low`; `pads` (all lows, then all highs) are cut off, `output_padding` is what stays at the end beyond the last
    window. f16 and bf16 products are summed in f32, with the bias, and rounded once; integers wrap. The `activation` is
    applied to that.

    ```mlir
    %y = graph.conv_transpose %x, %w, %b strides = [2, 2]
      : (tensor<1x64x16x16xf32>, tensor<64x32x2x2xf32>, tensor<32xf32>) -> tensor<1x32x32x32xf32>
    ```
    """

    name = "graph.conv_transpose"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    output_padding = opt_prop_def(I64Array)
    group = prop_def(I64Attr, default_value=int_attr(1))
    activation = opt_prop_def(ActivationAttr)
    assembly_format = (
        "operands (`strides` `=` $strides^)? (`pads` `=` $pads^)? (`dilations` `=` $dilations^)? "
        "(`output_padding` `=` $output_padding^)? (`group` `=` $group^)? "
        "(`activation` `=` $activation^)? " + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        group: int = 1,
        activation: ActivationAttr | None = None,
    ):
        extra = ints_attr(output_padding or ()) if any(output_padding or ()) else None
        properties = {"output_padding": extra, "group": int_attr(group), "activation": activation}
        super().__init__([input, weight, bias], {**window_properties(strides, pads, dilations), **properties})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, *bias = operands
        require_elements(NUMERIC, input, "the input")
        require_same_elements(input, weight, "the weight")
        rank = len(input.get_shape())
        if not 3 <= rank <= 5:
            raise VerifyException(f"expected an input of rank 3 to 5, found {input}")
        if len(weight.get_shape()) != rank:
            raise VerifyException(f"expected a weight of the input's rank {rank}, found {weight}")
        batch, channels, *spatial = input.get_shape()
        weight_channels, group_features, *kernel = weight.get_shape()
        group = get_int(properties, "group", 1)
        if group < 1 or channels % group or channels != weight_channels:
            raise VerifyException(
                f"expected {group} groups to divide {channels} channels, and as many channels in the weight, "
                f"found {weight}"
            )
        for operand in bias:
            require_same_elements(input, operand, "the bias")
            require_shape((group * group_features,), operand, "the bias")
        window = Window.of(kernel, properties)
        extra = get_ints(properties, "output_padding") or (0,) * len(kernel)
        if len(extra) != len(kernel) or any(number < 0 for number in extra):
            raise VerifyException(
                f"expected {len(kernel)} output_padding of 0 or more, found {shape_text(extra)}"
            )
        sizes = [
            stride * (size - 1) + extent + more - low - high
            for size, stride, extent, more, low, high in zip(
                spatial, window.strides, window.extent, extra, window.low, window.high, strict=True
            )
        ]
        if any(size < 0 for size in sizes) or 0 in spatial:
            raise VerifyException(f"expected a result of sizes of 0 or more, found {shape_text(sizes)}")
        result = with_shape(input, (batch, group * group_features, *sizes))
        require_activation(properties, result)
        return (result,)

    @property
    def window(self) -> Window:
        """The window over the spatial dimensions of the result."""
        return Window.of(shape_of(self.weight)[2:], self.properties)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return get_int(self.properties, "group", 1)


@irdl_op_definition
class Col2ImOp(InferredOp):
    """Columns of windows added up to the image that they are cut from. ONNX Col2Im.

    Shapes: input `[n, c * prod(kernel), positions]` with taps and positions in row-major order, result `[n, c,
    image...]`. Tap `k` of position `i` is added to the image at `stride * i + dilation * k - low`, if that is in it.
    f16 and bf16 are summed in f32; integers wrap.

    ```mlir
    %y = graph.col2im %x image = [5, 5] kernel = [1, 5] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
    ```
    """

    name = "graph.col2im"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    image = prop_def(I64Array)
    kernel = prop_def(I64Array)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    assembly_format = (
        "$input `image` `=` $image `kernel` `=` $kernel (`strides` `=` $strides^)? (`pads` `=` $pads^)? "
        "(`dilations` `=` $dilations^)? " + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        image: Sequence[int],
        kernel: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
    ):
        properties = window_properties(strides, pads, dilations)
        super().__init__([input], {"image": ints_attr(image), "kernel": ints_attr(kernel), **properties})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(NUMERIC, input, "the input")
        image, kernel = get_ints(properties, "image") or (), get_ints(properties, "kernel") or ()
        if not image or len(kernel) != len(image):
            raise VerifyException(
                f"expected an image and a kernel of one rank, found {shape_text(image)} and {shape_text(kernel)}"
            )
        window = Window.of(kernel, properties)
        taps, count = prod(kernel), prod(window.positions(image))
        shape = input.get_shape()
        if len(shape) != 3 or shape[1] % taps or shape[2] != count:
            raise VerifyException(
                f"expected an input of rank 3 with a multiple of {taps} rows and {count} columns, found {input}"
            )
        return (with_shape(input, (shape[0], shape[1] // taps, *image)),)

    @property
    def window(self) -> Window:
        """The window over the image."""
        return Window.of(get_ints(self.properties, "kernel") or (), self.properties)

    @property
    def positions(self) -> tuple[int, ...]:
        """How many positions the window takes in each dimension of the image."""
        return self.window.positions(get_ints(self.properties, "image") or ())
