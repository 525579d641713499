"""Where the reshape of a part lies: every slice of small tensors, in every shape, by counting through with numpy."""

from __future__ import annotations

from itertools import permutations, product
from math import prod

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block

from mlopt.dialects.kernel import Access, LinearExpr, tensor_type
from mlopt.passes.kernel.launches import only_map
from mlopt.passes.kernel.lift_reshapes import place_of_reshape
from mlopt.passes.kernel.placing import slice_launch

SHAPES = {
    6: [(6,), (1, 6), (2, 3), (3, 1, 2), (1, 2, 1, 3)],
    8: [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (4, 1, 2)],
    12: [(12,), (3, 4), (2, 6), (2, 3, 2), (6, 1, 2)],
}


def taken(source: np.ndarray, where: Access, shape: tuple[int, ...]) -> np.ndarray:
    """What an access takes out of an array, element by element."""
    result = np.empty(shape, source.dtype)
    for point in np.ndindex(*shape):
        indices = (
            sum(c * p for c, p in zip(row.coefficients, point, strict=True)) + row.constant
            for row in where.rows
        )
        result[point] = source[tuple(indices)]
    return result


@pytest.mark.parametrize("source", [(4, 3, 2), (6, 4), (2, 3, 4), (3, 8)])
def test_the_place_has_the_elements_of_the_part_in_the_new_shape(source: tuple[int, ...]) -> None:
    values = np.arange(prod(source)).reshape(source)
    (operand,) = Block(arg_types=[TensorType(f32, source)]).args
    found = 0
    for axis, order in product(range(len(source)), permutations(range(len(source)))):
        for start, size in [(0, source[axis]), (0, 2), (source[axis] - 2, 2), (1, 1)]:
            sizes = [size if i == axis else extent for i, extent in enumerate(source)]
            part = tuple(sizes[i] for i in order)
            rows = [
                LinearExpr.dim(order.index(i), len(source), offset=start if i == axis else 0)
                for i in range(len(source))
            ]
            where = Access(len(source), tuple(rows))
            movement = only_map(slice_launch(operand, where, TensorType(f32, part)))
            assert movement is not None and tensor_type(movement.res[0]).get_shape() == part
            for shape in SHAPES.get(prod(part), []):
                place = place_of_reshape(movement, shape)
                if place is not None:
                    above, access = place
                    got = taken(values.reshape(above), access, shape)
                    np.testing.assert_array_equal(got, taken(values, where, part).reshape(shape))
                    found += 1
    assert found >= 18
