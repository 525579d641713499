"""What passes tell about their work: what they did, what they did not and why, what they found out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity

RemarkKind = Literal["passed", "missed", "analysis"]
"""What was done; what was nearly done, with the reason why not; figures. LLVM's names."""

REMARK_KINDS: tuple[RemarkKind, ...] = ("passed", "missed", "analysis")


@dataclass(frozen=True, slots=True)
class Remark:
    """One sentence of a pass about one place in the model. `notes` name other places that matter for it."""

    pass_name: str
    kind: RemarkKind
    message: str
    place: Place
    notes: tuple[Diagnostic, ...] = ()

    @property
    def diagnostic(self) -> Diagnostic:
        """The remark as it is printed: `PLACE: remark: [PASS] MESSAGE`."""
        return Diagnostic(Severity.REMARK, f"[{self.pass_name}] {self.message}", self.place, self.notes)


def select_remarks(remarks: Iterable[Remark], kinds: Collection[str]) -> list[Remark]:
    """The remarks of these kinds, in order, each once: a pass that runs twice may say the same again."""
    return [remark for remark in dict.fromkeys(remarks) if remark.kind in kinds]
