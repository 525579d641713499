"""Pooling: a window slides over the spatial dimensions and gives one number per position and channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    NUMERIC,
    SIGNATURE,
    Elements,
    I64Array,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    get_ints,
    ints_attr,
    require_elements,
    shape_text,
    tensor_type,
    unit_attr,
    with_shape,
)
from mlopt.dialects.graph.contraction import window_properties
from mlopt.dialects.graph.window import Window

WINDOW = (
    "$input `kernel` `=` $kernel (`strides` `=` $strides^)? (`pads` `=` $pads^)? "
    "(`dilations` `=` $dilations^)? (`ceil_mode` $ceil_mode^)?"
)


class PoolOp(InferredOp):
    """Base of the pooling operations: input `[n, c, spatial...]`, result `[n, c, positions...]`."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    kernel = prop_def(I64Array)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    ceil_mode = opt_prop_def(UnitAttr)
    assembly_format = f"{WINDOW} {SIGNATURE}"

    ELEMENTS: ClassVar[Elements] = NUMERIC

    def __init__(
        self,
        input: Operand,
        kernel: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        ceil_mode: bool = False,
        flags: dict[str, Attribute | None] | None = None,
    ):
        properties: dict[str, Attribute | None] = {**window_properties(strides, pads, dilations)}
        properties |= {"kernel": ints_attr(kernel), "ceil_mode": unit_attr(ceil_mode)}
        super().__init__([input], properties | (flags or {}))

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        require_elements(cls.ELEMENTS, input, "the input")
        kernel = get_ints(properties, "kernel") or ()
        rank = len(input.get_shape())
        if not 3 <= rank <= 5:
            raise VerifyException(f"expected an input of rank 3 to 5, found {input}")
        if len(kernel) != rank - 2:
            raise VerifyException(f"expected a kernel of rank {rank - 2}, found {shape_text(kernel)}")
        window = Window.of(kernel, properties)
        if any(
            pad >= extent for pad, extent in zip(window.low + window.high, window.extent * 2, strict=True)
        ):
            raise VerifyException(
                f"expected pads below the window's extent {shape_text(window.extent)}, "
                f"found {shape_text(window.low + window.high)}"
            )
        batch, channels, *spatial = input.get_shape()
        positions = window.positions(spatial, ceil_mode="ceil_mode" in properties)
        return (with_shape(input, (batch, channels, *positions)),)

    @property
    def positions(self) -> tuple[int, ...]:
        """How many positions the window takes in each spatial dimension."""
        return tensor_type(self.result.type).get_shape()[2:]

    @property
    def window(self) -> Window:
        """The window over the spatial dimensions."""
        return Window.of(get_ints(self.properties, "kernel") or (), self.properties)


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """The largest element in each window, NaN if one is NaN; padding never wins. ONNX MaxPool, values only.

    A window that covers padding only (dilation can do that) gives -inf, or the smallest integer.

    ```mlir
    %y = graph.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1]
      : (tensor<1x64x112x112xf32>) -> tensor<1x64x56x56xf32>
    ```
    """

    name = "graph.max_pool"


@irdl_op_definition
class MaxPoolWithIndicesOp(PoolOp):
    """As `graph.max_pool`, and where each largest element stands. ONNX MaxPool with both outputs.

    An index (i64) counts the elements of the whole input, in row-major order, or with `column_major` with the spatial
    dimensions in reverse order. Of equal elements the first in the window counts, of NaNs the first one; padding never
    counts.

    ```mlir
    %y, %i = graph.max_pool_with_indices %x kernel = [2, 2] strides = [2, 2]
      : (tensor<1x8x4x4xf32>) -> (tensor<1x8x2x2xf32>, tensor<1x8x2x2xi64>)
    ```
    """

    name = "graph.max_pool_with_indices"
    # Defined here too: those of a subclass come before those of its base.
    result = result_def(TensorType)
    indices = result_def(TensorType)
    column_major = opt_prop_def(UnitAttr)
    assembly_format = f"{WINDOW} (`column_major` $column_major^)? {SIGNATURE}"

    def __init__(
        self,
        input: Operand,
        kernel: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        ceil_mode: bool = False,
        column_major: bool = False,
    ):
        super().__init__(
            input,
            kernel,
            strides=strides,
            pads=pads,
            dilations=dilations,
            ceil_mode=ceil_mode,
            flags={"column_major": unit_attr(column_major)},
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (values,) = super().infer(operands, properties)
        return (values, TensorType(i64, values.get_shape()))


@irdl_op_definition
class AveragePoolOp(PoolOp):
    """The mean of the elements in each window. ONNX AveragePool.

    The sum is divided by the number of elements of the tensor in the window; with `count_include_pad`, by the
    number of elements of the tensor or its padding (what `ceil_mode` adds beyond the padding never counts).

    ```mlir
    %y = graph.average_pool %x kernel = [2, 2] strides = [2, 2] count_include_pad
      : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
    ```
    """

    name = "graph.average_pool"
    count_include_pad = opt_prop_def(UnitAttr)
    assembly_format = f"{WINDOW} (`count_include_pad` $count_include_pad^)? {SIGNATURE}"
    ELEMENTS: ClassVar = FLOAT

    def __init__(
        self,
        input: Operand,
        kernel: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ):
        super().__init__(
            input,
            kernel,
            strides=strides,
            pads=pads,
            dilations=dilations,
            ceil_mode=ceil_mode,
            flags={"count_include_pad": unit_attr(count_include_pad)},
        )
