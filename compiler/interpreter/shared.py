"""Memory that an input and an output share: what a donated input gives up, and where in it both lie.

It is the caller's array for the output if there is one, else that of the input if both are the same, else new. An
input that does not lie there yet is copied there first, and an output whose array has other strides is copied at the
end: what a caller may pass does not depend on what was placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from mlopt.diagnostics import InputError
from mlopt.interpreter.poison import POISON
from mlopt.interpreter.views import Slot, row_major
from mlopt.ir.donations import AxisPart, Donation


class Laid(NamedTuple):
    """Memory of a run: its bytes from the beginning on, where output and input lie in it, and how much was copied."""

    memory: np.ndarray
    result: np.ndarray
    place: np.ndarray
    copied: int = 0


class SharedBuffer(NamedTuple):
    """An argument of `@main` that is donated, or of which the input or output is a part only.

    - `input`, `output`: the names of what lies in it; at least one of them. `donation`: of the input.
    - `shape`, `dtype`: of the whole, which lies in row-major order, at the interface.
    - `input_part`, `output_part`: None for all of it. An output begins where the whole does.
    """

    input: str | None
    output: str | None
    donation: Donation | None
    shape: tuple[int, ...]
    dtype: np.dtype
    input_part: AxisPart | None
    output_part: AxisPart | None
    slot: Slot

    def takes(self, output: str) -> bool:
        """Whether the input may lie in the array for that output."""
        return output == self.output or (self.donation is not None and self.donation.takes(output))

    def new(self) -> Laid:
        """New memory, whose contents are undefined."""
        whole = np.empty(self.shape, self.dtype)
        return Laid(_bytes_of(whole), _part(whole, self.output_part), _part(whole, self.input_part))

    def lay_out(self, given: np.ndarray | None, target: np.ndarray | None) -> Laid:
        """Where all lies in a run, the input in its place.

        `given` is the input; `target` the caller's array for the output, if there is one. What was copied is that of
        the input, and what will be of the output, if it does not lie in `target`.
        """
        if target is not None and _has_strides(target, row_major(self.shape, target.itemsize)):
            inside = None if self.input_part is None else self.input_part.within(self.output_part)
            laid = Laid(_bytes_of(target), target, _part(target, inside))
        elif target is None and given is not None and given.shape == self.shape and given.flags.c_contiguous:
            laid = Laid(_bytes_of(given), _part(given, self.output_part), given)
        else:
            laid = self.new()
        copied = 0 if target is None or laid.result is target else target.nbytes
        if given is not None and not _is_same(given, laid.place):
            np.copyto(laid.place, given)
            copied += given.nbytes
        return laid._replace(copied=copied)


class Arranged(NamedTuple):
    """What a run is given: the inputs, the outputs (both by name), memory for each buffer, and copies at the end."""

    inputs: Mapping[str, np.ndarray]
    results: Mapping[str, np.ndarray]
    laid: Sequence[Laid]
    late: Sequence[tuple[np.ndarray, np.ndarray]]
    copied: int

    def finish(self) -> None:
        """Copy outputs that lie elsewhere to where the caller wants them."""
        for source, target in self.late:
            np.copyto(target, source)


class SharedMemory:
    """The buffers of a session that are shared, or whose memory inputs give up."""

    def __init__(self, buffers: Sequence[SharedBuffer]):
        self.buffers = tuple(buffers)
        self.inputs = {buffer.input for buffer in buffers if buffer.input is not None}
        self.outputs = {buffer.output: buffer for buffer in buffers if buffer.output is not None}
        donated = (buffer.donation.output for buffer in buffers if buffer.donation is not None)
        self.any_strides = self.outputs.keys() | {name for name in donated if name is not None}

    def arrange(
        self,
        raw: Mapping[str, object],
        inputs: Mapping[str, np.ndarray],
        out: Mapping[str, np.ndarray],
        results: Mapping[str, np.ndarray],
    ) -> Arranged:
        """Lay out a run. `inputs` are checked and converted from `raw`; `results` has the outputs that are apart.

        `InputError` for an input that can't be written though it is donated, and if memory that may be written overlaps
        another input or output.
        """
        copied = 0
        for name in self.inputs:
            given = raw[name]
            if isinstance(given, np.ndarray):
                array = cast("np.ndarray", given)
                if not array.flags.writeable:
                    raise InputError(
                        f'input "{name}" is donated, expected a writable array, found a read-only one'
                    )
                copied += 0 if np.may_share_memory(array, inputs[name]) else inputs[name].nbytes
        check_apart(self._claims(inputs, out))
        arrays, made = dict(inputs), dict(results)
        for buffer in self.buffers:
            if (
                buffer.input is not None
                and buffer.output is None
                and self._lies_in(buffer, arrays[buffer.input], out)
            ):
                arrays[buffer.input] = arrays[buffer.input].copy()
                copied += arrays[buffer.input].nbytes
        laid = [
            buffer.lay_out(
                None if buffer.input is None else arrays[buffer.input],
                None if buffer.output is None else out.get(buffer.output),
            )
            for buffer in self.buffers
        ]
        for buffer, memory in zip(self.buffers, laid, strict=True):
            if buffer.output is not None:
                made[buffer.output] = memory.result
        for name in self.any_strides - self.outputs.keys():
            if name in out and not out[name].flags.c_contiguous:
                made[name] = np.empty(out[name].shape, out[name].dtype)
                copied += out[name].nbytes
        late = [
            (made[name], out[name])
            for name in out
            if name in self.any_strides and made[name] is not out[name]
        ]
        return Arranged(arrays, made, laid, late, copied + sum(memory.copied for memory in laid))

    def poison_before(self, arranged: Arranged) -> None:
        """Fill what is of an output but not of its input."""
        for buffer, laid in zip(self.buffers, arranged.laid, strict=True):
            if buffer.output is not None and buffer.input_part is not None:
                axis, offset, size = buffer.input_part
                rest = laid.result.shape[axis] - offset - size
                for part in (AxisPart(axis, 0, offset), AxisPart(axis, offset + size, rest)):
                    _fill_with_poison(part.of(laid.result))

    def poison_after(self, arranged: Arranged) -> None:
        """Fill what is donated and holds no output."""
        for buffer, laid in zip(self.buffers, arranged.laid, strict=True):
            if buffer.output is None:
                _fill_with_poison(laid.place)

    def _lies_in(self, buffer: SharedBuffer, given: np.ndarray, out: Mapping[str, np.ndarray]) -> bool:
        return any(buffer.takes(name) and np.may_share_memory(given, array) for name, array in out.items())

    def _claims(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray]) -> Iterator[Claim]:
        """The memory of the caller's in a run; an input and the output that it may lie in are one."""
        spans = {name: _span(array) for name, array in out.items()}
        for buffer in self.buffers:
            if buffer.input is None:
                continue
            given = inputs[buffer.input]
            within = [name for name in spans if buffer.takes(name) and np.may_share_memory(given, out[name])]
            low, high = _span(given)
            if within:
                spans[within[0]] = (min(low, spans[within[0]][0]), max(high, spans[within[0]][1]))
            else:
                yield Claim(f'input "{buffer.input}", which is donated,', low, high, True)
        for name, array in inputs.items():
            if name not in self.inputs:
                yield Claim(f'input "{name}"', *_span(array), False)
        for name, span in spans.items():
            yield Claim(f'the array for output "{name}"', *span, True)


class Claim(NamedTuple):
    """Memory of the caller's from byte `low` to `high`, what it is for, and whether the run may write it."""

    what: str
    low: int
    high: int
    is_written: bool


def check_apart(claims: Iterable[Claim]) -> None:
    """`InputError` if memory that may be written overlaps any other."""
    furthest: dict[bool, Claim] = {}
    for claim in sorted(claims, key=lambda claim: (claim.low, claim.high)):
        if claim.low == claim.high:
            continue
        for other in furthest.values():
            if claim.low < other.high and (other.is_written or claim.is_written):
                first, second = (claim, other) if claim.is_written else (other, claim)
                raise InputError(f"{first.what} overlaps {second.what}")
        before = furthest.get(claim.is_written)
        if before is None or before.high < claim.high:
            furthest[claim.is_written] = claim


def _span(array: np.ndarray) -> tuple[int, int]:
    """The first byte of an array, and the one behind its last."""
    if not array.size:
        return 0, 0
    low = high = int(array.__array_interface__["data"][0])
    for size, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min((size - 1) * stride, 0), high + max((size - 1) * stride, 0)
    return low, high + array.itemsize


def _fill_with_poison(array: np.ndarray) -> None:
    array[...] = np.frombuffer(bytes([POISON]) * array.itemsize, array.dtype)[0]


def _part(whole: np.ndarray, part: AxisPart | None) -> np.ndarray:
    return whole if part is None else part.of(whole)


def _has_strides(array: np.ndarray, expected: Iterable[int]) -> bool:
    sizes = zip(array.shape, array.strides, expected, strict=True)
    return not array.size or all(size == 1 or stride == step for size, stride, step in sizes)


def _is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one shape are the same elements of memory."""
    if a is b or not a.size:
        return True
    return a.__array_interface__["data"] == b.__array_interface__["data"] and _has_strides(a, b.strides)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory from the first byte of an array to its last, gaps included."""
    if array.flags.c_contiguous or not array.size:
        return array.reshape(-1).view(np.uint8)
    first = array[(slice(1),) * array.ndim].reshape(-1).view(np.uint8)
    low, high = _span(array)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,))
