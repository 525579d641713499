"""The upstream `arith` dialect with the operations that xDSL does not have yet."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class RemfOp(arith.FloatingPointLikeBinaryOperation):
    """The remainder of a division toward zero, exact, with the sign of the dividend: C's `fmod`.

    Upstream: https://mlir.llvm.org/docs/Dialects/ArithOps/#arithremf-arithremfop

    ```mlir
    %r = arith.remf %a, %b : f32
    ```
    """

    name = "arith.remf"
    traits = traits_def(Pure())


Arith = Dialect(
    "arith",
    [*arith.Arith.operations, RemfOp],
    [*arith.Arith.attributes],
    [arith.ArithConstantMaterializationInterface()],
)
