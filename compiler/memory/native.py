"""Compiled kernels: from the source of a module, through LLVM, to functions of this process.

What is compiled is kept in a directory for caches, as an object file for this processor; a later process links it
within milliseconds. `llvmlite` is imported when a kernel is first asked for. Without it, or where it fails, there is
no native kernel, and the callers run the same source as Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from array import array
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mlopt.diagnostics import MloptError
from mlopt.files import replacing
from mlopt.memory import translation

CACHE_VARIABLE = "MLOPT_CACHE_DIR"
"""The environment variable that names the directory for compiled kernels."""

_LARGEST = (1 << 61) - 1
"""Twice as much is still a 64-bit integer."""

_WATCH_SECONDS = 0.1

_STACK_BYTES = 64 << 20
"""Of a thread for native calls: address space, of which only what is used becomes memory."""


class NativeKernel:
    """The functions of a kernel, compiled. They are given a state whose arrays are `array("q")`."""

    def __init__(self, module: ModuleType, engine: Any, library: Any):
        self._module = module
        self._engine = engine  # keeps the code in memory
        self._library = library

    def call(
        self, name: str, state: Any, *arguments: int, watch: Callable[[], object], stop: str | None = None
    ) -> int:
        """Call a function that returns an integer, with the state and integers; the state is as it left it.

        The call runs in a thread, while this one calls `watch` now and then, with the integers of the state brought
        up to date. On an exception, such as a KeyboardInterrupt, the field `stop` is set to zero, for the function
        to see, before the exception goes on. Without `stop`, the call runs here.
        """
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * len(arguments))(
            self._library[name]
        )
        names = [field.name for field in fields(state)]
        values = [getattr(state, name) for name in names]
        words = [value.buffer_info()[0] if isinstance(value, array) else value for value in values]
        struct = (ctypes.c_int64 * len(words))(*words)

        def update() -> None:
            for position, (name, value) in enumerate(zip(names, values, strict=True)):
                if not isinstance(value, array):
                    setattr(state, name, struct[position])

        if stop is None:
            result = function(ctypes.addressof(struct), *arguments)
        else:
            results: list[int] = []
            before = threading.stack_size(_STACK_BYTES)
            # `Thread.join` can't be relied on after it was interrupted.
            done = threading.Event()

            def run() -> None:
                results.append(function(ctypes.addressof(struct), *arguments))
                done.set()

            threading.Thread(target=run).start()
            threading.stack_size(before)
            try:
                while not done.wait(_WATCH_SECONDS):
                    update()
                    watch()
            except BaseException:
                struct[names.index(stop)] = 0
                done.wait()
                raise
            result = results[0]
        update()
        return result


def holds(number: int) -> bool:
    """Whether sums up to `number` are safe in compiled code."""
    return number <= _LARGEST


_loaded: dict[str, NativeKernel | None] = {}


def load(module: ModuleType) -> NativeKernel | None:
    """The compiled form of a kernel; None where llvmlite is not installed, or can't do it on this machine."""
    name = module.__name__
    if name not in _loaded:
        try:
            _loaded[name] = _load(module)
        except (ImportError, OSError, RuntimeError):
            _loaded[name] = None
    return _loaded[name]


def _load(module: ModuleType) -> NativeKernel:
    llvm: Any = import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    path = _cache_path(llvm, module)
    code = None if path is None else _read(path)
    if code is None:
        code = _compile(llvm, module)
        if path is not None:
            _write(path, code)
    engine = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    for name in _functions(module):
        builder.export_symbol(name)
    return NativeKernel(module, engine, builder.link(engine, module.__name__))


def _functions(module: ModuleType) -> list[str]:
    """The names of the functions that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text(encoding="utf-8")


def _compile(llvm: Any, module: ModuleType) -> bytes:
    """The object file of a module, optimised for this processor."""
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    code = llvm.parse_assembly(translation.translate(_source(module)))
    code.verify()
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(code, builder)
    return target.emit_object(code)


def _cache_path(llvm: Any, module: ModuleType) -> Path | None:
    """Where a kernel is kept: the name tells the source, the translator, LLVM and the processor apart."""
    directory = os.environ.get(CACHE_VARIABLE)
    try:
        base = Path(directory) if directory else _default_directory()
    except RuntimeError:  # there is no home directory
        return None
    processor = f"{sys.platform} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    parts = [_source(module), _source(translation), str(llvm.llvm_version_info), processor]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return base / f"{module.__name__}-{digest[:32]}.o"


def _default_directory() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "mlopt"


def _read(path: Path) -> bytes | None:
    """The object file, if it is there and as it was written: its digest stands before it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Keep an object file; where that is not possible, it is compiled again each time."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path, follow=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
    except (OSError, MloptError):
        return
