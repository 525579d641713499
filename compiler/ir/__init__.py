"""The IR and its text: context, parser, printer, verifier, locations, rewriting. xDSL's internals stay behind it."""

# First of all: it must be there before a dialect is loaded.
import mlopt.ir.xdsl_speed  # noqa: F401, I001  # pyright: ignore[reportUnusedImport] - imported for its effect

from mlopt.ir.context import CompilerContext, Evaluator, ScratchNeed, Target
from mlopt.ir.dtypes import array_to_dense, dense_to_array, from_numpy_dtype, to_numpy_dtype
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
    "array_to_dense",
    "dense_to_array",
    "from_numpy_dtype",
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
    "to_numpy_dtype",
    "valid_name",
    "verify_module",
    "verify_op",
]
