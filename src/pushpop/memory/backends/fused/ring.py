"""Cells held for single steps: each step costs what it touches, and old states stay valid.

A ring of slots a row is changed in place by each step, and belongs to the newest state. An older
state keeps what the next step overwrote and a link to its successor (Baker's persistent arrays), so
it can still be read, or stepped from, by undoing the steps since. The links lead from old to new:
a state that nobody holds any more costs nothing.
"""

import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pushpop.compiled import compiled
from pushpop.memory import kinds
from pushpop.memory.backends.fused import walk
from pushpop.memory.backends.fused.walk import (
    Array,
    CellRow,
    Ends,
    find_nan,
    gates_at,
    pop_ends,
    read_ends,
)
from pushpop.memory.kinds import BOTTOM, DEQUE, TOP
from pushpop.memory.state import Cells, Stream, as_array

SMALLEST_RING = 16
STEPS_A_SLOT = 8

_jit = compiled(imports=[kinds, walk], error_model="numpy")


class Ring(NamedTuple):
    """Cells whose position p lies in slot p mod C, C a power of two."""

    slots: Array  # [B, C, D]
    strengths: Array  # [B, C]
    row_ids: Array  # [B, C], the rows of slots.reshape(B * C, D)


class Overwritten(NamedTuple):
    """What a step on a ring overwrote."""

    values: Array  # [B, E, D]
    strengths: Array  # [B, E]
    trimmed_from: Array  # [B, 2]


@_jit
def step_in_place(kind, value, push, pop, ring, lo, hi, read, overwritten):
    """One step on a Ring with room for the pushes: value and read [B, E, D], push and pop [B, E],
    lo and hi [B]. What the step overwrites goes to Overwritten (`rollback` puts it back).
    """
    slots, strengths, row_ids = ring
    old = Overwritten(*overwritten)
    B, C, D = slots.shape
    mask = C - 1
    table, out, E = slots.reshape(B * C, D), read.reshape(-1), push.shape[1]
    no_ids, no_strengths = np.empty(0, np.int64), np.empty(0, strengths.dtype)
    dropped = np.empty((B, 2), np.int64)
    for b in range(B):
        s = strengths[b]
        row = CellRow(s, row_ids[b], no_ids, no_strengths)
        gate = gates_at(kind, push, pop, b, 0)
        nan_flag = find_nan(s, lo[b], hi[b], mask, gate)
        ends = Ends(lo[b], hi[b], 0)
        low, high, _ = pop_ends(kind, gate, row, ends, mask, b, dropped, old.trimmed_from)
        _swap_in(b, 0, high & mask, slots, s, value, gate.push_top + nan_flag, old)
        high += 1
        if kind == DEQUE:
            low -= 1
            _swap_in(b, 1, low & mask, slots, s, value, gate.push_bottom + nan_flag, old)
        lo[b], hi[b] = low, high
        if nan_flag != 0:
            out[b * E * D : (b + 1) * E * D] = nan_flag
        else:
            read_ends(kind, s, row_ids[b], low, high, mask, table, table, out, b * E * D)


@_jit
def _swap_in(b, e, slot, slots, s, value, strength, old):
    old.values[b, e] = slots[b, slot]
    old.strengths[b, e] = s[slot]
    slots[b, slot] = value[b, e]
    s[slot] = strength


@_jit
def rollback(kind, ring, lo, hi, prev_lo, prev_hi, overwritten):
    """Undo `step_in_place`: put back what it overwrote and move the ends to prev_lo, prev_hi."""
    slots, s, _ = ring
    old = Overwritten(*overwritten)
    mask = slots.shape[1] - 1
    for b in range(slots.shape[0]):
        low, high = lo[b], hi[b]
        if kind == DEQUE:
            slots[b, low & mask] = old.values[b, 1]
            s[b, low & mask] = old.strengths[b, 1]
            low += 1
        high -= 1
        slots[b, high & mask] = old.values[b, 0]
        s[b, high & mask] = old.strengths[b, 0]
        if old.trimmed_from[b, BOTTOM] >= 0:
            s[b, low & mask] = old.trimmed_from[b, BOTTOM]
        if old.trimmed_from[b, TOP] >= 0:
            s[b, (high - 1) & mask] = old.trimmed_from[b, TOP]
        lo[b], hi[b] = prev_lo[b], prev_hi[b]


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


class RingStream(Stream):
    """One moment in the life of a ring: the cells of row b are at positions lo[b] .. hi[b] - 1."""

    def __init__(self, ring: SharedRing, lo: Array, hi: Array) -> None:
        self.ring, self.lo, self.hi = ring, lo, hi
        self.newer: tuple[Undo, RingStream] | None = None

    @classmethod
    def of(cls, kind: int, cells: Cells) -> "RingStream":
        """Lay out values [B, N, D] and strengths [B, N], leaving out cells without strength.

        A ring is the same for all kinds of memory. Steps look for NaN at its ends only, so a row
        that has one has it everywhere.
        """
        V, s = cells.values.detach().numpy(), cells.strengths.detach().numpy()
        s = np.where(np.isnan(s).any(1, keepdims=True), s.dtype.type(np.nan), s)
        live = s != 0
        return cls._laid_out([row[keep] for row, keep in zip(V, live, strict=True)],
                             [row[keep] for row, keep in zip(s, live, strict=True)],
                             V.shape[2], V.dtype)  # fmt: skip

    @classmethod
    def _laid_out(
        cls, values: list[Array], strengths: list[Array], width: int, dtype: np.dtype[Any]
    ) -> "RingStream":
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
        slots = self.ring.arrays.slots
        return slots.shape[0], slots.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.ring.arrays.slots.dtype == np.float32 else torch.float64

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def is_old(self) -> bool:
        return self.newer is not None

    def cells(self) -> Cells:
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
    ) -> tuple[Tensor, "RingStream"]:
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
    ) -> tuple[Tensor, "RingStream"]:
        self.ring.steps += 1
        v, d, u = as_array(value), as_array(push), as_array(pop)
        read = np.empty_like(v)
        overwritten = Overwritten(
            np.empty_like(v), np.empty_like(d), np.empty((len(d), 2), d.dtype)
        )
        after = RingStream(self.ring, self.lo.copy(), self.hi.copy())
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
