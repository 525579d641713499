"""Elementwise ops: the kernel-level form gives what the op's reference evaluation does, special values included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.kernel import LaunchOp
from mlopt.ir.dtypes import from_numpy_dtype
from tests.kernel_level import assert_same, converted, module_of

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
TINY_FLOATS = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float4_e2m1fn,
)
SIGNED = (np.int8, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint32, np.uint64)
SPECIAL = (-np.inf, -3.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, np.inf, np.nan)
TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 2e-6, np.float64: 1e-12}


def specials(dtype: type) -> np.ndarray:
    """Values that formulas get wrong first."""
    if dtype in FLOATS:
        return np.array(SPECIAL, dtype)
    info = np.iinfo(dtype)
    return np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 7], dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "op",
    [
        *(graph.AbsOp, graph.CeilOp, graph.CosOp, graph.ErfOp, graph.ExpOp, graph.FloorOp, graph.GeluOp),
        *(
            graph.HardSigmoidOp,
            graph.HardSwishOp,
            graph.IsInfOp,
            graph.IsNanOp,
            graph.LeakyReluOp,
            graph.LogOp,
        ),
        *(graph.NegOp, graph.ReciprocalOp, graph.ReluOp, graph.RoundOp, graph.SigmoidOp, graph.SignOp),
        *(graph.AcosOp, graph.AcoshOp, graph.AsinOp, graph.AsinhOp, graph.AtanOp, graph.AtanhOp),
        *(graph.CoshOp, graph.SinhOp, graph.TanOp),
        *(graph.SinOp, graph.SqrtOp, graph.TanhOp, lambda x: graph.GeluOp(x, "tanh")),
        *(graph.SwishOp, lambda x: graph.SwishOp(x, -1.702)),
    ],
)
def test_unary_floats(op: type, dtype: type) -> None:
    assert_same(op, specials(dtype), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("op", [graph.AbsOp, graph.NotOp, graph.SignOp])
def test_unary_integers(op: type, dtype: type) -> None:
    assert_same(op, specials(dtype))


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("op", [graph.NegOp, graph.ReluOp])
def test_unary_signed_integers(op: type, dtype: type) -> None:
    assert_same(op, specials(dtype))


def test_not_of_bools() -> None:
    assert_same(graph.NotOp, np.array([True, False]))


ARITHMETIC = (graph.AddOp, graph.SubOp, graph.MulOp, graph.DivOp, graph.MinOp, graph.MaxOp)
COMPARISONS = (graph.EqualOp, graph.LessOp, graph.LessEqualOp, graph.GreaterOp, graph.GreaterEqualOp)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS])
def test_every_pair_of_special_values(op: type, dtype: type) -> None:
    values = specials(dtype)
    kernels = assert_same(op, values[:, None], values[None, :], rtol=0, atol=0)
    assert [launch.kernel_name.data for launch in kernels.walk() if isinstance(launch, LaunchOp)] == [
        op.name.removeprefix("graph.")
    ]


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("fmod", [False, True])
def test_integer_remainder(fmod: bool, dtype: type) -> None:
    values = specials(dtype)
    assert_same(lambda a, b: graph.ModOp(a, b, fmod=fmod), values[:, None], values[None, :])


@pytest.mark.parametrize("divisor", [-3, -1, 0, 1, 4])
@pytest.mark.parametrize("op", [graph.DivOp, graph.ModOp])
def test_a_constant_divisor_is_guarded_only_where_it_must_be(op: type, divisor: int) -> None:
    kernels = assert_same(op, specials(np.int32), np.array(divisor, np.int32), constants=[1])
    guards = [inner for inner in kernels.walk() if isinstance(inner, arith.CmpiOp)]
    if op is graph.DivOp:
        assert bool(guards) == (divisor in (-1, 0))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("op", [graph.ShiftLeftOp, graph.ShiftRightOp])
def test_shifts(op: type, dtype: type) -> None:
    """Negative amounts and those of the width and above are among the special values."""
    amounts = np.append(specials(dtype), np.array(8 * np.dtype(dtype).itemsize, dtype))
    assert_same(op, specials(dtype)[:, None], amounts[None, :])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.float16, np.int16),
        (np.float32, np.uint32),
        (np.int64, np.float64),
        (np.uint8, np.int8),
        (np.int16, ml_dtypes.bfloat16),
        (ml_dtypes.bfloat16, np.float16),
    ],
)
def test_bitcasts(source: type, target: type) -> None:
    bits = np.arange(-3, 4, dtype=f"i{np.dtype(source).itemsize}").view(source)
    assert_same(lambda x: graph.BitcastOp(x, from_numpy_dtype(np.dtype(target))), bits)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fmod", [False, True])
def test_float_remainders(dtype: type, fmod: bool) -> None:
    values = specials(dtype)
    assert_same(lambda a, b: graph.ModOp(a, b, fmod=fmod), values[:, None], values[None, :])


@pytest.mark.parametrize("tiny", TINY_FLOATS)
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8])
def test_casts_to_and_from_tiny_floats(tiny: type, saturate: bool, dtype: type) -> None:
    element, wide = from_numpy_dtype(np.dtype(tiny)), from_numpy_dtype(np.dtype(dtype))
    assert_same(lambda x: graph.CastOp(x, element, saturate=saturate), specials(dtype))
    every = np.arange(16 if tiny is ml_dtypes.float4_e2m1fn else 256, dtype=np.uint8).view(tiny)
    assert_same(lambda x: graph.CastOp(x, wide), every)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_powers(dtype: type) -> None:
    values = specials(dtype)
    assert_same(graph.PowOp, values[:, None], values[None, :], rtol=TOLERANCE[dtype])


def test_a_constant_square_is_a_product() -> None:
    kernels = assert_same(graph.PowOp, specials(np.float32), np.array(2, np.float32), constants=[1])
    assert any(isinstance(op, arith.MulfOp) for op in kernels.walk())


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint32])
def test_integer_powers(dtype: type) -> None:
    base = np.array([-3, -1, 0, 1, 2, 5], np.int64).astype(dtype)
    exponent = np.array([-2, -1, 0, 1, 2, 3, 9], np.int64)
    exponent = (np.abs(exponent) if np.dtype(dtype).kind == "u" else exponent).astype(dtype)
    assert_same(graph.PowOp, base[:, None], exponent[None, :])


def test_powers_of_ui64_are_refused() -> None:
    values = np.ones(3, np.uint64)
    with pytest.raises(UnsupportedError, match="the power of ui64 numbers"):
        converted(module_of(graph.PowOp, [values, values]))


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.uint16])
@pytest.mark.parametrize("op", [graph.AndOp, graph.OrOp, graph.XorOp, graph.EqualOp])
def test_bits(op: type, dtype: type) -> None:
    values = np.array([0, 1, 3], np.uint8).astype(dtype)
    assert_same(op, values[:, None], values[None, :])


@pytest.mark.parametrize(
    "shapes", [((2, 1), (1, 3)), ((), (4,)), ((0, 3), (3,)), ((), ()), ((5, 1, 2), (7, 1))]
)
def test_broadcasting(shapes: tuple[tuple[int, ...], ...]) -> None:
    generator = np.random.default_rng(0)
    assert_same(graph.SubOp, *(generator.standard_normal(shape).astype(np.float32) for shape in shapes))


def test_one_operand_twice_is_read_once() -> None:
    kernels = assert_same(lambda x: graph.MulOp(x, x), specials(np.float32))
    (launch,) = (op for op in kernels.walk() if isinstance(op, LaunchOp))
    assert len(launch.ins) == 1


@pytest.mark.parametrize(
    "value", [np.float32(-np.inf), np.float32(np.nan), np.uint8(200), np.int64(-(2**63))]
)
def test_constants_of_one_number_stand_in_the_body(value: np.generic) -> None:
    kernels = assert_same(graph.AddOp, np.array([1, 2], value.dtype), np.full((3, 1), value), constants=[1])
    (launch,) = (op for op in kernels.walk() if isinstance(op, LaunchOp))
    assert len(launch.ins) == 1


def test_where() -> None:
    condition = np.array([[True], [False]])
    assert_same(
        graph.WhereOp,
        condition,
        np.array([1.0, np.nan], np.float32),
        np.array(3.0, np.float32),
        constants=[2],
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8])
@pytest.mark.parametrize("low, high", [(1, 2), (2, 1)])
def test_clip(low: int, high: int, dtype: type) -> None:
    bounds = np.array(low, dtype), np.array(high, dtype)
    assert_same(graph.ClipOp, specials(dtype), *bounds)
    assert_same(graph.ClipOp, specials(dtype), bounds[0], constants=[1])
    assert_same(lambda x, upper: graph.ClipOp(x, None, upper), specials(dtype), bounds[1])


TYPES = (np.bool_, *FLOATS, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_casts(source: type, target: type) -> None:
    if source is np.bool_:
        values = np.array([True, False])
    elif source in FLOATS:
        with np.errstate(over="ignore"):
            values = np.array(
                [*SPECIAL, 127.9, 128, -129, 255.9, 256, 65503, 3e9, -3e9, 1e19, 2.0**63, -(2.0**63)]
            )
            values = values.astype(source)
    else:
        values = specials(source)
    assert_same(lambda x: graph.CastOp(x, from_numpy_dtype(np.dtype(target))), values, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_all_reduce(dtype: type) -> None:
    """Integers wrap; floats are rounded after each addition: 1 and a half unit, added twice, stay 1 in any type."""
    values = specials(dtype)
    with np.errstate(all="ignore"):
        assert_same(lambda x, y, z: graph.AllReduceOp([x, y, z]), values, values[::-1].copy(), values)
    assert_same(lambda x: graph.AllReduceOp([x]), values)
    assert_same(lambda x: graph.AllReduceOp([x, x]), values)
    if dtype in FLOATS:
        half = np.array([float(ml_dtypes.finfo(dtype).eps) / 2], dtype)
        assert_same(lambda x, y, z: graph.AllReduceOp([x, y, z]), np.ones(1, dtype), half, half)
