"""Commands that take no model, and the types of their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mlopt import __version__
from mlopt.cli.arguments import Commands


def add_bare_command(
    commands: Commands,
    name: str,
    command: Callable[[argparse.Namespace], int],
    help: str,
    example: str,
    *,
    description: str,
    verbose: str,
) -> argparse.ArgumentParser:
    """A command with the options that all have (`--help`, `--version`, `-q`, `-v`) and nothing else.

    `verbose` says what `-v` prints.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    parser.add_argument("--version", action="version", version=f"mlopt {__version__}")
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="print errors and the result only")
    volume.add_argument("-v", "--verbose", action="store_true", help=verbose)
    return parser


def natural(text: str) -> int:
    """A whole number that is not negative, as the type of an option."""
    if not (text.isascii() and text.isdigit() and len(text) <= 100):
        raise argparse.ArgumentTypeError(f"expected a whole number, found '{text}'")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1, as the type of an option."""
    if natural(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found '{text}'")
    return int(text)
