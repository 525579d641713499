"""`place-donated`: what is appended to a donated input is written behind it, in memory that both have.

    %present = kernel.launch @concat ins(%past, %new ...) outs(%empty ...)

Where `%past` is donated and the result is returned, the argument of `@main` becomes the whole that the input is a part
of (`mlopt.input_part`): the launch takes it as its `outs`, and only writes the other parts. What else reads the input
reads that part. With a capacity, the whole is longer than the output, which then is a part of it too
(`mlopt.output_part`), and what reads the output reads that part.

An input stays apart, and is copied

1. that is not moved as it is into an output along one axis, or into none that it is donated to;
2. if the whole exists before, in another shape or from another input;
3. that something reads which takes no index maps (a function result, a run-time function, a nested region), or a
   launch that computes another part;
4. with a capacity, if something reads the output that takes no index maps.

Reports a remark for each input placed ("placed ...") and for each that is moved into an output but was not ("not placed
..."), or is donated to one that is longer.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from mlopt.dialects.kernel import Access, LaunchOp, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.donations import (
    INPUT_PART,
    OUTPUT_PART,
    AxisPart,
    Donation,
    appended_axis,
    donations_of,
    result_names,
    set_attribute,
    set_result_attribute,
)
from mlopt.ir.names import set_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.kernel.fusion_groups import can_absorb, describe_use
from mlopt.passes.kernel.launches import (
    empty_like,
    erase_if_unused,
    is_destination_use,
    is_empty,
    only_map,
    shape_of,
)
from mlopt.passes.kernel.liveness import BlockLiveness
from mlopt.passes.kernel.place_concats import (
    Link,
    Part,
    drop_if_done,
    links_of,
    parts_of,
    read_in_whole,
    reader_obstacle,
    take_out,
)
from mlopt.passes.kernel.placing import is_built_in_out, lengthen, slice_launch, slice_of_access
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL


class PlaceDonatedPass(Pass):
    """Let a donated input be the part of an output's memory that is moved there, where that is proved.

    The conditions stand in the module's documentation.
    """

    name = "place-donated"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    rewrites: ClassVar = {"place-input": "A donated input is a part of the memory of an output."}

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        changed = False
        for function in [f for f in op.walk() if isinstance(f, FuncOp) and f.sym_name.data == "main"]:
            donations = donations_of(function)
            for index, argument in enumerate(function.args):
                if argument in donations:
                    changed |= _place(ctx, function, index, donations[argument])
        return changed


class _Place(NamedTuple):
    """Where an input would lie: the part of a whole, along one axis, and which result of `@main` the whole is.

    `links`: all launches that compute parts of it, in order.
    """

    part: Part
    input_part: AxisPart
    result: int
    links: list[Link]


def _place(ctx: CompilerContext, main: FuncOp, index: int, donation: Donation) -> bool:
    argument = main.args[index]
    places = [
        place for use in argument.uses if (place := _place_of(main, use.operation, argument)) is not None
    ]
    chosen = next((place for place in places if donation.takes(result_names(main)[place.result])), None)
    if chosen is None:
        if places:
            to = result_names(main)[places[0].result]
            _miss(ctx, main, donation, f'it is donated to "{donation.output}", but a part of "{to}"')
        elif _is_to_be_longer(main, argument, donation):
            _miss(ctx, main, donation, "it is not moved there as it is, along one axis")
        return False
    obstacle = _obstacle(main, chosen, donation)
    if obstacle is not None:
        _miss(ctx, main, donation, obstacle)
        return False
    if not may_rewrite("place-input", chosen.part.whole):
        return False
    output = result_names(main)[chosen.result]
    ctx.remark(
        PlaceDonatedPass.name,
        "passed",
        f'placed: input "{donation.input}" is a part of the memory of output "{output}", and is not copied there',
        chosen.part.whole.location,
    )
    ctx.count(PlaceDonatedPass.name, "inputs-placed")
    _do(main, index, chosen, donation)
    return True


def _miss(ctx: CompilerContext, main: FuncOp, donation: Donation, reason: str) -> None:
    to = f' to "{donation.output}"' if donation.output is not None else ""
    message = f'not placed: input "{donation.input}", donated{to}: {reason}'
    ctx.remark(PlaceDonatedPass.name, "missed", message, main.location)
    ctx.count(PlaceDonatedPass.name, "near-misses")


def _is_to_be_longer(main: FuncOp, argument: SSAValue, donation: Donation) -> bool:
    names = result_names(main)
    if donation.output not in names:
        return False
    result = main.function_type.outputs.data[names.index(donation.output)]
    return appended_axis(argument.type, result) is not None


def _place_of(main: FuncOp, user: Operation, argument: SSAValue) -> _Place | None:
    """Where an argument lies, along one axis, in what `user` puts together and `@main` returns; None if nowhere."""
    if not isinstance(user, LaunchOp) or len(user.res) != 1 or user.parent is not main.body.block:
        return None
    last = _last_link(user)
    if last is None:
        return None
    returned = [use.index for use in last.left.uses if isinstance(use.operation, ReturnOp)]
    for part in parts_of(user) if returned else ():
        cut = slice_of_access(part.where, part.type.get_shape())
        if part.value is not argument or part.border is not None or cut is None:
            continue
        shape = shape_of(user.res[0])
        axes = [axis for axis, size in enumerate(cut.sizes) if size != shape[axis]]
        if len(axes) == 1 and cut.sizes == part.type.get_shape() and set(cut.strides) == {1}:
            (axis,) = axes
            input_part = AxisPart(axis, cut.offsets[axis], cut.sizes[axis])
            return _Place(part, input_part, returned[0], links_of(last.launch))
    return None


def _last_link(launch: LaunchOp) -> Link | None:
    """The last of those that take the result of `launch` as their out one after another; None if one has more."""
    taken: list[Operation] = [launch]
    while taken:
        user = taken[0]
        if not isinstance(user, LaunchOp) or len(user.res) != 1:
            return None
        launch = user
        taken = [use.operation for use in launch.res[0].uses if is_destination_use(use.operation, use.index)]
    return Link(launch, 0)


# What is legal


def _obstacle(main: FuncOp, place: _Place, donation: Donation) -> str | None:
    """Why an input can't be the part of a whole, if so."""
    part, block, links = place.part, main.body.block, place.links
    root = links[0].taken
    if not is_empty(root) or not root.has_one_use() or root.owner.parent is not block:
        return "the whole is no new tensor"
    attributes = [dict(entries.data) for entries in (main.arg_attrs or ())]
    results = [dict(entries.data) for entries in (main.res_attrs or ())]
    given = attributes[part.value.index] if isinstance(part.value, BlockArgument) else {}
    made = results[place.result] if results else {}
    if given.get("mlopt.dtype") != made.get("mlopt.dtype"):
        return "it has another type at the interface"
    for link in links:
        if link.launch is not part.whole and part.value in link.launch.ins:
            return f"'{link.launch.kernel_name.data}' reads it, which computes another part"
    return reader_obstacle(part, block) or _capacity_obstacle(place, donation, block)


def _capacity_obstacle(place: _Place, donation: Donation, block: Block) -> str | None:
    """Why the whole can't be longer than the output, if it has to be."""
    if donation.capacity is None:
        return None
    type_ = tensor_type(place.part.whole.res[0])
    movement = only_map(slice_launch(empty_like(place.part.whole.res[0]).tensor, _identity(type_), type_))
    assert movement is not None
    links = place.links
    for link in links:
        name = link.launch.kernel_name.data
        if link.reshaped:
            return f"'{name}' computes the output in another shape"
        if not is_built_in_out(link.launch, link.position):
            return f"'{name}' does not build the output in its out"
        own = next((one.launch for one in links if one.taken is link.left), None)
        returned = 0
        for use in link.left.uses:
            if use.operation is own:
                continue
            returned += isinstance(use.operation, ReturnOp)
            if returned > 1:
                return "the output is returned twice"
            if not isinstance(use.operation, ReturnOp) and not can_absorb(use, movement, block):
                return f"the output is {describe_use(use.operation)}, not with index maps"
    return None


# Doing it


def _do(main: FuncOp, index: int, place: _Place, donation: Donation) -> None:
    part, block, links = place.part, main.body.block, place.links
    moments = BlockLiveness(block)
    type_ = tensor_type(part.whole.res[0])
    shape, axis = list(type_.get_shape()), place.input_part.axis
    size = shape[axis]
    longer = donation.capacity is not None and donation.capacity > size
    if donation.capacity is not None:
        shape[axis] = donation.capacity
    whole_type = TensorType(type_.element_type, shape)
    readers = _uses_by_launch(part.value, (part.whole,))
    take_out(part)
    name = part.value.name_hint
    Rewriter.replace_value_with_new_type(part.value, whole_type)
    whole = main.args[index]
    whole.location = main.location
    set_name(whole, name)
    root = links[0].taken
    output_readers: list[tuple[LaunchOp, int, list[int]]] = []
    if longer:
        for number, link in enumerate(links):
            own = [one.launch for one in links]
            output_readers += [
                (user, number, indices) for user, indices in _uses_by_launch(link.left, own).items()
            ]
        before: SSAValue = whole
        for link in links:
            lengthen(link.launch, link.position, before)
            before = link.left
    else:
        links[0].take(whole)
    erase_if_unused(root)
    lefts = [link.left for link in links]
    for user, number, indices in output_readers:
        read_in_whole(lefts[number], _identity(type_), type_, user, indices)
    for user, indices in readers.items():
        moment = moments.position(user)
        earlier = [
            left for link, left in zip(links, lefts, strict=True) if moments.position(link.launch) < moment
        ]
        read_in_whole(earlier[-1] if earlier else whole, part.where, part.type, user, indices)
    set_attribute(main, index, INPUT_PART, place.input_part.attribute)
    if longer:
        set_result_attribute(main, place.result, OUTPUT_PART, AxisPart(axis, 0, size).attribute)
    main.update_function_type()
    drop_if_done(part.whole)


def _identity(type_: TensorType[Attribute]) -> Access:
    return Access.identity(type_.get_num_dims())


def _uses_by_launch(
    value: SSAValue, without: tuple[LaunchOp, ...] | list[LaunchOp]
) -> dict[LaunchOp, list[int]]:
    """The launches that use a tensor, but for some, each with the positions among its operands."""
    users: dict[LaunchOp, list[int]] = {}
    for use in value.uses:
        if isinstance(use.operation, LaunchOp) and use.operation not in without:
            users.setdefault(use.operation, []).append(use.index)
    return users
