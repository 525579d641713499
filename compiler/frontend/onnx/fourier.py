"""Import of DFT and STFT: Fourier transforms as matrix products with constant matrices, and of MelWeightMatrix.

Complex numbers are pairs on the last dimension, so `n` of them are a row of `2 n` numbers, and a transform of them is
one real matrix product. `_transform` takes a transform of any length apart:

- up to `_DIRECT` elements: the matrix product;
- a length `a * b` (Cooley and Tukey, 1965): transforms of length `a`, products with the twiddle factors, transforms of
  length `b`, as `X[i + a j] = sum_m w_b^(j m) w_ab^(i m) sum_l w_a^(i l) x[b l + m]` with `w_n = exp(-2 pi i / n)`;
- a prime (Bluestein, 1970): a convolution with a chirp, as `2 k n = k^2 + n^2 - (k - n)^2`, by transforms of a power
  of 2.

Constants are computed in f64 from exact angles; f16 and bf16 are transformed in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of, tensor_type
from mlopt.frontend.onnx.elementwise import cast_type
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.ir.dtypes import to_numpy_dtype

_Complex: TypeAlias = npt.NDArray[np.complex128]

_DIRECT = 512
"""The longest transform that is one matrix product, of a matrix of up to four times the square of the length. For
longer ones two products of smaller matrices are faster."""


# Operators


@importer("DFT", since=17)
def dft_with_attribute(node: Node) -> SSAValue:
    """Before version 20 the axis is an attribute."""
    return _dft(node, node.integer("axis", 1))


@importer("DFT", since=20)
def dft(node: Node) -> SSAValue:
    """The axis is an input; by default the last one in front of the numbers' own."""
    return _dft(node, -2 if node.optional(2) is None else node.known_int(2, "axis"))


def _dft(node: Node, axis: int) -> SSAValue:
    rank, pair = _complex_rank(node)
    axis = normalize_axis(axis, rank)
    if axis == rank - 1:
        raise node.error("expected another axis than the last, which holds the numbers' two parts")
    inverse, onesided = node.integer("inverse", 0) == 1, node.integer("onesided", 0) == 1
    if onesided and pair != (2 if inverse else 1):
        wanted = "complex numbers for an inverse" if inverse else "real numbers for a"
        raise node.error(f"expected {wanted} transform with onesided = 1, found {node.type_of(0)}")
    extent = node.shape_of(0)[axis]
    length = 2 * (extent - 1) if inverse and onesided else extent
    if node.optional(1) is not None:
        length = node.known_int(1, "dft_length")
    if length < 1:
        raise node.error(f"expected a dft_length of at least 1, found {length}")
    formula = Formula(node)
    x = formula.swap(_widened(formula, node.operand(0)), axis, -2)
    if inverse and onesided:
        result = _real_inverse(formula, x, length)
    else:
        bins = length // 2 + 1 if onesided else length
        scale = 1 / length if inverse else 1.0
        result = _transform(formula, _fitted(formula, x, length), bins, inverse=inverse, scale=scale)
    return formula.cast(formula.swap(result, axis, -2), node.type_of(0).element_type)


@importer("STFT", since=17)
def stft(node: Node) -> SSAValue:
    """Transforms of frames, which are gathered at positions that are known here, times the window if there is one."""
    rank, pair = _complex_rank(node)
    if rank != 3:
        raise node.error(f"expected a signal of rank 3, found {node.type_of(0)}")
    onesided = node.integer("onesided", 1) == 1
    if onesided and pair == 2:
        raise node.error("expected a real signal for onesided = 1, found a complex one")
    size = node.shape_of(0)[1]
    step, window = node.known_int(1, "frame_step"), node.optional(2)
    length = size if window is None else prod(node.shape_of(2))
    if node.optional(3) is not None:
        length = node.known_int(3, "frame_length")
    if window is not None and node.shape_of(2) != (length,):
        raise node.error(f"expected a window of the frame_length {length}, found {node.type_of(2)}")
    if step < 1 or not 1 <= length <= size:
        raise node.error(
            f"expected a frame_step of at least 1 and frames within {size}, found {step} and {length}"
        )
    formula = Formula(node)
    starts = np.arange(0, size - length + 1, step)
    positions = node.constant(starts[:, None] + np.arange(length))
    frames = node.add(graph.GatherOp(_widened(formula, node.operand(0)), positions, 1)).result
    if window is not None:
        frames = formula.mul(frames, formula.reshape(_widened(formula, window), (length, 1)))
    result = _transform(formula, frames, length // 2 + 1 if onesided else length)
    return formula.cast(result, node.type_of(0).element_type)


def _complex_rank(node: Node) -> tuple[int, int]:
    """The rank of the operand, and 1 or 2 for real or complex numbers."""
    shape = node.shape_of(0)
    if len(shape) < 2 or shape[-1] not in (1, 2):
        raise node.error(f"expected rank 2 or more and a last dimension of 1 or 2, found {node.type_of(0)}")
    return len(shape), shape[-1]


def _widened(formula: Formula, x: SSAValue) -> SSAValue:
    """In f32 if it is narrower."""
    element = tensor_type(x.type).element_type
    return formula.cast(x, f32) if to_numpy_dtype(element).itemsize == 2 else x


def _fitted(formula: Formula, x: SSAValue, length: int) -> SSAValue:
    """With `length` numbers: the first ones, or zeros after them."""
    extent = shape_of(x)[-2]
    if extent >= length:
        return formula.part(x, -2, 0, length)
    return formula.padded(x, -2, length - extent)


# Transforms. Shapes: `[..., n, 1]` or `[..., n, 2]` to `[..., bins, 2]`.


def _transform(
    formula: Formula, x: SSAValue, bins: int, *, inverse: bool = False, scale: float = 1.0
) -> SSAValue:
    """The first `bins` numbers of the transform over the dimension in front of the last, times `scale`."""
    length = shape_of(x)[-2]
    if length <= _DIRECT:
        return _product(formula, x, _matrix(length, bins, inverse=inverse) * scale)
    factor = max(divisor for divisor in range(1, min(_DIRECT, isqrt(length)) + 1) if length % divisor == 0)
    if factor == 1:
        return _chirp(formula, x, bins, inverse=inverse, scale=scale)
    *outer, _, parts = shape_of(x)
    rest = length // factor
    columns = formula.swap(formula.reshape(x, (*outer, factor, rest, parts)), -3, -2)
    first = _transform(formula, columns, factor, inverse=inverse)
    twiddled = _times(formula, first, _roots(np.outer(range(rest), range(factor)), length, inverse=inverse))
    wanted = -(-bins // factor)
    second = _transform(formula, formula.swap(twiddled, -3, -2), wanted, inverse=inverse, scale=scale)
    joined = formula.reshape(formula.swap(second, -3, -2), (*outer, wanted * factor, 2))
    return formula.part(joined, -2, 0, bins)


def _real_inverse(formula: Formula, x: SSAValue, length: int) -> SSAValue:
    """The real numbers, `[..., length, 1]`, whose transform begins with `x`.

    The imaginary parts of its first number and, for an even length, of its last do not count, as in `numpy.fft.irfft`.
    """
    half = length // 2 + 1
    x = _fitted(formula, x, half)
    *outer, _, _ = shape_of(x)
    if length <= _DIRECT:
        twice = np.full((half, 1), 2.0)
        twice[0] = twice[length - half + 1 :] = 1
        matrix = _matrix(length, length, inverse=True)[:half] * twice / length
        rows = np.stack([matrix.real, -matrix.imag], axis=1).reshape(2 * half, length)
        product = formula.matmul(formula.reshape(x, (*outer, 2 * half)), formula.array(rows, x))
        return formula.reshape(product, (*outer, length, 1))
    mirrored = formula.every(formula.swap(formula.part(x, -2, 1, length - half + 1), -2, -1), -1)
    conjugate = formula.mul(formula.swap(mirrored, -2, -1), formula.array(np.array([1, -1]), x))
    whole = formula.concat([x, conjugate], -2)
    return formula.part(_transform(formula, whole, length, inverse=True, scale=1 / length), -1, 0, 1)


def _product(formula: Formula, x: SSAValue, matrix: _Complex) -> SSAValue:
    """`n` numbers times a complex matrix `[n, k]`, as rows of real numbers."""
    *outer, length, parts = shape_of(x)
    bins = matrix.shape[1]
    rows = np.stack([matrix, 1j * matrix], axis=1)[:, :parts].reshape(length * parts, bins)
    columns = np.stack([rows.real, rows.imag], axis=-1).reshape(length * parts, 2 * bins)
    product = formula.matmul(formula.reshape(x, (*outer, length * parts)), formula.array(columns, x))
    return formula.reshape(product, (*outer, bins, 2))


def _chirp(formula: Formula, x: SSAValue, bins: int, *, inverse: bool, scale: float) -> SSAValue:
    """A transform of any length by a convolution, which is a product of transforms of a power of 2."""
    length = shape_of(x)[-2]
    count = max(length, bins)
    chirp = _roots(np.array([n * n for n in range(count)]), 2 * length, inverse=inverse)
    size = 1 << (length + bins - 2).bit_length()
    kernel = np.zeros(size, np.complex128)
    kernel[:bins], kernel[size - length + 1 :] = chirp[:bins].conj(), chirp[1:length][::-1].conj()
    padded = formula.padded(_times(formula, x, chirp[:length]), -2, size - length)
    spectrum = _times(formula, _transform(formula, padded, size), np.fft.fft(kernel) * (scale / size))
    return _times(formula, _transform(formula, spectrum, bins, inverse=True), chirp[:bins])


def _times(formula: Formula, x: SSAValue, factors: _Complex) -> SSAValue:
    """Numbers, real or complex, times complex constants of the shape of their last dimensions."""
    if shape_of(x)[-1] == 1:
        return formula.mul(x, formula.array(_pairs(factors.real, factors.imag), x))
    straight = formula.mul(x, formula.array(_pairs(factors.real, factors.real), x))
    crossed = formula.mul(formula.every(x, -1), formula.array(_pairs(-factors.imag, factors.imag), x))
    return formula.add(straight, crossed)


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=-1)


def _matrix(length: int, bins: int, *, inverse: bool) -> _Complex:
    """`[length, bins]`: the first columns of a transform's matrix."""
    return _roots(np.outer(range(length), range(bins)), length, inverse=inverse)


def _roots(powers: np.ndarray, order: int, *, inverse: bool) -> _Complex:
    """`exp(-2 pi i / order)` to these powers, or its inverse's."""
    angles = powers % order * (2 * np.pi / order)
    return np.exp((1j if inverse else -1j) * angles)


# The mel scale


def _datatype_limit(node: NodeProto) -> str | None:
    number = next((a.i for a in node.attribute if a.name == "output_datatype"), TensorProto.FLOAT)
    dtype = cast_type(number)
    known = dtype is not None and (dtype.kind in "fiu" or dtype.name == "bfloat16") and dtype.itemsize >= 1
    return None if known else f"with output_datatype {number}"


@importer("MelWeightMatrix", since=17, limit=_datatype_limit)
def mel_weight_matrix(node: Node) -> SSAValue:
    """A constant `[dft_length // 2 + 1, num_mel_bins]`: for each band a triangle over the bins around its centre."""
    bands, length, rate = (node.known_int(i, what) for i, what in enumerate(_MEL_INPUTS[:3]))
    low, high = (_number(node, i, what) for i, what in enumerate(_MEL_INPUTS[3:], 3))
    if bands < 0 or length < 1 or rate < 1 or not 0 <= low <= high:
        raise node.error("expected counts and a rate of at least 1 and edges from 0 in ascending order")
    dtype = cast_type(node.integer("output_datatype", TensorProto.FLOAT))
    assert dtype is not None
    mel = np.linspace(_to_mel(low), _to_mel(high), bands + 2, endpoint=False)
    edges = ((length + 1) * (700 * np.expm1(mel * (np.log(10) / 2595))) // rate).astype(np.int64)
    if edges[-1] > length // 2:
        raise node.error(f"expected edges up to half of the sample_rate, found {low} and {high} for {rate}")
    matrix = np.zeros((length // 2 + 1, bands))
    for band, (left, centre, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        matrix[left : centre + 1, band] = np.linspace(0, 1, centre - left + 1) if centre > left else 1
        matrix[centre:right, band] = np.linspace(1, 0, right - centre, endpoint=False)
    return node.constant(matrix.astype(dtype))


_MEL_INPUTS: Sequence[str] = (
    "num_mel_bins",
    "dft_length",
    "sample_rate",
    "lower_edge_hertz",
    "upper_edge_hertz",
)


def _number(node: Node, index: int, what: str) -> float:
    value = node.known(index, what)
    if value.size != 1:
        raise node.error(f"expected one number as the {what}, found {value.size}")
    return float(value.reshape(()))


def _to_mel(hertz: float) -> float:
    return float(2595 * np.log1p(hertz / 700) / np.log(10))
