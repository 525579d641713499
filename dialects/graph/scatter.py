"""Operations that write at computed positions: scatter_elements and scatter_nd.

The result is the first operand, `data`, with `updates` written or combined into it, in the order of the updates.
Indices are as for the gathers: i32 or i64, in [-size, 0) from the end, an error at run time outside of [-size, size).
Of several updates of one element, without a reduction, the last one stays; a reduction combines all of them. With
`count`, a number in i64, only so many of the indices and updates count, from the first along their first dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType, i64
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    INDEX,
    NUMERIC,
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
    require_same_elements,
    require_shape,
)

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""How an element and an update become the new one: the update itself, or both combined; a maximum with NaN is NaN."""


class ScatterBase(InferredOp):
    """Base of the scatters."""

    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    count = opt_operand_def(TensorType)
    result = result_def(TensorType)
    reduction = prop_def(StringAttr, default_value=StringAttr("none"))


def _require_operands(operands: Sequence[Tensor], properties: Properties) -> None:
    data, indices, updates, *count = operands
    require_elements(INDEX, indices, "the indices")
    if count and count[0] != TensorType(i64, []):
        raise VerifyException(f"expected tensor<i64> for the count, found {count[0]}")
    require_same_elements(data, updates, "the updates")
    reduction = properties.get("reduction", StringAttr("none"))
    name = reduction.data if isinstance(reduction, StringAttr) else str(reduction)
    if name not in REDUCTIONS:
        raise VerifyException(f"expected a reduction (one of {', '.join(REDUCTIONS)}), found {name!r}")
    if name != "none":
        require_elements(NUMERIC, data, "a reduction")


@irdl_op_definition
class ScatterElementsOp(ScatterBase):
    """For each position of `indices`, the update goes to the same position but for `axis`, where the index says.

    Indices and updates have one shape, of the rank of the data, and are on no other axis longer. ONNX
    ScatterElements, `numpy.put_along_axis`.

    ```mlir
    %y = graph.scatter_elements %x, %i, %u axis = 1 reduction = "add"
      : (tensor<2x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x9xf32>
    ```
    """

    name = "graph.scatter_elements"
    axis = prop_def(I64Attr)
    assembly_format = (
        "$data `,` $indices `,` $updates (`count` `=` $count^)? `axis` `=` $axis (`reduction` `=` $reduction^)? "
        + SIGNATURE
    )

    def __init__(
        self,
        data: Operand,
        indices: Operand,
        updates: Operand,
        axis: int = 0,
        reduction: str = "none",
        count: Operand | None = None,
    ):
        properties = {
            "axis": int_attr(normalize_axis(axis, rank_of(data))),
            "reduction": StringAttr(reduction),
        }
        super().__init__([data, indices, updates, count], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        data, indices, updates = operands[:3]
        _require_operands(operands, properties)
        shape, positions, axis = data.get_shape(), indices.get_shape(), get_int(properties, "axis")
        require_axis(axis, len(shape))
        if len(positions) != len(shape) or any(
            written > size
            for dimension, (written, size) in enumerate(zip(positions, shape, strict=True))
            if dimension != axis
        ):
            raise VerifyException(f"expected indices within {data} but for axis {axis}, found {indices}")
        require_shape(positions, updates, "the updates")
        return (data,)


@irdl_op_definition
class ScatterNdOp(ScatterBase):
    """Slices of updates go to the places that index tuples say, which the last dimension of `indices` holds.

    With tuples of length `k`: data `[n_1 ... n_k, rest...]`, indices `[i..., k]`, updates `[i..., rest...]`. ONNX
    ScatterND.

    ```mlir
    %y = graph.scatter_nd %x, %i, %u reduction = "max"
      : (tensor<2x9x4xf32>, tensor<5x2xi64>, tensor<5x4xf32>) -> tensor<2x9x4xf32>
    ```
    """

    name = "graph.scatter_nd"
    assembly_format = (
        "$data `,` $indices `,` $updates (`count` `=` $count^)? (`reduction` `=` $reduction^)? " + SIGNATURE
    )

    def __init__(
        self,
        data: Operand,
        indices: Operand,
        updates: Operand,
        reduction: str = "none",
        count: Operand | None = None,
    ):
        super().__init__([data, indices, updates, count], {"reduction": StringAttr(reduction)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        data, indices, updates = operands[:3]
        _require_operands(operands, properties)
        require_rank_at_least(1, indices, "the indices")
        shape, (*positions, length) = data.get_shape(), indices.get_shape()
        if len(operands) > 3 and not positions:
            raise VerifyException(f"expected several index tuples, of which some count, found {indices}")
        if length > len(shape):
            raise VerifyException(f"expected index tuples of at most {len(shape)} numbers, found {indices}")
        require_shape((*positions, *shape[length:]), updates, "the updates")
        return (data,)
