"""Files are written atomically; standard streams and arguments are UTF-8 in any locale."""

import io
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pushpop.errors import InputError


def check_folder_of(path: Path) -> None:
    """Refuse a file whose folder is missing, before the work whose result it is to hold."""
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder to write {path.name} into")


def write_flushed(path: Path, data: bytes, mode: str = "wb") -> None:
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


def to_json(data: Any, what: object) -> bytes:
    """The bytes of a JSON file; `InputError` if plain values cannot say `what` it is."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1)
        return f"{text}\n".encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{what} cannot be saved as JSON: {error}") from None


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """The object in a JSON file; `InputError` if it has anything else."""
    try:
        content = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: {type(content).__name__}, expected an object")
    return content


def use_utf8() -> None:
    """Make standard input, output and errors UTF-8. A terminal keeps its encoding, and shows what
    that lacks by number; bytes of arguments that the locale could not read are written as they
    came."""
    if sys.stdout is None:  # closed by who called: nobody wants what is printed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  for as long as the process runs
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not closed, nor somebody's own
            terminal = stream.isatty()
            shown = terminal and stream is not sys.stdin
            stream.reconfigure(
                encoding=None if terminal else "utf-8",
                errors="backslashreplace" if shown else "surrogateescape",
            )


def output_is_closed() -> bool:
    """Whether standard output was closed by who called."""
    return getattr(sys.stdout, "name", "") == os.devnull


def drop_output() -> None:
    """Drop what standard output could not take: it is not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def tell(text: str) -> None:
    """Print a line about what a command does on standard error."""
    print("pushpop:", text, file=sys.stderr, flush=True)


def as_text(argument: str) -> str:
    """Read the bytes of an argument as UTF-8, even if the locale could not."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:  # no UTF-8: whoever reads it will say so
        return argument
