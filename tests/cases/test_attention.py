"""Public faults of fused attention (F08, F10, P01) and their kin; the right values are by hand, or by numpy in f64."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import numpy as np
import onnx
import pytest
from onnx import helper

from mlopt.compilation import compile_model, load_model
from mlopt.dialects import graph
from mlopt.options import CompileOptions
from tests.cases.models import check
from tests.frontend.onnx_models import model_of, value_info

F32 = np.float32
EYE = np.eye(2, dtype=F32)
LOWEST = float(np.finfo(F32).min)
OPEN = [[0.7310586, 0.2689414], [0.2689414, 0.7310586]]
"""By hand: scores 1 and 0 give weights e / (e + 1) and 1 / (e + 1)."""

ROWS = np.random.default_rng(10).standard_normal((3, 2, 4, 3)).astype(F32)


def attention(
    inputs: dict[str, np.ndarray],
    mask: np.ndarray | None = None,
    *,
    zero: bool = False,
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:
    """`softmax(q @ k^T + mask) @ v`, the mask a constant unless it is an input; with `zero`, NaN weights become 0."""
    rank = inputs["k"].ndim
    perm = [*range(rank - 2), rank - 1, rank - 2]
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], "transpose", perm=perm),
        helper.make_node("MatMul", ["q", "kt"], ["scores"], "product"),
        helper.make_node("Add", ["scores", "mask"], ["masked"], "add"),
        helper.make_node("Softmax", ["masked"], ["weights"], "softmax", axis=-1),
        helper.make_node("IsNaN", ["weights"], ["bad"], "is_nan"),
        helper.make_node("Where", ["bad", "zero", "weights"], ["clean"], "where"),
        helper.make_node("MatMul", ["clean" if zero else "weights", "v"], ["y"], "attend"),
    ]
    constants = {"zero": np.zeros((), F32), **({} if mask is None else {"mask": mask})}
    values = [value_info(*item) for item in inputs.items()]
    return model_of(nodes, values, list(outputs), constants, opset=18)


def right(inputs: dict[str, np.ndarray], mask: np.ndarray, *, zero: bool = False) -> dict[str, np.ndarray]:
    """All values of such a model, by numpy in f64."""
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    with np.errstate(all="ignore"):
        scores = q @ np.swapaxes(k, -1, -2)
        masked = scores + mask
        exponentials = np.exp(masked - masked.max(axis=-1, keepdims=True))
        weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
        used = np.where(np.isnan(weights), 0, weights) if zero else weights
        values = {"scores": scores, "masked": masked, "weights": weights, "y": used @ v}
    return {name: value.astype(F32) for name, value in values.items()}


def fused(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[graph.AttentionOp]:
    compilation = compile_model(load_model(model, CompileOptions(), inputs=inputs), "graph")
    return [op for op in compilation.module.walk() if isinstance(op, graph.AttentionOp)]


# F08: a value inside the group that is also an output.


@pytest.mark.parametrize("inner", ["scores", "masked", "weights"])
def test_f08_values_inside_that_are_outputs(inner: str) -> None:
    inputs = dict(zip("qkv", ROWS, strict=True))
    mask = np.zeros((4, 4), F32)
    model = attention(inputs, mask, outputs=("y", inner))
    want = right(inputs, mask)
    check(model, inputs, {name: want[name] for name in ("y", inner)}, rtol=2e-6)
    assert not fused(model, inputs)


# F10: a mask is what its values say.


def test_f10_a_mask_of_zeros() -> None:
    inputs = {"q": EYE, "k": EYE, "v": EYE}
    model = attention(inputs, np.zeros((2, 2), F32))
    check(model, inputs, {"y": np.array(OPEN, F32)})
    (op,) = fused(model, inputs)
    assert op.causal is None


def test_f10_a_mask_that_is_causal() -> None:
    inputs = {"q": EYE, "k": EYE, "v": EYE}
    model = attention(inputs, np.array([[0, -inf], [0, 0]], F32))
    check(model, inputs, {"y": np.array([[1, 0], OPEN[1]], F32)})


MASKS = {
    "a hole in the middle": [0, -inf, 0, 0],
    "a hole at the start": [-inf, 0, 0, 0],
    "padding at the end": [0, 0, -inf, -inf],
    "all but one": [-inf, -inf, 0, -inf],
    "the lowest number": [0, LOWEST, 0, LOWEST],
    "small numbers": [0, -1, 2, 0.5],
    "the lowest number everywhere": [LOWEST] * 4,
    "nothing is left": [-inf] * 4,
}


@pytest.mark.parametrize(("name", "zero", "constant"), [*product(MASKS, (False, True), (False, True))])
def test_f10_masks_of_all_queries(name: str, zero: bool, constant: bool) -> None:
    """The same keys for every query, `[1, 1, n]`, known when compiled and not; rows of NaN as they are and made 0."""
    mask = np.array(MASKS[name], F32).reshape(1, 1, 4)
    inputs = dict(zip("qkv", ROWS, strict=True))
    given = inputs if constant else {**inputs, "mask": mask}
    model = attention(given, mask if constant else None, zero=zero)
    check(model, given, {"y": right(inputs, mask, zero=zero)["y"]}, rtol=2e-6)
    assert len(fused(model, given)) == 1


@pytest.mark.parametrize("offset", [-1, 0, 1, 2])
@pytest.mark.parametrize("low", [-inf, LOWEST, -1.0])
@pytest.mark.parametrize("queries", [2, 4])
def test_f10_triangles(offset: int, low: float, queries: int) -> None:
    """Of every offset, also where there are fewer queries than keys: then "causal" is not one thing."""
    inputs = dict(zip("qkv", ROWS, strict=True)) | {"q": ROWS[0][:, :queries]}
    mask = np.where(np.tri(queries, 4, offset, dtype=np.bool_), 0, low).astype(F32)
    model = attention(inputs, mask)
    check(model, inputs, {"y": right(inputs, mask)["y"]}, rtol=2e-6)
    (op,) = fused(model, inputs)
    assert (op.causal is not None) == (offset == 0 and low == -inf)


def test_p01_a_query_that_is_hidden_from_all_keys() -> None:
    """NaN, as the softmax of nothing is; 0 where the model says so."""
    inputs = {"q": EYE, "k": EYE, "v": EYE}
    mask = np.array([[-inf, -inf], [0, 0]], F32)
    check(attention(inputs, mask), inputs, {"y": np.array([[nan, nan], OPEN[1]], F32)})
    check(attention(inputs, mask, zero=True), inputs, {"y": np.array([[0, 0], OPEN[1]], F32)})
