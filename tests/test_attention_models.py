"""Attention in real models: every layer is one operation after `O2`, each with a remark."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlopt.arrays import read_npz
from mlopt.compilation import compile_model, load_model
from mlopt.dialects import graph
from mlopt.options import CompileOptions

HERE, SHARED = Path(__file__).parent / "models", Path(__file__).parents[2] / "shared" / "models"

LAYERS = {
    "bert_tiny_dyn": 2,
    "bert_tiny_fp16": 2,
    "clip_tiny_dyn": 4,
    "gpt2_tiny_decode_dyn": 2,
    "gpt2_tiny_prefill_dyn": 2,
    "llama_gqa_tiny_decode_dyn": 2,
    "llama_gqa_tiny_prefill_dyn": 2,
    "llava_concat_tiny_prefill": 4,
    "llava_tiny_prefill": 4,
    "mixtral_tiny": 2,
    "swin_tiny": 4,
    "unet2d_tiny": 4,
    "vit_tiny_dyn": 4,
    "whisper_nano_encoder": 2,
}
"""Layers of attention: those of both towers where there are two; in unet2d those of its blocks."""

ROUTERS = {"mixtral_tiny": 2}
"""Softmaxes that are none of attention: they choose experts."""

GROUPED = {
    "llama_gqa_tiny_decode_dyn": [4, 4],
    "llama_gqa_tiny_prefill_dyn": [4, 4],
    "llava_concat_tiny_prefill": [1, 1, 4, 4],
    "llava_tiny_prefill": [1, 1, 4, 4],
    "mixtral_tiny": [2, 2],
}
"""How many heads of the query read one head of key and value, layer by layer; 1 in all other models."""


def _model(name: str) -> Path:
    return next(
        (path for folder in (HERE, SHARED) if (path := folder / f"{name}.onnx").exists()), HERE / name
    )


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_fused(name: str) -> None:
    path = _model(name)
    if not path.exists():
        pytest.skip(f"{name} is not here")
    inputs = read_npz(path.with_suffix(".npz"), "in")
    compilation = compile_model(load_model(path, CompileOptions(), inputs=inputs), "graph")
    ops = list(compilation.module.walk())
    layers = [op for op in ops if isinstance(op, graph.AttentionOp)]
    assert len(layers) == LAYERS[name]
    assert [op.groups for op in layers] == GROUPED.get(name, [1] * len(layers))
    assert sum(isinstance(op, graph.SoftmaxOp) for op in ops) == ROUTERS.get(name, 0)
    remarks = [remark for remark in compilation.ctx.remarks if remark.pass_name == "fuse-attention"]
    assert [remark.kind for remark in remarks] == ["passed"] * len(layers)
