"""Checking a memory plan from the IR alone: what lives when, where it lies, and that nothing live is overwritten.

Lifetimes, places and overlaps are derived here anew: this file shares no code with the passes that make the plan, so
that a mistake there is found here. What single operations read, write and alias are facts of the operations, not of the
plan; they come from the one table of `mlopt.ir.effects`, which has tests of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from mlopt.diagnostics import VerifyFailure
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.effects import aliases_of, effects_of
from mlopt.ir.functions import only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.memory_spaces import space_of
from mlopt.ir.waves import wave_of
from mlopt.memory import Buffer, PlanError, check_plan

ARENA = "mlopt.arena"
"""Attribute of the arguments of `@main` that all planned buffers lie in, one for each memory space."""
SMALLEST = "mlopt.smallest"
"""Attribute of an arena: the bytes that every plan for these buffers in this order takes, where a search proved it."""
_WORKSPACE = "mlopt.workspace"
_WRITTEN = "mlopt.written"


@dataclass
class PlacedBuffer:
    """A view of an arena or of a workspace, where it lies (bytes), and the moments of its first and last access."""

    view: memref.ViewOp
    offset: int
    size: int
    first: int
    last: int

    @property
    def is_workspace(self) -> bool:
        """Whether it is scratch of a function rather than a tensor."""
        return _WORKSPACE in self.view.attributes

    @property
    def name(self) -> str:
        """The name of the view's result, for messages."""
        return f"%{self.view.result.name_hint or '?'}"


def verify_plan(module: ModuleOp, alignment: int = 64) -> None:
    """Verify the plan of every function of a memref-level module.

    Every view of an arena and of a workspace must be of static size, inside it, aligned, and share no byte with
    another one that lives at the same time; nothing else may use an arena or a workspace. Each memory space has an
    arena of its own. No allocation may be left.
    No loop may hand a buffer that it makes to its next iteration, which makes it again. A call may write no buffer that
    it is also given as another argument. What runs at the same time (`mlopt.ir.waves`) stands together, and may write
    no buffer that another operation of the wave uses. Weights are never written, and
    inputs only if they are donated.

    Raises:
        VerifyFailure: with the place of the view, allocation or call.
    """
    functions = {
        op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp) and not op.is_declaration
    }
    written = {name: _written_arguments(function) for name, function in functions.items()}
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.is_declaration:
            written[op.sym_name.data] = _declared_written(op)
    for function in functions.values():
        for op in function.walk():
            if isinstance(op, memref.AllocOp):
                raise VerifyFailure(
                    "an allocation is left after buffers were assigned", place=place_of_op(op)
                )
        bases = base_arguments(function)
        spaces = [space_of(base.type) for base in bases]
        if len(set(spaces)) < len(spaces):
            raise VerifyFailure(
                f"expected one arena in each memory space, found {len(spaces)} in {len(set(spaces))}",
                place=place_of_op(function),
            )
        for base in bases:
            _verify_places(placed_buffers(function, base), base, alignment)
            smallest_bytes(base)
        _verify_calls(function, written, bases)
        _verify_waves(function, written, bases)
        _verify_kept(function, written, bases)


def base_arguments(function: func.FuncOp) -> list[SSAValue]:
    """The arenas of `@main`, one of each memory space, or the workspace of another function."""
    arguments = zip(only_block(function).args, function.arg_attrs or (), strict=False)
    return [
        argument
        for argument, attributes in arguments
        if ARENA in attributes.data or _WORKSPACE in attributes.data
    ]


def smallest_bytes(arena: SSAValue) -> int:
    """The bytes that were proved to be the smallest for an arena, 0 if none were; `VerifyFailure` if they can't be."""
    assert isinstance(arena, BlockArgument)
    function = arena.block.parent_op()
    assert isinstance(function, func.FuncOp)
    given = function.arg_attrs.data[arena.index].data.get(SMALLEST) if function.arg_attrs else None
    if given is None:
        return 0
    size = byte_size(arena)
    if not isinstance(given, IntegerAttr) or given.value.data > size:
        raise VerifyFailure(
            f"expected '{SMALLEST}' to be a number of bytes, at most {size}", place=place_of_op(function)
        )
    return given.value.data


def placed_buffers(function: func.FuncOp, base: SSAValue) -> list[PlacedBuffer]:
    """All views of `base` that are accessed, in program order, with the moments they live in.

    A view that is used in a loop but made outside of it lives through the whole loop. Raises `VerifyFailure` for
    planned memory that is used in other ways, and for views whose lifetimes or places can't be told.
    """
    for use in base.uses:
        if not isinstance(use.operation, memref.ViewOp):
            raise VerifyFailure(
                f"planned memory is used by '{use.operation.name}', expected views of it only",
                place=place_of_op(use.operation),
            )
    walk = _Walk(function, base)
    walk.block(only_block(function))
    return [buffer for buffer in walk.buffers.values() if buffer.first >= 0]


def byte_size(buffer: SSAValue) -> int:
    """The bytes of a contiguous buffer."""
    type = cast(MemRefType[Attribute], buffer.type)
    return prod(type.get_shape()) * to_numpy_dtype(type.element_type).itemsize


Roots = Mapping[SSAValue, frozenset[SSAValue]]
"""Buffer → the buffers it may be (a view of)."""


def _roots(function: func.FuncOp, bases: Collection[SSAValue]) -> Roots:
    """The roots of every buffer in a function: what is no alias of another, and each view of one of `bases`."""
    inside = [op for op in function.walk() if op is not function]
    blocks = [block for op in (function, *inside) for region in op.regions for block in region.blocks]
    pairs = [pair for op in inside for pair in aliases_of(op) if pair[0] not in bases]
    derived = {other for _, other in pairs}
    values: list[SSAValue] = [value for op in inside for value in op.results]
    values += [argument for block in blocks for argument in block.args]
    roots: dict[SSAValue, frozenset[SSAValue]] = {
        value: frozenset((value,))
        for value in values
        if value not in derived and value not in bases and isinstance(value.type, MemRefType)
    }
    changed = True
    while changed:
        changed = False
        for source, other in pairs:
            known = roots.get(other, frozenset[SSAValue]())
            found = known | roots.get(source, frozenset[SSAValue]())
            if found != known:
                roots[other] = found
                changed = True
    return roots


class _Walk:
    """Runs through a function in program order; `touched` holds, per loop around, what was accessed in it."""

    def __init__(self, function: func.FuncOp, base: SSAValue):
        self.base = base
        self.buffers: dict[SSAValue, PlacedBuffer] = {}
        self.roots = _roots(function, base_arguments(function))
        self.now = 0
        self.wave: int | None = None
        self.touched: list[set[SSAValue]] = []
        self.depth: dict[SSAValue, int] = {}

    def block(self, block: Block) -> None:
        self.wave = None
        for op in block.ops:
            self.op(op)
        self.wave = None

    def op(self, op: Operation) -> None:
        match op:
            case memref.ViewOp() if op.source is self.base:
                self._place(op)
            case scf.ForOp() | scf.WhileOp():
                self._loop(op)
            case scf.IfOp():
                for region in op.regions:
                    for block in region.blocks:
                        self.block(block)
            case _ if effects_of(op).touches_memory:
                self._step(op)
            case _:
                pass

    def _loop(self, op: scf.ForOp | scf.WhileOp) -> None:
        self._verify_carried(op)
        start = self.now
        self.touched.append(set())
        for region in op.regions:
            for block in region.blocks:
                self.block(block)
        self.now += 1
        inside = self.touched.pop()
        for root in inside:
            if self.depth[root] <= len(self.touched):
                self._extend(root, start)
                self._extend(root, self.now)
        self.now += 1

    def _verify_carried(self, loop: Operation) -> None:
        """No buffer that a loop makes is one that its next iteration is given: it would be read and made at once."""
        carried = (value for region in loop.regions for block in region.blocks for value in block.args)
        for root in {root for value in carried for root in self.roots.get(value, ())}:
            view = root.owner
            if isinstance(view, memref.ViewOp) and view.source is self.base and loop.is_ancestor(view):
                raise VerifyFailure(
                    "a loop makes a buffer of planned memory and passes it to its next iteration",
                    place=place_of_op(view),
                )

    def _step(self, op: Operation) -> None:
        """An op that runs as one step, with all that is in its regions; at the same time as others of its wave."""
        wave = wave_of(op)
        if wave is not None and wave == self.wave:
            self.now -= 1
        self.wave = wave
        for inner in op.walk():
            if isinstance(inner, memref.ViewOp) and inner.source is self.base:
                self._place(inner)
            for operand in inner.operands:
                for root in self.roots.get(operand, ()):
                    if root in self.buffers:
                        self._extend(root, self.now)
        self.now += 1

    def _place(self, view: memref.ViewOp) -> None:
        if not view.result.type.has_static_shape():
            raise VerifyFailure("a view of planned memory needs a static size", place=place_of_op(view))
        size = byte_size(view.result)
        self.buffers[view.result] = PlacedBuffer(view, _constant_offset(view), size, -1, -1)
        self.depth[view.result] = len(self.touched)

    def _extend(self, root: SSAValue, moment: int) -> None:
        buffer = self.buffers[root]
        buffer.first = moment if buffer.first < 0 else min(buffer.first, moment)
        buffer.last = max(buffer.last, moment)
        if self.touched:
            self.touched[-1].add(root)


def _constant_offset(view: memref.ViewOp) -> int:
    owner = view.byte_shift.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    raise VerifyFailure("a view of planned memory needs a constant offset", place=place_of_op(view))


def _verify_places(placed: list[PlacedBuffer], base: SSAValue, alignment: int) -> None:
    by_id = {f"{buffer.name} #{i}": buffer for i, buffer in enumerate(placed)}
    buffers = [Buffer(id, b.first, b.last + 1, b.size, alignment) for id, b in by_id.items()]
    try:
        check_plan(buffers, {id: buffer.offset for id, buffer in by_id.items()}, byte_size(base))
    except PlanError as error:
        culprit = next((b for id, b in reversed(by_id.items()) if f"'{id}'" in error.message), None)
        place = None if culprit is None else place_of_op(culprit.view)
        raise VerifyFailure(f"the memory plan is wrong: {error.message}", place=place) from error


def _verify_calls(
    function: func.FuncOp, written: Mapping[str, frozenset[int]], bases: Collection[SSAValue]
) -> None:
    """No call is given one buffer twice if it writes it."""
    roots = _roots(function, bases)
    for op in function.walk():
        if not isinstance(op, func.CallOp):
            continue
        passed = [roots.get(value, frozenset[SSAValue]()) for value in op.operands]
        for position in written.get(op.callee.string_value(), frozenset[int]()):
            if sum(1 for other in passed if other & passed[position]) > 1:
                raise VerifyFailure(
                    f"argument {position} of the call of '@{op.callee.string_value()}' is written by it, but the same "
                    "buffer is another argument too",
                    place=place_of_op(op),
                )


def _verify_waves(
    function: func.FuncOp, written: Mapping[str, frozenset[int]], bases: Collection[SSAValue]
) -> None:
    """The operations of each wave stand together, and none of them writes what another one uses."""
    if not any(wave_of(op) is not None for op in function.walk()):
        return
    roots = _roots(function, bases)
    blocks = (block for op in function.walk() for region in op.regions for block in region.blocks)
    for block in blocks:
        now, last = None, -1
        used: dict[SSAValue, bool] = {}
        for op in block.ops:
            wave = wave_of(op)
            if wave is None:
                if effects_of(op).touches_memory or effects_of(op).stops:
                    now = None
                continue
            if wave != now:
                if wave <= last:
                    raise VerifyFailure(
                        f"the operations of wave {wave} do not stand together, in the order of the waves",
                        place=place_of_op(op),
                    )
                now = last = wave
                used = {}
            own = _used_roots(op, roots, written)
            for root, writes in own.items():
                if root in used and (writes or used[root]):
                    raise VerifyFailure(
                        f"two operations of wave {wave} use one buffer that one of them writes: they can't run at the "
                        "same time",
                        place=place_of_op(op),
                    )
            for root, writes in own.items():
                used[root] = writes or used.get(root, False)


def _used_roots(
    op: Operation, roots: Roots, written: Mapping[str, frozenset[int]]
) -> Mapping[SSAValue, bool]:
    """The buffers that an operation uses, and whether it writes them."""
    if isinstance(op, func.CallOp):
        positions = written.get(op.callee.string_value(), frozenset(range(len(op.operands))))
        writes = [operand for i, operand in enumerate(op.operands) if i in positions]
    else:
        effects = effects_of(op)
        if effects.unknown or effects.frees or effects.stops or None in effects.writes or op.regions:
            raise VerifyFailure(
                f"'{op.name}' may not run in a wave: what it does is not known", place=place_of_op(op)
            )
        writes = list(effects.writes)
    used = {root: False for operand in op.operands for root in roots.get(operand, ())}
    used.update({root: True for value in writes if value is not None for root in roots.get(value, ())})
    return used


def _verify_kept(
    function: func.FuncOp, written: Mapping[str, frozenset[int]], bases: Collection[SSAValue]
) -> None:
    """Nothing is written that the caller wants to keep."""
    kept: dict[SSAValue, str] = {}
    for argument, attributes in zip(only_block(function).args, function.arg_attrs or (), strict=False):
        if "mlopt.weight" in attributes.data:
            kept[argument] = "a weight"
        elif "mlopt.input" in attributes.data and "mlopt.donated" not in attributes.data:
            kept[argument] = "an input that is not donated"
    roots: Roots = _roots(function, bases) if kept else {}
    for op in function.walk() if kept else ():
        targets: Iterable[SSAValue | None] = () if op is function else effects_of(op).writes
        if isinstance(op, func.CallOp):
            targets = [op.operands[i] for i in written.get(op.callee.string_value(), ())]
        for root in {root for target in targets if target is not None for root in roots.get(target, ())}:
            if root in kept:
                raise VerifyFailure(f"{kept[root]} is written", place=place_of_op(op))


def _declared_written(declaration: func.FuncOp) -> frozenset[int]:
    """What a function without a body says it writes: the arguments `mlopt.written`, and a workspace as the last one."""
    written = declaration.attributes.get(_WRITTEN)
    named = frozenset(written.get_values()) if isinstance(written, DenseArrayBase) else frozenset[int]()
    last = len(declaration.function_type.inputs) - 1
    return named | {last} if _WORKSPACE in declaration.attributes else named


def _written_arguments(function: func.FuncOp) -> frozenset[int]:
    """The positions of the arguments that a function writes."""
    arguments = only_block(function).args
    roots = _roots(function, ())
    written = {
        root
        for op in function.walk()
        if op is not function
        for target in effects_of(op).writes
        if target is not None
        for root in roots.get(target, ())
    }
    return frozenset(i for i, argument in enumerate(arguments) if argument in written)
