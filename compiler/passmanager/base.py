"""The base class of every pass: options as dataclass fields, a changed flag, what it requires and ensures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlopt.diagnostics import MloptError, PassFailure
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewrite_scope import RewriteScope, rewriting

Condition = Callable[[Operation], MloptError | None]
"""A check of the IR before (`requires`) or after (`ensures`) a pass; returns the error, or None when it holds."""


@dataclass(frozen=True)
class Pass(ModulePass):
    """A pass over one anchor operation.

    The fields of a subclass are the pass's options; one that has some is a frozen dataclass. `anchor` names the
    operation a pass runs on (`None`: any). `run` rewrites that operation and returns whether anything changed.
    A pass that leaves nothing for a second run of its own to change says that it is `idempotent`: a fixpoint
    then spares that run. `rewrites` are the names of what it does without patterns (those it gives
    `may_rewrite`), each with a sentence; pattern classes that its code names are found without. A pass that
    approximates by intent says in `validation_tolerance` by how much of the largest number of an output its
    results may differ, and in `validation_steps` by how much outputs that are integers of 8 or 16 bits may. A pass
    that gives numbers where something was too large or too small for its type says that it `repairs_overflow`.
    """

    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar[tuple[Condition, ...]] = ()
    ensures: ClassVar[tuple[Condition, ...]] = ()
    idempotent: ClassVar[bool] = False
    rewrites: ClassVar[Mapping[str, str]] = {}
    validation_tolerance: ClassVar[float | None] = None
    validation_steps: ClassVar[int] = 0
    repairs_overflow: ClassVar[bool] = False

    @property
    def declared_tolerance(self) -> float | None:
        """`validation_tolerance`; passes whose options decide it say so here."""
        return self.validation_tolerance

    def validation_inputs(self, op: Operation) -> Sequence[Mapping[str, np.ndarray]] | None:
        """Inputs of `@main`, by name, that alone the pass is judged by if it promises nothing for others.

        None, as nearly always: it is judged by any. `op` is what it is about to run on.
        """
        return None

    @abstractmethod
    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        """Rewrite `op` in place; return True if anything changed. Raise `PassFailure` if the work can't be done."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """xDSL's entry point, so that a pass can be used with xDSL's own tools."""
        if not isinstance(ctx, CompilerContext):
            raise PassFailure(f"pass '{self.name}' needs a CompilerContext")
        run_pass(self, ctx, op)


def run_pass(pass_: Pass, ctx: CompilerContext, op: Operation) -> tuple[bool, RewriteScope]:
    """Run a pass as its context says, which may switch patterns off: whether anything changed, and what it rewrote.

    Passes compute on constants, which may be any numbers: what overflows or is no number is theirs to look at, and
    numpy does not warn of it.
    """
    with rewriting(pass_.name, ctx.disabled_patterns, ctx) as scope, np.errstate(all="ignore"):
        return pass_.run(ctx, op), scope
