"""The IR and its text: context, parser, printer, verifier, locations and rewriting. What a pass needs of xDSL's internals
is behind this package."""

from mlopt.ir.context import CompilerContext, Evaluator, ScratchNeed, Target
from mlopt.ir.locations import fuse_locations, node_names, place_of, place_of_op
from mlopt.ir.names import set_name, valid_name
from mlopt.ir.parser import MloptParser, parse_module
from mlopt.ir.printer import MloptPrinter, print_module, print_op
from mlopt.ir.registration import make_context
from mlopt.ir.rewriting import RewriteResult, rewrite_greedily
from mlopt.ir.verifier import verify_module, verify_op

__all__ = [
    "CompilerContext",
    "Evaluator",
    "MloptParser",
    "MloptPrinter",
    "RewriteResult",
    "ScratchNeed",
    "Target",
    "fuse_locations",
    "make_context",
    "node_names",
    "parse_module",
    "place_of",
    "place_of_op",
    "print_module",
    "print_op",
    "rewrite_greedily",
    "set_name",
    "valid_name",
    "verify_module",
    "verify_op",
]
