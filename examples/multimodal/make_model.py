"""Write the multimodal example as an ONNX file: an image tower and a text tower, joined along the sequence.

    python examples/multimodal/make_model.py --config examples/multimodal/config.json -o multimodal.onnx

With the config beside this file, `image` f32 [3, 224, 224] and `tokens` i64 [77] give `logits` f32
[749, 1000].

- Vision: linear on the last axis, relu, linear, layer norm, projection to [3, 224, 192], flattened to
  [672, 192].
- Text: embedding of 32000 words; per layer a linear, the layer's own input added, relu; layer norm,
  projection to [77, 192].
- Joined: concatenation along the sequence to [749, 192], linear to 384, relu, head of 1000 classes.

Weights are seeded random numbers; the same config and seed give the same file. The operators are those that
an exporter would write (MatMul and Add for a linear layer); nothing is optimised here.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mlopt.diagnostics import InputError, Place

VOCABULARY = 32000
CLASSES = 1000
FUSION_FACTOR = 2  # width of the fusion layer, in units of projection_dim
OPSET = 17
IR_VERSION = 8
STRATEGIES = ("none", "conservative", "aggressive")


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a config that decide the model. Sizes in elements, all at least 1 (layers: at least 0)."""

    vision_hidden_size: int
    text_hidden_size: int
    projection_dim: int
    num_text_layers: int
    image_size: tuple[int, int, int]
    seq_len: int


def read_config(path: Path) -> dict[str, Any]:
    """The config in a JSON file, checked; `InputError` if that fails."""
    place = Place(str(path))
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"can't read the config: {error.strerror}", place=place) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"expected JSON, found {error.msg}", place=Place(str(path), error.lineno, error.colno)
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("expected JSON, found a file that is no text", place=place) from error
    parse_config(config, place)
    return config


def parse_config(config: Any, place: Place | None = None) -> ModelConfig:
    """Check every key and value of a config and return what decides the model. `InputError` names the key."""
    sections = _keys(config, "", ("model", "optimization", "input"), place)
    sizes = ("vision_hidden_size", "text_hidden_size", "projection_dim", "num_text_layers")
    model = _keys(sections["model"], "model.", sizes, place)
    numbers = {key: _integer(model[key], f"model.{key}", key != "num_text_layers", place) for key in sizes}

    switches = ("enable_fusion", "enable_inplace", "memory_reuse_strategy")
    optimization = _keys(sections["optimization"], "optimization.", switches, place)
    for key in switches[:2]:
        if not isinstance(optimization[key], bool):
            raise _wrong(f"optimization.{key}", "true or false", optimization[key], place)
    if optimization["memory_reuse_strategy"] not in STRATEGIES:
        expected = "one of " + ", ".join(f'"{name}"' for name in STRATEGIES)
        raise _wrong(
            "optimization.memory_reuse_strategy", expected, optimization["memory_reuse_strategy"], place
        )

    inputs = _keys(sections["input"], "input.", ("image_size", "seq_len"), place)
    image: Any = inputs["image_size"]
    if not (isinstance(image, list) and len(cast(list[Any], image)) == 3):
        raise _wrong("input.image_size", "three integers", image, place)
    channels, height, width = (_integer(image[axis], "input.image_size", True, place) for axis in range(3))
    seq_len = _integer(inputs["seq_len"], "input.seq_len", True, place)
    return ModelConfig(**numbers, image_size=(channels, height, width), seq_len=seq_len)


def build(config: dict[str, Any], *, seed: int = 0) -> onnx.ModelProto:
    """The model for a config (the parsed JSON), with weights from `seed`. `InputError` for a wrong config."""
    sizes = parse_config(config)
    graph = _GraphBuilder(seed)

    rows = prod(sizes.image_size[:2])
    x = graph.linear("image", "vision/fc1", sizes.image_size[2], sizes.vision_hidden_size)
    x = graph.node("Relu", "vision/relu/Relu", x)
    x = graph.linear(x, "vision/fc2", sizes.vision_hidden_size, sizes.vision_hidden_size)
    x = graph.layer_norm(x, "vision/norm", sizes.vision_hidden_size)
    x = graph.linear(x, "vision/projection", sizes.vision_hidden_size, sizes.projection_dim)
    shape = graph.weight("vision/flatten.shape", np.array([rows, sizes.projection_dim], np.int64))
    vision = graph.node("Reshape", "vision/flatten/Reshape", x, shape)

    width = sizes.text_hidden_size
    table = graph.random("text/embedding.weight", (VOCABULARY, width), 1.0)
    x = graph.node("Gather", "text/embedding/Gather", table, "tokens", axis=0)
    for layer in range(sizes.num_text_layers):
        name = f"text/layers.{layer}"
        residual = x
        x = graph.linear(x, f"{name}/fc", width, width)
        x = graph.node("Add", f"{name}/residual/Add", x, residual)
        x = graph.node("Relu", f"{name}/relu/Relu", x)
    x = graph.layer_norm(x, "text/norm", width)
    text = graph.linear(x, "text/projection", width, sizes.projection_dim)

    fused = FUSION_FACTOR * sizes.projection_dim
    x = graph.node("Concat", "fusion/Concat", vision, text, axis=0)
    x = graph.linear(x, "fusion/fc", sizes.projection_dim, fused)
    x = graph.node("Relu", "fusion/relu/Relu", x)
    graph.linear(x, "head/fc", fused, CLASSES, output="logits")

    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, sizes.image_size)
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [sizes.seq_len])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [rows + sizes.seq_len, CLASSES])
    proto = helper.make_graph(graph.nodes, "multimodal", [image, tokens], [logits], graph.weights)
    return helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="mlopt-multimodal-example",
    )


class _GraphBuilder:
    """Collects nodes and seeded weights; an output is named `NODE_output_0`, as the exporters do."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def node(
        self, op_type: str, name: str, *inputs: str, output: str | None = None, **attributes: Any
    ) -> str:
        output = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name, **attributes))
        return output

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, name: str, shape: tuple[int, ...], scale: float, mean: float = 0.0) -> str:
        array = self._random.standard_normal(shape, np.float32)
        return self.weight(name, array * np.float32(scale) + np.float32(mean))

    def linear(self, x: str, name: str, width_in: int, width_out: int, *, output: str = "") -> str:
        """`x @ W + b` on the last axis."""
        weight = self.random(f"{name}.weight", (width_in, width_out), 1 / sqrt(width_in))
        bias = self.random(f"{name}.bias", (width_out,), 0.1)
        product = self.node("MatMul", f"{name}/MatMul", x, weight)
        return self.node("Add", f"{name}/Add", product, bias, output=output)

    def layer_norm(self, x: str, name: str, width: int) -> str:
        scale = self.random(f"{name}.weight", (width,), 0.1, mean=1.0)
        bias = self.random(f"{name}.bias", (width,), 0.1)
        return self.node(
            "LayerNormalization", f"{name}/LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5
        )


def _keys(value: Any, prefix: str, known: tuple[str, ...], place: Place | None) -> dict[str, Any]:
    """`value` as an object with exactly the `known` keys."""
    if not isinstance(value, dict):
        raise _wrong(prefix.rstrip(".") or "the config", "an object", value, place)
    section = cast(dict[str, Any], value)
    listed = ", ".join(f'"{prefix}{key}"' for key in known)
    for key in section:
        if key not in known:
            raise InputError(f'unknown key "{prefix}{key}" in the config, expected {listed}', place=place)
    for key in known:
        if key not in section:
            raise InputError(f'missing key "{prefix}{key}" in the config, expected {listed}', place=place)
    return section


def _integer(value: Any, key: str, positive: bool, place: Place | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < positive:
        raise _wrong(key, f"an integer of at least {int(positive)}", value, place)
    return value


def _wrong(key: str, expected: str, found: Any, place: Place | None) -> InputError:
    return InputError(f"{key}: expected {expected}, found {json.dumps(found)}", place=place)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the multimodal example as an ONNX file.")
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name("config.json"))
    parser.add_argument("-o", "--output", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--layers", type=int, help="number of text layers, in place of the config's")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights (default 0)")
    args = parser.parse_args(argv)
    try:
        config = read_config(args.config)
        if args.layers is not None:
            config["model"]["num_text_layers"] = args.layers
        model = build(config, seed=args.seed)
        write(model, args.output)
    except InputError as error:
        where = f"{error.place}: " if error.place else ""
        print(f"{where}error: {error.message}", file=sys.stderr)
        return error.exit_code
    return 0


def write(model: onnx.ModelProto, path: Path) -> None:
    """Save a model; the file appears whole or not at all. `InputError` if the folder is missing."""
    place = Place(str(path))
    if not path.parent.is_dir():
        raise InputError(f'expected the output folder "{path.parent}", found no such folder', place=place)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(model.SerializeToString(deterministic=True))
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"can't write the model: {error.strerror}", place=place) from error
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
