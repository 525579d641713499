"""The two commands: `mlopt-opt` (opt.py) and `mlopt` (main.py)."""
