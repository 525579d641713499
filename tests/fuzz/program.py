"""What the fuzzer makes and checks: an ONNX model, inputs for it, and the right value of every name in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mlopt.compare import is_floating

Array = np.ndarray
IR_VERSION = 10
MICROSOFT = "com.microsoft"

Kind = Literal["input", "constant", "node"]


@dataclass(eq=False)
class Value:
    """A named tensor of a program, with what it holds in each run.

    - `arrays`: one per run; they differ in the shape only if the size depends on data (`dynamic`).
    - `error`: by how much a correct execution may differ, in absolute terms; 0 where the result is exact.
    - `structural`: a constant that decides a shape or an index; it is never taken as an operand of another node.
    """

    name: str
    arrays: tuple[Array, ...]
    kind: Kind
    error: float = 0.0
    structural: bool = False

    @property
    def dtype(self) -> np.dtype:
        return self.arrays[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """In the first run."""
        return self.arrays[0].shape

    @property
    def rank(self) -> int:
        return self.arrays[0].ndim

    @property
    def finite(self) -> bool:
        """Whether there is no infinity and no NaN in it."""
        return not is_floating(self.arrays[0]) or all(
            bool(np.isfinite(array.astype(np.float64)).all()) for array in self.arrays
        )

    @property
    def dynamic(self) -> bool:
        """Whether the shape depends on data."""
        return any(array.shape != self.shape for array in self.arrays)


@dataclass
class Step:
    """One node, with the values that it reads (those of its bodies included) and the values that it gives."""

    node: onnx.NodeProto
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass
class Program:
    """A model as steps. `oracle` says whose values are right: a step that onnxruntime has no kernel for weakens it."""

    opset: int
    steps: list[Step] = field(default_factory=list[Step])
    outputs: list[Value] = field(default_factory=list[Value])
    runs: int = 2

    @property
    def operators(self) -> list[str]:
        return [step.node.op_type for step in self.steps]

    def leaves(self) -> list[Value]:
        """The inputs and constants in use, each once, in the order of their first use."""
        made = {result for step in self.steps for result in step.results}
        used = [operand for step in self.steps for operand in step.operands]
        return list(dict.fromkeys(value for value in [*used, *self.outputs] if value not in made))

    def feeds(self, run: int) -> dict[str, Array]:
        """The inputs of one run."""
        return {value.name: value.arrays[run] for value in self.leaves() if value.kind == "input"}

    def binds_values(self) -> bool:
        """Whether an input decides a shape."""
        return any(value.kind == "input" and value.structural for value in self.leaves())

    def model(self) -> onnx.ModelProto:
        """The model itself; no type but those of inputs and outputs is stated."""
        leaves = self.leaves()
        return make_model(
            [step.node for step in self.steps],
            [value for value in leaves if value.kind == "input"],
            self.outputs,
            [value for value in leaves if value.kind == "constant"],
            self.opset,
        )

    def without(self, dropped: Sequence[Step]) -> Program:
        """The program without some steps and all that depends on them."""
        gone = {result for step in dropped for result in step.results}
        kept: list[Step] = []
        for step in self.steps:
            if step in dropped or any(operand in gone for operand in step.operands):
                gone.update(step.results)
            else:
                kept.append(step)
        outputs = [value for value in self.outputs if value not in gone]
        used = {operand for step in kept for operand in step.operands}
        outputs += [r for step in kept for r in step.results if r not in used and r not in outputs]
        return replace(self, steps=kept, outputs=outputs)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Sequence[Value],
    opset: int,
) -> onnx.ModelProto:
    """A model of these nodes; the shapes of outputs are left open."""
    results = [
        helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for value in outputs
    ]
    return _model(nodes, inputs, results, constants, opset)


def one_step_model(
    node: onnx.NodeProto, inputs: Sequence[Value], constants: Sequence[Value], opset: int
) -> onnx.ModelProto:
    """A model of one node whose results have no stated type."""
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    return _model([node], inputs, results, constants, opset)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[Value],
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "fuzz",
        [
            helper.make_tensor_value_info(
                value.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for value in inputs
        ],
        outputs,
        [numpy_helper.from_array(value.arrays[0], value.name) for value in constants],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def names_read(node: onnx.NodeProto) -> list[str]:
    """The names that a node and its bodies read; those made in a body are among them, and known to nobody else."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names += names_read(inner)
        names += [output.name for output in attribute.g.output]
    return list(dict.fromkeys(names))
