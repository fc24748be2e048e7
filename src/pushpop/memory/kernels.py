"""The walk over live cells: CPU kernels for whole sequences and single steps, forward and backward.

Cells that still have strength lie in an array, bottom to top, at positions lo .. hi - 1. A pop
walks from its end with a remainder: a cell no stronger than it is dropped, the first stronger one
is trimmed and ends the walk. A read walks the same way with a remainder of 1. What a step costs is
what it touches, however long the sequence or deep the memory.

The backward pass undoes the steps from the last to the first. For that the forward pass logs each
dropped cell, once in its life, and each trim, at most one a pop: the log's size is known before the
walk starts, so it can never overflow. Windows are not logged; they are walked again, over the same
numbers.

A cell is known by a row number in a table of values: row r >= 0 of the pushed values [T*B*E, D], or
row ~r of the initial values [B*N, D]. Kernels that call each other all live in this file, because
Numba's cache does not notice edits in imported files.
"""

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

STACK, QUEUE, DEQUE = 0, 1, 2
TOP, BOTTOM = 0, 1

_jit = njit(cache=True, nogil=True, error_model="numpy")
# Only sums of products may be reordered, so that they vectorise; comparisons stay exact.
_jit_sum = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@_jit_sum
def _dot(a, i, b, j):  # type: ignore[no-untyped-def]
    """<a[i], b[j]>. Rows go by table and number: making a view of each would take longer."""
    total = a.dtype.type(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[j, k]
    return total


@_jit_sum
def _add_scaled(out, i, weight, a, j, fresh):  # type: ignore[no-untyped-def]
    """out[i] += weight * a[j], or = if nothing is there yet."""
    if fresh:
        for k in range(out.shape[1]):
            out[i, k] = weight * a[j, k]
    else:
        for k in range(out.shape[1]):
            out[i, k] += weight * a[j, k]


@_jit
def _pop(end, amount, s, cells, mask, lo, hi, log_cells, log_s, logged):  # type: ignore[no-untyped-def]
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
def _pops(  # type: ignore[no-untyped-def]
    kind, pop, at, s, cells, mask, lo, hi, log_cells, log_s, logged, dropped, before
):
    """The pops of one step, pop[at]; dropped[at] and before[at] take the counts and trims at both
    ends.

    A queue's idle top is popped by 0: that sweeps away a cell just pushed with strength 0, which no
    later step can reach with a gradient.
    """
    zero = s.dtype.type(0)
    start = logged
    before[at, TOP] = before[at, BOTTOM] = -1
    if kind == QUEUE:
        lo, hi, logged, before[at, BOTTOM] = _pop(
            BOTTOM, pop[at, 0], s, cells, mask, lo, hi, log_cells, log_s, logged
        )
        dropped[at, BOTTOM] = logged - start
        start = logged
        lo, hi, logged, _ = _pop(TOP, zero, s, cells, mask, lo, hi, log_cells, log_s, logged)
        dropped[at, TOP] = logged - start
        return lo, hi, logged
    lo, hi, logged, before[at, TOP] = _pop(
        TOP, pop[at, 0], s, cells, mask, lo, hi, log_cells, log_s, logged
    )
    dropped[at, TOP] = logged - start
    dropped[at, BOTTOM] = 0
    if kind == DEQUE:
        start = logged
        lo, hi, logged, before[at, BOTTOM] = _pop(
            BOTTOM, pop[at, 1], s, cells, mask, lo, hi, log_cells, log_s, logged
        )
        dropped[at, BOTTOM] = logged - start
    return lo, hi, logged


@_jit
def _read(end, s, cells, mask, lo, hi, pushed, initial, out, at):  # type: ignore[no-untyped-def]
    rest = s.dtype.type(1)
    empty = True  # the first row written saves filling with zeros
    for k in range(hi - lo):
        i = (hi - 1 - k if end == TOP else lo + k) & mask
        full = s[i] <= rest
        weight = s[i] if full else rest
        if weight > 0:
            if cells[i] >= 0:
                _add_scaled(out, at, weight, pushed, cells[i], empty)
            else:
                _add_scaled(out, at, weight, initial, ~cells[i], empty)
            empty = False
        if not full:
            break
        rest -= s[i]
    if empty:
        for k in range(out.shape[1]):
            out[at, k] = 0


@_jit
def _reads(kind, s, cells, mask, lo, hi, pushed, initial, out, at):  # type: ignore[no-untyped-def]
    """The reads of one step, into rows `at` (and, of a deque, `at + 1`) of `out`."""
    _read(BOTTOM if kind == QUEUE else TOP, s, cells, mask, lo, hi, pushed, initial, out, at)
    if kind == DEQUE:
        _read(BOTTOM, s, cells, mask, lo, hi, pushed, initial, out, at + 1)


@_jit
def _any_nan(push, pop, at):  # type: ignore[no-untyped-def]
    found = False
    for e in range(push.shape[1]):
        found = found or push[at, e] != push[at, e] or pop[at, e] != pop[at, e]
    return found


@_jit
def _load_row(b, strengths, s, cells, lo):  # type: ignore[no-untyped-def]
    """Lay the initial cells of row b from position lo upwards; returns where they end."""
    n_cells = strengths.shape[1]
    for n in range(n_cells):
        s[lo + n] = strengths[b, n]
        cells[lo + n] = ~(b * n_cells + n)
    return lo + n_cells


@_jit
def _drop_zeros(s, cells, lo, hi):  # type: ignore[no-untyped-def]
    """Close the gaps left by initial cells without strength; returns the new hi."""
    to = lo
    for i in range(lo, hi):
        if s[i] != 0:
            s[to] = s[i]
            cells[to] = cells[i]
            to += 1
    return to


@_jit
def forward(  # type: ignore[no-untyped-def]
    kind, values, push, pop, initial, strengths, reads, out_s, out_cells, counts,
    log_cells, log_s, dropped, before,
):  # fmt: skip
    """Run T steps. Shapes: values and reads [T, B, E, D], push and pop [T, B, E], initial
    [B, N, D], strengths [B, N]; out_s, out_cells, log_cells and log_s [B, N + T*E], counts [B],
    dropped and before [T, B, 2].
    """
    T, B, E, D = values.shape
    room = out_s.shape[1]
    below = T if kind == DEQUE else 0
    s = np.empty(room + below, out_s.dtype)
    cells = np.empty(room + below, np.int64)
    pushed = values.reshape(T * B * E, D)
    first = initial.reshape(B * strengths.shape[1], D)
    out = reads.reshape(T * B * E, D)
    push, pop = push.reshape(T * B, E), pop.reshape(T * B, E)
    dropped, before = dropped.reshape(T * B, 2), before.reshape(T * B, 2)
    for b in range(B):
        lo = below
        hi = _load_row(b, strengths, s, cells, lo)
        logged = 0
        poisoned = False
        log_row, log_row_s = log_cells[b], log_s[b]
        for t in range(T):
            at = t * B + b
            lo, hi, logged = _pops(
                kind, pop, at, s, cells, -1, lo, hi, log_row, log_row_s, logged, dropped, before
            )
            if t == 0:
                hi = _drop_zeros(s, cells, lo, hi)
            s[hi] = push[at, 0]
            cells[hi] = at * E
            hi += 1
            if kind == DEQUE:
                lo -= 1
                s[lo] = push[at, 1]
                cells[lo] = at * E + 1
            poisoned = poisoned or _any_nan(push, pop, at)
            if poisoned:
                out[at * E : at * E + E] = np.nan
            else:
                _reads(kind, s, cells, -1, lo, hi, pushed, first, out, at * E)
        counts[b] = hi - lo
        out_s[b, : hi - lo] = s[lo:hi]
        out_s[b, hi - lo :] = 0
        out_cells[b, : hi - lo] = cells[lo:hi]
        out_cells[b, hi - lo :] = 0
        log_cells[b, logged:] = 0
        log_s[b, logged:] = 0


@_jit
def _read_backward(  # type: ignore[no-untyped-def]
    end, grad, at, s, g, cells, lo, hi, pushed, initial, g_pushed, g_initial, untouched
):
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
        if cells[i] >= 0:
            product = _dot(grad, at, pushed, cells[i])
            _add_scaled(g_pushed, cells[i], weight, grad, at, untouched[cells[i]])
            untouched[cells[i]] = False
        else:
            product = _dot(grad, at, initial, ~cells[i])
            _add_scaled(g_initial, ~cells[i], weight, grad, at, False)
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
        g[far] += _dot(grad, at, pushed, cells[far])


@_jit
def _unpop(end, kind, before, dropped, s, g, cells, lo, hi, log_cells, log_s, logged):  # type: ignore[no-untyped-def]
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
def backward(  # type: ignore[no-untyped-def]
    kind, values, initial, out_s, out_cells, counts, log_cells, log_s, dropped, before,
    grad_reads, grad_s, grad_values, grad_push, grad_pop, grad_initial, grad_strengths,
):  # fmt: skip
    """The gradients of `forward`'s inputs from those of its reads and final strengths.

    grad_initial and grad_strengths must be zeroed by the caller.
    """
    T, B, E, D = values.shape
    room = out_s.shape[1]
    below = room if kind != STACK else 0
    s = np.empty(room + below, out_s.dtype)
    g = np.empty(room + below, out_s.dtype)
    cells = np.empty(room + below, np.int64)
    n_first = B * initial.shape[1]
    pushed = values.reshape(T * B * E, D)
    first = initial.reshape(n_first, D)
    g_pushed = grad_values.reshape(T * B * E, D)
    g_first = grad_initial.reshape(n_first, D)
    g_first_s = grad_strengths.reshape(n_first)
    grad = grad_reads.reshape(T * B * E, D)
    untouched = np.ones(T * B * E, np.bool_)  # rows of g_pushed that hold nothing yet
    near_end = BOTTOM if kind == QUEUE else TOP
    for b in range(B):
        lo = below
        hi = lo + counts[b]
        s[lo:hi] = out_s[b, : counts[b]]
        g[lo:hi] = grad_s[b, : counts[b]]
        cells[lo:hi] = out_cells[b, : counts[b]]
        log_row, log_row_s = log_cells[b], log_s[b]
        logged = 0
        for t in range(T):
            logged += dropped[t, b, TOP] + dropped[t, b, BOTTOM]
        for t in range(T - 1, -1, -1):
            at = (t * B + b) * E
            _read_backward(
                near_end, grad, at, s, g, cells, lo, hi, pushed, first, g_pushed, g_first, untouched
            )
            if kind == DEQUE:
                _read_backward(
                    BOTTOM, grad, at + 1, s, g, cells, lo, hi, pushed, first, g_pushed, g_first,
                    untouched,
                )  # fmt: skip
                grad_push[t, b, 1] = g[lo]
                lo += 1
            hi -= 1
            grad_push[t, b, 0] = g[hi]
            # The pops, last first: a queue's sweep of its top, the bottom, the top.
            if kind == QUEUE:
                lo, hi, logged, _ = _unpop(
                    TOP, kind, before[t, b, TOP], dropped[t, b, TOP],
                    s, g, cells, lo, hi, log_row, log_row_s, logged,
                )  # fmt: skip
            if kind != STACK:
                lo, hi, logged, grad_pop[t, b, E - 1] = _unpop(
                    BOTTOM, kind, before[t, b, BOTTOM], dropped[t, b, BOTTOM],
                    s, g, cells, lo, hi, log_row, log_row_s, logged,
                )  # fmt: skip
            if kind != QUEUE:
                lo, hi, logged, grad_pop[t, b, 0] = _unpop(
                    TOP, kind, before[t, b, TOP], dropped[t, b, TOP],
                    s, g, cells, lo, hi, log_row, log_row_s, logged,
                )  # fmt: skip
        for i in range(lo, hi):
            g_first_s[~cells[i]] = g[i]
    for row in range(T * B * E):
        if untouched[row]:
            g_pushed[row] = 0


@_jit
def advance(  # type: ignore[no-untyped-def]
    kind, value, push, pop, slots, cells, s, lo, hi, read, old_values, old_s, before
):
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
    out = read.reshape(-1, D)
    E = push.shape[1]
    for b in range(B):
        low, high, _ = _pops(
            kind, pop, b, s[b], cells[b], mask, lo[b], hi[b],
            no_cells, no_s, 0, dropped, before,
        )  # fmt: skip
        _swap_in(high & mask, b, 0, slots, s, value, push, old_values, old_s)
        high += 1
        if kind == DEQUE:
            low -= 1
            _swap_in(low & mask, b, 1, slots, s, value, push, old_values, old_s)
        lo[b] = low
        hi[b] = high
        _reads(kind, s[b], cells[b], mask, low, high, table, table, out, b * E)


@_jit
def _swap_in(slot, b, e, slots, s, value, push, old_values, old_s):  # type: ignore[no-untyped-def]
    old_values[b, e] = slots[b, slot]
    old_s[b, e] = s[b, slot]
    slots[b, slot] = value[b, e]
    s[b, slot] = push[b, e]


@_jit
def retreat(kind, slots, s, lo, hi, old_lo, old_hi, old_values, old_s, before):  # type: ignore[no-untyped-def]
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
