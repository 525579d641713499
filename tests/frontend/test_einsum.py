"""Einsum: equations of every kind against numpy in f64, the order of contractions, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mlopt
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx import import_model
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import assert_close, context, one_node, operations, run_mlopt

RANDOM = np.random.default_rng(11)


def tensors(shapes: str, dtype: type = np.float64) -> dict[str, np.ndarray]:
    """Tensors of these shapes, written "2x3 4 -" (`-` is rank 0), of whole numbers whose sums are exact."""
    lowest = 0 if np.dtype(dtype).kind == "u" else -9
    extents = [[int(n) for n in shape.split("x")] if shape != "-" else [] for shape in shapes.split()]
    return {f"x{i}": RANDOM.integers(lowest, 9, shape).astype(dtype) for i, shape in enumerate(extents)}


EQUATIONS = [
    ("i->i", "4"),
    ("i->", "4"),
    ("->", "-"),
    ("ij->ji", "2x3"),
    ("ijk->ki", "2x3x4"),
    ("ii", "3x3"),  # the trace, as the output is left out
    ("ii->i", "3x3"),
    ("iij->j", "3x3x2"),
    ("iji->ij", "3x2x3"),
    ("iiji->ij", "3x3x2x3"),
    ("iijj->ij", "3x3x2x2"),
    ("...ii->...i", "2x5x3x3"),
    ("ba", "2x3"),  # the output is "ab"
    ("bA", "2x3"),  # capitals come first
    ("...b,a...", "2x3 5x2"),
    ("i,i->i", "4 4"),
    ("i,i", "4 4"),
    ("i,j->ji", "4 3"),
    ("i,j->", "4 3"),
    ("ij,jk->ik", "2x3 3x4"),
    (" ij , kj -> k i ", "2x3 4x3"),
    ("bij,bjk->bik", "2x3x4 2x4x5"),
    ("bhid,bhjd->bhij", "2x3x4x5 2x3x6x5"),
    ("bhij,bjhd->bihd", "2x3x4x5 2x5x3x6"),
    ("bijc,bijd->bcd", "2x3x4x5 2x3x4x6"),
    ("...ij,...jk->...ik", "2x1x3x4 5x4x2"),
    ("...ij,jk", "2x5x3x4 4x2"),
    ("ij...,jk...->ik...", "2x3x4 3x5x1"),
    ("...,...->...", "3x1 2x3x4"),
    ("...->...", "-"),
    ("ij,ij->i", "2x3 2x3"),
    ("iij,j->i", "3x3x2 2"),
    ("ij,jk,kl->il", "2x3 3x4 4x5"),
    ("i,i,i->", "4 4 4"),
    ("ij,jk,ki->", "2x3 3x4 4x2"),
    ("abc,cd,de,b->ae", "2x3x4 4x5 5x6 3"),
    ("i,ij,j->", "3 3x4 4"),
    ("i,j->i", "3 4"),
    ("ij,jk->ik", "1x3 3x1"),
    ("ij,j->i", "2x1 3"),  # dimensions of 1 stretch
    ("ij,jk->ik", "2x0 0x3"),
    ("ij,jk->ik", "0x2 2x3"),
    ("ij->j", "0x2"),
    ("ii->i", "0x0"),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_against_numpy(equation: str, shapes: str):
    arrays = tensors(shapes)
    got = run_mlopt(one_node("Einsum", arrays, equation=equation), arrays)
    assert_close(got, {"y0": np.asarray(np.einsum(equation, *arrays.values()))}, rtol=0)


def test_a_dimension_of_one_stretches_in_a_diagonal_too():
    """numpy wants that to be written out."""
    x = tensors("1x3")["x0"]
    got = run_mlopt(one_node("Einsum", {"x0": x}, equation="ii->i"), {"x0": x})
    assert_close(got, {"y0": np.einsum("ii->i", np.broadcast_to(x, (3, 3)))})


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16, np.float32]
)
def test_element_types(dtype: type):
    """Sums of integers wrap; the numbers here are small enough for floats of 16 bits."""
    arrays = tensors("3x3x4 4x5", dtype)
    got = run_mlopt(one_node("Einsum", arrays, opset=28, equation="iij,jk->ki"), arrays)
    wide = np.einsum("iij,jk->ki", *(array.astype(np.int64) for array in arrays.values()))
    assert_close(got, {"y0": wide.astype(dtype)}, rtol=0)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("bijj,bjhd,hd->bih", "2x3x5x5 2x5x3x4 3x4"), ("...ii,...i->...", "2x3x3 3"), ("i,j", "3 4")],
)
def test_all_levels(equation: str, shapes: str):
    arrays = {name: array.astype(np.float32) for name, array in tensors(shapes).items()}
    want = {"y0": np.einsum(equation, *arrays.values(), dtype=np.float32)}
    check_all_levels(one_node("Einsum", arrays, equation=equation), arrays, want)


def test_the_cheapest_pair_is_contracted_first():
    """A chain of matrices from the right, where from the left it takes 125 times the multiplications."""
    arrays = tensors("500x500 500x500 500x2")
    module = import_model(one_node("Einsum", arrays, equation="ij,jk,kl->il"), context())
    products = [op for op in operations(module) if isinstance(op, graph.MatMulOp)]
    assert [shape_of(op.lhs)[-2:] for op in products] == [(500, 500), (500, 500)]
    assert all(2 in shape_of(op.result) for op in products)


def test_the_same_tensor_several_times():
    x = tensors("3x3")["x0"]
    proto = one_node("Einsum", {"x0": x}, operands=["x0"] * 3, equation="ij,ij,ij->i")
    assert_close(run_mlopt(proto, {"x0": x}), {"y0": (x**3).sum(1)})


def test_a_matrix_product_is_one_operation():
    arrays = tensors("2x3x4 2x4x5")
    module = import_model(one_node("Einsum", arrays, equation="bij,bjk->bik"), context())
    assert [op.name for op in operations(module)] == ["graph.matmul"]


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", "2x3", "expected 2 inputs"),
        ("ij->i", "2x3x4", 'expected an input of the rank that "ij" says, found rank 3'),
        ("ijk...->i", "2x3", "found rank 2"),
        ("ij,jk->ik", "2x3 4x5", 'expected one extent for "j", found 3 and 4'),
        ("...i,...i->...", "2x3 4x3", "expected one extent for a dimension of the ellipsis"),
        ("ij->k", "2x3", "expected an output of distinct letters of the inputs"),
        ("ij->ii", "2x3", "expected an output of distinct letters of the inputs"),
        ("i.j->i", "2x3", "as the equation"),
        ("i->i->i", "2", "as the equation"),
        ("......->", "2", "as the equation"),
    ],
)
def test_what_does_not_fit(equation: str, shapes: str, message: str):
    arrays = tensors(shapes)
    with pytest.raises(mlopt.InputError, match=message):
        import_model(one_node("Einsum", arrays, equation=equation), context())
