"""Scaled dot-product attention: queries ask keys for a weighted mean of values."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from xdsl.dialects.builtin import FloatAttr, TensorType, UnitAttr, f64
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    SIGNATURE,
    F64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    broadcast_shapes,
    is_bool,
    require_broadcast_to,
    require_elements,
    require_same_elements,
    shape_of,
    unit_attr,
    with_shape,
)


@irdl_op_definition
class AttentionOp(InferredOp):
    """`softmax(score_scale * ((scale * query) @ key^T) + masks) @ value` for each head.

    Shapes: query `[batch..., h, lq, d]`, key `[batch..., hk, lk, d]`, value `[batch..., hk, lk, dv]`, result
    `[batch..., h, lq, dv]`, all of one rank, 2 or more (with 2 there is one head). h is a multiple of hk: the query's
    head i reads head `i / (h / hk)` of key and value (grouped-query attention; multi-query with hk = 1). The
    dimensions of the batch broadcast. Masks broadcast to `[batch..., h, lq, lk]`.

    The steps, each rounded to the type of the operands:

    1. The query times `scale`.
    2. The scores: products of its rows with those of the key; then they are multiplied by `score_scale`.
    3. The masks, one after the other: one of floats is added to the scores; where one of i1 is false, the score is
       `fill`, or -inf unless given.
    4. With `causal`, -inf is added to the score of key j for query i where j > i.
    5. The weights: softmax along the keys. A row is NaN if its scores are all -inf, or if one is NaN or +inf;
       with `nan_to_zero` such a row is 0.
    6. The result: products of the rows of weights with the columns of the value.

    f16 and bf16 products are summed in f32, and their softmax is computed in f32. ONNX Attention since opset 23 is
    near: it does not know `nan_to_zero`, but has 0 in rows that its mask hides completely.

    ```mlir
    %y = graph.attention %q, %k, %v mask %m scale = 1.250000e-01 nan_to_zero
      : (tensor<8x16x64xf32>, tensor<2x7x64xf32>, tensor<2x7x32xf32>, tensor<7xf32>) -> tensor<8x16x32xf32>
    ```
    """

    name = "graph.attention"
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    masks = var_operand_def(TensorType)
    result = result_def(TensorType)
    scale = prop_def(F64Attr, default_value=FloatAttr(1.0, f64))
    score_scale = prop_def(F64Attr, default_value=FloatAttr(1.0, f64))
    fill = opt_prop_def(F64Attr)
    causal = opt_prop_def(UnitAttr)
    nan_to_zero = opt_prop_def(UnitAttr)
    assembly_format = (
        "$query `,` $key `,` $value (`mask` $masks^)? (`scale` `=` $scale^)? "
        "(`score_scale` `=` $score_scale^)? (`fill` `=` $fill^)? "
        "(`causal` $causal^)? (`nan_to_zero` $nan_to_zero^)? " + SIGNATURE
    )

    def __init__(
        self,
        query: Operand,
        key: Operand,
        value: Operand,
        *masks: Operand,
        scale: float = 1.0,
        score_scale: float = 1.0,
        fill: float | None = None,
        causal: bool = False,
        nan_to_zero: bool = False,
    ):
        """`fill` is for masks of i1 only, and -inf unless given."""
        super().__init__(
            [query, key, value, masks],
            {
                "scale": FloatAttr(scale, f64),
                "score_scale": FloatAttr(score_scale, f64),
                "fill": None if fill is None or fill == float("-inf") else FloatAttr(fill, f64),
                "causal": unit_attr(causal),
                "nan_to_zero": unit_attr(nan_to_zero),
            },
        )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        query, key, value, *masks = operands
        require_elements(FLOAT, query, "the query")
        rank = len(query.get_shape())
        if rank < 2:
            raise VerifyException(f"expected rank 2 or more for the query, found {query}")
        for name, operand in (("key", key), ("value", value)):
            require_same_elements(query, operand, f"the {name}")
            if len(operand.get_shape()) != rank:
                raise VerifyException(f"expected the query's rank {rank} for the {name}, found {operand}")
        (*batch, queries, depth), (*key_batch, keys, key_depth) = query.get_shape(), key.get_shape()
        *value_batch, values, width = value.get_shape()
        if key_depth != depth:
            raise VerifyException(f"expected rows of {depth} for the key, found {key}")
        if values != keys:
            raise VerifyException(f"expected {keys} rows, one for each key, for the value, found {value}")
        heads, key_heads = batch[-1:], key_batch[-1:]
        if value_batch[-1:] != key_heads:
            raise VerifyException(f"expected as many heads as the key has for the value, found {value}")
        if heads != key_heads and (not key_heads[0] or heads[0] % key_heads[0]):
            raise VerifyException(
                f"expected heads of the query that those of the key divide, found {heads[0]} and {key_heads[0]}"
            )
        outer = broadcast_shapes(batch[:-1], key_batch[:-1], value_batch[:-1])
        for operand in masks:
            if not is_bool(operand.element_type):
                require_same_elements(query, operand, "the mask, or i1")
            require_broadcast_to((*outer, *heads, queries, keys), operand, "the mask")
        for name in ("scale", "score_scale", "fill"):
            number = properties.get(name)
            if isinstance(number, FloatAttr) and not isfinite(number.value.data):
                raise VerifyException(f"expected a finite {name}, found {number.value.data}")
        if "fill" in properties and not any(is_bool(operand.element_type) for operand in masks):
            raise VerifyException("expected a mask of i1 with 'fill'")
        return (with_shape(query, (*outer, *heads, queries, width)),)

    @property
    def groups(self) -> int:
        """How many heads of the query read one head of key and value."""
        heads, key_heads = (shape_of(operand)[-3:-2] for operand in (self.query, self.key))
        return 1 if heads == key_heads else heads[0] // key_heads[0]

    @property
    def fill_value(self) -> float:
        """The score where a mask of i1 is false."""
        return float("-inf") if self.fill is None else self.fill.value.data

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[batch..., h, lq, lk]`."""
        return (*shape_of(self.result)[:-1], shape_of(self.key)[-2])
