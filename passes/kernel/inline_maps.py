"""Making one structured op of two: a map becomes part of the op that reads its result.

With `out[W(p)] = f(in[R(p)])` and a reader of `out[B(q)]`, the reader evaluates `f(in[R(W⁻¹(B(q)))])` itself. For a
*movement*, whose body is the identity, this is nothing but the composition of index maps. The scalar operations are
moved, never changed, so every result keeps its bits.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    ContractOp,
    FillOp,
    IndexOp,
    LinearExpr,
    MapOp,
    ReduceOp,
    StructuredOp,
    YieldOp,
)
from mlopt.ir.locations import fuse_locations
from mlopt.ir.names import set_name
from mlopt.passes.kernel.launches import (
    Read,
    drop_read,
    is_overwritten,
    read_of,
    reads_of,
    set_reads,
    shape_of,
    structured_reads,
)


def compose_read(movement: MapOp, read: Read, extents: tuple[int, ...]) -> Read | None:
    """`read`, of the result of a movement, as a read of the movement's source; None if that is not the same.

    `extents` are those of the reading op. A padded read of a movement is exact if an index outside of the movement's
    result is also outside of its source, or can't occur; if both pad, they must pad with the same value.
    """
    source = read_of(movement, 0)
    written = movement.out_accesses[0]
    point = written.inverse()
    if point is None or not written.covers(shape_of(movement.res[0]), movement.extents):
        return None
    if read.pad != NO_PAD:
        if source.pad not in (NO_PAD, read.pad):
            return None
        padded = _padded_axes(read, shape_of(movement.res[0]), extents)
        if not all(_leaves_source(axis, movement, source, point) for axis in padded):
            return None
    access = source.access.compose(point.compose(read.access))
    return Read(source.value, access, source.pad if read.pad == NO_PAD else read.pad)


def _padded_axes(read: Read, shape: tuple[int, ...], extents: tuple[int, ...]) -> list[int]:
    """The axes on which a padded read may be out of bounds."""
    if 0 in extents:
        return []
    ranges = read.access.extent(extents)
    return [
        axis
        for axis, (size, (low, high)) in enumerate(zip(shape, ranges, strict=True))
        if low < 0 or high >= size
    ]


def _leaves_source(axis: int, movement: MapOp, source: Read, point: Access) -> bool:
    """Whether an index outside of the movement's result on this axis is also outside of its source on some axis.

    So it is if the source is indexed there by that axis alone, and the result's extent reaches across all of it.
    """
    shape = shape_of(movement.res[0])
    by_axis = source.access.compose(point)
    return any(
        row.single_dim == axis and low <= 0 and high >= size - 1
        for row, size, (low, high) in zip(
            by_axis.rows, shape_of(source.value), by_axis.extent(shape), strict=True
        )
    )


def absorb_movement(reader: StructuredOp, index: int, movement: MapOp) -> bool:
    """Let `reader` read the source of a movement instead of its result, at position `index` of its `ins`."""
    read = compose_read(movement, read_of(reader, index), reader.extents)
    if read is None or not keeps_unit_stride(reader, index, read.access):
        return False
    reads = reads_of(reader)
    reads[index] = read
    set_reads(reader, reads)
    reader.location = fuse_locations([movement.location, reader.location])
    return True


def keeps_unit_stride(op: StructuredOp, index: int, access: Access) -> bool:
    """Whether an engine can still call a matrix product for `op` if operand `index` is accessed by `access`.

    A matrix product wants elements that follow one another in memory along a dimension of the matrix (not of the
    batch) for each operand. Only what is such a product now has something to lose.
    """
    if not isinstance(op, ContractOp) or any(
        len(row.dims) > 1 for other in op.accesses for row in other.rows
    ):
        return True
    a, b, out = op.accesses
    shared = a.dims & b.dims & out.dims
    return _has_unit_stride(access, shared, op.extents) or not _has_unit_stride(
        op.access_of(index), shared, op.extents
    )


def _has_unit_stride(access: Access, batch: frozenset[int], extents: tuple[int, ...]) -> bool:
    """Whether the innermost axis that moves at all moves by 1 along a single dimension outside of `batch`."""
    for row in reversed(access.rows):
        moving = [d for d in row.dims if extents[d] > 1]
        if moving:
            return len(moving) == 1 and abs(row.coefficients[moving[0]]) == 1 and moving[0] not in batch
    return True


def inline_producer(reader: StructuredOp, index: int) -> bool:
    """Evaluate what `reader` reads at position `index` inside `reader`, if a map or fill of its launch computes it.

    A movement is always composed if that is exact. Of another map all that read it must be able to evaluate it, and
    together evaluate no more than its points.
    """
    value = reader.ins[index]
    if not isinstance(value, OpResult):
        return False
    producer = value.op
    if isinstance(producer, MapOp) and producer.is_movement:
        return not is_overwritten(producer.ins[0]) and absorb_movement(reader, index, producer)
    if not isinstance(reader, MapOp | ReduceOp) or reader.pads.data[index] != NO_PAD:
        return False
    if isinstance(producer, FillOp):
        drop_read(reader, index, producer.value)
        return True
    if (
        isinstance(producer, MapOp)
        and _can_inline(producer, reader)
        and _is_read_in_order(producer, reader, index)
    ):
        return inline_map(_copy_for(reader, index, producer), reader, index)
    return False


def _can_inline(producer: MapOp, reader: MapOp | ReduceOp) -> bool:
    if len(producer.outs) != 1:
        return False
    if not producer.res[0].has_one_use() and not _is_read_in_parts(producer):
        return False
    if prod(reader.extents) > prod(producer.extents):
        return False
    # What the producer reads must still be there when the reader runs.
    return not any(is_overwritten(value) for value in producer.ins)


def _is_read_in_parts(producer: MapOp) -> bool:
    """Whether several can each evaluate what they read of a map, because together that is no more than all of it."""
    reads = structured_reads(producer.res[0])
    return (
        reads is not None
        and all(isinstance(op, MapOp | ReduceOp) and op.pads.data[index] == NO_PAD for op, index in reads)
        and sum(prod(op.extents) for op, _ in reads) <= prod(producer.extents)
        and writes_anew(producer)
        and not any(isinstance(inner, tensor.ExtractOp) for inner in producer.body.ops)
    )


def writes_anew(op: MapOp) -> bool:
    """Whether a map of one result says of each element how it is computed, whatever is in its destination."""
    written = op.out_accesses[0]
    return (
        written.inverse() is not None
        and written.covers(shape_of(op.res[0]), op.extents)
        and op.body.args[-1].first_use is None
    )


def _copy_for(reader: StructuredOp, index: int, producer: MapOp) -> MapOp:
    """A map that `reader` alone reads at position `index`: the producer, or a copy of it."""
    if producer.res[0].has_one_use():
        return producer
    copy = producer.clone()
    assert reader.parent is not None
    reader.parent.insert_op_before(copy, reader)
    reader.operands[index] = copy.res[0]
    return copy


def keeps_rows(op: Operation, index: int, access: Access) -> bool:
    """Whether loads of `op` at computed indices still walk whole rows if its operand `index`, an out, has this access.

    They are fast only while the dimension that is innermost in memory stays so: a transpose of their result is a
    movement of its own.
    """
    if not isinstance(op, MapOp) or index < len(op.ins):
        return True
    if not any(isinstance(inner, tensor.ExtractOp) for inner in op.body.ops):
        return True
    return _innermost(access, op.extents) == _innermost(op.access_of(index), op.extents)


def _is_read_in_order(producer: MapOp, reader: MapOp | ReduceOp, index: int) -> bool:
    """Whether the reader, evaluating the producer itself, lets its loads walk the rows that they walk now."""
    read = read_of(reader, index).access
    point = producer.out_accesses[0].inverse()
    if point is None:
        return True
    innermost = _innermost(reader.out_accesses[0], reader.extents)
    row = None if innermost is None else point.compose(read).rows
    moved = {d for d, r in enumerate(row or ()) if innermost in r.dims and producer.extents[d] > 1}
    return keeps_rows(producer, len(producer.ins), Access.of_dims(sorted(moved), len(producer.extents)))


def _innermost(access: Access, extents: tuple[int, ...]) -> int | None:
    """The dimension that the last axis of more than one position moves along."""
    for row in reversed(access.rows):
        for d in row.dims:
            if extents[d] > 1:
                return d
    return None


def inline_map(producer: MapOp, reader: MapOp | ReduceOp, index: int) -> bool:
    """Let `reader` evaluate a map of one result, which it alone reads, at position `index` of its `ins`.

    Returns whether that could be done: the map must write all of its result.
    """
    written = producer.out_accesses[0]
    point = written.inverse()
    if point is None or not written.covers(shape_of(producer.res[0]), producer.extents):
        return False
    reads = reads_of(reader)
    point = point.compose(reads[index].access)
    new_reads = [Read(read.value, read.access.compose(point), read.pad) for read in reads_of(producer)]
    arguments = producer.body.args
    if arguments[-1].first_use is not None:
        new_reads.append(Read(producer.outs[0], written.compose(point)))
    else:
        arguments = arguments[:-1]

    body = reader.body
    replaced = body.args[index]
    for offset, argument in enumerate(arguments):
        inserted = body.insert_arg(argument.type, index + offset, argument.location)
        set_name(inserted, argument.name_hint)
        argument.replace_all_uses_with(inserted)
    result = _move_body(producer.body, body, point)
    replaced.replace_all_uses_with(result)
    body.erase_arg(replaced)
    set_reads(reader, [*reads[:index], *new_reads, *reads[index + 1 :]])
    reader.location = fuse_locations([producer.location, reader.location])
    # The moved operations are gone from it, so the producer has no body any more.
    block = producer.parent
    assert block is not None
    block.erase_op(producer)
    return True


def _move_body(source: Block, target: Block, point: Access) -> SSAValue:
    """Move the operations of a body to the front of another; returns what `source` yielded.

    `point` gives the iteration point of `source` in the dimensions of `target`.
    """
    terminator = source.last_op
    assert isinstance(terminator, YieldOp)
    first = target.first_op
    assert first is not None
    for op in list(source.ops):
        if op is terminator:
            continue
        op.detach()
        if isinstance(op, IndexOp):
            value = _insert_linear(point.rows[op.dim.value.data], first)
            op.result.replace_all_uses_with(value)
            op.erase()
        else:
            target.insert_op_before(op, first)
    return terminator.values[0]


def _insert_linear(row: LinearExpr, before: Operation) -> SSAValue:
    """Insert the computation of a linear expression in the dimensions of the enclosing structured op."""
    block = before.parent
    assert block is not None

    def insert(op: Operation) -> SSAValue:
        op.location = before.location
        block.insert_op_before(op, before)
        return op.results[0]

    def constant(value: int) -> SSAValue:
        return insert(arith.ConstantOp(IntegerAttr(value, IndexType())))

    total: SSAValue | None = None
    for d in row.dims:
        term = insert(IndexOp(d))
        if row.coefficients[d] != 1:
            term = insert(arith.MuliOp(term, constant(row.coefficients[d])))
        total = term if total is None else insert(arith.AddiOp(total, term))
    if total is None:
        return constant(row.constant)
    return insert(arith.AddiOp(total, constant(row.constant))) if row.constant else total
