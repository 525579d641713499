"""What is loaded only when it is needed: parts of tables, names of packages; and what a compilation loads."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mlopt.on_demand import MethodOnDemand, TableOnDemand, defer_methods_of_dataclasses, names_on_demand

TABLE: TableOnDemand[str, int] = TableOnDemand([])


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableOnDemand[str, int]:
    """A table with `a`, and two modules that enter `b` and `c`; the first imports the second."""
    made = TableOnDemand[str, int](["module_of_b", "module_of_c"])
    made["a"] = 1
    monkeypatch.setattr(sys.modules[__name__], "TABLE", made)
    head = f"from {__name__} import TABLE\n"
    (tmp_path / "module_of_b.py").write_text(f"import module_of_c\n{head}TABLE['b'] = 2\n")
    (tmp_path / "module_of_c.py").write_text(f"{head}TABLE.update(c=3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("module_of_b", "module_of_c"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return made


def test_what_is_there_loads_nothing(table: TableOnDemand[str, int]) -> None:
    assert (table["a"], table.get("a"), "a" in table) == (1, 1, True)
    assert list(table) == ["a"]


def test_what_is_not_there_is_loaded(table: TableOnDemand[str, int]) -> None:
    assert table["c"] == 3
    assert dict(table) == {"a": 1, "b": 2, "c": 3}


def test_get(table: TableOnDemand[str, int]) -> None:
    assert table.get("b") == 2


def test_contains(table: TableOnDemand[str, int]) -> None:
    assert "b" in table


def test_what_is_nowhere(table: TableOnDemand[str, int]) -> None:
    with pytest.raises(KeyError):
        table["d"]
    assert (table.get("d"), table.get("d", 4), "d" in table) == (None, 4, False)


def test_threads_wait_for_what_another_loads(tmp_path: Path, table: TableOnDemand[str, int]) -> None:
    """The first thread is still inside the module when the second asks for what it enters."""
    slow = "import threading, time\ntime.sleep(0.05)\n"
    path = tmp_path / "module_of_b.py"
    path.write_text(slow + path.read_text())
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(table.__getitem__, "bbcc")] == [2, 2, 3, 3]


def test_names_are_loaded_once_with_their_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_names.py").write_text("x = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = ModuleType("package_of_names")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.delitem(sys.modules, "module_of_names", raising=False)
    load = names_on_demand(package.__name__, {"module_of_names": ("x",)})
    assert "module_of_names" not in sys.modules
    assert load("x") is sys.modules["module_of_names"].x is package.x
    with pytest.raises(AttributeError, match="module 'package_of_names' has no attribute 'y'"):
        load("y")


COMPILE = """
import sys
from pathlib import Path
from mlopt.arrays import read_npz
from mlopt.compilation import compile_model, load_model
from mlopt.options import CompileOptions

model = Path(sys.argv[1])
inputs = read_npz(model.with_suffix(".npz"), "in")
compile_model(load_model(model, CompileOptions(), inputs=inputs), keep_levels=False)
"""

PRINT = "\nimport sys\nprint(*(name for name in sys.modules if name.startswith(('mlopt.', 'xdsl.'))))"

MODEL = Path(__file__).parent / "models" / "clip_tiny_dyn.onnx"


def _modules_loaded_by(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code + PRINT, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_compilation_loads_what_its_model_has() -> None:
    """A transformer: nothing of operations that it has not, or of the dialect as a whole, which only parsing needs."""
    loaded = _modules_loaded_by(COMPILE, str(MODEL))
    assert "mlopt.dialects.graph.contraction" in loaded
    not_needed = (
        *(f"dialects.graph.{name}" for name in ("dialect", "recurrent", "sampling", "scatter")),
        *(f"frontend.onnx.{name}" for name in ("recurrent", "quantization", "resize", "contrib")),
        *("diagnostics.expected", "validation", "model", "report", "cli", "export"),
    )
    assert not [name for name in not_needed if f"mlopt.{name}" in loaded]


@pytest.mark.parametrize("code", ["import mlopt", "from mlopt.cli.main import build_parser; build_parser()"])
def test_the_package_and_the_help_load_no_dialect(code: str) -> None:
    assert not [name for name in _modules_loaded_by(code) if name.startswith(("xdsl.", "mlopt.ir"))]


@pytest.fixture
def methods_on_demand() -> Iterator[None]:
    """Dataclasses of this module have methods on demand while a test runs."""
    python: dict[str, Any] = dataclasses.__dict__
    before = dict(python)
    defer_methods_of_dataclasses(__name__.partition(".")[0])
    yield
    python.update(before)


def _point(**options: Any) -> Any:
    """A dataclass made now, with a default, a factory, and a subclass's view of both."""

    @dataclass(**options)
    class Base:
        x: int

    @dataclass(**options)
    class Point(Base):
        y: int = 2
        rest: tuple[int, ...] = field(default_factory=tuple, repr=False)

    return Point


def _methods_on_demand(kind: Any) -> set[str]:
    attributes: dict[str, object] = dict(kind.__dict__)
    return {name for name, value in attributes.items() if isinstance(value, MethodOnDemand)}


def _said(make: Callable[[], object]) -> object:
    """What a function returns, or the kind of its error and the words."""
    try:
        return make()
    except Exception as error:
        return type(error), str(error)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"frozen": True},
    {"order": True},
    {"eq": False},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"unsafe_hash": True},
    {"kw_only": True},
    {"repr": False},
    {"init": False},
]

USES: list[Callable[[Any], object]] = [
    lambda kind: (kind(x=1).x, kind(x=1).y, kind(x=1).rest, kind(x=1, y=3, rest=(1,)).rest),
    lambda kind: kind(1, 2) == kind(1),
    lambda kind: (kind(x=1) == kind(x=1), kind(x=1) == kind(x=2), kind(x=1) != kind(x=2), kind(x=1) == 1),
    lambda kind: repr(kind(x=1)) if "repr" in vars(kind) else repr(kind(x=1)).partition(" at ")[0],
    lambda kind: len({kind(x=1), kind(x=1)}),
    lambda kind: kind(x=1) < kind(x=2),
    lambda kind: setattr(kind(x=1), "x", 2),
    lambda kind: delattr(kind(x=1), "x"),
    lambda kind: setattr(kind(x=1), "z", 2),
    lambda kind: kind(1, 2, (), 4),
    lambda kind: kind().x,
    lambda kind: (copy.deepcopy(kind(x=1)) == kind(x=1), copy.copy(kind(x=1)).x),
    lambda kind: dataclasses.asdict(dataclasses.replace(kind(x=1), y=5)),
    lambda kind: str(inspect.signature(kind)),
    lambda kind: [str(inspect.signature(getattr(kind, name))) for name in ("__init__", "__eq__", "__repr__")],
    lambda kind: (kind.__init__.__qualname__, kind.__hash__ is None, kind.__match_args__),
    lambda kind: type("Sub", (kind,), {"y": 7})(x=1).x,
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_dataclasses_are_what_they_were(options: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Each use with a class of its own, so that it is the first to ask for a method."""
    right = [_said(lambda use=use: use(_point(**options))) for use in USES]
    request.getfixturevalue("methods_on_demand")
    kinds = [_point(**options) for _ in USES]
    assert any(map(_methods_on_demand, kinds))
    assert [
        _said(lambda use=use, kind=kind: use(kind)) for use, kind in zip(USES, kinds, strict=True)
    ] == right


@pytest.mark.usefixtures("methods_on_demand")
def test_a_method_is_compiled_once_when_it_is_called() -> None:
    kind = _point()
    assert _methods_on_demand(kind) == {"__init__", "__eq__"}
    assert kind(1) == kind(1)
    assert not _methods_on_demand(kind)


@pytest.mark.usefixtures("methods_on_demand")
def test_what_others_define_is_left_alone() -> None:
    """By the module that a class is in."""
    code = "from dataclasses import dataclass\n@dataclass\nclass C:\n  x: int\n"
    module = ModuleType("elsewhere")
    sys.modules[module.__name__] = module
    try:
        exec(code, vars(module))
    finally:
        del sys.modules[module.__name__]
    assert not _methods_on_demand(module.C)
    assert module.C.__doc__ == "C(x: 'int')"


def test_records_of_the_compiler_can_be_pickled() -> None:
    from mlopt.options import CompileOptions

    options = CompileOptions(dims={"n": 2})
    assert pickle.loads(pickle.dumps(options)) == options
