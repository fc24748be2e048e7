"""Triton kernels for the memory's part of a recurrent step: the functions of values and gates, and
the step of the walk that they control (`memory/triton_walk.py`), in one launch.

A program is one row of memory, b * M + m for memory m of sequence b: grid (sequences that go on *
M,). `raw` [B, W] has the values and gates of a sequence before their functions and biases, of all
its memories: M*E*D numbers and then M*2*E. The rest is as in `memory/triton_steps.py`.
"""

import triton
import triton.language as tl

from pushpop.layers.triton_cells import sigmoid, tanh
from pushpop.memory.triton_steps import load_ends, store_ends
from pushpop.memory.triton_walk import DEQUE, step
from pushpop.memory.triton_walk_backward import step_backward


@triton.jit(do_not_specialize=["t", "T", "R", "M", "room", "width"])
def memory_forward(
    t, raw, value_bias, gate_bias, gates, values, initial, carry, prev_carry, s, ids, ends,
    log_ids, log_strengths, dropped, trimmed_from, T, R, M, H, S, W, D, room, width,
    NOISE: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Step t: values[t] and gates[t] from `raw`, then pop, push and read; the reads go to
    carry[:, H:] and prev_carry[t + 1, :, H:]. With NOISE, gates[t] holds what is added to them.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    row = tl.program_id(0).to(tl.int64)
    b = row // M
    m = row - b * M
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    at = row + (row * 0 + t) * R
    first = m * E * D
    for e in tl.static_range(E):
        column = first + e * D + columns
        x = tl.load(raw + b * W + column, mask=inside, other=0.0)
        x += tl.load(value_bias + column, mask=inside, other=0.0)
        tl.store(values + (at * E + e) * D + columns, tanh(x), mask=inside)
    gate = tl.arange(0, 2 * E)
    x = tl.load(raw + b * W + M * E * D + m * 2 * E + gate)
    x += tl.load(gate_bias + m * 2 * E + gate)
    if NOISE:
        x += tl.load(gates + at * 2 * E + gate)
        tl.debug_barrier()
    tl.store(gates + at * 2 * E + gate, sigmoid(x))
    tl.debug_barrier()
    lo, hi, n_logged = load_ends(ends, row)
    out = carry + b * S + H + first
    lo, hi, n_logged = step(
        KIND, t == 0, at, gates + at * 2 * E, gates + at * 2 * E + E, values, initial, out,
        s + row * width, ids + row * width, lo, hi, n_logged,
        log_ids + row * room, log_strengths + row * room, dropped, trimmed_from,
        D, columns, inside, BLOCK,
    )  # fmt: skip
    store_ends(ends, row, lo, hi, n_logged)
    kept = prev_carry + ((row * 0 + t + 1) * (R // M) + b) * S + H + first
    for e in tl.static_range(E):
        read = tl.load(out + e * D + columns, mask=inside, other=0.0)
        tl.store(kept + e * D + columns, read, mask=inside & (t + 1 < T))


@triton.jit(do_not_specialize=["t", "R", "M", "room", "width"])
def memory_backward(
    t, values, gates, initial, d_carry, s, g, ids, ends, log_ids, log_strengths, dropped,
    trimmed_from, d_values, d_gates, d_initial, d_raw, R, M, H, S, W, D, room, width,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Undo step t of the memories, from the gradients of their reads, d_carry[:, H:], to d_raw[t].

    d_values [T, R, E, D] collects the gradients of values, d_gates [R, 2*E] is scratch.
    """
    E: tl.constexpr = 2 if KIND == DEQUE else 1
    row = tl.program_id(0).to(tl.int64)
    b = row // M
    m = row - b * M
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    at = row + (row * 0 + t) * R
    first = m * E * D
    d_reads = d_carry + b * S + H + first
    d_gates += row * 2 * E
    lo, hi, n_logged = load_ends(ends, row)
    lo, hi, n_logged = step_backward(
        KIND, at, values, initial, d_reads, s + row * width, g + row * width, ids + row * width,
        lo, hi, n_logged, log_ids + row * room, log_strengths + row * room, dropped, trimmed_from,
        d_values, d_gates, d_gates + E, d_initial, D, columns, inside,
    )  # fmt: skip
    store_ends(ends, row, lo, hi, n_logged)
    tl.debug_barrier()
    d_raw += ((row * 0 + t) * (R // M) + b) * W
    for e in tl.static_range(E):
        place = (at * E + e) * D + columns
        v = tl.load(values + place, mask=inside, other=0.0)
        d = tl.load(d_values + place, mask=inside, other=0.0)
        tl.store(d_raw + first + e * D + columns, d * (1 - v * v), mask=inside)
    gate = tl.arange(0, 2 * E)
    y = tl.load(gates + at * 2 * E + gate)
    d_gate = tl.load(d_gates + gate) * y * (1 - y)
    tl.store(d_raw + M * E * D + m * 2 * E + gate, d_gate)
