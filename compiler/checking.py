"""Can a model be compiled, and if not, what stands in the way: `mlopt check`. Nothing of the model is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from mlopt.compilation import (
    Compilation,
    compile_model,
    level_of,
    load_model,
    main_function,
)
from mlopt.diagnostics import MissingSizeError, MloptError, Place, counted, format_diagnostic, one_line
from mlopt.engine import attach_engine
from mlopt.interface import argument_attributes
from mlopt.ir.registration import make_context
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import LEVELS
from mlopt.report import graph_ops
from mlopt.running import load_executable

if TYPE_CHECKING:
    from onnx import ValueInfoProto

    from mlopt.frontend.onnx.reader import OnnxModel
    from mlopt.interpreter.memref import Executable


@dataclass
class Findings:
    """What there is in a model, how far it comes, and what stands in its way.

    - `facts`: (what, value) in words: the format, operator sets, inputs, outputs, operators.
    - `stages`: (name, outcome in words) of each stage tried, in order.
    - `obstacles`: a sentence for each, with the node or line that it is about.
    - `compilation`, `executable`: what came out, of a model that comes so far.
    """

    facts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    stages: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    obstacles: list[str] = field(default_factory=list[str])
    compilation: Compilation | None = None
    executable: Executable | None = None
    lacks_sizes: bool = False
    """Whether sizes that were not given are all that stands in the way, as far as can be told without them."""

    @property
    def compiles(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.obstacles


def check_model(
    path: Path, options: CompileOptions, inputs: Mapping[str, np.ndarray] | None = None
) -> Findings:
    """Look at a model, then take it through every stage that can be tried.

    All faults of the graph, all unsupported operators and all dimensions without a number are found before anything is
    imported, then those of all nodes whose operands are known; from there on, the first error ends it.
    Raises `MloptError` if the file is no model at all.
    """
    findings = Findings()
    if path.suffix == ".mlir":
        compilation = load_model(path, options)
        findings.facts += [
            ("format", f"MLIR, level '{level_of(compilation.module)}'"),
            *_interface(compilation.module),
            ("operations", _counts(op.name for op in compilation.module.walk())),
        ]
        _compile(findings, compilation)
        return findings
    from mlopt.frontend.onnx.reader import parse_model

    model = parse_model(path)
    findings.facts += _onnx_facts(model)
    _preconditions(findings, model, options, inputs or {})
    if findings.compiles:
        try:
            compilation = load_model(path, options, inputs=inputs)
        except MloptError as error:
            _stop(findings, "import", *(_import_faults(path, options, inputs) or [error]))
        else:
            findings.stages.append(("import", counted(len(graph_ops(compilation.module)), "operation")))
            _compile(findings, compilation)
    return findings


def _import_faults(
    path: Path, options: CompileOptions, inputs: Mapping[str, np.ndarray] | None
) -> list[MloptError]:
    from mlopt.frontend.onnx.faults import find_import_faults

    ctx = make_context()
    attach_engine(ctx)
    return find_import_faults(path, ctx, dims=dict(options.dims), inputs=inputs)


def _preconditions(
    findings: Findings, model: OnnxModel, options: CompileOptions, inputs: Mapping[str, np.ndarray]
) -> None:
    """What can be told from the file alone: how the graph hangs together, operators, then dimensions."""
    from mlopt.frontend.onnx import find_unsupported
    from mlopt.frontend.onnx.dims import bind_shapes
    from mlopt.frontend.onnx.registry import node_faults
    from mlopt.frontend.onnx.structure import graph_faults, node_name

    broken = list(graph_faults(model.graph, model.place))
    if broken:
        _stop(findings, "structure", *broken)
    unsupported = find_unsupported(model.proto)
    findings.obstacles += [one_line(f"unsupported operator {kind}") for kind in unsupported]
    faults = list(node_faults(model.proto))
    findings.obstacles += [one_line(f'node "{node_name(fault.node)}": {fault.message}') for fault in faults]
    found = [counted(len(unsupported), "kind is", "kinds are") + " not supported"] if unsupported else []
    if faults:
        breaking = ("node breaks the rules of its operator", "nodes break the rules of their operators")
        found.append(counted(len(faults), *breaking))
    findings.stages.append(("support", ", ".join(found) or "every operator"))
    try:
        shapes = bind_shapes(model.graph.input, options.dims, inputs, model.place())
    except MissingSizeError as error:
        findings.lacks_sizes = findings.compiles
        _stop(findings, "dimensions", error, outcome="not all given")
    except MloptError as error:
        _stop(findings, "dimensions", error)
    else:
        findings.stages.append(
            (
                "dimensions",
                "; ".join(f"{name} {list(shape)}" for name, shape in shapes.items()) or "no inputs",
            )
        )


def _compile(findings: Findings, compilation: Compilation) -> None:
    """Take a module through the levels, then load it into the engine."""
    start = level_of(compilation.module)
    findings.compilation = compilation
    error: MloptError | None = None
    try:
        compile_model(compilation)
    except MloptError as caught:
        error = caught
    for level in LEVELS[LEVELS.index(start) :]:
        if level in compilation.levels:
            operations = sum(1 for _ in compilation.levels[level].walk())
            findings.stages.append((level, counted(operations, "operation")))
        elif error is not None:
            return _stop(findings, level, error)
    if error is not None:
        return _stop(findings, LEVELS[-1], error)
    try:
        executable = load_executable(compilation).executable
    except MloptError as caught:
        return _stop(findings, "load", caught)
    findings.executable = executable
    scalar = executable.scalar_loops
    slow = f", {counted(scalar, 'loop runs', 'loops run')} as scalar code (slow)" if scalar else ""
    findings.stages.append(
        ("load", f"{counted(executable.steps, 'step')}, arena {executable.arena_bytes} bytes{slow}")
    )
    return None


def _stop(findings: Findings, stage: str, *errors: MloptError, outcome: str = "failed") -> None:
    findings.stages.append((stage, outcome))
    for diagnostic in (diagnostic for error in errors for diagnostic in error.diagnostics):
        diagnostic = replace(diagnostic, message=one_line(diagnostic.message))
        place = diagnostic.place
        if place is not None and place.line is None:
            # The file is the model, which need not be said each time.
            node = None if place.node is None else one_line(place.node)
            diagnostic = replace(diagnostic, place=Place(node=node))
        findings.obstacles.append(format_diagnostic(diagnostic).removeprefix("error: "))


def _counts(names: Iterable[str]) -> str:
    """`9 of 3 kinds: Add 5, Relu 3, Gemm 1`."""
    counts = Counter(names)
    listed = ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
    return f"{counts.total()} of {counted(len(counts), 'kind')}: {listed}" if counts else "none"


def _onnx_facts(model: OnnxModel) -> list[tuple[str, str]]:
    proto = model.proto
    producer = " ".join(filter(None, (proto.producer_name, proto.producer_version)))
    initializers = {tensor.name for tensor in model.graph.initializer}
    sets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items())
    return [
        ("format", f"ONNX, IR version {proto.ir_version}" + (f", from {producer}" if producer else "")),
        ("operator sets", sets),
        *(("input", _onnx_value(value)) for value in model.graph.input if value.name not in initializers),
        *(("output", _onnx_value(value)) for value in model.graph.output),
        ("operators", _counts(node.op_type for node in model.graph.node)),
    ]


def _onnx_value(value: ValueInfoProto) -> str:
    """`x float32 [batch, 8]`, with `?` for what the model does not say."""
    from onnx import TensorProto

    type_ = value.type.tensor_type
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return f"{value.name} {(kind or 'without type').removesuffix('_type')}"
    known = type_.elem_type in TensorProto.DataType.values()
    element = TensorProto.DataType.Name(type_.elem_type).lower() if known else "?"
    extents = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in type_.shape.dim
    ]
    shape = f"[{', '.join(extents)}]" if type_.HasField("shape") else "of any shape"
    return f"{value.name} {element} {shape}"


def _interface(module: ModuleOp) -> list[tuple[str, str]]:
    """Inputs and outputs of `@main`, at any level."""
    main = main_function(module)
    facts: list[tuple[str, str]] = []
    for attributes, type_ in zip(argument_attributes(main), main.function_type.inputs, strict=True):
        for attribute, what in (
            ("mlopt.name", "input"),
            ("mlopt.input", "input"),
            ("mlopt.output", "output"),
        ):
            name = attributes.get(attribute)
            if isinstance(name, StringAttr):
                facts.append((what, f"{name.data} {type_}"))
    results = [dict(attributes.data) for attributes in main.res_attrs or ()]
    for attributes, type_ in zip(results, main.function_type.outputs, strict=False):
        name = attributes.get("mlopt.name")
        if isinstance(name, StringAttr):
            facts.append(("output", f"{name.data} {type_}"))
    return facts
