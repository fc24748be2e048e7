"""Matching brackets: close what a prefix of a well-bracketed string has left open."""

from collections.abc import Sequence

import numpy as np

from pushpop.tasks.base import FloatArray, Pairs, Task, draw_lengths
from pushpop.tasks.lengths import LengthRange
from pushpop.tasks.vocabulary import Vocabulary


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
