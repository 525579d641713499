"""`elide-copies`: results keep every bit, arenas do not grow, and what must be copied still is.

Random programs that overwrite, alias, slice, carry and branch come from the tests of bufferization, with what they
compute under SSA semantics. Their arithmetic is on i32, so equal means equal.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp

from mlopt.ir import make_context, print_module
from mlopt.passes.memref.elide_copies import ElideCopiesPass
from mlopt.passes.memref.summary import memory_summary
from tests.memref_reference import run_memref
from tests.mlir_opt import check_with_mlir_opt
from tests.passes.convert_kernel_to_memref.test_random_programs import SHAPE, generate
from tests.passes.lowering import CONVERT, MEMREF_PASSES, lower, run_engine

ELIDED = (CONVERT, "elide-copies", *MEMREF_PASSES[1:])
INPUTS = {
    name: np.arange(16, dtype=np.int32).reshape(SHAPE) * factor for name, factor in (("x", 3), ("y", -5))
}


def copies(module: ModuleOp) -> int:
    return sum(isinstance(op, memref.CopyOp) for op in module.walk())


@pytest.mark.parametrize("form", ["launches", "open", "inside"])
@settings(max_examples=8, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_random_programs_compute_the_same(form: str, rng: random.Random) -> None:
    text, run = generate(rng, form)
    want = run({f"%{name}": value for name, value in INPUTS.items()})

    def compare(got: dict[str, np.ndarray], where: str) -> None:
        for i, value in enumerate(want):
            np.testing.assert_array_equal(got[f"result{i}"], value, err_msg=f"result {i} {where} of\n{text}")

    before, after = lower(text), lower(text, *ELIDED)
    assert copies(after) <= copies(before)
    assert memory_summary(after).arena_bytes <= memory_summary(before).arena_bytes
    bufferized = lower(text, CONVERT, "elide-copies")
    for backwards in (False, True):
        compare(run_memref(bufferized, INPUTS, backwards=backwards), f"after elide-copies ({backwards=})")
    compare(run_memref(after, INPUTS), "after assign-buffers")
    for poison in (False, True):
        compare(run_engine(after, INPUTS, poison=poison), f"of the numpy engine ({poison=})")
    assert not ElideCopiesPass().run(make_context(), bufferized)


def test_many_copies_of_random_programs_go() -> None:
    """Of what bufferization leaves of programs with loops, branches and slices, every sixth copy at least."""
    before = after = 0
    texts: list[str] = []
    for seed in range(36):
        text, _ = generate(random.Random(seed), ("launches", "open", "inside")[seed % 3])
        before += copies(lower(text, CONVERT))
        module = lower(text, CONVERT, "elide-copies")
        after += copies(module)
        texts.append(print_module(module))
    assert 6 * (before - after) > before
    check_with_mlir_opt("// -----\n".join(texts), "--split-input-file")
