"""The walk over live cells as Triton kernels: what `fused/walk.py` does on the CPU, on a GPU.

A program is a row of memory and holds all D numbers of a value; rows do not know of each other. The
functions here are one time step of one row, and what comes before the first and after the last.
`walk_forward` and `walk_backward` make all steps of a sequence in one launch.

For layers whose gates depend on the reads, and for streams, there is also a launch a step, in the
order of the CPU's: `begin_rows`, a `step_rows` for each t, `finish_rows`; then
`begin_rows_backward`, a step backward for each t from the last to the first,
`finish_rows_backward`. A layer has work of its own around the memory's steps, so it calls `step`
and `step_backward` from kernels of its own (`layers/backends/triton/kernels.py`), as `step_rows`
does: `load_ends`, the step, `store_ends`. Between launches the ends of row r are in `ends` [R, 4],
int32: lo, hi, n_logged, nothing. Kernels that only copy cells take CELLS of them at once, 64 with
one warp.

Functions take tuples:

- cells: pointers to what a row has in buffers of R rows. `s`, `ids` [R, width] are the strengths
  and row ids of the live cells at positions lo .. hi - 1; room = N + T*E, and width is room, for a
  deque plus T. `log_ids`, `log_strengths` [R, room] are the log of the pops, as are `dropped` and
  `trimmed_from` [T*R, 2] of all rows;
- ends: lo, hi, n_logged;
- vectors: `pushed` [T*R*E, D], `initial` [R*N, D], D, columns 0 .. BLOCK - 1, and which of them
  are less than D. Row ids are int64: id r >= 0 is row r of `pushed`, id ~r that of `initial`.

In the backward pass a row also has `g` [R, width], the gradients that its cells' strengths have
collected so far. There width is room for a stack and twice that for the others: undoing the pops of
a bottom puts cells back below the lowest one left. `grad_pushed` and `grad_initial` are sums over
steps, so they have the dtype of the strengths, and zeros before the first step. Each number of them
belongs to one program, which adds to it in the order of the steps: the result is the same every
time.

Strengths are float32 or float64 and the sums have their dtype; values may be narrower. One thread
stores a scalar and all threads load it. So between a load and a store of the same place there is a
barrier, in either order: with several warps, one may be ahead of the others.
"""

import triton
import triton.language as tl

from pushpop.memory import kinds

STACK, QUEUE, DEQUE = map(tl.constexpr, (kinds.STACK, kinds.QUEUE, kinds.DEQUE))
TOP, BOTTOM = tl.constexpr(kinds.TOP), tl.constexpr(kinds.BOTTOM)


@triton.constexpr_function
def cells_block(block):
    """How many cells are copied at once, in kernels whose values have blocks of this size."""
    return max(64, block // 4)


@triton.jit
def _position(END: tl.constexpr, lo, hi, k):
    """Where the k-th cell from an end is."""
    return hi - 1 - k if END == TOP else lo + k


@triton.jit
def _value_row(pushed, initial, row_id, D):
    """The pointer to a cell's value (or to the gradient of it)."""
    return tl.where(row_id >= 0, pushed + row_id * D, initial + (-1 - row_id) * D)


@triton.jit
def _begin(strengths, row, N, below, s, ids, CELLS: tl.constexpr):
    """Lay out the initial cells, strengths [R, N], from position `below` of this row upwards."""
    for start in range(0, N, CELLS):
        n = start + tl.arange(0, CELLS)
        there = n < N
        tl.store(s + below + n, tl.load(strengths + row * N + n, mask=there), mask=there)
        tl.store(ids + below + n, -1 - (row * N + n), mask=there)
    tl.debug_barrier()


@triton.jit
def _pop(END: tl.constexpr, amount, cells, ends):
    """Pop `amount`; the ends after it, how many cells it dropped, and the trimmed cell's strength
    before it, or -1.
    """
    s, ids, log_ids, log_strengths = cells
    lo, hi, n_logged = ends
    rest = amount
    logged_before = n_logged
    x = tl.load(s + _position(END, lo, hi, 0), mask=lo < hi, other=0.0)
    while (lo < hi) & (x <= rest):
        rest -= x
        tl.store(log_ids + n_logged, tl.load(ids + _position(END, lo, hi, 0)))
        tl.store(log_strengths + n_logged, x)
        n_logged += 1
        if END == TOP:
            hi -= 1
        else:
            lo += 1
        x = tl.load(s + _position(END, lo, hi, 0), mask=lo < hi, other=0.0)
    trims = (lo < hi) & (rest > 0)
    tl.debug_barrier()
    tl.store(s + _position(END, lo, hi, 0), x - rest, mask=trims)
    tl.debug_barrier()
    return (lo, hi, n_logged), n_logged - logged_before, tl.where(trims, x, -1.0)


@triton.jit
def _drop_zeros(s, ids, lo, hi, CELLS: tl.constexpr):
    """Close the gaps left by initial cells without strength; the new hi, and NaN if a cell is."""
    to = lo
    total = tl.full([], 0.0, s.dtype.element_ty)
    for start in range(lo, hi, CELLS):
        i = start + tl.arange(0, CELLS)
        there = i < hi
        x = tl.load(s + i, mask=there, other=0.0)
        row_id = tl.load(ids + i, mask=there, other=0)
        keep = (x != 0).to(tl.int32)
        total += tl.sum(x)
        tl.debug_barrier()
        target = to + tl.cumsum(keep, 0) - 1
        tl.store(s + target, x, mask=x != 0)
        tl.store(ids + target, row_id, mask=x != 0)
        to += tl.sum(keep)
    tl.debug_barrier()
    return to, tl.where(total != total, total, 0.0)


@triton.jit
def _read(END: tl.constexpr, s, ids, lo, hi, vectors, nan_flag):
    """The values inside the unit window at an end, weighted."""
    pushed, initial, D, columns, _ = vectors
    total = tl.zeros_like(columns).to(s.dtype.element_ty) + nan_flag
    rest = tl.full([], 1.0, s.dtype.element_ty)
    k = 0
    while (k < hi - lo) & (rest > 0):
        i = _position(END, lo, hi, k)
        x = tl.load(s + i)
        weight = tl.where(x <= rest, x, rest)
        row = _value_row(pushed, initial, tl.load(ids + i), D)
        v = tl.load(row + columns, mask=columns < tl.where(weight > 0, D, 0), other=0.0)
        total += weight * v.to(s.dtype.element_ty)
        rest -= x
        k += 1
    return total


@triton.jit
def step(
    KIND: tl.constexpr, is_first, at, push, pop, vectors, out, cells, ends, dropped, trimmed_from,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One time step of one row: pop, push, read; returns the ends after it.

    Args:
        is_first: whether this is step 0, which removes initial cells without strength.
        at: t * R + r, int64.
        push, pop: where the E pushes and the E pops of this step and row are.
        out: where the reads go, E*D numbers.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    s, ids, _, _ = cells
    _, _, D, columns, inside = vectors
    lo, hi, n_logged = ends
    push_0 = tl.load(push)
    pop_0 = tl.load(pop)
    zero = tl.full([], 0.0, s.dtype.element_ty)
    push_1 = zero
    pop_1 = zero
    if KIND == DEQUE:
        push_1 = tl.load(push + 1)
        pop_1 = tl.load(pop + 1)
    # NaN compares as false everywhere and would be walked over in silence; see fused/walk.find_nan.
    total = push_0 + push_1 + pop_0 + pop_1
    total += tl.load(s + lo, mask=lo < hi, other=0.0)
    total += tl.load(s + hi - 1, mask=lo < hi, other=0.0)
    nan_flag = tl.where(total != total, total, 0.0)

    n_top = n_logged * 0
    n_bottom = n_logged * 0
    from_top = zero - 1
    from_bottom = zero - 1
    if KIND == QUEUE:  # the idle top is popped by 0: see fused/walk.pop_ends
        ends, n_bottom, from_bottom = _pop(BOTTOM, pop_0, cells, ends)
        ends, n_top, from_top = _pop(TOP, zero, cells, ends)
    else:
        ends, n_top, from_top = _pop(TOP, pop_0, cells, ends)
        if KIND == DEQUE:
            ends, n_bottom, from_bottom = _pop(BOTTOM, pop_1, cells, ends)
    lo, hi, n_logged = ends
    tl.store(dropped + at * 2, n_top)
    tl.store(dropped + at * 2 + 1, n_bottom)
    tl.store(trimmed_from + at * 2, from_top)
    tl.store(trimmed_from + at * 2 + 1, from_bottom)
    if is_first:
        hi, hidden_nan = _drop_zeros(s, ids, lo, hi, cells_block(BLOCK))
        nan_flag += hidden_nan

    tl.store(s + hi, push_0 + nan_flag)
    tl.store(ids + hi, at * E)
    hi += 1
    if KIND == DEQUE:
        lo -= 1
        tl.store(s + lo, push_1 + nan_flag)
        tl.store(ids + lo, at * E + 1)
    tl.debug_barrier()

    read = _read(BOTTOM if KIND == QUEUE else TOP, s, ids, lo, hi, vectors, nan_flag)
    tl.store(out + columns, read, mask=inside)
    if KIND == DEQUE:
        read = _read(BOTTOM, s, ids, lo, hi, vectors, nan_flag)
        tl.store(out + D + columns, read, mask=inside)
    tl.debug_barrier()
    return lo, hi, n_logged


@triton.jit
def _finish(cells, ends, final, row, room, CELLS: tl.constexpr):
    """Write down this row of the final cells, and zeros where its log is not in use."""
    s, ids, log_ids, log_strengths = cells
    lo, hi, n_logged = ends
    final_strengths, final_ids, counts = final
    n = hi - lo
    tl.store(counts + row, n)
    for start in range(0, room, CELLS):
        j = start + tl.arange(0, CELLS)
        x = tl.load(s + lo + j, mask=j < n, other=0.0)
        row_id = tl.load(ids + lo + j, mask=j < n, other=0)
        tl.store(final_strengths + row * room + j, x, mask=j < room)
        tl.store(final_ids + row * room + j, row_id, mask=j < room)
        unused = (j >= n_logged) & (j < room)
        tl.store(log_ids + j, tl.zeros_like(row_id), mask=unused)
        tl.store(log_strengths + j, tl.zeros_like(x), mask=unused)


@triton.jit(do_not_specialize=["T", "R", "N", "room", "width"])
def walk_forward(
    pushed, push, pop, initial, strengths, reads, s, ids, final_strengths, final_ids, counts,
    log_ids, log_strengths, dropped, trimmed_from, T, R, N, D, room, width,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All steps of a sequence; grid (R,). pushed and reads [T, R, E, D], push and pop [T, R, E],
    initial [R, N, D], strengths [R, N]; s and ids are scratch.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    vectors = pushed, initial, D, columns, columns < D
    cells = s + row * width, ids + row * width, log_ids + row * room, log_strengths + row * room
    lo = width - room  # where a deque leaves space for what is pushed at its bottom
    ends = lo, lo + N, lo * 0
    _begin(strengths, row, N, lo, cells[0], cells[1], cells_block(BLOCK))
    at = row
    for t in range(T):
        ends = step(
            KIND, t == 0, at, push + at * E, pop + at * E, vectors, reads + at * E * D, cells, ends,
            dropped, trimmed_from, BLOCK,
        )  # fmt: skip
        at += R
    final = final_strengths, final_ids, counts
    _finish(cells, ends, final, row, room, cells_block(BLOCK))


@triton.jit
def load_ends(ends, row):
    return tl.load(ends + row * 4), tl.load(ends + row * 4 + 1), tl.load(ends + row * 4 + 2)


@triton.jit
def store_ends(ends, row, lo, hi, n_logged):
    """Keep lo, hi and n_logged of a row for the next launch.

    Every thread has loaded the ones before by now: a step has barriers.
    """
    tl.store(ends + row * 4, lo)
    tl.store(ends + row * 4 + 1, hi)
    tl.store(ends + row * 4 + 2, n_logged)


@triton.jit(do_not_specialize=["N", "room", "width"])
def begin_rows(strengths, s, ids, ends, N, room, width, CELLS: tl.constexpr):
    """Lay out the initial cells, strengths [R, N]; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    below = width - room
    _begin(strengths, row, N, below, s + row * width, ids + row * width, CELLS)
    store_ends(ends, row, below, below + N, 0)


@triton.jit(do_not_specialize=["t", "R", "room", "width", "stride", "memories"])
def step_rows(
    t, gates, pushed, initial, table, s, ids, ends, log_ids, log_strengths, dropped, trimmed_from,
    R, D, room, width, stride, memories, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Time step t of the first rows; grid (rows,). gates [T, R, 2*E]: the pushes, then the pops.

    The reads of memory m of sequence b go to the E*D numbers at table[b * stride + m * E*D].
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    row = tl.program_id(0).to(tl.int64)
    at = row + (row * 0 + t) * R
    columns = tl.arange(0, BLOCK)
    vectors = pushed, initial, D, columns, columns < D
    out = table + (row // memories) * stride + (row % memories) * E * D
    cells = s + row * width, ids + row * width, log_ids + row * room, log_strengths + row * room
    lo, hi, n_logged = step(
        KIND, t == 0, at, gates + at * 2 * E, gates + at * 2 * E + E, vectors, out, cells,
        load_ends(ends, row), dropped, trimmed_from, BLOCK,
    )  # fmt: skip
    store_ends(ends, row, lo, hi, n_logged)


@triton.jit(do_not_specialize=["room", "width"])
def finish_rows(
    s, ids, ends, log_ids, log_strengths, final_strengths, final_ids, counts, room, width,
    CELLS: tl.constexpr,
):  # fmt: skip
    """Write down the final cells, and zeros where the log is not in use; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    cells = s + row * width, ids + row * width, log_ids + row * room, log_strengths + row * room
    final = final_strengths, final_ids, counts
    _finish(cells, load_ends(ends, row), final, row, room, CELLS)


@triton.jit
def _begin_backward(final, dropped, grad_final, row, T, R, room, below, s, g, ids,
                    CELLS: tl.constexpr):  # fmt: skip
    """Lay out the final cells and the gradients [R, room] of their strengths from position `below`
    of this row upwards; lo, hi and n_logged.
    """
    final_strengths, final_ids, counts = final
    n = tl.load(counts + row).to(tl.int32)
    for start in range(0, n, CELLS):
        j = start + tl.arange(0, CELLS)
        there = j < n
        source = row * room + j
        tl.store(s + below + j, tl.load(final_strengths + source, mask=there), mask=there)
        tl.store(g + below + j, tl.load(grad_final + source, mask=there), mask=there)
        tl.store(ids + below + j, tl.load(final_ids + source, mask=there), mask=there)
    n_logged = n * 0
    for start in range(0, T, CELLS):
        t = start + tl.arange(0, CELLS)
        at = (t.to(tl.int64) * R + row) * 2
        top = tl.load(dropped + at, mask=t < T, other=0)
        bottom = tl.load(dropped + at + 1, mask=t < T, other=0)
        n_logged += tl.sum(top + bottom).to(tl.int32)
    tl.debug_barrier()
    return below, below + n, n_logged


@triton.jit
def _add_to_row(grads, row_id, weight, x, vectors):
    _, _, D, columns, inside = vectors
    row = _value_row(grads[0], grads[1], row_id, D) + columns
    tl.store(row, tl.load(row, mask=inside, other=0.0) + weight * x, mask=inside)


@triton.jit
def _product(grad, row_id, vectors):
    pushed, initial, D, columns, inside = vectors
    row = _value_row(pushed, initial, row_id, D) + columns
    return tl.sum(grad * tl.load(row, mask=inside, other=0.0).to(grad.dtype))


@triton.jit
def _read_backward(END: tl.constexpr, grad, s, g, ids, lo, hi, vectors, value_grads):
    """Cells read in full gain <grad, v>, less <grad, v_last> of the cell that the window cut."""
    n = hi - lo
    rest = tl.full([], 1.0, s.dtype.element_ty)
    in_full = 0
    x = tl.load(s + _position(END, lo, hi, 0), mask=n > 0, other=0.0)
    while (in_full < n) & (x <= rest):
        rest -= x
        in_full += 1
        x = tl.load(s + _position(END, lo, hi, in_full), mask=in_full < n, other=0.0)
    cut = rest * 0
    if (in_full < n) & (rest > 0):
        row_id = tl.load(ids + _position(END, lo, hi, in_full))
        cut = _product(grad, row_id, vectors)
        _add_to_row(value_grads, row_id, rest, grad, vectors)
    for k in range(in_full):
        i = _position(END, lo, hi, k)
        row_id = tl.load(ids + i)
        weight = tl.load(s + i)
        product = _product(grad, row_id, vectors)
        gained = tl.load(g + i) + (product - cut)
        tl.debug_barrier()
        tl.store(g + i, gained)
        _add_to_row(value_grads, row_id, weight, grad, vectors)
    # A cell just pushed at the far end with strength 0 is read in full (0 <= 0) beyond the window.
    if in_full < n:
        far = _position(END, lo, hi, n - 1)
        if tl.load(s + far) == 0:
            row_id = tl.load(ids + far)
            gained = tl.load(g + far) + _product(grad, row_id, vectors)
            tl.debug_barrier()
            tl.store(g + far, gained)
    tl.debug_barrier()


@triton.jit
def _undo_pop(END: tl.constexpr, KIND: tl.constexpr, n_dropped, trimmed_from, cells, g, ends):
    """Undo a pop: the ends before it, and with `g` the gradient of the popped amount."""
    s, ids, log_ids, log_strengths = cells
    lo, hi, n_logged = ends
    i = _position(END, lo, hi, 0)
    trims = trimmed_from >= 0
    inherited = 0.0
    if g is not None:
        inherited = tl.load(g + i, mask=trims, other=0.0)
        tl.debug_barrier()
    tl.store(s + i, trimmed_from, mask=trims)
    for _ in range(n_dropped):
        n_logged -= 1
        if END == TOP:
            hi += 1
        else:
            lo -= 1
        i = _position(END, lo, hi, 0)
        x = tl.load(log_strengths + n_logged)
        tl.store(s + i, x)
        tl.store(ids + i, tl.load(log_ids + n_logged))
        if g is not None:
            if (KIND == DEQUE) and (END == BOTTOM):
                # The top was popped first, and that already cut off the gradient of a cell without
                # strength: max(0, 0 - ...) is constant.
                tl.store(g + i, tl.where(x == 0, 0.0, inherited))
            else:
                tl.store(g + i, inherited)
    if g is not None:
        tl.debug_barrier()
    return (lo, hi, n_logged), -inherited


@triton.jit
def undo_pops(KIND: tl.constexpr, at, cells, g, ends, dropped, trimmed_from, grad_pop):
    """Undo the pops of a step, last first: a queue's sweep of its top, the bottom, the top; returns
    the ends before them. The gradients of what was popped go to `grad_pop`, unless `g` is None.
    """
    n_top = tl.load(dropped + at * 2).to(tl.int32)
    n_bottom = tl.load(dropped + at * 2 + 1).to(tl.int32)
    from_top = tl.load(trimmed_from + at * 2)
    from_bottom = tl.load(trimmed_from + at * 2 + 1)
    if KIND == QUEUE:
        ends, _ = _undo_pop(TOP, KIND, n_top, from_top, cells, g, ends)
    if KIND != STACK:
        ends, grad_amount = _undo_pop(BOTTOM, KIND, n_bottom, from_bottom, cells, g, ends)
        if g is not None:
            tl.store(grad_pop + (1 if KIND == DEQUE else 0), grad_amount)
    if KIND != QUEUE:
        ends, grad_amount = _undo_pop(TOP, KIND, n_top, from_top, cells, g, ends)
        if g is not None:
            tl.store(grad_pop, grad_amount)
    return ends


@triton.jit
def step_backward(
    KIND: tl.constexpr, at, vectors, grad_read, cells, g, ends, dropped, trimmed_from, value_grads,
    grad_push, grad_pop,
):  # fmt: skip
    """Undo `step`: returns the ends before it.

    Args:
        grad_read: where the gradients of this row's reads at this step are, E*D numbers.
        value_grads: `grad_pushed` and `grad_initial`, added to.
        grad_push, grad_pop: where the gradients of its E pushes and E pops go.

    The rows of `grad_pushed` that this step pushed are final after it.
    """
    s, ids, _, _ = cells
    _, _, D, columns, inside = vectors
    lo, hi, n_logged = ends
    near_end: tl.constexpr = BOTTOM if KIND == QUEUE else TOP
    grad = tl.load(grad_read + columns, mask=inside, other=0.0).to(s.dtype.element_ty)
    _read_backward(near_end, grad, s, g, ids, lo, hi, vectors, value_grads)
    if KIND == DEQUE:
        grad = tl.load(grad_read + D + columns, mask=inside, other=0.0).to(s.dtype.element_ty)
        _read_backward(BOTTOM, grad, s, g, ids, lo, hi, vectors, value_grads)
        tl.store(grad_push + 1, tl.load(g + lo))
        lo += 1
    hi -= 1
    tl.store(grad_push, tl.load(g + hi))
    ends = lo, hi, n_logged
    return undo_pops(KIND, at, cells, g, ends, dropped, trimmed_from, grad_pop)


@triton.jit
def _finish_backward(g, ids, lo, hi, grad_strengths, CELLS: tl.constexpr):
    """The gradients of this row's initial strengths; grad_strengths [R*N] has zeros before."""
    for start in range(lo, hi, CELLS):
        i = start + tl.arange(0, CELLS)
        row_id = tl.load(ids + i, mask=i < hi, other=-1)
        gradient = tl.load(g + i, mask=i < hi, other=0.0)
        tl.store(grad_strengths + (-1 - row_id), gradient, mask=i < hi)


@triton.jit(do_not_specialize=["T", "R", "room", "width"])
def walk_backward(
    pushed, initial, final_strengths, final_ids, counts, log_ids, log_strengths, dropped,
    trimmed_from, grad_reads, grad_final, s, g, ids, grad_pushed, grad_push, grad_pop,
    grad_initial, grad_strengths, T, R, D, room, width, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of what `walk_forward` was given; grid (R,).

    grad_pushed, grad_initial and grad_strengths have zeros before; s, g and ids are scratch.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    vectors = pushed, initial, D, columns, columns < D
    s += row * width
    g += row * width
    ids += row * width
    cells = s, ids, log_ids + row * room, log_strengths + row * room
    final = final_strengths, final_ids, counts
    ends = _begin_backward(
        final, dropped, grad_final, row, T, R, room, width - room, s, g, ids, cells_block(BLOCK)
    )
    at = row + (row * 0 + T) * R
    for _ in range(T):
        at -= R
        ends = step_backward(
            KIND, at, vectors, grad_reads + at * E * D, cells, g, ends, dropped, trimmed_from,
            (grad_pushed, grad_initial), grad_push + at * E, grad_pop + at * E,
        )  # fmt: skip
    lo, hi, _ = ends
    _finish_backward(g, ids, lo, hi, grad_strengths, cells_block(BLOCK))


@triton.jit(do_not_specialize=["T", "R", "room", "width"])
def begin_rows_backward(
    final_strengths, final_ids, counts, dropped, grad_final, s, g, ids, ends, T, R, room, width,
    CELLS: tl.constexpr,
):  # fmt: skip
    """Lay out the final cells and the gradients [R, room] of their strengths; grid (R,).

    `dropped` of steps that a row does not have must be 0.
    """
    row = tl.program_id(0).to(tl.int64)
    lo, hi, n_logged = _begin_backward(
        (final_strengths, final_ids, counts), dropped, grad_final, row, T, R, room, width - room,
        s + row * width, g + row * width, ids + row * width, CELLS,
    )  # fmt: skip
    store_ends(ends, row, lo, hi, n_logged)


@triton.jit(do_not_specialize=["width"])
def finish_rows_backward(g, ids, ends, grad_strengths, width, CELLS: tl.constexpr):
    """The gradients of the initial strengths, [R*N], zeros before; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    lo, hi, _ = load_ends(ends, row)
    _finish_backward(g + row * width, ids + row * width, lo, hi, grad_strengths, CELLS)
