"""The validator: watches a pass manager, and undoes what changes the answer.

Before each pass the module is copied (constants of more than 64 elements are weights, which no module holds). After a
pass that changed something, every function is evaluated on seeded inputs, and on given ones if there are any, and its
outputs are compared with those from before the pass. If one differs by more than the tolerance, the change is undone,
and what the pass reported is forgotten; the pipeline goes on from the IR before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from mlopt.diagnostics import (
    Diagnostic,
    EndlessRewrite,
    MloptError,
    Place,
    Severity,
    VerifyFailure,
    counted,
    place_record,
)
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import typed_array
from mlopt.ir.locations import place_of_op
from mlopt.ir.rewrite_limit import Rewrite
from mlopt.ir.verifier import verify_op
from mlopt.passmanager.base import Pass
from mlopt.passmanager.instrumentation import Instrumentation
from mlopt.validation.bisection import Blame, find_blame
from mlopt.validation.comparing import Difference, RangeWatch, Rounding, compare_outputs, default_tolerance
from mlopt.validation.evaluation import (
    Array,
    Evaluator,
    functions_of,
    level,
    require_evaluable,
)
from mlopt.validation.reduction import MAX_TRIALS, Case, is_changed, reduce_case
from mlopt.validation.reproducer import write_reproducer
from mlopt.validation.seeding import SEED, function_inputs, seeded_inputs
from mlopt.validation.ties import are_decided_by_inputs
from mlopt.validation.trial import ReportMark, Sample, Suspect, at_path, failure_of, judge, path_of

ENDLESS_TRIALS = 8
"""How often a pass that does not end is tried on parts of a module, each time up to its bound."""

BRANCH_TRIALS = 8
"""How many seeded inputs are tried to take every branch; those are kept that take new ones."""

SAFETY = 8
"""Where single roundings change an output by this part of the tolerance, a conversion is not judged by it."""


@dataclass(frozen=True, slots=True)
class ValidationOptions:
    """How passes are validated.

    - `tolerance`: allowed difference as a part of the largest number of an output; None for the default (1e-4, or some
      roundings of the narrowest type that the module computes in).
    - `inputs`: arrays to evaluate `@main`, or the only function, on beside seeded ones, by name.
    - `bisect`: find the rewrite that is to blame for a rejected change.
    - `reproducers`: the folder for reproducers of rejected changes; it is made when the first one is written.
    """

    tolerance: float | None = None
    inputs: Mapping[str, Array] | None = None
    bisect: bool = False
    reproducers: Path = Path("mlopt-reproducers")


@dataclass(frozen=True, slots=True)
class ValidatedPass:
    """A change that was accepted, with the largest error over all outputs, as a part of an output's largest number."""

    pass_name: str
    largest_error: float


@dataclass(frozen=True, slots=True)
class Rejection:
    """A change that was undone: what is wrong with it, which rewrite is to blame, and the file that shows it.

    `difference` is what differed; None where the pass failed.
    """

    pass_name: str
    reason: str
    difference: Difference | None
    tolerance: float
    blame: Blame | None
    reproducer: Path | None
    diagnostic: Diagnostic


@dataclass(eq=False)
class _Known:
    """Inputs of a function, and its outputs for them as of the last change accepted (None: not known)."""

    function: str
    origin: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array] | None = None
    is_used: bool = True

    @property
    def sample(self) -> Sample:
        """What must stay as it is."""
        assert self.outputs is not None
        return Sample(self.function, self.inputs, self.outputs)


@dataclass
class Validator(Instrumentation):
    """Validates every pass of one compilation."""

    ctx: CompilerContext
    options: ValidationOptions = field(default_factory=ValidationOptions)
    validated: list[ValidatedPass] = field(default_factory=list[ValidatedPass])
    rejections: list[Rejection] = field(default_factory=list[Rejection])
    _snapshot: ModuleOp | None = None
    _mark: ReportMark | None = None
    _known: dict[str, list[_Known]] = field(default_factory=dict[str, "list[_Known]"])
    _said: set[str] = field(default_factory=set[str])

    def before_pass(self, pass_: Pass, op: Operation) -> None:
        if self._snapshot is None:
            self._snapshot = _module_around(op).clone()
        self._mark = ReportMark(self.ctx)

    @np.errstate(all="ignore")
    def recover(self, pass_: Pass, op: Operation, error: Exception) -> bool:
        before = self._snapshot
        assert before is not None and self._mark is not None
        self._snapshot = None
        suspect = Suspect(pass_, path_of(op), self._tolerance(pass_, before), self.ctx)
        self._mark.rewind(self.ctx)
        self._reject_failure(suspect, before, error)
        _restore(op, at_path(before, suspect.path))
        return True

    @np.errstate(all="ignore")  # outputs may be any numbers
    def review(self, pass_: Pass, op: Operation, changed: bool) -> bool:
        module, before = _module_around(op), self._snapshot
        assert before is not None and self._mark is not None
        if not changed and module.is_structurally_equivalent(before):
            return False
        suspect = Suspect(pass_, path_of(op), self._tolerance(pass_, before), self.ctx)
        self._snapshot = None
        own = self._own_samples(suspect, before)
        found = self._compare(suspect, before, module, self._baseline(before, op) if own is None else own)
        if found is None:
            if own is not None:  # what other inputs give now is not what it was
                for known in chain.from_iterable(self._known.values()):
                    known.outputs = None
            return True
        known, difference = found
        self._mark.rewind(self.ctx)
        self._reject(suspect, before, known, difference)
        _restore(op, at_path(before, suspect.path))
        return False

    def _tolerance(self, pass_: Pass, module: ModuleOp) -> float:
        given = self.options.tolerance
        base = default_tolerance(module) if given is None else given
        declared = pass_.declared_tolerance
        return base if declared is None else max(base, declared)

    def report(self) -> dict[str, Any]:
        """What was found, as JSON has it; errors that are no finite number are None."""
        return {
            "validated": [
                {"pass": each.pass_name, "largest_error": each.largest_error} for each in self.validated
            ],
            "rejected": [
                {
                    "pass": each.pass_name,
                    **_difference_record(each.difference),
                    "reason": each.reason,
                    "tolerance": each.tolerance,
                    "rewrite": None if each.blame is None else _rewrite_record(each.blame.rewrite),
                    "reproducer": None if each.reproducer is None else str(each.reproducer),
                }
                for each in self.rejections
            ],
            "not_validated": sorted(self._said),
        }

    # What functions compute

    def _baseline(self, before: ModuleOp, op: Operation) -> list[_Known]:
        """The samples that a change of `op` is judged by, with what functions computed before it."""
        try:
            require_evaluable(before, self.ctx.weights)
        except MloptError as error:
            self._say_once(error.message, error.place)
            return []
        evaluator = Evaluator(before, self.ctx.weights)
        known: list[_Known] = []
        functions = functions_of(before)
        for func in functions:
            if isinstance(op, FuncOp) and op.sym_name != func.sym_name and evaluator.level != "memref":
                continue
            takes_given = func.sym_name.data == "main" or len(functions) == 1
            samples = self._samples_of(func, evaluator, takes_given=takes_given)
            known += [each for each in samples if self._evaluate(each, evaluator)]
        return known

    def _own_samples(self, suspect: Suspect, before: ModuleOp) -> list[_Known] | None:
        """The samples that the pass says it is to be judged by, if it does."""
        inputs = suspect.pass_.validation_inputs(at_path(before, suspect.path))
        if inputs is None:
            return None
        evaluator = Evaluator(before, self.ctx.weights)
        known = [_Known("main", "its own", each) for each in inputs]
        return [each for each in known if self._evaluate(each, evaluator)]

    def _samples_of(self, func: FuncOp, evaluator: Evaluator, *, takes_given: bool) -> list[_Known]:
        name = func.sym_name.data
        if name in self._known:
            return self._known[name]
        samples = self._known[name] = []
        try:
            samples.append(_Known(name, "seeded", seeded_inputs(func, self.ctx.weights)))
            if takes_given and self.options.inputs is not None:
                samples.append(_Known(name, "given", self._given(func)))
            if evaluator.level == "graph" and are_decided_by_inputs(func):
                rounded = seeded_inputs(func, self.ctx.weights, in_halves=True)
                samples.append(_Known(name, "rounded", rounded))
            self._take_branches(func, samples, evaluator)
        except MloptError as error:
            is_about_it = isinstance(error, VerifyFailure)
            what = error.message if is_about_it else f"function '@{name}': {error.message}"
            self._say_once(what, error.place)
            del self._known[name]
            return []
        return samples

    def _take_branches(self, func: FuncOp, samples: list[_Known], evaluator: Evaluator) -> None:
        """Add other seeded inputs that take branches, and enter loops, that the samples do not."""
        untaken = set(_branches(func))
        if not untaken or evaluator.level == "memref":
            return
        name, seeds = func.sym_name.data, range(SEED + 1, SEED + BRANCH_TRIALS)
        others = (_Known(name, "seeded", seeded_inputs(func, self.ctx.weights, seed)) for seed in seeds)
        taken = set[Block]()
        for sample in chain(list(samples), others):
            if not untaken:
                return
            taken.clear()
            try:
                sample.outputs = evaluator.run(name, sample.inputs, entered=lambda block, _: taken.add(block))
            except MloptError:
                continue
            if taken & untaken and sample not in samples:
                samples.append(sample)
            untaken -= taken
        # Those inside a branch that is not taken need no mention.
        left = [block for block in _branches(func) if block in untaken and not _is_inside(block, untaken)]
        for block in left:
            op = block.parent_op()
            assert op is not None and block.parent is not None
            region = op.get_region_index(block.parent)
            what = f"no inputs tried enter region {region} of '{op.name}'"
            self._say_once(f"function '@{name}': {what}", place_of_op(op))

    def _given(self, func: FuncOp) -> dict[str, Array]:
        """The inputs given, in order; where an input has no name in the IR, they may name the argument."""
        given = self.options.inputs or {}
        found: dict[str, Array] = {}
        for each in function_inputs(func):
            array = given.get(each.name, given.get(each.argument.name_hint or each.name))
            if array is not None:
                found[each.name] = typed_array(array, each.dtype)
        return found

    def _evaluate(self, known: _Known, evaluator: Evaluator) -> bool:
        """Make sure that the outputs are known; returns whether they are."""
        if known.outputs is None and known.is_used:
            try:
                known.outputs = evaluator.run(known.function, known.inputs)
            except MloptError as error:
                what = f"function '@{known.function}' on {known.origin} inputs: {error.message}"
                self._say_once(what, error.place)
        return known.outputs is not None and known.is_used

    # After a pass

    def _compare(
        self, suspect: Suspect, before: ModuleOp, after: ModuleOp, samples: Sequence[_Known]
    ) -> tuple[_Known, Difference] | None:
        """The first sample that shows a difference, and the difference.

        None if there is none: then what the samples' outputs are compared with next is what they are now.
        """
        if not samples:
            return None
        try:
            require_evaluable(after, self.ctx.weights)
        except MloptError as error:
            if not _has_unknown_operations(after):  # what could be computed before
                known = samples[0]
                output, reason = (
                    next(iter(known.sample.outputs), ""),
                    f"can't be computed any more: {error.message}",
                )
                return known, Difference(known.function, output, inf, reason)
            self._say_once(f"what pass '{suspect.pass_.name}' left: {error.message}", error.place)
            self._known.clear()
            return None
        samples, is_conversion = list(samples), level(before) != level(after)
        while True:
            verdicts = judge(suspect, after, [known.sample for known in samples])
            difference = verdicts[-1].difference if verdicts else None
            if difference is None:
                break
            known = samples[len(verdicts) - 1]
            if suspect.pass_.repairs_overflow and self._leaves_range(known, suspect.pass_, before):
                samples.remove(known)
                continue
            if not is_conversion or self._is_firm(known, before, suspect.tolerance):
                return known, difference
            samples.remove(known)
        for known, verdict in zip(samples, verdicts, strict=True):
            known.outputs = verdict.outputs
        if samples:
            largest = max(verdict.largest_error for verdict in verdicts)
            self.validated.append(ValidatedPass(suspect.pass_.name, largest))
        return None

    def _is_firm(self, known: _Known, before: ModuleOp, tolerance: float) -> bool:
        """Whether roundings leave the outputs as they are; if not, no conversion can be judged by them.

        The evaluators of two levels add up in different orders. A sample on which a model amplifies that to the
        tolerance is not used any more.
        """
        evaluator = Evaluator(before, self.ctx.weights)
        disturbed = evaluator.run(known.function, known.inputs, disturb=Rounding())
        verdict = compare_outputs(known.function, disturbed, known.sample.outputs, tolerance / SAFETY)
        if verdict.difference is None:
            return True
        known.is_used = False
        what = (
            f"function '@{known.function}' on {known.origin} inputs: single roundings change output "
            f"'{verdict.difference.output}' by {verdict.difference.error:.2g} of its largest number"
        )
        self._say_once(what, None)
        return False

    def _leaves_range(self, known: _Known, pass_: Pass, before: ModuleOp) -> bool:
        """Whether something is too large or too small for its type before a pass that repairs that.

        Then the right answer is not what there was; what the function computes from here on is compared with that.
        """
        watch = RangeWatch()
        Evaluator(before, self.ctx.weights).run(known.function, known.inputs, disturb=watch)
        if watch.found:
            known.outputs = None
            self._say_once(
                f"function '@{known.function}' on {known.origin} inputs: before pass '{pass_.name}' a result is too "
                "large or too small for its type, which the pass repairs",
                None,
            )
        return watch.found

    def _reject(self, suspect: Suspect, before: ModuleOp, known: _Known, difference: Difference) -> None:
        """Find out what there is to know about a change of the answer, and report it."""
        blame = find_blame(suspect, before, known.sample) if self.options.bisect else None
        case = Case(suspect, before, known.function, known.inputs)
        case = reduce_case(case, is_changed, difference.output)
        changes = f"changes output '{difference.output}' of '@{difference.function}'"
        message = (
            f"changes the answer: output '{difference.output}' of '@{difference.function}' {difference.reason} "
            f"(on {known.origin} inputs)"
        )
        story = (f"In the whole model, pass '{suspect.pass_.name}' {changes}:", f"it {difference.reason}.")
        self._report(case, message, difference, blame, case.place, story)

    def _reject_failure(self, suspect: Suspect, before: ModuleOp, error: Exception) -> None:
        """Find out what there is to know about a pass that failed, and report it."""
        blame = None
        if self.options.bisect and not isinstance(error, EndlessRewrite):  # which names it
            blame = find_blame(suspect, before, None)
        if isinstance(error, EndlessRewrite):
            what, place = f"fails: {error.message}", error.place
        elif isinstance(error, MloptError):
            what, place = f"leaves IR that is wrong: {error.message}", error.place
        else:
            what, place = ": ".join(["fails", type(error).__name__, *str(error).splitlines()[:1]]), None
        case = self._failing_case(suspect, before, type(error))
        story = (f"Pass '{suspect.pass_.name}' goes wrong:", f"it {what}.")
        self._report(case, what, None, blame, place or case.place, story)

    def _failing_case(self, suspect: Suspect, before: ModuleOp, kind: type[Exception]) -> Case:
        """A part of a module on which the pass fails in the same way, or all of it."""

        def fails(case: Case) -> bool:
            try:
                verify_op(case.module)
            except MloptError:
                return False
            return type(failure_of(case.suspect, case.module.clone())) is kind

        anchor = at_path(before, suspect.path)
        functions = [anchor] if isinstance(anchor, FuncOp) else functions_of(before)
        functions.sort(key=lambda func: func.sym_name.data != "main")
        if not functions:
            return Case(suspect, before, "", {})
        case = Case(suspect, before, functions[0].sym_name.data, {})
        try:
            require_evaluable(before, self.ctx.weights)
            case = replace(case, inputs=seeded_inputs(functions[0], self.ctx.weights))
            return reduce_case(case, fails, trials=ENDLESS_TRIALS if kind is EndlessRewrite else MAX_TRIALS)
        except MloptError:  # it can't be cut where it can't be computed
            return case

    def _report(
        self,
        case: Case,
        what: str,
        difference: Difference | None,
        blame: Blame | None,
        place: Place | None,
        story: Sequence[str],
    ) -> None:
        suspect, name = case.suspect, case.suspect.pass_.name
        notes: list[Diagnostic] = []
        if blame is not None:
            notes.append(_blame_note(blame, name))
        reproducer = None
        try:
            needs_inputs = difference is not None
            reproducer = write_reproducer(case, story, self.options.reproducers, needs_inputs=needs_inputs)
            of_what = f"{counted(case.size, 'operation')}: {reproducer}"
            notes.append(Diagnostic(Severity.NOTE, f"a reproducer of {of_what}"))
        except MloptError as error:
            notes.append(Diagnostic(Severity.NOTE, f"no reproducer was written: {error}"))
        if blame is not None and blame.rewrite is not None and blame.rewrite.place != Place():
            place = blame.rewrite.place
        message = f"pass '{name}' {what}; its change is undone"
        diagnostic = Diagnostic(Severity.ERROR, message, place, tuple(notes))
        self.ctx.warnings.append(diagnostic)
        reason = what if difference is None else difference.reason
        self.rejections.append(
            Rejection(name, reason, difference, suspect.tolerance, blame, reproducer, diagnostic)
        )

    def _say_once(self, why: str, place: Place | None) -> None:
        if why not in self._said:
            self._said.add(why)
            message = f"can't be validated: {why}"
            self.ctx.warnings.append(Diagnostic(Severity.WARNING, message, place))


def _module_around(op: Operation) -> ModuleOp:
    current = op
    while (parent := current.parent_op()) is not None:
        current = parent
    assert isinstance(current, ModuleOp)
    return current


def _restore(op: Operation, before: Operation) -> None:
    """Give `op` the attributes and the contents of `before`, which is left empty."""
    op.attributes, op.properties = dict(before.attributes), dict(before.properties)
    for region, kept in zip(op.regions, before.regions, strict=True):
        while region.blocks.first is not None:
            region.erase_block(region.blocks.first, safe_erase=False)
        kept.move_blocks(region)


def _branches(func: FuncOp) -> Iterator[Block]:
    """The blocks that control flow in a function may leave out."""
    for op in func.walk():
        if isinstance(op, scf.IfOp | scf.ForOp | scf.WhileOp):
            yield from (block for region in op.regions for block in region.blocks)


def _is_inside(block: Block, others: Collection[Block]) -> bool:
    """Whether a block is inside one of others."""
    outer = block.parent_block()
    return outer is not None and (outer in others or _is_inside(outer, others))


def _has_unknown_operations(module: ModuleOp) -> bool:
    return any(isinstance(op, UnregisteredOp) for op in module.walk())


def _difference_record(difference: Difference | None) -> dict[str, Any]:
    if difference is None:
        return {"function": None, "output": None, "error": None}
    error = difference.error if isfinite(difference.error) else None
    return {"function": difference.function, "output": difference.output, "error": error}


def _rewrite_record(rewrite: Rewrite | None) -> dict[str, Any] | None:
    if rewrite is None:
        return None
    number, pattern, op, place = rewrite
    return {"number": number, "pattern": pattern, "op": op, **place_record(place)}


def _blame_note(blame: Blame, pass_name: str) -> Diagnostic:
    if blame.rewrite is None:
        beside = f"none of the {blame.total} numbered rewrites" if blame.total else "no numbered rewrite"
        message = f"{beside} of pass '{pass_name}' is to blame: the fault is in what it does beside"
        return Diagnostic(Severity.NOTE, message)
    rewrite = blame.rewrite
    message = f"rewrite {rewrite.number} of {blame.total} is to blame: '{rewrite.pattern}' on '{rewrite.op}'"
    return Diagnostic(Severity.NOTE, message, rewrite.place)
