"""Ten faults of the kinds that compilers have shipped, to be planted and found.

`python -m tests.fuzz.planted` tries them with programs of all operators.

Each replaces one small thing in mlopt; `operators` are those that programs are drawn from when time is short.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph import Window
from mlopt.dialects.kernel import LinearExpr
from mlopt.ir.extents import Extent
from mlopt.memory import Buffer, Plan
from mlopt.passes.convert_graph_to_kernel import contraction
from mlopt.passes.convert_graph_to_kernel.conversion import CONVERSIONS, Conversion
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars
from mlopt.passes.convert_kernel_to_memref.placement import Placement
from mlopt.passes.graph import fold_batch_norm, fusion
from mlopt.passes.memref import assign_buffers
from tests.fuzz.levels import check
from tests.fuzz.search import Found, Session, search

MOST = 2000
"""Programs within which every fault must be found, drawn from all operators."""

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """A fault: its name, what plants it, and operators that it has to do with."""

    name: str
    plant: Callable[[Patch], None]
    operators: tuple[str, ...]


def _no_single_use_check(patch: Patch) -> None:
    patch.setattr(SSAValue, "has_one_use", lambda self: self.first_use is not None)  # pyright: ignore[reportUnknownLambdaType]
    for module in (fusion, fold_batch_norm):
        patch.setattr(module, "use_outside", lambda ops: None)  # pyright: ignore[reportUnknownLambdaType]


def _wrong_axis(patch: Patch) -> None:
    right = CONVERSIONS[graph.SoftmaxOp]

    def along_the_first(op: Any, conversion: Conversion) -> None:
        op.properties["axis"] = IntegerAttr(0, i64)
        right(op, conversion)

    patch.setitem(CONVERSIONS, graph.SoftmaxOp, along_the_first)


def _dropped_bias(patch: Patch) -> None:
    right = contraction.epilogue

    def without_bias(launch: Any, space: Any, total: SSAValue, bias: Any = None, **others: Any) -> SSAValue:
        return right(launch, space, total, **others)

    patch.setattr(contraction, "epilogue", without_bias)


def _wrong_padding(patch: Patch) -> None:
    right = contraction.window_axes

    def swapped(space: Any, window: Window) -> Any:
        return right(space, window._replace(low=window.high, high=window.low))

    patch.setattr(contraction, "window_axes", swapped)


def _dropped_offset(patch: Patch) -> None:
    right = LinearExpr.substitute

    def without_offsets(self: LinearExpr, rows: Sequence[LinearExpr], num_dims: int) -> LinearExpr:
        return right(self, [replace(row, constant=0) for row in rows], num_dims)

    patch.setattr(LinearExpr, "substitute", without_offsets)


def _swapped_subtraction(patch: Patch) -> None:
    right = Scalars.sub
    patch.setattr(Scalars, "sub", lambda self, a, b: right(self, b, a))  # pyright: ignore[reportUnknownLambdaType]


def _wrong_reuse(patch: Patch) -> None:
    patch.setattr(Placement, "_is_safe", lambda self, op, position: True)  # pyright: ignore[reportUnknownLambdaType]


def _overlapping_offsets(patch: Patch) -> None:
    def all_at_once(buffers: Sequence[Buffer], strategy: object) -> Plan:
        height = max((buffer.footprint for buffer in buffers), default=0)
        return Plan({buffer.id: 0 for buffer in buffers}, height, height)

    patch.setattr(assign_buffers, "plan", all_at_once)
    patch.setattr(assign_buffers, "verify_plan", lambda *_: None)  # which would find it itself


def _wrong_extent(patch: Patch) -> None:
    right = Extent.cut

    def one_less(self: Extent, output: np.ndarray, number: int) -> np.ndarray:
        return right(self, output, max(number - 1, 0))

    patch.setattr(Extent, "cut", one_less)


def _lost_nan(patch: Patch) -> None:
    right = Scalars.maximum

    def number_wins(self: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        result = right(self, a, b)
        if not isinstance(result.owner, arith.MaximumfOp):
            return result
        self.block.detach_op(result.owner)
        return self.emit(arith.MaxnumfOp(a, b))

    patch.setattr(Scalars, "maximum", number_wins)


FAULTS = (
    Fault("a fusion without the check for other uses", _no_single_use_check, ("conv-norm",)),
    Fault("softmax along the wrong axis", _wrong_axis, ("Softmax",)),
    Fault("a convolution without its bias", _dropped_bias, ("Conv",)),
    Fault("padding on the wrong side", _wrong_padding, ("Conv",)),
    Fault("composed index maps without offsets", _dropped_offset, ("movements",)),
    Fault("a subtraction the wrong way round", _swapped_subtraction, ("Sub",)),
    Fault("updates in place that are not safe", _wrong_reuse, ("Softmax", "Loop", "Add", "Concat")),
    Fault("buffers that overlap", _overlapping_offsets, ("Add", "Softmax", "MatMul")),
    Fault("a wrong extent", _wrong_extent, ("NonZero", "Compress")),
    Fault("a maximum that loses NaN", _lost_nan, ("Max", "Relu", "ReduceMax")),
)


def find(fault: Fault, patch: Patch, names: Sequence[str] | None, most: int) -> tuple[int, Found | None]:
    """Plant a fault and search; how many programs it took, and what was found: it must be right without the fault."""
    session = Session()
    fault.plant(patch)
    programs = iter(range(most))
    for found in search(session, programs, names=names, most=4):
        patch.undo()
        if check(found.program, found.route) is None:
            return session.examples, found
        fault.plant(patch)
    return session.examples, None


def main() -> None:
    """Plant every fault and say after how many programs of all operators it is found."""
    logging.disable(logging.ERROR)
    for number, fault in zip(count(1), FAULTS, strict=False):
        with pytest.MonkeyPatch.context() as patch:
            programs, found = find(fault, patch, None, MOST)
        outcome = f"found by program {programs}: {found.failure}" if found else f"not found in {programs}"
        print(f"{number}. {fault.name}: {outcome}", flush=True)


if __name__ == "__main__":
    main()
