"""The order of the passes, and why. Only this file orders passes.

A compilation runs three phases, one per level; each ends with the conversion to the next. A new pass of the graph level
is one line in one of six lists, `FIRST`, `CLEANING`, `FUSIONS`, `COSTLY`, `LAST` or `FINAL`: its name and options, and
why it stands where it stands.

- graph: `CLEANING` to a fixpoint, then `FUSIONS`, then both again, until nothing changes: what a fusion leaves is
  cleaned, and what cleaning brings together is fused. A pass for which nothing has changed since it ran is not run
  again, so that the last rounds cost little. `LAST` and `FINAL` follow, once. O1 has neither these nor fusions, O3 has
  `COSTLY` too, and `FIRST` before all.
- kernel: `fuse-kernels` before `reuse-in-place`, because a fused kernel has fewer values that could die;
  both before bufferization, so that the decisions stand in the IR. In O3 `tile-contractions` stands between them: a
  fused kernel has the map that narrows the sums, and tiles that are written early keep operands from being overwritten.
  `place-concats` stands right before `reuse-in-place`: what is computed in a part of another tensor overwrites no
  operand. `place-donated` between them: it looks at the wholes that are left, and their memory is no operand's then.
  `chunk-scans` comes after these, when it is known what shares memory.
  `schedule-for-memory` comes last: what shares memory stands in the IR then, so that the bytes it counts are
  those that the arena will have; before `reuse-in-place` it makes some arenas larger (docs/scheduling.md).
  `fit-memory` follows behind `cse`, which would undo what it computes twice: for a budget, or, without one, for what
  the model takes as imported.
- memref: bufferize, then `elide-copies`, after which fewer buffers are left, `place-outputs`, which needs to know all
  accesses, then workspaces (they are buffers too), then offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mlopt.diagnostics import PipelineError, did_you_mean, nearest
from mlopt.passes.registry import PASSES
from mlopt.passmanager.option_values import (
    byte_count,
    require_bool,
    require_names,
    require_width,
    wrong_value,
)

Level = Literal["graph", "kernel", "memref"]
LEVELS: tuple[Level, ...] = ("graph", "kernel", "memref")

MemoryStrategy = Literal["none", "conservative", "aggressive"]
MEMORY_STRATEGIES: tuple[MemoryStrategy, ...] = ("none", "conservative", "aggressive")


class Step(NamedTuple):
    """A pass in a list of passes: the text of a pipeline's element, such as `cse`, and why it stands there."""

    element: str
    reason: str

    @property
    def pass_name(self) -> str:
        return self.element.partition("{")[0]


CLEANING: tuple[Step, ...] = (
    Step("fold-constants", "shape arithmetic and masks become constants, which all other patterns match on"),
    Step("canonicalize", "one form for what can be written in several"),
    Step("cse", "a value computed twice is one value for what follows"),
    Step("simplify-algebra", "after cse, so that equal operands are one value; no movement concerns it"),
    Step("eliminate-casts", "before eliminate-transposes, which counts what stands around a transpose"),
    Step("eliminate-slices", "likewise"),
    Step(
        "eliminate-transposes", "before eliminate-reshapes: a transpose that moves no data becomes a reshape"
    ),
    Step("eliminate-reshapes", "takes what the passes before it leave"),
    Step("dce", "last: a dead use keeps a value from being used once, and is not to be converted"),
)
"""Level 0: what is never a loss, and exact. Runs to a fixpoint."""

FUSIONS: tuple[Step, ...] = (
    Step("stabilize-softmax", "first: what was written out is one operation for what follows"),
    Step(
        "fuse-layer-norm",
        "norms before activations; a norm of what is centered is a layer norm, not an RMS norm",
    ),
    Step("fuse-rms-norm", "after fuse-layer-norm, which takes what is centered"),
    Step("fuse-group-norm", "takes a scale and a bias that fold-batch-norm would take for its own"),
    Step("fuse-gelu", "activations before convolutions and linears, which take them"),
    Step("fuse-swish", "likewise"),
    Step("fuse-rotary", "before fuse-attention, whose queries and keys it makes"),
    Step(
        "fuse-attention",
        "before fuse-linear, which would take the products; norms and activations are outside",
    ),
    Step(
        "fold-batch-norm",
        "after norms, activations and attention, whose scales and shifts it would take; before convolutions and "
        "linears take the biases that it makes",
    ),
)
"""Level 1: groups of operations that become one by meaning.

In this order: what makes numbers safe (softmax), norms, activations, attention (which contains a softmax, and takes
rotary embeddings as inputs), what disappears into weights (batch norm).
"""

COSTLY: tuple[Step, ...] = ()
"""What O3 has beside O2, after the fusions: passes that take longer, or round differently within declared limits."""

FIRST: tuple[Step, ...] = (
    Step("fuse-quantized", "before fold-constants, which multiplies the integers of weights by their scales"),
)
"""What O3 runs once, on the module as it was imported."""

LAST: tuple[Step, ...] = (
    Step("fuse-conv", "takes the bias, the residual and the activation that nothing else wanted"),
    Step("fuse-linear", "likewise, what fuse-conv left"),
    Step("dce", "last: the bounds of a clip that became an activation are dead"),
)
"""Level 1 too, but once, when nothing else changes any more: all other passes look for products, sums and activations,
not for what these make of them."""

FINAL: tuple[Step, ...] = (
    Step("assign-layouts", "no other pass knows channels-last convolutions; costs depend on what was fused"),
)
"""What runs once, at the very end, for this engine alone: an export leaves it out.

With the fusions only: the costs are those of convolutions that have taken their bias and their activation."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What decides which passes run.

    - `optimize`: False lowers the model as it was imported, every operator its own kernel.
    - `thorough`: run what costs more compile time, or rounds differently within declared limits, too.
    - `fusion`, `inplace`, `memory_reuse`: the three switches `enable_fusion`, `enable_inplace` and
      `memory_reuse_strategy` of a configuration file.
    - `memory_budget`: the bytes of the arena; more is an error, after all that makes it smaller (`fit-memory`).
    - `waves`: how many independent launches may run at the same time (`order-in-waves`); None: one after the other.
    - `spill_budget`: the bytes of a second memory that tensors may be copied to where the budget needs it, or "any" for
      as many as it takes; None: nothing is spilled.
    - `disabled`: names of passes to leave out; conversions can't be.
    - `disabled_patterns`: names of patterns to leave out, `PATTERN` of every pass or `PASS:PATTERN` of one.

    Bytes may be given as text, such as "64KiB"; here they are numbers. `InputError` for a value that an option can't
    have.
    """

    optimize: bool = True
    thorough: bool = False
    fusion: bool = True
    inplace: bool = True
    memory_reuse: MemoryStrategy = "aggressive"
    memory_budget: int | str | None = None
    waves: int | None = None
    spill_budget: int | str | None = None
    disabled: Collection[str] = ()
    disabled_patterns: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in ("optimize", "thorough", "fusion", "inplace"):
            require_bool(name, getattr(self, name))
        if self.memory_reuse not in MEMORY_STRATEGIES:
            wrong_value("memory_reuse", f"one of {', '.join(MEMORY_STRATEGIES)}", self.memory_reuse)
        if self.memory_budget is not None:
            object.__setattr__(self, "memory_budget", byte_count("memory_budget", self.memory_budget))
        if self.spill_budget is not None and self.spill_budget != "any":
            found = byte_count("spill_budget", self.spill_budget, ", or any")
            object.__setattr__(self, "spill_budget", found)
        if self.waves is not None:
            require_width("waves", self.waves)
        require_names("disabled", self.disabled)
        require_names("disabled_patterns", self.disabled_patterns)


_CONVERSIONS = frozenset(
    {"convert-graph-to-kernel", "convert-kernel-to-memref", "plan-workspaces", "assign-buffers"}
)

OPTIMISATION_LEVELS = {
    "O0": "As imported: every operator its own kernel.",
    "O1": "Optimise without fusion.",
    "O2": "Optimise and fuse: the default.",
    "O3": "O2, and what costs more compile time, or rounds differently within declared limits.",
}
"""The standard pipelines by name, each with what it does. All go down to a planned memref level."""


def at_optimisation_level(name: str, options: PipelineOptions) -> PipelineOptions:
    """`options` with the switches that one of `OPTIMISATION_LEVELS` stands for; the others stay as they are."""
    return replace(options, optimize=name != "O0", fusion=name in ("O2", "O3"), thorough=name == "O3")


def phase_passes(level: Level, options: PipelineOptions) -> tuple[str, ...]:
    """What rewrites a module at `level`, in order, without the conversion to the next level.

    Elements of a pipeline as text: passes, and fixpoints of passes.
    """
    check_pass_names(options.disabled)
    if options.spill_budget is not None and options.memory_budget is None:
        raise PipelineError("a spill budget goes with a memory budget, of the memory that is spilled from")
    match level:
        case "graph":
            return _graph_passes(options)
        case "kernel":
            passes = _kernel_passes(options)
        case "memref":
            passes = ["elide-copies", "place-outputs"] if options.optimize and options.inplace else []
            passes += [] if options.waves is None else [f"order-in-waves{{width={options.waves}}}"]
            passes += _planning_passes(options)
    return tuple(name for name in passes if name.partition("{")[0] not in options.disabled)


def _graph_passes(options: PipelineOptions) -> tuple[str, ...]:
    def elements(steps: Sequence[Step]) -> list[str]:
        return [step.element for step in steps if step.pass_name not in options.disabled]

    if not options.optimize:
        return () if "dce" in options.disabled else ("dce",)
    cleaning = f"fixpoint({','.join(elements(CLEANING))})"
    later = elements(FUSIONS) if options.fusion else []
    later += elements(COSTLY) if options.thorough else []
    first = elements(FIRST) if options.thorough else []
    rounds = f"fixpoint({','.join([cleaning, *later])})" if later else cleaning
    last = elements(LAST) if options.fusion else []
    final = elements(FINAL) if options.fusion else []
    return (*first, rounds, *last, *final)


def _planning_passes(options: PipelineOptions) -> list[str]:
    assigning = f"strategy={options.memory_reuse}"
    if options.memory_budget is None:
        return ["plan-workspaces", f"assign-buffers{{{assigning}}}"]
    budget = f"budget={options.memory_budget}"
    spill = f" spill={options.spill_budget}" if isinstance(options.spill_budget, int) else ""
    return [f"plan-workspaces{{{budget}}}", f"assign-buffers{{{assigning} {budget}{spill}}}"]


def _kernel_passes(options: PipelineOptions) -> list[str]:
    if options.memory_budget is not None:
        spill = "" if options.spill_budget is None else f" spill={options.spill_budget}"
        fitting = [f"fit-memory{{budget={options.memory_budget}{spill}}}"]
    else:
        fitting = ["fit-memory"] if options.optimize else []
    if not options.optimize:
        return fitting
    passes = ["fuse-kernels"] if options.fusion else []
    if options.thorough:
        passes.append("tile-contractions")
    if options.inplace:
        passes += ["place-concats", "place-donated", "reuse-in-place"]
    budget = "" if options.memory_budget is None else f"{{budget={options.memory_budget}}}"
    passes += [f"chunk-scans{budget}", "schedule-for-memory"]
    return [*passes, "cse", "dce", *fitting]


def named_pipeline(name: str, level: Level = "graph") -> str:
    """The passes of one of `OPTIMISATION_LEVELS` for a module at `level`, as text; `KeyError` for another name."""
    if name not in OPTIMISATION_LEVELS:
        raise KeyError(name)
    options = at_optimisation_level(name, PipelineOptions())
    passes: list[str] = []
    for phase in LEVELS[LEVELS.index(level) :]:
        passes += phase_passes(phase, options)
        step = conversion(phase)
        if step is not None:
            passes.append(step)
    return ",".join(passes)


def conversion(source: Level) -> str | None:
    """The pass that takes a module from `source` to the next level, or None at the lowest."""
    return {"graph": "convert-graph-to-kernel", "kernel": "convert-kernel-to-memref", "memref": None}[source]


def check_pass_names(names: Collection[str]) -> None:
    """Raise `PipelineError` if one of the names is no pass, or one that can't be left out."""
    needed = sorted(_CONVERSIONS.intersection(names))
    if needed:
        raise PipelineError(f"pass '{needed[0]}' can't be disabled: without it nothing can run")
    for name in names:
        if name not in PASSES:
            hint = did_you_mean(nearest(name, PASSES)) or f"; expected one of {', '.join(PASSES)}"
            raise PipelineError(f"there is no pass '{name}' to disable{hint}")
