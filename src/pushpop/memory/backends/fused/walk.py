"""The walk over live cells and its backward pass: CPU kernels for whole sequences and single steps.

Cells that still have strength lie in an array, bottom to top, at positions lo .. hi - 1. A pop
walks from its end with a remainder: a cell no stronger than it is dropped, the first stronger one
is trimmed and ends the walk. A read walks the same way with a remainder of 1. What a step costs is
what it touches, however long the sequence or deep the memory.

For the backward pass the walk logs each dropped cell, once in its life, and each trim, at most one
a pop: the log's size is known before the walk starts, so it can never overflow. Steps are undone
from the last to the first, which restores the strengths exactly; so windows need no log, they are
walked again over the same numbers. `g` is the gradient that a cell's strength has collected so far:

- read: a cell read in full gains <grad, v>, less <grad, v_last> of the cell that the window cut;
- pop: the popped amount gets minus the trimmed cell's g, and every dropped cell's g becomes the
  trimmed cell's (0 if none was trimmed);
- push: the gate gets the new cell's g.

A cell's value is known by a row id: id r >= 0 is row r of the pushed values [T*R*E, D], id ~r that
of the initial values [R*N, D], for R rows of memories with E ends (values a step) each. Reads are
written to a flat array, so that they may lie inside other data.

Whole sequences go through `forward` and `backward`. A recurrent layer, whose gates depend on its
reads, makes the same calls one time step at a time: `begin`, `step`, `finish`, and likewise back.

Bundles of arrays go from Python to a kernel as plain tuples: Numba takes half a microsecond to
recognise a NamedTuple, and almost none for a tuple. They are:

- values: pushed [T*R*E, D], initial [R*N, D], what row ids point into;
- cells: strengths, row_ids [R, C], lo, hi [R], and how many dropped ones are logged, n_logged [R];
  in the backward pass the strengths are followed by their gradients;
- log: each row's dropped cells in order, row_ids and strengths [R, room]; for each step how many
  cells it dropped at the top and the bottom, dropped [T*R, 2], and what the trimmed cell's strength
  was before the pop, or -1, trimmed_from [T*R, 2];
- final: the cells left, from the left of each row, strengths, row_ids [R, room] and counts [R];
- reads: a flat array, start, stride, memories: memory m of sequence b, row b * memories + m of
  everything else, has its E*D numbers at array[start + b * stride + m * E*D :];
- value_grads: those of pushed [T*R*E, D] and initial [R*N, D], the latter zeros at first, and
  whether a row of the former holds nothing yet, unwritten [T*R*E].
"""

from typing import Any

import numpy as np

from pushpop.compiled import compiled
from pushpop.memory import kinds
from pushpop.memory.kinds import BOTTOM, DEQUE, QUEUE, STACK, TOP

Array = np.ndarray[Any, Any]

_jit = compiled(imports=[kinds], allocates=False, error_model="numpy")
_jit_allocating = compiled(imports=[kinds], error_model="numpy")
# Only sums of products may be reordered, so that they vectorise; comparisons stay exact.
_jit_sum = compiled(allocates=False, error_model="numpy", fastmath={"reassoc", "contract"})


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
    """The gates push[at] and pop[at, first_pop :] (both may lie in one array): push top and bottom,
    pop top and bottom; those of an end that a kind does not have are 0."""
    zero = push.dtype.type(0)
    if kind == DEQUE:
        return push[at, 0], push[at, 1], pop[at, first_pop], pop[at, first_pop + 1]
    if kind == QUEUE:
        return push[at, 0], zero, zero, pop[at, first_pop]
    return push[at, 0], zero, pop[at, first_pop], zero


@_jit
def _pop(end, amount, row, ends, mask, at, dropped, trimmed_from):
    """Pop `amount` at `end` of a row (strengths and row ids of its cells and of its log) whose ends
    are (lo, hi, n_logged); dropped[at, end] and trimmed_from[at, end] are set."""
    s, row_ids, log_row_ids, log_strengths = row
    lo, hi, n_logged = ends
    logged_before, rest = n_logged, amount
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
    dropped[at, end] = n_logged - logged_before
    return lo, hi, n_logged


@_jit
def pop_ends(kind, gates, row, ends, mask, at, dropped, trimmed_from):
    """The pops of one step at both ends.

    A queue's idle top is popped by 0: that sweeps away a cell just pushed with strength 0, which no
    later step can reach with a gradient.
    """
    _, _, pop_top, pop_bottom = gates
    if kind == QUEUE:
        ends = _pop(BOTTOM, pop_bottom, row, ends, mask, at, dropped, trimmed_from)
        return _pop(TOP, pop_top, row, ends, mask, at, dropped, trimmed_from)
    ends = _pop(TOP, pop_top, row, ends, mask, at, dropped, trimmed_from)
    if kind == DEQUE:
        return _pop(BOTTOM, pop_bottom, row, ends, mask, at, dropped, trimmed_from)
    dropped[at, BOTTOM] = 0
    trimmed_from[at, BOTTOM] = -1
    return ends


@_jit
def _read(end, s, row_ids, lo, hi, mask, values, out):
    pushed, initial = values
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
def read_ends(kind, s, row_ids, lo, hi, mask, values, out):
    """The reads of one step, E*D numbers; of a deque the bottom's after the top's."""
    D = values[0].shape[1]
    _read(BOTTOM if kind == QUEUE else TOP, s, row_ids, lo, hi, mask, values, out[:D])
    if kind == DEQUE:
        _read(BOTTOM, s, row_ids, lo, hi, mask, values, out[D:])


@_jit
def find_nan(s, lo, hi, mask, gates):
    """NaN if a gate of this step is, or a cell at an end; else 0. What is added to a push.

    NaN compares as false everywhere and would be walked over in silence. A row that met one has NaN
    at its ends from then on, and reads NaN.
    """
    total = gates[0] + gates[1] + gates[2] + gates[3]
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


@_jit_allocating
def begin(kind, T, E, initial_strengths):
    """Lay out the initial cells, strengths [R, N]: cells with room for what T steps push above and,
    in a deque, below."""
    R, N = initial_strengths.shape
    below = T if kind == DEQUE else 0
    strengths = np.empty((R, N + T * E + below), initial_strengths.dtype)
    row_ids = np.empty(strengths.shape, np.int64)
    lo, hi, n_logged = np.empty(R, np.int64), np.empty(R, np.int64), np.zeros(R, np.int64)
    for r in range(R):
        lo[r], hi[r] = below, below + N
        for n in range(N):
            strengths[r, below + n] = initial_strengths[r, n]
            row_ids[r, below + n] = ~(r * N + n)
    return strengths, row_ids, lo, hi, n_logged


@_jit
def step(kind, t, sequences, gates, values, reads, cells, log):
    """Time step t of the first `sequences` sequences. gates [T*R, 2*E]: pushes, then pops."""
    strengths, row_ids, lo, hi, n_logged = cells
    log_row_ids, log_strengths, dropped, trimmed_from = log
    table, first, stride, memories = reads
    R, E, D = len(lo), gates.shape[1] // 2, values[0].shape[1]
    r = 0
    for b in range(sequences):
        for m in range(memories):
            at = t * R + r
            s, ids = strengths[r], row_ids[r]
            row = s, ids, log_row_ids[r], log_strengths[r]
            amounts = gates_at(kind, gates, gates, at, E)
            nan_flag = find_nan(s, lo[r], hi[r], -1, amounts)
            low, high, n_logged[r] = pop_ends(
                kind, amounts, row, (lo[r], hi[r], n_logged[r]), -1, at, dropped, trimmed_from
            )
            if t == 0:
                high = _drop_zeros(s, ids, low, high)
                for i in range(low, high):  # padding may hide a NaN that came with the state
                    nan_flag += s[i] - s[i]
            s[high] = amounts[0] + nan_flag
            ids[high] = at * E
            high += 1
            if kind == DEQUE:
                low -= 1
                s[low] = amounts[1] + nan_flag
                ids[low] = at * E + 1
            lo[r], hi[r] = low, high
            start = first + b * stride + m * E * D
            out = table[start : start + E * D]
            if nan_flag != 0:
                out[:] = nan_flag
            else:
                read_ends(kind, s, ids, low, high, -1, values, out)
            r += 1


@_jit_allocating
def finish(cells, log, final):
    """Write down the final cells, and zeros where the log is not in use."""
    strengths, row_ids, lo, hi, n_logged = cells
    final_strengths, final_ids, counts = final
    log_row_ids, log_strengths, _, _ = log
    for r in range(len(lo)):
        n = hi[r] - lo[r]
        counts[r] = n
        final_strengths[r, :n] = strengths[r, lo[r] : hi[r]]
        final_strengths[r, n:] = 0
        final_ids[r, :n] = row_ids[r, lo[r] : hi[r]]
        final_ids[r, n:] = 0
        log_row_ids[r, n_logged[r] :] = 0
        log_strengths[r, n_logged[r] :] = 0


@_jit_allocating
def forward(kind, pushed, gates, initial, strengths, reads, final, log):
    """Run T steps. Shapes: pushed and reads [T, B, E, D], gates [T, B, 2*E], initial [B, N, D],
    strengths [B, N].
    """
    T, B, E, D = pushed.shape
    cells = begin(kind, T, E, strengths)
    values = pushed.reshape(T * B * E, D), initial.reshape(B * strengths.shape[1], D)
    flat_gates, flat_reads = gates.reshape(T * B, 2 * E), reads.reshape(-1)
    for t in range(T):
        table = flat_reads, t * B * E * D, E * D, 1
        step(kind, t, B, flat_gates, values, table, cells, log)
    finish(cells, log, final)


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
    return (lo, hi, n_logged), -inherited


@_jit_allocating
def begin_backward(kind, final, dropped, grad_strengths):
    """Lay out the final cells and the gradients of their strengths [R, room]: cells with room for
    what a bottom's pops took. `dropped` is the log's."""
    final_strengths, final_ids, counts = final
    R, room = final_strengths.shape
    below = room if kind != STACK else 0
    shape = R, room + below
    strengths, grads = np.empty(shape, final_strengths.dtype), np.empty(shape, grad_strengths.dtype)
    row_ids = np.empty(shape, np.int64)
    lo, hi, n_logged = np.empty(R, np.int64), np.empty(R, np.int64), np.zeros(R, np.int64)
    for r in range(R):
        n = counts[r]
        lo[r], hi[r] = below, below + n
        strengths[r, below : below + n] = final_strengths[r, :n]
        grads[r, below : below + n] = grad_strengths[r, :n]
        row_ids[r, below : below + n] = final_ids[r, :n]
    for at in range(len(dropped)):
        n_logged[at % R] += dropped[at, TOP] + dropped[at, BOTTOM]
    return strengths, grads, row_ids, lo, hi, n_logged


@_jit
def step_backward(kind, t, sequences, values, read_grads, cells, log, g_gates, value_grads):
    """Undo `step`: the gradients of its gates and of the values pushed in it, from those of its
    reads, to g_gates [T*R, 2*E] and value_grads."""
    strengths, grads, row_ids, lo, hi, n_logged = cells
    log_row_ids, log_strengths, dropped, trimmed_from = log
    g_pushed, _, unwritten = value_grads
    grad, first, stride, memories = read_grads
    R, E, D = len(lo), g_gates.shape[1] // 2, g_pushed.shape[1]
    r = 0
    for b in range(sequences):
        for m in range(memories):
            at = t * R + r
            start = first + b * stride + m * E * D
            s, g, ids, low, high = strengths[r], grads[r], row_ids[r], lo[r], hi[r]
            row = s, g, ids, log_row_ids[r], log_strengths[r]
            near, near_end = grad[start : start + D], BOTTOM if kind == QUEUE else TOP
            _read_backward(near_end, near, s, g, ids, low, high, values, value_grads)
            if kind == DEQUE:
                far = grad[start + D : start + 2 * D]
                _read_backward(BOTTOM, far, s, g, ids, low, high, values, value_grads)
                g_gates[at, 1] = g[low]
                low += 1
            high -= 1
            g_gates[at, 0] = g[high]
            # The pops, last first: a queue's sweep of its top, the bottom, the top.
            ends = low, high, n_logged[r]
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
def finish_backward(cells, grad_strengths):
    """The gradients of the initial strengths, [R*N], zeros before the call."""
    _, grads, row_ids, lo, hi, _ = cells
    for r in range(len(lo)):
        for i in range(lo[r], hi[r]):
            grad_strengths[~row_ids[r, i]] = grads[r, i]


@_jit_allocating
def backward(kind, pushed, initial, final, log, grads_given, grads):
    """The gradients of `forward`'s inputs, `grads`: of pushed, gates, initial and strengths, the
    last two zeros before; from those of its reads and final strengths, `grads_given`."""
    grad_reads, grad_final = grads_given
    grad_pushed, grad_gates, grad_initial, grad_strengths = grads
    T, B, E, D = pushed.shape
    n_first = B * initial.shape[1]
    values = pushed.reshape(T * B * E, D), initial.reshape(n_first, D)
    value_grads = (
        grad_pushed.reshape(T * B * E, D),
        grad_initial.reshape(n_first, D),
        np.ones(T * B * E, np.bool_),
    )
    cells = begin_backward(kind, final, log[2], grad_final)
    grad, g_gates = grad_reads.reshape(-1), grad_gates.reshape(T * B, 2 * E)
    for t in range(T - 1, -1, -1):
        table = grad, t * B * E * D, E * D, 1
        step_backward(kind, t, B, values, table, cells, log, g_gates, value_grads)
    finish_backward(cells, grad_strengths.reshape(-1))
