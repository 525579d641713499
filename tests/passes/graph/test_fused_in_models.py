"""Every norm, activation and rotary embedding of the models becomes one operation, with a remark for each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mlopt import CompileOptions
from mlopt.compilation import load_model
from mlopt.passes.pipelines import CLEANING
from mlopt.passmanager import PassManager, parse_pipeline

MODELS = Path(__file__).parents[2] / "models"
PASSES = ["fuse-layer-norm", "fuse-rms-norm", "fuse-gelu", "fuse-swish", "fuse-rotary"]
PARTS = {"erf", "sigmoid", "neg", "reciprocal"}
"""What no other operation of these models is made of."""


@pytest.mark.parametrize(
    ("name", "fused"),
    [
        ("bert_tiny_dyn", {"gelu": 2, "layer_norm": 5}),
        ("clip_tiny_dyn", {"swish": 4, "layer_norm": 11}),
        ("convnext_atto", {"gelu": 6, "layer_norm": 11}),
        ("gpt2_tiny_prefill_dyn", {"gelu": 2, "layer_norm": 5}),
        (
            "llava_concat_tiny_prefill",
            {"gelu": 1, "swish": 4, "rms_norm": 5, "layer_norm": 5, "rotary_embedding": 4},
        ),
        ("vit_tiny_dyn", {"gelu": 4, "layer_norm": 9}),
    ],
)
def test_counts(name: str, fused: dict[str, int]) -> None:
    with np.load(MODELS / f"{name}.npz") as arrays:
        inputs = {key.removeprefix("in:"): arrays[key] for key in arrays if key.startswith("in:")}
    compilation = load_model(MODELS / f"{name}.onnx", CompileOptions(), inputs=inputs)
    imported = Counter(op.name.removeprefix("graph.") for op in compilation.module.walk())
    cleaning = f"fixpoint({','.join(step.element for step in CLEANING)})"
    pipeline = parse_pipeline(f"builtin.module({','.join([cleaning, *PASSES, cleaning])})")
    PassManager(compilation.ctx, pipeline).run(compilation.module)
    left = Counter(op.name.removeprefix("graph.") for op in compilation.module.walk())
    assert {kind: left[kind] for kind in fused} == fused
    assert not PARTS & set(left)
    remarks = [remark for remark in compilation.ctx.remarks if remark.pass_name in PASSES]
    assert not [remark.message for remark in remarks if remark.kind == "missed"]
    for kind, count in fused.items():
        made = [remark for remark in remarks if remark.message.split(" into ")[-1].startswith(f"'{kind}'")]
        wholes = [remark for remark in made if not remark.message.endswith(("a scale", "a bias"))]
        assert len(wholes) == count - imported[kind]
