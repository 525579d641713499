"""What recurrent layers mean, step by step."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.interpreter.graph.registry import Array, evaluates


@evaluates(graph.LstmOp)
def lstm(
    op: graph.LstmOp,
    x: Array,
    weight: Array,
    recurrence: Array,
    bias: Array,
    initial_h: Array,
    initial_c: Array,
) -> tuple[Array, Array, Array]:
    steps, batch, _ = x.shape
    y = np.empty((steps, len(op.backwards), batch, recurrence.shape[2]), x.dtype)
    last_h, last_c = initial_h.copy(), initial_c.copy()
    for direction, backwards in enumerate(op.backwards):
        h, c = initial_h[direction], initial_c[direction]
        of_input, of_state = np.split(bias[direction], 2)
        for step in reversed(range(steps)) if backwards else range(steps):
            gates = x[step] @ weight[direction].T + (of_input + of_state) + h @ recurrence[direction].T
            i, o, f, new = np.split(gates, 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(new)
            h = _sigmoid(o) * np.tanh(c)
            y[step, direction] = h
        last_h[direction], last_c[direction] = h, c
    return y, last_h, last_c


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
