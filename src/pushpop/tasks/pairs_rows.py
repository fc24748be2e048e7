"""A line of a file of pairs as fields: between tabs as they are, or between commas as in CSV."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from pushpop.errors import InputError

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
    line: str
    fields: Sequence[str]
    separator: "Separator"

    def bad(self, column: int, what: str, offset: int = 0) -> BadRow:
        """What is wrong in a column, with the character at which it begins, from 1."""
        return BadRow(f"{self.where}:{self.separator.start(self.line, column) + offset}: {what}")


@dataclass(frozen=True)
class Separator:
    """What stands between the columns of a file."""

    name: str
    mark: str
    may_have_header: bool = False
    """A first line of nothing but names of columns is no pair."""

    def row(self, where: str, line: str) -> Row:
        """The fields of a line."""
        return Row(where, line, line.split(self.mark), self)

    def start(self, line: str, column: int) -> int:
        """The character at which a column begins, from 1; past the last one, the line's end."""
        at = -1
        for _ in range(column):
            at = self._next(line, at + 1)
            if at < 0:
                return len(line) + 1
        return at + 2

    def _next(self, line: str, at: int) -> int:
        return line.find(self.mark, at)


class CSV(Separator):
    """Commas; a field with one is put in quotes, and a quote in there is written twice."""

    def row(self, where: str, line: str) -> Row:
        """The fields of a line, which must end with it."""
        try:
            fields = next(csv.reader([line], strict=True))
        except csv.Error as error:
            what = (
                "a quote that is not closed in its line" if "end of data" in str(error) else error
            )
            at = line.rfind('"') + 1
            raise BadRow(f'{where}:{at}: {what}; expected fields as in a,"b, c",d') from None
        for column, field in enumerate(fields):
            start = self.start(line, column) - 1
            if '"' in field and not line.startswith('"', start):
                # most likely the rest of a field that began in the line before
                at = line.index('"', start) + 1
                what = "a quote in a field that does not begin with one"
                raise BadRow(f'{where}:{at}: {what}; expected fields as in a,"b, c",d')
        return Row(where, line, fields, self)

    def _next(self, line: str, at: int) -> int:
        if line.startswith('"', at):  # pairs of quotes inside, until a single one
            at = line.find('"', at + 1)
            while line.startswith('""', at):
                at = line.find('"', at + 2)
        return line.find(self.mark, at)


SEPARATORS = {"tabs": Separator("tab", "\t"), "csv": CSV("comma", ",", may_have_header=True)}


def is_header(fields: Sequence[str]) -> bool:
    """Whether the fields are all names that columns have, and no two the same."""
    names = [field.strip().lower() for field in fields]
    return len(names) > 1 and len(set(names)) == len(names) and HEADER_NAMES.issuperset(names)
