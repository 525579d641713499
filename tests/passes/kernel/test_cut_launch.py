"""Where a launch can be cut into tiles, and where it can't."""

from __future__ import annotations

from mlopt.dialects.kernel import LaunchOp
from mlopt.ir import make_context, parse_module
from mlopt.passes.kernel.cut_launch import cut_along

ELEMENTS = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = kernel.launch @f ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%X: tensor<4x8xf32>, %O: tensor<4x8xf32>):
    %t = tensor.empty() : tensor<4x8xf32>
    %b = kernel.map bounds [m = 4, n = 8] ins(%X[m, n] : tensor<4x8xf32>) outs(%t[m, n] : tensor<4x8xf32>) {
    ^bb1(%p: f32, %q: f32):
      %s = arith.addf %p, %p : f32
      kernel.yield %s : f32
    }
    %u = tensor.empty() : tensor<8xf32>
    %a = kernel.map bounds [k = 8] outs(%u[k] : tensor<8xf32>) {
    ^bb2(%q: f32):
      %zero = arith.constant 0 : index
      %v = tensor.extract %SOURCE[%zero, %zero] : tensor<4x8xf32>
      kernel.yield %v : f32
    }
    %r = kernel.map bounds [m = 4, n = 8]
        ins(%b[m, n], %a[n] : tensor<4x8xf32>, tensor<8xf32>) outs(%O[m, n] : tensor<4x8xf32>) {
    ^bb3(%p: f32, %g: f32, %q: f32):
      %s = arith.addf %p, %g : f32
      kernel.yield %s : f32
    }
    kernel.yield %r : tensor<4x8xf32>
  } -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
"""
"""A sum with elements that are gathered before the tiles, of what is given or of what the tiles make."""


def test_what_is_gathered_before_the_tiles_is_not_made_in_them() -> None:
    for source, tiles in (("X", 2), ("b", None)):
        module = parse_module(ELEMENTS.replace("SOURCE", source), make_context())
        launch = next(op for op in module.walk() if isinstance(op, LaunchOp))
        cut = cut_along(launch, 0)
        assert (None if cut is None else cut.apply(2)) == tiles
        module.verify()
