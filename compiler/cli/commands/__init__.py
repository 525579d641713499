"""The commands of `mlopt`, one file each: `add_parser` declares the options, `run` returns the exit code."""

from mlopt.cli.commands import bench, check, compile, export, import_, memory, plan, profile, run

COMMANDS = (check, import_, compile, export, run, bench, profile, memory, plan)
"""In the order that `mlopt --help` lists them."""

__all__ = ["COMMANDS"]
