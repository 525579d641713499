"""Operations that give tensors whose size depends on data: nonzero, unique and non_max_suppression; require_equal.

Types are static: such a tensor has the largest size there can be along one axis, its bound, and the operation gives
the extent along that axis too, a number in i64. The elements beyond the extent are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType, UnitAttr, f32, i64
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
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
    shape_text,
    unit_attr,
    with_shape,
)

_NUMBER: Tensor = TensorType(i64, [])


@irdl_op_definition
class NonZeroOp(InferredOp):
    """The positions of the elements that are not zero (NaN is not, -0.0 is), in row-major order, and their number.

    A position is a column of `indices`, one coordinate per dimension of the operand. ONNX NonZero.

    ```mlir
    %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
    ```
    """

    name = "graph.nonzero"
    input = operand_def(TensorType)
    indices = result_def(TensorType)
    count = result_def(TensorType)
    assembly_format = "$input " + SIGNATURE

    def __init__(self, input: Operand):
        super().__init__([input])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        shape = operands[0].get_shape()
        return TensorType(i64, [len(shape), prod(shape)]), _NUMBER


@irdl_op_definition
class UniqueOp(InferredOp):
    """The distinct elements, or slices along `axis`, and their number. ONNX Unique, `numpy.unique`.

    - `values`: one of each, ascending (slices by their elements in row-major order), NaN last; or with `in_order` as
      they first occur. Without `axis` the operand is taken as a vector.
    - `indices`: where in the operand each first occurs; `counts`: how often; `inverse`: which value stands at each
      place.
    - `count`: how many there are. All but `inverse` are bounded by the number of elements or slices.

    NaN is one value, and -0.0 is 0.0.

    ```mlir
    %v, %i, %p, %c, %n = graph.unique %x axis = 0
        : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<i64>)
    ```
    """

    name = "graph.unique"
    input = operand_def(TensorType)
    values = result_def(TensorType)
    indices = result_def(TensorType)
    inverse = result_def(TensorType)
    counts = result_def(TensorType)
    count = result_def(TensorType)
    axis = opt_prop_def(I64Attr)
    in_order = opt_prop_def(UnitAttr)
    assembly_format = "$input (`axis` `=` $axis^)? (`in_order` $in_order^)? " + SIGNATURE

    def __init__(self, input: Operand, axis: int | None = None, *, in_order: bool = False):
        properties = {
            "axis": None if axis is None else int_attr(normalize_axis(axis, rank_of(input))),
            "in_order": unit_attr(in_order),
        }
        super().__init__([input], properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        shape = input.get_shape()
        if "axis" in properties:
            axis = get_int(properties, "axis")
            require_axis(axis, len(shape))
            values, size = input, shape[axis]
        else:
            size = prod(shape)
            values = with_shape(input, [size])
        positions = TensorType(i64, [size])
        return values, positions, positions, positions, _NUMBER


@irdl_op_definition
class NonMaxSuppressionOp(InferredOp):
    """Boxes by descending score, without those that overlap one chosen before, for each batch and class; their
    number.

    - `boxes` `[batch, box, 4]` hold two opposite corners `y1, x1, y2, x2`, or with `center` `x, y, width, height`;
      `scores` are `[batch, class, box]`; of equal scores the first box counts.
    - A box is chosen if its score is above `score_threshold`, and its intersection over union with every box chosen
      before is not above `iou_threshold`. At most `limit` boxes are chosen for a class of a batch, and at most
      `most`, if that is less.
    - A row of `selected` is the number of a batch, of a class and of a box. Its bound is `batch * class * min(most,
      box)`.

    ONNX NonMaxSuppression. Numbers are computed in f32, areas of less than nothing count as nothing.

    ```mlir
    %s, %n = graph.non_max_suppression %boxes, %scores, %limit, %iou most = 10
      : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
    ```
    """

    name = "graph.non_max_suppression"
    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    limit = operand_def(TensorType)
    iou_threshold = operand_def(TensorType)
    score_threshold = opt_operand_def(TensorType)
    selected = result_def(TensorType)
    count = result_def(TensorType)
    most = prop_def(I64Attr)
    center = opt_prop_def(UnitAttr)
    assembly_format = "operands `most` `=` $most (`center` $center^)? " + SIGNATURE

    def __init__(
        self,
        boxes: Operand,
        scores: Operand,
        limit: Operand,
        iou_threshold: Operand,
        score_threshold: Operand | None = None,
        *,
        most: int,
        center: bool = False,
    ):
        operands = [boxes, scores, limit, iou_threshold, score_threshold]
        super().__init__(operands, {"most": int_attr(most), "center": unit_attr(center)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        boxes, scores, limit, *thresholds = operands
        expected = (TensorType(f32, boxes.get_shape()), TensorType(f32, scores.get_shape()), _NUMBER)
        for want, found in zip(expected, (boxes, scores, limit), strict=True):
            if want != found:
                raise VerifyException(f"expected {want}, found {found}")
        for threshold in thresholds:
            if threshold != TensorType(f32, []):
                raise VerifyException(f"expected tensor<f32> for a threshold, found {threshold}")
        shape, of_scores = boxes.get_shape(), scores.get_shape()
        if len(shape) != 3 or len(of_scores) != 3 or shape != (of_scores[0], of_scores[2], 4):
            raise VerifyException(
                f"expected boxes [batch, box, 4] and scores [batch, class, box], found {shape_text(shape)} and "
                f"{shape_text(of_scores)}"
            )
        most = get_int(properties, "most")
        if most < 0:
            raise VerifyException(f"expected at least 0 for most, found {most}")
        bound = of_scores[0] * of_scores[1] * min(most, of_scores[2])
        return TensorType(i64, [bound, 3]), _NUMBER


@irdl_op_definition
class RequireEqualOp(InferredOp):
    """The first number, which must be the second: the run ends with an error if it is not.

    Where sizes depend on data, whether an operation has a result at all can be told at run time only.

    ```mlir
    %n = graph.require_equal %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i64>
    ```
    """

    name = "graph.require_equal"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs " + SIGNATURE

    def __init__(self, lhs: Operand, rhs: Operand):
        super().__init__([lhs, rhs])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        for operand in operands:
            if operand != _NUMBER:
                raise VerifyException(f"expected {_NUMBER}, found {operand}")
        return (_NUMBER,)


DATA_DEPENDENT = (NonZeroOp, UniqueOp, NonMaxSuppressionOp)
"""The operations whose results have a size that depends on data."""
