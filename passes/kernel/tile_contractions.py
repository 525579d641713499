"""`tile-contractions`: sums that are wider than what becomes of them are made, and used, one tile after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.dialects.kernel import (
    NO_PAD,
    ContractOp,
    FillOp,
    IndexOp,
    LaunchOp,
    MapOp,
    StructuredOp,
    YieldOp,
    tensor_type,
)
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.kernel.cut_launch import cut_op
from mlopt.passes.kernel.launches import read_of, shape_of
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL

_SCALAR_DIALECTS = frozenset((arith.Arith.name, math.Math.name))


@dataclass(frozen=True)
class TileContractionsPass(Pass):
    """Cut a contraction of whose sums one map makes narrower numbers into tiles that fit `max-bytes`.

    A launch that fills a tensor of its own, contracts into it, and maps it to its result needs memory for all sums at
    once. Cut along one dimension of the sums, each tile is filled, contracted and mapped before the next, and all tiles
    can have the same memory. The dimension is the one along which the least is read again for each tile.

    Not cut: sums as wide as the result, which are built in its place; launches that do anything else; bodies that ask
    for their position. Every number is the sum of the same products.
    """

    name = "tile-contractions"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "tile-contraction": "Sums are made, and narrowed, one tile after the other."
    }

    max_bytes: int = 128 * 1024

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        changed = False
        for launch in [inner for inner in op.walk() if isinstance(inner, LaunchOp)]:
            sums = _sums_of(launch)
            if sums is None or sums.nbytes <= self.max_bytes:
                continue
            axis = sums.best_axis()
            if axis is None:
                why = f"{sums.nbytes} bytes of sums, and no axis along which all of them are cut alike"
                ctx.remark(self.name, "missed", f"not tiled: {why}", launch)
                continue
            if not may_rewrite("tile-contraction", launch):
                continue
            tiles = sums.tile(axis, self.max_bytes)
            ctx.count(self.name, "contractions-tiled")
            ctx.remark(self.name, "passed", f"{sums.nbytes} bytes of sums are made in {tiles} tiles", launch)
            changed = True
        return changed


@dataclass(frozen=True, slots=True)
class _Sums:
    """A contraction into a tensor of its own, and the one map that reads it."""

    empty: tensor.EmptyOp
    fill: FillOp
    contract: ContractOp
    map: MapOp

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.contract.res[0])

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * _itemsize(self.contract.res[0])

    @property
    def position(self) -> int:
        """Where the map reads the sums."""
        return next(i for i, value in enumerate(self.map.ins) if value is self.contract.res[0])

    def dims(self, axis: int) -> tuple[int, int] | None:
        """The dimensions of the contraction and of the map that walk an axis of the sums, if each is just that."""
        rows = self.contract.out_accesses[0].rows[axis], read_of(self.map, self.position).access.rows[axis]
        first, second = (row.single_dim for row in rows)
        if first is None or second is None or not (rows[0].is_dim(first) and rows[1].is_dim(second)):
            return None
        return first, second

    def best_axis(self) -> int | None:
        """The axis along which the least is read again for each tile, the outermost of those."""
        best: tuple[int, int] | None = None
        for axis, size in enumerate(self.shape):
            dims = self.dims(axis)
            if size < 2 or dims is None:
                continue
            again = sum(
                prod(shape_of(value))
                for value, access in zip(self.contract.ins, self.contract.in_accesses, strict=True)
                if dims[0] not in access.dims
            )
            if best is None or again < best[0]:
                best = again, axis
        return None if best is None else best[1]

    def tile(self, axis: int, max_bytes: int) -> int:
        """Replace the four operations by those of each tile; returns how many tiles there are."""
        dims = self.dims(axis)
        assert dims is not None
        size = self.shape[axis]
        count = min(size, -(-self.nbytes // max_bytes))
        step = -(-size // count)
        result: SSAValue = self.map.outs[0]
        for low in range(0, size, step):
            extent = min(step, size - low)
            shape = [extent if a == axis else other for a, other in enumerate(self.shape)]
            empty = tensor.EmptyOp([], TensorType(tensor_type(self.contract.res[0]).element_type, shape))
            fill = FillOp(self.fill.operands[0], empty.tensor)
            contract = cut_op(
                self.contract, dims[0], low, extent, [*self.contract.ins, fill.results[0]], keep=(2,)
            )
            operands = [*self.map.operands]
            operands[self.position] = contract.res[0]
            operands[-1] = result
            last = cut_op(self.map, dims[1], low, extent, operands, keep=(self.position,))
            for new, old in zip(
                (empty, fill, contract, last), (self.empty, self.fill, self.contract, self.map), strict=True
            ):
                new.location = old.location
            Rewriter.insert_op([empty, fill, contract, last], InsertPoint.before(self.map))
            result = last.res[0]
        self.map.res[0].replace_all_uses_with(result)
        for op in (self.map, self.contract, self.fill, self.empty):
            op.detach()
            op.erase()
        return len(range(0, size, step))


def _sums_of(launch: LaunchOp) -> _Sums | None:
    """What a launch does, if it is a contraction of whose sums one map makes a narrower result, and no more."""
    structured: list[StructuredOp] = []
    for op in launch.body.ops:
        match op:
            case ContractOp() | MapOp():
                structured.append(op)
            case FillOp() | tensor.EmptyOp() | YieldOp():
                pass
            case _ if op.dialect_name() in _SCALAR_DIALECTS and not op.regions:
                pass
            case _:
                return None
    match structured:
        case [ContractOp() as contract, MapOp() as last]:
            fill = contract.outs[0].owner
        case _:
            return None
    if not isinstance(fill, FillOp) or not isinstance(fill.operands[1].owner, tensor.EmptyOp):
        return None
    sums = contract.res[0]
    is_used_once = all(value.has_one_use() for value in (sums, fill.results[0], fill.operands[1]))
    if (
        not is_used_once
        or sums not in last.ins
        or len(last.outs) != 1
        or last.outs[0] not in launch.body.args
    ):
        return None
    found = _Sums(fill.operands[1].owner, fill, contract, last)
    read = read_of(last, found.position)
    writes_all = last.out_accesses[0].covers(shape_of(last.outs[0]), last.extents)
    is_permuted = read.pad == NO_PAD and read.access.is_permutation(shape_of(sums), last.extents)
    asks_position = any(isinstance(inner, IndexOp) for inner in last.body.walk())
    narrows = _itemsize(sums) > _itemsize(last.res[0])
    return found if writes_all and is_permuted and not asks_position and narrows else None


def _itemsize(value: SSAValue) -> int:
    element: Attribute = tensor_type(value).element_type
    return to_numpy_dtype(element).itemsize
