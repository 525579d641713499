"""Import of If and Loop: as `scf` around the operations of branches and bodies, over tensors of static shape.

- **If** with a constant condition is its branch. Else it is an `scf.if` of both branches, which must give the same
  types. Where they don't, or where a branch does not fit the shapes, the condition's value is taken from the inputs'
  examples and decides, as values that decide shapes do.
- **Loop** whose body never ends it is an `scf.for` over the trip count; any other is an `scf.while`. What it carries
  must keep its shape. Scan outputs need a known number of trips: each trip writes its slice of a tensor of full size. A
  loop that breaks these rules, but whose trips are known and few, is imported trip by trip.

The condition that a body reads is true, since the body runs. What a body says about going on counts whether or not the
Loop has a condition input, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Block, Region, SSAValue

from mlopt.diagnostics import MloptError, UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.frontend.onnx.loops import BlockBuilder, Collected, close_counted_loop, require_same_types
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer

UNROLLED_NODES = 4096
"""A loop that can't stay one is imported trip by trip if that makes at most so many nodes."""


@importer("If", since=1, outputs=None)
def if_(node: Node) -> Sequence[SSAValue]:
    """One of two branches, by a condition of one element."""
    branches = node.graph("then_branch"), node.graph("else_branch")
    for branch in branches:
        require_signature(node, branch, 0, len(node.proto.output))
    condition = node.operand(0)
    value = node.constant_value(condition)
    if value is None:
        outcome = node.attempt(lambda: _both_branches(node, branches))
        if not isinstance(outcome, MloptError):
            return outcome
        value = node.known_value(condition)
        if value is None:
            raise outcome
    return node.subgraph(branches[0 if value.reshape(()) else 1], None, [])


def _both_branches(node: Node, branches: Sequence[GraphProto]) -> Sequence[SSAValue]:
    blocks = [Block(), Block()]
    then, otherwise = (node.subgraph(*pair, []) for pair in zip(branches, blocks, strict=True))
    for name, one, other in zip(node.proto.output, then, otherwise, strict=True):
        if one.type != other.type:
            message = f'"{name}" is {one.type} in one branch and {other.type} in the other'
            raise node.error(message, UnsupportedError)
    for block, values in zip(blocks, (then, otherwise), strict=True):
        BlockBuilder(node, block).end(scf.YieldOp(*values))
    condition = BlockBuilder(node).scalar_of(node.operand(0), i1)
    op = scf.IfOp(condition, [value.type for value in then], Region(blocks[0]), Region(blocks[1]))
    return list(node.add(op).results)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A Loop node. `count` and `starts` are its trip count and first condition where they are known.

    `count` is None too if there is no trip count; `starts` is True if there is no condition.
    """

    node: Node
    body: GraphProto
    initial: Sequence[SSAValue]
    count: int | None
    starts: bool | None


@importer("Loop", since=1, outputs=None)
def loop(node: Node) -> Sequence[SSAValue]:
    """At most `M` trips, while a condition holds."""
    body, inputs = node.graph("body"), len(node.proto.input)
    initial = [node.operand(index) for index in range(2, inputs)]
    require_signature(node, body, 2 + len(initial), None)
    collects = len(body.output) > 1 + len(initial)
    count, starts = (_value_of(node, index, decide=collects) for index in (0, 1))
    described = _Loop(
        node,
        body,
        initial,
        None if count is None else max(0, int(count)),
        True if node.optional(1) is None else None if starts is None else bool(starts),
    )
    outcome = node.attempt(lambda: _as_loop(described))
    if not isinstance(outcome, MloptError):
        return outcome
    unrolled = node.attempt(lambda: _trip_by_trip(described))
    if isinstance(unrolled, MloptError):
        raise unrolled from outcome  # the trips are known: a later one is what does not fit
    if unrolled is None:
        raise outcome
    return unrolled


def _value_of(node: Node, index: int, *, decide: bool) -> np.ndarray | None:
    """The number that an optional input holds, if it is constant, or known and may decide."""
    operand = node.optional(index)
    if operand is None:
        return None
    value = node.known_value(operand) if decide else node.constant_value(operand)
    return None if value is None else value.reshape(())


def _as_loop(loop: _Loop) -> Sequence[SSAValue]:
    node, initial = loop.node, loop.initial
    block = Block(arg_types=[i64, *(value.type for value in initial)])
    inside = BlockBuilder(node, block)
    trip = inside.tensor_of(block.args[0], _rank_of_input(loop.body, 0))
    true = inside.true(_rank_of_input(loop.body, 1))
    goes_on, *values = node.subgraph(loop.body, block, [trip, true, *block.args[1:]])
    carried, collected = values[: len(initial)], values[len(initial) :]
    always = node.constant_value(goes_on)
    trips = _trips(loop, None if always is None else bool(always.reshape(())))
    if trips != 0:
        require_same_types(node, node.proto.input[2:], initial, carried)
    if trips is not None and not (collected and isinstance(trips, SSAValue)):
        return close_counted_loop(node, block, trips, initial, carried, [*map(Collected, collected)])
    if collected:
        message = (
            "has scan outputs, but how many trips it makes is not known at compile time: that is computed at run time, "
            "or from inputs without an example"
        )
        raise node.error(message, UnsupportedError)
    return _close_while(loop, block, goes_on, carried)


def _trips(loop: _Loop, always: bool | None) -> int | SSAValue | None:
    """How many trips a loop makes whose body goes on always, never, or (None) as it finds; None if that is open."""
    if loop.starts is False or loop.count == 0:
        return 0
    has_count = loop.node.optional(0) is not None
    if always is None or (always and not has_count):
        return None
    known = loop.starts is True and (loop.count is not None or not has_count)
    if not always:
        return 1 if known else None
    if known:
        return loop.count
    here = BlockBuilder(loop.node)
    count = here.scalar_of(loop.node.operand(0), i64) if loop.count is None else here.number(loop.count)
    if loop.starts:
        return count
    starts = here.scalar_of(loop.node.operand(1), i1)
    return here.add(arith.SelectOp(starts, count, here.number(0)))


def _close_while(loop: _Loop, after: Block, goes_on: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
    """An `scf.while` that carries the number of the trip, whether to go on, and the loop's tensors."""
    node, here = loop.node, BlockBuilder(loop.node)
    inside = BlockBuilder(node, after)
    next_trip = inside.add(arith.AddiOp(after.args[0], inside.number(1)))
    go = inside.scalar_of(goes_on, i1)
    inside.end(scf.YieldOp(next_trip, go, *carried))
    after.insert_arg(i1, 1)

    starts = node.optional(1)
    started = (
        here.add(arith.ConstantOp.from_int_and_width(1, 1)) if starts is None else here.scalar_of(starts, i1)
    )
    count = node.optional(0)
    most = None if count is None else here.scalar_of(count, i64)
    before = Block(arg_types=after.arg_types)
    condition: SSAValue = before.args[1]
    if most is not None:
        test = BlockBuilder(node, before)
        more = test.add(arith.CmpiOp(before.args[0], most, "slt"))
        condition = test.add(arith.AndIOp(more, condition))
    BlockBuilder(node, before).end(scf.ConditionOp(condition, *before.args))
    op = scf.WhileOp(
        [here.number(0), started, *loop.initial], before.arg_types, Region(before), Region(after)
    )
    return list(node.add(op).results[2:])


def _trip_by_trip(loop: _Loop) -> Sequence[SSAValue] | None:
    """The results of a loop without a loop, or None if its trips are not known or too many."""
    node, body = loop.node, loop.body
    count, starts = (_value_of(node, index, decide=True) for index in (0, 1))
    if (count is None) != (node.optional(0) is None) or (starts is None) != (node.optional(1) is None):
        return None
    most = UNROLLED_NODES // max(1, len(body.node))
    carried, collected = list(loop.initial), list[list[SSAValue]]()
    here, goes_on, trip = BlockBuilder(node), starts is None or bool(starts), 0
    while goes_on and (count is None or trip < count):
        if trip == most:
            return None
        number = node.constant(np.full([1] * _rank_of_input(body, 0), trip, np.int64))
        goes_on_value, *values = node.subgraph(
            body, None, [number, here.true(_rank_of_input(body, 1)), *carried]
        )
        carried = values[: len(carried)]
        parts = values[len(carried) :]
        if collected:
            _require_one_type(loop, parts, collected[-1])
        collected.append(parts)
        known = node.known_value(goes_on_value)
        if known is None:
            return None
        goes_on, trip = bool(known.reshape(())), trip + 1
    if not collected:
        return None if len(body.output) > 1 + len(carried) else carried
    wholes = ([_as_slice(node, part) for part in parts] for parts in zip(*collected, strict=True))
    return [*carried, *(node.add(graph.ConcatOp(parts, 0)).result for parts in wholes)]


def _require_one_type(loop: _Loop, parts: Sequence[SSAValue], before: Sequence[SSAValue]) -> None:
    """Raise if what two trips give can't be put one after the other; the standard wants one shape of all."""
    outputs = loop.body.output[1 + len(loop.initial) :]
    for output, part, earlier in zip(outputs, parts, before, strict=True):
        if part.type != earlier.type:
            message = (
                f'collects "{output.name}", which is {earlier.type} in one trip and {part.type} in the next'
            )
            raise loop.node.error(message)


def _as_slice(node: Node, value: SSAValue) -> SSAValue:
    if node.bound_of(value) is not None:
        raise node.error("collects a value whose size depends on data", UnsupportedError)
    return node.add(graph.ReshapeOp(value, (1, *tensor_type(value.type).get_shape()))).result


def _rank_of_input(body: GraphProto, index: int) -> int:
    """The rank, 0 or 1, that a body declares for its trip number or condition."""
    return min(1, len(body.input[index].type.tensor_type.shape.dim))


def require_signature(node: Node, body: GraphProto, inputs: int, outputs: int | None) -> None:
    """Raise unless a subgraph has as many inputs as it will be given, and as many outputs as the node, at least."""
    if len(body.input) != inputs:
        raise node.error(f'expected {inputs} inputs of "{body.name}", found {len(body.input)}')
    least = inputs - 1 if outputs is None else outputs
    if len(body.output) < least or (outputs is not None and len(body.output) != outputs):
        raise node.error(f'expected {least} outputs of "{body.name}", found {len(body.output)}')
