"""The numbers of loops and branches: a scalar is a tensor of rank 0, an `index` an i64."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, i1
from xdsl.ir import Operation

from mlopt.export.builder import Builder, Value, cast_attributes, element_of, shape_of
from mlopt.export.registry import exports
from mlopt.export.types import integer_width
from mlopt.ir.dtypes import dense_to_array, to_numpy_dtype


@exports(arith.ConstantOp)
def constant(builder: Builder, op: arith.ConstantOp) -> None:
    """An initializer."""
    element = element_of(op.result)
    match op.value:
        case IntegerAttr() | FloatAttr():
            number = np.array(op.value.value.data, to_numpy_dtype(element))
        case DenseIntOrFPElementsAttr():
            number = dense_to_array(op.value)
        case _:
            raise builder.unsupported(f"a constant {op.value} has no form in ONNX")
    builder.values[op.result] = builder.numbers(number, element)


_INTEGERS: dict[type[Operation], str] = {
    arith.AddiOp: "Add",
    arith.SubiOp: "Sub",
    arith.MuliOp: "Mul",
    arith.MaxSIOp: "Max",
    arith.MinSIOp: "Min",
}
_BITS: dict[type[Operation], tuple[str, str]] = {
    arith.AndIOp: ("And", "BitwiseAnd"),
    arith.OrIOp: ("Or", "BitwiseOr"),
    arith.XOrIOp: ("Xor", "BitwiseXor"),
}
_COMPARISONS = {"eq": "Equal", "slt": "Less", "sle": "LessOrEqual", "sgt": "Greater", "sge": "GreaterOrEqual"}


@exports(*_INTEGERS)
def integers(builder: Builder, op: Operation) -> None:
    _require_wide(builder, op)
    builder.node(op, _INTEGERS[type(op)])


@exports(*_BITS)
def bits(builder: Builder, op: Operation) -> None:
    logical, bitwise = _BITS[type(op)]
    builder.node(op, logical if element_of(op.results[0]) == i1 else bitwise)


@exports(arith.CmpiOp)
def compare(builder: Builder, op: arith.CmpiOp) -> None:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate == "ne":
        builder.node(op, "Not", [builder.part("Equal", op.operands, i1)])
        return
    if predicate not in _COMPARISONS:
        raise builder.unsupported(f"a comparison {predicate} has no form in ONNX")
    if predicate != "eq":
        _require_wide(builder, op)
    builder.node(op, _COMPARISONS[predicate])


@exports(arith.SelectOp)
def select(builder: Builder, op: arith.SelectOp) -> None:
    builder.node(op, "Where")


@exports(arith.IndexCastOp, arith.ExtSIOp)
def cast(builder: Builder, op: arith.IndexCastOp | arith.ExtSIOp) -> None:
    _require_wide(builder, op)
    builder.node(op, "Cast", attributes=cast_attributes(element_of(op.result)))


def _require_wide(builder: Builder, op: Operation) -> None:
    """An i1 is a bool in ONNX, where its sign has no meaning."""
    if integer_width(element_of(op.operands[0])) == 1:
        raise builder.unsupported("a signed i1 has no form in ONNX")


@exports(tensor.EmptyOp)
def empty(builder: Builder, op: tensor.EmptyOp) -> None:
    """Zeros: what is not written yet may be any number."""
    builder.node(op, "Expand", [builder.scalar(0, element_of(op.tensor)), builder.ints(shape_of(op.tensor))])


@exports(tensor.FromElementsOp)
def from_elements(builder: Builder, op: tensor.FromElementsOp) -> None:
    shape = shape_of(op.result)
    if not shape:
        builder.node(op, "Identity")
        return
    if len(op.elements) == 1:
        builder.node(op, "Reshape", [op.elements[0], builder.ints(shape)])
        return
    parts = [builder.part("Reshape", [element, builder.ints([1])]) for element in op.elements]
    builder.node(op, "Reshape", [builder.part("Concat", parts, attributes={"axis": 0}), builder.ints(shape)])


@exports(tensor.ExtractOp)
def extract(builder: Builder, op: tensor.ExtractOp) -> None:
    if not op.indices:
        builder.node(op, "Identity")
        return
    indices = [builder.part("Reshape", [index, builder.ints([1])]) for index in op.indices]
    builder.node(op, "GatherND", [op.tensor, builder.part("Concat", indices, attributes={"axis": 0})])


@exports(tensor.InsertSliceOp)
def insert_slice(builder: Builder, op: tensor.InsertSliceOp) -> None:
    """What is before the slice, the slice, and what is behind it, one inside the other for each axis that is cut."""
    sizes, steps = op.static_sizes.get_values(), op.static_strides.get_values()
    if DYNAMIC_INDEX in sizes or any(step != 1 for step in steps):
        raise builder.unsupported("sizes that are not known and steps other than 1 have no form in ONNX")
    dynamic = iter(op.offsets)
    offsets = [
        builder.part("Reshape", [next(dynamic), builder.ints([1])])
        if offset == DYNAMIC_INDEX
        else builder.ints([offset])
        for offset in op.static_offsets.get_values()
    ]
    part = builder.part(
        "Reshape", [op.source, builder.ints(sizes)], attributes={"allowzero": int(0 in sizes)}
    )
    cut = [axis for axis, size in enumerate(sizes) if size != shape_of(op.dest)[axis]]
    builder.node(op, "Identity", [_inserted(builder, part, builder.value(op.dest), offsets, sizes, cut)])


def _inserted(
    builder: Builder,
    part: Value,
    whole: Value,
    offsets: list[Value],
    sizes: tuple[int, ...],
    cut: list[int],
) -> Value:
    if not cut:
        return part
    axis, *others = cut
    on_axis, start = builder.ints([axis]), offsets[axis]
    stop = builder.part("Add", [start, builder.ints([sizes[axis]])])
    middle = builder.part("Slice", [whole, start, stop, on_axis]) if others else whole
    parts = [
        builder.part("Slice", [whole, builder.ints([0]), start, on_axis]),
        _inserted(builder, part, middle, offsets, sizes, others),
        builder.part("Slice", [whole, stop, builder.ints([np.iinfo(np.int64).max]), on_axis]),
    ]
    return builder.part("Concat", parts, attributes={"axis": axis})
