"""Severities, source places, errors and the printing of diagnostics. Knows no dialect."""

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity
from mlopt.diagnostics.errors import (
    InputError,
    MloptError,
    ParseFailure,
    PassFailure,
    PipelineError,
    RunError,
    UnsupportedError,
    UsageError,
    VerifyFailure,
)

__all__ = [
    "Diagnostic",
    "InputError",
    "MloptError",
    "ParseFailure",
    "PassFailure",
    "PipelineError",
    "Place",
    "RunError",
    "Severity",
    "UnsupportedError",
    "UsageError",
    "VerifyFailure",
]
