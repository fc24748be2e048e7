"""Synchronous grammars: the type, what makes one valid, and the text files they are read from.

A rule rewrites a nonterminal into a source side and a target side at once. The nonterminals of
its two sides are linked one to one, in any order, and linked ones are rewritten together. In a file
a rule is a line, `probability left -> source | target`:

    # the verb moves to the end
    1     A  -> S[1] V[2] O[3] | S[1] O[3] V[2]
    1/33  V  -> v{1..33}       | w{1..33}

The format is described for its users in docs/tasks.md.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import NoReturn

from pushpop.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Link:
    """A nonterminal on the right of a rule; the same index on the other side is linked to it."""

    name: str
    index: int

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


Symbol = str | Link
"""On a right-hand side: a terminal is a string, a nonterminal is a link."""


@dataclass(frozen=True)
class Rule:
    """`left` becomes `source` and `target` with a probability; `line` is where it was written."""

    left: str
    probability: Fraction
    source: tuple[Symbol, ...]
    target: tuple[Symbol, ...]
    line: int = 0

    @cached_property
    def children(self) -> tuple[Link, ...]:
        """The nonterminals of the source side, in its order."""
        return tuple(symbol for symbol in self.source if isinstance(symbol, Link))

    @property
    def permutation(self) -> tuple[int, ...]:
        """The children in the order of the target side: (0, 2, 1) when the last two swap."""
        return tuple(
            self.children.index(symbol) for symbol in self.target if symbol in self.children
        )

    @property
    def unit(self) -> bool:
        """Whether the source side is one nonterminal and nothing else."""
        return len(self.source) == len(self.children) == 1


@dataclass(frozen=True)
class Grammar:
    """Rules; the first rule's left-hand side is the root. `origin` names the file in errors."""

    rules: tuple[Rule, ...]
    origin: str = "grammar"

    def __post_init__(self) -> None:
        if not self.rules:
            raise InputError(f"{self.origin}: no rules")
        for rule in self.rules:
            self._check_rule(rule)
        self._check_probabilities()
        self._check_termination()
        self._check_reachability()
        list(self.units_first())

    @property
    def root(self) -> str:
        """Where every derivation starts."""
        return self.rules[0].left

    @cached_property
    def by_left(self) -> dict[str, list[Rule]]:
        """The rules of each nonterminal; nonterminals in the order of their first rules."""
        groups: defaultdict[str, list[Rule]] = defaultdict(list)
        for rule in self.rules:
            groups[rule.left].append(rule)
        return dict(groups)

    def terminals(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The terminals of either side, in the order in which they first appear."""
        source = chain.from_iterable(rule.source for rule in self.rules)
        target = chain.from_iterable(rule.target for rule in self.rules)
        return _distinct_terminals(source), _distinct_terminals(target)

    def units_first(self) -> Iterator[str]:
        """The nonterminals, each after those that its unit rules (X -> Y[1]) lead to."""
        leads_to = {
            name: [rule.children[0].name for rule in rules if rule.unit]
            for name, rules in self.by_left.items()
        }
        try:
            yield from TopologicalSorter(leads_to).static_order()
        except CycleError as error:
            circle = error.args[1][::-1]  # each leads to the next
            *_, before, name = circle
            closing = (r for r in self.by_left[before] if r.unit and r.children[0].name == name)
            self._refuse(next(closing), f"{name} derives itself alone ({' -> '.join(circle)})")

    def _check_rule(self, rule: Rule) -> None:
        if not 0 < rule.probability <= 1:
            self._refuse(rule, f"probability {rule.probability}: expected above 0, at most 1")
        if not rule.source:
            self._refuse(rule, "the source side is empty; it needs at least one symbol")
        links = []
        for side, symbols in (("source", rule.source), ("target", rule.target)):
            by_index: dict[int, Link] = {}
            for link in symbols:
                if not isinstance(link, Link):
                    continue
                if link.name not in self.by_left:
                    hint = did_you_mean(link.name, self.by_left)
                    self._refuse(rule, f"{link}: no rule for {link.name}{hint}")
                if link.index in by_index:
                    self._refuse(rule, f"index [{link.index}] occurs twice on the {side} side")
                by_index[link.index] = link
            links.append(by_index)
        for index in sorted(links[0].keys() | links[1].keys()):
            source, target = links[0].get(index), links[1].get(index)
            if source is None or target is None:
                side = "source" if source else "target"
                self._refuse(
                    rule, f"{source or target} is linked to nothing: only on the {side} side"
                )
            if source.name != target.name:
                self._refuse(rule, f"{source} on the source side is linked to {target}")

    def _check_probabilities(self) -> None:
        for name, rules in self.by_left.items():
            total = sum((rule.probability for rule in rules), Fraction(0))
            if abs(total - 1) > Fraction(1, 10**9):
                shown = f"{total} = {float(total):.6g}" if total.denominator > 1 else f"{total}"
                self._refuse(rules[0], f"probabilities of {name} sum to {shown}, expected 1")

    def _check_termination(self) -> None:
        ending: set[str] = set()
        while newly := {
            rule.left
            for rule in self.rules
            if rule.left not in ending and all(child.name in ending for child in rule.children)
        }:
            ending |= newly
        for name, rules in self.by_left.items():
            if name not in ending:
                self._refuse(rules[0], f"{name} never terminates: none of its rules can end")

    def _check_reachability(self) -> None:
        reached = {self.root}
        while (
            newly := {
                child.name for rule in self.rules if rule.left in reached for child in rule.children
            }
            - reached
        ):
            reached |= newly
        for name, rules in self.by_left.items():
            if name not in reached:
                self._refuse(rules[0], f"{name} is never used: {self.root} does not lead to it")

    def _refuse(self, rule: Rule, reason: str) -> NoReturn:
        place = rule.line or f"rule {self.rules.index(rule) + 1}"
        raise InputError(f"{self.origin}:{place}: {reason}")


def _distinct_terminals(symbols: Iterator[Symbol]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(symbol for symbol in symbols if isinstance(symbol, str)))


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
            beginning = " ".join(self.tokens[:3])
            self.refuse(f"expected `probability left -> source | target`, found `{beginning}`")
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
            sizes = ", ".join(f"{token} has {count}" for token, count in counts.items())
            self.refuse(f"ranges of different sizes: {sizes}")
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
