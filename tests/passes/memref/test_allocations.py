"""What planning passes ensure: only the functions named allocate."""

from __future__ import annotations

import pytest

from mlopt.diagnostics import Place
from mlopt.ir import make_context, parse_module
from mlopt.passes.memref.allocations import no_allocation_but_in

TEXT = """func.func @main() {
  %0 = memref.alloc() : memref<4xf32>
  func.return
}
func.func private @f() {
  %0 = memref.alloca() : memref<4xf32>
  func.return
}
func.func private @declared()
"""


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        (("main", "f"), None),
        (("main",), ("@f", "memref.alloca", 6)),
        ((), ("@main", "memref.alloc", 2)),
    ],
)
def test_the_first_allocation_elsewhere_is_named(
    allowed: tuple[str, ...], found: tuple[str, str, int] | None
) -> None:
    error = no_allocation_but_in(*allowed)(parse_module(TEXT, make_context(), "x.mlir"))
    if found is None:
        assert error is None
        return
    assert error is not None
    function, name, line = found
    assert error.message == f"expected no allocation to be left in '{function}', found '{name}'"
    assert error.place == Place("x.mlir", line, 8)
