"""Files of rows, and files of pairs: columns between tabs, without quotes, or between commas, as in
CSV; UTF-8.

A bad row is named, or skipped. Which column is what, and how its sides are written, is told by the
user or guessed, and said.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pushpop.errors import InputError, counted, did_you_mean, reading
from pushpop.tasks.pairs_text import (
    FEATURE_SEPARATOR,
    BadLine,
    Normalise,
    Side,
    Symbols,
    TextForm,
    check_is_file,
    check_text,
    is_csv,
    lines_of,
    read_blocks,
)

HEADER_NAMES = {
    *("source", "target", "src", "tgt", "trg", "input", "output", "inputs", "outputs"),
    *("label", "labels", "tag", "tags", "features"),
}
"""What columns are called in a header, and what is hardly ever a source or a target itself."""


Item = TypeVar("Item")
Read = TypeVar("Read")


class BadRow(InputError):
    """A row that is no pair."""


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of a line, and where it is, as in pairs.tsv:17."""

    where: str
    fields: Sequence[str]
    starts: Sequence[int]  # the character at which each begins, from 1, and the one after the last

    def bad(self, column: int, what: str, offset: int = 0) -> BadRow:
        """What is wrong in a column, with the character at which it begins."""
        return BadRow(f"{self.where}:{self.starts[column] + offset}: {what}")

    def field(self, column: int) -> str:
        """The text of a column, which the line must have."""
        count = len(self.fields)
        if column >= count:
            raise self.bad(count, f"no column {column + 1}; the line has {count}")
        return self.fields[column]


CSV_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|\Z)')
"""A field, in quotes where it has commas or, written twice, quotes; and what ends it."""


def read_row(where: str, line: str, *, commas: bool) -> Row:
    """The fields of a line: between tabs, or between commas as in CSV."""
    if not commas:
        columns = line.split("\t")
        starts = accumulate((len(field) + 1 for field in columns[:-1]), initial=1)
        return Row(where, columns, [*starts, len(line) + 1])
    fields, begins, end = [], [1], ","
    while end:
        at = begins[-1] - 1
        match = CSV_FIELD.match(line, at)
        if match is None:
            if not line.startswith('"', at):  # most likely the rest of a field of the line before
                at, what = line.index('"', at), "a quote in a field that does not begin with one"
            else:
                closed = re.match(r'"(?:[^"]|"")*"', line[at:])
                open_ended = "a quote that is not closed in its line"
                at, what = line.rindex('"'), "',' expected after '\"'" if closed else open_ended
            raise BadRow(f'{where}:{at + 1}: {what}; expected fields as in a,"b, c",d')
        quoted, plain, end = match.groups()
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        begins.append(match.end() + 1)
    return Row(where, fields, [*begins[:-1], len(line) + 1])


def is_header(fields: Sequence[str]) -> bool:
    """Whether the fields are all names that columns have, and no two the same."""
    names = [field.strip().lower() for field in fields]
    return len(names) > 1 and len(set(names)) == len(names) and HEADER_NAMES.issuperset(names)


MANY_SYMBOLS, ONE_OFF = 300, 0.25
"""More different symbols than that, and than this share of all, are hardly words."""
LOOKED_AT = 2000
"""Rows that a guess is based on."""


@dataclass(frozen=True)
class Columns:
    """Numbers of columns, from 0. `count`: how many a row must have; `None`: enough for these."""

    source: int
    target: int
    features: int | None = None
    count: int | None = None

    @property
    def numbers(self) -> list[int]:
        """The columns that are used."""
        used = [self.source, self.target, self.features]
        return [number for number in used if number is not None]

    def __str__(self) -> str:
        names = zip(("source", "target", "features"), self.numbers, strict=False)
        return ", ".join(f"{name} in column {number + 1}" for name, number in names)


def parse_columns(text: str, *, lines: bool = False) -> list[str]:
    """Split `1,2` (source, target) or `1,3,2` (source, target, features), or names of a header; of
    a file of lines, read the one that holds them."""
    parts = [part.strip().lower() for part in text.split(",")]
    named = not any(re.fullmatch(r"-?\d*", part) for part in parts)
    numbered = all(part.isdecimal() and int(part) > 0 for part in parts)
    if lines and not (len(parts) == 1 and (named or numbered)):
        raise InputError(
            f"columns is {text!r}, expected the number of the column to read (the first is 1), or "
            "its name in the first line"
        )
    if not lines and not (2 <= len(parts) <= 3 and (named or numbered)):
        raise InputError(
            f"columns is {text!r}, expected the numbers of the source and the target column, as in "
            "1,2, or of source, target and features, as in 1,3,2 (the first column is 1), or their "
            "names in the first line, as in source,target"
        )
    if len(set(parts)) < len(parts):
        raise InputError(f"columns is {text!r}: the same column twice")
    return parts


def find_columns(text: str, first: Row, *, lines: bool = False) -> list[int]:
    """The columns that a user has told, by number or by their names in the first line, from 0."""
    parts = parse_columns(text, lines=lines)
    names = [field.strip().lower() for field in first.fields]
    unknown = [part for part in parts if not part.isdecimal() and part not in names]
    if unknown:
        raise InputError(
            f"{first.where}: columns is {text!r}, expected names of columns in the first line "
            f"({_shorten(first.fields)}): no {unknown[0]!r}{did_you_mean(unknown[0], names)}"
        )
    return [int(part) - 1 if part.isdecimal() else names.index(part) for part in parts]


def guess_columns(rows: Sequence[Row], separator: str) -> Columns:
    """Two columns are source and target; a column of `A;B` lists besides two others, features."""
    looked_at = [row.fields for row in rows[:LOOKED_AT]]
    count = Counter(map(len, looked_at)).most_common(1)[0][0]
    if count < 2:
        raise InputError(
            f"{rows[0].where}: no {separator}{_other_separator(looked_at)}; expected source, "
            f"{separator}, target"
        )
    whole = [fields for fields in looked_at if len(fields) == count]
    listed = [
        column
        for column in range(count)
        if 2 * sum(FEATURE_SEPARATOR in row[column].strip(";") for row in whole) > len(whole)
    ]
    if count < 3 or len(listed) != 1:
        return Columns(0, 1, count=count)
    source, target = [column for column in range(count) if column != listed[0]][:2]
    return Columns(source, target, listed[0], count)


def guess_symbols(texts: Sequence[str]) -> Symbols:
    """Spaces separate symbols if at least half of the texts have one inside."""
    texts = texts[:LOOKED_AT]
    spaced = sum(" " in text.strip(" ") for text in texts)
    return "spaces" if 2 * spaced >= len(texts) else "chars"


def _other_separator(rows: Sequence[Sequence[str]]) -> str:
    names = {"|||": "'|||'", ";": "semicolons", ",": "commas", "\t": "tabs"}
    names["  "] = "several spaces"
    for mark, name in names.items():
        if 2 * sum(mark in row[0].strip() for row in rows) > len(rows):
            return f", but {name}"
    return ""


Pair = tuple[list[str], list[str]]
"""Source and target as symbols, features before the source."""


@dataclass(frozen=True)
class PairsOptions:
    """What a user may say about a file."""

    columns: str = "guess"  # as in 1,2 or 1,3,2; of lines, as in 1
    source_symbols: Side = "guess"
    target_symbols: Side = "guess"
    normalise: Normalise = "nfc"
    skip_bad: bool = False
    labels: bool = False  # a target has a label for every source symbol
    alphabet: frozenset[str] | None = None  # the symbols that lines may have; `None`: any

    @classmethod
    def like(
        cls, form: TextForm, columns: str = "guess", skip_bad: bool = False, labels: bool = False
    ) -> "PairsOptions":
        """Options under which a file is read as a model reads text."""
        return cls(columns, form.source, form.target, form.normalise, skip_bad, labels)


class RowsFile:
    """A file of rows, and the bad ones that are left out of it, or refused."""

    row_name: ClassVar[str] = "row"
    form: TextForm
    digest: str  # SHA-256: of a plain file's bytes
    used: Sequence[int] = ()
    """The columns that a guess found, from 0."""

    def __init__(self, path: str | Path, options: PairsOptions | None) -> None:
        self.path, self.options = Path(path), options or PairsOptions()
        self.commas = is_csv(path)
        self.skipped: list[str] = []  # a message for each bad row
        self.header = ""  # what was taken for the first line, if that is not obvious

    def lines(self, blocks: Iterable[bytes]) -> Iterator[tuple[str, int, str]]:
        """The lines with text: where each is, as in pairs.tsv:17, its offset and its text."""
        for number, offset, line in chain.from_iterable(lines_of(blocks)):
            if isinstance(line, BadLine):
                self.refuse(f"{self.path}:{number}:{line.column}: {line.what}")
            elif line.strip(" "):
                yield f"{self.path}:{number}", offset, line

    def good(self, items: Iterable[Item], read: Callable[[Item], Read]) -> Iterator[Read]:
        """What is read of each item, but of bad rows."""
        for item in items:
            try:
                row = read(item)
            except BadRow as error:
                self.refuse(error)
            else:
                yield row

    def refuse(self, message: object) -> None:
        """Leave out a bad row; `InputError` unless those are skipped."""
        if not self.options.skip_bad:
            raise InputError(str(message))
        self.skipped.append(str(message))

    def like(self) -> PairsOptions:
        """Options under which another file is read as this one was."""
        options, columns = self.options, self.options.columns
        if self.used and columns == "guess":
            columns = ",".join(str(number + 1) for number in self.used)
        return PairsOptions.like(self.form, columns, options.skip_bad, options.labels)

    def describe_skipped(self) -> str:
        """How many rows were left out, and the first of them; nothing if none was."""
        if not self.skipped:
            return ""
        rows = counted(len(self.skipped), f"bad {self.row_name}")
        return f"{self.path}: {rows} skipped, the first: {self.skipped[0]}"


class PairsFile(RowsFile):
    """The pairs of a file, how they were read, and what was left out.

    The first bad row is an `InputError` unless bad rows are skipped. `raw` is what the file holds,
    if that is in memory and not on the disk.
    """

    def __init__(
        self, path: str | Path, options: PairsOptions | None = None, raw: bytes | None = None
    ) -> None:
        super().__init__(path, options)
        options, in_memory = self.options, raw is not None
        if raw is None:
            check_is_file(path)
            with reading(path):
                raw = self.path.read_bytes()
        self.digest = sha256(raw).hexdigest()
        lines = self.lines(read_blocks(path, raw))
        rows = list(self.good(lines, lambda line: read_row(line[0], line[2], commas=self.commas)))
        if not rows:
            what = f"no good row; {self.skipped[0]}" if self.skipped else "only blank lines"
            raise InputError(f"{path}: {what}, expected pairs of strings")
        told = None
        if options.columns != "guess":
            told = Columns(*find_columns(options.columns, rows[0]))
        if not in_memory:
            self.header = _take_header(rows, options.columns, self.commas)
        self.columns = told or guess_columns(rows, "comma" if self.commas else "tab")
        self.used = self.columns.numbers
        whole = [row.fields for row in rows if len(row.fields) > max(self.columns.numbers)]
        source, target = (
            guess_symbols([fields[column] for fields in whole]) if told == "guess" else told
            for told, column in (
                (options.source_symbols, self.columns.source),
                (options.target_symbols, self.columns.target),
            )
        )
        features = self.columns.features is not None
        self.form = TextForm(source, target, features, options.normalise)
        self.pairs = list(self.good(rows, self._pair))
        if not self.pairs:
            what = f"no good row; the first: {self.skipped[0]}" if self.skipped else "only a header"
            raise InputError(f"{path}: {what}")

    def __len__(self) -> int:
        return len(self.pairs)

    def _pair(self, row: Row) -> Pair:
        fields, columns = row.fields, self.columns
        if columns.count is not None and len(fields) != columns.count:
            found = f"{counted(len(fields), 'column')}, expected {columns.count}"
            raise row.bad(min(columns.count, len(fields)), found)
        source_text, target_text, *_ = (row.field(number) for number in columns.numbers)
        features = []
        if columns.features is not None:
            text = row.field(columns.features)
            if (problem := check_features(text)) is not None:
                offset, what = problem
                raise row.bad(columns.features, what, offset)
            features = self.form.feature_symbols(text)
        source = self.form.source_symbols(source_text)
        target = self.form.target_symbols(target_text)
        if not source:
            raise row.bad(columns.source, "the source is empty")
        if not target:
            raise row.bad(columns.target, "the target is empty")
        source = [*features, *source]
        if self.options.labels and len(source) != len(target):
            of_them = f" ({len(features)} of them features)" if features else ""
            raise row.bad(
                columns.target,
                f"{len(target)} labels for {len(source)} source symbols{of_them}, expected one for "
                "each",
            )
        return source, target

    def describe(self) -> str:
        """How the file was read, in a line."""
        features = f", features between {FEATURE_SEPARATOR}" if self.form.features else ""
        return (
            f"{self.path}: {counted(len(self.pairs), 'pair')}; {self.columns}; source: "
            f"{self.form.describe('source')}, target: {self.form.describe('target')}{features}; "
            f"{self.form.describe_unicode()}{self.header}"
        )

    def describe_unused(self) -> str:
        """The columns that nobody asked to leave out, and are; nothing if there are none."""
        unused = [k + 1 for k in range(self.columns.count or 0) if k not in self.columns.numbers]
        if not unused:
            return ""
        what, verb = ("column", "is") if len(unused) == 1 else ("columns", "are")
        used = ",".join(str(k + 1) for k in self.columns.numbers)
        return (
            f"{self.path}: {what} {', '.join(map(str, unused))} {verb} not used; give --columns "
            f"{used} if that is meant, or the columns to use"
        )

    def describe_one_off(self) -> list[str]:
        """The sides that were split at spaces by a guess into symbols that hardly ever recur."""
        described = []
        told = {"source": self.options.source_symbols, "target": self.options.target_symbols}
        for place, side in enumerate(told):
            counts = Counter(chain.from_iterable(pair[place] for pair in self.pairs))
            total = counts.total()
            guessed = getattr(self.form, side) == "spaces" and told[side] == "guess"
            if guessed and len(counts) > max(MANY_SYMBOLS, ONE_OFF * total):
                described.append(
                    f"{self.path}: {len(counts):,} different symbols among the {total:,} between "
                    f"spaces of the {side}s, too rare to be learnt; give --{side}-symbols chars if "
                    "each character is to be a symbol"
                )
        return described

    def describe_repeated(self) -> str:
        """How many pairs are different, if more than a tenth are repeated."""
        distinct = len({pair_key(pair) for pair in self.pairs})
        if 10 * distinct >= 9 * len(self.pairs):
            return ""
        return (
            f"{self.path}: {distinct:,} of {len(self.pairs):,} pairs are distinct, the rest repeat"
        )


def pair_key(pair: Pair) -> tuple[str, ...]:
    """What equal pairs have in common: source and target, with a tab between them that no symbol
    can be."""
    source, target = pair
    return (*source, "\t", *target)


def _take_header(rows: list[Row], columns: str, commas: bool) -> str:
    """Take a header out, and say what was taken for the first line, if that is not obvious."""
    shown = _shorten(rows[0].fields)
    by_name = columns != "guess" and not parse_columns(columns)[0].isdecimal()
    if by_name or (len(rows) > 1 and is_header(rows[0].fields)):
        del rows[0]
        return f"; the first line is a header ({shown})"
    return f"; the first line is a pair ({shown})" if commas else ""


def _shorten(fields: Sequence[str]) -> str:
    """Fields for a message."""
    shown = ", ".join(fields)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def check_features(text: str) -> tuple[int, str] | None:
    """Where features are not as in V;PST;3, and what is wrong; nothing if they are."""
    if not text.strip(" "):
        return 0, "the features are empty, expected some as in V;PST;3"
    at = 0
    for part in text.strip(" ").split(FEATURE_SEPARATOR):
        if not part:
            return at, f"an empty feature in {text!r}, expected some as in V;PST;3"
        if " " in part:
            return at, f"a space in the feature {part!r}, expected some as in V;PST;3"
        at += len(part) + 1
    return None


def rows_of(examples: Iterable[Any], what: str, *, lines: bool = False) -> list[list[str]]:
    """The pairs, or lines, of a program as rows of a file; `InputError` with the number of one that
    cannot be a row."""
    if isinstance(examples, str):
        raise InputError(f"{what} is the string {examples!r}, expected a list of strings")
    rows = []
    for number, example in enumerate(examples):
        where = f"{what}: {'line' if lines else 'pair'} {number}"
        row = [example] if lines else example
        if isinstance(row, str) or not (lines or 2 <= len(row) <= 3):
            raise InputError(f"{where} is {row!r}, expected (source, target) or with features")
        for side, text in zip(("source", "target", "features"), row, strict=False):
            part, of = (where, "") if lines else (f"{where}: the {side}", f" of the {side}")
            if not isinstance(text, str) or not text.strip(" "):
                raise InputError(f"{part} is {text!r}, expected a string with letters")
            if (bad := check_text(text)) is not None:
                raise InputError(f"{where}: {bad.what} at character {bad.column}{of}")
            if "\t" in text:
                raise InputError(f"{where}: a tab in the {'line' if lines else side} {text!r}")
        if len(row) == 3 and (problem := check_features(row[2])) is not None:
            raise InputError(f"{where}: {problem[1]}")
        rows.append(list(row))
    if not rows:
        raise InputError(f"{what}: no {'lines' if lines else 'pairs'}")
    return rows
