"""Near misses: programs in which one thing is changed, or two.

What is drawn from the idioms in `tests/fuzz/operators/` is what passes look for, most of the time. A mutant has a
number off, an axis, an order of operands, a shape, a type, another producer or another user, so that it lies on either
side of what a pass matches: it must be left alone, or still mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper

from mlopt.compare import is_floating
from tests.fuzz.builder import BOOL, F16, F32, F64, I32, I64, SPECIAL, Unfit
from tests.fuzz.oracle import NoValue, evaluate_step, open_session
from tests.fuzz.program import Array, Program, Step, Value, names_read

MOST_ELEMENTS = 20000


@dataclass
class Draft:
    """A program whose values are not known any more but those of its `leaves`. `was` has what each name held before."""

    rng: Random
    opset: int
    runs: int
    leaves: dict[str, Value]
    nodes: list[onnx.NodeProto]
    outputs: list[str]
    was: dict[str, Value]

    def new_name(self) -> str:
        taken = {*self.was, *self.leaves, *(name for node in self.nodes for name in node.output)}
        return next(name for name in (f"m{i}" for i in range(999)) if name not in taken)

    def constant(self, array: Array, *, structural: bool = False) -> str:
        name = self.new_name()
        self.leaves[name] = Value(name, (array,) * self.runs, "constant", structural=structural)
        return name

    def change(self, leaf: Value, function: Callable[[Array], Array]) -> None:
        """What a leaf holds, in each run; a constant stays one."""
        arrays = [function(array.copy()) for array in leaf.arrays]
        leaf.arrays = tuple(arrays[:1] * self.runs if leaf.kind == "constant" else arrays)

    def read_instead(self, name: str, other: str, *, once: bool = False) -> None:
        """Whoever reads a value, or one of them, reads another one."""
        uses = [(node, i) for node in self.nodes for i, operand in enumerate(node.input) if operand == name]
        for node, i in self.rng.sample(uses, 1) if once and uses else uses:
            node.input[i] = other

    def position(self, name: str) -> int:
        """Of the first node that reads a value."""
        return next(i for i, node in enumerate(self.nodes) if name in node.input)


Mutation: TypeAlias = Callable[[Draft], object]


def mutant(rng: Random, program: Program) -> Program | None:
    """A program with something changed; None if that is no program for onnxruntime, or has no right value."""
    leaves = {leaf.name: replace(leaf) for leaf in program.leaves()}
    nodes = [onnx.NodeProto.FromString(step.node.SerializeToString()) for step in program.steps]
    made = {value.name: value for step in program.steps for value in step.results}
    outputs = [value.name for value in program.outputs]
    draft = Draft(rng, program.opset, program.runs, leaves, nodes, outputs, leaves | made)
    try:
        for mutation in rng.sample(MUTATIONS, 1 if rng.random() < 0.75 else 2):
            mutation(draft)
        changed = _evaluated(draft)
        open_session(changed.model()).run(None, changed.feeds(0))
    except Exception:  # a change may be one to nonsense, and oracles raise errors of any type
        return None
    return changed


def _evaluated(draft: Draft) -> Program:
    values, program = dict(draft.leaves), Program(draft.opset, runs=draft.runs)
    for node in draft.nodes:
        operands = tuple(values[name] for name in names_read(node) if name in values)
        if node.op_type in ("Div", "Mod") and _has_zero_integers(operands[-1]):
            raise Unfit("a division of integers by 0, at which onnxruntime ends")
        if node.op_type == "Clip" and any(_has_nan(bound) for bound in operands[1:]):
            raise Unfit("a bound that the standard says nothing of")
        if node.op_type.startswith("Reduce") and _repeats_axes(node, operands):
            raise Unfit("an axis that is there twice, which the standard says nothing of")
        found, errors = evaluate_step(node, operands, draft.opset, draft.runs)
        names = [name for name in node.output if name]
        results = tuple(Value(n, a, "node", e) for n, a, e in zip(names, found, errors, strict=True))
        if any(value.arrays[0].size > MOST_ELEMENTS for value in results):
            raise Unfit("too large")
        program.steps.append(Step(node, operands, results))
        values |= {value.name: value for value in results}
    used = {operand for step in program.steps for operand in step.operands}
    unused = [value for step in program.steps for value in step.results if value not in used]
    program.outputs = list(dict.fromkeys([*(values[name] for name in draft.outputs), *unused]))
    if any(value.dynamic for value in program.outputs):
        raise NoValue("a size depends on data")
    return program


def _has_zero_integers(divisor: Value) -> bool:
    return not is_floating(divisor.arrays[0]) and any((array == 0).any() for array in divisor.arrays)


def _repeats_axes(node: onnx.NodeProto, operands: Sequence[Value]) -> bool:
    given = [attribute.ints for attribute in node.attribute if attribute.name == "axes"]
    axes = np.array([*operands[1].arrays[0].reshape(-1)] if len(operands) > 1 else [*(given or [()])[0]])
    return operands[0].rank > 0 and len(set((axes % operands[0].rank).tolist())) < axes.size


def _has_nan(value: Value) -> bool:
    return is_floating(value.arrays[0]) and any(np.isnan(array).any() for array in value.arrays)


# What leaves hold


def _leaf(draft: Draft, accepts: Callable[[Value], bool]) -> Value:
    options = [leaf for leaf in draft.leaves.values() if accepts(leaf)]
    if not options:
        raise Unfit("no such leaf")
    return draft.rng.choice(options)


def _is_number(leaf: Value) -> bool:
    flat = leaf.arrays[0].reshape(-1)
    return is_floating(flat) and flat.size > 0 and leaf.kind == "constant" and bool(np.all(flat == flat[0]))


def another_number(draft: Draft) -> None:
    """A little or much off, or a special one."""
    leaf, factor = _leaf(draft, _is_number), draft.rng.choice((1 + 3e-7, 1.001, 1.2, 0.5, -1.0, None, None))
    special = draft.rng.choice(SPECIAL)
    draft.change(
        leaf,
        lambda array: np.asarray(
            np.full_like(array, special) if factor is None else array * factor, array.dtype
        ),
    )


def another_element(draft: Draft) -> None:
    leaf = _leaf(draft, lambda leaf: leaf.arrays[0].size > 0 and leaf.dtype != BOOL and not leaf.structural)
    index, special = draft.rng.randrange(leaf.arrays[0].size), draft.rng.choice((*SPECIAL, None, None))

    def changed(array: Array) -> Array:
        flat = array.reshape(-1)
        is_special = special is not None and is_floating(flat)
        flat[index] = special if is_special else flat[index] + flat.dtype.type(1)
        return array

    draft.change(leaf, changed)


def another_structure(draft: Draft) -> None:
    """An axis, an index or a size is one off or has the other sign, or two are exchanged."""
    leaf = _leaf(draft, lambda leaf: leaf.structural and leaf.arrays[0].size > 0 and leaf.dtype in (I32, I64))
    flat: list[int] = leaf.arrays[0].reshape(-1).tolist()
    i, j = (draft.rng.randrange(len(flat)) for _ in range(2))
    match draft.rng.choice(("up", "down", "sign", "order")):
        case "up":
            flat[i] += 1
        case "down":
            flat[i] -= 1
        case "sign":
            flat[i] = -flat[i]
        case _:
            flat[i], flat[j] = flat[j], flat[i]
    if len(set(flat)) < len(set(leaf.arrays[0].reshape(-1).tolist())):
        raise Unfit("axes that are repeated")
    draft.change(leaf, lambda array: np.array(flat, array.dtype).reshape(array.shape))


def another_kind(draft: Draft) -> None:
    """A constant that is given at run time, or the other way round."""
    leaf = _leaf(draft, lambda leaf: not leaf.structural)
    leaf.kind = "constant" if leaf.kind == "input" else "input"
    draft.change(leaf, lambda array: array)


# Shapes


def another_shape(draft: Draft) -> None:
    """A leaf is spread along an axis of what it meets, or has more dimensions, or enlarges the result."""
    leaf = _leaf(draft, lambda leaf: not leaf.structural and leaf.arrays[0].size > 0)
    readers = [node for node in draft.nodes if leaf.name in node.input]
    met = max((draft.was[name].shape for node in readers for name in node.output), key=len)
    match draft.rng.choice(("ones", "enlarged", "turned", "last", "axis", "axis")):
        case "ones":
            ones = (1,) * (len(met) + draft.rng.randint(0, 1) - leaf.rank)
            draft.change(leaf, lambda array: array.reshape(*ones, *array.shape))
        case "enlarged":
            lead = (2, *(1 for _ in met[leaf.rank :]))
            draft.change(leaf, lambda array: np.broadcast_to(array, (*lead, *array.shape)).copy())
        case "turned":
            draft.change(leaf, lambda array: np.ascontiguousarray(array.T))
        case "last":
            draft.change(leaf, lambda array: array[..., None])
        case _:
            axis = draft.rng.randrange(len(met))
            shape = (met[axis], *(1 for _ in met[axis + 1 :]))
            draft.change(leaf, lambda array: np.resize(array, shape))


def another_size(draft: Draft) -> None:
    """All axes of one size have another, 1 or 0 for the most part; so has what decides shapes."""
    sizes = sorted({size for leaf in draft.leaves.values() if not leaf.structural for size in leaf.shape})
    old, new = draft.rng.choice(sizes), draft.rng.choice((1, 1, 0, 2, 5))
    for leaf in draft.leaves.values():
        if not leaf.structural:
            shape = [new if size == old else size for size in leaf.shape]
            draft.change(leaf, lambda array, shape=shape: np.resize(array, shape))
        elif leaf.dtype == I64 and leaf.arrays[0].size > 1:
            draft.change(leaf, lambda array: np.where(array == old, new, array))


# Types


def another_type(draft: Draft) -> None:
    """All floats are of another type, or integers."""
    to = np.dtype(draft.rng.choice((F16, F32, F64, I32)))
    for leaf in draft.leaves.values():
        if is_floating(leaf.arrays[0]):
            draft.change(leaf, lambda array: array.astype(to))


def another_version(draft: Draft) -> None:
    draft.opset = draft.rng.choice((13, 17, 18, 20, 22, 23))


# Nodes


def _node(draft: Draft, accepts: Callable[[onnx.NodeProto], object]) -> onnx.NodeProto:
    options = [node for node in draft.nodes if accepts(node)]
    if not options:
        raise Unfit("no such node")
    return draft.rng.choice(options)


def another_order(draft: Draft) -> None:
    """Two operands are exchanged, or one is there twice."""
    node = _node(draft, lambda node: len(node.input) > 1)
    i, j = draft.rng.sample(range(len(node.input)), 2)
    node.input[i], node.input[j] = node.input[j], node.input[draft.rng.choice((i, j))]


ALIKE: Sequence[frozenset[str]] = [
    frozenset(names.split())
    for names in (
        "Add Sub Mul Div Max Min",
        "ReduceMean ReduceSum ReduceMax ReduceMin ReduceL2 ReduceProd",
        "Relu Neg Abs Identity Reciprocal Sqrt Exp Log Tanh Erf Sigmoid Softplus",
        "Softmax LogSoftmax Hardmax",
    )
]


def another_operator(draft: Draft) -> None:
    node = _node(draft, lambda node: any(node.op_type in names for names in ALIKE))
    (names,) = (names for names in ALIKE if node.op_type in names)
    node.op_type = draft.rng.choice(sorted(names - {node.op_type}))


def another_attribute(draft: Draft) -> None:
    """A number is off, or two of a list are exchanged."""
    node = _node(
        draft, lambda node: node.attribute and node.op_type != "Cast"
    )  # integers hold not every number
    attribute = draft.rng.choice(list(node.attribute))
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = draft.rng.choice((attribute.i + 1, attribute.i - 1, -attribute.i, 1 - attribute.i))
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f *= draft.rng.choice((1.001, 2.0, -1.0, 0.0))
    elif attribute.type == onnx.AttributeProto.INTS:
        ints = list(attribute.ints)
        i, j = (draft.rng.randrange(len(ints)) for _ in range(2))
        ints[i], ints[j] = (ints[j], ints[i]) if draft.rng.random() < 0.5 else (ints[i] + 1, ints[j])
        attribute.ints[:] = ints
    else:
        raise Unfit("no number")


def dropped(draft: Draft) -> None:
    """A node is left out: its first operand takes the place of its result."""
    node = _node(draft, lambda node: len(node.output) == 1 and node.output[0] not in draft.outputs)
    draft.read_instead(node.output[0], node.input[0])
    draft.nodes.remove(node)


def added(draft: Draft) -> None:
    """A node between a value and whoever reads it, or one of those."""
    names = [name for node in draft.nodes for name in node.input if name in draft.was]
    value = draft.was[draft.rng.choice([n for n in names if is_floating(draft.was[n].arrays[0])])]
    position, result = draft.position(value.name), draft.new_name()
    number, shape = draft.rng.choice((1, 0, -1, 2)), draft.rng.choice(((), (), (1,) * (value.rank + 1)))
    match draft.rng.choice(("unary", "number", "casts", "transpose", "reshape")):
        case "unary":
            kind = draft.rng.choice(("Neg", "Identity", "Abs", "Relu", "Floor"))
            nodes = [helper.make_node(kind, [value.name], [result])]
        case "number":
            constant = draft.constant(np.full(shape, number, value.dtype))
            result = draft.new_name()
            nodes = [helper.make_node(draft.rng.choice(("Add", "Mul")), [value.name, constant], [result])]
        case "casts":
            types = (draft.rng.choice((10, 11)), helper.np_dtype_to_tensor_dtype(value.dtype))
            nodes = [
                helper.make_node("Cast", [value.name], [f"{result}c"], to=types[0]),
                helper.make_node("Cast", [f"{result}c"], [result], to=types[1]),
            ]
        case "transpose":
            order = draft.rng.sample(range(value.rank), value.rank)
            nodes = [helper.make_node("Transpose", [value.name], [result], perm=order)]
        case _:
            lead = draft.rng.choice(((), (1,)))
            constant = draft.constant(np.array([*lead, *value.shape], np.int64), structural=True)
            result = draft.new_name()
            nodes = [helper.make_node("Reshape", [value.name, constant], [result])]
    draft.read_instead(value.name, result, once=draft.rng.random() < 0.5)
    draft.nodes[position:position] = nodes


# Who reads what


def another_operand(draft: Draft) -> None:
    """A node reads another value of the type and shape: two branches that a pattern takes for one."""
    position = draft.rng.randrange(len(draft.nodes))
    node, i = draft.nodes[position], draft.rng.randrange(len(draft.nodes[position].input))
    old = draft.was[node.input[i]]
    known = [*draft.leaves, *(name for before in draft.nodes[:position] for name in before.output)]
    alike = [
        name
        for name in known
        if name != old.name and (draft.was[name].dtype, draft.was[name].shape) == (old.dtype, old.shape)
    ]
    node.input[i] = draft.rng.choice(alike)


def another_user(draft: Draft) -> None:
    """A value in between is an output too, or is read once more."""
    names = [name for node in draft.nodes for name in node.output if name and name not in draft.outputs]
    name = draft.rng.choice(names)
    if draft.rng.random() < 0.5:
        draft.outputs.append(name)
    else:
        draft.nodes.append(helper.make_node("Identity", [name], [draft.new_name()]))


def another_copy(draft: Draft) -> None:
    """A value is computed twice, and one of those who read it reads the other."""
    node = _node(draft, lambda node: len(node.output) == 1)
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.output[0] = draft.new_name()
    copy.name = copy.output[0]
    draft.nodes.insert(draft.nodes.index(node) + 1, copy)
    draft.read_instead(node.output[0], copy.output[0], once=True)


MUTATIONS: Sequence[Mutation] = (
    *(another_number, another_number, another_element, another_structure, another_kind),
    *(another_shape, another_shape, another_size, another_type, another_version),
    *(another_order, another_operator, another_attribute, dropped, added),
    *(another_operand, another_user, another_copy),
)
"""What may be changed; where a pattern has many edges, twice."""
