"""What an operation of a compiled `@main` does: scalar operations and bytes, counted from the memref level.

- *Operations*: two for each product of a contraction (`2 * m * n * k` of a matrix product), and for all else those of
  the body at each point. Positions, conditions of padding and constants do not count, nor does what a run-time function
  does, which stands in no body.
- *Bytes*: what has to be read and written, each buffer once as far as it is accessed, once more where it is updated.
  What a launch keeps to itself, in its workspace, does not count.
- What is in a loop counts once per trip, where the trips are known; of two branches the one that does more counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import NamedTuple, cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from mlopt.interpreter.expressions import Apply, Gather, Linear, Read, Structured, post_order
from mlopt.interpreter.recognize import as_contraction, is_structured, recognize
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.functions import only_block
from mlopt.passes.memref.accesses import root_of
from mlopt.passes.memref.liveness import WORKSPACE


class Work(NamedTuple):
    """Scalar operations, and bytes read and written.

    `is_all`: every loop has a known number of trips, and no run-time function is called, which has operations of its
    own.
    """

    flops: int = 0
    nbytes: int = 0
    is_all: bool = True

    def plus(self, other: Work, times: int = 1) -> Work:
        """This, and so many times the other."""
        flops, nbytes = self.flops + times * other.flops, self.nbytes + times * other.nbytes
        return Work(flops, nbytes, self.is_all and other.is_all)


class WorkCounter:
    """Counts the work of the operations of one module, that of each function once."""

    def __init__(self, module: ModuleOp):
        self._functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self._known: dict[str, Work] = {}

    def of(self, op: Operation) -> Work:
        """The work of an operation of `@main`."""
        match op:
            case func.CallOp():
                return self._of_function(op.callee.string_value())
            case memref.CopyOp():
                return Work(0, 2 * _size(op.source))
            case scf.ForOp():
                trips = trips_of(op)
                return Work(is_all=trips is not None).plus(self._of_block(op.body.block), trips or 1)
            case scf.IfOp():
                return max(self._of_block(region.block) for region in op.regions if region.blocks)
            case scf.WhileOp():
                both = self._of_block(op.before_region.block).plus(self._of_block(op.after_region.block))
                return both._replace(is_all=False)
            case _ if is_structured(op):
                return _Tally(op.parent_block()).of([op])
            case _:
                return Work()

    def _of_block(self, block: Block) -> Work:
        work = Work()
        for op in block.ops:
            work = work.plus(self.of(op))
        return work

    def _of_function(self, name: str) -> Work:
        if name not in self._known:
            function = self._functions[name]
            if function.is_declaration:
                self._known[name] = _of_declaration(function)
            else:
                block = only_block(function)
                self._known[name] = _Tally(block).of(block.ops)
        return self._known[name]


def _of_declaration(function: func.FuncOp) -> Work:
    """A run-time function reads or writes each of its operands."""
    types = list(function.function_type.inputs)
    types = types[: len(types) - (WORKSPACE in function.attributes)]
    return Work(0, sum(map(_size_of, types)), False)


def trips_of(loop: scf.ForOp) -> int | None:
    """How often a loop runs, if its bounds are constants."""
    bounds = [_constant(value) for value in (loop.lb, loop.ub, loop.step)]
    low, high, step = bounds
    if low is None or high is None or step is None or step <= 0:
        return None
    return len(range(low, high, step))


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


class _Tally:
    """Adds up what the code of one function does to the buffers that the function, whose block it is, is given."""

    def __init__(self, block: Block | None):
        self._block = block
        self._flops = 0
        self._is_all = True
        self._read: Counter[SSAValue] = Counter()
        self._written: Counter[SSAValue] = Counter()

    def of(self, ops: Iterable[Operation]) -> Work:
        """The work of some operations, one after the other."""
        self._add(ops, 1)
        accessed = (*self._read.items(), *self._written.items())
        return Work(self._flops, sum(min(nbytes, _size(root)) for root, nbytes in accessed), self._is_all)

    def _add(self, ops: Iterable[Operation], trips: int) -> None:
        for op in ops:
            if is_structured(op):
                self._add_structured(recognize(op), trips)
            elif isinstance(op, memref.CopyOp):
                self._reads(op.source, trips * _size(op.source))
                self._writes(op.destination, trips * _size(op.destination))
            elif isinstance(op, memref.LoadOp):
                self._reads(op.memref, trips * _itemsize(op.memref))
            elif isinstance(op, memref.StoreOp):
                self._writes(op.memref, trips * _itemsize(op.memref))
            else:
                inner = trips_of(op) if isinstance(op, scf.ForOp) else 1
                self._is_all = self._is_all and inner is not None and not isinstance(op, scf.WhileOp)
                for region in op.regions:
                    for block in region.blocks:
                        self._add(block.ops, trips * (inner or 1))

    def _add_structured(self, form: Structured, trips: int) -> None:
        points = prod(form.extents)
        exprs = list(post_order(form.yields))
        each = 2 if as_contraction(form) is not None else sum(isinstance(expr, Apply) for expr in exprs)
        self._flops += trips * points * each
        for expr in exprs:
            if isinstance(expr, Read):
                self._reads(expr.source, trips * _positions(form, expr.index) * _itemsize(expr.source))
            elif isinstance(expr, Gather):
                self._reads(expr.source, trips * points * _itemsize(expr.source))
        for store in form.stores:
            self._writes(store.target, trips * _positions(form, store.index) * _itemsize(store.target))

    def _reads(self, buffer: SSAValue, nbytes: int) -> None:
        root = root_of(buffer)
        if self._is_given(root) and root not in self._written:
            self._read[root] += nbytes

    def _writes(self, buffer: SSAValue, nbytes: int) -> None:
        root = root_of(buffer)
        if self._is_given(root):
            self._written[root] += nbytes

    def _is_given(self, root: SSAValue) -> bool:
        """Whether a buffer is one that the function is called with, and not its workspace."""
        if not isinstance(root, BlockArgument) or root.block is not self._block:
            return False
        function = root.block.parent_op()
        given = function.arg_attrs if isinstance(function, func.FuncOp) else None
        return given is None or WORKSPACE not in given.data[root.index].data


def _positions(form: Structured, index: Iterable[Linear]) -> int:
    """How many positions of a buffer an operation accesses at an index, counted once for each combination."""
    return prod(form.extents[d] for d in {d for linear in index for d in linear.dims})


def _type(buffer: SSAValue) -> MemRefType[Attribute]:
    assert isinstance(buffer.type, MemRefType)
    return cast("MemRefType[Attribute]", buffer.type)


def _size(buffer: SSAValue) -> int:
    return _size_of(buffer.type)


def _size_of(type_: Attribute) -> int:
    """The bytes of a buffer; none of a scalar."""
    if not isinstance(type_, MemRefType):
        return 0
    held = cast("MemRefType[Attribute]", type_)
    return prod(held.get_shape()) * to_numpy_dtype(held.element_type).itemsize


def _itemsize(buffer: SSAValue) -> int:
    return to_numpy_dtype(_type(buffer).element_type).itemsize
