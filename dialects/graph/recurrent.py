"""Recurrent layers: what a step computes from its input and from what the step before it left."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType, f32
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    SIGNATURE,
    Elements,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    require_elements,
    require_shape,
    with_shape,
)

BACKWARDS: dict[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}
"""Direction of a layer → for each direction of time in it, whether it is backwards."""

_F32 = Elements("f32 elements", lambda element: element == f32)


@irdl_op_definition
class LstmOp(InferredOp):
    """A layer of long short-term memory, over all steps, in one direction of time or in both (d = 1 or 2).

    Shapes: input `[t, n, k]`, weight `[d, 4h, k]`, recurrence `[d, 4h, h]`, bias `[d, 8h]` (of the input's gates, then
    of the state's), initial_h and initial_c `[d, n, h]`; results y `[t, d, n, h]`, last_h and last_c `[d, n, h]`. With
    `x` the input of a step and `H`, `C` the state, of which rows `i`, `o`, `f`, `c` of the weights are the gates:

        i, o, f, c = x weight^T + H recurrence^T + bias
        C' = sigmoid(f) * C + sigmoid(i) * tanh(c)
        H' = sigmoid(o) * tanh(C')

    `y` has H' of each step; a direction that is backwards begins at the last. ONNX LSTM with its default activations,
    without peepholes, `clip`, `input_forget` and lengths of sequences.

    ```mlir
    %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward"
      : (tensor<9x2x4xf32>, tensor<1x4x4xf32>, tensor<1x4x1xf32>, tensor<1x8xf32>, tensor<1x2x1xf32>, tensor<1x2x1xf32>)
      -> (tensor<9x1x2x1xf32>, tensor<1x2x1xf32>, tensor<1x2x1xf32>)
    ```
    """

    name = "graph.lstm"
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    recurrence = operand_def(TensorType)
    bias = operand_def(TensorType)
    initial_h = operand_def(TensorType)
    initial_c = operand_def(TensorType)
    y = result_def(TensorType)
    last_h = result_def(TensorType)
    last_c = result_def(TensorType)
    direction = prop_def(StringAttr)
    assembly_format = "operands `direction` `=` $direction " + SIGNATURE

    def __init__(
        self,
        input: Operand,
        weight: Operand,
        recurrence: Operand,
        bias: Operand,
        initial_h: Operand,
        initial_c: Operand,
        direction: str = "forward",
    ):
        operands = [input, weight, recurrence, bias, initial_h, initial_c]
        super().__init__(operands, {"direction": StringAttr(direction)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        input, weight, recurrence, bias, *states = operands
        direction = properties["direction"]
        backwards = BACKWARDS.get(direction.data) if isinstance(direction, StringAttr) else None
        if backwards is None:
            raise VerifyException(
                f"expected one of {', '.join(BACKWARDS)} for the direction, found {direction}"
            )
        names = ("input", "weight", "recurrence", "bias", "initial_h", "initial_c")
        for name, operand in zip(names, operands, strict=True):
            require_elements(_F32, operand, f"the {name}")
        shape, rank = input.get_shape(), len(recurrence.get_shape())
        if len(shape) != 3 or shape[0] == 0 or rank != 3:
            raise VerifyException(
                f"expected at least one step of an input of rank 3, and a recurrence of rank 3, found {input} "
                f"and {recurrence}"
            )
        steps, batch, size = shape
        directions, hidden = len(backwards), recurrence.get_shape()[2]
        require_shape((directions, 4 * hidden, hidden), recurrence, "the recurrence")
        require_shape((directions, 4 * hidden, size), weight, "the weight")
        require_shape((directions, 8 * hidden), bias, "the bias")
        for name, state in zip(names[4:], states, strict=True):
            require_shape((directions, batch, hidden), state, f"{name}")
        last = with_shape(input, (directions, batch, hidden))
        return (with_shape(input, (steps, directions, batch, hidden)), last, last)

    @property
    def backwards(self) -> tuple[bool, ...]:
        """For each direction of time, whether it is backwards."""
        return BACKWARDS[self.direction.data]
