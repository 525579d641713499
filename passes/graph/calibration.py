"""What values a model has on given inputs: samples from files, and the ranges that tensors should be quantized with.

A histogram of a tensor over all samples decides its range, by one of three methods:

- `minmax`: all that was seen;
- `percentile`: the least range that holds this part of the numbers, cut at both ends alike;
- `mse`: of ranges that are cut more and more at both ends, the one with the least squared error, where the numbers
  inside are off by `step**2 / 12` on average, and those outside by their distance from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mlopt.arrays import read_npz
from mlopt.diagnostics import InputError, PassFailure
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype, typed_array
from mlopt.ir.locations import place_of_op
from mlopt.passes.graph.constants import constant_of

Array: TypeAlias = np.ndarray
Sample: TypeAlias = Mapping[str, Array]
Method = Literal["minmax", "percentile", "mse"]

BINS = 2048
"""Cells of a histogram; a cut is at the border of one."""

_CUTS = 128
"""How many ranges `mse` looks at."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`; 0 is always among them, since padding and relu must be exact."""

    low: float
    high: float

    @property
    def magnitude(self) -> float:
        """The largest magnitude."""
        return max(-self.low, self.high)

    @property
    def width(self) -> float:
        """From the least number to the largest one."""
        return self.high - self.low

    def union(self, other: Range) -> Range:
        """The least range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


@dataclass(slots=True)
class Histogram:
    """How often numbers of a tensor fall into each of `BINS` cells between `low` and `high`."""

    low: float
    high: float
    counts: Array

    @staticmethod
    def over(values: Range) -> Histogram:
        """An empty one."""
        return Histogram(values.low, values.high, np.zeros(BINS))

    def add(self, array: Array) -> None:
        """Count the finite numbers of an array."""
        finite = array[np.isfinite(array)].astype(np.float64)  # in f32, the width of the range may overflow
        if self.high > self.low:
            self.counts += np.histogram(finite, BINS, (self.low, self.high))[0]

    def chosen(self, method: Method, percentile: float) -> Range:
        """The range by one of the methods."""
        total = float(self.counts.sum())
        if method == "minmax" or total == 0:
            return Range(self.low, self.high)
        edges = np.linspace(self.low, self.high, BINS + 1)
        if method == "percentile":
            below = np.cumsum(self.counts) / total
            tail = (1 - percentile / 100) / 2
            first = int(np.searchsorted(below, tail, "right"))
            last = int(np.searchsorted(below, 1 - tail, "left"))
            return Range(
                min(float(edges[min(first, BINS - 1)]), 0.0), max(float(edges[min(last, BINS - 1) + 1]), 0.0)
            )
        middles = (edges[:-1] + edges[1:]) / 2
        ranges = [Range(self.low * part, self.high * part) for part in np.arange(_CUTS, 0, -1) / _CUTS]
        return min(ranges, key=lambda values: self._error(values, middles))

    def _error(self, values: Range, middles: Array) -> float:
        outside = np.maximum(np.maximum(values.low - middles, middles - values.high), 0)
        inside = float(self.counts[outside == 0].sum())
        return inside * (values.width / 255) ** 2 / 12 + float((self.counts * outside**2).sum())


def read_samples(path: str, main: FuncOp) -> list[dict[str, Array]]:
    """The samples in an `.npz` file: arrays by the names of inputs, `x` or `in:x`.

    An array has the shape of its input, or one axis more in front of it, along which samples follow one another; an
    array without that axis is for all samples. Raises `PassFailure` if the file can't be read, an input is missing, or
    an array does not fit in shape or type.
    """
    try:
        arrays = read_npz(Path(path), "in")
    except InputError as error:
        raise PassFailure(
            f"expected an .npz file of calibration inputs, found '{path}': {error.message}"
        ) from None
    counts: dict[str, int] = {}
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        if name not in arrays:
            raise PassFailure(
                f"expected an array for input '{name}' in '{path}', found {', '.join(arrays) or 'none'}"
            )
        shape, array = shape_of(argument), arrays[name]
        if shape not in (array.shape, array.shape[1:]):
            raise PassFailure(
                f"expected shape {list(shape)} for input '{name}', or one axis of samples in front of that, "
                f"found {list(array.shape)} in '{path}'"
            )
        arrays[name] = _converted(array, to_numpy_dtype(tensor_type(argument.type).element_type), name, path)
        if array.ndim > len(shape):
            counts[name] = array.shape[0]
    if len(set(counts.values())) > 1 or 0 in counts.values():
        found = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise PassFailure(f"expected equally many samples of all inputs in '{path}', found {found}")
    total = next(iter(counts.values()), 1)
    names = input_names(main)
    return [
        {name: arrays[name][i] if name in counts else arrays[name] for name in names} for i in range(total)
    ]


def _converted(array: Array, dtype: np.dtype[Any], name: str, path: str) -> Array:
    """The array in the type of its input, if that has such numbers: floats are no integers, and text is neither."""
    array = typed_array(array, dtype)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise PassFailure(
            f"expected numbers like {dtype} for input '{name}', found {array.dtype} in '{path}'"
        )
    return array.astype(dtype, copy=False)


def input_names(main: FuncOp) -> list[str]:
    """What the arguments of a function are called at the interface."""
    attributes = (
        main.arg_attrs.data
        if main.arg_attrs is not None
        else [DictionaryAttr({})] * len(main.body.block.args)
    )
    names: list[str] = []
    for index, own in enumerate(attributes):
        name = own.data.get("mlopt.name")
        names.append(name.data if isinstance(name, StringAttr) else f"arg{index}")
    return names


Visit = Callable[[Operation, Sequence[Array], Sequence[Array]], None]
"""Told of an operation, its operands and its results."""


def walk_values(main: FuncOp, sample: Sample, ctx: CompilerContext, visit: Visit) -> None:
    """Evaluate a function on a sample, and `visit` each operation; a value is dropped after its last use."""
    block = main.body.block
    values: dict[SSAValue, Array] = {
        argument: sample[name] for argument, name in zip(block.args, input_names(main), strict=True)
    }
    last_use = {operand: op for op in block.ops for operand in op.operands}
    for op in block.ops:
        if isinstance(op, ReturnOp):
            return
        if not isinstance(op, graph.GraphOp):
            message = "a model with loops or branches can't be calibrated, this operator is or has one"
            raise PassFailure(message, place=place_of_op(op))
        operands = [values[operand] for operand in op.operands]
        results = _results(op, operands, ctx)
        visit(op, operands, results)
        values.update(zip(op.results, results, strict=True))
        for value in {*op.operands, *op.results}:
            if last_use.get(value, op) is op:
                del values[value]


def _results(op: Operation, operands: Sequence[Array], ctx: CompilerContext) -> Sequence[Array]:
    if isinstance(op, graph.ConstantOp):
        array = constant_of(op, ctx)
        if array is None:
            raise PassFailure("a model can't be calibrated without its weights", place=place_of_op(op))
        return [array]
    if ctx.evaluator is None:
        raise PassFailure("calibration needs an evaluator in its context, found none")
    return ctx.evaluator(op, operands)


def ranges_of(
    main: FuncOp,
    wanted: Collection[SSAValue],
    samples: Sequence[Sample],
    ctx: CompilerContext,
    method: Method,
    percentile: float,
) -> dict[SSAValue, Range]:
    """The range of each of the values, which are floats, over all samples."""
    seen: dict[SSAValue, Range] = {}

    def widen(value: SSAValue, array: Array) -> None:
        finite = array[np.isfinite(array)]
        found = Range(min(float(finite.min(initial=0)), 0.0), max(float(finite.max(initial=0)), 0.0))
        seen[value] = seen[value].union(found) if value in seen else found

    _watch(main, wanted, samples, ctx, widen)
    if method == "minmax":
        return seen
    histograms = {value: Histogram.over(values) for value, values in seen.items()}
    _watch(main, wanted, samples, ctx, lambda value, array: histograms[value].add(array))
    return {value: histogram.chosen(method, percentile) for value, histogram in histograms.items()}


def _watch(
    main: FuncOp,
    wanted: Collection[SSAValue],
    samples: Sequence[Sample],
    ctx: CompilerContext,
    watch: Callable[[SSAValue, Array], None],
) -> None:
    arguments = [value for value in main.body.block.args if value in wanted]
    names = dict(zip(main.body.block.args, input_names(main), strict=True))

    def visit(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        for value, array in zip(op.results, results, strict=True):
            if value in wanted:
                watch(value, array)

    for sample in samples:
        for argument in arguments:
            watch(argument, sample[names[argument]])
        walk_values(main, sample, ctx, visit)
