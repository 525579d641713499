"""Draws programs: a builder that hands operands to the strategies of the operators, and evaluates what they add."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from mlopt.compare import is_floating
from tests.fuzz.oracle import NoValue, evaluate_step
from tests.fuzz.program import Array, Program, Step, Value

T = TypeVar("T")

F32, F64, F16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)
BF16 = np.dtype(ml_dtypes.bfloat16)
I64, I32, I16, I8 = (np.dtype(f"i{size}") for size in (8, 4, 2, 1))
U64, U32, U16, U8 = (np.dtype(f"u{size}") for size in (8, 4, 2, 1))
BOOL = np.dtype(np.bool_)
I4, U4, I2, U2 = (np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2))
F8 = tuple(
    np.dtype(t)
    for t in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)
FLOATS = (F32, F32, F32, F32, F64, F16)
SIGNED = (I64, I64, I32, I8, I16)
UNSIGNED = (U8, U8, U16, U32, U64)
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *FLOATS, *INTEGERS)
ANY = (*NUMBERS, BOOL, BOOL)

SIZES = (1, 2, 3, 4, 5, 7, 2, 3, 1, 0, 9, 16)
SPECIAL = (0.0, -0.0, -1.5, math.inf, -math.inf, math.nan, math.nan, math.nan, 1e-30, 3e4, -3e4, 2.5)
MAX_ELEMENTS = 3000


class Unfit(Exception):
    """The drawn operands don't fit the operator; the program does without this node."""


class Builder:
    """Appends nodes to a program. What doesn't fit raises `Unfit`, what has no right value `NoValue`."""

    def __init__(self, rng: Random, opset: int):
        self.rng = rng
        self.opset = opset
        self.program = Program(opset)
        self.values: list[Value] = []
        self._names = 0
        self._taken: list[Value] = []

    # Choices

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    def rarely(self) -> bool:
        return self.integer(0, 7) == 7

    def some(self, options: Sequence[T], *, least: int = 0) -> list[T]:
        """Different ones of the options, in their order."""
        kept = [option for option in options if self.flag()]
        return kept if len(kept) >= least else list(options[:least])

    def seed(self) -> np.random.Generator:
        return np.random.default_rng(self.integer(0, 2**32 - 1))

    def size(self, *, least: int = 0) -> int:
        return max(least, self.choice(SIZES))

    def shape(self, rank: int, *, least: int = 0) -> tuple[int, ...]:
        shape = tuple(self.size(least=least) for _ in range(rank))
        return shape if math.prod(shape) <= MAX_ELEMENTS else tuple(min(size, 5) for size in shape)

    def axis(self, rank: int) -> int:
        """An axis, in half of the cases counted from the end."""
        if rank == 0:
            raise Unfit("no axis")
        axis = self.integer(0, rank - 1)
        return axis - rank if self.flag() else axis

    def draw_axes(self, rank: int, count: int) -> list[int]:
        """Different axes, counted from the front."""
        return self.rng.sample(range(rank), count)

    def permutation(self, count: int) -> list[int]:
        return self.rng.sample(range(count), count)

    # Operands

    def fill(self, dtype: np.dtype, shape: Sequence[int], *, special: bool = True) -> Array:
        """Random numbers of a type: floats of a common size, integers small or over the whole range."""
        generator = self.seed()
        if dtype == BOOL:
            return np.asarray(generator.integers(0, 2, shape)).astype(np.bool_)
        if not is_floating(np.empty(0, dtype)):
            info = ml_dtypes.iinfo(dtype) if dtype.kind == "V" else np.iinfo(dtype)
            small = (max(int(info.min), -9), min(int(info.max), 9))
            low, high = small if not self.rarely() else (int(info.min), int(info.max))
            if dtype == U64:
                return np.asarray(generator.integers(low, high, shape, np.uint64, endpoint=True))
            return np.asarray(generator.integers(low, high, shape, np.int64, endpoint=True)).astype(dtype)
        if self.rarely():  # numbers with few digits, many of them equal
            array = np.asarray(generator.integers(-3, 4, shape) / 2).astype(dtype)
        else:
            scale = self.choice((1.0, 1.0, 1.0, 0.05, 20.0))
            array = np.asarray(generator.standard_normal(shape) * scale).astype(dtype)
        if special and array.size and self.rarely():
            flat = array.reshape(-1)
            flat[generator.integers(0, flat.size)] = self.choice(SPECIAL)
        return array

    def named(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def new(
        self, arrays: Sequence[Array], *, constant: bool | None = None, structural: bool = False
    ) -> Value:
        """A new input or constant; a constant holds the first array in all runs."""
        if constant is None:
            constant = self.integer(0, 2) == 0
        if constant:
            arrays = [arrays[0]] * self.program.runs
        kind = "constant" if constant else "input"
        value = Value(self.named("c" if constant else "x"), tuple(arrays), kind, 0.0, structural)
        if not structural:
            self._taken.append(value)
        return value

    def tensor(
        self,
        dtypes: Sequence[np.dtype] = FLOATS,
        rank: int | tuple[int, int] = (0, 4),
        *,
        shape: Sequence[int] | None = None,
        least: int = 0,
        dynamic: bool = False,
        constant: bool | None = None,
        special: bool = True,
        where: Callable[[Value], bool] | None = None,
    ) -> Value:
        """An operand of one of the types: an earlier value that fits, or a new input or constant.

        `dynamic` also takes values whose size depends on data, `special` values that are infinite or no numbers.
        `least` is the least size of any axis.
        """
        low, high = (rank, rank) if isinstance(rank, int) else rank

        def fits(value: Value) -> bool:
            return (
                value.dtype in dtypes
                and (dynamic or not value.dynamic)
                and (low <= value.rank <= high if shape is None else value.shape == tuple(shape))
                and (shape is not None or all(size >= least for a in value.arrays for size in a.shape))
                and (constant is None or (value.kind == "constant") == constant)
                and math.prod(value.shape) <= MAX_ELEMENTS
                and (special or value.finite)
                and (where is None or where(value))
            )

        fitting = [value for value in self.values if fits(value)]
        if fitting and self.integer(0, 3):
            return self.choice(fitting[-6:])
        if shape is None:
            shape = self.shape(self.integer(low, high), least=least)
        dtype = self.choice(dtypes)
        arrays = [self.fill(dtype, shape, special=special) for _ in range(self.program.runs)]
        value = self.new(arrays, constant=constant)
        if where is not None and not where(value):
            raise Unfit("a new value does not fit")
        return value

    def parameter(
        self, dtype: np.dtype, shape: Sequence[int], *, positive: bool = False, scale: float = 1.0
    ) -> Value:
        """Weights: mostly constant, or a value that happens to fit."""
        if not positive and scale == 1.0 and self.rarely():
            return self.tensor([dtype], shape=shape, special=False)
        arrays: list[Array] = []
        for _ in range(self.program.runs):
            array = self.seed().standard_normal(shape) * scale
            arrays.append(np.asarray(np.abs(array) + 0.1 if positive else array).astype(dtype))
        return self.new(arrays, constant=self.integer(0, 3) > 0)

    def partner(self, value: Value, *, dynamic: bool = True) -> Value:
        """An operand that broadcasts with `value` and has its type."""
        choices = [
            other
            for other in self.values
            if other.dtype == value.dtype
            and (dynamic or not other.dynamic)
            and all(_broadcasts(a.shape, b.shape) for a, b in zip(value.arrays, other.arrays, strict=True))
        ]
        if choices and self.integer(0, 2):
            return self.choice(choices[-6:])
        if value.dynamic:
            return self.tensor([value.dtype], shape=())
        shape = tuple(self.choice((size, size, 1)) for size in value.shape)
        if self.flag():
            shape = shape[self.integer(0, len(shape)) :]
        elif len(shape) < 4 and self.rarely():
            shape = (self.choice((1, 2, 3)), *shape)
        return self.tensor([value.dtype], shape=shape)

    def numbers(self, values: Any, dtype: np.dtype = I64, *, bound: bool = True) -> Value:
        """A constant that decides a shape or an index; now and then an input that has this value in all runs."""
        array = np.asarray(values, dtype)
        is_input = bound and self.integer(0, 11) == 11
        return self.new([array] * self.program.runs, constant=not is_input, structural=True)

    def indices(self, bound: int, shape: Sequence[int], *, dtype: np.dtype | None = None) -> Value:
        """Indices of both signs into an axis, constant or given at run time."""
        if bound == 0 and math.prod(shape):
            raise Unfit("nothing to index")
        dtype = dtype or self.choice((I64, I64, I32))
        arrays = [
            np.asarray(self.seed().integers(-bound, max(bound, 1 - bound), shape)).astype(dtype)
            for _ in range(self.program.runs)
        ]
        value = self.new(arrays)
        self._taken.remove(value)
        return value

    # Nodes

    def node(
        self,
        op_type: str,
        *operands: Value | None,
        outputs: int | Sequence[bool] = 1,
        domain: str = "",
        reads: Sequence[Value] = (),
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Append a node and evaluate it. None is an optional operand left out; `reads` are values used by bodies.

        `outputs` is how many there are, or for each whether it is asked for.
        """
        asked = [True] * outputs if isinstance(outputs, int) else list(outputs)
        while asked and not asked[-1]:
            asked.pop()
        names = [self.named("v") if flag else "" for flag in asked]
        given = [operand.name if operand is not None else "" for operand in operands]
        while given and not given[-1]:
            given.pop()
        kept = {key: value for key, value in attributes.items() if value is not None and value != []}
        node = helper.make_node(op_type, given, names, self.named("n"), domain=domain, **kept)
        return self.append(node, [*(o for o in operands if o is not None), *reads])

    def append(self, node: onnx.NodeProto, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append a node that is made already."""
        found, errors = evaluate_step(node, operands, self.opset, self.program.runs)
        names = [name for name in node.output if name]
        results = tuple(
            Value(name, arrays, "node", error)
            for name, arrays, error in zip(names, found, errors, strict=True)
        )
        if any(value.arrays[0].size > 20 * MAX_ELEMENTS for value in results):
            raise Unfit("too large")
        self.program.steps.append(Step(node, tuple(operands), results))
        self.values.extend(value for value in results if value.error == 0 or is_floating(value.arrays[0]))
        self.values.extend(value for value in self._taken if value in operands and value not in self.values)
        return results

    def attempt(self, strategy: Callable[[Builder], object]) -> bool:
        """Let a strategy append its nodes; False if it could not."""
        steps, values = len(self.program.steps), len(self.values)
        self._taken = []
        try:
            strategy(self)
        except (Unfit, NoValue):
            del self.program.steps[steps:], self.values[values:]
            return False
        return True


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def constant_shape(value: Value) -> tuple[int, ...]:
    """The shape of a value that has the same one in all runs; `Unfit` else."""
    if value.dynamic:
        raise Unfit("the size depends on data")
    return value.shape
