"""What `reuse-in-place` overwrites and what it does not: each case runs with every destination really overwritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import scf, tensor
from xdsl.ir import BlockArgument

from mlopt.dialects.kernel import LaunchOp, MapOp
from tests.counting import count_calls
from tests.passes.kernel.support import BOTH, Result, check_numbers, evaluate_in_place, run_passes

REUSE = ("reuse-in-place",)


def overwritten(result: Result) -> list[tuple[str, str]]:
    """(kernel, operand that it overwrites) for each operand passed as a destination."""
    return [
        (launch.kernel_name.data, out.name_hint or "")
        for launch in result.launches
        for out in launch.outs
        if not isinstance(out.owner, tensor.EmptyOp)
    ]


def temporaries(result: Result) -> int:
    """How many tensors the launches need beside their operands."""
    return sum(isinstance(op, tensor.EmptyOp) for launch in result.launches for op in launch.walk())


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


# Between launches


def test_a_chain_of_maps() -> None:
    """Every map but the first, which reads an input, overwrites what it reads."""
    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %a = graph.exp %x : tensor<4xf32>
        %b = graph.tanh %a : tensor<4xf32>
        %c = graph.neg %b : tensor<4xf32>
        func.return %c : tensor<4xf32>
      }"""
    result = run_passes(text, *REUSE)
    assert overwritten(result) == [("tanh", "a"), ("neg", "b")]
    assert result.missed() == ["not reused in place: '%x' by 'exp': it is an argument of the function"]
    check_numbers(text, {"x": f32([1, -2, 3, 0.5])}, passes=REUSE)


def test_rows_are_read_before_they_are_overwritten() -> None:
    """Softmax and layer norm read all of a row before they write it: in place."""
    text = """
      func.func @main(%x: tensor<3x5xf32>, %g: tensor<5xf32>) -> tensor<3x5xf32> {
        %a = graph.tanh %x : tensor<3x5xf32>
        %b = graph.softmax %a axis = 1 : tensor<3x5xf32>
        %c = graph.layer_norm %b, %g axis = 1 epsilon = 1.0e-5 : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
        func.return %c : tensor<3x5xf32>
      }"""
    assert overwritten(run_passes(text, *REUSE)) == [("softmax", "a"), ("layer_norm", "b")]
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    check_numbers(text, {"x": x, "g": f32([1, 2, 3, 4, 5])}, passes=REUSE)


OBSTACLES = {
    # name: (ops on %x and %a = exp(%x), results, how the remark on %a ends)
    "used later": (
        """%y = graph.neg %a : tensor<2x2xf32>
        %z = graph.add %a, %y : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>""",
        "%z",
        "'neg': it, or what shares its memory, is also read by 'add'",
    ),
    "returned": ("%y = graph.neg %a : tensor<2x2xf32>", "%y, %a", "is also a function result"),
    "a reshape is read later": (
        """%f = graph.reshape %a : tensor<2x2xf32> to tensor<4xf32>
        %y = graph.neg %a : tensor<2x2xf32>
        %g = graph.reshape %f : tensor<4xf32> to tensor<2x2xf32>
        %z = graph.add %y, %g : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>""",
        "%z",
        "'neg': it, or what shares its memory, is also used by 'kernel.reshape'",
    ),
    "read transposed": (
        "%y = graph.transpose %a perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>",
        "%y",
        "the launch reads it elsewhere than at the element it writes",
    ),
    "read by a product": (
        "%y = graph.matmul %a, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
        "%y",
        "the launch reads it after its first write to the result",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_obstacles(name: str) -> None:
    ops, results, reason = OBSTACLES[name]
    types = ", ".join(["tensor<2x2xf32>"] * (1 + results.count(",")))
    text = f"""
      func.func @main(%x: tensor<2x2xf32>) -> ({types}) {{
        %a = graph.exp %x : tensor<2x2xf32>
        {ops}
        func.return {results} : {types}
      }}"""
    result = run_passes(text, *REUSE)
    (remark,) = [message for message in result.missed() if "'%a'" in message]
    assert remark.endswith(reason)
    assert ("a" in [operand for _, operand in overwritten(result)]) == (
        name == "used later"
    )  # there it is the last
    check_numbers(text, {"x": f32([[1, 2], [3, -4]])}, passes=REUSE)
    check_numbers(text, {"x": f32([[1, 2], [3, -4]])})


def test_a_view_of_what_is_overwritten() -> None:
    """M01: src = x + 0.25, left = src as [40] and back, right = x + 0.125, y = left + right; 0.375 everywhere."""
    text = """
      func.func @main(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
        %q = graph.constant dense<0.25> : tensor<f32>
        %e = graph.constant dense<0.125> : tensor<f32>
        %src = graph.add %x, %q : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xf32>
        %flat = graph.reshape %src : tensor<5x8xf32> to tensor<40xf32>
        %left = graph.reshape %flat : tensor<40xf32> to tensor<5x8xf32>
        %right = graph.add %x, %e : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xf32>
        %y = graph.add %left, %right : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
        func.return %y : tensor<5x8xf32>
      }"""
    for passes in (REUSE, BOTH):
        want = check_numbers(text, {"x": np.zeros((5, 8), np.float32)}, passes=passes)
        np.testing.assert_array_equal(want["result0"], np.full((5, 8), 0.375))
    assert overwritten(run_passes(text, *REUSE)) == [("add", "left")]


def test_two_views_of_one_buffer_in_one_launch() -> None:
    """y = b - transpose(a), where b is a reshaped, in one launch; right by numpy."""
    text = """
      func.func @main(%x: tensor<2x2xf32>) -> tensor<1x2x2xf32> {
        %a = graph.neg %x : tensor<2x2xf32>
        %b = graph.reshape %a : tensor<2x2xf32> to tensor<1x2x2xf32>
        %t = graph.transpose %a perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %y = graph.sub %b, %t : (tensor<1x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2xf32>
        func.return %y : tensor<1x2x2xf32>
      }"""
    x = f32([[1, 3], [2, 4]])
    np.testing.assert_array_equal(check_numbers(text, {"x": x})["result0"], [x.T - x])
    fused = run_passes(text, *BOTH)
    assert fused.kernels == ["neg", "sub"]
    assert overwritten(fused) == []


def test_an_unused_part() -> None:
    """M03: split x = [1, -2, 3, 4] in two, the second part unused; relu(first) = [1, 0]."""
    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
        %a, %b = graph.split %x axis = 0 : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
        %y = graph.relu %a : tensor<2xf32>
        func.return %y : tensor<2xf32>
      }"""
    for passes in (REUSE, BOTH):
        want = check_numbers(text, {"x": f32([1, -2, 3, 4])}, passes=passes)["result0"]
        np.testing.assert_array_equal(want, [1, 0])


def test_operands_that_are_one_buffer() -> None:
    """M07: t = x + 1; q = t * t in place; y = q + transpose(q) never; x = [[0, 1], [2, 3]]: [[2, 13], [13, 32]]."""
    text = """
      func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
        %one = graph.constant dense<1.0> : tensor<f32>
        %t = graph.add %x, %one : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
        %q = graph.mul %t, %t : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        %qt = graph.transpose %q perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %y = graph.add %q, %qt : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        func.return %y : tensor<2x2xf32>
      }"""
    for passes in (REUSE, BOTH):
        want = check_numbers(text, {"x": f32([[0, 1], [2, 3]])}, passes=passes)
        np.testing.assert_array_equal(want["result0"], [[2, 13], [13, 32]])
    assert ("mul", "t") in overwritten(run_passes(text, *REUSE))
    fused = run_passes(text, *BOTH)
    assert fused.kernels == ["add_mul_add"]
    assert temporaries(fused) == 1  # q, which is read in two orders


@pytest.mark.parametrize("shape", ["2", "1x2", "2x1"])
def test_an_operand_that_is_broadcast(shape: str) -> None:
    """M07: never in place when the operand is smaller than the result."""
    text = f"""
      func.func @main(%x: tensor<{shape}xf32>, %z: tensor<2x2xf32>) -> tensor<2x2xf32> {{
        %a = graph.exp %x : tensor<{shape}xf32>
        %y = graph.add %a, %z : (tensor<{shape}xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        func.return %y : tensor<2x2xf32>
      }}"""
    assert overwritten(run_passes(text, *REUSE)) == []
    x = np.arange(2, dtype=np.float32).reshape(tuple(map(int, shape.split("x"))))
    check_numbers(text, {"x": x, "z": f32([[1, 2], [3, 4]])}, passes=REUSE)


def test_a_shifted_slice_of_what_is_overwritten() -> None:
    """M08: b = x + 1, y = concat(b[0:1], b[0:3]); x = [0, 1, 2, 3] gives [1, 1, 2, 3]."""
    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %one = graph.constant dense<1.0> : tensor<f32>
        %b = graph.add %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %h = graph.slice %b starts = [0] stops = [1] : (tensor<4xf32>) -> tensor<1xf32>
        %t = graph.slice %b starts = [0] stops = [3] : (tensor<4xf32>) -> tensor<3xf32>
        %y = graph.concat %h, %t axis = 0 : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
      }"""
    for passes in (REUSE, BOTH):
        want = check_numbers(text, {"x": np.arange(4, dtype=np.float32)}, passes=passes)["result0"]
        np.testing.assert_array_equal(want, [1, 1, 2, 3])


def test_a_concatenation_that_reads_an_operand_twice() -> None:
    """M09: a = x + 1, b = 2 * x, concat(a, b, a); x = [[1, 2], [3, 4]]."""
    text = """
      func.func @main(%x: tensor<2x2xf32>) -> tensor<2x6xf32> {
        %one = graph.constant dense<1.0> : tensor<f32>
        %two = graph.constant dense<2.0> : tensor<f32>
        %a = graph.add %x, %one : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
        %b = graph.mul %x, %two : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
        %y = graph.concat %a, %b, %a axis = 1 : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x6xf32>
        func.return %y : tensor<2x6xf32>
      }"""
    for passes in (REUSE, BOTH):
        want = check_numbers(text, {"x": f32([[1, 2], [3, 4]])}, passes=passes)["result0"]
        np.testing.assert_array_equal(want, [[2, 3, 2, 4, 2, 3], [4, 5, 6, 8, 4, 5]])


def test_the_same_again() -> None:
    """M15: runs in a row give the same bits, and inputs keep theirs (they are read-only here)."""
    text = """
      func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
        %a = graph.softmax %x axis = 1 : tensor<3x5xf32>
        %b = graph.add %a, %x : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
        func.return %b : tensor<3x5xf32>
      }"""
    result = run_passes(text, *BOTH)
    inputs = [np.random.default_rng(seed).standard_normal((3, 5)).astype(np.float32) for seed in (1, 2)]
    first, *rest = [evaluate_in_place(result.module, [inputs[i]], result.context)[0] for i in (0, 0, 0, 1, 0)]
    for i in (0, 1, 3):
        np.testing.assert_array_equal(rest[i], first)


def test_work_grows_linearly() -> None:
    """Z01: four times as many maps in place take about four times the calls (a quadratic pass would take sixteen)."""

    def work(length: int) -> int:
        ops = "".join(f"%v{i + 1} = graph.exp %v{i} : tensor<4xf32>\n" for i in range(length))
        ops += f"func.return %v{length} : tensor<4xf32>"
        text = f"func.func @main(%v0: tensor<4xf32>) -> tensor<4xf32> {{ {ops} }}"

        def reuse() -> None:
            assert run_passes(text, *REUSE).count("operands-in-place") == length - 1

        return count_calls(reuse)

    work(20)
    assert work(400) < 5 * work(100)


# Inside launches


def test_intermediates_need_no_memory() -> None:
    text = """
      func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<6x4xf32> {
        %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
        %s = graph.add %m, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
        %t = graph.transpose %s perm = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
        %r = graph.relu %t : tensor<6x4xf32>
        func.return %r : tensor<6x4xf32>
      }"""
    result = run_passes(text, *BOTH)
    assert result.kernels == ["matmul_add_relu"]
    assert temporaries(result) == 0
    (launch,) = result.launches
    (op,) = [op for op in launch.body.ops if isinstance(op, MapOp)]
    assert [argument.name_hint for argument in op.ins] == ["rhs"]  # the bias; the product is the destination


def kernel(ops: str, ins: str = "%x", types: str = "tensor<4xf32>") -> str:
    """One launch of `ops`, which name its arguments %X and %O and yield %r."""
    return f"""
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
        %e = tensor.empty() : tensor<4xf32>
        %y = kernel.launch @k ins({ins} : {types}) outs(%e : tensor<4xf32>) {{
        ^bb0(%X: tensor<4xf32>, %O: tensor<4xf32>):
          {ops}
          kernel.yield %r : tensor<4xf32>
        }} -> tensor<4xf32>
        func.return %y : tensor<4xf32>
      }}"""


def map_of(result: str, reads: str, out: str, body: str = "%v = arith.negf %p : f32") -> str:
    """`result = map(reads)` over i < 4."""
    count = reads.count("[")
    arguments = ", ".join(f"%{name}: f32" for name in (*"pq"[:count], "o"))
    types = ", ".join(["tensor<4xf32>"] * count)
    return f"""
      %{result} = kernel.map bounds [i = 4] ins({reads} : {types}) outs({out} : tensor<4xf32>) {{
      ^bb1({arguments}):
        {body}
        kernel.yield %v : f32
      }}"""


ADD = "%v = arith.addf %p, %q : f32"

IN_LAUNCH = {
    # name: (ops, temporaries left)
    "chain": (
        "%t = tensor.empty() : tensor<4xf32>" + map_of("a", "%X[i]", "%t[i]") + map_of("r", "%a[i]", "%O[i]"),
        0,
    ),
    "read backwards": (
        "%t = tensor.empty() : tensor<4xf32>"
        + map_of("a", "%X[i]", "%t[i]")
        + map_of("r", "%a[3 - i]", "%O[i]"),
        1,
    ),
    "read in two orders": (
        "%t = tensor.empty() : tensor<4xf32>"
        + map_of("a", "%X[i]", "%t[i]")
        + map_of("r", "%a[i], %a[3 - i]", "%O[i]", ADD),
        1,
    ),
    "read again later": (
        "%t = tensor.empty() : tensor<4xf32> %u = tensor.empty() : tensor<4xf32>"
        + map_of("a", "%X[i]", "%t[i]")
        + map_of("b", "%a[i]", "%u[i]")
        + map_of("r", "%a[3 - i], %b[i]", "%O[i]", ADD),
        1,  # b is built in the result
    ),
    "captured by the body": (
        "%t = tensor.empty() : tensor<4xf32>"
        + map_of("a", "%X[i]", "%t[i]")
        + map_of(
            "r",
            "%a[i]",
            "%O[i]",
            "%c = arith.constant 1 : index %l = tensor.extract %a[%c] : tensor<4xf32> %v = arith.subf %p, %l : f32",
        ),
        1,
    ),
    "one temporary for two chains": (
        "%t = tensor.empty() : tensor<4xf32> %u = tensor.empty() : tensor<4xf32>"
        + map_of("a", "%X[i]", "%t[i]")
        + map_of("b", "%X[3 - i]", "%u[i]")
        + map_of("r", "%a[i], %b[i]", "%O[i]", ADD),
        1,
    ),
    "chain in the wrong place": (
        "%t = tensor.empty() : tensor<4xf32>" + map_of("r", "%X[i]", "%t[i]"),
        0,
    ),
}


@pytest.mark.parametrize("name", IN_LAUNCH)
def test_in_launch(name: str) -> None:
    ops, left = IN_LAUNCH[name]
    text = kernel(ops)
    result = run_passes(text, *REUSE, convert=False)
    assert temporaries(result) == left
    again = run_passes(result.text, *REUSE, convert=False)
    assert (again.changed, again.text) == ([False], result.text)
    check_numbers(text, {"x": f32([1, 2, 3, 5])}, convert=False, passes=REUSE)


# Loops


LOOP = """
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {trips} : index
    %e0 = tensor.empty() : tensor<4xf32>
    %outer = kernel.launch @double ins(%x : tensor<4xf32>) outs(%e0 : tensor<4xf32>) {{
    ^bb0(%X: tensor<4xf32>, %O: tensor<4xf32>):
      {double}
      kernel.yield %r : tensor<4xf32>
    }} -> tensor<4xf32>
    %y = scf.for %i = %c0 to %n step %c1 iter_args({carried} = {init}) -> (tensor<4xf32>) {{
      %e = tensor.empty() : tensor<4xf32>
      %next = kernel.launch @add ins(%acc, %outer : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {{
      ^bb0(%A: tensor<4xf32>, %B: tensor<4xf32>, %O: tensor<4xf32>):
        {add}
        kernel.yield %r : tensor<4xf32>
      }} -> tensor<4xf32>
      scf.yield %next : tensor<4xf32>
    }}
    func.return %y : tensor<4xf32>
  }}"""


@pytest.mark.parametrize(("trips", "want"), [(3, 7), (0, 1)])
def test_a_loop_updates_what_it_carries(trips: int, want: int) -> None:
    """M10: outer = x + x, then `trips` times acc += outer from x = 1: the accumulator, never outer, is overwritten."""
    text = LOOP.format(
        trips=trips,
        carried="%acc",
        init="%x",
        double=map_of("r", "%X[i]", "%O[i]", "%v = arith.addf %p, %p : f32"),
        add=map_of("r", "%A[i], %B[i]", "%O[i]", ADD),
    )
    result = run_passes(text, *BOTH, convert=False)
    (loop,) = [op for op in result.module.walk() if isinstance(op, scf.ForOp)]
    (launch,) = [op for op in loop.body.block.ops if isinstance(op, LaunchOp)]
    (out,) = launch.outs
    assert isinstance(out, BlockArgument) and out.block is loop.body.block
    got = check_numbers(text, {"x": np.ones(4, np.float32)}, convert=False)["result0"]
    np.testing.assert_array_equal(got, np.full(4, want))


def test_two_carried_tensors_that_start_as_one() -> None:
    """a and b start as x; a += b, twice: b is still x, so a = 3 * x."""
    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %y, %z = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x, %b = %x) -> (tensor<4xf32>, tensor<4xf32>) {
          %e = tensor.empty() : tensor<4xf32>
          %next = kernel.launch @add ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
          ^bb0(%A: tensor<4xf32>, %B: tensor<4xf32>, %O: tensor<4xf32>):
            OP
            kernel.yield %r : tensor<4xf32>
          } -> tensor<4xf32>
          scf.yield %next, %b : tensor<4xf32>, tensor<4xf32>
        }
        func.return %y : tensor<4xf32>
      }""".replace("OP", map_of("r", "%A[i], %B[i]", "%O[i]", ADD))
    assert overwritten(run_passes(text, *REUSE, convert=False)) == []
    got = check_numbers(text, {"x": f32([1, 2, 3, 4])}, convert=False, passes=REUSE)["result0"]
    np.testing.assert_array_equal(got, [3, 6, 9, 12])


def test_tiles_and_loops_in_a_launch() -> None:
    """Attention with an online softmax keeps its numbers, carried tensors overwritten; right by `tests/waist`."""
    text = (Path(__file__).parents[2] / "waist" / "attention_online_softmax.mlir").read_text()
    generator = np.random.default_rng(2)
    shapes = {"q": (7, 6), "k": (12, 6), "v": (12, 5)}
    inputs = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    check_numbers(text, inputs, convert=False)


@pytest.mark.parametrize("passes", [("reuse-in-place",), BOTH])
def test_what_has_no_contents_may_be_read(passes: tuple[str, ...]) -> None:
    """A launch, and @main, that read an uninitialised tensor: the value is undefined, the IR stays correct."""
    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %e = tensor.empty() : tensor<4xf32>
        %u = tensor.empty() : tensor<4xf32>
        %0 = kernel.launch @f ins(%x, %u : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
        ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %o: tensor<4xf32>):
          %inside = tensor.empty() : tensor<4xf32>
          %1 = kernel.map bounds [i = 4]
              ins(%a[i], %inside[i], %b[i] : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
              outs(%o[i] : tensor<4xf32>) {
          ^bb1(%p: f32, %q: f32, %r: f32, %s: f32):
            %t = arith.addf %p, %q : f32
            %v = arith.addf %t, %r : f32
            kernel.yield %p : f32
          }
          kernel.yield %1 : tensor<4xf32>
        } -> tensor<4xf32>
        func.return %0 : tensor<4xf32>
      }"""
    inputs = {"x": f32([1, 2, 3, 4])}
    (y,) = check_numbers(text, inputs, convert=False, passes=passes).values()
    np.testing.assert_array_equal(y, inputs["x"])
    assert run_passes(text, *passes, "convert-kernel-to-memref", convert=False).changed[-1]


def test_a_value_twice_in_a_concatenation_is_read_beside_where_it_is_written() -> None:
    """It is computed in the first of its two places, and moved from there into the other: no element is both."""
    text = """
      func.func @main(%x: tensor<2x3xf32>, %c: tensor<2x3xf32>) -> tensor<6x3xf32> {
        %e = graph.exp %x : tensor<2x3xf32>
        %s = graph.reduce_sum %e axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
        %n = graph.div %e, %s : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
        %y = graph.concat %n, %c, %n axis = 0
          : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
        func.return %y : tensor<6x3xf32>
      }"""
    result = run_passes(text, "fuse-kernels", "place-concats", "reuse-in-place")
    x, c = np.array([[0, 0, 0], [0, -np.inf, 0]], np.float32), np.ones((2, 3), np.float32)
    n = np.array([[1 / 3] * 3, [0.5, 0, 0.5]], np.float32)
    (got,) = evaluate_in_place(result.module, [x, c], result.context)
    np.testing.assert_array_equal(got, np.concatenate([n, c, n]))
