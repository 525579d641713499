"""Fixtures of the tests of the commands."""

from tests.cli.mlopt_command import mlopt

__all__ = ["mlopt"]
