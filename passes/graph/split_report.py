"""What each way of a split function holds: constants of its own, those that all have, results at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.functions import only_block
from mlopt.ir.ways import way_of


@dataclass(frozen=True, slots=True)
class Holdings:
    """Bytes that the way holds that needs the most.

    - `own`: of constants that it alone has, each once; `shared`: of those that every way has.
    - `peak`: of results that are needed at one moment, in program order; reshapes counted, inputs not.
    """

    own: int
    shared: int
    peak: int


def holdings(function: FuncOp, ways: int) -> Holdings:
    """What the ways of a function hold. One that is not split is one way."""
    constants: dict[int | None, dict[Attribute, int]] = {}
    for op in function.walk():
        if isinstance(op, graph.ConstantOp):
            constants.setdefault(way_of(op), {})[op.value] = bytes_of(op.result)
    sums = {way: sum(sizes.values()) for way, sizes in constants.items()}
    own = max(sums.get(way, 0) for way in range(ways))
    return Holdings(own, sums.get(None, 0), max(_peak(only_block(function), way) for way in range(ways)))


def bytes_of(value: SSAValue) -> int:
    """The bytes of a tensor's elements."""
    type_ = tensor_type(value.type)
    return prod(type_.get_shape()) * to_numpy_dtype(type_.element_type).itemsize


def _peak(block: Block, way: int) -> int:
    """The most bytes of tensors that a way needs at once: from what makes them to what uses them last.

    What a loop gives, it carries while its body runs.
    """
    ops = [op for op in block.ops if way_of(op) in (None, way)]
    last: dict[SSAValue, int] = {}
    for index, op in enumerate(ops):
        for inner in op.walk():
            last.update(dict.fromkeys(inner.operands, index))
    ending: dict[int, int] = {}
    live = peak = 0
    for index, op in enumerate(ops):
        for result in _computed(op):
            live += bytes_of(result)
            end = last.get(result, index)
            ending[end] = ending.get(end, 0) + bytes_of(result)
        inside = [_peak(body, way) for region in op.regions for body in region.blocks]
        peak = max(peak, live + max(inside, default=0))
        live -= ending.pop(index, 0)
    return peak


def _computed(op: Operation) -> list[SSAValue]:
    if isinstance(op, graph.ConstantOp):
        return []
    return [result for result in op.results if isinstance(result.type, TensorType)]
