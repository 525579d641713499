"""From the memref level to a plan: functions inlined with their arguments bound, blocks read once.

Everything that is known when the plan is made (offsets, positions of unrolled loops, weights) is bound then; scalars
that are known only at run time live in cells, and views at run-time offsets in slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from xdsl.dialects import arith, cf, func, memref, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.diagnostics import UnsupportedError, VerifyFailure
from mlopt.interpreter import control_flow
from mlopt.interpreter.descriptors import (
    Descriptor,
    Index,
    arena_view,
    collapse,
    expand,
    memref_type,
    moved,
    reinterpret,
    static_shape,
    subview,
    whole,
)
from mlopt.interpreter.elementwise import Kernel
from mlopt.interpreter.expressions import Apply, Captured, Const, Gather, Read, Structured
from mlopt.interpreter.loops import Memrefs, emit_structured, takes_fill
from mlopt.interpreter.plan import Assert, Memory, PlanBuilder
from mlopt.interpreter.primitives import NoSteps
from mlopt.interpreter.recognize import is_structured, recognize
from mlopt.interpreter.runtime import WORKSPACE, RuntimeFunction, declared_function, emit_call
from mlopt.interpreter.scalar_ops import evaluate_scalar_op
from mlopt.interpreter.scratch import UNLIMITED, LateScratch, Scratch, aligned
from mlopt.interpreter.views import Region, View, is_injective, may_overlap, row_major, same_elements
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.functions import only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.waves import wave_of

if TYPE_CHECKING:
    from mlopt.interpreter.concurrency import OpenWave

Known = int | float
Value = Descriptor | Known | View
"""A memref; a scalar whose value is known; the cell of one that is not."""

_DEEPEST_CALL = 64


Forms = dict[Operation, Structured]
"""The form of each structured op that was recognised."""


@dataclass
class Program:
    """What the functions of one module share while the plan is made; `forms` are of the ops recognised so far."""

    module: ModuleOp
    memory: Memory
    forms: Forms = field(default_factory=dict[Operation, Structured])
    scalar_loops: set[Operation] = field(default_factory=set[Operation])
    alloc_bytes: int = 0
    _symbols: dict[str, Operation] = field(default_factory=dict[str, Operation])
    _globals: dict[str, View] = field(default_factory=dict[str, View])
    _pools: dict[Operation, Scratch] = field(default_factory=dict[Operation, Scratch])
    _declared: dict[Operation, RuntimeFunction] = field(default_factory=dict[Operation, RuntimeFunction])

    def __post_init__(self) -> None:
        self._unread = iter(self.module.body.block.ops)

    def _symbol(self, name: str) -> Operation | None:
        """The function or global of that name. The module is read only up to it: measuring a function may need none."""
        while name not in self._symbols and (op := next(self._unread, None)) is not None:
            if isinstance(op, func.FuncOp | memref.GlobalOp):
                self._symbols[op.sym_name.data] = op
        return self._symbols.get(name)

    def function(self, name: str, user: Operation | None = None) -> func.FuncOp:
        """The function of that name; `VerifyFailure` if there is none."""
        found = self._symbol(name)
        if not isinstance(found, func.FuncOp):
            raise VerifyFailure(f"there is no function @{name}", place=place_of_op(user or self.module))
        return found

    def form(self, op: Operation) -> Structured:
        """The structured form of an op, recognised once."""
        if op not in self.forms:
            self.forms[op] = recognize(op)
        return self.forms[op]

    def declared(self, declaration: func.FuncOp, user: Operation) -> RuntimeFunction:
        """The run-time function that a declaration stands for, checked once."""
        if declaration not in self._declared:
            self._declared[declaration] = declared_function(declaration, place_of_op(user))
        return self._declared[declaration]

    def global_view(self, name: str, user: Operation) -> View:
        """The memory of a `memref.global`; uninitialised ones take address space only."""
        if name not in self._globals:
            found = self._symbol(name)
            if not isinstance(found, memref.GlobalOp):
                raise VerifyFailure(f"there is no memref.global @{name}", place=place_of_op(user))
            self._globals[name] = self._global(found)
        return self._globals[name]

    def _global(self, op: memref.GlobalOp) -> View:
        type_ = memref_type(op, op.type)
        shape, dtype = static_shape(op, type_), to_numpy_dtype(type_.element_type)
        if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
            array = np.frombuffer(op.initial_value.data.data, dtype).reshape(shape)
            region = Region.of_array(f"@{op.sym_name.data}", array.copy(), writable=op.constant is None)
        else:
            nbytes = dtype.itemsize * int(np.prod(shape))
            region = Region(f"@{op.sym_name.data}", nbytes, np.empty(nbytes, np.uint8))
        return View(region, 0, shape, row_major(shape, dtype.itemsize), dtype)

    def pool(self, function: func.FuncOp) -> Scratch:
        """The session's own scratch for a function that declares none, which most of these never ask for."""

        def provide() -> Region | None:
            works = function.is_declaration or any(is_structured(op) for op in function.walk())
            if self.memory.measuring or not works:
                return None
            return self.memory.pool(measure(self.module, function, UNLIMITED, self.forms).nbytes)

        if function not in self._pools:
            self._pools[function] = LateScratch(self.memory, provide)
        return self._pools[function]


class Measurement(NamedTuple):
    """What a function's own operations take: bytes of scratch, and nanoseconds by the model of `costs`.

    The time is good for comparing amounts of scratch; the body of a loop counts once. With a capacity of `enough` bytes
    they take the same as with any more.
    """

    nbytes: int
    nanoseconds: float
    enough: int


def measure(module: ModuleOp, function: func.FuncOp, capacity: int, forms: Forms) -> Measurement:
    """What a function takes when `capacity` bytes of scratch are there.

    A declaration takes what its run-time function takes. `forms` are shared between measurements of unchanged IR.
    """
    program = Program(module, Memory(measuring=True), forms)
    scratch = _translate_dry(program, function, capacity)
    return Measurement(scratch.peak, program.memory.nanoseconds, scratch.asked)


def _translate_dry(program: Program, function: func.FuncOp, capacity: int) -> Scratch:
    """Translate a function for measuring; returns its scratch."""
    scratch = Scratch(program.memory, Region("scratch", 0), 0, capacity)
    if function.is_declaration:
        runtime = program.declared(function, function)
        types = list(function.function_type.inputs)[: len(runtime.operands)]
        views = [_view_of_type(program, function, i, type_) for i, type_ in enumerate(types)]
        emit_call(PlanBuilder(program.memory), scratch, runtime, views, place_of_op(function))
        return scratch
    values: list[Value] = []
    for argument in only_block(function).args:
        view = _view_of_type(program, function, argument.index, argument.type)
        values.append(whole(view) if isinstance(argument.type, MemRefType) else view)
    Frame(program, PlanBuilder(program.memory), scratch, (function,)).run_function(function, values)
    return scratch


def _view_of_type(program: Program, function: func.FuncOp, position: int, type_: Attribute) -> View:
    """What stands for an argument of which only the type is known: the memory of a memref, the cell of a scalar."""
    if isinstance(type_, MemRefType):
        memref_ = memref_type(function, cast(Attribute, type_))
        return argument_view(function, memref_, f"argument {position} of @{function.sym_name.data}")
    return program.memory.cell(to_numpy_dtype(type_))


def argument_view(op: Operation, type_: MemRefType, name: str) -> View:
    """A view of memory that is not there, of a memref type with static strides."""
    shape, dtype = static_shape(op, type_), to_numpy_dtype(type_.element_type)
    strides = type_.get_strides()
    if strides is None or any(stride is None for stride in strides):
        raise UnsupportedError(f"{name} has the type {type_}, expected static strides", place=place_of_op(op))
    steps = tuple((stride or 0) * dtype.itemsize for stride in strides)
    view = View(Region(name, 0), 0, shape, steps, dtype)
    nbytes = view.span()[1] if view.size else 0
    return View(Region(name, nbytes), 0, shape, steps, dtype)


class Frame:
    """One function with its arguments bound: the values of its SSA names, its scratch, the plan being made.

    `calls` are the functions that are being called, outermost first; the last one is this function.
    """

    def __init__(
        self, program: Program, builder: PlanBuilder, scratch: Scratch, calls: tuple[func.FuncOp, ...]
    ):
        self.program = program
        self.builder = builder
        self.scratch = scratch
        self.values: dict[SSAValue, Value] = {}
        self._calls = calls
        self._fills: list[tuple[View, Known]] = []

    # Values

    def memref(self, value: SSAValue) -> View:
        """The memory of a memref."""
        return self.descriptor(value).view

    def descriptor(self, value: SSAValue) -> Descriptor:
        """A memref value."""
        found = self._value(value)
        assert isinstance(found, Descriptor)
        return found

    def scalar(self, value: SSAValue) -> View | Known:
        """A scalar: its value, or its cell."""
        found = self._value(value)
        assert not isinstance(found, Descriptor)
        return found

    def index(self, value: SSAValue) -> Index:
        """An index: its value, or its cell."""
        found = self.scalar(value)
        return found if isinstance(found, View) else int(found)

    def indices(self, values: Sequence[SSAValue]) -> list[Index]:
        return [self.index(value) for value in values]

    def _value(self, value: SSAValue) -> Value:
        found = self.values.get(value)
        if found is None:
            owner = value.owner
            place = place_of_op(owner) if isinstance(owner, Operation) else None
            raise VerifyFailure("a value is used before it is defined", place=place)
        return found

    def cell_of(self, value: Known | View, type_: Attribute) -> View:
        """The scalar as one element in memory."""
        if isinstance(value, View):
            return value
        return self.builder.memory.table(np.asarray(value).astype(to_numpy_dtype(type_)))

    # Functions and blocks

    def run_function(self, function: func.FuncOp, arguments: Sequence[Value]) -> list[Value]:
        """Translate the body; return what the function returns."""
        block = only_block(function)
        self.values.update(zip(block.args, arguments, strict=True))
        return self.run_block(block)

    def run_block(self, block: Block, after: Callable[[Operation], None] | None = None) -> list[Value]:
        """Translate the operations of a block; return the operands of its terminator.

        `after` is called when the steps of an operation have been emitted.
        """
        wave = self._open_wave(block, after)
        for op in block.ops:
            if isinstance(op, func.ReturnOp | scf.YieldOp | scf.ConditionOp):
                if wave is not None:
                    wave.close()
                self.flush_fills()
                return [self._value(operand) for operand in op.operands]
            if wave is not None and wave.takes(op):
                continue
            self._translate(op)
            if after is not None:
                self.flush_fills()
                after(op)
        if wave is not None:
            wave.close()
        self.flush_fills()
        return []

    def _open_wave(self, block: Block, after: Callable[[Operation], None] | None) -> OpenWave | None:
        if all(wave_of(op) is None for op in block.ops):
            return None
        from mlopt.interpreter.concurrency import OpenWave  # most models have none

        return OpenWave(self, after)

    def emit_apart(self, op: Operation, builder: PlanBuilder) -> None:
        """Translate an operation without results into a plan of its own."""
        own, self.builder = self.builder, builder
        try:
            self._translate(op)
            self.flush_fills()
        finally:
            self.builder = own

    def _translate(self, op: Operation) -> None:
        if is_structured(op):
            self._structured(op)
        elif isinstance(op, arith.ConstantOp) or op.name.partition(".")[0] in ("arith", "math"):
            self._scalar_op(op)
        elif not self._view_op(op):
            self.flush_fills()
            self._effect(op)

    def _effect(self, op: Operation) -> None:
        """Operations that read or write memory, call, or branch."""
        match op:
            case memref.LoadOp():
                self._load(op)
            case memref.StoreOp():
                value = self.cell_of(self.scalar(op.value), op.value.type)
                self.builder.call(
                    np.copyto, self._element(op, self.writable(op, op.memref), op.indices), value
                )
            case memref.CopyOp():
                self._copy(op)
            case memref.DeallocOp():
                pass
            case func.CallOp():
                self._call(op)
            case cf.AssertOp():
                cell = self.cell_of(self.scalar(op.arg), op.arg.type)
                if not self.builder.memory.measuring:
                    condition = self.builder.memory.array(cell)
                    self.builder.step(Assert(condition, op.msg.data, self.builder.locate(place_of_op(op))))
            case scf.ForOp():
                control_flow.translate_for(self, op)
            case scf.IfOp():
                control_flow.translate_if(self, op)
            case scf.WhileOp():
                control_flow.translate_while(self, op)
            case _:
                raise UnsupportedError(
                    f"the numpy engine does not execute '{op.name}' on the memref level",
                    place=place_of_op(op),
                )

    # Views

    def _view_op(self, op: Operation) -> bool:
        """Operations that only make a value out of others; False for all the rest."""
        match op:
            case memref.ViewOp():
                shift, sizes = self.index(op.byte_shift), self.indices(op.sizes)
                result: Value = arena_view(self.builder, op, self.descriptor(op.source), shift, sizes)
            case memref.SubviewOp():
                dynamic = (self.indices(op.offsets), self.indices(op.sizes), self.indices(op.strides))
                result = subview(self.builder, op, self.descriptor(op.source), dynamic)
            case memref.ReinterpretCastOp():
                dynamic = (self.indices(op.offsets), self.indices(op.sizes), self.indices(op.strides))
                result = reinterpret(op, self.descriptor(op.source), dynamic)
            case memref.CollapseShapeOp():
                result = collapse(op, self.descriptor(op.src))
            case memref.ExpandShapeOp():
                result = expand(op, self.descriptor(op.src))
            case memref.CastOp() | memref.MemorySpaceCastOp() | memref.AssumeAlignmentOp():
                result = self.descriptor(op.operands[0])
            case memref.GetGlobalOp():
                result = whole(self.program.global_view(op.name_.root_reference.data, op))
            case memref.AllocOp() | memref.AllocaOp():
                result = self._alloc(op)
            case memref.DimOp():
                result = self._dim(op)
            case memref.RankOp():
                result = self.memref(op.source).ndim
            case _:
                return False
        self.values[op.results[0]] = result
        return True

    def _alloc(self, op: memref.AllocOp | memref.AllocaOp) -> Descriptor:
        type_ = memref_type(op, op.memref.type)
        view = argument_view(op, type_, op.name)
        self.program.alloc_bytes += view.region.nbytes
        region = self.builder.memory.region(op.name, view.region.nbytes)
        return whole(View(region, 0, view.shape, view.strides, view.dtype))

    def _dim(self, op: memref.DimOp) -> int:
        axis = self.index(op.index)
        shape = self.memref(op.source).shape
        if isinstance(axis, View) or not 0 <= axis < len(shape):
            raise VerifyFailure(
                f"'{op.name}' has no known axis within rank {len(shape)}", place=place_of_op(op)
            )
        return shape[axis]

    # Memory

    def writable(self, op: Operation, value: SSAValue) -> View:
        """The memory of a memref that an operation writes; inputs, weights and constants are not to be written."""
        view = self.memref(value)
        if not view.region.writable:
            raise VerifyFailure(
                f"'{op.name}' writes to {view.region.name}, which is read-only", place=place_of_op(op)
            )
        return view

    def _element(self, op: Operation, view: View, indices: Sequence[SSAValue]) -> View:
        element = View(view.region, view.offset, (), (), view.dtype)
        return moved(self.builder, op, element, self.indices(indices), view.strides, view.shape)

    def _load(self, op: memref.LoadOp) -> None:
        view = self.memref(op.memref)
        cell = self.builder.memory.cell(view.dtype)
        self.builder.call(np.copyto, cell, self._element(op, view, op.indices))
        self.values[op.res] = cell

    def _copy(self, op: memref.CopyOp) -> None:
        source, target = self.memref(op.source), self.writable(op, op.destination)
        if source.shape != target.shape:
            raise VerifyFailure(
                f"'{op.name}' copies {list(source.shape)} to {list(target.shape)}", place=place_of_op(op)
            )
        if same_elements(source, target):
            return
        with self.scratch.frame():
            if may_overlap(source, target):
                copy = self.scratch.array(source.shape, source.dtype)
                self.builder.call(np.copyto, copy, source)
                source = copy
            if source.size:
                self.builder.call(np.copyto, target, source)

    # Calls

    def _call(self, op: func.CallOp) -> None:
        name = op.callee.root_reference.data
        function = self.program.function(name, op)
        arguments = [self._value(argument) for argument in op.arguments]
        if function.is_declaration:
            self._call_runtime(op, function, arguments)
            return
        if function in self._calls:
            raise UnsupportedError(
                f"@{name} is called while it runs: recursion is not supported", place=place_of_op(op)
            )
        if len(self._calls) > _DEEPEST_CALL:
            raise UnsupportedError(f"calls are nested deeper than {_DEEPEST_CALL}", place=place_of_op(op))
        scratch = self._scratch_of(function, arguments)
        frame = Frame(self.program, self.builder, scratch, (*self._calls, function))
        outer, self.builder.site = self.builder.site, op.location
        self.values.update(zip(op.results, frame.run_function(function, arguments), strict=True))
        self.builder.site = outer

    def _call_runtime(self, op: func.CallOp, declaration: func.FuncOp, arguments: Sequence[Value]) -> None:
        function = self.program.declared(declaration, op)
        views = [
            argument.view if isinstance(argument, Descriptor) else self.cell_of(argument, operand.type)
            for argument, operand in zip(arguments, op.arguments, strict=True)
        ]
        views = views[: len(function.operands)]
        for position in range(len(function.READS), len(views)):
            self.writable(op, op.arguments[position])
        scratch, place = self._scratch_of(declaration, arguments), self.builder.locate(place_of_op(op))
        emit_call(self.builder, scratch, function, views, place)

    def _scratch_of(self, function: func.FuncOp, arguments: Sequence[Value]) -> Scratch:
        """The part of the workspace argument that the function's own views leave free."""
        if function.is_declaration:
            return self._declared_scratch(function, arguments)
        position = workspace_argument(function)
        if position is not None:
            workspace = arguments[position]
            assert isinstance(workspace, Descriptor)
            view = workspace.view
            used = workspace_used(function.body.block.args[position])
            if used is not None and used < view.nbytes:
                return Scratch(self.program.memory, view.region, view.offset + used, view.nbytes - used)
        return self.program.pool(function)

    def _declared_scratch(self, declaration: func.FuncOp, arguments: Sequence[Value]) -> Scratch:
        """The workspace that a call of a run-time function is given, or else the session's own scratch."""
        if WORKSPACE not in declaration.attributes:
            return self.program.pool(declaration)
        workspace = arguments[-1]
        assert isinstance(workspace, Descriptor)
        view = workspace.view
        return Scratch(self.program.memory, view.region, view.offset, view.nbytes)

    # Scalars

    def _scalar_op(self, op: Operation) -> None:
        (result,) = op.results
        values = [self.scalar(operand) for operand in op.operands]
        dtypes = [to_numpy_dtype(operand.type) for operand in op.operands]
        known = [v for v in values if not isinstance(v, View)]
        try:
            if len(known) == len(values):
                arrays = [np.asarray(v).astype(d) for v, d in zip(known, dtypes, strict=True)]
                self.values[result] = evaluate_scalar_op(op, arrays).item()
                return
            args = tuple(
                Captured(o.type, o) if isinstance(v, View) else Const(o.type, v)
                for o, v in zip(op.operands, values, strict=True)
            )
            predicate = op.predicate.value.data if isinstance(op, arith.CmpiOp | arith.CmpfOp) else None
            expr = Apply(result.type, op.name, args, predicate)
            cell = self.builder.memory.cell(to_numpy_dtype(result.type))
            binding = Memrefs(self.memref, self.scalar, {})
            Kernel(self.builder.memory, (), [cell], [expr], binding).emit(self.builder, self.scratch)
            self.values[result] = cell
        except (NoSteps, LookupError) as error:
            raise UnsupportedError(
                f"'{op.name}' can't be executed: {error.args[0]}", place=place_of_op(op)
            ) from None

    # Structured operations

    def _structured(self, op: Operation) -> None:
        form = self.program.form(op)
        for store in form.stores:
            self.writable(op, store.target)
        if self._hold_fill(form):
            return
        fill = self._take_fill(form)
        if emit_structured(self.builder, self.scratch, self.memref, self.scalar, form, fill):
            self.program.scalar_loops.add(op)

    def _hold_fill(self, form: Structured) -> bool:
        """Keep a fill of a whole buffer back: an accumulation that follows may make it superfluous."""
        if len(form.stores) != 1 or form.reductions or form.is_empty:
            return False
        (value,) = form.yields
        match value:
            case Const():
                number: View | Known = value.value
            case Captured():
                number = self.scalar(value.source)
            case _:
                return False
        view = self.memref(form.stores[0].target)
        if isinstance(number, View) or not self._covers(form, view):
            return False
        self._flush_overlapping([view])
        self._fills.append((view, number))
        return True

    def _take_fill(self, form: Structured) -> Known | None:
        """The number that the op's output is known to hold; fills that the op depends on otherwise are emitted."""
        touched = [self.memref(v) for v in _memrefs(form)]
        target = self.memref(form.stores[0].target)
        found: Known | None = None
        if takes_fill(form) and self._covers(form, target):
            others = [view for view in touched if not same_elements(view, target)]
            for fill in self._fills:
                if same_elements(fill[0], target) and not any(may_overlap(view, target) for view in others):
                    found = fill[1]
                    self._fills.remove(fill)
                    break
        self._flush_overlapping(touched)
        return found

    @staticmethod
    def _covers(form: Structured, view: View) -> bool:
        """Whether the op's only output takes every element of the buffer, each once."""
        if math.prod(form.extents[d] for d in form.parallels) != view.size:
            return False
        return is_injective(view.over(form.stores[0].index, form.extents).transposed(form.parallels))

    def _flush_overlapping(self, views: Sequence[View]) -> None:
        kept = self._fills
        self._fills = []
        for fill in kept:
            if any(may_overlap(fill[0], view) for view in views):
                self._emit_fill(fill)
            else:
                self._fills.append(fill)

    def flush_fills(self) -> None:
        """Emit the fills that were kept back."""
        for fill in self._fills:
            self._emit_fill(fill)
        self._fills = []

    def _emit_fill(self, fill: tuple[View, Known]) -> None:
        view, number = fill
        with np.errstate(all="ignore"):
            value = np.asarray(number).astype(view.dtype)
        self.builder.call(np.copyto, view, self.builder.memory.table(value))


def _memrefs(form: Structured) -> set[SSAValue]:
    """Every memref that an op touches."""
    found = {store.target for store in form.stores}
    for expr in form.expressions():
        if isinstance(expr, Read | Gather):
            found.add(expr.source)
    return found


def argument_attribute(function: func.FuncOp, position: int, name: str) -> Attribute | None:
    """An attribute of a function's argument, such as `mlopt.input`."""
    if function.arg_attrs is None:
        return None
    return function.arg_attrs.data[position].data.get(name)


def workspace_argument(function: func.FuncOp) -> int | None:
    """The position of the argument `{mlopt.workspace}`."""
    for position in range(len(function.body.block.args)):
        if argument_attribute(function, position, "mlopt.workspace") is not None:
            return position
    return None


def workspace_used(argument: SSAValue) -> int | None:
    """Where the free bytes of a workspace begin: after the last view of it; None if it is used in other ways."""
    end = 0
    for use in argument.uses:
        op = use.operation
        if not isinstance(op, memref.ViewOp) or not isinstance(
            shift := op.byte_shift.owner, arith.ConstantOp
        ):
            return None
        type_ = op.result.type
        if not type_.has_static_shape() or not isinstance(shift.value, IntegerAttr):
            return None
        nbytes = to_numpy_dtype(type_.element_type).itemsize * int(np.prod(type_.get_shape()))
        end = max(end, shift.value.value.data + nbytes)
    return aligned(end)
