"""What every operation does to memory: one table, for liveness, updates in place, `cse` and `dce` alike.

`effects_of` says what an operation reads, writes, allocates and frees; `aliases_of` which values may be the same memory
because of it; `destinations` which operands it may overwrite in place. Tensors are values: reading one is no effect,
and aliases and destinations of tensors say what shares memory once they become buffers.

An operation that is not in the table is known by the traits that xDSL declares for it, and its results may share
memory with any of its operands; without such traits it may do anything. Entries are by name, so that no dialect is
imported to ask; a test holds the table complete for every dialect that a context knows, and in step with xDSL's traits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    MemRefType,
    TensorType,
    UnrankedMemRefType,
    UnrankedTensorType,
)
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import (
    IsTerminator,
    MemoryEffectKind,
    RecursiveMemoryEffect,
    SymbolOpInterface,
    get_effects,
)

_T = TypeVar("_T")

Alias: TypeAlias = tuple[SSAValue, SSAValue]
"""`(source, other)`: `other` may be the memory of `source`, or a part of it."""


class Effects(NamedTuple):
    """What an operation does that others can notice, with what stands inside it.

    `reads`, `writes` and `frees` hold the buffers that it reaches memory through, None for memory that no operand
    names; `allocates` the values that are new memory. `stops`: it may end the run. `unknown`: it may do anything.
    """

    reads: tuple[SSAValue | None, ...] = ()
    writes: tuple[SSAValue | None, ...] = ()
    frees: tuple[SSAValue | None, ...] = ()
    allocates: tuple[SSAValue | None, ...] = ()
    stops: bool = False
    unknown: bool = False

    @property
    def changes_memory(self) -> bool:
        """Whether what is in memory may be another after it."""
        return self.unknown or bool(self.writes or self.frees)

    @property
    def touches_memory(self) -> bool:
        """Whether it may read memory or change it; making buffers and views does neither."""
        return self.changes_memory or bool(self.reads)


def effects_of(op: Operation) -> Effects:
    """What `op` does, with all that stands in its regions if it runs them."""
    row = TABLE.get(op.name)
    if row is None:
        return _declared_effects(op)
    if row.unknown:
        return _ANYTHING
    own = row.effects(op)
    return _with_regions(own, op) if row.runs_regions and op.regions else own


def is_dead(op: Operation) -> bool:
    """Whether nothing uses the results of `op` and it does nothing else: it reads and allocates memory at most.

    Symbols and terminators are never dead.
    """
    if any(result.first_use is not None for result in op.results):
        return False
    if op.has_trait(IsTerminator, value_if_unregistered=True) or op.has_trait(SymbolOpInterface):
        return False
    effects = effects_of(op)
    return not effects.changes_memory and not effects.stops


def aliases_of(op: Operation) -> Iterator[Alias]:
    """The tensors and buffers that may share memory because of `op`, each pair from where it comes to where it goes.

    Views, and what loops and branches take, pass on, yield and return; a terminator has the aliases of the operation it
    ends. Not among them: results that overwrite a destination (`destinations`), and the arguments of a `kernel.launch`,
    which is looked at as a whole.
    """
    row = TABLE.get(op.name)
    pairs = _all_pairs(op) if row is None or row.unknown else row.aliases(op)
    return ((source, other) for source, other in pairs if is_buffer(source) and is_buffer(other))


def destinations(op: Operation) -> Sequence[tuple[int, OpResult]]:
    """The tensor operands that `op` may overwrite in place: their positions, each with the result that replaces it."""
    row = TABLE.get(op.name)
    if row is None or row.outs is None or not op.results:
        return ()
    return tuple(zip(row.outs(op), op.results, strict=True))


def is_buffer(value: SSAValue) -> bool:
    """Whether the value is memory, or a tensor that becomes memory."""
    return isinstance(value.type, TensorType | MemRefType | UnrankedTensorType | UnrankedMemRefType)


# One row


_Positions: TypeAlias = Callable[[Operation], Iterable[int]]
_Pairs: TypeAlias = Callable[[Operation], Iterable[Alias]]


class Row(NamedTuple):
    """The facts of one operation. Numbers are positions of operands.

    - `views`: (operand, result) pairs that share memory; `flows`: such pairs for what moves between regions.
    - `outs`: destinations. As memory they are written, and read unless `overwrites`; all other buffers are read.
    - `runs_regions`: what stands in its regions happens when it runs.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    frees: tuple[int, ...] = ()
    allocates: bool = False
    stops: bool = False
    unknown: bool = False
    views: tuple[tuple[int, int], ...] = ()
    flows: _Pairs | None = None
    outs: _Positions | None = None
    overwrites: bool = False
    runs_regions: bool = False

    def effects(self, op: Operation) -> Effects:
        """The effects of `op` itself, without its regions."""
        if self.outs is not None:
            return self._destination_effects(op, frozenset(self.outs(op)))
        if not (self.reads or self.writes or self.frees or self.allocates or self.stops):
            return _NOTHING
        return Effects(
            tuple(op.operands[i] for i in self.reads),
            tuple(op.operands[i] for i in self.writes),
            tuple(op.operands[i] for i in self.frees),
            tuple(op.results) if self.allocates else (),
            self.stops,
        )

    def _destination_effects(self, op: Operation, outs: frozenset[int]) -> Effects:
        memory = [(i in outs, value) for i, value in enumerate(op.operands) if _is_memory(value)]
        if not memory:
            return _NOTHING
        return Effects(
            reads=tuple(value for is_out, value in memory if not (is_out and self.overwrites)),
            writes=tuple(value for is_out, value in memory if is_out),
        )

    def aliases(self, op: Operation) -> Iterator[Alias]:
        """The pairs of `aliases_of`, of any types."""
        for operand, result in self.views:
            yield op.operands[operand], op.results[result]
        if self.flows is not None:
            yield from self.flows(op)


_NOTHING = Effects()
_ANYTHING = Effects(unknown=True)


def _is_memory(value: SSAValue) -> bool:
    return isinstance(value.type, MemRefType | UnrankedMemRefType)


def _with_regions(own: Effects, op: Operation) -> Effects:
    """`own` and the effects of all in the regions of `op`; a tensor that is made in there is just a value."""
    all_effects = [own]
    for region in op.regions:
        for block in region.blocks:
            all_effects += [effects for inner in block.ops if (effects := effects_of(inner)) is not _NOTHING]
    if len(all_effects) == 1:
        return own
    if any(effects.unknown for effects in all_effects):
        return _ANYTHING
    made = _distinct(v for e in all_effects[1:] for v in e.allocates if v is None or _is_memory(v))
    return Effects(
        _distinct(value for effects in all_effects for value in effects.reads),
        _distinct(value for effects in all_effects for value in effects.writes),
        _distinct(value for effects in all_effects for value in effects.frees),
        (*own.allocates, *made),
        any(effects.stops for effects in all_effects),
    )


def _distinct(values: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(values))


def _declared_effects(op: Operation) -> Effects:
    """The effects of an operation outside the table: of every buffer it is given, and of others."""
    if op.get_trait(RecursiveMemoryEffect) is not None:
        return _with_regions(_NOTHING, op)
    declared = get_effects(op)
    if declared is None:
        return _ANYTHING
    if not declared:
        return _NOTHING
    kinds = {effect.kind for effect in declared}
    memory = (None, *filter(_is_memory, op.operands))
    return Effects(
        memory if MemoryEffectKind.READ in kinds else (),
        memory if MemoryEffectKind.WRITE in kinds else (),
        memory if MemoryEffectKind.FREE in kinds else (),
        (None,) if MemoryEffectKind.ALLOC in kinds else (),
    )


# What moves between regions and blocks


def _terminators(op: Operation) -> list[Operation]:
    blocks = [block for region in op.regions for block in region.blocks]
    return [block.last_op for block in blocks if block.last_op is not None]


def _block_args(op: Operation, region: int) -> Sequence[SSAValue]:
    block = op.regions[region].blocks.first
    return () if block is None else block.args


def _branches(op: Operation) -> Iterator[Alias]:
    """What each region yields is a result: `scf.if` and what is like it."""
    for terminator in _terminators(op):
        yield from zip(terminator.operands, op.results, strict=False)


def _for(op: Operation) -> Iterator[Alias]:
    carried = _block_args(op, 0)[1:]
    for values in (op.operands[3:], *(terminator.operands for terminator in _terminators(op))):
        yield from zip(values, carried, strict=False)
        yield from zip(values, op.results, strict=False)


def _while(op: Operation) -> Iterator[Alias]:
    before, after = _block_args(op, 0), _block_args(op, 1)
    yield from zip(op.operands, before, strict=False)
    for terminator in _terminators(op):
        if terminator.parent_region() is op.regions[0]:
            passed = terminator.operands[1:]
            yield from zip(passed, after, strict=False)
            yield from zip(passed, op.results, strict=False)
        else:
            yield from zip(terminator.operands, before, strict=False)


def _ended(op: Operation) -> Iterator[Alias]:
    """A terminator passes on what the operation around it says."""
    parent = op.parent_op()
    return iter(()) if parent is None else aliases_of(parent)


def _successors(op: Operation) -> Iterator[Alias]:
    """A branch between blocks: any operand may be any argument of where it goes."""
    arguments = [argument for block in op.successors for argument in block.args]
    return ((value, argument) for value in op.operands for argument in arguments)


def _all_pairs(op: Operation) -> Iterator[Alias]:
    """Whatever goes in may be whatever comes out, or is inside."""
    sources = list(op.operands)
    for terminator in _terminators(op):
        sources += terminator.operands
    inside = [argument for region in op.regions for block in region.blocks for argument in block.args]
    return ((source, other) for source in sources for other in (*op.results, *inside))


# Which operands are destinations


def _outs(op: Operation) -> Iterable[int]:
    """The last segment of the operands, or the last operand of an op without segments."""
    sizes = op.properties.get("operandSegmentSizes") or op.attributes.get("operandSegmentSizes")
    count = int(sizes.get_values()[-1]) if isinstance(sizes, DenseArrayBase) else 1
    return range(len(op.operands) - count, len(op.operands))


def _dest(op: Operation) -> Iterable[int]:
    return (1,)


# The table

_PURE = Row()
_UNKNOWN = Row(unknown=True)
_VIEW = Row(views=((0, 0),))
_INSERT = Row(outs=_dest)
_DESTINATION = Row(outs=_outs, runs_regions=True)
_OVERWRITE = Row(outs=_outs, overwrites=True)
_BRANCHES = Row(flows=_branches, runs_regions=True)
_TERMINATOR = Row(flows=_ended)
_JUMP = Row(flows=_successors)


def _rows(dialect: str, names: str, row: Row) -> dict[str, Row]:
    return {f"{dialect}.{name}": row for name in names.split()}


TABLE: dict[str, Row] = {
    # Definitions: nothing happens where they stand.
    **_rows("builtin", "module", _PURE),
    **_rows("func", "func", _PURE),
    **_rows("memref", "global", _PURE),
    **_rows("builtin", "unregistered", _UNKNOWN),
    **_rows("builtin", "unrealized_conversion_cast", Row(flows=_all_pairs)),
    **_rows("func", "call", _UNKNOWN),
    **_rows("func", "return", _PURE),
    # arith and math are pure as xDSL declares, but for two that declare nothing.
    **_rows("arith", "remui extsi", _PURE),
    # Memory.
    **_rows("memref", "alloc alloca", Row(allocates=True)),
    **_rows("memref", "dealloc", Row(frees=(0,))),
    **_rows("memref", "load", Row(reads=(0,))),
    **_rows("memref", "store", Row(writes=(1,))),
    **_rows("memref", "copy", Row(reads=(0,), writes=(1,))),
    **_rows("memref", "atomic_rmw", Row(reads=(1,), writes=(1,))),
    **_rows("memref", "view subview reinterpret_cast cast memory_space_cast assume_alignment", _VIEW),
    **_rows("memref", "collapse_shape expand_shape extract_strided_metadata", _VIEW),
    **_rows("memref", "get_global dim rank", _PURE),
    **_rows("memref", "alloca_scope", _BRANCHES),
    **_rows("memref", "alloca_scope.return", _TERMINATOR),
    # Transfers go on after the op; an address as a number can go anywhere.
    **_rows("memref", "dma_start dma_wait extract_aligned_pointer_as_index", _UNKNOWN),
    # linalg: on buffers it reads and writes, on tensors it has destinations.
    **_rows("linalg", "generic add sub mul exp log sqrt max min select reduce matmul", _DESTINATION),
    **_rows("linalg", "quantized_matmul pooling_nchw_max conv_2d_nchw_fchw conv_2d_nhwc_hwcf", _DESTINATION),
    **_rows("linalg", "conv_2d_nhwc_fhwc conv_2d_nhwgc_gfhwc conv_2d_ngchw_gfchw", _DESTINATION),
    **_rows("linalg", "conv_2d_ngchw_fgchw", _DESTINATION),
    **_rows("linalg", "fill copy transpose broadcast", _OVERWRITE),
    **_rows("linalg", "index yield", _PURE),
    # Control flow.
    **_rows("scf", "if index_switch execute_region", _BRANCHES),
    **_rows("scf", "for", Row(flows=_for, runs_regions=True)),
    **_rows("scf", "while", Row(flows=_while, runs_regions=True)),
    **_rows("scf", "parallel", Row(flows=_all_pairs, runs_regions=True)),
    **_rows("scf", "reduce", Row(flows=_all_pairs, runs_regions=True)),
    **_rows("scf", "yield condition reduce.return", _TERMINATOR),
    **_rows("cf", "br cond_br switch", _JUMP),
    **_rows("cf", "assert", Row(stops=True)),
    # Tensors. An uninitialised destination is new memory: each may become a buffer of its own.
    **_rows("tensor", "empty", Row(allocates=True)),
    **_rows("tensor", "cast collapse_shape expand_shape reshape extract_slice", _VIEW),
    **_rows("tensor", "insert insert_slice", _INSERT),
    **_rows("tensor", "concat dim extract from_elements splat yield", _PURE),
    **_rows("tensor", "pad", Row(runs_regions=True)),
    # The kernel level. A run-time function computes its results and does nothing else.
    **_rows("kernel", "map reduce contract launch call", _DESTINATION),
    **_rows("kernel", "fill", _OVERWRITE),
    **_rows("kernel", "reshape", _VIEW),
    **_rows("kernel", "copy", Row(allocates=True)),
    **_rows("kernel", "constant index yield", _PURE),
}
"""Operation name → its facts. Graph operations are not here: they are pure functions of tensors by their base class."""
