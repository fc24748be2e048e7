"""Triton kernels for a step of a controller between its matrix products: what `elementwise.py` does
on the CPU.

A program is BLOCK columns of one sequence: grid (sequences that go on, blocks of H). Every number
belongs to one program, and what is replaced in place depends on what was there, so no thread can
store before another has loaded (`triton_launch.block_options`: no more threads than columns).
"Blocks" are the H-wide parts of a cell before their functions, "activations" the same after them:
i, f, o, g of an LSTM; r, z, n and h's share of n of a GRU; h of an Elman network.
"""

import triton
import triton.language as tl

LSTM, GRU, ELMAN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x))."""
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
        first = sigmoid(_block(blocks, a, ok))
        second = sigmoid(_block(blocks + H, a + H, ok))
        if CELL == LSTM:
            o = sigmoid(_block(blocks + 2 * H, a + 2 * H, ok))
            g = tanh(_block(blocks + 3 * H, a + 3 * H, ok))
            old = tl.load(c + row * H + j, mask=ok, other=0.0)
            new = second * old + first * g
            h = o * tanh(new)
            tl.store(prev_c + at * H + j, old, mask=ok)
            tl.store(c + row * H + j, new, mask=ok)
            tl.store(a + 2 * H, o, mask=ok)
            tl.store(a + 3 * H, g, mask=ok)
        else:
            from_h = _block(blocks + 3 * H, a + 3 * H, ok)
            n = tanh(_block(blocks + 2 * H, a + 2 * H, ok) + first * from_h)
            h = n + second * (tl.load(prev_carry + at * S + j, mask=ok, other=0.0) - n)
            tl.store(a + 2 * H, n, mask=ok)
            tl.store(a + 3 * H, from_h, mask=ok)
        tl.store(a, first, mask=ok)
        tl.store(a + H, second, mask=ok)
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
            tanh_c = tanh(a1 * old + a0 * a3)
            dc = tl.load(d_c + row * H + j, mask=ok, other=0.0) + dh * a2 * (1 - tanh_c * tanh_c)
            tl.store(d_c + row * H + j, dc * a1, mask=ok)
            tl.store(d, dc * a3 * a0 * (1 - a0), mask=ok)
            tl.store(d + H, dc * old * a1 * (1 - a1), mask=ok)
            tl.store(d + 2 * H, dh * tanh_c * a2 * (1 - a2), mask=ok)
            tl.store(d + 3 * H, dc * a0 * (1 - a3 * a3), mask=ok)
        else:
            prev_h = tl.load(prev_carry + at * S + j, mask=ok, other=0.0)
            dn = dh * (1 - a1) * (1 - a2 * a2)
            tl.store(d_carry + row * S + j, dh * a1, mask=j < S)
            tl.store(d, dn * a3 * a0 * (1 - a0), mask=ok)
            tl.store(d + H, dh * (prev_h - a2) * a1 * (1 - a1), mask=ok)
            tl.store(d + 2 * H, dn, mask=ok)
            tl.store(d + 3 * H, dn * a0, mask=ok)
