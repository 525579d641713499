"""Import of Scan: an `scf.for` along an axis, each trip of which reads slices and writes slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, NodeProto
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of
from mlopt.frontend.onnx.control_flow import require_signature
from mlopt.frontend.onnx.loops import (
    BlockBuilder,
    Collected,
    close_counted_loop,
    position_of,
    require_same_types,
)
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("Scan", since=9, outputs=None)
def scan(node: Node) -> Sequence[SSAValue]:
    """What is carried comes first, then what is read slice by slice, along axes and in directions of one's own."""
    read = node.integer("num_scan_inputs")
    operands = node.operands()
    if not 1 <= read <= len(operands):
        raise node.error(f"expected num_scan_inputs in [1, {len(operands)}], found {read}")
    carried, sources = operands[:-read], operands[-read:]
    body = node.graph("body")
    written = len(body.output) - len(carried)
    axes = [
        normalize_axis(axis, len(shape_of(source)))
        for axis, source in zip(_listed(node, "scan_input_axes", read), sources, strict=True)
    ]
    return _scan(
        node,
        body,
        carried,
        [*zip(sources, axes, _directions(node, "scan_input_directions", read), strict=True)],
        [
            *zip(
                _listed(node, "scan_output_axes", written),
                _directions(node, "scan_output_directions", written),
                strict=True,
            )
        ],
    )


def _lengths_limit(node: NodeProto) -> str | None:
    return "with sequence_lens" if node.input and node.input[0] else None


@importer("Scan", since=8, limit=_lengths_limit, outputs=None)
def batched_scan(node: Node) -> Sequence[SSAValue]:
    """Before version 9: once for each element of a batch, the first axis of everything; slices along the second."""
    read = node.integer("num_scan_inputs")
    operands = [node.operand(index) for index in range(1, len(node.proto.input))]
    if not 1 <= read <= len(operands):
        raise node.error(f"expected num_scan_inputs in [1, {len(operands)}], found {read}")
    batches = {shape[0] if (shape := shape_of(operand)) else 1 for operand in operands}
    if len(batches) != 1 or batches == {0}:
        raise node.error(f"expected one batch size other than 0, found {sorted(batches)}")
    directions = _directions(node, "directions", read)
    body = node.graph("body")
    results: list[list[SSAValue]] = []
    for element in range(batches.pop()):
        number = node.constant(np.array(element))
        ours = [node.add(graph.GatherOp(operand, number, 0)).result for operand in operands]
        sources = [(source, 0, back) for source, back in zip(ours[-read:], directions, strict=True)]
        collected = [(0, False)] * (len(body.output) - len(operands) + read)
        results.append(_scan(node, body, ours[:-read], sources, collected))
    return [
        node.add(
            graph.ConcatOp([node.add(graph.ReshapeOp(part, (1, *shape_of(part)))) for part in parts], 0)
        ).result
        for parts in zip(*results, strict=True)
    ]


def _scan(
    node: Node,
    body: GraphProto,
    initial: Sequence[SSAValue],
    sources: Sequence[tuple[SSAValue, int, bool]],
    collects: Sequence[tuple[int, bool]],
) -> list[SSAValue]:
    """`sources` are read along an axis, forwards or backwards; `collects` says the same of what is written."""
    require_signature(node, body, len(initial) + len(sources), len(initial) + len(collects))
    extents = [shape_of(source)[axis] for source, axis, _ in sources]
    if len(set(extents)) != 1:
        raise node.error(f"expected one length of all that is scanned, found {extents}")
    trips = extents[0]
    block = Block(arg_types=[i64, *(value.type for value in initial)])
    inside = BlockBuilder(node, block)
    slices = [
        inside.read_slice(source, axis, position_of(inside, block.args[0], trips, backwards=backwards))
        for source, axis, backwards in sources
    ]
    values = node.subgraph(body, block, [*block.args[1:], *slices])
    carried, parts = values[: len(initial)], values[len(initial) :]
    require_same_types(node, [value.name for value in body.input[: len(initial)]], initial, carried)
    collected = [Collected(part, *where) for part, where in zip(parts, collects, strict=True)]
    return close_counted_loop(node, block, trips, initial, carried, collected)


def _listed(node: Node, name: str, count: int) -> list[int]:
    """A list with one number for each input or output; all are 0 by default."""
    given = node.integers(name)
    if given is None:
        return [0] * max(0, count)
    if len(given) != count:
        raise node.error(f'attribute "{name}": expected {count} numbers, found {len(given)}')
    return given


def _directions(node: Node, name: str, count: int) -> list[bool]:
    """For each input or output, whether it runs backwards."""
    return [number == 1 for number in _listed(node, name, count)]
