"""The backward pass of `walk.py`: steps undone from the last to the first, as
`fused/walk_backward.py` does it on the CPU.

Beside what the walk has, a row has `g` [R, width], the gradients that its cells' strengths have
collected so far. Here width is room for a stack and twice that for the others: undoing the pops of
a bottom puts cells back below the lowest one left.

`grad_pushed` and `grad_initial` are sums over steps, so they have the dtype of the strengths, and
zeros before the first step. Each number of them belongs to one program, which adds to it in the
order of the steps: the result is the same every time.
"""

import triton
import triton.language as tl

from pushpop.memory.backends.triton.walk import (
    BOTTOM,
    DEQUE,
    QUEUE,
    STACK,
    TOP,
    cells_block,
    load_ends,
    position,
    store_ends,
    value_row,
)


@triton.jit
def begin_backward(
    final_strengths, final_ids, counts, dropped, grad_final, row, T, R, room, below, s, g, ids,
    CELLS: tl.constexpr,
):  # fmt: skip
    """Lay out the final cells and the gradients [R, room] of their strengths from position `below`
    of this row upwards; lo, hi and n_logged.
    """
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
def _add_to_row(pushed, initial, row_id, D, weight, x, columns, inside):
    row = value_row(pushed, initial, row_id, D) + columns
    tl.store(row, tl.load(row, mask=inside, other=0.0) + weight * x, mask=inside)


@triton.jit
def _product(grad, pushed, initial, row_id, D, columns, inside):
    row = value_row(pushed, initial, row_id, D) + columns
    return tl.sum(grad * tl.load(row, mask=inside, other=0.0).to(grad.dtype))


@triton.jit
def _read_backward(
    END: tl.constexpr, grad, s, g, ids, lo, hi, pushed, initial, grad_pushed, grad_initial,
    D, columns, inside,
):  # fmt: skip
    """Cells read in full gain <grad, v>, less <grad, v_last> of the cell that the window cut."""
    n = hi - lo
    rest = tl.full([], 1.0, s.dtype.element_ty)
    in_full = 0
    x = tl.load(s + position(END, lo, hi, 0), mask=n > 0, other=0.0)
    while (in_full < n) & (x <= rest):
        rest -= x
        in_full += 1
        x = tl.load(s + position(END, lo, hi, in_full), mask=in_full < n, other=0.0)
    cut = rest * 0
    if (in_full < n) & (rest > 0):
        row_id = tl.load(ids + position(END, lo, hi, in_full))
        cut = _product(grad, pushed, initial, row_id, D, columns, inside)
        _add_to_row(grad_pushed, grad_initial, row_id, D, rest, grad, columns, inside)
    for k in range(in_full):
        i = position(END, lo, hi, k)
        row_id = tl.load(ids + i)
        weight = tl.load(s + i)
        product = _product(grad, pushed, initial, row_id, D, columns, inside)
        gained = tl.load(g + i) + (product - cut)
        tl.debug_barrier()
        tl.store(g + i, gained)
        _add_to_row(grad_pushed, grad_initial, row_id, D, weight, grad, columns, inside)
    # A cell just pushed at the far end with strength 0 is read in full (0 <= 0) beyond the window.
    if in_full < n:
        far = position(END, lo, hi, n - 1)
        if tl.load(s + far) == 0:
            row_id = tl.load(ids + far)
            gained = tl.load(g + far) + _product(grad, pushed, initial, row_id, D, columns, inside)
            tl.debug_barrier()
            tl.store(g + far, gained)
    tl.debug_barrier()


@triton.jit
def _pop_backward(
    END: tl.constexpr, KIND: tl.constexpr, n_dropped, trimmed_from, s, g, ids, lo, hi, n_logged,
    log_ids, log_strengths,
):  # fmt: skip
    """Undo a pop: the ends before it, and the gradient of the popped amount."""
    i = position(END, lo, hi, 0)
    trims = trimmed_from >= 0
    inherited = tl.load(g + i, mask=trims, other=0.0)
    tl.debug_barrier()
    tl.store(s + i, trimmed_from, mask=trims)
    for _ in range(n_dropped):
        n_logged -= 1
        if END == TOP:
            hi += 1
        else:
            lo -= 1
        i = position(END, lo, hi, 0)
        x = tl.load(log_strengths + n_logged)
        tl.store(s + i, x)
        tl.store(ids + i, tl.load(log_ids + n_logged))
        if (KIND == DEQUE) and (END == BOTTOM):
            # The top was popped first, and that already cut off the gradient of a cell without
            # strength: max(0, 0 - ...) is constant.
            tl.store(g + i, tl.where(x == 0, 0.0, inherited))
        else:
            tl.store(g + i, inherited)
    tl.debug_barrier()
    return lo, hi, n_logged, -inherited


@triton.jit
def step_backward(
    KIND: tl.constexpr, at, pushed, initial, grad_read, s, g, ids, lo, hi, n_logged,
    log_ids, log_strengths, dropped, trimmed_from, grad_pushed, grad_push, grad_pop, grad_initial,
    D, columns, inside,
):  # fmt: skip
    """Undo `walk.step`: returns lo, hi and n_logged before it.

    Args:
        grad_read: where the gradients of this row's reads at this step are, E*D numbers.
        grad_push, grad_pop: where the gradients of its E pushes and E pops go.
        grad_pushed, grad_initial: the gradients of all values, added to.
        s, g, ids, log_ids, log_strengths: this row's; dropped, trimmed_from: those of all.

    The rows of `grad_pushed` that this step pushed are final after it.
    """
    grad = tl.load(grad_read + columns, mask=inside, other=0.0).to(s.dtype.element_ty)
    if KIND == QUEUE:
        _read_backward(
            BOTTOM, grad, s, g, ids, lo, hi, pushed, initial, grad_pushed, grad_initial,
            D, columns, inside,
        )  # fmt: skip
    else:
        _read_backward(
            TOP, grad, s, g, ids, lo, hi, pushed, initial, grad_pushed, grad_initial,
            D, columns, inside,
        )  # fmt: skip
    if KIND == DEQUE:
        grad = tl.load(grad_read + D + columns, mask=inside, other=0.0).to(s.dtype.element_ty)
        _read_backward(
            BOTTOM, grad, s, g, ids, lo, hi, pushed, initial, grad_pushed, grad_initial,
            D, columns, inside,
        )  # fmt: skip
        tl.store(grad_push + 1, tl.load(g + lo))
        lo += 1
    hi -= 1
    tl.store(grad_push, tl.load(g + hi))
    n_top = tl.load(dropped + at * 2).to(tl.int32)
    n_bottom = tl.load(dropped + at * 2 + 1).to(tl.int32)
    from_top = tl.load(trimmed_from + at * 2)
    from_bottom = tl.load(trimmed_from + at * 2 + 1)
    # The pops, last first: a queue's sweep of its top, the bottom, the top.
    if KIND == QUEUE:
        lo, hi, n_logged, _ = _pop_backward(
            TOP, KIND, n_top, from_top, s, g, ids, lo, hi, n_logged, log_ids, log_strengths
        )
    if KIND != STACK:
        lo, hi, n_logged, grad_amount = _pop_backward(
            BOTTOM, KIND, n_bottom, from_bottom, s, g, ids, lo, hi, n_logged, log_ids,
            log_strengths,
        )  # fmt: skip
        tl.store(grad_pop + (1 if KIND == DEQUE else 0), grad_amount)
    if KIND != QUEUE:
        lo, hi, n_logged, grad_amount = _pop_backward(
            TOP, KIND, n_top, from_top, s, g, ids, lo, hi, n_logged, log_ids, log_strengths
        )
        tl.store(grad_pop, grad_amount)
    return lo, hi, n_logged


@triton.jit
def finish_backward(g, ids, lo, hi, grad_strengths, CELLS: tl.constexpr):
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
    """The gradients of what `walk.walk_forward` was given; grid (R,).

    grad_pushed, grad_initial and grad_strengths have zeros before; s, g and ids are scratch.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    s += row * width
    g += row * width
    ids += row * width
    log_ids += row * room
    log_strengths += row * room
    lo, hi, n_logged = begin_backward(
        final_strengths, final_ids, counts, dropped, grad_final, row, T, R, room, width - room,
        s, g, ids, cells_block(BLOCK),
    )  # fmt: skip
    at = row + (row * 0 + T) * R
    for _ in range(T):
        at -= R
        lo, hi, n_logged = step_backward(
            KIND, at, pushed, initial, grad_reads + at * E * D, s, g, ids, lo, hi, n_logged,
            log_ids, log_strengths, dropped, trimmed_from, grad_pushed,
            grad_push + at * E, grad_pop + at * E, grad_initial, D, columns, inside,
        )  # fmt: skip
    finish_backward(g, ids, lo, hi, grad_strengths, cells_block(BLOCK))


@triton.jit(do_not_specialize=["T", "R", "room", "width"])
def begin_rows_backward(
    final_strengths, final_ids, counts, dropped, grad_final, s, g, ids, ends, T, R, room, width,
    CELLS: tl.constexpr,
):  # fmt: skip
    """Lay out the final cells and the gradients [R, room] of their strengths; grid (R,).

    `dropped` of steps that a row does not have must be 0.
    """
    row = tl.program_id(0).to(tl.int64)
    lo, hi, n_logged = begin_backward(
        final_strengths, final_ids, counts, dropped, grad_final, row, T, R, room, width - room,
        s + row * width, g + row * width, ids + row * width, CELLS,
    )  # fmt: skip
    store_ends(ends, row, lo, hi, n_logged)


@triton.jit(do_not_specialize=["width"])
def finish_rows_backward(g, ids, ends, grad_strengths, width, CELLS: tl.constexpr):
    """The gradients of the initial strengths, [R*N], zeros before; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    lo, hi, _ = load_ends(ends, row)
    finish_backward(g + row * width, ids + row * width, lo, hi, grad_strengths, CELLS)
