"""A file of lines to generate more of: where each line is, found in one pass; lines are read when
they are needed.

A plain file stays on the disk and is mapped into memory; what gzip has packed is unpacked into it.
"""

import mmap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from pushpop.errors import InputError, reading
from pushpop.tasks.base import IntArray, Pairs, batch_rng
from pushpop.tasks.batching import Batch, make_line_batch
from pushpop.tasks.pairs import batches_of_epoch
from pushpop.tasks.pairs_file import HEADER_NAMES, LOOKED_AT, SEPARATORS, BadRow, guess_symbols
from pushpop.tasks.pairs_text import (
    BOM,
    GZIP,
    GZIP_START,
    BadLine,
    Normalise,
    Symbols,
    TextForm,
    check_line,
    is_csv,
    read_blocks,
    refuse_pipe,
)
from pushpop.tasks.vocabulary import Vocabulary

SMILES = ".smi"
"""Files of molecules: what comes after the first space or tab of a line is a name."""
HEADERS = HEADER_NAMES | {"smiles", "selfies", "line", "lines", "text", "sequence", "sequences"}


class LinesFile:
    """The lines of a file by number, as symbols; blank ones are left out.

    Args:
        path: the file. Its columns stand between tabs; in CSV, between commas.
        column: the number of the column to read, from 0; `None`: there must be only one.
        symbols: "chars", "spaces" (between symbols), or "": guessed.
        normalise: the Unicode form of the text.
        skip_bad: whether bad lines are left out, and counted, rather than refused.
    """

    def __init__(
        self,
        path: str | Path,
        column: int | None = None,
        symbols: Symbols | Literal[""] = "",
        normalise: Normalise = "nfc",
        skip_bad: bool = False,
    ) -> None:
        self.path, self.column, self.skip_bad = Path(path), column, skip_bad
        self.skipped: list[str] = []
        self.header = ""
        self._csv = is_csv(path)
        self._names = str(path).lower().removesuffix(GZIP).endswith(SMILES)
        self._separator = SEPARATORS["csv" if self._csv else "tabs"]
        self._bytes = self._open()
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

    def rows_with_other_symbols(self, vocabulary: Vocabulary) -> Iterator[tuple[int, str]]:
        """The lines that a vocabulary has no numbers for, and a symbol of each."""
        known = set(vocabulary.target)
        if self.alphabet <= known:
            return
        for row in range(len(self)):
            unknown = [symbol for symbol in self[row] if symbol not in known]
            if unknown:
                yield row, unknown[0]

    def where(self, row: int) -> str:
        """The file and the number of a line in it, for a message."""
        number = self._bytes[: int(self._starts[row])].count(b"\n") + 1
        return f"{self.path}:{number}"

    def describe(self) -> str:
        """How the file was read, in a line."""
        form = self.form
        words = {"chars": "characters", "spaces": "space-separated symbols"}
        column = "" if self.column is None else f"column {self.column + 1}; "
        unicode = "not normalised" if form.normalise == "none" else form.normalise.upper()
        return (
            f"{self.path}: {len(self):,} lines; {column}{words[form.target]}, "
            f"{len(self.alphabet):,} different ones; {unicode}{self.header}"
        )

    def describe_skipped(self) -> str:
        """How many lines were left out, and the first of them; nothing if none was."""
        if not self.skipped:
            return ""
        lines = "1 bad line" if len(self.skipped) == 1 else f"{len(self.skipped):,} bad lines"
        return f"{self.path}: {lines} skipped, the first: {self.skipped[0]}"

    def _open(self) -> bytes | mmap.mmap:
        """The bytes of the file, unpacked; those of a plain file are on the disk."""
        refuse_pipe(self.path)
        blocks = read_blocks(self.path)
        head = next(blocks)  # refuses what is no text
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
        row = self._separator.row(where, text)
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


class LinesData:
    """Some lines of a file in batches, epoch after epoch, without end."""

    def __init__(
        self, file: LinesFile, rows: Sequence[int], vocabulary: Vocabulary, batch_size: int
    ) -> None:
        self.file, self.vocabulary, self.batch_size = file, vocabulary, batch_size
        self._rows = np.asarray(rows)
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def batches_per_epoch(self) -> int:
        """How many batches it takes to see every line once; the last may be smaller."""
        return -(-len(self) // self.batch_size)

    def batch(self, seed: int, index: int) -> Batch:
        """Batch `index` of all epochs."""
        epoch, place = divmod(index, self.batches_per_epoch)
        rows = self._rows[self._order(seed, epoch)[place]]
        return make_line_batch(encode_lines(self.file, rows, self.vocabulary), self.vocabulary)

    def _draw_order(self, seed: int, epoch: int) -> list[IntArray]:
        rng = batch_rng(seed, "epoch", epoch)
        return batches_of_epoch(rng, self.file.lengths[self._rows], self.batch_size)


def encode_lines(file: LinesFile, rows: Sequence[int] | IntArray, vocabulary: Vocabulary) -> Pairs:
    """Lines as the targets of pairs without a source."""
    return Pairs.of([((), vocabulary.encode_target(file[int(row)]).tolist()) for row in rows])


def parse_column(text: str) -> int:
    """Read the number of a column, as in 1."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise InputError(
            f"columns is {text!r}, expected the number of the column to read; the first is 1"
        )
    return int(text) - 1
