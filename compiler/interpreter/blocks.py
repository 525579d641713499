"""Blocks of tensor operations evaluated in plain numpy: what the graph level and the kernel level have in common.

Operations run one after the other, values of tensors are arrays that are never written to, scalars are arrays of
rank 0. Here are the upstream operations; a level adds its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects import func, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from mlopt.diagnostics import RunError
from mlopt.dialects.kernel import YieldOp, tensor_type
from mlopt.interpreter.scalar_ops import Array, evaluate_scalar_op, poison
from mlopt.interpreter.structured_ops import load
from mlopt.ir.context import Entered, Evaluated
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.locations import place_of_op


class BlockEvaluator:
    """Evaluates blocks; `evaluate` is for a level to extend.

    `disturb` is applied to every result of an operation, if it is given: to see how much roundings matter. `entered`
    is told of each block that is evaluated: to see which branches inputs take. `evaluated` is told of each operation:
    to see what values there are.
    """

    def __init__(
        self,
        disturb: Callable[[Array], Array] | None = None,
        entered: Entered | None = None,
        evaluated: Evaluated | None = None,
    ):
        self._disturb = disturb
        self._entered = entered
        self._evaluated = evaluated

    def evaluate_block(
        self, block: Block, values: dict[SSAValue, Array], *, owned: bool = False
    ) -> list[Array]:
        """The operands of the block's terminator; `values` holds the block's arguments and its captures.

        With `owned`, nothing else looks at `values`: each is dropped after its last use.
        """
        if self._entered is not None:
            self._entered(block, [values[argument] for argument in block.args])
        uses = Counter(operand for op in block.walk() for operand in op.operands) if owned else None
        for op in block.ops:
            if isinstance(op, func.ReturnOp | YieldOp | scf.YieldOp | scf.ConditionOp):
                return [values[operand] for operand in op.operands]
            results = self.evaluate(op, values)
            if self._disturb is not None:
                results = [self._disturb(result) for result in results]
            if self._evaluated is not None:
                self._evaluated(op, [values[operand] for operand in op.operands], results)
            values.update(zip(op.results, results, strict=True))
            if uses is not None:
                _drop_unused(op, values, uses)
        raise RunError("the block has no terminator")

    def evaluate(self, op: Operation, values: dict[SSAValue, Array]) -> Sequence[Array]:
        """The results of an upstream operation on tensors or scalars; `RunError` if it is none."""
        match op:
            case tensor.EmptyOp():
                type = tensor_type(op.tensor)
                return [poison(type.get_shape(), to_numpy_dtype(type.element_type))]
            case tensor.ExtractSliceOp():
                index = _slice_index(op, values)
                return [values[op.source][index].reshape(tensor_type(op.result).get_shape())]
            case tensor.InsertSliceOp():
                index, whole = _slice_index(op, values), values[op.dest].copy()
                whole[index] = values[op.source].reshape(whole[index].shape)
                return [whole]
            case tensor.ExtractOp():
                return [load(op, values[op.tensor], [values[index] for index in op.indices])]
            case tensor.FromElementsOp():
                type = tensor_type(op.result)
                elements = [values[element] for element in op.elements]
                return [np.array(elements, to_numpy_dtype(type.element_type)).reshape(type.get_shape())]
            case scf.ForOp():
                return self._for(op, values)
            case scf.IfOp():
                region = op.true_region if values[op.cond] else op.false_region
                return self.evaluate_block(region.block, values) if region.blocks else []
            case scf.WhileOp():
                return self._while(op, values)
            case _:
                operands = [values[operand] for operand in op.operands]
                try:
                    return [evaluate_scalar_op(op, operands)]
                except LookupError as error:
                    raise run_error(op, str(error)) from error

    def _for(self, op: scf.ForOp, values: dict[SSAValue, Array]) -> Sequence[Array]:
        body, carried = op.body.block, [values[value] for value in op.iter_args]
        for i in range(int(values[op.lb]), int(values[op.ub]), int(values[op.step])):
            position = np.asarray(i, to_numpy_dtype(body.args[0].type))
            values.update(zip(body.args, [position, *carried], strict=True))
            carried = self.evaluate_block(body, values)
        return carried

    def _while(self, op: scf.WhileOp, values: dict[SSAValue, Array]) -> Sequence[Array]:
        before, after = op.before_region.block, op.after_region.block
        carried = [values[value] for value in op.arguments]
        while True:
            values.update(zip(before.args, carried, strict=True))
            holds, *forwarded = self.evaluate_block(before, values)
            if not holds:
                return forwarded
            values.update(zip(after.args, forwarded, strict=True))
            carried = self.evaluate_block(after, values)


def _drop_unused(op: Operation, values: dict[SSAValue, Array], uses: Counter[SSAValue]) -> None:
    """Drop what nothing uses any more once `op` is done; `uses` counts the uses still to come."""
    for inner in op.walk():
        uses.subtract(inner.operands)
        for value in (*inner.operands, *inner.results):
            if uses[value] == 0:
                values.pop(value, None)


def run_error(op: Operation, message: str) -> RunError:
    """An error of a run at the place of an operation."""
    return RunError(message, place=place_of_op(op))


def _slice_index(
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp, values: Mapping[SSAValue, Array]
) -> tuple[slice, ...]:
    """The numpy index of a slice; `RunError` if it reaches out of bounds."""
    whole = tensor_type(op.source if isinstance(op, tensor.ExtractSliceOp) else op.dest).get_shape()
    offsets = _mixed(op.static_offsets, op.offsets, values)
    sizes = _mixed(op.static_sizes, op.sizes, values)
    strides = _mixed(op.static_strides, op.strides, values)
    index: list[slice] = []
    for axis, (offset, size, stride, extent) in enumerate(zip(offsets, sizes, strides, whole, strict=True)):
        last = offset + (size - 1) * stride
        if size and not (0 <= offset < extent and 0 <= last < extent):
            raise run_error(op, f"the slice reaches from {offset} to {last} on axis {axis} of size {extent}")
        stop = last + (1 if stride > 0 else -1)
        index.append(slice(offset, stop if stop >= 0 else None, stride) if size else slice(0, 0))
    return tuple(index)


def _mixed(
    static: DenseArrayBase[IntegerType], dynamic: Sequence[SSAValue], values: Mapping[SSAValue, Array]
) -> list[int]:
    """A list of numbers that are static, or the next of the dynamic operands."""
    operands = iter(dynamic)
    return [int(values[next(operands)]) if n == DYNAMIC_INDEX else n for n in static.get_values()]
