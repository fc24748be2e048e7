"""A file of lines to generate more of: where each line is, found in one pass; lines are read when
they are needed.

A plain file stays on the disk and is mapped into memory; what gzip has packed is unpacked into it.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from pushpop.errors import InputError, counted, did_you_mean, reading
from pushpop.tasks.base import IntArray, Pairs, Vocabulary
from pushpop.tasks.batching import Batch, make_line_batch
from pushpop.tasks.pairs import Epochs
from pushpop.tasks.pairs_file import (
    HEADER_NAMES,
    LOOKED_AT,
    BadRow,
    Row,
    RowsFile,
    guess_symbols,
    read_row,
)
from pushpop.tasks.pairs_text import (
    GZIP_START,
    Normalise,
    Symbols,
    TextForm,
    check_is_file,
    check_text,
    is_smiles,
    read_blocks,
)

HEADERS = HEADER_NAMES | {"smiles", "selfies", "line", "lines", "text", "sequence", "sequences"}


class LinesFile(RowsFile):
    """The lines of a file by number, as symbols; blank ones are left out.

    Args:
        path: the file. Its columns stand between tabs; in CSV, between commas.
        column: the number of the column to read, from 0, or its name in the first line; `None`:
            there must be only one.
        symbols: "chars", "spaces" (between symbols), or "": guessed.
        normalise: the Unicode form of the text.
        skip_bad: whether bad lines are left out, and counted, rather than refused.
        raw: what the file holds, if that is in memory and not on the disk.
    """

    row_name: ClassVar[str] = "line"

    def __init__(
        self,
        path: str | Path,
        column: int | str | None = None,
        symbols: Symbols | Literal[""] = "",
        normalise: Normalise = "nfc",
        skip_bad: bool = False,
        raw: bytes | None = None,
    ) -> None:
        super().__init__(path, skip_bad)
        self.column = column if isinstance(column, int) else None
        self._named = column if isinstance(column, str) else ""
        self._molecules = is_smiles(path)
        self._bytes = self._map(raw)
        if not symbols:
            symbols = guess_symbols([text for _, text in islice(self._texts(raw), LOOKED_AT)])
            self.skipped.clear()
        self.form = TextForm(symbols, symbols, False, normalise)
        starts, lengths, alphabet = [], [], set[str]()
        for start, text in self._texts(raw):
            line = self.form.target_symbols(text)
            starts.append(start)
            lengths.append(len(line))
            alphabet.update(line)
        if not starts:
            what = f"no good line; {self.skipped[0]}" if self.skipped else "only blank lines"
            raise InputError(f"{self.path}: {what}, expected lines of text")
        self._starts = np.array(starts)
        self.lengths: IntArray = np.array(lengths)  # [lines], in symbols
        self.alphabet = alphabet
        self.digest = sha256(self._bytes).hexdigest()

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, row: int) -> list[str]:
        start = int(self._starts[row])
        end = self._bytes.find(b"\n", start)
        line = self._bytes[start:] if end < 0 else self._bytes[start:end]
        return self.form.target_symbols(self._field("", line.removesuffix(b"\r").decode()))

    def known_rows(self, vocabulary: Vocabulary) -> list[int]:
        """The lines with no other symbols than these: all of them, unless bad ones are skipped."""
        known = set(vocabulary.target)
        if self.alphabet <= known:
            return list(range(len(self)))
        rows = []
        for row in range(len(self)):
            unknown = [symbol for symbol in self[row] if symbol not in known]
            if not unknown:
                rows.append(row)
                continue
            number = self._bytes[: int(self._starts[row])].count(b"\n") + 1
            message = f"{self.path}:{number}: unknown symbol {unknown[0]!r}"
            hint = ", which no line of training has; --skip-bad leaves such lines out"
            self.refuse(message if self.skip_bad else message + hint)
        if not rows:
            raise InputError(f"{self.path}: no good line; {self.skipped[0]}")
        return rows

    def describe(self) -> str:
        """How the file was read, in a line."""
        column = "" if self.column is None else f"column {self.column + 1}; "
        return (
            f"{self.path}: {counted(len(self), 'line')}; {column}{self.form.describe('target')}, "
            f"{len(self.alphabet):,} different ones; {self.form.describe_unicode()}{self.header}"
        )

    def _map(self, raw: bytes | None) -> bytes | mmap.mmap:
        """The bytes of the file, unpacked; those of a plain file are on the disk."""
        if raw is not None:
            return raw
        check_is_file(self.path)
        blocks = read_blocks(self.path)
        head = next(blocks)  # refuses what is no text
        with reading(self.path), open(self.path, "rb") as file:
            if file.read(2) == GZIP_START:
                return head + b"".join(blocks)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _texts(self, raw: bytes | None) -> Iterator[tuple[int, str]]:
        """Where each line begins, and its text."""
        first = True
        for where, start, line in self.lines(raw):
            try:
                if first and self._named:
                    self._find_column(read_row(where, line, commas=self.commas))
                    first = False
                    continue
                text = self._field(where, line)
                if first and self.commas and text.strip().lower() in HEADERS:
                    self.header = f"; the first line is a header ({text.strip()})"
                else:
                    yield start, text
                first = False
            except BadRow as error:
                self.refuse(error)

    def _find_column(self, header: Row) -> None:
        """Look up the name of the column to read in the first line."""
        name, names = self._named.lower(), [field.strip().lower() for field in header.fields]
        if name not in names:
            raise InputError(
                f"{header.where}: columns is {self._named!r}, expected a name in the first line "
                f"({', '.join(header.fields)[:60]}){did_you_mean(name, names)}"
            )
        self.column = names.index(name)
        self.header = f"; the first line is a header ({self._named})"

    def _field(self, where: str, line: str) -> str:
        """The text of a line: of its column, if it has several."""
        if self._molecules:
            if not (words := line.split(maxsplit=1)):
                raise BadRow(f"{where}:1: only tabs, expected a molecule")
            return words[0]
        if self.column is None and not self.commas and "\t" not in line:
            return line
        row = read_row(where, line, commas=self.commas)
        column, count = self.column or 0, len(row.fields)
        if self.column is None and count > 1:
            raise InputError(
                f"{where}: {count} columns, expected one, or --columns N: the number of the one to "
                "read"
            )
        if column >= count:
            raise row.bad(count, f"no column {column + 1}; the line has {count}")
        if not row.fields[column].strip(" "):
            raise row.bad(column, f"column {column + 1} is empty")
        return row.fields[column]


class LinesData(Epochs):
    """Some lines of a file in batches."""

    def __init__(
        self, file: LinesFile, rows: Sequence[int], vocabulary: Vocabulary, batch_size: int
    ) -> None:
        self.file, self.vocabulary, self._rows = file, vocabulary, np.asarray(rows)
        super().__init__(file.lengths[self._rows], batch_size)

    def batch(self, seed: int, index: int) -> Batch:
        rows = self._rows[self.rows(seed, index)]
        return make_line_batch(encode_lines(self.file, rows, self.vocabulary), self.vocabulary)


def encode_lines(file: LinesFile, rows: Sequence[int] | IntArray, vocabulary: Vocabulary) -> Pairs:
    """Lines as the targets of pairs without a source."""
    return Pairs.of([((), vocabulary.encode_target(file[int(row)]).tolist()) for row in rows])


def check_lines(lines: Iterable[str], what: str) -> list[str]:
    """The lines of a program; `InputError` with the number of one that cannot be a line."""
    if isinstance(lines, str):
        raise InputError(f"{what} is the string {lines!r}, expected a list of strings")
    checked = []
    for number, line in enumerate(lines):
        if not isinstance(line, str) or not line.strip(" "):
            raise InputError(f"{what}: line {number} is {line!r}, expected a string with letters")
        if (bad := check_text(line)) is not None or "\t" in line:
            what_is_bad = f"{bad.what} at character {bad.column}" if bad else "a tab"
            raise InputError(f"{what}: line {number}: {what_is_bad} in {line!r}")
        checked.append(line)
    if not checked:
        raise InputError(f"{what}: no lines")
    return checked
