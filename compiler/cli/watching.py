"""What the commands of `mlopt` attach to the passes: progress on a terminal, and dumps of the IR."""

from __future__ import annotations

from pathlib import Path

from xdsl.ir import Operation

from mlopt.cli.progress import Update
from mlopt.compilation import ELIDE_LARGER_THAN
from mlopt.passmanager import Instrumentation, IRPrinting, Pass


class PassProgress(Instrumentation):
    """Tells which pass is running."""

    def __init__(self, update: Update):
        self._update = update

    def before_pass(self, pass_: Pass, op: Operation) -> None:
        self._update(pass_.name)


def dumps_of_changes(folder: Path) -> IRPrinting:
    """A file in `folder` for each pass that changed something, in MLIR's tree of names; large constants elided."""
    return IRPrinting(
        after=True,
        only_changed=True,
        on_failure=True,
        tree=folder,
        elide_larger_than=ELIDE_LARGER_THAN,
        debuginfo=True,
    )
