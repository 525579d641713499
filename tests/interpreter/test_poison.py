"""Which arena bytes are dead after which operation, by hand."""

from __future__ import annotations

from xdsl.dialects.memref import ViewOp
from xdsl.ir import SSAValue

from mlopt.interpreter.poison import dead_after
from mlopt.ir import make_context, parse_module

TEXT = """
func.func @main(%arena: memref<1024xi8> {mlopt.arena}, %x: memref<8xf32> {mlopt.input = "x"},
                %y: memref<8xf32> {mlopt.output = "y"}) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c96 = arith.constant 96 : index
  %a = memref.view %arena[%c0][] : memref<1024xi8> to memref<8xf32>
  %b = memref.view %arena[%c64][] : memref<1024xi8> to memref<8xf32>
  %ws = memref.view %arena[%c96][] {mlopt.workspace} : memref<1024xi8> to memref<64xi8>
  func.call @f(%x, %a, %ws) : (memref<8xf32>, memref<8xf32>, memref<64xi8>) -> ()
  %s = memref.subview %a[4] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1], offset: 4>>
  func.call @f(%a, %b, %ws) : (memref<8xf32>, memref<8xf32>, memref<64xi8>) -> ()
  func.call @g(%s, %y) : (memref<4xf32, strided<[1], offset: 4>>, memref<8xf32>) -> ()
  %late = memref.view %arena[%c0][] : memref<1024xi8> to memref<16xf32>
  func.call @g16(%b, %late) : (memref<8xf32>, memref<16xf32>) -> ()
  func.call @g16(%b, %late) : (memref<8xf32>, memref<16xf32>) -> ()
  return
}
func.func private @f(memref<8xf32>, memref<8xf32>, memref<64xi8>)
func.func private @g(memref<4xf32, strided<[1], offset: 4>>, memref<8xf32>)
func.func private @g16(memref<8xf32>, memref<16xf32>)
"""


def test_dead_bytes() -> None:
    """%a lives until @g reads its slice; %ws is dead after each call; %late and %b end together."""
    module = parse_module(TEXT, make_context())
    main = next(iter(module.ops))
    block = main.regions[0].block
    offsets = {"a": (0, 32), "b": (64, 96), "ws": (96, 160), "late": (0, 64)}
    extents: dict[SSAValue, tuple[int, int]] = {
        op.result: offsets[op.result.name_hint or ""] for op in block.ops if isinstance(op, ViewOp)
    }
    dead = dead_after(block, block.args[0], extents)
    calls = [op for op in block.ops if op.name == "func.call"]
    assert [dead.get(call, []) for call in calls] == [
        [(96, 160)],
        [(96, 160)],
        [(0, 32)],
        [],
        [(0, 64), (64, 96)],
    ]
