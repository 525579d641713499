"""Inputs whose memory the caller gives up, `mlopt.donated` at the interface of `@main`, and where outputs lie in them.

    func.func @main(%past: tensor<2x16x8xf32> {mlopt.name = "past", mlopt.donated = {output = "present"}}, ...)
        -> (tensor<2x17x8xf32> {mlopt.name = "present"})

What is in a donated input after a run is undefined, but for an output that was placed in it: any output, or only the
one that is named. It has the type of the input, or is longer along one axis, along which the input is a part of it.
`capacity` is how long that axis is in the memory that the caller has for both.

An argument or result that is a part of a larger tensor says which: `mlopt.input_part` and `mlopt.output_part`, each
`{axis, offset, size}`. At the memref level an output that is placed in an input is no argument of its own: the input's
has `mlopt.output`, too, and `mlopt.output_index`, which of the outputs it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from mlopt.diagnostics import InputError, did_you_mean, nearest
from mlopt.ir.locations import place_of_op

DONATED = "mlopt.donated"
INPUT_PART = "mlopt.input_part"
OUTPUT_PART = "mlopt.output_part"
OUTPUT_INDEX = "mlopt.output_index"

FORM = "INPUT, INPUT=OUTPUT or INPUT=OUTPUT@CAPACITY"
"""How a donation is written."""

_T = TypeVar("_T")
_Array = TypeVar("_Array", bound="np.ndarray[Any, Any]")


class Donation(NamedTuple):
    """An input that is donated, by name; to which output alone, if to one; and how long its memory is along the axis
    along which that output is longer (default: as long as the output)."""

    input: str
    output: str | None = None
    capacity: int | None = None

    @classmethod
    def parse(cls, text: str) -> Donation:
        """What a text such as `past=present@64` says; `InputError` if it has not this form."""
        name, equals, target = text.partition("=")
        output, at, number = target.rpartition("@") if "@" in target else (target, "", "")
        is_number = number.isascii() and number.isdigit() and len(number) <= 18
        if not name or (equals and not output) or (at and not is_number):
            raise InputError(f"expected a donation as {FORM}, found '{text}'")
        return cls(name, output or None, int(number) if at else None)

    @classmethod
    def read(cls, name: str, attributes: Mapping[str, Attribute]) -> Donation | None:
        """What the attributes of the input `name` say; None if it is not donated, or not in this form."""
        match attributes.get(DONATED):
            case DictionaryAttr(
                data={"output": StringAttr(data=output), "capacity": IntegerAttr(value=number)}
            ):
                return cls(name, output, number.data)
            case DictionaryAttr(data={"output": StringAttr(data=output), **rest}) if not rest:
                return cls(name, output)
            case DictionaryAttr(data=rest) if not rest:
                return cls(name)
            case _:
                return None

    @property
    def attribute(self) -> DictionaryAttr:
        """The value of `mlopt.donated`."""
        data: dict[str, Attribute] = {}
        if self.output is not None:
            data["output"] = StringAttr(self.output)
        if self.capacity is not None:
            data["capacity"] = IntegerAttr(self.capacity, i64)
        return DictionaryAttr(data)

    def takes(self, output: str) -> bool:
        """Whether that output may be placed in it."""
        return self.output in (None, output)


class AxisPart(NamedTuple):
    """The elements of a tensor or array from `offset` on, `size` of them along `axis`; along other axes all."""

    axis: int
    offset: int
    size: int

    @classmethod
    def read(cls, attributes: Mapping[str, Attribute], key: str) -> AxisPart | None:
        """What the attribute `key` says; None if it is not there, or not in this form."""
        match attributes.get(key):
            case DictionaryAttr(
                data={
                    "axis": IntegerAttr(value=axis),
                    "offset": IntegerAttr(value=offset),
                    "size": IntegerAttr(value=size),
                }
            ):
                return cls(axis.data, offset.data, size.data)
            case _:
                return None

    @property
    def attribute(self) -> DictionaryAttr:
        """The value of `mlopt.input_part` or `mlopt.output_part`."""
        return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in self._asdict().items()})

    def of(self, whole: _Array) -> _Array:
        """The part of an array, as a view."""
        index = (slice(None),) * self.axis + (slice(self.offset, self.offset + self.size),)
        return cast(_Array, whole[index])

    def shape(self, whole: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part, of that of the whole."""
        return (*whole[: self.axis], self.size, *whole[self.axis + 1 :])

    def within(self, other: AxisPart | None) -> AxisPart:
        """The same elements, counted from the beginning of another part that holds them."""
        return self if other is None else self._replace(offset=self.offset - other.offset)


def part_shape(whole: Sequence[int], part: AxisPart | None) -> tuple[int, ...]:
    """The shape of a part, or of the whole if there is none."""
    return tuple(whole) if part is None else part.shape(whole)


def in_order(entries: Iterable[tuple[_T, Mapping[str, Attribute]]]) -> list[_T]:
    """Outputs in the order that the caller sees, each given with the attributes of its argument, in their order."""
    outputs: list[_T] = []
    placed: list[tuple[int, _T]] = []
    for output, attributes in entries:
        match attributes.get(OUTPUT_INDEX):
            case IntegerAttr(value=index):
                placed.append((index.data, output))
            case _:
                outputs.append(output)
    for index, output in sorted(placed, key=lambda pair: pair[0]):
        outputs.insert(index, output)
    return outputs


def appended_axis(given: Attribute, result: Attribute) -> int | None:
    """The only axis along which types differ, if `result` is longer there than `given`; None if there is none."""
    if not isinstance(given, TensorType) or not isinstance(result, TensorType):
        return None
    short, long = cast(TensorType[Attribute], given), cast(TensorType[Attribute], result)
    if short.element_type != long.element_type or short.get_num_dims() != long.get_num_dims():
        return None
    pairs = list(zip(short.get_shape(), long.get_shape(), strict=True))
    axes = [axis for axis, (less, more) in enumerate(pairs) if less != more]
    return axes[0] if len(axes) == 1 and pairs[axes[0]][0] < pairs[axes[0]][1] else None


def donations_of(func: FuncOp) -> dict[SSAValue, Donation]:
    """The arguments of a function that are donated."""
    if func.arg_attrs is None or not func.body.blocks:
        return {}
    found: dict[SSAValue, Donation] = {}
    for argument, name, attributes in zip(func.args, input_names(func), func.arg_attrs, strict=True):
        donation = Donation.read(name, attributes.data)
        if donation is not None:
            found[argument] = donation
    return found


def input_names(func: FuncOp) -> list[str]:
    """The names of the arguments of a function, as the caller sees them."""
    given = func.arg_attrs or [DictionaryAttr({})] * len(func.args)
    return [
        _name(attributes.data, ("mlopt.input", "mlopt.name"), argument.name_hint or f"arg{i}")
        for i, (argument, attributes) in enumerate(zip(func.args, given, strict=True))
    ]


def result_names(func: FuncOp) -> list[str]:
    """The names of the results of a function, as the caller sees them."""
    given = func.res_attrs or [DictionaryAttr({})] * len(func.function_type.outputs)
    return [_name(attributes.data, ("mlopt.name",), f"result{i}") for i, attributes in enumerate(given)]


def set_attribute(func: FuncOp, argument: int, name: str, value: Attribute) -> None:
    """Give an argument of a function an attribute."""
    given = list(func.arg_attrs or [DictionaryAttr({})] * len(func.function_type.inputs))
    given[argument] = DictionaryAttr({**given[argument].data, name: value})
    func.arg_attrs = ArrayAttr(given)


def set_result_attribute(func: FuncOp, result: int, name: str, value: Attribute) -> None:
    """Give a result of a function an attribute."""
    given = list(func.res_attrs or [DictionaryAttr({})] * len(func.function_type.outputs))
    given[result] = DictionaryAttr({**given[result].data, name: value})
    func.res_attrs = ArrayAttr(given)


def donate(main: FuncOp, donations: Sequence[Donation | str]) -> None:
    """Mark the inputs of a function on tensors as donated; `check_donations` tells whether that can be.

    `InputError` for an input that is not there, or is donated twice, and for a model whose buffers are planned.
    """
    if any(isinstance(type_, MemRefType) for type_ in main.function_type.inputs):
        raise InputError(
            "the model is compiled already: donate its inputs when it is", place=place_of_op(main)
        )
    names = input_names(main)
    known = dict(zip(names, range(len(names)), strict=True))
    seen: set[str] = set()
    for one in donations:
        donation = Donation.parse(one) if isinstance(one, str) else one
        if donation.input not in known:
            listed = ", ".join(f'"{name}"' for name in names) or "none"
            raise InputError(
                f'there is no input "{donation.input}" to donate; expected {listed}'
                f"{did_you_mean(nearest(donation.input, names))}"
            )
        if donation.input in seen:
            raise InputError(f'input "{donation.input}" is donated twice')
        seen.add(donation.input)
        set_attribute(main, known[donation.input], DONATED, donation.attribute)


# Checks


def check_donations(
    main: FuncOp, arguments: Sequence[Mapping[str, Attribute]], results: Sequence[Mapping[str, Attribute]]
) -> None:
    """Raise `InputError` for donations and parts that can't be.

    - `mlopt.donated` is on inputs, in its form; a named output is there, is named by one input only, and has the type
      of the input or is longer along one axis; a capacity goes with the latter, and is no less than that.
    - A part lies inside its tensor or buffer. Only a donated input is an output, too.
    """
    place = place_of_op(main)
    types = [*main.function_type.inputs, *main.function_type.outputs]
    for type_, attributes in zip(types, (*arguments, *results), strict=True):
        for key in (INPUT_PART, OUTPUT_PART):
            if key in attributes:
                _check_part(main, key, type_, attributes)
        if "mlopt.input" in attributes and "mlopt.output" in attributes and DONATED not in attributes:
            raise InputError(
                f"an argument of @main is input {attributes['mlopt.input']} and output {attributes['mlopt.output']}, "
                f"expected {DONATED} on it",
                place=place,
            )
    if any(DONATED in attributes for attributes in results):
        raise InputError(f"expected {DONATED} on an input, found it on a result", place=place)
    if any(DONATED in attributes for attributes in arguments):
        _check_donated(main, arguments, results)


def _check_donated(
    main: FuncOp, arguments: Sequence[Mapping[str, Attribute]], results: Sequence[Mapping[str, Attribute]]
) -> None:
    place = place_of_op(main)
    outputs = {
        _name(attributes, ("mlopt.name",), f"result{i}"): (type_, attributes)
        for i, (type_, attributes) in enumerate(zip(main.function_type.outputs, results, strict=True))
    }
    takers: dict[str, str] = {}
    names = input_names(main)
    for name, type_, attributes in zip(names, main.function_type.inputs, arguments, strict=True):
        if DONATED not in attributes:
            continue
        donation = Donation.read(name, attributes)
        if isinstance(type_, MemRefType):
            if donation is None or "mlopt.input" not in attributes:
                raise InputError(
                    f"expected {DONATED} = {{output = NAME, capacity = N}} on an input, found {attributes[DONATED]}",
                    place=place,
                )
            continue
        if donation is None:
            raise InputError(
                f"expected {DONATED} = {{output = NAME, capacity = N}}, found {attributes[DONATED]}",
                place=place,
            )
        if donation.output is None:
            continue
        if donation.output not in outputs:
            listed = ", ".join(f'"{other}"' for other in outputs) or "none"
            raise InputError(
                f'there is no output "{donation.output}" to donate input "{name}" to; expected {listed}',
                place=place,
            )
        if donation.output in takers:
            raise InputError(
                f'inputs "{takers[donation.output]}" and "{name}" are both donated to output "{donation.output}"',
                place=place,
            )
        takers[donation.output] = name
        if INPUT_PART not in attributes:
            _check_types(main, donation, (type_, attributes), outputs[donation.output])


def _check_types(
    main: FuncOp,
    donation: Donation,
    given: tuple[Attribute, Mapping[str, Attribute]],
    result: tuple[Attribute, Mapping[str, Attribute]],
) -> None:
    place = place_of_op(main)
    of = f'input "{donation.input}" of type {given[0]}'
    to = f'output "{donation.output}" of type {result[0]}'
    same_dtype = given[1].get("mlopt.dtype") == result[1].get("mlopt.dtype")
    if given[0] == result[0] and same_dtype:
        if donation.capacity is not None:
            raise InputError(
                f"a capacity goes with an output that is longer than its input, found {of} and {to}"
            )
        return
    axis = appended_axis(given[0], result[0])
    if axis is None or not same_dtype:
        raise InputError(
            f"{of} can't be donated to {to}, which would have to be of the same type, or longer along one axis",
            place=place,
        )
    assert isinstance(result[0], TensorType)
    size = result[0].get_shape()[axis]
    if donation.capacity is not None and donation.capacity < size:
        raise InputError(
            f'the capacity {donation.capacity} for output "{donation.output}" is less than its size, {size} along '
            f"axis {axis}",
            place=place,
        )


def _check_part(main: FuncOp, key: str, type_: Attribute, attributes: Mapping[str, Attribute]) -> None:
    part = AxisPart.read(attributes, key)
    shape = type_.get_shape() if isinstance(type_, TensorType | MemRefType) else ()
    if (
        part is None
        or not 0 <= part.axis < len(shape)
        or min(part.offset, part.size) < 0
        or part.offset + part.size > shape[part.axis]
    ):
        raise InputError(
            f"expected {key} = {{axis, offset, size}} inside of {type_}, found {attributes[key]}",
            place=place_of_op(main),
        )


def _name(attributes: Mapping[str, Attribute], keys: Sequence[str], default: str) -> str:
    for key in keys:
        name = attributes.get(key)
        if isinstance(name, StringAttr):
            return name.data
    return default
