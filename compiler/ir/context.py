"""The context of one compilation: registered dialects, the weights, the evaluator, the target, what passes report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from xdsl.context import Context
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation

from mlopt.diagnostics import Diagnostic, Remark, RemarkKind, RemarkValue, Severity
from mlopt.ir.locations import place_of, place_of_op
from mlopt.ir.rewrite_scope import current_scope
from mlopt.weights import WeightStore

Evaluator = Callable[[Operation, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Evaluates one graph-level operation on numpy arrays; raises `LookupError` for an operation it does not know."""

Entered = Callable[[Block, Sequence[np.ndarray]], object]
"""Told of each block that is evaluated, each time, with the values of its arguments."""

Evaluated = Callable[[Operation, Sequence[np.ndarray], Sequence[np.ndarray]], object]
"""Told of each operation that was evaluated, each time, with its operands and its results."""


class FunctionEvaluator(Protocol):
    """Evaluates a graph-level function for inputs by name, loops and branches included; `RunError` where it can't."""

    def __call__(
        self,
        function: FuncOp,
        inputs: Mapping[str, np.ndarray],
        *,
        entered: Entered | None = None,
        evaluated: Evaluated | None = None,
    ) -> Mapping[str, np.ndarray]: ...


@dataclass(frozen=True, slots=True)
class ScratchNeed:
    """Bytes of scratch that an engine needs beside the buffers a function declares itself.

    `minimum`: with less, a call takes much longer; `preferred`: more brings nothing; `nanoseconds`: how long a call
    takes with so many bytes, roughly, if the engine has a model of that. `find_least` finds out without how many bytes
    the function can't run, where that is less than `minimum`.
    """

    minimum: int
    preferred: int
    nanoseconds: Callable[[int], float] | None = field(default=None, compare=False)
    find_least: Callable[[], int] | None = field(default=None, compare=False)

    @property
    def least(self) -> int:
        """The bytes without which the function can't run."""
        return self.minimum if self.find_least is None else min(self.minimum, self.find_least())


class Target(Protocol):
    """What passes may ask about the machine and engine that the code is for."""

    @property
    def name(self) -> str: ...

    @property
    def alignment(self) -> int:
        """Bytes; every planned offset is a multiple of it."""
        ...

    def scratch_need(self, func: FuncOp) -> ScratchNeed:
        """How much scratch the engine needs to execute this memref-level function."""
        ...

    def scratch_bound(self, launch: Operation) -> int:
        """No less than the `minimum` of the function that a `kernel.launch` becomes, without lowering it."""
        ...


@dataclass
class CompilerContext(Context):
    """xDSL's context plus what one compilation shares between its passes.

    `statistics` counts by (pass name, statistic); `remarks` collects what passes did and did not do,
    `warnings` what a user must know even without asking. `disabled_patterns` are switched off in all passes (`NAME`) or
    in one (`PASS:NAME`).
    """

    weights: WeightStore = field(default_factory=WeightStore)
    evaluator: Evaluator | None = None
    function_evaluator: FunctionEvaluator | None = None
    target: Target | None = None
    disabled_patterns: frozenset[str] = frozenset()
    statistics: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    remarks: list[Remark] = field(default_factory=list[Remark])
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def count(self, pass_name: str, statistic: str, amount: int = 1) -> None:
        """Add to a statistic of a pass, such as `count("fuse-kernels", "maps-fused")`."""
        self.statistics[pass_name, statistic] += amount

    def remark(
        self,
        pass_name: str,
        kind: RemarkKind,
        message: str,
        where: Operation | Attribute,
        notes: Sequence[Diagnostic] = (),
        *,
        pattern: str | None = None,
        args: Mapping[str, RemarkValue] | None = None,
    ) -> None:
        """Report what a pass did (`passed`), why it did not (`missed`), or a figure (`analysis`).

        `where` is the operation or the location that it is about, such as `remark("cse", "passed", "...", op)`.
        `pattern` is by default the one at work; `args` are the facts of the message, for programs that read remarks,
        to which the kind of the operation is added.
        """
        place = place_of_op(where) if isinstance(where, Operation) else place_of(where)
        scope = current_scope()
        if scope is not None and kind == "passed":
            scope.passed += 1
        if scope is not None and pattern is None and scope.pass_name == pass_name:
            pattern = scope.current or (scope.last if kind == "passed" else None)
        facts: dict[str, RemarkValue] = {"op": where.name} if isinstance(where, Operation) else {}
        facts |= args or {}
        self.remarks.append(
            Remark(pass_name, kind, message, place, tuple(notes), pattern, tuple(facts.items()))
        )

    def warn(self, message: str, op: Operation) -> None:
        """Report what a user must know, at the place of an operation."""
        self.warnings.append(Diagnostic(Severity.WARNING, message, place_of_op(op)))
