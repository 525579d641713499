"""`mlopt-opt`: runs passes over textual IR. Behaves as `mlir-opt` does wherever that has the feature."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mlopt.cli.guard import guarded

PROGRAM = "mlopt-opt"


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the command; returns the exit code."""
    sources: dict[str, str] = {}
    given = sys.argv[1:] if arguments is None else arguments

    def run() -> int:
        # Loading the compiler takes most of a short run: an interrupt then is one like any other.
        from mlopt.cli import opt_run

        return opt_run.run(given, sources)

    return guarded(run, program=PROGRAM, sources=sources)


if __name__ == "__main__":
    sys.exit(main())
