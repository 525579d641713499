"""`python -m tests.fuzz.near_misses --minutes 10 [--pass NAME] [--seed N]`: idioms that passes match, and near misses.

Each idiom is drawn, changed in one thing or two (`tests/fuzz/mutants.py`), and sent through the pass alone, all levels
below it, and the exported model; now and then through a pipeline. A pass must still match some of what is changed, and
some not any more: how many is printed, so that an edge that is never met shows.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import ml_dtypes

from mlopt import CompileOptions, UnsupportedError
from mlopt.compare import is_floating
from mlopt.compilation import load_model
from mlopt.passes.registry import load_pass
from mlopt.passmanager import PassManager, parse_pipeline
from tests.fuzz.bounds import largest
from tests.fuzz.corpus import save
from tests.fuzz.levels import Route, standard_routes
from tests.fuzz.mutants import mutant
from tests.fuzz.program import Program
from tests.fuzz.reduce import reduce
from tests.fuzz.search import Found, check_supported, random_program

IDIOMS: Mapping[str, tuple[str, ...]] = {
    "eliminate-casts": ("movements",),
    "eliminate-reshapes": ("movements",),
    "eliminate-slices": ("movements",),
    "eliminate-transposes": ("movements",),
    "fold-batch-norm": ("conv-norm", "linear"),
    "fuse-attention": ("attention",),
    "fuse-conv": ("conv-tail", "conv-norm"),
    "fuse-gelu": ("gelu",),
    "fuse-group-norm": ("group-norm",),
    "fuse-layer-norm": ("layer-norm",),
    "fuse-linear": ("product-tail", "linear"),
    "fuse-quantized": ("qdq", "qdq_conv"),
    "fuse-rms-norm": ("rms-norm",),
    "fuse-rotary": ("rotary",),
    "fuse-swish": ("swish", "hard-swish"),
    "simplify-algebra": ("algebra",),
    "stabilize-softmax": ("softmax",),
}
"""The operators of `tests/fuzz/operators/` that draw what a pass looks for."""

EXACT = ("eliminate-", "simplify-")
"""How the names of passes begin that change no bit; others round otherwise, also where the operators round nothing."""

ROUNDINGS = 2
"""Units in the last place that these may be off, at least."""

MUTANTS = 5
"""Of each program that a pass matches."""


@dataclass
class Tally:
    """What a pass met: programs that it `matched` as drawn, and their mutants by whether it still matches these."""

    matched: int = 0
    still: int = 0
    no_more: int = 0
    found: list[Found] = field(default_factory=list[Found])


def near_misses(name: str, seed: int, tally: Tally, *, route: Route | None = None) -> None:
    """Draw a program; if a pass matches it, check it and its mutants on this route, else on the pass alone."""
    rng = Random(f"{name} {seed}")
    program = random_program(rng, [rng.choice(IDIOMS[name])], most=1)
    used = {operand for step in program.steps for operand in step.operands}
    program.outputs = [value for value in program.outputs if value not in used]
    passes = next((passes for passes in ((name,), ("canonicalize", name)) if matches(passes, program)), None)
    if not program.steps or passes is None:
        return
    tally.matched += 1
    for number, candidate in enumerate(_and_mutants(rng, program)):
        if number:
            still = matches(passes, candidate)
            tally.still += still
            tally.no_more += not still
        if (route is not None or load_pass(name).repairs_overflow) and not _is_finite(candidate):
            continue  # stabilize-softmax makes numbers of what was infinite, or NaN
        if route is not None or not name.startswith(EXACT):
            _allow_roundings(candidate)
        tried = route or Route(passes, (), export=True)
        candidate, failure = check_supported(candidate, tried)
        if failure is not None:
            tally.found.append(Found(*reduce(candidate, tried, failure), seed))


def _and_mutants(rng: Random, program: Program) -> Iterator[Program]:
    yield program
    for _ in range(MUTANTS):
        if (changed := mutant(rng, program)) is not None:
            yield changed


def _is_finite(program: Program) -> bool:
    return all(value.finite for step in program.steps for value in (*step.operands, *step.results))


def _allow_roundings(program: Program) -> None:
    for value in program.outputs:
        if is_floating(value.arrays[0]):
            size = max(largest(array) for array in value.arrays)
            value.error = max(value.error, ROUNDINGS * float(ml_dtypes.finfo(value.dtype).eps) * size)


def matches(passes: Sequence[str], program: Program) -> bool:
    """Whether the last of some passes rewrites something, or raises something, which is to be checked."""
    try:
        inputs = program.feeds(0) if program.binds_values() else None
        compilation = load_model(program.model(), CompileOptions(), inputs=inputs)
        pipeline = parse_pipeline(f"builtin.module({','.join(passes)})")
        PassManager(compilation.ctx, pipeline).run(compilation.module)
    except UnsupportedError:
        return False
    except Exception:  # whatever it is
        return True
    return any(
        remark.pass_name == passes[-1] and remark.kind == "passed" for remark in compilation.ctx.remarks
    )


def main() -> int:
    """1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.near_misses", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pass", dest="passes", action="append", choices=list(IDIOMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    names = arguments.passes or list(IDIOMS)
    tallies = {name: Tally() for name in names}
    levels = [route for name, route in standard_routes().items() if name.startswith("O")]
    end, seed, findings = time.monotonic() + 60 * arguments.minutes, arguments.seed, Counter[str]()
    while time.monotonic() < end:
        for name in names:
            tally = tallies[name]
            near_misses(name, seed, tally, route=levels[seed // 4 % len(levels)] if seed % 4 == 3 else None)
            for found in tally.found[findings[name] :]:
                path = save(found, arguments.out, sum(findings.values()))
                findings[name] += 1
                print(f"{path} (seed {seed}) on {found.route}\n  {found.failure}\n", flush=True)
        seed += 1
    for name, tally in tallies.items():
        changed = f"{tally.still} changed ones matched, {tally.no_more} not"
        print(f"{name}: {tally.matched} matched as drawn, {changed}, {len(tally.found)} failures")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
