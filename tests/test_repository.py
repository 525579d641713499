"""Rules that hold for the repository as a whole: packages, who may import whom, names and sizes of files."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mlopt.passes.registry import PASSES, load_pass

ROOT = Path(__file__).parents[1]
FOLDERS = {"compiler": "mlopt", "dialects": "mlopt.dialects", "passes": "mlopt.passes"}
MAX_LINES = 700


def sources() -> Iterator[tuple[str, Path]]:
    """Every module's name and file."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join((package, *(part for part in parts if part != "__init__"))), path


@cache
def imports() -> dict[str, set[str]]:
    """Module → the modules and names that it imports, those for type checking included.

    A name imported inside a function has a `()` behind it.
    """
    return {module: set(_imported(ast.parse(path.read_text()), "")) for module, path in sources()}


def _imported(node: ast.AST, suffix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name + suffix for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module is not None, "a relative import"
            yield from (f"{child.module}.{alias.name}{suffix}" for alias in child.names)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imported(child, "()" if inside else suffix)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


MAY_IMPORT = {
    "diagnostics": ("diagnostics",),
    "files": ("files", "diagnostics"),
    "memory": ("memory", "files", "diagnostics"),
    "weights": ("weights", "files", "diagnostics"),
    "ir": ("ir", "dialects", "weights", "diagnostics"),
    "dialects": ("dialects", "ir", "weights", "diagnostics", "on_demand"),
    "passmanager": ("passmanager", "ir", "diagnostics"),
    "passes": (
        "passes",
        "passmanager",
        "dialects",
        "ir",
        "memory",
        "weights",
        "arrays",
        "diagnostics",
        "on_demand",
    ),
    "interpreter": ("interpreter", "dialects", "ir", "weights", "diagnostics", "on_demand"),
    "frontend": ("frontend", "dialects", "ir", "weights", "diagnostics", "on_demand"),
}
"""The packages that each package may know; those not named here, and the modules at the top, may know all."""

WHEN_CALLED = {
    "dialects": ("passes.graph.canonicalization",),
    "passmanager": ("passes.registry",),
}
"""What a package may import inside a function beside: an op hands out its patterns, a pipeline its passes."""


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_arrows_point_one_way(package: str) -> None:
    """`docs/architecture.md`, "Who may import whom"."""

    def is_allowed(name: str) -> bool:
        names = (*MAY_IMPORT[package], *(WHEN_CALLED.get(package, ()) if name.endswith("()") else ()))
        return any(is_in(name.removesuffix("()"), f"mlopt.{allowed}") for allowed in names)

    for module, names in imports().items():
        if is_in(module, f"mlopt.{package}"):
            wrong = [name for name in names if is_in(name, "mlopt") and not is_allowed(name)]
            assert not wrong, f"{module} imports {', '.join(wrong)}"


def test_the_rules_name_packages_that_exist() -> None:
    modules = imports()
    for package, allowed in [*MAY_IMPORT.items(), *WHEN_CALLED.items()]:
        for name in (package, *allowed):
            assert f"mlopt.{name}" in modules


def test_every_package_is_installed() -> None:
    """`pyproject.toml` lists each folder that holds modules, and nothing else."""
    listed: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    packages = {
        module if path.name == "__init__.py" else module.rpartition(".")[0] for module, path in sources()
    }
    assert sorted(listed) == sorted(packages)
    for module, path in sources():
        assert (path.parent / "__init__.py").exists(), f"{module}: no __init__.py beside it"


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_registered_under_its_name_and_its_file_s(name: str) -> None:
    assert load_pass(name).name == name
    module = PASSES[name].partition(":")[0]
    assert module.rpartition(".")[2] == name.replace("-", "_")
    assert load_pass(name).__doc__


def test_files_are_not_too_long() -> None:
    paths = [
        path
        for folder in (*FOLDERS, "tests", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    ]
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in paths}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_modules_say_what_they_are_for() -> None:
    for module, path in sources():
        text = path.read_text()
        if text.strip():
            assert ast.get_docstring(ast.parse(text)), f"{module} has no docstring"
