"""Atomic file writes."""

import os
from contextlib import suppress
from pathlib import Path

from pushpop.errors import InputError


def check_folder_of(path: Path) -> None:
    """Refuse a file whose folder is missing, before the work whose result it is to hold."""
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder to write {path.name} into")


def write_flushed(path: Path, data: bytes, mode: str = "wb") -> None:
    """Write a file and flush it to the disk."""
    with open(path, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, data: bytes) -> None:
    """Replace a file by one with these contents, atomically."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        write_flushed(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    flush_directory(path.parent)


def flush_directory(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
