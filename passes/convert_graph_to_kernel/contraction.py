"""Matrix multiplication, linear layers and convolution: a `kernel.contract` into zeros, and one map for the rest.

f16 and bf16 are summed in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mlopt.dialects import graph, kernel
from mlopt.dialects.graph.base import GraphOp, shape_of
from mlopt.dialects.kernel import LinearExpr
from mlopt.ir.names import copy_name
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.elementwise import FORMULAS
from mlopt.passes.convert_graph_to_kernel.launch import Launch, Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import Number, Scalars, accumulator
from mlopt.passes.convert_graph_to_kernel.windows import padded_read, spatial_names, window_axes

Convolution: TypeAlias = graph.ConvOp | graph.ChannelsLastConvOp | graph.IntegerConvOp


@converts(graph.MatMulOp, graph.IntegerMatMulOp)
def _matmul(op: graph.MatMulOp | graph.IntegerMatMulOp, conversion: Conversion) -> None:
    launch = conversion.launch(op)
    space, total = _product(launch, op.lhs, op.rhs, shape_of(op.result))
    conversion.finish(op, launch, epilogue(launch, outer(space, launch), total))


@converts(graph.LinearOp)
def _linear(op: graph.LinearOp, conversion: Conversion) -> None:
    launch = conversion.launch(op)
    space, total = _product(launch, op.input, op.weight, shape_of(op.result))
    out_space = outer(space, launch)
    addends: list[Operand | Number] = []
    for name, value in (("bias", op.bias), ("residual", op.residual)):
        if value is not None:
            number = conversion.number(value)
            if number is None:
                addends.append(Operand(launch.use(value, name), out_space.broadcast(shape_of(value))))
            else:
                addends.append(number)
    result = epilogue(launch, out_space, total, addends=addends, activation=op.activation)
    conversion.finish(op, launch, result)


def _product(
    launch: Launch, left: SSAValue, right: SSAValue, result: Sequence[int]
) -> tuple[Space, SSAValue]:
    """The iteration space of a matrix product of this shape, and its sums, which are not rounded yet."""
    shapes = shape_of(left), shape_of(right)
    rows, columns = ("m",)[: len(shapes[0]) - 1], ("n",)[: len(shapes[1]) - 1]  # a vector has none
    batch = tuple(f"b{i}" for i in range(len(result) - len(rows) - len(columns)))
    space = Space({**dict(zip((*batch, *rows, *columns), result, strict=True)), "k": shapes[0][-1]})
    lhs = Operand(launch.use(left, "lhs"), space.broadcast(shapes[0], (*batch, *rows, "k")))
    rhs = Operand(launch.use(right, "rhs"), space.broadcast(shapes[1], (*batch, "k", *columns)))
    return space, sum_of_products(launch, space, lhs, rhs)


def outer(space: Space, launch: Launch) -> Space:
    """The dimensions of the destination: the first ones of the iteration space."""
    rank = kernel.tensor_type(launch.out).get_num_dims()
    return Space(dict(list(space.bounds.items())[:rank]))


def sum_of_products(launch: Launch, space: Space, a: Operand, b: Operand) -> SSAValue:
    """Contract into zeros: in the destination if that is as wide as sums are, else in a temporary."""
    type = kernel.tensor_type(launch.out)
    work = accumulator(type.element_type)
    dest = launch.out if work == type.element_type else launch.empty(type.get_shape(), work)
    out = space.access(*outer(space, launch).names)
    return launch.contract(space, a, b, Operand(launch.filled(0, dest), out))


def epilogue(
    launch: Launch,
    space: Space,
    total: SSAValue,
    bias: Operand | None = None,
    *,
    addends: Sequence[Operand | Number] = (),
    activation: graph.ActivationAttr | None = None,
) -> SSAValue:
    """What is done with sums of products, in one map; `total` itself if that is nothing.

    The bias is added to the sum, which is then rounded to the type of the destination if that is narrower; addends and
    activation follow in that type. The launch is named after the activation too: `linear_relu`.
    """
    if activation is not None:
        launch.name += f"_{activation.kind.data}"
    result = kernel.tensor_type(launch.out)
    rounds = kernel.tensor_type(total).element_type != result.element_type
    applied = None if activation is None else activation.operation(result)

    def body(s: Scalars, *values: SSAValue) -> SSAValue:
        value, *others = values[:-1] if rounds else (values[-1], *values[:-1])
        if bias is not None:
            value = s.add(value, s.widen(others.pop(0)))
        value = s.truncate(value, result.element_type) if rounds else value
        for addend in addends:
            value = s.add(value, others.pop(0) if isinstance(addend, Operand) else s.like(addend, value))
        if activation is None or applied is None:
            return value
        numbers = [s.like(number, value) for number in activation.numbers]
        return FORMULAS[type(applied)](s, applied, value, *numbers)

    ins = [operand for operand in (bias, *addends) if isinstance(operand, Operand)]
    if rounds:
        sums = Operand(total, space.identity())
        return launch.map(space, [sums, *ins], Operand(launch.out, space.identity()), body)
    if bias is None and not addends and activation is None:
        return total
    return launch.map(space, ins, Operand(total, space.identity()), body)


@converts(graph.ConvOp, graph.ChannelsLastConvOp, graph.IntegerConvOp)
def _conv(op: Convolution, conversion: Conversion) -> None:
    """With groups the channel dimensions are split into (group, channel of the group).

    An out map has one dimension per axis, so then the destination has an axis more, and a reshape merges it after the
    launch; but a depthwise convolution (one channel in and out per group) needs no such split.
    """
    is_last = isinstance(op, graph.ChannelsLastConvOp)
    batch, features, positions = _split(shape_of(op.result), is_last)
    group_channels, kernel_size = _weight_sizes(op)
    group_features = features // op.groups
    output = dict(zip(spatial_names("o", len(positions)), positions, strict=True))
    kernel_dims = dict(zip(spatial_names("k", len(positions)), kernel_size, strict=True))
    is_depthwise = op.groups > 1 and group_channels == group_features == 1
    if op.groups == 1:
        channels = {"oc": features}
    elif is_depthwise:
        channels = {"c": features}
    else:
        channels = {"g": op.groups, "oc": group_features}
    summed = {} if is_depthwise else {"ic": group_channels}
    if is_last:
        space = Space({"n": batch, **output, **channels, **kernel_dims, **summed})
    else:
        space = Space({"n": batch, **channels, **output, **summed, **kernel_dims})
    within: str | int = 0 if is_depthwise else "ic"
    if op.groups == 1:
        channel, feature = space["ic"], space["oc"]
    elif is_depthwise:
        channel = feature = space["c"]
    else:
        channel = space["g"] * group_channels + space["ic"]
        feature = space["g"] * group_features + space["oc"]

    shape = [size for name, size in space.bounds.items() if name not in summed and name not in kernel_dims]
    launch = conversion.launch(op, [TensorType(element_of(op.result), shape)])
    window = window_axes(space, op.window)
    axes = ["n", *window, channel] if is_last else ["n", channel, *window]
    x = padded_read(space, launch.use(op.input, "input"), axes, _padding(op))
    weight_axes = (*kernel_dims, within, feature) if is_last else (feature, within, *kernel_dims)
    weight = Operand(launch.use(op.weight, "weight"), space.access(*weight_axes))
    total = sum_of_products(launch, space, x, weight)
    out_space = outer(space, launch)
    bias = None
    if not isinstance(op, graph.IntegerConvOp) and op.bias is not None:
        row = LinearExpr(feature.coefficients[: len(out_space.bounds)])
        bias = Operand(launch.use(op.bias, "bias"), out_space.access(row))
    addends = _residual(op, conversion, launch, out_space)
    activation = None if isinstance(op, graph.IntegerConvOp) else op.activation
    result = epilogue(launch, out_space, total, bias, addends=addends, activation=activation)
    finish_reshaped(op, conversion, launch, result)


def _split(shape: Sequence[int], is_last: bool) -> tuple[int, int, Sequence[int]]:
    """Batch, channels and spatial sizes of a shape with its channels last, or first."""
    return (shape[0], shape[-1], shape[1:-1]) if is_last else (shape[0], shape[1], shape[2:])


def _weight_sizes(op: Convolution) -> tuple[int, Sequence[int]]:
    """The channels that a feature sums over, and the extents of the kernel."""
    shape = shape_of(op.weight)
    return (shape[-2], shape[:-2]) if isinstance(op, graph.ChannelsLastConvOp) else (shape[1], shape[2:])


def _residual(op: Convolution, conversion: Conversion, launch: Launch, space: Space) -> list[Operand]:
    """What is added to a convolution, in the shape of the destination: one operand or none."""
    if isinstance(op, graph.IntegerConvOp) or op.residual is None:
        return []
    value, shape = conversion.value(op.residual), kernel.tensor_type(launch.out).get_shape()
    if shape != shape_of(op.residual):
        reshape = kernel.ReshapeOp(value, shape)
        conversion.insert(op, reshape)
        value = reshape.result
    return [Operand(launch.use(value, "residual"), space.identity())]


def _padding(op: Convolution) -> int:
    """What a convolution reads outside of its input."""
    return op.padding if isinstance(op, graph.IntegerConvOp) else 0


def finish_reshaped(op: GraphOp, conversion: Conversion, launch: Launch, total: SSAValue) -> None:
    """End a launch that yields the only result of `op`, which is reshaped if its destination has another shape."""
    is_split = kernel.tensor_type(launch.out).get_shape() != shape_of(op.results[0])
    named: Sequence[SSAValue] = () if is_split else op.results
    (result,) = conversion.insert_launch(op, launch, named, total)
    if is_split:
        reshape = kernel.ReshapeOp(result, shape_of(op.results[0]))
        conversion.insert(op, reshape)
        copy_name(op.results[0], reshape.result)
        result = reshape.result
    conversion.replace(op, result)
