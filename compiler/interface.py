"""What `@main` must be, so that it can be compiled and run: names, types and sizes of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from mlopt.diagnostics import InputError, VerifyFailure
from mlopt.ir.donations import check_donations
from mlopt.ir.extents import EXTENT, Extent
from mlopt.ir.functions import only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.memory_spaces import ARENA_SPACE, space_of

MAX_ELEMENTS = 2**36
"""What a tensor may have: 256 GiB of f32. Plans are made tile by tile, so a larger one could not be planned for."""

_ARGUMENT_NAMES = {"mlopt.name": "input", "mlopt.input": "input", "mlopt.output": "output"}
_RESULT_NAMES = {"mlopt.name": "output"}


def argument_attributes(func: FuncOp) -> list[dict[str, Attribute]]:
    """The attributes of each argument of a function, in order."""
    return _attributes(func.arg_attrs, len(func.function_type.inputs))


def result_attributes(func: FuncOp) -> list[dict[str, Attribute]]:
    """The attributes of each result of a function, in order."""
    return _attributes(func.res_attrs, len(func.function_type.outputs))


def check_interface(module: ModuleOp, main: FuncOp) -> None:
    """Raise `InputError` for an interface that no caller could use (`VerifyFailure` for branches).

    - Every function is one block.
    - All arguments are tensors, or all of them buffers (memref), whole and in row-major order.
    - Names of inputs, and of outputs, are distinct strings.
    - There is at most one arena in each memory space, of bytes; if there is any, then one in space 0.
    - What lies in memory is an argument and no result.
    - `mlopt.dtype` gives a whole number its sign, a byte also a width of 4 or 2 bits, and nothing else.
    - `mlopt.extent` is on a single i64, and names an output and an axis of it, no two the same output.
    - What is donated can be (`mlopt.ir.donations.check_donations`).
    - No tensor or buffer in the module has more than `MAX_ELEMENTS` elements.
    """
    for op in module.ops:
        if isinstance(op, FuncOp) and not op.is_declaration:
            only_block(op)
    arguments = argument_attributes(main)
    results = result_attributes(main)
    _check_names(main, (*_named(arguments, _ARGUMENT_NAMES), *_named(results, _RESULT_NAMES)))
    types = (*main.function_type.inputs, *main.function_type.outputs)
    _check_types(main)
    for type_, attributes in zip(types, (*arguments, *results), strict=True):
        _check_dtype(main, type_, attributes)
    arenas = [
        type_
        for type_, attributes in zip(main.function_type.inputs, arguments, strict=True)
        if "mlopt.arena" in attributes
    ]
    _check_arenas(main, arenas)
    if any(isinstance(type_, MemRefType) for type_ in main.function_type.outputs):
        raise InputError(
            "expected outputs in memory as arguments of @main, found a memref as its result",
            place=place_of_op(main),
        )
    _check_extents(main, arguments, results)
    check_donations(main, arguments, results)
    _check_sizes(module, main)


def _check_arenas(main: FuncOp, arenas: Sequence[Attribute]) -> None:
    wrong = next((type_ for type_ in arenas if _bits(type_) != 8), None)
    if wrong is not None:
        raise InputError(f"expected an arena of bytes (memref<Nxi8>), found {wrong}", place=place_of_op(main))
    try:
        spaces = [space_of(type_) for type_ in arenas]
    except VerifyFailure as error:
        raise InputError(error.message, place=place_of_op(main)) from None
    twice = next((space for space in spaces if spaces.count(space) > 1), None)
    if twice is not None:
        raise InputError(
            f"expected one arena in memory space {twice}, found {spaces.count(twice)}",
            place=place_of_op(main),
        )
    if spaces and ARENA_SPACE not in spaces:
        raise InputError(
            f"expected an arena in memory space {ARENA_SPACE}, where kernels work, found one in {spaces[0]}",
            place=place_of_op(main),
        )


def _attributes(given: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    if given is None:
        return [{} for _ in range(count)]
    return [dict(attributes.data) for attributes in given]


def _named(entries: Sequence[dict[str, Attribute]], keys: dict[str, str]) -> list[tuple[str, Attribute]]:
    """Kind and name of each argument or result that has one."""
    return [(kind, entry[key]) for entry in entries for key, kind in keys.items() if key in entry]


def _check_names(main: FuncOp, named: Sequence[tuple[str, Attribute]]) -> None:
    seen: set[tuple[str, str]] = set()
    for kind, name in named:
        if not isinstance(name, StringAttr):
            raise InputError(
                f"expected a string as the name of an {kind}, found {name}", place=place_of_op(main)
            )
        if (kind, name.data) in seen:
            raise InputError(f"the function @main has two {kind}s '{name.data}'", place=place_of_op(main))
        seen.add((kind, name.data))


def _check_extents(
    main: FuncOp, arguments: Sequence[dict[str, Attribute]], results: Sequence[dict[str, Attribute]]
) -> None:
    """Extents, which are results of tensors and arguments of buffers, are numbers that say what of."""
    in_memory = any("mlopt.output" in attributes for attributes in arguments)
    types = main.function_type.inputs if in_memory else main.function_type.outputs
    entries = list(zip(types, arguments if in_memory else results, strict=True))
    outputs = {
        name.data: type_
        for type_, attributes in entries
        for key in ("mlopt.name", "mlopt.output")
        if isinstance(name := attributes.get(key), StringAttr)
    }
    for type_, attributes in entries:
        if EXTENT not in attributes:
            continue
        extent = Extent.read(attributes)
        whole = None if extent is None else outputs.pop(extent.of, None)
        is_number = type_ in (TensorType(i64, []), MemRefType(i64, []))
        if extent is None or not isinstance(whole, TensorType | MemRefType) or not is_number:
            raise InputError(
                f"expected an i64 that is the extent {{of = OUTPUT, axis = N}} of an output, found {type_} with "
                f"{EXTENT} = {attributes[EXTENT]}",
                place=place_of_op(main),
            )
        if not 0 <= extent.axis < len(whole.get_shape()):
            raise InputError(
                f'output "{extent.of}" has no axis {extent.axis}: it is {whole}', place=place_of_op(main)
            )


def _check_types(main: FuncOp) -> None:
    inputs, outputs = main.function_type.inputs.data, main.function_type.outputs.data
    in_memory = any(type_.name in ("memref", "unranked_memref") for type_ in inputs)
    what = "a memref of static shape in row-major order" if in_memory else "a tensor"
    for kind, types in (("argument", inputs), ("result", outputs)):
        for position, type_ in enumerate(types):
            fits = _is_row_major(type_) if in_memory else _is_plain_tensor(type_)
            if not fits and not (in_memory and kind == "result"):
                raise InputError(
                    f"{kind} {position} of @main has the type {type_}, expected {what}",
                    place=place_of_op(main),
                )


def _is_plain_tensor(type_: Attribute) -> bool:
    return isinstance(type_, TensorType) and isinstance(type_.encoding, NoneAttr)


def _is_row_major(type_: Attribute) -> bool:
    """Whether the elements of a buffer lie without gaps from its start, the last index fastest."""
    if not isinstance(type_, MemRefType) or not type_.has_static_shape():
        return False
    if isinstance(type_.layout, NoneAttr):
        return True
    strides = type_.get_strides()
    if strides is None or not isinstance(type_.layout, StridedLayoutAttr):
        return False
    step = 1
    for extent, stride in zip(reversed(type_.get_shape()), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return type_.layout.get_offset() == 0


def _check_dtype(main: FuncOp, type_: Attribute, attributes: dict[str, Attribute]) -> None:
    declared = attributes.get("mlopt.dtype")
    if declared is None:
        return
    bits = _bits(type_)
    allowed = [f"uint{bits}", *(("int4", "uint4", "int2", "uint2") if bits == 8 else ())]
    if not isinstance(declared, StringAttr) or declared.data not in allowed:
        found = f'"{declared.data}"' if isinstance(declared, StringAttr) else declared
        narrow = " or one of 4 or 2 bits," if bits == 8 else ""
        raise InputError(
            f"expected the unsigned integer of the same width{narrow} as the mlopt.dtype of {type_}, found {found}",
            place=place_of_op(main),
        )


def _bits(type_: Attribute) -> int:
    """The width of the integers that a tensor or buffer holds; 0 if it holds none."""
    if not isinstance(type_, MemRefType | TensorType):
        return 0
    element = cast(MemRefType[Attribute] | TensorType[Attribute], type_).element_type
    return element.bitwidth if isinstance(element, IntegerType) and element.bitwidth > 1 else 0


def _check_sizes(module: ModuleOp, main: FuncOp) -> None:
    for type_ in main.function_type.inputs:
        _check_size(main, type_)
    for op in module.walk():
        for type_ in op.result_types:
            _check_size(op, type_)


def _check_size(op: Operation, type_: Attribute) -> None:
    if isinstance(type_, MemRefType | TensorType) and (count := prod(type_.get_shape())) > MAX_ELEMENTS:
        message = f"{type_} is too large: expected at most {MAX_ELEMENTS} elements, found {count}"
        raise InputError(message, place=place_of_op(op))
