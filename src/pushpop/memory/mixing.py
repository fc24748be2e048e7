"""Memories that mix their cells: a step writes a value, then replaces the cells by a mixture of
three shifts of themselves.

With w the cells after writing, 0 beyond both ends, and a_k the gate of shift k:

    M_t[i] = sum_k a_k w[i + shift_k]

A memory of this kind says so by `kernel = Shifts(...)`, and recurrent layers then run it by the
kernels in `backends/fused/mixing.py`, which must equal the memory's own equations.
"""

from typing import NamedTuple

GATES = 3
"""How many gates share a softmax: one a shift."""

CHECKPOINT_EVERY = 8
"""How often cells are kept for the backward pass, which runs the steps between again: all of them
are too many to keep, since the cells grow with the steps."""


class Shifts(NamedTuple):
    """The three shifts that a softmax over three gates mixes."""

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
    def decode(cls, numbers: list[int]) -> "Shifts":
        """What `encode` made."""
        i, j, k, growth, inserts = numbers
        return cls((i, j, k), growth, bool(inserts))

    def cells(self, initial: int, steps: int) -> int:
        """How many cells there are after some steps."""
        return initial + self.growth * steps

    def kept(self, initial: int, steps: int) -> int:
        """How many cells are kept for the backward pass, all together."""
        return sum(
            self.cells(initial, t) for t in range(CHECKPOINT_EVERY, steps + 1, CHECKPOINT_EVERY)
        )

    def place(self, cells: int) -> int:
        """Which one of so many cells is written and read."""
        return 0 if self.inserts else cells // 2

    def first(self, cells: int, padded: int) -> int:
        """Where so many cells begin among more, the others being empty."""
        return 0 if self.inserts else (padded - cells) // 2
