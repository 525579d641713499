"""A memory plan as it is shown: every buffer with its name and, where it comes from a model, its ONNX nodes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mlopt.compilation import main_function
from mlopt.diagnostics import InputError, Place, VerifyFailure
from mlopt.ir.locations import node_names, place_of_op
from mlopt.ir.memory_spaces import ARENA_SPACE, SPILL_SPACE
from mlopt.memory import Buffer, max_live
from mlopt.memory.csv_format import BufferTable, read_buffers
from mlopt.passes.memref.summary import arenas_of
from mlopt.passes.memref.verify_plan import byte_size, placed_buffers


@dataclass(frozen=True)
class PlannedBuffer:
    """A buffer of the arena.

    - `buffer`: its lifetime in moments (ops of `@main`), bytes and alignment; the id is its name in the printed IR.
    - `offset`: where it lies, in bytes.
    - `type`: `32x128xf32`; for a workspace its bytes.
    - `nodes`: the nodes of the model that it comes from, in order; for a workspace those of the kernel it serves.
    """

    buffer: Buffer
    offset: int
    type: str
    is_workspace: bool
    nodes: tuple[str, ...]

    @property
    def maker(self) -> str:
        """The node that writes it: the last of those that were fused."""
        return self.nodes[-1] if self.nodes else ""


@dataclass(frozen=True)
class MemoryPlan:
    """The buffers of an arena in program order, and the bytes of the arena."""

    buffers: tuple[PlannedBuffer, ...]
    arena_bytes: int

    @cached_property
    def peak_bytes(self) -> int:
        """The lower bound of the arena: the most bytes that live at once, with alignment and fixed buffers."""
        return max_live(planned.buffer for planned in self.buffers)

    @cached_property
    def profile(self) -> Sequence[tuple[int, int]]:
        """How many bytes live: (moment, bytes from then on), in order, from the first moment to 0 at the end."""
        changes: dict[int, int] = {}
        for planned in self.buffers:
            for lower, upper in planned.buffer.runs:
                changes[lower] = changes.get(lower, 0) + planned.buffer.footprint
                changes[upper] = changes.get(upper, 0) - planned.buffer.footprint
        live = 0
        steps: list[tuple[int, int]] = []
        for moment in sorted(changes):
            live += changes[moment]
            steps.append((moment, live))
        return steps

    @cached_property
    def peak_moment(self) -> int:
        """The first moment at which the most bytes live; 0 for no buffers."""
        moment, _ = max(self.profile, key=lambda step: (step[1], -step[0]), default=(0, 0))
        return moment

    @property
    def span(self) -> tuple[int, int]:
        """The first moment, and the one after the last."""
        return (self.profile[0][0], self.profile[-1][0]) if self.profile else (0, 1)

    @property
    def no_reuse_bytes(self) -> int:
        """The bytes of all buffers, each in a space of its own."""
        return sum(planned.buffer.footprint for planned in self.buffers)

    @property
    def peak_maker(self) -> str:
        """The node that runs at the peak, if it is known: it makes what begins to live there."""
        new = (p.maker for p in self.live_at(self.peak_moment) if p.buffer.lower == self.peak_moment)
        return next((maker for maker in new if maker), "")

    def live_bytes(self, moment: int) -> int:
        """How many bytes live at a moment."""
        step = bisect_right(self.profile, moment, key=lambda step: step[0]) - 1
        return self.profile[step][1] if step >= 0 else 0

    def live_at(self, moment: int) -> list[PlannedBuffer]:
        """The buffers that live at a moment, in program order."""
        return [
            planned
            for planned in self.buffers
            if any(lower <= moment < upper for lower, upper in planned.buffer.runs)
        ]


def memory_plan(module: ModuleOp, alignment: int = 64) -> MemoryPlan:
    """Read the plan from a module after `assign-buffers`.

    `alignment` is what the plan rounds sizes to, in bytes. Raises `VerifyFailure` if `@main` has no arena.
    """
    main = main_function(module)
    arenas = arenas_of(main)
    if ARENA_SPACE not in arenas:
        raise VerifyFailure("the module has no '@main' with an arena", place=place_of_op(module))
    return _plan_of(main, arenas[ARENA_SPACE], alignment)


def spill_plan(module: ModuleOp, alignment: int = 64) -> MemoryPlan | None:
    """The plan of memory space 1, to which tensors are spilled; None if there is none."""
    main = main_function(module)
    arena = arenas_of(main).get(SPILL_SPACE)
    return None if arena is None else _plan_of(main, arena, alignment)


def _plan_of(main: FuncOp, arena: SSAValue, alignment: int) -> MemoryPlan:
    names = _printed_names(main)
    buffers: list[PlannedBuffer] = []
    for position, placed in enumerate(placed_buffers(main, arena)):
        value = placed.view.result
        name = names.get(value, f"unnamed_{position}")
        buffers.append(
            PlannedBuffer(
                Buffer(name, placed.first, placed.last + 1, placed.size, alignment),
                placed.offset,
                "x".join([*map(str, value.type.get_shape()), str(value.type.element_type)]),
                placed.is_workspace,
                tuple(node_names(placed.view.location)),
            )
        )
    return MemoryPlan(tuple(buffers), byte_size(arena))


def plan_of_file(path: Path) -> MemoryPlan:
    """Read a plan from a CSV file with offsets, as `mlopt plan` and MiniMalloc write it.

    `InputError` for a file that is no such plan, and, at its row, for a buffer that is misaligned or overlaps another.
    """
    table = read_buffers(path)
    offsets = dict(zip((buffer.id for buffer in table.buffers), _offsets(path, table), strict=True))
    arena_bytes = max((offsets[buffer.id] + buffer.footprint for buffer in table.buffers), default=0)
    table.check_offsets(offsets, arena_bytes)
    planned = [
        PlannedBuffer(buffer, offsets[buffer.id], f"{buffer.size} bytes", False, ())
        for buffer in table.buffers
    ]
    return MemoryPlan(tuple(planned), arena_bytes)


def _offsets(path: Path, table: BufferTable) -> list[int]:
    if "offset" not in table.columns:
        raise InputError(
            f"expected a plan with a column 'offset', as 'mlopt plan -o' writes it, found {', '.join(table.columns)}",
            place=Place(str(path)),
        )
    fields = [row[table.columns.index("offset")] for row in table.rows]
    for field, row in zip(fields, table.places, strict=True):
        if not re.fullmatch(r"[0-9]{1,100}", field):
            raise InputError(f"expected a whole number as offset, found '{field[:100]}'", place=row)
    return [int(field) for field in fields]


def _printed_names(function: FuncOp) -> dict[SSAValue, str]:
    """The named values of a function with the names that the printer gives them: hints, made unique by a suffix."""
    values = list(function.body.block.args)
    values += [result for op in function.body.block.ops for result in op.results]
    names: dict[SSAValue, str] = {}
    used: set[str] = set()
    for value in values:
        if value.name_hint is None:
            continue
        name, number = value.name_hint, 1
        while name in used:
            name, number = f"{value.name_hint}_{number}", number + 1
        used.add(name)
        names[value] = name
    return names
