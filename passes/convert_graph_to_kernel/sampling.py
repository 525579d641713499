"""Sampling images at computed positions: where to read is computed once, then every channel is read there.

The image is laid out with channels innermost, one row per element, surrounded by zeros where that is its padding. One
map computes for each position the numbers of the rows to read and their weights; another loads the rows
(`tensor.extract`) and adds them up, weighted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import IndexType, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from mlopt.dialects import graph, kernel
from mlopt.dialects.arith import RemfOp
from mlopt.dialects.graph.base import GraphOp, get_ints, is_float, shape_of
from mlopt.ir.names import copy_name
from mlopt.passes.convert_graph_to_kernel.contraction import epilogue, finish_reshaped
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import (
    Bodies,
    Launch,
    Operand,
    Space,
    linear_position,
    position,
)
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, accumulator, float_type, signless
from mlopt.passes.convert_graph_to_kernel.windows import padded_read


@dataclass(frozen=True, slots=True)
class Tap:
    """An element that is read along one axis: its number (i64), and its weight, None if that is 1."""

    index: SSAValue
    weight: SSAValue | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Images as rows of channels: `[images * prod(sizes), channels]`; `border` zeros surround each image."""

    value: SSAValue
    images: int
    sizes: tuple[int, ...]
    channels: int
    border: int

    def number(self, s: Scalars, image: SSAValue, taps: Sequence[Tap]) -> SSAValue:
        """The number (i64) of the row of an element: one tap per axis, in an image that is counted in i64."""
        signed = Scalars(s.block)
        total = image
        for size, tap in zip(self.sizes, taps, strict=True):
            total = signed.add(signed.mul(total, signed.like(size, total)), tap.index)
        return total


def rows_of(op: GraphOp, conversion: Conversion, groups: int, border: int) -> Rows:
    """The images `[n, c, spatial...]` that `op` reads, each divided into groups of channels that count as images."""
    image = op.operands[0]
    batch, channels, *spatial = shape_of(image)
    each, sizes = channels // groups, tuple(size + 2 * border for size in spatial)
    names = [f"s{axis}" for axis in range(len(sizes))]
    space = Space({"n": batch, "g": groups, **dict(zip(names, sizes, strict=True)), "c": each})
    element = signless(element_of(image))
    launch = conversion.launch(op, [TensorType(element, tuple(space.bounds.values()))])
    axes = [space["n"], space["g"] * each + space["c"], *(space[name] + -border for name in names)]
    source = padded_read(space, launch.use(image, "input"), axes, 0)
    moved = launch.move(space, source, Operand(launch.out, space.identity()))
    (value,) = conversion.insert_launch(op, launch, (), moved)
    flat = kernel.ReshapeOp(value, (batch * groups * prod(sizes), each))
    conversion.insert(op, flat)
    return Rows(flat.result, batch * groups, sizes, each, border)


class Reads:
    """What each point of a space reads: numbers of rows and their weights, in temporaries of a launch."""

    def __init__(self, launch: Launch, space: Space, count: int, work: Attribute | None):
        """`count` reads a point; without `work`, the type of the weights, they have none."""
        self.launch = launch
        self.space = space
        self.count = count
        shape = tuple(space.bounds.values())
        self._outs = [launch.empty(shape, i64) for _ in range(count)]
        if work is not None:
            self._outs += [launch.empty(shape, work) for _ in range(count)]

    def compute(self, ins: Sequence[Operand], body: Bodies) -> None:
        """Fill the temporaries: the body yields all numbers, then all weights."""
        outs = [Operand(out, self.space.identity()) for out in self._outs]
        self._outs = list(self.launch.maps(self.space, ins, outs, body))

    def operands(self, space: Space) -> list[Operand]:
        """The temporaries as read by a map over a space that has all the dimensions of this one."""
        return [Operand(out, space.access(*self.space.names)) for out in self._outs]

    def terms(
        self, s: Scalars, rows: SSAValue, channel: SSAValue, values: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The weighted elements, as wide as the weights, of the first values of a body, which `operands` are."""
        element = kernel.tensor_type(rows).element_type
        found: list[SSAValue] = []
        for tap in range(self.count):
            at = [s.index_cast(values[tap], IndexType()), channel]
            value = s.emit(tensor.ExtractOp(rows, at, element))
            if len(self._outs) > self.count:
                weight = values[self.count + tap]
                value = s.mul(s.extend(value, weight.type), weight)
            found.append(value)
        return found


# What is read along one axis


def whole_number(s: Scalars, x: SSAValue, low: int, high: int) -> SSAValue:
    """A float without a fraction as i64 in [low, high]; NaN is `low`."""
    x = s.emit(arith.MaxnumfOp(x, s.like(low, x)))
    return s.emit(arith.FPToSIOp(s.minimum(x, s.like(high, x)), i64))


def _floor(s: Scalars, x: SSAValue) -> SSAValue:
    return s.emit(math.FloorOp(x))


def _weighted(s: Scalars, at: SSAValue, mode: str) -> list[tuple[SSAValue, SSAValue | None]]:
    """The whole positions that are read along an axis, and their weights."""
    if mode == "nearest":
        return [(s.emit(math.RoundEvenOp(at)), None)]
    low, one = _floor(s, at), s.like(1, at)
    t = s.sub(at, low)
    if mode == "linear":
        return [(low, s.sub(one, t)), (s.add(low, one), t)]
    a = -0.75

    def polynomial(x: SSAValue, *coefficients: float) -> SSAValue:
        total = s.like(coefficients[0], x)
        for coefficient in coefficients[1:]:
            total = s.add(s.mul(total, x), s.like(coefficient, x))
        return total

    def far(x: SSAValue) -> SSAValue:
        return polynomial(x, a, -5 * a, 8 * a, -4 * a)

    def near(x: SSAValue) -> SSAValue:
        return polynomial(x, a + 2, -(a + 3), 0, 1)

    weights = (far(s.add(t, one)), near(t), near(s.sub(one, t)), far(s.sub(s.like(2, t), t)))
    shifted = [s.add(low, s.like(k, low)) if k else low for k in (-1, 0, 1, 2)]
    return list(zip(shifted, weights, strict=True))


def _taps(
    s: Scalars, at: SSAValue, size: int, mode: str, padding: str, edge: tuple[float, float], border: int
) -> list[Tap]:
    """What is read at a position along an axis of `size` elements with a border."""
    taps: list[Tap] = []
    for place, weight in _weighted(s, at, mode):
        if padding == "reflection":
            place = _reflected(s, place, edge)
        index = whole_number(s, place, -border, size - 1 + border)
        if border:
            index = s.emit(arith.AddiOp(index, s.like(border, index)))
        taps.append(Tap(index, weight))
    return taps


def _reflected(s: Scalars, place: SSAValue, edge: tuple[float, float]) -> SSAValue:
    """A whole position reflected at the edges until it lies between them."""
    low, length = s.like(edge[0], place), edge[1] - edge[0]
    period = s.like(2 * length, place)
    distance = s.emit(math.AbsFOp(s.sub(place, low)))
    rest = s.emit(RemfOp(distance, period))
    turned = s.select(s.compare("le", rest, s.like(length, rest)), rest, s.sub(period, rest))
    return s.emit(math.TruncOp(s.add(low, turned)))


def _combined(s: Scalars, rows: Rows, image: SSAValue, taps: Sequence[Sequence[Tap]]) -> list[SSAValue]:
    """All rows that are read, then their weights, for the taps along each axis."""
    numbers: list[SSAValue] = []
    weights: list[SSAValue] = []
    for chosen in product(*taps):
        numbers.append(rows.number(s, image, chosen))
        factors = [tap.weight for tap in chosen if tap.weight is not None]
        if factors:
            weight = factors[0]
            for factor in factors[1:]:
                weight = s.mul(weight, factor)
            weights.append(weight)
    return [*numbers, *weights]


def _total(s: Scalars, terms: Sequence[SSAValue]) -> SSAValue:
    total = terms[0]
    for term in terms[1:]:
        total = s.add(total, term)
    return total


# Operations


@converts(graph.GridSampleOp)
def _grid_sample(op: graph.GridSampleOp, conversion: Conversion) -> None:
    mode, padding, align = op.mode.data, op.padding.data, op.align_corners is not None
    batch, _, *spatial = shape_of(op.input)
    border = 1 if padding == "zeros" else 0
    rows = rows_of(op, conversion, 1, border)
    element = signless(element_of(op.result))
    names = [f"p{axis}" for axis in range(len(spatial))]
    positions = dict(zip(names, shape_of(op.grid)[1:-1], strict=True))
    where = Space({"n": batch, **positions})
    whole = Space({**where.bounds, "c": rows.channels})
    launch = conversion.launch(op, [TensorType(element, tuple(whole.bounds.values()))])
    source, grid = launch.use(rows.value, "rows"), launch.use(op.grid, "grid")
    work = accumulator(element_of(op.grid))
    weights = accumulator(element) if mode != "nearest" else None
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[mode] ** len(spatial)
    reads = Reads(launch, where, taps, weights)

    def numbers(s: Scalars, *values: SSAValue) -> Sequence[SSAValue]:
        along: list[list[Tap]] = []
        for coordinate, size in zip(values, spatial, strict=False):
            at = _from_normalized(s, s.extend(coordinate, work), size, align=align)
            edge = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
            along.append(
                [
                    Tap(
                        tap.index,
                        None if tap.weight is None or weights is None else _as(s, tap.weight, weights),
                    )
                    for tap in _taps(s, at, size, mode, padding, edge, border)
                ]
            )
        return _combined(s, rows, s.index_cast(position(s, where, "n"), i64), along)

    last = len(spatial) - 1
    reads.compute(
        [Operand(grid, where.access(*where.names, last - axis)) for axis in range(last + 1)], numbers
    )

    def sample(s: Scalars, *values: SSAValue) -> SSAValue:
        terms = reads.terms(s, source, position(s, whole, "c"), values)
        total = _total(s, terms)
        return s.truncate(total, element) if is_float(element) else total

    sampled = launch.map(whole, reads.operands(whole), Operand(launch.out, whole.identity()), sample)
    _channels_second(op, conversion, launch, sampled)


def _as(s: Scalars, x: SSAValue, element: Attribute) -> SSAValue:
    """A float of f32 or f64 in the other type."""
    return s.cast(x, x.type, element)


def _from_normalized(s: Scalars, x: SSAValue, size: int, *, align: bool) -> SSAValue:
    """A coordinate from -1 to 1 as a position, in which elements are 1 apart and the first lies at 0."""
    one, two = s.like(1, x), s.like(2, x)
    if align:
        return s.mul(s.div(s.add(x, one), two), s.like(size - 1, x))
    return s.div(s.sub(s.mul(s.add(x, one), s.like(size, x)), one), two)


def _channels_second(op: GraphOp, conversion: Conversion, launch: Launch, value: SSAValue) -> None:
    """End a launch whose result has channels last; a movement gives the result of `op`, where they are second."""
    (sampled,) = conversion.insert_launch(op, launch, (), value)
    shape = shape_of(op.results[0])
    if shape[1] == 1 or prod(shape[2:]) == 1:
        reshape = kernel.ReshapeOp(sampled, shape)
        conversion.insert(op, reshape)
        copy_name(op.results[0], reshape.result)
        conversion.replace(op, reshape.result)
        return
    space = Space.over(shape)
    first, channel, *rest = space.names
    movement = conversion.launch(op)
    source = Operand(movement.use(sampled, "sampled"), space.access(first, *rest, channel))
    conversion.finish(op, movement, movement.move(space, source, Operand(movement.out, space.identity())))


@converts(graph.RoiAlignOp)
def _roi_align(op: graph.RoiAlignOp, conversion: Conversion) -> None:
    """Points of a bin are dimensions of their own, over which the elements are added up, or the largest is found.

    If how many there are depends on the regions, the run-time function does it.
    """
    if op.samples.value.data == 0:
        parameters: dict[str, Attribute] = {"mode": op.mode, "scale": op.scale}
        if op.half_pixel is not None:
            parameters["half_pixel"] = UnitAttr()
        conversion.call(op, "roi_align", [op.input, op.rois, op.batch_indices], parameters)
        return
    rows = rows_of(op, conversion, 1, 0)
    regions, _, height, width = shape_of(op.result)
    count, element = op.samples.value.data, element_of(op.result)
    work = accumulator(element)
    bins, points = {"r": regions, "ph": height, "pw": width}, {"iy": count, "ix": count}
    where = Space({**bins, **points})
    kept = Space({**bins, "c": rows.channels})
    whole = Space({**kept.bounds, **points})
    launch = conversion.launch(op, [TensorType(element, tuple(kept.bounds.values()))])
    source, rois = launch.use(rows.value, "rows"), launch.use(op.rois, "rois")
    batch = launch.use(op.batch_indices, "batch")
    reads = Reads(launch, where, 4, work)
    images = shape_of(op.input)[0]

    def numbers(s: Scalars, *values: SSAValue) -> Sequence[SSAValue]:
        left, top, right, bottom, image = values[:5]
        along = [
            _points(s, op, where, axis, s.extend(start, work), s.extend(end, work))
            for axis, (start, end) in enumerate(((top, bottom), (left, right)))
        ]
        signed = Scalars(s.block)
        number = signed.cast(image, image.type, i64)
        inside = signed.minimum(signed.maximum(number, s.like(0, number)), s.like(images - 1, number))
        return _combined(s, rows, inside, along)

    corners = [Operand(rois, where.access("r", corner)) for corner in range(4)]
    reads.compute([*corners, Operand(batch, where.access("r"))], numbers)
    is_max = op.mode.data == "max"

    def pool(s: Scalars, *values: SSAValue) -> SSAValue:
        terms, so_far = reads.terms(s, source, position(s, whole, "c"), values), values[-1]
        if not is_max:
            return s.add(so_far, _total(s, terms))
        for term in terms:
            so_far = s.maximum(so_far, term)
        return so_far

    narrow = work != element
    dest = launch.empty(tuple(kept.bounds.values()), work) if narrow else launch.out
    init = launch.filled(float("-inf") if is_max else 0, dest)
    pooled = launch.reduce(whole, reads.operands(whole), Operand(init, whole.access(*kept.names)), pool)

    def finish(s: Scalars, *values: SSAValue) -> SSAValue:
        value = values[0] if is_max else s.div(values[0], s.like(count * count, values[0]))
        return s.truncate(value, element)

    ins = [Operand(pooled, kept.identity())] if narrow else []
    if narrow or not is_max:
        pooled = launch.map(kept, ins, Operand(launch.out if narrow else pooled, kept.identity()), finish)
    _channels_second(op, conversion, launch, pooled)


def _points(
    s: Scalars, op: graph.RoiAlignOp, where: Space, axis: int, start: SSAValue, end: SSAValue
) -> list[Tap]:
    """The neighbours, along an axis, of a point of a bin; their weights are 0 where the point is far outside."""
    size = (get_ints(op.properties, "size") or (1, 1))[axis]
    count, extent = op.samples.value.data, shape_of(op.input)[2 + axis]

    def number(value: float) -> SSAValue:
        return s.like(value, start)

    def dimension(name: str) -> SSAValue:
        return s.emit(arith.SIToFPOp(s.index_cast(position(s, where, name), i64), float_type(start.type)))

    scale, half = number(op.scale.value.data), 0.5 if op.half_pixel is not None else 0.0
    first, last = (s.sub(s.mul(x, scale), number(half)) for x in (start, end))
    length = s.sub(last, first)
    if op.half_pixel is None:
        length = s.maximum(length, number(1))
    bin_size = s.div(length, number(size))
    bin_number, point = (dimension(name) for name in (("ph", "iy") if axis == 0 else ("pw", "ix")))
    at = s.add(first, s.mul(bin_number, bin_size))
    at = s.add(at, s.div(s.mul(s.add(point, number(0.5)), bin_size), number(count)))
    is_valid = s.both(s.compare("ge", at, number(-1)), s.compare("le", at, number(extent)))
    inside = s.emit(arith.MaxnumfOp(at, number(0)))
    inside = s.minimum(inside, number(extent - 1))
    low = _floor(s, inside)
    t = s.sub(inside, low)
    weights = (s.select(is_valid, s.sub(number(1), t), number(0)), s.select(is_valid, t, number(0)))
    places = (low, s.add(low, number(1)))
    return [
        Tap(whole_number(s, place, 0, extent - 1), weight)
        for place, weight in zip(places, weights, strict=True)
    ]


@converts(graph.DeformConvOp)
def _deform_conv(op: graph.DeformConvOp, conversion: Conversion) -> None:
    """The columns are sampled, all taps and channels of a position in a row; a contraction with the weight follows."""
    batch, channels, *spatial = shape_of(op.input)
    features, group_channels, *kernel_size = shape_of(op.weight)
    groups, offset_groups = op.group.value.data, op.offset_group.value.data
    height, width = shape_of(op.result)[2:]
    rows = rows_of(op, conversion, offset_groups, 1)
    element = element_of(op.result)
    work, window = accumulator(element), op.window
    output = {"n": batch, "oh": height, "ow": width}
    taps = dict(zip(("kh", "kw"), kernel_size, strict=True))
    where = Space({**output, **taps, "g": offset_groups})
    whole = Space({**where.bounds, "c": rows.channels})
    launch = conversion.launch(op, [TensorType(work, tuple(whole.bounds.values()))])
    source, offset = launch.use(rows.value, "rows"), launch.use(op.offset, "offset")
    reads = Reads(launch, where, 4, work)
    tap = where["g"] * prod(kernel_size) + where["kh"] * kernel_size[1] + where["kw"]

    def numbers(s: Scalars, *values: SSAValue) -> Sequence[SSAValue]:
        along: list[list[Tap]] = []
        for axis, (o, k) in enumerate((("oh", "kh"), ("ow", "kw"))):
            moved = s.extend(values[axis], work)
            place = where[o] * window.strides[axis] + where[k] * window.dilations[axis] + -window.low[axis]
            at = s.add(moved, s.emit(arith.SIToFPOp(linear_position(s, where, place), float_type(work))))
            along.append(_taps(s, at, spatial[axis], "linear", "zeros", (0, 0), 1))
        image = linear_position(s, where, where["n"] * offset_groups + where["g"])
        found = _combined(s, rows, image, along)
        if op.mask is None:
            return found
        factor = s.extend(values[2], work)
        return [*found[: reads.count], *(s.mul(weight, factor) for weight in found[reads.count :])]

    ins = [Operand(offset, where.access("n", tap * 2 + axis, "oh", "ow")) for axis in (0, 1)]
    if op.mask is not None:
        ins.append(Operand(launch.use(op.mask, "mask"), where.access("n", tap, "oh", "ow")))
    reads.compute(ins, numbers)

    def sample(s: Scalars, *values: SSAValue) -> SSAValue:
        return _total(s, reads.terms(s, source, position(s, whole, "c"), values))

    sampled = launch.map(whole, reads.operands(whole), Operand(launch.out, whole.identity()), sample)
    (columns,) = conversion.insert_launch(op, launch, (), sampled)
    flat = kernel.ReshapeOp(columns, (batch, height, width, *kernel_size, channels))
    conversion.insert(op, flat)

    group_features = features // groups
    outer = {"n": batch, "g": groups, "oc": group_features, "oh": height, "ow": width}
    if groups == 1:
        del outer["g"]
    space = Space({**outer, **taps, "ic": group_channels})
    channel, feature = space["ic"], space["oc"]
    if groups > 1:
        channel, feature = space["g"] * group_channels + channel, space["g"] * group_features + feature
    product_ = conversion.launch(op, [TensorType(element, tuple(outer.values()))])
    a = Operand(product_.use(op.weight, "weight"), space.access(feature, "ic", *taps))
    b = Operand(product_.use(flat.result, "columns"), space.access("n", "oh", "ow", *taps, channel))
    if work != element:
        widened = product_.empty(shape_of(op.weight), work)
        weight_space = Space.over(shape_of(op.weight))

        def widen(s: Scalars, x: SSAValue, _: SSAValue) -> SSAValue:
            return s.extend(x, work)

        wide = product_.map(
            weight_space,
            [Operand(a.value, weight_space.identity())],
            Operand(widened, weight_space.identity()),
            widen,
        )
        a = Operand(wide, a.access)
    dest = product_.out if work == element else product_.empty(tuple(outer.values()), work)
    total = product_.contract(space, a, b, Operand(product_.filled(0, dest), space.access(*outer)))
    finish_reshaped(op, conversion, product_, epilogue(product_, Space(outer), total))
