"""The walk over live cells: CPU kernels for whole sequences and for single steps of them.

Cells that still have strength lie in an array, bottom to top, at positions lo .. hi - 1. A pop
walks from its end with a remainder: a cell no stronger than it is dropped, the first stronger one
is trimmed and ends the walk. A read walks the same way with a remainder of 1. What a step costs is
what it touches, however long the sequence or deep the memory.

For the backward pass (`walk_backward.py`) the walk logs each dropped cell, once in its life, and
each trim, at most one a pop: the log's size is known before the walk starts, so it can never
overflow.

A cell's value is known by a row id: id r >= 0 is row r of the pushed values [T*R*E, D], id ~r that
of the initial values [R*N, D], for R rows of memories with E ends (values a step) each. Reads are
written to a flat array, so that they may lie inside other data.

Whole sequences go through `forward`. A recurrent layer, whose gates depend on its reads, makes the
same calls one time step at a time: `begin`, `step`, `finish`.

Bundles of arrays (the NamedTuples below) go from Python to a kernel as plain tuples, which it names
again: Numba takes half a microsecond to recognise a NamedTuple, and almost none for a tuple.
"""

from typing import Any, NamedTuple

import numpy as np

from pushpop.compiled import compiled
from pushpop.memory import kinds
from pushpop.memory.kinds import BOTTOM, DEQUE, QUEUE, TOP

Array = np.ndarray[Any, Any]

_jit = compiled(imports=[kinds], allocates=False, error_model="numpy")
_jit_allocating = compiled(imports=[kinds], error_model="numpy")
# Only sums of products may be reordered, so that they vectorise; comparisons stay exact.
_jit_sum = compiled(
    imports=[kinds], allocates=False, error_model="numpy", fastmath={"reassoc", "contract"}
)


class Values(NamedTuple):
    """What row ids point into."""

    pushed: Array  # [T*R*E, D]
    initial: Array  # [R*N, D]


class LiveCells(NamedTuple):
    """The cells of each row at positions lo .. hi - 1, and how many dropped ones are logged."""

    strengths: Array  # [R, C]
    row_ids: Array  # [R, C]
    lo: Array  # [R]
    hi: Array  # [R]
    n_logged: Array  # [R]


class PopLog(NamedTuple):
    """What pops removed: each row's dropped cells in order, and a count and a trim a step."""

    row_ids: Array  # [R, room]
    strengths: Array  # [R, room]
    dropped: Array  # [T*R, 2], cells dropped at the top and at the bottom
    trimmed_from: Array  # [T*R, 2], the trimmed cell's strength before the pop, or -1


class FinalCells(NamedTuple):
    """The cells a sequence ends with, from the left of each row."""

    strengths: Array  # [R, room]
    row_ids: Array  # [R, room]
    counts: Array  # [R]


class ReadTable(NamedTuple):
    """Where reads lie: memory m of sequence b, row b * memories + m of everything else, has its
    E*D numbers at data[start + b * stride + m * E*D :].
    """

    data: Array  # flat
    start: int
    stride: int
    memories: int


class CellRow(NamedTuple):
    """One row of LiveCells and of PopLog."""

    strengths: Array
    row_ids: Array
    log_row_ids: Array
    log_strengths: Array


class Ends(NamedTuple):
    """Where the cells of one row lie, and how many dropped ones are logged."""

    lo: int
    hi: int
    n_logged: int


class Gates(NamedTuple):
    """The gates of one row and step; those of an end that a kind does not have are 0."""

    push_top: float
    push_bottom: float
    pop_top: float
    pop_bottom: float


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
def gates_at(kind, push, pop, at, first_pop):
    """The gates push[at] and pop[at, first_pop :] (both may lie in one array)."""
    zero = push.dtype.type(0)
    if kind == DEQUE:
        return Gates(push[at, 0], push[at, 1], pop[at, first_pop], pop[at, first_pop + 1])
    if kind == QUEUE:
        return Gates(push[at, 0], zero, zero, pop[at, first_pop])
    return Gates(push[at, 0], zero, pop[at, first_pop], zero)


@_jit
def _pop(end, amount, row, ends, mask, at, dropped, trimmed_from):
    """Pop `amount` at `end`; dropped[at, end] and trimmed_from[at, end] are set."""
    s, row_ids, log_row_ids, log_strengths = row
    lo, hi, n_logged = ends
    rest = amount
    trimmed_from[at, end] = -1
    while lo < hi:
        i = (hi - 1 if end == TOP else lo) & mask
        if not s[i] <= rest:
            if rest > 0:
                trimmed_from[at, end] = s[i]
                s[i] -= rest
            break
        rest -= s[i]
        if log_row_ids.size:
            log_row_ids[n_logged] = row_ids[i]
            log_strengths[n_logged] = s[i]
        n_logged += 1
        if end == TOP:
            hi -= 1
        else:
            lo += 1
    dropped[at, end] = n_logged - ends.n_logged
    return Ends(lo, hi, n_logged)


@_jit
def pop_ends(kind, gates, row, ends, mask, at, dropped, trimmed_from):
    """The pops of one step at both ends.

    A queue's idle top is popped by 0: that sweeps away a cell just pushed with strength 0, which no
    later step can reach with a gradient.
    """
    if kind == QUEUE:
        ends = _pop(BOTTOM, gates.pop_bottom, row, ends, mask, at, dropped, trimmed_from)
        return _pop(TOP, gates.pop_top, row, ends, mask, at, dropped, trimmed_from)
    ends = _pop(TOP, gates.pop_top, row, ends, mask, at, dropped, trimmed_from)
    if kind == DEQUE:
        return _pop(BOTTOM, gates.pop_bottom, row, ends, mask, at, dropped, trimmed_from)
    dropped[at, BOTTOM] = 0
    trimmed_from[at, BOTTOM] = -1
    return ends


@_jit
def _read(end, s, row_ids, lo, hi, mask, pushed, initial, out):
    rest = s.dtype.type(1)
    fresh = True  # the first cell is written, not added: that saves filling with zeros
    for k in range(hi - lo):
        i = (hi - 1 - k if end == TOP else lo + k) & mask
        full = s[i] <= rest
        weight = s[i] if full else rest
        if weight > 0:
            row_id = row_ids[i]
            if row_id >= 0:
                _add_row(out, weight, pushed, row_id, fresh)
            else:
                _add_row(out, weight, initial, ~row_id, fresh)
            fresh = False
        if not full:
            break
        rest -= s[i]
    if fresh:
        out[:] = 0


@_jit
def read_ends(kind, s, row_ids, lo, hi, mask, pushed, initial, out, at):
    """The reads of one step, at `at` of `out`; of a deque the bottom's after the top's."""
    D = pushed.shape[1]
    end = BOTTOM if kind == QUEUE else TOP
    _read(end, s, row_ids, lo, hi, mask, pushed, initial, out[at : at + D])
    if kind == DEQUE:
        _read(BOTTOM, s, row_ids, lo, hi, mask, pushed, initial, out[at + D : at + 2 * D])


@_jit
def find_nan(s, lo, hi, mask, gates):
    """NaN if a gate of this step is, or a cell at an end; else 0. What is added to a push.

    NaN compares as false everywhere and would be walked over in silence. A row that met one has NaN
    at its ends from then on, and reads NaN.
    """
    total = gates.push_top + gates.push_bottom + gates.pop_top + gates.pop_bottom
    if lo < hi:
        total += s[lo & mask] + s[(hi - 1) & mask]
    return s.dtype.type(np.nan) if total != total else s.dtype.type(0)


@_jit
def _drop_zeros(s, row_ids, lo, hi):
    """Close the gaps left by initial cells without strength; returns the new hi."""
    to = lo
    for i in range(lo, hi):
        if s[i] != 0:
            s[to] = s[i]
            row_ids[to] = row_ids[i]
            to += 1
    return to


@_jit
def _begin(strengths, below, cells):
    R, N = strengths.shape
    for r in range(R):
        cells.lo[r], cells.hi[r] = below, below + N
        cells.n_logged[r] = 0
        for n in range(N):
            cells.strengths[r, below + n] = strengths[r, n]
            cells.row_ids[r, below + n] = ~(r * N + n)


@_jit
def begin(strengths, below, cells):
    """Lay out the initial cells, strengths [R, N], from position `below` of each row upwards.

    The LiveCells have room for what is pushed above, and for `below` pushes at the bottom.
    """
    _begin(strengths, below, LiveCells(*cells))


@_jit
def _step(kind, t, sequences, gates, values, reads, cells, log):
    strengths, row_ids, lo, hi, n_logged = cells
    log_row_ids, log_strengths, dropped, trimmed_from = log
    pushed, initial = values
    out = reads.data
    R, E, D = len(lo), gates.shape[1] // 2, pushed.shape[1]
    r = 0
    for b in range(sequences):
        for m in range(reads.memories):
            at = t * R + r
            s, ids = strengths[r], row_ids[r]
            row = CellRow(s, ids, log_row_ids[r], log_strengths[r])
            gate = gates_at(kind, gates, gates, at, E)
            nan_flag = find_nan(s, lo[r], hi[r], -1, gate)
            ends = Ends(lo[r], hi[r], n_logged[r])
            low, high, n_logged[r] = pop_ends(kind, gate, row, ends, -1, at, dropped, trimmed_from)
            if t == 0:
                high = _drop_zeros(s, ids, low, high)
                for i in range(low, high):  # padding may hide a NaN that came with the state
                    nan_flag += s[i] - s[i]
            s[high] = gate.push_top + nan_flag
            ids[high] = at * E
            high += 1
            if kind == DEQUE:
                low -= 1
                s[low] = gate.push_bottom + nan_flag
                ids[low] = at * E + 1
            lo[r], hi[r] = low, high
            start = reads.start + b * reads.stride + m * E * D
            if nan_flag != 0:
                out[start : start + E * D] = nan_flag
            else:
                read_ends(kind, s, ids, low, high, -1, pushed, initial, out, start)
            r += 1


@_jit
def step(kind, t, sequences, gates, values, reads, cells, log):
    """Time step t of the first `sequences` sequences. gates [T*R, 2*E]: the pushes, then the pops;
    Values, ReadTable, LiveCells, PopLog.
    """
    _step(
        kind, t, sequences, gates,
        Values(*values), ReadTable(*reads), LiveCells(*cells), PopLog(*log),
    )  # fmt: skip


@_jit_allocating
def _finish(cells, log, final):
    for r in range(len(cells.lo)):
        lo, hi = cells.lo[r], cells.hi[r]
        n = hi - lo
        final.counts[r] = n
        final.strengths[r, :n] = cells.strengths[r, lo:hi]
        final.strengths[r, n:] = 0
        final.row_ids[r, :n] = cells.row_ids[r, lo:hi]
        final.row_ids[r, n:] = 0
        log.row_ids[r, cells.n_logged[r] :] = 0
        log.strengths[r, cells.n_logged[r] :] = 0


@_jit_allocating
def finish(cells, log, final):
    """Write down the FinalCells, and zeros where the PopLog is not in use."""
    _finish(LiveCells(*cells), PopLog(*log), FinalCells(*final))


@_jit_allocating
def forward(kind, pushed, gates, initial, strengths, reads, final, log):
    """Run T steps. Shapes: pushed and reads [T, B, E, D], gates [T, B, 2*E], initial [B, N, D],
    strengths [B, N]; FinalCells; PopLog.
    """
    T, B, E, D = pushed.shape
    final_cells, pop_log = FinalCells(*final), PopLog(*log)
    below = T if kind == DEQUE else 0
    room = final_cells.strengths.shape[1] + below
    cells = LiveCells(
        np.empty((B, room), strengths.dtype), np.empty((B, room), np.int64),
        np.empty(B, np.int64), np.empty(B, np.int64), np.empty(B, np.int64),
    )  # fmt: skip
    _begin(strengths, below, cells)
    values = Values(pushed.reshape(T * B * E, D), initial.reshape(B * strengths.shape[1], D))
    flat_gates, flat_reads = gates.reshape(T * B, 2 * E), reads.reshape(-1)
    for t in range(T):
        table = ReadTable(flat_reads, t * B * E * D, E * D, 1)
        _step(kind, t, B, flat_gates, values, table, cells, pop_log)
    _finish(cells, pop_log, final_cells)
