"""What is imported when it is first needed: names of a package, and tables that modules fill.

Python's import locks hold here too: threads that need the same module wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, overload

_K = TypeVar("_K")
_V = TypeVar("_V")
_D = TypeVar("_D")


def names_on_demand(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package some names of which are loaded, once, with the module that they are from.

    `modules`: module → the names that the package has from it.
    """
    sources = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(sources[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


class TableOnDemand(dict[_K, _V]):
    """A table of which a part is loaded when a key is not found in what is there.

    `modules` enter that part into the table when they are imported. They may import each other and whatever enters the
    rest; iteration and length show only what is loaded.
    """

    def __init__(self, modules: Iterable[str] = ()):
        super().__init__()
        self._modules = tuple(modules)

    def expect(self, modules: Iterable[str]) -> None:
        """Name more modules that enter something."""
        self._modules += tuple(modules)

    def load(self) -> None:
        """Import what is not loaded yet."""
        modules = self._modules
        for module in modules:
            import_module(module)
        if self._modules is modules:
            self._modules = ()

    def __missing__(self, key: _K) -> _V:
        self.load()
        if super().__contains__(key):
            return super().__getitem__(key)
        raise KeyError(key)

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
