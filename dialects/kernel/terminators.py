"""`kernel.yield`, the terminator of kernel regions."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def
from xdsl.traits import IsTerminator, Pure


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of a structured op (with scalars) or of a launch (with tensors)."""

    name = "kernel.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[list[SSAValue](values)])
