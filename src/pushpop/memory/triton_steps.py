"""The Triton walk a time step a launch, for layers whose gates depend on the reads.

The order of launches is that of the CPU's `walker.py`: `begin_rows`, a `step_rows` for each t,
`finish_rows`; then `begin_rows_backward`, a step backward for each t from the last to the first,
`finish_rows_backward`. A layer has work of its own around the memory's steps, so it calls
`triton_walk.step` and `triton_walk_backward.step_backward` from kernels of its own
(`layers/triton_controls.py`), as `step_rows` does: `load_ends`, the step, `store_ends`.

Between launches the ends of row r are in `ends` [R, 4], int32: lo, hi, n_logged, nothing. A layer
with several memories a sequence has R = B * memories rows, row b * memories + m for memory m of
sequence b. Sequences are sorted by length, so step t concerns the first rows: their number is the
grid. Kernels that only copy cells take CELLS of them at once, 64 with one warp.
"""

import triton
import triton.language as tl

from pushpop.memory.triton_walk import DEQUE, begin, finish, step
from pushpop.memory.triton_walk_backward import begin_backward, finish_backward


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
    """Write down `kernels.FinalCells`, and zeros where the log is not in use; grid (R,)."""
    row = tl.program_id(0).to(tl.int64)
    lo, hi, n_logged = load_ends(ends, row)
    finish(
        s + row * width, ids + row * width, lo, hi, n_logged,
        log_ids + row * room, log_strengths + row * room, final_strengths, final_ids, counts, row,
        room, CELLS,
    )  # fmt: skip


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
