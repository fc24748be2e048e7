"""The lines of a text file that somebody else made: read with suspicion.

A line ends with LF or CRLF. Whatever cannot be meant is found with its line and column, counted in
characters from 1: bytes that are no UTF-8, control characters, and so on.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pushpop.errors import InputError, reading

LONGEST = 20_000
"""Characters in a line: far beyond any pair that a model could learn."""

KINDS_OF_FILE = {
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"PK\x03\x04": "a zip file or a spreadsheet; export it as tab-separated text",
    b"BZh": "a bzip2 file; unpack it first",
    b"\xfd7zXZ\x00": "an xz file; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd file; unpack it first",
    b"%PDF": "a PDF; expected text",
}
BAD = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd\ufffe\uffff]")
NAMES = {
    "\x00": "a NUL character",
    "\r": "a carriage return inside a line",
    "\n": "a line feed",
    "\x85": "a next-line character",
    "\u2028": "a line separator",
    "\u2029": "a paragraph separator",
    "\ufeff": "a byte order mark inside the text",
    "\ufffd": "a replacement character, left by a faulty conversion",
    "\ufffe": "a character that does not exist",
    "\uffff": "a character that does not exist",
}


@dataclass(frozen=True)
class BadLine:
    """What is wrong with a line, and at which of its characters (from 1)."""

    column: int
    what: str


def read_bytes(path: str | Path) -> bytes:
    """The contents of a text file; `InputError` if it cannot be one."""
    path = Path(path)
    with reading(path):
        if path.is_dir():
            raise InputError(f"{path}: a directory, expected a file of pairs")
        data = path.read_bytes()
    for start, kind in KINDS_OF_FILE.items():
        if data.startswith(start):
            raise InputError(f"{path}: {kind}")
    if not data:
        raise InputError(f"{path}: the file is empty, expected pairs of strings")
    if b"\r" in data and b"\n" not in data:
        raise InputError(f"{path}:1: lines end with CR alone; save it with LF or CRLF")
    if data[1:200:2].count(0) > 50 or data[0:200:2].count(0) > 50:
        raise InputError(f"{path}: every other byte is 0, as in UTF-16; save it as UTF-8")
    return data


def lines_of(data: bytes) -> Iterator[tuple[int, str | BadLine]]:
    """Number and text of each line that is not blank; a byte order mark at the start is no text."""
    offset = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    for number, line in enumerate(data[offset:].split(b"\n"), 1):
        text = line.removesuffix(b"\r")
        if text.strip(b" "):
            yield number, check_line(text, offset)
        offset += len(line) + 1


def check_line(line: bytes, offset: int = 0) -> str | BadLine:
    """A line as text, or what is wrong with it; `offset` is where in the file it begins."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8")) + 1
        byte = line[error.start]
        return BadLine(column, f"byte 0x{byte:02x} at offset {offset + error.start} is not UTF-8")
    return check_text(text) or text


def check_text(text: str) -> BadLine | None:
    """What must not be in a line of text, if something is."""
    if len(text) > LONGEST:
        return BadLine(LONGEST + 1, f"{len(text):,} characters, expected at most {LONGEST:,}")
    found = BAD.search(text)
    if found is None:
        return None
    character = found[0]
    name = NAMES.get(character, "a control character")
    return BadLine(found.start() + 1, f"{name} (U+{ord(character):04X})")
