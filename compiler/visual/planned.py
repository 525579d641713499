"""The memory plan of a compiled module in the words of the model: every buffer with its name and its ONNX nodes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mlopt.compilation import main_function
from mlopt.diagnostics import VerifyFailure
from mlopt.ir.locations import node_names, place_of_op
from mlopt.memory import Buffer, max_live
from mlopt.passes.memref.verify_plan import base_argument, byte_size, placed_buffers


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

    @property
    def peak_bytes(self) -> int:
        """The most bytes that live at one moment, alignment included: the lower bound of the arena."""
        return max_live(planned.buffer for planned in self.buffers)

    @property
    def peak_moment(self) -> int:
        """The first moment at which so many bytes live; 0 for no buffers."""
        starts = sorted({planned.buffer.lower for planned in self.buffers})
        peak = self.peak_bytes
        return next((now for now in starts if sum(p.buffer.footprint for p in self.live_at(now)) == peak), 0)

    def live_at(self, moment: int) -> list[PlannedBuffer]:
        """The buffers that live at a moment, in program order."""
        return [p for p in self.buffers if p.buffer.lower <= moment < p.buffer.upper]


def memory_plan(module: ModuleOp, alignment: int = 64) -> MemoryPlan:
    """Read the plan from a module after `assign-buffers`.

    `alignment` is what the plan rounds sizes to, in bytes. Raises `VerifyFailure` if `@main` has no arena.
    """
    main = main_function(module)
    arena = base_argument(main)
    if arena is None:
        raise VerifyFailure("the module has no '@main' with an arena", place=place_of_op(module))
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
