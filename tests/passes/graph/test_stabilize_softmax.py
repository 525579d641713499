"""`stabilize-softmax`: written-out softmaxes give what a softmax is, by numpy in f64, also where they overflowed."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.graph.stabilize_softmax import StabilizeSoftmaxPass

RNG = np.random.default_rng(5)
TOLERANCE = {"f16": 4e-3, "f32": 1e-6, "f64": 1e-14}
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

EXP = "%e = graph.exp %z : T"
KEPT = "%s = graph.reduce_sum %e axes = [1] keepdims : (T) -> K"
PUT_BACK = "%r = graph.reduce_sum %e axes = [1] : (T) -> R\n%s = graph.reshape %r : R to K"
DIVIDED = "%y = graph.div %e, %s : (T, K) -> T"
INVERTED = "%i = graph.reciprocal %s : K\n%y = graph.mul %i, %e : (K, T) -> T"
ONE_OVER = (
    "%one = graph.constant dense<1.0> : S\n%i = graph.div %one, %s : (S, K) -> K\n"
    "%y = graph.mul %e, %i : (T, K) -> T"
)
PLAIN = "%z = graph.reshape %x : T to T"
SHIFTED = "%m = graph.reduce_max %x axes = [1] keepdims : (T) -> K\n%z = graph.sub %x, %m : (T, K) -> T"
SHIFTED_BACK = (
    "%q = graph.reduce_max %x axes = [1] : (T) -> R\n%m = graph.reshape %q : R to K\n"
    "%z = graph.sub %x, %m : (T, K) -> T"
)
LOG_SUM = "%l = graph.log %s : K"
SUBTRACTED = f"{LOG_SUM}\n%y = graph.sub %z, %l : (T, K) -> T"
ADDED = f"{LOG_SUM}\n%a = graph.add %m, %l : (K, K) -> K\n%y = graph.sub %x, %a : (T, K) -> T"
LOGARITHM = "%p = graph.div %e, %s : (T, K) -> T\n%y = graph.log %p : T"


def module_of(body: str, element: str, ctx: CompilerContext, shape: tuple[int, int] = (3, 3)) -> ModuleOp:
    """A square input, where a sum along the wrong axis has a fitting shape."""
    n, m = shape
    text = f"func.func @main(%x: T) -> T {{\n{body}\nfunc.return %y : T\n}}"
    dims = {"T": f"{n}x{m}x", "K": f"{n}x1x", "R": f"{n}x", "S": ""}
    text = re.sub(r"\b[TKRS]\b", lambda name: f"tensor<{dims[name[0]]}{element}>", text)
    module = parse_module(text, ctx)
    verify_module(module)
    return module


def softmax(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exponentials = np.exp(wide - wide.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def context() -> CompilerContext:
    ctx = make_context()
    ctx.evaluator = evaluate
    return ctx


def kinds(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if isinstance(op, graph.GraphOp) and op.name != "graph.constant"]


FORMS = [
    (sum_form, end, start)
    for sum_form in (KEPT, PUT_BACK)
    for end in (DIVIDED, INVERTED, ONE_OVER)
    for start in (PLAIN, SHIFTED, SHIFTED_BACK)
]
LOG_FORMS = [
    *((KEPT, SUBTRACTED, PLAIN), (PUT_BACK, SUBTRACTED, SHIFTED), (KEPT, SUBTRACTED, SHIFTED_BACK)),
    *((KEPT, ADDED, SHIFTED), (PUT_BACK, ADDED, SHIFTED_BACK)),
    *((KEPT, LOGARITHM, PLAIN), (PUT_BACK, LOGARITHM, SHIFTED)),
]


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("forms", "into", "right"),
    [
        *((form, "graph.softmax", softmax) for form in FORMS),
        *((form, "graph.log_softmax", log_softmax) for form in LOG_FORMS),
    ],
)
def test_every_form(
    forms: tuple[str, str, str], into: str, right: Callable[[np.ndarray], np.ndarray], element: str
) -> None:
    sum_form, end, start = forms
    ctx = context()
    module = module_of("\n".join((start, EXP, sum_form, end)), element, ctx)
    x = RNG.standard_normal((3, 3)).astype(DTYPES[element])
    before = evaluate_module(module, {"arg0": x})["result0"]
    assert StabilizeSoftmaxPass().run(ctx, module)
    verify_module(module)
    left = [kind for kind in kinds(module) if kind != "graph.reshape"]
    assert left == [into]
    after = evaluate_module(module, {"arg0": x})["result0"]
    tolerance = TOLERANCE[element] * float(np.abs(before).max())
    np.testing.assert_allclose(after.astype(float), before.astype(float), rtol=0, atol=tolerance)
    np.testing.assert_allclose(after.astype(float), right(x), rtol=0, atol=tolerance)
    large = np.array([[1000, 1000, -1000], [-1000, -1000, -1001], [88.5, 88.5, 88.5]]).astype(DTYPES[element])
    after = evaluate_module(module, {"arg0": large})["result0"]
    atol = TOLERANCE[element] * (2000 if "log" in into else 1)
    np.testing.assert_allclose(after.astype(float), right(large), rtol=0, atol=atol)
    assert not StabilizeSoftmaxPass().run(ctx, module)


def test_what_changes_where_it_overflowed() -> None:
    """In f32: exp(1000) is inf and exp(-1000) 0, so that there was NaN; 3 * exp(88.5) is inf, so that there was 0."""
    module = module_of("\n".join((PLAIN, EXP, KEPT, DIVIDED)), "f32", ctx := context())
    x = np.array([[1000, 1000, 0], [-1000, -1000, -1000], [88.5, 88.5, 88.5]], np.float32)
    before = evaluate_module(module, {"arg0": x})["result0"]
    np.testing.assert_array_equal(before, [[np.nan, np.nan, 0], [np.nan] * 3, [0, 0, 0]])
    StabilizeSoftmaxPass().run(ctx, module)
    after = evaluate_module(module, {"arg0": x})["result0"]
    np.testing.assert_allclose(after, [[0.5, 0.5, 0], [1 / 3] * 3, [1 / 3] * 3], rtol=1e-6)


def test_special_rows() -> None:
    """A row of -inf stays NaN; -inf beside numbers is 0; NaN and inf make a row NaN."""
    module = module_of("\n".join((PLAIN, EXP, KEPT, DIVIDED)), "f32", ctx := context(), (4, 2))
    StabilizeSoftmaxPass().run(ctx, module)
    x = np.array([[-np.inf, -np.inf], [-np.inf, 3], [np.nan, 0], [np.inf, 0]], np.float32)
    after = evaluate_module(module, {"arg0": x})["result0"]
    np.testing.assert_array_equal(after, [[np.nan] * 2, [0, 1], [np.nan] * 2, [np.nan] * 2])


NOT_SOFTMAX = {
    "the sum along the other axis": "%s = graph.reduce_sum %e axes = [0] : (T) -> R\n"
    "%t = graph.reshape %s : R to K\n%y = graph.div %e, %t : (T, K) -> T",
    "sums of rows that meet columns": "%s = graph.reduce_sum %e axes = [1] : (T) -> R\n"
    "%y = graph.div %e, %s : (T, R) -> T",
    "one sum of everything": "%s = graph.reduce_sum %e axes = [0, 1] : (T) -> S\n%y = graph.div %e, %s : (T, S) -> T",
    "something added": f"{KEPT}\n%o = graph.constant dense<1.0> : S\n%t = graph.add %s, %o : (K, S) -> K\n"
    "%y = graph.div %e, %t : (T, K) -> T",
    "exponentials used elsewhere": f"{KEPT}\n%t = graph.div %e, %s : (T, K) -> T\n%y = graph.add %t, %e : (T, T) -> T",
    "other exponentials": f"{KEPT}\n%w = graph.abs %x : T\n%f = graph.exp %w : T\n%y = graph.div %f, %s : (T, K) -> T",
    "a mean": "%s = graph.reduce_mean %e axes = [1] keepdims : (T) -> K\n%y = graph.div %e, %s : (T, K) -> T",
    "the sum over the exponentials": f"{KEPT}\n%y = graph.div %s, %e : (K, T) -> T",
}


@pytest.mark.parametrize("name", NOT_SOFTMAX)
def test_what_is_no_softmax_stays(name: str) -> None:
    ctx = context()
    module = module_of("\n".join((PLAIN, EXP, NOT_SOFTMAX[name])), "f32", ctx)
    before = kinds(module)
    assert not StabilizeSoftmaxPass().run(ctx, module)
    assert kinds(module) == before


def test_a_sum_along_the_first_axis_meets_its_column_without_being_put_back() -> None:
    body = "%s = graph.reduce_sum %e axes = [0] : (T) -> R\n%y = graph.div %e, %s : (T, R) -> T"
    module = module_of(f"{PLAIN}\n{EXP}\n{body}", "f32", ctx := context())
    x = RNG.standard_normal((3, 3)).astype(np.float32)
    assert StabilizeSoftmaxPass().run(ctx, module)
    after = evaluate_module(module, {"arg0": x})["result0"]
    np.testing.assert_allclose(after, softmax(x.T).T, rtol=1e-5)


def test_a_maximum_along_another_axis_is_subtracted_as_it_is() -> None:
    """softmax(x - c) with what is not constant along the row: the difference stays."""
    start = "%m = graph.reduce_max %x axes = [0] : (T) -> R\n%z = graph.sub %x, %m : (T, R) -> T"
    module = module_of("\n".join((start, EXP, KEPT, DIVIDED)), "f32", ctx := context())
    x = RNG.standard_normal((3, 3)).astype(np.float32)
    assert StabilizeSoftmaxPass().run(ctx, module)
    assert kinds(module) == ["graph.reduce_max", "graph.sub", "graph.softmax"]
    after = evaluate_module(module, {"arg0": x})["result0"]
    np.testing.assert_allclose(after, softmax(x - x.max(axis=0)), rtol=1e-5)
