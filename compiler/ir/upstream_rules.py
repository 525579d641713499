"""Rules of upstream operations that MLIR verifies and xDSL does not.

Without them, text that `mlir-opt` refuses would run: a view would have other strides than its type says, or a global
would be read with another type than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, memref, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, MemRefType, TensorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Attribute, Operation, Region
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

INDEX_RANGE = range(-(2**63), 2**63)
"""What an `index` can hold."""


def kept_axes(sizes: Sequence[int], reduced: Sequence[int]) -> list[int] | None:
    """The axes that stay when extents of 1 are left out of `sizes` to get `reduced`: of several ways the first.

    None if there is no way: an axis is missing that has another extent, or one of extent 1 has moved.
    """
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if len(kept) < len(reduced) and size == reduced[len(kept)]:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(reduced) else None


def verify_upstream_rules(op: Operation) -> None:
    """Raise `VerifyException` if an upstream operation breaks a rule that xDSL does not check."""
    rule = _RULES.get(type(op))
    if rule is not None:
        rule(op)


def _constant(op: Operation) -> None:
    value = cast(arith.ConstantOp, op).value
    if (
        isinstance(value, IntegerAttr)
        and isinstance(value.type, IndexType)
        and value.value.data not in INDEX_RANGE
    ):
        raise VerifyException(f"expected a number of 64 bits as an index, found {value.value.data}")


def _if(op: Operation) -> None:
    """Both regions yield the results; only without results may one be missing."""
    types = op.result_types
    for region in op.regions:
        found = _yielded(region)
        if found is None:
            if types:
                raise VerifyException("expected an else region, since there are results")
        elif tuple(found) != tuple(types):
            raise VerifyException(
                f"expected both regions to yield ({_listed(types)}), found a scf.yield of ({_listed(found)})"
            )


def _yielded(region: Region) -> Sequence[object] | None:
    """The types that the end of a region yields; None if it is empty."""
    block = region.blocks.last
    if block is None:
        return None
    return block.last_op.operand_types if block.last_op is not None else ()


def _index(op: Operation) -> None:
    """The dimension is one of the loops that stand around."""
    generic = op.parent_op()
    dim = cast(IndexOp, op).dim.value.data
    if isinstance(generic, GenericOp) and not 0 <= dim < len(generic.iterator_types):
        raise VerifyException(
            f"expected a dimension from 0 to {len(generic.iterator_types) - 1}, found {dim}"
        )


def _get_global(op: Operation) -> None:
    """The global exists and has the type that the operation gives it."""
    assert isinstance(op, memref.GetGlobalOp)
    table = op.parent_op()
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    if table is None:
        return
    found = SymbolTable.lookup_symbol(table, op.name_)
    if not isinstance(found, memref.GlobalOp):
        raise VerifyException(f"there is no memref.global {op.name_}")
    if found.type != op.memref.type:
        raise VerifyException(f"expected the type of {op.name_}, {found.type}, found {op.memref.type}")


def _extract_slice(op: Operation) -> None:
    """The result has the sizes that the operation gives, up to dimensions of size 1, and the source's elements."""
    assert isinstance(op, tensor.ExtractSliceOp)
    _expect_slice("result", op.result.type, op.source.type, op.static_sizes.get_values())


def _insert_slice(op: Operation) -> None:
    """The source has the sizes that the operation gives, up to dimensions of size 1, and the target's elements."""
    assert isinstance(op, tensor.InsertSliceOp)
    _expect_slice("source", op.source.type, op.dest.type, op.static_sizes.get_values())


def _expect_slice(what: str, of_part: Attribute, of_whole: Attribute, sizes: Sequence[int]) -> None:
    """Raise `VerifyException` unless a tensor is a part of that many elements of another, axes in their order."""
    part, whole = cast(TensorType[Attribute], of_part), cast(TensorType[Attribute], of_whole)
    if len(sizes) != whole.get_num_dims():
        raise VerifyException(f"expected {whole.get_num_dims()} sizes, found {len(sizes)}")
    if part.element_type != whole.element_type or kept_axes(sizes, part.get_shape()) is None:
        listed = _numbers([None if size == DYNAMIC_INDEX else size for size in sizes])
        raise VerifyException(
            f"expected a {what} of sizes {listed}, of which extents of 1 may be left out but not moved, "
            f"and of elements {whole.element_type}, found {part}"
        )


def _subview(op: Operation) -> None:
    """The result type has the sizes, strides and offset that the operation gives, up to dimensions of size 1."""
    assert isinstance(op, memref.SubviewOp)
    source = cast(MemRefType[Attribute], op.source.type)
    strides, offset = source.get_strides(), source.get_offset()
    if strides is None:
        return
    offsets, sizes, steps = (
        [None if entry == DYNAMIC_INDEX else entry for entry in static.get_values()]
        for static in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    if not len(offsets) == len(sizes) == len(steps) == len(strides):
        raise VerifyException(
            f"expected {len(strides)} offsets, sizes and strides, "
            f"found {len(offsets)}, {len(sizes)} and {len(steps)}"
        )
    for start, stride in zip(offsets, strides, strict=True):
        offset = _sum(offset, _product(start, stride))
    view_strides = [_product(step, stride) for step, stride in zip(steps, strides, strict=True)]
    _expect_view(op.result.type, sizes, view_strides, offset)


def _reinterpret_cast(op: Operation) -> None:
    """The result type has the strides and the offset that the operation gives (xDSL checks the sizes)."""
    assert isinstance(op, memref.ReinterpretCastOp)
    offsets, sizes, strides = (
        [None if entry == DYNAMIC_INDEX else entry for entry in static.get_values()]
        for static in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    if len(offsets) != 1 or len(sizes) != len(strides):
        raise VerifyException(
            f"expected one offset and a stride for each of {len(sizes)} sizes, "
            f"found {len(offsets)} and {len(strides)}"
        )
    _expect_view(op.result.type, sizes, strides, offsets[0])


def _expect_view(
    type_: MemRefType[Attribute],
    sizes: Sequence[int | None],
    strides: Sequence[int | None],
    offset: int | None,
) -> None:
    """Raise `VerifyException` unless a type has that layout; dimensions of size 1 may be left out of it."""
    shape = [None if extent == DYNAMIC_INDEX else extent for extent in type_.get_shape()]
    found = type_.get_strides()
    if found is None:
        return
    wanted = list(zip(sizes, strides, strict=True))
    given = list(zip(shape, found, strict=True))
    if type_.get_offset() != offset or not _is_rank_reduced(wanted, given):
        raise VerifyException(
            f"expected a result of sizes {_numbers(sizes)}, strides {_numbers(strides)} "
            f"and offset {_number(offset)}, found {type_}"
        )


_Dims = Sequence[tuple[int | None, int | None]]
"""Size and stride of each dimension."""


def _is_rank_reduced(wanted: _Dims, given: _Dims) -> bool:
    """Whether `given` is `wanted` without some dimensions of size 1."""
    rest = iter(wanted)
    for dim in given:
        for candidate in rest:
            if candidate == dim:
                break
            if candidate[0] != 1:
                return False
        else:
            return False
    return all(size == 1 for size, _ in rest)


def _product(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left * right


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _numbers(values: Sequence[int | None]) -> str:
    return f"[{', '.join(map(_number, values))}]"


def _listed(types: Sequence[object]) -> str:
    return ", ".join(map(str, types))


_RULES: dict[type[Operation], Callable[[Operation], None]] = {
    arith.ConstantOp: _constant,
    IndexOp: _index,
    memref.GetGlobalOp: _get_global,
    memref.ReinterpretCastOp: _reinterpret_cast,
    memref.SubviewOp: _subview,
    scf.IfOp: _if,
    tensor.ExtractSliceOp: _extract_slice,
    tensor.InsertSliceOp: _insert_slice,
}
