"""Convolutions and matrix products with a constant weight: how scaling their channels changes the weight.

The result of each has one axis of channels, the input another; both are dimensions of the weight. `Contraction` knows
which, for the four forms that there are, and makes the operation again with another input, weight and bias. Weights
are computed in f64 and rounded once, in pieces, so that no copy of a weight in f64 is ever made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, rank_of
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.constants import constant_value, is_constant

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Contraction(ABC):
    """One operation with a constant weight. Factors and shifts are f64, one for each channel, or a single one."""

    op: Operation
    weight: SSAValue
    array: Array

    @property
    @abstractmethod
    def input(self) -> SSAValue:
        """The operand that is not the weight."""

    @property
    @abstractmethod
    def input_axis(self) -> int:
        """The dimension of the input that is summed over."""

    @property
    @abstractmethod
    def result_axis(self) -> int | None:
        """The dimension of the result that the weight brings in; None if it brings in none."""

    @abstractmethod
    def scaled_results(self, factors: Array) -> Array:
        """The weight for results times `factors`."""

    @abstractmethod
    def scaled_inputs(self, factors: Array) -> Array:
        """The weight for inputs that were not multiplied by `factors`."""

    @abstractmethod
    def shift(self, shifts: Array) -> Array | None:
        """What `shifts` of the input add to the result, f64 per channel of it; None if that differs by position."""

    @abstractmethod
    def again(self, input: SSAValue, weight: SSAValue, bias: SSAValue | None) -> Operation:
        """The operation with other operands; `bias` only where `takes_bias`."""

    @property
    def bias(self) -> SSAValue | None:
        """The bias that the operation has of its own."""
        return None

    @property
    def takes_bias(self) -> bool:
        """Can the operation itself add a bias?"""
        return False


@dataclass(frozen=True)
class Convolution(Contraction):
    """Base of the convolutions: channels are dimension 1, and there is a bias."""

    op: graph.ConvOp | graph.ConvTransposeOp

    @property
    def input(self) -> SSAValue:
        return self.op.input

    @property
    def input_axis(self) -> int:
        return 1

    @property
    def result_axis(self) -> int | None:
        return 1

    @property
    def bias(self) -> SSAValue | None:
        return self.op.bias

    @property
    def takes_bias(self) -> bool:
        return True


@dataclass(frozen=True)
class ConvContraction(Convolution):
    """`graph.conv`: weight `[m, c / group, kernel...]`."""

    op: graph.ConvOp

    def scaled_results(self, factors: Array) -> Array:
        return rounded_product(self.array, _along(factors, 0, self.array.ndim))

    def scaled_inputs(self, factors: Array) -> Array:
        return rounded_product(self.array, self._per_filter(factors))

    def shift(self, shifts: Array) -> Array | None:
        window = self.op.window
        if any(window.low) or any(window.high):
            return None  # where the window reaches into the padding, less is added
        features, group_channels = self.array.shape[:2]
        taps = self.array.reshape(features, group_channels, -1)
        return np.einsum("mck,mc->m", taps, self._per_filter(shifts).reshape(features, group_channels))

    def _per_filter(self, values: Array) -> Array:
        """Values of the input's channels as `[m, c / group, 1...]`: each group of filters sees its own channels."""
        features, group_channels, *kernel = self.array.shape
        groups = self.op.groups
        each = np.broadcast_to(values, (groups * group_channels,)).reshape(groups, group_channels)
        return np.repeat(each, features // groups, axis=0).reshape(
            features, group_channels, *[1] * len(kernel)
        )

    def again(self, input: SSAValue, weight: SSAValue, bias: SSAValue | None) -> Operation:
        window = self.op.window
        return graph.ConvOp(
            input,
            weight,
            bias,
            self.op.residual,
            strides=window.strides,
            pads=window.low + window.high,
            dilations=window.dilations,
            group=self.op.groups,
            activation=self.op.activation,
        )


@dataclass(frozen=True)
class ConvTransposeContraction(Convolution):
    """`graph.conv_transpose`: weight `[c, m / group, kernel...]`."""

    op: graph.ConvTransposeOp

    def scaled_results(self, factors: Array) -> Array:
        channels, group_features, *kernel = self.array.shape
        groups = self.op.groups
        each = np.broadcast_to(factors, (groups * group_features,)).reshape(groups, group_features)
        per_tap = np.repeat(each, channels // groups, axis=0)
        return rounded_product(self.array, per_tap.reshape(channels, group_features, *[1] * len(kernel)))

    def scaled_inputs(self, factors: Array) -> Array:
        return rounded_product(self.array, _along(factors, 0, self.array.ndim))

    def shift(self, shifts: Array) -> Array | None:
        window = self.op.window
        has_one_tap = all(size == 1 for size in (*window.kernel, *window.strides))
        if not has_one_tap or any(get_ints(self.op.properties, "output_padding") or ()):
            return None  # positions of the result take different numbers of taps
        channels, group_features = self.array.shape[:2]
        groups = self.op.groups
        per_group = self.array.reshape(groups, channels // groups, group_features)
        each = np.broadcast_to(shifts, (channels,)).reshape(groups, channels // groups)
        return np.einsum("gcm,gc->gm", per_group, each).reshape(-1)

    def again(self, input: SSAValue, weight: SSAValue, bias: SSAValue | None) -> Operation:
        window = self.op.window
        return graph.ConvTransposeOp(
            input,
            weight,
            bias,
            strides=window.strides,
            pads=window.low + window.high,
            dilations=window.dilations,
            output_padding=get_ints(self.op.properties, "output_padding"),
            group=self.op.groups,
            activation=self.op.activation,
        )


@dataclass(frozen=True)
class RightWeight(Contraction):
    """`graph.matmul` with the weight on the right: `[..., k, n]`, or `[k]`."""

    op: graph.MatMulOp

    @property
    def input(self) -> SSAValue:
        return self.op.lhs

    @property
    def input_axis(self) -> int:
        return rank_of(self.op.lhs) - 1

    @property
    def result_axis(self) -> int | None:
        return None if self.array.ndim == 1 else rank_of(self.op.result) - 1

    def scaled_results(self, factors: Array) -> Array:
        return rounded_product(self.array, factors)

    def scaled_inputs(self, factors: Array) -> Array:
        return rounded_product(self.array, factors if self.array.ndim == 1 else factors[:, None])

    def shift(self, shifts: Array) -> Array | None:
        if self.array.ndim > 2:
            return None  # each matrix of the batch adds another row
        wide = np.broadcast_to(shifts, self.array.shape[:1])
        return np.atleast_1d(np.einsum("k...,k->...", self.array, wide))

    def again(self, input: SSAValue, weight: SSAValue, bias: SSAValue | None) -> Operation:
        return graph.MatMulOp(input, weight)


@dataclass(frozen=True)
class LeftWeight(Contraction):
    """`graph.matmul` with the weight on the left: `[..., m, k]`, or `[k]`."""

    op: graph.MatMulOp

    @property
    def input(self) -> SSAValue:
        return self.op.rhs

    @property
    def input_axis(self) -> int:
        return max(rank_of(self.op.rhs) - 2, 0)

    @property
    def result_axis(self) -> int | None:
        if self.array.ndim == 1:
            return None
        return rank_of(self.op.result) - (1 if rank_of(self.op.rhs) == 1 else 2)

    def scaled_results(self, factors: Array) -> Array:
        return rounded_product(self.array, factors if self.array.ndim == 1 else factors[:, None])

    def scaled_inputs(self, factors: Array) -> Array:
        return rounded_product(self.array, factors)

    def shift(self, shifts: Array) -> Array | None:
        if self.array.ndim > 2:
            return None
        wide = np.broadcast_to(shifts, self.array.shape[-1:])
        return np.atleast_1d(np.einsum("...k,k->...", self.array, wide))

    def again(self, input: SSAValue, weight: SSAValue, bias: SSAValue | None) -> Operation:
        return graph.MatMulOp(weight, input)


def contraction_of(op: Operation, ctx: CompilerContext) -> Contraction | None:
    """What `op` is if it is a convolution or matrix product with a weight that is constant and has elements."""
    match op:
        case graph.ConvOp():
            form, weight = ConvContraction, op.weight
        case graph.ConvTransposeOp():
            form, weight = ConvTransposeContraction, op.weight
        case graph.MatMulOp():
            form, weight = (RightWeight, op.rhs) if is_constant(op.rhs) else (LeftWeight, op.lhs)
        case _:
            return None
    array = constant_value(weight, ctx)
    return None if array is None or array.size == 0 else cast(Any, form)(op, weight, array)


def per_channel(array: Array, shape: Sequence[int], axis: int | None) -> Array | None:
    """A constant operand of an elementwise operation whose other operand has `shape`: one f64 number per channel.

    Has shape `[shape[axis]]`, or `[1]` where all channels have the same. None if the constant differs along another
    dimension, has none of the elements, or makes the result larger.
    """
    if array.ndim > len(shape) or array.size == 0:
        return None
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    for dimension, size in enumerate(sizes):
        if size != 1 and (dimension != axis or size != shape[dimension]):
            return None
    return array.reshape(-1).astype(np.float64)


def channels_last_dimensions(values: Array, rank: int, axis: int | None) -> Array:
    """Values per channel in a shape that broadcasts along `axis` of `rank` dimensions."""
    return values.reshape(()) if axis is None else values.reshape(-1, *[1] * (rank - 1 - axis))


def rounded_product(array: Array, factors: Array) -> Array:
    """`array * factors` in f64, rounded once to the type of `array`."""
    result = np.empty(array.shape, array.dtype)
    np.multiply(array, factors, out=result, dtype=np.float64, casting="unsafe")
    return result


def keeps_precision(before: Array, after: Array) -> bool:
    """Is a scaled weight finite, and in the range where its type has all of its digits, as it was before?"""
    if not bool(np.all(np.isfinite(after))):
        return False
    smallest = float(cast(Any, ml_dtypes.finfo(after.dtype)).smallest_normal)
    largest = _largest(after)
    return largest == 0 or largest >= smallest or _largest(before) < smallest


def _largest(array: Array) -> float:
    return max(abs(float(array.max())), abs(float(array.min())))


def _along(values: Array, axis: int, rank: int) -> Array:
    return values.reshape(-1, *[1] * (rank - 1 - axis))
