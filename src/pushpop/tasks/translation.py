"""The target that a synchronous grammar has for a source: all derivations of the source, found by
a table of its parts."""

from collections.abc import Sequence

from pushpop.tasks.grammar import Grammar, Link, Rule

Words = tuple[str, ...]
LONGEST = 64
"""Sources with more symbols take too long: the work grows with the cube of the length."""
MOST = 16
"""Targets of a rule's last children that are kept: two that differ may be the same once the other
children are in place."""


def translate(grammar: Grammar, source: Sequence[str]) -> Words | None:
    """The one target of a source; None if the grammar has no such source, or several targets for
    it, or if it is too long."""
    if not 0 < len(source) <= LONGEST:
        return None
    chart = _Chart(grammar, tuple(source))
    found = chart.targets(grammar.root, 0, len(source))
    return next(iter(found)) if len(found) == 1 and not chart.gave_up else None


class _Chart:
    """What each nonterminal can make of each part of a source. Of several targets of a part, two
    are kept: they are enough to know that there is not one."""

    def __init__(self, grammar: Grammar, source: Words) -> None:
        self.grammar, self.source = grammar, source
        self.parts: dict[tuple[str, int, int], frozenset[Words]] = {}
        self.rests: dict[tuple[int, int, int, int], frozenset[tuple[Words, ...]]] = {}
        self.gave_up = False  # some part has too many targets to know whether there is one in all

    def targets(self, name: str, start: int, stop: int) -> frozenset[Words]:
        """The targets of source[start:stop] as that nonterminal."""
        key = name, start, stop
        if key not in self.parts:
            found = {
                _assemble(rule, children)
                for rule in self.grammar.by_left[name]
                for children in self._children(rule, 0, start, stop)
            }
            self.parts[key] = frozenset(sorted(found)[:2])
        return self.parts[key]

    def _children(self, rule: Rule, k: int, start: int, stop: int) -> frozenset[tuple[Words, ...]]:
        """The targets of the children in rule.source[k:], which is to be source[start:stop]."""
        left = len(rule.source) - k
        if left == 0:
            return frozenset([()]) if start == stop else frozenset()
        if stop - start < left:
            return frozenset()
        symbol = rule.source[k]
        if not isinstance(symbol, Link):
            if self.source[start] != symbol:
                return frozenset()
            return self._children(rule, k + 1, start + 1, stop)
        if left == 1:
            return frozenset((words,) for words in self.targets(symbol.name, start, stop))
        key = id(rule), k, start, stop
        if key not in self.rests:
            found = {
                (words, *rest)
                for middle in range(start + 1, stop - left + 2)
                for rest in self._children(rule, k + 1, middle, stop)
                for words in self.targets(symbol.name, start, middle)
            }
            different = {_assemble(rule, children): children for children in sorted(found)}
            self.gave_up |= len(different) > MOST
            self.rests[key] = frozenset(list(different.values())[:MOST])
        return self.rests[key]


def _assemble(rule: Rule, children: tuple[Words, ...]) -> Words:
    """The rule's target side with the targets of its last children in place; the place of each
    other child is held by its number."""
    missing = len(rule.children) - len(children)
    known = [(f"\0{k}",) for k in range(missing)]
    of = dict(zip(rule.children, [*known, *children], strict=True))
    parts = (of[one] if isinstance(one, Link) else (one,) for one in rule.target)
    return tuple(word for part in parts for word in part)
