"""A file of lines to generate more of: where each line is, found in one pass; lines are read when
they are needed.

A plain file stays on the disk and is mapped into memory; what gzip has packed is unpacked into it.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np

from pushpop.errors import InputError, counted, reading
from pushpop.tasks.base import IntArray, Pairs, Vocabulary
from pushpop.tasks.batching import Batch, make_line_batch
from pushpop.tasks.pairs import Epochs
from pushpop.tasks.pairs_file import (
    HEADER_NAMES,
    LOOKED_AT,
    BadRow,
    PairsOptions,
    RowsFile,
    find_columns,
    guess_symbols,
    parse_columns,
    read_row,
)
from pushpop.tasks.pairs_text import GZIP_START, TextForm, check_is_file, is_smiles, read_blocks

HEADERS = HEADER_NAMES | {"smiles", "selfies", "line", "lines", "text", "sequence", "sequences"}
BLOCK = 2**16


class LinesFile(RowsFile):
    """The lines of a file by number, as symbols; blank ones are left out.

    Args:
        path: the file. Its columns stand between tabs; in CSV, between commas.
        options: which column to read (by default there must be only one), and how: as the target of
            a pair; and which symbols may occur.
        raw: what the file holds, if that is in memory and not on the disk.
    """

    row_name: ClassVar[str] = "line"

    def __init__(
        self, path: str | Path, options: PairsOptions | None = None, raw: bytes | None = None
    ) -> None:
        super().__init__(path, options)
        (column,) = parse_columns(self.options.columns, lines=True)
        self._by_name = column != "guess" and not column.isdecimal()
        self.column = int(column) - 1 if column.isdecimal() else None
        self._molecules = is_smiles(path)
        self._bytes = self._map() if raw is None else raw
        symbols = self.options.target_symbols
        if symbols == "guess":
            symbols = guess_symbols([text for _, _, text in islice(self._texts(), LOOKED_AT)])
            self.skipped.clear()
        self.form = TextForm(symbols, symbols, False, self.options.normalise)
        starts, lengths, self.alphabet = [], [], set[str]()
        for start, line in self.good(self._texts(), self._symbols):
            starts.append(start)
            lengths.append(len(line))
            self.alphabet.update(line)
        if not starts:
            what = f"no good line; {self.skipped[0]}" if self.skipped else "only blank lines"
            raise InputError(f"{self.path}: {what}, expected lines of text")
        self._starts = np.array(starts)
        self.lengths: IntArray = np.array(lengths)  # [lines], in symbols
        self.digest = sha256(self._bytes).hexdigest()

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, row: int) -> list[str]:
        start = int(self._starts[row])
        end = self._bytes.find(b"\n", start)
        line = self._bytes[start:] if end < 0 else self._bytes[start:end]
        return self.form.target_symbols(self._field("", line.removesuffix(b"\r").decode()))

    def like(self) -> PairsOptions:
        return replace(super().like(), alphabet=frozenset(self.alphabet))

    def describe(self) -> str:
        """How the file was read, in a line."""
        column = "" if self.column is None else f"column {self.column + 1}; "
        return (
            f"{self.path}: {counted(len(self), 'line')}; {column}{self.form.describe('target')}, "
            f"{len(self.alphabet):,} different ones; {self.form.describe_unicode()}{self.header}"
        )

    def _map(self) -> bytes | mmap.mmap:
        """The bytes of the file, unpacked; those of a plain file are on the disk."""
        check_is_file(self.path)
        blocks = read_blocks(self.path)
        head = next(blocks)  # refuses what is no text
        with reading(self.path), open(self.path, "rb") as file:
            if file.read(2) == GZIP_START:
                return head + b"".join(blocks)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _symbols(self, line: tuple[str, int, str]) -> tuple[int, list[str]]:
        """Where a line begins, and its symbols."""
        where, start, text = line
        symbols, known = self.form.target_symbols(text), self.options.alphabet
        if known is not None and not known.issuperset(symbols):
            unknown = next(symbol for symbol in symbols if symbol not in known)
            raise BadRow(f"{where}: unknown symbol {unknown!r}, which no line of training has")
        return start, symbols

    def _texts(self) -> Iterator[tuple[str, int, str]]:
        """Where each line is, the offset at which it begins, and its text."""
        blocks = (self._bytes[at : at + BLOCK] for at in range(0, len(self._bytes), BLOCK))
        for number, (where, start, line) in enumerate(self.lines(blocks)):
            if self._by_name and not number:
                header = read_row(where, line, commas=self.commas)
                (self.column,) = find_columns(self.options.columns, header, lines=True)
                self.header = f"; the first line is a header ({self.options.columns})"
                continue
            try:
                text = self._field(where, line)
            except BadRow as error:
                self.refuse(error)
                continue
            if self.commas and not number and text.strip().lower() in HEADERS:
                self.header = f"; the first line is a header ({text.strip()})"
            else:
                yield where, start, text

    def _field(self, where: str, line: str) -> str:
        """The text of a line: of its column, if it has several."""
        if self._molecules:
            if not (words := line.split(maxsplit=1)):
                raise BadRow(f"{where}:1: only tabs, expected a molecule")
            return words[0]
        if self.column is None and not self.commas and "\t" not in line:
            return line
        row, column = read_row(where, line, commas=self.commas), self.column or 0
        if self.column is None and len(row.fields) > 1:
            raise InputError(
                f"{where}: {len(row.fields)} columns, expected one, or --columns N: the number of "
                "the one to read"
            )
        text = row.field(column)
        if not text.strip(" "):
            raise row.bad(column, f"column {column + 1} is empty")
        return text


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
