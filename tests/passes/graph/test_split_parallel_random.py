"""Random programs between two products with constant weights: whatever `split-parallel` splits gives the same numbers.

Steps move, join, cut and combine values, along any dimension. In f64, so that only the order of sums may show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from math import prod
from typing import TypeVar

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mlopt.compilation import attach_engine
from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, verify_module
from mlopt.passes.graph.constants import make_constant
from mlopt.passes.graph.split_parallel import SplitParallelPass

SEEDS = 100
_T = TypeVar("_T")


class Program:
    """A module of one function, made step by step with the numbers of a seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.ctx = make_context()
        attach_engine(self.ctx)
        self.block = Block(arg_types=[TensorType(f64, (2, 4, 6)), TensorType(f64, (12,))])
        x, self.other = self.block.args
        self.values = [self.product(x, 24) for _ in range(self.pick([1, 2]))]
        for _ in range(self.rng.integers(1, 7)):
            self.values.append(self.pick(STEPS)(self, self.pick(self.values[-3:])))
        value = self.values[-1]
        if rank_of(value) < 2:
            value = self.add(graph.ReshapeOp(value, [1, *shape_of(value)]))
        outputs = [self.product(value, 4)]
        if self.rng.random() < 0.2:
            outputs.append(self.pick(self.values))
        self.block.add_op(ReturnOp(*outputs))
        types = (self.block.arg_types, [output.type for output in outputs])
        self.module = ModuleOp([FuncOp("main", types, Region(self.block))])
        verify_module(self.module)

    def run(self) -> list[np.ndarray]:
        numbers = np.random.default_rng(1)
        inputs = {"arg0": numbers.standard_normal((2, 4, 6)), "arg1": numbers.standard_normal(12)}
        return list(evaluate_module(self.module, inputs, self.ctx.weights).values())

    def pick(self, choices: Sequence[_T]) -> _T:
        return choices[int(self.rng.integers(len(choices)))]

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, *shape: int) -> SSAValue:
        return self.add(make_constant(self.rng.standard_normal(shape) * 0.5, self.ctx, "w"))

    def product(self, value: SSAValue, columns: int) -> SSAValue:
        weight = self.constant(shape_of(value)[-1], columns)
        if self.rng.random() < 0.5:
            return self.add(graph.MatMulOp(value, weight))
        bias = self.constant(columns) if self.rng.random() < 0.5 else None
        activation = graph.ActivationAttr("tanh") if self.rng.random() < 0.5 else None
        return self.add(graph.LinearOp(value, weight, bias, activation=activation))


def unary(p: Program, value: SSAValue) -> SSAValue:
    return p.add(p.pick([graph.TanhOp, graph.SigmoidOp, graph.NegOp])(value))


def transpose(p: Program, value: SSAValue) -> SSAValue:
    return p.add(graph.TransposeOp(value, p.pick(list(permutations(range(rank_of(value)))))))


def reshape(p: Program, value: SSAValue) -> SSAValue:
    """Neighbours joined, or a dimension taken apart."""
    shape = list(shape_of(value))
    axis = int(p.rng.integers(len(shape)))
    if p.rng.random() < 0.4 and axis + 1 < len(shape):
        return p.add(
            graph.ReshapeOp(value, [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
        )
    factor = p.pick([f for f in range(1, shape[axis] + 1) if shape[axis] % f == 0])
    if len(shape) >= 5:
        return p.add(graph.ReshapeOp(value, [prod(shape[:2]), *shape[2:]]))
    return p.add(graph.ReshapeOp(value, [*shape[:axis], factor, shape[axis] // factor, *shape[axis + 1 :]]))


def combine(p: Program, value: SSAValue) -> SSAValue:
    """With a constant that broadcasts, or another value of the same shape."""
    same = [other for other in p.values if other.type == value.type]
    if len(same) > 1 and p.rng.random() < 0.5:
        return p.add(graph.MulOp(value, p.pick(same)))
    shape = [p.pick([1, size]) for size in shape_of(value)][int(p.rng.integers(rank_of(value))) :]
    return p.add(p.pick([graph.AddOp, graph.MulOp])(value, p.constant(*shape)))


def with_input(p: Program, value: SSAValue) -> SSAValue:
    """With something that is there whole, where the shapes allow it."""
    if shape_of(value)[-1] not in (1, 12):
        return unary(p, value)
    return p.add(graph.AddOp(value, p.other))


def split(p: Program, value: SSAValue) -> SSAValue:
    """In two or three, equal or not, some of them multiplied again or left."""
    axis = int(p.rng.integers(rank_of(value)))
    size = shape_of(value)[axis]
    if size < 2:
        return unary(p, value)
    first = p.pick([size // 2, size // 2, int(p.rng.integers(1, size))])
    op = graph.SplitOp(value, axis, [first, size - first])
    p.add(op)
    if first * 2 == size and p.rng.random() < 0.7:
        return p.add(graph.MulOp(*op.results))
    return p.pick(op.results)


def concat(p: Program, value: SSAValue) -> SSAValue:
    same = [other for other in p.values if other.type == value.type]
    return p.add(graph.ConcatOp([value, p.pick(same)], int(p.rng.integers(rank_of(value)))))


def cut(p: Program, value: SSAValue) -> SSAValue:
    axis = int(p.rng.integers(rank_of(value)))
    return p.add(graph.SliceOp.over_axes(value, [0], [max(shape_of(value)[axis] - 1, 1)], [axis]))


def softmax(p: Program, value: SSAValue) -> SSAValue:
    return p.add(graph.SoftmaxOp(value, int(p.rng.integers(rank_of(value)))))


def norm(p: Program, value: SSAValue) -> SSAValue:
    return p.add(graph.LayerNormOp(value, p.constant(shape_of(value)[-1]), axis=rank_of(value) - 1))


def expand(p: Program, value: SSAValue) -> SSAValue:
    shape = shape_of(value)
    if len(shape) > 4 or prod(shape) > 400:
        return unary(p, value)
    return p.add(graph.ExpandOp(value, [2, *shape]))


def batched_product(p: Program, value: SSAValue) -> SSAValue:
    if rank_of(value) < 2:
        return unary(p, value)
    axes = list(range(rank_of(value)))
    turned = p.add(graph.TransposeOp(value, [*axes[:-2], axes[-1], axes[-2]]))
    return p.add(graph.MatMulOp(*p.pick([(value, turned), (turned, value)])))


def attention(p: Program, value: SSAValue) -> SSAValue:
    if rank_of(value) < 3:
        return unary(p, value)
    return p.add(graph.AttentionOp(value, value, value, scale=0.5))


STEPS: list[Callable[[Program, SSAValue], SSAValue]] = [
    unary, transpose, transpose, reshape, reshape, combine, with_input, split, concat, cut, softmax, norm, expand,
    batched_product, attention,
]  # fmt: skip


def split_program(seed: int, ways: int) -> bool:
    """Whether the program of a seed was split; then it gives the same numbers."""
    program = Program(seed)
    want = program.run()
    if not SplitParallelPass(ways=ways).run(program.ctx, program.module):
        return False
    verify_module(program.module)
    for got, expected in zip(program.run(), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11 * np.max(np.abs(expected), initial=1))
    return True


@pytest.mark.parametrize("ways", [2, 3])
def test_the_same_numbers(ways: int) -> None:
    count = sum(split_program(seed, ways) for seed in range(SEEDS))
    assert count >= SEEDS // 10
