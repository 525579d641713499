"""Public faults of common subexpressions and dead code (part C), and their kin, with the right values by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlopt
from mlopt.compilation import compile_model, load_model
from mlopt.diagnostics import MloptError
from mlopt.ir import make_context, parse_module
from mlopt.options import CompileOptions
from mlopt.passes.common.canonicalize import CanonicalizerPass
from mlopt.passes.common.cse import CSEPass
from mlopt.passes.common.dce import DCEPass
from tests.cases.models import check
from tests.frontend.onnx_models import model_of, operations, value_info

Arrays = Mapping[str, np.ndarray]


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto], x: np.ndarray, outputs: str = "y", constants: Arrays | None = None
) -> onnx.ModelProto:
    return model_of(nodes, [value_info("x", x)], outputs.split(), constants)


# C01: +0.0 is not -0.0.


def test_c01_zeros_of_two_signs() -> None:
    """-0.0 + 0.0 = 0.0, whose reciprocal is inf; -0.0 + -0.0 = -0.0, whose reciprocal is -inf."""
    x = f32(-0.0)
    nodes = [
        node("Add", "x p", "a"),
        node("Add", "x n", "b"),
        node("Reciprocal", "a", "y1"),
        node("Reciprocal", "b", "y2"),
    ]
    constants = {"p": f32(0.0), "n": f32(-0.0)}
    check(model(nodes, x, "y1 y2", constants), {"x": x}, {"y1": f32(inf), "y2": f32(-inf)})


@pytest.mark.parametrize("size", [1, 100])
def test_c01_constants_of_two_signs_stay_apart(size: int) -> None:
    """In the IR as in the store of weights, where equal arrays are there once."""
    x = np.ones(size, np.float32)
    nodes = [node("Div", "x p", "y1"), node("Div", "x n", "y2")]
    constants = {"p": np.full(size, 0.0, np.float32), "n": np.full(size, -0.0, np.float32)}
    want = {"y1": np.full(size, inf, np.float32), "y2": np.full(size, -inf, np.float32)}
    check(model(nodes, x, "y1 y2", constants), {"x": x}, want)


@pytest.mark.parametrize("op_type", ["Mul", "Add", "Sub", "Max"])
def test_c01_constants_of_two_types_stay_apart(op_type: str) -> None:
    """The bytes of 1.0 in f32 are those of an integer: equal bytes of another type are another constant."""
    bits = np.full(80, 1.0, np.float32).view(np.int32)
    x = np.full(80, 3.0, np.float32)
    nodes = [
        node(op_type, "x f", "y1"),
        node("Cast", "x", "i", to=TensorProto.INT32),
        node("Add", "i b", "y2"),
    ]
    want = {"Mul": 3.0, "Add": 4.0, "Sub": 2.0, "Max": 3.0}[op_type]
    arrays = {"f": np.full(80, 1.0, np.float32), "b": bits}
    check(model(nodes, x, "y1 y2", arrays), {"x": x}, {"y1": np.full(80, want, np.float32), "y2": bits + 3})


def test_c01_equal_casts_to_different_types_stay_apart() -> None:
    x = f32(1.7, -1.7)
    nodes = [node("Cast", "x", "y1", to=TensorProto.INT32), node("Cast", "x", "y2", to=TensorProto.INT64)]
    want = {"y1": np.array([1, -1], np.int32), "y2": np.array([1, -1], np.int64)}
    check(model(nodes, x, "y1 y2"), {"x": x}, want)


@pytest.mark.parametrize(
    ("op_type", "attributes", "want"),
    [
        ("Softmax", [{"axis": 0}, {"axis": 1}], [f32([1 / 3] * 2, [2 / 3] * 2), f32([0.5] * 2, [0.5] * 2)]),
        ("Gelu", [{"approximate": "none"}, {"approximate": "tanh"}], [f32(0.84134475), f32(0.84119199)]),
        ("LeakyRelu", [{"alpha": 0.5}, {"alpha": 0.25}], [f32(-0.5), f32(-0.25)]),
        ("CumSum", [{"reverse": 0}, {"reverse": 1}], [f32(1, 3), f32(3, 2)]),
        ("ReduceSum", [{"keepdims": 1}, {"keepdims": 0}], [f32([3]), f32(3)[0]]),
        ("Transpose", [{"perm": [0, 1]}, {"perm": [1, 0]}], [f32([1, 2], [3, 4]), f32([1, 3], [2, 4])]),
    ],
)
def test_c01_equal_operations_with_different_attributes_stay_apart(
    op_type: str, attributes: list[dict[str, Any]], want: list[np.ndarray]
) -> None:
    logs = np.log(f32([1, 1], [2, 2]))
    rows = {
        "Softmax": logs,
        "Gelu": f32(1),
        "LeakyRelu": f32(-1),
        "CumSum": f32(1, 2),
        "ReduceSum": f32([1, 2]),
    }
    x = rows.get(op_type, f32([1, 2], [3, 4]))
    inputs = "x axis" if op_type == "CumSum" else "x"
    nodes = [node(op_type, inputs, f"y{index}", **each) for index, each in enumerate(attributes)]
    constants = {"axis": np.array(0)} if op_type == "CumSum" else None
    proto = model_of(nodes, [value_info("x", x)], ["y0", "y1"], constants, opset=20)
    check(proto, {"x": x}, {"y0": want[0], "y1": want[1]})


def test_c01_what_is_equal_is_merged() -> None:
    """So that the tests above could fail: exp(x) twice, of which one is left."""
    x = f32(0.0)
    nodes = [node("Exp", "x", "a"), node("Exp", "x", "b"), node("Mul", "a b")]
    compilation = compile_model(load_model(model(nodes, x), CompileOptions()), "graph")
    assert [op.name for op in operations(compilation.module)] == ["graph.exp", "graph.mul"]


# C03: random numbers.

RANDOM = [
    node("RandomNormal", "", "r", shape=[2]),
    node("RandomUniform", "", "r", shape=[2]),
    node("RandomUniformLike", "x", "r"),
    node("RandomNormalLike", "x", "r"),
    node("Bernoulli", "x", "r"),
    node("Multinomial", "m", "r", sample_size=2),
]


@pytest.mark.parametrize("generator", RANDOM, ids=lambda each: each.op_type)
def test_c03_random_generators_are_refused_by_name(generator: onnx.NodeProto) -> None:
    """Nothing is right or wrong of them, and what is never imported is never merged, folded or moved."""
    x = f32(0.5, 0.5)
    proto = model(
        [generator, node("Cast", "r", "c", to=1), node("Add", "x c")], x, constants={"m": f32([1, 1])}
    )
    with pytest.raises(MloptError, match=generator.op_type):
        mlopt.compile(proto)


def test_c03_dropout_in_training_is_refused_and_in_inference_nothing() -> None:
    x = f32(1, 2)
    proto = model([node("Dropout", "x")], x)
    check(proto, {"x": x}, {"y": x})
    training = model([node("Dropout", "x r t")], x, constants={"r": f32(0.5)[0], "t": np.array(True)})
    with pytest.raises(MloptError, match="Dropout"):
        mlopt.compile(training)


# C04: effects.

MEMORY = """
    func.func @main(%p: memref<1xi32>, %q: memref<3xi32>) -> (i32, i32) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %five = arith.constant 5 : i32
      %a = memref.load %p[%c0] : memref<1xi32>
      memref.store %five, %p[%c0] : memref<1xi32>
      %b = memref.load %p[%c0] : memref<1xi32>
      %c = memref.load %p[%c0] : memref<1xi32>
      scf.for %i = %c0 to %c3 step %c1 {
        memref.store %five, %q[%i] : memref<3xi32>
      }
      %s = arith.addi %b, %c : i32
      func.return %a, %s : i32, i32
    }"""


def test_c04_a_store_stands_between_two_loads() -> None:
    """The load before it and one after it are left, of the two after it one; the loop that only stores stays."""
    ctx = make_context()
    module = parse_module(MEMORY, ctx)
    for pass_ in (CanonicalizerPass(), CSEPass(), DCEPass()):
        pass_.run(ctx, module)
    text = str(module)
    assert text.count("memref.load") == 2
    assert text.count("memref.store") == 2
    assert text.count("scf.for") == 1
    kinds = [op.name for op in module.walk() if op.name in ("memref.load", "memref.store")]
    assert kinds == ["memref.load", "memref.store", "memref.load", "memref.store"]


@pytest.mark.parametrize(
    "between",
    [
        "func.call @opaque() : () -> ()",
        '"test.op"() : () -> ()',
        "memref.copy %r, %p : memref<1xi32> to memref<1xi32>",
    ],
)
def test_c04_whatever_may_write_stands_between_two_loads(between: str) -> None:
    """A call, an operation that is not known, a copy onto the buffer."""
    text = f"""
    func.func @main(%p: memref<1xi32>, %r: memref<1xi32>) -> (i32, i32) {{
      %c0 = arith.constant 0 : index
      %a = memref.load %p[%c0] : memref<1xi32>
      {between}
      %b = memref.load %p[%c0] : memref<1xi32>
      func.return %a, %b : i32, i32
    }}
    func.func private @opaque()"""
    ctx = make_context(allow_unregistered=True)
    module = parse_module(text, ctx)
    CSEPass().run(ctx, module)
    DCEPass().run(ctx, module)
    assert str(module).count("memref.load") == 2
    assert between.split(" ")[0].strip('"').split("(")[0] in str(module)


# C05: bodies keep their signatures.


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[tuple[str, int, Sequence[int]]],
    **constants: np.ndarray,
) -> onnx.GraphProto:
    infos = [helper.make_tensor_value_info(name, element, shape) for name, element, shape in outputs]
    arrays = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    return helper.make_graph(nodes, "body", inputs, infos, arrays)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_c05_a_condition_that_is_always_true(trips: int) -> None:
    """Of a body whose condition is Identity(true): x doubled as often as the loop runs."""
    info = helper.make_tensor_value_info
    loop = body(
        [node("Identity", "true", "on_out"), node("Add", "v v", "v_out")],
        [
            info("i", TensorProto.INT64, []),
            info("on", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, [2]),
        ],
        [("on_out", TensorProto.BOOL, []), ("v_out", TensorProto.FLOAT, [2])],
        true=np.array(True),
    )
    x = f32(1, -3)
    proto = model(
        [node("Loop", "n c x", body=loop)], x, constants={"n": np.array(trips), "c": np.array(True)}
    )
    check(proto, {"x": x}, {"y": x * 2**trips})


@pytest.mark.parametrize("condition", [False, True])
def test_c05_a_branch_that_gives_a_constant(condition: bool) -> None:
    """At run time, and constant: the one branch gives a constant, the other x + x."""
    then = body([node("Identity", "k", "t")], [], [("t", TensorProto.FLOAT, [2])], k=f32(1, 2))
    otherwise = body([node("Add", "x x", "e")], [], [("e", TensorProto.FLOAT, [2])])
    x, c = f32(9, 9), np.array(condition)
    want = {"y": f32(1, 2) if condition else f32(18, 18)}
    branch = node("If", "c", then_branch=then, else_branch=otherwise)
    check(model([branch], x, constants={"c": c}), {"x": x}, want)
    proto = model_of([branch], [value_info("x", x), value_info("c", c)], ["y"])
    check(proto, {"x": x, "c": c}, want)


def test_c05_a_condition_that_folding_finds_out() -> None:
    """1 < 2 is true only once it is computed: then the branch is taken at compile time, and none is left."""
    then = body([node("Neg", "x", "t")], [], [("t", TensorProto.FLOAT, [2])])
    otherwise = body([node("Exp", "x", "e")], [], [("e", TensorProto.FLOAT, [2])])
    x = f32(9, -9)
    nodes = [
        node("Add", "one one", "two"),
        node("Less", "one two", "c"),
        node("If", "c", then_branch=then, else_branch=otherwise),
    ]
    proto = model(nodes, x, constants={"one": f32(1)[0]})
    check(proto, {"x": x}, {"y": -x})
    compilation = compile_model(load_model(proto, CompileOptions()), "graph")
    assert [op.name for op in operations(compilation.module)] == ["graph.neg"]


@pytest.mark.parametrize("unread", [0, 1])
def test_c05_an_output_of_a_branch_that_nothing_reads(unread: int) -> None:
    """One of two outputs: the other is still the right one, and what computed it alone is gone."""
    branches = {
        "then_branch": body(
            [node("Neg", "x", "a"), node("Exp", "x", "b")], [], [("a", 1, [2]), ("b", 1, [2])]
        ),
        "else_branch": body(
            [node("Abs", "x", "d"), node("Relu", "x", "e")], [], [("d", 1, [2]), ("e", 1, [2])]
        ),
    }
    x = f32(0, 0)
    nodes = [node("If", "c", "p q", **branches), node("Identity", "pq"[1 - unread])]
    wants = {(True, 0): f32(1, 1), (True, 1): f32(-0.0, -0.0), (False, 0): f32(0, 0), (False, 1): f32(0, 0)}
    for condition in (True, False):
        c = np.array(condition)
        proto = model_of(nodes, [value_info("x", x), value_info("c", c)], ["y"])
        check(proto, {"x": x, "c": c}, {"y": wants[condition, unread]})
        text = mlopt.compile(proto, inputs={"x": x, "c": c}).ir("graph")
        assert ("graph.exp" in text) == (unread == 0)


def test_c05_a_loop_value_that_nothing_reads() -> None:
    """Three trips: x + 3; the products beside are not computed. The trip numbers are collected, and are read."""
    info = helper.make_tensor_value_info
    loop = body(
        [
            node("Identity", "on", "on_out"),
            node("Add", "v one", "v_out"),
            node("Mul", "w v", "w_out"),
            node("Identity", "i", "s"),
        ],
        [info("i", 7, []), info("on", 9, []), info("v", 1, [2]), info("w", 1, [2])],
        [("on_out", 9, []), ("v_out", 1, [2]), ("w_out", 1, [2]), ("s", 7, [])],
        one=f32(1),
    )
    x, n = f32(1, -3), np.array(3)
    nodes = [
        node("Loop", "n c x x", "a w t", body=loop),
        node("Identity", "a", "y1"),
        node("Identity", "t", "y2"),
    ]
    proto = model_of(nodes, [value_info("x", x)], ["y1", "y2"], {"c": np.array(True), "n": n})
    check(proto, {"x": x}, {"y1": x + 3, "y2": np.arange(3)})
    assert "graph.mul" not in mlopt.compile(proto).ir("graph")
