"""The report of a compilation and a run: operators, kernels, memory, traffic and time, as JSON."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, MemRefType, ModuleOp, TensorType, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from mlopt.compilation import Compilation, argument_attributes, main_function
from mlopt.dialects.graph import ReshapeOp as GraphReshapeOp
from mlopt.dialects.kernel import LaunchOp
from mlopt.interpreter.memref import Executable
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.memref.summary import memory_summary

SCHEMA = 1
SHAPE_ARITHMETIC_ELEMENTS = 64
"""Integer tensors of at most so many elements are shape arithmetic, which the figures leave out."""

FUSING_PASSES = ("fuse-", "fold-batch-norm", "reuse-in-place")


def build_report(compilation: Compilation, executable: Executable | None = None) -> dict[str, Any]:
    """The report, schema 1. Figures that need a level or a run that was not reached are None."""
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "model": compilation.source,
        "pipeline": compilation.pipeline,
        "ops": _ops(compilation, executable),
        "fused": _fused(compilation),
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
                    "statistics": dict(result.statistics),
                }
                for result in compilation.passes
            ],
        },
    }
    return report


def imported_figures(module: ModuleOp) -> dict[str, Any]:
    """What the importer counted on the ONNX file: `ops`, `no_reuse_bytes`, `max_live_bytes`, `by_name`.

    Empty for a module that does not come from ONNX.
    """
    attribute = module.attributes.get("mlopt.imported")
    return _plain(attribute) if isinstance(attribute, DictionaryAttr) else {}


def _plain(attribute: Attribute) -> Any:
    match attribute:
        case DictionaryAttr():
            return {name: _plain(value) for name, value in attribute.data.items()}
        case IntegerAttr():
            return attribute.value.data
        case _:
            return str(attribute)


def _ops(compilation: Compilation, executable: Executable | None) -> dict[str, Any]:
    imported = imported_figures(compilation.imported)
    graph = compilation.levels.get("graph")
    memref = compilation.levels.get("memref")
    by_name = Counter(op.name.removeprefix("graph.") for op in graph_ops(graph)) if graph else None
    return {
        "imported": imported.get("ops"),
        "graph": by_name.total() if by_name is not None else None,
        "kernel_launches": sum(isinstance(op, CallOp) for op in main_function(memref).walk())
        if memref
        else None,
        "kernel_functions": (
            sum(
                isinstance(op, FuncOp) and op.sym_name.data != "main" and bool(op.body.blocks)
                for op in memref.ops
            )
            if memref
            else None
        ),
        "scalar_loops": executable.scalar_loops if executable else None,
        "by_name_imported": imported.get("by_name"),
        "by_name_graph": dict(sorted(by_name.items())) if by_name is not None else None,
    }


def graph_ops(module: ModuleOp) -> list[Operation]:
    """The graph-level operators of a module, constants aside."""
    return [op for op in module.walk() if op.name.startswith("graph.") and not op.has_trait(ConstantLike)]


def _fused(compilation: Compilation) -> dict[str, int]:
    return {
        f"{name}: {statistic}": count
        for (name, statistic), count in sorted(compilation.ctx.statistics.items())
        if name.startswith(FUSING_PASSES)
    }


def _memory(compilation: Compilation, executable: Executable | None) -> dict[str, Any]:
    imported = imported_figures(compilation.imported)
    memory: dict[str, Any] = {
        "imported_no_reuse_bytes": imported.get("no_reuse_bytes"),
        "imported_max_live_bytes": imported.get("max_live_bytes"),
    }
    memref = compilation.levels.get("memref")
    if memref is None:
        return memory
    summary = memory_summary(memref)
    memory |= {
        "no_reuse_bytes": summary.no_reuse_bytes,
        "max_live_bytes": summary.max_live_bytes,
        "arena_bytes": summary.arena_bytes,
        "workspace_bytes": summary.workspace_bytes,
        "weights_bytes": argument_bytes(memref, "mlopt.weight"),
        "io_bytes": argument_bytes(memref, "mlopt.input") + argument_bytes(memref, "mlopt.output"),
        "status": summary.status,
        "run_traced_peak_bytes": None,
    }
    if executable is not None and executable.engine_scratch_bytes:
        memory["engine_scratch_bytes"] = executable.engine_scratch_bytes
    return memory


def argument_bytes(module: ModuleOp, attribute: str) -> int:
    """Bytes of the arguments of a memref-level `@main` that carry an attribute such as `mlopt.weight`."""
    main = main_function(module)
    return sum(
        value_bytes(argument)
        for argument, attributes in zip(main.args, argument_attributes(main), strict=True)
        if attribute in attributes
    )


def value_bytes(value: SSAValue) -> int:
    """Bytes of a tensor or buffer; 0 for anything else."""
    if not isinstance(value.type, TensorType | MemRefType):
        return 0
    type = cast(TensorType[Attribute] | MemRefType[Attribute], value.type)
    return prod(type.get_shape()) * to_numpy_dtype(type.element_type).itemsize


def _traffic(compilation: Compilation) -> dict[str, int | None]:
    graph, kernel = compilation.imported, compilation.levels.get("kernel")
    operators = [op for op in graph_ops(graph) if not isinstance(op, GraphReshapeOp)]
    launches = [op for op in kernel.walk() if isinstance(op, LaunchOp)] if kernel else []
    return {
        "imported_bytes": sum(map(_traffic_of, operators)) if operators else None,
        "bytes": sum(map(_traffic_of, launches)) if kernel else None,
    }


def _traffic_of(op: Operation) -> int:
    """Bytes of the operands and results of an operator or launch; constants and shape arithmetic aside.

    An operand that only names a destination (`tensor.empty`) is no traffic.
    """
    return sum(map(_tensor_bytes, op.results)) + sum(
        _tensor_bytes(value) for value in op.operands if not _is_untouched(value)
    )


def _is_untouched(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and (owner.has_trait(ConstantLike) or owner.name == "tensor.empty")


def _tensor_bytes(value: SSAValue) -> int:
    size = value_bytes(value)
    is_int64 = TensorType.constr(i64).verifies(value.type)
    return 0 if is_int64 and size <= SHAPE_ARITHMETIC_ELEMENTS * 8 else size
