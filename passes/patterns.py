"""The patterns of each pass by name: what each does, and what can be switched off.

A pass's patterns are the pattern classes that its code names, itself or in what it calls, or operations' own for
`canonicalize`, and the rewrites that it does without (`Pass.rewrites`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from inspect import isabstract
from types import CodeType, FunctionType
from typing import cast

from xdsl.ir import Dialect
from xdsl.pattern_rewriter import RewritePattern

from mlopt.diagnostics import PipelineError, did_you_mean, nearest
from mlopt.ir.registration import DIALECTS
from mlopt.ir.rewriting import DRIVER_REWRITES, PatternSet, pattern_name, pattern_summary
from mlopt.passes.common.canonicalize import CanonicalizerPass, own_patterns
from mlopt.passes.registry import PASSES, load_pass
from mlopt.passmanager.base import Pass


def patterns_of(pass_class: type[Pass]) -> dict[str, str]:
    """The patterns of a pass by name, each with the first line of its documentation."""
    classes = _own_classes() if issubclass(pass_class, CanonicalizerPass) else _named_classes(pass_class)
    found = dict(pass_class.rewrites)
    found.update((pattern_name(kind), pattern_summary(kind)) for kind in classes)
    return dict(sorted(found.items()))


@cache
def all_patterns() -> dict[str, dict[str, str]]:
    """The patterns of every pass that has any, by the pass's name."""
    found = {name: patterns_of(load_pass(name)) for name in PASSES}
    return {name: patterns for name, patterns in found.items() if patterns}


def check_pattern_names(names: Collection[str]) -> None:
    """Raise `PipelineError` if one of the names, each `PATTERN` or `PASS:PATTERN`, stands for nothing."""
    for given in names:
        pass_name, colon, pattern = given.rpartition(":")
        if colon and pass_name not in PASSES:
            hint = did_you_mean(nearest(pass_name, PASSES))
            raise PipelineError(f"there is no pass '{pass_name}' to disable pattern '{pattern}' of{hint}")
        known = all_patterns()
        patterns = known.get(pass_name, {}) if colon else {name for each in known.values() for name in each}
        if pattern not in patterns and pattern not in DRIVER_REWRITES:
            of = f" of pass '{pass_name}'" if colon else ""
            hint = did_you_mean(nearest(pattern, patterns)) or "; mlopt-opt --list-patterns lists them"
            raise PipelineError(f"there is no pattern '{pattern}'{of} to disable{hint}")


def _named_classes(pass_class: type[Pass]) -> Iterator[type[RewritePattern]]:
    """The pattern classes that the code of a pass names, in its methods and in the functions and classes they name."""
    seen: set[int] = set()
    pending: list[object] = [pass_class]
    while pending:
        thing = pending.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        match thing:
            case tuple():
                pending += cast(tuple[object, ...], thing)
            case type() if issubclass(thing, RewritePattern) and not _is_frame(thing):
                yield thing
            case type() if _is_of_passes(thing.__module__, pass_class):
                pending += vars(thing).values()
            case property():
                pending.append(thing.fget)
            case staticmethod() | classmethod():
                pending.append(cast(object, thing.__func__))
            case FunctionType() if _is_of_passes(thing.__module__, pass_class):
                pending += [thing.__globals__.get(name) for name in _names_in(thing.__code__)]
            case _:
                pass


def _is_of_passes(module: str, pass_class: type[Pass]) -> bool:
    return module == pass_class.__module__ or module.startswith("mlopt.passes.")


def _names_in(code: CodeType) -> Iterator[str]:
    """The names that code looks up, nested functions and comprehensions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _is_frame(kind: type[RewritePattern]) -> bool:
    """Whether a class only holds patterns, or is the base of some."""
    return isabstract(kind) or issubclass(kind, PatternSet)


def _own_classes() -> Iterator[type[RewritePattern]]:
    """The classes of operations' own canonicalization patterns, of all dialects."""
    for source in DIALECTS.values():
        module, _, attribute = source.partition(":")
        dialect = getattr(import_module(module), attribute)
        assert isinstance(dialect, Dialect)
        for operation in dialect.operations:
            yield from map(type, own_patterns(operation))
