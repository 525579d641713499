"""Transposes above reshapes: which there are, and that they do the same; right values by numpy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlopt.passes.kernel.hoist_maps import reshape_pieces, transposed_above
from tests.passes.kernel.support import check_numbers


@pytest.mark.parametrize(
    ("source", "result", "axes", "above"),
    [
        ((2, 4, 3, 5), (8, 3, 5), (0, 2, 1), (0, 1, 3, 2)),  # heads merged with the batch
        ((8, 3, 5), (2, 4, 3, 5), (0, 1, 3, 2), (0, 2, 1)),
        ((4, 5), (1, 4, 5), (0, 2, 1), (1, 0)),  # a new axis of extent 1 moves freely
        ((4, 1, 5), (4, 5), (1, 0), (1, 2, 0)),
        ((2, 5, 8), (2, 5, 4, 2), (0, 2, 1, 3), None),  # takes the two axes made of 8 apart
        ((6,), (2, 3), (1, 0), None),
        ((4, 6), (8, 3), (1, 0), None),  # 4 x 6 and 8 x 3 have no cut in common
    ],
)
def test_known(
    source: tuple[int, ...], result: tuple[int, ...], axes: tuple[int, ...], above: tuple[int, ...] | None
) -> None:
    assert transposed_above(source, result, axes) == above


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of the same number of elements, which often have cuts in common."""

    def shape_of(factors: list[int]) -> tuple[int, ...]:
        cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=4)))
        return tuple(prod(factors[a:b]) for a, b in zip([0, *cuts], [*cuts, len(factors)], strict=True))

    factors = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=5))
    return shape_of(factors), shape_of(factors)


@given(reshapes(), st.data())
def test_does_the_same(shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject) -> None:
    source, result = shapes
    pieces = reshape_pieces(source, result)
    assert [axis for above, _ in pieces for axis in above] == list(range(len(source)))
    assert [axis for _, below in pieces for axis in below] == list(range(len(result)))
    order = data.draw(st.permutations(pieces)) if data.draw(st.booleans()) else None
    axes = (
        data.draw(st.permutations(range(len(result)))) if order is None else [a for _, p in order for a in p]
    )
    found = transposed_above(source, result, axes)
    assert found is not None or order is None
    if found is not None:
        x = np.arange(prod(source)).reshape(source)
        want = x.reshape(result).transpose(axes)
        np.testing.assert_array_equal(x.transpose(found).reshape(want.shape), want)


@pytest.mark.parametrize("reshaped", [False, True])
def test_maps_of_what_a_launch_overwrites_stay_where_they_are(reshaped: bool) -> None:
    """Such a map reads the out of its launch, and may write into its own input: (2 x^T)^T is 2 x."""
    source = "%r" if reshaped else "%x"
    text = f"""
      func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
        %e = tensor.empty() : tensor<2x2xf32>
        %0 = kernel.launch @f ins(%x : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {{
        ^bb0(%a: tensor<2x2xf32>, %o: tensor<2x2xf32>):
          %1 = kernel.map bounds [i = 2, j = 2] ins(%a[j, i] : tensor<2x2xf32>) outs(%o[i, j] : tensor<2x2xf32>) {{
          ^bb1(%p: f32, %q: f32):
            %s = arith.addf %p, %p : f32
            kernel.yield %s : f32
          }}
          kernel.yield %1 : tensor<2x2xf32>
        }} -> tensor<2x2xf32>
        %flat = kernel.reshape %0 : tensor<2x2xf32> to tensor<4xf32>
        %r = kernel.reshape %flat : tensor<4xf32> to tensor<2x2xf32>
        %2 = kernel.launch @g ins({source} : tensor<2x2xf32>) outs(%0 : tensor<2x2xf32>) {{
        ^bb0(%a: tensor<2x2xf32>, %o: tensor<2x2xf32>):
          %1 = kernel.map bounds [i = 2, j = 2] ins(%o[j, i] : tensor<2x2xf32>) outs(%a[i, j] : tensor<2x2xf32>) {{
          ^bb1(%p: f32, %q: f32):
            kernel.yield %p : f32
          }}
          kernel.yield %1 : tensor<2x2xf32>
        }} -> tensor<2x2xf32>
        func.return %2 : tensor<2x2xf32>
      }}"""
    x = np.array([[1, 2], [3, 4]], np.float32)
    (y,) = check_numbers(text, {"x": x}, convert=False, in_place=False).values()
    np.testing.assert_array_equal(y, 2 * x)
