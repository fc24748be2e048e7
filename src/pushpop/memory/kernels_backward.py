"""The way back: CPU kernels for the gradients of the walk in `kernels.py`.

Steps are undone from the last to the first, which restores the strengths exactly; so windows need
no log, they are walked again over the same numbers. `g` is the gradient that a cell's strength has
collected so far:

- read: a cell read in full gains <grad, v>, less <grad, v_last> of the cell that the window cut;
- pop: the popped amount gets minus the trimmed cell's g, and every dropped cell's g becomes the
  trimmed cell's (0 if none was trimmed);
- push: the gate gets the new cell's g.

Whole sequences go through `backward`; a recurrent layer calls `unbegin`, `unstep`, `unfinish`.
"""

import numpy as np
from numba import njit

from pushpop.memory.kernels import BOTTOM, DEQUE, QUEUE, STACK, TOP

_jit = njit(cache=True, nogil=True, error_model="numpy")
# Only sums of products may be reordered, so that they vectorise; comparisons stay exact.
_jit_sum = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


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
def _read_backward(end, grad, s, g, cells, lo, hi, pushed, initial, g_pushed, g_initial, untouched):
    """Cells read in full gain <grad, v>, less <grad, v_last> of the cell that the window cut."""
    rest = s.dtype.type(1)
    cut = s.dtype.type(0)
    walked = 0
    for k in range(hi - lo):
        i = hi - 1 - k if end == TOP else lo + k
        full = s[i] <= rest
        weight = s[i] if full else rest
        if not full and not rest > 0:
            break
        cell = cells[i]
        if cell >= 0:
            product = _dot(grad, pushed, cell)
            _add_to_row(g_pushed, cell, weight, grad, untouched[cell])
            untouched[cell] = False
        else:
            product = _dot(grad, initial, ~cell)
            _add_to_row(g_initial, ~cell, weight, grad, False)
        if not full:
            cut = product
            break
        g[i] += product
        rest -= s[i]
        walked += 1
    if cut != 0:
        for k in range(walked):
            g[hi - 1 - k if end == TOP else lo + k] -= cut
    # A cell just pushed at the far end with strength 0 is read in full (0 <= 0) beyond the window.
    far = lo if end == TOP else hi - 1
    if walked < hi - lo and s[far] == 0:
        g[far] += _dot(grad, pushed, cells[far])


@_jit
def _unpop(end, kind, before, dropped, s, g, cells, lo, hi, log_cells, log_s, logged):
    """Undo a pop: returns lo, hi, logged and the gradient of the popped amount."""
    inherited = s.dtype.type(0)
    if before >= 0:
        i = hi - 1 if end == TOP else lo
        inherited = g[i]
        s[i] = before
    for _ in range(dropped):
        logged -= 1
        if end == TOP:
            i = hi
            hi += 1
        else:
            lo -= 1
            i = lo
        s[i] = log_s[logged]
        cells[i] = log_cells[logged]
        # A deque pops its top first, and that already cuts off the gradient of a cell without
        # strength at the bottom: max(0, 0 - ...) is constant.
        g[i] = 0 if kind == DEQUE and end == BOTTOM and s[i] == 0 else inherited
    return lo, hi, logged, -inherited


@_jit
def unbegin(
    out_s, out_cells, counts, dropped, grad_s, s, g, cells, lo, hi, logged, untouched, below
):
    """Lay out the final cells and their gradients, as `finish` left them, to walk back from there.

    s, g and cells [B, room + below], untouched [T*B*E]: values that have no gradient yet.
    """
    B = len(counts)
    untouched[:] = True
    for b in range(B):
        n = counts[b]
        lo[b], hi[b] = below, below + n
        s[b, below : below + n] = out_s[b, :n]
        g[b, below : below + n] = grad_s[b, :n]
        cells[b, below : below + n] = out_cells[b, :n]
        logged[b] = 0
    for at in range(len(dropped)):
        logged[at % B] += dropped[at, TOP] + dropped[at, BOTTOM]


@_jit
def unstep(
    kind, t, rows, values, initial, grad, base, stride, s, g, cells, lo, hi, logged, untouched,
    log_cells, log_s, dropped, before, g_values, g_gates, g_initial,
):  # fmt: skip
    """Undo `step`: the gradients of its gates, [T*B, 2*E], and of the values pushed in it.

    grad holds the gradients of the reads, where `step` put the reads.
    """
    B, E, D = len(lo), g_gates.shape[1] // 2, values.shape[1]
    near_end = BOTTOM if kind == QUEUE else TOP
    for b in range(rows):
        at = t * B + b
        start = base + b * stride
        row, row_g, row_cells = s[b], g[b], cells[b]
        row_log, row_log_s = log_cells[b], log_s[b]
        low, high, log = lo[b], hi[b], logged[b]
        _read_backward(
            near_end, grad[start : start + D], row, row_g, row_cells, low, high,
            values, initial, g_values, g_initial, untouched,
        )  # fmt: skip
        if kind == DEQUE:
            _read_backward(
                BOTTOM, grad[start + D : start + 2 * D], row, row_g, row_cells, low, high,
                values, initial, g_values, g_initial, untouched,
            )  # fmt: skip
            g_gates[at, 1] = row_g[low]
            low += 1
        high -= 1
        g_gates[at, 0] = row_g[high]
        # The pops, last first: a queue's sweep of its top, the bottom, the top.
        if kind == QUEUE:
            low, high, log, _ = _unpop(
                TOP, kind, before[at, TOP], dropped[at, TOP],
                row, row_g, row_cells, low, high, row_log, row_log_s, log,
            )  # fmt: skip
        if kind != STACK:
            low, high, log, g_gates[at, 2 * E - 1] = _unpop(
                BOTTOM, kind, before[at, BOTTOM], dropped[at, BOTTOM],
                row, row_g, row_cells, low, high, row_log, row_log_s, log,
            )  # fmt: skip
        if kind != QUEUE:
            low, high, log, g_gates[at, E] = _unpop(
                TOP, kind, before[at, TOP], dropped[at, TOP],
                row, row_g, row_cells, low, high, row_log, row_log_s, log,
            )  # fmt: skip
        lo[b], hi[b], logged[b] = low, high, log
        for cell in range(at * E, at * E + E):
            if untouched[cell]:
                g_values[cell] = 0


@_jit
def unfinish(g, cells, lo, hi, g_strengths):
    """The gradients of the initial strengths, [B*N], zeros before the call."""
    for b in range(len(lo)):
        for i in range(lo[b], hi[b]):
            g_strengths[~cells[b, i]] = g[b, i]


@_jit
def backward(
    kind, values, initial, out_s, out_cells, counts, log_cells, log_s, dropped, before,
    grad_reads, grad_s, grad_values, grad_gates, grad_initial, grad_strengths,
):  # fmt: skip
    """The gradients of `forward`'s inputs from those of its reads and final strengths.

    grad_initial and grad_strengths must be zeroed by the caller.
    """
    T, B, E, D = values.shape
    room = out_s.shape[1]
    below = room if kind != STACK else 0
    s = np.empty((B, room + below), out_s.dtype)
    g = np.empty(s.shape, out_s.dtype)
    cells = np.empty(s.shape, np.int64)
    lo, hi, logged = np.empty(B, np.int64), np.empty(B, np.int64), np.empty(B, np.int64)
    untouched = np.empty(T * B * E, np.bool_)
    dropped, before = dropped.reshape(T * B, 2), before.reshape(T * B, 2)
    unbegin(
        out_s, out_cells, counts, dropped, grad_s, s, g, cells, lo, hi, logged, untouched, below
    )
    n_first = B * initial.shape[1]
    pushed, first = values.reshape(T * B * E, D), initial.reshape(n_first, D)
    g_values, g_first = grad_values.reshape(T * B * E, D), grad_initial.reshape(n_first, D)
    grad = grad_reads.reshape(-1)
    g_gates = grad_gates.reshape(T * B, 2 * E)
    for t in range(T - 1, -1, -1):
        unstep(
            kind, t, B, pushed, first, grad, t * B * E * D, E * D,
            s, g, cells, lo, hi, logged, untouched, log_cells, log_s, dropped, before,
            g_values, g_gates, g_first,
        )  # fmt: skip
    unfinish(g, cells, lo, hi, grad_strengths.reshape(-1))
