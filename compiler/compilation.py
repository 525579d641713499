"""One compilation: a model is loaded at some level and lowered phase by phase, each level kept for looking at."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mlopt.diagnostics import (
    Diagnostic,
    InputError,
    MloptError,
    PassFailure,
    Place,
    Severity,
    VerifyFailure,
)
from mlopt.engine import attach_engine
from mlopt.interface import argument_attributes, check_interface, result_attributes
from mlopt.ir.context import CompilerContext
from mlopt.ir.donations import donate
from mlopt.ir.functions import find_main, kinds_of_operations
from mlopt.ir.locations import place_of_op
from mlopt.ir.parser import parse_module
from mlopt.ir.printer import print_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.options import CompileOptions, parse_pipeline_text
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.memref.verify_plan import verify_plan
from mlopt.passes.pipelines import (
    LEVELS,
    Level,
    check_pass_names,
    conversion,
    phase_passes,
)
from mlopt.passmanager import Element, Instrumentation, PassManager, PassResult, Pipeline, parse_pipeline
from mlopt.save import used_weights
from mlopt.weights import WeightStore

if TYPE_CHECKING:
    from onnx import ModelProto

    from mlopt.validation import Rejection, Validator

ELIDE_LARGER_THAN = 64
"""Dense constants of more elements are elided in the text handed to people."""

TEXT_SOURCE = "<text>"
"""The source of a model that is given as text."""

_TEXT_MARK = re.compile(r"[{}()%]")
"""What text has, and names of files mostly do not."""


@dataclass
class Compilation:
    """A module on its way down, with what was measured.

    `levels` holds the module as it was at the end of each level reached (the last is `module` itself), or of the
    last one only: see `compile_model`. `inputs` are those that it was loaded with; `validator` has what validation
    found, if the options ask for it.
    """

    ctx: CompilerContext
    module: ModuleOp
    options: CompileOptions
    source: str
    inputs: Mapping[str, np.ndarray] | None = None
    validator: Validator | None = None
    levels: dict[Level, ModuleOp] = field(default_factory=dict[Level, ModuleOp])
    passes: list[PassResult] = field(default_factory=list[PassResult])
    elements: list[Element] = field(default_factory=list[Element])
    import_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def pipeline(self) -> str:
        """The pipeline that ran, as text."""
        return str(Pipeline("builtin.module", tuple(self.elements)))

    def ir(self, level: Level) -> str:
        """The text of the module at the end of a level, large constants elided; `InputError` if it was not reached."""
        if level not in LEVELS:
            raise InputError(f"there is no level '{level}', expected one of {', '.join(LEVELS)}")
        if level not in self.levels:
            reached = ", ".join(self.levels) or "none"
            raise InputError(f"the model was not compiled through level '{level}' (levels kept: {reached})")
        return print_module(self.levels[level], elide_larger_than=ELIDE_LARGER_THAN)


def require_weights(compilation: Compilation) -> None:
    """Raise `InputError` if the module names a weight that is not there: the message says where it was looked for.

    For those who need the numbers. Passes and plans do without them.
    """
    missing = [name for name in used_weights(compilation.module) if name not in compilation.ctx.weights]
    if not missing:
        return
    source, given = compilation.source, compilation.options.weights
    what = f'weight "{missing[0]}"' + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
    option = "--weights FILE (in Python, CompileOptions(weights=FILE))"
    if source == TEXT_SOURCE and given is None:
        raise InputError(f"there is no {what}: give the file with {option}", place=Place(source))
    beside = Path(source).with_suffix(".safetensors")
    file = given if given is not None else beside
    if file.exists():
        message = f"there is no {what}, which {source} names: give another file with {option}"
        raise InputError(message, place=Place(str(file)))
    message = (
        f"there is no {what}: expected the file {beside.name} beside the model, or another one with {option}"
    )
    raise InputError(message, place=Place(source))


def load_model(
    model: str | Path | ModelProto,
    options: CompileOptions,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> Compilation:
    """Load a model: an `.onnx` or `.mlir` file, an ONNX `ModelProto`, or MLIR text.

    Symbolic dimensions take their values from `options.dims`, then from the shapes of `inputs`. IR has none, and an
    ONNX model brings its own weights: `options.dims` with the one and `options.weights` with the other are errors.
    Inputs are marked as donated as `options.donate` says.
    """
    start = time.perf_counter()
    ctx = make_context()
    attach_engine(ctx)
    if is_text(model):
        source = TEXT_SOURCE
        module = _parse(model, ctx, source, options, options.weights)
    elif isinstance(model, str | Path) and Path(model).suffix == ".mlir":
        source = str(model)
        module = _parse_file(Path(model), ctx, options)
    else:
        source = str(model) if isinstance(model, str | Path) else "<ModelProto>"
        if isinstance(model, str) and _TEXT_MARK.search(model) and not Path(model).exists():
            hint = "what tells MLIR text from a path is an end of line in it"
            raise InputError(f"expected a model, found no file of this name; {hint}", place=Place(source))
        if options.weights is not None:
            raise InputError("weights can be given for an .mlir model only", place=Place(source))
        # The importer brings in onnx, which takes longer to load than a textual model takes to compile.
        from mlopt.frontend.onnx import import_model

        module = import_model(model, ctx, dims=dict(options.dims), inputs=dict(inputs) if inputs else None)
    verify_module(module)
    if options.donate:
        donate(main_function(module), options.donate)
    check_interface(module, main_function(module))
    compilation = Compilation(ctx, module, options, source, inputs)
    compilation.import_seconds = time.perf_counter() - start
    return compilation


def is_text(model: str | Path | ModelProto) -> TypeGuard[str]:
    """Whether this is MLIR text and not a path: it has an end of line."""
    return isinstance(model, str) and "\n" in model


def compile_model(
    compilation: Compilation,
    target: Level | None = "memref",
    *,
    instrumentations: Sequence[Instrumentation] = (),
    keep_levels: bool = True,
) -> Compilation:
    """Lower the module through the level `target`, in place. `instrumentations` watch every pass.

    With `keep_levels`, a copy of the module at the end of each level is kept, for `Compilation.ir` and for the report.

    A pipeline given as text must end at `target`; None lets it end anywhere, and stands for `memref` otherwise. The IR
    is verified at the end of each level, and after every pass of a pipeline given as text: checking after each pass
    takes a quarter of a small model's compile time.
    """
    try:
        return _compile(compilation, target, instrumentations, keep_levels)
    except MloptError as error:
        error.place = _in_file(error.place, compilation.source)
        error.notes = tuple(
            replace(note, place=_in_file(note.place, compilation.source)) for note in error.notes
        )
        raise


def _in_file(place: Place | None, file: str) -> Place | None:
    """The place of a node in the file that it stands in."""
    if place is None or place.node is None or place.file is not None:
        return place
    return replace(place, file=file)


def _compile(
    compilation: Compilation,
    target: Level | None,
    instrumentations: Sequence[Instrumentation],
    keep_levels: bool,
) -> Compilation:
    start = time.perf_counter()
    module, options = compilation.module, compilation.options
    if options.pipeline.disabled_patterns:
        _disable_patterns(compilation)
    if options.validate is not False or options.bisect:
        compilation.validator = _make_validator(compilation)
        instrumentations = (*instrumentations, compilation.validator)
    if options.pipeline_text is not None:
        check_pass_names(options.pipeline.disabled)
        pipeline = parse_pipeline_text(options.pipeline_text, level_of(module))
        _run(compilation, pipeline.without(options.pipeline.disabled), instrumentations)
        levels = levels_of(module)
        if target is not None and target not in levels:
            raise InputError(
                f"the pipeline ends at level '{levels[0]}', expected '{target}'",
                place=Place(compilation.source),
            )
        compilation.levels[target or levels[0]] = module
    else:
        target = target or "memref"
        level = level_of(module)
        if LEVELS.index(level) > LEVELS.index(target):
            raise InputError(
                f"the model is at level '{level}' already, which is below '{target}'",
                place=Place(compilation.source),
            )
        while True:
            if level == "memref" and is_planned(module):
                _require_budget(compilation)
                _warn_of_overlaps(compilation)
            else:
                _run_level(compilation, level, phase_passes(level, options.pipeline), instrumentations)
                _verify_level(module, level)
            compilation.levels[level] = module
            step = conversion(level)
            if level == target or step is None:
                break
            if keep_levels:
                compilation.levels[level] = module.clone()
            else:
                del compilation.levels[level]
            undone = _rejections(compilation)
            _run_level(compilation, level, [step], instrumentations)
            _require_converted(level, _rejections(compilation)[len(undone) :])
            level = LEVELS[LEVELS.index(level) + 1]
    compilation.compile_seconds += time.perf_counter() - start
    return compilation


def _disable_patterns(compilation: Compilation) -> None:
    from mlopt.passes.patterns import check_pattern_names  # which loads every pass

    names = compilation.options.pipeline.disabled_patterns
    check_pattern_names(names)
    compilation.ctx.disabled_patterns = frozenset(names)


def _make_validator(compilation: Compilation) -> Validator:
    from mlopt.validation import ValidationOptions, Validator  # most compilations are not validated

    options = compilation.options
    tolerance = None if isinstance(options.validate, bool) else options.validate
    settings = ValidationOptions(tolerance, compilation.inputs, options.bisect, options.reproducers)
    return Validator(compilation.ctx, settings)


def _rejections(compilation: Compilation) -> tuple[Rejection, ...]:
    """What the validator has undone so far."""
    return () if compilation.validator is None else tuple(compilation.validator.rejections)


def _require_converted(level: Level, rejections: Sequence[Rejection]) -> None:
    """Raise `PassFailure` if the validator has undone a conversion: there is no way on from there."""
    for rejection in rejections:
        diagnostic = rejection.diagnostic
        raise PassFailure(
            f"the model can't go below level '{level}': {diagnostic.message}",
            place=diagnostic.place,
            notes=diagnostic.notes,
        )


def level_of(module: ModuleOp) -> Level:
    """The level that a module is at, from the dialects of its ops and the types of `@main`."""
    return levels_of(module)[0]


def levels_of(module: ModuleOp) -> tuple[Level, ...]:
    """The levels that a module may be at: without operations it can look alike at the graph and the kernel level."""
    names = {kind.name for kind in kinds_of_operations(module)}
    dialects = {name.partition(".")[0] for name in names}
    # Loops at the graph level may hold nothing but a tensor made of the number of the trip.
    if "graph" in dialects or "tensor.from_elements" in names:
        return ("graph",)
    if "kernel" in dialects or "tensor" in dialects:
        return ("kernel",)
    main = main_function(module)
    types = main.function_type
    if not any(type.name == "tensor" for type in types.inputs) and not types.outputs.data:
        return ("memref",)
    # No operation tells; at the graph level types have signs, and no attribute says them.
    said = [*argument_attributes(main), *result_attributes(main)]
    return ("kernel",) if any("mlopt.dtype" in attributes for attributes in said) else ("graph", "kernel")


def _require_budget(compilation: Compilation) -> None:
    """Raise `InputError` if a plan from a file takes more than the budgets: it is run as it is."""
    budget = compilation.options.pipeline.memory_budget
    if not isinstance(budget, int):  # None: bytes given as text are a number there
        return
    allowed = compilation.options.pipeline.spill_budget
    memory = memory_summary(compilation.module)
    wrong = None
    if memory.arena_bytes > budget:
        wrong = f"its arena takes {memory.arena_bytes} bytes, the budget is {budget}"
    elif allowed != "any":
        allowed = allowed if isinstance(allowed, int) else 0
        if memory.spill.arena_bytes > allowed:
            wrong = f"it spills to {memory.spill.arena_bytes} bytes, the spill budget is {allowed}"
    if wrong is not None:
        raise InputError(f"the memory of this file is planned: {wrong}", place=Place(compilation.source))


def _warn_of_overlaps(compilation: Compilation) -> None:
    """A plan from a file is run as it is printed; one in which buffers get in each other's way is warned of."""
    try:
        verify_plan(compilation.module)
    except VerifyFailure as error:
        message = f"the memory plan is not safe, the results may be wrong: {error.message}"
        compilation.ctx.warnings.append(Diagnostic(Severity.WARNING, message, error.place))


def is_planned(module: ModuleOp) -> bool:
    """Whether the module is at the memref level with its buffers assigned."""
    return any("mlopt.arena" in attributes for attributes in argument_attributes(main_function(module)))


def main_function(module: ModuleOp) -> FuncOp:
    """The function `@main`; `InputError` if there is none, or only its declaration."""
    main = find_main(module)
    if main is None:
        raise InputError("the module has no function @main", place=place_of_op(module))
    if main.is_declaration:
        raise InputError("the function @main has no body", place=place_of_op(main))
    return main


def _run_level(
    compilation: Compilation,
    level: Level,
    passes: Sequence[str],
    instrumentations: Sequence[Instrumentation],
) -> None:
    """Run passes on a level without verification between them; where one trips over what another left, that is said."""
    pipeline = parse_pipeline(f"builtin.module({','.join(passes)})")
    try:
        _run(compilation, pipeline, instrumentations, verify_each=False)
    except MloptError:
        raise
    except Exception:
        _verify_level(compilation.module, level)
        raise


def _verify_level(module: ModuleOp, level: Level) -> None:
    try:
        verify_module(module)
    except VerifyFailure as error:
        message = f"passes of level '{level}' left this IR (mlopt-opt verifies after each and says which)"
        error.notes = (*error.notes, Diagnostic(Severity.NOTE, message))
        raise


def _run(
    compilation: Compilation,
    pipeline: Pipeline,
    instrumentations: Sequence[Instrumentation],
    *,
    verify_each: bool = True,
) -> None:
    manager = PassManager(
        compilation.ctx, pipeline, verify_each=verify_each, instrumentations=instrumentations
    )
    compilation.passes += manager.run(compilation.module)
    compilation.elements += pipeline.elements


def _parse_file(path: Path, ctx: CompilerContext, options: CompileOptions) -> ModuleOp:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such model file", place=Place(str(path))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't read the model: {error}", place=Place(str(path))) from None
    beside = path.with_suffix(".safetensors")
    return _parse(text, ctx, str(path), options, options.weights or (beside if beside.exists() else None))


def _parse(
    text: str, ctx: CompilerContext, source: str, options: CompileOptions, weights: Path | None
) -> ModuleOp:
    if options.dims:
        raise InputError(
            f"IR has no symbolic dimensions, found a value for '{next(iter(options.dims))}'",
            place=Place(source),
        )
    if weights is not None:
        ctx.weights = WeightStore.load(weights)
    return parse_module(text, ctx, source)
