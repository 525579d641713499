"""Running a pass on a copy of a module, to see whether it changes what a function computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlopt.compilation import is_planned
from mlopt.diagnostics import MloptError
from mlopt.ir.context import CompilerContext
from mlopt.ir.verifier import verify_op
from mlopt.passmanager.base import Pass, run_pass
from mlopt.validation.comparing import Difference, Verdict, compare_outputs
from mlopt.validation.evaluation import Array, Evaluator

Path = tuple[int, ...]
"""Where an operation is in a module: which of the operations in the only block of each one around it."""


@dataclass(frozen=True)
class Suspect:
    """A pass that is tried, and what it is tried with: the operation that it runs on, the tolerance."""

    pass_: Pass
    path: Path
    tolerance: float
    ctx: CompilerContext


def path_of(op: Operation) -> Path:
    """The path of an operation from the outermost one."""
    path: list[int] = []
    while op.parent is not None:
        path.append(op.parent.get_operation_index(op))
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return tuple(reversed(path))


def at_path(root: Operation, path: Path) -> Operation:
    """The operation at a path."""
    for index in path:
        root = list(root.regions[0].block.ops)[index]
    return root


def failure_of(suspect: Suspect, module: ModuleOp) -> Exception | None:
    """Run the pass on a module, and return what it raises, or what is wrong with the IR that it leaves.

    What it reports is forgotten.
    """
    op = at_path(module, suspect.path)
    with forgotten_reports(suspect.ctx):
        try:
            run_pass(suspect.pass_, suspect.ctx, op)
            verify_op(op)
        except Exception as error:  # whatever a pass raises on a module cut to pieces
            return error
    return next(filter(None, (condition(op) for condition in suspect.pass_.ensures)), None)


@contextmanager
def forgotten_reports(ctx: CompilerContext) -> Generator[None]:
    """Inside, remarks, warnings and statistics are as always; afterwards they are what they were."""
    saved = ReportMark(ctx)
    try:
        yield
    finally:
        saved.rewind(ctx)


class ReportMark:
    """How much passes had reported to a context at some time."""

    def __init__(self, ctx: CompilerContext):
        self._remarks, self._warnings = len(ctx.remarks), len(ctx.warnings)
        self._statistics = Counter(ctx.statistics)

    def rewind(self, ctx: CompilerContext) -> None:
        """Forget what has been reported since."""
        del ctx.remarks[self._remarks :], ctx.warnings[self._warnings :]
        ctx.statistics = Counter(self._statistics)


@dataclass(frozen=True)
class Sample:
    """Inputs of a function, and the outputs that it must have for them."""

    function: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def try_on(suspect: Suspect, before: ModuleOp, function: str, inputs: Mapping[str, Array]) -> Verdict | None:
    """Whether the pass changes what a function of `before` computes; None if that can't be told. `before` stays.

    Nor can it where the pass fails, which is another fault.
    """
    try:
        outputs = Evaluator(before, suspect.ctx.weights).run(function, inputs)
    except Exception:  # whatever an evaluation raises on a module cut to pieces
        return None
    after = before.clone()
    if failure_of(suspect, after) is not None:
        return None
    return judge(suspect, after, [Sample(function, inputs, outputs)])[0]


def judge(suspect: Suspect, after: ModuleOp, samples: Sequence[Sample]) -> list[Verdict]:
    """Compare what a module computes after a pass with what it should; the last verdict may be a difference.

    Buffers of a memref-level module are placed in an arena to save memory: a difference counts only if it is there
    without, too.
    """
    verdicts: list[Verdict] = []
    evaluators = [Evaluator(after, suspect.ctx.weights)]
    if evaluators[0].level == "memref" and not is_planned(after):
        evaluators.append(Evaluator(after, suspect.ctx.weights, reuse=False))
    for sample in samples:
        verdict = _judge_once(suspect, evaluators[0], sample)
        if verdict.difference is not None and len(evaluators) > 1:
            verdict = _judge_once(suspect, evaluators[1], sample)
        verdicts.append(verdict)
        if verdict.difference is not None:
            break
    return verdicts


def _judge_once(suspect: Suspect, evaluator: Evaluator, sample: Sample) -> Verdict:
    try:
        found = evaluator.run(sample.function, sample.inputs)
    except MloptError as error:
        return _failed(sample, f"can't be computed any more: {error}")
    except Exception as error:  # an evaluator trips over IR that should not be
        return _failed(sample, f"can't be computed any more: {type(error).__name__}: {error}")
    steps = suspect.pass_.validation_steps
    return compare_outputs(sample.function, found, sample.outputs, suspect.tolerance, steps)


def _failed(sample: Sample, reason: str) -> Verdict:
    return Verdict(Difference(sample.function, next(iter(sample.outputs), ""), float("inf"), reason), 0.0, {})
