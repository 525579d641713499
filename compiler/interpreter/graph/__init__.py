"""The reference meaning of every graph operation, in numpy; one short function each, one file per family.

This defines what the operations mean: constant folding, the validation of passes and the tests all use it.
"""

from mlopt.interpreter.graph.evaluation import evaluate, evaluate_function, evaluate_module

__all__ = ["evaluate", "evaluate_function", "evaluate_module"]
