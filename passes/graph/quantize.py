"""`quantize`: post-training quantization of chosen operators, from calibration inputs, to the QDQ form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar, TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.diagnostics import PassFailure
from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import only_block
from mlopt.ir.locations import node_names
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.graph.calibration import Array, Method, Range, Sample, ranges_of, read_samples, walk_values
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

_BOUNDS = (graph.ReluOp, graph.ClipOp)


@dataclass(frozen=True)
class QuantizePass(Pass):
    """Quantize operators to 8 bits, with scales from calibration inputs; the result is in QDQ form.

    1. Constant weights of conv and matmul become i8 without zero point, a scale for each output feature
       (the largest magnitude is 127), and a dequantize. The bias of a conv becomes i32 with the scale of the products.
    2. What these operators take, and the adds, pools and concats that take the results of such convs only (`kinds`),
       becomes quantize and dequantize: i8 with one scale and zero point, of the range seen on the samples of the `.npz`
       file `calibration` (see `calibration.py` for its form), by `method`. Factors of a `product` have no zero point.
    3. Movements of such tensors have their scale on both sides, so that they can move the integers.

    `fuse-quantized` makes integer operators of it. It approximates by intent: a remark says for each operator its
    signal-to-noise ratio with quantized operands on the samples (SQNR, in dB), and for each that stays float why:
    `keep` (names of nodes or values, with `*`), `keep-first`, `keep-last` (the first or last conv or matmul), an SQNR
    below `min-sqnr`, not f32, weights that are not constant. Comes after `fold-batch-norm`, before convolutions and
    linears are fused.
    """

    name = "quantize"
    requires: ClassVar = GRAPH_LEVEL
    validation_tolerance: ClassVar[float | None] = 0.5

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

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        main = next((inner for inner in op.walk() if isinstance(inner, FuncOp)), None)
        if main is None:
            return False
        only_block(main)
        samples = read_samples(self.calibration, main)
        return _Quantizer(self, ctx, main, samples).run()


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
        scale = _positive((values.high - values.low) / 255)
        return _Parameters(scale, int(np.clip(round(-128 - values.low / scale), -128, 127)))

    def rounded(self, array: Array) -> Array:
        """The numbers that quantize and dequantize make of an array."""
        quotient = np.rint(array / np.float32(self.scale)) + self.zero
        return ((np.clip(quotient, -128, 127) - self.zero) * np.float32(self.scale)).astype(array.dtype)


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
    """What `keep` may call an operator: its nodes, and its results."""
    return [*node_names(op.location), *(result.name_hint for result in op.results if result.name_hint)]


@dataclass
class _Quantizer:
    """One run of the pass on a function."""

    options: QuantizePass
    ctx: CompilerContext
    main: FuncOp
    samples: Sequence[Sample]
    targets: dict[Operation, float] = field(default_factory=dict[Operation, float])
    """The operators to quantize, in program order, and their SQNR."""
    parameters: dict[SSAValue, _Parameters] = field(default_factory=dict[SSAValue, _Parameters])
    weights: dict[Operation, _Weight] = field(default_factory=dict[Operation, _Weight])

    def run(self) -> bool:
        self._warn_of_idle_names()
        self._select()
        if not self.targets:
            return False
        groups = self._groups()
        self._calibrate(groups)
        self._measure()
        for op, ratio in list(self.targets.items()):
            if ratio < self.options.min_sqnr:
                self._stays_float(op, f"SQNR {ratio:.1f} dB, less than min-sqnr = {self.options.min_sqnr:g}")
                del self.targets[op]
        return self._rewrite()

    # Selection

    def _warn_of_idle_names(self) -> None:
        """A name in `keep` that nothing has is most likely a mistake, which would go unnoticed."""
        names = {name for op in self.main.body.block.ops for name in _names_of(op)}
        for pattern in self.options.keep:
            if not any(fnmatchcase(name, pattern) for name in names):
                self.ctx.warn(
                    f"pass 'quantize': no node or value has the name '{pattern}' of 'keep'", self.main
                )

    def _select(self) -> None:
        block = self.main.body.block
        products = [op for op in block.ops if isinstance(op, _Product) and self._obstacle(op) is None]
        kept = {*products[: self.options.keep_first], *products[len(products) - self.options.keep_last :]}
        followed = set[SSAValue]()
        for op in block.ops:
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
        names = _names_of(op)
        for pattern in self.options.keep:
            if any(fnmatchcase(name, pattern) for name in names):
                return f"'keep' names it ('{pattern}')"
        if isinstance(op, _Product):
            return _obstacle_of_product(op, self.options.kinds)
        wanted = next((kind for kind, cls in _FOLLOWERS.items() if isinstance(op, cls)), None)
        if wanted is not None and wanted not in self.options.kinds:
            return f"'kinds' has no {wanted}"
        return None

    def _stays_float(self, op: Operation, reason: str) -> None:
        self.ctx.remark(self.options.name, "missed", f"stays float: {reason}", op)

    # Calibration

    def _groups(self) -> dict[SSAValue, int]:
        """The values to quantize, and the number of the group that shares a range with each."""
        groups: dict[SSAValue, int] = {}
        for op in self.targets:
            for value in _variables(op):
                groups.setdefault(value, len(groups))
        for op in reversed(list(self.main.body.block.ops)):
            # Backwards: what is moved to a place where it is quantized is quantized where it comes from.
            if isinstance(op, _MOVEMENTS) and op.results[0] in groups:
                for operand in op.operands:
                    if is_constant(operand):
                        continue
                    group, own = groups[op.results[0]], groups.get(operand, len(groups))
                    groups.setdefault(operand, group)
                    if own != group:
                        groups.update({v: group for v, number in groups.items() if number == own})
        return groups

    def _calibrate(self, groups: Mapping[SSAValue, int]) -> None:
        options = self.options
        ranges = ranges_of(self.main, groups, self.samples, self.ctx, options.method, options.percentile)
        shared: dict[int, Range] = {}
        symmetric = {groups[v] for op in self.targets if _is_variable_product(op) for v in op.operands}
        for value, number in groups.items():
            shared[number] = ranges[value].union(shared.get(number, ranges[value]))
        for value, number in groups.items():
            self.parameters[value] = _Parameters.of(shared[number], symmetric=number in symmetric)

    def _measure(self) -> None:
        """The SQNR of each operator: on float operands against operands that were quantized."""
        signal, noise = (dict.fromkeys(self.targets, 0.0) for _ in range(2))
        for op in self.targets:
            constant = _constant_factor(op)
            if constant is not None:
                array = constant_value(constant, self.ctx)
                assert array is not None
                self.weights[op] = _Weight.of(array, _summed_axes(op, array.ndim))

        def visit(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
            if op not in self.targets:
                return
            changed = [self._as_quantized(op, v, a) for v, a in zip(op.operands, operands, strict=True)]
            assert self.ctx.evaluator is not None
            (found,) = self.ctx.evaluator(op, changed)
            exact = results[0].astype(np.float64)
            signal[op] += float(np.sum(exact**2))
            noise[op] += float(np.sum((found - exact) ** 2))

        for sample in self.samples:
            walk_values(self.main, sample, self.ctx, visit)
        for op in self.targets:
            if noise[op]:
                self.targets[op] = 10 * math.log10(signal[op] / noise[op]) if signal[op] else -math.inf

    def _as_quantized(self, op: Operation, value: SSAValue, array: Array) -> Array:
        if value in self.parameters:
            return self.parameters[value].rounded(array)
        if value is _constant_factor(op):
            weight = self.weights[op]
            return weight.integers * weight.scale
        return array

    # Rewriting

    def _rewrite(self) -> bool:
        wanted = self._groups()
        changed = False
        for op, ratio in self.targets.items():
            if not may_rewrite(self.options.name, op):
                return changed
            self._quantize_constants(op)
            for value in [v for v in _variables(op) if v in wanted]:
                self._insert_pair(value)
                del wanted[value]
            changed = True
            self.ctx.count(self.options.name, "operators-quantized")
            kind = op.name.removeprefix("graph.")
            self.ctx.remark(self.options.name, "passed", f"quantized '{kind}': SQNR {ratio:.1f} dB", op)
        for value in wanted:
            self._insert_pair(value)
        return changed

    def _quantize_constants(self, op: Operation) -> None:
        """Weight, and the bias of a convolution, as dequantized integers."""
        constant = _constant_factor(op)
        if constant is None:
            return
        weight = self.weights[op]
        scale = (
            weight.scale if isinstance(op, graph.ConvOp) else weight.scale.reshape(weight.scale.shape[-1:])
        )
        if weight.scale.size != scale.size:
            scale = weight.scale
        self._replace_constant(op, constant, weight.integers, scale)
        bias = op.bias if isinstance(op, graph.ConvOp) else None
        array = None if bias is None else constant_value(bias, self.ctx)
        if bias is None or array is None:
            return
        assert isinstance(op, graph.ConvOp)
        unit = weight.scale.reshape(-1) * np.float32(self.parameters[op.input].scale)
        numbers = np.rint(array / unit.astype(np.float64))
        if np.all(unit >= np.finfo(np.float32).tiny) and np.all(np.abs(numbers) < 1 << 31):
            self._replace_constant(op, bias, numbers.astype(np.int32), unit)

    def _replace_constant(self, op: Operation, old: SSAValue, integers: Array, scale: Array) -> None:
        name = name_of(old, "weight")
        numbers = make_constant(integers, self.ctx, f"{name}_quantized")
        factor = make_constant(scale.astype(np.float32), self.ctx, f"{name}_scale")
        pair = graph.DequantizeOp(numbers, factor)
        for new in (numbers, factor, pair):
            new.location = op.location
        Rewriter.insert_op([numbers, factor, pair], InsertPoint.before(op))
        index = next(i for i, operand in enumerate(op.operands) if operand is old)
        op.operands[index] = pair.result

    def _insert_pair(self, value: SSAValue) -> None:
        """Quantize a value, and let all that takes it in this function take what that dequantizes to."""
        own = self.parameters[value]
        users = [use for use in value.uses if not isinstance(use.operation, ReturnOp)]
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


def _is_variable_product(op: Operation) -> bool:
    return isinstance(op, graph.MatMulOp) and not is_constant(op.rhs)


def _constant_factor(op: Operation) -> SSAValue | None:
    """The weight of a product."""
    if isinstance(op, graph.ConvOp):
        return op.weight
    return op.rhs if isinstance(op, graph.MatMulOp) and not _is_variable_product(op) else None


def _variables(op: Operation) -> Iterator[SSAValue]:
    """The operands of a target that are quantized when it runs."""
    if isinstance(op, graph.ConvOp):
        yield op.input
    elif isinstance(op, graph.MatMulOp):
        yield op.lhs
        if _is_variable_product(op):
            yield op.rhs
    else:
        yield from dict.fromkeys(op.operands)


def _summed_axes(op: Operation, rank: int) -> list[int]:
    """The axes of a weight that are summed over."""
    return [*range(1, rank)] if isinstance(op, graph.ConvOp) else [rank - 2]
