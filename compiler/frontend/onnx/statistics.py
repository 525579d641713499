"""What a model costs as imported: every operator its own kernel, in the file's order, before any pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

_ALIGNMENT = 64
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
_SHAPE_ELEMENTS = 64

TensorKind = tuple[np.dtype, tuple[int, ...]]
"""dtype and static shape of one value."""


@dataclass(frozen=True, slots=True)
class ImportedStatistics:
    """Counts of a model as imported.

    `ops`: number of nodes. `no_reuse_bytes`: the sum of all intermediate tensors. `max_live_bytes`: the most
    that live at once; the inputs and outputs of a node live together at the node. Each tensor takes a
    multiple of 64 bytes.

    Not counted: graph inputs and outputs, constants (initializers, and what follows from them and from shapes
    alone), pure views (they keep their operand alive), and shape arithmetic (int64 of at most 64 elements).
    """

    ops: int
    no_reuse_bytes: int
    max_live_bytes: int
    by_name: dict[str, int]


def imported_statistics(graph: onnx.GraphProto, kinds: Mapping[str, TensorKind]) -> ImportedStatistics:
    """The statistics of `graph`; `kinds` gives dtype and shape of every node output by its name."""
    names = Counter(node.op_type for node in graph.node)
    sizes, last_use = _intermediates(graph, kinds)
    live = peak = 0
    alive: set[str] = set()
    for position, node in enumerate(graph.node):
        for name in node.output:
            if name in sizes:
                alive.add(name)
                live += sizes[name]
        peak = max(peak, live)
        for name in [name for name in alive if last_use[name] <= position]:
            alive.remove(name)
            live -= sizes[name]
    return ImportedStatistics(len(graph.node), sum(sizes.values()), peak, dict(sorted(names.items())))


def _intermediates(
    graph: onnx.GraphProto, kinds: Mapping[str, TensorKind]
) -> tuple[dict[str, int], dict[str, int]]:
    """Aligned bytes of every counted tensor, and the last position where it or a view of it is read."""
    outputs = {value.name for value in graph.output}
    constant = {tensor.name for tensor in graph.initializer}
    root: dict[str, str] = {}
    sizes: dict[str, int] = {}
    last_use: dict[str, int] = {}
    for position, node in enumerate(graph.node):
        operands, results = _present(node.input), _present(node.output)
        for name in operands:
            last_use[root.get(name, name)] = position
        if node.op_type == "Shape" or all(name in constant for name in operands):
            constant.update(results)
        elif node.op_type in _VIEWS:
            root[results[0]] = root.get(operands[0], operands[0])
        else:
            for name in results:
                last_use[name] = position
                if name not in outputs and not _is_shape(kinds[name]):
                    sizes[name] = _aligned_bytes(kinds[name])
    return sizes, last_use


def _present(names: Iterable[str]) -> list[str]:
    return [name for name in names if name]


def _is_shape(kind: TensorKind) -> bool:
    dtype, shape = kind
    return dtype == np.int64 and prod(shape) <= _SHAPE_ELEMENTS


def _aligned_bytes(kind: TensorKind) -> int:
    dtype, shape = kind
    return -(-prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
