"""Activations: elementwise operations of a closed table, as an attribute of the operation whose result they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, StringAttr, f64
from xdsl.ir import Attribute, Block, ParametrizedAttribute
from xdsl.irdl import VerificationContext, irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import FLOAT, F64Attr, Properties, Tensor, require_elements, with_shape
from mlopt.dialects.graph.selection import ClipOp
from mlopt.dialects.graph.unary import (
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
    SwishOp,
    TanhOp,
    UnaryOp,
)

UNARY_ACTIVATIONS: Mapping[str, type[UnaryOp]] = {
    op_type.name.removeprefix("graph."): op_type
    for op_type in (
        GeluOp,
        HardSigmoidOp,
        HardSwishOp,
        LeakyReluOp,
        ReluOp,
        SigmoidOp,
        SwishOp,
        TanhOp,
    )
}
"""The activations that are unary operations, by name; their parameters are the properties of the operation."""

CLIP_BOUNDS = ("min", "max")
"""The parameters of `clip`, in the order of its operands; either may be left out."""


@irdl_attr_definition
class ActivationAttr(ParametrizedAttribute):
    """An elementwise operation with its parameters: `#graph.activation<leaky_relu alpha = 1.000000e-02>`.

    It means what the graph operation of that name means, on the same element types: `gelu`, `hard_sigmoid`,
    `hard_swish`, `leaky_relu`, `relu`, `sigmoid`, `swish`, `tanh`, with the properties of the operation as parameters
    (those that have their default may be left out), and `clip` of floats with the finite numbers `min` and `max`.
    """

    name = "graph.activation"
    kind: StringAttr
    options: DictionaryAttr

    def __init__(self, kind: str, parameters: Mapping[str, Attribute] | None = None):
        super().__init__(StringAttr(kind), DictionaryAttr(dict(parameters or {})))

    @classmethod
    def clip(cls, lower: float | None, upper: float | None) -> ActivationAttr:
        """`min(max(x, lower), upper)` with bounds that may be left out."""
        bounds = zip(CLIP_BOUNDS, (lower, upper), strict=True)
        return cls("clip", {name: FloatAttr(bound, f64) for name, bound in bounds if bound is not None})

    @classmethod
    def of(cls, op: UnaryOp) -> ActivationAttr | None:
        """A unary operation as an activation; None if it is none of the table, or has a number that is not finite."""
        kind = op.name.removeprefix("graph.")
        if UNARY_ACTIVATIONS.get(kind) is not type(op) or not all(map(_is_finite, op.properties.values())):
            return None
        defaults = _defaults(type(op))
        return cls(kind, {name: value for name, value in op.properties.items() if value != defaults[name]})

    def verify(self) -> None:
        kind, found = self.kind.data, self.options.data
        op_type = UNARY_ACTIVATIONS.get(kind)
        if kind == "clip":
            if not found or not found.keys() <= set(CLIP_BOUNDS):
                raise VerifyException(f"expected min, max or both as parameters of clip, found {self}")
            if not all(isinstance(bound, FloatAttr) for bound in found.values()):
                raise VerifyException(f"expected numbers as parameters of clip, found {self}")
        elif op_type is None:
            known = ", ".join(sorted((*UNARY_ACTIVATIONS, "clip")))
            raise VerifyException(f"expected one of {known}, found {self}")
        else:
            defaults = _defaults(op_type)
            needed = {name for name, default in defaults.items() if default is None}
            if not needed <= found.keys() <= defaults.keys():
                expected = " and ".join(defaults) or "no parameters"
                raise VerifyException(f"expected {expected} of {kind}, found {self}")
            definitions = op_type.get_irdl_definition().properties
            for name, value in found.items():
                definitions[name].constr.verify(value, VerificationContext())
        if not all(map(_is_finite, found.values())):
            raise VerifyException(f"expected finite numbers as parameters of {kind}")

    @property
    def numbers(self) -> tuple[float, ...]:
        """What the operation takes as operands of rank 0 after the value: the bounds of `clip`."""
        return tuple(bound.value.data for bound in self._bounds() if bound is not None)

    def operation(self, type: Tensor) -> UnaryOp | ClipOp:
        """The operation that this stands for, on a tensor of this type.

        It stands in a block of its own, whose arguments are its operands: the tensor, then a tensor of rank 0 for each
        of `numbers`. `VerifyException` if there is no such operation on this type.
        """
        if self.kind.data == "clip":
            require_elements(FLOAT, type, "clip")
            bounds = [bound is not None for bound in self._bounds()]
            block = Block(arg_types=[type, *[with_shape(type, ())] * sum(bounds)])
            value, *given = block.args
            op = ClipOp(value, *(given.pop(0) if present else None for present in bounds))
        else:
            op_type = UNARY_ACTIVATIONS[self.kind.data]
            block = Block(arg_types=[type])
            properties = {**_defaults(op_type), **self.options.data}
            given = {name: value for name, value in properties.items() if value is not None}
            op_type.infer([type], given)
            op = op_type.create(operands=block.args, properties=given, result_types=[type])
        block.add_op(op)
        return op

    def _bounds(self) -> Sequence[F64Attr | None]:
        bounds = [self.options.data.get(name) for name in CLIP_BOUNDS]
        return [cast(F64Attr, bound) if isinstance(bound, FloatAttr) else None for bound in bounds]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = StringAttr(parser.parse_identifier())
            parameters: dict[str, Attribute] = {}
            while (name := parser.parse_optional_identifier()) is not None:
                parser.parse_punctuation("=")
                text = parser.parse_optional_str_literal()
                parameters[name] = (
                    FloatAttr.parse_with_type(parser, f64) if text is None else StringAttr(text)
                )
            return [kind, DictionaryAttr(parameters)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.kind.data)
            for name, value in self.options.data.items():
                printer.print_string(f" {name} = ")
                if isinstance(value, FloatAttr):
                    value.print_without_type(printer)
                else:
                    printer.print_attribute(value)


def require_activation(properties: Properties, result: Tensor) -> None:
    """Raise unless the activation among the properties, if there is one, takes tensors of this type."""
    activation = properties.get("activation")
    if isinstance(activation, ActivationAttr):
        activation.operation(result)


def _defaults(op_type: type[UnaryOp]) -> dict[str, Attribute | None]:
    """The properties of an operation, with their defaults."""
    properties = op_type.get_irdl_definition().properties
    return {name: definition.default_value for name, definition in properties.items()}


def _is_finite(value: Attribute) -> bool:
    return not isinstance(value, FloatAttr) or isfinite(value.value.data)
