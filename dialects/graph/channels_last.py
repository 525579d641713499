"""Windows over tensors whose channels are their last dimension (NHWC): convolution and pooling.

Each means what the operation of the same name on channels-first tensors means, between transposes. They are operations
of their own, not a property, so that whatever knows the others alone does not take these for them: `assign-layouts`
makes them, as the last thing at the graph level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.activation import ActivationAttr
from mlopt.dialects.graph.base import (
    FLOAT,
    I64Array,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    by_definition,
    get_int,
    int_attr,
    shape_of,
    unit_attr,
    with_shape,
)
from mlopt.dialects.graph.contraction import CONVOLUTION, ConvOp, window_properties
from mlopt.dialects.graph.pooling import AveragePoolOp, MaxPoolOp, PoolOp
from mlopt.dialects.graph.window import Window


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation that takes `[n, c, spatial...]` to `[n, spatial..., c]`."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> tuple[int, ...]:
    """The permutation that takes `[n, spatial..., c]` to `[n, c, spatial...]`."""
    return (0, rank - 1, *range(1, rank - 1))


def kernel_first(rank: int) -> tuple[int, ...]:
    """The permutation that takes a weight `[m, c, kernel...]` to `[kernel..., c, m]`."""
    return (*range(2, rank), 1, 0)


def kernel_last(rank: int) -> tuple[int, ...]:
    """The permutation that takes a weight `[kernel..., c, m]` to `[m, c, kernel...]`."""
    return (rank - 1, rank - 2, *range(rank - 2))


def _permuted(tensor: Tensor, permutation: Sequence[int]) -> Tensor:
    return with_shape(tensor, [tensor.get_shape()[axis] for axis in permutation])


def _channels_first(tensor: Tensor) -> Tensor:
    return _permuted(tensor, channels_first(_rank(tensor)))


def _channels_last(tensor: Tensor) -> Tensor:
    return _permuted(tensor, channels_last(_rank(tensor)))


def _rank(tensor: Tensor) -> int:
    rank = len(tensor.get_shape())
    if not 3 <= rank <= 5:
        raise VerifyException(f"expected a rank of 3 to 5, found {tensor}")
    return rank


@irdl_op_definition
class ChannelsLastConvOp(InferredOp):
    """`graph.conv` of channels-last tensors.

    Shapes: input `[n, spatial..., c]`, weight `[kernel..., c / group, m]`, bias `[m]`, residual and result
    `[n, positions..., m]`.

    ```mlir
    %y = graph.channels_last_conv %x, %w, %b strides = [2, 2] pads = [3, 3, 3, 3] activation = <relu>
      : (tensor<1x224x224x3xf32>, tensor<7x7x3x64xf32>, tensor<64xf32>) -> tensor<1x112x112x64xf32>
    ```
    """

    name = "graph.channels_last_conv"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    result = result_def(TensorType)
    activation = opt_prop_def(ActivationAttr)
    strides = opt_prop_def(I64Array)
    pads = opt_prop_def(I64Array)
    dilations = opt_prop_def(I64Array)
    group = prop_def(I64Attr, default_value=int_attr(1))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = CONVOLUTION

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        residual: Operand | None = None,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group: int = 1,
        activation: ActivationAttr | None = None,
    ):
        super().__init__(
            [input, weight, bias, residual],
            {
                **window_properties(strides, pads, dilations),
                "group": int_attr(group),
                "activation": activation,
            },
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, bias, residual = by_definition(operands, properties)
        assert input is not None
        assert weight is not None
        arranged = (
            _channels_first(input),
            _permuted(weight, kernel_last(_rank(weight))),
            bias,
            None if residual is None else _channels_first(residual),
        )
        (result,) = ConvOp.infer([tensor for tensor in arranged if tensor is not None], properties)
        return (_channels_last(result),)

    @property
    def window(self) -> Window:
        """The window over the spatial dimensions."""
        return Window.of(shape_of(self.weight)[:-2], self.properties)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return get_int(self.properties, "group", 1)


class ChannelsLastPoolOp(PoolOp):
    """Base of the pooling operations of channels-last tensors: input `[n, spatial..., c]`, result
    `[n, positions..., c]`."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (result,) = super().infer([_channels_first(operands[0])], properties)
        return (_channels_last(result),)

    @property
    def positions(self) -> tuple[int, ...]:
        """How many positions the window takes in each spatial dimension."""
        return shape_of(self.result)[1:-1]


@irdl_op_definition
class ChannelsLastMaxPoolOp(ChannelsLastPoolOp):
    """`graph.max_pool` of channels-last tensors.

    ```mlir
    %y = graph.channels_last_max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1]
      : (tensor<1x112x112x64xf32>) -> tensor<1x56x56x64xf32>
    ```
    """

    name = "graph.channels_last_max_pool"
    ELEMENTS: ClassVar = MaxPoolOp.ELEMENTS


@irdl_op_definition
class ChannelsLastAveragePoolOp(ChannelsLastPoolOp):
    """`graph.average_pool` of channels-last tensors.

    ```mlir
    %y = graph.channels_last_average_pool %x kernel = [2, 2] strides = [2, 2] count_include_pad
      : (tensor<1x4x4x8xf32>) -> tensor<1x2x2x8xf32>
    ```
    """

    name = "graph.channels_last_average_pool"
    count_include_pad = opt_prop_def(UnitAttr)
    assembly_format = AveragePoolOp.assembly_format
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
