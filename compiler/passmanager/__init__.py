"""Pipelines of passes: the base class of a pass, MLIR's pipeline grammar, the manager, dumps and reports."""

from mlopt.passmanager.base import Condition, Pass, run_pass
from mlopt.passmanager.conditions import no_ops_of
from mlopt.passmanager.instrumentation import Instrumentation, IRPrinting
from mlopt.passmanager.manager import PassManager, PassResult
from mlopt.passmanager.options import Option, make_pass, pass_options
from mlopt.passmanager.pipeline import Element, Fixpoint, Pipeline, parse_options, parse_pipeline

__all__ = [
    "Condition",
    "Element",
    "Fixpoint",
    "IRPrinting",
    "Instrumentation",
    "Option",
    "Pass",
    "PassManager",
    "PassResult",
    "Pipeline",
    "make_pass",
    "no_ops_of",
    "parse_options",
    "parse_pipeline",
    "pass_options",
    "run_pass",
]
