"""Where the results of a tile go is the same in each process, and each time: bytes are measured, and then given."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.nodes import Compute, Ref
from mlopt.interpreter.registers import assign

F32 = np.dtype(np.float32)


class Numbered(Compute):
    """A node whose place in a set is known: those of nodes are by their addresses."""

    number: int

    def __hash__(self) -> int:
        return self.number


def numbered(number: int, *args: Ref) -> Ref:
    node = Numbered(F32, frozenset((0,)), np.add, args)
    node.number = number
    return Ref(node, F32)


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1)])
def test_the_first_operand_gives_its_place(numbers: tuple[int, int]) -> None:
    """Of two operands that end here, whatever their addresses."""
    one, other = (numbered(number) for number in numbers)
    both = numbered(3, one, other)
    order = [ref.node for ref in (one, other, both)]
    registers = assign(order, [both], [], (16,))
    assert [registers.places[node] for node in order] == [0, 64, 0]
    assert registers.nbytes == 128
