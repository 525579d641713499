"""`quantize`: post-training quantization of chosen operators, from calibration inputs, to the QDQ form."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar, TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.diagnostics import PassFailure
from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import only_block
from mlopt.ir.locations import node_names
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.graph.calibration import (
    Array,
    Method,
    Range,
    Sample,
    evaluate_samples,
    observe,
    read_samples,
)
from mlopt.passes.graph.constants import constant_value, is_constant, make_constant, name_of
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

_Product: TypeAlias = graph.ConvOp | graph.MatMulOp
_FOLLOWERS: dict[str, type[graph.GraphOp]] = {
    "add": graph.AddOp,
    "average_pool": graph.AveragePoolOp,
    "concat": graph.ConcatOp,
    "max_pool": graph.MaxPoolOp,
    "reduce_mean": graph.ReduceMeanOp,
}
KINDS = ("conv", "matmul", "product", *_FOLLOWERS)
"""What can be quantized: `matmul` has a constant right factor, `product` two variable ones."""

_MOVEMENTS = (
    graph.TransposeOp,
    graph.ReshapeOp,
    graph.SliceOp,
    graph.ExpandOp,
    graph.ConcatOp,
    graph.MaxPoolOp,
)
"""What gives the numbers that it is given: its operands and results share one range."""

SAMPLES_JUDGED = 4
"""By how many of the samples a validator judges the pass."""

_BOUNDS = (graph.ReluOp, graph.ClipOp)


@dataclass(frozen=True)
class QuantizePass(Pass):
    """Quantize operators to 8 bits, with scales from calibration inputs; the result is in QDQ form.

    1. Constant weights of conv and matmul become i8 without zero point, a scale for each output feature
       (the largest magnitude is 127), and a dequantize. The bias of a conv becomes i32 with the scale of the products.
    2. What these operators take, and the adds, pools and concats that take the results of such convs only (`kinds`),
       becomes quantize and dequantize: i8 with one scale and zero point, of the range seen on the samples of the `.npz`
       file `calibration` (see `calibration.py` for its form), by `method`. Factors of a `product` have no zero point.
    3. Movements of such tensors have their scale on both sides, so that they can move the integers; unless one of the
       tensors would lose more than two bits by that.

    Operators in bodies of loops and branches are no exception: what a value is in any trip counts. What is quantized is
    so in its own block, once for all that is inside. Returns, what bodies yield, what loops start from, and the slices
    that they take and collect keep the float value; what a loop carries is rounded for quantized operators alone.

    `fuse-quantized` makes integer operators of it. It approximates by intent: a remark says for each operator its
    signal-to-noise ratio with quantized operands on the samples (SQNR, in dB), and for each that stays float why:
    `keep` (names of nodes or values, with `*`; that of a loop or a branch keeps all in it), `keep-first`, `keep-last`
    (the first or last conv or matmul, or of each body of what holds that), an SQNR below `min-sqnr`, not f32, weights
    that are not constant, a body that no sample enters. Comes after `fold-batch-norm`, before convolutions and linears
    are fused.

    `--validate` judges it by the first `SAMPLES_JUDGED` samples, for which alone it promises anything, and allows a
    tenth of an output's largest number (20 dB). docs/quantization.md has the errors measured on whole models.
    """

    name = "quantize"
    requires: ClassVar = GRAPH_LEVEL
    validation_tolerance: ClassVar[float | None] = 0.1

    calibration: str
    method: Method = "minmax"
    percentile: float = 99.99
    kinds: tuple[str, ...] = tuple(kind for kind in KINDS if kind != "product")
    keep: tuple[str, ...] = ()
    keep_first: bool = False
    keep_last: bool = False
    min_sqnr: float = 0.0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise PassFailure(f"expected kinds among {', '.join(KINDS)}, found '{unknown[0]}'")
        if not 0 < self.percentile <= 100:
            raise PassFailure(f"expected a percentile above 0, at most 100, found {self.percentile}")
        if math.isnan(self.min_sqnr):
            raise PassFailure("expected a number of decibels for min-sqnr, found nan")

    def validation_inputs(self, op: Operation) -> Sequence[Mapping[str, Array]] | None:
        main = _main_of(op)
        return None if main is None else read_samples(self.calibration, main)[:SAMPLES_JUDGED]

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        main = _main_of(op)
        if main is None:
            return False
        samples = read_samples(self.calibration, main)
        return _Quantizer(self, ctx, main, samples).run()


def _main_of(op: Operation) -> FuncOp | None:
    """The function that holds the model: `@main`, or the first one with a body where none has that name."""
    functions = [inner for inner in op.walk() if isinstance(inner, FuncOp) and not inner.is_declaration]
    functions.sort(key=lambda function: function.sym_name.data != "main")
    if not functions:
        return None
    only_block(functions[0])
    return functions[0]


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Scale and zero point of i8 numbers."""

    scale: float
    zero: int

    @staticmethod
    def of(values: Range, *, symmetric: bool) -> _Parameters:
        """Of all 256 numbers for a range; of those from -127 to 127 and no zero point for a symmetric one."""
        if symmetric:
            return _Parameters(_positive(values.magnitude / 127), 0)
        scale = _positive(values.width / 255)
        return _Parameters(scale, int(np.clip(round(-128 - values.low / scale), -128, 127)))

    def rounded(self, array: Array) -> Array:
        """The numbers that quantize and dequantize make of an array."""
        quotient = np.rint(array / np.float32(self.scale)) + self.zero
        return ((np.clip(quotient, -128, 127) - self.zero) * np.float32(self.scale)).astype(array.dtype)


@dataclass(slots=True, eq=False)
class _Group:
    """Values that share their parameters, since movements lead from one to the other."""

    members: list[SSAValue]
    range: Range
    narrowest: float
    """The width of the range that is the narrowest of its members', apart from those that are all 0."""

    def goes_with(self, other: _Group) -> bool:
        """Whether no member loses more than two bits when these become one group."""
        widths = [width for width in (self.narrowest, other.narrowest) if width]
        return self.range.union(other.range).width <= 4 * min(widths, default=0)

    def take(self, other: _Group) -> None:
        """Make the members of another group members of this one."""
        self.members += other.members
        self.range = self.range.union(other.range)
        self.narrowest = min(self.narrowest or other.narrowest, other.narrowest or self.narrowest)


def _positive(scale: float) -> float:
    """The scale in f32; 1 for numbers that are all 0."""
    rounded = float(np.float32(scale))
    return rounded if rounded >= float(np.finfo(np.float32).tiny) else 1.0


@dataclass(frozen=True, slots=True)
class _Weight:
    """A constant factor as `integers * scale`."""

    integers: Array
    scale: Array

    @staticmethod
    def of(array: Array, summed: Sequence[int]) -> _Weight:
        """i8 numbers, with a scale for each position of the axes that are not summed."""
        magnitude = np.max(np.abs(array), axis=tuple(summed), keepdims=True, initial=0)
        scale = (magnitude / 127).astype(np.float32)
        scale = np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale)
        return _Weight(np.clip(np.rint(array / scale), -127, 127).astype(np.int8), scale)


def _names_of(op: Operation) -> list[str]:
    """What `keep` may call an operation: its nodes, and its results."""
    return [*node_names(op.location), *(result.name_hint for result in op.results if result.name_hint)]


def _ancestors(op: Operation, main: FuncOp) -> Iterator[Operation]:
    """The loops and branches that an operation is in, the innermost first."""
    around = op.parent_op()
    while around is not None and around is not main:
        yield around
        around = around.parent_op()


def _at_the_end(ops: Iterable[Operation], products: Container[Operation], *, last: bool) -> list[Operation]:
    """The first of the products, or the last; those of each body if it is in one, since any of these may run."""
    for op in reversed(list(ops)) if last else ops:
        bodies = [block for region in op.regions for block in region.blocks]
        found = [end for body in bodies for end in _at_the_end(body.ops, products, last=last)]
        if op in products or found:
            return found or [op]
    return []


@dataclass
class _Quantizer:
    """One run of the pass on a function."""

    options: QuantizePass
    ctx: CompilerContext
    main: FuncOp
    samples: Sequence[Sample]
    targets: dict[Operation, float] = field(default_factory=dict[Operation, float])
    """The operators to quantize, in program order, and their SQNR."""
    groups: dict[SSAValue, _Group] = field(default_factory=dict[SSAValue, "_Group"])
    parameters: dict[SSAValue, _Parameters] = field(default_factory=dict[SSAValue, _Parameters])
    weights: dict[Operation, _Weight] = field(default_factory=dict[Operation, _Weight])

    def run(self) -> bool:
        self._warn_of_idle_names()
        self._select()
        if not self.targets:
            return False
        self._calibrate()
        self._measure()
        for op, ratio in list(self.targets.items()):
            if ratio < self.options.min_sqnr:
                self._stays_float(op, f"SQNR {ratio:.1f} dB, less than min-sqnr = {self.options.min_sqnr:g}")
                del self.targets[op]
        return self._rewrite()

    # Selection

    def _warn_of_idle_names(self) -> None:
        """A name in `keep` that nothing has is most likely a mistake, which would go unnoticed."""
        names = {name for op in self.main.body.walk() for name in _names_of(op)}
        for pattern in self.options.keep:
            if not any(fnmatchcase(name, pattern) for name in names):
                self.ctx.warn(
                    f"pass 'quantize': no node or value has the name '{pattern}' of 'keep'", self.main
                )

    def _select(self) -> None:
        block = self.main.body.block
        products = {op for op in block.walk() if isinstance(op, _Product) and self._obstacle(op) is None}
        kept = set[Operation]()
        for is_wanted, last in ((self.options.keep_first, False), (self.options.keep_last, True)):
            if is_wanted:
                kept.update(_at_the_end(block.ops, products, last=last))
        followed = set[SSAValue]()
        for op in block.walk():
            reason = self._obstacle(op)
            if reason is None and op in kept:
                reason = "it is the first or the last of its kind, and 'keep-first' or 'keep-last' is set"
            if isinstance(op, _Product) and reason is None:
                self.targets[op] = math.inf
                if isinstance(op, graph.ConvOp):
                    followed.update(op.results)
            elif isinstance(op, tuple(_FOLLOWERS.values())) and followed.issuperset(op.operands):
                if reason is None:
                    self.targets[op] = math.inf
                    followed.update(op.results)
            elif isinstance(op, (*_BOUNDS, *_MOVEMENTS)) and op.operands[0] in followed:
                followed.update(op.results)
            if reason is not None and isinstance(op, _Product):
                self._stays_float(op, reason)

    def _obstacle(self, op: Operation) -> str | None:
        """Why an operator is not quantized, as far as that does not depend on others."""
        for pattern in self.options.keep:
            if any(fnmatchcase(name, pattern) for name in _names_of(op)):
                return f"'keep' names it ('{pattern}')"
            for around in _ancestors(op, self.main):
                if any(fnmatchcase(name, pattern) for name in _names_of(around)):
                    return f"'keep' names what it is in ('{pattern}')"
        if isinstance(op, _Product):
            return _obstacle_of_product(op, self.options.kinds)
        wanted = next((kind for kind, cls in _FOLLOWERS.items() if isinstance(op, cls)), None)
        if wanted is not None and wanted not in self.options.kinds:
            return f"'kinds' has no {wanted}"
        return None

    def _stays_float(self, op: Operation, reason: str) -> None:
        self.ctx.remark(self.options.name, "missed", f"stays float: {reason}", op)

    # Calibration

    def _calibrate(self) -> None:
        """The groups, and the parameters of each; an operator that no sample reaches is no target any more."""
        options = self.options
        values = self._variables_and_sources(lambda _result, _source: True)
        ranges, entered = observe(
            self.main, values, self.samples, self.ctx, options.method, options.percentile
        )
        for op in list(self.targets):
            if op.parent not in entered:
                self._stays_float(op, "no sample reaches it")
                del self.targets[op]
        self.groups = {value: _Group([value], own, own.width) for value, own in ranges.items()}

        def join(result: SSAValue, source: SSAValue) -> bool:
            first, second = self.groups[result], self.groups[source]
            if first is not second and first.goes_with(second):
                joined, rest = sorted((first, second), key=lambda group: -len(group.members))
                joined.take(rest)
                self.groups.update(dict.fromkeys(rest.members, joined))
            return self.groups[result] is self.groups[source]

        values = self._variables_and_sources(join)
        symmetric = {self.groups[v] for op in self.targets if _is_variable_product(op) for v in op.operands}
        for value in values:
            group = self.groups[value]
            self.parameters[value] = _Parameters.of(group.range, symmetric=group in symmetric)

    def _variables_and_sources(self, is_shared: Callable[[SSAValue, SSAValue], bool]) -> list[SSAValue]:
        """The operands that targets take quantized, and what these are moved from.

        `is_shared` is asked for each result of a movement and each operand whether they share parameters.
        """
        values = dict.fromkeys(value for op in self.targets for value in _variables(op))
        for op in self.main.body.walk(reverse=True, region_first=True):
            # Backwards: what is moved to a place where it is quantized is quantized where it comes from.
            if isinstance(op, _MOVEMENTS) and op.results[0] in values:
                for operand in dict.fromkeys(op.operands):
                    if not is_constant(operand) and is_shared(op.results[0], operand):
                        values.setdefault(operand)
        return list(values)

    def _measure(self) -> None:
        """The SQNR of each operator over all that it computes: on float operands against operands that were quantized.

        Integers are neither infinite nor NaN: an operator that had such numbers on a sample is no target any more.
        """
        signal, noise = (dict.fromkeys(self.targets, 0.0) for _ in range(2))
        unbounded = dict[Operation, None]()

        def visit(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
            if op not in self.targets or op in unbounded:
                return
            if not all(bool(np.all(np.isfinite(array))) for array in (*operands, *results)):
                unbounded[op] = None
                return
            constant = _constant_factor(op)
            if constant is not None and op not in self.weights:
                array = operands[next(i for i, operand in enumerate(op.operands) if operand is constant)]
                self.weights[op] = _Weight.of(array, _summed_axes(op, array.ndim))
            assert self.ctx.evaluator is not None
            changed = [self._as_quantized(op, v, a) for v, a in zip(op.operands, operands, strict=True)]
            (found,) = self.ctx.evaluator(op, changed)
            exact = results[0].astype(np.float64)
            error = float(np.sum((found - exact) ** 2))
            signal[op] += float(np.sum(exact**2))
            noise[op] += math.inf if math.isnan(error) else error

        evaluate_samples(self.main, self.samples, self.ctx, evaluated=visit)
        for op in self.targets:
            if noise[op]:
                ratio = signal[op] / noise[op]
                self.targets[op] = 10 * math.log10(ratio) if ratio else -math.inf
        for op in unbounded:
            self._stays_float(op, "on a sample it has numbers that are infinite or NaN")
            del self.targets[op]

    def _as_quantized(self, op: Operation, value: SSAValue, array: Array) -> Array:
        if value in self.parameters:
            return self.parameters[value].rounded(array)
        if value is _constant_factor(op):
            weight = self.weights[op]
            return weight.integers * weight.scale
        return array

    # Rewriting

    def _rewrite(self) -> bool:
        wanted = dict.fromkeys(
            self._variables_and_sources(lambda result, source: self.groups[result] is self.groups[source])
        )
        takers = {*self.targets, *(v.owner for v in wanted if isinstance(v.owner, _MOVEMENTS))}
        changed = False
        for op, ratio in self.targets.items():
            if not may_rewrite(self.options.name, op):
                return changed
            self._quantize_constants(op)
            for value in [v for v in _variables(op) if v in wanted]:
                self._insert_pair(value, takers)
                del wanted[value]
            changed = True
            self.ctx.count(self.options.name, "operators-quantized")
            kind = op.name.removeprefix("graph.")
            self.ctx.remark(self.options.name, "passed", f"quantized '{kind}': SQNR {ratio:.1f} dB", op)
        for value in wanted:
            self._insert_pair(value, takers)
        return changed

    def _quantize_constants(self, op: Operation) -> None:
        """Weight, and the bias of a convolution, as dequantized integers."""
        constant = _constant_factor(op)
        if constant is None:
            return
        weight = self.weights[op]
        scale = weight.scale
        if isinstance(op, graph.MatMulOp) and scale.size == scale.shape[-1]:
            scale = scale.reshape(-1)
        self._replace_constant(op, constant, weight.integers, scale)
        bias = op.bias if isinstance(op, graph.ConvOp) else None
        array = None if bias is None else constant_value(bias, self.ctx)
        if bias is None or array is None:
            return
        assert isinstance(op, graph.ConvOp)
        unit = weight.scale.reshape(-1) * np.float32(self.parameters[op.input].scale)
        numbers = np.rint(array / unit.astype(np.float64))
        # Beside products, a part of the unit does not count; a channel without weights is nothing but its bias.
        is_alone = ~np.any(weight.integers.reshape(unit.size, -1), axis=1)
        is_lost = np.any(is_alone & (numbers * unit != array))
        if np.all(unit >= np.finfo(np.float32).tiny) and np.all(np.abs(numbers) < 1 << 31) and not is_lost:
            self._replace_constant(op, bias, numbers.astype(np.int32), unit)

    def _replace_constant(self, op: Operation, old: SSAValue, integers: Array, scale: Array) -> None:
        name = name_of(old, "weight")
        numbers = make_constant(integers, self.ctx, f"{name}_quantized")
        factor = make_constant(scale.astype(np.float32), self.ctx, f"{name}_scale")
        pair = graph.DequantizeOp(numbers, factor)
        for new in (numbers, factor, pair):
            new.location = op.location
        place = _block_of(old).find_ancestor_op_in_block(op)
        assert place is not None
        Rewriter.insert_op([numbers, factor, pair], InsertPoint.before(place))
        index = next(i for i, operand in enumerate(op.operands) if operand is old)
        op.operands[index] = pair.result

    def _insert_pair(self, value: SSAValue, takers: Container[Operation]) -> None:
        """Quantize a value, and let all operators that take it take what that dequantizes to.

        Of what a loop carries, only the `takers` do, those that are quantized or move it to them. If others did,
        roundings would pile up from trip to trip.
        """
        own = self.parameters[value]
        is_carried = isinstance(value.owner, Block) and value.owner is not self.main.body.block
        users = [
            use
            for use in value.uses
            if isinstance(use.operation, graph.GraphOp) and (not is_carried or use.operation in takers)
        ]
        scale = make_constant(np.array(own.scale, np.float32), self.ctx, "scale")
        zero = make_constant(np.array(own.zero, np.int8), self.ctx, "zero_point")
        quantize = graph.QuantizeOp(value, scale, zero, i8)
        dequantize = graph.DequantizeOp(quantize, scale, zero)
        new = [scale, zero, quantize, dequantize]
        if isinstance(value.owner, Block):
            first = value.owner.first_op
            assert first is not None
            point, location = InsertPoint.before(first), next(iter(users)).operation.location
        else:
            point, location = InsertPoint.after(value.owner), value.owner.location
        for op in new:
            op.location = location
        Rewriter.insert_op(new, point)
        self.parameters[dequantize.result] = own
        for use in users:
            use.operation.operands[use.index] = dequantize.result


def _obstacle_of_product(op: _Product, kinds: Sequence[str]) -> str | None:
    if tensor_type(op.results[0].type).element_type != f32:
        return f"it computes in {tensor_type(op.results[0].type).element_type}"
    if isinstance(op, graph.ConvOp):
        if "conv" not in kinds:
            return "'kinds' has no conv"
        if len(op.operands) > 2 + (op.bias is not None) or "activation" in op.properties:
            return "a residual or an activation was fused into it"
        return None if is_constant(op.weight) else "its weight is not constant"
    if min(rank_of(op.lhs), rank_of(op.rhs)) < 2:
        return "a factor is a vector"
    if is_constant(op.lhs):
        return "its left factor is constant"
    kind = "matmul" if is_constant(op.rhs) else "product"
    return None if kind in kinds else f"'kinds' has no {kind}"


def _block_of(value: SSAValue) -> Block:
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    assert block is not None
    return block


def _is_variable_product(op: Operation) -> bool:
    return isinstance(op, graph.MatMulOp) and not is_constant(op.rhs)


def _constant_factor(op: Operation) -> SSAValue | None:
    """The weight of a product."""
    if isinstance(op, graph.ConvOp):
        return op.weight
    return op.rhs if isinstance(op, graph.MatMulOp) and not _is_variable_product(op) else None


def _variables(op: Operation) -> Iterator[SSAValue]:
    """The operands of a target that are quantized when it runs."""
    constant = _constant_factor(op)
    if constant is None:
        yield from dict.fromkeys(op.operands)
    else:
        yield op.operands[0]


def _summed_axes(op: Operation, rank: int) -> list[int]:
    """The axes of a weight that are summed over."""
    return [*range(1, rank)] if isinstance(op, graph.ConvOp) else [rank - 2]
