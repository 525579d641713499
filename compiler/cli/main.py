"""`mlopt`: import, compile and run models."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from mlopt import __version__
from mlopt.cli.arguments import with_bare_values
from mlopt.cli.commands import COMMANDS
from mlopt.cli.guard import guarded
from mlopt.diagnostics import UsageError, did_you_mean, nearest

DESCRIPTION = "Compile neural networks for inference, look at them at every level, and run them."
EPILOG = """examples:
  mlopt run model.onnx --inputs in.npz --outputs out.npz
  mlopt compile model.onnx --dim batch=1 -o model.mlir
  mlopt run model.mlir --inputs in.npz --check reference.npz --report report.json
"""

_WRONG_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)")


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    known = [module.__name__.rpartition(".")[2].rstrip("_") for module in COMMANDS]
    command = f"mlopt {given[0]}" if given and given[0] in known else None
    return guarded(lambda: _main(given), command=command)


def _main(given: Sequence[str]) -> int:
    parsed = build_parser().parse_args(with_bare_values(given))
    return parsed.command(parsed)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        match = _WRONG_COMMAND.search(message)
        names = match[2].replace("'", "").split(", ") if match else []
        raise UsageError(message + (did_you_mean(nearest(match[1], names)) if match else ""))


def build_parser() -> argparse.ArgumentParser:
    """The command line of `mlopt`."""
    parser = _Parser(
        prog="mlopt",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mlopt {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
