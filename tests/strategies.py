"""Hypothesis strategies: small random modules at graph level, with inputs for them.

`graph_modules()` gives a `GraphCase`: a verified module with `@main`, its inputs by name, and a weight store for its
constants. Shapes have sizes 0, 1 and small odd numbers; floats include infinities, NaN, -0.0 and numbers of very
different size. Every operation has a defined result for its operands (indices are in range, integers are not divided
by zero), so that any two correct executions agree, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp
from mlopt.dialects.graph.base import broadcast_shapes, shape_of, tensor_type
from mlopt.ir.dtypes import constant_attr, from_numpy_dtype, to_numpy_dtype
from mlopt.ir.printer import print_module
from mlopt.weights import WeightStore

SIZES = (0, 1, 2, 3, 5)
SPECIAL_FLOATS = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1e-30, 3e4)
DTYPES = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.bool_))
"""What inputs and constants hold; f32 most of the time."""


@dataclass
class GraphCase:
    """A module, inputs for it by name, and the weights that its constants name."""

    module: ModuleOp
    inputs: dict[str, np.ndarray]
    weights: WeightStore = field(default_factory=WeightStore)

    def __repr__(self) -> str:
        return f"GraphCase(\n{print_module(self.module)}{self.inputs})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        """What hypothesis prints for a failing case; by default it would print every field of every operation."""
        printer.text(repr(self))


@st.composite
def arrays(draw: st.DrawFn, dtype: np.dtype, shape: Sequence[int], *, special: bool = True) -> np.ndarray:
    """An array; with `special`, floats that include infinities and NaN. Integers are small, of both signs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(-9 if dtype.kind == "i" else 0, 10, shape)).astype(dtype)
    array = np.asarray(rng.standard_normal(shape) * draw(st.sampled_from([1.0, 0.01, 30.0]))).astype(dtype)
    if special and array.size and draw(st.booleans()):
        flat = array.reshape(-1)
        flat[rng.integers(0, flat.size)] = draw(st.sampled_from(SPECIAL_FLOATS))
    return array


def shapes(min_rank: int = 0, max_rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of small sizes; size 0 is rare enough that most modules compute something."""
    sizes = st.one_of(st.sampled_from(SIZES[1:]), st.sampled_from(SIZES))
    return st.lists(sizes, min_size=min_rank, max_size=max_rank).map(tuple)


class _Builder:
    """Appends random operations to a block. `values` are what operands are drawn from."""

    def __init__(self, draw: st.DrawFn, special: bool):
        self.draw = draw
        self.special = special
        self.block = Block()
        self.weights = WeightStore()
        self.inputs: dict[str, np.ndarray] = {}
        self.values: list[SSAValue] = []

    def add_input(self, dtype: np.dtype, shape: Sequence[int]) -> SSAValue:
        value = self.block.insert_arg(TensorType(from_numpy_dtype(dtype), shape), len(self.block.args))
        self.inputs[f"x{len(self.inputs)}"] = self.draw(arrays(dtype, shape, special=self.special))
        self.values.append(value)
        return value

    def add(self, op: GraphOp) -> GraphOp:
        self.block.add_op(op)
        self.values.extend(op.results)
        return op

    def constant(self, array: np.ndarray) -> SSAValue:
        element = from_numpy_dtype(array.dtype)
        value = constant_attr(array, self.weights, "weight")
        op = graph.ConstantOp(value, TensorType(element, array.shape))
        self.block.add_op(op)
        return op.result

    def random_constant(self, dtype: np.dtype, shape: Sequence[int]) -> SSAValue:
        return self.constant(self.draw(arrays(dtype, shape, special=False)))

    def pick(self, accept: Callable[[SSAValue], bool]) -> SSAValue:
        """One of the values that `accept` takes; a new f32 input of shape [2, 3] if there is none."""
        fitting = [value for value in self.values if accept(value)]
        if not fitting:
            return self.add_input(np.dtype(np.float32), (2, 3))
        return self.draw(st.sampled_from(fitting))

    def float_value(self, min_rank: int = 0) -> SSAValue:
        value = self.pick(lambda v: dtype_of(v).kind == "f")
        missing = min_rank - len(shape_of(value))
        if missing > 0:
            value = self.add(graph.ReshapeOp(value, (1,) * missing + shape_of(value))).results[0]
        return value

    def axis(self, value: SSAValue) -> int:
        return self.draw(st.integers(0, len(shape_of(value)) - 1))

    def partner(self, value: SSAValue) -> SSAValue:
        """A value that broadcasts with `value` and has its element type."""

        def fits(other: SSAValue) -> bool:
            if dtype_of(other) != dtype_of(value):
                return False
            try:
                broadcast_shapes(shape_of(value), shape_of(other))
            except VerifyException:
                return False
            return True

        if self.draw(st.booleans()):
            return self.pick(fits)
        shape = tuple(self.draw(st.sampled_from([1, size])) for size in shape_of(value))
        keep = self.draw(st.integers(0, len(shape)))
        return self.random_constant(dtype_of(value), shape[keep:])


def dtype_of(value: SSAValue) -> np.dtype:
    """The numpy dtype of a tensor value."""
    return to_numpy_dtype(tensor_type(value.type).element_type)


def _unary(b: _Builder) -> Operation:
    op_type = b.draw(st.sampled_from([
        graph.ReluOp, graph.ErfOp, graph.TanhOp, graph.SigmoidOp, graph.ExpOp, graph.LogOp, graph.SqrtOp,
        graph.ReciprocalOp, graph.NegOp, graph.AbsOp, graph.FloorOp, graph.CeilOp, graph.RoundOp, graph.SignOp,
        graph.SinOp, graph.CosOp, graph.GeluOp, graph.HardSwishOp, graph.IsNanOp, graph.IsInfOp, graph.LeakyReluOp,
        graph.HardSigmoidOp,
    ]))  # fmt: skip
    return b.add(op_type(b.float_value()))


def _integer_unary(b: _Builder) -> Operation:
    value = b.pick(lambda v: dtype_of(v).kind == "i")
    if dtype_of(value).kind != "i":
        return b.add(graph.AbsOp(value))
    return b.add(
        b.draw(st.sampled_from([graph.NegOp, graph.AbsOp, graph.ReluOp, graph.SignOp, graph.NotOp]))(value)
    )


def _binary(b: _Builder) -> Operation:
    lhs = b.pick(lambda v: dtype_of(v).kind in "fi")
    return b.add(b.draw(st.sampled_from([
        graph.AddOp, graph.SubOp, graph.MulOp, graph.MinOp, graph.MaxOp, graph.EqualOp, graph.LessOp,
        graph.LessEqualOp, graph.GreaterOp, graph.GreaterEqualOp,
    ]))(lhs, b.partner(lhs)))  # fmt: skip


def _div(b: _Builder) -> Operation:
    lhs = b.pick(lambda v: dtype_of(v).kind in "fi")
    if dtype_of(lhs).kind == "f":
        return b.add(graph.DivOp(lhs, b.partner(lhs)))
    divisor = b.constant(np.array(b.draw(st.sampled_from([-3, -1, 1, 2, 7])), dtype_of(lhs)))
    return b.add(b.draw(st.sampled_from([graph.DivOp, graph.ModOp]))(lhs, divisor))


def _logical(b: _Builder) -> Operation:
    lhs = b.pick(lambda v: dtype_of(v).kind == "b")
    if dtype_of(lhs).kind != "b":
        lhs = b.add(graph.IsNanOp(lhs)).results[0]
    if b.draw(st.booleans()):
        return b.add(graph.NotOp(lhs))
    return b.add(b.draw(st.sampled_from([graph.AndOp, graph.OrOp, graph.XorOp]))(lhs, b.partner(lhs)))


def _where(b: _Builder) -> Operation:
    value = b.pick(lambda v: True)
    other = b.partner(value)
    shape = broadcast_shapes(shape_of(value), shape_of(other))
    return b.add(graph.WhereOp(b.random_constant(np.dtype(np.bool_), shape), value, other))


def _clip(b: _Builder) -> Operation:
    value = b.float_value()
    bounds = [b.constant(np.array(bound, dtype_of(value))) for bound in (-0.5, 1.5)]
    keep = b.draw(st.sampled_from([(0, 1), (0, None), (None, 1)]))
    return b.add(graph.ClipOp(value, *(None if index is None else bounds[index] for index in keep)))


def _cast(b: _Builder) -> Operation:
    value = b.pick(lambda v: True)
    return b.add(graph.CastOp(value, from_numpy_dtype(b.draw(st.sampled_from(DTYPES)))))


def _matmul(b: _Builder) -> Operation:
    lhs = b.float_value(min_rank=1)
    inner = shape_of(lhs)[-1]
    columns = b.draw(st.sampled_from([(), (1,), (3,)]))
    return b.add(graph.MatMulOp(lhs, b.random_constant(np.dtype(np.float32), (inner, *columns))))


def _conv(b: _Builder) -> Operation | None:
    value = b.float_value(min_rank=3)
    shape = shape_of(value)
    if len(shape) > 4 or shape[1] == 0:
        return None
    kernel = tuple(b.draw(st.sampled_from([1, 2, 3])) for _ in shape[2:])
    group = b.draw(st.sampled_from([1, shape[1]]))
    weight = b.random_constant(np.dtype(np.float32), (2 * group, shape[1] // group, *kernel))
    bias = b.random_constant(np.dtype(np.float32), (2 * group,)) if b.draw(st.booleans()) else None
    return b.add(graph.ConvOp(value, weight, bias, group=group, **_window(b, kernel)))


def _pool(b: _Builder) -> Operation | None:
    value = b.float_value(min_rank=3)
    if len(shape_of(value)) > 4:
        return None
    kernel = tuple(b.draw(st.sampled_from([1, 2, 3])) for _ in shape_of(value)[2:])
    window = _window(b, kernel)
    window["ceil_mode"] = b.draw(st.booleans())
    if b.draw(st.booleans()):
        return b.add(graph.MaxPoolOp(value, kernel, **window))
    return b.add(graph.AveragePoolOp(value, kernel, count_include_pad=b.draw(st.booleans()), **window))


def _window(b: _Builder, kernel: Sequence[int]) -> dict[str, object]:
    """Strides, pads (below the kernel's size) and dilations."""
    return {
        "strides": [b.draw(st.sampled_from([1, 2])) for _ in kernel],
        "pads": [b.draw(st.integers(0, size - 1)) for size in (*kernel, *kernel)],
        "dilations": [b.draw(st.sampled_from([1, 1, 2])) if size > 1 else 1 for size in kernel],
    }


def _normalize(b: _Builder) -> Operation:
    value = b.float_value(min_rank=2)
    shape, f32 = shape_of(value), np.dtype(np.float32)
    axis = b.axis(value)
    match b.draw(st.sampled_from(["softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm"])):
        case "softmax":
            return b.add(graph.SoftmaxOp(value, axis))
        case "log_softmax":
            return b.add(graph.LogSoftmaxOp(value, axis))
        case "layer_norm":
            scale, bias = (b.random_constant(f32, shape[axis:]) for _ in range(2))
            return b.add(graph.LayerNormOp(value, scale, b.draw(st.sampled_from([None, bias])), axis=axis))
        case "rms_norm":
            return b.add(graph.RmsNormOp(value, b.random_constant(f32, shape[axis:]), axis=axis))
        case _:
            scale, bias, mean = (b.random_constant(f32, shape[1:2]) for _ in range(3))
            variance = b.constant(np.abs(b.draw(arrays(f32, shape[1:2], special=False))) + np.float32(0.5))
            return b.add(graph.BatchNormOp(value, scale, bias, mean, variance))


def _reduce(b: _Builder) -> Operation:
    value = b.pick(lambda v: dtype_of(v).kind in "fi")
    op_type = b.draw(st.sampled_from([
        graph.ReduceSumOp, graph.ReduceMeanOp, graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceProdOp,
    ]))  # fmt: skip
    axes = [axis for axis in range(len(shape_of(value))) if b.draw(st.booleans())]
    return b.add(op_type(value, axes, keepdims=b.draw(st.booleans())))


def _arg_max(b: _Builder) -> Operation | None:
    value = b.float_value(min_rank=1)
    axis = b.axis(value)
    if shape_of(value)[axis] == 0:
        return None
    return b.add(
        graph.ArgMaxOp(value, axis, keepdims=b.draw(st.booleans()), select_last=b.draw(st.booleans()))
    )


def _move(b: _Builder) -> Operation:
    value = b.pick(lambda v: len(shape_of(v)) > 0)
    shape = shape_of(value)
    axis = b.axis(value)
    match b.draw(st.sampled_from(["reshape", "transpose", "concat", "slice", "expand", "pad", "split"])):
        case "reshape":
            flat = math.prod(shape)
            return b.add(
                graph.ReshapeOp(value, b.draw(st.sampled_from([(flat,), (1, flat), (*shape, 1), shape])))
            )
        case "transpose":
            return b.add(graph.TransposeOp(value, b.draw(st.permutations(range(len(shape))))))
        case "concat":
            return b.add(graph.ConcatOp([value, b.random_constant(dtype_of(value), shape), value], axis))
        case "slice":
            bound = st.integers(-6, 6)
            steps = st.sampled_from([1, 2, -1, -3])
            numbers = [b.draw(bound), b.draw(bound), b.draw(steps)]
            return b.add(graph.SliceOp.over_axes(value, numbers[:1], numbers[1:2], [axis], numbers[2:]))
        case "expand":
            return b.add(graph.ExpandOp(value, (2, *shape)))
        case "split":
            cut = b.draw(st.integers(0, shape[axis]))
            return b.add(graph.SplitOp(value, axis, [cut, shape[axis] - cut]))
        case _:
            widths = [[b.draw(st.integers(0 if size < 2 else -1, 2)) for size in shape] for _ in range(2)]
            return b.add(graph.PadOp(value, *widths, pad_value(value)))


def pad_value(value: SSAValue) -> Attribute:
    """The number one as an attribute of the value's element type."""
    element = tensor_type(value.type).element_type
    if dtype_of(value).kind == "f":
        return FloatAttr(1.0, element)  # pyright: ignore[reportArgumentType]
    return IntegerAttr(1, element)  # pyright: ignore[reportArgumentType]


def _gather(b: _Builder) -> Operation | None:
    value = b.pick(lambda v: len(shape_of(v)) > 0 and 0 not in shape_of(v))
    shape = shape_of(value)
    if 0 in shape:
        return None
    axis = b.axis(value)
    match b.draw(st.sampled_from(["gather", "gather_elements", "gather_nd"])):
        case "gather":
            return b.add(
                graph.GatherOp(value, b.constant(_indices(b, shape[axis], b.draw(shapes(0, 2)))), axis)
            )
        case "gather_elements":
            positions = (*shape[:axis], 3, *shape[axis + 1 :])
            return b.add(graph.GatherElementsOp(value, b.constant(_indices(b, shape[axis], positions)), axis))
        case _:
            length = b.draw(st.integers(1, len(shape)))
            parts = [_indices(b, size, (4,)) for size in shape[:length]]
            return b.add(graph.GatherNdOp(value, b.constant(np.stack(parts, axis=-1))))


def _indices(b: _Builder, size: int, shape: Sequence[int]) -> np.ndarray:
    rng = np.random.default_rng(b.draw(st.integers(0, 2**32 - 1)))
    return np.asarray(rng.integers(-size, size, shape)).astype(np.int64)


_STEPS: tuple[Callable[[_Builder], Operation | None], ...] = (
    _unary, _integer_unary, _binary, _binary, _div, _logical, _where, _clip, _cast, _matmul, _conv, _pool, _normalize,
    _reduce, _arg_max, _move, _move, _gather,
)  # fmt: skip


@st.composite
def graph_modules(draw: st.DrawFn, *, max_ops: int = 8, special: bool = True) -> GraphCase:
    """A random module of up to `max_ops` operations (and the constants that they need), with inputs for it.

    `special` puts infinities and NaN into inputs now and then. Every result that nothing uses is an output, the inputs
    are named `x0, x1, ...` and the outputs `y0, y1, ...`.
    """
    builder = _Builder(draw, special)
    for _ in range(draw(st.integers(1, 2))):
        dtype = draw(st.sampled_from((DTYPES[0], DTYPES[0], *DTYPES)))
        builder.add_input(dtype, draw(shapes()))
    if draw(st.booleans()):
        builder.values.append(builder.random_constant(draw(st.sampled_from(DTYPES)), draw(shapes())))
    for step in draw(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=max_ops)):
        try:
            step(builder)
        except VerifyException:
            continue  # A window larger than the tensor: this module does without.
    outputs = [value for value in builder.values if not value.uses]
    module = _module(builder, outputs)
    module.verify()
    return GraphCase(module, builder.inputs, builder.weights)


def _module(builder: _Builder, outputs: Sequence[SSAValue]) -> ModuleOp:
    def names(prefix: str, count: int) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr(
            DictionaryAttr({"mlopt.name": StringAttr(f"{prefix}{index}")}) for index in range(count)
        )

    block = builder.block
    block.add_op(ReturnOp(*outputs))
    main = FuncOp(
        "main",
        ([argument.type for argument in block.args], [value.type for value in outputs]),
        Region(block),
        arg_attrs=names("x", len(block.args)),
        res_attrs=names("y", len(outputs)),
    )
    return ModuleOp([main])
