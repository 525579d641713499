"""Whether a refusal of `fit-memory` may be believed: it says what must be live, and nothing simple contradicts it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from mlopt import PassFailure
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import find_main, only_block
from mlopt.memory.scheduling import schedule
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds
from mlopt.passmanager import PassManager, parse_pipeline

_PROVED = re.compile(
    r"no order of the launches, and no second run of single ones, fits into (?P<budget>\d+) bytes: "
    r"while .* runs, at least (?P<bound>\d+) are live(; in tiles, at least (?P<tiled>\d+) are, while .* runs"
    r"|; the least that was found is \d+)?"
)
_NOT_PROVED = re.compile(
    r"found no way to fit into (?P<budget>\d+) bytes; it is proved that no order of the launches, and no second run "
    r"of single ones, takes less than (?P<bound>\d+), which are live while .* runs"
    r"(?P<tiled>)(; the least that was found is \d+)?"
)

WITHOUT_MOVES = ((), ("schedule-for-memory",))
"""What fits without a move of the pass must not be refused."""


def is_proved(refusal: PassFailure) -> bool:
    """Whether a refusal says that it is proved, and not only that no way was found."""
    return _PROVED.fullmatch(refusal.message) is not None


def what_is_wrong(refusal: PassFailure, module: ModuleOp, budget: int, ctx: CompilerContext) -> str | None:
    """Why a refusal of a module, as it was before the pass, can't be right; None if nothing is known against it."""
    found = _PROVED.fullmatch(refusal.message) or _NOT_PROVED.fullmatch(refusal.message)
    if found is None:
        return f"it says neither what must be live nor what was found: {refusal.message}"
    stated, bound = int(found["budget"]), int(found["bound"])
    if not stated <= budget < stated + WorkspaceNeeds(ctx.target).alignment:
        return f"it refuses {stated} bytes, asked for were {budget}"
    if is_proved(refusal) is not (bound > stated):
        return f"{bound} bytes are no reason to refuse {stated}"
    if found["tiled"] and not stated < int(found["tiled"]) < bound:
        return f"{found['tiled']} bytes in tiles are no reason to refuse {stated}"
    listed = _bytes_of(note.message for note in refusal.notes)
    if listed != int(found["tiled"] or bound):
        return f"the notes are of {listed} bytes, the message of {found['tiled'] or bound}"
    live = _least_peak(module, ctx)
    if live < bound:
        return f"{bound} bytes are to be live at least, but {live} are in some order"
    return next(filter(None, (_fits(module, budget, passes, ctx) for passes in WITHOUT_MOVES)), None)


def _bytes_of(notes: Iterable[str]) -> int:
    return sum(int(note.split()[0]) for note in notes if note[0].isdigit())


def _least_peak(module: ModuleOp, ctx: CompilerContext) -> int:
    """The bytes live at once in the best order that a search finds, with the least workspaces."""
    main, needs = find_main(module), WorkspaceNeeds(ctx.target)
    assert main is not None
    return schedule(BlockSteps(only_block(main), needs.alignment, needs.least).graph).peak


def _fits(module: ModuleOp, budget: int, passes: tuple[str, ...], ctx: CompilerContext) -> str | None:
    planning = (f"plan-workspaces{{budget={budget}}}", f"assign-buffers{{budget={budget}}}")
    pipeline = ",".join((*passes, "convert-kernel-to-memref", *planning))
    try:
        PassManager(ctx, parse_pipeline(f"builtin.module({pipeline})")).run(module.clone())
    except PassFailure:
        return None
    return f"it fits into {budget} bytes with {pipeline}"
