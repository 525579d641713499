"""Numeric validation of passes: what the IR computes before and after each pass that changed it is compared."""

from mlopt.validation.comparing import DEFAULT_TOLERANCE, Difference
from mlopt.validation.validator import Rejection, ValidatedPass, ValidationOptions, Validator

__all__ = [
    "DEFAULT_TOLERANCE",
    "Difference",
    "Rejection",
    "ValidatedPass",
    "ValidationOptions",
    "Validator",
]
