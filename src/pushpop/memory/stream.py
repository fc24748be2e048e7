"""Cells held for stepping: each step costs what it touches, and old states stay valid.

A ring of slots a row is changed in place by each step, and belongs to the newest state. An older
state keeps what the next step overwrote and a link to its successor (Baker's persistent arrays), so
it can still be read, or stepped from, by undoing the steps since. The links lead from old to new:
a state that nobody holds any more costs nothing.
"""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pushpop.memory.kernels import Array
from pushpop.memory.kernels_ring import Overwritten, Ring, rollback, step_in_place
from pushpop.memory.state import Cells, as_array

SMALLEST_RING = 16
STEPS_A_SLOT = 8


@dataclass
class SharedRing:
    """A ring that the states of one stream share."""

    arrays: Ring
    lock: threading.Lock = field(default_factory=threading.Lock)
    steps: int = 0  # taken in place so far


@dataclass(frozen=True)
class Undo:
    """What it takes to undo one step."""

    kind: int
    lo: Array
    hi: Array
    overwritten: Overwritten


class Stream:
    """One moment in the life of a ring: the cells of row b are at positions lo[b] .. hi[b] - 1."""

    def __init__(self, ring: SharedRing, lo: Array, hi: Array) -> None:
        self.ring, self.lo, self.hi = ring, lo, hi
        self.newer: tuple[Undo, Stream] | None = None

    @classmethod
    def of(cls, kind: int, cells: Cells) -> "Stream":
        """Lay out values [B, N, D] and strengths [B, N], leaving out cells without strength.

        A ring is the same for all kinds of memory.
        """
        V, s = (x.detach().numpy() for x in cells)
        live = s != 0
        return cls._laid_out([row[keep] for row, keep in zip(V, live, strict=True)],
                             [row[keep] for row, keep in zip(s, live, strict=True)],
                             V.shape[2], V.dtype)  # fmt: skip

    @classmethod
    def _laid_out(
        cls, values: list[Array], strengths: list[Array], width: int, dtype: np.dtype[Any]
    ) -> "Stream":
        counts = np.array([len(row) for row in strengths], np.int64)
        room = SMALLEST_RING
        while room < 2 * counts.max(initial=0) + 2:
            room *= 2
        B = len(counts)
        ring = Ring(
            slots=np.zeros((B, room, width), dtype),
            strengths=np.zeros((B, room), dtype),
            row_ids=np.arange(B * room).reshape(B, room),
        )
        for b, n in enumerate(counts):
            ring.slots[b, :n], ring.strengths[b, :n] = values[b], strengths[b]
        return cls(SharedRing(ring), np.zeros_like(counts), counts)

    @property
    def shape(self) -> tuple[int, int]:
        """Batch size and width."""
        slots = self.ring.arrays.slots
        return slots.shape[0], slots.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of values and strengths."""
        return torch.float32 if self.ring.arrays.slots.dtype == np.float32 else torch.float64

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def is_old(self) -> bool:
        """Whether a step was taken from here."""
        return self.newer is not None

    @property
    def requires_grad(self) -> bool:
        """Never: rings are for steps without gradients."""
        return False

    def detach(self) -> "Stream":
        """The same moment."""
        return self

    def cells(self) -> Cells:
        """Values [B, N, D] and strengths [B, N] of this moment, shorter rows padded at the top."""
        values, strengths = self._rows()
        n_cells = max(map(len, strengths), default=0)
        batch, width = self.shape
        dtype = self.ring.arrays.slots.dtype
        V, s = np.zeros((batch, n_cells, width), dtype), np.zeros((batch, n_cells), dtype)
        for b, row in enumerate(strengths):
            V[b, : len(row)], s[b, : len(row)] = values[b], row
        return Cells(torch.from_numpy(V), torch.from_numpy(s))

    def advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "Stream"]:
        """One step: value [B, E, D], push and pop [B, E] -> read [B, E, D] and the next moment."""
        with self.ring.lock:
            room = self.ring.arrays.strengths.shape[1]
            full = int((self.hi - self.lo).max(initial=0)) + 2 > room
            # An old state that is still held keeps what each later step overwrote, so a ring is
            # left for a copy now and then: what can be kept is bounded, and the copy paid for.
            if self.newer is None and not full and self.ring.steps < STEPS_A_SLOT * room:
                return self._advance(kind, value, push, pop)
        values, strengths = self._rows()
        dtype = self.ring.arrays.slots.dtype
        copy = self._laid_out(values, strengths, self.shape[1], dtype)
        return copy._advance(kind, value, push, pop)

    def _advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "Stream"]:
        self.ring.steps += 1
        v, d, u = as_array(value), as_array(push), as_array(pop)
        read = np.empty_like(v)
        overwritten = Overwritten(
            np.empty_like(v), np.empty_like(d), np.empty((len(d), 2), d.dtype)
        )
        after = Stream(self.ring, self.lo.copy(), self.hi.copy())
        step_in_place(
            kind, v, d, u, tuple(self.ring.arrays), after.lo, after.hi, read, tuple(overwritten)
        )
        self.newer = (Undo(kind, self.lo, self.hi, overwritten), after)
        return torch.from_numpy(read), after

    def _rows(self) -> tuple[list[Array], list[Array]]:
        """The values and strengths of each row, copied."""
        with self.ring.lock:
            undos, newest = [], self
            while newest.newer is not None:
                undo, newest = newest.newer
                undos.append(undo)
            ring = self.ring.arrays
            if undos:
                ring = Ring(ring.slots.copy(), ring.strengths.copy(), ring.row_ids)
                lo, hi = newest.lo.copy(), newest.hi.copy()
                for undo in reversed(undos):
                    rollback(
                        undo.kind, tuple(ring), lo, hi, undo.lo, undo.hi, tuple(undo.overwritten)
                    )
            room = ring.strengths.shape[1]
            places = [
                np.arange(low, high) % room for low, high in zip(self.lo, self.hi, strict=True)
            ]
            return (
                [ring.slots[b, where] for b, where in enumerate(places)],
                [ring.strengths[b, where] for b, where in enumerate(places)],
            )
