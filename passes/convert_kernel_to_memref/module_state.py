"""What all functions of a module share: globals for constants and windows, one function per distinct launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    LocationAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlopt.diagnostics import PassFailure
from mlopt.dialects import kernel
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.effects import is_dead
from mlopt.ir.locations import fuse_locations, place_of_op
from mlopt.ir.names import copy_name
from mlopt.passes.convert_kernel_to_memref.bufferizer import Bufferizer
from mlopt.passes.convert_kernel_to_memref.emitter import AnyMemRef, Emitter, memref_of, type_of
from mlopt.passes.convert_kernel_to_memref.operands import is_tensor
from mlopt.passes.convert_kernel_to_memref.placement import Placement

Key = tuple[object, ...]
"""What makes two launches the same function: see `structural_key`."""


@dataclass
class _Function:
    """A function made from launches, and where those stood."""

    op: func.FuncOp
    locations: list[LocationAttr]


class SharedState:
    """Globals and functions made so far; `weights` maps the names of weights to `@main`'s arguments."""

    def __init__(self, module: ModuleOp, weights: Mapping[str, SSAValue]):
        self.weights = weights
        self.globals: list[memref.GlobalOp] = []
        self._names = {str(name.data) for op in module.ops if (name := _symbol_name(op)) is not None}
        self._constants: dict[Attribute, str] = {}
        self._shapes: dict[Attribute, str] = {}
        self._functions: dict[Key, _Function] = {}

    def functions(self) -> Iterator[func.FuncOp]:
        """The functions in the order of their first calls, located where the launches were."""
        for function in self._functions.values():
            function.op.location = fuse_locations(function.locations)
            yield function.op

    def constant(self, emitter: Emitter, op: kernel.ConstantOp) -> SSAValue:
        """The buffer of a constant: an argument of `@main` for a weight, else a global."""
        type = memref_of(op.result.type)
        if isinstance(op.value, WeightAttr):
            if isinstance(op.parent_op(), kernel.LaunchOp):
                raise PassFailure(
                    f"weight '{op.value.weight.data}' stands inside a kernel.launch, which takes weights as operands",
                    place=place_of_op(op),
                )
            return emitter.reshape(self.weights[op.value.weight.data], type.get_shape())
        if op.value not in self._constants:
            name = self._unique(f"constant_{_shape_suffix(type)}")
            self._constants[op.value] = name
            self._add_global(name, type, op.value, UnitAttr())
        return emitter.add(memref.GetGlobalOp(self._constants[op.value], type)).memref

    def shape_operand(self, emitter: Emitter, shape: Sequence[int], element: Attribute) -> SSAValue:
        """An uninitialised global that only states the extents of window dimensions."""
        type = MemRefType(element, shape)
        if type not in self._shapes:
            name = self._unique(f"window_{_shape_suffix(type)}")
            self._shapes[type] = name
            self._add_global(name, type, UnitAttr(), None)
        return emitter.add(memref.GetGlobalOp(self._shapes[type], type)).memref

    def call(self, emitter: Emitter, op: kernel.SymbolicKernel, arguments: Sequence[SSAValue]) -> None:
        """Call the function that all launches like `op` share, or declare and call a run-time function.

        A launch may be given a slice of a buffer; its function then takes any with these strides.
        """
        if isinstance(op, kernel.LaunchOp):
            arguments = [_anywhere(emitter, argument) for argument in arguments]
        else:
            arguments = [_contiguous(emitter, argument) for argument in arguments]
        key = (structural_key(op), *(argument.type for argument in arguments))
        if key not in self._functions:
            name = self._unique(op.kernel_name.data)
            types = [argument.type for argument in arguments]
            made = self._outline(op, name, types) if isinstance(op, kernel.LaunchOp) else _declare(op, name)
            self._functions[key] = _Function(made, [])
        function = self._functions[key]
        function.locations.append(op.location)
        emitter.add(func.CallOp(function.op.sym_name.data, arguments, []))

    def _outline(self, op: kernel.LaunchOp, name: str, types: Sequence[Attribute]) -> func.FuncOp:
        entry = Block(arg_types=types)
        tensors = [(arg, arg in op.out_args) for arg in op.body.args if is_tensor(arg)]
        slices = [arg for arg, new in zip(op.body.args, entry.args, strict=True) if _is_slice(new)]
        bufferizer = Bufferizer(self, Placement(op.body, tensors, slices), entry)
        for arg, new in zip(op.body.args, entry.args, strict=True):
            copy_name(arg, new)
            new.location = arg.location
            if is_tensor(arg):
                bufferizer.bind(arg, new)
            else:
                bufferizer.values[arg] = new
        for value, arg in zip(op.yielded, op.out_args, strict=True):
            if arg.first_use is None:
                bufferizer.forward(value, bufferizer.placement.storage(arg), bufferizer.values[arg])
        bufferizer.emit_block(op.body)
        bufferizer.emit_copies(zip(op.yielded, op.out_args, strict=True))
        bufferizer.emitter.add(func.ReturnOp())
        function = func.FuncOp(name, (types, []), Region(entry), visibility="private")
        erase_unused(function)
        return function

    def _add_global(self, name: str, type: Attribute, value: Attribute, constant: UnitAttr | None) -> None:
        self.globals.append(memref.GlobalOp.get(StringAttr(name), type, value, constant=constant))

    def _unique(self, name: str) -> str:
        candidate, number = name, 0
        while candidate in self._names:
            number += 1
            candidate = f"{name}_{number}"
        self._names.add(candidate)
        return candidate


def _is_slice(buffer: SSAValue) -> bool:
    return isinstance(buffer.type, MemRefType) and isinstance(type_of(buffer).layout, StridedLayoutAttr)


def _anywhere(emitter: Emitter, buffer: SSAValue) -> SSAValue:
    """A slice as one at an offset that its type does not say."""
    if not _is_slice(buffer):
        return buffer
    type = type_of(buffer)
    assert isinstance(type.layout, StridedLayoutAttr)
    moved = MemRefType(type.element_type, type.shape, StridedLayoutAttr(type.layout.strides, NoneAttr()))
    return buffer if type == moved else emitter.add(memref.CastOp.get(buffer, moved)).dest


def _contiguous(emitter: Emitter, buffer: SSAValue) -> SSAValue:
    """A slice as a buffer of its own."""
    if not _is_slice(buffer):
        return buffer
    type = type_of(buffer)
    copy = emitter.alloc(TensorType(type.element_type, type.shape))
    emitter.copy(buffer, copy)
    return copy


def structural_key(op: kernel.SymbolicKernel) -> Key:
    """Equal for launches (or calls) that do the same to operands of the same types.

    Names of the kernel, of dimensions and of values, and locations, are no part of it.
    """
    return (
        op.kernel_name.data if isinstance(op, kernel.CallOp) else None,
        len(op.ins),
        tuple(operand.type for operand in op.operands),
        tuple(sorted(op.attributes.items())),
        tuple(_region_key(region, {}) for region in op.regions),
    )


_COSMETIC = frozenset({"dim_names", "kernel_name"})


def _region_key(region: Region, numbers: dict[SSAValue, int]) -> Key:
    blocks: list[Key] = []
    for block in region.blocks:
        for arg in block.args:
            numbers[arg] = len(numbers)
        ops: list[Key] = [_op_key(op, numbers) for op in block.ops]
        blocks.append((tuple(arg.type for arg in block.args), tuple(ops)))
    return tuple(blocks)


def _op_key(op: Operation, numbers: dict[SSAValue, int]) -> Key:
    properties = [(name, value) for name, value in sorted(op.properties.items()) if name not in _COSMETIC]
    key = (
        op.name,
        tuple(numbers[operand] for operand in op.operands),
        tuple(result.type for result in op.results),
        tuple(properties),
        tuple(sorted(op.attributes.items())),
        tuple(_region_key(region, numbers) for region in op.regions),
    )
    for result in op.results:
        numbers[result] = len(numbers)
    return key


def erase_unused(function: func.FuncOp) -> None:
    """Erase buffers and views that nothing uses."""
    for op in reversed(list(function.walk())):
        if is_dead(op) and any(isinstance(result.type, MemRefType) for result in op.results):
            op.detach()
            op.erase()


def _declare(op: kernel.SymbolicKernel, name: str) -> func.FuncOp:
    """The declaration of a run-time function: its name, its parameters, and which operands it writes."""
    types = [memref_of(value.type) if is_tensor(value) else value.type for value in op.operands]
    declaration = func.FuncOp.external(name, types, [])
    declaration.attributes["mlopt.runtime"] = StringAttr(op.kernel_name.data)
    written = range(len(op.ins), len(op.operands))
    declaration.attributes["mlopt.written"] = DenseArrayBase.from_list(i64, list(written))
    if op.attributes:
        declaration.attributes["mlopt.parameters"] = DictionaryAttr(op.attributes)
    return declaration


def _shape_suffix(type: AnyMemRef) -> str:
    return "x".join([*map(str, type.get_shape()), str(type.element_type)])


def _symbol_name(op: Operation) -> StringAttr | None:
    name = op.properties.get("sym_name")
    return name if isinstance(name, StringAttr) else None
