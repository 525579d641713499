"""Kernel-level text through the memref passes, executed after each of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mlopt.interpreter.memref import Executable
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import CompilerContext, make_context, parse_module, print_module, verify_module
from mlopt.passes.registry import load_pass
from mlopt.weights import WeightStore
from tests.memref_reference import Array, run_memref

CONVERT = "convert-kernel-to-memref"
MEMREF_PASSES = (CONVERT, "plan-workspaces", "assign-buffers")


def lower(text: str, *passes: str, context: CompilerContext | None = None) -> ModuleOp:
    """Parse and verify `text`, then run the passes (default: all the way to assigned buffers), verifying after each."""
    context = context or make_context()
    module = parse_module(text, context)
    verify_module(module)
    for name in passes or MEMREF_PASSES:
        kind = load_pass(name)
        kind().run(context, module)
        for condition in kind.ensures:
            error = condition(module)
            assert error is None, error
        verify_module(module)
    return module


def lower_for_numpy(text: str) -> ModuleOp:
    """All the way down, with the scratch that the numpy engine asks for."""
    context = make_context()
    context.target = NumpyTarget()
    return lower(text, context=context)


def run_engine(
    module: ModuleOp, inputs: Mapping[str, Array], weights: Mapping[str, Array] | None = None, *, poison: bool
) -> dict[str, Array]:
    """The outputs of the numpy engine, which must not depend on what ran before: it runs twice."""
    store = WeightStore()
    for name, array in (weights or {}).items():
        assert store.add(array, name) == name
    executable = Executable(module, store, poison=poison)
    first, second = executable.run(inputs), executable.run(inputs)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=f"{name} in the second run")
    return first


def check(
    text: str,
    inputs: Mapping[str, Array],
    want: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
) -> str:
    """Lower step by step and compare the outputs after each step, then those of the numpy engine.

    Returns the final text, as it is without a target.
    """
    for count in range(1, len(MEMREF_PASSES) + 1):
        module = lower(text, *MEMREF_PASSES[:count])
        _compare(run_memref(module, inputs, weights), want, MEMREF_PASSES[count - 1])
    for_numpy = lower_for_numpy(text)
    for poison in (False, True):
        _compare(run_engine(for_numpy, inputs, weights, poison=poison), want, f"the numpy engine, {poison=}")
    return print_module(lower(text))


def _compare(got: Mapping[str, Array], want: Mapping[str, Array], where: str) -> None:
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=f"{name} after {where}")
