"""The lines of a text file that somebody else made: read with suspicion.

A line ends with LF or CRLF. Whatever cannot be meant is found with its line and column, counted in
characters from 1: bytes that are no UTF-8, control characters, and so on.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST = 20_000
"""Characters in a line: far beyond any pair that a model could learn."""

MOST_BYTES = 4 * LONGEST + 100
"""Bytes of a line after which the rest of it is not even kept."""
BOM = b"\xef\xbb\xbf"
BAD = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffd\ufffe\uffff]")
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


TOO_LONG = BadLine(LONGEST + 1, f"more than {LONGEST:,} characters, expected at most that")

Line = tuple[int, str | BadLine]
"""Its number, from 1, and its text."""


def lines_of(blocks: Iterable[bytes]) -> Iterator[list[Line]]:
    """The lines that end in each block; a byte order mark at the start is no text."""
    rest, number, offset, endless = b"", 1, 0, False
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        found: list[Line] = []
        for line in whole:
            if not endless:
                found.append((number, _line(line, number, offset)))
            number, offset, endless = number + 1, offset + len(line) + 1, False
        if len(rest) > MOST_BYTES:  # it may have no end: neither kept nor waited for
            if not endless:
                found.append((number, TOO_LONG))
            offset, rest, endless = offset + len(rest), b"", True
        if found:
            yield found
    if rest and not endless:
        yield [(number, _line(rest, number, offset))]


def _line(line: bytes, number: int, offset: int) -> str | BadLine:
    text = line.removesuffix(b"\r")
    if number == 1 and text.startswith(BOM):
        return check_line(text.removeprefix(BOM), len(BOM))
    return check_line(text, offset)


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
    half = "\ud800" <= character <= "\udfff"  # of an argument, say, that is no UTF-8
    name = NAMES.get(character, "half a character" if half else "a control character")
    return BadLine(found.start() + 1, f"{name} (U+{ord(character):04X})")
