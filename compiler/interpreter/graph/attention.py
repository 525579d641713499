"""What attention means: its steps one after the other, each rounded to the type of the operands."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_bool, tensor_type
from mlopt.interpreter.graph.registry import Array, evaluates, widen


@evaluates(graph.AttentionOp)
def attention(op: graph.AttentionOp, query: Array, key: Array, value: Array, *masks: Array) -> Array:
    dtype = query.dtype
    if op.groups > 1:
        key, value = (np.repeat(array, op.groups, axis=-3) for array in (key, value))
    scaled = query * np.array(op.scale.value.data, dtype)
    scores = np.matmul(*widen(op, scaled, np.swapaxes(key, -1, -2))).astype(dtype)
    scores = scores * np.array(op.score_scale.value.data, dtype)
    for operand, mask in zip(op.masks, masks, strict=True):
        if is_bool(tensor_type(operand.type).element_type):
            scores = np.where(mask, scores, np.array(op.fill_value, dtype))
        else:
            scores = scores + mask
    if op.causal is not None:
        visible = np.tri(*scores.shape[-2:], dtype=np.bool_)
        scores = scores + np.where(visible, 0, -np.inf).astype(dtype)
    (wide,) = widen(op, scores)
    exponentials = np.exp(wide - np.max(wide, axis=-1, keepdims=True, initial=-np.inf))
    weights = (exponentials / np.sum(exponentials, axis=-1, keepdims=True)).astype(dtype)
    if op.nan_to_zero is not None:
        weights = np.where(np.isnan(weights), np.zeros((), dtype), weights)
    return np.asarray(np.matmul(*widen(op, weights, value))).astype(dtype, copy=False)
