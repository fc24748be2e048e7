"""Files: what to say of one that cannot be read or written, and how one is written so that it is on
the disk, whole, or as it was before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pushpop.errors import InputError


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what the system or a text's encoding refuses into an `InputError` with the path."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a ValueError: no UTF-8, or a NUL in the path
        raise InputError(f"{path}: cannot be read: {_reason(error)}") from error


@contextmanager
def writing(path: str | Path, note: str = "") -> Iterator[None]:
    """Turn what the system refuses into an `InputError` with the path; `note` ends the message."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}{note}") from error


def write_flushed(path: Path, data: bytes, mode: str = "wb") -> None:
    """Write a file and wait until its contents are on the disk."""
    with open(path, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, data: bytes) -> None:
    """Replace a file by one with these contents, or leave it as it is."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        write_flushed(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    flush_directory(path.parent)


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error


def flush_directory(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
