"""A file of pairs: tab-separated columns, UTF-8, no quoting. A bad row is named, or skipped."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pushpop.errors import InputError
from pushpop.tasks.pairs_columns import Columns, Fields, guess_columns, guess_symbols, parse_columns
from pushpop.tasks.pairs_lines import BadLine, lines_of, read_bytes
from pushpop.tasks.pairs_text import FEATURE_SEPARATOR, Normalise, Symbols, TextForm

ENDINGS = (".tsv", ".txt", ".tab")

Pair = tuple[list[str], list[str]]
"""Source and target as symbols, features before the source."""


def is_pairs_file(name: str) -> bool:
    """Whether a task's name is the path of a file of pairs."""
    return name.endswith(ENDINGS)


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

    def describe(self) -> str:
        """How the file was read, in a line."""
        form = self.form
        words = {"chars": "characters", "spaces": "space-separated symbols"}
        features = f", features between {FEATURE_SEPARATOR}" if form.features else ""
        unicode = "not normalised" if form.normalise == "none" else form.normalise.upper()
        return (
            f"{self.path}: {len(self.pairs):,} pairs; {self.columns}; source: "
            f"{words[form.source]}, target: {words[form.target]}{features}; {unicode}"
        )

    def describe_skipped(self) -> str:
        """How many rows were left out, and the first of them; nothing if none was."""
        if not self.skipped:
            return ""
        rows = "1 bad row" if len(self.skipped) == 1 else f"{len(self.skipped):,} bad rows"
        return f"{self.path}: {rows} skipped, the first: {self.skipped[0]}"


class BadRow(InputError):
    """A row that is no pair."""


def read_pairs(path: str | Path, options: PairsOptions | None = None) -> PairsFile:
    """Read a file of pairs; the first bad row is an `InputError` unless bad rows are skipped."""
    options, path = options or PairsOptions(), Path(path)
    data = read_bytes(path)
    skipped: list[str] = []

    def refuse(error: BadRow) -> None:
        if not options.skip_bad:
            raise InputError(str(error))
        skipped.append(str(error))

    rows: list[tuple[int, Fields]] = []
    for number, line in lines_of(data):
        if isinstance(line, BadLine):
            refuse(BadRow(f"{path}:{number}:{line.column}: {line.what}"))
        else:
            rows.append((number, line.split("\t")))
    if not rows:
        what = f"no good row; {skipped[0]}" if skipped else "only blank lines"
        raise InputError(f"{path}: {what}, expected pairs of strings")
    if options.columns:
        columns = parse_columns(options.columns)
    else:
        columns = guess_columns([fields for _, fields in rows], f"{path}:{rows[0][0]}")
    form = _form([fields for _, fields in rows], columns, options)
    pairs = []
    for number, fields in rows:
        try:
            pairs.append(_pair(fields, columns, form, f"{path}:{number}", options.labels))
        except BadRow as error:
            refuse(error)
    if not pairs:
        raise InputError(f"{path}: no good row; the first: {skipped[0]}")
    return PairsFile(path, pairs, form, columns, sha256(data).hexdigest(), skipped)


def _form(rows: Sequence[Fields], columns: Columns, options: PairsOptions) -> TextForm:
    """What was told about the sides, and a guess about what was not."""
    whole = [fields for fields in rows if len(fields) > max(columns.numbers)]
    source, target = (
        given or guess_symbols([fields[column] for fields in whole])
        for given, column in (
            (options.source_symbols, columns.source),
            (options.target_symbols, columns.target),
        )
    )
    return TextForm(source, target, columns.features is not None, options.normalise)


def _pair(
    fields: Fields, columns: Columns, form: TextForm, where: str, labels: bool = False
) -> Pair:
    if columns.count is not None and len(fields) != columns.count:
        found = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        at = _start(fields, min(columns.count, len(fields)))
        raise BadRow(f"{where}:{at}: {found}, expected {columns.count}")
    for number in columns.numbers:
        if number >= len(fields):
            at = _start(fields, len(fields))
            raise BadRow(f"{where}:{at}: no column {number + 1}; the row has {len(fields)}")
    features = _features(fields, columns, form, where)
    source = form.source_symbols(fields[columns.source])
    target = form.target_symbols(fields[columns.target])
    for side, symbols, column in (
        ("source", source, columns.source),
        ("target", target, columns.target),
    ):
        if not symbols:
            raise BadRow(f"{where}:{_start(fields, column)}: the {side} is empty")
    source = [*features, *source]
    if labels and len(source) != len(target):
        counted = f" ({len(features)} of them features)" if features else ""
        raise BadRow(
            f"{where}:{_start(fields, columns.target)}: {len(target)} labels for {len(source)} "
            f"source symbols{counted}, expected one for each"
        )
    return source, target


def _features(fields: Fields, columns: Columns, form: TextForm, where: str) -> list[str]:
    if columns.features is None:
        return []
    text = fields[columns.features]
    problem = check_features(text)
    if problem is not None:
        offset, what = problem
        raise BadRow(f"{where}:{_start(fields, columns.features) + offset}: {what}")
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


def _start(fields: Fields, column: int) -> int:
    """The character at which a column begins, from 1; past the last column, the end of the row."""
    if column >= len(fields):
        return sum(map(len, fields)) + len(fields)
    return sum(len(field) + 1 for field in fields[:column]) + 1
