"""Matrix multiplication and convolution: a `kernel.contract` into zeros; f16 and bf16 are summed in f32."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mlopt.dialects import graph, kernel
from mlopt.dialects.graph.base import GraphOp, shape_of
from mlopt.dialects.kernel import LinearExpr
from mlopt.ir.names import copy_name
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Launch, Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, accumulator
from mlopt.passes.convert_graph_to_kernel.windows import padded_read, spatial_names, window_axes


@converts(graph.MatMulOp, graph.IntegerMatMulOp)
def _matmul(op: graph.MatMulOp | graph.IntegerMatMulOp, conversion: Conversion) -> None:
    left, right, result = map(shape_of, (op.lhs, op.rhs, op.result))
    rows, columns = ("m",)[: len(left) - 1], ("n",)[: len(right) - 1]  # a vector has none
    batch = tuple(f"b{i}" for i in range(len(result) - len(rows) - len(columns)))
    space = Space({**dict(zip((*batch, *rows, *columns), result, strict=True)), "k": left[-1]})
    launch = conversion.launch(op)
    lhs = Operand(launch.use(op.lhs, "lhs"), space.broadcast(left, (*batch, *rows, "k")))
    rhs = Operand(launch.use(op.rhs, "rhs"), space.broadcast(right, (*batch, "k", *columns)))
    total = sum_of_products(launch, space, lhs, rhs)
    conversion.finish(op, launch, epilogue(launch, outer(space, launch), total))


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


def epilogue(launch: Launch, space: Space, total: SSAValue, bias: Operand | None = None) -> SSAValue:
    """Add the bias, if there is one, and round to the type of the destination, if that is narrower."""
    element = kernel.tensor_type(launch.out).element_type
    rounds = kernel.tensor_type(total).element_type != element

    def body(s: Scalars, *values: SSAValue) -> SSAValue:
        value, *addends = values[:-1] if rounds else reversed(values)
        for addend in addends:
            value = s.add(value, s.widen(addend))
        return s.truncate(value, element) if rounds else value

    addends = [] if bias is None else [bias]
    if rounds:
        ins = [Operand(total, space.identity()), *addends]
        return launch.map(space, ins, Operand(launch.out, space.identity()), body)
    return launch.map(space, addends, Operand(total, space.identity()), body) if addends else total


@converts(graph.ConvOp, graph.IntegerConvOp)
def _conv(op: graph.ConvOp | graph.IntegerConvOp, conversion: Conversion) -> None:
    """With groups the channel dimensions are split into (group, channel of the group).

    An out map has one dimension per axis, so then the destination has an axis more, and a reshape merges it after the
    launch; but a depthwise convolution (one channel in and out per group) needs no such split.
    """
    batch, features, *positions = shape_of(op.result)
    _, group_channels, *kernel_size = shape_of(op.weight)
    group_features = features // op.groups
    output = dict(zip(spatial_names("o", len(positions)), positions, strict=True))
    kernel_dims = dict(zip(spatial_names("k", len(positions)), kernel_size, strict=True))
    if op.groups == 1:
        space = Space({"n": batch, "oc": features, **output, "ic": group_channels, **kernel_dims})
        channel, feature, within = space["ic"], space["oc"], "ic"
    elif group_channels == group_features == 1:
        space = Space({"n": batch, "c": features, **output, **kernel_dims})
        channel, feature, within = space["c"], space["c"], 0
    else:
        grouped = {"n": batch, "g": op.groups, "oc": group_features}
        space = Space({**grouped, **output, "ic": group_channels, **kernel_dims})
        channel = space["g"] * group_channels + space["ic"]
        feature, within = space["g"] * group_features + space["oc"], "ic"

    shape = [size for name, size in space.bounds.items() if name != "ic" and name not in kernel_dims]
    launch = conversion.launch(op, [TensorType(element_of(op.result), shape)])
    axes = ["n", channel, *window_axes(space, op.window)]
    x = padded_read(space, launch.use(op.input, "input"), axes, _padding(op))
    weight = Operand(launch.use(op.weight, "weight"), space.access(feature, within, *kernel_dims))
    total = sum_of_products(launch, space, x, weight)
    out_space = outer(space, launch)
    bias = None
    if isinstance(op, graph.ConvOp) and op.bias is not None:
        row = LinearExpr(feature.coefficients[: len(out_space.bounds)])
        bias = Operand(launch.use(op.bias, "bias"), out_space.access(row))
    finish_reshaped(op, conversion, launch, epilogue(launch, out_space, total, bias))


def _padding(op: graph.ConvOp | graph.IntegerConvOp) -> int:
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
