"""How many operators an export of one operator has: one, or as many as are stated here, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto

from mlopt.compilation import compile_model, load_model
from mlopt.export import to_onnx
from mlopt.options import CompileOptions, for_export
from tests.frontend.onnx_models import one_node
from tests.frontend.test_operators import CASES, Case

_SHAPES = "what has a size that depends on data has its largest size in the IR, and is cut at the end"
_STEPS = "taken apart into steps that are operations of the graph, and nothing puts them together"
_INTEGERS = (
    "integers are multiplied exactly, in an f32 or f64 product or with their zero points taken off before"
)
_IN_F32 = "16-bit floats are computed in f32 and rounded once"
_IN_F64 = "roots and logarithms of integers are computed in f64"
_ROWS = "up to version 12 it is over all dimensions from an axis on together"

GROWS: dict[str, tuple[int, str]] = {
    "BitShift uint32": (6, "the result is defined for amounts of the width or more, which ONNX leaves open"),
    "BitShift uint64": (6, "the same"),
    "BitShift uint8": (8, "the same, in 32 bits"),
    "Compress": (11, _SHAPES),
    "ConvInteger uint8": (8, _INTEGERS),
    "DFT": (4, "a product with a constant matrix"),
    "DeformConv": (3, "the bias is added after"),
    "Dropout": (2, "its mask is a constant, which as an output takes a copy"),
    "DynamicQuantizeLinear": (12, _STEPS),
    "Einsum": (3, "a product between reshapes"),
    "GlobalLpPool": (4, "of p = 3; onnxruntime has it for no operator set that is written"),
    "Hardmax": (3, _ROWS),
    "LogSoftmax": (3, _ROWS),
    "LpNormalization": (4, "onnxruntime 1.23 does not run it in operator set 22 or later"),
    "LpPool": (4, "a convolution of powers"),
    "MatMulInteger uint8": (8, _INTEGERS),
    "MaxUnpool": (3, "a scatter between reshapes"),
    "NonMaxSuppression": (14, _SHAPES),
    "NonZero": (8, _SHAPES),
    "NonZero bool": (8, _SHAPES),
    "NonZero int32": (8, _SHAPES),
    "NonZero int64": (8, _SHAPES),
    "OneHot int64": (9, "negative indices, and those out of range, have to be told apart"),
    "Pad": (3, "negative widths cut off before anything is padded, which later versions of ONNX leave open"),
    "Pow": (2, "an exponent of another type is cast"),
    "QLinearConv uint8": (15, _INTEGERS),
    "QLinearMatMul uint8": (13, _INTEGERS),
    "ReduceL1 float16": (2, "the sum alone is accumulated in f32"),
    "ReduceL2 float16": (3, _IN_F32),
    "ReduceL2 int64": (3, _IN_F64),
    "ReduceLogSum float16": (3, _IN_F32),
    "ReduceLogSum int64": (3, _IN_F64),
    "ReduceLogSumExp float16": (3, _IN_F32),
    "ReduceLogSumExp int64": (3, _IN_F64),
    "ReduceMax bool": (3, "over 0 and 1"),
    "ReduceMean int64": (19, "from quotients and remainders, whose sums do not wrap"),
    "ReduceSumSquare float16": (3, _IN_F32),
    "Resize": (2, "some modes are gathers, one for each axis"),
    "ReverseSequence": (11, _STEPS),
    "RotaryEmbedding": (13, "of a part of each head: taken apart by its definition"),
    "STFT": (5, "a product with a constant matrix"),
    "Softmax": (3, _ROWS),
    "Swish": (3, "needs operator set 24, which onnxruntime 1.23 does not run"),
    "TensorScatter": (6, _STEPS),
    "TfIdfVectorizer int64": (27, "one count for each n-gram of its pool"),
    "Tile": (3, "of no repetitions: nothing is left"),
    "Unique": (19, _SHAPES),
    "Unique int64": (19, _SHAPES),
}
"""Operator, and the type of its first input unless it is f32 → the largest count over its cases, and why."""


def _key(case: Case) -> str:
    dtype = next((array.dtype.name for array in case.inputs.values()), "float32")
    return case.op_type if dtype == "float32" else f"{case.op_type} {dtype}"


def _count(graph: GraphProto) -> int:
    return sum(1 + sum(_inside(node.attribute)) for node in graph.node)


def _inside(attributes: Iterable[AttributeProto]) -> Iterator[int]:
    return (_count(attribute.g) for attribute in attributes if attribute.HasField("g"))


def _exported(case: Case) -> GraphProto:
    model = one_node(
        case.op_type,
        case.inputs,
        case.constants,
        operands=case.operands,
        outputs=case.outputs,
        opset=case.opset,
        **case.attributes,
    )
    loaded = load_model(model, for_export(CompileOptions()), inputs=case.inputs)
    compilation = compile_model(loaded, "graph")
    return to_onnx(compilation.module, compilation.ctx.weights).graph


def test_what_grows_is_known() -> None:
    found: dict[str, int] = {}
    for case in CASES:
        if (count := _count(_exported(case))) > 1:
            found[_key(case)] = max(count, found.get(_key(case), 0))
    assert found == {key: count for key, (count, _) in GROWS.items()}
