"""Single steps in place on a ring, and how to take them back: the kernels behind `stream.py`."""

from typing import NamedTuple

import numpy as np

from pushpop.compiled import compiled
from pushpop.memory import kernels
from pushpop.memory.kernels import (
    BOTTOM,
    DEQUE,
    TOP,
    Array,
    CellRow,
    Ends,
    find_nan,
    gates_at,
    pop_ends,
    read_ends,
)

_jit = compiled(imports=[kernels], error_model="numpy")


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
