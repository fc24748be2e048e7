"""The text of pairs that somebody else made: unpacked, split into lines, checked, and turned into
symbols.

A line ends with LF or CRLF. Whatever cannot be meant is found with its line and column, counted in
characters from 1: bytes that are no UTF-8, control characters, and so on.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args
from unicodedata import normalize

from pushpop.errors import InputError, check_keys, naming, reading

ENDINGS = (".tsv", ".txt", ".tab", ".csv")
"""How the name of a file of pairs, or of lines, ends; .gz may follow. Molecules are lines only."""
GZIP, CSV, SMILES = ".gz", ".csv", ".smi"
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
    """Whether a task's name is the path of a file of pairs, or of lines."""
    return _ends_in(name, *ENDINGS, SMILES)


def is_csv(path: str | Path) -> bool:
    """Whether columns lie between commas, with quotes where needed."""
    return _ends_in(path, CSV)


def is_smiles(path: str | Path) -> bool:
    """Whether each line has a molecule, and after a space or a tab a name."""
    return _ends_in(path, SMILES)


def _ends_in(path: str | Path, *endings: str) -> bool:
    return str(path).lower().removesuffix(GZIP).endswith(endings)


def has_one_column(path: str | Path) -> bool:
    """Whether a file has lines, and no pairs, by its name and how it begins; if it cannot be read,
    its reader will tell."""
    if is_smiles(path):
        return True
    try:
        check_is_file(path)
        head = next(read_blocks(path), b"")
    except InputError:
        return False
    separators = b"," if is_csv(path) else b"\t,;"
    lines = [line for line in head.split(b"\n") if line.strip()]
    separated = sum(any(mark in line for mark in separators) for line in lines)
    return _ends_in(path, CSV, ".txt") and 2 * separated < len(lines) and b"|||" not in head


def stem_of(path: str | Path) -> str:
    """The file's name without its ending, nor that of gzip."""
    path = Path(path)
    return Path(path.stem if path.suffix.lower() == GZIP else path).stem


def count_lines(path: str | Path, most: int) -> int:
    """The lines of a file, at most so many; 0 if it cannot be read, which its reader will tell."""
    lines = 0
    try:
        check_is_file(path)
        for block in read_blocks(path):
            lines += block.count(b"\n")
            if lines >= most:
                return most
    except InputError:
        return 0
    return lines


def check_is_file(path: str | Path) -> None:
    """Refuse a directory, and a named pipe or a device, whose reading may never end; those that a
    shell opens for a process, as in /dev/stdin, may be read."""
    if Path(path).is_dir():
        raise InputError(f"{path}: a directory, expected a file of pairs")
    if Path(path).exists() and not Path(path).is_file() and not str(path).startswith("/dev/"):
        raise InputError(f"{path}: a pipe or a device, expected a file")


def read_blocks(path: str | Path, raw: bytes | None = None) -> Iterator[bytes]:
    """The text of a file piece by piece, unpacked on the way; `InputError` if it cannot be text, or
    breaks off. `raw`: the bytes of the file, if they have been read.

    A file is unpacked if it begins as gzip files do, whatever its name is.
    """
    with reading(path), open(path, "rb") if raw is None else io.BytesIO(raw) as file:
        blocks = unpacked(str(path), file)
        head = next(blocks, b"")
        if b"\r" in head and b"\n" not in head:
            head += next(blocks, b"")
        _check_head(path, head)
        yield head
        yield from blocks


def unpacked(name: str, stream: BinaryIO | io.BytesIO) -> Iterator[bytes]:
    """What has arrived, piece by piece, without waiting for more; unpacked if the stream begins as
    gzip files do."""
    if not isinstance(stream, io.BufferedReader):  # a buffer to peek into
        stream = io.BufferedReader(cast("io.RawIOBase", stream))
    head = stream.peek(1)[:2]  # from a pipe, a single byte may come first
    packed = head != b"" and GZIP_START.startswith(head)
    if head and not packed and name.lower().endswith(GZIP):
        raise InputError(f"{name}: its name ends in {GZIP}, and it is no gzip file")
    text = gzip.GzipFile(fileobj=stream) if packed else stream
    try:
        while block := text.read1(2**16):
            yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: a gzip file that is cut off or damaged: {error}") from None


def _check_head(path: str | Path, head: bytes) -> None:
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


LONGEST = 100_000
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

Line = tuple[int, int, str | BadLine]
"""Its number, from 1, the offset at which it begins, and its text."""


def lines_of(blocks: Iterable[bytes]) -> Iterator[list[Line]]:
    """The lines that end in each block; a byte order mark at the start is no text."""
    rest, number, offset, endless = b"", 1, 0, False
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        lines: list[Line] = []
        for line in whole:
            if not endless:
                lines.append(_line(number, offset, line))
            number, offset, endless = number + 1, offset + len(line) + 1, False
        if len(rest) > MOST_BYTES:  # it may have no end: neither kept nor waited for
            if not endless:
                lines.append((number, offset, TOO_LONG))
            offset, rest, endless = offset + len(rest), b"", True
        if lines:
            yield lines
    if rest and not endless:
        yield [_line(number, offset, rest)]


def _line(number: int, offset: int, line: bytes) -> Line:
    if offset == 0 and line.startswith(BOM):
        line, offset = line.removeprefix(BOM), len(BOM)
    line = line.removesuffix(b"\r")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8")) + 1
        what = f"byte 0x{line[error.start]:02x} at offset {offset + error.start} is not UTF-8"
        return number, offset, BadLine(column, what)
    return number, offset, check_text(text) or text


def check_text(text: str) -> BadLine | None:
    """What must not be in a line of text, if something is."""
    if len(text) > LONGEST:
        return BadLine(LONGEST + 1, f"{len(text):,} characters, expected at most {LONGEST:,}")
    match = BAD.search(text)
    if match is None:
        return None
    character = match[0]
    half = "\ud800" <= character <= "\udfff"  # of an argument, say, that is no UTF-8
    name = NAMES.get(character, "half a character" if half else "a control character")
    return BadLine(match.start() + 1, f"{name} (U+{ord(character):04X})")


Symbols = Literal["chars", "spaces"]
Side = Literal["guess", "chars", "spaces"]
Normalise = Literal["nfc", "nfkc", "none"]
UNKNOWN = "<unk>"
"""The symbol that stands for every symbol that was not there in training."""
FEATURE_SEPARATOR = ";"


@dataclass(frozen=True)
class TextForm:
    """What a model must know about text: it is saved with the model.

    Args:
        source: "chars": every character is a symbol; "spaces": symbols stand between spaces.
        target: the same for the other side.
        features: whether features such as `V;PST;3` go with the source; each is a symbol of its
            own, `<PST>`, and they are read before the source.
        normalise: the Unicode form that text is brought into first: "nfc", "nfkc" or "none".
    """

    source: Symbols = "chars"
    target: Symbols = "chars"
    features: bool = False
    normalise: Normalise = "nfc"

    def __post_init__(self) -> None:
        for name, kind in (("source", Symbols), ("target", Symbols), ("normalise", Normalise)):
            if getattr(self, name) not in get_args(kind):
                accepted = " or ".join(get_args(kind))
                raise InputError(f"{name} is {getattr(self, name)!r}, expected {accepted}")
        if type(self.features) is not bool:
            raise InputError(f"features is {self.features!r}, expected true or false")

    def describe(self, side: str) -> str:
        """How a side is written, in words."""
        chars = getattr(self, side) == "chars"
        return "characters" if chars else "space-separated symbols"

    def describe_unicode(self) -> str:
        """Into which form of Unicode the text is brought."""
        return "not normalised" if self.normalise == "none" else self.normalise.upper()

    def clean(self, text: str) -> str:
        """Normalised, without the spaces at either end."""
        if self.normalise != "none" and not text.isascii():
            text = normalize("NFC" if self.normalise == "nfc" else "NFKC", text)
        return text.strip(" ")

    def source_symbols(self, text: str, features: str = "") -> list[str]:
        """The features' symbols, then the source's."""
        return [*self.feature_symbols(features), *_split(self.clean(text), self.source)]

    def target_symbols(self, text: str) -> list[str]:
        return _split(self.clean(text), self.target)

    def feature_symbols(self, text: str) -> list[str]:
        """`V;PST` -> `<V>`, `<PST>`: no character is written like that."""
        parts = self.clean(text).split(FEATURE_SEPARATOR) if text else []
        return [f"<{part}>" for part in parts]

    def target_text(self, symbols: Iterable[str]) -> str:
        return ("" if self.target == "chars" else " ").join(symbols)

    def read_line(self, line: str) -> list[str]:
        """The source symbols of a line to predict from: the source, and after a tab its features
        if the model knows features."""
        text, tab, features = line.partition("\t")
        if self.features and not tab:
            raise InputError(f"{line!r}: no features; expected the source, a tab, the features")
        if not self.features and tab:
            raise InputError(f"{line!r}: a tab; expected a source and nothing else")
        if "\t" in features:
            raise InputError(f"{line!r}: more than one tab; expected the source, a tab, features")
        return self.source_symbols(text, features)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TextForm":
        """Undo `to_dict`: every field, and nothing else."""
        with naming("text"):
            check_keys(data, [field.name for field in fields(cls)])
            return cls(**data)


def _split(text: str, symbols: Symbols) -> list[str]:
    return list(text) if symbols == "chars" else [part for part in text.split(" ") if part]
