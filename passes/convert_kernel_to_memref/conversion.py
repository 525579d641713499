"""The pass `convert-kernel-to-memref`: bufferize, outline launches as functions, share equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlopt.diagnostics import PassFailure
from mlopt.dialects import kernel
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.context import CompilerContext
from mlopt.ir.donations import OUTPUT_INDEX, Donation, donations_of
from mlopt.ir.extents import Extent
from mlopt.ir.functions import find_main, only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.names import copy_name, set_name
from mlopt.passes.convert_kernel_to_memref.bufferizer import Bufferizer
from mlopt.passes.convert_kernel_to_memref.emitter import memref_of
from mlopt.passes.convert_kernel_to_memref.module_state import SharedState, erase_unused
from mlopt.passes.convert_kernel_to_memref.operands import is_tensor
from mlopt.passes.convert_kernel_to_memref.placement import Placement, Storage
from mlopt.passmanager import Condition, Pass, no_ops_of
from mlopt.passmanager.conditions import BELOW_GRAPH


class ConvertKernelToMemrefPass(Pass):
    """Turn tensors into buffers, and every distinct `kernel.launch` into one private function.

    `@main` gets a memref argument for each input, weight and output, and no results; what lives in between is a
    `memref.alloc`. An update stays in place where that is proved safe, and is a copy elsewhere; a result is computed
    right in its output wherever its buffer is free for that, or stays in the donated input that it was computed in,
    whose argument then is the output's, too.
    """

    name = "convert-kernel-to-memref"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = BELOW_GRAPH
    ensures: ClassVar[tuple[Condition, ...]] = (no_ops_of("graph", "kernel", "tensor"),)

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        main = find_main(op)
        if main is None:
            raise PassFailure("the module has no function '@main' to convert", place=place_of_op(op))
        if not _has_tensors(main):
            return False
        _verify_convertible(main)
        _verify_alone(op, main)
        _convert(op, main)
        for function in [f for f in op.ops if isinstance(f, func.FuncOp) and not f.is_declaration]:
            ctx.count(self.name, "functions", 0 if function.sym_name.data == "main" else 1)
        return True


def _has_tensors(main: func.FuncOp) -> bool:
    types = [*main.function_type.inputs, *main.function_type.outputs]
    inside = (value for op in main.walk() for value in op.results)
    return any(type.name == "tensor" for type in types) or any(is_tensor(value) for value in inside)


def _verify_convertible(main: func.FuncOp) -> None:
    """`@main` is one block, takes and returns tensors only, and all shapes are static."""
    place = place_of_op(main)
    only_block(main)
    for kind, types in (("argument", main.function_type.inputs), ("result", main.function_type.outputs)):
        for i, type in enumerate(types):
            if not isinstance(type, TensorType):
                raise PassFailure(f"{kind} {i} of '@main' must be a tensor, found {type}", place=place)
    for op in main.walk():
        for value in (
            *op.results,
            *(arg for region in op.regions for block in region.blocks for arg in block.args),
        ):
            if is_tensor(value) and DYNAMIC_INDEX in kernel.tensor_type(value).get_shape():
                raise PassFailure(
                    f"'{op.name}' has a tensor of dynamic shape, {value.type}; bind its dimensions at import",
                    place=place_of_op(op),
                )


def _verify_alone(module: ModuleOp, main: func.FuncOp) -> None:
    """No other function has tensors."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op is not main and not op.is_declaration and _has_tensors(op):
            raise PassFailure(
                f"expected '@main' to be the only function with tensors, found '@{op.sym_name.data}': leave it out, "
                "nothing of this level calls it",
                place=place_of_op(op),
            )


class _Argument(NamedTuple):
    """One argument of the new `@main`."""

    type: Attribute
    name: str | None
    attributes: dict[str, Attribute]


def _convert(module: ModuleOp, main: func.FuncOp) -> None:
    old = main.body.block
    returned = old.last_op
    assert isinstance(returned, func.ReturnOp)
    inputs = [
        _interface_argument("mlopt.input", arg.type, arg.name_hint, attributes, f"arg{i}")
        for i, (arg, attributes) in enumerate(
            zip(old.args, _attributes(main.arg_attrs, old.args), strict=True)
        )
    ]
    weights = _weights(main)
    results = [
        _interface_argument("mlopt.output", value.type, None, attributes, f"result{i}")
        for i, (value, attributes) in enumerate(
            zip(returned.arguments, _attributes(main.res_attrs, returned.arguments), strict=True)
        )
    ]
    donations = donations_of(main)
    placement = Placement(old, [(arg, arg in donations) for arg in old.args if is_tensor(arg)])
    # A result that is computed in a donated input has no argument of its own.
    outputs: list[tuple[SSAValue, _Argument]] = []
    number = 0
    for value, result in zip(returned.arguments, results, strict=True):
        places = (
            i for i, arg in enumerate(old.args) if arg in donations and placement.is_content(value, arg)
        )
        index = next(places, None)
        if index is None or not _joins(inputs[index], result, donations[old.args[index]]):
            outputs.append((value, result))
        else:
            place = {OUTPUT_INDEX: IntegerAttr(number, i64)}
            inputs[index].attributes.update({**result.attributes, **place})
        number += "mlopt.output" in result.attributes
    arguments = [*inputs, *weights.values(), *(output for _, output in outputs)]
    entry = Block(arg_types=[argument.type for argument in arguments])
    for arg, argument in zip(entry.args, arguments, strict=True):
        set_name(arg, argument.name)
        arg.location = main.location

    weight_args = entry.args[len(inputs) : len(inputs) + len(weights)]
    output_args = entry.args[len(inputs) + len(weights) :]
    state = SharedState(module, dict(zip(weights, weight_args, strict=True)))
    bufferizer = Bufferizer(state, placement, entry)
    for arg, new in zip(old.args, entry.args, strict=False):
        copy_name(arg, new)
        bufferizer.bind(arg, new)
    elsewhere = [
        (value, output)
        for (value, _), output in zip(outputs, output_args, strict=True)
        if not bufferizer.forward(value, Storage(writable=True), output)
    ]
    bufferizer.emit_block(old)
    bufferizer.emitter.location = returned.location
    for value, output in elsewhere:
        bufferizer.emitter.copy(bufferizer.values[value], output)
    bufferizer.emitter.add(func.ReturnOp())

    new_main = func.FuncOp(
        "main",
        ([argument.type for argument in arguments], []),
        Region(entry),
        arg_attrs=ArrayAttr([DictionaryAttr(argument.attributes) for argument in arguments]),
    )
    new_main.location = main.location
    erase_unused(new_main)
    block = module.body.block
    block.insert_ops_before([*state.globals, new_main, *state.functions()], main)
    main.detach()
    main.erase()


def _joins(given: _Argument, result: _Argument, donation: Donation) -> bool:
    """Whether a result that lies in a donated input may be that: it has its type, and no other does so already."""
    name = result.attributes.get("mlopt.output")
    return (
        isinstance(name, StringAttr)
        and "mlopt.output" not in given.attributes
        and donation.takes(name.data)
        and given.type == result.type
        and given.attributes.get("mlopt.dtype") == result.attributes.get("mlopt.dtype")
    )


def _attributes(
    attributes: ArrayAttr[DictionaryAttr] | None, values: Sequence[SSAValue]
) -> list[dict[str, Attribute]]:
    if attributes is None:
        return [{} for _ in values]
    return [dict(dictionary.data) for dictionary in attributes]


def _interface_argument(
    kind: str, type: Attribute, hint: str | None, attributes: dict[str, Attribute], default: str
) -> _Argument:
    """An input or output: its exact name moves from `mlopt.name` to `kind`, other attributes stay.

    The extent of an output is an argument without a name.
    """
    extent = Extent.read(attributes)
    if extent is not None:
        return _Argument(memref_of(type), f"{extent.of}_extent", attributes)
    name = attributes.pop("mlopt.name", None)
    if not isinstance(name, StringAttr):
        name = StringAttr(hint or default)
    return _Argument(memref_of(type), hint or name.data, {kind: name, **attributes})


def _weights(main: func.FuncOp) -> dict[str, _Argument]:
    """One argument per weight that a constant of `main` names, in the order of their first use."""
    weights: dict[str, _Argument] = {}
    for op in main.walk():
        if isinstance(op, kernel.ConstantOp) and isinstance(op.value, WeightAttr):
            name = op.value.weight.data
            argument = _Argument(memref_of(op.result.type), name, {"mlopt.weight": StringAttr(name)})
            weights.setdefault(name, argument)
    return weights
