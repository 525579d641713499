"""Cutting what a launch does into tiles along an axis of its result, one after the other, so that less is live at once.

What a launch keeps between its ops (the *tiled* tensors) is as wide as one tile, and all tiles may have the same
memory. What it is given, and what it builds its result in, stays whole: the tiles read and write their part of it.
Every element is computed from the same numbers, in the same order.

A cut begins at an axis of the result and goes back through the ops: each op that writes along the axis with one
dimension is cut along that dimension, and so is every tensor in between that it reads along an axis with just this
dimension. A tensor that an op reads all of for each tile is computed before them. There is no cut where an op asks for
its position along the axis, or reads beyond its own tile of what another op computes (windows, transposed reads).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import TypeVar

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.dialects.kernel import (
    Access,
    ConstantOp,
    FillOp,
    IndexOp,
    LaunchOp,
    LinearExpr,
    ReshapeOp,
    StructuredOp,
    YieldOp,
    tensor_type,
)
from mlopt.passes.kernel.launches import chain_of, shape_of

_Op = TypeVar("_Op", bound=StructuredOp)
_SCALAR_DIALECTS = frozenset((arith.Arith.name, math.Math.name))


def cut_op(
    op: _Op, dim: int, low: int, extent: int, operands: Sequence[SSAValue], keep: Sequence[int]
) -> _Op:
    """The part of an op from `low` on along a dimension; the operands at `keep` hold that part alone."""
    bounds = {name: extent if d == dim else size for d, (name, size) in enumerate(op.named_bounds.items())}
    accesses = [
        access if index in keep else _moved(access, dim, low) for index, access in enumerate(op.accesses)
    ]
    count = len(op.ins)
    body = op.regions[0].clone() if op.HAS_BODY else None
    return type(op)(
        bounds,
        operands[:count],
        operands[count:],
        accesses,
        body,
        pads=op.pads.data,
        attributes=op.attributes,
    )


def _moved(access: Access, dim: int, low: int) -> Access:
    """The access at positions that are `low` further along a dimension."""
    rows = (LinearExpr(row.coefficients, row.constant + row.coefficients[dim] * low) for row in access.rows)
    return Access(access.num_dims, tuple(rows))


@dataclass
class Cut:
    """A way of cutting the body of `launch` into tiles of up to `units` units; see `cuts_of`.

    `axes`: of each tensor made in the body the axis that is cut, None if it is computed before the tiles. `dims`: of
    each op that is repeated for each tile the dimension that is cut; an op without dimensions has -1.
    """

    launch: LaunchOp
    axes: dict[SSAValue, int | None] = field(default_factory=dict[SSAValue, "int | None"])
    dims: dict[Operation, int] = field(default_factory=dict[Operation, int])
    units: int = 0

    def apply(self, tiles: int, only_first: bool = False) -> int:
        """Put the tiles in place of the ops; returns how many there are, up to `tiles`.

        With `only_first`, which leaves the other parts of the result undefined, only the first of them, the largest.
        """
        step = -(-self.units // tiles)
        body = self.launch.body
        repeated = [op for op in body.ops if op in self.dims]
        if not repeated:
            return 1
        last = body.last_op
        assert isinstance(last, YieldOp)
        built = {chain_of(value)[-1]: value for value in self._before_tiles()}
        for low in range(0, step if only_first else self.units, step):
            self._add_tile(repeated, low, min(step, self.units - low), built)
        for position, value in enumerate(last.values):
            last.operands[position] = built[chain_of(value)[-1]]
        for op in reversed(repeated):
            op.detach()
            op.erase()
        return len(range(0, self.units, step))

    def piece(self, op: Operation, units: int, operands: Sequence[SSAValue]) -> Operation:
        """What `op` is in a launch whose operands and results, where they are cut, have `units` units only."""
        if op in self.dims:
            return self._tile_of(op, 0, units, operands)
        if isinstance(op, FillOp):
            return FillOp(operands[0], operands[1])
        return op.clone(dict(zip(op.operands, operands, strict=True)))

    def _before_tiles(self) -> Iterator[SSAValue]:
        """Of each out the last value of its chain that is made before the tiles."""
        for value in self.launch.yielded:
            for link in chain_of(value):
                if not isinstance(link.owner, Operation) or link.owner not in self.dims:
                    yield link
                    break

    def _add_tile(
        self, repeated: Sequence[Operation], low: int, size: int, built: dict[SSAValue, SSAValue]
    ) -> None:
        """Add one tile, `size` units from `low` on; `built` has what each out holds, by the root of its chain."""
        own: dict[SSAValue, SSAValue] = {}

        def value_of(value: SSAValue) -> SSAValue:
            return own[value] if value in own else built.get(chain_of(value)[-1], value)

        end = InsertPoint.before(_terminator(self.launch))
        for op in repeated:
            new = self._tile_of(op, low, size, [value_of(operand) for operand in op.operands])
            new.location = op.location
            Rewriter.insert_op(new, end)
            for old, result in zip(op.results, new.results, strict=True):
                result.name_hint = old.name_hint
                root = chain_of(old)[-1]
                if root in built:
                    built[root] = result
                else:
                    own[old] = result

    def _tile_of(self, op: Operation, low: int, size: int, operands: Sequence[SSAValue]) -> Operation:
        match op:
            case tensor.EmptyOp():
                return tensor.EmptyOp([], self._tile_type(op.tensor, size))
            case FillOp():
                return FillOp(operands[0], operands[1])
            case ReshapeOp():
                return ReshapeOp(operands[0], self._tile_type(op.result, size).get_shape())
            case StructuredOp():
                dim = self.dims[op]
                unit = op.extents[dim] // self.units
                keep = [i for i, value in enumerate(op.operands) if self._is_tiled(value)]
                return cut_op(op, dim, low * unit, size * unit, operands, keep)
            case _:
                raise AssertionError(op.name)

    def _is_tiled(self, value: SSAValue) -> bool:
        """Whether a tensor is as wide as a tile."""
        return self.axes.get(value) is not None and chain_of(value)[-1] not in self.launch.out_args

    def _tile_type(self, value: SSAValue, size: int) -> TensorType[Attribute]:
        type = tensor_type(value)
        axis = self.axes[value]
        shape = [n // self.units * size if a == axis else n for a, n in enumerate(type.get_shape())]
        return TensorType(type.element_type, shape)


def _terminator(launch: LaunchOp) -> Operation:
    last = launch.body.last_op
    assert last is not None
    return last


def cuts_of(launch: LaunchOp) -> list[Cut]:
    """The cuts of a launch of one result, one for each axis of the result that there is one for, outermost first."""
    axes = range(len(shape_of(launch.res[0]))) if len(launch.res) == 1 else ()
    return [cut for axis in axes if (cut := cut_along(launch, axis)) is not None]


def cut_along(launch: LaunchOp, axis: int) -> Cut | None:
    """The cut of a launch of one result along an axis of the result, if there is one."""
    return _Finder(launch).find(axis)


class _NoCut(Exception):
    """There is no cut along this axis."""


class _Finder:
    """Goes through the body of a launch from its end, as the module's documentation says."""

    def __init__(self, launch: LaunchOp):
        self.launch = launch
        self.cut = Cut(launch)
        self._extents: list[int] = []
        self._range: tuple[int, int] | None = None

    def find(self, axis: int) -> Cut | None:
        body = self.launch.body
        try:
            self._require(self.launch.yielded[0], axis)
            for op in reversed(list(body.ops)):
                self._visit(op)
            self._check_reads_of_result()
        except _NoCut:
            return None
        self.cut.units = gcd(*self._extents)
        return self.cut if self.cut.units > 1 else None

    def _visit(self, op: Operation) -> None:
        if isinstance(op, YieldOp) or (op.dialect_name() in _SCALAR_DIALECTS and not op.regions):
            return
        if any(result not in self.cut.axes for result in op.results):
            raise _NoCut  # nothing reads it
        axes = [self.cut.axes[result] for result in op.results]
        if all(axis is None for axis in axes):
            self._compute_before(op)
            return
        match op:
            case FillOp() if op.outs[0] in self.launch.out_args:
                self._require(op.outs[0], axes[0])  # fills all of it, once
            case FillOp():
                self._require(op.outs[0], axes[0])
                self.cut.dims[op] = -1
            case tensor.EmptyOp():
                self._note_extent(op.tensor)
                self.cut.dims[op] = -1
            case ReshapeOp():
                self._note_extent(op.result)
                self._require(op.source, self._through_reshape(op))
                self.cut.dims[op] = -1
            case StructuredOp():
                self._cut_structured(op, axes)
            case _:
                raise _NoCut

    def _compute_before(self, op: Operation) -> None:
        if not isinstance(op, StructuredOp | FillOp | tensor.EmptyOp | ReshapeOp | ConstantOp):
            raise _NoCut
        for inner in op.walk():  # a body may read elements of tensors that are no operands
            for value in _tensors_of(inner):
                self._require(value, None)

    def _require(self, value: SSAValue, axis: int | None) -> None:
        """Note that a tensor is cut along an axis, or is not; what the launch is given stays whole."""
        if value in self.launch.in_args:
            return
        if isinstance(value.owner, ConstantOp):
            axis = None
        if value in self.launch.out_args and axis is None:
            raise _NoCut
        if self.cut.axes.setdefault(value, axis) != axis:
            raise _NoCut

    def _cut_structured(self, op: StructuredOp, axes: Sequence[int | None]) -> None:
        dims = {self._written_dim(op, i, axis) for i, axis in enumerate(axes)}
        dim = dims.pop()
        if dims or dim is None:
            raise _NoCut
        self.cut.dims[op] = dim
        self._extents.append(op.extents[dim])
        for result, access, out, axis in zip(op.res, op.out_accesses, op.outs, axes, strict=True):
            assert axis is not None
            self._check_range(op, result, access.rows[axis], dim)
            self._require(out, axis)
        for value, access in zip(op.ins, op.in_accesses, strict=True):
            if value in self.launch.in_args or isinstance(value.owner, ConstantOp):
                self._require(value, None)
                continue
            axis = _axis_read(access, dim)
            self._require(value, axis)
            if axis is not None:
                self._check_range(op, value, access.rows[axis], dim)
        for inner in op.walk():
            if isinstance(inner, IndexOp):
                raise _NoCut
            if inner is not op and any(value not in self.launch.in_args for value in _tensors_of(inner)):
                raise _NoCut

    def _written_dim(self, op: StructuredOp, position: int, axis: int | None) -> int | None:
        if axis is None:
            return None
        row = op.out_accesses[position].rows[axis]
        dim = row.single_dim
        return dim if dim is not None and row.coefficients[dim] == 1 else None

    def _check_range(self, op: StructuredOp, value: SSAValue, row: LinearExpr, dim: int) -> None:
        """All of a tiled tensor is walked; of the result, the same part by all ops."""
        extent = op.extents[dim]
        if chain_of(value)[-1] not in self.launch.out_args:
            self._note_extent(value)
            if row.constant or extent != shape_of(value)[self.cut.axes[value] or 0]:
                raise _NoCut
        elif self._range is None:
            self._range = row.constant, extent
        elif self._range != (row.constant, extent):
            raise _NoCut

    def _note_extent(self, value: SSAValue) -> None:
        axis = self.cut.axes[value]
        assert axis is not None
        self._extents.append(shape_of(value)[axis])

    def _through_reshape(self, op: ReshapeOp) -> int:
        """The axis of what is reshaped that is cut where an axis of the reshaped is."""
        axis = self.cut.axes[op.result]
        assert axis is not None
        if chain_of(op.source)[-1] in self.launch.out_args:
            raise _NoCut
        source, shape = shape_of(op.source), shape_of(op.result)
        before = prod(shape[:axis])
        for other, size in enumerate(source):
            if prod(source[:other]) == before and size > 1:
                self._extents.append(size)
                return other
        raise _NoCut

    def _check_reads_of_result(self) -> None:
        """An op reads of the result only what the ops before it, of the same tile, have left."""
        latest: dict[SSAValue, SSAValue] = {}
        for op in self.launch.body.ops:
            for value in _tensors_of(op):
                root = chain_of(value)[-1]
                if root in self.launch.out_args and latest.get(root, root) is not value:
                    raise _NoCut
            for result in op.results:
                root = chain_of(result)[-1]
                if root in self.launch.out_args:
                    latest[root] = result


def _axis_read(access: Access, dim: int) -> int | None:
    """The axis that a dimension, and nothing else, walks; None if it walks none."""
    axes = [axis for axis, row in enumerate(access.rows) if row.coefficients[dim]]
    if not axes:
        return None
    row = access.rows[axes[0]]
    if len(axes) > 1 or row.single_dim != dim or row.coefficients[dim] != 1:
        raise _NoCut
    return axes[0]


def _tensors_of(op: Operation) -> list[SSAValue]:
    return [operand for operand in op.operands if isinstance(operand.type, TensorType)]
