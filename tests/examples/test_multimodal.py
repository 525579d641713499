"""The multimodal example's model: shapes and meaning against numpy, validity against onnx and onnxruntime."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from examples.multimodal import make_model
from mlopt.diagnostics import InputError

CONFIG = json.loads(Path(make_model.__file__).with_name("config.json").read_text())
SMALL: dict[str, Any] = {
    "model": {"vision_hidden_size": 6, "text_hidden_size": 8, "projection_dim": 4, "num_text_layers": 2},
    "optimization": {"enable_fusion": True, "enable_inplace": True, "memory_reuse_strategy": "none"},
    "input": {"image_size": [2, 3, 5], "seq_len": 7},
}


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)[0]


def layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def test_the_model_means_what_it_says():
    model = make_model.build(SMALL, seed=3)
    onnx.checker.check_model(model, full_check=True)
    w = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    random = np.random.default_rng(0)
    image = random.standard_normal((2, 3, 5), np.float32)
    tokens = random.integers(0, make_model.VOCABULARY, 7)

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    vision = linear(np.maximum(linear(image, "vision/fc1"), 0), "vision/fc2")
    vision = layer_norm(vision, w["vision/norm.weight"], w["vision/norm.bias"])
    vision = linear(vision, "vision/projection").reshape(6, 4)
    text = w["text/embedding.weight"][tokens]
    for layer in range(2):
        text = np.maximum(linear(text, f"text/layers.{layer}/fc") + text, 0)
    text = linear(layer_norm(text, w["text/norm.weight"], w["text/norm.bias"]), "text/projection")
    fused = np.maximum(linear(np.concatenate([vision, text]), "fusion/fc"), 0)
    expected = linear(fused, "head/fc")

    np.testing.assert_allclose(run(model, {"image": image, "tokens": tokens}), expected, rtol=1e-4, atol=1e-4)


def test_the_config_gives_the_documented_shapes():
    model = make_model.build(CONFIG)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*model.graph.input, *model.graph.output]
    }
    assert shapes == {"image": [3, 224, 224], "tokens": [77], "logits": [749, 1000]}
    assert model.opset_import[0].version == 17
    initializers = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert initializers["text/embedding.weight"] == [32000, 256]
    assert initializers["fusion/fc.weight"] == [192, 384]
    assert len(model.graph.node) == 9 + 12 + 6  # vision, text, joined


def test_the_same_seed_gives_the_same_file_and_layers_can_be_set(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    for name, seed, layers in [("a", 1, 2), ("b", 1, 2), ("c", 2, 2), ("d", 1, 12)]:
        arguments = ["--config", str(tmp_path / "config.json"), "-o", str(tmp_path / name)]
        assert make_model.main([*arguments, "--seed", str(seed), "--layers", str(layers)]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
    relus = [node for node in onnx.load(tmp_path / "d").graph.node if node.op_type == "Relu"]
    assert len(relus) == 12 + 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "config.json", "d"]


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        (
            "model",
            "hidden",
            3,
            'unknown key "model.hidden" in the config, expected "model.vision',
        ),
        ("optimization", "fuse", True, 'unknown key "optimization.fuse"'),
        ("model", "projection_dim", 0, "model.projection_dim: expected an integer of at least 1, found 0"),
        (
            "model",
            "num_text_layers",
            -1,
            "num_text_layers: expected an integer of at least 0, found -1",
        ),
        ("optimization", "enable_fusion", 1, "optimization.enable_fusion: expected true or false, found 1"),
        ("optimization", "memory_reuse_strategy", "all", "memory_reuse_strategy: expected one of"),
        ("input", "image_size", [3, 224], "input.image_size: expected three integers"),
        ("input", "seq_len", "77", 'input.seq_len: expected an integer of at least 1, found "77"'),
    ],
)
def test_a_wrong_config_is_one_sentence_with_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], section: str, key: str, value: Any, message: str
):
    config = copy.deepcopy(SMALL)
    config[section][key] = value
    with pytest.raises(InputError) as error:
        make_model.build(config)
    assert message in str(error.value)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert make_model.main(["--config", str(path), "-o", str(tmp_path / "m.onnx")]) == 1
    assert f"{path}: error: " in capsys.readouterr().err
    assert not (tmp_path / "m.onnx").exists()


def test_missing_keys_and_files_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = copy.deepcopy(SMALL)
    del config["input"]
    with pytest.raises(InputError, match='missing key "input" in the config'):
        make_model.build(config)
    (tmp_path / "broken.json").write_text('{"model": }')
    for name in ("none.json", "broken.json"):
        assert make_model.main(["--config", str(tmp_path / name), "-o", str(tmp_path / "m.onnx")]) == 1
    assert make_model.main(["-o", str(tmp_path / "none" / "m.onnx")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": error: ")[2][:21] for line in lines] == [
        "can't read the config",
        "expected JSON, found ",
        "expected the output f",
    ]
