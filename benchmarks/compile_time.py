"""Where the time of a compilation goes: `python benchmarks/compile_time.py MODEL.onnx [--inputs IN.npz] [--dim N=V]`.

Each repetition is a process of its own, from its start to a model that is printed and loaded into the engine, as the
commands do it: without copies of the levels above, which only a report wants. Time is exclusive: a verification inside
a pass counts as verification only, a module imported or a method of a dataclass compiled inside it as import. The
median over the repetitions is shown; what is not in any row below "other" is there. A run before them, which is not
counted, compiles all modules to bytecode, as a user has them. It goes to a folder of the benchmark's own: an
environment may forbid to write it elsewhere (`PYTHONDONTWRITEBYTECODE`).
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

STARTED = time.time()
"""When this process got to its first line."""

GARBAGE_THRESHOLD = 500_000
"""Objects between two garbage collections, as the commands set it (`mlopt.cli.guard`)."""

PRODUCTIVE = ("read the file", "import", "graph: passes", "kernel: passes", "memref: passes", "lowering")
"""The rows that take the model further: parsing ONNX, passes and lowering."""


class Clock:
    """A stack of phases; time goes to the innermost one only."""

    def __init__(self, phase: str) -> None:
        self.seconds: dict[str, float] = {}
        self._stack = [phase]
        self._since = time.perf_counter()

    def push(self, phase: str) -> None:
        """Enter a phase."""
        self._charge()
        self._stack.append(phase)

    def pop(self) -> None:
        """Leave the innermost phase."""
        self._charge()
        self._stack.pop()

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Enter a phase for a block."""
        self.push(name)
        try:
            yield
        finally:
            self.pop()

    def wrap(self, owner: Any, name: str, phase: str | Callable[..., str]) -> None:
        """Let `owner.name`, a function, run in a phase; `phase` may choose it by the arguments."""
        function = getattr(owner, name)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            with self.phase(phase if isinstance(phase, str) else phase(*arguments)):
                return function(*arguments, **keywords)

        setattr(owner, name, timed)

    def _charge(self) -> None:
        now = time.perf_counter()
        phase = self._stack[-1]
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now


def measure(model: Path, inputs: Path | None, dims: dict[str, int], spawned: float) -> dict[str, float]:
    """Compile a model in this process, fresh as it is; seconds by phase."""
    clock = Clock("other")
    gc.set_threshold(GARBAGE_THRESHOLD)
    _watch_imports(clock)
    _watch_collections(clock)

    from mlopt import compilation, on_demand
    from mlopt.arrays import read_npz
    from mlopt.frontend.onnx import importer
    from mlopt.ir.printer import print_module
    from mlopt.options import CompileOptions
    from mlopt.passmanager import manager
    from mlopt.running import load_executable

    level = "graph"

    def phase_of(pass_: Any, *_: Any) -> str:
        nonlocal level
        if pass_.name.startswith("convert-"):
            level = pass_.name.rpartition("-")[2]
            return "lowering"
        return f"{level}: passes"

    clock.wrap(on_demand.MethodOnDemand, "compile", "imports: methods of dataclasses")
    clock.wrap(manager, "_apply", phase_of)
    clock.wrap(manager, "_verify", "verification")
    clock.wrap(manager, "_check", "conditions of passes")
    clock.wrap(compilation, "verify_module", "verification")
    clock.wrap(importer, "read_model", "read the file")
    clock.wrap(importer, "import_onnx", "import")
    clock.wrap(importlib.import_module("mlopt.frontend.onnx"), "import_onnx", "import")

    given = read_npz(inputs, "in") if inputs is not None else None
    loaded = compilation.load_model(model, CompileOptions(dims=dims), inputs=given)
    compiled = compilation.compile_model(loaded, keep_levels=False)
    with clock.phase("print"):
        print_module(compiled.module, debuginfo=True)
    with clock.phase("load into the engine"):
        load_executable(compiled)
    clock.push("end")
    return {"start of Python": STARTED - spawned, **clock.seconds}


def _watch_imports(clock: Clock) -> None:
    """Charge modules that are loaded to the package they are of, wherever the import stands."""
    bootstrap: Any = importlib._bootstrap  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    clock.wrap(bootstrap, "_find_and_load", lambda name, *_: f"imports: {name.partition('.')[0]}")


def _watch_collections(clock: Clock) -> None:
    def collecting(event: str, _: dict[str, int]) -> None:
        if event == "start":
            clock.push("garbage collection")
        else:
            clock.pop()

    gc.callbacks.append(collecting)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Where the time of a compilation goes.")
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--inputs", type=Path, metavar="IN.npz", help="to take dimensions from")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="processes (default: 5)")
    parser.add_argument("--spawned", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.spawned is not None:
        dims = {name: int(value) for name, _, value in (text.rpartition("=") for text in options.dim)}
        print(json.dumps(measure(options.model, options.inputs, dims, options.spawned)))
        return 0
    import statistics  # which a process that is measured does without

    given = list(sys.argv[1:] if arguments is None else arguments)
    with TemporaryDirectory() as bytecode:
        _in_fresh_process(given, bytecode)
        runs = [_in_fresh_process(given, bytecode) for _ in range(options.repeat)]
    names = sorted({name for run in runs for name in run})
    show({name: statistics.median(run.get(name, 0.0) for run in runs) for name in names}, options.model)
    return 0


def _in_fresh_process(arguments: Sequence[str], bytecode: str) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, __file__, *arguments, "--spawned", str(time.time())]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)


def show(seconds: dict[str, float], model: Path) -> None:
    """Print the rows, largest first, the imports together with the packages they are of."""
    seconds = dict(seconds)
    seconds.pop("end", None)
    imports = {name: s for name, s in seconds.items() if name.startswith("imports: ")}
    rows = {name: s for name, s in seconds.items() if name not in imports}
    rows["imports"] = sum(imports.values())
    total = sum(rows.values())
    print(f"{model.name}: {1e3 * total:.0f} ms from the start of the process to a loaded model")
    for name, value in sorted(rows.items(), key=lambda row: -row[1]):
        mark = " " if name in PRODUCTIVE else "-"
        print(f"{1e3 * value:8.1f} ms {value / total:6.1%} {mark} {name}")
        if name == "imports":
            for package, part in sorted(imports.items(), key=lambda row: -row[1])[:8]:
                print(f"{1e3 * part:28.1f} ms {package.removeprefix('imports: ')}")
    outside = sum(value for name, value in rows.items() if name not in PRODUCTIVE)
    print(f"outside parsing ONNX, passes and lowering (-): {outside / total:.1%}")


if __name__ == "__main__":
    sys.exit(main())
