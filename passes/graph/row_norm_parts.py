"""What stands before and after a row normalization and becomes part of it: scale, bias, and casts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.graph.constants import constant_value, is_constant, make_constant, name_of
from mlopt.passes.graph.fusion import Fusion, Group, Miss, either_way, name_of_kind, uniform_value
from mlopt.passes.graph.row_norms import RowNorm, as_row, row_parameter


@dataclass
class TakeScale(Fusion):
    """norm(x) * scale -> norm(x, scale), of a norm whose scale is 1 and that has no bias"""

    kind: type[RowNorm]
    statistic: ClassVar[str] = "scales-taken"
    roots: ClassVar = (graph.MulOp,)

    def match(self, op: Operation) -> Group | Miss | None:
        if not isinstance(op, graph.MulOp):
            return None
        for value, scale in either_way(op):
            norm = value.owner
            if not isinstance(norm, self.kind) or len(norm.operands) > 2 or not _is_parameter(scale, norm):
                continue
            if uniform_value(norm.scale, self.ctx) != 1:
                continue
            if op.result.type != value.type or row_parameter(scale, _row(norm)) is None:
                return Miss(f"the scale {scale.type} is no row of {value.type}")
            into = f"'{name_of_kind(norm)}' with a scale"
            return Group((op, norm), partial(_with_parameters, norm, [], scale), into)
        return None


@dataclass
class TakeBias(Fusion):
    """layer_norm(x, scale) + bias -> layer_norm(x, scale, bias)"""

    statistic: ClassVar[str] = "biases-taken"
    roots: ClassVar = (graph.AddOp,)

    def match(self, op: Operation) -> Group | Miss | None:
        if not isinstance(op, graph.AddOp):
            return None
        for value, bias in either_way(op):
            norm = value.owner
            if (
                not isinstance(norm, graph.LayerNormOp)
                or norm.bias is not None
                or not _is_parameter(bias, norm)
            ):
                continue
            if op.result.type != value.type or row_parameter(bias, _row(norm)) is None:
                return Miss(f"the bias {bias.type} is no row of {value.type}")
            build = partial(_with_parameters, norm, [norm.scale], bias)
            return Group((op, norm), build, "'layer_norm' with a bias")
        return None


def _is_parameter(value: SSAValue, norm: RowNorm) -> bool:
    """Is the value a constant, or as large as a row? Else it is no parameter of a norm, but something of its own."""
    return is_constant(value) or shape_of(value) == _row(norm)


def _row(norm: RowNorm) -> tuple[int, ...]:
    return shape_of(norm.input)[norm.axis.value.data :]


def _with_parameters(norm: RowNorm, parameters: list[SSAValue], last: SSAValue) -> list[Operation]:
    new: list[Operation] = []
    row = as_row(last, _row(norm), new)
    return [*new, _like(norm, norm.input, [*parameters, row])]


def _like(norm: RowNorm, x: SSAValue, parameters: list[SSAValue]) -> RowNorm:
    """The same normalization of other operands."""
    axis, epsilon = norm.axis.value.data, norm.epsilon.value.data
    return type(norm)(x, *parameters, axis=axis, epsilon=epsilon)


@dataclass
class NarrowNorm(Fusion):
    """cast(norm(cast(x), parameters)) -> norm(x, parameters), for x of f16 or bf16 and casts to and from f32

    The norm computes in f32 and rounds once, at the end: the numbers are the same.
    """

    kind: type[RowNorm]
    statistic: ClassVar[str] = "norms-narrowed"
    roots: ClassVar = (graph.CastOp,)

    def match(self, op: Operation) -> Group | Miss | None:
        if not isinstance(op, graph.CastOp) or not isinstance(norm := op.input.owner, self.kind):
            return None
        widening = norm.input.owner
        if not isinstance(widening, graph.CastOp) or not isinstance(_element(norm.input), Float32Type):
            return None
        narrow = _element(widening.input)
        if not isinstance(narrow, Float16Type | BFloat16Type) or _element(op.result) != narrow:
            return None
        if any(self._exact(parameter, narrow) is None for parameter in norm.operands[1:]):
            return Miss(f"a parameter has numbers that {narrow} does not hold, or is not known")
        ops = (op, norm, widening) if norm.input.has_one_use() else (op, norm)
        into = f"'{name_of_kind(norm)}' in {narrow}"
        return Group(ops, lambda: self._narrow(norm, widening.input, narrow), into)

    def _narrow(self, norm: RowNorm, x: SSAValue, narrow: Attribute) -> list[Operation]:
        new: list[Operation] = []
        parameters: list[SSAValue] = []
        for parameter in norm.operands[1:]:
            exact = self._exact(parameter, narrow)
            if isinstance(exact, np.ndarray):
                new.append(make_constant(exact, self.ctx, name_of(parameter, "parameter")))
                exact = new[-1].results[0]
            assert exact is not None
            parameters.append(exact)
        return [*new, _like(norm, x, parameters)]

    def _exact(self, value: SSAValue, narrow: Attribute) -> SSAValue | np.ndarray | None:
        """The value in that type, as a value or as numbers, if it is known that nothing is rounded."""
        if isinstance(value.owner, graph.CastOp) and _element(value.owner.input) == narrow:
            return value.owner.input
        array = constant_value(value, self.ctx)
        if array is None:
            return None
        rounded = array.astype(to_numpy_dtype(narrow))
        return rounded if np.array_equal(rounded.astype(array.dtype), array, equal_nan=True) else None


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value.type).element_type
