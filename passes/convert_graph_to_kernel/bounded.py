"""Operations whose results have a size that depends on data: calls of run-time functions."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr

from mlopt.dialects import graph
from mlopt.dialects.graph.base import int_attr, is_unsigned, unit_attr
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of


@converts(graph.NonZeroOp)
def _nonzero(op: graph.NonZeroOp, conversion: Conversion) -> None:
    conversion.call(op, "nonzero", [op.input])


@converts(graph.UniqueOp)
def _unique(op: graph.UniqueOp, conversion: Conversion) -> None:
    parameters = {
        "axis": op.axis or int_attr(0),
        "flat": unit_attr(op.axis is None),
        "in_order": op.in_order,
        "unsigned": unit_attr(is_unsigned(element_of(op.input))),
    }
    conversion.call(op, "unique", [op.input], parameters)


@converts(graph.NonMaxSuppressionOp)
def _non_max_suppression(op: graph.NonMaxSuppressionOp, conversion: Conversion) -> None:
    """Without a threshold of the scores there is a flag, and a number that is not looked at."""
    ins = [op.boxes, op.scores, op.limit, op.iou_threshold, op.score_threshold or op.iou_threshold]
    all_scores = UnitAttr() if op.score_threshold is None else None
    parameters = {"most": op.most, "center": op.center, "all_scores": all_scores}
    conversion.call(op, "non_max_suppression", ins, parameters)


@converts(graph.RequireEqualOp)
def _require_equal(op: graph.RequireEqualOp, conversion: Conversion) -> None:
    conversion.call(op, "require_equal", [op.lhs, op.rhs])
