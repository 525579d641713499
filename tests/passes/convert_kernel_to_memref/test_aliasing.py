"""Faults that memory planners of other compilers had, as kernel-level programs with their right values.

Each case is a public report (named in the test) in our own words. The right values are those of SSA semantics: no value
ever changes after it was computed.
"""

from __future__ import annotations

import numpy as np

from mlopt.ir import print_module
from tests.memref_reference import run_memref
from tests.passes.lowering import check, lower


def f32(*values: object) -> np.ndarray:
    return np.array(values, np.float32)


def launch(
    result: str, ins: str, outs: str, types: str, bounds: str, maps: tuple[str, str], body: str
) -> str:
    """A launch of one map on `%A`, `%B`, ... into `%O`; `body` computes `%r` from the elements `%a`, `%b`, `%o`."""
    operands = [name.strip() for name in ins.split(",")]
    kinds = [kind.strip() for kind in types.split(";")]
    args = ", ".join(f"%{chr(65 + i)}: {kind}" for i, kind in enumerate(kinds[:-1]))
    scalars = ", ".join([f"%{chr(97 + i)}: f32" for i in range(len(operands))] + ["%o: f32"])
    return f"""
  {result} = kernel.launch @f ins({ins} : {", ".join(kinds[:-1])}) outs({outs} : {kinds[-1]}) {{
  ^bb0({args}, %O: {kinds[-1]}):
    %z = kernel.map bounds [{bounds}] ins({maps[0]} : {", ".join(kinds[:-1])}) outs({maps[1]} : {kinds[-1]}) {{
    ^bb1({scalars}):
      {body}
      kernel.yield %r : f32
    }}
    kernel.yield %z : {kinds[-1]}
  }} -> {kinds[-1]}"""


ADD_CONSTANT = "%c = arith.constant {} : f32\n %r = arith.addf %a, %c : f32"
MOVE = "%zero = arith.constant 0.0 : f32\n %r = arith.addf %a, %zero : f32"


def test_storage_is_not_reused_while_a_view_of_it_lives() -> None:
    """apache/tvm#20190: y = left + right where left is a reshape of a tensor whose last own use is earlier."""
    t, flat = "tensor<5x8xf32>", "tensor<40xf32>"
    elementwise = ("%A[m, n]", "%O[m, n]")
    text = f"""func.func @main(%x: {t} {{mlopt.name = "x"}}) -> ({t} {{mlopt.name = "y"}}) {{
  %e0 = tensor.empty() : {t}
  {launch("%src", "%x", "%e0", f"{t}; {t}", "m = 5, n = 8", elementwise, ADD_CONSTANT.format("0.25"))}
  %flat = kernel.reshape %src : {t} to {flat}
  %left = kernel.reshape %flat : {flat} to {t}
  %e1 = tensor.empty() : {t}
  {launch("%right", "%x", "%e1", f"{t}; {t}", "m = 5, n = 8", elementwise, ADD_CONSTANT.format("0.125"))}
  %e2 = tensor.empty() : {t}
  {
        launch(
            "%y",
            "%left, %right",
            "%e2",
            f"{t}; {t}; {t}",
            "m = 5, n = 8",
            ("%A[m, n], %B[m, n]", "%O[m, n]"),
            "%r = arith.addf %a, %b : f32",
        )
    }
  func.return %y : {t}
}}"""
    check(text, {"x": np.zeros((5, 8), np.float32)}, {"y": np.full((5, 8), 0.375, np.float32)})


def test_an_output_that_nobody_reads_has_its_own_space() -> None:
    """microsoft/onnxruntime PR 21019: the unused half of a split is still written while the other half is."""
    text = """func.func @main(%x: tensor<4xf32> {mlopt.name = "x"}) -> (tensor<2xf32> {mlopt.name = "y"}) {
  %e0 = tensor.empty() : tensor<2xf32>
  %e1 = tensor.empty() : tensor<2xf32>
  %first, %second = kernel.launch @split ins(%x : tensor<4xf32>) outs(%e0, %e1 : tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%X: tensor<4xf32>, %O: tensor<2xf32>, %P: tensor<2xf32>):
    %a = kernel.map bounds [n = 2] ins(%X[n] : tensor<4xf32>) outs(%O[n] : tensor<2xf32>) {
    ^bb1(%v: f32, %o: f32):
      kernel.yield %v : f32
    }
    %b = kernel.map bounds [n = 2] ins(%X[n + 2] : tensor<4xf32>) outs(%P[n] : tensor<2xf32>) {
    ^bb1(%v: f32, %o: f32):
      kernel.yield %v : f32
    }
    kernel.yield %a, %b : tensor<2xf32>, tensor<2xf32>
  } -> tensor<2xf32>, tensor<2xf32>
  %e2 = tensor.empty() : tensor<2xf32>
  %y = kernel.launch @relu ins(%first : tensor<2xf32>) outs(%e2 : tensor<2xf32>) {
  ^bb0(%X: tensor<2xf32>, %O: tensor<2xf32>):
    %a = kernel.map bounds [n = 2] ins(%X[n] : tensor<2xf32>) outs(%O[n] : tensor<2xf32>) {
    ^bb1(%v: f32, %o: f32):
      %zero = arith.constant 0.0 : f32
      %r = arith.maximumf %v, %zero : f32
      kernel.yield %r : f32
    }
    kernel.yield %a : tensor<2xf32>
  } -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}"""
    final = check(text, {"x": f32(1, -2, 3, 4)}, {"y": f32(1, 0)})
    assert "memref<128xi8>" in final, "the two halves live at the same moment, 64 bytes each"


def test_an_input_that_is_an_output_is_copied() -> None:
    """microsoft/onnxruntime#21922: outputs x and x + 10; the first is memory of its own."""
    t = "tensor<3xf32>"
    add_ten = launch("%y", "%x", "%e", f"{t}; {t}", "n = 3", ("%A[n]", "%O[n]"), ADD_CONSTANT.format("10.0"))
    text = f"""func.func @main(%x: {t} {{mlopt.name = "x"}})
    -> ({t} {{mlopt.name = "same"}}, {t} {{mlopt.name = "y"}}) {{
  %e = tensor.empty() : {t}
  {add_ten}
  func.return %x, %y : {t}, {t}
}}"""
    x = f32(1, 2, 3)
    final = check(text, {"x": x}, {"same": x, "y": x + 10})
    assert "memref.copy %x, %same" in final


def test_an_output_that_is_a_constant() -> None:
    """onnx/onnx-mlir#929: no ops, no inputs; also through a reshape, and twice."""
    text = """func.func @main() -> (tensor<2xf32> {mlopt.name = "a"}, tensor<1x2xf32> {mlopt.name = "b"},
                                  tensor<2xf32> {mlopt.name = "c"}) {
  %c = kernel.constant dense<[3.0, 2.0]> : tensor<2xf32>
  %b = kernel.reshape %c : tensor<2xf32> to tensor<1x2xf32>
  func.return %c, %b, %c : tensor<2xf32>, tensor<1x2xf32>, tensor<2xf32>
}"""
    check(text, {}, {"a": f32(3, 2), "b": f32(3, 2).reshape(1, 2), "c": f32(3, 2)})


def test_outputs_that_alias_one_another() -> None:
    """pytorch/pytorch PR 187678: y1 = relu(x), y2 = y1 reshaped, y3 = y1: three buffers with equal contents."""
    t = "tensor<2x2xf32>"
    relu = launch(
        "%y", "%x", "%e", f"{t}; {t}", "m = 2, n = 2", ("%A[m, n]", "%O[m, n]"),
        "%c = arith.constant 0.0 : f32\n %r = arith.maximumf %a, %c : f32",
    )  # fmt: skip
    text = f"""func.func @main(%x: {t} {{mlopt.name = "x"}})
    -> ({t} {{mlopt.name = "y1"}}, tensor<4xf32> {{mlopt.name = "y2"}}, {t} {{mlopt.name = "y3"}}) {{
  %e = tensor.empty() : {t}
  {relu}
  %flat = kernel.reshape %y : {t} to tensor<4xf32>
  func.return %y, %flat, %y : {t}, tensor<4xf32>, {t}
}}"""
    want = f32(0, 1, 2, 0)
    outputs = {"y1": want.reshape(2, 2), "y2": want, "y3": want.reshape(2, 2)}
    check(text, {"x": f32(-1, 1, 2, -2).reshape(2, 2)}, outputs)
    module = lower(text)
    first, second = (run_memref(module, {"x": f32(0, v, 0, v).reshape(2, 2)}) for v in (1, 2))
    assert first["y1"][0, 1] == 1 and second["y1"][0, 1] == 2
    assert not any(
        np.shares_memory(first[a], first[b]) for a, b in (("y1", "y2"), ("y2", "y3"), ("y1", "y3"))
    )


IN_PLACE_SQUARE = """func.func @main(%x: tensor<2x2xf32> {mlopt.name = "x"}) -> (tensor<2x2xf32> {mlopt.name = "y"}) {
  %e0 = tensor.empty() : tensor<2x2xf32>
  %t = kernel.launch @add_one ins(%x : tensor<2x2xf32>) outs(%e0 : tensor<2x2xf32>) {
  ^bb0(%X: tensor<2x2xf32>, %O: tensor<2x2xf32>):
    %0 = kernel.map bounds [m = 2, n = 2] ins(%X[m, n] : tensor<2x2xf32>) outs(%O[m, n] : tensor<2x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %r = arith.addf %a, %one : f32
      kernel.yield %r : f32
    }
    kernel.yield %0 : tensor<2x2xf32>
  } -> tensor<2x2xf32>
  %q = kernel.launch @square outs(%t : tensor<2x2xf32>) {
  ^bb0(%O: tensor<2x2xf32>):
    %0 = kernel.map bounds [m = 2, n = 2] ins(%O[m, n] : tensor<2x2xf32>) outs(%O[m, n] : tensor<2x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.mulf %a, %o : f32
      kernel.yield %r : f32
    }
    kernel.yield %0 : tensor<2x2xf32>
  } -> tensor<2x2xf32>
  %y = kernel.launch @plus_transposed ins(%q : tensor<2x2xf32>) outs(%q : tensor<2x2xf32>) {
  ^bb0(%Q: tensor<2x2xf32>, %O: tensor<2x2xf32>):
    %0 = kernel.map bounds [m = 2, n = 2] ins(%Q[n, m] : tensor<2x2xf32>) outs(%O[m, n] : tensor<2x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.addf %o, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %0 : tensor<2x2xf32>
  } -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}"""


def test_operands_that_are_the_same_buffer() -> None:
    """born-ml/born PR 55: t = x + 1, q = t * t in place, y = q + transposed q: in place is legal for q, not for y."""
    final = check(
        IN_PLACE_SQUARE, {"x": f32(0, 1, 2, 3).reshape(2, 2)}, {"y": f32(2, 13, 13, 32).reshape(2, 2)}
    )
    assert final.count("memref.copy") == 1


def test_the_transposed_sum_in_the_open() -> None:
    """The same in one launch: reading another place of the buffer that is written needs a copy."""
    text = """func.func @main(%x: tensor<2x2xf32> {mlopt.name = "x"}) -> (tensor<2x2xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<2x2xf32>
  %y = kernel.launch @f ins(%x : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%X: tensor<2x2xf32>, %O: tensor<2x2xf32>):
    %q = kernel.map bounds [m = 2, n = 2] ins(%X[m, n] : tensor<2x2xf32>) outs(%O[m, n] : tensor<2x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.mulf %a, %a : f32
      kernel.yield %r : f32
    }
    %s = kernel.map bounds [m = 2, n = 2] ins(%q[n, m] : tensor<2x2xf32>) outs(%q[m, n] : tensor<2x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.addf %o, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %s : tensor<2x2xf32>
  } -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}"""
    x = f32(0, 1, 2, 3).reshape(2, 2)
    check(text, {"x": x}, {"y": x**2 + (x**2).T})


def test_a_shifted_slice_of_the_buffer_being_overwritten() -> None:
    """openxla/xla#49176: y = concat(b[0:1], b[0:3]) written over b itself."""
    text = """func.func @main(%x: tensor<4xf32> {mlopt.name = "x"}) -> (tensor<4xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<4xf32>
  %y = kernel.launch @shift ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%X: tensor<4xf32>, %O: tensor<4xf32>):
    %b = kernel.map bounds [n = 4] ins(%X[n] : tensor<4xf32>) outs(%O[n] : tensor<4xf32>) {
    ^bb1(%a: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %r = arith.addf %a, %one : f32
      kernel.yield %r : f32
    }
    %c = kernel.map bounds [n = 3] ins(%b[n] : tensor<4xf32>) outs(%b[n + 1] : tensor<4xf32>) {
    ^bb1(%a: f32, %o: f32):
      kernel.yield %a : f32
    }
    kernel.yield %c : tensor<4xf32>
  } -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}"""
    check(text, {"x": f32(0, 1, 2, 3)}, {"y": f32(1, 1, 2, 3)})


def test_concat_of_an_operand_used_twice() -> None:
    """hw-native-sys/pypto#2007: y = concat(a, b, a) with a = x + 1 and b = 2 x, along the second axis."""
    t, wide = "tensor<2x2xf32>", "tensor<2x6xf32>"
    elementwise = ("%A[m, n]", "%O[m, n]")
    pieces = [
        launch(
            f"%y{i + 1}",
            piece,
            f"%y{i}",
            f"{t}; {wide}",
            "m = 2, n = 2",
            ("%A[m, n]", f"%O[m, n + {2 * i}]"),
            MOVE,
        )
        for i, piece in enumerate(["%u", "%v", "%u"])
    ]
    text = f"""func.func @main(%x: {t} {{mlopt.name = "x"}}) -> ({wide} {{mlopt.name = "y"}}) {{
  %e0 = tensor.empty() : {t}
  {launch("%u", "%x", "%e0", f"{t}; {t}", "m = 2, n = 2", elementwise, ADD_CONSTANT.format("1.0"))}
  %e1 = tensor.empty() : {t}
  {launch("%v", "%x", "%e1", f"{t}; {t}", "m = 2, n = 2", elementwise, "%r = arith.addf %a, %a : f32")}
  %y0 = tensor.empty() : {wide}
  {"".join(pieces)}
  func.return %y3 : {wide}
}}"""
    final = check(
        text,
        {"x": f32(1, 2, 3, 4).reshape(2, 2)},
        {"y": f32(2, 3, 2, 4, 2, 3, 4, 5, 6, 8, 4, 5).reshape(2, 6)},
    )
    assert "memref.copy" not in final, "the pieces are written right into the output"


LOOP = """func.func @main(%x: tensor<1xf32> {mlopt.name = "x"}) -> (tensor<1xf32> {mlopt.name = "y"}) {
  %e0 = tensor.empty() : tensor<1xf32>
  %outer = kernel.launch @double ins(%x : tensor<1xf32>) outs(%e0 : tensor<1xf32>) {
  ^bb0(%X: tensor<1xf32>, %O: tensor<1xf32>):
    %0 = kernel.map bounds [n = 1] ins(%X[n] : tensor<1xf32>) outs(%O[n] : tensor<1xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.addf %a, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %0 : tensor<1xf32>
  } -> tensor<1xf32>
  %one = kernel.constant dense<1.0> : tensor<1xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %trips = arith.constant TRIPS : index
  %y = scf.for %i = %c0 to %trips step %c1 iter_args(%acc = %one) -> (tensor<1xf32>) {
    %next = kernel.launch @add ins(%acc : tensor<1xf32>) outs(%outer : tensor<1xf32>) {
    ^bb0(%A: tensor<1xf32>, %O: tensor<1xf32>):
      %0 = kernel.map bounds [n = 1] ins(%A[n] : tensor<1xf32>) outs(%O[n] : tensor<1xf32>) {
      ^bb1(%a: f32, %o: f32):
        %r = arith.addf %a, %o : f32
        kernel.yield %r : f32
      }
      kernel.yield %0 : tensor<1xf32>
    } -> tensor<1xf32>
    scf.yield %next : tensor<1xf32>
  }
  func.return %y : tensor<1xf32>
}"""


def test_a_buffer_from_outside_of_a_loop_is_not_overwritten_in_it() -> None:
    """hw-native-sys/PTOAS PR 913: outer = x + x is added in every trip, and named as the destination of the sum."""
    check(LOOP.replace("TRIPS", "3"), {"x": f32(1)}, {"y": f32(7)})
    check(LOOP.replace("TRIPS", "0"), {"x": f32(1)}, {"y": f32(1)})


def test_branches_that_only_reshape() -> None:
    """apache/tvm#20191: both branches are the identity through two reshapes."""
    for condition in ("true", "false"):
        text = f"""func.func @main(%x: tensor<2x2xf32> {{mlopt.name = "x"}})
    -> (tensor<2x2xf32> {{mlopt.name = "y"}}) {{
  %c = arith.constant {condition}
  %y = scf.if %c -> (tensor<2x2xf32>) {{
    %f = kernel.reshape %x : tensor<2x2xf32> to tensor<4xf32>
    %g = kernel.reshape %f : tensor<4xf32> to tensor<2x2xf32>
    scf.yield %g : tensor<2x2xf32>
  }} else {{
    scf.yield %x : tensor<2x2xf32>
  }}
  func.return %y : tensor<2x2xf32>
}}"""
        x = f32(1, 2, 3, 4).reshape(2, 2)
        check(text, {"x": x}, {"y": x})


def test_tensors_without_elements() -> None:
    """microsoft/onnxruntime#4559: [2, 0] @ [0, 3] is zeros, [0, 3] @ [3, 2] is empty, the sum of [0, 4] is 0."""
    text = """func.func @main(%a: tensor<2x0xf32> {mlopt.name = "a"}, %b: tensor<0x3xf32> {mlopt.name = "b"},
                           %w: tensor<3x2xf32> {mlopt.name = "w"}, %d: tensor<0x4xf32> {mlopt.name = "d"})
    -> (tensor<2x3xf32> {mlopt.name = "ab"}, tensor<0x2xf32> {mlopt.name = "bw"}, tensor<f32> {mlopt.name = "sum"}) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x3xf32>
  %f0 = kernel.fill %zero : f32 outs(%e0 : tensor<2x3xf32>)
  %ab = kernel.contract bounds [m = 2, n = 3, k = 0] ins(%a[m, k], %b[k, n] : tensor<2x0xf32>, tensor<0x3xf32>)
                                                     outs(%f0[m, n] : tensor<2x3xf32>)
  %e1 = tensor.empty() : tensor<0x2xf32>
  %f1 = kernel.fill %zero : f32 outs(%e1 : tensor<0x2xf32>)
  %bw = kernel.contract bounds [m = 0, n = 2, k = 3] ins(%b[m, k], %w[k, n] : tensor<0x3xf32>, tensor<3x2xf32>)
                                                     outs(%f1[m, n] : tensor<0x2xf32>)
  %e2 = tensor.empty() : tensor<f32>
  %f2 = kernel.fill %zero : f32 outs(%e2 : tensor<f32>)
  %sum = kernel.reduce bounds [m = 0, n = 4] ins(%d[m, n] : tensor<0x4xf32>) outs(%f2[] : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    kernel.yield %r : f32
  }
  func.return %ab, %bw, %sum : tensor<2x3xf32>, tensor<0x2xf32>, tensor<f32>
}"""
    inputs = {
        "a": np.zeros((2, 0), "f"),
        "b": np.zeros((0, 3), "f"),
        "w": np.ones((3, 2), "f"),
        "d": np.zeros((0, 4), "f"),
    }
    want = {
        "ab": np.zeros((2, 3), np.float32),
        "bw": np.zeros((0, 2), np.float32),
        "sum": np.array(0, np.float32),
    }
    check(text, inputs, want)


def test_intermediate_buffers_without_elements() -> None:
    """Empty intermediates share an offset with others and do not count as overlapping."""
    t, empty = "tensor<2xf32>", "tensor<0xf32>"
    add_one = ADD_CONSTANT.format("1.0")
    text = f"""func.func @main(%x: {t} {{mlopt.name = "x"}}, %n: {empty} {{mlopt.name = "n"}})
    -> ({t} {{mlopt.name = "y"}}, {empty} {{mlopt.name = "m"}}) {{
  %e0 = tensor.empty() : {empty}
  {launch("%m0", "%n", "%e0", f"{empty}; {empty}", "i = 0", ("%A[i]", "%O[i]"), add_one)}
  %e1 = tensor.empty() : {t}
  {launch("%y0", "%x", "%e1", f"{t}; {t}", "i = 2", ("%A[i]", "%O[i]"), add_one)}
  %e2 = tensor.empty() : {empty}
  {launch("%m", "%m0", "%e2", f"{empty}; {empty}", "i = 0", ("%A[i]", "%O[i]"), add_one)}
  %e3 = tensor.empty() : {t}
  {launch("%y", "%y0", "%e3", f"{t}; {t}", "i = 2", ("%A[i]", "%O[i]"), add_one)}
  func.return %y, %m : {t}, {empty}
}}"""
    check(text, {"x": f32(1, 2), "n": f32()}, {"y": f32(3, 4), "m": f32()})


def test_two_launches_may_name_one_uninitialised_destination() -> None:
    """After cse both launches write `%e`; both results live, so they are two buffers (and no copy)."""
    t = "tensor<2xf32>"
    text = f"""func.func @main(%x: {t} {{mlopt.name = "x"}}) -> ({t} {{mlopt.name = "y"}}) {{
  %e = tensor.empty() : {t}
  {launch("%u", "%x", "%e", f"{t}; {t}", "i = 2", ("%A[i]", "%O[i]"), ADD_CONSTANT.format("1.0"))}
  {launch("%v", "%x", "%e", f"{t}; {t}", "i = 2", ("%A[i]", "%O[i]"), ADD_CONSTANT.format("5.0"))}
  {launch("%y", "%u, %v", "%e", f"{t}; {t}; {t}", "i = 2", ("%A[i], %B[i]", "%O[i]"), "%r = arith.mulf %a, %b : f32")}
  func.return %y : {t}
}}"""
    final = check(text, {"x": f32(1, 2)}, {"y": f32(12, 21)})
    assert "memref.copy" not in final


def test_print_is_deterministic() -> None:
    """The same text gives the same bytes."""
    assert print_module(lower(IN_PLACE_SQUARE)) == print_module(lower(IN_PLACE_SQUARE))
