"""What a layer does between its matrix products, compiled: its cell, and the values and gates of
its memories, in place, forward and backward.

"Blocks" are the H-wide parts of a cell before their functions (`layers.backends`), "activations"
the same after them. Bundles of arrays are given as plain tuples, as in the walk's kernels. Shapes:
K the width of all blocks, S = H + reads, N the steps of all sequences together: the rows that have
a first step, then those that have a second, and so on (packed). A step's rows begin at `start`.
Memories take G gates and V numbers of values a step.

Numba's own tanh is a call an element, so float32 rows use a rational approximation that vectorises
(the one in Eigen; tests hold it to 3e-7). The loops are short and many so that each touches few
arrays: the compiler then vectorises them.
"""

from math import exp, tanh
from typing import Any, NamedTuple

import numpy as np

from pushpop.compiled import compiled

Array = np.ndarray[Any, Any]

_jit = compiled(allocates=False, error_model="numpy", fastmath={"reassoc", "contract"})

_LARGEST = np.float32(7.90531110763549805)  # tanh is 1 in float32 from here on
_P = tuple(
    np.float32(a)
    for a in (4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05,
              5.12229709037114e-08, -8.60467152213735e-11, 2.00018790482477e-13,
              -2.76076847742355e-16)
)  # fmt: skip
_Q = tuple(
    np.float32(b)
    for b in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04,
              1.19825839466702e-06)
)  # fmt: skip


@_jit
def _tanh32(x):
    if x > _LARGEST:  # written so that NaN stays NaN
        x = _LARGEST
    elif x < -_LARGEST:
        x = -_LARGEST
    y = x * x
    p = _P[0] + y * (_P[1] + y * (_P[2] + y * (_P[3] + y * (_P[4] + y * (_P[5] + y * _P[6])))))
    q = _Q[0] + y * (_Q[1] + y * (_Q[2] + y * _Q[3]))
    return x * p / q


@_jit
def tanh_row(x):
    """x = tanh(x). In place with one argument: two that may overlap would not vectorise."""
    if x.itemsize == 4:
        for k in range(x.size):
            x[k] = _tanh32(x[k])
    else:
        for k in range(x.size):
            x[k] = tanh(x[k])


@_jit
def sigmoid_row(x):
    half = x.dtype.type(0.5)
    for k in range(x.size):
        x[k] *= half
    tanh_row(x)
    for k in range(x.size):
        x[k] = half + half * x[k]


class CellForward(NamedTuple):
    """What a step of a controller works on."""

    carry: Array  # [B, S], h and the reads of the step before; h is replaced
    prev_carry: Array  # [N, S], where `carry` is kept for the backward pass
    from_carry: Array  # [B, J], the share of h and the reads in the blocks; of a GRU, that of h
    from_x: Array  # [steps ahead, B, J], the input's share; of a GRU, that of the reads too
    bias: Array  # [K]
    activations: Array  # [N, K]
    hidden: Array  # [T, B, H]
    c: Array  # [B, H]
    prev_c: Array  # [N, H]


class CellBackward(NamedTuple):
    """The backward pass of CellForward; `d_` marks a gradient."""

    prev_carry: Array  # [N, S]
    activations: Array  # [N, K]
    prev_c: Array  # [N, H]
    d_carry: Array  # [B, S]
    d_c: Array  # [B, H], of c_t and then of c_{t-1}
    d_blocks: Array  # [N, K]
    direct: Array  # [B, H], what h_{t-1} gets straight from h_t (GRU); room for tanh(c_t) (LSTM)


@_jit
def _begin_row(t, start, b, x):
    """Keep what the step starts from; the activations' row becomes the blocks."""
    prev_carry, carry = x.prev_carry[start + b], x.carry[b]
    for k in range(prev_carry.size):
        prev_carry[k] = carry[k]
    blocks, from_carry, bias = x.activations[start + b], x.from_carry[b], x.bias
    from_x = x.from_x[t % len(x.from_x), b]
    J, later = from_x.size, blocks.size - from_x.size
    if later == 0:
        for k in range(J):
            blocks[k] = from_carry[k] + from_x[k] + bias[k]
        return
    for k in range(J):
        blocks[k] = from_x[k] + bias[k]
    for k in range(J, blocks.size):
        blocks[k] = bias[k]
    for k in range(J):
        blocks[later + k] += from_carry[k]


@_jit
def _lstm_row(a, c, prev_c, out):
    """The blocks i, f, g, o go through their functions in place; c goes on a step, and h is out."""
    H = c.size
    i, f, g, o = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
    sigmoid_row(a[: 2 * H])
    tanh_row(g)
    sigmoid_row(o)
    for k in range(H):
        prev_c[k] = c[k]
    for k in range(H):
        c[k] = f[k] * prev_c[k] + i[k] * g[k]
    for k in range(H):
        out[k] = c[k]
    tanh_row(out)
    for k in range(H):
        out[k] *= o[k]


@_jit
def lstm_forward(t, start, rows, arrays):
    """activations are i, f, g, o; h and c go on a step."""
    x = CellForward(*arrays)
    H = x.c.shape[1]
    for b in range(rows):
        _begin_row(t, start, b, x)
        out, h = x.hidden[t, b], x.carry[b, :H]
        _lstm_row(x.activations[start + b], x.c[b], x.prev_c[start + b], out)
        for k in range(H):
            h[k] = out[k]


@_jit
def gru_forward(t, start, rows, arrays):
    """activations are n, r, z, and h's share of n's block."""
    x = CellForward(*arrays)
    H = x.c.shape[1]
    for b in range(rows):
        _begin_row(t, start, b, x)
        a, h, out = x.activations[start + b], x.carry[b, :H], x.hidden[t, b]
        prev_h = x.prev_carry[start + b]
        new, r, keep, from_h = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        sigmoid_row(a[H : 3 * H])
        for k in range(H):
            new[k] += r[k] * from_h[k]
        tanh_row(new)
        for k in range(H):
            out[k] = new[k] + keep[k] * (prev_h[k] - new[k])
        for k in range(H):
            h[k] = out[k]


@_jit
def elman_forward(t, start, rows, arrays):
    """activations are h."""
    x = CellForward(*arrays)
    for b in range(rows):
        _begin_row(t, start, b, x)
        a, out, h = x.activations[start + b], x.hidden[t, b], x.carry[b]
        tanh_row(a)
        for k in range(a.size):
            out[k] = a[k]
        for k in range(a.size):
            h[k] = a[k]


@_jit
def _lstm_row_backward(a, prev_c, dh, dc, d_blocks, tanh_c):
    """d_blocks, and dc that of c_{t-1}, from the gradients dh of h_t and dc of c_t."""
    H, one = dc.size, dc.dtype.type(1)
    i, f, g, o = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
    d_i, d_f = d_blocks[:H], d_blocks[H : 2 * H]
    d_g, d_o = d_blocks[2 * H : 3 * H], d_blocks[3 * H :]
    for k in range(H):
        tanh_c[k] = f[k] * prev_c[k] + i[k] * g[k]
    tanh_row(tanh_c)
    for k in range(H):
        dc[k] += dh[k] * o[k] * (one - tanh_c[k] * tanh_c[k])
    for k in range(H):
        d_o[k] = dh[k] * tanh_c[k] * o[k] * (one - o[k])
    for k in range(H):
        d_i[k] = dc[k] * g[k] * i[k] * (one - i[k])
    for k in range(H):
        d_g[k] = dc[k] * i[k] * (one - g[k] * g[k])
    for k in range(H):
        d_f[k] = dc[k] * prev_c[k] * f[k] * (one - f[k])
    for k in range(H):
        dc[k] *= f[k]


@_jit
def lstm_backward(start, rows, arrays):
    """d_blocks and d_c from the gradients of h_t, d_carry[:, :H], and of c_t."""
    x = CellBackward(*arrays)
    for b in range(rows):
        row = start + b
        _lstm_row_backward(
            x.activations[row], x.prev_c[row], x.d_carry[b], x.d_c[b], x.d_blocks[row], x.direct[b]
        )


@_jit
def gru_backward(start, rows, arrays):
    """d_blocks and `direct` from the gradient of h_t."""
    x = CellBackward(*arrays)
    H = x.d_c.shape[1]
    one = x.d_c.dtype.type(1)
    for b in range(rows):
        a, d_blocks = x.activations[start + b], x.d_blocks[start + b]
        new, r, keep, from_h = a[:H], a[H : 2 * H], a[2 * H : 3 * H], a[3 * H :]
        dh, direct, prev_h = x.d_carry[b], x.direct[b], x.prev_carry[start + b]
        d_new, d_r = d_blocks[:H], d_blocks[H : 2 * H]
        d_keep, d_from_h = d_blocks[2 * H : 3 * H], d_blocks[3 * H :]
        for k in range(H):
            d_new[k] = dh[k] * (one - keep[k]) * (one - new[k] * new[k])
        for k in range(H):
            d_r[k] = d_new[k] * from_h[k] * r[k] * (one - r[k])
        for k in range(H):
            d_from_h[k] = d_new[k] * r[k]
        for k in range(H):
            d_keep[k] = dh[k] * (prev_h[k] - new[k]) * keep[k] * (one - keep[k])
        for k in range(H):
            direct[k] = dh[k] * keep[k]


@_jit
def elman_backward(start, rows, arrays):
    """d_blocks from the gradient of h_t."""
    x = CellBackward(*arrays)
    one = x.d_c.dtype.type(1)
    for b in range(rows):
        h, dh, d_blocks = x.activations[start + b], x.d_carry[b], x.d_blocks[start + b]
        for k in range(h.size):
            d_blocks[k] = dh[k] * (one - h[k] * h[k])


class GatesForward(NamedTuple):
    """What the memory's gates and values are made from; `gates` holds noise (or 0) before."""

    hidden: Array  # [T, B, H]
    gate_weight: Array  # [G, H]
    gate_bias: Array  # [G]
    gates: Array  # [T, B, G]
    value: Array  # [B, V], of this step, without bias
    value_bias: Array  # [V]
    values: Array  # [T, B, V]


class GatesBackward(NamedTuple):
    """The backward pass of GatesForward."""

    values: Array  # [T, B, V]
    d_values: Array  # [T, B, V]
    step_d_values: Array  # [B, V], a copy of d_values[t]
    gates: Array  # [T, B, G]
    d_gates: Array  # [T, B, G]
    gate_weight: Array  # [G, H]
    grad_hidden: Array  # [T, B, H], of the layer's output
    d_carry: Array  # [B, S]


@_jit
def _softmax(x):
    largest, total = x[0], x.dtype.type(0)
    for e in range(1, x.size):
        largest = max(largest, x[e])
    for e in range(x.size):
        x[e] = exp(x[e] - largest)
        total += x[e]
    for e in range(x.size):
        x[e] /= total


@_jit
def gates_forward(t, rows, softmax_over, arrays):
    """gates[t] = squash(W h_t + b + gates[t]) and values[t] = tanh(value + value_bias).

    Gates are squashed by a sigmoid each, or `softmax_over` at a time by a softmax.
    """
    x = GatesForward(*arrays)
    gates, value_bias = x.gates, x.value_bias
    one = value_bias.dtype.type(1)
    for b in range(rows):
        h, v, value = x.hidden[t, b], x.values[t, b], x.value[b]
        for k in range(v.size):
            v[k] = value[k] + value_bias[k]
        tanh_row(v)
        for e in range(x.gate_bias.size):
            weight = x.gate_weight[e]
            logit = x.gate_bias[e] + gates[t, b, e]
            for k in range(weight.size):
                logit += weight[k] * h[k]
            gates[t, b, e] = logit if softmax_over else one / (one + exp(-logit))
        if softmax_over:
            for e in range(0, x.gate_bias.size, softmax_over):
                _softmax(gates[t, b, e : e + softmax_over])


@_jit
def _squash_backward(gates, d_gates, softmax_over):
    """Gradients of gates become those of their logits."""
    one = gates.dtype.type(1)
    if not softmax_over:
        for e in range(gates.size):
            d_gates[e] *= gates[e] * (one - gates[e])
        return
    for start in range(0, gates.size, softmax_over):
        mean = gates.dtype.type(0)
        for e in range(start, start + softmax_over):
            mean += gates[e] * d_gates[e]
        for e in range(start, start + softmax_over):
            d_gates[e] = gates[e] * (d_gates[e] - mean)


@_jit
def gates_backward(t, rows, softmax_over, arrays):
    """Through the functions of values and gates, and from the gates on to h_t, to which the
    gradient of the layer's output is added.
    """
    x = GatesBackward(*arrays)
    gates, d_gates = x.gates, x.d_gates
    one = gates.dtype.type(1)
    for b in range(rows):
        value, d, copy, d_h = x.values[t, b], x.d_values[t, b], x.step_d_values[b], x.d_carry[b]
        for k in range(value.size):
            d[k] *= one - value[k] * value[k]
        for k in range(value.size):
            copy[k] = d[k]
        grad = x.grad_hidden[t, b]
        for k in range(grad.size):
            d_h[k] += grad[k]
        _squash_backward(gates[t, b], d_gates[t, b], softmax_over)
        for e in range(x.gate_weight.shape[0]):
            weight, slope = x.gate_weight[e], d_gates[t, b, e]
            for k in range(weight.size):
                d_h[k] += slope * weight[k]


FORWARD: dict[str, Any] = {"lstm": lstm_forward, "gru": gru_forward, "rnn": elman_forward}
BACKWARD: dict[str, Any] = {"lstm": lstm_backward, "gru": gru_backward, "rnn": elman_backward}
