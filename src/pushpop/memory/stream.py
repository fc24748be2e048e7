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

from pushpop.memory import kernels
from pushpop.memory.state import Cells

Array = np.ndarray[Any, Any]
SMALLEST_RING = 16
STEPS_A_SLOT = 8


@dataclass
class Ring:
    """Slots for the cells of a batch: a row holds position p in slot p mod C, C a power of two."""

    slots: Array  # [B, C, D]
    s: Array  # [B, C]
    cells: Array = field(init=False)  # [B, C], the row of each slot in slots.reshape(B * C, D)
    lock: threading.Lock = field(default_factory=threading.Lock)
    steps: int = 0  # taken in place so far

    def __post_init__(self) -> None:
        self.cells = np.arange(self.s.size).reshape(self.s.shape)


@dataclass(frozen=True)
class Undo:
    """What one step overwrote."""

    kind: int
    lo: Array
    hi: Array
    old_values: Array
    old_s: Array
    before: Array


class Stream:
    """One moment in the life of a ring: the cells of row b are at positions lo[b] .. hi[b] - 1."""

    def __init__(self, ring: Ring, lo: Array, hi: Array) -> None:
        self.ring, self.lo, self.hi = ring, lo, hi
        self.newer: tuple[Undo, Stream] | None = None

    @classmethod
    def of(cls, values: Tensor, strengths: Tensor) -> "Stream":
        """Lay out values [B, N, D] and strengths [B, N], leaving out cells without strength."""
        V, s = values.detach().numpy(), strengths.detach().numpy()
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
        ring = Ring(
            np.zeros((len(counts), room, width), dtype), np.zeros((len(counts), room), dtype)
        )
        for b, n in enumerate(counts):
            ring.slots[b, :n], ring.s[b, :n] = values[b], strengths[b]
        return cls(ring, np.zeros_like(counts), counts)

    @property
    def shape(self) -> tuple[int, int]:
        """Batch size and width."""
        return self.ring.slots.shape[0], self.ring.slots.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of values and strengths."""
        return torch.float32 if self.ring.s.dtype == np.float32 else torch.float64

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

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
        V = np.zeros((batch, n_cells, width), self.ring.s.dtype)
        s = np.zeros((batch, n_cells), self.ring.s.dtype)
        for b, row in enumerate(strengths):
            V[b, : len(row)], s[b, : len(row)] = values[b], row
        return Cells(torch.from_numpy(V), torch.from_numpy(s))

    def advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "Stream"]:
        """One step: value [B, E, D], push and pop [B, E] -> read [B, E, D] and the next moment."""
        with self.ring.lock:
            room = self.ring.s.shape[1]
            full = int((self.hi - self.lo).max(initial=0)) + 2 > room
            # An old state that somebody holds keeps what each later step overwrote, so a ring is
            # left for a copy now and then: what can be kept is bounded, and the copy paid for.
            if self.newer is None and not full and self.ring.steps < STEPS_A_SLOT * room:
                return self._advance(kind, value, push, pop)
        values, strengths = self._rows()
        copy = self._laid_out(values, strengths, self.shape[1], self.ring.s.dtype)
        return copy._advance(kind, value, push, pop)

    def _advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "Stream"]:
        ring = self.ring
        ring.steps += 1
        v, d, u = (x.detach().contiguous().numpy() for x in (value, push, pop))
        read, old_values = np.empty_like(v), np.empty_like(v)
        old_s, before = np.empty_like(d), np.empty((len(d), 2), d.dtype)
        after = Stream(ring, self.lo.copy(), self.hi.copy())
        kernels.advance(
            kind, v, d, u, ring.slots, ring.cells, ring.s, after.lo, after.hi,
            read, old_values, old_s, before,
        )  # fmt: skip
        self.newer = (Undo(kind, self.lo, self.hi, old_values, old_s, before), after)
        return torch.from_numpy(read), after

    def _rows(self) -> tuple[list[Array], list[Array]]:
        """The values and strengths of each row, copied."""
        with self.ring.lock:
            undos, newest = [], self
            while newest.newer is not None:
                undo, newest = newest.newer
                undos.append(undo)
            slots, s = self.ring.slots, self.ring.s
            if undos:
                slots, s = slots.copy(), s.copy()
                lo, hi = newest.lo.copy(), newest.hi.copy()
                for undo in reversed(undos):
                    kernels.retreat(
                        undo.kind, slots, s, lo, hi,
                        undo.lo, undo.hi, undo.old_values, undo.old_s, undo.before,
                    )  # fmt: skip
            room = s.shape[1]
            places = [
                np.arange(low, high) % room for low, high in zip(self.lo, self.hi, strict=True)
            ]
            return (
                [slots[b, where] for b, where in enumerate(places)],
                [s[b, where] for b, where in enumerate(places)],
            )
