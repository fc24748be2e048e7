"""CPU kernels of memories that mix their cells (`memory/mixing.py`): one step, and back.

Rows are worked on one by one. A row's written cells (its cells with the value among them) are laid
out between empty ones in a room that stays in the cache, so that every move is a shifted view of
them and the mixture is one loop.
"""

from typing import Any, NamedTuple

import numpy as np

from pushpop.compiled import compiled

EMPTY = 2
"""Empty cells that are laid out at both ends: the farthest that a move may look."""

Array = np.ndarray[Any, Any]

# Sums of products may be reordered, so that they vectorise.
_jit = compiled(allocates=False, error_model="numpy", fastmath={"reassoc", "contract"})


class Step(NamedTuple):
    """What one step works on: R rows, row b * memories + m for memory m of sequence b.

    There are N cells before and more after it, as long as a row is. Places count cells.
    """

    memories: int
    inserts: int  # 1: the value goes in front of all cells; 0: over the one at `written`
    written: int  # the place of the value among the written cells
    read: int  # the place of the read among the cells afterwards
    shifts: tuple[int, int, int]  # move k has written cell i + shifts[k] go to place i
    gates: Array  # [R, 3], how much of each move
    values: Array  # [R, D]
    before: Array  # [R, N D]
    room: Array  # [cells and empty ones, D], flat


@_jit
def _lay_out(cells, room, D):
    """The cells between empty ones; those that were there before are overwritten."""
    n, empty = cells.size, EMPTY * D
    start, kept, end = room[:empty], room[empty:][:n], room[empty + n :][:empty]
    for k in range(empty):
        start[k] = 0
    for k in range(n):
        kept[k] = cells[k]
    for k in range(empty):
        end[k] = 0


@_jit
def _lay_out_written(x, r):
    """The written cells of a row between empty ones."""
    value, room = x.values[r], x.room
    D = value.size
    _lay_out(x.before[r], room[x.inserts * D :], D)
    if x.inserts:
        for k in range(EMPTY * D):
            room[k] = 0
    written = room[(EMPTY + x.written) * D :]
    for k in range(D):
        written[k] = value[k]


@_jit
def _mixed(a, b, c, room, first, second, third, out):
    """out = a, b and c times what lies in the room from three places on."""
    n = out.size
    at_a, at_b, at_c = room[first:][:n], room[second:][:n], room[third:][:n]
    for k in range(n):
        out[k] = a * at_a[k] + b * at_b[k] + c * at_c[k]


@_jit
def move(rows, step, after, table, offset):
    """One step of the first rows: `after` [R, N' D] takes the cells, `table` [B, S] the reads, from
    a column on."""
    x = Step(*step)
    D, (i, j, k) = x.values.shape[1], x.shifts
    for r in range(rows):
        _lay_out_written(x, r)
        a, cells = x.gates[r], after[r]
        places = ((EMPTY + i) * D, (EMPTY + j) * D, (EMPTY + k) * D)
        _mixed(a[0], a[1], a[2], x.room, places[0], places[1], places[2], cells)
        read = table[r // x.memories, offset + r % x.memories * D :]
        cell = cells[x.read * D :]
        for d in range(D):
            read[d] = cell[d]


@_jit
def _dot(x, y):
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@_jit
def move_backward(rows, step, n_after, d_cells, d_room, d_table, offset, d_gates, d_values):
    """Undo one step of the first rows.

    A row of `d_cells` begins with the gradients of its cells after the step, n_after numbers, and
    then with those of its cells before it. `d_table` [B, S] has the gradients of the reads.
    """
    x = Step(*step)
    D, n, (i, j, k) = x.values.shape[1], x.before.shape[1], x.shifts
    n_written = n + x.inserts * D
    for r in range(rows):
        d_after = d_cells[r, :n_after]
        read = d_table[r // x.memories, offset + r % x.memories * D :]
        d_read = d_after[x.read * D :]
        for d in range(D):
            d_read[d] += read[d]
        _lay_out_written(x, r)
        d_gates[r, 0] = _dot(d_after, x.room[(EMPTY + i) * D :])
        d_gates[r, 1] = _dot(d_after, x.room[(EMPTY + j) * D :])
        d_gates[r, 2] = _dot(d_after, x.room[(EMPTY + k) * D :])
        # What a move brought from place + shift goes back there.
        _lay_out(d_after, d_room, D)
        a, d_written = x.gates[r], x.room[:n_written]
        places = ((EMPTY - i) * D, (EMPTY - j) * D, (EMPTY - k) * D)
        _mixed(a[0], a[1], a[2], d_room, places[0], places[1], places[2], d_written)
        d_value, at_value = d_values[r], d_written[x.written * D :]
        for d in range(D):
            d_value[d] = at_value[d]
        if not x.inserts:  # what was overwritten had no effect
            for d in range(D):
                at_value[d] = 0
        d_before, kept = d_cells[r, :n], d_written[x.inserts * D :]
        for d in range(n):
            d_before[d] = kept[d]
