"""The table of operators that programs are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.builder import Builder

Strategy = Callable[[Builder, str], object]


@dataclass(frozen=True)
class Operator:
    """Draws the operands and attributes of a node. `since` and `until` bound the operator set version."""

    name: str
    strategy: Strategy
    domain: str = ""
    since: int = 1
    until: int = 99

    def is_in(self, opset: int) -> bool:
        """Whether this version of the operator set has it."""
        return self.since <= opset <= self.until

    def __call__(self, builder: Builder) -> object:
        return self.strategy(builder, self.name)


OPERATORS: dict[str, Operator] = {}
"""By name; operators of com.microsoft are `com.microsoft.Name`."""


def operator(
    names: str, *, domain: str = "", since: int = 1, until: int = 99
) -> Callable[[Strategy], Strategy]:
    """Enter operators, separated by blanks, that share a strategy."""

    def enter(strategy: Strategy) -> Strategy:
        for name in names.split():
            key = f"{domain}.{name}" if domain else name
            assert key not in OPERATORS, key
            OPERATORS[key] = Operator(name, strategy, domain, since, until)
        return strategy

    return enter
