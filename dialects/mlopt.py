"""The `mlopt` attributes that every level shares: names of weights outside the IR."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class WeightAttr(ParametrizedAttribute):
    """The name of an array in the weight store: `#mlopt.weight<"fc1.weight">`."""

    name = "mlopt.weight"
    weight: StringAttr

    def __init__(self, weight: str | StringAttr):
        super().__init__(StringAttr(weight) if isinstance(weight, str) else weight)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_str_literal("the name of a weight"))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.weight)


Mlopt = Dialect("mlopt", [], [WeightAttr])
