"""Cells held for single steps: each step costs what it touches, and old states stay valid.

A ring of slots a row is changed in place by each step, and belongs to the newest state. An older
state keeps what the next step overwrote and a link to its successor (Baker's persistent arrays), so
it can still be read, or stepped from, by undoing the steps since. The links lead from old to new:
a state that nobody holds any more costs nothing.

Kernels take plain tuples. ring: slots [B, C, D], strengths [B, C] and row_ids [B, C], the rows of
slots.reshape(B * C, D); position p lies in slot p mod C, C a power of two. overwritten: what a step
replaced, values [B, E, D] and strengths [B, E], and trimmed_from [B, 2] as in `walk.py`.
"""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pushpop.compiled import compiled
from pushpop.memory import kinds
from pushpop.memory.backends.fused import walk
from pushpop.memory.backends.fused.walk import Array, find_nan, gates_at, pop_ends, read_ends
from pushpop.memory.kinds import BOTTOM, DEQUE, TOP
from pushpop.memory.state import Cells, Stream, as_array

SMALLEST_RING = 16
STEPS_A_SLOT = 8

_jit = compiled(imports=[kinds, walk], error_model="numpy")


@_jit
def step_in_place(kind, value, push, pop, ring, lo, hi, read, overwritten):
    """One step on a ring with room for the pushes: value and read [B, E, D], push and pop [B, E],
    lo and hi [B]. What the step overwrites goes to `overwritten` (`rollback` puts it back).
    """
    slots, strengths, row_ids = ring
    B, C, D = slots.shape
    mask = C - 1
    table, out = slots.reshape(B * C, D), read.reshape(B, -1)
    no_ids, no_strengths = np.empty(0, np.int64), np.empty(0, strengths.dtype)
    dropped = np.empty((B, 2), np.int64)
    for b in range(B):
        s = strengths[b]
        row = s, row_ids[b], no_ids, no_strengths
        amounts = gates_at(kind, push, pop, b, 0)
        nan_flag = find_nan(s, lo[b], hi[b], mask, amounts)
        low, high, _ = pop_ends(
            kind, amounts, row, (lo[b], hi[b], 0), mask, b, dropped, overwritten[2]
        )
        _swap_in(b, 0, high & mask, ring, value, amounts[0] + nan_flag, overwritten)
        high += 1
        if kind == DEQUE:
            low -= 1
            _swap_in(b, 1, low & mask, ring, value, amounts[1] + nan_flag, overwritten)
        lo[b], hi[b] = low, high
        if nan_flag != 0:
            out[b] = nan_flag
        else:
            read_ends(kind, s, row_ids[b], low, high, mask, (table, table), out[b])


@_jit
def _swap_in(b, e, slot, ring, value, strength, overwritten):
    slots, strengths, _ = ring
    old_values, old_strengths, _ = overwritten
    old_values[b, e] = slots[b, slot]
    old_strengths[b, e] = strengths[b, slot]
    slots[b, slot] = value[b, e]
    strengths[b, slot] = strength


@_jit
def rollback(kind, ring, lo, hi, prev_lo, prev_hi, overwritten):
    """Undo `step_in_place`: put back what it overwrote and move the ends to prev_lo, prev_hi."""
    slots, s, _ = ring
    old_values, old_strengths, trimmed_from = overwritten
    mask = slots.shape[1] - 1
    for b in range(slots.shape[0]):
        low, high = lo[b], hi[b]
        if kind == DEQUE:
            slots[b, low & mask] = old_values[b, 1]
            s[b, low & mask] = old_strengths[b, 1]
            low += 1
        high -= 1
        slots[b, high & mask] = old_values[b, 0]
        s[b, high & mask] = old_strengths[b, 0]
        if trimmed_from[b, BOTTOM] >= 0:
            s[b, low & mask] = trimmed_from[b, BOTTOM]
        if trimmed_from[b, TOP] >= 0:
            s[b, (high - 1) & mask] = trimmed_from[b, TOP]
        lo[b], hi[b] = prev_lo[b], prev_hi[b]


@dataclass
class SharedRing:
    """A ring that the states of one stream share."""

    arrays: tuple[Array, Array, Array]
    like: Tensor  # the slots
    lock: threading.Lock = field(default_factory=threading.Lock)
    steps: int = 0  # taken in place so far


class RingStream(Stream):
    """One moment in the life of a ring: the cells of row b are at positions lo[b] .. hi[b] - 1."""

    def __init__(self, ring: SharedRing, lo: Array, hi: Array) -> None:
        self.ring, self.lo, self.hi = ring, lo, hi
        self.newer: tuple[tuple[int, Any], RingStream] | None = None
        """The step that was taken from here, its kind and what it overwrote, and what came then."""

    @classmethod
    def of(cls, kind: int, cells: Cells) -> "RingStream":
        """Lay out values [B, N, D] and strengths [B, N], leaving out cells without strength.

        A ring is the same for all kinds of memory. Steps look for NaN at its ends only, so a row
        that has one has it everywhere.
        """
        V, s = cells.values.detach().numpy(), cells.strengths.detach().numpy()
        s = np.where(np.isnan(s).any(1, keepdims=True), s.dtype.type(np.nan), s)
        live, (B, _, D) = s != 0, V.shape
        counts = live.sum(1, dtype=np.int64)
        room = SMALLEST_RING
        while room < 2 * counts.max(initial=0) + 2:
            room *= 2
        slots, strengths = np.zeros((B, room, D), V.dtype), np.zeros((B, room), s.dtype)
        places = np.nonzero(live)[0], (live.cumsum(1) - 1)[live]
        slots[places], strengths[places] = V[live], s[live]
        row_ids = np.arange(B * room).reshape(B, room)
        ring = SharedRing((slots, strengths, row_ids), torch.from_numpy(slots))
        return cls(ring, np.zeros_like(counts), counts)

    @property
    def like(self) -> Tensor:
        return self.ring.like

    @property
    def is_old(self) -> bool:
        return self.newer is not None

    def cells(self) -> Cells:
        counts = self.hi - self.lo
        n = np.arange(counts.max(initial=0))
        with self.ring.lock:
            slots, strengths, _ = self._arrays_then()
            places = np.arange(len(slots))[:, None], (self.lo[:, None] + n) % slots.shape[1]
            V, s = slots[places], strengths[places]
        padding = n >= counts[:, None]
        V[padding], s[padding] = 0, 0
        return Cells(torch.from_numpy(V), torch.from_numpy(s))

    def _arrays_then(self) -> tuple[Array, Array, Array]:
        moments = [self]
        while (step := moments[-1].newer) is not None:
            moments.append(step[1])
        newest = moments.pop()
        slots, strengths, row_ids = self.ring.arrays
        if not moments:
            return slots, strengths, row_ids
        ring, lo, hi = (slots.copy(), strengths.copy(), row_ids), newest.lo.copy(), newest.hi.copy()
        for moment in reversed(moments):
            assert moment.newer is not None
            (kind, overwritten), _ = moment.newer
            rollback(kind, ring, lo, hi, moment.lo, moment.hi, overwritten)
        return ring

    def advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "RingStream"]:
        with self.ring.lock:
            room = self.ring.arrays[1].shape[1]
            full = int((self.hi - self.lo).max(initial=0)) + 2 > room
            # An old state that is still held keeps what each later step overwrote, so a ring is
            # left for a copy now and then: what can be kept is bounded, and the copy paid for.
            if self.newer is None and not full and self.ring.steps < STEPS_A_SLOT * room:
                return self._advance(kind, value, push, pop)
        return RingStream.of(kind, self.cells())._advance(kind, value, push, pop)

    def _advance(
        self, kind: int, value: Tensor, push: Tensor, pop: Tensor
    ) -> tuple[Tensor, "RingStream"]:
        self.ring.steps += 1
        v, d, u = as_array(value), as_array(push), as_array(pop)
        read = np.empty_like(v)
        overwritten = np.empty_like(v), np.empty_like(d), np.empty((len(d), 2), d.dtype)
        after = RingStream(self.ring, self.lo.copy(), self.hi.copy())
        step_in_place(kind, v, d, u, self.ring.arrays, after.lo, after.hi, read, overwritten)
        self.newer = (kind, overwritten), after
        return torch.from_numpy(read), after
