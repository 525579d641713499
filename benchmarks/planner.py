"""The buffer planner on known instances: `python benchmarks/planner.py [--instances DIR] [--python]`.

Tables, each of plans that are verified: MiniMalloc's `challenging` set at its capacity and as small as the search gets
it; large instances of training; a made one of 30,000 buffers beside sorting by size and first fit. Times are those of
the processor, of a warm kernel. Instances come from a directory of CSV files; those of `tests/memory/challenging` are
always there. With `--python`, the search runs as Python, with the same result.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from mlopt.memory import STRATEGIES, Buffer, Plan, check_plan, max_live, plan
from mlopt.memory.buffers import conflicts
from mlopt.memory.csv_format import read_buffers
from mlopt.memory.descent import KernelChoice
from mlopt.memory.planner import place_in_order
from mlopt.memory.search import search

T = TypeVar("T")

CAPACITY = 1048576
ROOT = Path(__file__).parents[1]
NODES_PER_BUFFER = 8
"""As `mlopt plan --effort fast`."""


def chains(count: int, seed: int = 0, *, skip: float = 0.3, mean: float = 20) -> list[Buffer]:
    """The tensors of a chain of `count` operators: each is read by the next one, and some by a later one, too.

    Sizes are uniform between 64 B and 64 kB; a share `skip` of the tensors lives on, for `mean` operators on average.
    """
    generator = random.Random(seed)
    buffers: list[Buffer] = []
    for step in range(count):
        size = 64 * generator.randint(1, 1000)
        end = step + 2
        if generator.random() < skip:
            end += int(generator.expovariate(1 / mean))
        buffers.append(Buffer(f"b{step}", step, min(end, count + 1), size))
    return buffers


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What the work returns, and the processor's seconds it took."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def first_fit(buffers: Sequence[Buffer]) -> Plan:
    """The largest first, each at the lowest offset that is free."""
    neighbours: list[list[int]] = [[] for _ in buffers]
    for one, other in conflicts(buffers):
        neighbours[one].append(other)
        neighbours[other].append(one)
    order = sorted(range(len(buffers)), key=lambda i: -buffers[i].size)
    offsets = place_in_order(buffers, neighbours, order, False)
    height = max(offset + b.footprint for offset, b in zip(offsets, buffers, strict=True))
    return Plan({b.id: offset for b, offset in zip(buffers, offsets, strict=True)}, height, max_live(buffers))


def challenging(directory: Path, choice: KernelChoice, nodes: int) -> None:
    """MiniMalloc's set: at its capacity, and the smallest height found."""
    columns = f"{'height':>8}{'bound':>9}{'nodes':>9}{'s':>8}"
    print(f"{'instance':10}{'buffers':>8}{'at capacity':>12}{'nodes':>9}{'s':>8}   {columns}")
    total = 0.0
    for path in sorted(directory.glob(f"*.{CAPACITY}.csv")):
        buffers = read_buffers(path).buffers
        found, seconds = timed(lambda b=buffers: search(b, target=CAPACITY, nodes=nodes, choice=choice))
        small, more = timed(lambda b=buffers: search(b, nodes=nodes, choice=choice))
        for result in (found, small):
            check_plan(buffers, result.plan.offsets, result.plan.height)
        reached = "yes" if found.plan.height <= CAPACITY else "no"
        total += seconds
        print(
            f"{path.name.split('.')[0]:10}{len(buffers):8}{reached:>12}{found.nodes:9}{seconds:8.3f}   "
            f"{small.plan.height:8}{small.bound:9}{small.nodes:9}{more:8.2f}  {small.status}",
            flush=True,
        )
    print(f"{'together':39}{total:8.3f}")


def large(name: str, buffers: Sequence[Buffer], choice: KernelChoice) -> None:
    """One instance: heights as shares of the lower bound, times as multiples of sorting and first fit."""
    simple, unit = timed(lambda: first_fit(buffers))
    result, seconds = timed(lambda: search(buffers, nodes=NODES_PER_BUFFER * len(buffers), choice=choice))
    check_plan(buffers, result.plan.offsets, result.plan.height)
    bound = result.plan.lower_bound
    print(
        f"{name:28}{len(buffers):8}{simple.height / bound:10.4f}{unit:8.3f}{result.plan.height / bound:10.4f}"
        f"{seconds:8.3f}{seconds / unit:8.1f}  {result.status}",
        flush=True,
    )


def strategies(name: str, buffers: Sequence[Buffer]) -> None:
    """The heights of all strategies, as shares of the lower bound."""
    heights = (plan(buffers, strategy) for strategy in STRATEGIES)
    print(f"{name:28}" + "".join(f"{p.height / p.lower_bound:14.4f}" for p in heights))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The buffer planner on known instances.")
    parser.add_argument(
        "--instances", type=Path, metavar="DIR", help="CSV files (default: ../shared/planner, if there)"
    )
    parser.add_argument("--python", action="store_true", help="run the search as Python")
    parser.add_argument("--nodes", type=int, default=1_000_000, help="of each search (default: 1000000)")
    options = parser.parse_args(arguments)
    outside = ROOT.parent / "shared" / "planner"
    directory = options.instances or (
        outside if outside.is_dir() else ROOT / "tests" / "memory" / "challenging"
    )
    choice: KernelChoice = "python" if options.python else "native"
    search(chains(50), nodes=10, start=plan(chains(50), "none"), choice=choice)  # load the kernel
    challenging(directory, choice, options.nodes)
    rest = [path for path in sorted(directory.glob("*.csv")) if f".{CAPACITY}." not in path.name]
    instances = {path.stem: read_buffers(path).buffers for path in rest}
    instances |= {f"chain of {n}": chains(n) for n in (3_000, 30_000)}
    print(f"\n{'instance':28}{'buffers':>8}{'first fit':>10}{'s':>8}{'planner':>10}{'s':>8}{'times':>8}")
    for name, buffers in instances.items():
        large(name, buffers, choice)
    print(f"\n{'strategy':28}" + "".join(f"{strategy:>14}" for strategy in STRATEGIES))
    for name, buffers in instances.items():
        strategies(name, buffers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
