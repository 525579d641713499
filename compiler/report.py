"""The report of a compilation and a run: operators, kernels, memory, traffic and time, as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation
from xdsl.traits import ConstantLike

from mlopt.compilation import Compilation, is_planned, main_function
from mlopt.diagnostics import REMARK_KINDS, remark_record, select_remarks
from mlopt.interface import argument_attributes
from mlopt.interpreter.memref import Executable
from mlopt.ir.imported import imported_figures
from mlopt.passes.memref.summary import DonatedMemory, donated_memory, memory_summary
from mlopt.traffic import traffic_of_module, value_bytes

SCHEMA = 1
FUSING_PASSES = ("fuse-", "fold-batch-norm")
"""Beginnings of the names of the passes that make one operation of several."""

NEAR_MISSES = "near-misses"
"""The statistic of fusing passes that counts what did not happen."""


def build_report(compilation: Compilation, executable: Executable | None = None) -> dict[str, Any]:
    """The report, schema 1, every key present.

    Figures of a level, run or comparison that there was none of are None: the caller has the times of loading and
    running, the traced peak and the errors to add.
    """
    return {
        "schema": SCHEMA,
        "model": compilation.source,
        "pipeline": compilation.pipeline,
        "ops": _ops(compilation, executable),
        "fused": fusions(compilation),
        "memory": _memory(compilation, executable),
        "traffic": _traffic(compilation),
        "time": {
            "import_s": compilation.import_seconds,
            "compile_s": compilation.compile_seconds,
            "load_s": None,
            "run_s": None,
            "passes": [
                {
                    "name": result.name,
                    "seconds": result.seconds,
                    "changed": result.changed,
                    "runs": result.runs,
                    "statistics": dict(result.statistics),
                    "patterns": dict(sorted(result.patterns.items())),
                }
                for result in compilation.passes
            ],
        },
        "check": {"max_abs_error": None, "max_rel_error": None},
        "validation": None if compilation.validator is None else compilation.validator.report(),
        "remarks": [
            remark_record(remark) for remark in select_remarks(compilation.ctx.remarks, REMARK_KINDS)
        ],
    }


def fusions(compilation: Compilation) -> dict[str, int]:
    """How often each pattern of the fusing passes applied, as `PASS: PATTERN` → count; no zeros."""
    counts: Counter[str] = Counter()
    for result in compilation.passes:
        if result.name.startswith(FUSING_PASSES):
            for statistic, count in result.statistics.items():
                if statistic != NEAR_MISSES and count:
                    counts[f"{result.name}: {statistic}"] += count
    return dict(sorted(counts.items()))


def _ops(compilation: Compilation, executable: Executable | None) -> dict[str, Any]:
    imported = imported_figures(compilation.module)
    graph = compilation.levels.get("graph")
    memref = compilation.levels.get("memref")
    by_name = Counter(op.name.removeprefix("graph.") for op in graph_ops(graph)) if graph else None
    return {
        "imported": imported.get("ops"),
        "graph": by_name.total() if by_name is not None else None,
        "kernel_launches": _launches(memref) if memref else None,
        "kernel_functions": _functions(memref) if memref else None,
        "scalar_loops": executable.scalar_loops if executable else None,
        "by_name_imported": imported.get("by_name"),
        "by_name_graph": dict(sorted(by_name.items())) if by_name is not None else None,
    }


def graph_ops(module: ModuleOp) -> list[Operation]:
    """The graph-level operators of a module, constants aside."""
    return [op for op in module.walk() if op.name.startswith("graph.") and not op.has_trait(ConstantLike)]


def _launches(module: ModuleOp) -> int:
    """The calls in the memref-level `@main`; one inside a loop counts once."""
    return sum(isinstance(op, CallOp) for op in main_function(module).walk())


def _functions(module: ModuleOp) -> int:
    """The functions with a body, `@main` aside."""
    return sum(
        isinstance(op, FuncOp) and op.sym_name.data != "main" and not op.is_declaration for op in module.ops
    )


def _memory(compilation: Compilation, executable: Executable | None) -> dict[str, Any]:
    imported = imported_figures(compilation.module)
    memref = compilation.levels.get("memref")
    plan = memory_summary(memref) if memref and is_planned(memref) else None
    return {
        "imported_no_reuse_bytes": imported.get("no_reuse_bytes"),
        "imported_max_live_bytes": imported.get("max_live_bytes"),
        "no_reuse_bytes": plan.no_reuse_bytes if plan else None,
        "max_live_bytes": plan.max_live_bytes if plan else None,
        "arena_bytes": plan.arena_bytes if plan else None,
        "workspace_bytes": plan.workspace_bytes if plan else None,
        "weights_bytes": argument_bytes(memref, "mlopt.weight") if memref else None,
        "io_bytes": argument_bytes(memref, *_INTERFACE) if memref else None,
        "donated": [_donated(each) for each in donated_memory(memref)] if memref else None,
        "status": plan.status if plan else None,
        "spill_bytes": plan.spill.arena_bytes if plan else None,
        "spill_max_live_bytes": plan.spill.max_live_bytes if plan else None,
        "spill_moved_bytes": plan.spill.moved_bytes if plan else None,
        "spill_status": plan.spill.status if plan else None,
        "run_traced_peak_bytes": None,
        "run_copied_bytes": executable.copied_bytes if executable else None,
        "engine_scratch_bytes": executable.engine_scratch_bytes if executable else None,
    }


def _donated(each: DonatedMemory) -> dict[str, Any]:
    part = None if each.part is None else each.part._asdict()
    return {**each._asdict(), "part": part}


_INTERFACE = ("mlopt.input", "mlopt.output", "mlopt.extent")


def argument_bytes(module: ModuleOp, *names: str) -> int:
    """Bytes of the arguments of a memref-level `@main` that carry one of some attributes, such as `mlopt.weight`."""
    main = main_function(module)
    return sum(
        value_bytes(argument)
        for argument, attributes in zip(main.args, argument_attributes(main), strict=True)
        if any(name in attributes for name in names)
    )


def _traffic(compilation: Compilation) -> dict[str, int | None]:
    kernel = compilation.levels.get("kernel")
    return {
        "imported_bytes": imported_figures(compilation.module).get("traffic_bytes"),
        "bytes": traffic_of_module(kernel) if kernel else None,
    }
