"""Runs a program on a route through mlopt and compares what comes out at each level with the right values."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from mlopt import CompileOptions, MloptError, PassFailure, RunError, UnsupportedError
from mlopt.compare import compare, is_floating
from mlopt.compilation import load_model, main_function
from mlopt.interface import argument_attributes
from mlopt.interpreter import graph, kernel
from mlopt.interpreter.memref import Executable
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.printer import print_module
from mlopt.passes.pipelines import (
    LEVELS,
    MEMORY_STRATEGIES,
    OPTIMISATION_LEVELS,
    PipelineOptions,
    at_optimisation_level,
    phase_passes,
)
from mlopt.passes.registry import PASSES
from mlopt.passmanager import PassManager, parse_pipeline
from tests.fuzz.budgets import is_proved, what_is_wrong
from tests.fuzz.exported import Exported, ForeignError, Runner, run_exported
from tests.fuzz.program import Array, Program

APPROXIMATE = frozenset({"approximate-gelu", "quantize"})
"""Passes that change the answer by intent, or need numbers from elsewhere."""

GRAPH_PASSES = tuple(
    name
    for name, place in PASSES.items()
    if place.startswith(("mlopt.passes.graph.", "mlopt.passes.common.")) and name not in APPROXIMATE
)
BUDGETS = (512, 1024, 4096)
OPTIONS = {"fit-memory": ("", *(f"{{budget={budget}}}" for budget in BUDGETS))}
"""Of passes that are tried with several."""

KERNEL_PASSES = tuple(
    name + options
    for name, place in PASSES.items()
    if place.startswith(("mlopt.passes.kernel.", "mlopt.passes.common."))
    for options in OPTIONS.get(name, ("",))
)
MEMREF_PASSES = tuple(
    name
    for name, place in PASSES.items()
    if place.startswith("mlopt.passes.memref.") and name not in ("plan-workspaces", "assign-buffers")
)
"""Taken from the registry, so that a new pass is tried as soon as it is there."""

MEMORY = tuple(MEMORY_STRATEGIES)

AS_IMPORTED = "graph as imported"

SLACK, TINY = 4.0, 1e-30
"""By how many times its error a result may differ, and what counts as 0."""


@dataclass(frozen=True)
class Route:
    """The passes of each level, and how the memory is used."""

    graph: tuple[str, ...]
    kernel: tuple[str, ...]
    memory: str = "aggressive"
    export: bool = False
    poison: bool = True
    memref: tuple[str, ...] = ()

    @property
    def at_memref(self) -> tuple[str, ...]:
        """The passes from the kernel level on, those that plan the memory included."""
        planning = ("plan-workspaces", f"assign-buffers{{strategy={self.memory}}}")
        return ("convert-kernel-to-memref", *self.memref, *planning)

    def __str__(self) -> str:
        return ",".join([*self.graph, "convert-graph-to-kernel", *self.kernel, *self.at_memref])


def standard_routes() -> dict[str, Route]:
    """The pipelines by name, and every pass alone."""
    routes: dict[str, Route] = {}
    for name in OPTIMISATION_LEVELS:
        options = at_optimisation_level(name, PipelineOptions())
        passes = {level: phase_passes(level, options) for level in LEVELS}
        memory = "none" if name == "O0" else "aggressive"
        memref = tuple(each for each in passes["memref"] if each in MEMREF_PASSES)
        routes[name] = Route(passes["graph"], passes["kernel"], memory, export=True, memref=memref)
    routes |= {f"graph.{name}": Route((name,), (), "conservative", export=True) for name in GRAPH_PASSES}
    routes |= {f"kernel.{name}": Route((), (name,)) for name in KERNEL_PASSES}
    routes |= {f"memref.{name}": Route((), (), memref=(name,)) for name in MEMREF_PASSES}
    return routes


class Refused(Exception):
    """mlopt says that it does not support something; `node` is its name, if that is told."""

    def __init__(self, error: MloptError):
        super().__init__(error.message)
        self.node = error.place.node if error.place is not None else None


@dataclass(frozen=True)
class Failure:
    """What went wrong: at which stage, and how. `kind` is the same for failures that look alike."""

    stage: str
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.detail}"


class WrongRefusal(Exception):
    """`fit-memory` refuses a budget without a reason, or one that can be kept."""


class _BudgetRefused(Exception):
    """`fit-memory` says that a budget can't be kept, and nothing is known against that."""


def check(program: Program, route: Route, refusals: Counter[str] | None = None) -> Failure | None:
    """The first difference or error on the way, or None. `Refused` if mlopt does not support a part of the model.

    `refusals` counts budgets that were refused, those that it is not proved of apart.
    """
    stage = "import"
    try:
        compilation = load_model(program.model(), CompileOptions(), inputs=_example(program))
        runs = _runs(program, compilation.module)
        for stage, run in _stages(compilation.ctx, compilation.module, route):
            for index in runs if run is not None else ():
                try:
                    got = run(program.feeds(index))
                except ForeignError:
                    break
                failure = _compare(program, index, got, stage)
                if failure is not None and isinstance(run, Exported):
                    failure = _compare(program, index, got, stage, run.errors(program.feeds(index)))
                if failure is not None:
                    return failure
    except UnsupportedError as error:
        raise Refused(error) from error
    except _BudgetRefused as refusal:
        if refusals is not None:
            refusals[str(refusal)] += 1
    except RunError as error:
        if stage == AS_IMPORTED and _broadcasts_by_data(program, error):
            raise Refused(error) from error
        return _failure(stage, error)
    except Exception as error:  # whatever it is, it is to be reported
        return _failure(stage, error)
    return None


def _stages(ctx: CompilerContext, module: ModuleOp, route: Route) -> Iterator[tuple[str, Runner | None]]:
    """What runs the module after each stage, or None for a stage that is about to begin."""

    def run_passes(*names: str) -> Iterator[tuple[str, None]]:
        for name in names:
            yield f"pass {name}", None
            manager = PassManager(ctx, parse_pipeline(f"builtin.module({name})"), verify_each=True)
            if name.startswith("fit-memory{budget="):  # without a budget it refuses nothing
                _fit_memory(manager, module, int(name.partition("=")[2].strip("}")))
            else:
                manager.run(module)

    def at_graph_level(of: ModuleOp) -> Runner:
        return lambda feeds: graph.evaluate_module(of, feeds, ctx.weights)

    def at_kernel_level(feeds: dict[str, Array]) -> dict[str, Array]:
        return kernel.evaluate_module(module, feeds, ctx.weights)

    yield AS_IMPORTED, at_graph_level(module)
    if route.graph:
        yield from run_passes(*route.graph)
        yield "graph", at_graph_level(module)
    if route.export:
        yield "text of the graph", None
        yield "text of the graph", at_graph_level(parse_module(print_module(module), ctx))
        yield "export", None
        exported = run_exported(module, ctx)
        if exported is not None:
            yield "exported model in onnxruntime", exported
    yield from run_passes("convert-graph-to-kernel")
    yield "kernel as converted", at_kernel_level
    if route.kernel:
        yield from run_passes(*route.kernel)
        yield "kernel", at_kernel_level
    yield from run_passes(*route.at_memref)
    yield "loading", None
    executable = Executable(module, ctx.weights, poison=route.poison)
    for _ in range(2):  # what the last run left behind must not matter
        yield "engine", executable.run


def _fit_memory(manager: PassManager, module: ModuleOp, budget: int) -> None:
    """Not every budget can be kept; a refusal is taken for an answer if it may be believed."""
    before = module.clone()
    try:
        manager.run(module)
    except PassFailure as refusal:
        wrong = what_is_wrong(refusal, before, budget, manager.ctx)
        if wrong is not None:
            raise WrongRefusal(wrong) from refusal
        raise _BudgetRefused("proved" if is_proved(refusal) else "no way found") from refusal


def _broadcasts_by_data(program: Program, error: RunError) -> bool:
    """Whether the run ended at a node of which operands have other sizes along an axis in some run, one of them 1.

    Sizes that depend on data are taken to be equal where that can't be told before the run, which ends if they are not.
    """
    name = error.place.node if error.place is not None else None
    for step in (step for step in program.steps if step.node.name == name):
        for arrays in zip(*(operand.arrays for operand in step.operands), strict=False):
            shapes = [array.shape[::-1] for array in arrays]
            if any(len({size for size in sizes if size is not None}) > 1 for sizes in zip_longest(*shapes)):
                return True
    return False


def _runs(program: Program, module: ModuleOp) -> list[int]:
    """Those that the module holds for: inputs that decide shapes have the values of the first."""
    bound = [
        name.data
        for attributes in argument_attributes(main_function(module))
        if "mlopt.value" in attributes and isinstance(name := attributes.get("mlopt.name"), StringAttr)
    ]
    first = program.feeds(0)
    return [
        run
        for run in range(program.runs)
        if all(program.feeds(run)[name].tobytes() == first[name].tobytes() for name in bound)
    ]


def _example(program: Program) -> dict[str, Array] | None:
    """Inputs are shown to the importer only if one of them decides a shape: the others must do without."""
    return program.feeds(0) if program.binds_values() else None


def _compare(
    program: Program, run: int, got: dict[str, Array], stage: str, errors: Mapping[str, float] | None = None
) -> Failure | None:
    """The first output that differs by more than its error. With `errors`, which are added, only those named there."""
    names = [value.name for value in program.outputs]
    if list(got) != names:
        return Failure(stage, "names", f"the outputs are {list(got)}, expected {names}")
    for value in program.outputs:
        if errors is not None and value.name not in errors:
            continue
        error = value.error + (errors[value.name] if errors is not None else 0.0)
        found, right = got[value.name], value.arrays[run]
        if error and not is_floating(right):  # an integer that may be off by one
            found, right = (a.astype(np.float64) if a.dtype == value.dtype else a for a in (found, right))
            atol = 1.0
        else:
            atol = SLACK * error + TINY
        result = compare(value.name, found, right, rtol=0.0, atol=atol)
        if not result.passed:
            makers = [step.node.op_type for step in program.steps if value in step.results]
            what = f"{value.name} ({', '.join(makers) or value.kind}) {result.reason} in run {run}"
            return Failure(stage, f"difference in {makers}", what)
    return None


def _failure(stage: str, error: Exception) -> Failure:
    """An error, told apart by its type and the line that raised it; mlopt's own by the message without numbers."""
    if isinstance(error, MloptError):
        kind = "".join(" " if c.isdigit() else c for c in error.message)
        return Failure(stage, kind, f"{type(error).__name__}: {error}")
    frames = traceback.extract_tb(error.__traceback__)
    where = next((frame for frame in reversed(frames) if "site-packages" not in frame.filename), frames[-1])
    return Failure(
        stage,
        f"{type(error).__name__} at {where.name}",
        f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})",
    )
