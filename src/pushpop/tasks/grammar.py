"""Synchronous grammars: the type, and what makes one valid.

A rule rewrites a nonterminal into a source side and a target side at once. The nonterminals of
its two sides are linked one to one, in any order, and linked ones are rewritten together.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
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
        done: set[str] = set()
        for start in self.by_left:
            path = [(start, iter(self.by_left[start]))] if start not in done else []
            while path:
                name, rules = path[-1]
                rule = next((rule for rule in rules if rule.unit), None)
                if rule is None:
                    path.pop()
                    done.add(name)
                    yield name
                    continue
                child = rule.children[0].name
                on_path = [ancestor for ancestor, _ in path]
                if child in on_path:
                    circle = " -> ".join([*on_path[on_path.index(child) :], child])
                    self._refuse(rule, f"{child} derives itself alone ({circle})")
                if child not in done:
                    path.append((child, iter(self.by_left[child])))

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
        grown = True
        while grown:
            found = {
                rule.left
                for rule in self.rules
                if rule.left not in ending and all(child.name in ending for child in rule.children)
            }
            ending |= found
            grown = bool(found)
        for name, rules in self.by_left.items():
            if name not in ending:
                self._refuse(rules[0], f"{name} never terminates: none of its rules can end")

    def _check_reachability(self) -> None:
        reached, waiting = {self.root}, [self.root]
        while waiting:
            for rule in self.by_left[waiting.pop()]:
                new = {child.name for child in rule.children} - reached
                reached |= new
                waiting += new
        for name, rules in self.by_left.items():
            if name not in reached:
                self._refuse(rules[0], f"{name} is never used: {self.root} does not lead to it")

    def _refuse(self, rule: Rule, reason: str) -> NoReturn:
        place = rule.line or f"rule {self.rules.index(rule) + 1}"
        raise InputError(f"{self.origin}:{place}: {reason}")


def _distinct_terminals(symbols: Iterator[Symbol]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(symbol for symbol in symbols if isinstance(symbol, str)))
