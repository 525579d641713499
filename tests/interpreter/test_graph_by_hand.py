"""Values of graph operations worked out by hand, where onnxruntime is silent, refuses, or differs from ONNX."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float32Type,
    FloatAttr,
    IntegerType,
    Signedness,
    f16,
    f32,
    i8,
    i32,
    i64,
)

from mlopt.diagnostics import RunError
from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp
from mlopt.interpreter.graph import evaluate
from tests.graph_values import evaluate_checked, value_of

BF16 = ml_dtypes.bfloat16
NAN, INF = math.nan, math.inf


def apply(op_type: type[GraphOp], *operands: np.ndarray, **options: object) -> np.ndarray:
    (result,) = evaluate_checked(op_type(*map(value_of, operands), **options), *operands)
    return result


def f(*values: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(values, dtype)


def same_bits(got: np.ndarray, want: np.ndarray) -> None:
    """Equal, zeros by sign too; a NaN equals a NaN."""
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(want)])


class TestIntegers:
    """Integers wrap, and divide toward zero."""

    @pytest.mark.parametrize(
        ("op", "x", "y", "dtype", "want"),
        [
            (graph.DivOp, [8, -8, 7, -7], [-3, 3, -2, 2], np.int64, [-2, -2, -3, -3]),
            (graph.DivOp, [7, 0], [0, 0], np.int32, [0, 0]),
            (graph.DivOp, [-128], [-1], np.int8, [-128]),
            (graph.DivOp, [-(2**63)], [-1], np.int64, [-(2**63)]),
            (graph.DivOp, [9007199254740993], [1], np.int64, [9007199254740993]),
            (graph.DivOp, [255, 7], [2, 0], np.uint8, [127, 0]),
            (graph.ModOp, [7, -7, 7, -7, 5], [3, 3, -3, -3, 0], np.int64, [1, 2, -2, -1, 0]),
            (graph.ModOp, [-(2**31)], [-1], np.int32, [0]),
            (graph.AddOp, [2147483647], [1000], np.int32, [-2147482649]),
            (graph.AddOp, [200], [100], np.uint8, [44]),
            (graph.MulOp, [2**62], [4], np.int64, [0]),
            (
                graph.PowOp,
                [2, 2, -1, -1, 1, 0, 3],
                [3, -1, -3, -2, -9, -1, 0],
                np.int64,
                [8, 0, -1, 1, 1, 0, 1],
            ),
            (graph.PowOp, [16], [2], np.uint8, [0]),
            (graph.AndOp, [6], [3], np.int16, [2]),
        ],
    )
    def test_binary(
        self, op: type[GraphOp], x: list[int], y: list[int], dtype: type, want: list[int]
    ) -> None:
        np.testing.assert_array_equal(
            apply(op, np.array(x, dtype), np.array(y, dtype)), np.array(want, dtype)
        )

    def test_fmod_has_the_sign_of_the_dividend(self) -> None:
        got = apply(graph.ModOp, np.array([7, -7, 7, 5]), np.array([3, 3, -3, 0]), fmod=True)
        np.testing.assert_array_equal(got, [1, -1, 1, 0])

    def test_smallest_integer_is_its_own_negative_and_absolute(self) -> None:
        smallest = np.array([-128], np.int8)
        assert apply(graph.NegOp, smallest) == apply(graph.AbsOp, smallest) == -128

    def test_not(self) -> None:
        assert apply(graph.NotOp, np.array([5], np.uint8)) == 250

    def test_reductions_wrap_in_their_type(self) -> None:
        x = np.array([100, 100, 100], np.int8)
        assert apply(graph.ReduceSumOp, x) == 300 - 256
        assert apply(graph.ReduceProdOp, x) == np.array(10**6).astype(np.int8)
        # The sum -2 over 3 elements, truncated.
        assert apply(graph.ReduceMeanOp, np.array([-2, -1, 1], np.int32)) == 0

    def test_matmul_wraps(self) -> None:
        assert apply(graph.MatMulOp, np.array([100, 100], np.int8), np.array([1, 2], np.int8)) == 44


class TestSpecialFloats:
    """NaN propagates; infinities and signed zeros follow IEEE 754."""

    def test_division_by_zero_takes_both_signs(self) -> None:
        same_bits(apply(graph.DivOp, f(1, 0, NAN, -1), f(-0.0, -0.0, 0, -0.0)), f(-INF, NAN, NAN, INF))

    def test_times_zero_and_minus_itself_keep_nan(self) -> None:
        same_bits(apply(graph.MulOp, f(INF, NAN, -2, 3), f(0)), f(NAN, NAN, -0.0, 0))
        same_bits(apply(graph.SubOp, f(INF, 1), f(INF, 1)), f(NAN, 0))

    def test_signed_zero_through_addition(self) -> None:
        same_bits(apply(graph.ReciprocalOp, apply(graph.AddOp, f(-0.0), f(0.0))), f(INF))
        same_bits(apply(graph.ReciprocalOp, apply(graph.AddOp, f(-0.0), f(-0.0))), f(-INF))

    def test_nan_propagates(self) -> None:
        np.testing.assert_array_equal(apply(graph.ReluOp, f(NAN, 1, -2)), f(NAN, 1, 0))
        np.testing.assert_array_equal(apply(graph.MinOp, f(NAN, 4), f(7, NAN)), f(NAN, NAN))
        np.testing.assert_array_equal(apply(graph.MaxOp, f(NAN, 4), f(7, NAN)), f(NAN, NAN))
        np.testing.assert_array_equal(
            apply(graph.ClipOp, f(NAN, 9), f(0).reshape(()), f(1).reshape(())), f(NAN, 1)
        )
        np.testing.assert_array_equal(apply(graph.ReduceMaxOp, f(1, NAN, 3)), f(NAN)[0])
        np.testing.assert_array_equal(apply(graph.ReduceMinOp, f(1, NAN, 3)), f(NAN)[0])
        assert apply(graph.ArgMaxOp, f(1, NAN, 3)) == 1
        pooled = apply(graph.MaxPoolOp, f(1, NAN, 3, 2).reshape(1, 1, 4), kernel=[2])
        np.testing.assert_array_equal(pooled.reshape(-1), f(NAN, NAN, 3))

    def test_comparison_with_nan_is_false(self) -> None:
        for op in (graph.EqualOp, graph.LessOp, graph.LessEqualOp, graph.GreaterOp, graph.GreaterEqualOp):
            assert not apply(op, f(NAN), f(NAN)).any()

    def test_softmax_of_infinities(self) -> None:
        rows = np.array([[1000, 1000], [-INF, 0], [-INF, -INF]], np.float32)
        want = np.array([[0.5, 0.5], [0, 1], [NAN, NAN]], np.float32)
        np.testing.assert_array_equal(apply(graph.SoftmaxOp, rows, axis=1), want)

    def test_padding_of_max_pool_never_wins(self) -> None:
        x = np.full((1, 1, 1), -5, np.float32)
        assert apply(graph.MaxPoolOp, x, kernel=[3], pads=[1, 1]) == -5
        padded = evaluate_checked(graph.PadOp(value_of(x), [0, 0, 1], [0, 0, 1], FloatAttr(0.0, f32)), x)[0]
        assert apply(graph.MaxPoolOp, padded, kernel=[3]) == 0

    def test_reductions_of_nothing(self) -> None:
        nothing = np.zeros((0, 4), np.float32)
        for op, want in (
            (graph.ReduceSumOp, 0),
            (graph.ReduceProdOp, 1),
            (graph.ReduceMaxOp, -INF),
            (graph.ReduceMinOp, INF),
            (graph.ReduceMeanOp, NAN),
        ):
            np.testing.assert_array_equal(apply(op, nothing, axes=[0]), np.full(4, want, np.float32))
        smallest = apply(graph.ReduceMaxOp, np.zeros(0, np.int8))
        assert smallest == -128
        assert apply(graph.ReduceMeanOp, np.zeros(0, np.int32)) == 0

    def test_reassociation_would_overflow(self) -> None:
        big = f(1e30)
        np.testing.assert_allclose(
            apply(graph.MulOp, apply(graph.MulOp, f(1e-30), big), big), f(1e30), rtol=1e-6
        )


class TestCast:
    def cast(self, x: np.ndarray, target: object) -> np.ndarray:
        return evaluate_checked(graph.CastOp(value_of(x), target), x)[0]  # pyright: ignore[reportArgumentType]

    def test_float_to_integer_truncates_and_saturates(self) -> None:
        x = f(1.7, -1.7, 300, -300, NAN, INF, -INF)
        np.testing.assert_array_equal(self.cast(x, i8), [1, -1, 127, -128, 0, 127, -128])
        unsigned = IntegerType(8, Signedness.UNSIGNED)
        np.testing.assert_array_equal(self.cast(x, unsigned), [1, 0, 255, 0, 0, 255, 0])
        np.testing.assert_array_equal(self.cast(f(2.0**62, 2.0**63, -(2.0**63), 1e30), i64),
                                      [2**62, 2**63 - 1, -(2**63), 2**63 - 1])  # fmt: skip
        np.testing.assert_array_equal(self.cast(f(2.0**31 - 128, 2.0**31), i32), [2**31 - 128, 2**31 - 1])

    def test_through_an_integer_the_fraction_is_lost(self) -> None:
        np.testing.assert_array_equal(self.cast(self.cast(f(1.7, -1.7), i32), Float32Type()), f(1, -1))

    def test_large_integers_are_exact(self) -> None:
        x = np.array([9007199254740993, -1], np.int64)
        np.testing.assert_array_equal(self.cast(x, IntegerType(64, Signedness.UNSIGNED)),
                                      np.array([9007199254740993, 2**64 - 1], np.uint64))  # fmt: skip

    def test_halves_round_to_even_and_overflow(self) -> None:
        np.testing.assert_array_equal(self.cast(f(65519, 65520, 1 + 2**-11, 1 + 3 * 2**-11), f16),
                                      f(65504, INF, 1, 1 + 2**-9, dtype=np.float16))  # fmt: skip
        bf16 = self.cast(f(1 + 2**-8, 1 + 3 * 2**-8, NAN), BFloat16Type())
        np.testing.assert_array_equal(bf16.astype(np.float32), f(1, 1 + 2**-6, NAN))

    def test_nan_is_true(self) -> None:
        np.testing.assert_array_equal(
            self.cast(f(NAN, 0, -0.0, 1e-45), IntegerType(1)), [True, False, False, True]
        )


class TestHalfPrecision:
    """f16 and bf16 accumulate in f32."""

    @pytest.mark.parametrize("dtype", [np.float16, BF16])
    def test_sums_do_not_lose_or_overflow(self, dtype: type) -> None:
        ones = np.ones(4096, dtype)
        assert apply(graph.ReduceSumOp, ones) == 4096
        assert apply(graph.ReduceMeanOp, ones) == 1
        assert apply(graph.MatMulOp, ones, ones) == 4096
        conv = apply(graph.ConvOp, ones.reshape(1, 1, 4096), ones.reshape(1, 1, 4096))
        assert conv.reshape(()) == 4096

    def test_mean_of_large_numbers(self) -> None:
        assert apply(graph.ReduceMeanOp, f(60000, 60000, dtype=np.float16)) == 60000

    def test_layer_norm_squares_beyond_the_range_of_f16(self) -> None:
        x = np.array([[-600, 600]], np.float16)
        one = np.ones(2, np.float16)
        np.testing.assert_array_equal(
            apply(graph.LayerNormOp, x, one, axis=-1), f(-1, 1, dtype=np.float16)[None]
        )
        np.testing.assert_array_equal(
            apply(graph.RmsNormOp, x, one, axis=-1), f(-1, 1, dtype=np.float16)[None]
        )

    @pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
    def test_every_float_operation_keeps_its_type(self, dtype: type) -> None:
        x = np.array([[0.5, 1.5], [2.0, 0.25]], dtype)
        wide = x.astype(np.float64)
        tolerance = 0 if dtype is np.float64 else float(ml_dtypes.finfo(dtype).eps)
        for op, by_numpy in (
            (graph.ExpOp, np.exp),
            (graph.TanhOp, np.tanh),
            (graph.SigmoidOp, lambda v: 1 / (1 + np.exp(-v))),
            (graph.ErfOp, np.vectorize(math.erf)),
            (graph.SqrtOp, np.sqrt),
            (graph.ReciprocalOp, lambda v: 1 / v),
            (graph.GeluOp, lambda v: 0.5 * v * (1 + np.vectorize(math.erf)(v / math.sqrt(2)))),
            (graph.HardSwishOp, lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
        ):
            want = by_numpy(wide)
            np.testing.assert_allclose(apply(op, x).astype(np.float64), want, rtol=tolerance + 1e-15)
        softmax = np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            apply(graph.SoftmaxOp, x, axis=1).astype(np.float64), softmax, rtol=tolerance + 1e-15
        )
        assert apply(graph.ArgMaxOp, x, axis=0).tolist() == [1, 0]
        assert apply(graph.MaxPoolOp, x[None], kernel=[2]).astype(np.float64).tolist() == [[[1.5], [2.0]]]


def test_rms_norm_by_its_definition() -> None:
    x = np.array([[3, 4], [0, 0]], np.float32)
    # mean of squares 12.5 and 0; epsilon 0.5
    want = np.array([[3 / math.sqrt(13) * 2, 4 / math.sqrt(13)], [0, 0]])
    np.testing.assert_allclose(apply(graph.RmsNormOp, x, f(2, 1), axis=1, epsilon=0.5), want, rtol=1e-6)


def test_grouped_convolution_and_batch_norm_scale_the_right_channels() -> None:
    x = np.array([1, 2], np.float32).reshape(1, 2, 1, 1)
    weight = np.array([1, 2, 3, 4], np.float32).reshape(4, 1, 1, 1)
    y = apply(graph.ConvOp, x, weight, group=2)
    scale, bias = f(1, 10, 100, 1000), f(0, 0, 0, 1)
    z = apply(graph.BatchNormOp, y, scale, bias, f(0, 0, 0, 0), f(1, 1, 1, 1), epsilon=0.0)
    np.testing.assert_array_equal(z.reshape(-1), [1, 20, 600, 8001])


def test_exact_and_tanh_gelu_differ_where_they_should() -> None:
    x = np.linspace(-8, 8, 16001)
    error = np.abs(apply(graph.GeluOp, x) - apply(graph.GeluOp, x, approximate="tanh"))
    assert error.max() == pytest.approx(4.732e-4, rel=1e-3)
    assert abs(x[error.argmax()]) == pytest.approx(2.699, abs=2e-3)


def test_range_wraps_nothing_and_is_not_cumulative() -> None:
    op = graph.RangeOp(FloatAttr(0.0, f32), FloatAttr(0.1, f32), 1001)
    # i * 0.1 rounded once, not 1000 additions of a rounded 0.1
    want = (np.arange(1001) * op.delta.value.data).astype(np.float32)  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(evaluate_checked(op)[0], want)


@pytest.mark.parametrize("index", [3, -4])
@pytest.mark.parametrize("op_type", [graph.GatherOp, graph.GatherElementsOp])
def test_index_out_of_range_is_an_error(op_type: type[GraphOp], index: int) -> None:
    x, indices = np.zeros(3, np.float32), np.array([0, index])
    with pytest.raises(RunError, match=rf"expected indices in \[-3, 3\), found {index}"):
        apply(op_type, x, indices)


def test_gather_nd_out_of_range_is_an_error() -> None:
    with pytest.raises(RunError, match=r"expected indices in \[-2, 2\), found 2"):
        apply(graph.GatherNdOp, np.zeros((2, 2), np.float32), np.array([[0, 2]]))


def test_an_unknown_operation_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match=r"'arith.constant' has no reference evaluation"):
        evaluate(arith.ConstantOp(FloatAttr(1.0, f32)), [])
