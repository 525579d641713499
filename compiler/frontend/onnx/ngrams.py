"""Import of TfIdfVectorizer on numbers: how often each n-gram of a pool occurs in a row.

An n-gram occurs with distance `d` at a position if each of its items equals the element `d` further than that of the
item before. For all positions and all n-grams of one length at once these are comparisons of slices of the row with
columns of the pool, and a sum over the positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from onnx import NodeProto
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


def _limit(node: NodeProto) -> str | None:
    for attribute in node.attribute:
        if attribute.name == "pool_strings" and attribute.strings:
            return "with pool_strings"
        if attribute.name == "ngram_indexes" and max(Counter(attribute.ints).values(), default=0) > 1:
            return "with several n-grams for one element of the result"
    return None


@importer("TfIdfVectorizer", since=9, limit=_limit)
def tf_idf_vectorizer(node: Node) -> SSAValue:
    """Counts (`TF`), 1 where an n-gram occurs (`IDF`) times its weight, or counts times weights (`TFIDF`), in f32."""
    mode = node.string("mode", "")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise node.error(f'expected mode "TF", "IDF" or "TFIDF", found "{mode}"')
    if node.rank_of(0) not in (1, 2):
        raise node.error(f"expected rank 1 or 2, found {node.type_of(0)}")
    pool, columns = _pool(node), node.integers("ngram_indexes") or []
    if len(columns) != len(pool) or min(columns, default=0) < 0:
        raise node.error(f"expected {len(pool)} ngram_indexes of at least 0, one for each n-gram")
    formula = Formula(node)
    counts = _counts(formula, pool, columns)
    if mode == "IDF":
        zero = formula.number(0, counts)
        counts = formula.cast(node.add(graph.GreaterOp(counts, zero)).result, f32)
    weights = node.numbers("weights") if node.has("weights") and mode != "TF" else None
    if weights:
        if len(weights) != len(pool):
            raise node.error(f"expected {len(pool)} weights, one for each n-gram, found {len(weights)}")
        ours = np.zeros(shape_of(counts)[-1])
        ours[columns] = weights
        counts = formula.mul(counts, formula.array(ours, counts))
    return counts


def _pool(node: Node) -> list[tuple[int, ...]]:
    """The n-grams, in their order."""
    numbers = node.integers("pool_int64s") or []
    starts = node.integers("ngram_counts") or []
    bounds = [*starts, len(numbers)]
    if bounds != sorted(bounds) or min(bounds) < 0:
        raise node.error(f"expected ascending ngram_counts within a pool of {len(numbers)}, found {starts}")
    pool: list[tuple[int, ...]] = []
    for length, (start, stop) in enumerate(pairwise(bounds), 1):
        if (stop - start) % length:
            raise node.error(f"expected n-grams of {length} items in the pool, found {stop - start} items")
        pool += [tuple(numbers[first : first + length]) for first in range(start, stop, length)]
    if len(set(pool)) < len(pool):
        raise node.error("expected distinct n-grams in the pool")
    return pool


def _counts(formula: Formula, pool: Sequence[tuple[int, ...]], columns: Sequence[int]) -> SSAValue:
    """`[max(columns) + 1]`, or that for each row: what the n-grams of the lengths asked for occur."""
    node = formula.node
    rows = formula.cast(formula.reshape(node.operand(0), (_rows(node), node.shape_of(0)[-1])), i64)
    shortest, longest = node.integer("min_gram_length"), node.integer("max_gram_length")
    farthest = node.integer("max_skip_count") + 1
    if not 1 <= shortest <= longest or farthest < 1:
        raise node.error(
            "expected lengths of at least 1 in ascending order, and a max_skip_count of at least 0"
        )
    counted: list[int] = []
    totals: list[SSAValue] = []
    for length in range(shortest, longest + 1):
        ours = [index for index, gram in enumerate(pool) if len(gram) == length]
        grams = np.array([pool[index] for index in ours], np.int64)
        distances = range(1, 2 if length == 1 else farthest + 1)
        found = [_occurrences(formula, rows, grams, d) for d in distances if ours and _fits(rows, length, d)]
        if found:
            total, *others = found
            for other in others:
                total = formula.add(total, other)
            counted += [columns[index] for index in ours]
            totals.append(total)
    size = max(columns, default=-1) + 1
    shape = (*node.shape_of(0)[:-1], size)
    if not totals:
        return formula.expand(node.constant(np.zeros((), np.float32)), shape)
    padded = formula.padded(formula.concat(totals, 1), 1, 1)
    positions = np.full(size, len(counted), np.int64)
    positions[counted] = np.arange(len(counted))
    return formula.reshape(node.add(graph.GatherOp(padded, node.constant(positions), 1)).result, shape)


def _rows(node: Node) -> int:
    return node.shape_of(0)[0] if node.rank_of(0) == 2 else 1


def _fits(rows: SSAValue, length: int, distance: int) -> bool:
    return (length - 1) * distance < shape_of(rows)[1]


def _occurrences(formula: Formula, rows: SSAValue, grams: np.ndarray, distance: int) -> SSAValue:
    """`[rows, n-grams]`: at how many positions each n-gram `[n-grams, length]` occurs with that distance."""
    count, size = shape_of(rows)
    length = grams.shape[1]
    positions = size - (length - 1) * distance
    match: SSAValue | None = None
    for item in range(length):
        window = formula.part(rows, 1, item * distance, item * distance + positions)
        elements = formula.reshape(window, (count, positions, 1))
        equal = formula.node.add(graph.EqualOp(elements, formula.array(grams[:, item], rows))).result
        match = equal if match is None else formula.node.add(graph.AndOp(match, equal)).result
    assert match is not None
    return formula.sum(formula.cast(match, f32), [1])
