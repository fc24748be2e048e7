"""What pushes and pops do to a memory's cells, by the paper's equations, a step at a time.

The cells are known by number, in the order in which they were pushed (a deque's top before its
bottom). Values play no part: which cells a read comes from, the strengths alone decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from pushpop.memory.backends.reference import pop_bottom, pop_top, weights_bottom, weights_top

Amounts = tuple[float, ...]
"""A number for each end, the top first."""
Shares = tuple[tuple[int, float], ...]
"""Cells by number, each with a strength or a weight."""

POP = {"top": pop_top, "bottom": pop_bottom}
WEIGHTS = {"top": weights_top, "bottom": weights_bottom}


class Place(NamedTuple):
    """What lies at a position after a step."""

    position: int
    total: float  # of all weights, of those too that `shares` leaves out
    shares: Shares  # the largest weights, largest first


@dataclass(frozen=True)
class Moment:
    """What one step did, and what it left."""

    changed: Shares = ()  # new strengths: of cells that were pushed, and of those that a pop cut
    reads: tuple[Shares, ...] = ()  # the weights of the cells that each read comes from, not 0
    bottom: float = 0.0  # where the memory begins on the line of intervals
    top: float = 0.0  # where it ends
    places: tuple[Place, ...] = ()  # of a memory with positions, what lies at them


@dataclass
class Written:
    """A value that went into the memory."""

    step: int
    end: str  # "top" or "bottom"; "" of a memory with positions
    strength: float  # it came with
    gone: int | None = None  # the step after which nothing of it was left


@dataclass
class Replay:
    """A memory of intervals without values. A memory is popped where it is read."""

    push_ends: Sequence[str]
    read_ends: Sequence[str]
    dtype: torch.dtype = torch.float64
    cells: list[int] = field(default_factory=list)  # those with strength, bottom to top
    written: list[Written] = field(default_factory=list)
    n_steps: int = 0
    bottom: float = 0.0

    def __post_init__(self) -> None:
        self.strengths = torch.zeros(1, 0, dtype=self.dtype)

    def step(self, push: Sequence[float], pop: Sequence[float]) -> Moment:
        """Pop, push and read; a number for each end of each."""
        s = self.strengths
        for end, amount in zip(self.read_ends, pop, strict=True):
            before = s
            s = POP[end](s, self._number(amount))
            if end == "bottom":
                self.bottom += float((before.double() - s.double()).sum())
        changed = self._where(s, s != self.strengths)
        for end, amount in zip(self.push_ends, push, strict=True):
            parts = [s, self._number(amount)[None]]
            s = torch.cat(parts if end == "top" else parts[::-1], dim=1)
            cell, strength = len(self.written), float(parts[1])
            self.cells.insert(len(self.cells) if end == "top" else 0, cell)
            self.written.append(Written(self.n_steps, end, strength))
            changed.append((cell, strength))
            if end == "bottom":
                self.bottom -= strength
        weights = (WEIGHTS[end](s) for end in self.read_ends)
        reads = tuple(tuple(self._where(w, w > 0)) for w in weights)
        self.strengths = s
        if not bool((s > 0).all()):
            live = (s[0] > 0).nonzero()[:, 0].tolist()
            self.cells, self.strengths = [self.cells[row] for row in live], s[:, live]
        for cell, strength in changed:
            if strength == 0:
                self.written[cell].gone = self.n_steps
        self.n_steps += 1
        top = self.bottom + float(self.strengths.double().sum())
        return Moment(tuple(changed), reads, self.bottom, top)

    def _number(self, amount: float) -> Tensor:
        return torch.tensor([amount], dtype=self.dtype)

    def _where(self, numbers: Tensor, chosen: Tensor) -> list[tuple[int, float]]:
        rows = chosen[0].nonzero()[:, 0]
        chosen_cells = zip(rows.tolist(), numbers[0, rows].tolist(), strict=True)
        return [(self.cells[row], number) for row, number in chosen_cells]
