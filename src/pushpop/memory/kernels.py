"""The walk over live cells: CPU kernels for whole sequences and for single steps.

Cells that still have strength lie in an array, bottom to top, at positions lo .. hi - 1. A pop
walks from its end with a remainder: a cell no stronger than it is dropped, the first stronger one
is trimmed and ends the walk. A read walks the same way with a remainder of 1. What a step costs is
what it touches, however long the sequence or deep the memory.

For the way back (`kernels_backward.py`) the walk logs each dropped cell, once in its life, and each
trim, at most one a pop: the log's size is known before the walk starts, so it can never overflow.

A cell is known by a row number: row r >= 0 of the pushed values [T*B*E, D], or row ~r of the
initial values [B*N, D]. Reads are written to a flat array, so that they may lie inside other data.

Whole sequences go through `forward`. A recurrent layer, whose controls depend on its reads, makes
the same calls one time step at a time: `begin`, `step`, `finish`. Kernels that call each other are
in one file, because Numba's cache does not notice edits in imported files.
"""

import numpy as np
from numba import njit

STACK, QUEUE, DEQUE = 0, 1, 2
TOP, BOTTOM = 0, 1

_jit = njit(cache=True, nogil=True, error_model="numpy")
# Only sums of products may be reordered, so that they vectorise; comparisons stay exact.
_jit_sum = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@_jit_sum
def _add_row(x, weight, table, row, fresh):
    """x += weight * table[row], or = if nothing is there yet.

    Rows go by number: making a view of each would take longer.
    """
    if fresh:
        for k in range(x.size):
            x[k] = weight * table[row, k]
    else:
        for k in range(x.size):
            x[k] += weight * table[row, k]


@_jit
def _pop(end, amount, s, cells, mask, lo, hi, log_cells, log_s, logged):
    """Pop `amount` at `end`; returns lo, hi, logged, and the trimmed cell's old strength or -1."""
    rest = amount
    before = s.dtype.type(-1)
    while lo < hi:
        i = (hi - 1 if end == TOP else lo) & mask
        if not s[i] <= rest:
            if rest > 0:
                before = s[i]
                s[i] -= rest
            break
        rest -= s[i]
        if log_cells.size:
            log_cells[logged] = cells[i]
            log_s[logged] = s[i]
        logged += 1
        if end == TOP:
            hi -= 1
        else:
            lo += 1
    return lo, hi, logged, before


@_jit
def _pops(kind, pop, at, first, s, cells, mask, lo, hi, log_cells, log_s, logged, dropped, before):
    """The pops of one step, pop[at, first :]; dropped[at] and before[at] take the counts and trims
    at both ends.

    A queue's idle top is popped by 0: that sweeps away a cell just pushed with strength 0, which no
    later step can reach with a gradient.
    """
    zero = s.dtype.type(0)
    start = logged
    before[at, TOP] = before[at, BOTTOM] = -1
    if kind == QUEUE:
        lo, hi, logged, before[at, BOTTOM] = _pop(
            BOTTOM, pop[at, first], s, cells, mask, lo, hi, log_cells, log_s, logged
        )
        dropped[at, BOTTOM] = logged - start
        start = logged
        lo, hi, logged, _ = _pop(TOP, zero, s, cells, mask, lo, hi, log_cells, log_s, logged)
        dropped[at, TOP] = logged - start
        return lo, hi, logged
    lo, hi, logged, before[at, TOP] = _pop(
        TOP, pop[at, first], s, cells, mask, lo, hi, log_cells, log_s, logged
    )
    dropped[at, TOP] = logged - start
    dropped[at, BOTTOM] = 0
    if kind == DEQUE:
        start = logged
        lo, hi, logged, before[at, BOTTOM] = _pop(
            BOTTOM, pop[at, first + 1], s, cells, mask, lo, hi, log_cells, log_s, logged
        )
        dropped[at, BOTTOM] = logged - start
    return lo, hi, logged


@_jit
def _read(end, s, cells, mask, lo, hi, pushed, initial, out):
    rest = s.dtype.type(1)
    fresh = True  # the first cell is written, not added: that saves filling with zeros
    for k in range(hi - lo):
        i = (hi - 1 - k if end == TOP else lo + k) & mask
        full = s[i] <= rest
        weight = s[i] if full else rest
        if weight > 0:
            if cells[i] >= 0:
                _add_row(out, weight, pushed, cells[i], fresh)
            else:
                _add_row(out, weight, initial, ~cells[i], fresh)
            fresh = False
        if not full:
            break
        rest -= s[i]
    if fresh:
        out[:] = 0


@_jit
def _reads(kind, s, cells, mask, lo, hi, pushed, initial, out, at):
    """The reads of one step, at `at` of `out`; of a deque the bottom's after the top's."""
    D = pushed.shape[1]
    end = BOTTOM if kind == QUEUE else TOP
    _read(end, s, cells, mask, lo, hi, pushed, initial, out[at : at + D])
    if kind == DEQUE:
        _read(BOTTOM, s, cells, mask, lo, hi, pushed, initial, out[at + D : at + 2 * D])


@_jit
def _poison(s, mask, lo, hi, push, pop, at, first):
    """NaN if a gate of this step is, or a cell at an end; else 0. What is added to a push.

    NaN compares as false everywhere and would be walked over in silence. A row that met one has NaN
    at its ends from then on, and reads NaN.
    """
    bad = lo < hi and (s[lo & mask] != s[lo & mask] or s[(hi - 1) & mask] != s[(hi - 1) & mask])
    for e in range(push.shape[1] if first == 0 else first):
        bad = bad or push[at, e] != push[at, e] or pop[at, first + e] != pop[at, first + e]
    return s.dtype.type(np.nan) if bad else s.dtype.type(0)


@_jit
def _drop_zeros(s, cells, lo, hi):
    """Close the gaps left by initial cells without strength; returns the new hi."""
    to = lo
    for i in range(lo, hi):
        if s[i] != 0:
            s[to] = s[i]
            cells[to] = cells[i]
            to += 1
    return to


@_jit
def begin(strengths, s, cells, lo, hi, logged, below):
    """Lay out the initial cells, strengths [B, N], from position `below` of each row upwards.

    The rest is the walk's own: s and cells [B, room + below], lo, hi and logged [B].
    """
    B, N = strengths.shape
    for b in range(B):
        lo[b], hi[b] = below, below + N
        logged[b] = 0
        for n in range(N):
            s[b, below + n] = strengths[b, n]
            cells[b, below + n] = ~(b * N + n)


@_jit
def step(
    kind, t, rows, values, gates, initial, out, base, stride,
    s, cells, lo, hi, logged, log_cells, log_s, dropped, before,
):  # fmt: skip
    """Time step t of the first `rows` rows; row b's read goes to out[base + b * stride :].

    values [T*B*E, D], initial [B*N, D], gates [T*B, 2*E] (the pushes, then the pops), log_cells
    and log_s [B, room], dropped and before [T*B, 2].
    """
    B, E, D = len(lo), gates.shape[1] // 2, values.shape[1]
    for b in range(rows):
        at = t * B + b
        row, row_cells = s[b], cells[b]
        poison = _poison(row, -1, lo[b], hi[b], gates, gates, at, E)
        low, high, logged[b] = _pops(
            kind, gates, at, E, row, row_cells, -1, lo[b], hi[b],
            log_cells[b], log_s[b], logged[b], dropped, before,
        )  # fmt: skip
        if t == 0:
            high = _drop_zeros(row, row_cells, low, high)
            for i in range(low, high):  # padding may hide a NaN that came with the state
                poison += row[i] - row[i]
        row[high] = gates[at, 0] + poison
        row_cells[high] = at * E
        high += 1
        if kind == DEQUE:
            low -= 1
            row[low] = gates[at, 1] + poison
            row_cells[low] = at * E + 1
        lo[b], hi[b] = low, high
        start = base + b * stride
        if poison != 0:
            out[start : start + E * D] = poison
        else:
            _reads(kind, row, row_cells, -1, low, high, values, initial, out, start)


@_jit
def finish(s, cells, lo, hi, logged, log_cells, log_s, out_s, out_cells, counts):
    """The final cells: out_s and out_cells [B, room] from the left, counts [B]."""
    for b in range(len(lo)):
        n = hi[b] - lo[b]
        counts[b] = n
        out_s[b, :n] = s[b, lo[b] : hi[b]]
        out_s[b, n:] = 0
        out_cells[b, :n] = cells[b, lo[b] : hi[b]]
        out_cells[b, n:] = 0
        log_cells[b, logged[b] :] = 0
        log_s[b, logged[b] :] = 0


@_jit
def forward(
    kind, values, gates, initial, strengths, reads, out_s, out_cells, counts,
    log_cells, log_s, dropped, before,
):  # fmt: skip
    """Run T steps. Shapes: values and reads [T, B, E, D], gates [T, B, 2*E], initial [B, N, D],
    strengths [B, N]; the others as for `step` and `finish`, dropped and before
    [T, B, 2].
    """
    T, B, E, D = values.shape
    below = T if kind == DEQUE else 0
    s = np.empty((B, out_s.shape[1] + below), out_s.dtype)
    cells = np.empty(s.shape, np.int64)
    lo, hi, logged = np.empty(B, np.int64), np.empty(B, np.int64), np.empty(B, np.int64)
    begin(strengths, s, cells, lo, hi, logged, below)
    pushed, out = values.reshape(T * B * E, D), reads.reshape(-1)
    first = initial.reshape(B * strengths.shape[1], D)
    gates = gates.reshape(T * B, 2 * E)
    dropped, before = dropped.reshape(T * B, 2), before.reshape(T * B, 2)
    for t in range(T):
        step(
            kind, t, B, pushed, gates, first, out, t * B * E * D, E * D,
            s, cells, lo, hi, logged, log_cells, log_s, dropped, before,
        )  # fmt: skip
    finish(s, cells, lo, hi, logged, log_cells, log_s, out_s, out_cells, counts)


@_jit
def advance(kind, value, push, pop, slots, cells, s, lo, hi, read, old_values, old_s, before):
    """One step, in place, on a ring of slots a row: slots [B, C, D], cells and s [B, C], lo and hi
    [B], C a power of two with room for the pushes. What the step overwrites goes to old_values
    [B, E, D], old_s [B, E] and before [B, 2] (`retreat` puts it back).
    """
    B, C, D = slots.shape
    table = slots.reshape(B * C, D)
    mask = C - 1
    no_cells = np.empty(0, np.int64)
    no_s = np.empty(0, s.dtype)
    dropped = np.empty((B, 2), np.int64)
    out = read.reshape(-1)
    E = push.shape[1]
    for b in range(B):
        poison = _poison(s[b], mask, lo[b], hi[b], push, pop, b, 0)
        low, high, _ = _pops(
            kind, pop, b, 0, s[b], cells[b], mask, lo[b], hi[b],
            no_cells, no_s, 0, dropped, before,
        )  # fmt: skip
        _swap_in(high & mask, b, 0, slots, s, value, push[b, 0] + poison, old_values, old_s)
        high += 1
        if kind == DEQUE:
            low -= 1
            _swap_in(low & mask, b, 1, slots, s, value, push[b, 1] + poison, old_values, old_s)
        lo[b] = low
        hi[b] = high
        if poison != 0:
            out[b * E * D : (b + 1) * E * D] = poison
        else:
            _reads(kind, s[b], cells[b], mask, low, high, table, table, out, b * E * D)


@_jit
def _swap_in(slot, b, e, slots, s, value, strength, old_values, old_s):
    old_values[b, e] = slots[b, slot]
    old_s[b, e] = s[b, slot]
    slots[b, slot] = value[b, e]
    s[b, slot] = strength


@_jit
def retreat(kind, slots, s, lo, hi, old_lo, old_hi, old_values, old_s, before):
    """Undo `advance`: put back what it overwrote and move the ends to old_lo and old_hi."""
    mask = slots.shape[1] - 1
    for b in range(slots.shape[0]):
        low, high = lo[b], hi[b]
        if kind == DEQUE:
            slots[b, low & mask] = old_values[b, 1]
            s[b, low & mask] = old_s[b, 1]
            low += 1
        high -= 1
        slots[b, high & mask] = old_values[b, 0]
        s[b, high & mask] = old_s[b, 0]
        if before[b, BOTTOM] >= 0:
            s[b, low & mask] = before[b, BOTTOM]
        if before[b, TOP] >= 0:
            s[b, (high - 1) & mask] = before[b, TOP]
        lo[b], hi[b] = old_lo[b], old_hi[b]
