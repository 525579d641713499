"""Normalizations and softmax: a row of a tensor is scaled by what the row itself or stored statistics say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, TensorType, f64
from xdsl.irdl import (
    BaseAttr,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    SIGNATURE,
    F64Attr,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    get_int,
    int_attr,
    normalize_axis,
    rank_of,
    require_axis,
    require_broadcast_to,
    require_elements,
    require_rank_at_least,
    require_same_elements,
    require_shape,
    shape_of,
)


@irdl_op_definition
class BatchNormOp(InferredOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias` per channel (dimension 1), statistics given.

    ONNX BatchNormalization in inference; scale, bias, mean and variance have shape `[c]`.

    ```mlir
    %y = graph.batch_norm %x, %scale, %bias, %mean, %variance epsilon = 1.000000e-05
      : (tensor<1x8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4xf32>
    ```
    """

    name = "graph.batch_norm"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    result = result_def(TensorType)
    epsilon = prop_def(F64Attr)
    assembly_format = "operands `epsilon` `=` $epsilon " + SIGNATURE

    def __init__(
        self,
        input: Operand,
        scale: Operand,
        bias: Operand,
        mean: Operand,
        variance: Operand,
        *,
        epsilon: float = 1e-5,
    ):
        super().__init__([input, scale, bias, mean, variance], {"epsilon": FloatAttr(epsilon, f64)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, *parameters = operands
        require_elements(FLOAT, input, "the input")
        require_rank_at_least(2, input, "the input")
        for name, parameter in zip(("scale", "bias", "mean", "variance"), parameters, strict=True):
            require_same_elements(input, parameter, f"the {name}")
            require_shape(input.get_shape()[1:2], parameter, f"the {name}")
        return (input,)


class RowNormOp(InferredOp):
    """Base of the normalizations over all dimensions from `axis` on. Subclasses define the operands, input first."""

    result = result_def(TensorType)
    axis = prop_def(I64Attr)
    epsilon = prop_def(F64Attr)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, *parameters = operands
        require_elements(FLOAT, input, "the input")
        require_axis(get_int(properties, "axis"), len(input.get_shape()))
        for name, parameter in zip(("scale", "bias"), parameters, strict=False):
            require_same_elements(input, parameter, f"the {name}")
            require_broadcast_to(input.get_shape(), parameter, f"the {name}")
        return (input,)


@irdl_op_definition
class LayerNormOp(RowNormOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, statistics over the dimensions from `axis` on.

    scale and bias broadcast to the input. f16 and bf16 are computed in f32 and rounded once, at the end.
    ONNX LayerNormalization without its optional results.

    ```mlir
    %y = graph.layer_norm %x, %scale, %bias axis = 2 epsilon = 1.000000e-05
      : (tensor<1x77x256xf32>, tensor<256xf32>, tensor<256xf32>) -> tensor<1x77x256xf32>
    ```
    """

    name = "graph.layer_norm"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    assembly_format = "operands `axis` `=` $axis `epsilon` `=` $epsilon " + SIGNATURE

    def __init__(
        self,
        input: Operand,
        scale: Operand,
        bias: Operand | None = None,
        *,
        axis: int = -1,
        epsilon: float = 1e-5,
    ):
        super().__init__(
            [input, scale, bias],
            {"axis": int_attr(normalize_axis(axis, rank_of(input))), "epsilon": FloatAttr(epsilon, f64)},
        )


@irdl_op_definition
class RmsNormOp(RowNormOp):
    """`x / sqrt(mean(x * x) + epsilon) * scale`, the mean taken over the dimensions from `axis` on.

    ONNX RMSNormalization; scale broadcasts to the input. f16 and bf16 are computed in f32 and rounded once,
    at the end.

    ```mlir
    %y = graph.rms_norm %x, %scale axis = 2 epsilon = 1.000000e-05
      : (tensor<1x77x256xf32>, tensor<256xf32>) -> tensor<1x77x256xf32>
    ```
    """

    name = "graph.rms_norm"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    assembly_format = "operands `axis` `=` $axis `epsilon` `=` $epsilon " + SIGNATURE

    def __init__(self, input: Operand, scale: Operand, *, axis: int = -1, epsilon: float = 1e-5):
        super().__init__(
            [input, scale],
            {"axis": int_attr(normalize_axis(axis, rank_of(input))), "epsilon": FloatAttr(epsilon, f64)},
        )


@irdl_op_definition
class GroupNormOp(InferredOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, statistics over each of `groups` groups of channels.

    Channels are dimension 1, and their number is a multiple of `groups`; scale and bias have shape `[c]`. f16 and bf16
    are computed in f32 and rounded once, at the end. ONNX GroupNormalization, and InstanceNormalization if each channel
    is a group.

    ```mlir
    %y = graph.group_norm %x, %scale, %bias groups = 2 epsilon = 1.000000e-05
      : (tensor<1x8x7x7xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x7x7xf32>
    ```
    """

    name = "graph.group_norm"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    result = result_def(TensorType)
    groups = prop_def(I64Attr)
    epsilon = prop_def(F64Attr)
    assembly_format = "operands `groups` `=` $groups `epsilon` `=` $epsilon " + SIGNATURE

    def __init__(self, input: Operand, scale: Operand, bias: Operand, groups: int, *, epsilon: float = 1e-5):
        super().__init__(
            [input, scale, bias], {"groups": int_attr(groups), "epsilon": FloatAttr(epsilon, f64)}
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, *parameters = operands
        require_elements(FLOAT, input, "the input")
        require_rank_at_least(2, input, "the input")
        channels, groups = input.get_shape()[1], get_int(properties, "groups")
        if groups < 1 or channels % groups:
            raise VerifyException(
                f"expected a number of groups that divides {channels} channels, found {groups}"
            )
        for name, parameter in zip(("scale", "bias"), parameters, strict=True):
            require_same_elements(input, parameter, f"the {name}")
            require_shape((channels,), parameter, f"the {name}")
        return (input,)

    @property
    def rows(self) -> tuple[int, int, int, int]:
        """The input's shape with groups apart: images, groups, channels of each, positions."""
        images, channels, *spatial = shape_of(self.input)
        groups = self.groups.value.data
        return images, groups, channels // groups, prod(spatial)


class SoftmaxBase(InferredOp):
    """Base of softmax and log-softmax: along one axis, result of the operand's type."""

    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(T)
    result = result_def(T)
    axis = prop_def(I64Attr)
    assembly_format = "$input `axis` `=` $axis attr-dict `:` type($input)"

    def __init__(self, input: Operand, axis: int = -1):
        super().__init__([input], {"axis": int_attr(normalize_axis(axis, rank_of(input)))})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        require_elements(FLOAT, operands[0], "the operand")
        require_axis(get_int(properties, "axis"), len(operands[0].get_shape()))
        return (operands[0],)


@irdl_op_definition
class SoftmaxOp(SoftmaxBase):
    """`exp(x - m) / sum(exp(x - m))` along `axis`, m being the largest element there.

    ONNX Softmax since opset 13. A row of -inf only gives NaN. f16 and bf16 are computed in f32.

    ```mlir
    %y = graph.softmax %x axis = 3 : tensor<1x2x8x8xf32>
    ```
    """

    name = "graph.softmax"


@irdl_op_definition
class LogSoftmaxOp(SoftmaxBase):
    """`x - m - log(sum(exp(x - m)))` along `axis`, m being the largest element there.

    ONNX LogSoftmax since opset 13.

    ```mlir
    %y = graph.log_softmax %x axis = 1 : tensor<4x8xf32>
    ```
    """

    name = "graph.log_softmax"
