"""DFT, STFT and MelWeightMatrix: against numpy in f64, at every kind of length; mel weights against onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import mlopt
from mlopt.frontend.onnx import import_model
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import context, one_node, run_mlopt, run_onnxruntime

RANDOM = np.random.default_rng(3)
UNIT = {
    np.dtype(t): float(ml_dtypes.finfo(t).eps)
    for t in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)
}

LENGTHS = [1, 2, 3, 5, 8, 511, 512, 513, 521, 576, 1024, 1042, 1100]
"""One product up to 512; 513, 576, 1024 and 1100 in two steps; the prime 521 by a chirp, 1042 in both ways."""


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def as_complex(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]


def as_pairs(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], axis=-1)


def assert_near(got: np.ndarray, want: np.ndarray, dtype: Any = np.float32) -> None:
    """Within a few units in the last place of the type, by the largest number: sums of n numbers are that exact."""
    assert (got.dtype, got.shape) == (np.dtype(dtype), want.shape)
    difference = np.abs(got.astype(np.float64) - want).max(initial=0)
    assert difference <= 8 * UNIT[np.dtype(dtype)] * np.abs(want).max(initial=0)


def dft(x: np.ndarray, length: int | None = None, axis: int | None = None, **attributes: int) -> np.ndarray:
    """The operator as of version 20."""
    constants = {
        name: np.array(value, np.int64)
        for name, value in (("n", length), ("axis", axis))
        if value is not None
    }
    operands = ["x", *(name if name in constants else "" for name in ("n", "axis"))]
    proto = one_node("DFT", {"x": x}, constants, operands=operands, opset=20, **attributes)
    return run_mlopt(proto, {"x": x})["y0"]


@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_there_and_back(length: int):
    x, real = numbers(2, length, 2), numbers(2, length, 1)
    spectrum = as_pairs(np.fft.fft(as_complex(x)))
    assert_near(dft(x), spectrum)
    assert_near(dft(x, inverse=1), as_pairs(np.fft.ifft(as_complex(x))))
    assert_near(dft(real), as_pairs(np.fft.fft(as_complex(real))))
    half = as_pairs(np.fft.rfft(as_complex(real)))
    assert_near(dft(real, onesided=1), half)
    assert_near(dft(half.astype(np.float32), length, onesided=1, inverse=1), real)


@pytest.mark.parametrize("length", [6, 7, 600, 603])
def test_imaginary_parts_that_a_real_signal_has_not_do_not_count(length: int):
    """As in numpy: those of the first number, and of the last for an even length."""
    x = numbers(2, length // 2 + 1, 2)
    want = np.fft.irfft(as_complex(x), length)[..., None]
    assert_near(dft(x, length, onesided=1, inverse=1), want)


def test_the_length_of_a_real_signal_is_even_by_default():
    x = numbers(3, 6, 2)
    assert_near(dft(x, onesided=1, inverse=1), np.fft.irfft(as_complex(x))[..., None])


@pytest.mark.parametrize("length", [1, 4, 9, 700])
@pytest.mark.parametrize("attributes", [{}, {"inverse": 1}, {"onesided": 1}, {"onesided": 1, "inverse": 1}])
def test_signals_are_cut_or_padded_to_the_length(length: int, attributes: dict[str, int]):
    both, onesided = attributes == {"onesided": 1, "inverse": 1}, "onesided" in attributes
    x = numbers(2, 7, 1 if onesided and not both else 2)
    name = f"{'i' if 'inverse' in attributes else ''}{'r' if onesided else ''}fft"
    want = getattr(np.fft, name)(as_complex(x), length)
    assert_near(dft(x, length, **attributes), want[..., None] if both else as_pairs(want))


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
def test_every_axis(axis: int):
    x = numbers(3, 4, 5, 2)
    along = axis if axis >= 0 else axis + 1
    assert_near(dft(x, axis=axis), as_pairs(np.fft.fft(as_complex(x), axis=along)))
    older = one_node("DFT", {"x": x}, opset=17, axis=axis)
    assert_near(run_mlopt(older, {"x": x})["y0"], as_pairs(np.fft.fft(as_complex(x), axis=along)))


def test_the_axis_is_1_by_default_before_version_20():
    x = numbers(3, 4, 5, 2)
    got = run_mlopt(one_node("DFT", {"x": x}, opset=19), {"x": x})["y0"]
    assert_near(got, as_pairs(np.fft.fft(as_complex(x), axis=1)))


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("length", [16, 600])
def test_types(dtype: Any, length: int):
    x = numbers(2, length, 2, dtype=dtype)
    assert_near(dft(x), as_pairs(np.fft.fft(as_complex(x))), dtype)


@pytest.mark.parametrize("length", [12, 600, 521])
def test_all_levels(length: int):
    x = numbers(2, length, 1)
    want = {"y0": as_pairs(np.fft.rfft(as_complex(x))).astype(np.float32)}
    check_all_levels(one_node("DFT", {"x": x}, opset=20, onesided=1), {"x": x}, want, mlir=length == 12)


@pytest.mark.parametrize(
    ("shape", "constants", "attributes", "message"),
    [
        ((2, 4, 3), {}, {}, "a last dimension of 1 or 2"),
        ((2,), {}, {}, "rank 2 or more"),
        ((2, 4, 2), {"a": np.int64(2)}, {}, "another axis than the last"),
        ((2, 4, 2), {"a": np.int64(-4)}, {}, "an axis in"),
        ((2, 4, 2), {}, {"onesided": 1}, "expected real numbers for a transform with onesided = 1"),
        ((2, 4, 1), {}, {"onesided": 1, "inverse": 1}, "expected complex numbers for an inverse"),
        ((2, 1, 2), {}, {"onesided": 1, "inverse": 1}, "a dft_length of at least 1, found 0"),
    ],
)
def test_what_does_not_fit(
    shape: tuple[int, ...], constants: dict[str, np.ndarray], attributes: dict[str, int], message: str
):
    operands = ["x", "", *constants] if constants else ["x"]
    proto = one_node("DFT", {"x": numbers(*shape)}, constants, operands=operands, opset=20, **attributes)
    with pytest.raises(mlopt.InputError, match=message):
        import_model(proto, context())


# STFT


def stft(signal: np.ndarray, step: int, window: np.ndarray | None, length: int | None, **attributes: int):
    arrays = {"x": signal} if window is None else {"x": signal, "w": window}
    constants = {"step": np.array(step, np.int64)}
    if length is not None:
        constants["length"] = np.array(length, np.int64)
    operands = ["x", "step", "" if window is None else "w", "" if length is None else "length"]
    proto = one_node("STFT", arrays, constants, operands=operands, opset=17, **attributes)
    return proto, arrays


def frames(signal: np.ndarray, step: int, window: np.ndarray, length: int) -> np.ndarray:
    starts = range(0, signal.shape[1] - length + 1, step)
    return np.stack([as_complex(signal)[:, start : start + length] * window for start in starts], axis=1)


@pytest.mark.parametrize(("step", "length"), [(1, 8), (5, 16), (16, 16), (20, 16), (3, 50), (7, 1)])
@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_with_a_window(step: int, length: int, onesided: int):
    signal, window = numbers(2, 50, 1), numbers(length)
    proto, arrays = stft(signal, step, window, length, onesided=onesided)
    cut = frames(signal, step, window.astype(np.float64), length)
    want = as_pairs(np.fft.rfft(cut) if onesided else np.fft.fft(cut))
    assert_near(run_mlopt(proto, arrays)["y0"], want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_frames_of_complex_signals(dtype: Any):
    signal = numbers(2, 20, 2, dtype=dtype)
    proto, arrays = stft(signal, 4, None, 8, onesided=0)
    assert_near(run_mlopt(proto, arrays)["y0"], as_pairs(np.fft.fft(frames(signal, 4, np.ones(8), 8))), dtype)


def test_the_window_or_the_signal_give_the_length():
    signal, window = numbers(1, 20, 1), numbers(6)
    proto, arrays = stft(signal, 4, window, None)
    want = as_pairs(np.fft.rfft(frames(signal, 4, window.astype(np.float64), 6)))
    assert_near(run_mlopt(proto, arrays)["y0"], want)
    proto, arrays = stft(signal, 4, None, None)
    assert_near(run_mlopt(proto, arrays)["y0"], as_pairs(np.fft.rfft(as_complex(signal)))[:, None])


def test_frames_at_all_levels():
    signal, window = numbers(1, 50, 1), numbers(16)
    proto, arrays = stft(signal, 5, window, 16)
    check_all_levels(proto, arrays, rtol=1e-5)


@pytest.mark.parametrize(
    ("signal", "step", "window", "length", "attributes", "message"),
    [
        ((50, 1), 4, 8, 8, {}, "a signal of rank 3"),
        ((1, 50, 2), 4, 8, 8, {}, "a real signal for onesided = 1"),
        ((1, 50, 1), 0, 8, 8, {}, "a frame_step of at least 1"),
        ((1, 50, 1), 4, None, 51, {}, "frames within 50"),
        ((1, 50, 1), 4, 9, 8, {}, "a window of the frame_length 8"),
    ],
)
def test_frames_that_do_not_fit(
    signal: tuple[int, ...],
    step: int,
    window: int | None,
    length: int,
    attributes: dict[str, int],
    message: str,
):
    weights = None if window is None else numbers(window)
    proto, _ = stft(numbers(*signal), step, weights, length, **attributes)
    with pytest.raises(mlopt.InputError, match=message):
        import_model(proto, context())


# MelWeightMatrix


def mel(bands: int, length: int, rate: int, low: float, high: float, **attributes: int):
    constants = {
        **{name: np.array(value, np.int64) for name, value in (("b", bands), ("n", length), ("r", rate))},
        **{name: np.array(value, np.float32) for name, value in (("l", low), ("h", high))},
    }
    return one_node("MelWeightMatrix", {}, constants, opset=17, **attributes)


@pytest.mark.parametrize(
    "numbers",
    [(8, 16, 8192, 0, 4096), (80, 400, 16000, 20, 8000), (40, 512, 22050, 300, 9000), (3, 4, 8, 0, 4)],
)
def test_triangles(numbers: tuple[int, int, int, float, float]):
    """Bands that are narrower than a bin are 1 there; the numbers are within a unit of onnxruntime's."""
    proto = mel(*numbers)
    (got,), (want,) = run_mlopt(proto, {}).values(), run_onnxruntime(proto, {}).values()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "FLOAT16", "INT32"])
def test_the_type_by_attribute(kind: str):
    number = getattr(TensorProto, kind)
    (got,) = run_mlopt(mel(8, 64, 8000, 0, 4000, output_datatype=number), {}).values()
    (wide,) = run_mlopt(mel(8, 64, 8000, 0, 4000, output_datatype=TensorProto.DOUBLE), {}).values()
    np.testing.assert_array_equal(got, wide.astype(got.dtype))
    assert got.dtype.name == {"FLOAT": "float32", "DOUBLE": "float64"}.get(kind, kind.lower())


def test_bands_beyond_the_spectrum():
    with pytest.raises(mlopt.InputError, match="edges up to half of the sample_rate"):
        import_model(mel(8, 16, 8000, 0, 9000), context())
