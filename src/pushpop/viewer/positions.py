"""What lies at each position of a memory that is linear in its values.

What such a memory holds at a position, and what it reads, is a sum of the values that were written,
with weights that its gates alone decide. They are found by running the memory itself, one number
wide, with a row for each value: in row n the value of step n is 1 and all others are 0. Cells are
known by the step that wrote them.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.memory import Memory
from pushpop.training.parallel import torch_threads
from pushpop.viewer.intervals import Moment, Place, Shares, Written

SMALLEST = 0.01  # smaller weights, and positions that hold less, are left out
SHARES = 5  # of a position
MOST = 200_000  # positions and shares in a trace; what is farthest from position 0 is left out
FORGOTTEN = 1e-5  # a row whose weights are all smaller is no longer followed
SPARE = 32  # rows that are made at a time
TOLERANCE = 0.01


class _Kept(NamedTuple):
    """What is kept of a step until it is known how much there is in all."""

    positions: Tensor  # [n]
    totals: Tensor  # [n]
    weights: Tensor  # [k, n], largest first
    cells: Tensor  # [k, n]
    read: Shares


class PositionReplay:
    """A memory with a row for each value that is still somewhere in it."""

    def __init__(self, memory: Memory[Any], dtype: torch.dtype) -> None:
        self.memory, self.dtype = copy(memory), dtype
        self.memory.width = 1
        self.state = self.memory.empty(SPARE, dtype=dtype)
        self.followed = torch.zeros(0, dtype=torch.long)  # the cells of the first rows
        self.spare = SPARE  # how many rows after them are still to be written
        self.values: Tensor | None = None  # [t, D], what the model wrote
        self.written: list[Written] = []
        self.until: list[int] = []  # for each cell, the step after the last that had some of it
        self.kept: list[_Kept] = []
        self.linear = True  # whether the weights explain what the model read

    @torch_threads(1)
    def step(self, value: Tensor, gates: Tensor, read: Tensor) -> None:
        """What the model wrote [D], its gates [1, G], and what it read [D]."""
        t, row = len(self.written), len(self.followed)
        values = torch.zeros(row + self.spare, 1, 1, dtype=self.dtype)
        values[row] = 1
        reads, self.state = self.memory.run_step(values, gates.expand(len(values), -1), self.state)
        held, positions = self.memory.contents(self.state)
        weights, read_weights = held[: row + 1, :, 0], reads[: row + 1, 0, 0]
        self.followed = torch.cat([self.followed, torch.tensor([t])])
        self.spare -= 1
        self.written.append(Written(t, "", float(weights[row].sum())))
        self.until.append(t)
        smallest, largest = weights.aminmax(dim=1)
        for cell in self.followed[largest >= SMALLEST].tolist():
            self.until[cell] = t + 1
        self._check(value, read_weights, read, float(smallest.min()))
        self.kept.append(self._keep(weights, positions, read_weights))
        if self.spare == 1:
            self._make_room(largest)

    def _make_room(self, largest: Tensor) -> None:
        """Rows that nothing is left of make room for new ones, copies of the last spare row."""
        alive = (largest > FORGOTTEN).nonzero()[:, 0]
        new = torch.full((SPARE,), len(self.followed))
        self.state = self.state.rows(torch.cat([alive, new]))
        self.followed, self.spare = self.followed[alive], SPARE

    def _check(self, value: Tensor, read_weights: Tensor, read: Tensor, smallest: float) -> None:
        new = value[None]
        self.values = new if self.values is None else torch.cat([self.values, new])
        explained = read_weights @ self.values[self.followed]
        close = torch.allclose(explained, read, rtol=TOLERANCE, atol=TOLERANCE)
        self.linear &= close and smallest > -TOLERANCE

    def _keep(self, weights: Tensor, positions: list[int], read_weights: Tensor) -> _Kept:
        totals = weights.sum(dim=0)
        chosen = (totals >= SMALLEST).nonzero()[:, 0]
        top = weights[:, chosen].topk(min(SHARES, len(weights)), dim=0)
        read = (read_weights >= SMALLEST).nonzero()[:, 0]
        order = read[read_weights[read].argsort(descending=True, stable=True)]
        mixture = zip(self.followed[order].tolist(), read_weights[order].tolist(), strict=True)
        places, cells = torch.tensor(positions)[chosen], self.followed[top.indices]
        return _Kept(places, totals[chosen], top.values, cells, tuple(mixture))

    def moments(self) -> tuple[list[Moment], int | None]:
        """All steps, and how far from position 0 they reach, if something had to be left out."""
        for cell, until in zip(self.written, self.until, strict=True):
            cell.gone = None if until == len(self.kept) else until
        reach = self._reach()
        moments = [
            Moment(reads=(kept.read,), places=tuple(_places(kept, reach))) for kept in self.kept
        ]
        return moments, reach

    def _reach(self) -> int | None:
        if not self.kept:
            return None
        far = torch.cat([kept.positions.abs() for kept in self.kept])
        costs = torch.cat([1 + (kept.weights >= SMALLEST).sum(dim=0) for kept in self.kept])
        upto = torch.bincount(far, costs).cumsum(0)
        if not len(upto) or upto[-1] <= MOST:
            return None
        return max(0, int((upto <= MOST).sum()) - 1)


def _places(kept: _Kept, reach: int | None) -> Iterator[Place]:
    columns = kept.positions, kept.totals, kept.cells.T, kept.weights.T
    for position, total, cells, weights in zip(*(x.tolist() for x in columns), strict=True):
        if reach is None or abs(position) <= reach:
            shares = zip(cells, weights, strict=True)
            yield Place(position, total, tuple(s for s in shares if s[1] >= SMALLEST))
