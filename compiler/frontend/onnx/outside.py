"""Operators that are not about computing tensors from tensors, and so are never imported; each is refused by its kind.

Random generators have no numbers that could be right or wrong; sequences, optional values and strings are no tensors;
images come from files, and training is not inference.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from onnx import defs

_RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
_DOMAINS = {
    "ai.onnx.ml": "of classical machine learning (trees, encoders, vectorizers), whose domain is not supported",
    "ai.onnx.preview.training": "which is for training",
}
_KINDS = {
    "seq": "which works on sequences of tensors",
    "optional": "which works on optional values",
    "string": "which works on strings",
}


@cache
def kind_outside(op_type: str, domain: str, opset: int) -> str | None:
    """What an operator does that no tensor program does, as a clause; None for all others."""
    if domain in _DOMAINS:
        return _DOMAINS[domain]
    if domain:
        return None
    if op_type in _RANDOM:
        return "which draws random numbers"
    if op_type == "ImageDecoder":
        return "which decodes image files"
    return next(_kinds(op_type, opset), None)


def _kinds(op_type: str, opset: int) -> Iterator[str]:
    """The kinds of the inputs and outputs that can't be tensors of numbers."""
    try:
        schema = defs.get_schema(op_type, opset)
    except defs.SchemaError:
        return
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for formal in (*schema.inputs, *schema.outputs):
        types = allowed.get(formal.type_str, [formal.type_str])
        kinds = {"string" if text == "tensor(string)" else text.partition("(")[0] for text in types}
        if len(kinds) == 1 and (kind := kinds.pop()) in _KINDS:
            yield _KINDS[kind]
