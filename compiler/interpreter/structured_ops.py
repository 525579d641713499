"""What the structured kernel ops mean: brute force over the iteration space, straight from the definition.

The iteration space is cut into boxes of bounded size. In each box every operand is gathered through its
access (with its pad value where the index is out of bounds) into an array with one axis per dimension, of
extent 1 where the operand does not depend on the dimension; the body is evaluated on these arrays, and the
results are written or folded into the outs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from string import ascii_letters
from typing import NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.ir import Block, Operation, SSAValue

from mlopt.diagnostics import RunError
from mlopt.dialects.kernel import Access, ContractOp, IndexOp, LinearExpr, ReduceOp, StructuredOp, YieldOp
from mlopt.interpreter.scalar_ops import Array, constant, evaluate_scalar_op
from mlopt.ir.locations import place_of_op

POINTS_PER_BOX = 1 << 18
"""How many points of an iteration space are evaluated at once, which bounds the memory of an evaluation."""

POINTS_PER_CONTRACTION = 1 << 22
"""The same for contractions, which need memory for their operands only, not for every product."""

Values: TypeAlias = Mapping[SSAValue, Array]


class Box(NamedTuple):
    """The points `starts[d] <= i_d < starts[d] + extents[d]` of an iteration space."""

    starts: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def points(self) -> int:
        """How many points it has."""
        return prod(self.extents)

    def positions(self, dim: int) -> Array:
        """The positions along one dimension, as an array with one axis per dimension."""
        shape = [1] * len(self.extents)
        shape[dim] = self.extents[dim]
        return np.arange(self.starts[dim], self.starts[dim] + self.extents[dim], dtype=np.int64).reshape(
            shape
        )

    def halves(self) -> tuple[Box, Box]:
        """The box cut in two along its longest dimension."""
        dim = max(range(len(self.extents)), key=self.extents.__getitem__)
        half = self.extents[dim] // 2
        first = (*self.extents[:dim], half, *self.extents[dim + 1 :])
        second = (*self.extents[:dim], self.extents[dim] - half, *self.extents[dim + 1 :])
        start = (*self.starts[:dim], self.starts[dim] + half, *self.starts[dim + 1 :])
        return Box(self.starts, first), Box(start, second)


def boxes(extents: Sequence[int], limit: int = POINTS_PER_BOX) -> Iterator[Box]:
    """Boxes of at most `limit` points that cover an iteration space, in order; none if it is empty."""
    pending = [Box((0,) * len(extents), tuple(extents))] if 0 not in extents else []
    while pending:
        box = pending.pop()
        if box.points <= limit:
            yield box
        else:
            pending.extend(reversed(box.halves()))


def evaluate_structured(op: StructuredOp, values: Values) -> list[Array]:
    """The results of a map, reduce or contract; `values` holds its operands and what its body captures."""
    outs = [values[out].copy() for out in op.outs]
    limit = POINTS_PER_CONTRACTION if isinstance(op, ContractOp) else POINTS_PER_BOX
    for box in boxes(op.extents, limit):
        writes = [_index(access, box) for access in op.out_accesses]
        olds = [np.asarray(out[index]) for out, index in zip(outs, writes, strict=True)]
        if isinstance(op, ContractOp):
            new = [_contract(op, box, values, olds[0])]
        elif isinstance(op, ReduceOp):
            new = _fold(op, box, values, olds)
        else:
            new = _evaluate_body(op.body, box, [*_gather_ins(op, box, values), *olds], values)
        for out, index, result in zip(outs, writes, new, strict=True):
            out[index] = result if index else result.reshape(())
    return outs


# Reading and writing


def _row(row: LinearExpr, box: Box) -> Array:
    """The value of a linear expression at every point of a box."""
    value = np.full((1,) * len(box.extents), row.constant, np.int64)
    for dim in row.dims:
        value = value + row.coefficients[dim] * box.positions(dim)
    return value


def _index(access: Access, box: Box) -> tuple[Array, ...]:
    """The numpy index of the elements that an access reads or writes in a box."""
    return tuple(_row(row, box) for row in access.rows)


def _gather(array: Array, access: Access, box: Box, pad: Array | None) -> Array:
    """The element that each point of a box reads, `pad` where the index is out of bounds."""
    index = _index(access, box)
    if not index:
        return array.reshape((1,) * len(box.extents))
    if pad is None:
        return array[index]
    inside = np.ones((1,) * len(box.extents), np.bool_)
    for rows, size in zip(index, array.shape, strict=True):
        inside = inside & (rows >= 0) & (rows < size)
    if not inside.any():
        return np.full(inside.shape, pad)
    clipped = tuple(np.clip(rows, 0, size - 1) for rows, size in zip(index, array.shape, strict=True))
    return np.where(inside, array[clipped], pad)


def _gather_ins(op: StructuredOp, box: Box, values: Values) -> list[Array]:
    gathered: list[Array] = []
    for i, (value, access) in enumerate(zip(op.ins, op.in_accesses, strict=True)):
        array, pad = values[value], op.pad_of(i)
        gathered.append(_gather(array, access, box, None if pad is None else constant(pad, array.dtype)))
    return gathered


# Bodies


def _evaluate_body(body: Block, box: Box, arguments: Sequence[Array], captured: Values) -> list[Array]:
    """What a body yields for arrays of arguments."""
    terminator = body.last_op
    assert isinstance(terminator, YieldOp)
    inside: dict[SSAValue, Array] = dict(zip(body.args, arguments, strict=True))
    _evaluate_ops([op for op in body.ops if op is not terminator], box, inside, captured)
    return [_lookup(value, inside, captured) for value in terminator.values]


def _evaluate_ops(
    ops: Sequence[Operation], box: Box, inside: dict[SSAValue, Array], captured: Values
) -> None:
    """Evaluate ops of a body in order and add their results to `inside`."""
    for op in ops:
        operands = [_lookup(value, inside, captured) for value in op.operands]
        match op:
            case IndexOp():
                inside[op.result] = box.positions(op.dim.value.data)
            case tensor.ExtractOp():
                inside[op.result] = load(op, operands[0], operands[1:])
            case _:
                inside[op.results[0]] = evaluate_scalar_op(op, operands)


def _lookup(value: SSAValue, inside: Values, captured: Values) -> Array:
    return inside[value] if value in inside else captured[value]


def load(op: tensor.ExtractOp, array: Array, indices: Sequence[Array]) -> Array:
    """A load at computed indices; `RunError` if one is out of bounds."""
    for axis, (index, size) in enumerate(zip(indices, array.shape, strict=True)):
        outside = (index < 0) | (index >= size)
        if outside.any():
            raise RunError(
                f"index {index[outside].flat[0]} is out of bounds for axis {axis} of size {size}",
                place=place_of_op(op),
            )
    return array[tuple(indices)]


# Reductions


def _contract(op: ContractOp, box: Box, values: Values, old: Array) -> Array:
    """`old + sum(a * b)` in the type of the out (in f32 for narrower floats, rounded once)."""
    wide = np.dtype(np.float32) if old.dtype.kind in "fV" and old.dtype.itemsize < 4 else old.dtype
    dims = [sorted(access.dims) for access in op.in_accesses]
    a, b = (
        array.astype(wide).reshape([box.extents[d] for d in own])
        for array, own in zip(_gather_ins(op, box, values), dims, strict=True)
    )
    kept = sorted(op.out_accesses[0].dims & {*dims[0], *dims[1]})
    labels = ["".join(ascii_letters[d] for d in some) for some in (*dims, kept)]
    total: Array = np.asarray(np.einsum("{},{}->{}".format(*labels), a, b, optimize=True))
    total = total.reshape([box.extents[d] if d in kept else 1 for d in range(len(box.extents))])
    repeats = prod(box.extents[d] for d in op.reduction_dims if d not in dims[0] and d not in dims[1])
    return (old.astype(wide) + total * np.asarray(repeats, wide)).astype(old.dtype)


_ASSOCIATIVE = (
    *(arith.AddfOp, arith.MulfOp, arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp),
    *(arith.AddiOp, arith.MuliOp, arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp),
    *(arith.AndIOp, arith.OrIOp, arith.XOrIOp),
)


def _fold(op: ReduceOp, box: Box, values: Values, olds: Sequence[Array]) -> list[Array]:
    """The values of the outs after the points of a box are folded into them."""
    ins = _gather_ins(op, box, values)
    terms = _terms(op, box, ins, values)
    if terms is None:
        return _fold_in_order(op, box, ins, olds, values)
    return [_combine(combiner, old, term, box, op) for (combiner, term), old in zip(terms, olds, strict=True)]


def _terms(
    op: ReduceOp, box: Box, ins: Sequence[Array], captured: Values
) -> list[tuple[Operation, Array]] | None:
    """For a body `out = out ⊕ f(ins)` with an associative ⊕ per out: ⊕ and the values of `f`; else None."""
    body, terminator = op.body, op.body.last_op
    assert isinstance(terminator, YieldOp)
    states = body.args[len(op.ins) :]
    pairs: list[tuple[Operation, SSAValue]] = []
    for value, state in zip(terminator.values, states, strict=True):
        combiner = value.owner
        if (
            not isinstance(combiner, _ASSOCIATIVE)
            or state not in combiner.operands
            or state.uses.get_length() != 1
        ):
            return None
        (term,) = (operand for operand in combiner.operands if operand is not state)
        pairs.append((combiner, term))
    combiners = [combiner for combiner, _ in pairs]
    if any(use.operation is not terminator for combiner in combiners for use in combiner.results[0].uses):
        return None
    inside: dict[SSAValue, Array] = dict(zip(body.args, ins, strict=False))
    _evaluate_ops(
        [inner for inner in body.ops if inner not in (*combiners, terminator)], box, inside, captured
    )
    return [(combiner, _lookup(term, inside, captured)) for combiner, term in pairs]


def _combine(combiner: Operation, old: Array, term: Array, box: Box, op: ReduceOp) -> Array:
    """`old ⊕ term_1 ⊕ term_2 ...` over the reduction dimensions, by halves, as numpy's pairwise sum."""
    reduced = op.reduction_dims
    parallel = [d for d in range(len(box.extents)) if d not in reduced]
    terms = np.broadcast_to(term, box.extents).transpose(*parallel, *reduced)
    terms = terms.reshape([*(box.extents[d] for d in parallel), -1])
    while (count := terms.shape[-1]) > 1:
        half = count // 2
        pairs = evaluate_scalar_op(combiner, [terms[..., :half], terms[..., half : 2 * half]])
        terms = np.concatenate([pairs, terms[..., 2 * half :]], axis=-1)
    total = terms.reshape([box.extents[d] if d in parallel else 1 for d in range(len(box.extents))])
    return evaluate_scalar_op(combiner, [old, total])


def _fold_in_order(
    op: ReduceOp, box: Box, ins: Sequence[Array], olds: Sequence[Array], captured: Values
) -> list[Array]:
    """Evaluate the whole body once per reduction point, in row-major order."""
    state = list(olds)
    reduced = op.reduction_dims
    for point in np.ndindex(*(box.extents[d] for d in reduced)):
        offset = dict(zip(reduced, point, strict=True))
        starts = tuple(start + offset.get(d, 0) for d, start in enumerate(box.starts))
        extents = tuple(1 if d in offset else extent for d, extent in enumerate(box.extents))
        at_point = [_at(array, offset) for array in ins]
        state = _evaluate_body(op.body, Box(starts, extents), [*at_point, *state], captured)
    return state


def _at(array: Array, offset: Mapping[int, int]) -> Array:
    """The elements at one position of some dimensions, which keep extent 1."""
    index = [slice(None)] * array.ndim
    for dim, position in offset.items():
        if array.shape[dim] > 1:
            index[dim] = slice(position, position + 1)
    return array[tuple(index)]
