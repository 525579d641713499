"""Import of Einsum: taken apart into transposes, reshapes, products and sums.

1. The equation is read: an ellipsis becomes labels of its own, an output that is left out follows from the inputs.
2. Each operand by itself: where a label is repeated its diagonal is taken, as a strided slice; a dimension of 1 goes
   where the label is larger elsewhere; labels that nothing else has are summed.
3. Two operands at a time are contracted, the cheapest pair first (multiplications, then elements of the result): a
   matrix product over the labels that end there, with those that both keep as its batch; an elementwise product if no
   label ends there.
4. What is left is transposed to the order of the output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from xdsl.ir import SSAValue

from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer

_ELLIPSIS = "..."
_TERM = re.compile(r"[A-Za-z]*(\.\.\.[A-Za-z]*)?")


@dataclass(frozen=True, eq=False)
class _Operand:
    """A tensor and the label of each of its dimensions; two of them may be the same tensor with the same labels."""

    value: SSAValue
    labels: tuple[str, ...]

    @property
    def extents(self) -> Mapping[str, int]:
        return dict(zip(self.labels, shape_of(self.value), strict=True))


@importer("Einsum", since=12)
def einsum(node: Node) -> SSAValue:
    """The sum over all labels that the output does not have of the product of all operands."""
    values = node.operands()
    terms, output = _read(node, node.string("equation", ""), [len(shape_of(value)) for value in values])
    extents = _extents(node, terms, values)
    formula = Formula(node)
    operands = [
        _without_ones(formula, _diagonal(formula, _Operand(value, term)), extents)
        for value, term in zip(values, terms, strict=True)
    ]
    while len(operands) > 1:
        first, second = _cheapest_pair(operands, output, extents)
        rest = [operand for operand in operands if operand is not first and operand is not second]
        needed = _needed(output, rest)
        left = _summed(formula, first, {*needed, *second.labels})
        right = _summed(formula, second, {*needed, *first.labels})
        operands = [*rest, _contracted(formula, left, right, needed, extents)]
    result = _summed(formula, operands[0], set(output))
    return formula.transpose(result.value, [result.labels.index(label) for label in output])


def _needed(output: Sequence[str], operands: Iterable[_Operand]) -> set[str]:
    """The labels of the output and of these operands."""
    return {*output, *(label for operand in operands for label in operand.labels)}


# The equation


def _read(node: Node, equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of each operand and of the output; dimension `i` from the right of an ellipsis is labelled `i`."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if any(_TERM.fullmatch(term) is None for term in (*terms, right)):
        raise node.error(f'expected letters, commas, "..." and one "->" as the equation, found "{equation}"')
    if len(terms) != len(ranks):
        raise node.error(f'expected {len(terms)} inputs for "{equation}", found {len(ranks)}')
    labels: list[tuple[str, ...]] = []
    for term, rank in zip(terms, ranks, strict=True):
        dots = rank - len(term.replace(_ELLIPSIS, ""))
        if dots < 0 or (dots and _ELLIPSIS not in term):
            raise node.error(f'expected an input of the rank that "{term}" says, found rank {rank}')
        labels.append(_expanded(term, dots))
    dots = max((sum(label.isdecimal() for label in term) for term in labels), default=0)
    if not arrow:
        letters = left.replace(",", "").replace(_ELLIPSIS, "")
        right = _ELLIPSIS + "".join(letter for letter in sorted(set(letters)) if letters.count(letter) == 1)
    output = _expanded(right, dots)
    if len(set(output)) < len(output) or not {label for label in output if label.isalpha()} <= set(left):
        raise node.error(f'expected an output of distinct letters of the inputs, found "{equation}"')
    return labels, output


def _expanded(term: str, dots: int) -> tuple[str, ...]:
    before, ellipsis, after = term.partition(_ELLIPSIS)
    return (*before, *(str(index) for index in reversed(range(dots)) if ellipsis), *after)


def _extents(node: Node, terms: Sequence[Sequence[str]], values: Sequence[SSAValue]) -> Mapping[str, int]:
    """The extent of each label, of which operands may have 1 instead."""
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        for label, extent in zip(term, shape_of(value), strict=True):
            known = extents.setdefault(label, extent)
            if known == 1:
                extents[label] = extent
            elif extent not in (1, known):
                name = f'"{label}"' if label.isalpha() else "a dimension of the ellipsis"
                raise node.error(f"expected one extent for {name}, found {known} and {extent}")
    return extents


# One operand


def _diagonal(formula: Formula, operand: _Operand) -> _Operand:
    """Each label once: of dimensions with one label only elements with equal positions on them.

    With the dimensions next to each other, `n * n` elements in a row, these are every `n + 1`-th one.
    """
    repeated = next((label for label in operand.labels if operand.labels.count(label) > 1), None)
    if repeated is None:
        return operand
    first, second, *_ = (axis for axis, label in enumerate(operand.labels) if label == repeated)
    others = [axis for axis in range(len(operand.labels)) if axis not in (first, second)]
    value = _stretched(formula, operand.value, first, second)
    value = formula.transpose(value, [*others, first, second])
    *outer, extent, _ = shape_of(value)
    value = formula.every(formula.reshape(value, (*outer, extent * extent)), extent + 1)
    return _diagonal(formula, _Operand(value, (*(operand.labels[axis] for axis in others), repeated)))


def _stretched(formula: Formula, value: SSAValue, first: int, second: int) -> SSAValue:
    """With the same extent on two axes, of which one may have 1."""
    shape = list(shape_of(value))
    if shape[first] != shape[second]:
        extent = shape[first] if shape[second] == 1 else shape[second]
        shape[first] = shape[second] = extent
    return formula.expand(value, shape)


def _without_ones(formula: Formula, operand: _Operand, extents: Mapping[str, int]) -> _Operand:
    """Without the dimensions of 1 whose label has another extent: to broadcast adds nothing to a product."""
    kept = {label: extent for label, extent in operand.extents.items() if extent == extents[label]}
    return _Operand(formula.reshape(operand.value, tuple(kept.values())), tuple(kept))


def _summed(formula: Formula, operand: _Operand, kept: Collection[str]) -> _Operand:
    """Without the labels that are not kept."""
    axes = [axis for axis, label in enumerate(operand.labels) if label not in kept]
    labels = tuple(label for label in operand.labels if label in kept)
    return _Operand(formula.sum(operand.value, axes), labels)


# Two operands


def _cheapest_pair(
    operands: Sequence[_Operand], output: Sequence[str], extents: Mapping[str, int]
) -> tuple[_Operand, _Operand]:
    """The pair whose product takes the fewest multiplications; of these, the one with the smallest result."""

    def cost(pair: tuple[_Operand, _Operand]) -> tuple[int, int]:
        needed = _needed(output, (operand for operand in operands if operand not in pair))
        labels = {*pair[0].labels, *pair[1].labels}
        return prod(extents[label] for label in labels), prod(extents[label] for label in labels & needed)

    return min(combinations(operands, 2), key=cost)


def _contracted(
    formula: Formula, left: _Operand, right: _Operand, needed: Collection[str], extents: Mapping[str, int]
) -> _Operand:
    """The product, summed over the labels of both that are not needed; labels of one of them all are."""
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in needed]
    ending = [label for label in shared if label not in needed]
    rows = [label for label in left.labels if label not in shared]
    columns = [label for label in right.labels if label not in shared]
    labels = (*batch, *rows, *columns)

    def aligned(operand: _Operand, *groups: Sequence[str]) -> SSAValue:
        order = [
            operand.labels.index(label) for label in (*batch, *(label for group in groups for label in group))
        ]
        merged = [prod(extents[label] for label in group) for group in groups]
        value = formula.transpose(operand.value, order)
        return formula.reshape(value, [*(extents[label] for label in batch), *merged])

    if ending:
        product = formula.matmul(aligned(left, rows, ending), aligned(right, ending, columns))
    else:
        product = formula.mul(aligned(left, rows, ()), aligned(right, (), columns))
    return _Operand(formula.reshape(product, [extents[label] for label in labels]), labels)
