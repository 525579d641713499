"""Values whose size depends on data: which operators take them, and what becomes of their sizes.

Shapes in the IR are static. A value whose size along one axis depends on data is a tensor of the largest size there
can be, its bound, with the extent beside it, a number computed at run time (`bounds.Bound`). What an operator makes
of such operands is said by a rule:

    @carries("Transpose")
    def _transpose(node: Node, function: ImportFunction) -> Results: ...

A rule has the node and the operator's import function, which takes no notice of extents; it calls that where it is
right for whatever stands behind the extent, hides that from it where it is not (`masked`), and notes what is bounded
in the results. `import_node` is the only way to an import function: an operator without a rule never sees a bounded
operand. It is imported by its definition if it has one, for the size that the inputs' examples give if they do (the
module then holds for these values only), and refused otherwise.

Rules of operators whose operands are sizes are in `bounded_sizes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from mlopt.diagnostics import MloptError, UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_bool, is_float, shape_of, tensor_type
from mlopt.frontend.onnx.bounds import Bound
from mlopt.frontend.onnx.extents import Size, Sizes
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.reader import normal_domain
from mlopt.frontend.onnx.registry import ImportFunction
from mlopt.ir.dtypes import to_numpy_dtype

Results: TypeAlias = "SSAValue | Sequence[SSAValue]"

Rule: TypeAlias = Callable[[Node, ImportFunction], Results]
"""Imports a node with a bounded operand, or a computed size; raises `UnsupportedError` for what it does not do."""

_RuleT = TypeVar("_RuleT", bound=Rule)
_RULES: dict[tuple[str, str], tuple[Rule, tuple[int, ...]]] = {}


def carries(*op_types: str, sizes: Sequence[int] = (), domain: str = "") -> Callable[[_RuleT], _RuleT]:
    """Enter a function as the rule of operators.

    `sizes` are the inputs that decide the size of the result: the rule is asked too when one of them is computed at
    run time.
    """

    def enter(rule: _RuleT) -> _RuleT:
        for op_type in op_types:
            _RULES[domain, op_type] = rule, tuple(sizes)
        return rule

    return enter


def has_rule(node: Node) -> bool:
    """Whether the operator of a node takes bounded operands."""
    return _key(node) in _RULES


def is_bounded(node: Node) -> bool:
    """Whether an operand is bounded."""
    return any(node.bound_of(value) is not None for value in node.inputs)


def import_node(node: Node, function: ImportFunction) -> Results:
    """The results of a node by its import function, and by the rule of its operator where sizes depend on data."""
    rule, sizes = _RULES.get(_key(node), (_no_rule, ()))
    if not is_bounded(node) and not any(_is_computed(node, index) for index in sizes):
        return function(node)
    for index in sizes:
        if node.bound_of(node.optional(index)) is not None:
            raise refusal(node, "and is itself a list of sizes", index)
    outcome = node.attempt(lambda: rule(node, function))
    if not isinstance(outcome, MloptError):
        return outcome
    if not isinstance(outcome, UnsupportedError):
        raise outcome
    if not is_bounded(node) and not any(_depends_on_data(node, index) for index in sizes):
        return function(node)
    static = _with_known_sizes(node, sizes)
    if static is None:
        raise outcome
    return function(static)


def _key(node: Node) -> tuple[str, str]:
    return normal_domain(node.proto.domain), node.proto.op_type


def _is_computed(node: Node, index: int) -> bool:
    """Whether a size is to be computed at run time: it depends on how many of something there are, or is unknown."""
    value = node.optional(index)
    if value is None or node.constant_value(value) is not None:
        return False
    return _depends_on_data(node, index) or not node.is_known(value)


def _depends_on_data(node: Node, index: int) -> bool:
    value = node.optional(index)
    return value is not None and node.depends_on_data(value)


def _with_known_sizes(node: Node, sizes: Sequence[int]) -> Node | None:
    """The node with its bounded operands cut to the sizes that the examples give, or None if these do not tell."""
    if not all(node.is_known(value) for index in sizes if (value := node.optional(index)) is not None):
        return None
    operands: dict[int, SSAValue] = {}
    for index, value in enumerate(node.inputs):
        bound = node.bound_of(value)
        if value is None or bound is None:
            continue
        extent = node.known_value(bound.extent)
        if extent is None:
            return None
        operands[index] = leading(node, value, bound.axis, int(extent))
    return node.with_operands(operands)


def _no_rule(node: Node, function: ImportFunction) -> Results:
    raise refusal(node, "which this operator does not take")


def refusal(node: Node, why: str, index: int | None = None) -> MloptError:
    """The error for an operand (the first bounded one, if not given) that the operator can't take as it is."""
    indices = range(len(node.inputs)) if index is None else [index]
    for position in indices:
        bound = node.bound_of(node.inputs[position])
        if bound is not None:
            name = node.proto.input[position]
            return node.error(
                f'"{name}" has a size that depends on data, along axis {bound.axis}, {why}', UnsupportedError
            )
    return node.error(f"a size is computed at run time, {why}", UnsupportedError)


# What rules do


def bounds_of(node: Node) -> list[tuple[int, SSAValue, Bound]]:
    """The bounded operands: their inputs, values and bounds."""
    return [
        (index, value, bound)
        for index, value in enumerate(node.inputs)
        if value is not None and (bound := node.bound_of(value)) is not None
    ]


def only(node: Node, *indices: int) -> tuple[SSAValue, Bound]:
    """The operand and the bound of the only bounded operand, which must be one of these inputs."""
    found = bounds_of(node)
    for index, _, _ in found:
        if index not in indices or len(found) > 1:
            raise refusal(
                node, "which this operator does not take as this input or together with others", index
            )
    return found[0][1], found[0][2]


def leading(node: Node, value: SSAValue, axis: int, size: int) -> SSAValue:
    """The first elements along an axis as a value of its own."""
    shape = shape_of(value)
    if shape[axis] == size:
        return node.add(graph.ReshapeOp(value, shape)).result
    stops = [*shape[:axis], size, *shape[axis + 1 :]]
    return node.add(graph.SliceOp(value, [0] * len(shape), stops)).result


def positions(node: Node, value: SSAValue, axis: int) -> SSAValue:
    """The positions along an axis, in a shape that broadcasts to the value's."""
    shape = shape_of(value)
    numbers = node.add(graph.RangeOp(IntegerAttr(0, i64), IntegerAttr(1, i64), shape[axis])).result
    behind = len(shape) - 1 - axis
    return node.add(graph.ReshapeOp(numbers, [shape[axis]] + [1] * behind)).result if behind else numbers


def masked(node: Node, value: SSAValue, axis: int, extent: SSAValue, fill: float) -> SSAValue:
    """The value with a number in place of what is behind the extent."""
    inside = node.add(graph.LessOp(positions(node, value, axis), extent)).result
    if is_bool(tensor_type(value.type).element_type):
        if not fill:
            return node.add(graph.AndOp(inside, value)).result
        return node.add(graph.OrOp(node.add(graph.NotOp(inside)).result, value)).result
    number = node.constant(np.array(fill).astype(to_numpy_dtype(tensor_type(value.type).element_type)))
    return node.add(graph.WhereOp(inside, value, number)).result


def lowest(value: SSAValue) -> float:
    """What never wins a maximum of such elements."""
    return _extreme(value, largest=False)


def highest(value: SSAValue) -> float:
    """What never wins a minimum of such elements."""
    return _extreme(value, largest=True)


def _extreme(value: SSAValue, *, largest: bool) -> float:
    element = tensor_type(value.type).element_type
    if is_float(element):
        return np.inf if largest else -np.inf
    if is_bool(element):
        return largest
    limits = np.iinfo(to_numpy_dtype(element))
    return int(limits.max if largest else limits.min)


def marked(node: Node, results: Results, axis: int, extent: SSAValue) -> Results:
    """The results, all noted to be bounded along an axis."""
    for result in [results] if isinstance(results, SSAValue) else results:
        node.bounded(result, axis, extent)
    return results


def alike(
    node: Node, found: Sequence[tuple[int, SSAValue, int, SSAValue]]
) -> tuple[dict[int, SSAValue], SSAValue]:
    """Bounded operands (input, value, axis, extent) that must have equal extents: made of one size, and the extent.

    Where equality can't be told at import, the run finds out.
    """
    sizes = Sizes(node)
    size = min(shape_of(value)[axis] for _, value, axis, _ in found)
    extent: Size = found[0][3]
    for _, _, _, other in found[1:]:
        extent = sizes.require_equal(extent, other)
    operands = {
        index: value if shape_of(value)[axis] == size else leading(node, value, axis, size)
        for index, value, axis, _ in found
    }
    return operands, sizes.value(extent)


# Elementwise


@carries(
    *(
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Cos",
        "Cosh",
        "Erf",
        "Exp",
        "Floor",
        "IsNaN",
    ),
    *(
        "Log",
        "Neg",
        "Not",
        "Reciprocal",
        "Relu",
        "Round",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Sqrt",
        "Tan",
        "Tanh",
    ),
    *(
        "HardSwish",
        "HardSigmoid",
        "LeakyRelu",
        "ThresholdedRelu",
        "Softplus",
        "Softsign",
        "Gelu",
        "IsInf",
        "BitwiseNot",
    ),
    *("Celu", "Elu", "Mish", "Selu", "Shrink", "Swish", "Identity", "Cast", "BitCast", "Dropout"),
    *(
        "Add",
        "And",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Mul",
        "Or",
        "Sub",
        "Xor",
    ),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Mod", "Pow", "PRelu"),
    *("Max", "Min", "Sum", "Mean", "Where", "Clip"),
)
@carries("BiasGelu", "FastGelu", "Gelu", "QuickGelu", domain="com.microsoft")
def _elementwise(node: Node, function: ImportFunction) -> Results:
    """Operands are aligned at the right: all bounded ones along the same axis, along which the others are broadcast."""
    found = bounds_of(node)
    (from_end, *others) = {bound.axis - len(shape_of(value)) for _, value, bound in found}
    if others:
        raise refusal(node, "and so has another operand, along another one")
    for value in node.inputs:
        shape = () if value is None else shape_of(value)
        if (
            value is not None
            and node.bound_of(value) is None
            and len(shape) >= -from_end
            and shape[from_end] != 1
        ):
            raise refusal(node, f"and another operand has the size {shape[from_end]} there")
    operands, extent = alike(
        node, [(index, value, bound.axis, bound.extent) for index, value, bound in found]
    )
    results = function(node.with_operands(operands))
    first = results if isinstance(results, SSAValue) else results[0]
    return marked(node, results, len(shape_of(first)) + from_end, extent)


@carries("CastLike")
def _cast_like(node: Node, function: ImportFunction) -> Results:
    """Only the type of the second operand counts."""
    bound, result = node.bound_of(node.operand(0)), function(node)
    return result if bound is None else marked(node, result, bound.axis, bound.extent)


@carries("QuantizeLinear", "DequantizeLinear")
def _quantized(node: Node, function: ImportFunction) -> Results:
    """Scales that do not vary along the bounded axis."""
    value, bound = only(node, 0)
    scales = shape_of(node.operand(1))
    axis = node.integer("axis", 1) % max(1, len(shape_of(value)))
    if len(scales) > 1 or (scales not in ((), (1,)) and axis == bound.axis):
        raise refusal(node, "along which scales vary")
    return marked(node, function(node), bound.axis, bound.extent)


# Movements


@carries("Transpose")
def _transpose(node: Node, function: ImportFunction) -> Results:
    """The axis moves."""
    value, bound = only(node, 0)
    perm = node.integers("perm") or list(reversed(range(len(shape_of(value)))))
    return marked(node, function(node), perm.index(bound.axis), bound.extent)


@carries("Unsqueeze")
def _unsqueeze(node: Node, function: ImportFunction) -> Results:
    """The axis moves behind the new ones in front of it."""
    _, bound = only(node, 0)
    result = function(node)
    assert isinstance(result, SSAValue)
    rank = len(shape_of(result))
    axes = node.integers("axes") if node.opset < 13 else node.known_ints(1, "axes")
    new = {axis % rank for axis in axes or ()}
    kept = [axis for axis in range(rank) if axis not in new]
    return marked(node, result, kept[bound.axis], bound.extent)


@carries("Squeeze")
def _squeeze(node: Node, function: ImportFunction) -> Results:
    """The axes are given, and the bounded one is none of them."""
    value, bound = only(node, 0)
    axes = node.integers("axes") if node.opset < 13 else node.optional_ints(1, "axes")
    if axes is None:
        raise refusal(node, "and no axes are given: how many there are would depend on data")
    rank = len(shape_of(value))
    gone = {axis % rank for axis in axes}
    if bound.axis in gone:
        raise refusal(node, "which is squeezed")
    return marked(node, function(node), bound.axis - sum(axis < bound.axis for axis in gone), bound.extent)


@carries("Split")
def _split(node: Node, function: ImportFunction) -> Results:
    """Along another axis."""
    value, bound = only(node, 0)
    if node.integer("axis", 0) % len(shape_of(value)) == bound.axis:
        raise refusal(node, "which is split")
    return marked(node, function(node), bound.axis, bound.extent)


@carries("Concat")
def _concat(node: Node, function: ImportFunction) -> Results:
    """Along another axis, of equal extents; or along the bounded one, each behind the extents of those before it."""
    found, rank = bounds_of(node), len(shape_of(node.operand(0)))
    axis = node.integer("axis", 1 if node.opset < 4 else None) % rank
    if any(bound.axis != found[0][2].axis for _, _, bound in found):
        raise refusal(node, "and so has another operand, along another one")
    if found[0][2].axis == axis:
        return _one_behind_the_other(node, axis)
    if len(found) < len(node.inputs):
        raise refusal(node, "along which another operand has a fixed size")
    operands, extent = alike(
        node, [(index, value, bound.axis, bound.extent) for index, value, bound in found]
    )
    return marked(node, function(node.with_operands(operands)), found[0][2].axis, extent)


def _one_behind_the_other(node: Node, axis: int) -> SSAValue:
    """Parts one behind the other as far as their extents go: by gathering from all of them in full size."""
    parts, sizes = node.operands(), Sizes(node)
    whole = node.add(graph.ConcatOp(parts, axis)).result
    total: Size = 0
    start, gaps = 0, False
    at = node.add(graph.RangeOp(IntegerAttr(0, i64), IntegerAttr(1, i64), shape_of(whole)[axis])).result
    from_ = at
    for part in parts:
        if gaps:
            beyond = node.add(graph.GreaterEqualOp(at, sizes.value(total))).result
            moved = node.add(graph.AddOp(at, sizes.value(sizes.sub(start, total)))).result
            from_ = node.add(graph.WhereOp(beyond, moved, from_)).result
        bound = node.bound_of(part)
        size = shape_of(part)[axis]
        gaps = gaps or bound is not None
        total = sizes.add(total, size if bound is None else bound.extent)
        start += size
    extent = sizes.value(total)
    if node.bound_of(parts[-1]) is None or sum(node.bound_of(part) is not None for part in parts) > 1:
        whole = node.add(graph.GatherOp(whole, masked(node, from_, 0, extent, 0), axis)).result
    return node.bounded(whole, axis, extent)


# Shapes


@carries("Shape")
def _shape(node: Node, function: ImportFunction) -> Results:
    """The extents, the bounded one computed."""
    value, bound = only(node, 0)
    dimensions: list[Size] = [*shape_of(value)]
    dimensions[bound.axis] = bound.extent
    end = node.integer("end") if node.has("end") else None
    return Sizes(node).vector(dimensions[slice(node.integer("start", 0), end)])


@carries("Size")
def _size(node: Node, function: ImportFunction) -> Results:
    """The extent times the other sizes."""
    value, bound = only(node, 0)
    rest = int(np.prod([size for axis, size in enumerate(shape_of(value)) if axis != bound.axis]))
    sizes = Sizes(node)
    return sizes.value(sizes.mul(bound.extent, rest))
