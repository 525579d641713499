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
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlopt.arrays import read_npz
from mlopt.diagnostics import InputError, PassFailure, RunError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.ir.context import CompilerContext, Entered, Evaluated
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
    array without that axis is for all samples. Infinities are numbers here, as masks have them. Raises `PassFailure` if
    the file can't be read, an input is missing, an array does not fit in shape or type, or holds NaN.
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
    samples = [
        {name: arrays[name][i] if name in counts else arrays[name] for name in names} for i in range(total)
    ]
    for number, sample in enumerate(samples, 1):
        for name, array in sample.items():
            if np.any(np.isnan(array)):
                is_shared = name not in counts and total > 1
                where = f"the array for all {total} samples" if is_shared else f"sample {number} of {total}"
                raise PassFailure(
                    f"expected numbers for input '{name}', found NaN in {where} in '{path}': "
                    f"{'' if is_shared else 'leave the sample out, or '}put numbers in place of NaN"
                )
    return samples


def _converted(array: Array, dtype: np.dtype[Any], name: str, path: str) -> Array:
    """The array in the type of its input, if that has such numbers: floats are no integers, and text is neither."""
    array = typed_array(array, dtype)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise PassFailure(
            f"expected numbers like {dtype} for input '{name}', found {array.dtype} in '{path}'"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest number of the type is infinity
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


def evaluate_samples(
    main: FuncOp,
    samples: Sequence[Sample],
    ctx: CompilerContext,
    *,
    entered: Entered | None = None,
    evaluated: Evaluated | None = None,
) -> None:
    """Evaluate a function on samples; `entered` is told of each block, `evaluated` of each operation.

    Raises `PassFailure` at a weight that is not there, and at an operation that has no result on a sample.
    """
    if ctx.function_evaluator is None:
        raise PassFailure("calibration needs an evaluator of functions in its context, found none")
    for op in main.walk():
        if isinstance(op, graph.ConstantOp) and constant_of(op, ctx) is None:
            raise PassFailure("a model can't be calibrated without its weights", place=place_of_op(op))
    for number, sample in enumerate(samples, 1):
        try:
            ctx.function_evaluator(main, sample, entered=entered, evaluated=evaluated)
        except RunError as error:
            where = f"sample {number} of {len(samples)}"
            raise PassFailure(f"calibration stops in {where}: {error.message}", place=error.place) from error


class Observed(NamedTuple):
    """What was seen on all samples: the ranges of values, and the blocks that were entered."""

    ranges: dict[SSAValue, Range]
    blocks: set[Block]


def observe(
    main: FuncOp,
    wanted: Collection[SSAValue],
    samples: Sequence[Sample],
    ctx: CompilerContext,
    method: Method,
    percentile: float,
) -> Observed:
    """The range of each of the values, which are floats, over all samples and all that each has on a sample.

    A value in a body has as many as the body has trips; one in a block that was never entered has no range.
    """
    seen: dict[SSAValue, Range] = {}
    blocks = set[Block]()

    def widen(value: SSAValue, array: Array) -> None:
        finite = array[np.isfinite(array)]
        found = Range(min(float(finite.min(initial=0)), 0.0), max(float(finite.max(initial=0)), 0.0))
        seen[value] = seen[value].union(found) if value in seen else found

    _watch(main, wanted, samples, ctx, widen, blocks)
    if method == "minmax":
        return Observed(seen, blocks)
    histograms = {value: Histogram.over(values) for value, values in seen.items()}
    _watch(main, wanted, samples, ctx, lambda value, array: histograms[value].add(array), blocks)
    chosen = {value: histogram.chosen(method, percentile) for value, histogram in histograms.items()}
    return Observed(chosen, blocks)


def _watch(
    main: FuncOp,
    wanted: Collection[SSAValue],
    samples: Sequence[Sample],
    ctx: CompilerContext,
    watch: Callable[[SSAValue, Array], None],
    blocks: set[Block],
) -> None:
    """Tell `watch` each array that one of the wanted values is, and add the blocks that are entered to `blocks`."""
    watched = frozenset(wanted)

    def tell(values: Sequence[SSAValue], arrays: Sequence[Array]) -> None:
        for value, array in zip(values, arrays, strict=True):
            if value in watched:
                watch(value, array)

    def entered(block: Block, arguments: Sequence[Array]) -> None:
        blocks.add(block)
        tell(block.args, arguments)

    def evaluated(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        tell(op.results, results)

    evaluate_samples(main, samples, ctx, entered=entered, evaluated=evaluated)
