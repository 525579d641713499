"""RNN, GRU and LSTM against onnxruntime, which has no batch-first layout; that is compared with the other one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import mlopt
from mlopt import InputError, UnsupportedError
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import assert_close, model_of, run_onnxruntime, value_info

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, SIZE, HIDDEN = 4, 3, 5, 6
RTOL = 1e-5

Arrays = dict[str, np.ndarray]


def arrays_for(op_type: str, directions: int, *optional: str, lengths: list[int] | None = None) -> Arrays:
    """Seeded inputs by the names of the standard; `optional` are those of B, initial_h, initial_c and P to be there."""
    random = np.random.default_rng(7)
    rows = GATES[op_type] * HIDDEN
    shapes = {
        "X": (STEPS, BATCH, SIZE),
        "W": (directions, rows, SIZE),
        "R": (directions, rows, HIDDEN),
        "B": (directions, 2 * rows),
        "initial_h": (directions, BATCH, HIDDEN),
        "initial_c": (directions, BATCH, HIDDEN),
        "P": (directions, 3 * HIDDEN),
    }
    arrays = {
        name: (0.7 * random.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
        if name in ("X", "W", "R", *optional)
    }
    if lengths is not None:
        arrays["sequence_lens"] = np.array(lengths, np.int32)
    return arrays


def model_for(op_type: str, arrays: Arrays, **attributes: Any) -> onnx.ModelProto:
    """One node with these inputs, all computed at run time but the weights `W`, `R` and `B`."""
    names = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    operands = [name if name in arrays else "" for name in names[: 8 if op_type == "LSTM" else 6]]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op_type == "LSTM" else 2]
    node = helper.make_node(op_type, operands, outputs, "n", hidden_size=HIDDEN, **attributes)
    inputs = [value_info(name, array) for name, array in arrays.items() if name not in ("W", "R", "B")]
    constants = {name: arrays[name] for name in ("W", "R", "B") if name in arrays}
    return model_of([node], inputs, outputs, constants, opset=14)


def inputs_of(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name not in ("W", "R", "B")}


def check(op_type: str, arrays: Arrays, **attributes: Any) -> None:
    model, inputs = model_for(op_type, arrays, **attributes), inputs_of(arrays)
    assert_close(mlopt.compile(model, inputs=inputs).run(inputs), run_onnxruntime(model, inputs), RTOL)


@pytest.mark.parametrize("op_type", GATES)
def test_all_levels(op_type: str) -> None:
    arrays = arrays_for(op_type, 2, "B", "initial_h", "initial_c", lengths=[4, 1, 2])
    if op_type != "LSTM":
        arrays.pop("initial_c")
    check_all_levels(model_for(op_type, arrays, direction="bidirectional"), inputs_of(arrays), rtol=RTOL)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_directions_without_optional_inputs(op_type: str, direction: str) -> None:
    arrays = arrays_for(op_type, 2 if direction == "bidirectional" else 1)
    check(op_type, arrays, direction=direction)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_a_single_step_is_no_loop(op_type: str, direction: str) -> None:
    """As in a model that is run step by step: nothing is carried, so that no state is copied into a loop."""
    directions = 2 if direction == "bidirectional" else 1
    arrays = arrays_for(op_type, directions, "B", "initial_h", *["initial_c"] * (op_type == "LSTM"))
    arrays["X"] = arrays["X"][:1]
    check(op_type, arrays, direction=direction)
    model = mlopt.compile(model_for(op_type, arrays, direction=direction))
    assert "scf.for" not in model.ir("memref")
    if directions == 1:
        # What the input gives to the gates, and what the state does (of a GRU to one after the other).
        gates, one = (-(-4 * BATCH * HIDDEN * rows // 64) * 64 for rows in (GATES[op_type], 1))
        assert (
            model.memory.max_live_bytes
            <= {"LSTM": 2 * gates, "GRU": gates + 3 * one, "RNN": 2 * one}[op_type]
        )


@pytest.mark.parametrize("lengths", [[4, 4, 4], [2, 3, 3], [0, 4, 2]])
@pytest.mark.parametrize("op_type", GATES)
def test_lengths_of_sequences(op_type: str, lengths: list[int]) -> None:
    """Backwards, each sequence begins at its own end."""
    arrays = arrays_for(op_type, 1, "B", "initial_h", lengths=lengths)
    check(op_type, arrays, direction="reverse")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("op_type", GATES)
def test_clip(op_type: str, bias: bool) -> None:
    check(op_type, arrays_for(op_type, 1, *["B"] * bias), clip=0.3)


@pytest.mark.parametrize("bias", [True, False])
def test_a_gru_that_resets_after_the_product(bias: bool) -> None:
    check("GRU", arrays_for("GRU", 1, "initial_h", *["B"] * bias), linear_before_reset=1)


@pytest.mark.parametrize("attributes", [{}, {"input_forget": 1}, {"clip": 0.2}])
def test_peepholes(attributes: dict[str, Any]) -> None:
    check("LSTM", arrays_for("LSTM", 1, "B", "initial_h", "initial_c", "P"), **attributes)


PLAIN = ["Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"]
WITH_PARAMETERS = ["Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"]


@pytest.mark.parametrize("name", PLAIN + WITH_PARAMETERS)
def test_activations_with_parameters(name: str) -> None:
    check("RNN", arrays_for("RNN", 1, "B"), activations=[name], activation_alpha=[0.3], activation_beta=[0.6])


@pytest.mark.parametrize("name", ["LeakyRelu", "HardSigmoid", "Elu"])
def test_defaults_of_activations(name: str) -> None:
    check("RNN", arrays_for("RNN", 1, "B"), activations=[name])


def test_parameters_go_to_the_activations_that_have_them() -> None:
    names = ["HardSigmoid", "LeakyRelu", "Softsign", "ScaledTanh"]
    parameters = {"activation_alpha": [0.3, 0.8, 0.9], "activation_beta": [0.4, 0.1]}
    check("GRU", arrays_for("GRU", 2, "B"), direction="bidirectional", activations=names, **parameters)


@pytest.mark.parametrize("op_type", GATES)
def test_layout_with_the_batch_first(op_type: str) -> None:
    arrays = arrays_for(op_type, 2, "B", "initial_h")
    model, inputs = model_for(op_type, arrays, direction="bidirectional"), inputs_of(arrays)
    want = mlopt.compile(model, inputs=inputs).run(inputs)
    turned = {name: array.swapaxes(0, 1) for name, array in inputs.items()}
    by_batch = model_for(op_type, {**arrays, **turned}, direction="bidirectional", layout=1)
    got = mlopt.compile(by_batch, inputs=turned).run(turned)
    assert_close(
        got, {n: v.transpose(2, 0, 1, 3) if n == "Y" else v.swapaxes(0, 1) for n, v in want.items()}, RTOL
    )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"direction": "up"}, 'attribute "direction": expected one of forward, reverse, bidirectional'),
        ({"activations": ["Tanh", "Tanh"]}, "expected 1 activations, found 2"),
        ({"activations": ["Affine"]}, 'expected an activation_alpha for activation "Affine", found none'),
        ({"direction": "bidirectional"}, r"expected W of shape \[2, 6, 5\], found tensor<1x6x5xf32>"),
    ],
)
def test_malformed_nodes(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mlopt.compile(model_for("RNN", arrays_for("RNN", 1), **attributes))


def test_an_unknown_activation() -> None:
    with pytest.raises(UnsupportedError, match='activation "Swish" is not supported'):
        mlopt.compile(model_for("RNN", arrays_for("RNN", 1), activations=["Swish"]))
