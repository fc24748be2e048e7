"""A file of pairs: columns between tabs, without quotes, or between commas, as in CSV; UTF-8.

A bad row is named, or skipped. Which column is what, and how its sides are written, is told by the
user or guessed, and said.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, chain
from pathlib import Path
from typing import Literal

from pushpop.errors import InputError, counted, did_you_mean, reading
from pushpop.tasks.pairs_text import (
    FEATURE_SEPARATOR,
    BadLine,
    Normalise,
    Symbols,
    TextForm,
    check_text,
    is_csv,
    lines_of,
    read_blocks,
    refuse_pipe,
)

HEADER_NAMES = {
    *("source", "target", "src", "tgt", "trg", "input", "output", "inputs", "outputs"),
    *("label", "labels", "tag", "tags", "features"),
}
"""What columns are called in a header, and what is hardly ever a source or a target itself."""


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


def read_row(where: str, line: str, *, commas: bool) -> Row:
    """The fields of a line: between tabs, or between commas as in CSV."""
    if commas:
        return _read_csv(where, line)
    fields = line.split("\t")
    starts = accumulate((len(field) + 1 for field in fields[:-1]), initial=1)
    return Row(where, fields, [*starts, len(line) + 1])


CSV_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|\Z)')
"""A field, in quotes where it has commas or, written twice, quotes; and what ends it."""


def _read_csv(where: str, line: str) -> Row:
    fields, starts, end = [], [1], ","
    while end:
        at = starts[-1] - 1
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
        starts.append(match.end() + 1)
    return Row(where, fields, [*starts[:-1], len(line) + 1])


def is_header(fields: Sequence[str]) -> bool:
    """Whether the fields are all names that columns have, and no two the same."""
    names = [field.strip().lower() for field in fields]
    return len(names) > 1 and len(set(names)) == len(names) and HEADER_NAMES.issuperset(names)


MANY_SYMBOLS, ONE_OFF = 300, 0.25
"""More different symbols than that, and than this share of all, are hardly words."""
LOOKED_AT = 2000
"""Rows that a guess is based on."""

Fields = Sequence[str]


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


def parse_columns(text: str) -> list[str]:
    """Split `1,2` (source, target) or `1,3,2` (source, target, features), or names of a header."""
    parts = [part.strip().lower() for part in text.split(",")]
    named = not any(re.fullmatch(r"-?\d*", part) for part in parts)
    numbered = all(part.isdecimal() and int(part) > 0 for part in parts)
    if not 2 <= len(parts) <= 3 or not (named or numbered):
        raise InputError(
            f"columns is {text!r}, expected the numbers of the source and the target column, as in "
            "1,2, or of source, target and features, as in 1,3,2 (the first column is 1), or their "
            "names in the first line, as in source,target"
        )
    if len(set(parts)) < len(parts):
        raise InputError(f"columns is {text!r}: the same column twice")
    return parts


def find_columns(text: str, first: Row) -> Columns:
    """The columns that a user has told, by number or by their names in the first line."""
    parts = parse_columns(text)
    names = [field.strip().lower() for field in first.fields]
    unknown = [part for part in parts if not part.isdecimal() and part not in names]
    if unknown:
        raise InputError(
            f"{first.where}: columns is {text!r}, expected names of columns in the first line "
            f"({_shorten(first.fields)}): no {unknown[0]!r}{did_you_mean(unknown[0], names)}"
        )
    numbers = [int(part) - 1 if part.isdecimal() else names.index(part) for part in parts]
    return Columns(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else None)


def guess_columns(rows: Sequence[Fields], where: str, separator: str = "tab") -> Columns:
    """Two columns are source and target; a column of `A;B` lists besides two others, features."""
    rows = rows[:LOOKED_AT]
    count = Counter(map(len, rows)).most_common(1)[0][0]
    if count < 2:
        raise InputError(
            f"{where}: no {separator}{_other_separator(rows)}; expected source, {separator}, target"
        )
    rows = [row for row in rows if len(row) == count]
    listed = [
        column
        for column in range(count)
        if 2 * sum(FEATURE_SEPARATOR in row[column].strip(";") for row in rows) > len(rows)
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


def _other_separator(rows: Sequence[Fields]) -> str:
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
    """What a user may say about a file; what is left empty is guessed."""

    columns: str = ""  # as in 1,2 or 1,3,2
    source_symbols: Symbols | Literal[""] = ""
    target_symbols: Symbols | Literal[""] = ""
    normalise: Normalise = "nfc"
    skip_bad: bool = False
    labels: bool = False  # a target has a label for every source symbol

    @classmethod
    def like(
        cls, form: TextForm, columns: str = "", skip_bad: bool = False, labels: bool = False
    ) -> "PairsOptions":
        """Options under which a file is read as a model reads text."""
        return cls(columns, form.source, form.target, form.normalise, skip_bad, labels)


@dataclass(frozen=True, eq=False)
class PairsFile:
    """What was read: the pairs, how, and what was left out."""

    path: Path
    pairs: list[Pair]
    form: TextForm
    columns: Columns
    digest: str  # SHA-256 of the file
    skipped: list[str]  # a message for each bad row
    header: str = ""  # what was taken for the first line, if that is not obvious
    guessed: frozenset[str] = frozenset()  # sides whose symbols were guessed to be between spaces

    def describe(self) -> str:
        """How the file was read, in a line."""
        form = self.form
        words = {"chars": "characters", "spaces": "space-separated symbols"}
        features = f", features between {FEATURE_SEPARATOR}" if form.features else ""
        unicode = "not normalised" if form.normalise == "none" else form.normalise.upper()
        return (
            f"{self.path}: {counted(len(self.pairs), 'pair')}; {self.columns}; source: "
            f"{words[form.source]}, target: {words[form.target]}{features}; {unicode}{self.header}"
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
        for place, name in enumerate(("source", "target")):
            counts = Counter(chain.from_iterable(pair[place] for pair in self.pairs))
            total = counts.total()
            if name in self.guessed and len(counts) > max(MANY_SYMBOLS, ONE_OFF * total):
                described.append(
                    f"{self.path}: {len(counts):,} different symbols among the {total:,} between "
                    f"spaces of the {name}s, too rare to be learnt; give --{name}-symbols chars if "
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

    def describe_skipped(self) -> str:
        """How many rows were left out, and the first of them; nothing if none was."""
        if not self.skipped:
            return ""
        rows = counted(len(self.skipped), "bad row")
        return f"{self.path}: {rows} skipped, the first: {self.skipped[0]}"


def read_pairs(
    path: str | Path, options: PairsOptions | None = None, raw: bytes | None = None
) -> PairsFile:
    """Read a file of pairs; the first bad row is an `InputError` unless bad rows are skipped.

    `raw` is what the file holds, if that is in memory and not on the disk.
    """
    options, path, in_memory = options or PairsOptions(), Path(path), raw is not None
    if raw is None and not path.is_dir():
        with reading(path):
            refuse_pipe(path)
            raw = path.read_bytes()
    commas = is_csv(path)
    skipped: list[str] = []

    def refuse(error: BadRow) -> None:
        if not options.skip_bad:
            raise InputError(str(error))
        skipped.append(str(error))

    rows: list[Row] = []
    for number, line in chain.from_iterable(lines_of(read_blocks(path, raw))):
        try:
            if isinstance(line, BadLine):
                raise BadRow(f"{path}:{number}:{line.column}: {line.what}")
            if line.strip(" "):
                rows.append(read_row(f"{path}:{number}", line, commas=commas))
        except BadRow as error:
            refuse(error)
    if not rows:
        what = f"no good row; {skipped[0]}" if skipped else "only blank lines"
        raise InputError(f"{path}: {what}, expected pairs of strings")
    asked_for = find_columns(options.columns, rows[0]) if options.columns else None
    header = "" if in_memory else _header(rows, options.columns, commas)
    columns = asked_for or guess_columns(
        [row.fields for row in rows], rows[0].where, "comma" if commas else "tab"
    )
    form = _form(rows, columns, options)
    pairs = []
    for row in rows:
        try:
            pairs.append(_pair(row, columns, form, options.labels))
        except BadRow as error:
            refuse(error)
    if not pairs:
        what = f"no good row; the first: {skipped[0]}" if skipped else "only a header"
        raise InputError(f"{path}: {what}")
    digest = sha256(raw or b"").hexdigest()
    told = {"source": options.source_symbols, "target": options.target_symbols}
    split = {"source": form.source == "spaces", "target": form.target == "spaces"}
    guessed = frozenset(side for side in told if split[side] and not told[side])
    return PairsFile(path, pairs, form, columns, digest, skipped, header, guessed)


def pair_key(pair: Pair) -> tuple[str, ...]:
    """What equal pairs have in common: source and target, with a tab between them that no symbol
    can be."""
    source, target = pair
    return (*source, "\t", *target)


def _header(rows: list[Row], told: str, commas: bool) -> str:
    """Take a header out, and say what was taken for the first line, if that is not obvious."""
    shown = _shorten(rows[0].fields)
    by_name = told and not parse_columns(told)[0].isdecimal()
    if by_name or (len(rows) > 1 and is_header(rows[0].fields)):
        del rows[0]
        return f"; the first line is a header ({shown})"
    return f"; the first line is a pair ({shown})" if commas else ""


def _shorten(fields: Sequence[str]) -> str:
    """Fields for a message."""
    shown = ", ".join(fields)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def _form(rows: Sequence[Row], columns: Columns, options: PairsOptions) -> TextForm:
    """What was told about the sides, and a guess about what was not."""
    whole = [row.fields for row in rows if len(row.fields) > max(columns.numbers)]
    source, target = (
        given or guess_symbols([fields[column] for fields in whole])
        for given, column in (
            (options.source_symbols, columns.source),
            (options.target_symbols, columns.target),
        )
    )
    return TextForm(source, target, columns.features is not None, options.normalise)


def _pair(row: Row, columns: Columns, form: TextForm, labels: bool = False) -> Pair:
    fields = row.fields
    if columns.count is not None and len(fields) != columns.count:
        columns_here = counted(len(fields), "column")
        raise row.bad(min(columns.count, len(fields)), f"{columns_here}, expected {columns.count}")
    for number in columns.numbers:
        if number >= len(fields):
            raise row.bad(len(fields), f"no column {number + 1}; the row has {len(fields)}")
    features = _features(row, columns, form)
    source = form.source_symbols(fields[columns.source])
    target = form.target_symbols(fields[columns.target])
    for side, symbols, column in (
        ("source", source, columns.source),
        ("target", target, columns.target),
    ):
        if not symbols:
            raise row.bad(column, f"the {side} is empty")
    source = [*features, *source]
    if labels and len(source) != len(target):
        of_them = f" ({len(features)} of them features)" if features else ""
        raise row.bad(
            columns.target,
            f"{len(target)} labels for {len(source)} source symbols{of_them}, expected one for "
            "each",
        )
    return source, target


def _features(row: Row, columns: Columns, form: TextForm) -> list[str]:
    if columns.features is None:
        return []
    text = row.fields[columns.features]
    problem = check_features(text)
    if problem is not None:
        offset, what = problem
        raise row.bad(columns.features, what, offset)
    return form.feature_symbols(text)


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


def rows_of(pairs: Iterable[Sequence[str]], what: str) -> list[list[str]]:
    """The pairs of a program as rows of a file; `InputError` with the number of one that cannot be
    a row."""
    rows = []
    for number, pair in enumerate(pairs):
        where = f"{what}: pair {number}"
        if isinstance(pair, str) or not 2 <= len(pair) <= 3:
            raise InputError(f"{where} is {pair!r}, expected (source, target) or with features")
        for side, text in zip(("source", "target", "features"), pair, strict=False):
            if not isinstance(text, str) or not text.strip(" "):
                raise InputError(f"{where}: the {side} is {text!r}, expected a string with letters")
            bad = check_text(text)
            if bad is None and "\t" in text:
                raise InputError(f"{where}: a tab in the {side} {text!r}")
            if bad is not None:
                raise InputError(f"{where}: {bad.what} at character {bad.column} of the {side}")
        if len(pair) == 3 and (problem := check_features(pair[2])) is not None:
            raise InputError(f"{where}: {problem[1]}")
        rows.append(list(pair))
    if not rows:
        raise InputError(f"{what}: no pairs")
    return rows
