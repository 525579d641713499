"""The order of the passes, and why. Only this file orders passes.

A compilation runs three phases, one per level; each ends with the conversion to the next:

- graph: `fold-constants` first, since it turns shape arithmetic and masks into constants that patterns match on;
  `canonicalize` and `cse` on what is left, so that a value computed twice is one value for what follows;
  `eliminate-casts` and `eliminate-slices` before `eliminate-transposes`, which counts what stands around a transpose,
  and `eliminate-reshapes` after it, since it leaves reshapes where a transpose moves no data;
  `fold-batch-norm` after folding, when the norm's parameters are constants;
  `dce` last, so that nothing dead is converted.
- kernel: `fuse-kernels` before `reuse-in-place`, because a fused kernel has fewer values that could die;
  both before bufferization, so that the decisions stand in the IR.
- memref: bufferize, then workspaces (they are buffers too), then offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from mlopt.diagnostics import PipelineError, did_you_mean, nearest
from mlopt.passes.registry import PASSES

Level = Literal["graph", "kernel", "memref"]
LEVELS: tuple[Level, ...] = ("graph", "kernel", "memref")

MemoryStrategy = Literal["none", "conservative", "aggressive"]
MEMORY_STRATEGIES: tuple[MemoryStrategy, ...] = ("none", "conservative", "aggressive")


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What decides which passes run.

    - `optimize`: False lowers the model as it was imported, every operator its own kernel.
    - `fusion`, `inplace`, `memory_reuse`: the three switches `enable_fusion`, `enable_inplace` and
      `memory_reuse_strategy` of a configuration file.
    - `disabled`: names of passes to leave out; conversions can't be.
    """

    optimize: bool = True
    fusion: bool = True
    inplace: bool = True
    memory_reuse: MemoryStrategy = "aggressive"
    disabled: Collection[str] = ()


_CONVERSIONS = frozenset(
    {"convert-graph-to-kernel", "convert-kernel-to-memref", "plan-workspaces", "assign-buffers"}
)

OPTIMISATION_LEVELS = {
    "O0": "As imported: every operator its own kernel.",
    "O1": "Optimise without fusion.",
    "O2": "Optimise and fuse: the default.",
}
"""The standard pipelines by name, each with what it does. All go down to a planned memref level."""


def at_optimisation_level(name: str, options: PipelineOptions) -> PipelineOptions:
    """`options` with the switches that one of `OPTIMISATION_LEVELS` stands for; the others stay as they are."""
    return replace(options, optimize=name != "O0", fusion=name == "O2")


def phase_passes(level: Level, options: PipelineOptions) -> tuple[str, ...]:
    """The passes that rewrite a module at `level`, in order, without the conversion to the next level."""
    passes: list[str] = []
    match level:
        case "graph" if options.optimize:
            passes = ["fold-constants", "canonicalize", "cse"]
            passes += ["eliminate-casts", "eliminate-slices", "eliminate-transposes", "eliminate-reshapes"]
            if options.fusion:
                passes.append("fold-batch-norm")
            passes += ["fold-constants", "canonicalize", "cse", "dce"]
        case "graph":
            passes = ["dce"]
        case "kernel" if options.optimize:
            if options.fusion:
                passes.append("fuse-kernels")
            if options.inplace:
                passes.append("reuse-in-place")
            passes += ["cse", "dce"]
        case "kernel":
            passes = []
        case "memref":
            passes = ["plan-workspaces", f"assign-buffers{{strategy={options.memory_reuse}}}"]
    check_pass_names(options.disabled)
    needed = sorted(_CONVERSIONS.intersection(options.disabled))
    if needed:
        raise PipelineError(f"pass '{needed[0]}' can't be disabled: without it nothing can run")
    return tuple(name for name in passes if name.partition("{")[0] not in options.disabled)


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
    """Raise `PipelineError` if one of the names is no pass."""
    for name in names:
        if name not in PASSES:
            hint = did_you_mean(nearest(name, PASSES)) or f"; expected one of {', '.join(PASSES)}"
            raise PipelineError(f"there is no pass '{name}' to disable{hint}")
