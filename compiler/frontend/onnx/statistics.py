"""What a model costs as imported: every operator its own kernel, in the file's order, before any pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import NamedTuple

import numpy as np
import onnx

_ALIGNMENT = 64
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
_SHAPE_ELEMENTS = 64

TensorKind = tuple[np.dtype, tuple[int, ...]]
"""dtype and static shape of one value."""


class ImportedStatistics(NamedTuple):
    """Counts of a model as imported.

    `ops`: number of nodes. `no_reuse_bytes`: the sum of all intermediate tensors. `max_live_bytes`: the most
    that live at once; the inputs and outputs of a node live together at the node. Each tensor takes a
    multiple of 64 bytes. `traffic_bytes`: the sum of what each node reads and writes, graph inputs and outputs
    included, without rounding.

    Not counted: graph inputs and outputs (in memory), constants (initializers, and what follows from them
    and from shapes alone), pure views (they keep their operand alive), and shape arithmetic (int64 of at
    most 64 elements).
    """

    ops: int
    no_reuse_bytes: int
    max_live_bytes: int
    traffic_bytes: int
    by_name: dict[str, int]


def imported_statistics(graph: onnx.GraphProto, kinds: Mapping[str, TensorKind]) -> ImportedStatistics:
    """The statistics of `graph`; `kinds` gives dtype and shape of every graph input and node output by its name.

    An output that it has not is one that nothing reads and import gives no value for; it is not counted.
    """
    names = Counter(node.op_type for node in graph.node)
    constant = _constants(graph)
    sizes, last_use = _intermediates(graph, kinds, constant)
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
    return ImportedStatistics(
        ops=len(graph.node),
        no_reuse_bytes=sum(sizes.values()),
        max_live_bytes=peak,
        traffic_bytes=_traffic(graph, kinds, constant),
        by_name=dict(sorted(names.items())),
    )


def _constants(graph: onnx.GraphProto) -> set[str]:
    """The names of initializers, and of what follows from them and from shapes alone."""
    constant = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Shape" or all(name in constant for name in _present(node.input)):
            constant.update(_present(node.output))
    return constant


def _intermediates(
    graph: onnx.GraphProto, kinds: Mapping[str, TensorKind], constant: Collection[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Aligned bytes of every counted tensor, and the last position where it or a view of it is read."""
    outputs = {value.name for value in graph.output}
    root: dict[str, str] = {}
    sizes: dict[str, int] = {}
    last_use: dict[str, int] = {}
    for position, node in enumerate(graph.node):
        operands, results = _present(node.input), _present(node.output)
        for name in operands:
            last_use[root.get(name, name)] = position
        if all(name in constant for name in results):
            continue
        if node.op_type in _VIEWS:
            root[results[0]] = root.get(operands[0], operands[0])
        else:
            for name in results:
                last_use[name] = position
                if name in kinds and name not in outputs and not _is_shape(kinds[name]):
                    sizes[name] = _aligned_bytes(kinds[name])
    return sizes, last_use


def _traffic(graph: onnx.GraphProto, kinds: Mapping[str, TensorKind], constant: Collection[str]) -> int:
    """Bytes of the operands and results of all nodes but views; constants and shape arithmetic aside."""
    total = 0
    for node in graph.node:
        operands, results = dict.fromkeys(_present(node.input)), _present(node.output)
        if node.op_type in _VIEWS or all(name in constant for name in results):
            continue
        counted = [kinds[name] for name in (*operands, *results) if name in kinds and name not in constant]
        total += sum(_bytes(kind) for kind in counted if not _is_shape(kind))
    return total


def _present(names: Iterable[str]) -> list[str]:
    return [name for name in names if name]


def _is_shape(kind: TensorKind) -> bool:
    dtype, shape = kind
    return dtype == np.int64 and prod(shape) <= _SHAPE_ELEMENTS


def _bytes(kind: TensorKind) -> int:
    dtype, shape = kind
    return prod(shape) * dtype.itemsize


def _aligned_bytes(kind: TensorKind) -> int:
    return -(-_bytes(kind) // _ALIGNMENT) * _ALIGNMENT
