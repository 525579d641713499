"""mlopt as a backend of the onnx package: `onnx.backend.base.Backend`.

```python
from mlopt import onnx_backend

outputs = onnx_backend.run_model(onnx.load("model.onnx"), [x, y])
```

The onnx package's own tests run on it too:

```python
import onnx.backend.test

globals().update(onnx.backend.test.BackendTest(onnx_backend.MloptBackend, __name__).test_cases)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict
from onnx.defs import onnx_opset_version

from mlopt.diagnostics import InputError, UnsupportedError
from mlopt.frontend.onnx import find_unsupported, read_model
from mlopt.ir.dtypes import from_numpy_dtype
from mlopt.model import Model
from mlopt.options import CompileOptions

__all__ = [
    "MloptBackend",
    "MloptBackendRep",
    "is_compatible",
    "obstacles",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class MloptBackendRep(BackendRep):
    """A model that is compiled when it meets its first inputs: for their shapes, and the values that decide shapes."""

    def __init__(self, model: ModelProto, options: CompileOptions):
        self._source = model
        self._options = options
        self._model: Model | None = None
        initializers = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [value.name for value in model.graph.input if value.name not in initializers]
        self._outputs = [value.name for value in model.graph.output]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the model's order, which can also be taken by their names: `outputs["y"]`.

        `inputs` are arrays by name, a sequence of them in the model's order (without those that have a default), or a
        single array. Raises `MloptError` as `mlopt.compile` and `Model.run` do.
        """
        if kwargs:
            raise InputError(f"expected no options of a run, found {', '.join(kwargs)}")
        arrays = self._by_name(inputs)
        if self._model is None:
            self._model = Model(self._source, self._options, inputs=arrays)
        results = self._model.run(arrays)
        return namedtupledict("Outputs", self._outputs)(*(results[name] for name in self._outputs))

    def _by_name(self, inputs: Any) -> dict[str, np.ndarray]:
        if isinstance(inputs, Mapping):
            return {name: np.asarray(array) for name, array in cast(Mapping[str, Any], inputs).items()}
        given: list[Any] = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(given) != len(self._inputs):
            raise InputError(f"expected {len(self._inputs)} inputs, found {len(given)}")
        return {name: np.asarray(array) for name, array in zip(self._inputs, given, strict=True)}


class MloptBackend(Backend):
    """Compiles models and runs them on the numpy engine. All methods are class methods, as the interface wants it."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator and type of the model is known; a part of an operator may still be refused later."""
        return cls.supports_device(device) and not obstacles(model)

    @classmethod
    def prepare(
        cls,
        model: ModelProto,
        device: str = "CPU",
        *,
        options: CompileOptions | None = None,
        **kwargs: Any,
    ) -> MloptBackendRep:
        """A model ready to meet its inputs.

        Raises `InputError` if it is malformed, and `UnsupportedError` if the device or anything in the model is not
        supported.
        """
        if kwargs:
            raise InputError(f"expected the option 'options' only, found {', '.join(kwargs)}")
        if not cls.supports_device(device):
            raise UnsupportedError(f'device "{device}" is not supported, only "CPU" is')
        read_model(model)
        if found := obstacles(model):
            raise UnsupportedError(f"the model needs what is not supported: {'; '.join(found)}")
        return MloptBackendRep(model, options or CompileOptions())

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model; see `prepare` and `MloptBackendRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of a single node, of the newest operator set or of `opset_version`.

        `inputs` are arrays in the node's order, without those that it leaves out (an empty name).
        """
        opset = int(kwargs.pop("opset_version", onnx_opset_version()))
        arrays = [np.asarray(array) for array in cast(Sequence[Any], inputs)]
        names = [name for name in node.input if name]
        if len(arrays) != len(names):
            raise InputError(f"expected {len(names)} inputs, found {len(arrays)}")
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in dict(zip(names, arrays, strict=True)).items()
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        model = helper.make_model(
            helper.make_graph([node], "node", values, results),
            opset_imports=[helper.make_opsetid(node.domain, opset)],
        )
        return cls.run_model(model, dict(zip(names, arrays, strict=True)), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this is the CPU, such as `CPU` or `CPU:0`."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False


def obstacles(model: ModelProto) -> list[str]:
    """What keeps a model from being imported, each kind once: `operator ai.onnx.Unique`, `type string`.

    It looks at the nodes and the interface only, and so takes little time. An empty list does not promise that every
    use of an operator is supported.
    """
    found = [f"type {name}" for value in _interface(model) if (name := _unknown_type(value)) is not None]
    for unsupported in find_unsupported(model):
        operator = f"operator {unsupported.domain or 'ai.onnx'}.{unsupported.op_type}"
        found.append(f"{operator} {unsupported.reason}".rstrip())
    return list(dict.fromkeys(found))


def _interface(model: ModelProto) -> list[ValueInfoProto]:
    return [*model.graph.input, *model.graph.output]


def _unknown_type(value: ValueInfoProto) -> str | None:
    """The name of a type that is not supported; an output may have none."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return None if kind is None else kind.removesuffix("_type")
    element = value.type.tensor_type.elem_type
    if element == TensorProto.UNDEFINED:
        return None
    if element not in TensorProto.DataType.values():
        return str(element)
    name = TensorProto.DataType.Name(element).lower()
    try:
        from_numpy_dtype(np.dtype(helper.tensor_dtype_to_np_dtype(element)))
    except UnsupportedError:
        return name
    return None


is_compatible = MloptBackend.is_compatible
prepare = MloptBackend.prepare
run_model = MloptBackend.run_model
run_node = MloptBackend.run_node
supports_device = MloptBackend.supports_device
