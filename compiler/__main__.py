"""`python -m mlopt`: the command `mlopt`."""

from __future__ import annotations

import sys

from mlopt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
