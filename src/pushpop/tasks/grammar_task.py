"""Tasks whose pairs come from a synchronous grammar (inversion transduction grammars), and the
target that a grammar has for a source.

Rejection draws derivations until one has a source length in the range; for long sources or for
grammars whose derivations mostly never end it takes forever. Here the length is drawn first, by
the probability that the grammar gives it, and then every rule and every division of the length
among a rule's children by its probability given that length: the same distribution, no rejects.
A source is translated by a table of what each of its parts can derive.
"""

from collections.abc import Sequence
from copy import copy
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from pushpop.errors import InputError
from pushpop.tasks.base import PAPER, FloatArray, IntArray, Pairs, Task, Vocabulary
from pushpop.tasks.grammar import Grammar, Link, Rule, parse_grammar, read_grammar
from pushpop.tasks.registry import GRAMMAR_FILE, LengthRange, check_request

if TYPE_CHECKING:
    from pushpop.tasks.grammar_sampling import Inside, Tables


SMALLEST = 1e-280
"""Probabilities below this are near the end of what a float can hold."""


class GrammarTask(Task):
    """Pairs of a grammar, given the range of the source length."""

    def __init__(self, grammar: Grammar, name: str | None = None) -> None:
        self.name = grammar.origin if name is None else name
        self.grammar = grammar
        self.vocabulary = Vocabulary(*grammar.terminals())
        self.uniform_lengths = False
        self._summary = ""
        self._inside: Inside | None = None
        self._lengths: dict[LengthRange, tuple[IntArray, FloatArray]] = {}

    @classmethod
    def packaged(cls, name: str) -> "GrammarTask":
        """The task of a grammar that comes with the package: the paper's two."""
        grammar, summary = _packaged_grammar(name)
        task = cls(grammar, name)
        task.family, task._summary = PAPER, summary
        return task

    @property
    def summary(self) -> str:
        """What the file of a packaged grammar says in its first line."""
        return self._summary or super().summary

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        """Draw the lengths, then derivation after derivation."""
        from pushpop.tasks.grammar_sampling import derive, draws_needed

        low, high = check_request(batch_size, lengths)
        possible, cumulative = self._length_distribution(low, high)
        thresholds = rng.random(batch_size) * cumulative[-1]
        source_lengths = possible[np.searchsorted(cumulative, thresholds, side="right")]
        uniforms = rng.random(draws_needed(self._tables, source_lengths))
        source, target, target_lengths = derive(
            self._tables, self._probabilities(high), source_lengths, uniforms
        )
        return Pairs(source, source_lengths, target, target_lengths)

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        """The grammar's translation, if it has one for the source and no other."""
        return translate(self.grammar, source)

    def with_uniform_lengths(self) -> "GrammarTask":
        """The same task, with all lengths in a range equally likely that the grammar can make."""
        twin = copy(self)
        twin.uniform_lengths, twin._lengths = True, {}
        return twin

    def length_probabilities(self, longest: int) -> FloatArray:
        """[n]: the probability that a free derivation has a source of n symbols, n <= longest."""
        return self._probabilities(longest).P[0, : longest + 1]

    def _length_distribution(self, low: int, high: int) -> tuple[IntArray, FloatArray]:
        """The lengths in the range that the grammar can produce, and the running sums of how
        likely they are to be drawn."""
        if (low, high) not in self._lengths:
            probabilities = self.length_probabilities(high)[low:]
            if probabilities.max() < SMALLEST:
                raise InputError(
                    f"{self.name} has no source of length {low}-{high}{self._nearby(low, high)}"
                )
            possible = np.flatnonzero(probabilities >= SMALLEST)
            weights = np.ones(len(possible)) if self.uniform_lengths else probabilities[possible]
            self._lengths[low, high] = possible + low, np.cumsum(weights)
        return self._lengths[low, high]

    def _nearby(self, low: int, high: int) -> str:
        """What to say of the lengths that there are."""
        possible = np.flatnonzero(self.length_probabilities(2 * high + 64) >= SMALLEST)
        shorter, longer = possible[possible < low], possible[possible > high]
        near = [str(length) for length in (*shorter[-1:], *longer[:1])]
        return f"; the nearest it has: {', '.join(near)}" if near else ""

    def _probabilities(self, longest: int) -> "Inside":
        """The inside tables up to a length; their entries do not depend on how far they go."""
        from pushpop.tasks.grammar_sampling import inside

        if self._inside is None or self._inside.P.shape[1] <= longest:
            self._inside = inside(self._tables, longest)
        return self._inside

    @cached_property
    def _tables(self) -> "Tables":
        from pushpop.tasks.grammar_sampling import compile_grammar

        return compile_grammar(self.grammar, self.vocabulary)


@cache
def _packaged_grammar(name: str) -> tuple[Grammar, str]:
    """A grammar that comes with the package, and what its first line says."""
    file = resources.files("pushpop.tasks") / "grammars" / f"{name}.itg"
    text = file.read_text(encoding="utf-8")
    return parse_grammar(text, file.name), text.partition("\n")[0].removeprefix("# ")


def make(name: str) -> GrammarTask:
    """The task of that name, or of the grammar in that file."""
    if name.endswith(GRAMMAR_FILE):
        return GrammarTask(read_grammar(name))
    return GrammarTask.packaged(name)


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
    targets = chart.targets(grammar.root, 0, len(source))
    return next(iter(targets)) if len(targets) == 1 and not chart.gave_up else None


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
            targets = {
                _assemble(rule, children)
                for rule in self.grammar.by_left[name]
                for children in self._children(rule, 0, start, stop)
            }
            self.parts[key] = frozenset(sorted(targets)[:2])
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
            targets = {
                (words, *rest)
                for middle in range(start + 1, stop - left + 2)
                for rest in self._children(rule, k + 1, middle, stop)
                for words in self.targets(symbol.name, start, middle)
            }
            different = {_assemble(rule, children): children for children in sorted(targets)}
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
