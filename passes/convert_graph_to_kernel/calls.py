"""Operations without structured form: each is a `kernel.call` of a run-time function (`docs/run-time-functions.md`)."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_unsigned, unit_attr
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of


@converts(graph.ScatterElementsOp, graph.ScatterNdOp)
def _scatter(op: graph.ScatterElementsOp | graph.ScatterNdOp, conversion: Conversion) -> None:
    """The data are what the result is before the updates: its memory is written in place where the data die."""
    parameters = {"reduction": op.reduction, "unsigned": unit_attr(is_unsigned(element_of(op.data)))}
    if isinstance(op, graph.ScatterElementsOp):
        parameters = {"axis": op.axis, **parameters}
    name, ins = op.name.removeprefix("graph."), [op.indices, op.updates]
    if op.count is not None:
        name, ins = f"{name}_counted", [*ins, op.count]
    conversion.call(op, name, ins, parameters, outs=[op.data])


@converts(graph.CumSumOp, graph.CumProdOp)
def _cumulative(op: graph.CumSumOp | graph.CumProdOp, conversion: Conversion) -> None:
    operation = "mul" if isinstance(op, graph.CumProdOp) else "add"
    parameters = {
        "axis": op.axis,
        "operation": StringAttr(operation),
        "exclusive": op.exclusive,
        "reverse": op.reverse,
    }
    conversion.call(op, "scan", [op.input], parameters)


@converts(graph.TopKOp)
def _top_k(op: graph.TopKOp, conversion: Conversion) -> None:
    unsigned = unit_attr(is_unsigned(element_of(op.input)))
    parameters = {"axis": op.axis, "smallest": op.smallest, "unsigned": unsigned}
    conversion.call(op, "top_k", [op.input], parameters)


@converts(graph.DetOp)
def _determinant(op: graph.DetOp, conversion: Conversion) -> None:
    conversion.call(op, "det", [op.input])
