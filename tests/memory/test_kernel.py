"""The compiled kernel and the same source as Python go through the same nodes to the same plan."""

from __future__ import annotations

import array
import dataclasses
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given, settings

from mlopt.diagnostics import UnsupportedError
from mlopt.memory import Buffer, kernel, native
from mlopt.memory.csv_format import read_buffers
from mlopt.memory.search import search
from mlopt.memory.translation import TranslationError, translate
from tests.memory.instances import any_buffers, without_slack

CHALLENGING = Path(__file__).parent / "challenging"

needs_native = pytest.mark.skipif(native.load(kernel) is None, reason="no compiled kernel on this machine")


@needs_native
@given(any_buffers(most=12))
@settings(deadline=None)
def test_twins_on_random_instances(buffers: list[Buffer]) -> None:
    assert search(buffers, nodes=300, choice="native") == search(buffers, nodes=300, choice="python")


@needs_native
@pytest.mark.parametrize("seed", range(8))
def test_twins_where_the_search_is_hard(seed: int) -> None:
    buffers = without_slack(seed, moments=30, capacity=40, longest=8)
    assert search(buffers, nodes=4000, choice="native") == search(buffers, nodes=4000, choice="python")


@needs_native
@pytest.mark.parametrize("name", ["G", "J", "K"])
def test_twins_on_challenging_instances(name: str) -> None:
    buffers = read_buffers(CHALLENGING / f"{name}.1048576.csv").buffers
    assert search(buffers, nodes=2000, choice="native") == search(buffers, nodes=2000, choice="python")


def test_no_index_of_the_twin_is_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code checks none: here each is checked."""

    class Checked(list[int]):
        def __getitem__(self, index):  # pyright: ignore
            assert 0 <= index < len(self)
            return super().__getitem__(index)

        def __setitem__(self, index, value):  # pyright: ignore
            assert isinstance(index, slice) or 0 <= index < len(self)
            super().__setitem__(index, value)

    descend = kernel.descend
    runs: list[int] = []

    def checked(state: kernel.State, *arguments: int) -> int:
        for field in dataclasses.fields(state):
            value = getattr(state, field.name)
            if isinstance(value, list):
                setattr(state, field.name, Checked(value))
        runs.append(1)
        return descend(state, *arguments)

    monkeypatch.setattr(kernel, "descend", checked)
    for seed in range(5):
        search(without_slack(seed, moments=20, capacity=30, longest=6), nodes=300, choice="python")
    assert runs


def test_numbers_beyond_64_bits_are_left_to_python() -> None:
    """Coprime sizes above 2^63: no unit makes them smaller. By hand: the two that meet `b` lie beside it."""
    large = (1 << 70) + 1
    buffers = [Buffer("a", 0, 2, large, 1), Buffer("b", 1, 4, 1 << 70, 1), Buffer("c", 3, 5, large, 1)]
    assert search(buffers, choice="auto").plan.height == (1 << 71) + 1


def test_without_llvmlite_the_twin_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(native._loaded, kernel.__name__, None)  # pyright: ignore[reportPrivateUsage]
    buffers = without_slack(1, moments=30, capacity=40, longest=8)
    assert search(buffers, nodes=6000).nodes > 0
    with pytest.raises(UnsupportedError, match="no compiled kernel"):
        search(buffers, choice="native")


@needs_native
def test_a_compiled_descent_can_be_interrupted() -> None:
    """No node limit, an instance that takes days: what `watch` raises ends it, and the next search is as any other."""
    buffers = without_slack(2, moments=60, capacity=1000, longest=30)

    def interrupt(nodes: int, _: int) -> None:
        if nodes > 20_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(buffers, watch=interrupt, choice="native")
    assert search(buffers, nodes=3000, choice="native") == search(buffers, nodes=3000, choice="python")


# Compilation

MODULE = '''
from dataclasses import dataclass
LIMIT = 5
NEGATIVE = -7

@dataclass
class State:
    values: Ints
    count: int

def work(s: State, n: int) -> int:
    """Everything that is translated, once."""
    values = s.values
    total = 0
    for i in range(n):
        if values[i] % 3 == 1 and not i == 2 or values[i] > 90:
            continue
        if i == n - 1:
            break
        values[i] += 1
        total += max(values[i], LIMIT) if i < 4 else min(values[i], NEGATIVE)
    k = n
    while k > 0:
        k -= 2
        s.count += helper(k, n)
        nothing(s)
    return total // 4 + (NEGATIVE - total) % 5 + k // 2

def helper(a: int, b: int) -> int:
    if a < 0:
        return -b
    elif a == 0:
        return 0
    else:
        return a * b

def nothing(s: State) -> None:
    if s.count > 1000:
        return
    s.values[0] = s.values[0] - 1
'''


def module_of(text: str, path: Path) -> types.ModuleType:
    path.write_text(text)
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # for dataclasses
    exec("from collections.abc import MutableSequence as Ints\n" + text, module.__dict__)
    return module


@needs_native
def test_what_is_translated_means_what_python_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.CACHE_VARIABLE, str(tmp_path / "cache"))
    module = module_of(MODULE, tmp_path / "translated.py")
    compiled = native.load(module)
    assert compiled is not None
    for n in range(9):
        values = [7, -4, 1, 95, 3, 0, -9, 12, 5, 8]
        one, other = module.State(list(values), 3), module.State(array.array("q", values), 3)
        assert compiled.call("work", other, n, watch=lambda: None) == module.work(one, n)
        assert (list(other.values), other.count) == (one.values, one.count)


@needs_native
def test_what_is_compiled_is_kept_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.CACHE_VARIABLE, str(tmp_path / "cache"))
    compilations: list[str] = []
    compile_ = native._compile  # pyright: ignore[reportPrivateUsage]

    def counted(llvm: object, module: types.ModuleType) -> bytes:
        compilations.append(module.__name__)
        return compile_(llvm, module)

    monkeypatch.setattr(native, "_compile", counted)
    module = module_of(MODULE, tmp_path / "kept.py")

    native._loaded.pop("kept", None)  # pyright: ignore[reportPrivateUsage]
    assert native.load(module) is not None
    native._loaded.pop("kept", None)  # pyright: ignore[reportPrivateUsage]
    assert native.load(module) is not None
    assert len(compilations) == 1
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")
    native._loaded.pop("kept", None)  # pyright: ignore[reportPrivateUsage]
    assert native.load(module) is not None
    assert len(compilations) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return s.count / 2", "line 4: s.count / 2"),
        ("return [1]", r"line 4: \[1\]"),
        ("return unknown", "line 4: unknown"),
        ("return len(s.values)", "line 4: len"),
        ("for i in s.values:\n        pass", "line 4"),
        ("s.values = s.values", "line 4"),
    ],
)
def test_what_is_not_translated_is_named(body: str, message: str) -> None:
    source = f"class State:\n    count: int; values: Ints\ndef work(s: State) -> int:\n    {body}\n"
    with pytest.raises(TranslationError, match=message):
        translate(source)
