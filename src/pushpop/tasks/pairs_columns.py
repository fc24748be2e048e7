"""Which column of a file is what, and how its sides are written: told, or guessed and said so."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pushpop.errors import InputError
from pushpop.tasks.pairs_text import FEATURE_SEPARATOR, Symbols

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


def parse_columns(text: str) -> Columns:
    """Read `1,2` (source, target) or `1,3,2` (source, target, features)."""
    parts = text.replace(" ", "").split(",")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(
            f"columns is {text!r}, expected the numbers of the source and the target column, as in "
            "1,2, or of source, target and features, as in 1,3,2; the first column is 1"
        )
    numbers = [int(part) - 1 for part in parts]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"columns is {text!r}: the same column twice")
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
