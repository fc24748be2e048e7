"""Triton kernels for a step of a recurrent layer between its matrix products: of its cell, and of
its memories, with the functions of values and gates and the step of the walk that they control.

`cell_forward` and `cell_backward`: a program is BLOCK columns of one sequence, grid (sequences that
go on, blocks of H). Every number belongs to one program, and what is replaced in place depends on
what was there, so no thread can store before another has loaded (`block_options`: no more
threads than columns). "Blocks" are the H-wide parts of a cell before their functions, "activations"
the same after them, in the order of `layers.backends`.

`memory_forward` and `memory_backward`: a program is one row of memory, b * M + m for memory m of
sequence b, grid (sequences that go on * M,). `raw` [B, W] has the values and gates of a sequence
before their functions and biases, of all its memories: M*E*D numbers and then M*2*E. The rest is as
in `memory/backends/triton/walk.py`.
"""

import triton
import triton.language as tl

from pushpop.memory.backends.triton.walk import DEQUE, load_ends, step, step_backward, store_ends

LSTM, GRU, ELMAN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def tanh(x):
    """Within 2e-7 in float32; libdevice's is slower, and unknown to Triton's interpreter."""
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def _block(from_carry, activations, ok):
    return tl.load(from_carry, mask=ok, other=0.0) + tl.load(activations, mask=ok, other=0.0)


@triton.jit(do_not_specialize=["t", "T", "B"])
def cell_forward(
    t, from_carry, activations, prev_carry, carry, hidden, c, prev_c, T, B, H, S,
    CELL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Step t: h to hidden[t], carry and prev_carry[t + 1]; c goes on a step.

    Args:
        from_carry: [B, K], the share of h and the reads in the blocks.
        activations: [T, B, K], the input's share before, the activations after.
        prev_carry: [T, B, S], h and the reads before each step.
        carry: [B, S], the newest of them.
        hidden: [T, B, H]; c: [B, H]; prev_c: [T, B, H], used by an LSTM.
    """
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = j < H
    at = row + (row * 0 + t) * B
    if CELL == ELMAN:
        blocks = from_carry + row * H + j
        a = activations + at * H + j
        h = tanh(_block(blocks, a, ok))
        tl.store(a, h, mask=ok)
    else:
        blocks = from_carry + row * 4 * H + j
        a = activations + at * 4 * H + j
        a0 = _block(blocks, a, ok)
        a1 = sigmoid(_block(blocks + H, a + H, ok))
        a2 = _block(blocks + 2 * H, a + 2 * H, ok)
        a3 = _block(blocks + 3 * H, a + 3 * H, ok)
        if CELL == LSTM:
            a0, a2, a3 = sigmoid(a0), tanh(a2), sigmoid(a3)
            old = tl.load(c + row * H + j, mask=ok, other=0.0)
            new = a1 * old + a0 * a2
            h = a3 * tanh(new)
            tl.store(prev_c + at * H + j, old, mask=ok)
            tl.store(c + row * H + j, new, mask=ok)
        else:
            a0, a2 = tanh(a0 + a1 * a3), sigmoid(a2)
            h = a0 + a2 * (tl.load(prev_carry + at * S + j, mask=ok, other=0.0) - a0)
        tl.store(a, a0, mask=ok)
        tl.store(a + H, a1, mask=ok)
        tl.store(a + 2 * H, a2, mask=ok)
        tl.store(a + 3 * H, a3, mask=ok)
    tl.store(hidden + at * H + j, h, mask=ok)
    tl.store(carry + row * S + j, h, mask=ok)
    tl.store(prev_carry + (at + B) * S + j, h, mask=ok & (t + 1 < T))


@triton.jit(do_not_specialize=["t", "B"])
def cell_backward(
    t, grad_hidden, activations, prev_carry, prev_c, d_carry, d_c, d_blocks, B, H, S,
    CELL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Step t: d_blocks[t] [T, B, K] from the gradients of h_t, which is d_carry[:, :H] and that of
    the layer's output together, and of c_t.

    d_c becomes the gradient of c before the step. Of a GRU, what h gets straight from the h after
    it is left in d_carry, and 0 for the reads: the product with the weights is added to it. The
    grid has blocks of S then.
    """
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = j < H
    at = row + (row * 0 + t) * B
    dh = tl.load(d_carry + row * S + j, mask=ok, other=0.0)
    dh += tl.load(grad_hidden + at * H + j, mask=ok, other=0.0)
    if CELL == ELMAN:
        h = tl.load(activations + at * H + j, mask=ok, other=0.0)
        tl.store(d_blocks + at * H + j, dh * (1 - h * h), mask=ok)
    else:
        a = activations + at * 4 * H + j
        d = d_blocks + at * 4 * H + j
        a0 = tl.load(a, mask=ok, other=0.0)
        a1 = tl.load(a + H, mask=ok, other=0.0)
        a2 = tl.load(a + 2 * H, mask=ok, other=0.0)
        a3 = tl.load(a + 3 * H, mask=ok, other=0.0)
        if CELL == LSTM:
            old = tl.load(prev_c + at * H + j, mask=ok, other=0.0)
            tanh_c = tanh(a1 * old + a0 * a2)
            dc = tl.load(d_c + row * H + j, mask=ok, other=0.0) + dh * a3 * (1 - tanh_c * tanh_c)
            tl.store(d_c + row * H + j, dc * a1, mask=ok)
            tl.store(d, dc * a2 * a0 * (1 - a0), mask=ok)
            tl.store(d + H, dc * old * a1 * (1 - a1), mask=ok)
            tl.store(d + 2 * H, dc * a0 * (1 - a2 * a2), mask=ok)
            tl.store(d + 3 * H, dh * tanh_c * a3 * (1 - a3), mask=ok)
        else:
            prev_h = tl.load(prev_carry + at * S + j, mask=ok, other=0.0)
            dn = dh * (1 - a2) * (1 - a0 * a0)
            tl.store(d_carry + row * S + j, dh * a2, mask=j < S)
            tl.store(d, dn, mask=ok)
            tl.store(d + H, dn * a3 * a1 * (1 - a1), mask=ok)
            tl.store(d + 2 * H, dh * (prev_h - a0) * a2 * (1 - a2), mask=ok)
            tl.store(d + 3 * H, dn * a1, mask=ok)


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
    out = carry + b * S + H + first
    vectors = values, initial, D, columns, inside
    cells = s + row * width, ids + row * width, log_ids + row * room, log_strengths + row * room
    lo, hi, n_logged = step(
        KIND, t == 0, at, gates + at * 2 * E, gates + at * 2 * E + E, vectors, out, cells,
        load_ends(ends, row), dropped, trimmed_from, BLOCK,
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
    vectors = values, initial, D, columns, inside
    cells = s + row * width, ids + row * width, log_ids + row * room, log_strengths + row * room
    lo, hi, n_logged = step_backward(
        KIND, at, vectors, d_reads, cells, g + row * width, load_ends(ends, row), dropped,
        trimmed_from, (d_values, d_initial), d_gates, d_gates + E,
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
