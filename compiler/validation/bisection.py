"""Which rewrite of a pass is to blame: a binary search over how many of its rewrites are done."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from mlopt.ir.rewrite_limit import Rewrite, limited_rewrites
from mlopt.validation.trial import Sample, Suspect, failure_of, judge


@dataclass(frozen=True, slots=True)
class Blame:
    """The rewrite to blame, of how many; None where the fault is in what the pass does beside numbered rewrites."""

    rewrite: Rewrite | None
    total: int


def find_blame(suspect: Suspect, before: ModuleOp, sample: Sample | None) -> Blame:
    """The rewrite that makes the function of a sample compute something else than it should, or the pass fail.

    Runs the pass about `log2(rewrites)` times on copies of `before`.
    """
    _, total, _ = _run(suspect, before, sample, None)
    wrong, _, _ = _run(suspect, before, sample, 0)
    if wrong or total == 0:
        return Blame(None, total)
    right, faulty = 0, total
    while faulty - right > 1:
        middle = (right + faulty) // 2
        wrong, _, _ = _run(suspect, before, sample, middle)
        if wrong:
            faulty = middle
        else:
            right = middle
    _, _, last = _run(suspect, before, sample, faulty)
    return Blame(last, total)


def _run(
    suspect: Suspect,
    before: ModuleOp,
    sample: Sample | None,
    limit: int | None,
) -> tuple[bool, int, Rewrite | None]:
    """Whether so many rewrites do harm, how many were done, and the last of them."""
    after = before.clone()
    with limited_rewrites(limit) as counter:
        failure = failure_of(suspect, after)
    is_wrong = failure is not None  # half a pass may leave what the other half trips over
    if sample is not None and not is_wrong:
        is_wrong = judge(suspect, after, [sample])[0].difference is not None
    return is_wrong, counter.count, counter.last
