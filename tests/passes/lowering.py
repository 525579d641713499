"""Kernel-level text through the memref passes, executed after each of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mlopt.ir import CompilerContext, make_context, parse_module, print_module, verify_module
from mlopt.passes.registry import load_pass
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


def check(
    text: str,
    inputs: Mapping[str, Array],
    want: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
) -> str:
    """Lower step by step and compare the outputs after each step; returns the final text."""
    for count in range(1, len(MEMREF_PASSES) + 1):
        module = lower(text, *MEMREF_PASSES[:count])
        got = run_memref(module, inputs, weights or {})
        assert got.keys() == want.keys()
        for name, value in want.items():
            np.testing.assert_array_equal(
                got[name], value, err_msg=f"{name} after {MEMREF_PASSES[count - 1]}"
            )
    return print_module(module)
