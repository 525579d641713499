"""What a run-time function is: its operands, its parameters, its checks, its scratch, and what it computes.

A run-time function `@mlopt_rt_*` is an algorithm without structured form. `kernel.call` calls it on tensors,
`func.call` of a declaration with `mlopt.runtime` on buffers; the engine and the reference evaluation of the kernel
level run the same code. An object of a `RuntimeFunction` class stands for the calls of one declaration: it knows the
shapes, the element types and the parameters, checks them when it is made, and then computes on any arrays of these
types.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from mlopt.diagnostics import UnsupportedError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Parameter: TypeAlias = bool | int | float | str | tuple[int, ...]
"""A static parameter; `bool` is a flag, given by being there."""

PREFIX = "mlopt_rt_"
"""How the name of every run-time function begins."""


class Buffer(NamedTuple):
    """The shape and the element type of an operand or of scratch. Integers are signless: numpy's signed ones."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class RuntimeFunction(ABC):
    """The calls of a run-time function with operands of certain types and certain parameters.

    A class says, beside its docstring, which is the documentation of the function:

    - `NAME`: `mlopt_rt_...`.
    - `READS`: the names of the operands that it only reads, the `ins` of a `kernel.call`, in order; a scalar is of
      rank 0.
    - `WRITES`: the names of the operands that it writes, the `outs`. It may read them too: they hold the initial
      values.
    - `PARAMETERS`: name → type of the attributes of the call: `int`, `float`, `str`, `tuple` (of integers), or `bool`
      for a flag, which may be missing. They are part of the declaration, so that calls of other parameters are calls
      of another declaration.
    """

    NAME: ClassVar[str]
    READS: ClassVar[tuple[str, ...]] = ()
    WRITES: ClassVar[tuple[str, ...]] = ()
    PARAMETERS: ClassVar[Mapping[str, type]] = {}

    def __init__(self, operands: Sequence[Buffer], parameters: Mapping[str, Parameter]):
        """`UnsupportedError` (without a place) for operands or parameters that the function does not take."""
        names = (*self.READS, *self.WRITES)
        self.require(
            len(operands) == len(names),
            f"expected {len(names)} operands ({', '.join(names)}), found {len(operands)}",
        )
        self.operands = dict(zip(names, operands, strict=True))
        self.parameters = _checked_parameters(self, parameters)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raise `UnsupportedError`, through `require`, for operands or parameters that the function does not take."""

    def scratch(self) -> Sequence[Buffer]:
        """The temporaries that `run` is given: all memory that it needs and whose size grows with the operands'."""
        return ()

    @abstractmethod
    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        """Compute; writes only to `writes` and `scratch`, allocates nothing large, keeps nothing for the next call.

        All arrays are C-contiguous. `reads` and `writes` have the types of the operands, and those written overlap no
        other; `scratch` holds uninitialised arrays as `scratch()` asks for them. Raises `RunError` (without a place,
        before it writes to `writes`) for values that it can't compute on, such as indices out of bounds.
        """

    # For subclasses

    def require(self, holds: bool, message: str) -> None:
        """`UnsupportedError` that names the function, unless a condition holds."""
        if not holds:
            raise UnsupportedError(f"@{self.NAME}: {message}")

    def integer(self, name: str) -> int:
        """An integer parameter."""
        value = self.parameters[name]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        """A parameter that is a word."""
        value = self.parameters[name]
        assert isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """Whether a flag is there."""
        return self.parameters[name] is True

    def integers(self, name: str) -> tuple[int, ...]:
        """A parameter that is a list of integers."""
        value = self.parameters[name]
        assert isinstance(value, tuple)
        return value

    def number(self, name: str) -> float:
        """A floating-point parameter."""
        value = self.parameters[name]
        assert isinstance(value, float)
        return value


def _checked_parameters(
    function: RuntimeFunction, parameters: Mapping[str, Parameter]
) -> dict[str, Parameter]:
    """The parameters with flags filled in; all must be there, of their types, and no others."""
    for name in parameters:
        function.require(
            name in function.PARAMETERS,
            f"there is no parameter '{name}', expected {', '.join(function.PARAMETERS) or 'none'}",
        )
    found: dict[str, Parameter] = {}
    for name, type in function.PARAMETERS.items():
        function.require(name in parameters or type is bool, f"the parameter '{name}' is missing")
        value = parameters.get(name, False)
        function.require(
            value.__class__ is type, f"the parameter '{name}' must be {_KINDS[type]}, found {value!r}"
        )
        found[name] = value
    return found


_KINDS: Mapping[type, str] = {
    bool: "a flag (unit)",
    int: "an integer",
    float: "a floating-point number",
    str: "a string",
    tuple: "a list of integers",
}
"""What a parameter of each type is, for messages and the documentation."""


def kind_of(type: type) -> str:
    """What a parameter of a type is, in words."""
    return _KINDS[type]
