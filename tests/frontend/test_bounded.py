"""Values whose size depends on data: one compiled model, run with masks of none, some and all, against onnxruntime.

No example inputs are given, so that nothing but the rules can carry the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_graph
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import mlopt
from mlopt import InputError, RunError, UnsupportedError
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import assert_close, run_onnxruntime

SHAPES = {"m": (6,), "w": (2, 5), "x": (6, 4), "v": (6,), "t": (4, 3), "k": (2, 5, 4), "n": (6,)}
"""The inputs of every model: masks `m` and `w`, numbers `x`, `v`, `t` and `k`, integers `n`."""

DECLARED = "bool[6] m, bool[2,5] w, float[6,4] x, float[6] v, float[4,3] t, float[2,5,4] k, int64[6] n"

ROWS = "i = NonZero(m) p = Squeeze<axes=[0]>(i) r = Gather<axis=0>(x, p)"
"""`p`: the positions where m is true, `r`: the rows of x there, of which there are as many."""


def model(text: str, outputs: str, opset: int = 12) -> onnx.ModelProto:
    """A model of these nodes; an output that ends in `:i` is of int64, others are of float."""
    declared = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if kind else TensorProto.FLOAT, None)
        for name, _, kind in (output.partition(":") for output in outputs.split())
    ]
    graph = parse_graph(f"g ({DECLARED}) => () {{ {text} }}")
    graph.output.extend(declared)
    used = {name for node in graph.node for name in node.input}
    kept = [value for value in graph.input if value.name in used]
    del graph.input[:]
    graph.input.extend(kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def feeds(proto: onnx.ModelProto, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Inputs with masks that are false, true, and some of both."""
    generator = np.random.default_rng(seed)
    for share in (0.4, 0.0, 1.0, 0.7):
        arrays = {
            "m": generator.random(SHAPES["m"]) < share,
            "w": generator.random(SHAPES["w"]) < share,
            "n": generator.integers(0, 3, SHAPES["n"]),
            **{name: generator.standard_normal(SHAPES[name], np.float32) for name in "xvtk"},
        }
        yield {value.name: arrays[value.name] for value in proto.graph.input}


def assert_as_onnxruntime(proto: onnx.ModelProto) -> None:
    """Some operators of onnxruntime do not take what is empty: then there is nothing to compare with."""
    compiled = mlopt.compile(proto)
    for inputs in feeds(proto):
        got = compiled.run(inputs)
        try:
            want = run_onnxruntime(proto, inputs)
        except (Fail, InvalidArgument, RuntimeException):
            assert not inputs["m"].any()
        else:
            assert_close(got, want)


def row_case(text: str, outputs: str = "y", opset: int = 12) -> tuple[str, str, int]:
    rows = ROWS if opset < 13 else f"{ROWS} ".replace("Squeeze<axes=[0]>(i)", "Squeeze(i, zero)")
    prefix = "" if opset < 13 else "zero = Constant<value_ints=[0]>() "
    return f"{prefix}{rows} {text}", outputs, opset


CASES = {
    "nonzero": ("y = NonZero(w)", "y:i", 12),
    "nonzero of a product": ("b = Cast<to=1>(w) y = NonZero(b)", "y:i", 12),
    "rows": row_case("", "r p:i"),
    "unary": row_case("y = Relu(r)"),
    "broadcast": row_case("one = Constant<value_floats=[1.5,2.0,3.0,0.5]>() y = Mul(r, one)"),
    "two of one extent": row_case("s = Exp(r) y = Add(s, r)"),
    "two of extents computed twice": row_case(
        "j = NonZero(m) q = Squeeze<axes=[0]>(j) s = Gather<axis=0>(v, q) u = Unsqueeze<axes=[1]>(s) "
        "y = Mul(r, u)"
    ),
    "where and compare": row_case("z = Constant<value_float=0.0>() c = Greater(r, z) y = Where(c, r, z)"),
    "transpose": row_case("y = Transpose<perm=[1,0]>(r)"),
    "unsqueeze and squeeze": row_case("u = Unsqueeze<axes=[0,2]>(r) s = Squeeze<axes=[2]>(u) y = Neg(s)"),
    "reshape: split": row_case("s = Constant<value_ints=[-1,2,2]>() y = Reshape(r, s)"),
    "reshape: merge": row_case("s = Constant<value_ints=[-1]>() y = Reshape(r, s)"),
    "reshape: keep": row_case("s = Constant<value_ints=[0,2,-1]>() y = Reshape(r, s)"),
    "reshape: halves": row_case("s = Constant<value_ints=[-1,2]>() y = Reshape(r, s)"),
    "reshape by its own shape": row_case("s = Shape(r) e = Exp(r) y = Reshape(e, s)"),
    "reshape by a computed shape": row_case(
        "s = Shape(r) z = Constant<value_int=0>() n0 = Gather<axis=0>(s, z) n1 = Unsqueeze<axes=[0]>(n0) "
        "c = Constant<value_ints=[2,-1]>() d = Concat<axis=0>(n1, c) y = Reshape(r, d)"
    ),
    "flatten": row_case("u = Unsqueeze<axes=[1]>(r) y = Flatten<axis=2>(u)"),
    "shape and size": row_case("y = Shape(r) z = Size(r)", "y:i z:i"),
    "split": row_case("a, b = Split<axis=1>(r) y = Mul(a, b)"),
    "pad along another axis": row_case("s = Constant<value_ints=[0,1,0,2]>() y = Pad(r, s)"),
    "pad behind the axis": row_case(
        "s = Constant<value_ints=[0,0,2,1]>() v0 = Constant<value_float=3.0>() y = Pad(r, s, v0)"
    ),
    "pad before the axis": row_case("s = Constant<value_ints=[2,0,0,0]>() y = Pad(r, s)"),
    "pad up to a size": row_case(
        "s = Shape(p) a = Constant<value_ints=[8]>() d = Sub(a, s) z = Constant<value_ints=[0]>() "
        "w0 = Concat<axis=0>(z, d) g = Gather<axis=0>(v, p) y = Pad(g, w0)"
    ),
    "pad by a computed width": row_case(
        "s = Shape(p) z = Constant<value_ints=[0]>() w0 = Concat<axis=0>(z, s) y = Pad(v, w0)"
    ),
    "concat along another axis": row_case("e = Exp(r) y = Concat<axis=1>(r, e)"),
    "concat along the axis": row_case("e = Exp(r) y = Concat<axis=0>(r, x, e)"),
    "concat behind a fixed part": row_case("y = Concat<axis=0>(x, r)"),
    "sum of rows": row_case("y = ReduceSum<axes=[0],keepdims=0>(r)"),
    "sum within rows": row_case("y = ReduceSum<axes=[1],keepdims=0>(r)"),
    "sum of all": row_case("y = ReduceSum<keepdims=0>(r)"),
    "product": row_case("y = ReduceProd<axes=[0]>(r)"),
    "l2": row_case("y = ReduceL2<axes=[0]>(r)"),
    "log sum exp": row_case("c = Concat<axis=0>(x, r) y = ReduceLogSumExp<axes=[0]>(c)"),
    "maximum": row_case("c = Concat<axis=0>(x, r) y = ReduceMax<axes=[0]>(c)"),
    "minimum": row_case("c = Concat<axis=0>(x, r) y = ReduceMin<axes=[0]>(c)"),
    "mean": row_case("c = Concat<axis=0>(x, r) y = ReduceMean<axes=[0]>(c) z = ReduceMean(c)", "y z"),
    "mean within rows": row_case("y = ReduceMean<axes=[1]>(r)"),
    "arg max": row_case("c = Concat<axis=0>(x, r) y = ArgMax<axis=0>(c) z = ArgMin<axis=0>(c)", "y:i z:i"),
    "arg max within rows": row_case("y = ArgMax<axis=1,keepdims=0>(r)", "y:i"),
    "softmax": row_case("y = Softmax<axis=1>(r)"),
    "softmax of opset 13": row_case("y = Softmax<axis=-1>(r)", opset=13),
    "softmax along the axis": row_case("y = Softmax<axis=0>(r)", opset=13),
    "layer norm": row_case(
        "s = Constant<value_floats=[1.0,2.0,3.0,4.0]>() y = LayerNormalization<axis=-1>(r, s)", opset=17
    ),
    "matmul by rows": row_case("y = MatMul(r, t)"),
    "matmul by columns": row_case(
        "a = Transpose<perm=[1,0]>(t) b = Transpose<perm=[1,0]>(r) y = MatMul(a, b)"
    ),
    "matmul over the axis": row_case("a = Transpose<perm=[1,0]>(r) e = Exp(r) y = MatMul(a, e)"),
    "matmul of a batch": row_case("u = Unsqueeze<axes=[1]>(r) y = MatMul(u, t)"),
    "gemm": row_case("c = Constant<value_floats=[1.0,2.0,3.0]>() y = Gemm<alpha=0.5>(r, t, c)"),
    "gemm transposed": row_case("a = Transpose<perm=[1,0]>(r) y = Gemm<transA=1>(a, t)"),
    "gather from the axis": row_case(
        "c = Concat<axis=0>(x, r) i0 = Constant<value_ints=[0,-1,2]>() y = Gather<axis=0>(c, i0)"
    ),
    "gather along another axis": row_case("i0 = Constant<value_ints=[3,-1]>() y = Gather<axis=1>(r, i0)"),
    "gather nd": ("i = NonZero(w) t0 = Transpose<perm=[1,0]>(i) y = GatherND(k, t0)", "y", 12),
    "gather elements": row_case("y = GatherElements<axis=0>(v, p)"),
    "slice: first": row_case(
        "a = Constant<value_ints=[0]>() b = Constant<value_ints=[2]>() y = Slice(r, a, b)"
    ),
    "slice: without the first": row_case(
        "a = Constant<value_ints=[1]>() b = Constant<value_ints=[100]>() y = Slice(r, a, b)"
    ),
    "slice: without the last": row_case(
        "a = Constant<value_ints=[0]>() b = Constant<value_ints=[-1]>() y = Slice(r, a, b)"
    ),
    "slice: the last two": row_case(
        "a = Constant<value_ints=[-2]>() b = Constant<value_ints=[100]>() y = Slice(r, a, b)"
    ),
    "slice: every second": row_case(
        "a = Constant<value_ints=[1]>() b = Constant<value_ints=[100]>() s = Constant<value_ints=[2]>() "
        "d = Constant<value_ints=[0]>() y = Slice(r, a, b, d, s)"
    ),
    "slice: backwards": row_case(
        "a = Constant<value_ints=[100]>() b = Constant<value_ints=[-100]>() s = Constant<value_ints=[-1]>() "
        "d = Constant<value_ints=[0]>() y = Slice(r, a, b, d, s)"
    ),
    "slice: along another axis": row_case(
        "a = Constant<value_ints=[1]>() b = Constant<value_ints=[3]>() d = Constant<value_ints=[1]>() "
        "y = Slice(r, a, b, d)"
    ),
    "slice of what is fixed": row_case("s = Shape(p) a = Constant<value_ints=[0]>() y = Slice(x, a, s)"),
    "slice from a computed start": row_case(
        "s = Shape(p) b = Constant<value_ints=[100]>() y = Slice(x, s, b)"
    ),
    "range": row_case(
        "s = Size(p) a = Constant<value_int=0>() d = Constant<value_int=1>() y = Range(a, s, d)", "y:i"
    ),
    "range with steps": row_case(
        "s = Size(p) a = Constant<value_int=-1>() d = Constant<value_int=2>() y = Range(a, s, d)", "y:i"
    ),
    "range downwards": row_case(
        "s = Size(p) a = Constant<value_int=0>() d = Constant<value_int=-1>() y = Range(s, a, d)", "y:i"
    ),
    "expand": row_case("s = Shape(r) c = Constant<value_floats=[1.0,2.0,3.0,4.0]>() y = Expand(c, s)"),
    "expand what is bounded": row_case(
        "u = Unsqueeze<axes=[1]>(r) s = Constant<value_ints=[1,3,1]>() y = Expand(u, s)"
    ),
    "constant of shape": row_case("s = Shape(r) y = ConstantOfShape(s)"),
    "tile": row_case("s = Shape(p) o = Constant<value_ints=[2]>() d = Concat<axis=0>(s, o) y = Tile(t, d)"),
    "a sum decides": (
        "c = Cast<to=7>(m) s = ReduceSum<keepdims=0>(c) a = Constant<value_int=0>() "
        "d = Constant<value_int=1>() "
        "q = Range(a, s, d) y = Gather<axis=0>(x, q)",
        "y",
        12,
    ),
    "scatter nd": row_case("e = Exp(r) u = Unsqueeze<axes=[1]>(p) y = ScatterND(x, u, e)"),
    "scatter elements": row_case("s = Gather<axis=0>(v, p) e = Exp(s) y = ScatterElements<axis=0>(v, p, e)"),
    "scatter elements along another axis": row_case(
        "i0 = Constant<value_ints=[2]>() a = Shape(r) z = Expand(i0, a) e = Exp(r) "
        "y = ScatterElements<axis=1>(x, z, e)"
    ),
    "scatter elements of a second axis": row_case(
        "q = Transpose<perm=[1,0]>(x) e = Transpose<perm=[1,0]>(r) c = Constant<value_ints=[0]>() "
        "a = Shape(e) z = Expand(c, a) f = Neg(e) y = ScatterElements<axis=1>(q, z, f)"
    ),
    "masked scatter": (
        "i = NonZero(w) q = Transpose<perm=[1,0]>(i) s = Shape(q) zero = Constant<value_int=0>() "
        "first = Constant<value_ints=[0]>() size = Gather<axis=0>(s, zero) end = Unsqueeze<axes=[0]>(size) "
        "flat = Constant<value_ints=[-1]>() f = Reshape(x, flat) u = Slice(f, first, end) "
        "b = Cast<to=1>(w) y = ScatterND(b, q, u)",
        "y",
        12,
    ),
    "triangle": row_case("y = Trilu(r)", opset=14),
    "cumulative sums": row_case(
        "z0 = Constant<value_int=0>() y = CumSum(r, z0) z = CumSum<reverse=1,exclusive=1>(r, z0)", "y z"
    ),
    "suppression of what is bounded": row_case(
        "b = Unsqueeze<axes=[0]>(r) f = Gather<axis=0>(v, p) g = Exp(f) s = Unsqueeze<axes=[0,1]>(g) "
        "most = Constant<value_ints=[9]>() y = NonMaxSuppression(b, s, most)",
        "y:i",
    ),
    "regions": row_case(
        "img = Unsqueeze<axes=[0,1]>(x) b = Exp(r) c = Gather<axis=0>(n, p) z = Constant<value_int=0>() "
        "d = Mul(c, z) y = RoiAlign<output_height=2,output_width=2>(img, b, d) "
        "e = RoiAlign<output_height=2,output_width=2,sampling_ratio=2>(img, b, d)",
        "y e",
    ),
    "images": row_case(
        "i0 = Unsqueeze<axes=[1,2]>(r) y = MaxPool<kernel_shape=[1,2]>(i0) "
        "k0 = Constant<value_floats=[1.0,2.0]>() s = Constant<value_ints=[1,1,1,2]>() q = Reshape(k0, s) "
        "z = Conv(i0, q)",
        "y z",
    ),
    "one hot": row_case(
        "d = Constant<value_int=6>() o = Constant<value_floats=[0.0,1.0]>() y = OneHot(p, d, o)"
    ),
    "nonzero of what is bounded": row_case(
        "z = Constant<value_float=0.0>() c = Greater(r, z) y = NonZero(c)", "y:i"
    ),
    "compress what is bounded": row_case(
        "z = Constant<value_float=0.0>() s = Gather<axis=0>(v, p) c = Greater(s, z) "
        "y = Compress<axis=0>(r, c)"
    ),
    "compress": ("y = Compress<axis=0>(x, m)", "y", 12),
    "compress elements": ("y = Compress(v, m)", "y", 12),
    "a definition": row_case("y = Celu<alpha=2.0>(r)"),
    "unique": ("y, i, p, c = Unique<sorted=1>(n)", "y:i i:i p:i c:i", 12),
    "unique in order": ("y, i, p, c = Unique<sorted=0>(n)", "y:i i:i p:i c:i", 12),
    **{
        f"unique of what is bounded, sorted = {flag}": row_case(
            f"s = Gather<axis=0>(n, p) y, i0, q, c = Unique<sorted={flag}>(s)", "y:i i0:i q:i c:i"
        )
        for flag in (0, 1)
    },
    "unique rows of what is bounded": row_case(
        "z = Constant<value_float=0.0>() g = Greater(r, z) f = Cast<to=1>(g) y, i0, q, c = Unique<axis=0>(f)",
        "y i0:i q:i c:i",
    ),
    "cast": row_case("c = Cast<to=7>(r) y = Cast<to=1>(c)"),
    "mask of all by its own count": row_case(
        "s = Size(p) f = Cast<to=1>(s) o = Constant<value_float=1.0>() g = Add(f, o) y = Div(r, g)"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_carries_the_size(name: str) -> None:
    assert_as_onnxruntime(model(*CASES[name]))


LEVELS = [
    "concat along the axis",
    "softmax along the axis",
    "matmul over the axis",
    "masked scatter",
    "unique",
]


@pytest.mark.parametrize("name", LEVELS)
def test_at_all_levels(name: str) -> None:
    """Also from the text, with poisoned memory, and `mlir-opt` takes the memref level."""
    proto = model(*CASES[name])
    for inputs in feeds(proto):
        if not all(array.any() for array in inputs.values()):
            continue
        check_all_levels(proto, inputs, mlir=name == LEVELS[0])


REFUSED = {
    "a fixed size beside it": (row_case("y = Add(r, t)"), 'Add: "r" .* and another operand has the size 4 there'),
    "two axes of one operand": (
        row_case("q = Transpose<perm=[1,0]>(r) y = MatMul(r, q)"),
        "MatMul: .* and so has another operand, along another one",
    ),
    "the axis of a function": (row_case("y = Hardmax<axis=0>(r)"), "Hardmax: .* along which this operator works"),
    "no rule": (
        row_case("u = Unsqueeze<axes=[0]>(r) y = Det(u)", opset=12),
        'Det: "u" .* along axis 1, which this operator does not take',
    ),
    "squeeze of what turns out to be 1": (row_case("y = Squeeze(r)"), "Squeeze: .* how many there are would depend"),
    "squeeze of the axis": (row_case("y = Squeeze<axes=[0]>(r)"), "Squeeze: .* which is squeezed"),
    "split of the axis": (row_case("y, z = Split<axis=0>(r)", "y z"), "Split: .* which is split"),
    "an axis in the middle": (
        row_case("q = Transpose<perm=[1,0]>(r) s = Constant<value_ints=[-1]>() y = Reshape(q, s)"),
        "Reshape: .* does not stay one axis",
    ),
    "a shape of two computed sizes": (
        row_case("s = Shape(p) d = Concat<axis=0>(s, s) y = ConstantOfShape(d)"),
        "the shape is computed at run time for 2 axes",
    ),
    "no bound": (
        row_case("s = Size(p) e = Cast<to=1>(s) f = Exp(e) l = Cast<to=7>(f) a = Constant<value_int=0>() "
                 "d = Constant<value_int=1>() y = Range(a, l, d)", "y:i"),
        "Range: the length is computed at run time, and nothing says how large it can be",
    ),
    "sizes that are positions": (row_case("y = ConstantOfShape(p)"), "ConstantOfShape: .* itself a list of sizes"),
    "updates of a fixed number": (
        row_case("u = Unsqueeze<axes=[1]>(p) y = ScatterND(x, u, x)"),
        "ScatterND: .* along which the indices and the updates differ",
    ),
    "data to be written": (
        row_case(
            "i0 = Constant<value_ints=[0]>() u = Unsqueeze<axes=[1]>(i0) l = Gather<axis=0>(x, i0) "
            "y = ScatterND(r, u, l)"
        ),
        "ScatterND: .* into which is written",
    ),
    "quantization along the axis": (
        row_case("s = Constant<value_floats=[1.0,2.0,3.0,4.0,5.0,6.0]>() z = Cast<to=2>(s) "
                 "y0 = QuantizeLinear<axis=0>(r, s, z) y = DequantizeLinear<axis=0>(y0, s, z)", opset=13),
        "QuantizeLinear: .* along which scales vary",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_rule_is_for_is_refused_by_name(name: str) -> None:
    case, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message):
        mlopt.compile(model(*case))


def test_examples_give_the_size_where_there_is_no_rule() -> None:
    """The model then holds for these inputs; others are compiled anew, and nothing is ever taken for granted."""
    proto = model(*row_case("y = Hardmax<axis=0>(r)"))
    some, _, every, more = feeds(proto)
    compiled = mlopt.compile(proto, inputs=some)
    for inputs in (some, every, more, some):
        assert_close(compiled.run(inputs), run_onnxruntime(proto, inputs))
    with pytest.raises(InputError, match=r'input "m" is .* decides shapes'):
        compiled.executable.run(every)


def test_sizes_that_must_agree_are_compared_at_run_time() -> None:
    """Rows where m is true plus rows where v is positive: as many, or the run ends with an error."""
    proto = model(
        *row_case(
            "zero = Constant<value_float=0.0>() c = Greater(v, zero) j = NonZero(c) q = Squeeze<axes=[0]>(j) "
            "s = Gather<axis=0>(x, q) y = Add(r, s)"
        )
    )
    compiled = mlopt.compile(proto)
    inputs = {"m": np.arange(6) < 3, "x": np.ones((6, 4), np.float32), "v": np.float32([1, 0, 1, 0, 1, 0])}
    assert_close(compiled.run(inputs), run_onnxruntime(proto, inputs))
    with pytest.raises(RunError, match='node "Add_y": expected equal sizes, found 2 and 3'):
        compiled.run(inputs | {"m": np.arange(6) < 2})


@pytest.mark.parametrize("index", [2, -3, 3, -4])
def test_an_index_behind_the_extent_is_an_error(index: int) -> None:
    proto = model(*row_case(f"i0 = Constant<value_int={index}>() y = Gather<axis=0>(r, i0)"))
    compiled = mlopt.compile(proto)
    for count in (3, 2, 6):
        inputs = {"m": np.arange(6) < count, "x": np.arange(24, dtype=np.float32).reshape(6, 4)}
        if -count <= index < count:
            assert_close(compiled.run(inputs), run_onnxruntime(proto, inputs))
        else:
            with pytest.raises(RunError, match=r'node "Gather_y": index .* out of bounds'):
                compiled.run(inputs)


def test_a_size_that_is_no_multiple_is_an_error() -> None:
    proto = model(*row_case("s = Constant<value_ints=[-1,8]>() y = Reshape(r, s)"))
    compiled = mlopt.compile(proto)
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    for count in (0, 2, 6):
        assert (
            compiled.run({"m": np.arange(6) < count, "x": x})["y"].tolist()
            == x[:count].reshape(-1, 8).tolist()
        )
    with pytest.raises(RunError, match='node "Reshape_y": expected equal sizes'):
        compiled.run({"m": np.arange(6) < 3, "x": x})


def branches(then: str, otherwise: str) -> onnx.ModelProto:
    """The rows, and an If of two branches that see them."""
    proto = model(*row_case("c = Cast<to=9>(v) d = Gather<axis=0>(c, z0) z0 = Constant<value_int=0>()", "r"))
    nodes = [parse_graph(f"g () => (float o) {{ o = {text} }}") for text in (then, otherwise)]
    for index, graph in enumerate(nodes):
        graph.name = f"branch{index}"
    proto.graph.node.sort(key=lambda node: node.op_type == "Gather" and node.output[0] == "d")
    proto.graph.node.append(helper.make_node("If", ["d"], ["y"], then_branch=nodes[0], else_branch=nodes[1]))
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return proto


def test_branches_see_bounded_values_but_give_none() -> None:
    proto = branches("ReduceSum<axes=[0],keepdims=0>(r)", "ReduceMax<axes=[0],keepdims=0>(x)")
    compiled = mlopt.compile(proto)
    for inputs in feeds(proto):
        for first in (0.0, 1.0):
            inputs["v"][0] = first
            assert_close(compiled.run(inputs), run_onnxruntime(proto, inputs))
    with pytest.raises(UnsupportedError, match=r'node ".+": "o" leaves a branch or a body, and its size'):
        mlopt.compile(branches("Neg(r)", "Neg(x)"))


def test_loops_carry_no_bounded_values() -> None:
    body = parse_graph(
        "body (int64 i, bool c, float[N,4] a) => (bool c1, float[N,4] b) { c1 = Identity(c) b = Neg(a) }"
    )
    proto = model(*row_case("k0 = Constant<value_int=3>()", "r"))
    proto.graph.node.append(helper.make_node("Loop", ["k0", "", "r"], ["y"], body=body))
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    with pytest.raises(UnsupportedError, match='Loop: "r" has a size that depends on data, along axis 0'):
        mlopt.compile(proto)


def test_arrays_for_outputs_have_the_largest_size() -> None:
    """What is returned is the part that counts, a view of the caller's array."""
    proto = model(*CASES["nonzero"])
    compiled = mlopt.compile(proto)
    (spec,) = compiled.outputs
    assert (spec.shape, spec.bounded_axis) == ((2, 10), 1)
    out = np.full(spec.shape, -1)
    for inputs in feeds(proto):
        result = compiled.run(inputs, {"y": out})["y"]
        assert np.shares_memory(result, out) or result.size == 0
        np.testing.assert_array_equal(result, np.argwhere(inputs["w"]).T)


def test_a_size_that_constants_give_is_no_bound() -> None:
    proto = model(
        "s = Constant<value_ints=[0,3,0,5]>() i = NonZero(s) p = Squeeze<axes=[0]>(i) y = Gather<axis=1>(x, p)",
        "y",
    )
    (spec,) = mlopt.compile(proto).outputs
    assert (spec.shape, spec.bounded_axis) == ((6, 2), None)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_top_k_with_a_computed_k(k: int) -> None:
    proto = model(
        "one = Constant<value_ints=[1]>() c = Cast<to=7>(m) s = ReduceSum<keepdims=1>(c) y, i = TopK<axis=0>(x, s)",
        "y i:i",
    )
    inputs = {"m": np.arange(6) < k, "x": np.random.default_rng(0).standard_normal((6, 4), np.float32)}
    assert_close(mlopt.compile(proto).run(inputs), run_onnxruntime(proto, inputs))


def test_top_k_of_what_is_bounded() -> None:
    proto = model(*row_case("k0 = Constant<value_ints=[2]>() y, i0 = TopK<axis=0>(r, k0)", "y i0:i"))
    compiled = mlopt.compile(proto)
    for inputs in feeds(proto):
        if inputs["m"].sum() >= 2:
            assert_close(compiled.run(inputs), run_onnxruntime(proto, inputs))
        else:
            with pytest.raises(RunError, match="expected equal sizes, found 2 and"):
                compiled.run(inputs)


DETECTOR = """
    most = Constant<value_ints=[10]>() iou = Constant<value_floats=[0.4]>() least = Constant<value_floats=[0.3]>()
    selected = NonMaxSuppression(boxes, scores, most, iou, least)
    two = Constant<value_ints=[2]>() zero = Constant<value_ints=[0]>() one = Constant<value_ints=[1]>()
    numbers = Gather<axis=1>(selected, two) places = Squeeze(numbers, one) all = Squeeze(boxes, zero)
    picked = Gather<axis=0>(all, places) values = GatherND(scores, selected)
    count = Shape(values) seven = Constant<value_ints=[7]>() k = Min(count, seven)
    top, order = TopK<axis=0>(values, k) best = Gather<axis=0>(picked, order)
    kinds = Gather<axis=1>(selected, one) real = Cast<to=1>(kinds) kind = Gather<axis=0>(real, order)
    apart = Add(best, kind)
"""


def test_the_last_stage_of_a_detector() -> None:
    """Boxes are suppressed, the seven best of them, or as many as there are, are gathered and moved by their class."""
    graph = parse_graph(f"g (float[1,50,4] boxes, float[1,3,50] scores) => () {{ {DETECTOR} }}")
    graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("top", "apart")
    )
    graph.output.append(helper.make_tensor_value_info("selected", TensorProto.INT64, None))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    compiled = mlopt.compile(proto)
    assert [spec.shape for spec in compiled.outputs] == [(7,), (7, 4), (30, 3)]
    generator = np.random.default_rng(0)
    for largest in (1.0, 0.32, 0.1):
        scores = generator.uniform(0, largest, (1, 3, 50)).astype(np.float32)
        inputs = {"boxes": generator.uniform(0, 2, (1, 50, 4)).astype(np.float32), "scores": scores}
        assert_close(compiled.run(inputs), run_onnxruntime(proto, inputs))
