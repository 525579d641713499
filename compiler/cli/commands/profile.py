"""`mlopt profile`: the time of each launch, what it does, and how fast."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_dump_option,
    add_pipeline_options,
    compile_options,
    compile_with_progress,
    exit_code,
    finish,
    say,
)
from mlopt.cli.bare import positive
from mlopt.cli.progress import progress
from mlopt.diagnostics import counted, one_line

if TYPE_CHECKING:
    from rich.table import Table

    from mlopt.benchmark.profile import Launch, Profile

COLUMNS = (
    "launch",
    "kernel",
    "nodes",
    "seconds",
    "share",
    "flops",
    "bytes",
    "flops_per_second",
    "bytes_per_second",
    "complete",
)
"""Of the CSV file, and the keys of each launch in the JSON file."""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "profile",
        run,
        "show where the time of a run goes",
        "mlopt profile model.onnx --inputs in.npz --csv launches.csv",
        verbose="print all launches, and what each pass did",
    )
    command.add_argument("--inputs", type=Path, help="an .npz file of inputs (default: seeded random inputs)")
    command.add_argument(
        "--repeat",
        type=positive,
        default=50,
        metavar="N",
        help="runs to time (default: 50); times are means over the fastest quarter",
    )
    command.add_argument(
        "--top", type=positive, default=20, metavar="N", help="launches to show (default: 20; all with -v)"
    )
    command.add_argument("--csv", type=Path, metavar="FILE", help="write all launches, in the order they run")
    command.add_argument("--json", type=Path, metavar="FILE", help="write all launches, and the totals")
    add_pipeline_options(command)
    add_dump_option(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt profile`."""
    from rich.console import Console

    from mlopt.arrays import read_npz
    from mlopt.benchmark.profile import profile
    from mlopt.compilation import load_model
    from mlopt.files import check_all_writable, write_text

    check_all_writable(arguments.csv, arguments.json, arguments.report)
    options = compile_options(arguments)
    inputs = read_npz(arguments.inputs, "in") if arguments.inputs else None
    with progress(f"loading {arguments.model}"):
        compilation = load_model(arguments.model, options, inputs=inputs)
    compilation = compile_with_progress(arguments, compilation, "memref")
    with progress(f"timing {arguments.model}") as update:
        found = profile(compilation, inputs, repeat=arguments.repeat, watch=update)
    if inputs is None:
        say(arguments, "no --inputs: timed on seeded random inputs of the declared shapes", always=True)
    most = len(found.launches) if arguments.verbose else arguments.top
    runs = counted(found.repeat, "run")
    print(f"{one_line(arguments.model.name)}: {counted(len(found.launches), 'launch', 'launches')}, {runs}")
    Console(highlight=False).print(table_of(found, most))
    total = found.work
    print(f"a run does {total.flops:,} scalar operations, and reads and writes {total.nbytes:,} bytes")
    print(
        f"timing the launches changes the time of a run by {100 * found.overhead:+.1f}%: "
        f"it is {1e3 * found.plain_seconds:.3f} ms without"
    )
    for path, text in ((arguments.csv, csv_of), (arguments.json, json_of)):
        if path is not None:
            write_text(path, text(found))
            say(arguments, f"wrote {path}")
    finish(arguments, compilation, None, {"profile": figures_of(found)})
    return exit_code(compilation)


def table_of(profile: Profile, most: int) -> Table:
    """The launches that take longest, and the totals: milliseconds, billions of operations and of bytes a second."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    launches = sorted(profile.launches, key=lambda launch: -launch.seconds)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name, width in (("share", 6), ("ms", 7), ("GFLOP/s", 7), ("GB/s", 5)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    table.add_column("kernel", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("nodes", no_wrap=True, overflow="ellipsis")

    def row(
        seconds: float, flops: int | None, nbytes: int | None, kernel: str, nodes: str = "", style: str = ""
    ) -> None:
        rates = (
            "" if work is None or not seconds else f"{work / seconds / 1e9:.2f}" for work in (flops, nbytes)
        )
        share = seconds / profile.seconds if profile.seconds else 0.0
        text = escape(kernel), escape(one_line(nodes))
        table.add_row(f"{share:.1%}", f"{1e3 * seconds:.3f}", *rates, *text, style=style)

    for launch in launches[:most]:
        flops = launch.work.flops if launch.work.is_all else None
        row(launch.seconds, flops, launch.work.nbytes, launch.kernel, _nodes_text(launch))
    rest = launches[most:]
    table.add_section()
    if rest:
        flops, nbytes = (sum(getattr(launch.work, name) for launch in rest) for name in ("flops", "nbytes"))
        row(sum(launch.seconds for launch in rest), flops, nbytes, counted(len(rest), "other", "others"))
    row(profile.outside, None, None, "between launches")
    total = profile.work
    row(profile.seconds, total.flops, total.nbytes, "run", style="bold")
    return table


def _nodes_text(launch: Launch) -> str:
    """The last of the nodes, after which the launch's result is called, and how many others there are."""
    if not launch.nodes:
        return ""
    others = len(launch.nodes) - 1
    return launch.nodes[-1] + (f" (+{others})" if others else "")


def figures_of(profile: Profile) -> dict[str, Any]:
    """The totals, and each launch in the order in which they run."""
    return {
        "repeat": profile.repeat,
        "run_s": profile.seconds,
        "run_untimed_s": profile.plain_seconds,
        "overhead": profile.overhead,
        "outside_s": profile.outside,
        "flops": profile.work.flops,
        "bytes": profile.work.nbytes,
        "launches": [
            dict(zip(COLUMNS, _figures(profile, number, launch), strict=True))
            for number, launch in enumerate(profile.launches)
        ],
    }


def _figures(profile: Profile, number: int, launch: Launch) -> tuple[object, ...]:
    return (
        number,
        launch.kernel,
        list(launch.nodes),
        launch.seconds,
        profile.share(launch),
        launch.work.flops,
        launch.work.nbytes,
        launch.flops_per_second,
        launch.bytes_per_second,
        launch.work.is_all,
    )


def csv_of(profile: Profile) -> str:
    """A row per launch, in the order in which they run; the nodes of one separated by spaces."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for launch in figures_of(profile)["launches"]:
        writer.writerow({**launch, "nodes": " ".join(launch["nodes"])})
    return text.getvalue()


def json_of(profile: Profile) -> str:
    """What `figures_of` has."""
    return json.dumps(figures_of(profile), indent=2, allow_nan=False) + "\n"
