"""Execution of memref-level modules on numpy: load once, run many times, allocate nothing but the outputs."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.diagnostics import InputError, RunError, VerifyFailure
from mlopt.interpreter.descriptors import Descriptor, memref_type, static_shape, whole
from mlopt.interpreter.element_types import require_known_integers
from mlopt.interpreter.numpy_state import numpy_context
from mlopt.interpreter.plan import Memory, PlanBuilder, Timed, aligned_bytes, run_plan
from mlopt.interpreter.poison import POISON, Interval, dead_after
from mlopt.interpreter.shared import SharedBuffer, SharedMemory, overlaps_itself
from mlopt.interpreter.translate import Frame, Program, Value, argument_attribute
from mlopt.interpreter.views import Region, Slot, View, row_major
from mlopt.ir.dense import is_dense
from mlopt.ir.donations import DONATED, INPUT_PART, OUTPUT_PART, AxisPart, Donation, in_order, part_shape
from mlopt.ir.dtypes import dense_to_array, to_numpy_dtype, typed_array
from mlopt.ir.extents import EXTENT, Extent, cut_outputs
from mlopt.ir.functions import only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.memory_spaces import ARENA_SPACE, SPILL_SPACE, arena_name, space_of
from mlopt.ir.waves import wave_of
from mlopt.weights import WeightStore, sub_byte

if TYPE_CHECKING:
    from typing_extensions import Buffer

ALIGNMENT = 64
"""Of the arena, in bytes: offsets in it are multiples of as much."""


class TensorSpec(NamedTuple):
    """An input or output of a model. `dtype` is the interface's type, unsigned where it says so.

    The size of an output along `bounded_axis` depends on data: `shape` has the largest size there can be.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    bounded_axis: int | None = None


class Executable:
    """A memref-level module as a session: its plan, its arena (aligned to 64 bytes), its scratch.

    Raises `MloptError` with a place for what it can't execute. With `poison`, the arena is filled with NaN bytes
    before every run, and buffers as soon as they are dead: a correct module gives the same results. With `timed` and
    without `poison`, every run adds the seconds that each operation of `@main` took to `launches`.

    `arena` is the caller's memory to use instead of an own one: any writable, contiguous buffer of at least
    `arena_bytes` at an address that is a multiple of 64. `InputError` if it is not. What is in it does not matter, and
    is lost by a run; the session holds on to it, and reads nothing in it that an earlier run left. `spill` is likewise
    memory of `spill_bytes`, for the arena of memory space 1.
    """

    def __init__(
        self,
        module: ModuleOp,
        weights: WeightStore,
        *,
        poison: bool = False,
        timed: bool = False,
        arena: Buffer | np.ndarray | None = None,
        spill: Buffer | np.ndarray | None = None,
    ):
        require_known_integers(module)
        lent = {ARENA_SPACE: arena, SPILL_SPACE: spill}
        self._lent = {
            space: _lent_bytes(buffer, space) for space, buffer in lent.items() if buffer is not None
        }
        self._memory = Memory()
        self._program = Program(module, self._memory)
        self._main = self._program.function("main")
        self._weights = weights
        self._required: dict[str, np.ndarray] = {}
        self._inputs: list[tuple[TensorSpec, Slot]] = []
        self._outputs: list[tuple[TensorSpec, Slot]] = []
        self._buffers: list[SharedBuffer] = []
        self.copied_bytes = 0
        self._extents: list[tuple[Extent, Slot, np.ndarray]] = []
        self._arenas: dict[int, Region] = {}
        block = only_block(self._main)
        arguments = [self._bind(position) for position in range(len(block.args))]
        given = self._main.arg_attrs or ()
        made = [attributes.data for attributes in given if "mlopt.output" in attributes.data]
        self._outputs = in_order(zip(self._outputs, made, strict=True))
        builder = PlanBuilder(self._memory)
        frame = Frame(self._program, builder, self._program.pool(self._main), (self._main,))
        frame.values.update(zip(block.args, arguments, strict=True))
        after = _Poisoner(self._program, self._main, arguments, builder) if poison else None
        if timed and not poison:
            after = _Timer(builder)
        frame.run_block(block, after)
        self._plan = builder.plan
        self._poison = poison
        self._lock = threading.Lock()
        self._context = numpy_context()
        self._slots = [slot for _, slot in (*self._inputs, *self._outputs)]
        self._shared = SharedMemory(self._buffers)
        self.inputs: tuple[TensorSpec, ...] = tuple(spec for spec, _ in self._inputs)
        self._output_names = [spec.name for spec, _ in self._outputs]
        self._as_they_are = [not self._must_look_at(spec) for spec in self.inputs]
        self._any_strides = [spec.name in self._shared.inputs for spec in self.inputs]
        axes = {extent.of: extent.axis for extent, _, _ in self._extents}
        self.outputs: tuple[TensorSpec, ...] = tuple(
            spec._replace(bounded_axis=axes.get(spec.name)) for spec, _ in self._outputs
        )

    @property
    def arena_bytes(self) -> int:
        """Size of the arena."""
        return self._arenas[ARENA_SPACE].nbytes if ARENA_SPACE in self._arenas else 0

    @property
    def spill_bytes(self) -> int:
        """Size of the arena of memory space 1, to which tensors are spilled; 0 for none."""
        return self._arenas[SPILL_SPACE].nbytes if SPILL_SPACE in self._arenas else 0

    @property
    def scalar_loops(self) -> int:
        """How many structured ops run as scalar loops; each op counts once, however often it is called."""
        return len(self._program.scalar_loops)

    @property
    def engine_scratch_bytes(self) -> int:
        """Scratch and tables that the session allocated because the IR did not provide them."""
        return self._memory.allocated - self._program.alloc_bytes

    @property
    def alloc_bytes(self) -> int:
        """Bytes of the `memref.alloc`s that no pass has placed in the arena."""
        return self._program.alloc_bytes

    @property
    def launches(self) -> list[Timed]:
        """Of a session with `timed`: the operations of `@main` that do something, in order, with their times."""
        return [step for step in self._plan if isinstance(step, Timed)]

    @property
    def steps(self) -> int:
        """Number of steps at the top of the plan."""
        return len(self._plan)

    @property
    def shared(self) -> tuple[SharedBuffer, ...]:
        """The memory that inputs give up, and where inputs and outputs lie in it."""
        return self._shared.buffers

    @property
    def required_values(self) -> Mapping[str, np.ndarray]:
        """The inputs that the module holds for one value of only, by name: they decided shapes (`mlopt.value`)."""
        return self._required

    def run(
        self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """Execute `@main`; return the outputs by name, in fresh arrays or in the caller's (`out`).

        An output whose size depends on data is written to an array of the largest size there can be (the caller's has
        that size too), and what is returned is the view of it that counts.

        Inputs of raw bytes are taken as of the declared types. Raises `InputError` for arrays that do not fit the
        interface, and `RunError` when another run of this session
        is going on, or when the model itself stops (an assertion, an index out of bounds).

        What is donated may be written: it can't be read-only, and overlaps nothing but the array in `out` for the
        output that it is donated to. That output is the array in `out`, else the array of the input if it is all of it
        and contiguous, else a new one. What does not lie there as in `shared` is copied; `copied_bytes` has how much
        the last run copied.
        """
        require_mapping(inputs, "inputs")
        if out is not None:
            require_mapping(out, "out")
        if not self._lock.acquire(blocking=False):
            raise RunError("this session is already running; a session serves one run at a time")
        try:
            sources = self._checked_inputs(inputs)
            if self._buffers:
                results = self._run_shared(inputs, sources, out or {})
            else:
                results = self._checked_outputs(out or {}, sources)
                self._check_apart(sources, results)
                self._execute(sources, results)
            outputs = dict(zip(self._output_names, results, strict=True))
            if not self._extents:
                return outputs
            return cut_outputs(outputs, {extent: int(number) for extent, _, number in self._extents})
        finally:
            self._memory.run_views.drop()
            for slot in self._slots:
                slot.data = None
            self._lock.release()

    def _execute(self, sources: list[np.ndarray], results: list[np.ndarray]) -> None:
        for slot, array in zip(self._slots, (*sources, *results), strict=True):
            slot.data = (array if array.ndim else array.reshape(1)).view(np.uint8)
        self._run_plan()

    def _run_plan(self) -> None:
        for _, slot, number in self._extents:
            slot.data = number.reshape(1).view(np.uint8)
        for region in self._arenas.values() if self._poison else ():
            if region.data is not None:
                region.data.fill(POISON)
        self._memory.run_views.make()
        self._context.run(run_plan, self._plan)

    def _run_shared(
        self, inputs: Mapping[str, np.ndarray], sources: list[np.ndarray], out: Mapping[str, np.ndarray]
    ) -> list[np.ndarray]:
        """A run with memory that inputs give up; the outputs in order."""
        results = dict(zip(self._output_names, self._checked_outputs(out, sources), strict=True))
        arrays = dict(zip((spec.name for spec in self.inputs), sources, strict=True))
        self._check_apart(sources, [out.get(name, array) for name, array in results.items()])
        arranged = self._shared.arrange(inputs, arrays, out, results)
        arrays, results = arranged.inputs, arranged.results
        for slot, array in zip(self._slots, (*arrays.values(), *results.values()), strict=True):
            if slot not in self._shared.slots:
                slot.data = (array if array.ndim else array.reshape(1)).view(np.uint8)
        for buffer, laid in zip(self._shared.buffers, arranged.laid, strict=True):
            buffer.slot.data = laid.memory
        if self._poison:
            self._shared.poison_before(arranged)
        self._run_plan()
        if self._poison:
            self._shared.poison_after(arranged)
        arranged.finish()
        self.copied_bytes = arranged.copied
        return [out.get(name, array) for name, array in results.items()]

    # Interface

    def _bind(self, position: int) -> Value:
        """The memory of an argument of @main, by its attribute."""
        main = self._main
        type_ = memref_type(main, main.body.block.args[position].type)
        shape, dtype = static_shape(main, type_), to_numpy_dtype(type_.element_type)
        nbytes = dtype.itemsize * int(np.prod(shape))
        strides = row_major(shape, dtype.itemsize)

        def text(name: str) -> str | None:
            attribute = argument_attribute(main, position, name)
            return attribute.data if isinstance(attribute, StringAttr) else None

        if argument_attribute(main, position, "mlopt.arena") is not None:
            space = space_of(type_)
            lent = self._lent.get(space)
            data = _allocated(main, nbytes, space) if lent is None else _first_bytes(lent, nbytes, space)
            self._arenas[space] = Region(arena_name(space), nbytes, data)
            return whole(View(self._arenas[space], 0, shape, strides, dtype))
        if (name := text("mlopt.weight")) is not None:
            return whole(View(self._weight(name, type_), 0, shape, strides, dtype))
        given, made = text("mlopt.input"), text("mlopt.output")
        if given is not None or made is not None:
            declared = text("mlopt.dtype")
            spec_dtype = np.dtype(declared) if declared else dtype
            donated = argument_attribute(main, position, DONATED) is not None
            label = f'output "{made}"' if given is None else f'input "{given}"'
            slot = Slot(label, nbytes, writable=made is not None or donated, stays=True)
            attributes: Mapping[str, Attribute] = main.arg_attrs.data[position].data if main.arg_attrs else {}
            parts = AxisPart.read(attributes, INPUT_PART), AxisPart.read(attributes, OUTPUT_PART)
            value = attributes.get("mlopt.value")
            if given is not None and value is not None and is_dense(value):
                self._required[given] = dense_to_array(value)
            for name, part, interface in zip(
                (given, made), parts, (self._inputs, self._outputs), strict=True
            ):
                if name is not None:
                    interface.append((TensorSpec(name, part_shape(shape, part), spec_dtype), slot))
            if donated or any(parts):
                donation = None if given is None else Donation.read(given, attributes)
                buffer = SharedBuffer(given, made, donation, shape, spec_dtype, *parts, slot)
                self._buffers.append(buffer)
            return whole(View(slot, 0, shape, strides, dtype))
        extent = Extent.read({EXTENT: value} if (value := argument_attribute(main, position, EXTENT)) else {})
        if extent is not None:
            slot = Slot(f'the extent of output "{extent.of}"', nbytes, writable=True, stays=True)
            self._extents.append((extent, slot, np.zeros(shape, dtype)))
            return whole(View(slot, 0, shape, strides, dtype))
        raise VerifyFailure(
            f"argument {position} of @main is neither arena, input, weight, output nor extent",
            place=place_of_op(main),
        )

    def _weight(self, name: str, type_: MemRefType) -> Region:
        place = place_of_op(self._main)
        if name not in self._weights:
            raise VerifyFailure(f'there is no weight "{name}" in the weight store', place=place)
        array = self._weights.get(name)
        dtype = to_numpy_dtype(type_.element_type)
        # Integers are signless at this level: an unsigned weight is one of them, one of less than a byte a byte.
        same_type = array.dtype.name.removeprefix("u") == dtype.name.removeprefix("u") or (
            dtype == np.int8 and sub_byte.is_integer(array.dtype)
        )
        if array.shape != tuple(type_.get_shape()) or not same_type:
            raise VerifyFailure(
                f'weight "{name}" is {array.dtype}{list(array.shape)}, expected {type_}', place=place
            )
        return Region.of_array(f'weight "{name}"', np.ascontiguousarray(array))

    def _checked_inputs(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The arrays in order, copied where they are not as the plan reads them."""
        arrays = [inputs.get(spec.name) for spec in self.inputs]
        if len(inputs) == len(arrays) and all(
            map(_is_as_read, arrays, self.inputs, self._as_they_are, self._any_strides)
        ):
            return cast("list[np.ndarray]", arrays)
        names = [spec.name for spec in self.inputs]
        unknown = [name for name in inputs if name not in names]
        if unknown:
            raise InputError(f'there is no input "{unknown[0]}"; expected {_listed(names)}')
        found: list[np.ndarray] = []
        for spec in self.inputs:
            if spec.name not in inputs:
                raise InputError(f'input "{spec.name}" is missing; found {_listed(list(inputs))}')
            require_unmasked(inputs[spec.name], f'input "{spec.name}"')
            array = typed_array(np.asarray(inputs[spec.name]), spec.dtype)
            _check(array, spec, "input")
            self._check_value(array, spec)
            # What shares memory lies where it does, with whatever strides.
            aligned = np.require(array, spec.dtype, "A" if spec.name in self._shared.inputs else ["C", "A"])
            found.append(sub_byte.extended(aligned))
        return found

    def _must_look_at(self, spec: TensorSpec) -> bool:
        """Whether the numbers of an input decide if it can be taken."""
        return spec.name in self._required or sub_byte.is_integer(spec.dtype)

    def _check_apart(self, sources: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """No input or output may lie in an arena that the caller lends, nor one arena in the other."""
        lent = {space: region.data for space, region in self._arenas.items() if space in self._lent}
        for what, specs, arrays in (("input", self.inputs, sources), ("output", self.outputs, results)):
            for spec, array in zip(specs, arrays, strict=True) if lent else ():
                for space, data in lent.items():
                    if np.may_share_memory(array, data):
                        raise InputError(
                            f'{what} "{spec.name}" overlaps {arena_name(space)}, '
                            "which is written while the model runs"
                        )
        arena, spill = lent.get(ARENA_SPACE), lent.get(SPILL_SPACE)
        if arena is not None and spill is not None and np.may_share_memory(arena, spill):
            raise InputError(f"{arena_name(SPILL_SPACE)} overlaps {arena_name(ARENA_SPACE)}")

    def _check_value(self, array: np.ndarray, spec: TensorSpec) -> None:
        required = self._required.get(spec.name)
        if required is not None and not same_bits(array, required):
            raise InputError(
                f'input "{spec.name}" is {array.tolist()}, but the model was compiled for {required.tolist()} as '
                "its value, which decides shapes"
            )

    def _checked_outputs(self, out: Mapping[str, np.ndarray], sources: list[np.ndarray]) -> list[np.ndarray]:
        """The arrays to write, in order: the caller's, or fresh ones; nothing yet for what shares memory."""
        if not out and not self._buffers:
            return [np.empty(spec.shape, spec.dtype) for spec in self.outputs]
        names = [spec.name for spec in self.outputs]
        unknown = [name for name in out if name not in names]
        if unknown:
            raise InputError(f'there is no output "{unknown[0]}"; expected {_listed(names)}')
        results: list[np.ndarray] = []
        for spec in self.outputs:
            if spec.name not in out:
                is_shared = spec.name in self._shared.outputs
                results.append(_NOTHING if is_shared else np.empty(spec.shape, spec.dtype))
                continue
            array = out[spec.name]
            _require_array(array, spec)
            _check(array, spec, "output")
            wrong = _why_not_written(array, spec.name in self._shared.any_strides)
            if wrong is not None:
                raise InputError(
                    f'output "{spec.name}" must be an aligned, C-contiguous, writable array of the native byte order, '
                    f"found one {wrong}"
                )
            if not self._buffers and any(np.may_share_memory(array, other) for other in (*sources, *results)):
                raise InputError(f'output "{spec.name}" overlaps an input or another output')
            results.append(array)
        return results


_NOTHING = np.empty(0, np.uint8)


def _is_as_read(array: object, spec: TensorSpec, numbers_do_not_matter: bool, any_strides: bool) -> bool:
    """Whether an input can be taken as it is, without a further look at it."""
    return (
        numbers_do_not_matter
        and type(array) is np.ndarray
        and array.dtype == spec.dtype
        and array.shape == spec.shape
        and (any_strides or array.flags.c_contiguous)
        and array.flags.aligned
    )


def same_bits(array: np.ndarray, required: np.ndarray) -> bool:
    """Whether an array has the shape and the bits of `required`, in any byte order: NaN is NaN, -0 is not 0."""
    native = array.astype(required.dtype, copy=False)
    return native.shape == required.shape and native.tobytes() == required.tobytes()


def _allocated(main: FuncOp, nbytes: int, space: int) -> np.ndarray:
    try:
        return aligned_bytes(nbytes)
    except MemoryError:
        message = f"out of memory: {arena_name(space)} takes {nbytes} bytes"
        raise RunError(message, place=place_of_op(main)) from None


def lent_address(arena: Buffer | np.ndarray | None, space: int = ARENA_SPACE) -> tuple[int, int] | None:
    """Where the caller's arena begins and how many bytes it has, to tell two apart; None for none."""
    if arena is None:
        return None
    data = _lent_bytes(arena, space)
    return data.ctypes.data, data.nbytes


def _lent_bytes(arena: Buffer | np.ndarray, space: int) -> np.ndarray:
    """The caller's memory as bytes; `InputError` if it can't be written as such."""
    try:
        view = memoryview(cast("Buffer", arena))
    except (TypeError, ValueError, BufferError):
        raise InputError(
            f"expected a writable buffer of bytes as {arena_name(space)}, found {type(arena).__name__}"
        ) from None
    holds_objects = "O" in re.sub(":[^:]*:", "", view.format)  # without the names of fields
    if view.readonly or not view.c_contiguous or holds_objects:
        found = (
            "one that is read-only"
            if view.readonly
            else "one of Python objects"
            if holds_objects
            else "one with gaps between its elements"
        )
        raise InputError(f"expected a writable, contiguous buffer as {arena_name(space)}, found {found}")
    return np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _first_bytes(data: np.ndarray, nbytes: int, space: int) -> np.ndarray:
    """The part of the caller's memory that is used; `InputError` if it is too small or misaligned."""
    if data.nbytes < nbytes:
        raise InputError(f"{arena_name(space)} has {data.nbytes} bytes, expected at least {nbytes}")
    beyond = data.ctypes.data % ALIGNMENT
    if nbytes and beyond:
        raise InputError(
            f"{arena_name(space)} begins {beyond} bytes after a multiple of {ALIGNMENT}, "
            "expected an address that is one"
        )
    return data[:nbytes]


def require_mapping(arrays: object, what: str) -> None:
    """`InputError` unless arrays are given by name."""
    if not isinstance(arrays, dict | Mapping):
        raise InputError(f"expected {what} as arrays by name, found {type(arrays).__name__}")


def require_unmasked(array: object, what: str) -> None:
    """`InputError` for an array whose elements are valid in part: models read and write all of them."""
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array, expected one without a mask, such as .filled() gives")


def _why_not_written(array: np.ndarray, any_strides: bool) -> str | None:
    """What keeps a run from writing to an array of the right type, if anything does."""
    flags = array.flags
    if not flags.writeable:
        return "that is read-only"
    if not array.dtype.isnative:
        return "of the other byte order"
    if not flags.aligned:
        return "that is not aligned"
    if any_strides or flags.c_contiguous:
        return "with several elements in one place" if overlaps_itself(array) else None
    return "that is not C-contiguous"


def _require_array(array: object, spec: TensorSpec) -> None:
    require_unmasked(array, f'output "{spec.name}"')
    if not isinstance(array, np.ndarray):
        raise InputError(
            f'output "{spec.name}" is of type {type(array).__name__}, expected a numpy array to write to'
        )


def _check(array: np.ndarray, spec: TensorSpec, what: str) -> None:
    """Dtype (of any byte order) and shape must be as declared."""
    if array.dtype.newbyteorder("=") != spec.dtype:
        raise InputError(f'{what} "{spec.name}" has the type {array.dtype}, expected {spec.dtype}')
    if array.shape != spec.shape:
        raise InputError(
            f'{what} "{spec.name}" has the shape {list(array.shape)}, expected {list(spec.shape)}'
        )


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "none"


class _Timer:
    """Makes the steps of each operation of @main one that takes its time; a wave of launches is one, too."""

    def __init__(self, builder: PlanBuilder):
        self._plan = builder.plan
        self._done = 0

    def __call__(self, op: Operation) -> None:
        steps = self._plan[self._done :]
        last = self._plan[-1] if self._plan else None
        if steps:
            self._plan[self._done :] = [Timed([op], steps)]
            self._done = len(self._plan)
        elif isinstance(last, Timed) and wave_of(op) is not None and wave_of(op) == wave_of(last.ops[0]):
            last.ops.append(op)


class _Poisoner:
    """Emits the steps that fill dead bytes, after each operation of @main.

    A first, dry translation says where the buffers are.
    """

    def __init__(self, program: Program, main: FuncOp, arguments: Sequence[Value], builder: PlanBuilder):
        frame = Frame(program, builder, program.pool(main), (main,))
        with program.memory.dry():
            frame.run_function(main, arguments)
        extents: dict[SSAValue, Interval] = {}
        for value, held in frame.values.items():
            if isinstance(held, Descriptor) and held.view.size:
                extents[value] = held.view.span()
        self._builder = builder
        arenas = [a for p, a in enumerate(main.body.block.args) if argument_attribute(main, p, "mlopt.arena")]
        self._dead = [
            (frame.memref(arena).region, dead_after(main.body.block, arena, extents)) for arena in arenas
        ]

    def __call__(self, op: Operation) -> None:
        for region, dead in self._dead:
            for begin, end in dead.get(op, ()):
                target = View(region, begin, (end - begin,), (1,), np.dtype(np.uint8))
                self._builder.call(np.copyto, target, np.uint8(POISON))
