"""Writing files whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mlopt.diagnostics import InputError, Place


@contextmanager
def replacing(path: Path, *, follow: bool = True) -> Generator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends, and vanishes if the block raises.

    A symbolic link is followed if `follow`, else replaced: for a file whose name the user has not given, a link may
    have been put there by another. A file with several hard links keeps its contents under the other names. Raises
    `InputError` if no file can be made there, or the device is full.
    """
    check_writable(path)
    if follow:
        path = path.resolve()
    try:
        with _direct(path) if _is_device(path) else _through_temporary(path) as file:
            yield file
    except OSError as error:
        if error.filename is not None:
            raise
        # Only failed writes name no file.
        raise InputError(f"can't write here: {error.strerror or error}", place=Place(str(path))) from None


def _is_device(path: Path) -> bool:
    """Whether there is something that no file may take the place of: a device or pipe, such as /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir() and not path.is_symlink()


@contextmanager
def _direct(path: Path) -> Generator[BinaryIO]:
    """A device or pipe is written to, not replaced: at the end, as archives are not written from front to back."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with path.open("wb") as device:
            shutil.copyfileobj(file, device)


@contextmanager
def _through_temporary(path: Path) -> Generator[BinaryIO]:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".mlopt.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8."""
    with replacing(path) as file:
        file.write(text.encode())


def check_writable(path: Path) -> None:
    """Raise `InputError` unless a file can be made at `path`, or what is there is a device that may be written to."""
    place = Place(str(path))
    if _is_device(path):
        if not os.access(path, os.W_OK):
            raise InputError("can't write here: no permission", place=place)
        return
    if not path.parent.is_dir():
        raise InputError(f"can't write here: there is no folder '{path.parent}'", place=place)
    if path.is_dir():
        raise InputError("can't write here: this is a folder", place=place)
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"can't write here: no permission in folder '{path.parent}'", place=place)


def check_all_writable(*paths: Path | None) -> None:
    """`check_writable` for each of those that are asked for; no two of them may be one file."""
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        check_writable(path)
        if path.resolve() in seen and not _is_device(path):
            raise InputError("two results are to be written here", place=Place(str(path)))
        seen.add(path.resolve())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
