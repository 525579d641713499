"""Runs an exported model in onnxruntime, and derives how far that may be from the program.

An operator in it may stand for several of the program, and round otherwise: a rotation whose products and sums have one
right value each has none as RotaryEmbedding.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import onnx
import onnxruntime
from xdsl.dialects.builtin import ModuleOp

from mlopt import UnsupportedError
from mlopt.export import to_onnx
from mlopt.ir.context import CompilerContext
from tests.fuzz.oracle import UNKNOWN_TO_NUMPY, NoValue, evaluate_step, open_session
from tests.fuzz.program import Array, Value, names_read, one_step_model

Runner = Callable[[dict[str, Array]], dict[str, Array]]


class ForeignError(Exception):
    """onnxruntime does not run a model."""


class Exported:
    """An exported model in onnxruntime."""

    def __init__(self, model: onnx.ModelProto, session: onnxruntime.InferenceSession):
        self._model = model
        self._session = session
        self._names = [output.name for output in session.get_outputs()]
        self._taken = {value.name for value in session.get_inputs()}
        self._alone = _Alone(model) if _computes_in_half_precision(model) else None

    def __call__(self, feeds: dict[str, Array]) -> dict[str, Array]:
        given = self._given(feeds)
        try:
            results = self._alone(given) if self._alone is not None else None
            return results or dict(zip(self._names, self._session.run(self._names, given), strict=True))
        except Exception as error:
            raise ForeignError from error

    def errors(self, feeds: dict[str, Array]) -> dict[str, float]:
        """By how much rounding may move each output, of those that it does not decide."""
        known = _constants(self._model)
        known |= {name: Value(name, (array,), "input") for name, array in self._given(feeds).items()}
        opset = _opset(self._model)
        for node in self._model.graph.node:
            read = [name for name in node.input if name]
            read += [name for name in names_read(node) if name in known and name not in read]
            if all(name in known for name in read):
                operands = [known[name] for name in read]
                if node.op_type == "Resize":  # scales and regions decide sizes
                    operands[1:] = [replace(value, structural=True) for value in operands[1:]]
                with suppress(NoValue):
                    found, errors = evaluate_step(node, operands, opset, 1)
                    for name, arrays, error in zip(filter(None, node.output), found, errors, strict=True):
                        known[name] = Value(name, arrays, "node", error)
        return {name: known[name].error for name in self._names if name in known}

    def _given(self, feeds: dict[str, Array]) -> dict[str, Array]:
        return {name: array for name, array in feeds.items() if name in self._taken}


def run_exported(module: ModuleOp, ctx: CompilerContext) -> Exported | None:
    """The exported model in onnxruntime, or None if the export is refused or onnxruntime has no such kernel."""
    try:
        model = to_onnx(module, ctx.weights)
        onnx.checker.check_model(model)
    except UnsupportedError:
        return None
    try:
        session = open_session(model)
    except Exception:  # no class of errors stands for "not implemented" alone
        return None
    if any(value.type in UNKNOWN_TO_NUMPY for value in [*session.get_inputs(), *session.get_outputs()]):
        return None
    return Exported(model, session)


def _constants(model: onnx.ModelProto) -> dict[str, Value]:
    return {
        tensor.name: Value(tensor.name, (onnx.numpy_helper.to_array(tensor),), "constant")
        for tensor in model.graph.initializer
    }


def _opset(model: onnx.ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain == "")


def _computes_in_half_precision(model: onnx.ModelProto) -> bool:
    """Whether a tensor of the main graph is of float16."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    types = {value.type.tensor_type.elem_type for value in values}
    return onnx.TensorProto.FLOAT16 in types | {tensor.data_type for tensor in model.graph.initializer}


class _Alone:
    """The nodes of a model in onnxruntime, each in a model of its own.

    In one model, onnxruntime computes several nodes of float16 that it has no kernels for in single precision, and does
    not round in between.
    """

    def __init__(self, model: onnx.ModelProto):
        self._model = model
        self._opset, self._constants = _opset(model), _constants(model)

    def __call__(self, feeds: dict[str, Array]) -> dict[str, Array] | None:
        """The outputs, or None if numpy does not know the type of something in between."""
        known = dict(feeds)
        for node in self._model.graph.node:
            read = names_read(node)
            inputs = [Value(name, (known[name],), "input") for name in read if name in known]
            constants = [self._constants[name] for name in read if name in self._constants]
            session = open_session(one_step_model(node, inputs, constants, self._opset))
            if any(
                value.type in UNKNOWN_TO_NUMPY for value in [*session.get_inputs(), *session.get_outputs()]
            ):
                return None
            results = session.run(None, {value.name: value.arrays[0] for value in inputs})
            known.update(zip((name for name in node.output if name), results, strict=True))
        constants = {name: value.arrays[0] for name, value in self._constants.items()}
        return {output.name: (constants | known)[output.name] for output in self._model.graph.output}
