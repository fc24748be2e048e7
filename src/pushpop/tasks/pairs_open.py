"""Opening a text file that somebody else made: what kind of file it is, and gzip on the way."""

import gzip
import io
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from pushpop.errors import InputError, reading

ENDINGS = (".tsv", ".txt", ".tab", ".csv")
"""How the name of a file of pairs ends; .gz may follow."""
GZIP, CSV = ".gz", ".csv"
GZIP_START = b"\x1f\x8b"
KINDS_OF_FILE = {
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"PK\x03\x04": "a zip file or a spreadsheet; export it as tab-separated text",
    b"BZh": "a bzip2 file; unpack it first",
    b"\xfd7zXZ\x00": "an xz file; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd file; unpack it first",
    b"%PDF": "a PDF; expected text",
}


def is_pairs_file(name: str) -> bool:
    """Whether a task's name is the path of a file of pairs."""
    return name.lower().removesuffix(GZIP).endswith(ENDINGS)


def is_csv(path: str | Path) -> bool:
    """Whether columns lie between commas, with quotes where needed."""
    return str(path).lower().removesuffix(GZIP).endswith(CSV)


def stem_of(path: str | Path) -> str:
    """The file's name without its ending, nor that of gzip."""
    name = Path(path).name
    return Path(name[: -len(GZIP)] if name.lower().endswith(GZIP) else name).stem


def describe_endings() -> str:
    """The endings of files of pairs, in words."""
    return f"{', '.join(ENDINGS)} (or one of them with {GZIP})"


def count_lines(path: str | Path, most: int) -> int:
    """The lines of a file, at most so many; 0 if it cannot be read, which its reader will tell."""
    found = 0
    try:
        for block in read_blocks(path):
            found += block.count(b"\n")
            if found >= most:
                return most
    except InputError:
        return 0
    return found


def read_blocks(path: str | Path, raw: bytes | None = None) -> Iterator[bytes]:
    """The text of a file piece by piece, unpacked on the way; `InputError` if it cannot be text, or
    breaks off. `raw`: the bytes of the file, if they have been read.

    A file is unpacked if it begins as gzip files do, whatever its name is.
    """
    path = Path(path)
    with reading(path):
        if path.is_dir():
            raise InputError(f"{path}: a directory, expected a file of pairs")
        with open(path, "rb") if raw is None else io.BytesIO(raw) as file:
            yield from _checked(path, unpacked(str(path), cast("BinaryIO", file)))


def blocks_of(stream: BinaryIO) -> Iterator[bytes]:
    """What has arrived, piece by piece, without waiting for more."""
    read = cast("io.BufferedReader", stream).read1
    while block := read(2**16):
        yield block


def unpacked(name: str, stream: BinaryIO) -> Iterator[bytes]:
    """What has arrived, piece by piece, unpacked if the stream begins as gzip files do."""
    blocks = blocks_of(stream)
    head = next(blocks, b"")
    if head == GZIP_START[:1]:  # from a pipe, a single byte may come first
        head += next(blocks, b"")
    if not head.startswith(GZIP_START):
        if head and name.lower().endswith(GZIP):
            raise InputError(f"{name}: its name ends in {GZIP}, and it is no gzip file")
        yield from chain([head], blocks)
        return
    try:
        source = io.BufferedReader(_Chain(chain([head], blocks)))
        with gzip.GzipFile(fileobj=source) as text:
            yield from blocks_of(cast("BinaryIO", text))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: a gzip file that is cut off or damaged: {error}") from None


class _Chain(io.RawIOBase):
    """Blocks as a stream that can be read once, from a pipe too."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._left = self._left or next(self._blocks, b"")
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _checked(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    head = next(blocks, b"")
    if b"\r" in head and b"\n" not in head:
        head += next(blocks, b"")
    _check_head(path, head)
    yield head
    yield from blocks


def _check_head(path: Path, head: bytes) -> None:
    """Refuse what cannot be text with lines, by the beginning of the file."""
    for start, kind in KINDS_OF_FILE.items():
        if head.startswith(start):
            raise InputError(f"{path}: {kind}")
    if not head:
        raise InputError(f"{path}: the file is empty, expected text")
    zeros = sorted([head[0:200:2].count(0), head[1:200:2].count(0)])
    if zeros[0] > 20:
        raise InputError(f"{path}: many of its bytes are 0: not text")
    if zeros[1] > 50:
        raise InputError(f"{path}: every other byte is 0, as in UTF-16; save it as UTF-8")
    if b"\r" in head and b"\n" not in head and 0 not in head:
        raise InputError(f"{path}:1: lines end with CR alone; save it with LF or CRLF")
