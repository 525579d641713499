"""Operations that read at computed positions: gather, gather_elements and gather_nd.

Indices are i32 or i64. An index in [-size, 0) counts from the end; what is outside [-size, size) is an error
at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    INDEX,
    SIGNATURE,
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
    require_elements,
    require_rank_at_least,
    with_shape,
)


class GatherBase(InferredOp):
    """Base of the gathers along one axis."""

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    result = result_def(TensorType)
    axis = prop_def(I64Attr)
    assembly_format = "$input `,` $indices `axis` `=` $axis " + SIGNATURE

    def __init__(self, input: Operand, indices: Operand, axis: int = 0):
        super().__init__([input, indices], {"axis": int_attr(normalize_axis(axis, rank_of(input)))})


@irdl_op_definition
class GatherOp(GatherBase):
    """Slices of the operand along `axis`, picked by indices of any shape. ONNX Gather, `numpy.take`.

    Shapes: input `[a..., n, b...]`, indices `[i...]`, result `[a..., i..., b...]`.

    ```mlir
    %y = graph.gather %table, %ids axis = 0 : (tensor<32000x256xf32>, tensor<77xi64>) -> tensor<77x256xf32>
    ```
    """

    name = "graph.gather"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, indices = operands
        require_elements(INDEX, indices, "the indices")
        shape, axis = input.get_shape(), get_int(properties, "axis")
        require_axis(axis, len(shape))
        return (with_shape(input, (*shape[:axis], *indices.get_shape(), *shape[axis + 1 :])),)


@irdl_op_definition
class GatherElementsOp(GatherBase):
    """For each position of `indices`, the operand's element there with the index as its `axis` coordinate.

    ONNX GatherElements, `numpy.take_along_axis` without broadcasting.

    ```mlir
    %y = graph.gather_elements %x, %i axis = 1 : (tensor<2x9xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.gather_elements"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, indices = operands
        require_elements(INDEX, indices, "the indices")
        shape, positions, axis = input.get_shape(), indices.get_shape(), get_int(properties, "axis")
        require_axis(axis, len(shape))
        if len(positions) != len(shape) or any(
            wanted > size
            for dimension, (wanted, size) in enumerate(zip(positions, shape, strict=True))
            if dimension != axis
        ):
            raise VerifyException(f"expected indices within {input} but for axis {axis}, found {indices}")
        return (with_shape(input, positions),)


@irdl_op_definition
class GatherNdOp(InferredOp):
    """Slices of the operand at index tuples, which the last dimension of `indices` holds. ONNX GatherND.

    With tuples of length `k` and `batch_dims` batch dimensions: input `[batch..., n_1 ... n_k, rest...]`,
    indices `[batch..., i..., k]`, result `[batch..., i..., rest...]`.

    ```mlir
    %y = graph.gather_nd %x, %i batch_dims = 0 : (tensor<2x9x4xf32>, tensor<5x2xi64>) -> tensor<5x4xf32>
    ```
    """

    name = "graph.gather_nd"
    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    result = result_def(TensorType)
    batch_dims = prop_def(I64Attr, default_value=int_attr(0))
    assembly_format = "$input `,` $indices (`batch_dims` `=` $batch_dims^)? " + SIGNATURE

    def __init__(self, input: Operand, indices: Operand, batch_dims: int = 0):
        super().__init__([input, indices], {"batch_dims": int_attr(batch_dims)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, indices = operands
        require_elements(INDEX, indices, "the indices")
        require_rank_at_least(1, indices, "the indices")
        shape, positions = input.get_shape(), indices.get_shape()
        batch, length = get_int(properties, "batch_dims"), positions[-1]
        if not 0 <= batch < min(len(shape), len(positions)):
            raise VerifyException(
                f"expected batch_dims in [0, {min(len(shape), len(positions))}), found {batch}"
            )
        if shape[:batch] != positions[:batch]:
            raise VerifyException(f"expected {batch} equal batch dimensions, found {input} and {indices}")
        if batch + length > len(shape):
            raise VerifyException(
                f"expected index tuples of at most {len(shape) - batch} numbers, found {indices}"
            )
        return (with_shape(input, (*positions[:-1], *shape[batch + length :])),)
