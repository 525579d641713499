"""Memory that an input and an output share: what a donated input gives up, and where in it both lie.

It is the caller's array for the output if there is one, else that of the input if both are the same, else new. An
input that does not lie there yet is copied there first, and an output whose array has other strides is copied at the
end: what a caller may pass does not depend on what was placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

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

    def candidates(self, out: Mapping[str, np.ndarray]) -> Iterable[str]:
        """The outputs in whose arrays the input may lie."""
        if self.donation is not None and self.donation.output is None:
            return out
        named = self.output if self.donation is None else self.donation.output
        return (named,) if named is not None and named in out else ()

    def new(self) -> Laid:
        """New memory, whose contents are undefined."""
        whole = np.empty(self.shape, self.dtype)
        return Laid(
            _bytes_of(whole, *_span(whole)), _part(whole, self.output_part), _part(whole, self.input_part)
        )

    def lay_out(self, given: np.ndarray | None, target: np.ndarray | None, spans: Spans) -> Laid:
        """Where all lies in a run, the input in its place.

        `given` is the input; `target` the caller's array for the output, if there is one. What was copied is that of
        the input, and what will be of the output, if it does not lie in `target`.
        """
        strides = row_major(self.shape, self.dtype.itemsize)
        if target is not None and _has_strides(target, strides):
            low, high = spans.of(target)
            if given is not None and _has_strides(given, strides):
                offset = (
                    0 if self.input_part is None else self.input_part.offset * strides[self.input_part.axis]
                )
                if spans.of(given)[0] == low + offset or not given.size:
                    return Laid(_bytes_of(target, low, high), target, given)
            inside = None if self.input_part is None else self.input_part.within(self.output_part)
            laid = Laid(_bytes_of(target, low, high), target, _part(target, inside))
        elif target is None and given is not None and given.shape == self.shape and given.flags.c_contiguous:
            return Laid(_bytes_of(given, *spans.of(given)), _part(given, self.output_part), given)
        else:
            laid = self.new()
        copied = 0 if target is None or laid.result is target else target.nbytes
        if given is not None:
            np.copyto(laid.place, given)
            copied += given.nbytes
        return laid._replace(copied=copied)


class Spans:
    """The first byte of each array, and the one behind its last, looked up once in a run."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, int]] = {}

    def of(self, array: np.ndarray) -> tuple[int, int]:
        """Of an array that lives as long as this."""
        found = self._found.get(id(array))
        if found is None:
            found = self._found[id(array)] = _span(array)
        return found

    def overlap(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two arrays may share memory."""
        (a_low, a_high), (b_low, b_high) = self.of(a), self.of(b)
        return a_low < b_high and b_low < a_high


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
        self.slots = {buffer.slot for buffer in buffers}
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
        spans = Spans()
        for name in self.inputs:
            given = raw[name]
            if isinstance(given, np.ndarray):
                array = cast("np.ndarray", given)
                if not array.flags.writeable:
                    raise InputError(
                        f'input "{name}" is donated, expected a writable array, found a read-only one'
                    )
                if array is not inputs[name] and not spans.overlap(array, inputs[name]):
                    copied += inputs[name].nbytes
        _check_apart(self._claims(inputs, out, spans))
        arrays, made = dict(inputs), dict(results)
        for buffer in self.buffers:
            if (
                buffer.input is not None
                and buffer.output is None
                and self._lies_in(buffer, arrays[buffer.input], out, spans)
            ):
                arrays[buffer.input] = arrays[buffer.input].copy()
                copied += arrays[buffer.input].nbytes
        laid = [
            buffer.lay_out(
                None if buffer.input is None else arrays[buffer.input],
                None if buffer.output is None else out.get(buffer.output),
                spans,
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

    def _lies_in(
        self, buffer: SharedBuffer, given: np.ndarray, out: Mapping[str, np.ndarray], spans: Spans
    ) -> bool:
        return any(spans.overlap(given, out[name]) for name in buffer.candidates(out))

    def _claims(
        self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray], spans: Spans
    ) -> list[_Claim]:
        """The memory of the caller's in a run; an input and the output that it may lie in are one."""
        written = {name: spans.of(array) for name, array in out.items()}
        claims: list[_Claim] = []
        for buffer in self.buffers:
            if buffer.input is None:
                continue
            given = inputs[buffer.input]
            low, high = spans.of(given)
            within = next((name for name in buffer.candidates(out) if spans.overlap(given, out[name])), None)
            if within is None:
                claims.append((low, high, True, "donated", buffer.input))
            else:
                written[within] = (min(low, written[within][0]), max(high, written[within][1]))
        for name, array in inputs.items():
            if name not in self.inputs:
                claims.append((*spans.of(array), False, "input", name))
        claims += [(*span, True, "output", name) for name, span in written.items()]
        return claims


_Claim: TypeAlias = tuple[int, int, bool, str, str]
"""Memory of the caller's: from which byte to which, whether the run may write it, and what it is for."""

_CLAIMS = {
    "donated": 'input "{}", which is donated,',
    "input": 'input "{}"',
    "output": 'the array for output "{}"',
}


def _check_apart(claims: list[_Claim]) -> None:
    """`InputError` if memory that may be written overlaps any other."""
    furthest: dict[bool, _Claim] = {}
    for claim in sorted(claims):
        low, high, is_written, _, _ = claim
        if low == high:
            continue
        for other in furthest.values():
            if low < other[1] and (other[2] or is_written):
                first, second = (claim, other) if is_written else (other, claim)
                what, beside = (_CLAIMS[kind].format(name) for _, _, _, kind, name in (first, second))
                raise InputError(f"{what} overlaps {beside}")
        before = furthest.get(is_written)
        if before is None or before[1] < high:
            furthest[is_written] = claim


def _span(array: np.ndarray) -> tuple[int, int]:
    """The first byte of an array, and the one behind its last."""
    if not array.size:
        return 0, 0
    low = high = int(array.__array_interface__["data"][0])
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    for size, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min((size - 1) * stride, 0), high + max((size - 1) * stride, 0)
    return low, high + array.itemsize


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether bytes of an array may be of several elements: an axis steps over less than lies within the others."""
    if array.flags.c_contiguous or not array.size:
        return False
    within = array.itemsize
    for step, size in sorted(
        (abs(step), size) for size, step in zip(array.shape, array.strides, strict=True)
    ):
        if size > 1:
            if step < within:
                return True
            within += step * (size - 1)
    return False


def _fill_with_poison(array: np.ndarray) -> None:
    array[...] = np.frombuffer(bytes([POISON]) * array.itemsize, array.dtype)[0]


def _part(whole: np.ndarray, part: AxisPart | None) -> np.ndarray:
    return whole if part is None else part.of(whole)


def _has_strides(array: np.ndarray, expected: tuple[int, ...]) -> bool:
    if array.strides == expected or not array.size:
        return True
    sizes = zip(array.shape, array.strides, expected, strict=True)
    return all(size == 1 or stride == step for size, stride, step in sizes)


class _Memory:
    """Bytes of an array as numpy asks for them, which keep the array alive."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: np.ndarray, low: int, high: int):
        self.__array_interface__ = {
            "data": (low, False),
            "shape": (high - low,),
            "typestr": "|u1",
            "version": 3,
        }
        self.array = array


def _bytes_of(array: np.ndarray, low: int, high: int) -> np.ndarray:
    """The memory of an array from its first byte to its last, gaps included."""
    return np.asarray(_Memory(array, low, high)) if low < high else np.empty(0, np.uint8)
