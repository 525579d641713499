"""What a finished memory plan costs, read from the memref-level IR."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from mlopt.diagnostics import VerifyFailure
from mlopt.ir.functions import find_main
from mlopt.ir.locations import place_of_op
from mlopt.memory import GAP, OPTIMAL, Buffer, max_live
from mlopt.passes.memref.verify_plan import base_argument, byte_size, placed_buffers


class MemorySummary(NamedTuple):
    """Bytes of the planned buffers, every buffer rounded up to its alignment.

    - `no_reuse_bytes`: the sum of all tensors.
    - `max_live_bytes`: the most that tensors alone take at one moment: no plan for this order can be smaller.
    - `workspace_bytes`: by how much the workspaces raise that peak.
    - `arena_bytes`: the size of the arena, workspaces included. So `arena_bytes - workspace_bytes` compares with
      `max_live_bytes`; what it has more is fragmentation.
    - `status`: `optimal (max-live)` if there is no fragmentation, which proves the plan to be the smallest; else `gap`.
    """

    no_reuse_bytes: int
    max_live_bytes: int
    arena_bytes: int
    workspace_bytes: int
    status: str


def memory_summary(module: ModuleOp, alignment: int = 64) -> MemorySummary:
    """Sum up the plan of a module after `assign-buffers`; `VerifyFailure` if `@main` has no arena."""
    main = find_main(module)
    arena = None if main is None else base_argument(main)
    if main is None or arena is None:
        raise VerifyFailure("the module has no '@main' with an arena", place=place_of_op(module))
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
        status=OPTIMAL if arena_bytes == peak else GAP,
    )
