"""Tasks made by rule: rearrangements of a random source (copy, reverse, flip, duplicate and odds
first) and matching brackets.

Source lengths are uniform over the range. The symbols of a rearrangement are uniform over the
vocabulary a1 ... a128, which both sides share.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from pushpop.tasks.base import (
    PAPER,
    FloatArray,
    Pairs,
    Task,
    Vocabulary,
    draw_integers,
    draw_lengths,
    split,
)
from pushpop.tasks.registry import LengthRange

Rearrange = Callable[[list[Any]], list[Any]]
REARRANGEMENTS: dict[str, tuple[str, Rearrange]] = {
    "copy": ("The source as it is.", lambda source: source),
    "reverse": ("The source read from its end.", lambda source: source[::-1]),
    "flip": (
        "Every two neighbours change places.",
        lambda source: [source[place ^ 1] for place in range(len(source))],
    ),
    "duplicate": ("The source, twice.", lambda source: 2 * source),
    "odds-first": (
        "Odd places first, then even ones.",  # counted from 1
        lambda source: source[::2] + source[1::2],
    ),
}
"""What each is in a line, and the target of a source."""


class RearrangementTask(Task):
    """A random source; the target has its symbols in another order.

    In flipping, sources have even lengths. An odd one is not drawn at all: lengths are uniform over
    the even ones in the range, which is what drawing again after an odd draw would give.
    """

    def __init__(self, name: str, symbols: int = 128) -> None:
        self.name, self._multiple = name, 2 if name == "flip" else 1
        self._summary, self._rearrange = REARRANGEMENTS[name]
        if name in ("copy", "reverse", "flip"):
            self.family = PAPER
        alphabet = tuple(f"a{number + 1}" for number in range(symbols))
        self.vocabulary = Vocabulary(alphabet, alphabet)

    @property
    def summary(self) -> str:
        return self._summary

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        sizes = draw_lengths(rng, batch_size, lengths, self._multiple)
        symbols = draw_integers(rng, len(self.vocabulary.source), int(sizes.sum())).tolist()
        return Pairs.of([(row, self._rearrange(row)) for row in split(symbols, sizes)])

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        known = all(self.vocabulary.knows("source", symbol) for symbol in source)
        if not source or len(source) % self._multiple or not known:
            return None
        return tuple(self._rearrange(list(source)))


class Brackets(Task):
    """What closes the brackets left open.

    The source is a prefix of a well-bracketed string over two kinds of brackets; what was opened
    last is closed first. All prefixes of a length are equally likely. A prefix that has everything
    closed has an empty target.
    """

    name = "brackets"
    vocabulary = Vocabulary(("(", ")", "[", "]"), (")", "]"))

    def sample(self, rng: np.random.Generator, batch_size: int, lengths: LengthRange) -> Pairs:
        """Draw the lengths, then one number a symbol: whether it opens, and which kind."""
        sizes = draw_lengths(rng, batch_size, lengths)
        openings = opening_probabilities(2 ** int(sizes.max()).bit_length())
        uniforms = split(rng.random(int(sizes.sum())).tolist(), sizes)
        return Pairs.of([self._draw(row, openings) for row in uniforms])

    def _draw(self, uniforms: list[float], openings: FloatArray) -> tuple[list[int], list[int]]:
        """A pair; source symbols are 2 kind for opening and 2 kind + 1 for closing."""
        source, still_open = [], list[int]()
        for place, uniform in enumerate(uniforms):
            opening = openings[len(uniforms) - place, len(still_open)]
            if uniform < opening:
                still_open.append(0 if uniform < opening / 2 else 1)
                source.append(2 * still_open[-1])
            else:
                source.append(2 * still_open.pop() + 1)
        return source, still_open[::-1]

    def target_of(self, source: Sequence[str]) -> tuple[str, ...] | None:
        pairs, left = {"(": ")", "[": "]"}, list[str]()
        for symbol in source:
            if symbol in pairs:
                left.append(pairs[symbol])
            elif not left or left.pop() != symbol:
                return None
        return tuple(reversed(left)) if source else None


@cache
def opening_probabilities(longest: int) -> FloatArray:
    """[left, depth]: the chance that the next of `left` symbols opens a bracket.

    Opening can be done in two ways and closing in one (in none at depth 0), so the number of
    ways to go on is W(left, depth) = 2 W(left - 1, depth + 1) + W(left - 1, depth - 1). It is
    kept as a share of 3**left, which is 1 where depth 0 is out of reach, also beyond the table.
    """
    share = np.ones(longest + 1)
    openings = np.ones((longest + 1, longest + 1))
    for left in range(1, longest + 1):
        opened = 2 * np.append(share[1:], 1)
        closed = np.append(0, share[:-1])
        share = (opened + closed) / 3
        openings[left] = opened / (opened + closed)
    return openings


def make(name: str) -> Task:
    return Brackets() if name == Brackets.name else RearrangementTask(name)
