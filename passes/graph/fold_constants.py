"""`fold-constants`: evaluate at compile time what depends on constants only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from mlopt.diagnostics import MloptError, PassFailure
from mlopt.dialects import graph
from mlopt.dialects.graph.base import INTEGER, is_bool, is_float, is_integer, is_unsigned, tensor_type
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import MAX_DENSE_ELEMENTS, constant_array, to_numpy_dtype
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.graph.constant_indices import Gather, require_within, simplify_gather
from mlopt.passes.graph.constants import constant_of, make_constant, name_of
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

_NOT_FOLDED = "constants are not folded"

FLOOR_BYTES = 64 * 1024
"""A result of at most this many bytes is folded, however small its operands are."""


@dataclass(frozen=True)
class FoldConstantsPass(Pass):
    """Replace every graph operation whose operands are constants by a constant.

    1. An operation of constants is evaluated by the context's evaluator. The result stands in the IR (up to 64
       elements) or becomes a weight named after it. `graph.shape` needs no constant operand, only its type.
    2. `tensor.extract` of a constant, as of the condition of a branch, becomes a constant scalar, and
       `tensor.from_elements` of constant scalars, as of the number of the only trip of a loop, a constant.
    3. `graph.gather` and `graph.gather_nd` with constant indices that form a grid become a slice and a reshape.

    A gather whose constant indices are out of bounds is an `InputError`, unless it stands in a branch or a loop, which
    may never run.

    Not folded: a result of more than 64 KiB and of more than `max-growth` times the bytes of the operands (4 times is
    what integers of 8 bits become as f32: weights are dequantized once, and not in the arena by each run); a reshape,
    transpose or expand of a weight, which costs nothing at kernel level (what uses it is folded all the same); integer
    division by zero; what has no result; what is computed from weights that are not in the store, of which the user is
    warned once.
    """

    name = "fold-constants"
    requires: ClassVar = GRAPH_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "fold-constants": "An operation of constants is replaced by its value.",
        "simplify-gather": "A gather with constant indices that form a grid becomes a slice and a reshape.",
    }

    max_growth: int = 4

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        if ctx.evaluator is None:
            raise PassFailure("pass 'fold-constants' needs an evaluator in its context, found none")
        return _Folder(ctx, self.name, self.max_growth).run(op)


class _Folder:
    """One sweep in program order; `known` has the values of constants and of what is made of them."""

    def __init__(self, ctx: CompilerContext, pass_name: str, max_growth: int):
        self.ctx = ctx
        self.pass_name = pass_name
        self.max_growth = max_growth
        self.known: dict[SSAValue, np.ndarray] = {}
        self.absent: dict[SSAValue, str] = {}
        """Constants whose weights are not in the store, and what is computed from them; the name of such a weight."""

    def run(self, root: Operation) -> bool:
        changed = False
        for op in list(root.walk()):
            if isinstance(op, graph.ConstantOp):
                array = constant_of(op, self.ctx)
                if array is not None:
                    self.known[op.result] = array
                elif isinstance(op.value, WeightAttr):
                    self.absent[op.result] = op.value.weight.data
            elif isinstance(op, graph.GraphOp):
                changed |= self._visit(op)
            elif isinstance(op, tensor.ExtractOp):
                changed |= self._visit_extract(op)
            elif isinstance(op, tensor.FromElementsOp):
                changed |= self._visit_from_elements(op)
        return changed

    def _visit_extract(self, op: tensor.ExtractOp) -> bool:
        """An element of a constant, at constant indices, is a constant scalar: a condition, or a number of trips."""
        array = self.known.get(op.tensor)
        numbers = [getattr(index.owner, "value", None) for index in op.indices]
        position = tuple(number.value.data for number in numbers if isinstance(number, IntegerAttr))
        if array is None or len(position) < array.ndim:
            return False
        if is_unsigned(op.result.type) or any(
            not 0 <= i < size for i, size in zip(position, array.shape, strict=True)
        ):
            return False
        number, element = array[position].item(), op.result.type
        if isinstance(element, IntegerType):
            constant = arith.ConstantOp(IntegerAttr(int(number), cast(IntegerType, element)))
        elif is_float(element):
            constant = arith.ConstantOp(FloatAttr(number, cast(AnyFloat, element)))
        else:
            return False
        if not may_rewrite("fold-constants", op):
            return False
        self._report(op, f"folded '{op.name}': it takes an element of a constant")
        self._swap(op, [constant], [constant.result])
        self.ctx.count(self.pass_name, "ops-folded")
        return True

    def _visit_from_elements(self, op: tensor.FromElementsOp) -> bool:
        """A tensor of constant scalars is a constant."""
        type = tensor_type(op.result.type)
        element = type.element_type
        owners = [element.owner for element in op.elements]
        numbers = [owner.value for owner in owners if isinstance(owner, arith.ConstantOp)]
        values = [number.value.data for number in numbers if isinstance(number, IntegerAttr | FloatAttr)]
        is_number = is_float(element) or is_integer(element) or is_bool(element)
        if len(values) < len(owners) or not is_number or is_unsigned(element):
            return False
        if not may_rewrite("fold-constants", op):
            return False
        wide = np.array(values, np.float64 if is_float(element) else np.int64)
        array = wide.astype(to_numpy_dtype(element)).reshape(type.get_shape())
        constant = make_constant(array, self.ctx, name_of(op.result, "folded"))
        self.known[constant.result] = array
        self._report(op, f"folded '{op.name}': its elements are constants")
        self._swap(op, [constant], [constant.result])
        self.ctx.count(self.pass_name, "ops-folded")
        return True

    def _visit(self, op: graph.GraphOp) -> bool:
        if isinstance(op, graph.ShapeOp):
            return self._replace(op, [np.array(op.dimensions(), np.int64)])
        if isinstance(op, Gather) and op.indices in self.known and isinstance(op.parent_op(), FuncOp):
            require_within(op, self.known[op.indices])
        if isinstance(op, graph.GatherOp | graph.GatherNdOp) and op.input not in self.known:
            return self._simplify_gather(op)
        if not all(operand in self.known for operand in op.operands):
            self._note_absent(op)
            return False
        results = self._evaluate(op, [self.known[operand] for operand in op.operands])
        if results is None:
            return False
        if _is_free_movement(op):
            self.known.update(zip(op.results, results, strict=True))
            return False
        return self._replace(op, results)

    def _evaluate(self, op: graph.GraphOp, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray] | None:
        """The results, or None (with a remark) if the operation must not be folded."""
        growth = sum(_bytes(result) for result in op.results)
        limit = max(FLOOR_BYTES, self.max_growth * sum(map(_stored_bytes, operands)))
        if growth > limit:
            self._keep(op, "growth", f"its result of {growth} bytes is above the limit of {limit}")
            return None
        if _divides_by_zero(op, operands):
            self._keep(op, "division-by-zero", "it divides an integer by zero")
            return None
        assert self.ctx.evaluator is not None
        try:
            return self.ctx.evaluator(op, operands)
        except (LookupError, MloptError) as error:
            why = error.message if isinstance(error, MloptError) else str(error)
            self._keep(op, "no-result", f"it can't be evaluated: {why}")
            return None

    def _note_absent(self, op: graph.GraphOp) -> None:
        """Warn, the first time, of an operation that is kept for no other reason than that weights are not there."""
        absent = [self.absent[operand] for operand in op.operands if operand in self.absent]
        if not absent or not all(operand in self.known or operand in self.absent for operand in op.operands):
            return
        self.absent.update(dict.fromkeys(op.results, absent[0]))
        warned = any(warning.message.startswith(_NOT_FOLDED) for warning in self.ctx.warnings)
        if not warned and not _is_free_movement(op):
            self.ctx.warn(
                f'{_NOT_FOLDED}: there is no weight "{absent[0]}"; give the weights with --weights FILE, or as '
                "STEM.safetensors beside the model",
                op,
            )

    def _keep(self, op: graph.GraphOp, reason: str, sentence: str) -> None:
        self.ctx.count(self.pass_name, f"not-folded-{reason}")
        name = op.name.removeprefix("graph.")
        self.ctx.remark(self.pass_name, "missed", f"not folded: '{name}': {sentence}", op)

    def _replace(self, op: graph.GraphOp, results: Sequence[np.ndarray]) -> bool:
        if not may_rewrite("fold-constants", op):
            return False
        constants = [
            make_constant(array, self.ctx, name_of(result, "folded"))
            for array, result in zip(results, op.results, strict=True)
        ]
        for constant in constants:
            self.known[constant.result] = constant_array(constant.value, self.ctx.weights)
        self._report(op, f"folded '{op.name}': it depends on constants only")
        self._swap(op, constants, [constant.result for constant in constants])
        self.ctx.count(self.pass_name, "ops-folded")
        return True

    def _simplify_gather(self, op: graph.GatherOp | graph.GatherNdOp) -> bool:
        indices = self.known.get(op.indices)
        new_ops = [] if indices is None else simplify_gather(op, indices)
        if not new_ops:
            return False
        if not may_rewrite("simplify-gather", op):
            for new_op in reversed(new_ops):  # they use what stands in the module
                new_op.erase()
            return False
        self._report(op, f"'{op.name}' with constant indices became a slice and a reshape")
        self._swap(op, new_ops, [new_ops[-1].results[0]])
        self.ctx.count(self.pass_name, "gathers-simplified")
        return True

    def _report(self, op: Operation, what: str) -> None:
        self.ctx.remark(self.pass_name, "passed", what, op)

    def _swap(self, op: Operation, new_ops: Sequence[Operation], values: Sequence[SSAValue]) -> None:
        """Replace `op`, and erase the constants that only it used."""
        for old, new in zip(op.results, values, strict=True):
            copy_name(old, new)
        for new_op in new_ops:
            new_op.location = op.location
        producers = [operand.owner for operand in op.operands]
        Rewriter.replace_op(op, new_ops, values)
        while producers:
            producer = producers.pop()
            if (
                isinstance(producer, graph.GraphOp)
                and producer.parent is not None
                and is_trivially_dead(producer)
            ):
                producers += [operand.owner for operand in producer.operands]
                for result in producer.results:
                    self.known.pop(result, None)
                Rewriter.erase_op(producer)


def _is_free_movement(op: graph.GraphOp) -> bool:
    """Does the operation only rearrange a weight, in a way that the kernel level absorbs into index maps?"""
    return isinstance(op, graph.ReshapeOp | graph.TransposeOp | graph.ExpandOp) and (
        prod(tensor_type(op.input.type).get_shape()) > MAX_DENSE_ELEMENTS
    )


def _divides_by_zero(op: graph.GraphOp, operands: Sequence[np.ndarray]) -> bool:
    if not isinstance(op, graph.DivOp | graph.ModOp):
        return False
    return INTEGER.accepts(tensor_type(op.rhs.type).element_type) and not np.all(operands[1])


def _stored_bytes(array: np.ndarray) -> int:
    """Bytes without those that broadcasting only repeats."""
    stored = prod(size for size, stride in zip(array.shape, array.strides, strict=True) if stride != 0)
    return stored * array.itemsize


def _bytes(value: SSAValue) -> int:
    result = tensor_type(value.type)
    return prod(result.get_shape()) * to_numpy_dtype(result.element_type).itemsize
