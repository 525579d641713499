"""`place-outputs`: an output takes the memory of a donated input that is not used any more when it is first written.

What is computed from a donated input in place lies in it already when bufferization is done. This pass looks at the
donated inputs in which no output lies, and at the outputs of the same type and size, in order: those that an input is
donated to by name, and where none is named any. Input and output become one argument of `@main` if

1. the output is accessed by ops and calls only (control flow may hand neither of them on);
2. the last access of the input, loops as a whole, is before the first of the output.

No buffer of the arena lives longer for it.

Reports a remark for each input that is donated: what lies in it ("... is donated: ..."), or why
nothing does ("... not used: ...").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, BlockArgument, Operation

from mlopt.ir.context import CompilerContext
from mlopt.ir.donations import (
    DONATED,
    INPUT_PART,
    OUTPUT_INDEX,
    OUTPUT_PART,
    Donation,
    in_order,
)
from mlopt.ir.functions import find_main
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.memref.accesses import Accesses, written_arguments
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import MEMREF_LEVEL


class PlaceOutputsPass(Pass):
    """Let outputs take the memory of donated inputs that are not used any more: see the module's documentation."""

    name = "place-outputs"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = MEMREF_LEVEL
    ensures: ClassVar = MEMREF_LEVEL
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = {"place-output": "An output takes the memory of a donated input."}

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        main = find_main(op)
        if main is None or main.is_declaration or main.arg_attrs is None:
            return False
        changed = False
        written = written_arguments(op)
        for given in [arg for arg, attributes in _arguments(main) if DONATED in attributes]:
            changed |= _place(ctx, main, written, given)
        return changed


def _arguments(main: func.FuncOp) -> list[tuple[BlockArgument, Mapping[str, Attribute]]]:
    assert main.arg_attrs is not None
    return [(arg, entry.data) for arg, entry in zip(main.args, main.arg_attrs, strict=True)]


def _place(
    ctx: CompilerContext, main: func.FuncOp, written: Mapping[str, frozenset[int]], given: BlockArgument
) -> bool:
    """Let an output take the memory of `given`, the first for which that is proved; reports what lies in it."""
    attributes = dict(_arguments(main))[given]
    name = _text(attributes, "mlopt.input")
    donation = Donation.read(name, attributes)
    if donation is None:
        return False
    changed = False
    if "mlopt.output" not in attributes:
        obstacle: str | None = None
        for output, entries in _arguments(main):
            if not _fits(donation, (given, attributes), (output, entries)):
                continue
            found = _obstacle(main, written, given, output)
            if found is None and may_rewrite("place-output", main):
                _unite(main, given, output)
                changed = True
                break
            obstacle = obstacle or (
                found and f'output "{_text(entries, "mlopt.output")}" can\'t lie in it: {found}'
            )
        if not changed:
            reason = obstacle or "no output that it is donated to has its type and size"
            ctx.remark(
                PlaceOutputsPass.name, "missed", f'input "{name}" is donated, not used: {reason}', main
            )
            ctx.count(PlaceOutputsPass.name, "near-misses")
            return False
    output_name = _text(dict(_arguments(main))[given], "mlopt.output")
    how = "it is a part of" if INPUT_PART in attributes else "in it is"
    message = f'input "{name}" is donated: {how} output "{output_name}"'
    ctx.remark(PlaceOutputsPass.name, "passed", message, main)
    ctx.count(PlaceOutputsPass.name, "outputs-placed", int(changed))
    return changed


def _fits(
    donation: Donation,
    given: tuple[BlockArgument, Mapping[str, Attribute]],
    output: tuple[BlockArgument, Mapping[str, Attribute]],
) -> bool:
    """Whether an output of its own has the type of a donated input, and may be placed in it."""
    name = output[1].get("mlopt.output")
    return (
        isinstance(name, StringAttr)
        and "mlopt.input" not in output[1]
        and donation.takes(name.data)
        and given[0].type == output[0].type
        and given[1].get("mlopt.dtype") == output[1].get("mlopt.dtype")
        and not any(
            key in attributes for key in (INPUT_PART, OUTPUT_PART) for attributes in (given[1], output[1])
        )
    )


def _obstacle(
    main: func.FuncOp, written: Mapping[str, frozenset[int]], given: BlockArgument, output: BlockArgument
) -> str | None:
    """Why an output can't take the memory of an input, if so."""
    accesses = Accesses(main, written)
    reads, writes = accesses.of(given), accesses.of(output)
    if reads is None or writes is None:
        return "control flow passes one of them on"
    block = main.body.block
    first = min((accesses.begin(accesses.in_block(access.op, block)) for access in writes), default=None)
    for access in reads:
        around = accesses.in_block(access.op, block)
        if first is None or accesses.end(around) < first:
            continue
        return f"the input is still used by {_described(access.op)} when that is written"
    return None


def _unite(main: func.FuncOp, given: BlockArgument, output: BlockArgument) -> None:
    """Make input and output one argument, which is both."""
    arguments = _arguments(main)
    entries = {argument: dict(attributes) for argument, attributes in arguments}
    names = [(argument, attributes) for argument, attributes in arguments if "mlopt.output" in attributes]
    position = in_order(names).index(output)
    entries[given].update({**entries.pop(output), OUTPUT_INDEX: IntegerAttr(position, i64)})
    output.replace_all_uses_with(given)
    main.body.block.erase_arg(output)
    main.arg_attrs = ArrayAttr([DictionaryAttr(attributes) for attributes in entries.values()])
    main.update_function_type()


def _described(op: Operation) -> str:
    return f"'{op.callee.string_value()}'" if isinstance(op, func.CallOp) else f"'{op.name}'"


def _text(attributes: Mapping[str, Attribute], key: str) -> str:
    value = attributes.get(key)
    return value.data if isinstance(value, StringAttr) else ""
