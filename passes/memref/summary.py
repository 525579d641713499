"""What a finished memory plan costs, read from the memref-level IR."""

from __future__ import annotations

from math import prod
from typing import NamedTuple, cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, BlockArgument, SSAValue

from mlopt.diagnostics import VerifyFailure
from mlopt.ir.donations import INPUT_PART, AxisPart, donations_of, part_shape
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.functions import find_main
from mlopt.ir.locations import place_of_op
from mlopt.ir.memory_spaces import ARENA_SPACE, SPILL_SPACE, space_of
from mlopt.memory import OPTIMAL, Buffer, max_live, status_of
from mlopt.passes.memref.verify_plan import base_arguments, byte_size, placed_buffers, smallest_bytes


class SpaceSummary(NamedTuple):
    """Bytes of the buffers in an arena other than the first, every buffer rounded up to its alignment; 0 for none.

    - `no_reuse_bytes`: the sum of all buffers.
    - `max_live_bytes`: the most that lives at one moment: no plan for this order can be smaller.
    - `arena_bytes`: the size of the arena.
    - `moved_bytes`: what copies from and to it move in one run, each counted once.
    - `status`: as in `MemorySummary`.
    """

    no_reuse_bytes: int
    max_live_bytes: int
    arena_bytes: int
    moved_bytes: int
    status: str


NOTHING_SPILLED = SpaceSummary(0, 0, 0, 0, OPTIMAL)


class MemorySummary(NamedTuple):
    """Bytes of the planned buffers, every buffer rounded up to its alignment.

    - `no_reuse_bytes`: the sum of all tensors.
    - `max_live_bytes`: the most that tensors alone take at one moment: no plan for this order can be smaller.
    - `workspace_bytes`: by how much the workspaces raise that peak.
    - `arena_bytes`: the size of the arena, workspaces included. So `arena_bytes - workspace_bytes` compares with
      `max_live_bytes`; what it has more is fragmentation.
    - `status`: `optimal (max-live)` if there is no fragmentation, which proves the plan to be the smallest;
      `optimal (proved)` if `assign-buffers` proved it to be; else `gap`.
    - `spill`: the arena of memory space 1, to which `fit-memory` copies what does not fit. All other figures are about
      memory space 0.
    """

    no_reuse_bytes: int
    max_live_bytes: int
    arena_bytes: int
    workspace_bytes: int
    status: str
    spill: SpaceSummary = NOTHING_SPILLED


class DonatedMemory(NamedTuple):
    """What became of a donated input: its bytes, the output that lies in its memory, and those of the memory of both.

    `part`: the part of the output that the input is, None for all of it, or if no output lies there.
    """

    input: str
    nbytes: int
    output: str | None
    memory_bytes: int
    part: AxisPart | None


def donated_memory(module: ModuleOp) -> list[DonatedMemory]:
    """The donated inputs of a memref-level module, in order."""
    main = find_main(module)
    found: list[DonatedMemory] = []
    for argument, donation in () if main is None else donations_of(main).items():
        assert main is not None and isinstance(argument, BlockArgument) and main.arg_attrs is not None
        attributes = main.arg_attrs.data[argument.index].data
        output, part = attributes.get("mlopt.output"), AxisPart.read(attributes, INPUT_PART)
        type_ = cast(MemRefType[Attribute], argument.type)
        shape, itemsize = type_.get_shape(), to_numpy_dtype(type_.element_type).itemsize
        found.append(
            DonatedMemory(
                donation.input,
                prod(part_shape(shape, part)) * itemsize,
                output.data if isinstance(output, StringAttr) else None,
                prod(shape) * itemsize,
                part,
            )
        )
    return found


def memory_summary(module: ModuleOp, alignment: int = 64) -> MemorySummary:
    """Sum up the plan of a module after `assign-buffers`; `VerifyFailure` if `@main` has no arena."""
    main = find_main(module)
    arenas = {} if main is None else arenas_of(main)
    if main is None or ARENA_SPACE not in arenas:
        raise VerifyFailure("the module has no '@main' with an arena", place=place_of_op(module))
    arena = arenas[ARENA_SPACE]
    placed = placed_buffers(main, arena)
    everything = [Buffer(f"{i}", b.first, b.last + 1, b.size, alignment) for i, b in enumerate(placed)]
    tensors = [buffer for buffer, place in zip(everything, placed, strict=True) if not place.is_workspace]
    arena_bytes = byte_size(arena)
    peak, tensor_peak = max_live(everything), max_live(tensors)
    return MemorySummary(
        no_reuse_bytes=sum(buffer.footprint for buffer in tensors),
        max_live_bytes=tensor_peak,
        arena_bytes=arena_bytes,
        workspace_bytes=peak - tensor_peak,
        status=status_of(arena_bytes, peak, smallest_bytes(arena)),
        spill=_spill(main, arenas[SPILL_SPACE], alignment) if SPILL_SPACE in arenas else NOTHING_SPILLED,
    )


def arenas_of(main: func.FuncOp) -> dict[int, SSAValue]:
    """The arenas of `@main` by memory space."""
    return {space_of(base.type): base for base in base_arguments(main)}


def _spill(main: func.FuncOp, arena: SSAValue, alignment: int) -> SpaceSummary:
    buffers = [
        Buffer(f"{i}", b.first, b.last + 1, b.size, alignment)
        for i, b in enumerate(placed_buffers(main, arena))
    ]
    peak, nbytes = max_live(buffers), byte_size(arena)
    copies = (op for op in main.walk() if isinstance(op, memref.CopyOp))
    moved = sum(
        byte_size(op.source)
        for op in copies
        if SPILL_SPACE in (space_of(op.source.type), space_of(op.destination.type))
    )
    return SpaceSummary(
        no_reuse_bytes=sum(buffer.footprint for buffer in buffers),
        max_live_bytes=peak,
        arena_bytes=nbytes,
        moved_bytes=moved,
        status=status_of(nbytes, peak, smallest_bytes(arena)),
    )
