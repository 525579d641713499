"""Building memref-level ops at the end of a block: locations, names, constants, slices, reshapes, copies."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TypeVar, cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    StridedLayoutAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.ir.memory_spaces import ARENA_SPACE, space_attr
from mlopt.ir.names import copy_name
from mlopt.ir.upstream_rules import kept_axes

AnyMemRef = MemRefType[Attribute]
_Op = TypeVar("_Op", bound=Operation)


def memref_of(type: Attribute, space: int = ARENA_SPACE) -> AnyMemRef:
    """The type of the whole, contiguous, row-major buffer that holds a tensor of `type` in a memory space."""
    tensor = cast(TensorType[Attribute], type)
    return MemRefType(tensor.element_type, tensor.shape, memory_space=space_attr(space))


def type_of(buffer: SSAValue) -> AnyMemRef:
    """The type of a value known to be a memref."""
    assert isinstance(buffer.type, MemRefType)
    return cast(AnyMemRef, buffer.type)


def row_major_strides(shape: Sequence[int]) -> list[int]:
    """The strides, in elements, of a contiguous row-major buffer."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


class Emitter:
    """Appends ops to `block`, which changes while nested regions are filled; all of one function."""

    def __init__(self, entry: Block):
        self.block = entry
        self.location: LocationAttr = UnknownLoc()
        self._entry = entry
        self._constants: dict[int, SSAValue] = {}
        self._last_constant: Operation | None = None

    @contextmanager
    def at_end_of(self, block: Block) -> Generator[None]:
        """Append to another block for a while."""
        outer, self.block = self.block, block
        yield
        self.block = outer

    def add(self, op: _Op) -> _Op:
        """Append `op`, which takes the current location."""
        op.location = self.location
        self.block.add_op(op)
        return op

    def index(self, value: int) -> SSAValue:
        """An index constant; each stands once, at the top of the function."""
        if value not in self._constants:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            op.location = self.location
            op.result.name_hint = f"c{value}" if value >= 0 else f"cm{-value}"
            if self._last_constant is not None:
                self._entry.insert_ops_after([op], self._last_constant)
            elif self._entry.first_op is not None:
                self._entry.insert_ops_before([op], self._entry.first_op)
            else:
                self._entry.add_op(op)
            self._last_constant = op
            self._constants[value] = op.result
        return self._constants[value]

    def alloc(
        self, type: Attribute, named_after: SSAValue | None = None, space: int = ARENA_SPACE
    ) -> SSAValue:
        """A new buffer for a tensor of `type`."""
        buffer = self.add(memref.AllocOp([], [], memref_of(type, space))).memref
        if named_after is not None:
            copy_name(named_after, buffer)
        return buffer

    def copy(self, source: SSAValue, target: SSAValue) -> None:
        """Copy all elements; nothing if both are the same buffer or there is none."""
        if source is not target and 0 not in type_of(source).get_shape():
            self.add(memref.CopyOp(source, target))

    def reshape(self, buffer: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The contiguous buffer under another shape."""
        while isinstance(buffer.owner, memref.ReinterpretCastOp):
            buffer = buffer.owner.source
        source = type_of(buffer)
        if source.get_shape() == tuple(shape):
            return buffer
        type = MemRefType(source.element_type, shape)
        op = memref.ReinterpretCastOp(buffer, [], [], [], [0], shape, row_major_strides(shape), type)
        return self.add(op).result

    def slice(
        self,
        buffer: SSAValue,
        offsets: Sequence[SSAValue | int],
        sizes: Sequence[int],
        strides: Sequence[SSAValue | int],
        shape: Sequence[int] | None = None,
    ) -> SSAValue:
        """A view of some of the buffer's elements; the buffer itself if that is all of it.

        `shape` is `sizes` with axes of extent 1 dropped (default: none).
        """
        source = type_of(buffer)
        shape = sizes if shape is None else shape
        everything = all(o == 0 for o in offsets) and all(s == 1 for s in strides)
        if everything and tuple(shape) == source.get_shape():
            return buffer
        full = memref.SubviewOp.infer_result_type(source, offsets, sizes, strides)
        full_strides = full.get_strides()
        assert full_strides is not None
        kept = kept_axes(sizes, shape)
        assert kept is not None
        layout = StridedLayoutAttr([full_strides[axis] for axis in kept], full.get_offset())
        type = MemRefType(source.element_type, shape, layout)
        return self.add(memref.SubviewOp.get(buffer, offsets, sizes, strides, type)).result


def static_and_dynamic(static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[SSAValue | int]:
    """The entries of an index list that is stored as static ones and, where those are dynamic, values."""
    values = iter(dynamic)
    return [next(values) if entry == DYNAMIC_INDEX else entry for entry in static]
