"""How much scratch the engine may take for a launch at its least, from the launch's operations and extents alone.

An upper bound, for when it takes too long to lower a launch and measure. It follows what the engine does with little
memory: maps and reductions in the smallest tiles, with a temporary for each value that is live; products in the
smallest blocks, for which the factors are packed that BLAS does not take as they lie.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.dialects.kernel import ContractOp, FillOp, LaunchOp, MapOp, StructuredOp, tensor_type
from mlopt.interpreter.elementwise import MINIMUM_TEMPORARIES, MINIMUM_TILE
from mlopt.interpreter.scratch import ALIGNMENT, aligned
from mlopt.interpreter.ways import PREFERRED_CUT, SMALLEST_BLOCK_BYTES
from mlopt.ir.dtypes import to_numpy_dtype

_STEPS = 5
"""Temporaries, of 8 bytes each, that a scalar operation may take where it is several steps."""

_ONE_STEP = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.DivfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.NegfOp,
    arith.CmpfOp,
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
)


def scratch_bound(launch: LaunchOp) -> int:
    """The bytes of scratch that the engine takes for a launch at its least, or more; its own tensors do not count."""
    structured = (op for op in launch.body.walk() if isinstance(op, StructuredOp))
    needs = (_of_product(op) if isinstance(op, ContractOp) else _of_body(op) for op in structured)
    return aligned(max(needs, default=0))


# Maps and reductions


def _of_body(op: StructuredOp) -> int:
    """The temporaries of the smallest tile of a map or a reduction."""
    if isinstance(op, MapOp) and op.is_movement and op.pad_of(0) is None:
        return 0
    width, number = _live(op)
    padded = [value for i, value in enumerate(op.ins) if op.pad_of(i) is not None]
    loads = [inner for inner in op.body.walk() if isinstance(inner, ExtractOp)]
    whole = [prod(tensor_type(load.tensor).get_shape()[1:]) for load in loads]  # a row is not cut
    return _of_tile(op, width + sum(map(_itemsize, padded)), number + len(padded), max(whole, default=0))


def _of_tile(op: StructuredOp, width: int, number: int, row: int = 0) -> int:
    """The bytes of so many temporaries of the smallest tile, of `width` bytes a point together."""
    points, smallest = prod(op.extents), max(MINIMUM_TILE // 4, row)
    nbytes = min(max(MINIMUM_TEMPORARIES, width * smallest), width * points) + ALIGNMENT * number
    if op.reduction_dims:
        kept = points // max(1, prod(op.extents[d] for d in op.reduction_dims))
        held = 1 if _overwrites(op) else min(kept, MINIMUM_TILE)
        nbytes += sum(_itemsize(value) * held + ALIGNMENT for value in op.outs)
    return nbytes


def _live(op: StructuredOp) -> tuple[int, int]:
    """The bytes a point of all that is live at once while the body is evaluated, and of how many values that is."""
    order = list(_evaluated(op.body))
    last = {value: position for position, inner in enumerate(order) for value in _used(inner)}
    live: set[SSAValue] = set()
    most = number = 0
    for position, inner in enumerate(order):
        live |= {result for result in inner.results if not isinstance(inner, arith.ConstantOp)}
        taken = sum(map(_scalar_size, live))
        count = len(live)
        if not isinstance(inner, (*_ONE_STEP, arith.ConstantOp)) and inner.results:
            taken, count = taken + 8 * _STEPS, count + _STEPS
        most, number = max(most, taken), max(number, count)
        live = {value for value in live if last.get(value, -1) > position}
    return most, number


def _evaluated(body: Block) -> Iterator[Operation]:
    """The operations of a body, each right before what first uses it, and the terminator."""
    assert body.last_op is not None
    pending: list[tuple[Operation, bool]] = [(body.last_op, False)]
    seen: set[Operation] = set()
    while pending:
        op, is_ready = pending.pop()
        if is_ready:
            yield op
        elif op not in seen:
            seen.add(op)
            pending.append((op, True))
            makers = [v.owner for v in _used(op) if isinstance(v.owner, Operation) and v.owner.parent is body]
            pending += [(maker, False) for maker in reversed(makers)]


def _used(op: Operation) -> list[SSAValue]:
    """The operands of an operation and of what stands in it."""
    return [value for inner in op.walk() for value in inner.operands]


# Products


def _of_product(op: ContractOp) -> int:
    """The smallest block of what BLAS does not take as it lies: factors, and the product."""
    extents = op.extents
    sums = [d for d in op.reduction_dims if extents[d] > 1]
    if not sums or op.ins[0] is op.ins[1]:  # as a map, or as a sum of squares
        return _of_tile(op, 2 * max(8, _itemsize(op.outs[0])), 2)
    *factors, out = (_strides(op, position) for position in range(3))
    outer = [sorted(out.keys() - other.keys(), key=lambda d: -out[d]) for other in reversed(factors)]
    groups = [_innermost(dims, extents, out, strides) for dims, strides in zip(outer, factors, strict=True)]
    orders = [
        _as_one(sums, extents, strides) if _is_plain(op, position) else None
        for position, strides in enumerate(factors)
    ]
    agree = None in orders or orders[0] == orders[1]
    sides = [min(PREFERRED_CUT, extents[dims[-1]]) if dims else 1 for dims in outer]
    packed, converted = 0, False
    for position, (group, order, side) in enumerate(zip(groups, orders, sides, strict=True)):
        if order is None or not agree or not _is_matrix(factors[position], extents, group, order):
            packed += side * prod(extents[d] for d in sums)
            converted = converted or _element(op.ins[position]) != _element(op.outs[0])
    if not (_overwrites(op) and _is_float(op.outs[0]) and _is_matrix(out, extents, *groups)):
        packed += prod(sides)
    if not packed:
        return 0
    is_float = isinstance(_element(op.outs[0]), AnyFloat)
    width = max(_itemsize(op.outs[0]), 4 if is_float else 8)  # the types that BLAS sums in
    return (
        max(SMALLEST_BLOCK_BYTES, width * packed) + 3 * ALIGNMENT + (MINIMUM_TEMPORARIES if converted else 0)
    )


def _is_plain(op: ContractOp, position: int) -> bool:
    """Whether a factor is read without padding, as numbers of the type that BLAS sums."""
    factor = op.operands[position]
    return op.pad_of(position) is None and _is_float(factor) and _element(factor) == _element(op.outs[0])


def _overwrites(op: StructuredOp) -> bool:
    """Whether what the out holds is one number everywhere, which the op writes over."""
    fill = op.outs[0].owner
    written = prod(extent for d, extent in enumerate(op.extents) if d not in op.reduction_dims)
    size = prod(tensor_type(op.outs[0]).get_shape())
    return len(op.outs) == 1 and isinstance(fill, FillOp) and fill.parent is op.parent and written == size


def _strides(op: StructuredOp, position: int) -> dict[int, int]:
    """By dimension along which an operand varies: the elements between neighbours."""
    found: dict[int, int] = {}
    step = 1
    shape = tensor_type(op.operands[position]).get_shape()
    for row, extent in zip(reversed(op.access_of(position).rows), reversed(shape), strict=True):
        for d in row.dims:
            if op.extents[d] > 1:
                found[d] = found.get(d, 0) + step * row.coefficients[d]
        step *= extent
    return found


def _innermost(dims: Sequence[int], extents: Sequence[int], *strides: Mapping[int, int]) -> tuple[int, ...]:
    """The last of some dimensions, outermost first, that can be walked as one in all operands."""
    group: list[int] = []
    for d in reversed(dims):
        inner = group[0] if group else d
        if group and any(by_dim.get(d, 0) != by_dim.get(inner, 0) * extents[inner] for by_dim in strides):
            break
        group.insert(0, d)
    return tuple(group)


def _as_one(
    dims: Collection[int], extents: Sequence[int], strides: Mapping[int, int]
) -> tuple[int, ...] | None:
    """The dimensions in the order in which they can be walked as one; None if there is none."""
    if not strides.keys() >= set(dims):
        return None
    order = tuple(sorted(dims, key=lambda d: -strides[d]))
    return order if _innermost(order, extents, strides) == order else None


def _is_matrix(
    strides: Mapping[int, int], extents: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> bool:
    """Whether one of two groups of dimensions has neighbours in memory, and the other steps over all of it."""
    if not rows or not columns:
        return True
    (m, row), (n, column) = (
        (prod(extents[d] for d in dims), strides.get(dims[-1], 0)) for dims in (rows, columns)
    )
    return (column == 1 and row >= n) or (row == 1 and column >= m)


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


def _is_float(value: SSAValue) -> bool:
    return isinstance(_element(value), Float32Type | Float64Type)


def _itemsize(value: SSAValue) -> int:
    return to_numpy_dtype(_element(value)).itemsize


def _scalar_size(value: SSAValue) -> int:
    return to_numpy_dtype(value.type).itemsize
