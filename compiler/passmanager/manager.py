"""Runs a pipeline: anchors, fixpoints, verification after each pass, conditions, instrumentation, statistics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import DiagnosticException

from mlopt.diagnostics import (
    Diagnostic,
    EndlessRewrite,
    MloptError,
    PassFailure,
    PipelineError,
    Remark,
    Severity,
    counted,
)
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import place_of_op
from mlopt.ir.verifier import first_sentence, verify_op
from mlopt.passmanager.base import Condition, Pass, run_pass
from mlopt.passmanager.instrumentation import Instrumentation, title
from mlopt.passmanager.pipeline import ANY, FIXPOINT, Element, Fixpoint, Pipeline, passes_on_anchor


@dataclass
class PassResult:
    """What one pass of a pipeline did, over all operations it ran on.

    `seconds` includes verification. `path` holds the anchors of the pipelines and fixpoints around it. `statistics`
    are the counts it added, by name, `patterns` how often each of its patterns was applied. `runs` is how often it ran:
    in a fixpoint, once in each round with work for it.
    """

    name: str
    seconds: float = 0.0
    changed: bool = False
    statistics: dict[str, int] = field(default_factory=dict[str, int])
    title: str = ""
    path: tuple[str, ...] = ()
    runs: int = 0
    patterns: Counter[str] = field(default_factory=Counter[str])


@dataclass
class _Progress:
    """What has happened so far while a pipeline runs.

    - `changes`: how many runs of passes have changed something.
    - `seen`: how many of these changes a pass has seen, by the pass and the operation it ran on. It has nothing to do
      there as long as there are no others.
    - `undone`: passes whose change of an operation was undone by who watches; a fixpoint does not try them again.
    - `missed`: the near misses that a pass reported when it ran last.
    - `changed`: the passes that have changed something since this was last emptied.
    - `stopped`: the fixpoints that have come to their limits.
    - `held`: how many changes there had been when a condition was last found to hold for an operation.
    """

    results: dict[int, PassResult]
    changes: int = 0
    seen: dict[tuple[Pass, Operation], int] = field(default_factory=dict[tuple[Pass, Operation], int])
    undone: set[tuple[Pass, Operation]] = field(default_factory=set[tuple[Pass, Operation]])
    missed: dict[tuple[Pass, Operation], list[Remark]] = field(
        default_factory=dict[tuple[Pass, Operation], list[Remark]]
    )
    changed: dict[str, None] = field(default_factory=dict[str, None])
    stopped: set[int] = field(default_factory=set[int])
    held: dict[tuple[Condition, Operation], int] = field(
        default_factory=dict[tuple[Condition, Operation], int]
    )

    def has_work(self, pass_: Pass, op: Operation) -> bool:
        """Whether something has changed since the pass ran on `op` last, and it is allowed to run there."""
        key = (pass_, op)
        return self.seen.get(key) != self.changes and key not in self.undone

    def open_conditions(self, conditions: Sequence[Condition], op: Operation) -> list[Condition]:
        """Those that are not known to hold for `op` since something changed last."""
        return [condition for condition in conditions if self.held.get((condition, op)) != self.changes]

    def hold(self, conditions: Sequence[Condition], op: Operation) -> None:
        """Remember that conditions hold for `op` as it is."""
        self.held.update(dict.fromkeys(((condition, op) for condition in conditions), self.changes))


class PassManager:
    """Runs a pipeline on modules.

    `verify_each`: verify the operation after each pass that reports a change; the error names the pass.
    """

    def __init__(
        self,
        ctx: CompilerContext,
        pipeline: Pipeline,
        *,
        verify_each: bool = True,
        instrumentations: Sequence[Instrumentation] = (),
    ):
        self.ctx = ctx
        self.pipeline = pipeline
        self.verify_each = verify_each
        self.instrumentations = tuple(instrumentations)

    def run(self, module: ModuleOp) -> list[PassResult]:
        """Run the pipeline on `module` in place; one result per pass, in the pipeline's order.

        Raises what a pass raises (an `MloptError`), or `VerifyFailure` if a pass left broken IR.
        """
        if not _runs_on(self.pipeline, module):
            raise PipelineError(
                f"can't run '{self.pipeline.anchor}' pass manager on '{module.name}' op",
                place=place_of_op(module),
            )
        self._warn_of_idle_anchors(self.pipeline.elements, module)
        results: dict[int, PassResult] = {}
        self._create_results(self.pipeline.elements, (self.pipeline.anchor,), results)
        self._run_elements(self.pipeline.elements, module, _Progress(results))
        return list(results.values())

    def _warn_of_idle_anchors(self, elements: Sequence[Element], module: ModuleOp) -> None:
        """Warn the user of nested pipelines that, as in MLIR, run nowhere: those for what is no operation."""
        for element in elements:
            if isinstance(element, Pass):
                continue
            if isinstance(element, Pipeline) and element.anchor != ANY:
                kind = self.ctx.get_optional_op(element.anchor)
                if kind is None or issubclass(kind, UnregisteredOp):
                    self.ctx.warn(f"there is no operation '{element.anchor}': its passes run nowhere", module)
            self._warn_of_idle_anchors(element.elements, module)

    def _create_results(
        self, elements: Sequence[Element], path: tuple[str, ...], results: dict[int, PassResult]
    ) -> None:
        for element in elements:
            match element:
                case Pipeline():
                    self._create_results(element.elements, (*path, element.anchor), results)
                case Fixpoint():
                    self._create_results(element.elements, (*path, FIXPOINT), results)
                case _:
                    results[id(element)] = PassResult(element.name, title=title(element), path=path)

    def _run_elements(
        self, elements: Sequence[Element], op: Operation, progress: _Progress, repeated: bool = False
    ) -> None:
        """Run the elements on `op`; those that are `repeated` only if they have work there."""
        for element in elements:
            match element:
                case Pipeline():
                    for child in list(_anchored(op, element)):
                        _require_isolated(child)
                        self._run_elements(element.elements, child, progress, repeated)
                case Fixpoint():
                    self._run_fixpoint(element, op, progress)
                case _ if not repeated or progress.has_work(element, op):
                    self._run_pass(element, op, progress)
                case _:
                    pass

    def _run_fixpoint(self, fixpoint: Fixpoint, op: Operation, progress: _Progress) -> None:
        """Run rounds until no pass has work; the user is warned if the limit comes first."""
        outer, changed = progress.changed, dict[str, None]()
        for _ in range(fixpoint.limit):
            progress.changed = changed = {}
            self._run_elements(fixpoint.elements, op, progress, repeated=True)
            outer |= changed
            if not _has_work(fixpoint.elements, op, progress):
                break
        else:
            if id(fixpoint) not in progress.stopped:
                progress.stopped.add(id(fixpoint))
                rounds = counted(fixpoint.limit, "round")
                names = ", ".join(f"'{name}'" for name in changed)
                self.ctx.warn(
                    f"{FIXPOINT} stopped after {rounds}, in the last of which {names} changed something", op
                )
        progress.changed = outer

    def _run_pass(self, pass_: Pass, op: Operation, progress: _Progress) -> None:
        result = progress.results[id(pass_)]
        result.runs += 1
        remarks_before = len(self.ctx.remarks)
        for instrumentation in self.instrumentations:
            instrumentation.before_pass(pass_, op)
        before = Counter(self.ctx.statistics)
        start = time.perf_counter()
        is_done = is_undone = False
        try:
            _check(pass_, progress.open_conditions(pass_.requires, op), op, "requires")
            progress.hold(pass_.requires, op)
            changed, patterns = _apply(pass_, self.ctx, op)
            is_done = True
            if changed and self.verify_each:
                _verify(pass_, op)
            ensured = pass_.ensures if changed else progress.open_conditions(pass_.ensures, op)
            _check(pass_, ensured, op, "ensures")
        except Exception as error:
            for instrumentation in self.instrumentations:
                instrumentation.after_failure(pass_, op)
            is_undone = (is_done or _is_fault(error)) and any(
                instrumentation.recover(pass_, op, error) for instrumentation in self.instrumentations
            )
            if not is_undone:
                raise
            changed, patterns = False, Counter[str]()
        finally:
            result.seconds += time.perf_counter() - start
        claimed = changed
        for instrumentation in self.instrumentations if not is_undone else ():
            changed = instrumentation.review(pass_, op, changed)
        is_undone |= claimed and not changed
        result.changed |= changed
        self._note(pass_, op, progress, changed, undone=is_undone)
        if not is_undone and claimed == changed:
            progress.hold(pass_.ensures, op)
        if (pass_, op) not in progress.undone:
            result.patterns += patterns
            self._forget_old_misses(pass_, op, progress, remarks_before)
        for (name, statistic), count in self.ctx.statistics.items():
            added = count - before[name, statistic]
            if name == pass_.name and (added or statistic not in result.statistics):
                result.statistics[statistic] = result.statistics.get(statistic, 0) + added
        for instrumentation in self.instrumentations:
            instrumentation.after_pass(pass_, op, changed)

    def _note(self, pass_: Pass, op: Operation, progress: _Progress, changed: bool, *, undone: bool) -> None:
        """Remember what a run of a pass means for the next one."""
        key = (pass_, op)
        if undone:
            progress.undone.add(key)
        if changed:
            progress.changes += 1
            progress.changed[pass_.name] = None
        if not changed or pass_.idempotent:
            progress.seen[key] = progress.changes

    def _forget_old_misses(self, pass_: Pass, op: Operation, progress: _Progress, start: int) -> None:
        """What a pass nearly did when it ran before is not said if it has run again: it may have done it now."""
        missed = [
            remark
            for remark in self.ctx.remarks[start:]
            if remark.kind == "missed" and remark.pass_name == pass_.name
        ]
        old = {id(remark) for remark in progress.missed.get((pass_, op), ())}
        if old:
            self.ctx.remarks[:] = [remark for remark in self.ctx.remarks if id(remark) not in old]
        progress.missed[pass_, op] = missed


def _has_work(elements: Sequence[Element], op: Operation, progress: _Progress) -> bool:
    """Whether any pass among the elements has something to do on `op`, or inside it."""
    for element in elements:
        match element:
            case Pipeline():
                if any(_has_work(element.elements, child, progress) for child in _anchored(op, element)):
                    return True
            case Fixpoint():
                if _has_work(element.elements, op, progress):
                    return True
            case _:
                if progress.has_work(element, op):
                    return True
    return False


def _anchored(op: Operation, pipeline: Pipeline) -> Iterator[Operation]:
    """The operations right inside `op` that a nested pipeline runs on."""
    for region in op.regions:
        for block in region.blocks:
            for child in block.ops:
                if _runs_on(pipeline, child):
                    yield child


def _runs_on(pipeline: Pipeline, op: Operation) -> bool:
    """Whether a pipeline is for operations like this; one for any runs on isolated ones that all its passes take."""
    if pipeline.anchor != ANY:
        return pipeline.anchor == op.name
    anchors = (pass_.anchor for pass_ in passes_on_anchor(pipeline.elements))
    return op.has_trait(IsolatedFromAbove) and all(anchor in (None, op.name) for anchor in anchors)


def _require_isolated(op: Operation) -> None:
    """Raise `PipelineError` if an operation uses values from around it: a pass on it can't know who else does."""
    if not op.has_trait(IsolatedFromAbove, value_if_unregistered=False):
        raise PipelineError(
            f"'{op.name}' op trying to schedule a pass on an operation not marked as 'IsolatedFromAbove'; passes run "
            "on 'builtin.module', 'func.func' and others that use no value from outside",
            place=place_of_op(op),
        )


def _apply(pass_: Pass, ctx: CompilerContext, op: Operation) -> tuple[bool, Counter[str]]:
    """Whether the pass changed anything, and how often each pattern was applied."""
    try:
        changed, scope = run_pass(pass_, ctx, op)
    except MloptError:
        raise
    except DiagnosticException as error:
        raise PassFailure(
            f"pass '{pass_.name}' failed: {first_sentence(error)}", place=place_of_op(op)
        ) from error
    except RecursionError as error:
        raise PassFailure(
            f"pass '{pass_.name}' failed: the IR is nested too deeply", place=place_of_op(op)
        ) from error
    except Exception as error:
        error.add_note(f"while running pass '{pass_.name}' on '{op.name}' at {place_of_op(op)}")
        raise
    return changed, scope.counts


def _is_fault(error: Exception) -> bool:
    """Whether what a pass raised is a fault of its own: neither something that it refuses, nor want of memory."""
    return isinstance(error, EndlessRewrite) or not isinstance(error, MloptError | MemoryError)


def _verify(pass_: Pass, op: Operation) -> None:
    try:
        verify_op(op)
    except MloptError as error:
        error.notes = (*error.notes, Diagnostic(Severity.NOTE, f"pass '{pass_.name}' left this IR"))
        raise


def _check(pass_: Pass, conditions: Sequence[Condition], op: Operation, verb: str) -> None:
    for condition in conditions:
        error = condition(op)
        if error is not None:
            error.notes = (*error.notes, Diagnostic(Severity.NOTE, f"pass '{pass_.name}' {verb} this"))
            raise error
