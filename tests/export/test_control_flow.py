"""Branches and loops as If and Loop: onnxruntime gives the same, and so does mlopt on the export."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mlopt
from mlopt.diagnostics import UnsupportedError
from mlopt.export import to_onnx
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore
from tests.frontend import test_control_flow as imported
from tests.frontend import test_recurrent as recurrent
from tests.frontend.all_levels import model_from
from tests.frontend.onnx_models import assert_close, run_onnxruntime

Arrays = dict[str, np.ndarray]
X = np.arange(3, dtype=np.float32)
AS_IMPORTED = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=False))


def check(model: onnx.ModelProto, inputs: Arrays) -> onnx.ModelProto:
    """As imported and optimised, the export gives what the original gives; returns the optimised one."""
    want, exported = run_onnxruntime(model, inputs), model
    for options in (AS_IMPORTED, mlopt.CompileOptions()):
        compilation = mlopt.compile(model, options=options, inputs=inputs).compilation
        exported = to_onnx(compilation.levels["graph"], compilation.ctx.weights)
        onnx.checker.check_model(exported, full_check=True)
        assert_close(run_onnxruntime(exported, inputs), want)
        assert_close(mlopt.compile(exported, inputs=inputs).run(inputs), want)
    return exported


def body_of(model: onnx.ModelProto, op_type: str, attribute: str = "body") -> onnx.GraphProto:
    """The graph inside the one node of that type."""
    (node,) = (node for node in model.graph.node if node.op_type == op_type)
    return next(a.g for a in node.attribute if a.name == attribute)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch(condition: bool) -> None:
    """A branch that is a constant is a copy of an initializer of the outermost graph."""
    inputs = {"x": np.float32([9, 8]), "c": np.array(condition)}
    exported = check(model_from(imported.IF), inputs)
    branch = body_of(exported, "If", "then_branch")
    assert [node.op_type for node in branch.node] == ["Identity"] and not branch.initializer


@pytest.mark.parametrize(("trips", "go"), [(3, True), (0, True), (3, False), (-2, True)])
def test_a_counted_loop_sees_what_is_around_it(trips: int, go: bool) -> None:
    inputs = {"x": np.float32([1, 2]), "trips": np.array(trips), "go": np.array(go)}
    check(model_from(imported.CAPTURE), inputs)


@pytest.mark.parametrize(("limit", "most"), [(9, 100), (9, 2), (-1, 5), (9, 0)])
def test_a_loop_that_its_body_ends(limit: float, most: int) -> None:
    inputs = {"x": X, "limit": np.array(limit, np.float32), "most": np.array(most)}
    check(model_from(imported.WHILE), inputs)


@pytest.mark.parametrize("trips", [1, 4])
def test_what_a_loop_collects_is_a_scan_output(trips: int) -> None:
    exported = check(model_from(imported.SCAN_OUTPUTS.replace("TRIPS", str(trips))), {"x": X})
    if trips > 1:
        body = body_of(exported, "Loop")
        assert (len(body.input), len(body.output)) == (2 + 1, 1 + 1 + 2)


@pytest.mark.parametrize("backwards", [0, 1])
def test_axes_and_directions_of_what_is_collected(backwards: int) -> None:
    x, z = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(8, dtype=np.float32).reshape(4, 2)
    exported = check(model_from(imported.RUNNING_SUM.replace("D", str(backwards))), {"h": X, "x": x, "z": z})
    assert len(body_of(exported, "Loop").output) == 1 + 1 + 2


@pytest.mark.parametrize("op_type", recurrent.GATES)
def test_recurrent_layers(op_type: str) -> None:
    """Both directions, with lengths."""
    arrays = recurrent.arrays_for(op_type, 2, "B", "initial_h", lengths=[2, 4, 3])
    exported = check(
        recurrent.model_for(op_type, arrays, direction="bidirectional"), recurrent.inputs_of(arrays)
    )
    assert sum(node.op_type == "Loop" for node in exported.graph.node) == 2


@pytest.mark.parametrize("trips", [0, 1, 2])
def test_values_that_a_body_only_passes_on(trips: int) -> None:
    """Arguments that change places, one that is given twice, and one from outside: graphs of ONNX give copies."""
    text = """
    g (float[3] x, float[3] z, int64 n) => (float[3] y, float[3] w, float[3] u, float[3] v) {
      y, w, u, v = Loop(n, "", x, z, x, x) <
        body = b (int64 i, bool c, float[3] p, float[3] q, float[3] r, float[3] s)
            => (bool c, float[3] q2, float[3] p2, float[3] p3, float[3] z2)
        { q2 = Identity(q) p2 = Identity(p) p3 = Identity(p) z2 = Identity(z) }
      >
    }"""
    check(model_from(text), {"x": X, "z": X + 5, "n": np.array(trips)})


@pytest.mark.parametrize("picked", [True, False])
def test_a_branch_in_a_loop(picked: bool) -> None:
    text = """
    g (float[3] x, int64 n, bool p) => (float[3] y) {
      y = Loop(n, "", x) <body = b (int64 i, bool c, float[3] a) => (bool c, float[3] an) {
        an = If(p) <
          then_branch = t () => (float[3] r) { r = Add(a, x) },
          else_branch = e () => (float[3] s) { q = Mul(a, x) s = Neg(q) }
        >
      }>
    }"""
    check(model_from(text), {"x": X, "n": np.array(3), "p": np.array(picked)})


def export(text: str) -> onnx.ModelProto:
    module = parse_module(text, make_context(), "m.mlir")
    module.verify()
    model = to_onnx(module, WeightStore())
    onnx.checker.check_model(model, full_check=True)
    return model


NUMBERS = """
func.func @main(%x: tensor<i64> {{mlopt.name = "x"}}, %y: tensor<i64> {{mlopt.name = "y"}})
    -> (tensor<{type}> {{mlopt.name = "z"}}) {{
  %a = tensor.extract %x[] : tensor<i64>
  %b = tensor.extract %y[] : tensor<i64>
  %zero = arith.constant 0 : i64
  %p = arith.cmpi slt, %a, %zero : i64
  %q = arith.cmpi slt, %b, %zero : i64
  %r = {op}
  %z = tensor.from_elements %r : tensor<{type}>
  func.return %z : tensor<{type}>
}}"""


@pytest.mark.parametrize(
    ("op", "type", "right"),
    [
        ("arith.addi %a, %b : i64", "i64", -4),
        ("arith.subi %a, %b : i64", "i64", -10),
        ("arith.muli %a, %b : i64", "i64", -21),
        ("arith.maxsi %a, %b : i64", "i64", 3),
        ("arith.minsi %a, %b : i64", "i64", -7),
        ("arith.andi %a, %b : i64", "i64", -7 & 3),
        ("arith.ori %a, %b : i64", "i64", -7 | 3),
        ("arith.xori %a, %b : i64", "i64", -7 ^ 3),
        ("arith.andi %p, %q : i1", "i1", False),
        ("arith.ori %p, %q : i1", "i1", True),
        ("arith.xori %p, %q : i1", "i1", True),
        ("arith.cmpi eq, %a, %b : i64", "i1", False),
        ("arith.cmpi ne, %a, %b : i64", "i1", True),
        ("arith.cmpi slt, %a, %b : i64", "i1", True),
        ("arith.cmpi sle, %a, %b : i64", "i1", True),
        ("arith.cmpi sgt, %a, %b : i64", "i1", False),
        ("arith.cmpi sge, %a, %b : i64", "i1", False),
        ("arith.cmpi eq, %p, %q : i1", "i1", False),
        ("arith.select %p, %b, %a : i64", "i64", 3),
    ],
)
def test_scalars(op: str, type: str, right: int | bool) -> None:
    """For -7 and 3."""
    text = NUMBERS.format(op=op, type=type)
    model = export(text)
    inputs = {"x": np.array(-7), "y": np.array(3)}
    assert run_onnxruntime(model, inputs)["z"] == right


@pytest.mark.parametrize("op", ["arith.cmpi ult, %a, %b : i64", "arith.cmpi slt, %p, %q : i1"])
def test_comparisons_without_a_form_are_named(op: str) -> None:
    with pytest.raises(UnsupportedError, match=r"'arith.cmpi': .* has no form in ONNX"):
        export(NUMBERS.format(op=op, type="i1"))


@pytest.mark.parametrize(("first", "last", "step"), [(0, 7, 1), (2, 9, 3), (2, 8, 3), (5, 2, 1), (-3, 3, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_positions_of_a_loop(first: int, last: int, step: int, known: bool) -> None:
    """1000 trips + the sum of all positions, as of a `range` in Python."""
    bounds = "\n".join(
        f"%{name} = arith.constant {value} : i64"
        if known
        else f"%{name} = tensor.extract %{name}_[] : tensor<i64>"
        for name, value in (("first", first), ("last", last), ("step", step))
    )
    text = f"""
    func.func @main(%first_: tensor<i64> {{mlopt.name = "first"}}, %last_: tensor<i64> {{mlopt.name = "last"}},
                    %step_: tensor<i64> {{mlopt.name = "step"}}) -> (tensor<i64> {{mlopt.name = "y"}}) {{
      {bounds}
      %many = arith.constant 1000 : i64
      %zero = arith.constant 0 : i64
      %sum = scf.for %i = %first to %last step %step iter_args(%s = %zero) -> (i64) : i64 {{
        %t = arith.addi %s, %i : i64
        %u = arith.addi %t, %many : i64
        scf.yield %u : i64
      }}
      %y = tensor.from_elements %sum : tensor<i64>
      func.return %y : tensor<i64>
    }}"""
    model = export(text)
    inputs = {name: np.array(value) for name, value in (("first", first), ("last", last), ("step", step))}
    assert run_onnxruntime(model, inputs)["y"] == 1000 * len(range(first, last, step)) + sum(
        range(first, last, step)
    )


def test_slices_at_positions_that_are_computed() -> None:
    """Two axes are cut; the rest of the tensor stays as it is."""
    text = """
    func.func @main(%x: tensor<4x5x2xf32> {mlopt.name = "x"}, %p: tensor<2x2xf32> {mlopt.name = "p"},
                    %n: tensor<i64> {mlopt.name = "n"}) -> (tensor<4x5x2xf32> {mlopt.name = "y"}) {
      %e = tensor.extract %n[] : tensor<i64>
      %i = arith.index_cast %e : i64 to index
      %y = tensor.insert_slice %p into %x[%i, 2, 0] [1, 2, 2] [1, 1, 1] : tensor<2x2xf32> into tensor<4x5x2xf32>
      func.return %y : tensor<4x5x2xf32>
    }"""
    x, p = np.arange(40, dtype=np.float32).reshape(4, 5, 2), -np.ones((2, 2), np.float32)
    for row in (0, 3):
        want = x.copy()
        want[row, 2:4] = p
        model = export(text)
        assert_close(run_onnxruntime(model, {"x": x, "p": p, "n": np.array(row)}), {"y": want})


def test_elements_at_positions_that_are_computed() -> None:
    text = """
    func.func @main(%x: tensor<4x5xf32> {mlopt.name = "x"}, %n: tensor<i64> {mlopt.name = "n"})
        -> (tensor<1x2xf32> {mlopt.name = "y"}) {
      %e = tensor.extract %n[] : tensor<i64>
      %i = arith.index_cast %e : i64 to index
      %one = arith.constant 1 : index
      %a = tensor.extract %x[%i, %one] : tensor<4x5xf32>
      %b = tensor.extract %x[%one, %i] : tensor<4x5xf32>
      %y = tensor.from_elements %a, %b : tensor<1x2xf32>
      func.return %y : tensor<1x2xf32>
    }"""
    model = export(text)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    assert_close(run_onnxruntime(model, {"x": x, "n": np.array(3)}), {"y": np.float32([[16, 8]])})


def test_a_while_loop_that_changes_what_it_carries_before_it_tests() -> None:
    """Doubled until it is above 20, then reported doubled once more by the test: 3, 6, 12, 24 and out."""
    text = """
    func.func @main(%x: tensor<i64> {mlopt.name = "x"}) -> (tensor<i64> {mlopt.name = "y"}) {
      %a = tensor.extract %x[] : tensor<i64>
      %limit = arith.constant 20 : i64
      %r = scf.while (%s = %a) : (i64) -> i64 {
        %t = arith.addi %s, %s : i64
        %more = arith.cmpi slt, %t, %limit : i64
        scf.condition(%more) %t : i64
      } do {
      ^bb0(%u: i64):
        scf.yield %u : i64
      }
      %y = tensor.from_elements %r : tensor<i64>
      func.return %y : tensor<i64>
    }"""
    model = export(text)
    assert run_onnxruntime(model, {"x": np.array(3)})["y"] == 24
    assert run_onnxruntime(model, {"x": np.array(50)})["y"] == 100


def test_names_are_distinct_in_all_graphs() -> None:
    exported = check(
        model_from(imported.CAPTURE), {"x": np.float32([1, 2]), "trips": np.array(2), "go": np.array(True)}
    )
    names: list[str] = []

    def collect(graph: onnx.GraphProto) -> None:
        names.extend(value.name for value in (*graph.input, *graph.initializer))
        for node in graph.node:
            names.extend(node.output)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    collect(attribute.g)

    collect(exported.graph)
    assert len(names) == len(set(names))
