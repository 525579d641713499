"""The reference interpreter of the kernel level: right values by hand or by numpy, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.diagnostics import InputError, MloptError, RunError, UnsupportedError
from mlopt.interpreter import structured_ops
from mlopt.interpreter.kernel import evaluate_module
from mlopt.interpreter.runtime.table import RUNTIME_FUNCTIONS
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.weights import WeightStore
from tests.interpreter.runtime_functions import Reversed


def run(text: str, *inputs: np.ndarray, weights: WeightStore | None = None) -> list[np.ndarray]:
    """The results of `@main` for its arguments in order."""
    module = parse_module(text, make_context())
    verify_module(module)
    named = {f"arg{i}": array for i, array in enumerate(inputs)}
    return list(evaluate_module(module, named, weights or WeightStore()).values())


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CONVOLUTION = """
func.func @main(%x: tensor<2x3x6x7xf32>, %w: tensor<4x3x3x2xf32>, %y: tensor<2x4x3x7xf32>) -> tensor<2x4x3x7xf32> {
  %0 = kernel.contract bounds [n = 2, oc = 4, oh = 3, ow = 7, ic = 3, kh = 3, kw = 2]
    ins(%x[n, ic, 2 * oh + kh - 1, ow + kw - 1] pad 0.0 : f32, %w[oc, ic, kh, kw]
        : tensor<2x3x6x7xf32>, tensor<4x3x3x2xf32>) outs(%y[n, oc, oh, ow] : tensor<2x4x3x7xf32>)
  func.return %0 : tensor<2x4x3x7xf32>
}"""


def convolution(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The definition, point by point."""
    y = y.astype(np.float64)
    for n, oc, oh, ow, ic, kh, kw in np.ndindex(2, 4, 3, 7, 3, 3, 2):
        h, v = 2 * oh + kh - 1, ow + kw - 1
        if 0 <= h < 6 and 0 <= v < 7:
            y[n, oc, oh, ow] += float(x[n, ic, h, v]) * float(w[oc, ic, kh, kw])
    return y


@pytest.mark.parametrize("points", [1 << 22, 100, 7])
def test_contract_adds_to_its_out_in_boxes_of_any_size(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured_ops, "POINTS_PER_BOX", points)
    x, w, y = random(2, 3, 6, 7), random(4, 3, 3, 2, seed=1), random(2, 4, 3, 7, seed=2)
    (found,) = run(CONVOLUTION, x, w, y)
    np.testing.assert_allclose(found, convolution(x, w, y), rtol=1e-5, atol=1e-5)


def test_boxes_cover_a_space_once() -> None:
    seen = np.zeros((5, 1, 7), int)
    for box in structured_ops.boxes((5, 1, 7), 4):
        assert box.points <= 4
        seen[tuple(slice(s, s + e) for s, e in zip(box.starts, box.extents, strict=True))] += 1
    assert (seen == 1).all()
    assert list(structured_ops.boxes((3, 0), 4)) == []
    assert [box.points for box in structured_ops.boxes((), 4)] == [1]


def test_contract_counts_dimensions_that_no_input_uses() -> None:
    (found,) = run(
        """
        func.func @main(%a: tensor<2xf32>, %b: tensor<f32>, %o: tensor<2x2xf32>) -> tensor<2x2xf32> {
          %0 = kernel.contract bounds [m = 2, n = 2, k = 3] ins(%a[m], %b[] : tensor<2xf32>, tensor<f32>)
                                                            outs(%o[m, n] : tensor<2x2xf32>)
          func.return %0 : tensor<2x2xf32>
        }""",
        np.array([1, 2], np.float32),
        np.array(10, np.float32),
        np.array([[0, 1], [0, 1]], np.float32),
    )
    np.testing.assert_array_equal(found, [[30, 31], [60, 61]])


def test_infinities_and_nan_are_values_like_others() -> None:
    (found,) = run(
        """
        func.func @main(%a: tensor<2x2xf32>, %b: tensor<2xf32>, %o: tensor<2xf32>) -> tensor<2xf32> {
          %0 = kernel.contract bounds [m = 2, k = 2] ins(%a[m, k], %b[k] : tensor<2x2xf32>, tensor<2xf32>)
                                                     outs(%o[m] : tensor<2xf32>)
          func.return %0 : tensor<2xf32>
        }""",
        np.array([[np.inf, 1], [3e38, 1]], np.float32),
        np.array([0, 3e38], np.float32),
        np.array([0, 3e38], np.float32),
    )
    np.testing.assert_array_equal(found, [np.nan, np.inf])


def test_contract_of_narrow_integers_wraps_in_the_type_of_the_out() -> None:
    text = """
      func.func @main(%a: tensor<2xi8>, %o: tensor<TYPE>) -> tensor<TYPE> {
        %0 = kernel.contract bounds [k = 2] ins(%a[k], %a[k] : tensor<2xi8>, tensor<2xi8>) outs(%o[] : tensor<TYPE>)
        func.return %0 : tensor<TYPE>
      }"""
    a = np.array([100, 100], np.int8)
    assert run(text.replace("TYPE", "i32"), a, np.array(1, np.int32)) == [20001]
    assert run(text.replace("TYPE", "i8"), a, np.array(1, np.int8)) == [np.array(20001).astype(np.int8)]


def test_a_map_keeps_what_it_does_not_write() -> None:
    (found,) = run(
        """
        func.func @main(%x: tensor<2xf32>, %o: tensor<6xf32>) -> tensor<6xf32> {
          %0 = kernel.map bounds [i = 2] ins(%x[1 - i] : tensor<2xf32>) outs(%o[2 * i + 1] : tensor<6xf32>) {
          ^bb0(%a: f32, %old: f32):
            %s = arith.addf %a, %old : f32
            kernel.yield %s : f32
          }
          func.return %0 : tensor<6xf32>
        }""",
        np.array([10, 20], np.float32),
        np.arange(6, dtype=np.float32),
    )
    np.testing.assert_array_equal(found, [0, 21, 2, 13, 4, 5])


def test_padded_read_of_an_empty_tensor_is_all_padding() -> None:
    (found,) = run(
        """
        func.func @main(%x: tensor<0xi8>, %o: tensor<3xi8>) -> tensor<3xi8> {
          %0 = kernel.map bounds [i = 3] ins(%x[i - 1] pad -7 : i8 : tensor<0xi8>) outs(%o[i] : tensor<3xi8>) {
          ^bb0(%a: i8, %old: i8):
            kernel.yield %a : i8
          }
          func.return %0 : tensor<3xi8>
        }""",
        np.zeros(0, np.int8),
        np.zeros(3, np.int8),
    )
    np.testing.assert_array_equal(found, [-7, -7, -7])


ARG_MAX = """
func.func @main(%x: tensor<3x4xf32>, %v: tensor<3xf32>, %p: tensor<3xindex>) -> (tensor<3xf32>, tensor<3xindex>) {
  %0, %1 = kernel.reduce bounds [m = 3, n = 4] ins(%x[m, n] : tensor<3x4xf32>)
                         outs(%v[m], %p[m] : tensor<3xf32>, tensor<3xindex>) {
  ^bb0(%a: f32, %best: f32, %at: index):
    %more = arith.cmpf ogt, %a, %best : f32
    %here = kernel.index 1
    %next = arith.select %more, %a, %best : f32
    %where = arith.select %more, %here, %at : index
    kernel.yield %next, %where : f32, index
  }
  func.return %0, %1 : tensor<3xf32>, tensor<3xindex>
}"""


@pytest.mark.parametrize("points", [1 << 22, 3])
def test_a_reduce_of_any_body_folds_in_order(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured_ops, "POINTS_PER_BOX", points)
    x = np.array([[1, 5, 2, 5], [-1, -2, -3, -4], [0, 0, 9, 1]], np.float32)
    values, positions = run(ARG_MAX, x, np.full(3, -np.inf, np.float32), np.zeros(3, np.int64))
    np.testing.assert_array_equal(values, [5, -1, 9])
    np.testing.assert_array_equal(positions, [1, 0, 2])


REDUCE = """
func.func @main(%x: tensor<2x5xTYPE>, %o: tensor<2xTYPE>) -> tensor<2xTYPE> {
  %0 = kernel.reduce bounds [m = 2, n = 5] ins(%x[m, n] : tensor<2x5xTYPE>) outs(%o[m] : tensor<2xTYPE>) {
  ^bb0(%a: TYPE, %acc: TYPE):
    %r = OP %acc, %a : TYPE
    kernel.yield %r : TYPE
  }
  func.return %0 : tensor<2xTYPE>
}"""


@pytest.mark.parametrize(
    "op, x, init, expected",
    [
        ("arith.addf", [[1, 2, 3, 4, 5], [np.inf, 1, 1, 1, -np.inf]], 0.5, [15.5, np.nan]),
        ("arith.maximumf", [[1, np.nan, 3, 4, 5], [-1, -2, -3, -4, -5]], -np.inf, [np.nan, -1]),
        ("arith.maxnumf", [[1, np.nan, 3, 4, 5], [-1, -2, -3, -4, -5]], -np.inf, [5, -1]),
        ("arith.minimumf", [[1, 2, np.nan, 4, 5], [-1, -2, -3, -4, -5]], np.inf, [np.nan, -5]),
    ],
)
def test_float_reductions(op: str, x: list[list[float]], init: float, expected: list[float]) -> None:
    text = REDUCE.replace("TYPE", "f32").replace("OP", op)
    (found,) = run(text, np.array(x, np.float32), np.full(2, init, np.float32))
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


@pytest.mark.parametrize(
    "op, init, expected",
    [
        ("arith.addi", 1, [(200 + 1 + 2 + 3 + 4 + 1) % 256, 6]),
        ("arith.muli", 1, [200 * 24 % 256, 1]),
        ("arith.maxui", 0, [200, 1]),
        ("arith.maxsi", -128, [4, 1]),
        ("arith.minsi", 127, [200, 1]),
        ("arith.minui", 255, [1, 1]),
        ("arith.xori", 0, [200 ^ 1 ^ 2 ^ 3 ^ 4, 1]),
    ],
)
def test_integer_reductions_by_the_signedness_of_the_op(op: str, init: int, expected: list[int]) -> None:
    text = REDUCE.replace("TYPE", "i8").replace("OP", op)
    x = np.array([[200, 1, 2, 3, 4], [1] * 5], np.uint8).view(np.int8)
    (found,) = run(text, x, np.full(2, np.array(init).astype(np.int8)))
    np.testing.assert_array_equal(found.view(np.uint8), expected)


def scalar(body: str, *inputs: np.ndarray) -> np.ndarray:
    """The elementwise result of a body `%r = ...` of `%a`, `%b` with types written as `A` and `R`."""
    types = {"bool": "i1", "int8": "i8", "int32": "i32", "int64": "i64", "float32": "f32", "float16": "f16"}
    operation, result = body.rsplit("->", 1)
    element = types[inputs[0].dtype.name]
    operands = [f"%{name}" for name, _ in zip("ab", inputs, strict=False)]
    n = inputs[0].size
    arguments = ", ".join(f"{name}x: tensor<{n}x{element}>" for name in operands)
    text = f"""
      func.func @main({arguments}) -> tensor<{n}x{result.strip()}> {{
        %o = tensor.empty() : tensor<{n}x{result.strip()}>
        %0 = kernel.map bounds [i = {n}] ins({", ".join(f"{name}x[i]" for name in operands)}
             : {", ".join([f"tensor<{n}x{element}>"] * len(operands))}) outs(%o[i] : tensor<{n}x{result.strip()}>) {{
        ^bb0({", ".join(f"{name}: {element}" for name in operands)}, %old: {result.strip()}):
          %r = {operation.replace("A", element)}
          kernel.yield %r : {result.strip()}
        }}
        func.return %0 : tensor<{n}x{result.strip()}>
      }}"""
    (found,) = run(text, *inputs)
    return found


I8 = np.array([-128, -127, -1, 0, 1, 127], np.int8)
U8 = I8.view(np.uint8)
POISON = np.int8(-52)  # 0xCC


@pytest.mark.parametrize(
    "op, expected",
    [
        ("arith.addi", I8.astype(int) + 3),
        ("arith.muli", I8.astype(int) * 3),
        ("arith.divsi", np.trunc(I8 / 3)),
        ("arith.divui", U8 // 3),
        ("arith.remsi", np.fmod(I8, 3)),
        ("arith.remui", U8 % 3),
        ("arith.maxsi", np.maximum(I8, 3)),
        ("arith.maxui", np.maximum(U8, 3)),
        ("arith.minui", np.minimum(U8, 3)),
        ("arith.shli", I8.astype(int) << 3),
        ("arith.shrsi", I8 >> 3),
        ("arith.shrui", U8 >> 3),
        ("arith.xori", I8 ^ 3),
    ],
)
def test_integer_ops(op: str, expected: np.ndarray) -> None:
    found = scalar(f"{op} %a, %b : A -> i8", I8, np.full(6, 3, np.int8))
    np.testing.assert_array_equal(found, expected.astype(np.int64).astype(np.int8))


@pytest.mark.parametrize("op", ["arith.divsi", "arith.divui", "arith.remsi"])
def test_division_by_zero_shows(op: str) -> None:
    assert (scalar(f"{op} %a, %b : A -> i8", I8, np.zeros(6, np.int8)) == POISON).all()


def test_a_shift_by_the_width_shows() -> None:
    assert (scalar("arith.shli %a, %b : A -> i8", I8, np.full(6, 8, np.int8)) == POISON).all()


@pytest.mark.parametrize(
    "predicate, function", [("slt", np.less), ("sge", np.greater_equal), ("eq", np.equal)]
)
def test_signed_comparisons(predicate: str, function: np.ufunc) -> None:
    found = scalar(f"arith.cmpi {predicate}, %a, %b : A -> i1", I8, np.ones(6, np.int8))
    np.testing.assert_array_equal(found, function(I8, 1))


def test_comparisons_of_bools_know_that_true_is_minus_one_or_one() -> None:
    true, false = np.array([True]), np.array([False])
    assert scalar("arith.cmpi slt, %a, %b : A -> i1", true, false).all()
    assert scalar("arith.cmpi ult, %a, %b : A -> i1", false, true).all()


@pytest.mark.parametrize(
    "predicate, expected",
    [
        ("oeq", [0, 1, 0]),
        ("olt", [1, 0, 0]),
        ("oge", [0, 1, 0]),
        ("one", [1, 0, 0]),
        ("ord", [1, 1, 0]),
        ("ueq", [0, 1, 1]),
        ("ugt", [0, 0, 1]),
        ("une", [1, 0, 1]),
        ("uno", [0, 0, 1]),
        ("ule", [1, 1, 1]),
        ("false", [0, 0, 0]),
        ("true", [1, 1, 1]),
    ],
)
def test_float_comparisons(predicate: str, expected: list[int]) -> None:
    a, b = np.array([1, 2, np.nan], np.float32), np.array([2, 2, 2], np.float32)
    np.testing.assert_array_equal(
        scalar(f"arith.cmpf {predicate}, %a, %b : A -> i1", a, b), np.array(expected, bool)
    )


@pytest.mark.parametrize(
    "cast, x, expected",
    [
        ("arith.extsi %a : A to i32 -> i32", I8, I8),
        ("arith.extui %a : A to i32 -> i32", I8, U8),
        ("arith.uitofp %a : A to f32 -> f32", I8, U8),
        ("arith.sitofp %a : A to f32 -> f32", I8, I8),
        ("arith.extui %a : A to i8 -> i8", np.array([True, False]), [1, 0]),
        ("arith.extsi %a : A to i8 -> i8", np.array([True, False]), [-1, 0]),
        ("arith.trunci %a : A to i8 -> i8", np.array([257, -1, 300]), [1, -1, 44]),
        ("arith.trunci %a : A to i1 -> i1", np.array([2, 3]), [False, True]),
        (
            "arith.fptosi %a : A to i8 -> i8",
            np.array([-1.9, 127.5, 128, np.nan], np.float32),
            [-1, 127, POISON, POISON],
        ),
        ("arith.fptoui %a : A to i8 -> i8", np.array([-0.9, 255.5, 256], np.float32), [0, -1, POISON]),
        (
            "arith.truncf %a : A to f16 -> f16",
            np.array([1e6, 0.1], np.float32),
            np.array([np.inf, 0.1], np.float16),
        ),
        ("arith.bitcast %a : A to i32 -> i32", np.array([1.0], np.float32), [0x3F800000]),
    ],
)
def test_casts(cast: str, x: np.ndarray, expected: object) -> None:
    np.testing.assert_array_equal(scalar(cast, x), expected)


def test_integer_powers() -> None:
    a, b = np.array([2, -1, 1, 3, 0, 0]), np.array([3, -3, -2, -1, 0, -1])
    poison = np.frombuffer(b"\xcc" * 8, np.int64)[0]
    np.testing.assert_array_equal(scalar("math.ipowi %a, %b : A -> i64", a, b), [8, -1, 1, 0, 1, poison])


@pytest.mark.parametrize(
    "op, expected",
    [
        ("math.erf", [0.0, 0.5204998778, -0.8427007929]),
        ("math.rsqrt", [np.inf, 2**0.5, np.nan]),
        ("math.round", [0, 1, -1]),
        ("math.roundeven", [0, 0, -1]),
        ("math.tanh", np.tanh([0.0, 0.5, -1.0])),
    ],
)
def test_math(op: str, expected: list[float]) -> None:
    found = scalar(f"{op} %a : A -> f32", np.array([0.0, 0.5, -1.0], np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_undefined_contents_are_poisoned() -> None:
    nan, number, flag = run(
        """
        func.func @main() -> (tensor<2xf16>, tensor<2xi32>, tensor<1xi1>) {
          %0 = tensor.empty() : tensor<2xf16>
          %1 = tensor.empty() : tensor<2xi32>
          %2 = tensor.empty() : tensor<1xi1>
          func.return %0, %1, %2 : tensor<2xf16>, tensor<2xi32>, tensor<1xi1>
        }"""
    )
    assert np.isnan(nan).all() and (number == -0x33333334).all() and flag.all()


def test_control_flow() -> None:
    # Powers of two below the limit, their sum, and which branch was taken.
    total, number = run(
        """
        func.func @main(%limit: tensor<i64>, %flag: tensor<i1>) -> (tensor<4xi64>, tensor<4xi64>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c4 = arith.constant 4 : index
          %one = arith.constant 1 : i64
          %two = arith.constant 2 : i64
          %e = tensor.empty() : tensor<4xi64>
          %max = tensor.extract %limit[] : tensor<i64>
          %last = scf.while (%p = %one) : (i64) -> i64 {
            %less = arith.cmpi slt, %p, %max : i64
            scf.condition(%less) %p : i64
          } do {
          ^bb0(%q: i64):
            %next = arith.muli %q, %two : i64
            scf.yield %next : i64
          }
          %filled = kernel.fill %last : i64 outs(%e : tensor<4xi64>)
          %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %filled) -> (tensor<4xi64>) {
            %part = tensor.extract_slice %t[%i] [1] [1] : tensor<4xi64> to tensor<1xi64>
            %k = arith.index_cast %i : index to i64
            %row = kernel.fill %k : i64 outs(%part : tensor<1xi64>)
            %u = tensor.insert_slice %row into %t[%i] [1] [1] : tensor<1xi64> into tensor<4xi64>
            scf.yield %u : tensor<4xi64>
          }
          %f = tensor.extract %flag[] : tensor<i1>
          %chosen = scf.if %f -> (tensor<4xi64>) {
            scf.yield %filled : tensor<4xi64>
          } else {
            scf.yield %sum : tensor<4xi64>
          }
          func.return %sum, %chosen : tensor<4xi64>, tensor<4xi64>
        }""",
        np.array(100),
        np.array(True),
    )
    np.testing.assert_array_equal(total, [0, 1, 2, 3])
    np.testing.assert_array_equal(number, [128] * 4)


def test_slices_with_strides_and_dropped_dimensions() -> None:
    (found,) = run(
        """
        func.func @main(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
          %row = tensor.extract_slice %x[1, 4] [1, 3] [1, -2] : tensor<4x5xf32> to tensor<3xf32>
          %y = tensor.insert_slice %row into %x[3, 0] [1, 3] [1, 2] : tensor<3xf32> into tensor<4x5xf32>
          func.return %y : tensor<4x5xf32>
        }""",
        np.arange(20, dtype=np.float32).reshape(4, 5),
    )
    expected = np.arange(20, dtype=np.float32).reshape(4, 5)
    expected[3, 0::2] = expected[1, 4::-2]
    np.testing.assert_array_equal(found, expected)


def test_interface_names_and_unsigned_types() -> None:
    text = """
      func.func @main(%x: tensor<2xi8> {mlopt.name = "x:0", mlopt.dtype = "uint8"})
          -> (tensor<2xi8> {mlopt.name = "y:0", mlopt.dtype = "uint8"}) {
        func.return %x : tensor<2xi8>
      }"""
    module = parse_module(text, make_context())
    found = evaluate_module(module, {"x:0": np.array([1, 255], np.uint8)}, WeightStore())
    assert found["y:0"].dtype == np.uint8
    np.testing.assert_array_equal(found["y:0"], [1, 255])
    with pytest.raises(InputError, match=r"input 'x:0': expected uint8\[2\], found int8\[2\]"):
        evaluate_module(module, {"x:0": np.array([1, 2], np.int8)}, WeightStore())


def test_weights_and_run_time_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    store = WeightStore()
    store.add(np.array([3, 1, 2], np.float32), "w")
    text = """
      func.func @main() -> tensor<3xf32> {
        %w = kernel.constant #mlopt.weight<"w"> : tensor<3xf32>
        %e = tensor.empty() : tensor<3xf32>
        %y = kernel.call @mlopt_rt_reversed ins(%w : tensor<3xf32>) outs(%e : tensor<3xf32>)
          attributes {factor = 2 : i64} -> tensor<3xf32>
        func.return %y : tensor<3xf32>
      }"""
    module = parse_module(text, make_context())
    with pytest.raises(UnsupportedError, match="there is no run-time function '@mlopt_rt_reversed'"):
        evaluate_module(module, {}, store)
    monkeypatch.setitem(RUNTIME_FUNCTIONS, Reversed.NAME, Reversed)
    np.testing.assert_array_equal(evaluate_module(module, {}, store)["result0"], [4, 2, 6])
    with pytest.raises(RunError, match="weight 'w' is not in the store"):
        evaluate_module(module, {}, WeightStore())


@pytest.mark.parametrize(
    "text, error",
    [
        ("func.func @other() { func.return }", "the module has no function @main"),
        ("func.func @main(%x: tensor<2xf32>) { func.return }", "input 'arg0' is missing"),
        (
            "func.func @main() { %0 = arith.constant 5 : index %t = tensor.empty() : tensor<4xf32>"
            " %s = tensor.extract_slice %t[%0] [2] [1] : tensor<4xf32> to tensor<2xf32> func.return }",
            "the slice reaches from 5 to 6 on axis 0 of size 4",
        ),
        (
            "func.func @main() { %0 = arith.constant 5 : index %t = tensor.empty() : tensor<4xf32>"
            " %s = tensor.extract %t[%0] : tensor<4xf32> func.return }",
            "index 5 is out of bounds for axis 0 of size 4",
        ),
        (
            "func.func @main() { %0 = arith.constant 5 : i32 %1 = math.ctpop %0 : i32 func.return }",
            "the scalar operation 'math.ctpop' is not known",
        ),
    ],
)
def test_errors_are_sentences(text: str, error: str) -> None:
    module = parse_module(text, make_context())
    with pytest.raises(MloptError, match=error):
        evaluate_module(module, {}, WeightStore())
