"""`fuse-layer-norm` and `fuse-rms-norm`: what exporters write, near misses, corners, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from tests.passes.graph.chains import Chain, Outcome, cast

RNG = np.random.default_rng(0)
BOTH = "fuse-layer-norm,fuse-rms-norm"
ROW = RNG.standard_normal(8).astype(np.float32)


def values(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape) * 2 + 0.5).astype(dtype)


def inverse(c: Chain, shifted: str, form: str) -> str:
    """`1 / sqrt(shifted)`, written in one of these ways."""
    match form:
        case "reciprocal":
            return c("Reciprocal", c("Sqrt", shifted))
        case "one over":
            return c("Div", 1.0, c("Sqrt", shifted))
        case _:
            return c("Pow", shifted, -0.5)


def divided(c: Chain, d: str, shifted: str, form: str) -> str:
    """`d / sqrt(shifted)`, written in one of these ways."""
    match form:
        case "div":
            return c("Div", d, c("Sqrt", shifted))
        case "power":
            return c("Div", d, c("Pow", shifted, 0.5))
        case "other side":
            return c("Mul", inverse(c, shifted, "reciprocal"), d)
        case _:
            return c("Mul", d, inverse(c, shifted, form))


QUOTIENTS = ["div", "power", "reciprocal", "one over", "power of -0.5", "other side"]


def square(c: Chain, d: str, form: str) -> str:
    return c("Mul", d, d) if form == "product" else c("Pow", d, 2.0)


def rms(
    c: Chain, d: str, axes: Sequence[int] = (-1,), epsilon: float | None = 1e-5, form: str = "div"
) -> str:
    mean = c.mean(square(c, d, "power"), axes)
    return divided(c, d, mean if epsilon is None else c("Add", mean, epsilon), form)


def layer(c: Chain, x: str = "x", axes: Sequence[int] = (-1,), epsilon: float | None = 1e-5) -> str:
    return rms(c, c("Sub", x, c.mean(x, axes)), axes, epsilon)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", QUOTIENTS)
def test_every_quotient(form: str, dtype: type) -> None:
    chain = Chain(x=values(2, 3, 8, dtype=dtype))
    centered = chain("Sub", "x", chain.mean("x"))
    shifted = chain("Add", 1e-5, chain.mean(square(chain, centered, "product")))
    outcome = chain.check(divided(chain, centered, shifted, form), passes="fuse-layer-norm")
    assert outcome.ops == {"layer_norm": 1}
    chain = Chain(x=values(2, 3, 8, dtype=dtype))
    outcome = chain.check(rms(chain, "x", form=form), passes="fuse-rms-norm")
    assert outcome.ops == {"rms_norm": 1}


def sum_over(c: Chain, x: str, keepdims: int = 1) -> str:
    return c("ReduceSum", x, c.ints(-1), keepdims=keepdims)


MEANS: dict[str, Callable[[Chain, str], str]] = {
    "sum divided": lambda c, x: c("Div", sum_over(c, x), 8.0),
    "sum multiplied": lambda c, x: c("Mul", 0.125, sum_over(c, x)),
    "unsqueezed mean": lambda c, x: c("Unsqueeze", c.mean(x, keepdims=0), c.ints(-1)),
    "reshaped sum": lambda c, x: c("Reshape", c("Div", sum_over(c, x, 0), 8.0), c.ints(2, 3, 1)),
    "from the front": lambda c, x: c.mean(x, axes=(2,)),
}


@pytest.mark.parametrize("form", MEANS)
def test_every_mean(form: str) -> None:
    chain = Chain(x=values(2, 3, 8))
    mean = MEANS[form]
    centered = chain("Sub", "x", mean(chain, "x"))
    variance = mean(chain, chain("Mul", centered, centered))
    y = chain("Div", centered, chain("Sqrt", chain("Add", variance, 1e-5)))
    assert chain.check(y, passes="fuse-layer-norm").ops == {"layer_norm": 1}


@pytest.mark.parametrize("epsilon", [None, 0.0, 1e-12, 1e-5, 0.1, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_epsilon(epsilon: float | None, dtype: type) -> None:
    """Rows of one number have a variance of 0: without an epsilon they are no numbers."""
    x = values(4, 8, dtype=dtype)
    x[1], x[2] = 0, 2
    chain = Chain(x=x)
    assert chain.check(layer(chain, epsilon=epsilon), passes=BOTH).ops == {"layer_norm": 1}
    chain = Chain(x=x)
    assert chain.check(rms(chain, "x", epsilon=epsilon), passes=BOTH).ops == {"rms_norm": 1}


@pytest.mark.parametrize("epsilon", [0.0, 1e-5])
def test_special_values(epsilon: float) -> None:
    x = values(9, 4)
    x[:8, 0] = [np.inf, -np.inf, np.nan, 1e30, -1e19, 1e-30, -0.0, 3e38]
    x[8] = [np.inf, -np.inf, 1, 2]
    for build in (layer, lambda chain, epsilon: rms(chain, "x", epsilon=epsilon)):
        chain = Chain(x=x)
        assert len(chain.check(build(chain, epsilon=epsilon), passes=BOTH).ops) == 1


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3, 8), (-2, -1)), ((2, 3, 8), (0, 1, 2)), ((8,), (0,)), ((2, 8, 1, 1), (1,)), ((0, 8), (1,)),
     ((3, 1), (1,)), ((2, 8, 1), (-1, -2))],
)  # fmt: skip
def test_every_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    chain = Chain(x=values(*shape))
    assert chain.check(layer(chain, axes=axes), passes=BOTH).ops == {"layer_norm": 1}
    chain = Chain(x=values(*shape))
    assert chain.check(rms(chain, "x", axes), passes=BOTH).ops == {"rms_norm": 1}


def scaled(chain: Chain, norm: str, scale: np.ndarray, bias: np.ndarray | None = None) -> Outcome:
    y = chain("Mul", scale, norm)
    return chain.check(y if bias is None else chain("Add", y, bias), passes=BOTH)


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 1, 8), (1,), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_scale_and_bias_of_a_row(shape: tuple[int, ...], dtype: type) -> None:
    scale, bias = (values(*shape, dtype=dtype) for _ in range(2))
    chain = Chain(x=values(2, 3, 8, dtype=dtype))
    assert scaled(chain, layer(chain), scale, bias).ops == {"layer_norm": 1}
    chain = Chain(x=values(2, 3, 8, dtype=dtype))
    assert scaled(chain, rms(chain, "x"), scale).ops == {"rms_norm": 1}


def test_a_scale_before_the_product() -> None:
    chain = Chain(x=values(2, 3, 8))
    centered = chain("Sub", "x", chain.mean("x"))
    shifted = chain("Add", chain.mean(chain("Mul", centered, centered)), 1e-3)
    factor = chain("Mul", inverse(chain, shifted, "reciprocal"), ROW)
    y = chain("Add", chain("Mul", centered, factor), ROW)
    assert chain.check(y, passes=BOTH).ops == {"layer_norm": 1}


def test_parameters_at_run_time() -> None:
    chain = Chain(x=values(2, 3, 8), s=ROW, b=-ROW)
    y = chain("Add", chain("Mul", "s", layer(chain)), "b")
    assert chain.check(y, passes=BOTH).ops == {"layer_norm": 1}


def test_a_residual_is_no_bias() -> None:
    chain = Chain(x=values(1, 8), r=values(1, 8))
    assert chain.check(chain("Add", layer(chain), "r"), passes=BOTH).ops == {"layer_norm": 1, "add": 1}


def test_a_scale_per_row_stays_outside() -> None:
    """By hand: rows (-1, 1) are normal already, so that y is scale * x + 1."""
    x = np.array([[-1, 1], [-1, 1]], np.float32)
    chain = Chain(x=x)
    outcome = scaled(chain, layer(chain, epsilon=0.0), np.array([[2], [3]], np.float32), np.float32([1]))
    assert outcome.ops == {"layer_norm": 1, "mul": 1, "add": 1}


def test_parameters_that_enlarge_stay_outside() -> None:
    chain = Chain(x=np.ones((1, 1), np.float32))
    outcome = scaled(chain, layer(chain), np.float32([2, 3]), np.float32([1, 4]))
    assert outcome.ops == {"layer_norm": 1, "mul": 1, "add": 1}


@pytest.mark.parametrize("narrow", [np.float16, ml_dtypes.bfloat16])
def test_casts_around(narrow: type) -> None:
    """x is widened, normalized, and narrowed before the scale, as in Llama."""
    chain = Chain(x=values(2, 3, 8, dtype=narrow))
    chain.dtype = np.dtype(np.float32)
    normal = chain("Cast", rms(chain, chain("Cast", "x", to=1)), to=cast(narrow))
    chain.dtype = np.dtype(narrow)
    if narrow == np.float16:
        normal = chain("Mul", ROW.astype(narrow), normal)
    assert chain.check(normal, passes=BOTH).ops == {"rms_norm": 1}


def test_parameters_that_f16_does_not_hold_keep_the_casts() -> None:
    for scale, ops in ((np.float32(0.1), {"cast": 2, "layer_norm": 1}), (np.float32(0.5), {"layer_norm": 1})):
        chain = Chain(x=values(2, 8, dtype=np.float16))
        chain.dtype = np.dtype(np.float32)
        y = chain("Mul", layer(chain, chain("Cast", "x", to=1)), scale)
        y = chain("Cast", y, to=10)
        chain.dtype = np.dtype(np.float16)
        assert chain.check(y, passes=BOTH).ops == ops


def test_the_mean_of_something_else() -> None:
    chain = Chain(x=values(2, 8), z=values(2, 8))
    centered = chain("Sub", "x", chain.mean("z"))
    assert chain.check(rms(chain, centered), passes=BOTH).ops["rms_norm"] == 1
    chain = Chain(x=values(2, 8), z=values(2, 8))
    y = chain("Div", "x", chain("Sqrt", chain.mean(chain("Mul", "z", "z"))))
    assert "rms_norm" not in chain.check(y, passes=BOTH).ops


def test_other_axes_are_no_norm() -> None:
    chain = Chain(x=values(2, 3, 8))
    outcome = chain.check(layer(chain, axes=(1,)), passes="fuse-layer-norm")
    assert "layer_norm" not in outcome.ops
    assert outcome.missed == ["not fused: the mean is over axes [1] of 3, not over the last ones"]
    chain = Chain(x=values(2, 3, 8))
    centered = chain("Sub", "x", chain.mean("x", (-1, -2)))
    assert chain.check(rms(chain, centered), passes=BOTH).ops["rms_norm"] == 1


def test_means_that_broadcast_along_another_axis_are_no_norm() -> None:
    """Without the axis kept, the means of rows are taken from columns."""
    chain = Chain(x=values(4, 4))
    centered = chain("Sub", "x", chain.mean("x", keepdims=0))
    variance = chain.mean(chain("Mul", centered, centered), keepdims=0)
    y = chain("Div", centered, chain("Sqrt", variance))
    assert not {"layer_norm", "rms_norm"} & set(chain.check(y, passes=BOTH).ops)


@pytest.mark.parametrize("power", [3.0, 1.999])
def test_another_power_is_no_norm(power: float) -> None:
    chain = Chain(x=np.abs(values(4, 8)))
    y = chain("Div", "x", chain("Sqrt", chain.mean(chain("Pow", "x", power))))
    assert "rms_norm" not in chain.check(y, passes=BOTH).ops


def test_an_epsilon_beside_the_root_is_no_norm() -> None:
    chain = Chain(x=values(4, 8))
    y = chain("Div", "x", chain("Add", chain("Sqrt", chain.mean(chain("Mul", "x", "x"))), 1e-2))
    assert "rms_norm" not in chain.check(y, passes=BOTH).ops


def test_a_difference_of_means_is_no_norm() -> None:
    """With numbers around 1000 and a deviation of 0.01 nothing is left of such a variance in f32."""
    chain = Chain(x=values(4, 8))
    mean = chain.mean("x")
    variance = chain("Sub", chain.mean(chain("Mul", "x", "x")), chain("Mul", mean, mean))
    shifted = chain("Add", chain("Max", variance, 0.0), 1e-5)
    outcome = chain.check(
        divided(chain, chain("Sub", "x", mean), shifted, "reciprocal"), passes="fuse-layer-norm"
    )
    assert "layer_norm" not in outcome.ops
    assert "the variance is the difference of two means" in outcome.missed[0]


@pytest.mark.parametrize("inner", range(6))
def test_inner_values_that_are_outputs_stay(inner: int) -> None:
    chain = Chain(x=values(2, 8))
    outcome = chain.check(layer(chain), f"v{inner}", passes="fuse-layer-norm")
    assert "layer_norm" not in outcome.ops
    assert outcome.missed[0].endswith("is also a graph output")


def test_a_centered_value_that_is_an_output_leaves_an_rms_norm() -> None:
    chain = Chain(x=values(2, 8))
    assert chain.check(layer(chain), "v1", passes=BOTH).ops == {"reduce_mean": 1, "sub": 1, "rms_norm": 1}


def test_a_norm_that_is_an_output_keeps_its_scale_outside() -> None:
    chain = Chain(x=values(2, 8))
    norm = layer(chain)
    outcome = chain.check(chain("Mul", norm, ROW), norm, passes="fuse-layer-norm")
    assert outcome.ops == {"layer_norm": 1, "mul": 1}
    assert outcome.missed == ["not fused: the result of 'layer_norm' (n6 ... n0) is also a graph output"]
