"""Runs an exported model in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from xdsl.dialects.builtin import ModuleOp

from mlopt import UnsupportedError
from mlopt.export import to_onnx
from mlopt.ir.context import CompilerContext
from tests.fuzz.oracle import UNKNOWN_TO_NUMPY, open_session
from tests.fuzz.program import Array, Value, names_read, one_step_model

Runner = Callable[[dict[str, Array]], dict[str, Array]]


class ForeignError(Exception):
    """onnxruntime does not run a model."""


def run_exported(module: ModuleOp, ctx: CompilerContext) -> Runner | None:
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
    names = [output.name for output in session.get_outputs()]
    taken = {value.name for value in session.get_inputs()}
    if any(value.type in UNKNOWN_TO_NUMPY for value in [*session.get_inputs(), *session.get_outputs()]):
        return None
    alone = _Alone(model) if _computes_in_half_precision(model) else None

    def run(feeds: dict[str, Array]) -> dict[str, Array]:
        given = {name: array for name, array in feeds.items() if name in taken}
        try:
            results = alone(given) if alone is not None else None
            results = results or dict(zip(names, session.run(names, given), strict=True))
        except Exception as error:
            raise ForeignError from error
        return results

    return run


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
        self._opset = next(entry.version for entry in model.opset_import if entry.domain == "")
        self._constants = {
            tensor.name: Value(tensor.name, (onnx.numpy_helper.to_array(tensor),), "constant")
            for tensor in model.graph.initializer
        }

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
