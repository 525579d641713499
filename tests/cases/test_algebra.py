"""Public faults of constant folding and algebra (part D), and their kin.

The right values are by hand, by numpy on types that hold them exactly, or by Python's integers. Each case is tried with
inputs at run time and with constants, which the folder evaluates.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlopt
from mlopt.compilation import Compilation, compile_model, load_model
from mlopt.diagnostics import MloptError
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import PipelineOptions
from tests.cases.models import check
from tests.frontend.onnx_models import assert_close, model_of, operations, run_mlopt, value_info

Arrays = Mapping[str, np.ndarray]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SIGNED = INTEGERS[:4]


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def node(op_type: str, inputs: Sequence[str], output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), [output], **attributes)


def check_everywhere(
    nodes: Sequence[onnx.NodeProto], arrays: Arrays, want: np.ndarray, *, opset: int = 18
) -> None:
    """At run time, constant, and with each operand the one or the other: the bits of `want`, but for those of NaN."""
    for chosen in dict.fromkeys([(), tuple(arrays), *((name,) for name in arrays)]):
        constants = {name: array for name, array in arrays.items() if name not in chosen}
        inputs = {name: arrays[name] for name in chosen}
        proto = model_of(nodes, [value_info(*item) for item in inputs.items()], ["y"], constants, opset=opset)
        results = [mlopt.compile(proto, inputs=inputs).run(inputs)]
        if len(chosen) in (0, len(arrays)):
            plain = CompileOptions(pipeline=PipelineOptions(optimize=False))
            results += [
                run_mlopt(proto, inputs),
                mlopt.compile(proto, inputs=inputs, options=plain).run(inputs),
            ]
        for result in results:
            got = result["y"]
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)
            if want.dtype.kind == "f":
                numbers = want == want
                np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def check_op(op_type: str, arrays: Arrays, want: np.ndarray, **attributes: Any) -> None:
    check_everywhere([node(op_type, list(arrays), **attributes)], arrays, want)


def at_graph_level(proto: onnx.ModelProto, inputs: Arrays | None = None) -> Compilation:
    """The model after the passes of the graph level."""
    return compile_model(load_model(proto, CompileOptions(), inputs=inputs), "graph")


# D01: integers are divided toward zero, and a remainder has the sign of the divisor.

DIVIDENDS, DIVISORS = [8, -8, 7, -7, 0, 127, -128], [-3, 3, -2, 2, 5, -1, 127]


@pytest.mark.parametrize("dtype", SIGNED)
def test_d01_division_truncates(dtype: str) -> None:
    a, b = np.array(DIVIDENDS, dtype), np.array(DIVISORS, dtype)
    want = [
        abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(DIVIDENDS, DIVISORS, strict=True)
    ]
    check_op("Div", {"a": a, "b": b}, np.array(want, dtype))


@pytest.mark.parametrize("dtype", SIGNED)
def test_d01_remainders(dtype: str) -> None:
    """Python's % has the sign of the divisor, C's that of the dividend: fmod."""
    a, b = np.array(DIVIDENDS, dtype), np.array(DIVISORS, dtype)
    floor = [x % y for x, y in zip(DIVIDENDS, DIVISORS, strict=True)]
    check_op("Mod", {"a": a, "b": b}, np.array(floor, dtype))
    truncated = [x - int(x / y) * y for x, y in zip(DIVIDENDS, DIVISORS, strict=True)]
    check_op("Mod", {"a": a, "b": b}, np.array(truncated, dtype), fmod=1)


# D02: what has no quotient ends neither the compiler nor a run.


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_d02_integers_by_zero(op_type: str, dtype: str) -> None:
    """Documented: 0, for both. Nothing is folded, so that a user sees where it comes from."""
    a, b = np.array([7, 0, 5], dtype), np.array([0, 0, 2], dtype)
    want = np.array([0, 0, 2 if op_type == "Div" else 1], dtype)
    check_op(op_type, {"a": a, "b": b}, want)


@pytest.mark.parametrize("dtype", SIGNED)
def test_d02_the_smallest_integer_by_minus_one(dtype: str) -> None:
    """The quotient wraps to the smallest integer again, the remainder is 0."""
    smallest = np.iinfo(dtype).min
    a, b = np.array([smallest, smallest + 1], dtype), np.array([-1, -1], dtype)
    check_op("Div", {"a": a, "b": b}, np.array([smallest, -(smallest + 1)], dtype))
    check_op("Mod", {"a": a, "b": b}, np.zeros(2, dtype))
    check_op("Mod", {"a": a, "b": b}, np.zeros(2, dtype), fmod=1)


def test_d02_the_process_lives() -> None:
    """The exit code is 0, not that of a signal."""
    script = """
        import numpy as np, mlopt
        from tests.cases.test_algebra import node
        from tests.frontend.onnx_models import model_of, value_info
        for dtype, a, b in (("int32", 7, 0), ("int64", -2**63, -1), ("int8", -128, -1)):
            for op_type in ("Div", "Mod"):
                arrays = {"a": np.array([a], dtype), "b": np.array([b], dtype)}
                mlopt.compile(model_of([node(op_type, "ab")], [], ["y"], arrays)).run({})
                inputs = [value_info(*item) for item in arrays.items()]
                mlopt.compile(model_of([node(op_type, "ab")], inputs, ["y"])).run(arrays)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# D03: 64-bit integers do not go through f64, which has 53 bits.

BIG = 2**53 + 1


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


EXACT_INTEGERS: list[tuple[str, Arrays, np.ndarray, dict[str, Any]]] = [
    ("Div", {"a": i64(BIG), "b": i64(1)}, i64(BIG), {}),
    ("Mul", {"a": i64(BIG), "b": i64(3)}, i64(BIG * 3), {}),
    ("Add", {"a": i64(BIG), "b": i64(2)}, i64(BIG + 2), {}),
    ("Sub", {"a": i64(BIG), "b": i64(2)}, i64(BIG - 2), {}),
    ("Mod", {"a": i64(BIG), "b": i64(2**40)}, i64(BIG % 2**40), {}),
    ("Mod", {"a": i64(-BIG), "b": i64(2**40)}, i64(-(BIG % 2**40)), {"fmod": 1}),
    ("Pow", {"a": i64(3), "b": i64(38)}, i64(3**38), {}),
    ("Neg", {"a": i64(BIG)}, i64(-BIG), {}),
    ("Abs", {"a": i64(-BIG)}, i64(BIG), {}),
    ("Sign", {"a": i64(-BIG)}, i64(-1), {}),
    ("Relu", {"a": i64(BIG, -BIG)}, i64(BIG, 0), {}),
    ("Max", {"a": i64(BIG), "b": i64(BIG - 1)}, i64(BIG), {}),
    ("Min", {"a": i64(BIG), "b": i64(BIG + 1)}, i64(BIG), {}),
    ("Clip", {"a": i64(BIG + 4), "b": i64(0)[0], "c": i64(BIG)[0]}, i64(BIG), {}),
    ("Equal", {"a": i64(BIG), "b": i64(BIG - 1)}, np.array([False]), {}),
    ("Less", {"a": i64(BIG - 1), "b": i64(BIG)}, np.array([True]), {}),
    ("GreaterOrEqual", {"a": i64(BIG - 1), "b": i64(BIG)}, np.array([False]), {}),
    ("Where", {"a": np.array([True]), "b": i64(BIG), "c": i64(0)}, i64(BIG), {}),
    (
        "MatMul",
        {"a": i64(BIG, 1).reshape(1, 2), "b": i64(1, 2).reshape(2, 1)},
        i64(BIG + 2).reshape(1, 1),
        {},
    ),
    ("ReduceSum", {"a": i64(BIG, 1)}, i64(BIG + 1), {}),
    ("ReduceMax", {"a": i64(BIG, BIG - 1)}, i64(BIG), {}),
    ("ReduceMin", {"a": i64(BIG, BIG + 1)}, i64(BIG), {}),
    ("ReduceProd", {"a": i64(BIG, 3)}, i64(3 * BIG), {}),
    ("ArgMax", {"a": i64(BIG - 1, BIG)}, i64(1), {"axis": 0}),
    ("ArgMin", {"a": i64(BIG, BIG - 1)}, i64(1), {"axis": 0}),
    ("Cast", {"a": i64(BIG)}, np.array([BIG], np.uint64), {"to": TensorProto.UINT64}),
    ("Cast", {"a": i64(BIG)}, np.array([BIG % 2**32], np.int32), {"to": TensorProto.INT32}),
    ("BitwiseXor", {"a": i64(BIG), "b": i64(2)}, i64(BIG ^ 2), {}),
    ("Gather", {"a": i64(1, BIG), "b": i64(1)}, i64(BIG), {}),
    ("Concat", {"a": i64(BIG), "b": i64(1)}, i64(BIG, 1), {"axis": 0}),
]


@pytest.mark.parametrize(
    ("op_type", "arrays", "want", "attributes"),
    EXACT_INTEGERS,
    ids=[f"{op_type}-{index}" for index, (op_type, *_) in enumerate(EXACT_INTEGERS)],
)
def test_d03_64_bits(op_type: str, arrays: Arrays, want: np.ndarray, attributes: dict[str, Any]) -> None:
    attributes = {**attributes, **({"keepdims": 1} if op_type.startswith("Reduce") else {})}
    check_op(op_type, arrays, want, **attributes)


def test_d03_running_sums_and_ranges() -> None:
    """Whose axis, and whose bounds, must be constants."""
    for op_type, arrays, want in (
        ("CumSum", {"a": i64(BIG, 1, 1), "b": i64(0)[0]}, i64(BIG, BIG + 1, BIG + 2)),
        ("Range", {"a": i64(BIG)[0], "b": i64(BIG + 6)[0], "c": i64(3)[0]}, i64(BIG, BIG + 3)),
    ):
        proto = model_of([node(op_type, list(arrays))], [], ["y"], arrays)
        check(proto, {}, {"y": want}, 0.0)


# D04: integers wrap.


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul"])
def test_d04_integers_wrap(op_type: str, dtype: str) -> None:
    limits = np.iinfo(dtype)
    pairs = list(product([int(limits.min), int(limits.max), 100, 3], repeat=2))
    function = {"Add": int.__add__, "Sub": int.__sub__, "Mul": int.__mul__}[op_type]
    span = limits.max - limits.min + 1
    want = [(function(a, b) - limits.min) % span + limits.min for a, b in pairs]
    a, b = (np.array(side, dtype) for side in zip(*pairs, strict=True))
    check_op(op_type, {"a": a, "b": b}, np.array(want, dtype))


def test_d04_as_reported() -> None:
    check_op(
        "Add",
        {"a": np.array([2147483647], np.int32), "b": np.array([1000], np.int32)},
        np.array([-2147482649], np.int32),
    )
    check_op(
        "Add", {"a": np.array([200], np.uint8), "b": np.array([100], np.uint8)}, np.array([44], np.uint8)
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_d04_regrouped_constants_wrap(dtype: str) -> None:
    """(x * c) * d and (x + c) + d, which the exact rules merge: by Python's integers, wrapped once."""
    limits = np.iinfo(dtype)
    span = limits.max - limits.min + 1
    x = np.array([limits.max, limits.min, 3, -1], dtype)
    c, d = int(limits.max) - 2, int(limits.max) - 5
    for op_type, function in (("Mul", int.__mul__), ("Add", int.__add__)):
        want = [(function(function(int(value), c), d) - limits.min) % span + limits.min for value in x]
        nodes = [node(op_type, ["x", "c"], "t"), node(op_type, ["d", "t"])]
        proto = model_of(
            nodes, [value_info("x", x)], ["y"], {"c": np.array(c, dtype), "d": np.array(d, dtype)}
        )
        check(proto, {"x": x}, {"y": np.array(want, dtype)}, 0.0)


# D05, D06: NaN, infinities and signed zeros are not simplified away.

SPECIAL = f32(inf, nan, -2, 3, -inf, 0.0, -0.0)


@pytest.mark.parametrize(
    ("op_type", "operands", "want"),
    [
        ("Mul", "xz", [nan, nan, -0.0, 0.0, nan, 0.0, -0.0]),
        ("Mul", "zx", [nan, nan, -0.0, 0.0, nan, 0.0, -0.0]),
        ("Sub", "xx", [nan, nan, 0.0, 0.0, nan, 0.0, 0.0]),
        ("Div", "xx", [nan, nan, 1, 1, nan, nan, nan]),
        ("Div", "zx", [0.0, nan, -0.0, 0.0, -0.0, nan, nan]),
        ("Add", "xz", [inf, nan, -2, 3, -inf, 0.0, 0.0]),
        ("Sub", "xn", [inf, nan, -2, 3, -inf, 0.0, 0.0]),
        ("Sub", "xz", [inf, nan, -2, 3, -inf, 0.0, -0.0]),
        ("Add", "nx", [inf, nan, -2, 3, -inf, 0.0, -0.0]),
        ("Sub", "zx", [-inf, nan, 2, -3, inf, 0.0, 0.0]),
        ("Sub", "nx", [-inf, nan, 2, -3, inf, -0.0, 0.0]),
    ],
)
def test_d05_special_values(op_type: str, operands: str, want: list[float]) -> None:
    arrays = {"x": SPECIAL, "z": f32(0.0), "n": f32(-0.0)}
    used = {name: arrays[name] for name in dict.fromkeys(operands)}
    check_everywhere([node(op_type, operands)], used, f32(*want))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_d05_integers_times_zero(dtype: str) -> None:
    """That is 0, and may be simplified: one element is stored, and none is computed."""
    x = np.array([1, 100, 7], dtype)
    proto = model_of([node("Mul", "xz")], [value_info("x", x)], ["y"], {"z": np.array([0], dtype)})
    check(proto, {"x": x}, {"y": np.zeros(3, dtype)})


def test_d06_division_by_zeros() -> None:
    want = f32(-inf, nan, nan, inf)
    check_op("Div", {"a": f32(1, 0, nan, -1), "b": f32(-0.0, -0.0, 0.0, -0.0)}, want)
    check_op("Reciprocal", {"a": f32(0.0, -0.0, inf, -inf)}, f32(inf, -inf, 0.0, -0.0))


# D07: casts that lose something stay.

F, D, H, I32, I64, BOOL = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16),
    *(TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL),
)
CHAINS: list[tuple[np.ndarray, list[int], list[float]]] = [
    (f32(1.7, -1.7), [I32, F], [1, -1]),
    (f32(1.0001, 70000), [H, F], [1.0, inf]),
    (np.array([BIG]), [F, I64], [2.0**53]),
    (np.array([BIG]), [D, I64], [2.0**53]),
    (np.array([2**31 + 5]), [I32, I64], [-(2**31) + 5]),
    (f32(0.3, -0.3, 2, nan, 0.0), [BOOL, F], [1, 1, 1, 1, 0]),
    (np.array([1 + 2**-30, -3.5]), [F, D], [1, -3.5]),
    (np.array([1.5, -2.25, inf, nan, 6e-8], np.float16), [F, H], [1.5, -2.25, inf, nan, 6e-8]),
    (np.array([3, -7], np.int32), [I64, I32], [3, -7]),
]


@pytest.mark.parametrize(("x", "types", "want"), CHAINS)
def test_d07_casts_there_and_back(x: np.ndarray, types: list[int], want: list[float]) -> None:
    nodes = [node("Cast", "x", "t", to=types[0]), node("Cast", "t", to=types[1])]
    check_everywhere(nodes, {"x": x}, np.array(want).astype(helper.tensor_dtype_to_np_dtype(types[1])))


def test_d07_the_cast_that_may_go_goes() -> None:
    x = np.array([1.5], np.float16)
    nodes = [node("Cast", "x", "t", to=F), node("Cast", "t", to=H)]
    proto = model_of(nodes, [value_info("x", x)], ["y"])
    module = at_graph_level(proto).module
    assert not operations(module)


# D08: NaN comes through, whichever operand it is in.

NUMBERS, OTHERS = f32(nan, 1, -2, 4, nan), f32(7, nan, -3, 5, nan)


def test_d08_nan_comes_through() -> None:
    check_op("Relu", {"a": f32(nan, 1, -2)}, f32(nan, 1, 0))
    check_op("Min", {"a": NUMBERS, "b": OTHERS}, f32(nan, nan, -3, 4, nan))
    check_op("Max", {"a": NUMBERS, "b": OTHERS}, f32(nan, nan, -2, 5, nan))
    check_op("Clip", {"a": NUMBERS, "b": f32(-1)[0], "c": f32(3)[0]}, f32(nan, 1, -1, 3, nan))
    for op_type, want in (("ReduceMax", [nan, nan, 3]), ("ReduceMin", [nan, nan, 1])):
        nodes = [node(op_type, "a", axes=[1], keepdims=0)]
        check_everywhere(nodes, {"a": f32([nan, 1], [2, nan], [3, 1])}, f32(*want), opset=13)
    for op_type in ("MaxPool", "GlobalMaxPool"):
        attributes = {"kernel_shape": [2]} if op_type == "MaxPool" else {}
        nodes = [node(op_type, "a", **attributes)]
        check_everywhere(nodes, {"a": f32([[nan, 1]], [[2, 3]])}, f32([[nan]], [[3]]))


def test_d08_relu_and_bounds_one_after_the_other() -> None:
    """What is merged into one clip lets NaN through too."""
    nodes = [node("Relu", "a", "r"), node("Min", "rs")]
    check_everywhere(nodes, {"a": f32(nan, 9, -2, 4), "s": f32(6)}, f32(nan, 6, 0, 4))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_d08_casts_of_what_is_no_integer_agree(dtype: str) -> None:
    """ONNX leaves it open. Documented here: NaN is 0, and what is too large is the largest integer there is."""
    limits = np.iinfo(dtype)
    x = np.array([nan, inf, -inf, 1e30, -1e30, 2.9, -2.9 if limits.min else 0], np.float32)
    want = np.array([0, limits.max, limits.min, limits.max, limits.min, 2, -2 if limits.min else 0], dtype)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    check_everywhere([node("Cast", "x", to=to)], {"x": x}, want)


# D09: folding makes no gigabytes.


def folded_bytes(proto: onnx.ModelProto, inputs: Arrays) -> int:
    """How large the constants of a compiled model are."""
    store = at_graph_level(proto, inputs).ctx.weights
    return sum(store.get(name).nbytes for name in store)


@pytest.mark.parametrize("kind", ["ConstantOfShape", "Expand", "Tile"])
def test_d09_what_grows_is_not_folded(kind: str) -> None:
    """[2000, 2000] f32 would be 16 MB."""
    x = f32(1).reshape(1, 1)
    nodes = {
        "ConstantOfShape": [node("ConstantOfShape", ["s"], "t")],
        "Expand": [node("Expand", ["o", "s"], "t")],
        "Tile": [node("Tile", ["o", "s"], "t")],
    }[kind]
    nodes += [node("Add", "xt", "u"), node("ReduceMax", "u", axes=[0, 1])]
    constants = {"s": np.array([2000, 2000]), **({} if kind == "ConstantOfShape" else {"o": f32([0])})}
    proto = model_of(nodes, [value_info("x", x)], ["y"], constants, opset=13)
    assert folded_bytes(proto, {"x": x}) <= 64 * 1024
    check(proto, {"x": x}, {"y": f32([1])})


def test_d09_shapes_above_2_to_63_are_an_error_at_the_node() -> None:
    x = f32(1)
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["t"], "huge"), node("Add", "xt")]
    proto = model_of(nodes, [value_info("x", x)], ["y"], {"s": np.array([2**32, 2**32])})
    with pytest.raises(MloptError, match="huge"):
        mlopt.compile(proto, inputs={"x": x}).run({"x": x})


def test_d09_transposed_weights_are_folded_into_what_uses_them() -> None:
    """The limit is on growth: weight^T * 2, as large as the weight, is one constant."""
    x = f32([1, 2])
    w = np.arange(200, dtype=np.float32).reshape(100, 2)
    nodes = [node("Transpose", "w", "t"), node("Mul", "ts", "u"), node("MatMul", "xu")]
    proto = model_of(nodes, [value_info("x", x)], ["y"], {"w": w, "s": f32(2)})
    module = at_graph_level(proto).module
    assert [op.name for op in operations(module)] == ["graph.matmul"]
    check(proto, {"x": x}, {"y": x @ (w.T * 2)})


# D12: floats are not regrouped.


@pytest.mark.parametrize("order", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_d12_products_keep_their_order(order: tuple[int, int]) -> None:
    """1e-30 * 1e30 * 1e30 = 1e30 in f32, whichever side the constants are on."""
    x = f32(1e-30)
    nodes = [node("Mul", ["x", "c"][:: 1 - 2 * order[0]], "t"), node("Mul", ["t", "d"][:: 1 - 2 * order[1]])]
    proto = model_of(nodes, [value_info("x", x)], ["y"], {"c": f32(1e30), "d": f32(1e30)})
    check(proto, {"x": x}, {"y": f32(1e30)}, 1e-6)


@pytest.mark.parametrize(
    ("first", "second", "x", "c", "d", "want"),
    [
        ("Add", "Add", 1.0, 1e8, -1e8, 0.0),  # 1 + 1e8 is 1e8 in f32
        ("Sub", "Add", 1.0, 1e8, 1e8, 0.0),
        ("Mul", "Div", 3e38, 10.0, 10.0, inf),
        ("Div", "Mul", 1e-40, 1e5, 1e5, 1e5 * float(np.float32(1e-40) / np.float32(1e5))),
        ("Mul", "Mul", 1e-40, 0.5, 2.0, 2 * float(np.float32(1e-40) * np.float32(0.5))),
        ("Div", "Div", 3e38, 0.5, 2.0, inf),
    ],
)
def test_d12_nothing_is_regrouped(first: str, second: str, x: float, c: float, d: float, want: float) -> None:
    nodes = [node(first, "xc", "t"), node(second, "td")]
    proto = model_of(nodes, [value_info("x", f32(x))], ["y"], {"c": f32(c), "d": f32(d)})
    got = mlopt.compile(proto).run({"x": f32(x)})
    plain = CompileOptions(pipeline=PipelineOptions(optimize=False))
    assert_close(got, mlopt.compile(proto, options=plain).run({"x": f32(x)}), 0.0)
    np.testing.assert_allclose(got["y"], f32(want), rtol=1e-6)


# D13: rules that are right alone.


def test_d13_a_cast_that_is_none_beside_a_constant_that_is_one() -> None:
    x = f32(3, -4)
    nodes = [node("Cast", "x", "mid", to=F), node("Div", "ab", "k"), node("Mul", ["mid", "k"])]
    proto = model_of(nodes, [value_info("x", x)], ["y"], {"a": f32(1), "b": f32(1)})
    check(proto, {"x": x}, {"y": x})


def test_d13_everything_is_neutral() -> None:
    """Nothing is left but the input, which is the output of several chains at once."""
    x = f32(3, -4)
    nodes = [
        node("Mul", ["x", "k"], "a"),
        node("Sub", ["a", "z"], "b"),
        node("Neg", ["b"], "c"),
        node("Neg", ["c"], "d"),
        node("Max", ["d", "d"], "e"),
        node("Where", ["t", "e", "a"], "y"),
    ]
    constants = {"k": f32(1), "z": f32(0), "t": np.array([True])}
    check(model_of(nodes, [value_info("x", x)], ["y"], constants), {"x": x}, {"y": x})
