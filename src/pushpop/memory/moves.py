"""Memories whose cells move: a step writes a value, then moves all cells by a mixture of moves.

With w the cells after writing, 0 beyond both ends, and a_k the share of move k:

    M_t[i] = sum_k a_k w[i + shift_k]

A memory of this kind says so by `kernel = Moves(...)`, and recurrent layers then run it by compiled
kernels (`walker_moves.py`). What it does is said by its own equations, which these must equal.
"""

from typing import NamedTuple

EVERY = 8
"""The cells after every so many steps are kept for the backward pass, which runs the steps between
them again: all of them are too many to keep, since the cells grow with the steps."""


class Moves(NamedTuple):
    """How the cells of a memory move, for its kernels. It has three gates, a softmax."""

    shifts: tuple[int, int, int]
    """For each gate: cell i after the step gets its share of the written cell i + shift. At most 2
    either way."""
    growth: int
    """How many cells a step adds."""
    inserts: bool
    """Whether a value goes in front of all cells, and the first cell is read. If not, it goes over
    the middle cell, which is read, and the cells grow at both ends."""

    def encode(self) -> list[int]:
        """As operators take it."""
        return [*self.shifts, self.growth, int(self.inserts)]

    @classmethod
    def decode(cls, numbers: list[int]) -> "Moves":
        """What `encode` made."""
        i, j, k, growth, inserts = numbers
        return cls((i, j, k), growth, bool(inserts))

    def cells(self, initial: int, steps: int) -> int:
        """How many cells there are after some steps."""
        return initial + self.growth * steps

    def kept(self, initial: int, steps: int) -> int:
        """How many cells are kept for the backward pass, all together."""
        return sum(self.cells(initial, t) for t in range(EVERY, steps + 1, EVERY))

    def place(self, cells: int) -> int:
        """Which one of so many cells is written and read."""
        return 0 if self.inserts else cells // 2

    def first(self, cells: int, padded: int) -> int:
        """Where so many cells begin among more, the others being empty."""
        return 0 if self.inserts else (padded - cells) // 2
