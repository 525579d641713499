"""A memref-level module executed as it says, one scalar at a time: slow, small, and no part of the product.

The oracle for bufferization and memory plans: it knows no loop it recognises and no order but the printed one. Fresh
memory holds poison, so that reading what was never written shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from mlopt.interpreter.scalar_ops import evaluate_scalar_op
from mlopt.ir.donations import AxisPart
from mlopt.ir.dtypes import dense_to_array, to_numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[SSAValue, Any]


def run_memref(
    module: ModuleOp,
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    *,
    backwards: bool = False,
) -> dict[str, Array]:
    """The outputs of `@main` by name; fails if an input that is not donated, or a weight, was written to.

    What is a part of a buffer lies there, with poison around it, which has to be there still but where outputs are.

    `backwards` runs through the points of every structured op from last to first, which must make no difference.
    """
    run = _Run(module, backwards)
    main = run.functions["main"]
    assert main.arg_attrs is not None
    arguments: list[Array] = []
    outputs: dict[str, Array] = {}
    kept: list[tuple[Array, Array]] = []
    for arg, attributes in zip(main.body.block.args, main.arg_attrs, strict=True):
        for kind, arrays in (("mlopt.input", inputs), ("mlopt.weight", weights or {})):
            if kind in attributes.data:
                given = arrays[cast(StringAttr, attributes.data[kind]).data]
                part = AxisPart.read(attributes.data, "mlopt.input_part")
                arguments.append(_poisoned(arg.type) if part is not None else given.copy())
                if part is not None:
                    part.of(arguments[-1])[...] = given
                if "mlopt.donated" not in attributes.data:
                    kept.append((given, arguments[-1]))
        if "mlopt.output" in attributes.data:
            if "mlopt.input" not in attributes.data:
                arguments.append(_poisoned(arg.type))
            part = AxisPart.read(attributes.data, "mlopt.output_part")
            result = arguments[-1] if part is None else part.of(arguments[-1])
            outputs[cast(StringAttr, attributes.data["mlopt.output"]).data] = result
            if part is not None:
                rest = part._replace(offset=part.size, size=arguments[-1].shape[part.axis] - part.size)
                kept.append((rest.of(arguments[-1]).copy(), rest.of(arguments[-1])))
        if "mlopt.arena" in attributes.data:
            arguments.append(_poisoned(arg.type))
    run.call("main", arguments)
    for before, after in kept:
        np.testing.assert_array_equal(after, before, err_msg="an input or weight was overwritten")
    return outputs


def _poisoned(type: Attribute) -> Array:
    """Memory of a type, all bytes 0xFF: NaN for floats, -1 for integers."""
    assert isinstance(type, MemRefType)
    dtype = to_numpy_dtype(type.element_type)
    count = prod(type.get_shape())
    if dtype == np.bool_:
        return np.ones(type.get_shape(), np.bool_)
    return np.frombuffer(bytearray(b"\xff" * count * dtype.itemsize), dtype).reshape(type.get_shape())


class _Run:
    def __init__(self, module: ModuleOp, backwards: bool):
        self.backwards = backwards
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self.globals: dict[str, Array] = {}
        for op in module.ops:
            if isinstance(op, memref.GlobalOp):
                if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
                    self.globals[op.sym_name.data] = dense_to_array(op.initial_value)
                else:
                    self.globals[op.sym_name.data] = _poisoned(op.type)

    def call(self, name: str, arguments: list[Any]) -> None:
        block = self.functions[name].body.block
        self.block(block, dict(zip(block.args, arguments, strict=True)), ())

    def block(self, block: Block, values: Values, point: tuple[int, ...]) -> list[Any]:
        """Run a block; returns the operands of its terminator."""
        for op in block.ops:
            if op is block.last_op and op.name in (
                "func.return",
                "scf.yield",
                "linalg.yield",
                "scf.condition",
            ):
                return [values[operand] for operand in op.operands]
            results = self.op(op, values, point)
            for result, value in zip(op.results, results, strict=True):
                values[result] = value
        return []

    def op(self, op: Operation, values: Values, point: tuple[int, ...]) -> list[Any]:
        match op:
            case memref.AllocOp():
                return [_poisoned(op.memref.type)]
            case memref.GetGlobalOp():
                return [self.globals[op.name_.string_value()]]
            case memref.ViewOp():
                type = op.result.type
                assert isinstance(type, MemRefType)
                dtype, shape = to_numpy_dtype(type.element_type), type.get_shape()
                start = int(values[op.byte_shift])
                size = prod(shape) * dtype.itemsize
                data = values[op.source][start : start + size]
                assert data.size == size, "view out of bounds"
                return [data.view(dtype).reshape(shape)]
            case memref.ReinterpretCastOp():
                source = values[op.source]
                assert source.flags.c_contiguous
                return [source.reshape(op.static_sizes.get_values())]
            case memref.SubviewOp():
                offsets, strides = iter(op.offsets), iter(op.strides)
                index = tuple(
                    slice(start, start + size * step, step)
                    for start, size, step in zip(
                        [
                            int(values[next(offsets)]) if o == DYNAMIC_INDEX else o
                            for o in op.static_offsets.get_values()
                        ],
                        op.static_sizes.get_values(),
                        [
                            int(values[next(strides)]) if s == DYNAMIC_INDEX else s
                            for s in op.static_strides.get_values()
                        ],
                        strict=True,
                    )
                )
                part = values[op.source][index]
                assert part.shape == tuple(op.static_sizes.get_values()), "subview out of bounds"
                type = op.result.type
                assert isinstance(type, MemRefType)
                strides_in_bytes = [s * part.itemsize for s in cast(list[int], type.get_strides())]
                return [np.lib.stride_tricks.as_strided(part, type.get_shape(), strides_in_bytes)]
            case memref.CastOp():
                return [values[op.source]]
            case memref.CopyOp():
                source, target = values[op.source], values[op.destination]
                assert not np.shares_memory(source, target), "a copy onto itself"
                target[...] = source
                return []
            case memref.LoadOp():
                index = tuple(int(values[i]) for i in op.indices)
                assert all(0 <= i < n for i, n in zip(index, values[op.memref].shape, strict=True)), (
                    "load out of bounds"
                )
                return [np.asarray(values[op.memref][index])]
            case memref.StoreOp():
                values[op.memref][tuple(int(values[i]) for i in op.indices)] = values[op.value]
                return []
            case FillOp():
                values[op.outputs[0]][...] = values[op.inputs[0]]
                return []
            case GenericOp():
                self.generic(op, values)
                return []
            case IndexOp():
                return [np.int64(point[op.dim.value.data])]
            case func.CallOp():
                self.call(op.callee.string_value(), [values[operand] for operand in op.operands])
                return []
            case scf.IfOp():
                region = op.true_region if values[op.cond] else op.false_region
                return self.block(region.block, values, point) if region.blocks.first is not None else []
            case scf.ForOp():
                carried = [values[arg] for arg in op.iter_args]
                for i in range(int(values[op.lb]), int(values[op.ub]), int(values[op.step])):
                    values |= dict(zip(op.body.block.args, [np.int64(i), *carried], strict=True))
                    carried = self.block(op.body.block, values, point)
                return carried
            case scf.WhileOp():
                carried = [values[arg] for arg in op.arguments]
                while True:
                    values |= dict(zip(op.before_region.block.args, carried, strict=True))
                    go, *passed = self.block(op.before_region.block, values, point)
                    if not go:
                        return passed
                    values |= dict(zip(op.after_region.block.args, passed, strict=True))
                    carried = self.block(op.after_region.block, values, point)
            case _:
                return [evaluate_scalar_op(op, [values[operand] for operand in op.operands])]

    def generic(self, op: GenericOp, values: Values) -> None:
        """One iteration point after the other."""
        operands = [values[operand] for operand in op.operands]
        maps = [attribute.data for attribute in op.indexing_maps]
        extents: dict[int, int] = {}
        for array, map in zip(operands, maps, strict=True):
            for expr, extent in zip(map.results, array.shape, strict=True):
                if isinstance(expr, AffineDimExpr):
                    extents[expr.position] = extent
        dims = [extents[d] for d in range(len(op.iterator_types))]
        inputs = len(op.inputs)
        order = (range(extent)[:: -1 if self.backwards else 1] for extent in dims)
        for point in itertools.product(*order):
            places = [tuple(map.eval(list(point), [])) for map in maps]
            elements = [np.asarray(array[place]) for array, place in zip(operands, places, strict=True)]
            inner = dict(values)
            inner |= dict(zip(op.body.block.args, elements, strict=True))
            results = self.block(op.body.block, inner, point)
            for array, place, value in zip(operands[inputs:], places[inputs:], results, strict=True):
                array[place] = value
