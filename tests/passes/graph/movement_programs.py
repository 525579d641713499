"""Random modules in which movements meet each other: transposes, reshapes, slices, concats and casts.

Unlike `tests/strategies.py`, values are used again and again, and permutations and cuts are drawn from a few, so
that what one movement does is often undone by another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects import graph
from mlopt.dialects.graph.base import broadcast_shapes, shape_of, tensor_type
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import constant_attr, from_numpy_dtype
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passmanager.base import Pass
from tests.strategies import GraphCase, arrays

__all__ = ["check_pass", "count", "movement_modules"]

F32 = np.dtype(np.float32)
SHAPES = ((2, 3, 4), (2, 3, 4), (3, 1, 4), (2, 3, 4, 5), (1, 3, 1, 2), (4, 4), (0, 3, 2), (3,))


class _Program:
    """Appends random operations to a block; a step that does not fit its operand does nothing."""

    def __init__(self, draw: st.DrawFn):
        self.draw = draw
        self.block = Block()
        self.inputs: dict[str, np.ndarray] = {}
        self.values: list[SSAValue] = []
        self.case = GraphCase(ModuleOp([]), self.inputs)

    def add_input(self, shape: Sequence[int]) -> None:
        self.inputs[f"x{len(self.inputs)}"] = self.draw(arrays(F32, shape))
        self.values.append(self.block.insert_arg(TensorType(f32, shape), len(self.block.args)))

    def choose(self, options: Sequence[int]) -> int:
        return self.draw(st.sampled_from(options))

    def value(self, accept: Callable[[SSAValue], bool] = lambda value: True) -> SSAValue | None:
        """A value that fits, most often one of the last."""
        fitting = [value for value in self.values if accept(value)]
        if not fitting:
            return None
        return self.draw(st.sampled_from(fitting[-3:] if self.draw(st.booleans()) else fitting))

    def add(self, op: Operation) -> None:
        self.block.add_op(op)
        self.values += op.results

    def constant(self, shape: Sequence[int]) -> SSAValue:
        array = self.draw(arrays(F32, shape))
        attribute = constant_attr(array, self.case.weights, "w")
        op = graph.ConstantOp(attribute, TensorType(from_numpy_dtype(F32), shape))
        self.block.add_op(op)
        return op.result


def _is_f32(value: SSAValue) -> bool:
    return tensor_type(value.type).element_type == f32


def _transpose(p: _Program, value: SSAValue) -> None:
    rank = len(shape_of(value))
    few = list(itertools.permutations(range(rank)))
    perms = [
        (0, *range(2, rank), 1),
        (0, rank - 1, *range(1, rank - 1)),
        (*range(rank - 2), rank - 1, rank - 2),
    ]
    p.add(graph.TransposeOp(value, p.draw(st.sampled_from(perms if rank > 2 else few))))


def _reshape(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    axis = p.choose(range(len(shape) + 1))
    merged = (
        (*shape[: axis - 1], math.prod(shape[axis - 1 : axis + 1]), *shape[axis + 1 :]) if axis else shape
    )
    split = (
        (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
        if shape[axis:] and shape[axis] % 2 == 0
        else shape
    )
    ones = tuple(size for size in shape if size != 1)
    options = [(*shape[:axis], 1, *shape[axis:]), merged, split, ones, SHAPES[0], SHAPES[3]]
    p.add(graph.ReshapeOp(value, p.draw(st.sampled_from(options))))


def _unary(p: _Program, value: SSAValue) -> None:
    if _is_f32(value):
        p.add(p.draw(st.sampled_from([graph.ReluOp, graph.NegOp, graph.TanhOp, graph.IsNanOp]))(value))


def _binary(p: _Program, value: SSAValue) -> None:
    if not _is_f32(value):
        return
    shape = shape_of(value)

    def fits(other: SSAValue) -> bool:
        try:
            return _is_f32(other) and len(broadcast_shapes(shape, shape_of(other))) <= 5
        except VerifyException:
            return False

    other = p.value(fits)
    if other is None or p.draw(st.booleans()):
        other = p.constant(shape[p.choose(range(len(shape) + 1)) :])
    kind = p.draw(st.sampled_from([graph.AddOp, graph.SubOp, graph.MulOp, graph.LessOp]))
    p.add(kind(value, other) if p.draw(st.booleans()) else kind(other, value))


def _along_axis(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if not shape or not _is_f32(value) or 0 in shape:
        return
    axis = p.choose(range(len(shape)))
    kind = p.choose(range(6))
    keepdims = p.draw(st.booleans())
    match kind:
        case 0:
            p.add(graph.SoftmaxOp(value, axis))
        case 1:
            p.add(graph.ReduceMaxOp(value, [axis], keepdims=keepdims))
        case 2:
            p.add(graph.ReduceSumOp(value, sorted({axis, 0}), keepdims=keepdims))
        case 3:
            p.add(graph.CumSumOp(value, axis))
        case 4:
            p.add(graph.ArgMaxOp(value, axis, keepdims=keepdims))
        case _:
            p.add(graph.LayerNormOp(value, p.constant(shape[-1:]), axis=-1))


def _matmul(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if len(shape) < 2 or not _is_f32(value):
        return
    other = p.value(lambda v: _is_f32(v) and len(shape_of(v)) >= 2 and shape_of(v)[-2] == shape[-1])
    if other is None or p.draw(st.booleans()):
        other = p.constant((shape[-1], 3))
    p.add(graph.MatMulOp(value, other))


def _window(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if len(shape) != 4 or not _is_f32(value) or 0 in shape:
        return
    if p.draw(st.booleans()):
        p.add(graph.MaxPoolOp(value, [1, 2], strides=[2, 1], pads=[0, 1, 0, 0]))
    else:
        weight = p.constant((2, shape[1], 1, 2))
        p.add(graph.ConvOp(value, weight, p.constant((2,)), strides=[2, 1], pads=[0, 1, 1, 0]))


def _slice(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if not shape:
        return
    axis = p.choose(range(len(shape)))
    cut, step = p.choose((0, 1, 2)), p.choose((1, 1, 1, 2, -1))
    start, stop = ((0, cut), (cut, 9), (-2, 9))[p.choose(range(3))] if step > 0 else (9, cut - 9)
    p.add(graph.SliceOp.over_axes(value, [start], [stop], [axis], [step]))


def _split(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if not shape:
        return
    axis = p.choose(range(len(shape)))
    cut = min(shape[axis], p.choose((0, 1, 2)))
    p.add(graph.SplitOp(value, axis, [cut, shape[axis] - cut]))


def _concat(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if not shape or math.prod(shape) > 500:
        return
    axis = p.choose(range(len(shape)))

    def fits(other: SSAValue) -> bool:
        own = shape_of(other)
        same = len(own) == len(shape) and (*own[:axis], *own[axis + 1 :]) == (
            *shape[:axis],
            *shape[axis + 1 :],
        )
        return same and tensor_type(other.type).element_type == tensor_type(value.type).element_type

    operands = [value]
    for _ in range(p.choose((1, 1, 2))):
        other = p.value(fits)
        assert other is not None
        operands.insert(p.choose((0, 1)), other)
    p.add(graph.ConcatOp(operands, axis))


def _pad(p: _Program, value: SSAValue) -> None:
    shape = shape_of(value)
    if not shape or not _is_f32(value):
        return
    widths = [[p.choose((0, 0, 1, 2, -1 if size > 1 else 0)) for size in shape] for _ in range(2)]
    if any(size + low + high < 0 for size, low, high in zip(shape, *widths, strict=True)):
        return
    p.add(graph.PadOp(value, *widths, FloatAttr(p.choose((0, 2)), f32)))


def _cast(p: _Program, value: SSAValue) -> None:
    element: Attribute = p.draw(st.sampled_from((f16, f32, f64, i1, i8, i32, i64)))
    p.add(graph.CastOp(value, element))


def _expand(p: _Program, value: SSAValue) -> None:
    if math.prod(shape_of(value)) <= 200:
        p.add(graph.ExpandOp(value, (2, *shape_of(value))))


STEPS: dict[str, Callable[[_Program, SSAValue], None]] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "unary": _unary,
    "binary": _binary,
    "along_axis": _along_axis,
    "matmul": _matmul,
    "window": _window,
    "slice": _slice,
    "split": _split,
    "concat": _concat,
    "pad": _pad,
    "cast": _cast,
    "expand": _expand,
}


@st.composite
def movement_modules(draw: st.DrawFn, often: Sequence[str], max_ops: int = 10) -> GraphCase:
    """A random module in which every other operation is one of `often`. About half of the values are outputs."""
    program = _Program(draw)
    for _ in range(draw(st.integers(1, 2))):
        program.add_input(draw(st.sampled_from(SHAPES)))
    for _ in range(draw(st.integers(2, max_ops))):
        names = often if draw(st.booleans()) else tuple(STEPS)
        value = program.value(lambda v: len(shape_of(v)) <= 5)
        assert value is not None
        try:
            STEPS[draw(st.sampled_from(names))](program, value)
        except VerifyException:
            continue  # it does not fit: this module does without
    results = [value for value in program.values if not isinstance(value.owner, Block)]
    outputs = [value for value in results if value.first_use is None or draw(st.integers(0, 3)) == 0]
    program.block.add_op(ReturnOp(*outputs))

    def names_of(prefix: str, number: int) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr(DictionaryAttr({"mlopt.name": StringAttr(f"{prefix}{i}")}) for i in range(number))

    block = program.block
    types = [argument.type for argument in block.args], [value.type for value in outputs]
    main = FuncOp(
        "main",
        types,
        Region(block),
        arg_attrs=names_of("x", len(block.args)),
        res_attrs=names_of("y", len(outputs)),
    )
    program.case.module = ModuleOp([main])
    program.case.module.verify()
    return program.case


def context_of(case: GraphCase) -> CompilerContext:
    """A context with the case's weights and an evaluator."""
    ctx = make_context()
    ctx.weights = case.weights
    ctx.evaluator = partial(evaluate, weights=ctx.weights)
    return ctx


def count(module: ModuleOp, kind: type[Operation]) -> int:
    """How many operations of a kind there are."""
    return sum(isinstance(op, kind) for op in module.walk())


def assert_no_lost_uses(module: ModuleOp) -> None:
    """All uses stand in the module: an operation made and not inserted would keep a value from being erased."""
    inside = set(module.walk())
    for op in inside:
        values = [
            *op.results,
            *(argument for region in op.regions for block in region.blocks for argument in block.args),
        ]
        lost = [use.operation for value in values for use in value.uses if use.operation not in inside]
        assert not lost, f"results of {op.name} are used by operations that stand nowhere: {lost}"


def check_pass(case: GraphCase, pass_: Pass, rtol: float = 0.0) -> bool:
    """Every output is what it was, bit for bit or to `rtol` of the largest number; another run changes nothing.

    Returns whether the pass changed anything.
    """
    with np.errstate(all="ignore"):
        want = evaluate_module(case.module, case.inputs, case.weights)
        ctx = context_of(case)
        before = str(case.module)
        changed = pass_.run(ctx, case.module)
        verify_module(case.module)
        assert_no_lost_uses(case.module)
        assert changed == (str(case.module) != before)
        got = evaluate_module(case.module, case.inputs, case.weights)
    assert list(got) == list(want)
    for name, expected in want.items():
        assert got[name].dtype == expected.dtype and got[name].shape == expected.shape
        if expected.dtype.kind == "f":
            finite = np.abs(expected[np.isfinite(expected)]).max(initial=0)
            np.testing.assert_allclose(got[name], expected, rtol, rtol * finite, equal_nan=True, err_msg=name)
            if not rtol:
                numbers = ~np.isnan(expected)
                np.testing.assert_array_equal(np.signbit(got[name][numbers]), np.signbit(expected[numbers]))
        else:
            np.testing.assert_array_equal(got[name], expected, err_msg=name)
    after = str(case.module)
    assert not pass_.run(ctx, case.module), f"another run changes it again:\n{after}\n{case.module}"
    return changed
