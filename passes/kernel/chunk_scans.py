"""`chunk-scans`: what a loop reads step by step is made for a few steps at a time.

Recurrent layers multiply their input by weights for all steps at once, before the loop over the steps: one product is
faster than many. Its result is often the largest tensor of the model. Where it is live when most is, this pass cuts the
launch along the steps and puts a loop around both:

    %g = kernel.launch @matmul ins(%x, %w)              scf.for %k = 0 to CHUNKS iter_args(%h0 = %h):
    scf.for %t = 0 to T iter_args(%h):                    %g = kernel.launch @matmul ins(%x[%k * N] [N], %w)
      %s = tensor.extract_slice %g[%t]            →       scf.for %t = %k * N to %k * N + N iter_args(%h = %h0):
      ...                                                   %s = tensor.extract_slice %g[%t - %k * N]
                                                            ...

A chunk that would reach beyond the end begins earlier, and makes some steps again that nobody reads.

What the loop collects is then written over what it was made from, if that dies there, has as many elements, and is read
and written at the same steps: no step is needed any more once it is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.diagnostics import PassFailure
from mlopt.dialects.kernel import LaunchOp, ReshapeOp, StructuredOp, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import find_main, only_block
from mlopt.ir.loops import Position, position_of, trips_of
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.memory.steps import profile
from mlopt.passes.kernel.block_steps import BlockSteps, byte_size
from mlopt.passes.kernel.cut_launch import Cut, cut_along
from mlopt.passes.kernel.fuse_kernels import describe
from mlopt.passes.kernel.launches import is_empty, shape_of
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL

DEFAULT_GROWTH = 16
"""Percent."""

_ATTEMPTS = 8
"""How often chunks are made smaller until they fit."""


@dataclass(frozen=True)
class ChunkScansPass(Pass):
    """Make what loops read step by step in chunks of steps, where the whole of it sets the peak.

    The chunks are as large as fits below the peak that there would be with single steps, grown by `growth` percent, but
    not beyond what the model has live at once as imported. Numbers stay as they are, but for the rounding of products.

    Options: `growth`: by how many percent chunks may make the peak larger than single steps would; `budget`: the bytes
    that the arena may have, if they are enough for single steps.
    """

    name = "chunk-scans"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "chunk-scan": "What a loop reads step by step is made in chunks of steps."
    }

    growth: int = DEFAULT_GROWTH
    budget: int | None = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        if self.growth < 0:
            raise PassFailure(f"the growth of the peak can't be negative, found {self.growth}")
        main = find_main(op)
        if main is None:
            return False
        count = len(_scans(only_block(main)))
        if not count:
            return False
        needs = WorkspaceNeeds(ctx.target)
        before = _Trial(main, needs, [None] * count)
        finest = _Trial(main, needs, [1] * count)
        grown = _grown(finest.peak, self.growth, op)
        most = max(finest.peak, grown if self.budget is None else min(grown, self.budget))
        if before.peak <= most:
            return False
        sizes = _sizes(main, needs, finest, most)
        changed = False
        for scan, size in zip(_scans(only_block(main)), sizes, strict=True):
            if size is None or not may_rewrite("chunk-scan", scan.loop):
                continue
            made = ", ".join(describe(part.launch) for part in scan.parts)
            where, steps = scan.loop.location, scan.steps
            overwritten = _chunk(scan, size)
            changed = True
            ctx.count(self.name, "scans-chunked")
            ctx.remark(
                self.name,
                "passed",
                f"{made} for {size} of {steps} steps at a time"
                + ("; what the loop collects is written over what it is made from" if overwritten else ""),
                where,
            )
        return changed


def _grown(peak: int, growth: int, module: ModuleOp) -> int:
    imported = module.attributes.get("mlopt.imported")
    limit = imported.data.get("max_live_bytes") if isinstance(imported, DictionaryAttr) else None
    grown = peak * (100 + growth) // 100
    return min(grown, limit.value.data) if isinstance(limit, IntegerAttr) else grown


# What there is to cut


@dataclass(frozen=True)
class _Part:
    """A launch whose result a loop reads step by step, by `take`; `axes`: along which its ins are cut, if at all."""

    launch: LaunchOp
    take: tensor.ExtractSliceOp
    position: Position
    axis: int
    cut: Cut
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class _Scan:
    loop: scf.ForOp
    steps: int
    parts: tuple[_Part, ...]

    @property
    def step_bytes(self) -> int:
        """The bytes of all that is made for one step."""
        return sum(byte_size(part.launch.res[0]) for part in self.parts) // self.steps


def _scans(block: Block) -> list[_Scan]:
    """The loops of a block over steps that launches make, in order."""
    found: list[_Scan] = []
    for loop in block.ops:
        if not isinstance(loop, scf.ForOp):
            continue
        trips = trips_of(loop)
        if trips is None or len(trips) < 2 or (trips.start, trips.step) != (0, 1):
            continue
        takes = [op for op in loop.body.block.ops if isinstance(op, tensor.ExtractSliceOp)]
        parts = [part for take in takes if (part := _part(loop, take, len(trips))) is not None]
        if parts:
            found.append(_Scan(loop, len(trips), tuple(parts)))
    return found


def _part(loop: scf.ForOp, take: tensor.ExtractSliceOp, steps: int) -> _Part | None:
    launch = take.source.owner
    if not isinstance(launch, LaunchOp) or launch.parent is not loop.parent or len(launch.res) != 1:
        return None
    if not take.source.has_one_use() or not is_empty(launch.outs[0]):
        return None
    where = _one_step(
        take.static_offsets.get_values(), take.static_sizes.get_values(), take.offsets, take.source
    )
    if where is None:
        return None
    axis, position = where
    if (
        position.loop is not loop
        or position.last not in (0, steps - 1)
        or shape_of(take.source)[axis] != steps
    ):
        return None
    cut = cut_along(launch, axis)
    if cut is None or cut.units != steps:
        return None
    axes = _operand_axes(launch, cut)
    return None if axes is None else _Part(launch, take, position, axis, cut, axes)


def _one_step(
    offsets: Sequence[int], sizes: Sequence[int], dynamic: Sequence[SSAValue], whole: SSAValue
) -> tuple[int, Position] | None:
    """The axis along which a slice is one of many that a loop counts, all of the others, and what counts it."""
    axes = [axis for axis, offset in enumerate(offsets) if offset == DYNAMIC_INDEX]
    if len(axes) != 1 or sizes[axes[0]] != 1:
        return None
    position = position_of(dynamic[0])
    shape = shape_of(whole)
    rest = [a for a in range(len(shape)) if a != axes[0]]
    if position is None or any(offsets[a] or sizes[a] != shape[a] for a in rest):
        return None
    return axes[0], position


def _operand_axes(launch: LaunchOp, cut: Cut) -> tuple[int | None, ...] | None:
    """Along which axis each of the ins is cut with the result, None for those read whole; None if that can't be."""
    found: dict[SSAValue, int | None] = {}
    for op in launch.body.ops:
        if not isinstance(op, StructuredOp):
            continue
        dim = cut.dims.get(op)
        if dim is None:
            return None  # made anew for each chunk
        if any(
            isinstance(v.type, TensorType) for inner in op.walk() if inner is not op for v in inner.operands
        ):
            return None  # its body reads elements of whole tensors
        for index, (value, access) in enumerate(zip(op.ins, op.in_accesses, strict=True)):
            if value not in launch.in_args:
                continue
            axis = None
            for number, row in enumerate(access.rows):
                if not row.coefficients[dim]:
                    continue
                if axis is not None or row.single_dim != dim or row.coefficients[dim] != 1 or row.constant:
                    return None
                axis = number
            if op.pad_of(index) is not None and axis is not None:
                return None
            if axis is not None and shape_of(value)[axis] != cut.units:
                return None
            if found.setdefault(value, axis) != axis:
                return None
    return tuple(found.get(argument) for argument in launch.in_args)


# How large chunks may be


class _Trial:
    """What is live at once in a copy of a function with its scans in chunks of these sizes (None: left as it is)."""

    def __init__(self, main: func.FuncOp, needs: WorkspaceNeeds, sizes: Sequence[int | None]):
        copy = main.clone()
        module = ModuleOp([copy])
        block = only_block(copy)
        scans = _scans(block)
        loops: list[Operation] = []
        for scan, size in zip(scans, sizes, strict=True):
            loops.append(scan.loop)
            if size is not None:
                _chunk(scan, size)
                parent = scan.loop.parent_op()
                assert parent is not None
                loops[-1] = parent
        steps = BlockSteps(block, needs.alignment, needs.least)
        live = profile(steps.graph, range(len(steps.ops)))
        self.peak = max(live, default=0)
        self.live = [live[steps.ops.index(loop)] for loop in loops]
        module.erase()


def _sizes(main: func.FuncOp, needs: WorkspaceNeeds, finest: _Trial, most: int) -> list[int | None]:
    """Of each scan the steps of a chunk, so that no more than `most` is live at once; None if all fit."""
    scans = _scans(only_block(main))
    sizes = [
        min(scan.steps, 1 + max(0, most - live) // max(1, scan.step_bytes))
        for scan, live in zip(scans, finest.live, strict=True)
    ]
    steps = [scan.steps for scan in scans]
    for _ in range(_ATTEMPTS):
        whole = [
            None if size >= count else _even(size, count) for size, count in zip(sizes, steps, strict=True)
        ]
        trial = _Trial(main, needs, whole)
        if trial.peak <= most:
            return whole
        over = [live > most for live in trial.live]
        if not any(over):
            over = [size is None for size in whole]  # what is made before its loop is live there, too
        sizes = [max(1, size // 2) if too_much else size for size, too_much in zip(sizes, over, strict=True)]
    return [1] * len(sizes)


def _even(size: int, steps: int) -> int:
    """As many steps a chunk as make as few chunks as `size` does."""
    return -(-steps // -(-steps // size))


# Chunks


def _chunk(scan: _Scan, size: int) -> bool:
    """Put the launches into a loop over chunks, with the loop over steps; returns whether anything is overwritten."""
    loop = scan.loop
    overwritten = _overwritten(scan)
    block = Block(arg_types=[i64, *(value.type for value in loop.iter_args)])
    for old, new in zip(loop.body.block.args[1:], block.args[1:], strict=True):
        copy_name(old, new)
    add = _Adder(loop, block)
    low = add(arith.MuliOp(block.args[0], add.number(size)))
    start, high = low, add(arith.AddiOp(low, add.number(size)))
    if scan.steps % size:
        start = add(arith.MinSIOp(low, add.number(scan.steps - size)))
        high = add(arith.MinSIOp(high, add.number(scan.steps)))
    parts: list[tuple[_Part, SSAValue]] = []
    for part in scan.parts:
        first = start
        if part.position.backwards:
            first = add(arith.SubiOp(add.number(scan.steps - size), start))
        first = add(arith.IndexCastOp(first, IndexType()))
        sources = [
            add.reshaped(block.args[overwritten[root] + 1], shape_of(value))
            if (root := _root(value)) in overwritten
            else value
            for value in part.launch.ins
        ]
        parts.append((part, add(_cut_launch(part, sources, first, size, add))))
    initial = list(loop.iter_args)
    for root, position in overwritten.items():
        if _root(initial[position]) is not root:
            initial[position] = add.before.reshaped(root, shape_of(initial[position]))
    first, last, one = add.before.number(0), add.before.number(-(-scan.steps // size)), add.before.number(1)
    outer = scf.ForOp(first, last, one, initial, Region(block))
    outer.location = loop.location
    Rewriter.insert_op(outer, InsertPoint.before(loop))
    for old, new in zip(loop.results, outer.results, strict=True):
        copy_name(old, new)
        old.replace_all_uses_with(new)
    loop.operands = [low, high, add.number(1), *block.args[1:]]
    loop.detach()
    block.add_op(loop)
    add.end(scf.YieldOp(*loop.results))
    for part, made in parts:
        _take_from_chunk(part, made, start, size, loop)
    for part in scan.parts:
        part.launch.detach()
        part.launch.erase()
    return bool(overwritten)


def _root(value: SSAValue) -> SSAValue:
    """What a tensor is a reshape of."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.source
    return value


def _overwritten(scan: _Scan) -> dict[SSAValue, int]:
    """Tensors that the launches are given, each with the number of what the loop carries and may write over it."""
    loop = scan.loop
    body = loop.body.block
    assert body.last_op is not None
    found: dict[SSAValue, int] = {}
    for number, (initial, argument, last) in enumerate(
        zip(loop.iter_args, body.args[1:], body.last_op.operands, strict=True)
    ):
        position = _collected_at(argument, last)
        if position is None:
            continue
        for part in scan.parts:
            for value, axis in zip(part.launch.ins, part.axes, strict=True):
                root = _root(value)
                if axis != 0 or root in found or position != part.position:
                    continue
                if _root(initial) is root or _may_overwrite(root, initial, scan):
                    found[root] = number
                    break
            if number in found.values():
                break
    return found


def _collected_at(argument: SSAValue, last: SSAValue) -> Position | None:
    """At which position along its first axis a loop writes what it carries and does not read; None if it does more."""
    insert = last.owner
    if (
        not isinstance(insert, tensor.InsertSliceOp)
        or insert.dest is not argument
        or not argument.has_one_use()
    ):
        return None
    first, *rest = insert.static_offsets.get_values()
    if first != DYNAMIC_INDEX or DYNAMIC_INDEX in rest or insert.static_sizes.get_values()[0] != 1:
        return None
    return position_of(insert.offsets[0])


def _may_overwrite(root: SSAValue, initial: SSAValue, scan: _Scan) -> bool:
    """Whether what a loop collects, uninitialised at first, may lie in a tensor that only its launches still need."""
    if not is_empty(initial) or not isinstance(root.owner, LaunchOp | scf.ForOp | tensor.InsertSliceOp):
        return False
    first, second = tensor_type(root), tensor_type(initial)
    if first.element_type != second.element_type or prod(first.get_shape()) != prod(second.get_shape()):
        return False
    cut = {(part.launch, index) for part in scan.parts for index, axis in enumerate(part.axes) if axis == 0}
    return root.owner.parent is scan.loop.parent and all(
        (use.operation, use.index) in cut for use in _uses_with_reshapes(root)
    )


def _uses_with_reshapes(value: SSAValue) -> Iterator[Use]:
    """The uses of a tensor and of its reshapes, but for these themselves."""
    for use in value.uses:
        if isinstance(use.operation, ReshapeOp):
            yield from _uses_with_reshapes(use.operation.result)
        else:
            yield use


class _Adder:
    """Adds ops to the end of a block, or before a loop, located where the loop is."""

    def __init__(self, loop: scf.ForOp, block: Block | None):
        self._loop = loop
        self._block = block

    @property
    def before(self) -> _Adder:
        return _Adder(self._loop, None)

    def __call__(self, op: Operation) -> SSAValue:
        """Add an op; its first result."""
        self.end(op)
        return op.results[0]

    def end(self, op: Operation) -> None:
        """Add an op that may have no result."""
        op.location = self._loop.location
        if self._block is None:
            Rewriter.insert_op(op, InsertPoint.before(self._loop))
        else:
            self._block.add_op(op)

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        return value if shape_of(value) == tuple(shape) else self(ReshapeOp(value, shape))

    def number(self, value: int) -> SSAValue:
        return self(arith.ConstantOp(IntegerAttr(value, i64)))


def _cut_launch(
    part: _Part, sources: Sequence[SSAValue], first: SSAValue, size: int, add: _Adder
) -> LaunchOp:
    """The launch for `size` steps from `first` on."""
    launch = part.launch
    ins: list[SSAValue] = []
    for value, axis in zip(sources, part.axes, strict=True):
        if axis is None:
            ins.append(value)
            continue
        shape = list(shape_of(value))
        shape[axis] = size
        offsets = [first if a == axis else 0 for a in range(len(shape))]
        type = TensorType(tensor_type(value).element_type, shape)
        ins.append(add(tensor.ExtractSliceOp(value, offsets, shape, [1] * len(shape), type)))
    shape = list(shape_of(launch.res[0]))
    shape[part.axis] = size
    out = add(tensor.EmptyOp([], TensorType(tensor_type(launch.res[0]).element_type, shape)))
    body = Block(arg_types=[value.type for value in (*ins, out)])
    known: dict[SSAValue, SSAValue] = {}
    for old, new in zip(launch.body.args, body.args, strict=True):
        copy_name(old, new)
        known[old] = new
    for op in launch.body.ops:
        operands = [known[operand] for operand in op.operands]
        new = part.cut.piece(op, size, operands)
        new.location = op.location
        body.add_op(new)
        for old, result in zip(op.results, new.results, strict=True):
            copy_name(old, result)
            known[old] = result
    made = LaunchOp(launch.kernel_name.data, ins, [out], Region(body))
    copy_name(launch.res[0], made.res[0])
    return made


def _take_from_chunk(part: _Part, made: SSAValue, start: SSAValue, size: int, loop: scf.ForOp) -> None:
    """Let the slice of a step be one of the chunk that begins with step `start`."""
    take = part.take
    number = arith.SubiOp(loop.body.block.args[0], start)
    ops: list[Operation] = [number]
    if part.position.backwards:
        last = arith.ConstantOp(IntegerAttr(size - 1, i64))
        ops += [last, arith.SubiOp(last.result, number.result)]
    ops.append(arith.IndexCastOp(ops[-1].results[0], IndexType()))
    for op in ops:
        op.location = take.location
        Rewriter.insert_op(op, InsertPoint.before(take))
    take.operands = [made, ops[-1].results[0]]
