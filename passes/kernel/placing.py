"""The surgery of placement: a launch computes its result in a part of a larger tensor.

Nothing is decided here (see `place_concats`). A tensor that is put together by several launches is a chain of
destinations: each takes the tensor as those before it left it, and writes its own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    FillOp,
    LaunchOp,
    MapOp,
    ReshapeOp,
    StructuredOp,
    YieldOp,
    tensor_type,
)
from mlopt.ir.effects import destinations
from mlopt.ir.upstream_rules import kept_axes
from mlopt.passes.kernel.align_layouts import can_transpose_out, transpose_out
from mlopt.passes.kernel.launches import drop_in, shape_of

Number: TypeAlias = IntegerAttr[IntegerType | IndexType] | FloatAttr[AnyFloat]
"""What a pad may fill with."""


class Slice(NamedTuple):
    """A part of a tensor: `offsets`, `sizes`, `strides` of all axes, as `tensor.extract_slice` has them."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def take(self, source: SSAValue, type: TensorType[Attribute]) -> tensor.ExtractSliceOp:
        """The op that takes this part of `source`, as a tensor of `type` (axes of extent 1 may be missing)."""
        return tensor.ExtractSliceOp(source, self.offsets, self.sizes, self.strides, type)

    def put(self, part: SSAValue, target: SSAValue) -> tensor.InsertSliceOp:
        """The op that puts `part` into `target`."""
        return tensor.InsertSliceOp.from_static_parameters(
            part, target, self.offsets, self.sizes, self.strides
        )


def slice_of_access(access: Access, part: Sequence[int]) -> Slice | None:
    """The slice that an access over the axes of a tensor of shape `part` is; None if it changes their order.

    Axes of extent 1 may be missing in `part`, but those that it has stand where the slice has them.
    """
    offsets: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    used: list[int] = []
    for row in access.rows:
        axis = row.single_dim
        if axis is None and row.dims:
            return None
        if axis is None or part[axis] == 1:
            offset, size, stride = row.constant, 1, 1
        else:
            offset, size, stride = row.constant, part[axis], row.coefficients[axis]
        if stride < 1:
            return None
        if axis is not None:
            used.append(axis)
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
    missing = [axis for axis, size in enumerate(part) if axis not in used and size != 1]
    moved = [axis for axis in used if part[axis] != 1]
    if missing or moved != sorted(moved) or kept_axes(sizes, part) is None:
        return None
    return Slice(tuple(offsets), tuple(sizes), tuple(strides))


class Turned(NamedTuple):
    """The order of `axes` in which a part is a slice of the whole, and `where` it is then."""

    axes: tuple[int, ...]
    where: Access


def turned_to_slice(access: Access, part: Sequence[int]) -> Turned | None:
    """How a tensor of shape `part` is to be turned round to be a slice at `access`; None if it can't be one.

    Its axes then stand in the order that they have in the whole.
    """
    axes = tuple(axis for row in access.rows for axis in row.dims)
    if sorted(axes) != list(range(len(part))):
        return None
    where = access.compose(Access.of_dims([axes.index(axis) for axis in range(len(axes))], len(axes)))
    return None if slice_of_access(where, [part[axis] for axis in axes]) is None else Turned(axes, where)


class Reshaped(NamedTuple):
    """Where `source`, whose reshape is a part, has its place: in the whole under `shape`, at `where`."""

    source: SSAValue
    shape: tuple[int, ...]
    where: Access


def place_of_reshaped(value: SSAValue, where: Access, whole: SSAValue) -> Reshaped | None:
    """The place of what `value`, at `where` in `whole`, is the reshape of; None if it is none, or has no place.

    It has one if the part is cut off along a single axis, and an axis of what is reshaped can be made longer for it:
    one that has as many elements before it, and of which whole steps lie before the part and behind it.
    """
    if not isinstance(value, OpResult) or not isinstance(value.op, ReshapeOp):
        return None
    source = value.op.source
    shape, part = tensor_type(whole).get_shape(), tensor_type(value).get_shape()
    cut = slice_of_access(where, part)
    if cut is None or any(stride != 1 for stride in cut.strides):
        return None
    cuts = [axis for axis, size in enumerate(cut.sizes) if size != shape[axis]]
    if len(cuts) != 1:
        return None
    axis = cuts[0]
    step = prod(shape[axis + 1 :])
    inside = tensor_type(source).get_shape()
    for longer in range(len(inside)):
        own_step = prod(inside[longer + 1 :])
        if (
            prod(inside[:longer]) == prod(shape[:axis])
            and cut.offsets[axis] * step % own_step == 0
            and shape[axis] * step % own_step == 0
        ):
            rows = list(Access.identity(len(inside)).rows)
            rows[longer] += cut.offsets[axis] * step // own_step
            extended = (*inside[:longer], shape[axis] * step // own_step, *inside[longer + 1 :])
            return Reshaped(source, extended, Access(len(inside), tuple(rows)))
    return None


def compute_in_part(
    launch: LaunchOp, position: int, whole: SSAValue, where: Access, border: Number | None = None
) -> None:
    """Let a launch take `whole` as its out `position`, and compute its result in a part of it.

    `where`: the place in `whole` of each element of the result (see `can_compute_in_part`). `border`: what all else is
    filled with first. The result of the launch becomes `whole` with the part in it; its uses are the caller's business.
    """
    shape = shape_of(launch.out_args[position])
    maps = _chain_of_maps(launch, position, where) if border is None else None
    if maps is None and slice_of_access(where, shape) is None:
        turned = turned_to_slice(where, shape)
        assert turned is not None
        transpose_out(launch, position, turned.axes)
        where = turned.where
    old = launch.out_args[position]
    type = tensor_type(old)
    launch.operands[len(launch.ins) + position] = whole
    Rewriter.replace_value_with_new_type(launch.res[position], whole.type)
    argument = Rewriter.replace_value_with_new_type(old, whole.type)
    if maps is not None:
        for op in maps:
            _write_in_part(op, where, whole.type)
    else:
        _build_in_slice(launch, position, argument, type, where, border)


def lengthen(launch: LaunchOp, position: int, whole: SSAValue) -> None:
    """Let a launch take `whole` as its out `position`, of which its out so far is the beginning along every axis."""
    type = tensor_type(launch.out_args[position])
    chain = _chain_of_parts(launch, position)
    if chain is None:
        compute_in_part(launch, position, whole, Access.identity(type.get_num_dims()))
        return
    launch.operands[len(launch.ins) + position] = whole
    for value in (launch.res[position], launch.out_args[position], *chain):
        Rewriter.replace_value_with_new_type(value, whole.type)


def _chain_of_parts(launch: LaunchOp, position: int) -> list[SSAValue] | None:
    """The values from a launch's out to its result, if all that is made of them says itself which elements it takes."""
    values: list[SSAValue] = []
    value, argument = launch.yielded[position], launch.out_args[position]
    while value is not argument:
        op = value.owner
        if not isinstance(op, MapOp | tensor.InsertSliceOp) or len(op.results) != 1:
            return None
        values.append(value)
        value = op.outs[0] if isinstance(op, MapOp) else op.dest
    for value in (*values, argument):
        for use in value.uses:
            op = use.operation
            reads = isinstance(op, StructuredOp) and (
                use.index >= len(op.ins) or op.pads.data[use.index] == NO_PAD
            )
            writes_all = (
                isinstance(op, StructuredOp) and use.index >= len(op.ins) and not isinstance(op, MapOp)
            )
            if writes_all or not (
                reads or isinstance(op, tensor.InsertSliceOp | tensor.ExtractSliceOp | YieldOp)
            ):
                return None
    return values


def _chain_of_maps(launch: LaunchOp, position: int, where: Access) -> list[MapOp] | None:
    """The maps that build a result of a launch in its out, if nothing else builds it or reads what it is meanwhile.

    And if they are maps where it goes, too: an axis of extent 1 that the whole does not have leaves a dimension unused.
    """
    maps: list[MapOp] = []
    value = launch.yielded[position]
    argument = launch.out_args[position]
    while value is not argument:
        op = value.owner
        if not isinstance(op, MapOp) or len(op.res) != 1 or op.outs[0].uses.get_length() != 1:
            return None
        if len(where.compose(op.out_accesses[0]).dims) < len(op.extents):
            return None
        maps.append(op)
        value = op.outs[0]
    return maps if launch.yielded[position].uses.get_length() == 1 else None


def _write_in_part(op: MapOp, where: Access, type: Attribute) -> None:
    """Let a map write into a part of a larger tensor what it wrote into a tensor of its own."""
    access = where.compose(op.out_accesses[0])
    op.properties["indexing_maps"] = ArrayAttr(
        [*op.indexing_maps.data[: len(op.ins)], AffineMapAttr(access.to_map())]
    )
    Rewriter.replace_value_with_new_type(op.res[0], type)


def _build_in_slice(
    launch: LaunchOp,
    position: int,
    argument: SSAValue,
    type: TensorType[Attribute],
    where: Access,
    border: Number | None,
) -> None:
    slice = slice_of_access(where, type.get_shape())
    terminator = launch.body.last_op
    assert slice is not None and isinstance(terminator, YieldOp)
    first = launch.body.first_op
    assert first is not None
    taken = slice.take(argument, type)
    argument.replace_uses_with_if(taken.result, lambda use: use.operation is not taken)
    before: list[Operation] = []
    if border is not None:
        number = arith.ConstantOp(border)
        fill = FillOp(number.result, argument)
        taken.operands[0] = fill.result
        before = [number, fill]
    put = slice.put(terminator.operands[position], taken.source)
    for op in (*before, taken, put):
        op.location = launch.location
    launch.body.insert_ops_before([*before, taken], first)
    launch.body.insert_op_before(put, terminator)
    terminator.operands[position] = put.result


def can_compute_in_part(launch: LaunchOp, position: int, where: Access, border: Number | None = None) -> bool:
    """Whether a launch can build a result at `where` in a larger tensor, with a border around it or without.

    It can if that is a slice, or one once the result is transposed and the launch can build it so; or if maps alone
    build it, which write anywhere, but no border.
    """
    shape = shape_of(launch.out_args[position])
    if slice_of_access(where, shape) is not None:
        return True
    if border is None and _chain_of_maps(launch, position, where) is not None:
        return True
    turned = turned_to_slice(where, shape)
    return turned is not None and can_transpose_out(launch, position, turned.axes)


def is_built_in_out(launch: LaunchOp, position: int) -> bool:
    """Whether the result of a launch is what its ops make of its out, through loops and slices too."""
    value, argument = launch.yielded[position], launch.out_args[position]
    while value is not argument:
        if not isinstance(value, OpResult):
            return False
        taken = {result: operand for operand, result in destinations(value.op)}
        if value in taken:
            value = value.op.operands[taken[value]]
        elif isinstance(value.op, scf.ForOp):
            value = value.op.iter_args[value.index]
        else:
            return False
    return True


def slice_launch(source: SSAValue, where: Access, type: TensorType[Attribute]) -> LaunchOp:
    """A launch, nowhere yet, that takes what is at `where` in `source` out as a tensor of `type`."""
    out = tensor.EmptyOp((), type)
    element = type.element_type
    body = Block(arg_types=[element, element])
    body.add_op(YieldOp(body.args[0]))
    shape = type.get_shape()
    outer = Block(arg_types=[source.type, type])
    bounds = {f"d{axis}": size for axis, size in enumerate(shape)}
    accesses = [where, Access.identity(len(shape))]
    op = MapOp(bounds, [outer.args[0]], [outer.args[1]], accesses, Region(body))
    outer.add_ops([op, YieldOp(*op.res)])
    return LaunchOp("slice", [source], [out.tensor], Region(outer))


def drop_map(launch: LaunchOp, op: MapOp) -> None:
    """Take a map that moves a part out of the chain that puts a result together, and the operand that only it reads."""
    source = op.ins[0]
    op.res[0].replace_all_uses_with(op.outs[0])
    launch.body.erase_op(op)
    if source.first_use is None and source in launch.in_args:
        drop_in(launch, launch.in_args.index(source))
