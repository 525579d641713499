"""The errors a user can cause. Every one carries one sentence and a place; no traceback reaches a user."""

from __future__ import annotations

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity


class MloptError(Exception):
    """Base of all errors that mlopt raises on purpose.

    `exit_code` is what the command line returns for it: 1 for an error in the input, the pipeline or a pass,
    2 for a wrong command line.
    """

    exit_code: int = 1

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        notes: tuple[Diagnostic, ...] = (),
        source_line: str | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.place = place
        self.notes = notes
        self.source_line = source_line

    def __str__(self) -> str:
        """The place, where it is known, and the sentence: what a traceback ends with."""
        return self.message if self.place in (None, Place()) else f"{self.place}: {self.message}"

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics to print for this error: one, unless a subclass holds several."""
        return (Diagnostic(Severity.ERROR, self.message, self.place, self.notes, self.source_line),)


class UsageError(MloptError):
    """The command line itself is wrong."""

    exit_code = 2


class InputError(MloptError):
    """A file, an array, a dimension or a configuration is missing, malformed or does not fit."""


class UnsupportedError(InputError):
    """A valid model uses something that mlopt does not have (yet)."""


class MissingSizeError(InputError):
    """A model has symbolic dimensions that were given no values."""


class ParseFailure(MloptError):
    """Text that is not IR."""


class VerifyFailure(MloptError):
    """IR that breaks a rule of an operation, of SSA dominance, or of a level."""


class PipelineError(MloptError):
    """A pass pipeline that can't be built: unknown pass, unknown option, wrong anchor."""


class PassFailure(MloptError):
    """A pass that could not do its work, or broke a rule it promised to keep."""


class EndlessRewrite(PassFailure):
    """A pass that goes on rewriting without end."""


class RunError(MloptError):
    """Something went wrong while a compiled model ran."""
