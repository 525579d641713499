"""Memref values while a plan is made: a view of a region, and the operations that make one view from another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.ir import Attribute, Operation

from mlopt.diagnostics import UnsupportedError, VerifyFailure
from mlopt.interpreter.plan import PlanBuilder, SetSlot, Term
from mlopt.interpreter.views import Slot, View, row_major
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.locations import place_of_op

Index = int | View
"""An index that is known, or the cell that will hold it."""


class Descriptor(NamedTuple):
    """A memref value: the elements, and the byte that `memref.reinterpret_cast` counts its offset from."""

    view: View
    base: int


def whole(view: View) -> Descriptor:
    """The descriptor of a buffer that starts where the view starts."""
    return Descriptor(view, view.offset)


def memref_type(op: Operation, type_: Attribute) -> MemRefType:
    """The type as a memref type of a strided layout; `UnsupportedError` for anything else."""
    if not isinstance(type_, MemRefType) or not isinstance(type_.layout, NoneAttr | StridedLayoutAttr):
        raise UnsupportedError(
            f"'{op.name}' has a value of type {type_}, expected a strided memref", place=place_of_op(op)
        )
    result = cast("MemRefType[Attribute]", type_)
    try:
        to_numpy_dtype(result.element_type)
    except UnsupportedError as error:
        raise UnsupportedError(f"'{op.name}': {error.message}", place=place_of_op(op)) from None
    return result


def static_shape(op: Operation, type_: MemRefType) -> tuple[int, ...]:
    """The shape of a memref type; `UnsupportedError` if an extent is dynamic."""
    if not type_.has_static_shape():
        raise UnsupportedError(
            f"'{op.name}' has a value of the dynamic shape {type_}, expected a static one",
            place=place_of_op(op),
        )
    return tuple(type_.get_shape())


def checked(op: Operation, view: View) -> View:
    """The view, which must lie inside its region."""
    if view.size:
        low, high = view.span()
        if low < 0 or high > view.region.nbytes:
            raise VerifyFailure(
                f"'{op.name}' takes the bytes {low} to {high} of {view.region.name}, which has {view.region.nbytes}",
                place=place_of_op(op),
            )
    return view


def moved(
    builder: PlanBuilder,
    op: Operation,
    view: View,
    offsets: Sequence[Index],
    factors: Sequence[int],
    limits: Sequence[int],
) -> View:
    """The view moved by `sum(offset * factor)` bytes; offsets must be in `[0, limit)`.

    Offsets known only at run time make a slot that a step of the plan points there.
    """
    offset = view.offset
    terms: list[Term] = []
    for value, factor, limit in zip(offsets, factors, limits, strict=True):
        if isinstance(value, View):
            if not builder.memory.measuring:
                terms.append(Term(builder.memory.array(value), factor, limit))
        elif not 0 <= value < limit:
            raise VerifyFailure(
                f"'{op.name}' has the index {value}, expected 0 to {limit - 1}", place=place_of_op(op)
            )
        else:
            offset += value * factor
    if not any(isinstance(value, View) for value in offsets):
        return replace(view, offset=offset)
    slot = Slot("run-time view", view.region.nbytes, writable=view.region.writable, origins=view.region.roots)
    builder.step(SetSlot(slot, view.region, offset, tuple(terms), builder.locate(place_of_op(op))))
    return replace(view, region=slot, offset=0)


def _mixed(static: Sequence[int], dynamic: Sequence[Index]) -> list[Index]:
    """An operation's list of numbers, with the dynamic ones filled in."""
    rest = iter(dynamic)
    return [next(rest) if value == DYNAMIC_INDEX else value for value in static]


def _known(op: Operation, values: Sequence[Index], what: str) -> tuple[int, ...]:
    found = tuple(value for value in values if isinstance(value, int))
    if len(found) != len(values):
        raise UnsupportedError(
            f"'{op.name}' has {what} that are known only at run time", place=place_of_op(op)
        )
    return found


def arena_view(
    builder: PlanBuilder, op: memref.ViewOp, source: Descriptor, shift: Index, sizes: Sequence[Index]
) -> Descriptor:
    """`memref.view`: typed elements at a byte offset of a byte buffer."""
    type_ = memref_type(op, op.result.type)
    dtype = to_numpy_dtype(type_.element_type)
    shape = _known(op, _mixed(type_.get_shape(), sizes), "sizes")
    bytes_view = source.view
    target = View(bytes_view.region, bytes_view.offset, shape, row_major(shape, dtype.itemsize), dtype)
    if isinstance(shift, View):
        limit = bytes_view.nbytes - target.nbytes + 1
        target = moved(builder, op, target, [shift], [1], [limit])
        return whole(target)
    target = replace(target, offset=target.offset + shift)
    low, high = target.offset - bytes_view.offset, target.offset - bytes_view.offset + target.nbytes
    if low < 0 or high > bytes_view.nbytes:
        raise VerifyFailure(
            f"'{op.name}' takes the bytes {low} to {high} of {bytes_view.region.name}, which has {bytes_view.nbytes}",
            place=place_of_op(op),
        )
    return whole(target)


def subview(
    builder: PlanBuilder, op: memref.SubviewOp, source: Descriptor, dynamic: tuple[Sequence[Index], ...]
) -> Descriptor:
    """`memref.subview`: a slice with steps; axes of extent 1 may be dropped, as the result's type says."""
    offsets = _mixed(op.static_offsets.get_values(), dynamic[0])
    sizes = _known(op, _mixed(op.static_sizes.get_values(), dynamic[1]), "sizes")
    steps = _known(op, _mixed(op.static_strides.get_values(), dynamic[2]), "strides")
    view = source.view
    strides = tuple(step * stride for step, stride in zip(steps, view.strides, strict=True))
    for axis, (extent, offset, size, step) in enumerate(zip(view.shape, offsets, sizes, steps, strict=True)):
        if not isinstance(offset, View) and (offset < 0 or (size and offset + (size - 1) * step >= extent)):
            raise VerifyFailure(
                f"'{op.name}' takes {size} elements from {offset} on with stride {step} along axis {axis}, "
                f"which has {extent}",
                place=place_of_op(op),
            )
    limits = [
        extent - (size - 1) * step if size else extent + 1
        for extent, size, step in zip(view.shape, sizes, steps, strict=True)
    ]
    taken = moved(builder, op, replace(view, shape=sizes, strides=strides), offsets, view.strides, limits)
    rank = len(memref_type(op, op.result.type).get_shape())
    if rank != view.ndim:
        taken = _drop_unit_axes(op, taken, rank)
    base = 0 if taken.region is not view.region else source.base
    return Descriptor(taken, base)


def _drop_unit_axes(op: memref.SubviewOp, view: View, rank: int) -> View:
    """The view with only `rank` axes, in the shape of the result's type; the stride of a unit axis is of no matter."""
    result = memref_type(op, op.result.type).get_shape()
    kept = [a for a, extent in enumerate(view.shape) if extent != 1]
    rest = iter(kept)
    shape: list[int] = []
    strides: list[int] = []
    for extent in result[:rank]:
        axis = None if extent == 1 else next(rest, None)
        if extent != 1 and axis is None:
            break
        shape.append(1 if axis is None else view.shape[axis])
        strides.append(view.itemsize if axis is None else view.strides[axis])
    if len(shape) != rank or math.prod(shape) != view.size:
        raise VerifyFailure(
            f"'{op.name}' takes {list(view.shape)}, which is not the result's shape {list(result)}",
            place=place_of_op(op),
        )
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def reinterpret(
    op: memref.ReinterpretCastOp, source: Descriptor, dynamic: tuple[Sequence[Index], ...]
) -> Descriptor:
    """`memref.reinterpret_cast`: any strided view, its offset counted from the start of the buffer."""
    (offset,) = _known(op, _mixed(op.static_offsets.get_values(), dynamic[0]), "offsets")
    shape = _known(op, _mixed(op.static_sizes.get_values(), dynamic[1]), "sizes")
    steps = _known(op, _mixed(op.static_strides.get_values(), dynamic[2]), "strides")
    item = source.view.itemsize
    view = View(
        source.view.region,
        source.base + offset * item,
        shape,
        tuple(s * item for s in steps),
        source.view.dtype,
    )
    return Descriptor(checked(op, view), source.base)


def collapse(op: memref.CollapseShapeOp, source: Descriptor) -> Descriptor:
    """`memref.collapse_shape`: groups of contiguous axes become one."""
    view = source.view
    shape: list[int] = []
    strides: list[int] = []
    for group in op.reassociation:
        axes = [axis.value.data for axis in group.data]
        wide = [a for a in axes if view.shape[a] != 1]
        for outer, inner in pairwise(wide):
            if view.strides[outer] != view.strides[inner] * view.shape[inner]:
                raise VerifyFailure(
                    f"'{op.name}' collapses axes that are not contiguous", place=place_of_op(op)
                )
        shape.append(math.prod(view.shape[a] for a in axes))
        strides.append(view.strides[wide[-1]] if wide else view.itemsize)
    return Descriptor(replace(view, shape=tuple(shape), strides=tuple(strides)), source.base)


def expand(op: memref.ExpandShapeOp, source: Descriptor) -> Descriptor:
    """`memref.expand_shape`: an axis becomes several, in row-major order."""
    view = source.view
    shape = static_shape(op, memref_type(op, op.result.type))
    strides = [0] * len(shape)
    for axis, group in enumerate(op.reassociation):
        step = view.strides[axis]
        for target in reversed([a.value.data for a in group.data]):
            strides[target] = step
            step *= shape[target]
    return Descriptor(replace(view, shape=shape, strides=tuple(strides)), source.base)
