"""What is made when it is first needed: names of a package, tables that modules fill, methods of dataclasses.

Python's import locks hold here too: threads that need the same module wait for it.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import FunctionType
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


class MethodOnDemand:
    """A method that a dataclass gets: its text is compiled when it is first looked up, and it takes this one's place.

    Whoever gets it, an instance that is called or `inspect.signature`, has the function itself.
    """

    __slots__ = ("__name__", "_function", "_make")

    def __init__(self, name: str, make: Callable[[], FunctionType]):
        self.__name__ = name
        self._make: Callable[[], FunctionType] | None = make
        self._function: FunctionType | None = None

    def compile(self) -> FunctionType:
        """The function; two threads may compile it, and get one of two that are the same."""
        make = self._make
        if make is not None:
            self._function = make()
            self._make = None
        assert self._function is not None
        return self._function

    def __get__(self, instance: object, owner: type) -> Any:
        function = self.compile()
        for cls in owner.__mro__:
            if vars(cls).get(self.__name__) is self:
                function.__qualname__ = f"{cls.__qualname__}.{self.__name__}"
                setattr(cls, self.__name__, function)
        return function.__get__(instance, owner)

    def __call__(self, *arguments: Any) -> Any:
        """For what has wrapped the method, as dataclasses do with `__repr__`."""
        return self.compile()(*arguments)

    @property
    def __signature__(self) -> inspect.Signature:
        """Likewise, for `inspect.signature`."""
        return inspect.signature(self.compile())


def defer_methods_of_dataclasses(*packages: str) -> None:
    """Let the dataclasses of some packages that are made from now on have methods on demand.

    Python compiles four to six methods of each from text, of which most are never called. It has nothing to defer from
    3.13 on, where one text holds them all.
    """
    python: dict[str, Any] = dataclasses.__dict__
    create: Any = python.get("_create_fn")
    process: Any = python["_process_class"]
    if create is None:
        return

    def create_on_demand(
        name: str, *arguments: Any, globals: dict[str, Any] | None = None, **keywords: Any
    ) -> Any:
        def make() -> FunctionType:
            return create(name, *arguments, globals=globals, **keywords)

        module: str = (globals or {}).get("__name__", "")
        return MethodOnDemand(name, make) if module.partition(".")[0] in packages else make()

    def process_without_signature(cls: type, *arguments: Any) -> type:
        # The text that a class without one would get has the signature of `__init__`.
        if not cls.__doc__ and cls.__module__.partition(".")[0] in packages:
            cls.__doc__ = cls.__name__
        return process(cls, *arguments)

    python["_create_fn"] = create_on_demand
    python["_process_class"] = process_without_signature
