"""Runs a pipeline: anchors, verification after each pass, conditions, instrumentation, time and statistics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import DiagnosticException

from mlopt.diagnostics import Diagnostic, MloptError, PassFailure, PipelineError, Severity
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import place_of_op
from mlopt.ir.verifier import first_sentence, verify_op
from mlopt.passmanager.base import Condition, Pass
from mlopt.passmanager.instrumentation import Instrumentation, title
from mlopt.passmanager.pipeline import ANY, Pipeline


@dataclass
class PassResult:
    """What one pass of a pipeline did, over all operations it ran on.

    `seconds` includes verification. `path` holds the anchors of the pipelines around it. `statistics` are the
    counts it added, by name.
    """

    name: str
    seconds: float = 0.0
    changed: bool = False
    statistics: dict[str, int] = field(default_factory=dict[str, int])
    title: str = ""
    path: tuple[str, ...] = ()


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
        results: dict[int, PassResult] = {}
        self._create_results(self.pipeline, (), results)
        self._run_pipeline(self.pipeline, module, results)
        return list(results.values())

    def _create_results(
        self, pipeline: Pipeline, path: tuple[str, ...], results: dict[int, PassResult]
    ) -> None:
        path = (*path, pipeline.anchor)
        for element in pipeline.elements:
            if isinstance(element, Pipeline):
                self._create_results(element, path, results)
            else:
                results[id(element)] = PassResult(element.name, title=title(element), path=path)

    def _run_pipeline(self, pipeline: Pipeline, op: Operation, results: dict[int, PassResult]) -> None:
        for element in pipeline.elements:
            if isinstance(element, Pipeline):
                for child in list(_anchored(op, element)):
                    self._run_pipeline(element, child, results)
            else:
                self._run_pass(element, op, results[id(element)])

    def _run_pass(self, pass_: Pass, op: Operation, result: PassResult) -> None:
        for instrumentation in self.instrumentations:
            instrumentation.before_pass(pass_, op)
        before = Counter(self.ctx.statistics)
        start = time.perf_counter()
        try:
            _check(pass_, pass_.requires, op, "requires")
            changed = _apply(pass_, self.ctx, op)
            if changed and self.verify_each:
                _verify(pass_, op)
            _check(pass_, pass_.ensures, op, "ensures")
        except Exception:
            for instrumentation in self.instrumentations:
                instrumentation.after_failure(pass_, op)
            raise
        finally:
            result.seconds += time.perf_counter() - start
        for instrumentation in self.instrumentations:
            changed = instrumentation.review(pass_, op, changed)
        result.changed |= changed
        for (name, statistic), count in self.ctx.statistics.items():
            added = count - before[name, statistic]
            if name == pass_.name and (added or statistic not in result.statistics):
                result.statistics[statistic] = result.statistics.get(statistic, 0) + added
        for instrumentation in self.instrumentations:
            instrumentation.after_pass(pass_, op, changed)


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
    anchors = (element.anchor for element in pipeline.elements if isinstance(element, Pass))
    return op.has_trait(IsolatedFromAbove) and all(anchor in (None, op.name) for anchor in anchors)


def _apply(pass_: Pass, ctx: CompilerContext, op: Operation) -> bool:
    try:
        return pass_.run(ctx, op)
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
