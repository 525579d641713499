"""Severities, source places, errors and the printing of diagnostics. Knows no dialect."""

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity
from mlopt.diagnostics.errors import (
    EndlessRewrite,
    InputError,
    MissingSizeError,
    MloptError,
    ParseFailure,
    PassFailure,
    PipelineError,
    RunError,
    UnsupportedError,
    UsageError,
    VerifyFailure,
)
from mlopt.diagnostics.printing import format_diagnostic, one_line, print_diagnostic
from mlopt.diagnostics.remark import (
    REMARK_KINDS,
    Remark,
    RemarkKind,
    RemarkValue,
    place_record,
    remark_record,
    remarks_as_text,
    select_remarks,
)
from mlopt.diagnostics.suggestions import did_you_mean, nearest
from mlopt.diagnostics.wording import counted

__all__ = [
    "REMARK_KINDS",
    "Diagnostic",
    "EndlessRewrite",
    "InputError",
    "MissingSizeError",
    "MloptError",
    "ParseFailure",
    "PassFailure",
    "PipelineError",
    "Place",
    "Remark",
    "RemarkKind",
    "RemarkValue",
    "RunError",
    "Severity",
    "UnsupportedError",
    "UsageError",
    "VerifyFailure",
    "counted",
    "did_you_mean",
    "format_diagnostic",
    "nearest",
    "one_line",
    "place_record",
    "print_diagnostic",
    "remark_record",
    "remarks_as_text",
    "select_remarks",
]
