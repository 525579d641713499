"""The constant store: named arrays outside the IR, equal contents stored once. Knows no dialect."""

from mlopt.weights.store import WeightStore

__all__ = ["WeightStore"]
