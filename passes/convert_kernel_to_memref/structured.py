"""Structured ops on tensors become `linalg` ops on memrefs.

Slices, offsets and strides of whole dimensions become `memref.subview`s, so that what stays in an indexing map is a
dimension, a constant 0 (broadcast), a mirrored dimension (`-d0 + 7`) or a sum of dimensions (a window). A padded read
becomes a guarded `memref.load` in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects import arith, memref, scf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from mlopt.dialects import kernel
from mlopt.dialects.kernel import Access, LinearExpr
from mlopt.passes.convert_kernel_to_memref.emitter import Emitter, type_of
from mlopt.passes.convert_kernel_to_memref.placement import reads_same_elements

ShapeOperand = Callable[[Sequence[int], Attribute], SSAValue]
"""Gives an uninitialised buffer of a shape and element type that only states the extents of window dimensions."""


def emit_fill(emitter: Emitter, value: SSAValue, buffer: SSAValue) -> None:
    """`linalg.fill`; nothing for a buffer without elements."""
    if 0 not in type_of(buffer).get_shape():
        emitter.add(FillOp([value], [buffer], res=()))


class _Operand(NamedTuple):
    """An operand of the generic op: a buffer, how it is indexed, the elements' argument of the kernel op's body."""

    buffer: SSAValue
    access: Access
    argument: int | None


def emit_structured(
    emitter: Emitter,
    op: kernel.StructuredOp,
    ins: Sequence[SSAValue],
    outs: Sequence[SSAValue],
    values: dict[SSAValue, SSAValue],
    in_place: Sequence[bool],
    shape_operand: ShapeOperand,
) -> None:
    """Emit `op` on the buffers of its operands; nothing if its iteration space is empty.

    `values` maps what the body captures to the function's values, and gets those of the body; `in_place` says for
    each out whether it overwrites its operand's own buffer.
    """
    if 0 in op.extents:
        return
    inputs: list[_Operand] = []
    same_as_out: dict[int, int] = {}
    guarded: list[int] = []
    for i, (buffer, access) in enumerate(zip(ins, op.in_accesses, strict=True)):
        out = next(
            (o for o in range(len(outs)) if in_place[o] and reads_same_elements(op, i, len(ins) + o)), None
        )
        if out is not None:
            same_as_out[i] = len(ins) + out
        elif op.pad_of(i) is not None and _leaves_bounds(op, i):
            guarded.append(i)
        else:
            inputs.append(_Operand(*_narrow(emitter, buffer, access, op.extents), i))
    outputs = [
        _Operand(*_narrow(emitter, buffer, access, op.extents), len(ins) + o)
        for o, (buffer, access) in enumerate(zip(outs, op.out_accesses, strict=True))
    ]
    inputs += _window_operands(op, [*inputs, *outputs], shape_operand)

    block = Block(arg_types=[type_of(operand.buffer).element_type for operand in (*inputs, *outputs)])
    elements: dict[int, SSAValue] = {}
    for argument, operand in zip(block.args, (*inputs, *outputs), strict=True):
        if operand.argument is not None:
            elements[operand.argument] = argument
            if op.HAS_BODY:
                argument.name_hint = op.body.args[operand.argument].name_hint
    elements |= {i: elements[o] for i, o in same_as_out.items()}
    with emitter.at_end_of(block):
        for i in guarded:
            elements[i] = _guarded_load(emitter, op, i, ins[i])
        if op.HAS_BODY:
            _emit_body(emitter, op, elements, values)
        else:
            _emit_product(emitter, op, elements)
    reductions = op.reduction_dims
    emitter.add(
        GenericOp(
            [operand.buffer for operand in inputs],
            [operand.buffer for operand in outputs],
            Region(block),
            [AffineMapAttr(operand.access.to_map()) for operand in (*inputs, *outputs)],
            [
                IteratorTypeAttr.reduction() if dim in reductions else IteratorTypeAttr.parallel()
                for dim in range(len(op.extents))
            ],
        )
    )


def _narrow(
    emitter: Emitter, buffer: SSAValue, access: Access, extents: Sequence[int]
) -> tuple[SSAValue, Access]:
    """The part of the buffer that is accessed, and the access of that part."""
    shape = type_of(buffer).get_shape()
    if 0 in shape:
        return buffer, access
    offsets: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    rows: list[LinearExpr] = []
    for extent, row in zip(shape, access.rows, strict=True):
        low, high = row.range(extents)
        dim, stride = row.single_dim, 1
        if len(row.dims) > 1:
            # A window may leave elements at the end unread; only what lies before it is cut off.
            high = high if low else extent - 1
            row = LinearExpr(row.coefficients, row.constant - low)
        elif dim is None:
            row = LinearExpr(row.coefficients)
        elif extents[dim] == 1:
            row = LinearExpr.dim(dim, access.num_dims)
        else:
            stride = abs(row.coefficients[dim])
            mirrored = row.coefficients[dim] < 0
            row = LinearExpr.dim(
                dim, access.num_dims, scale=-1 if mirrored else 1, offset=extents[dim] - 1 if mirrored else 0
            )
        offsets.append(low)
        sizes.append((high - low) // stride + 1)
        strides.append(stride)
        rows.append(row)
    return emitter.slice(buffer, offsets, sizes, strides), Access(access.num_dims, tuple(rows))


def _window_operands(
    op: kernel.StructuredOp, operands: Sequence[_Operand], shape_operand: ShapeOperand
) -> list[_Operand]:
    """An operand that states the extents of the dimensions which no other operand has as an axis of its own."""
    bounded = {row.dims[0] for operand in operands for row in operand.access.rows if _is_plain(row)}
    dims = [dim for dim in range(len(op.extents)) if dim not in bounded]
    if not dims:
        return []
    buffer = shape_operand([op.extents[dim] for dim in dims], type_of(operands[-1].buffer).element_type)
    return [_Operand(buffer, Access.of_dims(dims, len(op.extents)), None)]


def _is_plain(row: LinearExpr) -> bool:
    return row.single_dim is not None and row.is_dim(row.single_dim)


def _leaves_bounds(op: kernel.StructuredOp, position: int) -> bool:
    shape = kernel.tensor_type(op.ins[position]).get_shape()
    ranges = op.in_accesses[position].extent(op.extents)
    return any(low < 0 or high >= size for size, (low, high) in zip(shape, ranges, strict=True))


def _guarded_load(emitter: Emitter, op: kernel.StructuredOp, position: int, buffer: SSAValue) -> SSAValue:
    """The element at the access of a padded input, or the pad value where that is out of bounds."""
    shape = type_of(buffer).get_shape()
    access = op.in_accesses[position]
    pad = op.pad_of(position)
    assert pad is not None
    indices: list[SSAValue] = []
    inside: SSAValue | None = None
    for size, row, (low, high) in zip(shape, access.rows, access.extent(op.extents), strict=True):
        index = _index_value(emitter, row)
        indices.append(index)
        if low < 0 or high >= size:
            check = emitter.add(arith.CmpiOp(index, emitter.index(size), "ult")).result
            inside = check if inside is None else emitter.add(arith.AndIOp(inside, check)).result
    assert inside is not None
    element = type_of(buffer).element_type
    load, otherwise = Block(), Block()
    with emitter.at_end_of(load):
        loaded = emitter.add(memref.LoadOp.get(buffer, indices))
        emitter.add(scf.YieldOp(loaded.res))
    with emitter.at_end_of(otherwise):
        value = emitter.add(arith.ConstantOp.create(result_types=[element], properties={"value": pad}))
        emitter.add(scf.YieldOp(value.results[0]))
    return emitter.add(scf.IfOp(inside, [element], Region(load), Region(otherwise))).output[0]


def _index_value(emitter: Emitter, row: LinearExpr) -> SSAValue:
    """The value of a linear expression at the current iteration point."""
    total: SSAValue | None = None
    for dim, coefficient in enumerate(row.coefficients):
        if coefficient:
            term: SSAValue = emitter.add(IndexOp(dim)).result
            if coefficient != 1:
                term = emitter.add(arith.MuliOp(term, emitter.index(coefficient))).result
            total = term if total is None else emitter.add(arith.AddiOp(total, term)).result
    if total is None:
        return emitter.index(row.constant)
    if row.constant:
        total = emitter.add(arith.AddiOp(total, emitter.index(row.constant))).result
    return total


def _emit_product(emitter: Emitter, op: kernel.StructuredOp, elements: dict[int, SSAValue]) -> None:
    """`acc + a * b`, computed in the element type of the out."""
    lhs, rhs, acc = elements[0], elements[1], elements[2]
    if isinstance(acc.type, AnyFloat):
        lhs, rhs = (_extended(emitter, value, acc.type) for value in (lhs, rhs))
        product = emitter.add(arith.MulfOp(lhs, rhs)).result
        total = emitter.add(arith.AddfOp(acc, product)).result
    else:
        lhs, rhs = (_extended(emitter, value, acc.type) for value in (lhs, rhs))
        product = emitter.add(arith.MuliOp(lhs, rhs)).result
        total = emitter.add(arith.AddiOp(acc, product)).result
    emitter.add(YieldOp(total))


def _extended(emitter: Emitter, value: SSAValue, type: Attribute) -> SSAValue:
    """A number in a wider type, integers as signed ones."""
    if value.type == type:
        return value
    extension = arith.ExtFOp
    if not isinstance(value.type, AnyFloat):
        extension = arith.SIToFPOp if isinstance(type, AnyFloat) else arith.ExtSIOp
    return emitter.add(extension.create(operands=[value], result_types=[type])).results[0]


def _emit_body(
    emitter: Emitter,
    op: kernel.StructuredOp,
    elements: dict[int, SSAValue],
    mapping: dict[SSAValue, SSAValue],
) -> None:
    """The scalar body, with loads from tensors as loads from their buffers; its values are added to `mapping`."""
    mapping.update((argument, elements[i]) for i, argument in enumerate(op.body.args))
    for inner in op.body.ops:
        emitter.location = inner.location
        if isinstance(inner, kernel.YieldOp):
            emitter.add(YieldOp(*(mapping.get(value, value) for value in inner.values)))
            continue
        replacement = _memref_form(inner, mapping)
        if replacement is None:
            replacement = inner.clone(mapping)
            _replace_nested(replacement)
        emitter.add(replacement)
        for old, new in zip(inner.results, replacement.results, strict=True):
            mapping[old] = new
            new.name_hint = old.name_hint
    emitter.location = op.location


def _memref_form(op: Operation, mapping: Mapping[SSAValue, SSAValue]) -> Operation | None:
    """The op that stands at the memref level for one that only the kernel level has; None for others."""
    match op:
        case kernel.IndexOp():
            return IndexOp(op.dim.value.data)
        case tensor.ExtractOp():
            indices = [mapping.get(index, index) for index in op.indices]
            return memref.LoadOp.get(mapping.get(op.tensor, op.tensor), indices)
        case _:
            return None


def _replace_nested(op: Operation) -> None:
    """Replace, inside the regions of a cloned op, what only the kernel level has."""
    for nested in list(op.walk()):
        replacement = None if nested is op else _memref_form(nested, {})
        if replacement is not None:
            replacement.location = nested.location
            Rewriter.replace_op(nested, replacement)
