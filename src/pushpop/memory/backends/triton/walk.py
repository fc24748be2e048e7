"""The walk over live cells as Triton kernels: what `fused/walk.py` does on the CPU, on a GPU.

A program is a row of memory and holds all D numbers of a value; rows do not know of each other. The
functions here are one time step of one row, and what comes before the first and after the last.
`walk_forward` makes all steps of a sequence in one launch.

For layers whose gates depend on the reads, and for streams, there is also a launch a step, in the
order of the CPU's: `begin_rows`, a `step_rows` for each t, `finish_rows`; then, in
`walk_backward.py`, `begin_rows_backward`, a step backward for each t from the last to the first,
`finish_rows_backward`. A layer has work of its own around the memory's steps, so it calls `step`
and `step_backward` from kernels of its own (`layers/backends/triton/kernels.py`), as `step_rows`
does: `load_ends`, the step, `store_ends`. Between launches the ends of row r are in `ends` [R, 4],
int32: lo, hi, n_logged, nothing. Kernels that only copy cells take CELLS of them at once, 64 with
one warp.

What a row has, in buffers of R rows (pointers that a function gets point at the row):

- `s`, `ids` [R, width]: strengths and row ids of the live cells at positions lo .. hi - 1, as
  `fused.walk.LiveCells`; width is room, for a deque plus T, and room = N + T*E;
- `log_ids`, `log_strengths` [R, room], `dropped`, `trimmed_from` [T*R, 2]: `fused.walk.PopLog`.

Row ids are int64: id r >= 0 is row r of `pushed` [T*R*E, D], id ~r that of `initial` [R*N, D].
Strengths are float32 or float64 and the sums have their dtype; values may be narrower.

One thread stores a scalar and all threads load it. So between a load and a store of the same place
there is a barrier, in either order: with several warps, one may be ahead of the others.
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
def position(END: tl.constexpr, lo, hi, k):
    """Where the k-th cell from an end is."""
    return hi - 1 - k if END == TOP else lo + k


@triton.jit
def value_row(pushed, initial, row_id, D):
    """The pointer to a cell's value (or to the gradient of it)."""
    return tl.where(row_id >= 0, pushed + row_id * D, initial + (-1 - row_id) * D)


@triton.jit
def begin(strengths, row, N, below, s, ids, CELLS: tl.constexpr):
    """Lay out the initial cells, strengths [R, N], from position `below` of this row upwards."""
    for start in range(0, N, CELLS):
        n = start + tl.arange(0, CELLS)
        there = n < N
        tl.store(s + below + n, tl.load(strengths + row * N + n, mask=there), mask=there)
        tl.store(ids + below + n, -1 - (row * N + n), mask=there)
    tl.debug_barrier()


@triton.jit
def _pop(END: tl.constexpr, amount, s, ids, lo, hi, n_logged, log_ids, log_strengths):
    """Pop `amount`; the ends after it, how many cells it dropped, and the trimmed cell's strength
    before it, or -1.
    """
    rest = amount
    logged_before = n_logged
    x = tl.load(s + position(END, lo, hi, 0), mask=lo < hi, other=0.0)
    while (lo < hi) & (x <= rest):
        rest -= x
        tl.store(log_ids + n_logged, tl.load(ids + position(END, lo, hi, 0)))
        tl.store(log_strengths + n_logged, x)
        n_logged += 1
        if END == TOP:
            hi -= 1
        else:
            lo += 1
        x = tl.load(s + position(END, lo, hi, 0), mask=lo < hi, other=0.0)
    trims = (lo < hi) & (rest > 0)
    tl.debug_barrier()
    tl.store(s + position(END, lo, hi, 0), x - rest, mask=trims)
    tl.debug_barrier()
    return lo, hi, n_logged, n_logged - logged_before, tl.where(trims, x, -1.0)


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
def _read(END: tl.constexpr, s, ids, lo, hi, pushed, initial, D, columns, nan_flag):
    """The values inside the unit window at an end, weighted."""
    total = tl.zeros_like(columns).to(s.dtype.element_ty) + nan_flag
    rest = tl.full([], 1.0, s.dtype.element_ty)
    k = 0
    while (k < hi - lo) & (rest > 0):
        i = position(END, lo, hi, k)
        x = tl.load(s + i)
        weight = tl.where(x <= rest, x, rest)
        row = value_row(pushed, initial, tl.load(ids + i), D)
        v = tl.load(row + columns, mask=columns < tl.where(weight > 0, D, 0), other=0.0)
        total += weight * v.to(s.dtype.element_ty)
        rest -= x
        k += 1
    return total


@triton.jit
def step(
    KIND: tl.constexpr, is_first, at, push, pop, pushed, initial, out, s, ids, lo, hi, n_logged,
    log_ids, log_strengths, dropped, trimmed_from, D, columns, inside, BLOCK: tl.constexpr,
):  # fmt: skip
    """One time step of one row: pop, push, read; returns lo, hi and n_logged after it.

    Args:
        is_first: whether this is step 0, which removes initial cells without strength.
        at: t * R + r, int64.
        push, pop: where the E pushes and the E pops of this step and row are.
        pushed, initial: all values.
        out: where the reads go, E*D numbers.
        s, ids, log_ids, log_strengths: this row's; dropped, trimmed_from: those of all.
        columns, inside: 0 .. BLOCK - 1, and which of them are less than D.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    push_0 = tl.load(push)
    pop_0 = tl.load(pop)
    zero = tl.full([], 0.0, s.dtype.element_ty)
    push_1 = zero
    pop_1 = zero
    if KIND == DEQUE:
        push_1 = tl.load(push + 1)
        pop_1 = tl.load(pop + 1)
    # NaN compares as false everywhere and would be walked over in silence; see kernels.find_nan.
    total = push_0 + push_1 + pop_0 + pop_1
    total += tl.load(s + lo, mask=lo < hi, other=0.0)
    total += tl.load(s + hi - 1, mask=lo < hi, other=0.0)
    nan_flag = tl.where(total != total, total, 0.0)

    n_top = n_logged * 0
    n_bottom = n_logged * 0
    from_top = zero - 1
    from_bottom = zero - 1
    if KIND == QUEUE:  # the idle top is popped by 0: see kernels.pop_ends
        lo, hi, n_logged, n_bottom, from_bottom = _pop(
            BOTTOM, pop_0, s, ids, lo, hi, n_logged, log_ids, log_strengths
        )
        lo, hi, n_logged, n_top, from_top = _pop(
            TOP, zero, s, ids, lo, hi, n_logged, log_ids, log_strengths
        )
    else:
        lo, hi, n_logged, n_top, from_top = _pop(
            TOP, pop_0, s, ids, lo, hi, n_logged, log_ids, log_strengths
        )
        if KIND == DEQUE:
            lo, hi, n_logged, n_bottom, from_bottom = _pop(
                BOTTOM, pop_1, s, ids, lo, hi, n_logged, log_ids, log_strengths
            )
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

    if KIND == QUEUE:
        read = _read(BOTTOM, s, ids, lo, hi, pushed, initial, D, columns, nan_flag)
    else:
        read = _read(TOP, s, ids, lo, hi, pushed, initial, D, columns, nan_flag)
    tl.store(out + columns, read, mask=inside)
    if KIND == DEQUE:
        read = _read(BOTTOM, s, ids, lo, hi, pushed, initial, D, columns, nan_flag)
        tl.store(out + D + columns, read, mask=inside)
    tl.debug_barrier()
    return lo, hi, n_logged


@triton.jit
def finish(
    s, ids, lo, hi, n_logged, log_ids, log_strengths, final_strengths, final_ids, counts, row,
    room, CELLS: tl.constexpr,
):  # fmt: skip
    """Write down this row of `fused.walk.FinalCells`, and zeros where its log is not in use."""
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
    inside = columns < D
    s += row * width
    ids += row * width
    log_ids += row * room
    log_strengths += row * room
    lo = width - room  # where a deque leaves space for what is pushed at its bottom
    hi = lo + N
    n_logged = lo * 0
    begin(strengths, row, N, lo, s, ids, cells_block(BLOCK))
    at = row
    for t in range(T):
        lo, hi, n_logged = step(
            KIND, t == 0, at, push + at * E, pop + at * E, pushed, initial, reads + at * E * D,
            s, ids, lo, hi, n_logged, log_ids, log_strengths, dropped, trimmed_from,
            D, columns, inside, BLOCK,
        )  # fmt: skip
        at += R
    finish(
        s, ids, lo, hi, n_logged, log_ids, log_strengths, final_strengths, final_ids, counts, row,
        room, cells_block(BLOCK),
    )  # fmt: skip


@triton.jit
def load_ends(ends, row):
    """lo, hi and n_logged of a row."""
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
    begin(strengths, row, N, below, s + row * width, ids + row * width, CELLS)
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
    out = table + (row // memories) * stride + (row % memories) * E * D
    lo, hi, n_logged = load_ends(ends, row)
    lo, hi, n_logged = step(
        KIND, t == 0, at, gates + at * 2 * E, gates + at * 2 * E + E, pushed, initial, out,
        s + row * width, ids + row * width, lo, hi, n_logged,
        log_ids + row * room, log_strengths + row * room, dropped, trimmed_from,
        D, columns, columns < D, BLOCK,
    )  # fmt: skip
    store_ends(ends, row, lo, hi, n_logged)


@triton.jit(do_not_specialize=["room", "width"])
def finish_rows(
    s, ids, ends, log_ids, log_strengths, final_strengths, final_ids, counts, room, width,
    CELLS: tl.constexpr,
):  # fmt: skip
    """Write down `fused.walk.FinalCells`, and zeros where the log is not in use; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    lo, hi, n_logged = load_ends(ends, row)
    finish(
        s + row * width, ids + row * width, lo, hi, n_logged,
        log_ids + row * room, log_strengths + row * room, final_strengths, final_ids, counts, row,
        room, CELLS,
    )  # fmt: skip
