"""Tables that modules fill when they are imported, where not all of these modules are needed each time."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TypeVar, overload

_K = TypeVar("_K")
_V = TypeVar("_V")
_D = TypeVar("_D")


class TableOnDemand(dict[_K, _V]):
    """A table of which a part is loaded when a key is not found in what is there.

    `modules` enter that part into the table when they are imported. They may import each other and whatever enters the
    rest; iteration and length show only what is loaded.
    """

    def __init__(self, modules: Iterable[str]):
        super().__init__()
        self._modules = list(modules)

    def load(self) -> None:
        """Import what is not loaded yet."""
        while self._modules:
            import_module(self._modules.pop(0))

    def __missing__(self, key: _K) -> _V:
        if not self._modules:
            raise KeyError(key)
        self.load()
        return self[key]

    def __contains__(self, key: object) -> bool:
        if not super().__contains__(key):
            self.load()
        return super().__contains__(key)

    @overload
    def get(self, key: _K, default: None = None, /) -> _V | None: ...
    @overload
    def get(self, key: _K, default: _V | _D, /) -> _V | _D: ...
    def get(self, key: _K, default: object = None, /) -> object:
        """The entry of a key, or `default` if no module enters one."""
        try:
            return self[key]
        except KeyError:
            return default
