"""Rotary embedding: pairs of numbers turned by angles that say where they stand."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    FLOAT,
    SIGNATURE,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    require_broadcast_to,
    require_elements,
    require_rank_at_least,
    require_same_elements,
    unit_attr,
)


@irdl_op_definition
class RotaryEmbeddingOp(InferredOp):
    """Pairs `(a, b)` along the last dimension become `(a * cos - b * sin, b * cos + a * sin)`.

    The input is `[..., 2 * h]`; cos and sin broadcast to `[..., h]`, a number per pair. Pair i is of the elements i and
    `i + h`, or `interleaved` of the neighbours 2i and 2i + 1. f16 and bf16 are computed in f32 and rounded once.
    ONNX RotaryEmbedding after its tables are read at the positions, without what it leaves as it is.

    ```mlir
    %y = graph.rotary_embedding %x, %cos, %sin interleaved
      : (tensor<1x8x16x64xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<1x8x16x64xf32>
    ```
    """

    name = "graph.rotary_embedding"
    input = operand_def(TensorType)
    cos = operand_def(TensorType)
    sin = operand_def(TensorType)
    result = result_def(TensorType)
    interleaved = opt_prop_def(UnitAttr)
    assembly_format = "operands (`interleaved` $interleaved^)? " + SIGNATURE

    def __init__(self, input: Operand, cos: Operand, sin: Operand, *, interleaved: bool = False):
        super().__init__([input, cos, sin], {"interleaved": unit_attr(interleaved)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, *tables = operands
        require_elements(FLOAT, input, "the input")
        require_rank_at_least(1, input, "the input")
        *outer, size = input.get_shape()
        if size % 2:
            raise VerifyException(f"expected an even last dimension, found {input}")
        for name, table in zip(("cos", "sin"), tables, strict=True):
            require_same_elements(input, table, f"the operand {name}")
            require_broadcast_to((*outer, size // 2), table, f"the operand {name}")
        return (input,)
