"""`place-concats`: what is put together from parts, or into a border, is computed where it belongs.

A *part* is what a launch only moves into the tensor that it puts together: a concatenation moves each of its operands,
a pad one. The launch that computes a part takes the whole tensor as its `outs` instead, and writes its own part of it;
what else reads the part reads it there. So the whole goes, as a chain of destinations, through the launches that
compute its parts, and the launch that put it together does what is left, or vanishes. A launch that goes on with what
it has put together, in the same memory, is one of these. Where a part is the reshape of what a launch computes, the
chain has the whole in another shape there. Where it is a transpose, the launch computes it transposed.

A part stays a copy

1. that is an argument or a constant, which lies where it is, or is made by something else than a launch;
2. whose launch updates a tensor in place, does not build it in its out, reads another part of the whole, or has a
   result in the whole already;
3. that something reads which takes no index maps (a function result, a run-time function, a nested region);
4. that is read when the whole is overwritten already;
5. that is placed already: in one of its two places it is a copy;
6. for which more bytes would be live: the whole is there as soon as its first part is.

Before that, what is taken out of a tensor to be reshaped is read where it lies (see `lift_reshapes`), unless something
reads it that takes no index maps, or more bytes would be live.

Reports a remark for each part placed ("placed ...") or read where it lies ("read ..."), and for each that was not ("not
placed ...", "not read ...").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue, Use

from mlopt.diagnostics import RemarkKind
from mlopt.dialects.kernel import NO_PAD, Access, ConstantOp, LaunchOp, MapOp, ReshapeOp, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.kernel.fusion_groups import can_absorb, describe_use, name_of
from mlopt.passes.kernel.launches import (
    Read,
    blocks_with_launches,
    empty_like,
    is_destination_use,
    is_empty,
    only_map,
    read_of,
    reads_of,
    set_reads,
    shape_of,
)
from mlopt.passes.kernel.lift_reshapes import can_be_read, find_lift, lift
from mlopt.passes.kernel.live_bytes import LiveBytes
from mlopt.passes.kernel.merge_launches import absorb_into_users
from mlopt.passes.kernel.placing import (
    Number,
    Reshaped,
    can_compute_in_part,
    compute_in_part,
    drop_map,
    is_built_in_out,
    place_of_reshaped,
    slice_launch,
)
from mlopt.passes.kernel.reuse_in_launch import REUSE_IN_LAUNCH, reuse_in_launch
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL


class PlaceConcatsPass(Pass):
    """Compute the parts of concatenations, and what a pad surrounds, right in the whole tensor, where that is proved.

    And read the reshaped parts of a tensor where they lie. The conditions stand in the module's documentation.
    """

    name = "place-concats"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "place-part": "A launch computes its result in a part of the tensor that it is moved into.",
        "lift-reshape": "A part of a tensor that is reshaped is read where it lies.",
        **REUSE_IN_LAUNCH,
    }

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        changed = False
        for block in blocks_with_launches(op):
            changed |= _read_reshaped_parts(block, ctx)
            changed |= _BlockPlacement(block, ctx).run()
        return changed


def _read_reshaped_parts(block: Block, ctx: CompilerContext) -> bool:
    """Let what reads the reshape of a part of a tensor read it in the tensor."""
    changed = False
    live: LiveBytes | None = None
    for reshape in [op for op in block.ops if isinstance(op, ReshapeOp)]:
        found = find_lift(reshape)
        if found is None:
            continue
        launch = found.launch
        name, described = PlaceConcatsPass.name, f"the part of {name_of(launch.ins[0])} that is reshaped"
        live = live or LiveBytes(block)
        more = live.grows_by_reading(launch.ins[0], launch.res[0])
        if more > 0 or not can_be_read(found, block):
            reason = (
                f"{more} bytes more would be live at once"
                if more > 0
                else "what reads it takes no index maps"
            )
            ctx.remark(name, "missed", f"not read where it lies: {described}: {reason}", launch.location)
            ctx.count(name, "near-misses")
        elif may_rewrite("lift-reshape", launch):
            ctx.remark(name, "passed", f"read where it lies: {described}", launch.location)
            ctx.count(name, "parts-read")
            source, part = launch.ins[0], launch.res[0]
            live.read_instead(source, part, lift(found, block))
            changed = True
    return changed


class Part(NamedTuple):
    """What `map` of `whole` moves: tensor `value` of `type`; `where`: the place in the whole of each of its elements.

    `border`: what a pad fills the rest of the whole with. `reshaped`: if `value` is the reshape of what is computed,
    the shape in which the whole has a place for that, and the place.
    """

    whole: LaunchOp
    map: MapOp
    value: SSAValue
    type: TensorType[Attribute]
    where: Access
    border: Number | None = None
    reshaped: Reshaped | None = None

    @property
    def computed(self) -> SSAValue:
        """What is to be computed in the whole: the part, or what is reshaped to be it."""
        return self.value if self.reshaped is None else self.reshaped.source


class Link(NamedTuple):
    """A launch that computes a part of a whole, as its out `position`; `reshaped`: of the whole in another shape."""

    launch: LaunchOp
    position: int
    reshaped: bool = False

    @property
    def taken(self) -> SSAValue:
        """The whole before it."""
        out = self.launch.outs[self.position]
        return _reshape_of(out).source if self.reshaped else out

    @property
    def left(self) -> SSAValue:
        """The whole after it."""
        result = self.launch.res[self.position]
        return next(iter(result.uses)).operation.results[0] if self.reshaped else result

    def take(self, value: SSAValue) -> None:
        """Let it get the whole from elsewhere."""
        if self.reshaped:
            _reshape_of(self.launch.outs[self.position]).operands[0] = value
        else:
            self.launch.operands[len(self.launch.ins) + self.position] = value


def _reshape_of(value: SSAValue) -> ReshapeOp:
    assert isinstance(value.owner, ReshapeOp)
    return value.owner


class _BlockPlacement:
    def __init__(self, block: Block, ctx: CompilerContext):
        self.block = block
        self.ctx = ctx
        self.live = LiveBytes(block)
        self.changed = False

    def run(self) -> bool:
        # Outer concatenations first: an inner one is a part then, and its own parts go where it goes.
        for launch in reversed([op for op in self.block.ops if isinstance(op, LaunchOp)]):
            if len(launch.res) != 1:
                continue
            for part in parts_of(launch) or self._parts_at_first(launch):
                self._place(part)
            drop_if_done(launch)
        return self.changed

    def _parts_at_first(self, launch: LaunchOp) -> list[Part]:
        """What a launch moves into its out before it goes on with that."""
        if not any(isinstance(op, MapOp) and _moves_part(op, launch) for op in launch.body.ops):
            return []
        self.changed |= reuse_in_launch(launch, self.ctx, PlaceConcatsPass.name)
        return parts_at_first(launch)

    def _place(self, part: Part) -> None:
        obstacle = self._obstacle(part)
        into = part.whole.kernel_name.data
        if obstacle is not None:
            self._remark(
                "missed", f"not placed: {name_of(part.value)} in the result of '{into}': {obstacle}", part
            )
            self.ctx.count(PlaceConcatsPass.name, "near-misses")
            return
        if not may_rewrite("place-part", part.whole):
            return
        producer = _producer(part)
        self._remark(
            "passed",
            f"placed: '{producer.launch.kernel_name.data}' computes {name_of(part.value)} in the result of '{into}'",
            part,
        )
        self.ctx.count(PlaceConcatsPass.name, "parts-placed" if part.border is None else "pads-placed")
        self._move(part, producer)
        self.changed = True

    def _remark(self, kind: RemarkKind, message: str, part: Part) -> None:
        self.ctx.remark(PlaceConcatsPass.name, kind, message, part.whole.location)

    # What is legal

    def _obstacle(self, part: Part) -> str | None:
        """Why a part can't be computed in its place, if so."""
        if part.value not in part.whole.ins:
            return "it is placed in it already"
        producer = part.computed.owner
        if isinstance(producer, Block):
            return "it is an argument"
        if isinstance(producer, ConstantOp):
            return "it is a constant"
        if not isinstance(producer, LaunchOp):
            return f"it is the result of '{producer.name}'"
        if producer.parent is not self.block:
            return "it is computed outside of the region"
        return (
            self._whole_obstacle(part, producer)
            or reader_obstacle(part, self.block)
            or self._later_reader_obstacle(part)
            or self._memory_obstacle(part)
            or self._launch_obstacle(part, _producer(part))
        )

    def _whole_obstacle(self, part: Part, producer: LaunchOp) -> str | None:
        """What is wrong with the tensor that the part is to be computed in."""
        links = links_of(part.whole)
        root = links[0].taken
        if not is_empty(root) or not root.has_one_use() or root.owner.parent is not self.block:
            return "the whole is no new tensor"
        name = producer.kernel_name.data
        for link in links[:-1]:
            if link.launch is producer:
                return f"another result of '{name}' is in the whole"
            if link.left in producer.ins:
                return f"'{name}' reads another part of the whole"
            if part.value in link.launch.ins:
                return f"'{link.launch.kernel_name.data}' reads it, which computes another part of the whole"
        return None

    def _later_reader_obstacle(self, part: Part) -> str | None:
        """What reads a part when the whole is something else already, if anything does."""
        whole = part.whole
        overwriting = [
            use.operation for use in whole.res[0].uses if is_destination_use(use.operation, use.index)
        ]
        if not parts_of(whole):
            overwriting.append(whole)
        for op in overwriting:
            for use in part.value.uses:
                if self.live.is_after(use.operation, self.live.position(op)):
                    return f"it is {describe_use(use.operation)}, when the whole is overwritten"
        return None

    def _memory_obstacle(self, part: Part) -> str | None:
        more = self.live.grows(part.value, part.whole.res[0])
        return f"{more} bytes more would be live at once" if more > 0 else None

    def _launch_obstacle(self, part: Part, producer: Link) -> str | None:
        """Why a launch can't build its result in a part of a larger tensor, if so."""
        launch = producer.launch
        if not is_empty(launch.outs[producer.position]):
            return f"'{launch.kernel_name.data}' updates a tensor in place"
        self.changed |= reuse_in_launch(launch, self.ctx, PlaceConcatsPass.name)
        if not is_built_in_out(launch, producer.position):
            return f"'{launch.kernel_name.data}' does not build it in its out"
        if part.reshaped is None and not can_compute_in_part(
            launch, producer.position, part.where, part.border
        ):
            return "its axes are in another order there"
        return None

    # Doing it

    def _move(self, part: Part, producer: Link) -> None:
        """Put a launch into the chain, in the order of the block, and let all readers read what the chain holds."""
        now = self.live.position(producer.launch)
        links = links_of(part.whole)
        number = next(i for i, link in enumerate(links) if self.live.position(link.launch) > now)
        following, before = links[number], links[number].taken
        if isinstance(before, OpResult) and is_empty(before):
            before.op.detach()
            self.block.insert_op_before(before.op, producer.launch)
        later = [
            use
            for use in before.uses
            if use.operation is not following.launch and self.live.is_after(use.operation, now)
        ]
        readers: dict[LaunchOp, list[int]] = {}
        for use in part.value.uses if part.reshaped is None else ():
            if use.operation is not part.whole:
                assert isinstance(use.operation, LaunchOp)
                readers.setdefault(use.operation, []).append(use.index)
        take_out(part)
        if part.reshaped is None:
            compute_in_part(producer.launch, producer.position, before, part.where, part.border)
        else:
            self._compute_reshaped(part.reshaped, producer, before)
        whole = producer.left
        self.live.put(part.value, part.whole.res[0], whole)
        copy_name(part.whole.res[0], whole)
        for use in later:
            use.operation.operands[use.index] = whole
        following.take(whole)
        chain = [*links[:number], producer, *links[number:]]
        for user, positions in readers.items():
            self._read_in_whole(part, user, positions, chain)

    def _compute_reshaped(self, reshaped: Reshaped, producer: Link, before: SSAValue) -> None:
        """Let a launch compute its result in the whole in another shape; a reshape of the whole follows it."""
        launch = producer.launch
        taken = ReshapeOp(before, reshaped.shape)
        taken.location = launch.location
        self.block.insert_op_before(taken, launch)
        (use,) = reshaped.source.uses
        old = use.operation
        compute_in_part(launch, producer.position, taken.result, reshaped.where)
        old.detach()
        old.erase()
        left = ReshapeOp(launch.res[producer.position], tensor_type(before).get_shape())
        left.location = launch.location
        self.block.insert_op_after(left, launch)

    def _read_in_whole(self, part: Part, user: LaunchOp, positions: list[int], chain: list[Link]) -> None:
        """Let a launch that read a part read it in the whole, as the links before it have left that."""
        moment = self.live.position(user)
        latest = next(link.left for link in reversed(chain) if self.live.position(link.launch) < moment)
        read_in_whole(latest, part.where, part.type, user, positions)


def read_in_whole(
    whole: SSAValue, where: Access, type: TensorType[Attribute], user: LaunchOp, positions: list[int]
) -> None:
    """Let a launch read a part of `whole`, at `where` in it, instead of those operands, of `type`."""
    reading = slice_launch(whole, where, type)
    (out,) = reading.outs
    assert isinstance(out, OpResult) and user.parent is not None
    user.parent.insert_ops_before([out.op, reading], user)
    for index in positions:
        user.operands[index] = reading.res[0]
    movement = only_map(reading)
    assert movement is not None
    absorb_into_users(reading, movement)


def links_of(whole: LaunchOp) -> list[Link]:
    """The launches that compute parts of what `whole` puts together, in order, and itself as the last."""
    links = [Link(whole, 0)]
    while True:
        before = links[-1].taken
        reshaped = isinstance(before.owner, ReshapeOp)
        result = before.owner.source if isinstance(before.owner, ReshapeOp) else before
        if not isinstance(result, OpResult) or not isinstance(result.op, LaunchOp):
            return links[::-1]
        links.append(Link(result.op, result.index, reshaped))


def reader_obstacle(part: Part, block: Block) -> str | None:
    """What reads a part and can't read it in the whole."""
    argument = part.whole.body.args[part.whole.ins.index(part.value)]
    for use in argument.uses:
        if use.operation is not part.map and not _can_read_destination(use, part):
            return f"'{part.whole.kernel_name.data}' reads it in another way too"
    if part.reshaped is not None:
        shared = not argument.has_one_use() or not part.value.has_one_use() or not part.computed.has_one_use()
        return "it, or what is reshaped to be it, is read elsewhere too" if shared else None
    movement = only_map(slice_launch(empty_like(part.whole.outs[0]).tensor, part.where, part.type))
    assert movement is not None
    for use in part.value.uses:
        if use.operation is not part.whole and not can_absorb(use, movement, block):
            return f"it is {describe_use(use.operation)}, not with index maps"
    return None


def _producer(part: Part) -> Link:
    computed = part.computed
    assert isinstance(computed, OpResult) and isinstance(computed.op, LaunchOp)
    return Link(computed.op, computed.index, part.reshaped is not None)


def parts_of(launch: LaunchOp) -> list[Part]:
    """What a launch only moves into its result, whole tensors only; the writes of one share no element with others."""
    pad = _padded(launch)
    if pad is not None:
        return [pad]
    maps: list[MapOp] = []
    value = launch.yielded[0]
    while isinstance(value.owner, MapOp) and len(value.owner.res) == 1:
        maps.append(value.owner)
        value = value.owner.outs[0]
    if value is not launch.out_args[0] or not _are_disjoint(maps):
        return []
    return [part for op in reversed(maps) if (part := _part(launch, op)) is not None]


def parts_at_first(launch: LaunchOp) -> list[Part]:
    """What a launch moves into its out before anything else reads or writes that, as `parts_of` has it."""
    maps: list[MapOp] = []
    value: SSAValue = launch.out_args[0]
    while value.has_one_use():
        op = next(iter(value.uses)).operation
        if not isinstance(op, MapOp) or not _moves_part(op, launch) or op.outs[0] is not value:
            break
        maps.append(op)
        value = op.res[0]
    return [part for op in maps if (part := _part(launch, op)) is not None] if _are_disjoint(maps) else []


def _moves_part(op: MapOp, launch: LaunchOp) -> bool:
    """Whether a map of a launch moves something that the launch is given into a tensor, and does nothing else."""
    return op.is_movement and op.ins[0] in launch.in_args


def _part(launch: LaunchOp, op: MapOp) -> Part | None:
    if not _moves_part(op, launch) or 0 in op.extents:
        return None
    read = read_of(op, 0)
    point = read.access.inverse()
    shape = shape_of(read.value)
    if read.pad != NO_PAD or point is None or not read.access.covers(shape, op.extents):
        return None
    value = launch.ins[launch.in_args.index(read.value)]
    where = op.out_accesses[0].compose(point)
    return Part(
        launch, op, value, tensor_type(value), where, reshaped=place_of_reshaped(value, where, op.res[0])
    )


def _padded(launch: LaunchOp) -> Part | None:
    """The operand of a launch that is a pad, and nothing else: a movement whose reads reach beyond all of it."""
    op = only_map(launch)
    if op is None or not op.is_movement or op.pads.data[0] == NO_PAD or 0 in op.extents:
        return None
    read = read_of(op, 0)
    assert isinstance(read.value, BlockArgument)
    if not op.out_accesses[0].is_permutation(shape_of(op.res[0]), op.extents):
        return None
    place = op.out_accesses[0].inverse()
    inverse = None if place is None else read.access.compose(place).inverse()
    if inverse is None or any(
        low > 0 or high < size - 1
        for (low, high), size in zip(read.access.extent(op.extents), shape_of(read.value), strict=True)
    ):
        return None
    value = launch.ins[read.value.index]
    assert isinstance(read.pad, FloatAttr | IntegerAttr)
    return Part(launch, op, value, tensor_type(value), inverse, cast(Number, read.pad))


def _are_disjoint(maps: list[MapOp]) -> bool:
    """Whether no two maps write the same element, as far as their ranges along the axes show."""
    if not maps or any(0 in op.extents for op in maps):
        return False
    ranges = [op.out_accesses[0].extent(op.extents) for op in maps]
    for axis in range(len(ranges[0])):
        ordered = sorted(extent[axis] for extent in ranges)
        if all(high < low for (_, high), (low, _) in pairwise(ordered)):
            return True
    return all(_are_apart(one, other) for one, other in combinations(ranges, 2))


def _are_apart(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Whether two boxes, given by their smallest and largest index along each axis, share no point."""
    return any(high < low or top < bottom for (low, top), (bottom, high) in zip(one, other, strict=True))


def _can_read_destination(use: Use, part: Part) -> bool:
    """Whether a map that writes another part of the whole can read this one in the whole."""
    op = use.operation
    return (
        isinstance(op, MapOp)
        and use.index < len(op.ins)
        and op.pads.data[use.index] == NO_PAD
        and len(op.outs) == 1
        and op.parent is part.whole.body
        and _is_in_out(op, part.whole)
    )


def _is_in_out(op: MapOp, whole: LaunchOp) -> bool:
    """Whether a map writes into the launch's own out, not into a tensor between."""
    value = op.outs[0]
    while isinstance(value.owner, MapOp) and len(value.owner.res) == 1:
        value = value.owner.outs[0]
    return value is whole.out_args[0]


def take_out(part: Part) -> None:
    """Take a part out of the launch that moves it; what else that does with the part, it reads in its destination."""
    argument = part.whole.body.args[part.whole.ins.index(part.value)]
    for use in [use for use in argument.uses if use.operation is not part.map]:
        op = use.operation
        assert isinstance(op, MapOp)
        reads = reads_of(op)
        reads[use.index] = Read(op.outs[0], part.where.compose(reads[use.index].access))
        set_reads(op, reads)
    drop_map(part.whole, part.map)


def drop_if_done(launch: LaunchOp) -> None:
    """Erase a launch that has nothing left to do."""
    if launch.yielded == launch.out_args:
        copy_name(launch.res[0], launch.outs[0])
        launch.res[0].replace_all_uses_with(launch.outs[0])
        launch.detach()
        launch.erase()
