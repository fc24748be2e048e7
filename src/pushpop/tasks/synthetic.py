"""Tasks made by rule: rearrangements of a random source (copy, reverse, flip, duplicate and odds
first) and matching brackets.

Source lengths are uniform over the range. The symbols of a rearrangement are uniform over the
vocabulary a1 ... a128, which both sides share.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from pushpop.tasks.base import (
    PAPER,
    FloatArray,
    IntArray,
    Pairs,
    Task,
    draw_integers,
    draw_lengths,
    places,
)
from pushpop.tasks.lengths import LengthRange
from pushpop.tasks.vocabulary import Vocabulary


class RearrangementTask(Task):
    """A random source; the target says which of its symbols come in which order."""

    multiple = 1
    """Source lengths are multiples of this."""

    def __init__(self, symbols: int = 128) -> None:
        alphabet = tuple(f"a{number + 1}" for number in range(symbols))
        self.vocabulary = Vocabulary(alphabet, alphabet)

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        """Draw the lengths, then the symbols, then rearrange."""
        source_lengths = draw_lengths(rng, batch_size, lengths, self.multiple)
        total = int(source_lengths.sum())
        source = draw_integers(rng, len(self.vocabulary.source), total)
        order, target_lengths = self.rearrange(source_lengths)
        return Pairs(source, source_lengths, source[order], target_lengths)

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        """The source rearranged."""
        known = all(self.vocabulary.knows("source", symbol) for symbol in source)
        if not source or len(source) % self.multiple or not known:
            return None
        order, _ = self.rearrange(np.array([len(source)]))
        return tuple(source[place] for place in order.tolist())

    @abstractmethod
    def rearrange(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """For sources laid end to end: the index of the source symbol that each target symbol
        repeats, and the targets' lengths."""


class Copy(RearrangementTask):
    """The source as it is.

    a5 a7 a7 a2 ||| a5 a7 a7 a2
    """

    name = "copy"
    family = PAPER

    def rearrange(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Every symbol in its place."""
        return np.arange(lengths.sum()), lengths


class Reverse(RearrangementTask):
    """The source read from its end.

    a5 a7 a7 a2 ||| a2 a7 a7 a5
    """

    name = "reverse"
    family = PAPER

    def rearrange(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Position p takes the symbol at length - 1 - p."""
        rows, positions = places(lengths)
        return np.cumsum(lengths)[rows] - 1 - positions, lengths


class Flip(RearrangementTask):
    """Every two neighbours change places.

    a5 a7 a1 a2 ||| a7 a5 a2 a1

    Sources have even lengths. An odd one is not drawn at all: lengths are uniform over the even
    ones in the range, which is what drawing again after an odd draw would give. A range without an
    even length is refused.
    """

    name = "flip"
    family = PAPER
    multiple = 2

    def rearrange(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Every source starts at an even index, so neighbours differ in the lowest bit only."""
        return np.arange(lengths.sum()) ^ 1, lengths


class Duplicate(RearrangementTask):
    """The source, twice.

    a5 a7 a2 ||| a5 a7 a2 a5 a7 a2
    """

    name = "duplicate"

    def rearrange(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Positions past the end of the source start it again."""
        rows, positions = places(2 * lengths)
        starts = np.cumsum(lengths) - lengths
        return starts[rows] + positions % lengths[rows], 2 * lengths


class OddsFirst(RearrangementTask):
    """Odd places first, then even ones.

    a1 a2 a3 a4 a5 ||| a1 a3 a5 a2 a4

    Places are counted from 1.
    """

    name = "odds-first"

    def rearrange(self, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """A row of length n has (n + 1) // 2 odd places, counted from 1."""
        rows, positions = places(lengths)
        odds = ((lengths + 1) // 2)[rows]
        taken = np.where(positions < odds, 2 * positions, 2 * (positions - odds) + 1)
        return (np.cumsum(lengths) - lengths)[rows] + taken, lengths


class Brackets(Task):
    """What closes the brackets left open.

    ( [ ] [ ( ||| ) ] )

    The source is a prefix of a well-bracketed string over two kinds of brackets; what was opened
    last is closed first.
    Source lengths are uniform over the range, and all prefixes of a length are equally likely.
    A prefix that has everything closed has an empty target.
    """

    name = "brackets"
    vocabulary = Vocabulary(("(", ")", "[", "]"), (")", "]"))

    def __init__(self) -> None:
        self._openings = np.empty((0, 0))

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        """Draw the lengths, then one number a symbol: whether it opens, and which kind."""
        from pushpop.tasks.kernels import draw_brackets

        source_lengths = draw_lengths(rng, batch_size, lengths)
        openings = self._opening_probabilities(int(source_lengths.max()))
        uniforms = rng.random(int(source_lengths.sum()))
        source, target, target_lengths = draw_brackets(openings, source_lengths, uniforms)
        return Pairs(source, source_lengths, target, target_lengths)

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        """What is still open, the last first."""
        pairs, left = {"(": ")", "[": "]"}, list[str]()
        for symbol in source:
            if symbol in pairs:
                left.append(pairs[symbol])
            elif not left or left.pop() != symbol:
                return None
        return tuple(reversed(left)) if source else None

    def _opening_probabilities(self, longest: int) -> FloatArray:
        """[left, depth]: the chance that the next of `left` symbols opens a bracket.

        Opening can be done in two ways and closing in one (in none at depth 0), so the number of
        ways to go on is W(left, depth) = 2 W(left - 1, depth + 1) + W(left - 1, depth - 1). It is
        kept as a share of 3**left, which is 1 where depth 0 is out of reach.
        """
        if len(self._openings) <= longest:
            share = np.ones(longest + 1)
            self._openings = np.ones((longest + 1, longest + 1))
            for left in range(1, longest + 1):
                opened = 2 * np.append(share[1:], 1)
                closed = np.append(0, share[:-1])
                share = (opened + closed) / 3
                self._openings[left] = opened / (opened + closed)
        return self._openings
