"""Operators that are left of a model: `python benchmarks/operator_counts.py [MODEL.onnx | FOLDER ...] [--explain]`.

Every model is exported by mlopt after `O2`, and simplified by onnxsim, onnxslim, the basic level of ONNX Runtime and
onnxoptimizer, each with its own defaults and in a process of its own. All of them get the same file: the model with the
sizes of the inputs in the `.npz` beside it in place of its symbolic dimensions. Nodes are counted with those of the
graphs inside them and of the functions that they call; `Constant` is not counted.

What a tool writes has to be right: ONNX Runtime runs it without optimisations of its own, as it runs the model from
before, on the inputs of the file and on hostile ones (`PROBES`). A count may still rest on rewrites that no run of this
model shows to be wrong. Those in `UNSAFE` are shown by a small model each: where a tool gets that one wrong, its places
that are gone from a model are noted beside the count.

Without models, those in `tests/models` are taken. The tools are in the extra `bench`; one that is not installed has an
empty column. Exit code 1 if mlopt has more operators than the best of the rivals, or an answer that is not right.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper, parser
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mlopt.arrays import read_npz
from mlopt.compare import compare_all

MODELS = Path(__file__).parents[1] / "tests" / "models"

OURS = "mlopt"
RIVALS = ("onnxsim", "onnxslim", "onnxruntime")
"""Whose counts are compared with ours."""
TOOLS = (OURS, *RIVALS, "onnxoptimizer")
"""Columns of the table; the last one is there for information."""

LARGEST_ERROR = 1e-5
"""What our answer may be off, as a part of the largest number of an output, for models in f32."""

Arrays = Mapping[str, np.ndarray]


@dataclass
class Outcome:
    """What a tool made of a model.

    - `failure`: why there is nothing, or "".
    - `kinds`: its operators by name; those that are not standard as `domain::name`.
    - `error`: the largest error of an output, as a part of its largest number; `wrong` if it is too large.
    - `differences`: the `PROBES` with another answer than the model from before.
    - `unsafe`: how many places of each of `UNSAFE` are left.
    - `drift`: the error of mlopt's own engine, optimised against imported.
    """

    failure: str = ""
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    error: float = 0.0
    wrong: bool = False
    differences: list[str] = field(default_factory=list[str])
    unsafe: dict[str, int] = field(default_factory=dict[str, int])
    drift: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.kinds.values())

    @property
    def counts(self) -> bool:
        """Whether there is an answer, and it is right."""
        return not self.failure and not self.wrong


# The tools. Each takes a file, and writes another.


def by_mlopt(source: Path, target: Path, inputs: Arrays) -> None:
    from mlopt.compilation import compile_model, load_model
    from mlopt.export import save_onnx
    from mlopt.options import CompileOptions, for_export

    compilation = compile_model(load_model(source, for_export(CompileOptions()), inputs=inputs), "graph")
    save_onnx(compilation.module, compilation.ctx.weights, target)


def by_onnxsim(source: Path, target: Path, inputs: Arrays) -> None:
    import onnxsim

    model, _ = onnxsim.simplify(onnx.load(source))
    onnx.save(model, target)


def by_onnxslim(source: Path, target: Path, inputs: Arrays) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def by_onnxruntime(source: Path, target: Path, inputs: Arrays) -> None:
    options = session_options("ORT_ENABLE_BASIC")
    options.optimized_model_filepath = str(target)
    session(source, options)


def by_onnxoptimizer(source: Path, target: Path, inputs: Arrays) -> None:
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), target)


SIMPLIFIERS: Mapping[str, Callable[[Path, Path, Arrays], None]] = {
    "mlopt": by_mlopt,
    "onnxsim": by_onnxsim,
    "onnxslim": by_onnxslim,
    "onnxruntime": by_onnxruntime,
    "onnxoptimizer": by_onnxoptimizer,
}


# Models: fixed sizes, and what is in them.


def with_fixed_sizes(model: ModelProto, inputs: Arrays) -> ModelProto:
    """The model with the sizes of the inputs in place of the symbolic dimensions of its interface.

    Declarations of inner values are left out: each tool infers them.
    """
    fixed = ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph
    del graph.value_info[:]
    sizes: dict[str, int] = {}
    for info in graph.input:
        if info.name in inputs:
            for dim, size in zip(info.type.tensor_type.shape.dim, inputs[info.name].shape, strict=True):
                if dim.dim_param:
                    sizes[dim.dim_param] = size
                dim.dim_value = size
    for info in graph.output:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return fixed


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of a model with those of the graphs in nodes, and of functions once for each call."""
    functions = {(function.domain, function.name): function for function in model.functions}

    def walk(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
        for node in nodes:
            function = functions.get((node.domain, node.op_type))
            if function is None:
                yield node
            else:
                yield from walk(function.node)
            for graph in _graphs_in(node):
                yield from walk(graph.node)

    return walk(model.graph.node)


def _graphs_in(node: NodeProto) -> list[GraphProto]:
    return [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs) if graph.node]


def operators(model: ModelProto) -> Counter[str]:
    """How many operators of each kind a model has."""
    return Counter(
        node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
        for node in nodes_of(model)
        if node.op_type != "Constant"
    )


def _constants(model: ModelProto) -> dict[str, np.ndarray]:
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in nodes_of(model):
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return constants


# Unsafe rewrites.


@dataclass(frozen=True)
class Unsafe:
    """A rewrite that does not hold for every input.

    - `places`: how many places for it a model has.
    - `text`, `x`, `right`: a model that shows it, an input, and the right output.
    """

    places: Callable[[ModelProto], int]
    text: str
    x: np.ndarray
    right: np.ndarray


def _additions_of_zero(model: ModelProto) -> int:
    """Additions of a constant +0.0, which turn -0.0 into +0.0; the bias of a Gemm is one."""
    constants = _constants(model)

    def is_zero(name: str) -> bool:
        array = constants.get(name)
        return array is not None and array.dtype.kind == "f" and not array.tobytes().strip(b"\0")

    addends = [{"Add": node.input, "Gemm": node.input[2:]}.get(node.op_type, ()) for node in nodes_of(model)]
    return sum(any(map(is_zero, names)) for names in addends)


def _products_of_constants(model: ModelProto) -> int:
    """Products by a constant of a product by a constant, which overflow or round in another way if merged."""
    constants = _constants(model)
    scaled = {
        node.output[0]: node
        for node in nodes_of(model)
        if node.op_type == "Mul" and any(name in constants for name in node.input)
    }
    return sum(any(name in scaled for name in node.input) for node in scaled.values())


_HEADER = '<ir_version: 9, opset_import: ["" : 18]> model (float[1] x) => (float[1] y)'

UNSAFE: Mapping[str, Unsafe] = {
    "x + 0.0 = x": Unsafe(
        _additions_of_zero,
        f"{_HEADER} <float[1] c = {{0}}> {{ s = Add(x, c) y = Reciprocal(s) }}",
        np.array([-0.0], np.float32),
        np.array([np.inf], np.float32),
    ),
    "(x * a) * b = x * (a * b)": Unsafe(
        _products_of_constants,
        f"{_HEADER} <float[1] c = {{1e30}}> {{ s = Mul(x, c) y = Mul(s, c) }}",
        np.array([1e-30], np.float32),
        np.array([1e30], np.float32),
    ),
}
"""Rewrites that the tools are looked at for, by what they take for equal."""


# Being right.


def session_options(level: str) -> Any:
    """Options of ONNX Runtime: an optimisation level, one thread, and no messages."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def session(path: Path, options: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Oracle:
    """A model in ONNX Runtime, without its optimisations."""

    def __init__(self, path: Path):
        self._session = session(path, session_options("ORT_DISABLE_ALL"))

    def __call__(self, inputs: Arrays) -> dict[str, np.ndarray] | None:
        """The outputs by name; None if there is an error."""
        names = [output.name for output in self._session.get_outputs()]
        declared = {info.name for info in self._session.get_inputs()}
        try:
            values = self._session.run(None, {name: x for name, x in inputs.items() if name in declared})
        except Exception:
            return None
        return dict(zip(names, values, strict=True))


def differs(got: Arrays | None, want: Arrays | None) -> bool:
    """Whether two answers differ by more than rounding, or one of them is an error."""
    if got is None or want is None:
        return got is not want
    narrow = any(x.dtype == np.float16 for x in want.values())
    comparisons = compare_all(got, want, rtol=1e-2 if narrow else 1e-4)
    return got.keys() != want.keys() or not all(comparison.passed for comparison in comparisons)


def error_of(got: Arrays, want: Arrays) -> float:
    return max((comparison.max_rel_error for comparison in compare_all(got, want)), default=0.0)


def _on_floats(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: change(x.copy()) if x.dtype.kind == "f" and x.size else x


def _with_first(number: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(x: np.ndarray) -> np.ndarray:
        x.reshape(-1)[0] = number
        return x

    return _on_floats(change)


def _times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return x * x.dtype.type(factor)

    return _on_floats(change)


PROBES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "NaN": _with_first(np.nan),
    "infinity": _with_first(np.inf),
    "-0.0": _times(-0.0),
    "large": _times(1e18),
    "small": _times(1e-18),
    "integers 0": lambda x: x if x.dtype.kind == "f" else np.zeros_like(x),
}
"""Changes of each input that show rewrites which hold for most numbers only.

A NaN, an infinity; zeros with a sign; numbers whose squares overflow or vanish; and integers 0, which mask everything.
"""


def judge(source: Path, target: Path, inputs: Arrays) -> Outcome:
    """Count the operators of `target`, and compare its answers with those of `source`."""
    model = onnx.load(target)
    outcome = Outcome(kinds=dict(operators(model)))
    outcome.unsafe = {name: unsafe.places(model) for name, unsafe in UNSAFE.items()}
    before, after = Oracle(source), Oracle(target)
    got, want = after(inputs), before(inputs)
    outcome.wrong = differs(got, want)
    if got is not None and want is not None:
        outcome.error = error_of(got, want)
    for name, change in PROBES.items():
        changed = {key: change(x) for key, x in inputs.items()}
        if any(changed[key] is not x for key, x in inputs.items()) and differs(
            after(changed), before(changed)
        ):
            outcome.differences.append(name)
    return outcome


def drift_of(source: Path, inputs: Arrays) -> float:
    """The error of mlopt's engine, optimised against imported."""
    from mlopt.compilation import compile_model, load_model
    from mlopt.options import CompileOptions
    from mlopt.passes.pipelines import PipelineOptions
    from mlopt.running import load_executable

    def outputs(optimize: bool) -> dict[str, np.ndarray]:
        options = CompileOptions(pipeline=PipelineOptions(optimize=optimize))
        compilation = compile_model(load_model(source, options, inputs=inputs), keep_levels=False)
        return load_executable(compilation).executable.run(inputs)

    return error_of(outputs(True), outputs(False))


# Processes.


def outcome_of(tool: str, source: Path, values: Path, folder: Path, timeout: float) -> Outcome:
    """What a tool makes of a model, in a process of its own."""
    command = [sys.executable, __file__, "--worker", tool, source, values, folder / f"{tool}.onnx"]
    try:
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(failure=f"no end within {timeout:.0f} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Outcome(failure=lines[-1])
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def work(tool: str, source: Path, values: Path, target: Path) -> None:
    """The process of one tool: prints its `Outcome` as the last line."""
    inputs = read_npz(values, "in")
    SIMPLIFIERS[tool](source, target, inputs)
    outcome = judge(source, target, inputs)
    if tool == OURS:
        outcome.drift = drift_of(source, inputs)
    print("\n" + json.dumps(asdict(outcome)))


def unsafe_rewrites_of(tool: str, timeout: float) -> list[str]:
    """Which of `UNSAFE` a tool does: it gets the model for it wrong."""
    found: list[str] = []
    with TemporaryDirectory() as name:
        source, values = Path(name) / "model.onnx", Path(name) / "model.npz"
        for rewrite, unsafe in UNSAFE.items():
            onnx.save(parser.parse_model(unsafe.text), source)
            np.savez(values, **{"in:x": unsafe.x})
            outcome = outcome_of(tool, source, values, Path(name), timeout)
            if not outcome.failure:
                outputs = Oracle(Path(name) / f"{tool}.onnx")({"x": unsafe.x})
                if differs(outputs, {"y": unsafe.right}):
                    found.append(rewrite)
    return found


# The table.


@dataclass
class Row:
    """A model, and what each tool made of it. `notes` say what is wrong with that, by tool."""

    name: str
    before: Counter[str]
    outcomes: dict[str, Outcome]
    notes: dict[str, list[str]]

    @property
    def best(self) -> int | None:
        """The lowest count of the rivals whose answer is right; None if there is none."""
        rivals = [self.outcomes[tool] for tool in RIVALS if tool in self.outcomes]
        return min((outcome.count for outcome in rivals if outcome.counts), default=None)

    @property
    def is_won(self) -> bool:
        """Whether we have no more operators than the best of the rivals, and a right answer."""
        ours = self.outcomes[OURS]
        return ours.counts and not ours.differences and (self.best is None or ours.count <= self.best)


def measure(model: Path, unsafe: Mapping[str, Sequence[str]], timeout: float) -> Row:
    """The row of a model; `unsafe` has the tools that are there, with those of `UNSAFE` that each of them does."""
    values = model.with_suffix(".npz")
    loaded = onnx.load(model)
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / model.name
        onnx.save(with_fixed_sizes(loaded, read_npz(values, "in")), source)
        outcomes = {tool: outcome_of(tool, source, values, folder, timeout) for tool in unsafe}
    places = {rewrite: entry.places(loaded) for rewrite, entry in UNSAFE.items()}
    notes = {tool: list(_notes(outcomes[tool], unsafe[tool], places)) for tool in unsafe}
    return Row(model.stem, operators(loaded), outcomes, notes)


def _notes(outcome: Outcome, rewrites: Sequence[str], places: Mapping[str, int]) -> Iterator[str]:
    if outcome.failure:
        yield f"fails: {outcome.failure}"
        return
    if outcome.wrong:
        yield f"wrong: error {outcome.error:.0e}"
    if outcome.differences:
        yield f"another answer for {', '.join(outcome.differences)}"
    for rewrite in rewrites:
        gone = places[rewrite] - outcome.unsafe[rewrite]
        if gone > 0:
            yield f"rests on {rewrite}, {gone} times"


def table_of(rows: Sequence[Row]) -> Table:
    """A row per model: counts, the best of the rivals, and our errors; `*` where there is a note."""
    tools = [tool for tool in TOOLS if tool in rows[0].outcomes]
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, show_edge=False)
    for name in ("model", "before", *tools, "best", "", "error", "drift"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
    for row in rows:
        ours = row.outcomes[OURS]
        counts = [_cell(row, tool) for tool in tools]
        best = row.best
        verdict = "" if best is None else "=" if ours.count == best else f"{ours.count - best:+d}"
        figures = [f"{ours.error:.0e}", f"{ours.drift:.0e}"]
        name = row.name if len(row.name) <= 27 else f"{row.name[:26]}…"
        table.add_row(
            name, str(row.before.total()), *counts, "" if best is None else str(best), verdict, *figures
        )
    return table


def _cell(row: Row, tool: str) -> str:
    outcome = row.outcomes[tool]
    return ("-" if outcome.failure else str(outcome.count)) + ("*" if row.notes[tool] else " ")


LEGEND = """\
before, mlopt, ...: operators, Constant not counted; best: the lowest count of onnxsim, onnxslim and onnxruntime's basic
level whose answer is right, and how far ours is from it; error: the largest relative of our export, in ONNX Runtime
without optimisations; drift: of our engine, optimised against imported; *: see below
"""


def explain(row: Row) -> Table:
    """The operators of a model by kind, where the tools differ."""
    table = Table(box=SIMPLE_HEAD, title=row.name, title_justify="left", pad_edge=False, show_edge=False)
    table.add_column("operator")
    for name in ("before", *row.outcomes):
        table.add_column(name, justify="right")
    for kind in sorted({*row.before, *(kind for outcome in row.outcomes.values() for kind in outcome.kinds)}):
        counts = [row.before[kind], *(outcome.kinds.get(kind, 0) for outcome in row.outcomes.values())]
        if len(set(counts)) > 1:
            table.add_row(kind, *(str(count or "") for count in counts))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    if options.worker:
        tool, *paths = options.worker
        work(tool, *map(Path, paths))
        return 0
    given: list[Path] = options.models or [MODELS]
    models = [
        path for entry in given for path in (sorted(entry.glob("*.onnx")) if entry.is_dir() else [entry])
    ]
    unsafe = {tool: unsafe_rewrites_of(tool, options.timeout) for tool in TOOLS if _is_installed(tool)}
    rows = [measure(model, unsafe, options.timeout) for model in models]
    console = Console(highlight=False, width=120)
    console.print(table_of(rows))
    print(LEGEND)
    for row in rows:
        for tool, notes in row.notes.items():
            for note in notes:
                print(f"{row.name}: {tool}: {note}")
    if options.explain:
        for row in rows:
            console.print(explain(row))
    ours = [(row.outcomes[OURS].count, row.best) for row in rows]
    fewer = sum(best is not None and count < best for count, best in ours)
    more = sum(best is not None and count > best for count, best in ours)
    error = max(
        max(row.outcomes[OURS].error, row.outcomes[OURS].drift) for row in rows if "fp16" not in row.name
    )
    print(f"{len(rows)} models: fewer operators than the best of the others for {fewer}, more for {more}")
    print(f"largest relative error of those in f32: {error:.1e} (allowed: {LARGEST_ERROR:.0e})")
    return int(not all(row.is_won for row in rows) or error > LARGEST_ERROR)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    command = argparse.ArgumentParser(description="Operators that are left of a model, beside other tools.")
    command.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx | FOLDER")
    command.add_argument(
        "--explain", action="store_true", help="show operators by kind, where the tools differ"
    )
    command.add_argument("--timeout", type=float, default=300, metavar="S", help="of a tool (default: 300)")
    command.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    return command.parse_args(arguments)


def _is_installed(tool: str) -> bool:
    return tool == OURS or find_spec(tool) is not None


if __name__ == "__main__":
    sys.exit(main())
