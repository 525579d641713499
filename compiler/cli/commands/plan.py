"""`mlopt plan`: the buffer planner on its own, from CSV to CSV."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlopt.cli.arguments import Commands, byte_count, say
from mlopt.cli.bare import add_bare_command, natural
from mlopt.cli.progress import progress
from mlopt.diagnostics import UsageError, one_line

if TYPE_CHECKING:
    from mlopt.memory import Buffer, Strategy
    from mlopt.memory.descent import KernelChoice
    from mlopt.memory.search import SearchResult

FAST_NODES = 8
"""Nodes of `--effort fast`, for each buffer: a few descents without much search."""

SEARCH_NODES = 1_000_000
"""Nodes of `--effort search` without `--nodes`: some seconds on instances of a few hundred buffers."""

DESCRIPTION = """\
Place buffers with known lifetimes in one arena, as small as can be.

BUFFERS.csv has the columns id, lower, upper and size: a buffer of SIZE bytes
lives at the moments LOWER <= t < UPPER. OUT.csv has the same rows and the
offset of each buffer. There may be columns alignment (1), gaps (times at
which a buffer is not live, as LOWER-UPPER, separated by spaces) and fixed
(an offset that a buffer must have).

efforts:
  fast    the best of several greedy plans and of a few descents
  search  from there, search for smaller ones with a budget of nodes
  exact   search until a plan is proved to be the smallest; this may take
          for ever, if --nodes sets no end
A capacity that is not reached is explained by buffers that do not fit into it
together, if that is proved.
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_bare_command(
        commands,
        "plan",
        run,
        "place buffers with known lifetimes in one arena",
        "mlopt plan buffers.csv -o planned.csv --capacity 1048576 --effort search",
        description=DESCRIPTION,
        verbose="print the bytes and the lifetime of each buffer, too",
    )
    command.add_argument("buffers", type=Path, metavar="BUFFERS.csv", help="the buffers to place")
    command.add_argument(
        "-o", dest="output", type=Path, metavar="OUT.csv", help="the file to write the plan to"
    )
    command.add_argument(
        "--capacity",
        type=byte_count,
        metavar="BYTES",
        help="the bytes that there are, such as 65536 or 64KiB: exit code 1 if no plan of this size is found",
    )
    command.add_argument(
        "--effort", choices=("fast", "search", "exact"), default="fast", help="(default: fast)"
    )
    command.add_argument(
        "--nodes",
        type=natural,
        metavar="N",
        help=f"how many trials a search may make (search: {SEARCH_NODES}, exact: no end)",
    )
    command.add_argument(
        "--kernel",
        choices=("auto", "native", "python"),
        default="auto",
        help="run the search compiled or as Python, with the same result (default: compiled if that is quicker)",
    )
    command.add_argument(
        "--strategy",
        choices=("none", "conservative", "coloring"),
        help="for comparison: no reuse, reuse among equal sizes only, or blocks by interval-graph colouring",
    )


def run(arguments: argparse.Namespace) -> int:
    """`mlopt plan`."""
    from mlopt.files import check_writable
    from mlopt.memory import check_plan
    from mlopt.memory.csv_format import read_buffers, write_plan

    if arguments.nodes is not None and arguments.effort == "fast":
        raise UsageError("--nodes goes with --effort search or exact, found --effort fast")
    if arguments.strategy is not None and arguments.effort != "fast":
        raise UsageError(f"--strategy is a plan of its own, found --effort {arguments.effort}, too")
    if arguments.output is not None:
        check_writable(arguments.output)
    buffers = read_buffers(arguments.buffers)
    with progress(f"planning {arguments.buffers}") as update:
        result = plan_buffers(
            buffers.buffers,
            arguments.effort,
            arguments.nodes,
            arguments.capacity,
            lambda nodes, height: update(f"{nodes} nodes, height {height}"),
            strategy=arguments.strategy,
            choice=arguments.kernel,
        )
    check_plan(buffers.buffers, result.plan.offsets, result.plan.height)
    if arguments.output is not None:
        write_plan(arguments.output, buffers, result.plan.offsets)
        say(arguments, f"wrote {arguments.output}")
    elif not arguments.verbose:
        say(arguments, "no -o: the offsets are not written (-v prints them)")
    if arguments.verbose:
        for buffer in sorted(
            buffers.buffers, key=lambda buffer: (result.plan.offsets[buffer.id], buffer.lower)
        ):
            offset = result.plan.offsets[buffer.id]
            place = f"bytes [{offset}, {offset + buffer.size})"
            print(f"{one_line(buffer.id)}: {place} in [{buffer.lower}, {buffer.upper})", file=sys.stderr)
    print_result(buffers.buffers, result)
    if arguments.capacity is None:
        return 0
    print(f"capacity     {verdict(arguments.capacity, result)}")
    if result.plan.height <= arguments.capacity:
        return 0
    if result.bound > arguments.capacity:
        print_explanation(buffers.buffers, arguments.capacity, arguments.kernel)
    return 1


def plan_buffers(
    buffers: Sequence[Buffer],
    effort: str,
    nodes: int | None,
    capacity: int | None,
    watch: Callable[[int, int], None] | None = None,
    *,
    strategy: Strategy | None = None,
    choice: KernelChoice = "auto",
) -> SearchResult:
    """The plan of one effort, or of one strategy without search.

    `fast` and `search` stop as soon as `capacity` is reached; `watch` and `choice` as for `search`.
    """
    from mlopt.memory import plan
    from mlopt.memory.search import SearchResult, search

    if strategy is not None:
        best = plan(buffers, strategy)
        return SearchResult(best, best.lower_bound, 0)
    match effort:
        case "search":
            nodes = SEARCH_NODES if nodes is None else nodes
        case "exact":
            capacity = None
        case _:
            nodes = FAST_NODES * len(buffers)
    return search(buffers, nodes=nodes, target=capacity or 0, watch=watch, choice=choice)


def print_result(buffers: Sequence[Buffer], result: SearchResult) -> None:
    """The figures, one a line, in bytes."""
    best = result.plan
    print(f"buffers      {len(buffers)}, together {sum(buffer.footprint for buffer in buffers)} bytes")
    print(f"height       {best.height}")
    print(f"lower bound  {best.lower_bound} (max-live)")
    if result.bound > best.lower_bound:
        print(f"proved bound {result.bound} (search)")
    if result.nodes:
        print(f"nodes        {result.nodes}")
    status = result.status
    if best.height > result.bound:
        gap = best.height - result.bound
        status += f" {gap} bytes, {gap / result.bound:.2%}: not proved optimal, "
        status += f"the smallest plan has between {result.bound} and {best.height} bytes"
    print(f"status       {status}")


def verdict(capacity: int, result: SearchResult) -> str:
    """Whether a capacity is reached, and if not, whether any plan could reach it."""
    over = result.plan.height - capacity
    if over <= 0:
        return f"{capacity}: reached"
    if result.bound > capacity:
        return f"{capacity}: not reached, and no plan does: {result.bound} bytes are needed at least"
    return f"{capacity}: not reached, {over} bytes are missing"


def print_explanation(buffers: Sequence[Buffer], capacity: int, choice: KernelChoice) -> None:
    """A smallest set of buffers that does not fit into the capacity, one a line."""
    from mlopt.memory.explanation import explain

    found = explain(buffers, capacity, nodes=SEARCH_NODES, choice=choice)
    if found is None:
        return
    several = len(found.buffers) > 1
    what = f"the {len(found.buffers)} buffers below" if several else "the buffer below"
    why = f"can't be placed within {capacity} bytes"
    if found.crowded and several:
        why = f"are live at once and take {sum(buffer.footprint for buffer in found.buffers)} bytes"
    fewer = "; none can be left out" if found.irreducible and several else ""
    print(f"because      {what} {why}{fewer}:")
    for buffer in found.buffers:
        at = "" if buffer.fixed is None else f", fixed at {buffer.fixed}"
        print(f"  {one_line(buffer.id)}: {buffer.size} bytes in [{buffer.lower}, {buffer.upper}){at}")
