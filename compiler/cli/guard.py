"""Turns whatever a command raises into a diagnostic and an exit code; no traceback reaches a user."""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from io import TextIOWrapper

from mlopt.diagnostics import Diagnostic, MloptError, Place, Severity, UsageError, print_diagnostic

DEBUG_VARIABLE = "MLOPT_DEBUG"
"""Set to anything but `0` or nothing, this environment variable shows the traceback of every error."""

RECURSION_LIMIT = 10_000
"""Frames: enough for regions nested some hundred deep; Python's default stops the parser at about 140."""

GARBAGE_THRESHOLD = 500_000
"""Objects between two searches for cycles, each some 100 bytes.

IR is many small objects that stay, and modules are 150 000 of them: Python's 700 costs a tenth of the time of a small
model, one search alone a twentieth.
"""

INTERRUPTED = 130

_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What a write to a stream that is full or broken fails with; it names no file."""


def guarded(
    run: Callable[[], int],
    *,
    program: str = "mlopt",
    command: str | None = None,
    sources: Mapping[str, str] | None = None,
) -> int:
    """Run a command and return its exit code: 0, 1 for an error, 2 for a wrong command line.

    `command` is what has the help on a wrong command line, `mlopt run` (default: the program). `sources` (file name →
    text) gives the lines that diagnostics show where no file holds them.
    """
    sys.setrecursionlimit(max(RECURSION_LIMIT, sys.getrecursionlimit()))
    gc.set_threshold(GARBAGE_THRESHOLD)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _exit_code(run)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:
        if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
            traceback.print_exc()
        return _report(error, program, command or program, sources)


def _exit_code(run: Callable[[], int]) -> int:
    try:
        return run()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)


def _open_closed_streams() -> None:
    """What goes to a stream that is closed, which Python has as None, goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for as long as the process runs


def _report(error: BaseException, program: str, command: str, sources: Mapping[str, str] | None) -> int:
    notes: list[str] = getattr(error, "__notes__", [])
    match error:
        case UsageError():
            print(f"{command}: error: {error.message}", file=sys.stderr)
            print(f"try '{command} --help'", file=sys.stderr)
            return error.exit_code
        case MloptError():
            for diagnostic in error.diagnostics:
                print_diagnostic(diagnostic, sources=sources)
            return error.exit_code
        case OSError() if error.filename is not None:
            place = Place(os.fsdecode(error.filename))
            print_diagnostic(Diagnostic(Severity.ERROR, error.strerror or str(error), place))
        case OSError() if error.errno in _WRITE_ERRORS:
            _forget_stdout()
            print_diagnostic(Diagnostic(Severity.ERROR, f"can't write the output: {error.strerror}"))
        case RecursionError():
            print_diagnostic(Diagnostic(Severity.ERROR, "the input is nested too deeply"))
        case MemoryError():
            print_diagnostic(Diagnostic(Severity.ERROR, ", ".join(["out of memory", *notes])))
        case _:
            what = ", ".join([f"{type(error).__name__}: {error}".partition("\n")[0], *notes])
            print(
                f"{program}: internal error: {what}; this is a fault of mlopt: please report it with the input "
                f"({DEBUG_VARIABLE}=1 shows the traceback)",
                file=sys.stderr,
            )
    return 1


def _forget_stdout() -> None:
    """Whoever read our output is gone: write the rest, flushed when Python ends, to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
