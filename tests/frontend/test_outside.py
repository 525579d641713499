"""Operators that are not about tensors are refused with the kind they are of, before anything is imported."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from mlopt.diagnostics import UnsupportedError
from mlopt.frontend.onnx import find_unsupported, import_model
from tests.frontend.onnx_models import context, model_of, one_node, run_mlopt, value_info

X = np.ones((2, 3), np.float32)
RANDOM, SEQUENCES = "which draws random numbers", "which works on sequences of tensors"
STRINGS, OPTIONAL = "which works on strings", "which works on optional values"


@pytest.mark.parametrize(
    ("op_type", "reason"),
    [
        *((op, RANDOM) for op in ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike")),
        *(
            (op, SEQUENCES)
            for op in ("SequenceConstruct", "SequenceInsert", "SplitToSequence", "SequenceMap")
        ),
        *((op, SEQUENCES) for op in ("ConcatFromSequence", "SequenceAt", "SequenceErase", "SequenceLength")),
        *((op, STRINGS) for op in ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch")),
        ("Optional", OPTIONAL),
        ("ImageDecoder", "which decodes image files"),
    ],
)
def test_kinds_of_the_standard_domain(op_type: str, reason: str) -> None:
    """Also where the standard defines the operator by others (Bernoulli, SequenceMap)."""
    node = helper.make_node(op_type, ["x"], ["y"], "n")
    model = model_of([node], [value_info("x", X)], ["y"], opset=22)
    (found,) = find_unsupported(model)
    assert (found.op_type, found.reason) == (op_type, reason)
    with pytest.raises(UnsupportedError, match=rf"ai.onnx.{op_type} \(opset 22\) {reason}: 1 node \(n\)"):
        import_model(model, context())


@pytest.mark.parametrize("op_type", ["RandomNormal", "RandomUniform", "SequenceEmpty"])
def test_operators_without_inputs(op_type: str) -> None:
    model = model_of([helper.make_node(op_type, [], ["y"])], [], ["y"], opset=22)
    (found,) = find_unsupported(model)
    assert found.reason == (SEQUENCES if op_type == "SequenceEmpty" else RANDOM)


@pytest.mark.parametrize(
    ("domain", "op_type", "reason"),
    [
        ("ai.onnx.preview.training", "Adagrad", "which is for training"),
        ("ai.onnx.ml", "TreeEnsemble", "of classical machine learning"),
        ("ai.onnx.ml", "ZipMap", "of classical machine learning"),
    ],
)
def test_other_domains(domain: str, op_type: str, reason: str) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], "n", domain=domain)
    model = model_of([node], [value_info("x", X)], ["y"], domains={domain: 1})
    with pytest.raises(UnsupportedError, match=rf"{domain}.{op_type} \(opset 1\) {reason}"):
        import_model(model, context())


def test_strings_elsewhere() -> None:
    """As the type of an input, of an initializer, and as what Cast makes."""
    text = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
    same = [helper.make_node("Identity", ["x"], ["y"])]
    with pytest.raises(UnsupportedError, match='input "x" holds strings'):
        import_model(model_of(same, [text], ["y"]), context())
    model = model_of(same, [], ["y"])
    model.graph.initializer.append(helper.make_tensor("x", TensorProto.STRING, [1], ["a"]))
    with pytest.raises(UnsupportedError, match='tensor "x": element type string is not supported'):
        import_model(model, context())
    with pytest.raises(UnsupportedError, match=r"ai\.onnx\.Cast .* to string"):
        import_model(one_node("Cast", {"x": X}, to=TensorProto.STRING), context())


@pytest.mark.parametrize("kind", ["sequence", "optional"])
def test_inputs_that_are_no_tensors(kind: str) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    make = helper.make_sequence_type_proto if kind == "sequence" else helper.make_optional_type_proto
    value = helper.make_value_info("x", make(tensor))
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], [value], ["y"])
    with pytest.raises(UnsupportedError, match=f'input "x": expected a tensor, found an? {kind}'):
        import_model(model, context())


# Where an optional value is a tensor, or nothing


@pytest.mark.parametrize(("inputs", "want"), [(["x"], True), ([""], False), ([], False)])
def test_whether_there_is_an_element(inputs: list[str], want: bool) -> None:
    node = helper.make_node("OptionalHasElement", inputs, ["y"])
    model = model_of([node], [value_info("x", X)], ["y"], opset=18)
    np.testing.assert_array_equal(run_mlopt(model, {"x": X})["y"], want)


def test_the_element_of_a_tensor() -> None:
    model = one_node("OptionalGetElement", {"x": X}, opset=18)
    np.testing.assert_array_equal(run_mlopt(model, {"x": X})["y0"], X)
