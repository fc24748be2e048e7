"""A file of lines to generate more of: where each line is, found in one pass; lines are read when
they are needed.

A plain file stays on the disk and is mapped into memory; what gzip has packed is unpacked into it.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from pushpop.errors import InputError, counted, reading
from pushpop.tasks.base import IntArray, Pairs
from pushpop.tasks.batching import Batch, make_line_batch
from pushpop.tasks.pairs import Epochs
from pushpop.tasks.pairs_file import HEADER_NAMES, LOOKED_AT, BadRow, guess_symbols, read_row
from pushpop.tasks.pairs_text import (
    BOM,
    GZIP_START,
    BadLine,
    Normalise,
    Symbols,
    TextForm,
    check_line,
    check_text,
    is_csv,
    is_smiles,
    read_blocks,
    refuse_pipe,
)
from pushpop.tasks.vocabulary import Vocabulary

HEADERS = HEADER_NAMES | {"smiles", "selfies", "line", "lines", "text", "sequence", "sequences"}


class LinesFile:
    """The lines of a file by number, as symbols; blank ones are left out.

    Args:
        path: the file. Its columns stand between tabs; in CSV, between commas.
        column: the number of the column to read, from 0; `None`: there must be only one.
        symbols: "chars", "spaces" (between symbols), or "": guessed.
        normalise: the Unicode form of the text.
        skip_bad: whether bad lines are left out, and counted, rather than refused.
        raw: what the file holds, if that is in memory and not on the disk.
    """

    def __init__(
        self,
        path: str | Path,
        column: int | None = None,
        symbols: Symbols | Literal[""] = "",
        normalise: Normalise = "nfc",
        skip_bad: bool = False,
        raw: bytes | None = None,
    ) -> None:
        self.path, self.column, self.skip_bad = Path(path), column, skip_bad
        self.skipped: list[str] = []
        self.header = ""
        self._csv = is_csv(path)
        self._names = is_smiles(path)
        self._bytes = self._open(raw)
        first = [text for _, text in islice(self._texts(), LOOKED_AT)]
        guessed = symbols or guess_symbols(first)
        self.form = TextForm(guessed, guessed, False, normalise)
        starts, lengths, alphabet = [], [], set()
        self.skipped.clear()
        for start, text in self._texts():
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
        return self.form.target_symbols(self._field(f"{self.path}", self._line(start)))

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
            if not self.skip_bad:
                raise InputError(
                    f"{message}, which no line of training has; --skip-bad leaves such lines out"
                )
            self.skipped.append(message)
        if not rows:
            raise InputError(f"{self.path}: no good line; {self.skipped[0]}")
        return rows

    def describe(self) -> str:
        """How the file was read, in a line."""
        form = self.form
        words = {"chars": "characters", "spaces": "space-separated symbols"}
        column = "" if self.column is None else f"column {self.column + 1}; "
        unicode = "not normalised" if form.normalise == "none" else form.normalise.upper()
        return (
            f"{self.path}: {counted(len(self), 'line')}; {column}{words[form.target]}, "
            f"{len(self.alphabet):,} different ones; {unicode}{self.header}"
        )

    def describe_skipped(self) -> str:
        """How many lines were left out, and the first of them; nothing if none was."""
        if not self.skipped:
            return ""
        lines = counted(len(self.skipped), "bad line")
        return f"{self.path}: {lines} skipped, the first: {self.skipped[0]}"

    def _open(self, raw: bytes | None) -> bytes | mmap.mmap:
        """The bytes of the file, unpacked; those of a plain file are on the disk."""
        if raw is None:
            refuse_pipe(self.path)
        blocks = read_blocks(self.path, raw)
        head = next(blocks)  # refuses what is no text
        if raw is not None:
            return raw
        with reading(self.path), open(self.path, "rb") as file:
            if file.read(2) == GZIP_START:
                return head + b"".join(blocks)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _texts(self) -> Iterator[tuple[int, str]]:
        """Where each line begins, and its text, blank lines left out."""
        start = len(BOM) if self._bytes[: len(BOM)] == BOM else 0
        number = first = 0
        while start < len(self._bytes):
            number += 1
            line = self._line(start)
            try:
                text = self._text(number, line, start)
                if text.strip(" "):
                    first += 1
                    if first > 1 or not self._is_header(text):
                        yield start, text
            except BadRow as error:
                if not self.skip_bad:
                    raise InputError(str(error)) from None
                self.skipped.append(str(error))
            start += len(line) + 1

    def _line(self, start: int) -> bytes:
        end = self._bytes.find(b"\n", start)
        return self._bytes[start:] if end < 0 else self._bytes[start:end]

    def _text(self, number: int, line: bytes, start: int) -> str:
        checked = check_line(line.removesuffix(b"\r"), start)
        if isinstance(checked, BadLine):
            raise BadRow(f"{self.path}:{number}:{checked.column}: {checked.what}")
        return self._field(f"{self.path}:{number}", line) if checked.strip(" ") else ""

    def _field(self, where: str, line: bytes) -> str:
        text = line.removesuffix(b"\r").decode()
        if self._names:
            return text.split(maxsplit=1)[0]
        if self.column is None and not self._csv and "\t" not in text:
            return text
        row = read_row(where, text, commas=self._csv)
        if self.column is None and len(row.fields) > 1:
            raise InputError(
                f"{where}: {len(row.fields)} columns, expected one, or --columns N: the number of "
                "the one to read"
            )
        column = self.column or 0
        if column >= len(row.fields):
            raise row.bad(
                len(row.fields), f"no column {column + 1}; the line has {len(row.fields)}"
            )
        if not row.fields[column].strip(" "):
            raise row.bad(column, f"column {column + 1} is empty")
        return row.fields[column]

    def _is_header(self, text: str) -> bool:
        """Whether the first line of a CSV file is the name of its column."""
        if self._csv and text.strip().lower() in HEADERS:
            self.header = f"; the first line is a header ({text.strip()})"
            return True
        return False


class LinesData(Epochs):
    """Some lines of a file in batches."""

    def __init__(
        self, file: LinesFile, rows: Sequence[int], vocabulary: Vocabulary, batch_size: int
    ) -> None:
        self.file, self.vocabulary, self._rows = file, vocabulary, np.asarray(rows)
        super().__init__(file.lengths[self._rows], batch_size)

    def batch(self, seed: int, index: int) -> Batch:
        """Batch `index` of all epochs."""
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
