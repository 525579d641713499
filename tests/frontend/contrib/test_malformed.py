"""Nodes of com.microsoft that no model should have: each is imported, or is an error that names it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from onnx import AttributeProto, NodeProto

from mlopt.diagnostics import MloptError
from tests.docs.operators import Sample, samples

SAMPLES = {op_type: sample for (domain, op_type), sample in samples().items() if domain}


def misshapen(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array in other ranks, sizes and types."""
    yield from (
        np.ones((), array.dtype),
        array[None],
        array.reshape(-1),
        array[..., :0] if array.ndim else array,
    )
    yield from (np.concatenate([array, array], axis) for axis in range(array.ndim))
    yield from (array.astype(dtype) for dtype in (np.float32, np.int64, np.bool_))


def with_attributes(node: NodeProto, attributes: list[AttributeProto]) -> NodeProto:
    copy = NodeProto.FromString(node.SerializeToString())
    del copy.attribute[:]
    copy.attribute.extend(attributes)
    return copy


def variants(sample: Sample) -> Iterator[Sample]:
    """One input or attribute at a time is another, or is left out."""
    for name, array in sample.inputs.items():
        for other in misshapen(array):
            yield replace(sample, inputs={**sample.inputs, name: other})
        node = with_attributes(sample.node, list(sample.node.attribute))
        node.input[list(node.input).index(name)] = ""
        yield replace(sample, node=node)
    for attribute in sample.node.attribute:
        others = [one for one in sample.node.attribute if one is not attribute]
        yield replace(sample, node=with_attributes(sample.node, others))
        for number in (-(2**63), -1, 0, 3, 2**63 - 1) if attribute.type == AttributeProto.INT else ():
            changed = AttributeProto(name=attribute.name, type=AttributeProto.INT, i=number)
            yield replace(sample, node=with_attributes(sample.node, [*others, changed]))


@pytest.mark.parametrize("op_type", SAMPLES)
def test_only_errors_of_our_own(op_type: str):
    for sample in variants(SAMPLES[op_type]):
        try:
            sample.imported()
        except MloptError as error:
            assert "n" in str(error.place)
