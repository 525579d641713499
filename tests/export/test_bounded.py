"""Models with values whose size depends on data, exported and run in onnxruntime, which knows their sizes by itself."""

from __future__ import annotations

import onnx
import pytest

import mlopt
from mlopt.export import to_onnx
from tests.frontend.onnx_models import assert_close, run_onnxruntime
from tests.frontend.test_bounded import CASES, feeds, model

NAMES = [
    *(
        "nonzero",
        "rows",
        "concat along the axis",
        "mean",
        "arg max",
        "matmul over the axis",
        "unique in order",
    ),
    *("slice: the last two", "scatter nd", "scatter elements of a second axis", "masked scatter"),
]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_exported_is_cut_to_size(name: str) -> None:
    """The checker accepts it, it gives what the original gives, and is imported again."""
    original = model(*CASES[name])
    compilation = mlopt.compile(original).compilation
    exported = to_onnx(compilation.levels["graph"], compilation.ctx.weights)
    onnx.checker.check_model(exported, full_check=True)
    again = mlopt.compile(exported)
    for inputs in feeds(original):
        if not all(array.any() for array in inputs.values()):
            continue  # some operators of onnxruntime do not take what is empty
        want = run_onnxruntime(original, inputs)
        assert_close(run_onnxruntime(exported, inputs), want)
        assert_close(again.run(inputs), want)


def test_an_output_says_that_its_size_is_open() -> None:
    compilation = mlopt.compile(model(*CASES["nonzero"])).compilation
    (output,) = to_onnx(compilation.levels["graph"], compilation.ctx.weights).graph.output
    assert [dim.dim_value or dim.dim_param for dim in output.type.tensor_type.shape.dim] == [2, "y_size"]
