"""The backward pass: CPU kernels for the gradients of the walk in `walk.py`.

Steps are undone from the last to the first, which restores the strengths exactly; so windows need
no log, they are walked again over the same numbers. `g` is the gradient that a cell's strength has
collected so far:

- read: a cell read in full gains <grad, v>, less <grad, v_last> of the cell that the window cut;
- pop: the popped amount gets minus the trimmed cell's g, and every dropped cell's g becomes the
  trimmed cell's (0 if none was trimmed);
- push: the gate gets the new cell's g.

Whole sequences go through `backward`; a recurrent layer calls `begin_backward`, `step_backward` and
`finish_backward`. Bundles are given as plain tuples, as in `walk.py`.
"""

from typing import NamedTuple

import numpy as np

from pushpop.compiled import compiled
from pushpop.memory import kinds
from pushpop.memory.backends.fused import walk
from pushpop.memory.backends.fused.walk import (
    Array,
    Ends,
    FinalCells,
    PopLog,
    ReadTable,
    Values,
)
from pushpop.memory.kinds import BOTTOM, DEQUE, QUEUE, STACK, TOP

_jit = compiled(imports=[kinds, walk], allocates=False, error_model="numpy")
_jit_allocating = compiled(imports=[kinds, walk], error_model="numpy")
# Only sums of products may be reordered, so that they vectorise; comparisons stay exact.
_jit_sum = compiled(allocates=False, error_model="numpy", fastmath={"reassoc", "contract"})


class BackwardCells(NamedTuple):
    """`kernels.LiveCells` and the gradients of their strengths."""

    strengths: Array  # [R, C]
    grads: Array  # [R, C]
    row_ids: Array  # [R, C]
    lo: Array  # [R]
    hi: Array  # [R]
    n_logged: Array  # [R]


class ValueGrads(NamedTuple):
    """Where the gradients of `kernels.Values` go."""

    pushed: Array  # [T*R*E, D]
    initial: Array  # [R*N, D], zeros before the first call
    unwritten: Array  # [T*R*E], whether a row of `pushed` holds nothing yet


class BackwardRow(NamedTuple):
    """One row of BackwardCells and of PopLog."""

    strengths: Array
    grads: Array
    row_ids: Array
    log_row_ids: Array
    log_strengths: Array


@_jit_sum
def _dot(x, table, row):
    """<x, table[row]>. Rows go by number: making a view of each would take longer."""
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k] * table[row, k]
    return total


@_jit_sum
def _add_to_row(table, row, weight, x, fresh):
    """table[row] += weight * x, or = if nothing is there yet."""
    if fresh:
        for k in range(x.size):
            table[row, k] = weight * x[k]
    else:
        for k in range(x.size):
            table[row, k] += weight * x[k]


@_jit
def _read_backward(end, grad, s, g, row_ids, lo, hi, values, value_grads):
    """Cells read in full gain <grad, v>, less <grad, v_last> of the cell that the window cut."""
    pushed, initial = values
    g_pushed, g_initial, unwritten = value_grads
    rest = s.dtype.type(1)
    cut = s.dtype.type(0)
    read_in_full = 0
    for k in range(hi - lo):
        i = hi - 1 - k if end == TOP else lo + k
        full = s[i] <= rest
        weight = s[i] if full else rest
        if not full and not rest > 0:
            break
        row_id = row_ids[i]
        if row_id >= 0:
            product = _dot(grad, pushed, row_id)
            _add_to_row(g_pushed, row_id, weight, grad, unwritten[row_id])
            unwritten[row_id] = False
        else:
            product = _dot(grad, initial, ~row_id)
            _add_to_row(g_initial, ~row_id, weight, grad, False)
        if not full:
            cut = product
            break
        g[i] += product
        rest -= s[i]
        read_in_full += 1
    if cut != 0:
        for k in range(read_in_full):
            g[hi - 1 - k if end == TOP else lo + k] -= cut
    # A cell just pushed at the far end with strength 0 is read in full (0 <= 0) beyond the window.
    far = lo if end == TOP else hi - 1
    if read_in_full < hi - lo and s[far] == 0:
        g[far] += _dot(grad, pushed, row_ids[far])


@_jit
def _pop_backward(end, kind, row, ends, dropped, trimmed_from):
    """Undo a pop: the ends before it, and the gradient of the popped amount."""
    s, g, row_ids, log_row_ids, log_strengths = row
    lo, hi, n_logged = ends
    inherited = s.dtype.type(0)
    if trimmed_from >= 0:
        i = hi - 1 if end == TOP else lo
        inherited = g[i]
        s[i] = trimmed_from
    for _ in range(dropped):
        n_logged -= 1
        if end == TOP:
            i = hi
            hi += 1
        else:
            lo -= 1
            i = lo
        s[i] = log_strengths[n_logged]
        row_ids[i] = log_row_ids[n_logged]
        # A deque pops its top first, and that already cuts off the gradient of a cell without
        # strength at the bottom: max(0, 0 - ...) is constant.
        g[i] = 0 if kind == DEQUE and end == BOTTOM and s[i] == 0 else inherited
    return Ends(lo, hi, n_logged), -inherited


@_jit_allocating
def _begin_backward(final, dropped, grad_strengths, below, cells, unwritten):
    R = len(final.counts)
    unwritten[:] = True
    for r in range(R):
        n = final.counts[r]
        cells.lo[r], cells.hi[r] = below, below + n
        cells.strengths[r, below : below + n] = final.strengths[r, :n]
        cells.grads[r, below : below + n] = grad_strengths[r, :n]
        cells.row_ids[r, below : below + n] = final.row_ids[r, :n]
        cells.n_logged[r] = 0
    for at in range(len(dropped)):
        cells.n_logged[at % R] += dropped[at, TOP] + dropped[at, BOTTOM]


@_jit_allocating
def begin_backward(final, dropped, grad_strengths, below, cells, unwritten):
    """Lay out FinalCells and the gradients of their strengths [R, room] in BackwardCells, from
    position `below` upwards; `dropped` is the log's, `unwritten` that of ValueGrads.
    """
    _begin_backward(
        FinalCells(*final), dropped, grad_strengths, below, BackwardCells(*cells), unwritten
    )


@_jit
def _step_backward(kind, t, sequences, values, read_grads, cells, log, g_gates, value_grads):
    strengths, grads, row_ids, lo, hi, n_logged = cells
    log_row_ids, log_strengths, dropped, trimmed_from = log
    g_pushed, _, unwritten = value_grads
    grad = read_grads.data
    R, E, D = len(lo), g_gates.shape[1] // 2, g_pushed.shape[1]
    near_end = BOTTOM if kind == QUEUE else TOP
    r = 0
    for b in range(sequences):
        for m in range(read_grads.memories):
            at = t * R + r
            start = read_grads.start + b * read_grads.stride + m * E * D
            g = grads[r]
            s, ids = strengths[r], row_ids[r]
            row = BackwardRow(s, g, ids, log_row_ids[r], log_strengths[r])
            low, high = lo[r], hi[r]
            read_grad = grad[start : start + D]
            _read_backward(near_end, read_grad, s, g, ids, low, high, values, value_grads)
            if kind == DEQUE:
                read_grad = grad[start + D : start + 2 * D]
                _read_backward(BOTTOM, read_grad, s, g, ids, low, high, values, value_grads)
                g_gates[at, 1] = g[low]
                low += 1
            high -= 1
            g_gates[at, 0] = g[high]
            # The pops, last first: a queue's sweep of its top, the bottom, the top.
            ends = Ends(low, high, n_logged[r])
            if kind == QUEUE:
                ends, _ = _pop_backward(
                    TOP, kind, row, ends, dropped[at, TOP], trimmed_from[at, TOP]
                )
            if kind != STACK:
                ends, g_gates[at, 2 * E - 1] = _pop_backward(
                    BOTTOM, kind, row, ends, dropped[at, BOTTOM], trimmed_from[at, BOTTOM]
                )
            if kind != QUEUE:
                ends, g_gates[at, E] = _pop_backward(
                    TOP, kind, row, ends, dropped[at, TOP], trimmed_from[at, TOP]
                )
            lo[r], hi[r], n_logged[r] = ends
            for row_id in range(at * E, at * E + E):
                if unwritten[row_id]:
                    g_pushed[row_id] = 0
            r += 1


@_jit
def step_backward(kind, t, sequences, values, read_grads, cells, log, g_gates, value_grads):
    """Undo `kernels.step`: the gradients of its gates and of the values pushed in it.

    Values; a ReadTable of the reads' gradients; BackwardCells; PopLog; ValueGrads. g_gates
    [T*R, 2*E] and ValueGrads take the gradients.
    """
    _step_backward(
        kind, t, sequences, Values(*values), ReadTable(*read_grads),
        BackwardCells(*cells), PopLog(*log), g_gates, ValueGrads(*value_grads),
    )  # fmt: skip


@_jit
def _finish_backward(cells, grad_strengths):
    for r in range(len(cells.lo)):
        for i in range(cells.lo[r], cells.hi[r]):
            grad_strengths[~cells.row_ids[r, i]] = cells.grads[r, i]


@_jit
def finish_backward(cells, grad_strengths):
    """The gradients of the initial strengths, [R*N], zeros before the call; BackwardCells."""
    _finish_backward(BackwardCells(*cells), grad_strengths)


@_jit_allocating
def backward(
    kind, pushed, initial, final, log, grad_reads, grad_final,
    grad_pushed, grad_gates, grad_initial, grad_strengths,
):  # fmt: skip
    """The gradients of `kernels.forward`'s inputs from those of its reads and final strengths.

    grad_initial and grad_strengths must be zeroed by the caller; FinalCells, PopLog.
    """
    T, B, E, D = pushed.shape
    final_cells, pop_log = FinalCells(*final), PopLog(*log)
    room = final_cells.strengths.shape[1]
    below = room if kind != STACK else 0
    shape, dtype = (B, room + below), pushed.dtype
    cells = BackwardCells(
        np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape, np.int64),
        np.empty(B, np.int64), np.empty(B, np.int64), np.empty(B, np.int64),
    )  # fmt: skip
    n_first = B * initial.shape[1]
    values = Values(pushed.reshape(T * B * E, D), initial.reshape(n_first, D))
    value_grads = ValueGrads(
        grad_pushed.reshape(T * B * E, D),
        grad_initial.reshape(n_first, D),
        np.empty(T * B * E, np.bool_),
    )
    _begin_backward(final_cells, pop_log.dropped, grad_final, below, cells, value_grads.unwritten)
    grad, g_gates = grad_reads.reshape(-1), grad_gates.reshape(T * B, 2 * E)
    for t in range(T - 1, -1, -1):
        table = ReadTable(grad, t * B * E * D, E * D, 1)
        _step_backward(kind, t, B, values, table, cells, pop_log, g_gates, value_grads)
    _finish_backward(cells, grad_strengths.reshape(-1))
