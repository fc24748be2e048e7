"""Reading a grammar from a text file: a rule a line, `probability left -> source | target`.

    # the verb moves to the end
    1     A  -> S[1] V[2] O[3] | S[1] O[3] V[2]
    1/33  V  -> v{1..33}       | w{1..33}

The format is described for its users in docs/tasks.md.
"""

import re
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from pushpop.errors import InputError
from pushpop.tasks.grammar import Grammar, Link, Rule, Symbol

TOKEN = re.compile(r'"(\S+)"(?!\S)|(#.*)|(\S+)')
NAME = re.compile(r"[^\W\d]\w*")
LINK = re.compile(r"([^\W\d]\w*)\[(\d{1,9})\]")
RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
PROBABILITY = re.compile(r"\d{1,99}/\d{1,99}|\d{1,9}(\.\d{0,99})?|\.\d{1,99}")


class Quoted(str):
    """A terminal that was written in double quotes: taken as it is."""


def read_grammar(path: str | Path) -> Grammar:
    """The grammar in a file; every mistake in it is an InputError that names file and line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8 text") from None
    return parse_grammar(text, str(path))


def parse_grammar(text: str, origin: str = "grammar") -> Grammar:
    """The grammar in a text; `origin` is what errors call it."""
    rules: list[Rule] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        rules += _Line(line, f"{origin}:{number}", number).rules()
    names = {rule.left for rule in rules}
    for rule in rules:
        for symbol in (*rule.source, *rule.target):
            if type(symbol) is str and symbol.rstrip("0123456789") in names:
                link = f"{symbol.rstrip('0123456789')}[1]"
                reason = f"{symbol} looks like a nonterminal: write {link}, or {symbol} in quotes"
                raise InputError(f"{origin}:{rule.line}: {reason}")
    return Grammar(tuple(rules), origin)


class _Line:
    """One line of a file, taken apart."""

    def __init__(self, text: str, place: str, number: int) -> None:
        self.place = place
        self.number = number
        self.tokens: list[str] = []
        for quoted, comment, plain in TOKEN.findall(text):
            if comment:
                break
            if plain.startswith('"'):
                self.refuse(f'{plain}: expected "symbol" in double quotes, without spaces inside')
            self.tokens.append(Quoted(quoted) if quoted else plain)

    def rules(self) -> list[Rule]:
        """The line's rules: none if it is blank, one for each value of its {ranges}."""
        if not self.tokens:
            return []
        if self._plain("->") != [2]:
            found = " ".join(self.tokens[:3])
            self.refuse(f"expected `probability left -> source | target`, found `{found}`")
        bars = self._plain("|")
        if len(bars) != 1:
            self.refuse(f"expected one | between source and target, found {len(bars)}")
        probability, left = self._probability(self.tokens[0]), self.tokens[1]
        if not NAME.fullmatch(left):
            self.refuse(f"{left}: a nonterminal's name is a letter and then letters, digits or _")
        source, target = self.tokens[3 : bars[0]], self.tokens[bars[0] + 1 :]
        count = self._count(source + target)
        return [
            Rule(left, probability, self._side(source, i), self._side(target, i), self.number)
            for i in range(count)
        ]

    def refuse(self, reason: str) -> NoReturn:
        raise InputError(f"{self.place}: {reason}")

    def _plain(self, mark: str) -> list[int]:
        return [i for i, token in enumerate(self.tokens) if type(token) is str and token == mark]

    def _probability(self, token: str) -> Fraction:
        if not PROBABILITY.fullmatch(token):
            self.refuse(f"{token}: expected a probability, such as 1/4 or 0.25")
        try:
            return Fraction(token)
        except ZeroDivisionError:
            self.refuse(f"{token}: division by 0")

    def _count(self, tokens: list[str]) -> int:
        """How many rules the {ranges} of a line stand for: all must agree."""
        counts = {}
        for token in tokens:
            for first, last in [] if isinstance(token, Quoted) else RANGE.findall(token):
                if int(first) > int(last):
                    self.refuse(f"{token}: the range is empty")
                counts[token] = int(last) - int(first) + 1
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{token} has {count}" for token, count in counts.items())
            self.refuse(f"ranges of different sizes: {found}")
        return next(iter(counts.values()), 1)

    def _side(self, tokens: list[str], step: int) -> tuple[Symbol, ...]:
        """The symbols of a side, with every {range} at its value number `step`."""
        symbols: list[Symbol] = []
        for token in tokens:
            if isinstance(token, Quoted):
                symbols.append(token)
                continue
            text = RANGE.sub(lambda match: str(int(match[1]) + step), token)
            link = LINK.fullmatch(text)
            symbols.append(Link(link[1], int(link[2])) if link else text)
        return tuple(symbols)
