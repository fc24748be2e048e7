"""Files that are on the disk, whole, or as they were before."""

import os
from contextlib import suppress
from pathlib import Path


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


def flush_directory(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
