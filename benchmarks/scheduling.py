"""Orders of the smallest peak on random cells: `python benchmarks/scheduling.py [--seeds N] [--p P]`.

Cells of randomly wired networks, Watts-Strogatz graphs WS(32, 4, P), as scheduled in "Ordering Chaos" (Serenity, MLSys
2020). For each the smallest peak, what it took, and how much higher the peaks of the source order and of list rules
are. The unit is the tensor of one node. Sizes of nodes are equal, as in the networks themselves, or random; then come
networks of three cells, one behind the other, and larger cells, for which the nodes do not suffice.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from math import exp, log

from mlopt.memory import PROVED
from mlopt.memory.list_scheduling import LIST_RULES, list_order
from mlopt.memory.scheduling import NODES, schedule
from mlopt.memory.steps import StepGraph, graph_of_nodes, peak_of

UNIT = 64
"""Bytes of a tensor where all are equal."""


def watts_strogatz(count: int, degree: int, p: float, seed: int) -> list[tuple[int, int]]:
    """The edges of a Watts-Strogatz graph, each from the lower to the higher node, sorted.

    A ring in which each of `count` nodes has edges to its `degree` nearest neighbours. Node by node, each edge to one
    of the `degree / 2` next neighbours is replaced, with probability `p`, by one to a random node that has none yet.
    Random numbers are those of `random.Random(seed)`: one `random()` an edge, one `choice` a replacement.
    """
    generator = random.Random(seed)
    reach = degree // 2
    neighbours = [{(node + far) % count for far in range(-reach, reach + 1)} for node in range(count)]
    for node in range(count):
        for far in range(1, reach + 1):
            other = (node + far) % count
            if generator.random() < p:
                free = [n for n in range(count) if n not in neighbours[node]]
                new = generator.choice(free)
                neighbours[node].discard(other)
                neighbours[other].discard(node)
                neighbours[node].add(new)
                neighbours[new].add(node)
    return sorted((a, b) for a in range(count) for b in neighbours[a] if a < b)


def cell(seed: int, *, count: int = 32, p: float = 0.75, cells: int = 1, equal: bool = True) -> StepGraph:
    """Randomly wired cells, one behind the other. Steps: the input, then for each cell its nodes and its output.

    Edges go from the lower to the higher node of a Watts-Strogatz graph of degree 4. Each node makes one tensor from
    those of its predecessors, or from the input of the cell without any; the output takes those that nothing else does.
    The input of the first cell is twice as large as the tensor of a node (it has half the channels, and four times the
    pixels). With `equal`, all others have one size; else sizes are uniform between 1 and 16 units.
    """
    inputs: list[list[int]] = [[]]
    for number in range(cells):
        start = len(inputs)
        edges = watts_strogatz(count, 4, p, seed + 1000 * number)
        for node in range(count):
            inputs.append([start + a for a, b in edges if b == node] or [start - 1])
        used = {a for a, _ in edges}
        inputs.append([start + node for node in range(count) if node not in used])
    generator = random.Random(seed)
    sizes = [UNIT if equal else UNIT * generator.randint(1, 16) for _ in inputs]
    sizes[0] *= 2 if equal else 1
    return graph_of_nodes(sizes, inputs)


def table(title: str, graphs: Sequence[StepGraph], nodes: int) -> None:
    """One line a graph, and the geometric means."""
    print(f"\n{title}")
    print(
        f"{'seed':>6}{'steps':>6}{'peak':>8}{'bound':>8}{'nodes':>9}{'s':>8}{'source':>9}"
        + "".join(f"{rule:>24}" for rule in LIST_RULES)
    )
    ratios: list[list[float]] = []
    proved = 0
    for seed, graph in enumerate(graphs):
        start = time.process_time()
        found = schedule(graph, nodes=nodes)
        seconds = time.process_time() - start
        assert peak_of(graph, found.order) == found.peak
        others = [found.source_peak, *(peak_of(graph, list_order(graph, rule)) for rule in LIST_RULES)]
        ratios.append([other / found.peak for other in others])
        proved += found.status == PROVED
        print(
            f"{seed:6}{len(graph.steps):6}{found.peak / UNIT:8g}{found.bound / UNIT:8g}{found.nodes:9}{seconds:8.3f}"
            f"{ratios[-1][0]:9.3f}" + "".join(f"{ratio:24.3f}" for ratio in ratios[-1][1:]),
            flush=True,
        )
    means = [exp(sum(map(log, column)) / len(column)) for column in zip(*ratios, strict=True)]
    print(
        f"{f'geometric mean, {proved} of {len(graphs)} proved':45}{means[0]:9.3f}"
        + "".join(f"{mean:24.3f}" for mean in means[1:])
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Orders of the smallest peak on random cells.")
    parser.add_argument("--seeds", type=int, default=10, help="how many cells of each kind (default: 10)")
    parser.add_argument("--p", type=float, default=0.75, help="the share of edges rewired (default: 0.75)")
    parser.add_argument("--nodes", type=int, default=NODES, help=f"of each search (default: {NODES})")
    options = parser.parse_args(arguments)
    seeds, p, nodes = range(options.seeds), options.p, options.nodes
    table(f"WS(32, 4, {p}), equal sizes", [cell(seed, p=p) for seed in seeds], nodes)
    table(f"WS(32, 4, {p}), random sizes", [cell(seed, p=p, equal=False) for seed in seeds], nodes)
    table(f"three cells of WS(32, 4, {p}), equal sizes", [cell(seed, p=p, cells=3) for seed in seeds], nodes)
    table(f"WS(100, 4, {p}), equal sizes", [cell(seed, p=p, count=100) for seed in seeds[:3]], nodes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
