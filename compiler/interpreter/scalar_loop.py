"""The loop nest as it stands, one element at a time: always right, slow, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from mlopt.interpreter.elementwise import Kernel
from mlopt.interpreter.expressions import Structured
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.nodes import Cast, Compute, IndexCheck, Leaf, Node, Padded, Ref, Select, Take
from mlopt.interpreter.plan import CheckIndices, Memory, PlanBuilder
from mlopt.interpreter.views import View


class ScalarLoop:
    """Every point of the iteration space in row-major order: read, compute, store."""

    def __init__(self, memory: Memory, form: Structured, outs: Sequence[View], binding: Binding):
        every = frozenset(range(form.rank))
        self._memory = memory
        self._kernel = Kernel(memory, form.extents, outs, form.yields, binding, sequential=every)

    def emit(self, builder: PlanBuilder, fill: object | None) -> None:
        """Emit one step that runs the loop; with `fill`, the output is set to that number first."""
        kernel = self._kernel
        if fill is not None:
            out = kernel.outs[0]
            builder.call(np.copyto, out, self._memory.table(np.asarray(fill).astype(out.dtype)))
        leaves = [node for node in kernel.order if isinstance(node, Leaf | Padded | Take)]
        views = [node.table if isinstance(node, Take) else node.view for node in leaves]
        checks = {
            check: CheckIndices(check.axis, check.size, check.from_end, builder.locate(check.place))
            for node in leaves
            if isinstance(node, Take)
            for check in node.checks
        }
        builder.call(_Loop(kernel, leaves, checks), *kernel.outs, *views)


class _Loop:
    """The step: called with the arrays of the outputs and of the leaves, all with one axis per dimension."""

    def __init__(self, kernel: Kernel, leaves: Sequence[Node], checks: Mapping[IndexCheck, CheckIndices]):
        self._order = kernel.order
        self._yields = kernel.yields
        self._extents = kernel.extents
        self._outputs = len(kernel.outs)
        self._leaves = leaves
        self._checks = checks

    def __call__(self, *arrays: np.ndarray) -> None:
        outs, sources = arrays[: self._outputs], dict(zip(self._leaves, arrays[self._outputs :], strict=True))
        for point in product(*map(range, self._extents)):
            values: dict[Node, np.ndarray] = {}
            for node in self._order:
                values[node] = self._evaluate(node, point, sources, values)
            results = [_read(ref, values) for ref in self._yields]
            for out, result in zip(outs, results, strict=True):
                out[point] = result

    def _evaluate(
        self,
        node: Node,
        point: tuple[int, ...],
        sources: dict[Node, np.ndarray],
        values: dict[Node, np.ndarray],
    ) -> np.ndarray:
        match node:
            case Leaf():
                array = sources[node]
                value = array[point] if array.ndim else array[()]
            case Padded():
                inside = all(
                    (b.low is None or at >= b.low) and (b.high is None or at < b.high)
                    for b in node.bounds
                    for at in (
                        b.expr.constant + sum(c * i for c, i in zip(b.expr.coefficients, point, strict=True)),
                    )
                )
                value = sources[node][point] if inside else _read(node.pad, values)
            case Compute():
                value = node.function(*(_read(ref, values) for ref in node.args))
            case Cast():
                value = _read(node.source, values)
            case Select():
                value = _read(node.yes if _read(node.condition, values) else node.no, values)
            case Take():
                for check in node.checks:
                    self._checks[check](_read(check.index, values).view(np.uint64))
                table = sources[node]
                value = table[min(max(int(_read(node.index, values)), 0), len(table) - 1)]
            case _:
                raise AssertionError(f"no value for {type(node).__name__}")
        return np.asarray(value).astype(node.dtype, copy=False)


def _read(ref: Ref, values: dict[Node, np.ndarray]) -> np.ndarray:
    return values[ref.node].view(ref.dtype)
