"""`elide-copies`: a copy goes where its source can be computed in its destination, or be read instead of it.

Bufferization copies where it can't prove, going forward through a function, that a buffer may be overwritten: what a
loop yields is computed beside what it carries, what it starts from is copied first, a branch yields what it reads.
This pass looks at each copy that is left, with all accesses of both buffers known:

1. *computed in place*: the source is allocated in the block of the copy, and from its first access to the copy nothing
   accesses the destination. Then the source takes the memory of the destination from the start; what reads the source
   afterwards finds the same there, unless the destination is written before.
2. *read instead*: the destination is allocated in the block of the copy, and nothing else ever writes it. Then what
   reads it reads the source, unless that is written before the last of them does.
3. *dead*: the destination is allocated here, and nothing reads it.

Source and destination are whole contiguous buffers of one memory space, of whatever shapes. What the caller gave and
what is constant is never written, as no copy has such a destination. No buffer lives longer than source and destination
did together, so no arena grows. Reports a remark for each copy elided ("elided ...") and for each that is left ("not
elided ...").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from mlopt.diagnostics import MloptError, VerifyFailure
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import place_of_op
from mlopt.ir.memory_spaces import space_of
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.waves import wave_of
from mlopt.passes.memref.accesses import VIEWS, Accesses, root_of, written_arguments
from mlopt.passes.memref.liveness import byte_size
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import MEMREF_LEVEL


def nothing_runs_at_once(root: Operation) -> MloptError | None:
    """The condition that no operation runs in a wave: buffers that are united may have kept two of them apart."""
    for op in root.walk():
        if wave_of(op) is not None:
            return VerifyFailure(
                f"expected no waves yet, found one at '{op.name}': 'elide-copies' stands before 'order-in-waves'",
                place=place_of_op(op),
            )
    return None


class ElideCopiesPass(Pass):
    """Remove copies between whole buffers where that is proved: see the module's documentation.

    1. What is computed only to be copied is computed in the destination of the copy.
    2. What a copy is only read for is read where it was copied from.
    3. A copy that nothing reads goes.

    Left: copies of and to parts of buffers, and between memory spaces; copies whose destination is accessed between the
    first access of the source and the copy; copies of what is written while the copy is still read.
    """

    name = "elide-copies"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = (*MEMREF_LEVEL, nothing_runs_at_once)
    ensures: ClassVar = MEMREF_LEVEL
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = {
        "compute-in-destination": "What is copied is computed in the destination of the copy.",
        "read-source": "What reads a copy reads its source.",
        "erase-dead-copy": "A copy that nothing reads goes.",
    }

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        written = written_arguments(op)
        changed = False
        for function in op.ops:
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                changed |= _Function(ctx, function, written).run()
        return changed


class _Copy(NamedTuple):
    """A copy between two buffers, and what they are views of."""

    op: Operation

    @property
    def source(self) -> SSAValue:
        return self.op.operands[0]

    @property
    def target(self) -> SSAValue:
        return self.op.operands[1]

    @property
    def source_root(self) -> SSAValue:
        return root_of(self.source)

    @property
    def target_root(self) -> SSAValue:
        return root_of(self.target)


class _Function:
    def __init__(self, ctx: CompilerContext, function: func.FuncOp, written: Mapping[str, frozenset[int]]):
        self.ctx = ctx
        copies = (copy for op in function.walk() if (copy := _as_copy(op)) is not None)
        self.copies = [copy for copy in copies if space_of(copy.source.type) == space_of(copy.target.type)]
        self.accesses = Accesses(function, written) if self.copies else None

    def run(self) -> bool:
        changed = False
        left = self.copies
        while left:
            before = left
            left = [copy for copy in before if not self._elide(copy)]
            if len(left) == len(before):
                break
            changed = True
        for copy in left:
            obstacle = self._in_place_obstacle(copy)
            self.ctx.remark(
                ElideCopiesPass.name, "missed", f"not elided: {_described(copy)}: {obstacle}", copy.op
            )
            self.ctx.count(ElideCopiesPass.name, "copies-left")
        return changed

    def _elide(self, copy: _Copy) -> bool:
        """Remove a copy by the first rule that allows it."""
        if self._is_dead(copy):
            if not may_rewrite("erase-dead-copy", copy.op):
                return False
            self._report(copy, "nothing reads it")
            self._known().forget(copy.source_root, copy.target_root)
            _erase_copy(copy.op)
            return True
        if self._can_read_source(copy) and may_rewrite("read-source", copy.op):
            self._report(copy, "what reads it reads what was copied")
            self._unite(copy, copy.target_root, copy.source_root)
            return True
        if self._in_place_obstacle(copy) is None and may_rewrite("compute-in-destination", copy.op):
            self._report(copy, "it is computed there")
            self._unite(copy, copy.source_root, copy.target_root)
            return True
        return False

    def _report(self, copy: _Copy, how: str) -> None:
        self.ctx.remark(ElideCopiesPass.name, "passed", f"elided: {_described(copy)}: {how}", copy.op)
        self.ctx.count(ElideCopiesPass.name, "copies-elided")
        self.ctx.count(ElideCopiesPass.name, "bytes-elided", byte_size(copy.source.type))

    # The proofs

    def _known(self) -> Accesses:
        assert self.accesses is not None
        return self.accesses

    def _is_dead(self, copy: _Copy) -> bool:
        root = copy.target_root
        found = self._known().of(root)
        return (
            _is_alloc(root) and found is not None and all(_only_writes(access.op, root) for access in found)
        )

    def _can_read_source(self, copy: _Copy) -> bool:
        """Whether the destination is only read, after the copy, and all the while holds what the source holds."""
        source, target = copy.source_root, copy.target_root
        known = self._known()
        readers, others = known.of(target), known.of(source)
        if readers is None or others is None or self._shape_obstacle(copy) is not None:
            return False
        if not _is_alloc(target) or target.owner.parent is not copy.op.parent:
            return False
        if any(access.writes and access.op is not copy.op for access in readers):
            return False
        first, last = self._span(copy, target)
        now = known.begin(copy.op)
        return first == now and not any(
            access.writes and now < known.begin(access.op) <= last for access in others
        )

    def _in_place_obstacle(self, copy: _Copy) -> str | None:
        """Why the source can't be computed in the destination, if so."""
        source, target = copy.source_root, copy.target_root
        obstacle = self._shape_obstacle(copy)
        if obstacle is not None:
            return obstacle
        if isinstance(source, BlockArgument):
            return "the source is an argument"
        if not _is_alloc(source):
            return "the source is a constant"
        if source.owner.parent is not copy.op.parent:
            return "the source lives on in an enclosing region"
        known = self._known()
        own, others = known.of(source), known.of(target)
        if own is None or others is None:
            return "control flow passes one of them on"
        now = known.begin(copy.op)
        first, last = self._span(copy, source)
        for access in others:
            if access.op is not copy.op and first <= known.begin(access.op) < now:
                return f"'{access.op.name}' accesses the destination before"
            if access.writes and now < known.begin(access.op) <= last:
                return f"'{access.op.name}' writes the destination while the source is still used"
        if any(access.writes and known.begin(access.op) > now for access in own):
            return "the source is written again"
        return None

    def _shape_obstacle(self, copy: _Copy) -> str | None:
        if not _is_of_function(copy.source_root) or not _is_of_function(copy.target_root):
            return "a region is given one of them"
        if copy.source_root is copy.target_root:
            return "both are parts of one buffer"
        if not _is_whole(copy.source):
            return "the source is a part of a buffer"
        return None if _is_whole(copy.target) else "the destination is a part of a buffer"

    def _span(self, copy: _Copy, root: SSAValue) -> tuple[int, int]:
        """The moments of the first and last access of what is allocated in the block of the copy, loops as a whole."""
        known = self._known()
        block = copy.op.parent
        assert block is not None
        around = [known.in_block(access.op, block) for access in known.of(root) or ()]
        return min(map(known.begin, around)), max(map(known.end, around))

    # Doing it

    def _unite(self, copy: _Copy, old: SSAValue, new: SSAValue) -> None:
        """Let everything that uses `old`, an allocation, use `new` instead, and erase the copy between them."""
        alloc = old.owner
        assert isinstance(alloc, memref.AllocOp)
        _define_before(new, alloc)
        copy_name(old, new)
        for use in list(old.uses):
            view = use.operation
            if isinstance(view, memref.ReinterpretCastOp):
                view.operands[0] = new
                if view.result.type == new.type:
                    view.result.replace_all_uses_with(new)
                    _erase(view)
        if old.first_use is not None:
            old.replace_all_uses_with(_in_shape_of(alloc, new))
        _erase(alloc)
        _erase_copy(copy.op)
        self._known().forget(old, new)


def _as_copy(op: Operation) -> _Copy | None:
    """An op as a copy: `memref.copy`, or a `linalg.generic` that yields each element of its input at the same place."""
    if isinstance(op, memref.CopyOp):
        return _Copy(op)
    if not isinstance(op, GenericOp) or len(op.inputs) != 1 or len(op.outputs) != 1:
        return None
    block = op.body.block
    last = block.last_op
    if last is None or last is not block.first_op or last.operands[0] is not block.args[0]:
        return None
    source, target = op.inputs[0], op.outputs[0]
    identity = all(map_.data == AffineMap.identity(len(op.iterator_types)) for map_ in op.indexing_maps)
    return _Copy(op) if identity and _shape(source) == _shape(target) else None


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return tuple(cast(MemRefType[Attribute], buffer.type).get_shape())


def _is_alloc(root: SSAValue) -> bool:
    return isinstance(root.owner, memref.AllocOp)


def _is_of_function(root: SSAValue) -> bool:
    """Whether it is known where a buffer comes from: allocated here, an argument of the function, or a global."""
    if isinstance(root, BlockArgument):
        return isinstance(root.block.parent_op(), func.FuncOp)
    return isinstance(root.owner, memref.AllocOp | memref.GetGlobalOp)


def _is_whole(buffer: SSAValue) -> bool:
    """Whether a buffer has all elements of what it is a view of, in row-major order."""
    root = root_of(buffer)
    types = [cast(MemRefType[Attribute], value.type) for value in (buffer, root)]
    contiguous = all(isinstance(type_.layout, NoneAttr) for type_ in types)
    return contiguous and prod(_shape(buffer)) == prod(_shape(root))


def _only_writes(op: Operation, root: SSAValue) -> bool:
    """Whether an op that accesses a buffer does not read it."""
    copy = _as_copy(op)
    return isinstance(op, FillOp) if copy is None else copy.source_root is not root


def _define_before(root: SSAValue, op: Operation) -> None:
    """Move the definition of a buffer up to an op of its block, if it stands behind that."""
    owner, block = root.owner, op.parent
    if (
        isinstance(owner, Operation)
        and block is not None
        and owner.parent is block
        and op.is_before_in_block(owner)
    ):
        owner.detach()
        block.insert_op_before(owner, op)


def _cast(root: SSAValue, shape: Sequence[int]) -> memref.ReinterpretCastOp:
    """A whole buffer under another shape."""
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    whole = cast(MemRefType[Attribute], root.type)
    type_ = MemRefType(whole.element_type, shape, memory_space=whole.memory_space)
    return memref.ReinterpretCastOp(root, [], [], [], [0], shape, strides, type_)


def _in_shape_of(alloc: memref.AllocOp, root: SSAValue) -> SSAValue:
    """`root` under the shape of what is allocated, where that is."""
    if alloc.memref.type == root.type:
        return root
    op = _cast(root, _shape(alloc.memref))
    op.location = alloc.location
    block = alloc.parent
    assert block is not None
    block.insert_op_before(op, alloc)
    return op.result


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


def _erase_copy(op: Operation) -> None:
    """Erase a copy, and the views and allocations that only it used."""
    values = list(dict.fromkeys(op.operands))
    _erase(op)
    while values:
        value = values.pop()
        owner = value.owner
        if value.first_use is None and isinstance(owner, (*VIEWS, memref.AllocOp)):
            values += owner.operands
            _erase(owner)


def _described(copy: _Copy) -> str:
    size = byte_size(copy.source.type)
    return f"a copy of {size} bytes from {_name(copy.source_root)} to {_name(copy.target_root)}"


def _name(value: SSAValue) -> str:
    return f"'%{value.name_hint}'" if value.name_hint else "a buffer without a name"
